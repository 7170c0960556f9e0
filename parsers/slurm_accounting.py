"""`sacct -p/-P` text with any delimiter and any columns.

Source: sacct(1). The output has no quoting: a free-text cell may hold newlines and the delimiter,
so rows are joined until the header's number of cells is reached, and never guessed at beyond it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import polars as pl
import pyarrow as pa

from parsers.formats import Block, Facts, ParseContext, Sniff
from parsers.sacct_columns import KNOWN_COLUMNS, typed_rows
from parsers.tables import ACCOUNTING_ROW, MAX_TEXT_BYTES, REJECT

_CELL_SEP = "\x1f"
_HEADER_LINES = 60
_JOB_ID = re.compile(
    r"\d+(?:_(?:\d+|\[[^\]]+\]))?(?:\+\d+)?(?:\.(?:batch|extern|interactive|TBD|\d+)(?:\+\d+)?)?"
)
_FIXED_WIDTH = (
    "fixed-width sacct output cuts its cells; run sacct with -P (and --delimiter) instead"
)


@dataclass(frozen=True)
class _Layout:
    """What the header line says."""

    delimiter: str
    columns: tuple[str, ...]  # case-folded
    header: str
    n_delimiters: int

    @classmethod
    def of(cls, detail: Sniff) -> _Layout:
        columns = tuple(detail.detail["columns"].split(_CELL_SEP))
        trailing = detail.detail["trailing"] == "1"
        return cls(
            detail.detail["delimiter"], columns, detail.detail["header"],
            len(columns) - (not trailing),
        )  # fmt: skip


@dataclass
class _Pending:
    """Pieces of a row that newlines inside a cell tore apart."""

    line: int = 0
    byte_offset: int = 0
    text: str = ""
    n_delimiters: int = 0
    pieces: list[str] = field(default_factory=list)


class SlurmAccounting:
    """Job and step rows of Slurm's accounting."""

    name = "sacct"
    version = "1"

    def sniff(self, head: bytes, file_name: str) -> Sniff:
        """Sure when a header line of known column names stands near the top."""
        for raw in head.split(b"\n")[:_HEADER_LINES]:
            line = raw.decode("utf-8", "replace").rstrip("\r")
            if "JobID" not in line and "jobid" not in line.lower():
                continue
            if layout := _header(line):
                return Sniff(self.name, 0.95, {
                    "delimiter": layout.delimiter,
                    "columns": _CELL_SEP.join(layout.columns),
                    "header": line,
                    "trailing": "1" if layout.n_delimiters == len(layout.columns) else "0",
                })  # fmt: skip
            names = line.split()
            if len(names) >= 3 and all(n.lower() in KNOWN_COLUMNS for n in names):
                return Sniff(self.name, 0.9, {"layout": "fixed width"})
        return Sniff(self.name, 0.0)

    def is_record_start(self, line: bytes, sniff: Sniff) -> bool:
        """A line with all cells whose JobID looks like one: no piece of a torn row does."""
        if "columns" not in sniff.detail:
            return True
        layout = _Layout.of(sniff)
        cells = line.decode("utf-8", "replace").rstrip("\r").split(layout.delimiter)
        if len(cells) != layout.n_delimiters + 1:
            return False
        at = layout.columns.index("jobid") if "jobid" in layout.columns else 0
        return _JOB_ID.fullmatch(cells[at].strip()) is not None

    def parse(self, blocks: Iterator[Block], context: ParseContext) -> Facts:
        """Accounting rows and rejects of the blocks."""
        facts = Facts()
        if "columns" not in context.sniff.detail:
            return _reject_fixed_width(blocks, context.file_id, facts)
        layout = _Layout.of(context.sniff)
        pending = _Pending()
        has_begun = False
        for block in blocks:
            facts.n_lines += len(block.starts)
            lines = _lines_of(block, layout)
            header = lines["text"] == layout.header
            if not has_begun and block.byte_offset < len(context.head):
                # whatever stands before the header is a banner, not a row
                at = header.arg_max() if header.any() else None
                if at is not None:
                    lines, header = lines.slice(at), header.slice(at)
                has_begun = at is not None
            lines = lines.filter(~header)
            regular = lines.filter(pl.col("n_delimiters") == layout.n_delimiters)
            _add_rows(regular, layout, context.file_id, facts)
            irregular = lines.filter(pl.col("n_delimiters") != layout.n_delimiters)
            if pending.pieces or not irregular.is_empty():
                _join(lines, pending, layout, context.file_id, facts)
        if pending.pieces:
            _reject_pending(pending, layout, context.file_id, facts)
        return facts


def _header(line: str) -> _Layout | None:
    """The layout of a header line: known names with one constant text between them."""
    names = list(re.finditer(r"[A-Za-z][A-Za-z0-9]*", line))
    if len(names) < 2 or names[0][0].lower() not in KNOWN_COLUMNS:
        return None
    delimiter = line[names[0].end() : names[1].start()].strip(" ")
    if not delimiter:
        return None
    cells = [c.strip().lower() for c in line.split(delimiter)]
    trailing = cells[-1] == ""
    cells = cells[:-1] if trailing else cells
    n_known = sum(c in KNOWN_COLUMNS for c in cells)
    if "jobid" not in cells and "jobidraw" not in cells:
        return None
    if n_known < 2 or n_known < 0.8 * len(cells):
        return None
    # a column asked for twice keeps its first place
    cells = [c if c not in cells[:i] else f"{c} {i}" for i, c in enumerate(cells)]
    return _Layout(delimiter, tuple(cells), line, len(cells) - (not trailing))


def _lines_of(block: Block, layout: _Layout) -> pl.DataFrame:
    """(line, byte_offset, text, n_delimiters) of a block's lines, bad bytes replaced."""
    data = bytes(block.data)
    try:
        data.decode()
        offsets = np.append(block.starts, len(data)).astype(np.int64)
        array = pa.Array.from_buffers(
            pa.large_string(), len(block.starts), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        )
        text = pl.Series(pl.from_arrow(array))
    except UnicodeDecodeError:
        text = pl.Series([block.line(i).decode("utf-8", "replace")
                          for i in range(len(block.starts))], dtype=pl.String)  # fmt: skip
    return pl.DataFrame({
        "line": pl.Series(block.first_line + np.arange(len(block.starts), dtype=np.int64)),
        "byte_offset": pl.Series(block.byte_offset + block.starts),
        "text": text.str.strip_suffix("\n").str.strip_suffix("\r"),
    }).with_columns(
        n_delimiters=pl.col("text").str.count_matches(layout.delimiter, literal=True)
    )  # fmt: skip


def _add_rows(lines: pl.DataFrame, layout: _Layout, file_id: str, facts: Facts) -> None:
    """Rows with exactly the header's cells, as columns."""
    if lines.is_empty():
        return
    cells = lines["text"].str.split_exact(layout.delimiter, layout.n_delimiters).struct.unnest()
    cells = cells[:, : len(layout.columns)].rename(
        dict(zip(cells.columns[: len(layout.columns)], layout.columns, strict=True))
    )
    rows = typed_rows(cells)
    good = rows.filter(rows["problem"].is_null())
    places = lines.select("line", "byte_offset", pl.col("byte_offset").alias("seq"))
    facts.claimed_lines += lines.height
    whole = pl.concat([places.filter(rows["problem"].is_null()), good.drop("problem")],
                      how="horizontal").with_columns(file_id=pl.lit(file_id))  # fmt: skip
    facts.add_table(ACCOUNTING_ROW, whole.to_arrow(compat_level=pl.CompatLevel.oldest()))
    bad = rows["problem"].is_not_null()
    for line, offset, text, why in zip(
        lines["line"].filter(bad), lines["byte_offset"].filter(bad), lines["text"].filter(bad),
        rows["problem"].filter(bad), strict=True,
    ):  # fmt: skip
        _reject(facts, file_id, line, offset, why, text)


def _join(
    lines: pl.DataFrame, pending: _Pending, layout: _Layout, file_id: str, facts: Facts
) -> None:
    """Put torn rows together; what cannot become a row is rejected piece by piece."""
    joined: list[tuple[int, int, str]] = []
    wanted = layout.n_delimiters
    interesting = lines.filter(
        (pl.col("n_delimiters") != wanted) | (pl.col("n_delimiters").shift(1) != wanted)
        | (pl.int_range(pl.len()) == 0)
    )  # fmt: skip
    for line, offset, text, n_delimiters in interesting.iter_rows():
        if n_delimiters == wanted:
            if pending.pieces:
                _reject_pending(pending, layout, file_id, facts)
            continue
        if pending.pieces and pending.n_delimiters + n_delimiters > wanted:
            _reject_pending(pending, layout, file_id, facts)
        if not pending.pieces:
            if not text.strip():
                continue
            if n_delimiters > wanted:
                facts.claimed_lines += 1
                why = f"{n_delimiters + 1} cells where the header has {wanted + 1}"
                _reject(facts, file_id, line, offset, why, text)
                continue
            pending.line, pending.byte_offset, pending.n_delimiters = line, offset, 0
        pending.pieces.append(text)
        pending.n_delimiters += n_delimiters
        if pending.n_delimiters == wanted:
            joined.append((pending.line, pending.byte_offset, "\n".join(pending.pieces)))
            pending.pieces = []
    if joined:
        schema = {"line": pl.Int64, "byte_offset": pl.Int64, "text": pl.String}
        _add_rows(pl.DataFrame(joined, schema=schema, orient="row"), layout, file_id, facts)


def _reject_pending(pending: _Pending, layout: _Layout, file_id: str, facts: Facts) -> None:
    why = f"{pending.n_delimiters + 1} cells where the header has {layout.n_delimiters + 1}"
    facts.claimed_lines += 1
    _reject(facts, file_id, pending.line, pending.byte_offset, why, "\n".join(pending.pieces))
    pending.pieces = []


def _reject(facts: Facts, file_id: str, line: int, offset: int, why: str, text: str) -> None:
    facts.add(REJECT, {
        "file_id": file_id, "line": line, "byte_offset": offset, "seq": offset,
        "format": SlurmAccounting.name, "reason": why, "raw": text[:MAX_TEXT_BYTES],
    })  # fmt: skip


def _reject_fixed_width(blocks: Iterator[Block], file_id: str, facts: Facts) -> Facts:
    for block in blocks:
        facts.n_lines += len(block.starts)
        for i in range(len(block.starts)):
            text = block.line(i).decode("utf-8", "replace")
            if text.strip():
                facts.claimed_lines += 1
                _reject(facts, file_id, block.first_line + i,
                        block.byte_offset + int(block.starts[i]), _FIXED_WIDTH, text)  # fmt: skip
    return facts
