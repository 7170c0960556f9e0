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
from parsers.prefixes import peel
from parsers.tables import StampKind, StampSource
from parsers.training import _FLOATS, _INTEGERS, MAX_STEP, KeyValues, Rejected, Rule

MAX_TEMPLATES = 32
"""Interleaved ranks and forks need some; a block with more is read line by line."""

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
    """The template of a line; None where the rule does not read it or a prefix tells a time."""
    peeled = peel(text)
    match = rule.regex.search(peeled.payload)
    kv = rule.kv
    if kv is None or match is None or peeled.stamp is not None or not kv.is_closed:
        return None
    if not text.endswith(peeled.payload) or "\r" in text or len(rule.apply(peeled.payload)) != 1:
        return None
    if isinstance(rule.apply(peeled.payload)[0], Rejected):
        return None
    shift = len(text) - len(peeled.payload)
    pieces = text.split(kv.sep)
    step_from = shift + match.start("step")
    if step_from > len(pieces[0]):
        return None  # pairs before the step are the rule's affair
    before_time, width, step_text_from = None, 0, 0
    if match["ts"] is not None:
        time_from = shift + match.start("ts")
        width = len(match["ts"])
        if width not in _TIME_WIDTHS or match["ts"][10] != " " or "," in match["ts"]:
            return None
        before_time, step_text_from = text[:time_from], time_from + width
    elif peeled.line_stamp is not None:
        return None
    fields = _fields(pieces, kv)
    if fields is None:
        return None
    return _Template(
        n_pieces=len(pieces), before_time=before_time, time_width=width,
        before_step=text[step_text_from:step_from].rstrip(" "),
        fields=fields, rank=peeled.rank, node=peeled.node,
    )  # fmt: skip


def _fields(pieces: list[str], kv: KeyValues) -> tuple[tuple[int, str, str | None], ...] | None:
    """(piece, its text up to the value, name or None) of all pieces between the first and last."""
    fields: list[tuple[int, str, str | None]] = []
    for at, piece in enumerate(pieces[1:-1], start=1):
        key, assign, _ = piece.partition(kv.assign)
        name = kv.map.get(key.strip())
        if not assign or (name is not None and name not in _INTEGERS and name not in _FLOATS):
            return None  # a time or a text among the pairs, or no pair: not for the bulk path
        fields.append((at, key + assign, name))
    names = [name for _, _, name in fields if name is not None]
    return tuple(fields) if len(names) == len(set(names)) else None


def _read(lines: pl.DataFrame, template: _Template, block: Block) -> pl.DataFrame:
    """Typed columns of every line, and `fits`: whether the line is exactly of the template."""
    # the last piece holds the rest: any separator too many stands in it
    pieces = lines["text"].str.splitn("|", template.n_pieces).struct.unnest()
    fits = pieces[f"field_{template.n_pieces - 1}"].str.strip_chars(" ") == ""
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
            number = value.str.strip_chars(" ").cast(pl.Float64, strict=False) * factor
            if column in ("duration_ms", "step_ms"):
                fits &= number.is_between(0, 1e12)
            columns[column] = number
    for values in columns.values():
        fits &= values.is_not_null()
    return lines.with_columns(**columns, fits=fits.fill_null(value=False))


def _counts(text: pl.Series) -> pl.Series:
    """Whole numbers, null where there is none or it can be no count."""
    number = text.str.strip_chars(" ").cast(pl.Int64, strict=False)
    is_count = number.is_between(0, MAX_STEP)
    return number if is_count.all() else number.set(~is_count, None)


def _stamps(block: Block, lines: pl.Series, at: int, width: int) -> pl.Series:
    """Microseconds of `YYYY-MM-DD HH:MM:SS[.ffffff]` at a fixed place of each line; else null.

    Digits are read as columns of bytes: a date parser is several times slower.
    """
    data = np.frombuffer(block.data, dtype=np.uint8)
    starts = block.starts[lines.to_numpy()] + at
    # a line that is too short fails the check of its separators or of the pieces behind
    places = np.minimum(starts[:, None] + np.arange(width), len(data) - 1)
    digits = data[places] - np.uint8(ord("0"))
    pattern = np.frombuffer(b"0000-00-00 00:00:00.000000"[:width], dtype=np.uint8)
    is_digit = pattern == ord("0")
    good = (digits[:, is_digit] <= 9).all(axis=1)
    good &= (digits[:, ~is_digit] == pattern[~is_digit] - np.uint8(ord("0"))).all(axis=1)
    # one product gives every number: exact, for none has more than six digits
    numbers = (digits.astype(np.float64) @ _WEIGHTS[:width]).astype(np.int64)
    year, month, day, hour, minute, second, micro = numbers.T
    good &= (month >= 1) & (month <= 12) & (day >= 1) & (hour < 24) & (minute < 60) & (second < 60)
    # impossible months of damaged lines must not reach the calendar
    months = np.where(good, (year - 1970) * 12 + month - 1, 0)
    first_day = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    next_first = (months + 1).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    good &= day <= next_first - first_day
    seconds = ((first_day + day - 1) * 24 + hour) * 3600 + minute * 60 + second
    series = pl.Series(seconds * 1_000_000 + micro)
    return series if good.all() else series.set(pl.Series(~good), None)


def _weights() -> npt.NDArray[np.float64]:
    """Powers of ten by place in `YYYY-MM-DD HH:MM:SS.ffffff`, a column for each of its numbers."""
    weights = np.zeros((26, 7))
    for column, (first, n_digits) in enumerate(
        ((0, 4), (5, 2), (8, 2), (11, 2), (14, 2), (17, 2), (20, 6))
    ):
        weights[first : first + n_digits, column] = 10.0 ** np.arange(n_digits)[::-1]
    return weights


_WEIGHTS = _weights()


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
    frame = values.with_columns(
        line=pl.Series(block.first_line + index),
        byte_offset=pl.Series(offsets),
        seq=pl.Series(offsets),
        **{k: pl.lit(v) for k, v in constants.items() if v is not None},
    )
    return frame.to_arrow(compat_level=pl.CompatLevel.oldest())
