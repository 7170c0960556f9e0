"""Lines that only tell the time, in bulk: the commonest printed forms as columns of bytes.

A log with chatter that is stamped gives a mark a line. What differs from the forms here in anything
is left to be read singly: both ways give equal rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parsers.formats import Block
from parsers.tables import StampKind, StampSource

_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]
_Bytes = npt.NDArray[np.uint8]

_HEAD_BYTES = 32  # bracket, time, bracket and what tells whether a zone or label follows
_FRACTION_DIGITS = (0, 3, 6)
_DATE_TIME = b"0000-00-00 00:00:00"
# Behind the time and a blank: no other letter can begin a zone, no other `[` a launcher's label.
_WORDS = bytes(b for b in range(128) if chr(b).isalpha() and chr(b) not in "TUGZ")
_CAPITALS = bytes(range(ord("A"), ord("Z") + 1))


@dataclass(frozen=True)
class Marks:
    """Rows of `clock_mark`, and the lines that are left to be read singly."""

    rows: pa.Table | None
    leftover: _Ints


def read_marks(block: Block, lines: _Ints, file_id: str) -> Marks:
    """Marks of the lines that begin `2026-02-01 00:00:10,123 word` or the like, in brackets or not.

    Local times with 0, 3 or 6 digits of fraction, without zone, label or control codes.
    """
    is_long = block.ends[lines] - block.starts[lines] >= _HEAD_BYTES
    places = block.starts[lines[is_long]][:, None] + np.arange(_HEAD_BYTES)
    heads = np.frombuffer(block.data, dtype=np.uint8)[places]
    us = np.zeros(len(lines), dtype=np.int64)
    resolution_s = np.zeros(len(lines))  # 0 where the line is left
    is_bracketed = heads[:, 0] == ord("[")
    index = np.flatnonzero(is_long)
    for n_brackets in (0, 1):
        of_form = index[is_bracketed == n_brackets]
        text = heads[is_bracketed == n_brackets, n_brackets:]
        clock_us, is_time = _date_times(text)
        for n_digits in _FRACTION_DIGITS:
            end = len(_DATE_TIME) + (n_digits > 0) + n_digits
            fits = is_time & _ends_at(text, end, n_digits, is_bracketed=n_brackets == 1)
            fraction = _number(text, end - n_digits, n_digits) * 10 ** (6 - n_digits)
            us[of_form[fits]] = (clock_us + fraction)[fits]
            resolution_s[of_form[fits]] = float(10.0**-n_digits)
    is_read = resolution_s > 0
    read = lines[is_read]
    rows = _rows(block, read, us[is_read], resolution_s[is_read], file_id) if len(read) else None
    return Marks(rows, lines[~is_read])


def _date_times(text: _Bytes) -> tuple[_Ints, _Bools]:
    """Microseconds of `YYYY-MM-DD[ T]HH:MM:SS` at the begin of each row, and whether it is one."""
    pattern = np.frombuffer(_DATE_TIME, dtype=np.uint8)
    is_digit = pattern == ord("0")
    head = text[:, : len(pattern)]
    good = _is_digit(head[:, is_digit]).all(axis=1)
    is_constant = ~is_digit & (pattern != ord(" "))
    good &= (head[:, is_constant] == pattern[is_constant]).all(axis=1)
    good &= np.isin(head[:, 10], np.frombuffer(b" T", dtype=np.uint8))
    year, month = _number(text, 0, 4), _number(text, 5, 2)
    day, hour, minute, second = (_number(text, at, 2) for at in (8, 11, 14, 17))
    good &= (year >= 1900) & (year < 2100) & (month >= 1) & (month <= 12) & (day >= 1)
    good &= (hour < 24) & (minute < 60) & (second < 60)
    # what is no date must not reach the calendar
    months = np.where(good, (year - 1970) * 12 + month - 1, 0)
    first_day, next_first = (
        (months + n).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
        for n in (0, 1)
    )
    good &= day <= next_first - first_day
    seconds = (((first_day + day - 1) * 24 + hour) * 60 + minute) * 60 + second
    return seconds * 1_000_000, good


def _ends_at(text: _Bytes, end: int, n_digits: int, *, is_bracketed: bool) -> _Bools:
    """Whether the time has so many digits of fraction and is followed by a plain word."""
    good = np.ones(len(text), dtype=np.bool_)
    if n_digits:
        good &= np.isin(text[:, end - n_digits - 1], np.frombuffer(b".,", dtype=np.uint8))
        good &= _is_digit(text[:, end - n_digits : end]).all(axis=1)
    if is_bracketed:
        good &= text[:, end] == ord("]")
        end += 1
    good &= text[:, end] == ord(" ")
    is_word = np.isin(text[:, end + 1], np.frombuffer(_WORDS, dtype=np.uint8))
    is_level = text[:, end + 1] == ord("[")
    is_level &= np.isin(text[:, end + 2], np.frombuffer(_CAPITALS, dtype=np.uint8))
    return np.asarray(good & (is_word | is_level), dtype=np.bool_)


def _is_digit(text: _Bytes) -> _Bools:
    return np.asarray((text >= ord("0")) & (text <= ord("9")), dtype=np.bool_)


def _number(text: _Bytes, first: int, n_digits: int) -> _Ints:
    digits = text[:, first : first + n_digits].astype(np.int64) - ord("0")
    return np.asarray(digits @ 10 ** np.arange(n_digits)[::-1], dtype=np.int64)


def _rows(
    block: Block, lines: _Ints, us: _Ints, resolution_s: npt.NDArray[np.float64], file_id: str
) -> pa.Table:
    offsets = block.byte_offset + block.starts[lines]
    constants = {
        "file_id": file_id,
        "stamp_kind": str(StampKind.LOCAL),
        "stamp_source": str(StampSource.INLINE),
    }
    return pa.table(
        {
            "line": block.first_line + lines,
            "byte_offset": offsets,
            "seq": offsets,
            "stamp_us": us,
            "stamp_resolution_s": resolution_s,
            **{name: pa.repeat(value, len(lines)) for name, value in constants.items()},
        }
    )
