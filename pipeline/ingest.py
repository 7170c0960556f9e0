"""Read what is new into a lake: plan, parse chunks, commit one batch."""

from __future__ import annotations

import errno
import itertools
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from parsers.blocks import BlockReader, CutLine, UnreadableFileError, read_range
from parsers.formats import Facts, ParseContext, Sniff, format_named
from parsers.tables import FACT_TABLES, REJECT, Table
from pipeline import catalog, executor, lake
from pipeline.catalog import FilePlan, IngestOptions
from pipeline.errors import LakeError

CHUNK_BYTES = 64 * 1024 * 1024
_MAX_RACES = 20


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
    parts: str  # folder that takes the chunk's facts


@dataclass(frozen=True)
class ChunkResult:
    """What a worker says about a chunk; the facts stand in its parts."""

    n_lines: int
    next_byte: int
    tail_offset: int | None
    truncated_reason: str | None
    claimed_lines: int
    n_rows: dict[str, int]


@dataclass
class IngestSummary:
    """What an ingest did."""

    batch: int | None = None
    n_files: int = 0
    n_unchanged: int = 0
    n_duplicates: int = 0
    n_bytes: int = 0
    n_lines: int = 0
    claimed_lines: int = 0
    n_rows: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def n_rejects(self) -> int:
        """Records that a format claimed and could not read."""
        return self.n_rows.get(REJECT.name, 0)

    @property
    def n_facts(self) -> int:
        """Rows of all fact tables but the rejects."""
        return sum(self.n_rows.values()) - self.n_rejects


Progress = Callable[[int, int], None]


def ingest(
    paths: Sequence[str],
    lake_dir: Path,
    options: IngestOptions | None = None,
    *,
    jobs: int = 1,
    chunk_bytes: int = CHUNK_BYTES,
    progress: Progress | None = None,
) -> IngestSummary:
    """Ingest files, folders and globs; nothing new means no batch.

    The facts do not depend on `jobs`, `chunk_bytes` or the order of `paths`. LakeError when the
    lake cannot be written; then it is as it was.
    """
    options = options or IngestOptions()
    for _ in range(_MAX_RACES):
        number, rows = lake.read_ledger(lake_dir)
        ledger = rows.to_pylist()
        known = catalog.known_contents(ledger)
        files, broken = catalog.discover(paths, lake_dir)
        plan = catalog.plan(files, broken, known, options)
        summary = IngestSummary(n_unchanged=plan.n_unchanged, n_duplicates=plan.n_duplicates)
        failed = _new_failures(plan.unreadable, ledger, options)
        summary.warnings += [f"{u.path}: {u.reason}" for u in plan.unreadable]
        if not plan.files and not failed:
            return summary
        try:
            with lake.staging(lake_dir) as staged:
                _write_batch(staged, plan.files, failed, options, jobs, chunk_bytes, progress,
                             summary)  # fmt: skip
                if lake.commit(staged, number + 1):
                    summary.batch = number + 1
                    return summary
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise LakeError(
                    f"no space left for {lake_dir}: nothing was added; free some and run again"
                ) from error
            raise
    raise LakeError(f"{lake_dir}: other ingests committed first {_MAX_RACES} times; run again")


def _new_failures(
    unreadable: Sequence[catalog.Unreadable],
    ledger: Sequence[dict[str, object]],
    options: IngestOptions,
) -> list[dict[str, object]]:
    """Ledger rows of unreadable files that the ledger does not list as such already."""
    newest = {row["path"]: row for row in ledger}
    out = []
    for item in unreadable:
        before = newest.get(str(item.path))
        if before is None or before["status_detail"] != item.reason:
            out.append({
                "file_id": catalog.file_id(options.cluster, str(item.path), 0),
                "cluster": options.cluster, "path": str(item.path), "first_path": str(item.path),
                "ordinal": 0, "status": "unreadable", "status_detail": item.reason, "n_facts": 0,
            })  # fmt: skip
    return out


def _write_batch(
    staged: lake.Staging, files: Sequence[FilePlan], failed: list[dict[str, object]],
    options: IngestOptions, jobs: int, chunk_bytes: int, progress: Progress | None,
    summary: IngestSummary,
) -> None:  # fmt: skip
    parts = staged.folder / "parts"
    parts.mkdir()
    tasks: list[ChunkTask] = []
    owners: list[FilePlan] = []
    for plan in sorted(files, key=lambda f: f.file_id):
        for task in _chunks(plan, len(tasks), parts, options, chunk_bytes):
            tasks.append(task)
            owners.append(plan)
    results: dict[int, ChunkResult | None] = {}
    total = sum(max(p.size_bytes - p.parsed_from, 0) for p in files)
    done = n_joined = 0
    lines_before = _LineBases(owners)
    with _Tables(staged.folder) as tables:
        for task, result in executor.run(parse_chunk, tasks, jobs):
            results[task.number] = result
            # parts are joined as soon as those before them are, while workers go on
            while n_joined in results:
                part = results[n_joined]
                tables.add(tasks[n_joined], lines_before.of(tasks[n_joined], part))
                n_joined += 1
            done += (task.end or owners[task.number].size_bytes) - task.start
            if progress is not None:
                progress(min(done, total), total)
    rows = list(failed)
    for plan in files:
        mine = [t for t in tasks if owners[t.number] is plan]
        rows.append(_ledger_row(plan, mine, results, options, summary))
    parts.rmdir()
    table_rows = pa.Table.from_pylist(rows, schema=lake.LEDGER.schema).sort_by("file_id")
    pq.write_table(table_rows, staged.folder / f"{lake.LEDGER.name}.parquet", compression="zstd")


class _LineBases:
    """How many lines of its file stand before each chunk; asked in the order of the chunks."""

    def __init__(self, owners: Sequence[FilePlan]) -> None:
        self._owners = owners
        self._seen: dict[str, int] = {}

    def of(self, task: ChunkTask, result: ChunkResult | None) -> int:
        before = self._seen.get(task.file_id, self._owners[task.number].lines_before)
        self._seen[task.file_id] = before + (result.n_lines if result else 0)
        return before


class _Tables:
    """The fact tables of a batch, written part by part in the order of the chunks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writers: dict[str, pq.ParquetWriter] = {}

    def __enter__(self) -> _Tables:
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self._writers.values():
            writer.close()

    def add(self, task: ChunkTask, lines_before: int) -> None:
        """Append the parts of a chunk, lines counted from the start of its file; drop them."""
        for table in FACT_TABLES:
            path = Path(task.parts) / f"{task.number}-{table.name}.arrow"
            if not path.exists():
                continue
            with pa.memory_map(str(path)) as source:
                rows = pa.ipc.open_file(source).read_all()
                at = table.schema.get_field_index("line")
                line = pc.add(rows.column("line"), lines_before + 1)
                self._writer(table).write_table(rows.set_column(at, table.schema.field(at), line))
            path.unlink()

    def _writer(self, table: Table) -> pq.ParquetWriter:
        if table.name not in self._writers:
            texts = [f.name for f in table.schema if pa.types.is_string(f.type)]
            counts = ("line", "byte_offset", "seq", "stamp_us", "step_to", "consumed_samples")
            self._writers[table.name] = pq.ParquetWriter(
                self._folder / f"{table.name}.parquet", table.schema, compression="zstd",
                compression_level=1, use_dictionary=texts,
                column_encoding={c: "DELTA_BINARY_PACKED" for c in counts
                                 if c in table.schema.names},
            )  # fmt: skip
        return self._writers[table.name]


def _chunks(
    plan: FilePlan, first: int, parts: Path, options: IngestOptions, chunk_bytes: int
) -> list[ChunkTask]:
    if plan.sniff is None:
        return []
    borders: list[int | None] = [plan.parsed_from]
    if plan.compression is None:
        borders += range(plan.parsed_from + chunk_bytes, plan.size_bytes, chunk_bytes)
        borders.append(plan.size_bytes)
    else:
        borders.append(None)
    return [
        ChunkTask(
            first + i, str(plan.path), plan.file_id, int(start or 0), end, plan.compression,
            plan.head, plan.sniff, options.dialect_dirs, str(parts),
        )
        for i, (start, end) in enumerate(itertools.pairwise(borders))
    ]  # fmt: skip


def parse_chunk(task: ChunkTask) -> ChunkResult:
    """Parse one chunk and write its facts into the parts folder; runs in a worker."""
    parser = format_named(task.sniff.format)
    reader = BlockReader(
        Path(task.path), task.start, task.end, task.compression,
        lambda line: parser.is_record_start(line, task.sniff),
    )  # fmt: skip
    if parser.name == "text":
        reader.is_record_start = None  # every line is one: spare the calls
    context = ParseContext(task.file_id, task.head, task.sniff, task.dialect_dirs)
    try:
        facts = parser.parse(iter(reader), context)
    except UnreadableFileError as error:
        facts = Facts()
        reader.truncated_reason = str(error.strerror)
    for cut in reader.cut_lines:
        facts.add(REJECT, _cut_line(task.file_id, cut))
    n_rows = {}
    for name, rows in facts.tables().items():
        path = Path(task.parts) / f"{task.number}-{name}.arrow"
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
            writer.write_table(rows)
        n_rows[name] = rows.num_rows
    return ChunkResult(
        reader.n_lines, reader.next_byte, reader.tail_offset, reader.truncated_reason,
        facts.claimed_lines, n_rows,
    )  # fmt: skip


def _cut_line(file_id: str, cut: CutLine) -> dict[str, object]:
    return {
        "file_id": file_id, "line": cut.line, "byte_offset": cut.byte_offset,
        "seq": cut.byte_offset + 1, "format": "blocks",
        "reason": f"a line of {cut.n_bytes} bytes: only its beginning was read", "raw": "",
    }  # fmt: skip


def _ledger_row(
    plan: FilePlan, tasks: Sequence[ChunkTask], results: dict[int, ChunkResult | None],
    options: IngestOptions, summary: IngestSummary,
) -> dict[str, object]:  # fmt: skip
    """The ledger row of a file."""
    n_lines, next_byte, tail = plan.lines_before, plan.parsed_from, None
    n_facts = 0
    problem: str | None = None
    status = "parsed" if plan.sniff is not None else "unrecognised"
    if plan.sniff is None:
        problem = "no format claims it: binary data, or an unknown kind of file"
        next_byte = plan.size_bytes
    for task in tasks:
        result = results[task.number]
        if result is None:
            status, problem = "failed", f"parsing bytes {task.start} to {task.end} kills the worker"
            continue
        n_lines += result.n_lines
        # an empty chunk lies inside a record of the one before it
        next_byte = result.next_byte if result.n_lines else next_byte
        tail = result.tail_offset if result.n_lines else tail
        if result.truncated_reason:
            status, problem = "truncated", result.truncated_reason
        n_facts += sum(result.n_rows.values())
        summary.claimed_lines += result.claimed_lines
        for name, n_rows in result.n_rows.items():
            summary.n_rows[name] = summary.n_rows.get(name, 0) + n_rows
    summary.n_files += 1
    summary.n_lines += n_lines - plan.lines_before
    summary.n_bytes += next_byte - plan.parsed_from
    if problem:
        summary.warnings.append(f"{plan.path}: {problem}")
    tail_bytes = min(catalog.TAIL_BYTES, next_byte)
    return {
        "file_id": plan.file_id, "cluster": options.cluster, "path": str(plan.path),
        "first_path": plan.first_path, "ordinal": plan.ordinal, "size_bytes": plan.size_bytes,
        "mtime_us": plan.mtime_us, "compression": plan.compression,
        "parsed_from": plan.parsed_from, "parsed_to": next_byte,
        "tail_offset": next_byte if tail is None else tail,
        # the unfinished last line is counted when it is whole
        "n_lines": n_lines - (tail is not None),
        "head_bytes": min(len(plan.head), next_byte),
        "head_sha": catalog.sha(plan.head[:next_byte]),
        "tail_bytes": tail_bytes,
        "tail_sha": catalog.sha(_range(plan, next_byte - tail_bytes, tail_bytes)),
        "first_line_sha": catalog.first_line_sha(plan.head),
        "format": plan.sniff.format if plan.sniff else None,
        "format_version": format_named(plan.sniff.format).version if plan.sniff else None,
        "sniff": json.dumps(catalog.parse_detail(plan.sniff) if plan.sniff else {}),
        "timezone": options.timezone, "status": status, "status_detail": problem,
        "n_facts": n_facts,
    }  # fmt: skip


def _range(plan: FilePlan, start: int, n_bytes: int) -> bytes:
    try:
        return read_range(plan.path, plan.compression, start, n_bytes)
    except UnreadableFileError:
        return b""


def show_progress(done: int, total: int) -> None:
    """One line on stderr that says how far an ingest is; only on a terminal."""
    if not sys.stderr.isatty() or not total:
        return
    now = time.monotonic()
    end = "\n" if done >= total else ""
    if end or now - _shown[0] > 0.2:
        _shown[0] = now
        sys.stderr.write(f"\r{done / 1e6:,.0f} of {total / 1e6:,.0f} MB read{end}")
        sys.stderr.flush()


_shown = [0.0]
