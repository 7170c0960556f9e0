"""Dense step lines in bulk: the columns of thousands of equal lines at once, by Polars.

The first line of a block that a key-value rule reads becomes a template: its launcher prefix, the
width of its time, its keys by position. All lines that fit it exactly are split and cast as
columns; a line that differs in anything is left for the rule itself: both ways give equal rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from parsers.formats import Block
from parsers.prefixes import Peeled, peel
from parsers.tables import StampKind, StampSource
from parsers.training import _FLOATS, _INTEGERS, MAX_STEP, KeyValues, Rejected, Rule

MAX_TEMPLATES = 32
"""Interleaved ranks and forks need some; a block with more is read line by line."""

MAX_TEMPLATE_CHARS = 4096
"""A step line is shorter; a longer one is none, or not worth a template."""

_HIGH_TO_MARK = bytes(b if b < 128 else ord("?") for b in range(256))
_TIME_WIDTHS = (19, 26)  # `2026-02-01 00:00:10`, with or without microseconds


@dataclass(frozen=True)
class DenseRows:
    """Train events read in bulk, and the lines of the block that are left to be read singly."""

    rows: list[pa.Table]
    leftover: npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Template:
    """How the lines of one writer look: constants around the values."""

    sep: str
    n_pieces: int
    before_time: str | None  # text up to the time; None where the lines have none
    time_width: int
    before_step: str  # text between the time (or the line's begin) and the step
    fields: tuple[tuple[int, str, str | None], ...]  # (piece, "key:", name)
    rank: int | None
    node: str | None


def read_dense(block: Block, rule: Rule, literal: str, file_id: str) -> DenseRows:
    """Bulk rows of all lines of the block that hold `literal` and fit a template of `rule`."""
    lines = _lines_with(block, literal)
    parts: list[pa.Table] = []
    for _ in range(MAX_TEMPLATES):
        if lines.is_empty():
            break
        template = _learn(lines["text"][0], rule)
        if template is None:
            break
        read = _read(lines, template, block)
        fits = read["fits"]
        if not fits[0]:
            break
        parts.append(_rows(read.filter(fits), template, rule, block, file_id))
        lines = lines.filter(~fits)
    return DenseRows(parts, lines["line"].to_numpy().astype(np.int64))


def _lines_with(block: Block, literal: str) -> pl.DataFrame:
    """(line, text) of the lines that hold the literal; high bytes become `?`, one for one."""
    data = bytes(block.data)
    if not data.isascii():
        data = data.translate(_HIGH_TO_MARK)
    offsets = np.append(block.starts, len(data)).astype(np.int64)
    text = pa.Array.from_buffers(
        pa.large_string(), len(block.starts), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
    frame = pl.DataFrame({"text": pl.from_arrow(text)}).with_row_index("line")
    found = frame.filter(pl.col("text").str.contains(literal, literal=True))
    return found.with_columns(pl.col("text").str.strip_suffix("\n").str.strip_suffix("\r"))


def _learn(text: str, rule: Rule) -> _Template | None:
    """The template of a line; None where its lines must be read by the rule."""
    peeled = peel(text)
    kv = rule.kv
    match = rule.regex.search(peeled.payload) if len(text) <= MAX_TEMPLATE_CHARS else None
    if kv is None or match is None or not _is_plain(text, peeled, rule):
        return None
    shift = len(text) - len(peeled.payload)
    end = f" {kv.sep}"
    pieces = text.removesuffix(end).split(f"{end} ")
    fields = _fields(pieces, kv)
    step_from = shift + match.start("step")
    if fields is None or kv.sep in "".join(pieces) or step_from > len(pieces[0]):
        return None  # separators without blanks, or pairs before the step
    before_time, width, after_time = None, 0, 0
    if match["ts"] is not None:
        time_from, width = shift + match.start("ts"), len(match["ts"])
        if width not in _TIME_WIDTHS or match["ts"][10] != " " or "," in match["ts"]:
            return None
        before_time, after_time = text[:time_from], time_from + width
    elif peeled.line_stamp is not None:
        return None
    before_step = text[after_time:step_from].rstrip(" ")
    return _Template(
        kv.sep, len(pieces), before_time, width, before_step, fields, peeled.rank, peeled.node
    )


def _is_plain(text: str, peeled: Peeled, rule: Rule) -> bool:
    """Whether a constant prefix, one step and whole pairs are all that a line holds."""
    if rule.kv is None or not rule.kv.is_closed or not text.endswith(f" {rule.kv.sep}"):
        return False
    if peeled.stamp is not None or "\r" in text or not text.endswith(peeled.payload):
        return False
    rows = rule.apply(peeled.payload)
    return len(rows) == 1 and not isinstance(rows[0], Rejected)


def _fields(pieces: list[str], kv: KeyValues) -> tuple[tuple[int, str, str | None], ...] | None:
    """(piece, its text up to the value, name or None) of all pieces behind the first."""
    fields: list[tuple[int, str, str | None]] = []
    for at, piece in enumerate(pieces[1:], start=1):
        key, assign, value = piece.partition(kv.assign)
        name = kv.map.get(key.strip())
        if not assign or (name is not None and name not in _INTEGERS and name not in _FLOATS):
            return None  # a time or a text among the pairs, or no pair: not for the bulk path
        blanks = value[: len(value) - len(value.lstrip(" "))] if name in _FLOATS else ""
        fields.append((at, key + assign + blanks, name))
    names = [name for _, _, name in fields if name is not None]
    return tuple(fields) if len(names) == len(set(names)) else None


def _read(lines: pl.DataFrame, template: _Template, block: Block) -> pl.DataFrame:
    """Typed columns of every line, and `fits`: whether the line is exactly of the template."""
    end = f" {template.sep}"
    text = lines["text"]
    fits = text.str.ends_with(end)
    # the last piece holds the rest: with a separator too many it is no value
    pieces = text.str.splitn(f"{end} ", template.n_pieces).struct.unnest()
    last = f"field_{template.n_pieces - 1}"
    pieces = pieces.with_columns(pl.col(last).str.strip_suffix(end))
    fits &= ~pieces[last].str.contains(template.sep, literal=True)
    head = pieces["field_0"]
    columns: dict[str, pl.Series] = {}
    if template.before_time is not None:
        fits &= head.str.starts_with(template.before_time)
        at = len(template.before_time)
        columns["stamp_us"] = _stamps(block, lines["line"], at, template.time_width)
        head = head.str.slice(at + template.time_width)
    fits &= head.str.starts_with(template.before_step)
    step = head.str.slice(len(template.before_step)).str.split_exact("/", 1).struct.unnest()
    columns["step_to"], columns["total_steps"] = _counts(step["field_0"]), _counts(step["field_1"])
    for at, key, name in template.fields:
        fits &= pieces[f"field_{at}"].str.starts_with(key)
        if name is None:
            continue
        value = pieces[f"field_{at}"].str.slice(len(key))
        if name in _INTEGERS:
            columns[_INTEGERS[name]] = _counts(value)
        else:
            column, factor = _FLOATS[name]
            number = value.cast(pl.Float64, strict=False)
            number = number * factor if factor != 1 else number
            if column in ("duration_ms", "step_ms"):
                fits &= number.is_between(0, 1e12)
            columns[column] = number
    for values in columns.values():
        if values.null_count():
            fits &= values.is_not_null()
    return lines.with_columns(**columns, fits=fits.fill_null(value=False))


def _counts(text: pl.Series) -> pl.Series:
    """Whole numbers, null where there is none or it can be no count."""
    number = text.str.strip_chars(" ").cast(pl.Int64, strict=False)
    low, high = number.min(), number.max()
    if isinstance(low, int) and isinstance(high, int) and low >= 0 and high <= MAX_STEP:
        return number
    return number.set(~number.is_between(0, MAX_STEP), None)


def _stamps(block: Block, lines: pl.Series, at: int, width: int) -> pl.Series:
    """Microseconds of `YYYY-MM-DD HH:MM:SS[.ffffff]` at a fixed place of each line; else null.

    Digits are read as columns of bytes: a date parser is several times slower.
    """
    data = np.frombuffer(block.data, dtype=np.uint8)
    starts = block.starts[lines.to_numpy()] + at
    # a line that is too short fails the check of its separators or of the pieces behind
    windows = np.lib.stride_tricks.sliding_window_view(data, width)
    digits = windows[np.minimum(starts, len(windows) - 1)] - np.uint8(ord("0"))
    pattern = np.frombuffer(b"0000-00-00 00:00:00.000000"[:width], dtype=np.uint8)
    is_digit = pattern == ord("0")
    good = (digits[:, is_digit] <= 9).all(axis=1)
    good &= (digits[:, ~is_digit] == pattern[~is_digit] - np.uint8(ord("0"))).all(axis=1)
    columns = digits.T.astype(np.int64)

    def number(first: int, n_digits: int) -> npt.NDArray[np.int64]:
        value: npt.NDArray[np.int64] = columns[first].copy()
        for place in range(first + 1, first + n_digits):
            value = value * 10 + columns[place]
        return value

    year, month, day = number(0, 4), number(5, 2), number(8, 2)
    hour, minute, second = number(11, 2), number(14, 2), number(17, 2)
    micro = number(20, 6) if width > 19 else np.zeros_like(second)
    good &= (month >= 1) & (month <= 12) & (day >= 1) & (hour < 24) & (minute < 60) & (second < 60)
    # impossible months of damaged lines must not reach the calendar
    months = np.where(good, (year - 1970) * 12 + month - 1, 0)
    first_day = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    next_first = (months + 1).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    good &= day <= next_first - first_day
    seconds = ((first_day + day - 1) * 24 + hour) * 3600 + minute * 60 + second
    series = pl.Series(seconds * 1_000_000 + micro)
    return series if good.all() else series.set(pl.Series(~good), None)


def _rows(
    read: pl.DataFrame, template: _Template, rule: Rule, block: Block, file_id: str
) -> pa.Table:
    index = read["line"].to_numpy().astype(np.int64)
    offsets = block.byte_offset + block.starts[index]
    values = read.drop("line", "text", "fits")
    constants: dict[str, object] = {
        "file_id": file_id, "rank": template.rank, "node": template.node, "dialect": rule.dialect,
        "phase": "instant", **rule.emit, **rule.set,
    }  # fmt: skip
    if "stamp_us" in values.columns:
        width = template.time_width
        constants |= {
            "stamp_kind": str(StampKind.LOCAL), "stamp_source": str(StampSource.INLINE),
            "stamp_resolution_s": 1e-6 if width > 19 else 1.0,
        }  # fmt: skip
    evidence = {"line": block.first_line + index, "byte_offset": offsets, "seq": offsets}
    rows = values.to_arrow(compat_level=pl.CompatLevel.oldest())
    for name, numbers in evidence.items():
        rows = rows.append_column(name, pa.array(numbers))
    for name, value in constants.items():
        if value is not None:
            rows = rows.append_column(name, _constant(value, len(index)))
    return rows


def _constant(value: object, n_rows: int) -> pa.Array:
    """One value for all rows; a text is held once."""
    if isinstance(value, str):
        places = pa.array(np.zeros(n_rows, dtype=np.int32))
        return pa.DictionaryArray.from_arrays(places, pa.array([value]))
    return pa.array(np.full(n_rows, value))
