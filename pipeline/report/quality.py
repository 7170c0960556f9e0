"""How far the data can be trusted: what was read, and a warning for everything that weakens it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.report import words
from pipeline.report.model import UNEXPLAINED_LIMIT, Choice, DataQuality, Run
from pipeline.step_words import looks_like_training

if TYPE_CHECKING:
    import duckdb

OF_WHOLE_LAKE = "the counts and the warnings about files and accounting are those of the whole lake"
MIN_HEALTHY_STEPS = 30
"""Fewer healthy steps than this make a reference step time doubtful."""
MAX_TIME_ERROR_S = 60.0
MAX_TIME_ERROR_SHARE = 0.01
"""A step time known less well than this, in seconds or of the wall clock, is warned about."""
MIN_SUGGESTED = 0.5
"""Links of less confidence speak against a connection, and are not suggested."""

_TOTALS = """
select
    count(*), coalesce(sum(n_bytes), 0)::bigint, coalesce(sum(n_lines), 0)::bigint,
    coalesce(sum(n_claimed_lines), 0)::bigint, coalesce(sum(n_rejects), 0)::bigint,
    -- what stands on which line says nothing of a JSON document
    sum(n_claimed_lines) filter (format is distinct from 'slurm_json')
    / nullif(sum(n_lines) filter (format is distinct from 'slurm_json'), 0)
from file
"""

_TROUBLED_FILES = """
select status, path, status_detail
from file
where status <> 'parsed'
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

_DELAYED = """
select job_id
from attempt
where native_id is not null
group by cluster, native_id, job_id
having count(*) = 1 and max(restart_count) is null
    and max(eligible_at - submit_at) between interval 120 seconds and interval 122 seconds
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
where f.dialect is not null and f.status <> 'superseded' and f.log_id not in (
    select file_id from launch where file_id is not null)
order by f.path
"""

_NO_RUN = """
-- why attempts of the accounting are in no run, in the order of the reasons; is_normal: so are
-- all jobs of that kind
with reasons as (
    select
        a.job_id, a.state, a.start_at, a.attempt_id,
        case
            when a.end_kind = 'revoked' then 6
            when a.start_at is null and a.end_kind = 'open' then 4
            when a.start_at is null or a.never_started then 5
            when a.n_gpus is null then 1
            when a.n_gpus = 0 then 3
            else 2
        end as reason
    from attempt as a
    anti join run_attempt as r using (attempt_id)
    where a.scheduler is not null
)

select
    reason, reason >= 3 as is_normal, count(*) as n_jobs,
    list(coalesce(job_id, attempt_id) || coalesce(' (' || state || ')', '')
        order by start_at desc nulls last, attempt_id)[:3] as jobs
from reasons
group by all
order by reason
"""

_WHY_NO_RUN = {
    1: "without a log, and without a GPU count in the accounting (collect AllocTRES)",
    2: "without a log, an end or ElapsedRaw to show how long it was",
    3: "without GPUs, and without a log",
    4: "waiting in the queue",
    5: "never started",
    6: "taken over by another cluster",
}

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

_WITHOUT_DIALECT = """
select path, compression, n_bytes
from file
where format = 'text' and dialect is null and status in ('parsed', 'truncated')
order by path
"""

_ASSUMED_ZONE = """
select f.path
from newest_file as f
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
where f.timezone is null
order by f.path
"""


def data_quality(
    con: duckdb.DuckDBPyConnection, runs: Sequence[Run], choice: Choice
) -> DataQuality:
    """Counts over every file of the lake; warnings about its files and about `runs`.

    reject_share = rejects / claimed_lines; coverage = claimed_lines / lines of the files whose
    records are lines; null without any.
    """
    files, n_bytes, lines, claimed, rejects, coverage = con.sql(_TOTALS).fetchall()[0]
    unread = _unread_training_logs(con)
    return DataQuality(
        files=files,
        bytes=n_bytes,
        lines=lines,
        claimed_lines=claimed,
        rejects=rejects,
        reject_share=rejects / claimed if claimed else None,
        coverage=coverage,
        warnings=[*_about_scope(choice), *_about_files(con, unread),
                  *_about_accounting(con, runs), *_about_links(con, runs), *_about_runs(runs)],
        unread_training_logs=unread,
    )  # fmt: skip


def _about_scope(choice: Choice) -> Iterator[str]:
    if not choice.is_whole:
        yield OF_WHOLE_LAKE


def jobs_without_run(con: duckdb.DuckDBPyConnection, *, with_normal: bool) -> list[str]:
    """Jobs that no run counts, a text per reason; `with_normal`: also queued, CPU-only ones ..."""
    return [
        f"{words.counted(n, 'job')} in no run, {_WHY_NO_RUN[reason]}: {words.some(jobs, n=n)}"
        for reason, is_normal, n, jobs in con.sql(_NO_RUN).fetchall()
        if with_normal or not is_normal
    ]


def _about_files(con: duckdb.DuckDBPyConnection, unread: Sequence[str]) -> Iterator[str]:
    troubled: dict[str, list[str]] = {}
    for status, path, detail in con.sql(_TROUBLED_FILES).fetchall():
        troubled.setdefault(status, []).append(f"{path} ({detail})" if detail else path)
    for status, paths in troubled.items():
        yield f"{words.counted(len(paths), 'file')} {status}: {words.some(paths)}"
    for reason, n, example in con.sql(_REJECTS).fetchall():
        yield f"{words.counted(n, 'record')} rejected: {reason}, e.g. {example}"
    unplaced = [path for (path,) in con.sql(_UNPLACED_LOGS).fetchall()]
    if unplaced:
        logs = words.counted(len(unplaced), "log")
        yield f"left out, no attempt fits {logs} with step lines: {words.some(unplaced)}"
    if unread:
        yield words.unread_training(unread)
    # only a lake knows raw facts; tables given by hand do not
    if ("newest_file",) in con.sql("show tables").fetchall():
        assumed = [path for (path,) in con.sql(_ASSUMED_ZONE).fetchall()]
        if assumed:
            yield (
                f"times without zone are read as UTC in {words.counted(len(assumed), 'file')}: "
                f"{words.some(assumed)}; name the zone with --timezone if that is wrong"
            )


def _unread_training_logs(con: duckdb.DuckDBPyConnection) -> list[str]:
    """Paths of logs that look like training and whose steps no dialect reads.

    The tables do not keep lines that nothing claimed, so the logs themselves are looked at, where
    they still stand.
    """
    return [
        path
        for path, compression, n_bytes in con.sql(_WITHOUT_DIALECT).fetchall()
        if looks_like_training(Path(path), compression or None, n_bytes)
    ]


def _about_accounting(con: duckdb.DuckDBPyConnection, runs: Sequence[Run]) -> Iterator[str]:
    without = [_name(r) for r in runs if any(a.scheduler is None for a in r.attempts)]
    if without:
        count = words.counted(len(without), "run")
        yield (
            f"accounting rows missing for {count}: {words.some(without)}; "
            "attempts begin and end with their logs, nodes and states are unknown"
        )
    restarted = [
        f"{job_id} ({words.counted(restarts, 'restart')}, {words.counted(rows, 'row')})"
        for _, job_id, restarts, rows in con.sql(_RESTARTED).fetchall()
    ]
    if restarted:
        yield (
            f"accounting was taken without --duplicates, earlier attempts are missing: job "
            f"{words.some(restarted)}"
        )
    if delayed := [job for (job,) in con.sql(_DELAYED).fetchall()]:
        # slurmctld lets a requeued job wait until its credential has expired, 120 s by default
        yield (
            f"accounting was perhaps taken without --duplicates, earlier attempts may be missing: "
            f"{words.counted(len(delayed), 'job')} ({words.some(delayed)}) waited 121 s as after a "
            "requeue, without an earlier row"
        )
    yield from jobs_without_run(con, with_normal=False)
    orphans = [job for (job,) in con.sql(_ORPHAN_STEPS).fetchall()]
    if orphans:
        yield (
            f"accounting steps without the row of their job: "
            f"{words.counted(len(orphans), 'job')} ({words.some(orphans)})"
        )
    runaway = [
        f"{_name(run)} (job {attempt.job_id})"
        for run in runs
        for attempt in run.attempts
        if attempt.is_runaway
    ]
    if runaway:
        yield f"accounting says RUNNING long after the time limit: {words.some(runaway)}"


def _about_links(con: duckdb.DuckDBPyConnection, runs: Sequence[Run]) -> Iterator[str]:
    doubtful = [
        f"{launch.file} ({launch.log_rule}, {words.ratio(launch.log_confidence, 2)})"
        for run in runs
        for launch in run.launches
        if launch.log_confidence is not None and launch.log_confidence < 0.85
    ]
    if doubtful:
        yield f"logs put to their attempt with doubt: {words.some(list(dict.fromkeys(doubtful)))}"
    moved = [
        f"{launch.file} ({words.change(launch.clock_offset_s)})"
        for run in runs
        for launch in run.launches
        if launch.clock_offset_s
    ]
    if moved:
        yield f"clocks of logs moved to fit their allocation: {words.some(moved)}"
    if not runs:
        return
    parameters: dict[str, object] = {"runs": [r.run_id for r in runs], "least": MIN_SUGGESTED}
    rows = con.sql(_SUGGESTED, params=parameters).fetchall()
    suggested = [
        f"{earlier} and {later} ({evidence}, {rule} {words.ratio(confidence, 2)})"
        for earlier, later, rule, confidence, evidence in rows
    ]
    if suggested:
        yield f"kept apart, but perhaps one run: {words.some(suggested)}"


def _about_runs(runs: Sequence[Run]) -> Iterator[str]:
    def those(names: list[str]) -> str:
        return f"{words.counted(len(names), 'run')}: {words.some(names)}"

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
        f"{_name(r)} ({words.duration(-r.segments_s.slow)})"
        for r in runs
        if r.segments_s.slow is not None and r.segments_s.slow < 0
    ]:
        yield (
            f"steps were faster than the reference step time, so slow is negative, a gain: "
            f"{those(found)}"
        )
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
