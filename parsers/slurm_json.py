"""Documents of jobs by `sacct --json`, `squeue --json` and slurmrestd, of every generation.

Source: the OpenAPI schemas of slurmrestd, dbv0.0.37 to v0.0.45. What a document is shows in its
structure; version fields are not looked at, since several releases print them wrongly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parsers import slurm_live_jobs, slurmdb_jobs
from parsers.formats import Block, Facts, ParseContext, Sniff
from parsers.json_objects import JsonObject, ObjectScanner
from parsers.sacct_columns import bounded
from parsers.slurm_nodes import node_lists
from parsers.slurm_values import Row, UnreadableJobError
from parsers.tables import ACCOUNTING_ROW, MAX_TEXT_BYTES, REJECT

_ROWS_PER_TABLE = 10_000
_TOKEN = re.compile(rb'"(?:[^"\\\n]|\\.)*"|[{}\[\]:,]')
_DOCUMENT = re.compile(rb"\A[^{]*\{|(?<=\n)\{")
_MAX_DOCUMENTS = 8  # braces of a head that are looked at
_READERS = {"slurmdb": slurmdb_jobs.rows, "slurm": slurm_live_jobs.rows}
_KEYS_OF_JOB = (  # schema, keys that all must be there, keys of which one must
    ("slurmdb", (b'"job_id"', b'"time"'),
     (b'"association"', b'"exit_code"', b'"state"', b'"tres"')),
    ("slurm", (b'"job_id"', b'"eligible_time"'), (b'"job_resources"', b'"job_state"')),
)  # fmt: skip
_KEYS_OF_SLURM = frozenset((b'"plugin"', b'"plugins"', b'"Slurm"', b'"slurm"'))
_HOST_LISTS = ("nodes", "failed_nodes")

Place = tuple[int, int]
"""Line (0-based in the chunk) and byte position in the file."""


class SlurmJson:
    """Jobs and steps of Slurm as JSON: `sacct`, `squeue`, `scontrol show job`, slurmrestd."""

    name = "slurm_json"
    version = "1"
    spans_lines = True

    def sniff(self, head: bytes, file_name: str) -> Sniff:
        """Sure when the head shows an object with an array `jobs` of Slurm's records.

        Text may stand before the document. Without any job the document must say that it is
        Slurm's. The detail holds first_byte, where the document begins, and schema: slurmdb for
        records of the accounting, slurm for those of jobs that the controller knows.
        """
        if b'"jobs"' not in head:
            return Sniff(self.name, 0.0)
        for found in islice(_DOCUMENT.finditer(head), _MAX_DOCUMENTS):
            first_byte = found.end() - 1
            if schema := _schema(_look(head, first_byte)):
                detail = {"first_byte": str(first_byte), "schema": schema}
                return Sniff(self.name, 0.95, detail)
        return Sniff(self.name, 0.0)

    def is_record_start(self, line: bytes, sniff: Sniff) -> bool:
        """Never: a document is read as a whole."""
        return False

    def parse(self, blocks: Iterator[Block], context: ParseContext) -> Facts:
        """Accounting rows and rejects of the blocks, which may be pieces of lines.

        `byte_offset` and `seq` are where the object of the job or step begins. What is open where
        the bytes end is a reject.
        """
        facts = Facts()
        first_byte = int(context.sniff.detail["first_byte"])
        scanner, reader = ObjectScanner("jobs", first_byte), _Reader(context, facts)
        for block in blocks:
            facts.n_lines = block.first_line + len(block.starts)
            for found in scanner.read(block):
                reader.read(found)
        for found in scanner.finish():
            reader.read(found)
        reader.flush()
        return facts


class _Reader:
    """Turns job objects into facts, rows in bulk."""

    def __init__(self, context: ParseContext, facts: Facts) -> None:
        self._file_id = context.file_id
        self._read = _READERS[context.sniff.detail["schema"]]
        self._facts = facts
        self._places: list[Place] = []
        self._rows: list[Row] = []

    def read(self, found: JsonObject) -> None:
        """Add the rows and rejects of one object."""
        if found.problem is not None:
            self._reject((found.line, found.byte_offset), found.problem, found.data)
            return
        line, before = found.line, 0
        for start, end, row in self._read(found.data):
            line += found.data.count(b"\n", before, start)
            before = start
            place = (line, found.byte_offset + start)
            if isinstance(row, UnreadableJobError):
                self._reject(place, str(row), found.data[start : min(end, start + MAX_TEXT_BYTES)])
            else:
                self._facts.claimed_lines += 1
                self._places.append(place)
                self._rows.append(row)
        if len(self._rows) >= _ROWS_PER_TABLE:
            self.flush()

    def flush(self) -> None:
        """Add the rows read so far as one table."""
        if self._rows:
            self._facts.add_table(ACCOUNTING_ROW, _table(self._file_id, self._places, self._rows))
        self._places, self._rows = [], []

    def _reject(self, place: Place, reason: str, raw: bytes) -> None:
        self._facts.claimed_lines += 1
        line, offset = place
        self._facts.add(REJECT, {
            "file_id": self._file_id, "line": line, "byte_offset": offset, "seq": offset,
            "format": SlurmJson.name, "reason": bounded(reason),
            "raw": bounded(raw.decode("utf-8", "replace")),
        })  # fmt: skip


def _table(file_id: str, places: Sequence[Place], rows: Sequence[Row]) -> pa.Table:
    """Rows of `accounting_row` with their evidence."""
    line, offset = np.array(places, np.int64).T
    columns: dict[str, pa.Array] = {
        "file_id": pa.repeat(file_id, len(rows)), "scheduler": pa.repeat("slurm", len(rows)),
        "line": pa.array(line), "byte_offset": pa.array(offset), "seq": pa.array(offset),
    }  # fmt: skip
    is_step = np.array(["step_id" in row for row in rows], np.bool_)
    for column in ACCOUNTING_ROW.schema:
        if column.name in columns:
            continue
        cells = [row.get(column.name) for row in rows]
        if column.name in _HOST_LISTS:
            columns[column.name] = _hosts(cells, is_step)
        else:
            columns[column.name] = pa.array(cells, column.type)
    return pa.table(columns)


def _hosts(texts: list[object], is_step: npt.NDArray[np.bool_]) -> pa.Array:
    return node_lists(pa.array(texts, pa.string()).dictionary_encode(), is_step)


@dataclass
class _Seen:
    """Keys of a document, as far as the head shows it."""

    has_jobs: bool = False  # an array
    meta: set[bytes] = field(default_factory=set)
    job: set[bytes] = field(default_factory=set)  # of the elements of the array


def _schema(seen: _Seen) -> str | None:
    """What the jobs are records of; None where this is no document of Slurm's jobs."""
    if not seen.has_jobs:
        return None
    for schema, needed, others in _KEYS_OF_JOB:
        if seen.job.issuperset(needed) and not seen.job.isdisjoint(others):
            return schema
    is_empty = not seen.job and bool(seen.meta & _KEYS_OF_SLURM)
    return "slurmdb" if is_empty else None


def _look(head: bytes, first_byte: int) -> _Seen:
    seen = _Seen()
    path: list[bytes] = []  # keys of the open containers
    key = before = b""
    for found in _TOKEN.finditer(head, first_byte):
        token = found[0]
        if token == b":":
            key = before
            if path[1:] == [b'"meta"']:
                seen.meta.add(key)
            elif path[1:] == [b'"jobs"', b""]:
                seen.job.add(key)
        elif token in (b"{", b"["):
            seen.has_jobs |= token == b"[" and len(path) == 1 and key == b'"jobs"'
            path.append(key)
            key = b""
        elif token in (b"}", b"]"):
            path.pop()
            key = b""
            if not path:
                break
        before = token
    return seen
