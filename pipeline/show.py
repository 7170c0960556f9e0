"""The raw lines behind a fact, a segment or an incident."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb

from parsers.blocks import BlockReader, UnreadableFileError, detect_compression, read_range
from pipeline import contents, database, lake
from pipeline.errors import EvidenceError, UsageError
from pipeline.report import words
from pipeline.schema import ALL_TABLES

MAX_SHOWN_BYTES = 4096
MAX_LINES = 200
_FORMS = "FILE:LINE, segment:ID, incident:ID or fact:TABLE:FILE_ID:LINE"

_SEGMENT = """
select file_id, line, byte_offset, null, category || ' / ' || phase || ', ' || rule
from segment where segment_id = $id
"""
_INCIDENT = """
select e.file_id, e.line, e.byte_offset, e.message, e.role, e.is_root, i.confidence
from incident_evidence as e
join incident as i using (incident_id)
left join file as f on f.file_id = e.file_id
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
_FILES = """
-- contents known by a name, best first: what stands there now, what stood there, and what only ends
-- like it, as reports print it; of two contents of one path the newer one
select
    n.file_id, n.path,
    min(case
        when r.file_id = $name then 0
        when n.path in ($name, $absolute) then 1
        when r.path in ($name, $absolute) then 2
        else 3
    end) as rank
from raw_file as r join newest_file as n using (file_id)
where $name = r.file_id or r.path in ($name, $absolute) or ends_with(r.path, '/' || $name)
group by n.file_id, n.path, n.batch
qualify row_number() over (partition by n.path order by rank, n.batch desc) = 1
order by rank, n.path
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

    With a lake, FILE may be a path that the file once had, the end of one as reports print it, or a
    file_id. Lines of a lake come from the newest known path of their file. If it is gone or holds
    other bytes by now, the note says so and the text is what the lake stored of it. EvidenceError
    where nothing is known by that name.
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
    if lake_dir is None:
        return [ShownLine(name, int(number), _nth_line(Path(name), int(number)))]
    return [_line_of_file(lake.require_lake(lake_dir), name, int(number))]


def _line_of_file(lake_dir: Path, name: str, number: int) -> ShownLine:
    """Line `number` of the file that the lake knows by `name`, else of the file of that path."""
    con = database.connect(lake_dir)
    file_id = _known_file(con, name)
    if file_id is None:
        return ShownLine(name, number, _nth_line(Path(name), number))
    source = _Source(lake_dir)
    path, problem = source.place(file_id)
    if problem is None:
        return ShownLine(path, number, _nth_line(Path(path), number))
    text, note = _stored(con, file_id, number, None, "", problem)
    if not text:
        raise EvidenceError(f"{path}:{number}: {note}")
    return ShownLine(path, number, text, note)


def _of_lake(lake_dir: Path, kind: str, rest: str, evidence: str) -> Iterator[ShownLine]:
    con = database.connect(lake_dir)
    rows = _places(con, kind, rest, evidence)
    if not rows:
        raise EvidenceError(f"{evidence}: the lake {lake_dir} knows no {kind} of that name")
    source = _Source(lake_dir)
    for file_id, line, offset, stored, note in rows[:MAX_LINES]:
        path, problem = source.place(file_id)
        if problem is None:
            yield ShownLine(path, line, _line_at(Path(path), offset), note)
        else:
            yield ShownLine(path, line, *_stored(con, file_id, line, stored, note, problem))
    if len(rows) > MAX_LINES:
        more = f"... and {words.counted(len(rows) - MAX_LINES, 'more line')}"
        yield ShownLine(path, line, more, "see the table incident_evidence")


def _stored(
    con: duckdb.DuckDBPyConnection, file_id: str, line: int, kept: str | None, note: str,
    problem: str,
) -> tuple[str, str]:  # fmt: skip
    """(text, note) of a line whose file cannot be shown: what the lake kept of it."""
    if kept is None:
        found = con.execute(_STORED, {"id": file_id, "line": line}).fetchone()
        kept = found[0] if found else None
    problem += "; no text of the line is stored" if kept is None else "; stored text"
    return kept or "", f"{note}: {problem}" if note else problem


def _places(
    con: duckdb.DuckDBPyConnection, kind: str, rest: str, evidence: str
) -> list[tuple[str, int, int, str | None, str]]:
    """(file_id, line, byte_offset, stored text, note) of a piece of evidence."""
    if kind == "segment":
        return con.execute(_SEGMENT, {"id": rest}).fetchall()
    if kind == "incident":
        return [
            (*place, words.role(role, is_root=is_root, confidence=confidence))
            for *place, role, is_root, confidence in con.execute(_INCIDENT, {"id": rest}).fetchall()
        ]
    table, _, place = rest.partition(":")
    file_id, _, line = place.partition(":")
    with_lines = [t.name for t in ALL_TABLES if {"line", "byte_offset"} <= set(t.schema.names)]
    if table not in with_lines or not line.isdecimal():
        raise UsageError(f"{evidence}: expected fact:TABLE:FILE_ID:LINE, where TABLE is one of "
                         + ", ".join(sorted(with_lines)))  # fmt: skip
    params = {"table": table, "id": file_id, "line": int(line)}
    return con.execute(_FACT, params).fetchall()


class _Source:
    """Where the files of a lake stand now; each is compared with the ledger once."""

    def __init__(self, lake_dir: Path) -> None:
        self._known = contents.known_contents(lake.read_ledger(lake_dir)[1].to_pylist())
        self._problems: dict[str, str | None] = {}

    def place(self, file_id: str) -> tuple[str, str | None]:
        """(path, problem): the newest path, and why the file there cannot be shown."""
        content = self._known.get(file_id)
        if content is None:
            return file_id, "the lake does not know the file"
        if file_id not in self._problems:
            self._problems[file_id] = _problem(Path(content.path), content)
        return content.path, self._problems[file_id]


def _problem(path: Path, content: contents.Known) -> str | None:
    try:
        is_same = contents.holds(path, content)
    except UnreadableFileError as error:
        return str(error.strerror)
    return None if is_same else f"{path} holds other bytes since it was read"


def _known_file(con: duckdb.DuckDBPyConnection, name: str) -> str | None:
    """The file_id of the file that is or was called `name`; None if the lake knows none."""
    params = {"name": name, "absolute": os.path.abspath(name)}  # noqa: PTH100 - no links followed
    found = con.execute(_FILES, params).fetchall()
    best = [row for row in found if row[2] == found[0][2]]
    if len(best) > 1:
        raise EvidenceError(f"{name} is the name of {len(best)} files; give one of\n"
                            + "\n".join(path for _, path, _ in best[:20]))  # fmt: skip
    return best[0][0] if best else None


def _line_at(path: Path, offset: int) -> str:
    raw = read_range(path, detect_compression(path), offset, MAX_SHOWN_BYTES)
    first = raw.partition(b"\n")[0]
    # a JSON object printed over many lines: its first one says nothing
    return (b" ".join(raw.split()) if first.strip() == b"{" else first).decode("utf-8", "replace")


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
