"""`sacct -p/-P` text with any delimiter and any columns.

Source: sacct(1). The output has no quoting: a free-text cell may hold newlines and the delimiter,
so rows are joined until the header's number of cells is reached, and never guessed at beyond it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from parsers.formats import Block, Facts, ParseContext, Sniff
from parsers.sacct_columns import USED_COLUMNS, bounded, typed_rows
from parsers.sacct_layout import (
    Layout,
    is_dashes,
    is_fixed_width_header,
    layout_of,
    read_header,
)
from parsers.sacct_records import OTHER_HEADER, Joiner, Record
from parsers.tables import ACCOUNTING_ROW, REJECT

_FIXED_WIDTH = (
    "fixed-width sacct output cuts its cells; run sacct with -P (and --delimiter) instead"
)
_BYTE_ORDER_MARK = "\ufeff".encode()
_STAND_INS = [*range(0x1F, 0x0D, -1), *range(1, 9)]  # bytes that may replace a long delimiter

Lines = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class SlurmAccounting:
    """Job and step rows of Slurm's accounting."""

    name = "sacct"
    version = "2"
    spans_lines = False

    def sniff(self, head: bytes, file_name: str) -> Sniff:
        """Sure when a header line of known column names stands in the head, behind any banner.

        Fixed-width output is claimed too: all its rows become rejects that say what to do. Without
        a header nothing is claimed. The detail holds delimiter, columns, trailing, header_offset.
        """
        if b"jobid" not in head.lower():
            return Sniff(self.name, 0.0)
        offset = 0
        raw_lines = head.split(b"\n")
        for raw, following in zip(raw_lines, [*raw_lines[1:], None], strict=True):
            if b"jobid" in raw[:8192].lower():
                line = _text(raw)
                if layout := read_header(line, offset):
                    return Sniff(self.name, 0.95, layout.detail())
                below = None if following is None else _text(following)
                if is_fixed_width_header(line, below):
                    detail = {"layout": "fixed width", "header": line, "header_offset": str(offset)}
                    return Sniff(self.name, 0.9, detail)
            offset += len(raw) + 1
        return Sniff(self.name, 0.0)

    def is_record_start(self, line: bytes, sniff: Sniff) -> bool:
        """A line with all cells whose JobID looks like one: no piece of a torn row does."""
        layout = layout_of(sniff.detail)
        if layout is None:
            return True
        text = _text(line)
        return text.count(layout.delimiter) == layout.n_delimiters and layout.begins_row(text)

    def parse(self, blocks: Iterator[Block], context: ParseContext) -> Facts:
        """Accounting rows and rejects of the blocks.

        Lines before the header are not claimed; the same header again (joined dumps) is skipped;
        another header is a reject, and the rows below it are read by the first one.
        """
        facts = Facts()
        layout = layout_of(context.sniff.detail)
        if layout is None:
            return _reject_fixed_width(blocks, context, facts)
        reader = _Reader(layout, context.file_id, facts)
        for block in blocks:
            reader.read(block)
        reader.finish()
        return facts


class _Reader:
    """Reads the blocks of one chunk; a row that may go on in the next block stays in `_joiner`."""

    def __init__(self, layout: Layout, file_id: str, facts: Facts) -> None:
        self._layout = layout
        self._file_id = file_id
        self._facts = facts
        self._records: list[Record] = []  # put together in Python: torn or otherwise odd
        self._joiner = Joiner(layout, self._records.append)

    def read(self, block: Block) -> None:
        """Add the facts of one block."""
        self._facts.n_lines += len(block.starts)
        if (first := self._first_line(block)) == len(block.starts):
            return
        counts = _count_delimiters(block, self._layout.delimiter)
        is_whole = counts == self._layout.n_delimiters
        is_whole[:first] = False
        data = bytes(block.data)
        is_rest = is_whole & ~self._join(block, first, counts, is_whole)
        is_odd = _odd_lines(block, data)
        for index in np.flatnonzero(is_rest & is_odd).tolist():
            self._records.append(_record(block, index))
        blanks = np.flatnonzero(block.ends[first:] - block.starts[first:] <= 1)
        n_blank = sum(not block.line(first + i).strip() for i in blanks.tolist())
        self._facts.claimed_lines += len(block.starts) - first - n_blank
        self._add(block, data, np.flatnonzero(is_rest & ~is_odd))

    def finish(self) -> None:
        """Add what was still open at the end of the chunk."""
        self._joiner.whole()
        self._add(None, b"", np.empty(0, np.int64))

    def _first_line(self, block: Block) -> int:
        """Index of the first line that is no banner: the header, or what comes behind it."""
        return int(np.searchsorted(block.starts, self._layout.header_offset - block.byte_offset))

    def _join(self, block: Block, first: int, counts: Lines, is_whole: Mask) -> Mask:
        """Put torn rows together; which whole rows were lengthened or kept for later."""
        joiner, is_taken = self._joiner, np.zeros(len(is_whole), np.bool_)
        fed = ~is_whole
        fed[:first] = False
        if self._layout.is_open_ended:
            fed[first:-1] |= fed[first + 1 :]
            fed[-1] = True
        if joiner.is_open:
            fed[first] = True
        before = first - 1
        for index in np.flatnonzero(fed).tolist():
            if index != before + 1:
                joiner.whole()
            before = index
            if not is_whole[index]:
                record = _record(block, index)
                joiner.piece(record.line, record.byte_offset, record.text, int(counts[index]))
            elif self._layout.is_open_ended:
                record = _record(block, index)
                joiner.row(record.line, record.byte_offset, record.text)
                is_taken[index] = True
            else:
                joiner.whole()
        if before != len(is_whole) - 1:
            joiner.whole()
        return is_taken

    def _add(self, block: Block | None, data: bytes, bulk: Lines) -> None:
        """Add the bulk rows of a block and the records that are ready."""
        records = sorted(self._records, key=lambda record: record.byte_offset)
        self._records.clear()
        for record in records:
            if record.problem is not None:
                self._reject(record, record.problem)
        rows = [record for record in records if record.problem is None]
        cells = [_cells_of_records(rows, self._layout)]
        lines = [np.array([record.line for record in rows], np.int64)]
        offsets = [np.array([record.byte_offset for record in rows], np.int64)]
        if block is not None and bulk.size:
            cells.append(_cells_of_lines(block, data, bulk, self._layout))
            lines.append(block.first_line + bulk)
            offsets.append(block.byte_offset + block.starts[bulk])
        line, offset, table = np.concatenate(lines), np.concatenate(offsets), _concat(cells)
        if not line.size:
            return
        if rows and (np.diff(offset) < 0).any():
            order = np.argsort(offset, kind="stable")
            line, offset, table = line[order], offset[order], table.take(pa.array(order))
        typed, problems = typed_rows(table)
        self._add_typed(typed, line, offset, problems)
        if problems:
            texts = {record.byte_offset: record.text for record in rows}
            for row, problem in problems.items():
                at = int(offset[row])
                text = texts[at] if at in texts or block is None else _text_at(block, at)
                self._reject_row(Record(int(line[row]), at, text, problem))

    def _add_typed(
        self, typed: pa.Table, line: Lines, offset: Lines, problems: dict[int, str]
    ) -> None:
        places = {"line": line, "byte_offset": offset, "seq": offset}
        columns = {"file_id": pa.repeat(self._file_id, len(line))}
        columns |= {name: pa.array(values) for name, values in places.items()}
        table = pa.table(columns | dict(zip(typed.column_names, typed.columns, strict=True)))
        if problems:
            is_good = np.ones(len(line), np.bool_)
            is_good[list(problems)] = False
            table = table.filter(pa.array(is_good))
        if table.num_rows:
            self._facts.add_table(ACCOUNTING_ROW, table)

    def _reject_row(self, record: Record) -> None:
        """Reject a row with all cells, unless it is a header line."""
        header = read_header(record.text) if "jobid" in record.text.lower() else None
        if header is None:
            self._reject(record, record.problem or "")
        elif not header.same_as(self._layout):
            self._reject(record, OTHER_HEADER)

    def _reject(self, record: Record, problem: str) -> None:
        self._facts.add(REJECT, _reject_fact(self._file_id, record, problem))


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace").removesuffix("\r")


def _record(block: Block, index: int) -> Record:
    offset = block.byte_offset + int(block.starts[index])
    return Record(block.first_line + index, offset, _text(block.line(index)))


def _text_at(block: Block, byte_offset: int) -> str:
    index = int(np.searchsorted(block.starts, byte_offset - block.byte_offset))
    return _text(block.line(index))


def _count_delimiters(block: Block, delimiter: str) -> Lines:
    """How often the delimiter stands in each line."""
    if len(delimiter.encode()) == 1:
        is_delimiter = np.frombuffer(block.data, np.uint8) == ord(delimiter)
        bytes_before = np.append(block.starts, len(block.data))
        return np.diff(np.searchsorted(np.flatnonzero(is_delimiter), bytes_before))
    bounds = np.append(block.starts, len(block.data)).astype(np.int64)
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(block.data)]
    lines = pa.Array.from_buffers(pa.large_binary(), len(block.starts), buffers)
    counts: Lines = pc.count_substring(lines, delimiter).to_numpy().astype(np.int64)
    return counts


def _odd_lines(block: Block, data: bytes) -> Mask:
    """Lines that a CSV reader takes otherwise than we do: bad UTF-8, a `\\r` inside, a BOM."""
    is_odd = np.zeros(len(block.starts), np.bool_)
    if data.isascii() and b"\r" not in data:
        return is_odd
    chars = np.frombuffer(data, np.uint8)
    suspects = np.flatnonzero((chars >= 0x80) | (chars == ord("\r")))
    lines = np.unique(np.searchsorted(block.starts, suspects, side="right") - 1)
    is_odd[lines] = [_is_odd(block.line(i)) for i in lines.tolist()]
    return is_odd


def _is_odd(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return True
    return b"\r" in line.removesuffix(b"\r") or line.startswith(_BYTE_ORDER_MARK)


def _cells_of_lines(block: Block, data: bytes, lines: Lines, layout: Layout) -> pa.Table:
    """The used cells of whole rows, read in bulk."""
    text, delimiter = _joined_lines(block, data, lines), layout.delimiter.encode()
    if len(delimiter) > 1:
        stand_in = next((b for b in _STAND_INS if bytes([b]) not in data), None)
        if stand_in is None:
            return _cells_of_records([_record(block, i) for i in lines.tolist()], layout)
        delimiter = bytes([stand_in])
        text = bytes(text).replace(layout.delimiter.encode(), delimiter)
    names = [*layout.columns, *([" trailing"] if layout.has_trailing else [])]
    used = [name for name in layout.columns if name in USED_COLUMNS]
    table = csv.read_csv(
        pa.BufferReader(pa.py_buffer(text)),
        csv.ReadOptions(use_threads=False, block_size=len(text) + 1, column_names=names),
        csv.ParseOptions(delimiter=delimiter.decode(), quote_char=False, double_quote=False),
        csv.ConvertOptions(
            column_types=dict.fromkeys(used, pa.string()), include_columns=used, check_utf8=False,
            null_values=[""], strings_can_be_null=True,
        ),
    )  # fmt: skip
    return _trimmed(table) if layout.is_padded else table


def _trimmed(table: pa.Table) -> pa.Table:
    columns = [pc.utf8_trim(column, " ") for column in table.columns]
    empty = pa.scalar(None, pa.string())
    columns = [pc.if_else(pc.equal(column, ""), empty, column) for column in columns]
    return pa.table(columns, names=table.column_names)


def _joined_lines(block: Block, data: bytes, lines: Lines) -> bytes | memoryview:
    """The bytes of those lines, their newlines included."""
    breaks = np.flatnonzero(np.diff(lines) != 1) + 1
    firsts = lines[np.concatenate(([0], breaks))]
    lasts = lines[np.concatenate((breaks - 1, [len(lines) - 1]))]
    spans = zip(block.starts[firsts].tolist(), (block.ends[lasts] + 1).tolist(), strict=True)
    parts = [memoryview(data)[start:end] for start, end in spans]
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _cells_of_records(records: Sequence[Record], layout: Layout) -> pa.Table:
    """The used cells of whole rows, one by one."""
    rows = [layout.split(record.text) for record in records]
    used = [i for i, name in enumerate(layout.columns) if name in USED_COLUMNS]
    columns = [pa.array([row[i] or None for row in rows], pa.string()) for i in used]
    return pa.table(columns, names=[layout.columns[i] for i in used])


def _concat(tables: Sequence[pa.Table]) -> pa.Table:
    filled = [table for table in tables if table.num_rows]
    return pa.concat_tables(filled) if filled else tables[0]


def _reject_fact(file_id: str, record: Record, problem: str) -> dict[str, object]:
    return {
        "file_id": file_id, "line": record.line, "byte_offset": record.byte_offset,
        "seq": record.byte_offset, "format": SlurmAccounting.name, "reason": problem,
        "raw": bounded(record.text),
    }  # fmt: skip


def _reject_fixed_width(blocks: Iterator[Block], context: ParseContext, facts: Facts) -> Facts:
    header, header_offset = context.sniff.detail["header"], context.sniff.detail["header_offset"]
    for block in blocks:
        facts.n_lines += len(block.starts)
        first = int(np.searchsorted(block.starts, int(header_offset) - block.byte_offset))
        for index in range(first, len(block.starts)):
            record = _record(block, index)
            if not record.text.strip():
                continue
            facts.claimed_lines += 1
            if record.text != header and not is_dashes(record.text):
                facts.add(REJECT, _reject_fact(context.file_id, record, _FIXED_WIDTH))
    return facts
