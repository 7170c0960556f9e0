"""Timeline tables made by hand, hostile texts among them, and the report on them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import duckdb
import pyarrow as pa

from pipeline.report import Choice, Report, build_from
from pipeline.schema import ALL_TABLES

BEGIN = datetime(2026, 2, 1, tzinfo=UTC)
MADE = datetime(2026, 2, 3, 6, 0, 0, 250_000, tzinfo=UTC)
HOSTILE = "</code><script>alert('x')</script> \"q\" \x1b[31m \x00 \u202egnp.exe `|*_ &amp; ]]>"
PLACE = {"file_id": "f1", "line": 7, "byte_offset": 700}

# category, phase, seconds, r, cause, incident
SPLIT = [
    ("startup", "initialisation", 100.0, 0.0, "startup", None),
    ("productive", "train", 400.0, 1.0, None, None),
    ("checkpoint", "save", 20.0, 0.0, "checkpoint", None),
    ("productive", "train", 200.0, 0.5, "slow", None),
    ("lost_recompute", "train", 80.0, 0.0, "incident", "i1"),
    ("recovery", "detection", 150.0, 0.0, "incident", "i1"),
    ("unexplained", "unknown", 50.0, 0.0, "unexplained", None),
]
Tables = dict[str, list[dict[str, object]]]


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def split_tables(name: str = "llama") -> Tables:
    """A run of 1000 s with TOR 0.5, or 0.55 if its unexplained time was useful; and one without."""
    segments, losses, clock = [], [], 0.0
    for n, (category, phase, seconds, r, cause, incident) in enumerate(SPLIT):
        segments.append({
            "segment_id": f"s{n}", "run_id": "r1", "launch_no": 1, "start_at": at(clock),
            "end_at": at(clock + seconds), "duration_s": seconds, "category": category,
            "phase": phase, "performance_ratio": r, "cause": cause, "incident_id": incident,
            "n_gpus": 8, "rule": "kept steps", **PLACE,
        })  # fmt: skip
        clock += seconds
    for cause, kind, seconds, incident in (
        ("incident", "gpu.bus", 230.0, "i1"), ("slow", None, 100.0, None),
        ("startup", None, 100.0, None), ("unexplained", None, 50.0, None),
        ("checkpoint", None, 20.0, None),
    ):  # fmt: skip
        losses.append({"run_id": "r1", "cause": cause, "type": kind, "seconds": seconds,
                       "share": seconds / 1000, "gpu_hours": seconds * 8 / 3600,
                       "incident_id": incident})  # fmt: skip
    segments.append({
        "segment_id": "t0", "run_id": "r2", "start_at": at(5000), "end_at": at(5300),
        "duration_s": 300.0, "category": "productive", "phase": "train", "rule": "steps", **PLACE,
    })  # fmt: skip
    return {
        "segment": segments,
        "loss": losses,
        "run": [
            {"run_id": "r1", "cluster": "c", "name": name, "start_at": at(0), "end_at": at(1000),
             "is_open": False, "end_state": "completed", "n_attempts": 2, "n_launches": 2,
             "n_incidents": 1, "n_gpus": 8, "wall_s": 1000.0, "queue_s": 60.0,
             "tor_observed": 0.5, "tor_low": 0.5, "tor_high": 0.55, "t_opt_s": 500.0,
             "reference_step_s": 1 / 3, "n_healthy_steps": 12, "steps_kept": 1500,
             "steps_lost": 240, "unexplained_share": 0.05, "time_error_s": 0.001},
            {"run_id": "r2", "cluster": "c", "start_at": at(5000), "end_at": at(5300),
             "is_open": True, "end_state": "open", "n_attempts": 1, "wall_s": 300.0},
        ],
        "run_attempt": [
            {"run_id": "r1", "attempt_id": "a1", "ordinal": 1},
            {"run_id": "r1", "attempt_id": "a2", "ordinal": 2, "link_rule": "E2",
             "link_confidence": 0.99},
            {"run_id": "r2", "attempt_id": "a3", "ordinal": 1},
        ],
        "run_link": [
            {"prev_attempt_id": "a1", "attempt_id": "a2", "rule": "E2", "confidence": 0.99,
             "is_used": True, "evidence": "job id 1"},
            {"prev_attempt_id": "a2", "attempt_id": "a3", "rule": "E7", "confidence": 0.6,
             "is_used": False, "evidence": "same user, name and folder"},
        ],
        "attempt": [
            {"attempt_id": a, "scheduler": scheduler, "job_id": "1", "native_id": native,
             "start_at": at(0), "state": "NODE_FAIL", "end_kind": "node_fail", "n_gpus": 8,
             "restart_count": restarts, "file_id": "f1", "line": 3}
            for a, scheduler, native, restarts in (
                ("a1", "slurm", "1", 0), ("a2", "slurm", "1", 3), ("a3", None, None, None))
        ],
        "attempt_step": [{"native_id": "99", "step_id": "batch", "file_id": "f1", "line": 9}],
        "launch": [{"run_id": "r1", "launch_no": 1, "attempt_id": "a1", "start_at": at(50),
                    "first_step": 1, "last_step": 1500, "file_id": "f1", "log_rule": "stdout",
                    "log_confidence": 1.0, "clock_offset_s": -3600.0}],
        "checkpoint": [{"run_id": "r1", "launch_no": 1, "step": 1000, "begin_at": at(500),
                        "durable_at": at(520), "is_durable": True, "is_async": False, "seq": 1}],
        "incident": [
            {"incident_id": "i1", "run_id": "r1", "attempt_id": "a1", "launch_no": 1,
             "onset_at": at(720), "ended_at": at(800), "type": "gpu.bus", "mode": "fail_stop",
             "domain": "infrastructure", "nodes": ["node<7>"], "gpus": ["0000:9b:00"],
             "lost_steps": 240, "lost_s": 80.0, "recovery_s": 150.0, "slow_s": 0.0,
             "total_s": 230.0, "gpu_hours": 0.5, "confidence": "confirmed", "n_evidence": 41,
             "summary": HOSTILE},
        ],
        "incident_evidence": [
            {"incident_id": "i1", "signature_id": "gpu.xid79", "role": "root", "is_root": n == 2,
             "occurred_at": at(720 + n), "node": "node<7>", "count": 2, "message": HOSTILE,
             "file_id": "f1", "line": 10 + n, "seq": n}
            for n in range(20)
        ],
        "file": [
            {"file_id": "f1", "log_id": "f1",
             "path": f"/logs/{HOSTILE}.log", "format": "text", "dialect": "hf",
             "status": "parsed", "n_bytes": 5_000_000, "n_lines": 1000, "n_claimed_lines": 250,
             "n_rejects": 5},
            {"file_id": "f2", "log_id": "f2",
             "path": "/logs/b.gz", "status": "truncated", "n_bytes": 10,
             "status_detail": "ends inside a gzip member", "n_lines": 0, "n_claimed_lines": 0,
             "n_rejects": 0},
            {"file_id": "f3", "log_id": "f3",
             "path": "/logs/lonely.log", "status": "parsed", "dialect": "hf"},
        ],
        "reject": [{"file_id": "f1", "line": n, "seq": n, "reason": "no step number"}
                   for n in range(1, 6)],
    }  # fmt: skip


def connection(tables: Tables) -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.execute("set timezone = 'UTC'")
    for table in ALL_TABLES:
        con.register(table.name, pa.Table.from_pylist(tables.get(table.name, []), table.schema))
    return con


def report_of(tables: Tables, **choice: object) -> Report:
    return build_from(connection(tables), Choice(**choice), MADE)
