"""What wallsplit makes of a file: formats, times, counts, and what it could not use."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import duckdb

from parsers.blocks import BlockReader, UnreadableFileError, detect_compression, read_head
from parsers.dialect_files import load_dialects
from parsers.formats import format_named, recognise
from pipeline import database, timeline
from pipeline.catalog import IngestOptions
from pipeline.discovery import discover, path_text
from pipeline.errors import UsageError
from pipeline.ingest import ingest
from pipeline.report import words
from pipeline.rows import plain
from pipeline.step_words import SIGNAL, are_training, is_step_like

MAX_UNMATCHED = 5
"""Kinds of unused lines that are shown; lines that differ only in numbers are of one kind."""
_MAX_KINDS = 1000
_MAX_LINE = 300
_NUMBER = re.compile(rb"0x[0-9a-fA-F]+|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


@dataclass
class Unused:
    """Lines of one kind that sound important and that nothing read: the first, and how many."""

    line: int
    text: str
    n_lines: int = 1


@dataclass
class Explanation:
    """One file as wallsplit sees it."""

    path: str
    problem: str | None = None
    formats: dict[str, float] = field(default_factory=dict)
    dialects: dict[str, int] = field(default_factory=dict)
    step_dialect: str | None = None
    timezone: str | None = None
    timezone_rule: str = ""
    first_at: object = None
    last_at: object = None
    n_lines: int = 0
    coverage: float | None = None
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    rejects: list[str] = field(default_factory=list)
    unmatched: list[Unused] = field(default_factory=list)
    n_unmatched: int = 0
    is_unrecognised_training: bool = False

    def as_dict(self) -> dict[str, object]:
        """The fields by name, in order."""
        return {name: plain(value) for name, value in asdict(self).items()}


def explain(paths: Sequence[str], options: IngestOptions) -> list[Explanation]:
    """One explanation per file, in path order; nothing is kept of the facts.

    UsageError where a path fits nothing, or all of them hold no file.
    """
    with tempfile.TemporaryDirectory(prefix="wallsplit-") as folder:
        lake_dir = Path(folder) / "lake"
        lake_dir.mkdir()
        files, broken = discover(paths, lake_dir)
        if not files and not broken:
            raise UsageError(f"no files in {', '.join(paths)}; expected a log, or a folder of logs")
        ingest(paths, lake_dir, options)
        timeline.rebuild(lake_dir)
        con = database.connect(lake_dir)
        out = [Explanation(str(b.path), problem=b.reason) for b in broken]
        out += [_explain_one(con, path, options) for path in files]
    return sorted(out, key=lambda e: e.path)


def _explain_one(con: duckdb.DuckDBPyConnection, path: Path, options: IngestOptions) -> Explanation:
    found = Explanation(str(path))
    try:
        compression = detect_compression(path)
        head = read_head(path, compression)
    except UnreadableFileError as error:
        found.problem = str(error.strerror)
        return found
    sniffs = recognise(head, path.name, options.format)
    found.formats = {s.format: s.score for s in sniffs}
    if sniffs and sniffs[0].format == "text":
        found.dialects = {
            d.name: n for d in load_dialects(options.dialect_dirs)
            if (n := sum(head.count(a.encode()) for a in d.anchors))
        }  # fmt: skip
    rows = con.execute(
        """
        select file_id, dialect, status, status_detail, first_at, last_at, n_lines, n_claimed_lines
        from file where path = $path
        """,
        {"path": path_text(path)},
    ).fetchall()
    if not rows:
        found.problem = "the same content was read from another path"
        return found
    file_id, found.step_dialect, status, detail, first, last, found.n_lines, n_claimed = rows[0]
    found.problem = None if status == "parsed" else f"{status}: {detail}"
    found.first_at, found.last_at = plain(first), plain(last)
    found.timezone, found.timezone_rule = _zone(con, file_id, options.timezone)
    is_of_lines = not (sniffs and format_named(sniffs[0].format).spans_lines)
    found.coverage = n_claimed / found.n_lines if found.n_lines and is_of_lines else None
    found.counts = _counts(con, file_id)
    found.rejects = [
        f"line {line}: {reason}"
        for line, reason in con.execute(
            "select line, reason from reject where file_id = $id order by seq limit 5",
            {"id": file_id},
        ).fetchall()
    ]
    if found.formats and next(iter(found.formats)) == "text":
        _find_unused(con, path, compression, file_id, found)
    return found


def _zone(
    con: duckdb.DuckDBPyConnection, file_id: str, given: str | None
) -> tuple[str | None, str]:
    """The zone of times without offset and why it is that one; None where no time lacks one."""
    kinds = {
        row[0]
        for row in con.execute(
            """
            select stamp_kind from raw_train_event where file_id = $id
            union
            select stamp_kind from raw_fault_event where file_id = $id
            union
            select stamp_kind from raw_accounting_row where file_id = $id
            union
            select stamp_kind from raw_clock_mark where file_id = $id
            """,
            {"id": file_id},
        ).fetchall()
    }
    if kinds & {"local", "local_no_year", "time_of_day"}:
        return (given, "given") if given else ("UTC", "assumed: no --timezone was given")
    if "utc" in kinds:
        return None, "every time carries its offset"
    return None, "no times found"


def _counts(con: duckdb.DuckDBPyConnection, file_id: str) -> dict[str, dict[str, int]]:
    rows = con.execute(
        """
        select 'train_event', kind, count(*) from train_event where file_id = $id group by all
        union all
        select 'fault_event', signature_id, count(*) from fault_event where file_id = $id
        group by all
        union all
        select 'accounting_row', case when step_id is null then 'job' else 'step' end, count(*)
        from accounting_row where file_id = $id group by all
        union all
        select 'clock_mark', '', count(*) from clock_mark where file_id = $id having count(*) > 0
        union all
        select 'reject', reason, count(*) from reject where file_id = $id group by all
        order by all
        """,
        {"id": file_id},
    ).fetchall()
    out: dict[str, dict[str, int]] = {}
    for table, kind, n_rows in rows:
        out.setdefault(table, {})[kind] = n_rows
    return out


def _find_unused(
    con: duckdb.DuckDBPyConnection,
    path: Path,
    compression: str | None,
    file_id: str,
    found: Explanation,
) -> None:
    """Collect lines that sound important and that nothing read, those that look like steps first.

    A file whose steps no dialect reads, though some lines look like steps, is marked.
    """
    steps: dict[bytes, Unused] = {}
    others: dict[bytes, Unused] = {}
    try:
        for number, line in _unused_lines(con, path, compression, file_id):
            found.n_unmatched += 1
            kinds = steps if is_step_like(line) else others
            shape = _NUMBER.sub(b"0", line[:_MAX_LINE])
            if shape in kinds:
                kinds[shape].n_lines += 1
            elif len(kinds) < _MAX_KINDS:
                kinds[shape] = Unused(number, line[:_MAX_LINE].decode("utf-8", "replace"))
    except UnreadableFileError as error:
        found.problem = str(error.strerror)
    found.unmatched = [*steps.values(), *others.values()][:MAX_UNMATCHED]
    n_step_like = sum(kind.n_lines for kind in steps.values())
    found.is_unrecognised_training = found.step_dialect is None and are_training(n_step_like)


def _unused_lines(
    con: duckdb.DuckDBPyConnection, path: Path, compression: str | None, file_id: str
) -> Iterator[tuple[int, bytes]]:
    """(number, line) of lines with a signal word that gave neither a fact nor a reject."""
    seen = {
        row[0]
        for table in ("train_event", "fault_event", "reject")
        for row in con.execute(
            "select line from query_table($table) where file_id = $id",
            {"table": table, "id": file_id},
        ).fetchall()
    }
    for block in BlockReader(path, compression=compression):
        for match in SIGNAL.finditer(bytes(block.data)):
            index = int(block.starts.searchsorted(match.start(), side="right")) - 1
            number = block.first_line + index + 1
            if number not in seen:
                seen.add(number)
                yield number, block.line(index)


def as_text(e: Explanation) -> str:
    """The explanation as lines for a person: what there is to say, and no more."""
    lines = [e.path]
    if e.problem:
        lines.append(f"  problem: {e.problem}")
    if not e.formats:
        return "\n".join(lines)
    formats = ", ".join(f"{n} ({words.ratio(s, 2)})" for n, s in e.formats.items())
    share = "" if e.coverage is None else f", {words.share(e.coverage)} understood"
    lines.append(f"  format: {formats}; {words.counted(e.n_lines, 'line')}{share}")
    if e.step_dialect:
        lines.append(f"  step lines read as: {e.step_dialect}")
    if others := [f"{n} {c:,}" for n, c in e.dialects.items() if n != e.step_dialect]:
        lines.append(f"  words of other dialects in its head: {', '.join(others)}")
    if e.first_at:
        lines.append(f"  times: {e.first_at} to {e.last_at}")
        zone = "" if e.timezone is None else f"{e.timezone}, "
        lines.append(f"  zone: {zone}{e.timezone_rule}")
    for table, kinds in e.counts.items():
        counts = ", ".join(f"{kind or 'rows'} {n:,}" for kind, n in kinds.items())
        lines.append(f"  {table}: {counts}")
    if e.unmatched:
        n = words.counted(e.n_unmatched, "line that sounds", "lines that sound")
        lines.append(f"  not used: {n} important, such as")
        for kind in e.unmatched:
            like = f" (and {kind.n_lines - 1:,} like it)" if kind.n_lines > 1 else ""
            lines.append(f"    {kind.line}: {kind.text}{like}")
    if e.is_unrecognised_training:
        lines.append("  this looks like a training log, but no dialect reads its steps: "
                     "write one (see docs/dialects.md) and give it with --dialects")  # fmt: skip
    return "\n".join(lines)
