"""Parse one chunk of one file: the unit of parallel and incremental work.

A chunk is a byte range of a file; its facts are written as Arrow files into a folder of parts, with
lines counted from the beginning of the chunk.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from parsers.blocks import BlockReader, CutLine, UnreadableFileError, read_range
from parsers.formats import Block, Facts, ParseContext, Sniff, format_named
from parsers.tables import FACT_TABLES, REJECT
from pipeline.catalog import FilePlan, IngestOptions
from pipeline.contents import TAIL_BYTES, sha


@dataclass(frozen=True)
class ChunkTask:
    """One chunk to parse; everything that a worker needs."""

    number: int  # position of the chunk in the batch
    path: str
    file_id: str
    start: int
    end: int | None
    compression: str | None
    head: bytes
    sniff: Sniff
    dialect_dirs: tuple[str, ...]
    signature_dirs: tuple[str, ...]
    parts: str  # folder that takes the chunk's facts


@dataclass(frozen=True)
class ChunkResult:
    """What a worker says about a chunk; the facts stand in its parts."""

    n_lines: int
    next_byte: int
    tail_offset: int  # start of the last record if it may go on, else `next_byte`
    tail_line: int  # lines of the chunk before `tail_offset`
    truncated_reason: str | None
    claimed_lines: int
    n_rows: dict[str, int]
    tail_bytes: int = 0
    tail_sha: str = ""  # of the bytes before `next_byte`
    is_killer: bool = False
    is_replaced: bool = False  # the file holds another content by now: nothing of it is used


def plan_chunks(
    plan: FilePlan, first: int, parts: Path, options: IngestOptions, chunk_bytes: int
) -> list[ChunkTask]:
    """The chunks of a file, numbered from `first`: none if unrecognised.

    One if it is compressed or its records do not follow lines.
    """
    if plan.sniff is None:
        return []
    look = plan.look
    borders: list[int | None] = [plan.parsed_from]
    if look.compression is None and not format_named(plan.sniff.format).spans_lines:
        borders += range(plan.parsed_from + chunk_bytes, look.size_bytes, chunk_bytes)
        borders.append(look.size_bytes)
    else:
        borders.append(None)
    return [
        ChunkTask(
            first + i, str(look.path), plan.file_id, int(start or 0), end, look.compression,
            look.head, plan.sniff, options.dialect_dirs, options.signature_dirs, str(parts),
        )
        for i, (start, end) in enumerate(itertools.pairwise(borders))
    ]  # fmt: skip


def parse_chunk(task: ChunkTask) -> ChunkResult:
    """Parse one chunk and write its facts into the parts folder; runs in a worker."""
    parser = format_named(task.sniff.format)
    reader, tail = _reader(task)
    context = ParseContext(
        task.file_id, task.head, task.sniff, task.dialect_dirs, task.signature_dirs
    )
    try:
        facts = parser.parse(tail.watch(reader), context)
    except UnreadableFileError as error:
        facts = Facts()
        reader.truncated_reason = str(error.strerror)
    for cut in reader.cut_lines:
        facts.add(REJECT, _cut_line(task.file_id, cut))
        facts.claimed_lines += 1
    return _result(task, reader, tail, facts)


def skim_chunk(task: ChunkTask) -> ChunkResult:
    """Count the lines of a chunk whose parse kills workers: one reject stands for all of it."""
    for table in FACT_TABLES:
        part_path(task, table.name).unlink(missing_ok=True)
    reader, tail = _reader(task)
    facts = Facts()
    try:
        for _ in tail.watch(reader):
            pass
    except UnreadableFileError as error:
        reader.truncated_reason = str(error.strerror)
    if reader.first_byte is not None:
        facts.claimed_lines = 1
        facts.add(REJECT, {
            "file_id": task.file_id, "line": 0, "byte_offset": reader.first_byte,
            "seq": reader.first_byte, "format": task.sniff.format,
            "reason": f"parsing bytes {reader.first_byte} to {reader.next_byte} kills the process",
        })  # fmt: skip
    return dataclasses.replace(_result(task, reader, tail, facts), is_killer=True)


@dataclass
class _Tail:
    """The last record of a chunk: bytes that are appended later may belong to it."""

    is_record_start: Callable[[bytes], bool] | None  # None: every line is a record
    is_one_record: bool  # the whole file: nothing of it is known before its end
    offset: int | None = None
    line: int = 0

    def watch(self, reader: BlockReader) -> Iterator[Block]:
        """The blocks of the reader."""
        for block in reader:
            if self.is_one_record:
                index = -1
            elif self.is_record_start is None:
                index = len(block.starts) - 1
            else:
                index = self._last_record(block, self.is_record_start)
            if index >= 0:
                self.offset = block.byte_offset + int(block.starts[index])
                self.line = block.first_line + index
            yield block
        if self.is_one_record:
            self.offset = reader.first_byte
        elif self.is_record_start is None and reader.tail_offset is None:
            self.offset, self.line = reader.next_byte, reader.n_lines
        elif self.offset is None:
            self.offset = reader.first_byte  # what looks like no record yet may become one

    @staticmethod
    def _last_record(block: Block, is_record_start: Callable[[bytes], bool]) -> int:
        lines = range(len(block.starts) - 1, -1, -1)
        return next((i for i in lines if is_record_start(block.line(i))), -1)


def _reader(task: ChunkTask) -> tuple[BlockReader, _Tail]:
    parser = format_named(task.sniff.format)

    def is_record_start(line: bytes) -> bool:
        return parser.is_record_start(line, task.sniff)

    # every line of a text log is a record: spare the calls
    is_start = None if parser.name == "text" or parser.spans_lines else is_record_start
    reader = BlockReader(
        Path(task.path), task.start, task.end, task.compression, is_start,
        in_pieces=parser.spans_lines,
    )  # fmt: skip
    return reader, _Tail(is_start, parser.spans_lines)


def _result(task: ChunkTask, reader: BlockReader, tail: _Tail, facts: Facts) -> ChunkResult:
    """Write the facts and say what was read, unless the file is another one by now."""
    path, compression = Path(task.path), task.compression
    tail_bytes = min(TAIL_BYTES, reader.next_byte)
    try:
        last_bytes = read_range(path, compression, reader.next_byte - tail_bytes, tail_bytes)
        is_replaced = read_range(path, compression, 0, len(task.head)) != task.head
    except UnreadableFileError:
        last_bytes, is_replaced = b"", True
    n_rows = {}
    for name, table in ({} if is_replaced else facts.tables()).items():
        filled = [c for c in table.column_names if table.column(c).null_count < table.num_rows]
        rows = table.select(filled)
        with (
            pa.OSFile(str(part_path(task, name)), "wb") as sink,
            pa.ipc.new_file(sink, rows.schema) as writer,
        ):
            writer.write_table(rows)
        n_rows[name] = rows.num_rows
    return ChunkResult(
        reader.n_lines, reader.next_byte,
        reader.next_byte if tail.offset is None else tail.offset, tail.line,
        reader.truncated_reason, facts.claimed_lines, n_rows, tail_bytes, sha(last_bytes),
        is_replaced=is_replaced,
    )  # fmt: skip


def part_path(task: ChunkTask, table: str) -> Path:
    """Where the facts of one table of a chunk stand until they are joined."""
    return Path(task.parts) / f"{task.number}-{table}.arrow"


def _cut_line(file_id: str, cut: CutLine) -> dict[str, object]:
    return {
        "file_id": file_id, "line": cut.line, "byte_offset": cut.byte_offset,
        "seq": cut.byte_offset + 1, "format": "blocks",
        "reason": f"a line of {cut.n_bytes} bytes: only its beginning was read", "raw": "",
    }  # fmt: skip
