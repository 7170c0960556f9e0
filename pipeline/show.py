"""The raw lines behind a fact, a segment or an incident."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb

from parsers.blocks import BlockReader, UnreadableFileError, detect_compression, read_range
from pipeline import database, lake
from pipeline.errors import EvidenceError, UsageError

MAX_SHOWN_BYTES = 4096


@dataclass(frozen=True)
class ShownLine:
    """A raw line: where it stands, what it says, why it is shown."""

    path: str
    line: int
    text: str
    note: str = ""


def show(evidence: str, lake_dir: Path | None) -> list[ShownLine]:
    """The lines of FILE:LINE, segment:ID, incident:ID or fact:TABLE:FILE_ID:LINE.

    EvidenceError where nothing is known by that name or a file changed since it was read.
    """
    kind, _, rest = evidence.partition(":")
    if kind in ("segment", "incident", "fact"):
        if lake_dir is None:
            raise UsageError(f"{evidence}: needs --lake, where the {kind} was made")
        con = database.connect(lake.require_lake(lake_dir))
        return list(_of_lake(con, kind, rest, evidence))
    name, _, number = evidence.rpartition(":")
    if not name or not number.isdecimal() or int(number) < 1:
        raise UsageError(
            f"{evidence!r}: expected FILE:LINE, segment:ID, incident:ID or fact:TABLE:FILE_ID:LINE"
        )
    path = Path(name)
    if not path.exists() and lake_dir is not None:
        con = database.connect(lake.require_lake(lake_dir))
        found = con.execute(
            "select path from file where file_id = $name or file_name = $name order by path",
            {"name": name},
        ).fetchall()
        path = Path(found[0][0]) if found else path
    return [ShownLine(str(path), int(number), _nth_line(path, int(number)))]


def _of_lake(
    con: duckdb.DuckDBPyConnection, kind: str, rest: str, evidence: str
) -> Iterator[ShownLine]:
    """Rows (path, line, byte, stored text, note) of a piece of evidence, each with its raw line."""
    if kind == "segment":
        question = """
            select f.path, f.compression, s.line, s.byte_offset, null,
                s.category || ' / ' || s.phase || ', ' || s.rule
            from segment as s join file as f using (file_id) where s.segment_id = $id
            """
        rows = con.execute(question, {"id": rest}).fetchall()
    elif kind == "incident":
        question = """
            select f.path, f.compression, e.line, e.byte_offset, e.message,
                case when e.is_root then 'root: ' else '' end || e.role
            from incident_evidence as e join file as f using (file_id)
            where e.incident_id = $id
            order by e.is_root desc, e.occurred_at nulls last, f.path, e.line
            """
        rows = con.execute(question, {"id": rest}).fetchall()
    else:
        table, _, place = rest.partition(":")
        file_id, _, line = place.partition(":")
        names = {row[0] for row in con.execute("show tables").fetchall()}
        if table not in names or not line.isdecimal():
            raise UsageError(f"{evidence}: expected fact:TABLE:FILE_ID:LINE, with a known table")
        question = """
            select f.path, f.compression, t.line, t.byte_offset, null, ''
            from query_table($table) as t join file as f using (file_id)
            where t.file_id = $id and t.line = $line
            limit 20
            """
        rows = con.execute(question, {"table": table, "id": file_id, "line": int(line)}).fetchall()
    if not rows:
        raise EvidenceError(f"{evidence}: the lake knows no {kind} of that name")
    for path, compression, line, offset, stored, note in rows:
        text, problem = _line_at(Path(path), compression, offset)
        if text is None:
            yield ShownLine(path, line, stored or "", f"{note} ({problem}; stored text)")
        else:
            yield ShownLine(path, line, text, note)


def _line_at(path: Path, compression: str | None, offset: int) -> tuple[str | None, str]:
    """The line that begins at a byte, or why it cannot be shown."""
    try:
        before = read_range(path, compression, offset - 1, 1) if offset else b"\n"
        raw = read_range(path, compression, offset, MAX_SHOWN_BYTES)
    except UnreadableFileError as error:
        return None, str(error.strerror)
    if before != b"\n" or not raw:
        return None, "the file has changed since it was read"
    return raw.partition(b"\n")[0].decode("utf-8", "replace"), ""


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
