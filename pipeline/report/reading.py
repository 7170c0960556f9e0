"""Read the timeline tables of a lake into a `Report`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from pipeline.errors import UsageError
from pipeline.report import questions, words
from pipeline.report.model import (
    Attempt,
    Checkpoints,
    Choice,
    Evidence,
    Incident,
    Launch,
    Loss,
    Report,
    Run,
    Segment,
    SegmentSeconds,
    Window,
)
from pipeline.report.quality import data_quality, jobs_without_run
from pipeline.rows import plain_rows

if TYPE_CHECKING:
    import duckdb

T = TypeVar("T")
Row = dict[str, object]


def build(lake: Path, choice: Choice | None = None, generated_at: datetime | None = None) -> Report:
    """The report of a lake: all runs, or those chosen; UsageError if the run is unknown.

    Runs that overlap the window are counted whole. `generated_at` is now where not given.
    """
    from pipeline import database

    con = database.connect(lake)
    try:
        return build_from(con, choice or Choice(), generated_at or datetime.now(UTC))
    finally:
        con.close()


def build_from(con: duckdb.DuckDBPyConnection, choice: Choice, generated_at: datetime) -> Report:
    """The report of the tables on a connection; the same tables give the same report."""
    rows = ask(
        con,
        questions.RUN,
        {
            "run": choice.run,
            "cluster": choice.cluster,
            "since": choice.since,
            "until": choice.until,
        },
    )
    if choice.run is not None and not rows:
        raise UsageError(_unknown_run(con, choice))
    parts = _Parts(con, [str(row["run_id"]) for row in rows])
    runs = [parts.run(row) for row in rows]
    return Report(
        generated_at=generated_at.astimezone(UTC),
        window=Window(
            start=choice.since or min((r.start_at for r in runs), default=None),
            end=choice.until or max((r.end_at for r in runs), default=None),
        ),
        clusters=sorted({r.cluster for r in runs if r.cluster is not None}),
        data_quality=data_quality(con, runs, choice),
        runs=runs,
        failure_rates=_of_the_lake(con, choice, "failure_rate"),
        fits=_of_the_lake(con, choice, "distribution_fit"),
        choice=choice,
        why_empty=[] if runs else _why_empty(con),
        timelines={r.run_id: parts.timeline(r.run_id) for r in runs},
    )


def _of_the_lake(
    con: duckdb.DuckDBPyConnection, choice: Choice, table: str
) -> list[dict[str, object]]:
    """Rows of a fit table; none in a report of a part of the lake, since fits are of all of it."""
    is_part = any(part is not None for part in (choice.run, choice.since, choice.until))
    return [] if is_part else list(plain_rows(con.table(table)))


class _Parts:
    """What belongs to the chosen runs, asked for once per table."""

    def __init__(self, con: duckdb.DuckDBPyConnection, run_ids: list[str]) -> None:
        def by_run(question: str) -> dict[str, list[Row]]:
            return grouped(ask(con, question, {"runs": run_ids}) if run_ids else [], "run_id")

        self._seconds = by_run(questions.SEGMENT_SECONDS)
        self._losses = by_run(questions.LOSS)
        self._attempts = by_run(questions.ATTEMPT)
        self._launches = by_run(questions.LAUNCH)
        self._checkpoints = by_run(questions.CHECKPOINT)
        self._incidents = by_run(questions.INCIDENT)
        self._segments = by_run(questions.SEGMENT)
        evidence = ask(con, questions.EVIDENCE, {"runs": run_ids}) if run_ids else []
        self._evidence = grouped(evidence, "incident_id")

    def run(self, row: Row) -> Run:
        """One run with all its parts."""
        run_id = str(row["run_id"])
        seconds = self._seconds[run_id][0]
        saves = self._checkpoints.get(run_id, [{}])[0]
        incidents = [
            {**i, "evidence": records(self._evidence.get(str(i["incident_id"]), []), Evidence)}
            for i in self._incidents.get(run_id, [])
        ]
        whole = {
            **row,
            "tor_predicted": None,
            "segments_s": msgspec.convert(seconds, SegmentSeconds),
            "losses": records(self._losses.get(run_id, []), Loss),
            "attempts": records(self._attempts.get(run_id, []), Attempt),
            "launches": records(self._launches.get(run_id, []), Launch),
            "incidents": records(incidents, Incident),
            "checkpoints": Checkpoints(
                n_saves=_count(saves, "n_saves"),
                n_durable=_count(saves, "n_durable"),
                n_async=_count(saves, "n_async"),
                blocked_s=msgspec.convert(seconds["checkpoint"], float),
                last_durable_step=msgspec.convert(saves.get("last_durable_step"), int | None),
                last_durable_at=msgspec.convert(saves.get("last_durable_at"), datetime | None),
            ),
        }
        return msgspec.convert(whole, Run)

    def timeline(self, run_id: str) -> list[Segment]:
        """The segments of a run in the order of time."""
        return records(self._segments.get(run_id, []), Segment)


def _count(row: Row, name: str) -> int:
    """A count; a run without any row of the table has none."""
    return msgspec.convert(row.get(name, 0), int)


def ask(con: duckdb.DuckDBPyConnection, question: str, parameters: Row) -> list[Row]:
    """The rows that answer a question."""
    rows: list[Row] = con.sql(question, params=parameters).to_arrow_table().to_pylist()
    return rows


def grouped(rows: list[Row], key: str) -> dict[str, list[Row]]:
    """Rows by the text of one column, in their order."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(str(row[key]), []).append(row)
    return groups


def records(rows: list[Row], kind: type[T]) -> list[T]:
    """Rows as records of a kind; a column that it does not have is left out."""
    return msgspec.convert(rows, list[kind])  # type: ignore[valid-type]  # a type made at run time


def _unknown_run(con: duckdb.DuckDBPyConnection, choice: Choice) -> str:
    when = " in that window" if choice.since or choice.until else ""
    names = "; ".join(_newest_runs(con)) or "none"
    return f"no run {choice.run!r}{when}; expected a run id or name, the newest are: {names}"


def _why_empty(con: duckdb.DuckDBPyConnection) -> list[str]:
    """Why a report shows no run: the window misses them, or no job and no log makes one."""
    if newest := _newest_runs(con):
        n_runs = words.counted(con.table("run").count("*").fetchall()[0][0], "run")
        return [f"no run fits; the lake has {n_runs}, the newest are:", *newest]
    if left_out := jobs_without_run(con, with_normal=True):
        return left_out
    return ["the logs show neither jobs nor training steps"]


def _newest_runs(con: duckdb.DuckDBPyConnection) -> list[str]:
    return [
        f"{run_id}{'' if name is None else f' ({name})'}, {words.moment(start_at)} to "
        f"{words.moment(end_at)} UTC"
        for run_id, name, start_at, end_at in con.sql(questions.NEWEST_RUNS).fetchall()
    ]
