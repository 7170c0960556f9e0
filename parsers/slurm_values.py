"""Values of Slurm's JSON documents: the same thing has another shape in every generation.

Source: the OpenAPI schemas of slurmrestd, data_parser plugins dbv0.0.37 to v0.0.45. A number is
plain, null, an object {set, infinite, number}, or text ("Infinity"), whatever the version says.
"""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

from parsers.sacct_columns import bounded

_FIRST_UNSET = 2**32 - 2
_UNSET = frozenset((_FIRST_UNSET, 2**32 - 1, 2**64 - 2, 2**64 - 1))  # NO_VAL, INFINITE; 64 bit
_NO_NUMBER = frozenset(("", "Infinity", "-Infinity", "NaN", "infinite", "UNLIMITED", "N/A"))
_NO_TEXT = frozenset(("", "None", "Unknown", "N/A", "(null)"))
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_STATE = re.compile(r"[A-Za-z_]+")
_INT32_MAX = 2**31 - 1
_THROTTLE = re.compile(r"%([0-9]{1,9})$")
_TASKS = re.compile(r"[0-9,%:.-]{1,4096}")
_LAST_SECOND = 253_402_300_799  # of the year 9999

_FLAGS = (
    "COMPLETING", "STAGE_OUT", "CONFIGURING", "EXPEDITING", "RESIZING", "REQUEUED", "REQUEUE_FED",
    "REQUEUE_HOLD", "SPECIAL_EXIT", "STOPPED", "REVOKED", "RESV_DEL_HOLD", "SIGNALING",
    "LAUNCH_FAILED", "RECONFIG_FAIL", "POWER_UP_NODE",
)  # fmt: skip
"""States that stand beside a base state, in the order in which sacct's text prefers one."""


T = TypeVar("T")

Row = dict[str, object]
"""Columns of `accounting_row` without evidence; host lists stand in them as printed."""

# numbers that JSON does not know, which some serialisers print all the same; strings are kept
_STRING_OR_BARE = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\b(?:Infinity|NaN|nan|inf)\b')


class UnreadableJobError(ValueError):
    """A job or step object that is damaged or says what cannot be."""


def decoded(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    """The object; bytes that are no UTF-8 become U+FFFD. UnreadableJobError."""
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        return decoder.decode(without_bare_words(data).decode("utf-8", "replace").encode())
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnreadableJobError(f"not a job object: {error}") from error


def without_bare_words(data: bytes) -> bytes:
    """The same with Infinity and NaN as empty texts, every byte in its place."""
    return _STRING_OR_BARE.sub(
        lambda found: found[0] if found[0][:1] == b'"' else b'""'.ljust(len(found[0])), data
    )


class Number(msgspec.Struct, gc=False):
    """A number with its own word on whether it is known."""

    set: bool = True
    infinite: bool = False
    number: int | float | str | None = None


class Signal(msgspec.Struct, gc=False):
    """The signal that ended a process; the field's name differs between generations."""

    id: Value = None
    signal_id: Value = None


class ExitCode(msgspec.Struct, gc=False):
    """How a process ended. Up to v0.0.39 the status is a text, from v0.0.40 on a list."""

    status: list[str] | str | None = None
    return_code: Value = None
    signal: Signal | None = None


class Tres(msgspec.Struct, gc=False):
    """One trackable resource."""

    type: str | None = None
    name: str | int | None = None
    count: Value = None


Value = int | float | str | None | Number


def whole(value: Value) -> int | None:
    """A number of any shape; None where it is unset, infinite or negative; ValueError if odd."""
    if type(value) is int and 0 <= value < _FIRST_UNSET:
        return value  # nearly all are
    if isinstance(value, Number):
        value = value.number if value.set and not value.infinite else None
    if isinstance(value, str):
        if value in _NO_NUMBER:
            return None
        if not _WHOLE.fullmatch(value):
            raise ValueError(f"{value[:40]!r} is no whole number")
        value = int(value)
    if value is None:
        return None
    if isinstance(value, float) and not value.is_integer():
        raise ValueError(f"{value!r} is no whole number")
    number = int(value)
    if number < 0 or number in _UNSET:
        return None
    if number >= 2**63:
        raise ValueError("a number beyond 64 bits")
    return number


def count(value: Value) -> int | None:
    """A number that fits 32 bits, as counts do; ValueError if it is larger."""
    number = whole(value)
    if number is not None and number > _INT32_MAX:
        raise ValueError(f"{number} is too large for a count")
    return number


def instant_us(value: Value) -> int | None:
    """Microseconds of seconds since 1970; None for 0, by which Slurm means "not yet"."""
    seconds = whole(value)
    if seconds is not None and seconds > _LAST_SECOND:
        raise ValueError(f"{seconds} is no time in seconds since 1970")
    return seconds * 1_000_000 if seconds else None


def minutes_s(value: Value) -> int | None:
    """Seconds of a limit in minutes; None without limit."""
    minutes = count(value)
    return None if minutes is None else minutes * 60


def text(value: str | int | None) -> str | None:
    """A text, bounded; None where it is empty."""
    return bounded(str(value)) if value not in ("", None) else None


def known_text(value: str | None) -> str | None:
    """A text, bounded; None where it is empty or one of Slurm's words for nothing."""
    return None if value is None or value in _NO_TEXT else bounded(value)


def state(value: list[str] | str | None, killed_by: str | int | None = None) -> str | None:
    """The one state that sacct's text prints for a list of them; None if there is none.

    `killed_by` is who cancelled the job; the text names that user by uid, JSON by name.
    """
    words = [value] if isinstance(value, str) else value or []
    if not words:
        return None
    if not all(_STATE.match(word) for word in words):
        raise ValueError(f"{words[0][:40]!r} is not a job state")
    found = next((flag for flag in _FLAGS if flag in words), words[0])
    if found == "CANCELLED" and killed_by not in ("", None):
        found = f"CANCELLED by {0 if killed_by == 'root' else killed_by}"
    return bounded(found)


def state_base(printed: str | None) -> str | None:
    """The first word of a state, upper case."""
    found = _STATE.match(printed or "")
    return found[0].upper() if found else None


def job_ids(
    job_id: Value, array: tuple[Value, Value, str | None], max_tasks: Value,
    het: tuple[Value, Value],
) -> Row:  # fmt: skip
    """The job id as sacct's text prints it, and its parts; ValueError without job id.

    `array` is (job, task, waiting tasks), `het` is (job, offset); 0 is no job.
    """
    number = whole(job_id)
    if not number:
        raise ValueError("no job_id")
    array_id, task_id, tasks = whole(array[0]), whole(array[1]), (array[2] or "").strip("[]")
    het_id, offset = whole(het[0]), count(het[1])
    row: Row = {"job_id": str(number), "native_id": str(number)}
    if array_id:
        tasks = tasks if _TASKS.fullmatch(tasks) else ""
        printed = _THROTTLE.search(tasks)
        throttle = whole(max_tasks) or (int(printed[1]) if printed else None)
        row |= {"array_job_id": array_id, "array_task_id": task_id, "array_throttle": throttle}
        if task_id is not None:
            row["job_id"] = f"{array_id}_{task_id}"
        elif tasks:
            row["job_id"] = f"{array_id}_[{tasks}]"
    if het_id and offset is not None:
        row |= {"job_id": f"{het_id}+{offset}", "het_offset": offset}
    return row


def exit_status(value: ExitCode | int | None) -> tuple[int | None, int | None, bool]:
    """(exit status, signal, whether they can be trusted).

    Up to v0.0.39 every normal exit is printed as SUCCESS with code 0, also a failed one. From
    v0.0.40 on exactly one of the two is set, and the other one is 0, as sacct's text prints it. A
    plain number is the status of wait(2).
    """
    if value is None:
        return None, None, True
    if not isinstance(value, ExitCode):
        status = count(value)
        return (None, None, True) if status is None else (status >> 8, status & 0x7F, True)
    signal = value.signal
    code = count(value.return_code)
    number = count(signal.id if signal.id is not None else signal.signal_id) if signal else None
    if not isinstance(value.status, list):
        return code, number, False
    if code is None and number is None:
        return None, None, True
    return code or 0, number or 0, True


def n_gpus(allocated: list[Tres]) -> int | None:
    """GPUs of `gres/gpu`, else the sum of the typed `gres/gpu:TYPE`; never both."""
    gpus = [(str(t.name), count(t.count)) for t in allocated if t.type == "gres"]
    known = [(name, number) for name, number in gpus if number is not None]
    if generic := [number for name, number in known if name == "gpu"]:
        return generic[0]
    typed = [number for name, number in known if name.startswith("gpu:")]
    return count(sum(typed)) if typed else None


def n_nodes(allocated: list[Tres]) -> int | None:
    """Nodes of an allocation."""
    return next((count(t.count) for t in allocated if t.type == "node"), None)
