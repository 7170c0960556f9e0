"""How far the data can be trusted: what was read, and a warning for everything that weakens it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pipeline.report import words
from pipeline.report.model import UNEXPLAINED_LIMIT, DataQuality, Run

if TYPE_CHECKING:
    import duckdb

MIN_HEALTHY_STEPS = 30
"""Fewer healthy steps than this make a reference step time doubtful."""
MAX_TIME_ERROR_S = 60.0
MAX_TIME_ERROR_SHARE = 0.01
"""A step time known less well than this, in seconds or of the wall clock, is warned about."""
MIN_SUGGESTED = 0.5
"""Links of less confidence speak against a connection, and are not suggested."""
_NAMES_SHOWN = 3

_TOTALS = """
select
    count(*), coalesce(sum(n_bytes), 0)::bigint, coalesce(sum(n_lines), 0)::bigint,
    coalesce(sum(n_claimed_lines), 0)::bigint, coalesce(sum(n_rejects), 0)::bigint
from file
"""

_TROUBLED_FILES = """
select status, path, status_detail
from file
where status not in ('parsed', 'duplicate')
order by status, path, file_id
"""

_REJECTS = """
select r.reason, count(*), arg_min(coalesce(f.path, r.file_id) || ':' || r.line, (f.path, r.seq))
from reject as r
left join file as f using (file_id)
group by r.reason
order by count(*) desc, r.reason
"""

_RESTARTED = """
select cluster, job_id, max(restart_count), count(*)
from attempt
where native_id is not null
group by cluster, native_id, job_id
having max(restart_count) >= count(*)
order by cluster, job_id
"""

_ORPHAN_STEPS = """
select distinct native_id
from attempt_step
where attempt_id is null
order by native_id
"""

_UNPLACED_LOGS = """
select f.path
from file as f
where f.dialect is not null and f.file_id not in (
    select file_id from launch where file_id is not null)
order by f.path
"""

_SUGGESTED = """
select distinct
    a.run_id as earlier, b.run_id as later, l.rule, l.confidence::double as confidence, l.evidence
from run_link as l
join run_attempt as a on a.attempt_id = l.prev_attempt_id
join run_attempt as b on b.attempt_id = l.attempt_id
where not l.is_used and l.confidence >= $least and a.run_id <> b.run_id
    and (a.run_id in (select unnest($runs)) or b.run_id in (select unnest($runs)))
order by confidence desc, earlier, later, l.rule, l.evidence
"""

_ASSUMED_ZONE = """
select f.path
from raw_file as f
semi join (
    select file_id from raw_train_event
    where stamp_kind in ('local', 'local_no_year', 'time_of_day')
    union
    select file_id from raw_fault_event
    where stamp_kind in ('local', 'local_no_year', 'time_of_day')
    union
    select file_id from raw_accounting_row
    where stamp_kind in ('local', 'local_no_year', 'time_of_day')
) as stamped on stamped.file_id = f.file_id
qualify row_number() over (partition by f.file_id order by f.batch desc) = 1
    and f.timezone is null
order by f.path
"""


def data_quality(con: duckdb.DuckDBPyConnection, runs: Sequence[Run]) -> DataQuality:
    """Counts over every file of the lake; warnings about its files and about `runs`.

    reject_share = rejects / claimed_lines; coverage = claimed_lines / lines; null without lines.
    """
    files, n_bytes, lines, claimed, rejects = con.sql(_TOTALS).fetchall()[0]
    return DataQuality(
        files=files,
        bytes=n_bytes,
        lines=lines,
        claimed_lines=claimed,
        rejects=rejects,
        reject_share=rejects / claimed if claimed else None,
        coverage=claimed / lines if lines else None,
        warnings=[*_about_files(con), *_about_accounting(con, runs), *_about_links(con, runs),
                  *_about_runs(runs)],
    )  # fmt: skip


def _about_files(con: duckdb.DuckDBPyConnection) -> Iterator[str]:
    troubled: dict[str, list[str]] = {}
    for status, path, detail in con.sql(_TROUBLED_FILES).fetchall():
        troubled.setdefault(status, []).append(f"{path} ({detail})" if detail else path)
    for status, paths in troubled.items():
        yield f"{words.counted(len(paths), 'file')} {status}: {_some(paths)}"
    for reason, n, example in con.sql(_REJECTS).fetchall():
        yield f"{words.counted(n, 'record')} rejected: {reason}, e.g. {example}"
    unplaced = [path for (path,) in con.sql(_UNPLACED_LOGS).fetchall()]
    if unplaced:
        yield (
            f"{words.counted(len(unplaced), 'log')} with step lines belong to no attempt and are "
            f"left out: {_some(unplaced)}"
        )
    # only a lake knows raw facts; tables given by hand do not
    if ("raw_file",) in con.sql("show tables").fetchall():
        assumed = [path for (path,) in con.sql(_ASSUMED_ZONE).fetchall()]
        if assumed:
            yield (
                f"times without zone are read as UTC in {words.counted(len(assumed), 'file')}: "
                f"{_some(assumed)}; name the zone with --timezone if that is wrong"
            )


def _about_accounting(con: duckdb.DuckDBPyConnection, runs: Sequence[Run]) -> Iterator[str]:
    without = [_name(r) for r in runs if any(a.scheduler is None for a in r.attempts)]
    if without:
        yield (
            f"accounting rows missing for {words.counted(len(without), 'run')}: {_some(without)}; "
            "attempts begin and end with their logs, nodes and states are unknown"
        )
    restarted = [
        f"{job_id} ({words.counted(restarts, 'restart')}, {words.counted(rows, 'row')})"
        for _, job_id, restarts, rows in con.sql(_RESTARTED).fetchall()
    ]
    if restarted:
        yield (
            f"accounting was taken without --duplicates, earlier attempts are missing: job "
            f"{_some(restarted)}"
        )
    orphans = [job for (job,) in con.sql(_ORPHAN_STEPS).fetchall()]
    if orphans:
        yield (
            f"accounting steps without the row of their job: "
            f"{words.counted(len(orphans), 'job')} ({_some(orphans)})"
        )
    runaway = [
        f"{_name(run)} (job {attempt.job_id})"
        for run in runs
        for attempt in run.attempts
        if attempt.is_runaway
    ]
    if runaway:
        yield f"accounting says RUNNING long after the time limit: {_some(runaway)}"


def _about_links(con: duckdb.DuckDBPyConnection, runs: Sequence[Run]) -> Iterator[str]:
    doubtful = [
        f"{launch.file} ({launch.log_rule}, {launch.log_confidence:.2f})"
        for run in runs
        for launch in run.launches
        if launch.log_confidence is not None and launch.log_confidence < 0.85
    ]
    if doubtful:
        yield f"logs put to their attempt with doubt: {_some(list(dict.fromkeys(doubtful)))}"
    if not runs:
        return
    parameters: dict[str, object] = {"runs": [r.run_id for r in runs], "least": MIN_SUGGESTED}
    rows = con.sql(_SUGGESTED, params=parameters).fetchall()
    suggested = [
        f"{earlier} and {later} ({evidence}, {rule} {confidence:.2f})"
        for earlier, later, rule, confidence, evidence in rows
    ]
    if suggested:
        yield f"kept apart, but perhaps one run: {_some(suggested)}"


def _about_runs(runs: Sequence[Run]) -> Iterator[str]:
    def those(names: list[str]) -> str:
        return f"{words.counted(len(names), 'run')}: {_some(names)}"

    if found := [_name(r) for r in runs if r.is_open]:
        yield f"not ended when the logs were taken, counted up to the last evidence: {those(found)}"
    if found := [_name(r) for r in runs if r.tor_low is None and r.reference_step_s is not None]:
        yield f"no TOR, step numbers or stated step times contradict the clock: {those(found)}"
    if found := [_name(r) for r in runs if r.tor_low is None and r.reference_step_s is None]:
        yield f"no TOR, the logs show no step times: {those(found)}"
    if found := [
        f"{_name(r)} ({words.share(r.unexplained_share)}: TOR "
        f"{words.tor(r.tor_low, r.tor_high, has_interval=True)})"
        for r in runs
        if r.has_interval
    ]:
        yield (
            f"more than {UNEXPLAINED_LIMIT:.1%} of the time is unexplained, so TOR is an interval: "
            f"{those(found)}"
        )
    if found := [
        f"{_name(r)} ({words.counted(r.n_healthy_steps or 0, 'step')})"
        for r in runs
        if r.reference_step_s is not None and (r.n_healthy_steps or 0) < MIN_HEALTHY_STEPS
    ]:
        yield f"the reference step time rests on few healthy steps: {those(found)}"
    if found := [
        f"{_name(r)} (up to {words.duration(r.time_error_s)})" for r in runs if _is_imprecise(r)
    ]:
        yield f"step times are known only roughly: {those(found)}"
    if found := [
        f"{_name(r)} ({words.duration(r.segments_s.uncommitted)})"
        for r in runs
        if r.segments_s.uncommitted > 0
    ]:
        yield f"work after the last checkpoint that nothing continued is lost: {those(found)}"


def _is_imprecise(run: Run) -> bool:
    error_s = run.time_error_s or 0
    return error_s > MAX_TIME_ERROR_S or error_s > MAX_TIME_ERROR_SHARE * run.wall_s


def _name(run: Run) -> str:
    return run.run_id if run.name is None else f"{words.run_name(run)} [{run.run_id}]"


def _some(names: list[str]) -> str:
    """The first names, and how many more there are."""
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
