"""The registry of formats and the types that carry bytes to a format and facts back.

A format is a pure function of bytes: the same chunk and sniff give the same facts, anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parsers.tables import FACT_TABLES, Table

Row = Mapping[str, object]
"""One fact as column name to value; columns that are absent are null."""

HEAD_BYTES = 64 * 1024
"""How much of a file's beginning decides its format."""


@dataclass(frozen=True)
class Block:
    """Newline-aligned bytes and where they stand.

    Of a file that is read in pieces (`Format.spans_lines`) the first line may be the rest of one
    that began in the block before, and the last one may go on in the next block.
    `data` may be a view of a buffer that the reader reuses: copy what must outlive the iteration.
    `starts[i]:ends[i]` is line i without its `\\n`; the last line of a file may lack the `\\n`.
    """

    data: memoryview
    byte_offset: int
    first_line: int  # 0-based, counted from the beginning of the chunk
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    def line(self, index: int) -> bytes:
        """The bytes of one line, without its `\\n` (a `\\r` before it is kept)."""
        return bytes(self.data[self.starts[index] : self.ends[index]])


@dataclass(frozen=True)
class Sniff:
    """What a format made of a file's head: its score (0 to 1) and what parsing needs to know."""

    format: str
    score: float
    detail: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ParseContext:
    """What a parser may know besides the bytes of its chunk."""

    file_id: str
    head: bytes  # first HEAD_BYTES of the decompressed file, whole lines
    sniff: Sniff
    dialect_dirs: tuple[str, ...] = ()  # folders with user dialects, read after the built-in ones
    signature_dirs: tuple[str, ...] = ()  # folders with user signatures, tried as their rows say


@dataclass
class Facts:
    """Facts of one chunk: rows and whole Arrow tables, by fact table."""

    rows: dict[str, list[Row]] = field(default_factory=dict)
    bulk: dict[str, list[pa.Table]] = field(default_factory=dict)
    n_lines: int = 0
    claimed_lines: int = 0  # lines (or JSON objects) that a format recognised, rejects included

    def add(self, table: Table, row: Row) -> None:
        """Add one row."""
        self.rows.setdefault(table.name, []).append(row)

    def add_table(self, table: Table, rows: pa.Table) -> None:
        """Add rows in bulk; columns that are absent become null."""
        self.bulk.setdefault(table.name, []).append(rows)

    def tables(self) -> dict[str, pa.Table]:
        """Every non-empty fact table under its stored schema, sorted by (seq)."""
        out: dict[str, pa.Table] = {}
        for table in FACT_TABLES:
            schema = table.stored_schema
            parts = [_cast(part, schema) for part in self.bulk.get(table.name, [])]
            if rows := self.rows.get(table.name):
                parts.append(pa.Table.from_pylist(list(rows), schema=schema))
            if parts:
                merged = pa.concat_tables(parts, promote_options="default").unify_dictionaries()
                whole = conform(merged, schema)
                out[table.name] = whole if _is_sorted(whole) else whole.sort_by("seq")
        return out


class Format(Protocol):
    """A kind of file. Formats keep no state between calls."""

    name: str
    version: str
    spans_lines: bool  # records do not follow lines: a file is one chunk, blocks are any pieces

    def sniff(self, head: bytes, file_name: str) -> Sniff:
        """How surely `head` is of this format; score 0 means "not mine"."""
        ...

    def is_record_start(self, line: bytes, sniff: Sniff) -> bool:
        """Whether a record may begin at this line: chunk borders move to the next such line."""
        ...

    def parse(self, blocks: Iterator[Block], context: ParseContext) -> Facts:
        """The facts of the blocks; lines are 0-based within the chunk until the commit."""
        ...


def _is_sorted(rows: pa.Table) -> bool:
    seq = rows.column("seq").to_numpy()
    return bool((seq[1:] >= seq[:-1]).all())


def _cast(part: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns of a part under the types of the schema."""
    return part.cast(pa.schema([schema.field(name) for name in part.column_names]))


def conform(part: pa.Table, schema: pa.Schema) -> pa.Table:
    """A part under the whole schema: columns that it lacks are null."""
    columns = [
        part.column(f.name) if f.name in part.column_names else pa.nulls(part.num_rows, f.type)
        for f in schema
    ]
    return pa.table(columns, schema=schema)


def all_formats() -> tuple[Format, ...]:
    """Every format, most specific first."""
    from parsers.slurm_accounting import SlurmAccounting
    from parsers.slurm_json import SlurmJson
    from parsers.text_log import TextLog

    return (SlurmJson(), SlurmAccounting(), TextLog())


def recognise(head: bytes, file_name: str, forced: str | None = None) -> list[Sniff]:
    """The formats that claim `head`, best first; `forced` keeps only the format of that name."""
    sniffs = [f.sniff(head, file_name) for f in all_formats() if forced in (None, f.name)]
    return sorted((s for s in sniffs if s.score > 0), key=lambda s: -s.score)


def format_named(name: str) -> Format:
    """The format of that name; KeyError if there is none."""
    return {f.name: f for f in all_formats()}[name]
