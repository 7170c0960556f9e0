"""What wallsplit makes of a file: formats, times, counts, and what it could not use."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import duckdb

from parsers.blocks import BlockReader, UnreadableFileError, detect_compression, read_head
from parsers.dialect_files import load_dialects
from parsers.formats import recognise
from pipeline import database, timeline
from pipeline.catalog import IngestOptions
from pipeline.discovery import discover, path_text
from pipeline.ingest import ingest
from pipeline.rows import plain

MAX_UNMATCHED = 10
_MAX_LINE = 300
# a colour in front of a word ends with a letter
_BEGIN = rb"(?i)(?:(?<![a-z])|(?<=\x1b\[[0-9]m)|(?<=\x1b\[[0-9]{2}m))"
_SIGNAL = re.compile(
    _BEGIN + rb"(?:iter(?:ation)?s?|steps?|epoch|loss|checkpoint|error|exception|fail(?:ed|ure)?|"
    rb"timeout)(?![a-z])"
)
_STEP_WORD = re.compile(_BEGIN + rb"(?:iter(?:ation)?|step)(?![a-z])\W{0,20}\d")
_LOSS_WORD = re.compile(_BEGIN + rb"loss(?![a-z])\W{0,20}\d")
_LOOKS_LIKE_TRAINING = 3  # so many step-like lines that no dialect reads


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
    unmatched: list[str] = field(default_factory=list)
    is_unrecognised_training: bool = False

    def as_dict(self) -> dict[str, object]:
        """The fields by name, in order."""
        return {name: plain(value) for name, value in asdict(self).items()}


def explain(paths: Sequence[str], options: IngestOptions) -> list[Explanation]:
    """One explanation per file, in path order; nothing is kept of the facts."""
    with tempfile.TemporaryDirectory(prefix="wallsplit-") as folder:
        lake_dir = Path(folder) / "lake"
        lake_dir.mkdir()
        files, broken = discover(paths, lake_dir)
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
        select file_id, dialect, timezone, status, status_detail, first_at, last_at, n_lines,
            n_claimed_lines
        from file where path = $path
        """,
        {"path": path_text(path)},
    ).fetchall()
    if not rows:
        found.problem = "the same content was read from another path"
        return found
    file_id, found.step_dialect, _, status, detail, first, last, found.n_lines, n_claimed = rows[0]
    found.problem = None if status == "parsed" else f"{status}: {detail}"
    found.first_at, found.last_at = plain(first), plain(last)
    found.timezone = options.timezone or "UTC"
    found.timezone_rule = "given" if options.timezone else "assumed: no --timezone was given"
    found.coverage = n_claimed / found.n_lines if found.n_lines else None
    found.counts = _counts(con, file_id)
    found.rejects = [
        f"line {line}: {reason}"
        for line, reason in con.execute(
            "select line, reason from reject where file_id = $id order by seq limit 5",
            {"id": file_id},
        ).fetchall()
    ]
    n_step_like = _find_unmatched(con, path, compression, file_id, found)
    found.is_unrecognised_training = (
        found.step_dialect is None and n_step_like >= _LOOKS_LIKE_TRAINING
    )
    return found


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


def _find_unmatched(
    con: duckdb.DuckDBPyConnection,
    path: Path,
    compression: str | None,
    file_id: str,
    found: Explanation,
) -> int:
    """Collect lines that sound important and that nothing claimed; how many look like steps."""
    claimed = {
        row[0]
        for table in ("train_event", "fault_event", "reject", "accounting_row")
        for row in con.execute(
            "select line from query_table($table) where file_id = $id",
            {"table": table, "id": file_id},
        ).fetchall()
    }
    n_step_like = 0
    try:
        for block in BlockReader(path, compression=compression):
            data = bytes(block.data)
            for match in _SIGNAL.finditer(data):
                index = int(block.starts.searchsorted(match.start(), side="right")) - 1
                number = block.first_line + index + 1
                if number in claimed:
                    continue
                claimed.add(number)
                line = block.line(index)
                n_step_like += bool(_STEP_WORD.search(line) and _LOSS_WORD.search(line))
                if len(found.unmatched) < MAX_UNMATCHED:
                    text = line[:_MAX_LINE].decode("utf-8", "replace")
                    found.unmatched.append(f"{number}: {text}")
    except UnreadableFileError as error:
        found.problem = str(error.strerror)
    return n_step_like


def as_text(e: Explanation) -> str:
    """The explanation as lines for a person."""
    lines = [e.path]
    if e.problem:
        lines.append(f"  problem: {e.problem}")
    if not e.formats:
        return "\n".join(lines)
    lines.append("  format: " + ", ".join(f"{n} ({s:.2f})" for n, s in e.formats.items()))
    if e.dialects:
        counts = ", ".join(f"{n} ({c} anchors)" for n, c in e.dialects.items())
        lines.append(f"  dialects in the head: {counts}")
    lines.append(f"  step lines read as: {e.step_dialect or 'none recognised'}")
    lines.append(f"  time zone: {e.timezone} ({e.timezone_rule})")
    if e.first_at:
        lines.append(f"  from {e.first_at} to {e.last_at}")
    share = "" if e.coverage is None else f", {e.coverage:.1%} claimed"
    lines.append(f"  lines: {e.n_lines:,}{share}")
    for table, kinds in e.counts.items():
        counts = ", ".join(f"{kind or 'rows'} {n:,}" for kind, n in kinds.items())
        lines.append(f"  {table}: {counts}")
    if e.unmatched:
        lines.append("  lines that sound important and were not used:")
        lines += [f"    {line}" for line in e.unmatched]
    if e.is_unrecognised_training:
        lines.append("  this looks like a training log, but no dialect reads its steps: "
                     "write one (see docs/dialects.md) and give it with --dialects")  # fmt: skip
    return "\n".join(lines)
