"""Columns of `sacct`, from text to the types of `accounting_row`, a whole block at a time.

Source: sacct(1), JOB ACCOUNTING FIELDS. Most columns have few distinct texts: each is read once
in a block, by a function of one text. A text that its function refuses makes its row a reject.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parsers.sacct_layout import JOB_ID
from parsers.sacct_times import Bools, Times, duration_s, read_times
from parsers.slurm_nodes import node_lists
from parsers.tables import ACCOUNTING_ROW, MAX_TEXT_BYTES, StampKind

USED_COLUMNS = frozenset(
    """
    account allocgres allocnodes alloctres cluster comment elapsed elapsedraw eligible end exitcode
    failednode jobid jobidraw jobname nnodes nodelist partition reason restarts sluid start state
    stdout submit submitline suspended timelimit timelimitraw uid user workdir
    """.split()
)

_NOTHING = frozenset(("", "None", "Unknown", "N/A", "(null)"))
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_PLAIN_STEP = re.compile(r"batch|extern|[0-9]{1,18}")
_COUNT = re.compile(r"([0-9]{1,9})(?:(\.[0-9]+)?([KM]))?")
_EXIT = re.compile(r"([0-9]{1,9}):([0-9]{1,9})")
_STATE = re.compile(r"[A-Za-z_]+")
_GPU = re.compile(r"(?:^|,)gres/gpu=([0-9]{1,9})(?=,|$)")
_GPU_OF_TYPE = re.compile(r"(?:^|,)gres/gpu:[^=,]+=([0-9]{1,9})(?=,|$)")
_OLD_GPU = re.compile(r"(?:^|,)(?:gres[:/])?gpu:(?:[^:,=]+:)?([0-9]{1,9})(?=,|\(|$)")
_TIME_NAMES = ("submit", "eligible", "start", "end")
_TEXTS = {
    "cluster": "cluster", "sluid": "sluid", "job_name": "jobname", "account": "account",
    "partition": "partition", "comment": "comment", "submit_line": "submitline",
    "work_dir": "workdir", "stdout_path": "stdout",
}  # fmt: skip
_INT32_MAX = 2**31 - 1


class _Reading:
    """The columns of one block while they are read, and what was wrong with which row."""

    def __init__(self, cells: pa.Table) -> None:
        self.n_rows: int = cells.num_rows
        self.problems: dict[int, list[str]] = {}
        self._cells = cells
        self._coded: dict[str, pa.Array] = {}

    def text(self, name: str) -> pa.Array | None:
        """The cells of a column, null where empty; None where the header has no such column."""
        if name not in self._cells.column_names:
            return None
        column = self._cells.column(name)
        return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)

    def coded(self, name: str) -> pa.Array | None:
        """The column by distinct texts; None where it is absent or empty."""
        if name not in self._coded:
            texts = self.text(name)
            if texts is None or texts.null_count == len(texts):
                return None
            self._coded[name] = texts.dictionary_encode()
        return self._coded[name]

    def blame(self, row: int, problem: str) -> None:
        known = self.problems.setdefault(row, [])
        if problem not in known:
            known.append(problem)

    def each(
        self, name: str, read: Callable[[str], object], kind: pa.DataType, expected: str
    ) -> pa.Array:
        """A column read by a function of one text, called once for each distinct text.

        The function returns None for "unknown" and raises ValueError for a text that is damaged.
        """
        coded = self.coded(name)
        if coded is None:
            return pa.nulls(self.n_rows, kind)
        values: list[object] = []
        for code, text in enumerate(coded.dictionary.to_pylist()):
            try:
                values.append(read(text))
            except ValueError:
                values.append(None)
                rows = np.flatnonzero(coded.indices.fill_null(-1).to_numpy() == code)
                for row in rows.tolist():
                    self.blame(row, f"{name} {text[:40]!r} is not {expected}")
        return pa.array(values, kind).take(coded.indices)


def typed_rows(cells: pa.Table) -> tuple[pa.Table, dict[int, str]]:
    """Columns of `accounting_row` without evidence, and the reason by row where one is unreadable.

    `cells` has one text column (pa.string) per sacct column, names case-folded, null where a cell
    is empty. Rows with a reason hold no meaning.
    """
    reading = _Reading(cells)
    out = {name: _bounded(reading.text(column)) for name, column in _TEXTS.items()}
    out |= _ids(reading)
    out |= _times(reading)
    out |= _states(reading)
    out |= _resources(reading, out)
    out["scheduler"] = pa.repeat("slurm", reading.n_rows)
    out["exit_trusted"] = pa.repeat(pa.scalar(value=True), reading.n_rows)
    out["user"] = _first(_bounded(reading.text("user")), _bounded(reading.text("uid")))
    fields = [f for f in ACCOUNTING_ROW.schema if out.get(f.name) is not None]
    table = pa.table([out[f.name] for f in fields], schema=pa.schema(fields))
    return table, {row: "; ".join(why) for row, why in sorted(reading.problems.items())}


def bounded(text: str) -> str:
    """At most MAX_TEXT_BYTES of UTF-8, cut between characters."""
    if len(text) <= MAX_TEXT_BYTES // 4:
        return text
    return text.encode()[:MAX_TEXT_BYTES].decode("utf-8", "ignore")


def _bounded(texts: pa.Array | None) -> pa.Array | None:
    if texts is None or (pc.max(pc.binary_length(texts)).as_py() or 0) <= MAX_TEXT_BYTES:
        return texts
    return pa.array([None if t is None else bounded(t) for t in texts.to_pylist()], pa.string())


def _first(*columns: pa.Array | None) -> pa.Array | None:
    """The first known value of each row."""
    known = [column for column in columns if column is not None]
    return pc.coalesce(*known) if known else None


def _ids(reading: _Reading) -> dict[str, pa.Array]:
    """Job, step, array and heterogeneous parts of JobID."""
    name = "jobid" if reading.text("jobid") is not None else "jobidraw"
    jobs, steps = _split_job_ids(reading, name)
    coded = jobs.dictionary_encode()
    parts = [_job_parts(job) for job in coded.dictionary.to_pylist()]
    raw = _split_job_ids(reading, "jobidraw")[0] if name == "jobid" else None
    columns = {
        "array_job_id": pa.int64(), "array_task_id": pa.int64(), "array_throttle": pa.int64(),
        "het_offset": pa.int32(),
    }  # fmt: skip
    out = {
        column: pa.array([p[i] for p in parts], kind).take(coded.indices)
        for i, (column, kind) in enumerate(columns.items())
    }
    return out | {"job_id": jobs, "step_id": steps, "native_id": _first(raw, jobs)}


def _split_job_ids(reading: _Reading, name: str) -> tuple[pa.Array, pa.Array]:
    """(job, step) of a column of job ids; blames rows without a job."""
    texts = reading.text(name)
    if texts is None:
        return pa.nulls(reading.n_rows, pa.string()), pa.nulls(reading.n_rows, pa.string())
    if name == "jobid" or reading.text("jobid") is None:
        for row in np.flatnonzero(texts.is_null().to_numpy(zero_copy_only=False)).tolist():
            reading.blame(row, f"no {name}")
    pieces = pc.split_pattern(texts.fill_null(""), ".", max_splits=1)
    ends = pieces.offsets.to_numpy()
    jobs = pieces.values.take(pa.array(ends[:-1]))
    has_step = np.diff(ends) == 2
    steps = pieces.values.take(pa.array(ends[:-1] + 1, mask=~has_step))
    for row in np.flatnonzero(_is_odd_id(jobs, steps)).tolist():
        text = texts[row].as_py()
        if text is not None and not JOB_ID.fullmatch(text):
            reading.blame(row, f"{name} {text[:40]!r} is not a job id")
    if texts.null_count:
        jobs = pc.if_else(texts.is_valid(), jobs, pa.scalar(None, pa.string()))
    return jobs, steps


def _is_odd_id(jobs: pa.Array, steps: pa.Array) -> Bools:
    """Where a job id is not one of the plain ones, which need no closer look."""
    is_plain = pc.and_(pc.ascii_is_decimal(jobs), pc.less_equal(pc.binary_length(jobs), 18))
    coded = steps.dictionary_encode()
    known = [_PLAIN_STEP.fullmatch(step) is not None for step in coded.dictionary.to_pylist()]
    is_known = pa.array(known, pa.bool_()).take(coded.indices).fill_null(fill_value=True)
    odd: Bools = pc.invert(pc.and_(is_plain, is_known)).to_numpy(zero_copy_only=False)
    return odd


def _job_parts(job: str) -> tuple[int | None, int | None, int | None, int | None]:
    """(array job, array task, throttle, heterogeneous component) of a job id without step."""
    if job.isdigit() or not JOB_ID.fullmatch(job):
        return None, None, None, None
    job, _, component = job.partition("+")
    array, _, task = job.partition("_")
    throttle = re.search(r"%([0-9]{1,9})\]$", task)
    return (
        int(array) if task else None,
        int(task) if task.isdigit() else None,
        int(throttle[1]) if throttle else None,
        int(component) if component else None,
    )


def _times(reading: _Reading) -> dict[str, pa.Array]:
    """The four instants as printed, and how to read them; one row must not mix the ways."""
    is_utc = np.zeros(reading.n_rows, np.bool_)
    is_local = np.zeros(reading.n_rows, np.bool_)
    out: dict[str, pa.Array] = {}
    for name in _TIME_NAMES:
        texts = reading.text(name)
        if texts is None:
            continue
        times: Times = read_times(texts)
        out[f"{name}_us"] = pa.array(times.us, mask=~times.is_known)
        is_utc |= times.is_utc
        is_local |= times.is_known & ~times.is_utc
        for row, text in times.unreadable.items():
            reading.blame(row, f"{name} {text[:40]!r} is not a time like 2026-03-01T10:00:00+0000")
    for row in np.flatnonzero(is_utc & is_local).tolist():
        reading.blame(row, "times with and without an offset in one row")
    kinds = pa.array([str(StampKind.LOCAL), str(StampKind.UTC)])
    out["stamp_kind"] = kinds.take(pa.array(is_utc.astype(np.int32), mask=~(is_utc | is_local)))
    return out


def _states(reading: _Reading) -> dict[str, pa.Array]:
    """State, reason, exit code and the durations."""
    limit_s = reading.each("timelimitraw", _minutes_s, pa.int64(), "a number of minutes")
    text = pa.string()
    return {
        "elapsed_s": _first(
            _whole_numbers(reading, "elapsedraw"),
            reading.each("elapsed", duration_s, pa.int64(), "a duration"),
        ),
        "suspended_s": reading.each("suspended", duration_s, pa.int64(), "a duration"),
        "time_limit_s": _first(
            limit_s, reading.each("timelimit", duration_s, pa.int64(), "a duration")
        ),
        "state": reading.each("state", _state, text, "a job state"),
        "state_base": reading.each("state", _state_base, text, "a job state"),
        "reason": reading.each("reason", _known_text, text, "a reason"),
        "exit_code": reading.each("exitcode", _exit_code, pa.int32(), "an exit code n:m"),
        "exit_signal": reading.each("exitcode", _exit_signal, pa.int32(), "an exit code n:m"),
        "restart_count": reading.each("restarts", _whole_int32, pa.int32(), "a count"),
    }


def _resources(reading: _Reading, rows: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """Nodes and GPUs of the allocation, and whether it ever had a node."""
    allocated = reading.each("allocnodes", _count, pa.int32(), "a count")
    asked = reading.each("nnodes", _count, pa.int32(), "a count")
    is_unassigned = reading.each("nodelist", _is_unassigned, pa.bool_(), "a host list")
    nodes = _nodes(reading, "nodelist", rows["step_id"])
    none = pc.if_else(is_unassigned, pa.scalar(0, pa.int32()), pa.scalar(None, pa.int32()))
    n_nodes = pc.coalesce(allocated, none, asked)
    if n_nodes.null_count:
        n_nodes = pc.coalesce(n_nodes, pc.list_value_length(nodes).cast(pa.int32()))
    no_start = pc.invert(rows["start_us"].is_valid()) if "start_us" in rows else None
    return {
        "n_nodes": n_nodes,
        "n_gpus": _first(
            reading.each("alloctres", gpus_of_tres, pa.int32(), "a list of resources"),
            reading.each("allocgres", _old_gpus, pa.int32(), "a list of resources"),
        ),
        "nodes": nodes,
        "failed_nodes": _nodes(reading, "failednode", rows["step_id"]),
        "never_started": _never_started(is_unassigned, allocated, asked, no_start, rows),
    }


def _never_started(
    is_unassigned: pa.Array, allocated: pa.Array, asked: pa.Array, no_start: pa.Array | None,
    rows: dict[str, pa.Array],
) -> pa.Array:  # fmt: skip
    """Whether no node was ever allocated. Start does not tell: old releases set it to End."""
    by_count = pc.equal(allocated, 0)
    says = pc.or_kleene(is_unassigned, by_count)
    if no_start is None:
        return says.fill_null(fill_value=False)
    without_start = pc.coalesce(
        pc.and_(pc.equal(asked, 0), no_start), pc.and_(no_start, rows["step_id"].is_null())
    )
    # where neither the nodes nor their number are known, Start is all there is
    says = pc.if_else(allocated.is_null(), pc.coalesce(is_unassigned, without_start), says)
    return says.fill_null(fill_value=False)


def _nodes(reading: _Reading, name: str, steps: pa.Array) -> pa.Array:
    """Host names by row."""
    coded = reading.coded(name)
    if coded is None:
        return pa.nulls(reading.n_rows, pa.list_(pa.string()))
    return node_lists(coded, steps.is_valid().to_numpy(zero_copy_only=False))


def _whole_numbers(reading: _Reading, name: str) -> pa.Array:
    """A column of whole numbers that may all differ."""
    texts = reading.text(name)
    if texts is not None and pc.all(pc.match_substring_regex(texts, "^[0-9]{1,18}$")).as_py():
        return texts.cast(pa.int64())
    return reading.each(name, _whole, pa.int64(), "a whole number")


def _whole(text: str) -> int | None:
    if text in _NOTHING or text == "INVALID":
        return None
    if not _WHOLE.fullmatch(text):
        raise ValueError(text)
    number = int(text)
    return number if number >= 0 else None


def _whole_int32(text: str) -> int | None:
    number = _whole(text)
    if number is not None and number > _INT32_MAX:
        raise ValueError(text)
    return number


def _minutes_s(text: str) -> int | None:
    if text in ("UNLIMITED", "Partition_Limit"):
        return None
    minutes = _whole_int32(text)
    return None if minutes is None else minutes * 60


def _count(text: str) -> int | None:
    """A count that sacct may have shortened (`2K`); a rounded one (`1.50K`) is unknown."""
    if text in _NOTHING:
        return None
    found = _COUNT.fullmatch(text)
    if not found:
        raise ValueError(text)
    if found[2]:
        return None
    number = int(found[1]) * {None: 1, "K": 1024, "M": 1024 * 1024}[found[3]]
    if number > _INT32_MAX:
        raise ValueError(text)
    return number


def _exit_code(text: str) -> int | None:
    return _exit(text)[0]


def _exit_signal(text: str) -> int | None:
    return _exit(text)[1]


def _exit(text: str) -> tuple[int | None, int | None]:
    if text in _NOTHING:
        return None, None
    found = _EXIT.fullmatch(text)
    if not found:
        raise ValueError(text)
    return int(found[1]), int(found[2])


def _state(text: str) -> str:
    if text != "?" and not _STATE.match(text):
        raise ValueError(text)
    return bounded(text)


def _state_base(text: str) -> str | None:
    found = _STATE.match(text)
    return found[0].upper() if found else None


def _known_text(text: str) -> str | None:
    return None if text in _NOTHING else bounded(text)


def gpus_of_tres(text: str) -> int | None:
    """GPUs of `gres/gpu=N`, else the sum of the typed `gres/gpu:TYPE=N`; never both."""
    if total := _GPU.search(text):
        return int(total[1])
    return _sum(_GPU_OF_TYPE.findall(text))


def _old_gpus(text: str) -> int | None:
    """GPUs of AllocGRES, which releases before 20.11 print as `gpu:N` or `gpu:TYPE:N`."""
    return _sum(_OLD_GPU.findall(text))


def _sum(numbers: list[str]) -> int | None:
    total = sum(int(number) for number in numbers)
    return total if numbers and total <= _INT32_MAX else None


def _is_unassigned(text: str) -> bool | None:
    """True for "None assigned", False for hosts, None where the text tells neither."""
    return None if text in _NOTHING or text == "(unknown)" else text == "None assigned"
