"""Jobs that slurmctld knows now (`squeue --json`, `scontrol show job --json`, slurmrestd) to rows.

Source: the OpenAPI schemas of slurmrestd, `/slurm/.../jobs`, v0.0.37 to v0.0.45. The end of a job
that runs and the start of one that waits are forecasts there, so they are unknown here.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from parsers import slurm_values as values
from parsers.sacct_columns import gpus_of_tres
from parsers.slurm_values import ExitCode, Row, UnreadableJobError, Value
from parsers.tables import StampKind

ENDED = frozenset(
    """
    BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED REVOKED TIMEOUT
    """.split()
)
"""Base states of jobs that are over."""


class _Job(Struct, gc=False):
    job_id: Value = None
    account: str | None = None
    array_job_id: Value = None
    array_task_id: Value = None
    array_task_string: str | None = None
    array_max_tasks: Value = None
    cluster: str | None = None
    comment: str | None = None
    current_working_directory: str | None = None
    eligible_time: Value = None
    end_time: Value = None
    exit_code: ExitCode | int | None = None
    failed_node: str | None = None
    het_job_id: Value = None
    het_job_offset: Value = None
    job_state: list[str] | str | None = None
    name: str | None = None
    node_count: Value = None
    nodes: str | None = None
    partition: str | None = None
    restart_cnt: Value = None
    standard_output: str | None = None
    start_time: Value = None
    state_reason: str | None = None
    stdout_expanded: str | None = None
    submit_line: str | None = None
    submit_time: Value = None
    time_limit: Value = None
    tres_alloc_str: str | None = None
    user_name: str | None = None


_JOB = msgspec.json.Decoder(_Job)


def rows(data: bytes) -> Iterator[tuple[int, int, Row | UnreadableJobError]]:
    """(first byte, end, row) of a job object; the error in place of a row that cannot be read."""
    try:
        yield 0, len(data), _row(values.decoded(_JOB, data))
    except ValueError as error:
        yield 0, len(data), UnreadableJobError(str(error))


def _row(job: _Job) -> Row:
    state = values.state(job.job_state)
    states = [job.job_state] if isinstance(job.job_state, str) else job.job_state or []
    is_over = not ENDED.isdisjoint(states)
    is_waiting = "PENDING" in states
    code, signal, is_trusted = values.exit_status(job.exit_code if is_over else None)
    submit_us = values.instant_us(job.submit_time)
    return {
        **values.job_ids(
            job.job_id, (job.array_job_id, job.array_task_id, job.array_task_string),
            job.array_max_tasks, (job.het_job_id, job.het_job_offset),
        ),
        "cluster": values.text(job.cluster),
        "job_name": values.text(job.name),
        "user": values.text(job.user_name),
        "account": values.text(job.account),
        "partition": values.text(job.partition),
        "comment": values.text(job.comment),
        "submit_line": values.text(job.submit_line),
        "work_dir": values.text(job.current_working_directory),
        "stdout_path": values.text(job.stdout_expanded or job.standard_output),
        "submit_us": submit_us,
        "eligible_us": values.instant_us(job.eligible_time),
        "start_us": None if is_waiting else values.instant_us(job.start_time),
        "end_us": values.instant_us(job.end_time) if is_over else None,
        "stamp_kind": None if submit_us is None else str(StampKind.UTC),
        "time_limit_s": values.minutes_s(job.time_limit),
        "state": state,
        "state_base": values.state_base(state),
        "reason": values.known_text(job.state_reason),
        "exit_code": code,
        "exit_signal": signal,
        "exit_trusted": is_trusted,
        "n_nodes": 0 if is_waiting else values.count(job.node_count),
        "n_gpus": gpus_of_tres(job.tres_alloc_str or ""),
        "nodes": None if is_waiting else job.nodes or None,
        "failed_nodes": job.failed_node or None,
        "restart_count": values.count(job.restart_cnt),
        "never_started": is_waiting or (is_over and not job.nodes),
    }  # fmt: skip
