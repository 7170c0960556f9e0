"""Job objects of Slurm's accounting (`sacct --json`, slurmrestd `/slurmdb/.../jobs`) to rows.

Source: the OpenAPI schemas of slurmrestd, dbv0.0.37 to v0.0.45, and sacct(1). Fields that we do not
know are skipped, those that are missing are null.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
import numpy as np
from msgspec import UNSET, Raw, Struct, UnsetType

from parsers import slurm_values as values
from parsers.slurm_nodes import NONE_ASSIGNED
from parsers.slurm_values import ExitCode, Row, Tres, UnreadableJobError, Value
from parsers.tables import StampKind

_STEP_NAME = re.compile(r"(?:(?:batch|extern|interactive|TBD)|[0-9]{1,18})(?:\+[0-9]{1,9})?")
_STEP_NUMBERS = {
    2**32 - 3: "TBD", 2**32 - 4: "extern", 2**32 - 5: "batch", 2**32 - 6: "interactive",
}  # fmt: skip


class _Running(Struct, gc=False):
    tasks: Value = None


class _Max(Struct, gc=False):
    running: _Running | None = None


class _Limits(Struct, gc=False):
    max: _Max | None = None


class _Array(Struct, gc=False):
    job_id: Value = None
    task_id: Value = None
    task: str | None = None
    limits: _Limits | None = None


class _Association(Struct, gc=False):
    account: str | None = None
    cluster: str | None = None
    user: str | None = None


class _Comment(Struct, gc=False):
    job: str | None = None


class _Het(Struct, gc=False):
    job_id: Value = None
    job_offset: Value = None


class _State(Struct, gc=False):
    current: list[str] | str | None = None
    reason: str | None = None


class _Time(Struct, gc=False):
    submission: Value = None
    eligible: Value = None
    start: Value = None
    end: Value = None
    elapsed: Value = None
    suspended: Value = None
    limit: Value = None


class _AllTres(Struct, gc=False):
    allocated: list[Tres] | None = None


class _StepId(Struct, gc=False):
    step_id: str | int | None = None
    step_het_component: Value = None


class _StepKey(Struct, gc=False):
    id: _StepId | str | int | None = None
    name: str | None = None


class _Nodes(Struct, gc=False):
    count: Value = None
    range: str | None = None
    hosts: list[str] | None = msgspec.field(default=None, name="list")


class _Step(Struct, gc=False):
    step: _StepKey | None = None
    state: list[str] | str | None = None
    exit_code: ExitCode | int | None = None
    nodes: _Nodes | None = None
    time: _Time | None = None
    tres: _AllTres | None = None
    submit_line: str | None = None


class _Job(Struct, gc=False):
    job_id: Value = None
    group: str | int | UnsetType | None = UNSET
    account: str | None = None
    allocation_nodes: Value = None
    array: _Array | None = None
    association: _Association | None = None
    cluster: str | None = None
    comment: _Comment | str | None = None
    exit_code: ExitCode | int | None = None
    failed_node: str | None = None
    het: _Het | None = None
    kill_request_user: str | int | None = None
    name: str | None = None
    nodes: str | None = None
    partition: str | None = None
    restart_cnt: Value = None
    sluid: str | None = None
    state: _State | None = None
    stdout: str | None = None
    stdout_expanded: str | None = None
    steps: list[Raw] | None = None
    submit_line: str | None = None
    time: _Time | None = None
    tres: _AllTres | None = None
    user: str | None = None
    working_directory: str | None = None


class _Steps(Struct, gc=False):
    steps: list[Raw] | None = None


_JOB = msgspec.json.Decoder(_Job)
_STEP = msgspec.json.Decoder(_Step)
_STEPS = msgspec.json.Decoder(_Steps)


def rows(data: bytes) -> Iterator[tuple[int, int, Row | UnreadableJobError]]:
    """(first byte, end, row) of a job object and of its steps, as positions in `data`.

    An object that cannot be read gives the error in place of its row.
    """
    try:
        job, steps = _read_job(data)
        job_row = _job_row(job)
    except ValueError as error:
        yield 0, len(data), UnreadableJobError(str(error))
        return
    yield 0, len(data), job_row
    for start, raw in steps:
        try:
            yield start, start + len(raw), _step_row(values.decoded(_STEP, raw), job_row)
        except ValueError as error:
            yield start, start + len(raw), UnreadableJobError(f"a step: {error}")


def _read_job(data: bytes) -> tuple[_Job, list[tuple[int, bytes]]]:
    """The job and the places of its steps."""
    try:
        job = _JOB.decode(data)
        return job, _places(job.steps, data)
    except (msgspec.DecodeError, RecursionError):
        pass
    job = values.decoded(_JOB, data)
    data = values.without_bare_words(data)
    try:
        return job, _places(_STEPS.decode(data).steps, data)
    except msgspec.DecodeError as error:
        raise UnreadableJobError(f"not a job object: {error}") from error


def _places(steps: list[Raw] | None, data: bytes) -> list[tuple[int, bytes]]:
    """Where the steps stand in `data`, whose bytes they share."""
    base = _address(data) if steps else 0
    return [(_address(step) - base, bytes(step)) for step in steps or ()]


def _address(data: bytes) -> int:
    address: int = np.frombuffer(data, np.uint8).__array_interface__["data"][0]
    return address


def _job_row(job: _Job) -> Row:
    if job.group is None:
        raise ValueError("its group is null: a row that the accounting database lost parts of")
    array, het = job.array or _Array(), job.het or _Het()
    running = array.limits.max.running if array.limits and array.limits.max else None
    time, state = job.time or _Time(), job.state or _State()
    association = job.association or _Association()
    printed = values.state(state.current, job.kill_request_user)
    comment = job.comment.job if isinstance(job.comment, _Comment) else job.comment
    row: Row = {
        "cluster": values.text(job.cluster or association.cluster),
        **values.job_ids(
            job.job_id, (array.job_id, array.task_id, array.task),
            running.tasks if running else None, (het.job_id, het.job_offset),
        ),
        "sluid": values.text(job.sluid),
        "job_name": values.text(job.name),
        "user": values.text(job.user or association.user),
        "account": values.text(job.account or association.account),
        "partition": values.text(job.partition),
        "comment": values.text(comment),
        "submit_line": values.text(job.submit_line),
        "work_dir": values.text(job.working_directory),
        "stdout_path": values.text(job.stdout_expanded or job.stdout),
        "submit_us": values.instant_us(time.submission),
        "eligible_us": values.instant_us(time.eligible),
        "time_limit_s": values.minutes_s(time.limit),
        "state": printed,
        "state_base": values.state_base(printed),
        "reason": values.known_text(state.reason),
        "failed_nodes": job.failed_node or None,
        "restart_count": values.count(job.restart_cnt),
    }  # fmt: skip
    row |= _span(time)
    row |= _exit(job.exit_code)
    row |= _resources(job)
    row["stamp_kind"] = _stamp_kind(row)
    return row


def _span(time: _Time) -> Row:
    return {
        "start_us": values.instant_us(time.start),
        "end_us": values.instant_us(time.end),
        "elapsed_s": values.whole(time.elapsed),
        "suspended_s": values.whole(time.suspended),
    }


def _exit(printed: ExitCode | int | None) -> Row:
    code, signal, is_trusted = values.exit_status(printed)
    return {"exit_code": code, "exit_signal": signal, "exit_trusted": is_trusted}


def _resources(job: _Job) -> Row:
    allocated = job.tres.allocated if job.tres and job.tres.allocated else []
    is_unassigned = job.nodes == NONE_ASSIGNED
    n_nodes = values.count(job.allocation_nodes)
    if n_nodes is None:
        n_nodes = 0 if is_unassigned else values.n_nodes(allocated)
    no_start = not (job.time and values.instant_us(job.time.start))
    return {
        "n_nodes": n_nodes,
        "n_gpus": values.n_gpus(allocated),
        "nodes": job.nodes or None,
        # where the number of nodes is not known, Start is all there is
        "never_started": is_unassigned or n_nodes == 0 or (n_nodes is None and no_start),
    }


def _step_row(step: _Step, job: Row) -> Row:
    """The row of a step; like sacct's text it names the job's cluster and account only."""
    key, time = step.step or _StepKey(), step.time or _Time()
    nodes = step.nodes or _Nodes()
    allocated = step.tres.allocated if step.tres and step.tres.allocated else []
    printed = values.state(step.state)
    row: Row = {name: job.get(name) for name in _OF_JOB} | {
        "step_id": _step_id(key),
        "job_name": values.text(key.name),
        "submit_line": values.text(step.submit_line),
        "state": printed,
        "state_base": values.state_base(printed),
        "n_nodes": values.count(nodes.count),
        "n_gpus": values.n_gpus(allocated),
        "nodes": nodes.range or ",".join(nodes.hosts or ()) or None,
        "never_started": False,
    }
    row |= _span(time)
    row |= _exit(step.exit_code)
    row["submit_us"] = row["start_us"]  # sacct prints the start of a step as its submit time
    if row["n_nodes"] is None:
        row["n_nodes"] = values.n_nodes(allocated)
    row["stamp_kind"] = _stamp_kind(row)
    return row


_OF_JOB = (
    "cluster", "account", "job_id", "native_id", "array_job_id", "array_task_id", "het_offset",
)  # fmt: skip


def _step_id(key: _StepKey) -> str:
    """`batch`, `extern`, `0`, `0+1`, from `123.0`, a number, or {step_id, step_het_component}."""
    found = key.id
    component = None
    if isinstance(found, _StepId):
        component = values.count(found.step_het_component)
        found = found.step_id
    if isinstance(found, int):
        found = _STEP_NUMBERS.get(found, str(found))
    name = (found or "").rpartition(".")[2]
    if component is not None:
        name = f"{name}+{component}"
    if not _STEP_NAME.fullmatch(name):
        raise ValueError(f"{name[:40]!r} is not a step id")
    return name


def _stamp_kind(row: Row) -> str | None:
    times = (row.get(f"{name}_us") for name in ("submit", "eligible", "start", "end"))
    return str(StampKind.UTC) if any(time is not None for time in times) else None
