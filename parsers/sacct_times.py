"""Times and durations of `sacct` text.

Source: sacct(1), OUTPUT TIME FORMAT and SLURM_TIME_FORMAT. Without an offset a time is of the
zone of the client that ran sacct.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

NO_TIME = frozenset(("", "Unknown", "None", "N/A", "(null)"))
_NO_DURATION = NO_TIME | {"UNLIMITED", "Partition_Limit", "INVALID", "NONE"}

_EPOCH = re.compile(r"[0-9]{9,10}")
_DURATION = re.compile(
    r"(?:([0-9]{1,6})-)?(?:([0-9]{1,7}):)?([0-9]{1,6}):([0-9]{1,2})(?:\.[0-9]+)?"
)
_WALL = 19  # characters of 2026-02-03T04:05:06
_SEPARATORS = ((4, "-"), (7, "-"), (13, ":"), (16, ":"))
_ZONED = {20: (), 24: (20, 21, 22, 23), 25: (20, 21, 23, 24)}  # Z, +hhmm, +hh:mm: digit places

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Times:
    """A column of times: microseconds where `is_known`, unreadable texts by row."""

    us: Ints
    is_known: Bools
    is_utc: Bools  # an offset or an epoch stood there; else a wall clock read as if it were UTC
    unreadable: dict[int, str]


def read_times(texts: pa.Array) -> Times:
    """The times of a column of text.

    `2026-02-03T04:05:06`, a blank for the T, an offset (`Z`, `+0100`, `+01:00`) or whole seconds
    since 1970; words that say "no time" give unknown ones.
    """
    n_rows = len(texts)
    if texts.null_count == n_rows:
        return _no_times(n_rows)
    coded = texts.dictionary_encode()  # steps repeat the times of their job
    distinct = _read_distinct(coded.dictionary)
    codes = coded.indices.fill_null(0).to_numpy()
    is_known = distinct.is_known[codes]
    if coded.null_count:
        is_known &= coded.is_valid().to_numpy(zero_copy_only=False)
    unreadable = {
        row: text
        for code, text in distinct.unreadable.items()
        for row in np.flatnonzero(coded.indices.fill_null(-1).to_numpy() == code).tolist()
    }
    return Times(distinct.us[codes], is_known, distinct.is_utc[codes] & is_known, unreadable)


def _no_times(n_rows: int) -> Times:
    return Times(
        np.zeros(n_rows, np.int64), np.zeros(n_rows, np.bool_), np.zeros(n_rows, np.bool_), {}
    )


def _read_distinct(texts: pa.Array) -> Times:
    n_rows = len(texts)
    times = _no_times(n_rows)
    offsets = np.frombuffer(texts.buffers()[1], dtype=np.int32, count=n_rows + 1)
    data = np.frombuffer(texts.buffers()[2], dtype=np.uint8)
    lengths = np.diff(offsets)
    for length in (_WALL, *_ZONED):
        rows = np.flatnonzero(lengths == length)
        if rows.size:
            _read_iso(times, rows, data[offsets[rows][:, None] + np.arange(length)])
    rest = np.flatnonzero(~times.is_known)
    for row, text in zip(rest.tolist(), texts.take(pa.array(rest)).to_pylist(), strict=True):
        if text in NO_TIME:
            continue
        if _EPOCH.fullmatch(text):
            times.us[row], times.is_known[row], times.is_utc[row] = int(text) * 10**6, True, True
        else:
            times.unreadable[row] = text
    return times


def _read_iso(times: Times, rows: npt.NDArray[np.intp], chars: npt.NDArray[np.uint8]) -> None:
    """Fill in the rows whose characters are a time of the calendar."""
    digits = (chars - ord("0")).astype(np.int64)  # other characters wrap to more than 9
    parts = {
        "year": (0, 1, 2, 3), "month": (5, 6), "day": (8, 9), "hour": (11, 12), "minute": (14, 15),
        "second": (17, 18),
    }  # fmt: skip
    is_good = np.isin(chars[:, 10], (ord("T"), ord(" ")))
    for place, char in _SEPARATORS:
        is_good &= chars[:, place] == ord(char)
    at = {}
    for name, places in parts.items():
        at[name], is_number = _number(digits, places)
        is_good &= is_number
    is_good &= (at["month"] >= 1) & (at["month"] <= 12) & (at["day"] >= 1)
    is_good &= (at["hour"] < 24) & (at["minute"] < 60) & (at["second"] < 60)
    months = np.where(is_good, (at["year"] - 1970) * 12 + at["month"] - 1, 0)
    first_day = months.astype("M8[M]").astype("M8[D]").astype(np.int64)
    next_month = (months + 1).astype("M8[M]").astype("M8[D]").astype(np.int64)
    is_good &= first_day + at["day"] <= next_month
    seconds = (first_day + at["day"] - 1) * 86_400
    seconds += at["hour"] * 3_600 + at["minute"] * 60 + at["second"]
    is_zoned = chars.shape[1] > _WALL
    if is_zoned:
        shift, has_zone = _zone_s(chars, digits)
        seconds -= shift
        is_good &= has_zone
    good = rows[is_good]
    times.us[good] = seconds[is_good] * 1_000_000
    times.is_known[good] = True
    times.is_utc[good] = is_zoned


def _zone_s(chars: npt.NDArray[np.uint8], digits: Ints) -> tuple[Ints, Bools]:
    """Seconds east of UTC, and where the characters say so."""
    sign, places = chars[:, _WALL], _ZONED[chars.shape[1]]
    if not places:
        return np.zeros(len(chars), np.int64), sign == ord("Z")
    hours, is_hours = _number(digits, places[:2])
    minutes, is_minutes = _number(digits, places[2:])
    is_good = is_hours & is_minutes & (hours < 24) & (minutes < 60)
    is_good &= np.isin(sign, (ord("+"), ord("-")))
    if len(digits[0]) == 25:
        is_good &= chars[:, 22] == ord(":")
    return np.where(sign == ord("-"), -1, 1) * (hours * 3_600 + minutes * 60), is_good


def _number(digits: Ints, places: tuple[int, ...]) -> tuple[Ints, Bools]:
    """The number that stands in those places, and where all of them are digits."""
    value = np.zeros(len(digits), np.int64)
    is_number = np.ones(len(digits), np.bool_)
    for place in places:
        value = value * 10 + digits[:, place]
        is_number &= digits[:, place] <= 9
    return value, is_number


def duration_s(text: str) -> int | None:
    """Whole seconds of `[D-]HH:MM:SS` or `MM:SS.mmm`; None for "no limit" and the like.

    ValueError for any other text.
    """
    if text in _NO_DURATION:
        return None
    found = _DURATION.fullmatch(text)
    if not found:
        raise ValueError(text)
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
