"""Hand-made facts for tests of the timeline: what parsers would have found, without any log."""

from __future__ import annotations

from dataclasses import dataclass, field

import duckdb
import pyarrow as pa

from parsers.tables import ACCOUNTING_ROW, CLOCK_MARK, FAULT_EVENT, REJECT, TRAIN_EVENT, Table
from pipeline import timeline
from pipeline.schema import FIT_TABLES

START = 1_700_000_000.0
"""An epoch second (2023-11-14T22:13:20Z) at which the stories begin."""


def micros(at: float | None) -> int | None:
    return None if at is None else round(at * 1e6)


@dataclass
class TrainLog:
    """Train events of one file, in file order."""

    file_id: str = "log"
    resolution_s: float = 1e-6
    rows: list[dict[str, object]] = field(default_factory=list)

    def event(self, kind: str, at: float | None = None, **columns: object) -> None:
        n = len(self.rows) + 1
        stamp = {} if at is None else {
            "stamp_us": micros(at), "stamp_kind": "local", "stamp_source": "inline",
            "stamp_resolution_s": self.resolution_s,
        }  # fmt: skip
        self.rows.append(
            {"file_id": self.file_id, "line": n, "byte_offset": n * 100, "seq": n * 100,
             "dialect": "megatron", "kind": kind, "phase": "instant", **stamp, **columns}
        )  # fmt: skip


def fault(
    seq: int, at: float | None, signature_id: str, file_id: str = "log", **columns: object
) -> dict[str, object]:
    """A fault line; the columns of its signature are given by the caller."""
    return {
        "file_id": file_id, "line": seq // 100, "byte_offset": seq, "seq": seq,
        "signature_id": signature_id, "stamp_us": micros(at), "count": 1,
        "stamp_kind": None if at is None else "local", "priority": 50, "domain": "unknown",
        "message": signature_id, **columns,
    }  # fmt: skip


def accounting(
    number: int, start: float | None, end: float | None, state: str = "NODE_FAIL",
    submit: float | None = None, job: str = "4711", **columns: object,
) -> dict[str, object]:  # fmt: skip
    """A job-level row of an accounting file; its output goes to the file `log`."""
    return {
        "file_id": "accounting", "line": number, "byte_offset": number * 100, "seq": number * 100,
        "scheduler": "slurm", "cluster": "default", "job_id": job, "native_id": job,
        "job_name": "train", "user": "u", "submit_us": micros(start if submit is None else submit),
        "eligible_us": micros(start), "start_us": micros(start), "end_us": micros(end),
        "stamp_kind": "local", "state": state, "state_base": state.split(maxsplit=1)[0],
        "n_nodes": 1, "n_gpus": 8, "nodes": ["node001"], "never_started": False,
        "stdout_path": "/logs/log", "exit_trusted": True, **columns,
    }  # fmt: skip


def timeline_of(
    train: list[dict[str, object]] | None = None,
    faults: list[dict[str, object]] | None = None,
    accounts: list[dict[str, object]] | None = None,
    clock: list[dict[str, object]] | None = None,
    clusters: dict[str, str] | None = None,
    zones: dict[str, str] | None = None,
) -> duckdb.DuckDBPyConnection:
    """A connection with every timeline table made from the facts; clusters and zones by file."""
    con = duckdb.connect()
    con.execute("set timezone = 'UTC'")
    con.execute("set enable_progress_bar = false")
    given = {
        TRAIN_EVENT: train, FAULT_EVENT: faults, ACCOUNTING_ROW: accounts, CLOCK_MARK: clock,
        REJECT: None,
    }  # fmt: skip
    files = set()
    for table, rows in given.items():
        con.register(f"raw_{table.name}", _batch_one(table, rows or []))
        files |= {str(row["file_id"]) for row in rows or []}
    con.register("raw_file", _ledger(sorted(files), clusters or {}, zones or {}))
    timeline.run_stages(con)
    for table in FIT_TABLES:
        con.register(table.name, table.schema.empty_table())  # no fit was made
    return con


def _batch_one(table: Table, rows: list[dict[str, object]]) -> pa.Table:
    schema = table.schema.append(pa.field("batch", pa.int64()))
    return pa.Table.from_pylist([{**row, "batch": 1} for row in rows], schema=schema)


def _ledger(files: list[str], clusters: dict[str, str], zones: dict[str, str]) -> pa.Table:
    def row(file_id: str) -> dict[str, object]:
        return {
            "file_id": file_id, "cluster": clusters.get(file_id, "default"),
            "path": f"/logs/{file_id}", "first_path": f"/logs/{file_id}", "format": "text",
            "status": "parsed", "status_detail": "", "compression": "",
            "timezone": zones.get(file_id, "UTC"),
            "tail_offset": 0, "parsed_from": 0, "parsed_to": 10_000, "n_lines": 100,
            "mtime_us": micros(START + 1e6), "batch": 1,
        }  # fmt: skip

    empty = row("none")
    rows = [row(f) for f in files] or [empty]
    return pa.Table.from_pylist(rows).slice(0, len(files))


def steps(log: TrainLog, start: float, first: int, last: int, step_s: float = 10.0) -> float:
    """Write the stamped steps first..last of a process that starts at `start`; when it ends."""
    log.event("train_start", start)
    for n in range(first, last + 1):
        at = start + step_s * (n - first + 1)
        log.event("step", at, step_to=n, step_ms=step_s * 1000, total_steps=10_000)
    return start + step_s * (last - first + 1)


def segments(con: duckdb.DuckDBPyConnection) -> list[tuple[object, ...]]:
    """(category, phase, seconds, ratio) of all segments, in order."""
    return con.execute(
        """
        select category, phase, round(duration_s, 6), round(performance_ratio, 6)
        from segment order by run_id, start_at
        """
    ).fetchall()


def seconds_by_category(con: duckdb.DuckDBPyConnection) -> dict[str, float]:
    """Seconds per category, with the slow loss of productive time apart."""
    rows = con.execute(
        """
        select category, sum(case when category = 'productive' then performance_ratio else 1 end
            * duration_s) from segment group by 1
        union all
        select 'slow', sum((1 - performance_ratio) * duration_s)
        from segment where category = 'productive'
        """
    ).fetchall()
    return {str(k): float(v) for k, v in rows if v}


def one(con: duckdb.DuckDBPyConnection, question: str) -> tuple[object, ...]:
    """The only row of a question."""
    rows = con.execute(question).fetchall()
    assert len(rows) == 1, rows
    return rows[0]
