"""The raw lines behind a fact, a segment or an incident."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb

from parsers.blocks import BlockReader, UnreadableFileError, detect_compression, read_range
from pipeline import catalog, database, lake
from pipeline.errors import EvidenceError, UsageError
from pipeline.schema import ALL_TABLES

MAX_SHOWN_BYTES = 4096
MAX_LINES = 200
_FORMS = "FILE:LINE, segment:ID, incident:ID or fact:TABLE:FILE_ID:LINE"

_SEGMENT = """
select file_id, line, byte_offset, null, category || ' / ' || phase || ', ' || rule
from segment where segment_id = $id
"""
_INCIDENT = """
select e.file_id, e.line, e.byte_offset, e.message,
    case when e.is_root then 'root: ' else '' end || e.role
from incident_evidence as e left join file as f using (file_id)
where e.incident_id = $id
order by e.is_root desc, e.occurred_at nulls last, f.path, e.line
"""
_FACT = """
select distinct file_id, line, byte_offset, null, ''
from query_table($table) where file_id = $id and line = $line
"""
_STORED = """
select message from fault_event where file_id = $id and line = $line and message is not null
union all
select message from train_event where file_id = $id and line = $line and message is not null
union all
select raw from reject where file_id = $id and line = $line and raw is not null
limit 1
"""
_PATHS = """
with newest as (
    select file_id, path from raw_file
    qualify row_number() over (partition by file_id order by batch desc) = 1
)

select distinct n.path
from raw_file as r join newest as n using (file_id)
where $name in (r.file_id, r.path, parse_filename(r.path)) or r.path = $absolute
order by all
"""


@dataclass(frozen=True)
class ShownLine:
    """A raw line: where it stands, what it says, why it is shown."""

    path: str
    line: int
    text: str
    note: str = ""


def show(evidence: str, lake_dir: Path | None) -> list[ShownLine]:
    """The lines of FILE:LINE, segment:ID, incident:ID or fact:TABLE:FILE_ID:LINE.

    Lines of a lake come from the newest known path of their file. If it is gone or holds other
    bytes by now, the note says so and the text is what the lake stored of it. EvidenceError where
    nothing is known by that name.
    """
    kind, _, rest = evidence.partition(":")
    if kind in ("segment", "incident", "fact"):
        if lake_dir is None:
            raise UsageError(f"{evidence}: needs --lake, the folder where the {kind} was made")
        return list(_of_lake(lake.require_lake(lake_dir), kind, rest, evidence))
    name, _, number = evidence.rpartition(":")
    is_number = number.isascii() and number.isdecimal() and len(number) < 19
    if not name or not is_number or int(number) < 1:
        raise UsageError(f"{evidence!r}: expected {_FORMS}")
    path = Path(name)
    if lake_dir is not None and not path.exists():
        path = _newest_path(lake.require_lake(lake_dir), name)
    return [ShownLine(str(path), int(number), _nth_line(path, int(number)))]


def _of_lake(lake_dir: Path, kind: str, rest: str, evidence: str) -> Iterator[ShownLine]:
    con = database.connect(lake_dir)
    rows = _places(con, kind, rest, evidence)
    if not rows:
        raise EvidenceError(f"{evidence}: the lake {lake_dir} knows no {kind} of that name")
    source = _Source(lake_dir)
    for file_id, line, offset, stored, note in rows[:MAX_LINES]:
        path, text, problem = source.line(file_id, offset)
        if text is not None:
            yield ShownLine(path, line, text, note)
            continue
        found = con.execute(_STORED, {"id": file_id, "line": line}).fetchone()
        kept: str | None = stored or (found[0] if found else None)
        problem += "; stored text" if kept else "; no text of it is stored"
        yield ShownLine(path, line, kept or "", f"{note}: {problem}" if note else problem)
    if len(rows) > MAX_LINES:
        more = f"... and {len(rows) - MAX_LINES} more lines"
        yield ShownLine(path, line, more, "see the table incident_evidence")


def _places(
    con: duckdb.DuckDBPyConnection, kind: str, rest: str, evidence: str
) -> list[tuple[str, int, int, str | None, str]]:
    """(file_id, line, byte_offset, stored text, note) of a piece of evidence."""
    if kind != "fact":
        question = _SEGMENT if kind == "segment" else _INCIDENT
        return con.execute(question, {"id": rest}).fetchall()
    table, _, place = rest.partition(":")
    file_id, _, line = place.partition(":")
    with_lines = [t.name for t in ALL_TABLES if {"line", "byte_offset"} <= set(t.schema.names)]
    if table not in with_lines or not line.isdecimal():
        raise UsageError(f"{evidence}: expected fact:TABLE:FILE_ID:LINE, where TABLE is one of "
                         + ", ".join(sorted(with_lines)))  # fmt: skip
    params = {"table": table, "id": file_id, "line": int(line)}
    return con.execute(_FACT, params).fetchall()


class _Source:
    """Raw lines of the files of a lake; each file is compared with the ledger once."""

    def __init__(self, lake_dir: Path) -> None:
        self._known = catalog.known_contents(lake.read_ledger(lake_dir)[1].to_pylist())
        self._problems: dict[str, str | None] = {}

    def line(self, file_id: str, offset: int) -> tuple[str, str | None, str]:
        """(path, text, problem): the line that begins at a byte, or why it cannot be shown."""
        content = self._known.get(file_id)
        if content is None:
            return file_id, None, "the lake does not know the file"
        path = Path(content.path)
        if file_id not in self._problems:
            self._problems[file_id] = self._problem(path, content)
        if problem := self._problems[file_id]:
            return content.path, None, problem
        raw = read_range(path, detect_compression(path), offset, MAX_SHOWN_BYTES)
        return content.path, raw.partition(b"\n")[0].decode("utf-8", "replace"), ""

    @staticmethod
    def _problem(path: Path, content: catalog.Known) -> str | None:
        try:
            is_same = catalog.holds(path, content)
        except UnreadableFileError as error:
            return str(error.strerror)
        return None if is_same else f"{path} holds other bytes since it was read"


def _newest_path(lake_dir: Path, name: str) -> Path:
    """Where the file that was once called `name` stands now."""
    con = database.connect(lake_dir)
    params = {"name": name, "absolute": os.path.abspath(name)}  # noqa: PTH100 - no links followed
    paths = [row[0] for row in con.execute(_PATHS, params).fetchall()]
    if len(paths) > 1:
        raise EvidenceError(f"{name} is the name of {len(paths)} files; give one of\n"
                            + "\n".join(paths[:20]))  # fmt: skip
    return Path(paths[0]) if paths else Path(name)


def _nth_line(path: Path, number: int) -> str:
    try:
        reader = BlockReader(path, compression=detect_compression(path))
        for block in reader:
            if number <= block.first_line + len(block.starts):
                raw = block.line(number - 1 - block.first_line)
                return raw[:MAX_SHOWN_BYTES].decode("utf-8", "replace")
    except UnreadableFileError as error:
        raise EvidenceError(str(error.strerror)) from error
    raise EvidenceError(f"{path} has {reader.n_lines} lines, not {number}")
