"""Read what is new into a lake: plan, parse chunks, commit one batch."""

from __future__ import annotations

import dataclasses
import itertools
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from parsers.blocks import UnreadableFileError, read_range
from parsers.formats import conform, format_named
from parsers.tables import FACT_TABLES, REJECT, Table
from pipeline import catalog, executor, lake
from pipeline.catalog import FilePlan, IngestOptions
from pipeline.chunks import (
    ChunkResult,
    ChunkTask,
    parse_chunk,
    part_path,
    plan_chunks,
    skim_chunk,
)
from pipeline.contents import TAIL_BYTES, known_contents, sha
from pipeline.discovery import discover
from pipeline.errors import LakeError

CHUNK_BYTES = 64 * 1024 * 1024
_MAX_RACES = 20
_ROWS_PER_GROUP = 100_000
_SHOW_EVERY_S = 0.2


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
LedgerRow = dict[str, object]


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
        files, broken = discover(paths, lake_dir)
        plan = catalog.plan(files, broken, known_contents(ledger), options)
        summary = IngestSummary(
            n_unchanged=plan.n_unchanged, n_duplicates=plan.n_duplicates,
            warnings=list(plan.warnings),
        )  # fmt: skip
        failed = _new_failures(plan.failures, ledger, options)
        if not plan.files and not failed:
            with lake.explained(lake_dir, "write to"):
                lake.sweep(lake_dir)
            return summary
        with lake.staging(lake_dir) as staged:
            n_rows = _write_batch(
                staged, plan.files, failed, options, jobs, chunk_bytes, progress, summary
            )
            if n_rows and lake.commit(staged, number + 1):
                summary.batch = number + 1
        if summary.batch is not None or not n_rows:
            return summary
    raise LakeError(f"{lake_dir}: other ingests committed first {_MAX_RACES} times; run again")


def _new_failures(
    failures: Sequence[catalog.Failure],
    ledger: Sequence[LedgerRow],
    options: IngestOptions,
) -> list[LedgerRow]:
    """Ledger rows of files that are not read now, unless the ledger lists them as such already.

    What is known of the content that stood there is kept: its facts are still alive.
    """
    newest = {row["file_id"]: row for row in ledger}  # oldest batch first
    kept = set(lake.LEDGER.schema.names)
    out: list[LedgerRow] = []
    for item in failures:
        before = newest.get(item.file_id)
        failure: LedgerRow = {
            "parsed_from": None, "status": item.status, "status_detail": item.reason, "n_facts": 0,
        }  # fmt: skip
        if before is None:
            out.append({
                "file_id": item.file_id, "cluster": options.cluster, "path": item.path,
                "first_path": item.path, "ordinal": item.ordinal, **failure,
            })  # fmt: skip
        elif (before["status"], before["status_detail"]) != (item.status, item.reason):
            out.append({k: v for k, v in before.items() if k in kept} | failure)
    return out


def _write_batch(
    staged: lake.Staging, files: Sequence[FilePlan], failed: list[LedgerRow],
    options: IngestOptions, jobs: int, chunk_bytes: int, progress: Progress | None,
    summary: IngestSummary,
) -> int:  # fmt: skip
    """Fill the staging folder; the number of ledger rows."""
    parts = staged.folder / "parts"
    parts.mkdir()
    tasks: list[ChunkTask] = []
    owners: list[FilePlan] = []
    tasks_of: dict[str, list[ChunkTask]] = {f.file_id: [] for f in files}
    for plan in sorted(files, key=lambda f: f.file_id):
        for task in plan_chunks(plan, len(tasks), parts, options, chunk_bytes):
            tasks.append(task)
            tasks_of[plan.file_id].append(task)
            owners.append(plan)
    results: dict[int, ChunkResult] = {}
    total = sum(max(p.look.size_bytes - p.parsed_from, 0) for p in files)
    done = n_joined = 0
    lines_before = _LineBases(owners)
    with _Tables(staged.folder) as tables:
        for task, result in executor.run(parse_chunk, tasks, jobs):
            results[task.number] = result or skim_chunk(task)
            # parts are joined as soon as those before them are, while workers go on
            while n_joined in results:
                tables.add(tasks[n_joined], lines_before.of(tasks[n_joined], results[n_joined]))
                n_joined += 1
            done += (task.end or owners[task.number].look.size_bytes) - task.start
            if progress is not None:
                progress(min(done, total), total)
    rows = list(failed)
    for plan in files:
        mine = _usable([results[t.number] for t in tasks_of[plan.file_id]])
        if mine or plan.sniff is None:
            rows.append(_ledger_row(plan, mine, summary))
        else:
            summary.warnings.append(f"{plan.look.name}: {_REPLACED}; the next ingest reads it")
    parts.rmdir()
    table_rows = pa.Table.from_pylist(rows, schema=lake.LEDGER.schema).sort_by("file_id")
    pq.write_table(table_rows, staged.folder / f"{lake.LEDGER.name}.parquet", compression="zstd")
    return len(rows)


_REPLACED = "it was replaced by another content while it was read"


def _usable(results: Sequence[ChunkResult]) -> list[ChunkResult]:
    """Results up to the first chunk that was read from another content."""
    return list(itertools.takewhile(lambda r: not r.is_replaced, results))


class _LineBases:
    """How many lines of its file stand before each chunk; asked in the order of the chunks."""

    def __init__(self, owners: Sequence[FilePlan]) -> None:
        self._owners = owners
        self._seen: dict[str, int | None] = {}

    def of(self, task: ChunkTask, result: ChunkResult) -> int | None:
        """Lines before the chunk; None if the file was replaced before or while it was read."""
        before = self._seen.get(task.file_id, self._owners[task.number].lines_before)
        if before is not None:
            after = None if result.is_replaced else before + result.n_lines
            self._seen[task.file_id] = after
        return None if result.is_replaced else before


class _Tables:
    """The fact tables of a batch, written part by part in the order of the chunks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writers: dict[str, pq.ParquetWriter] = {}
        self._pending: dict[str, list[pa.Table]] = {t.name: [] for t in FACT_TABLES}
        self._n_pending = {t.name: 0 for t in FACT_TABLES}

    def __enter__(self) -> _Tables:
        return self

    def __exit__(self, error_type: object, *_: object) -> None:
        if error_type is None:
            for table in FACT_TABLES:
                self._flush(table)
        for writer in self._writers.values():
            writer.close()

    def add(self, task: ChunkTask, lines_before: int | None) -> None:
        """Append the parts of a chunk, lines counted from the start of its file; drop them.

        Without `lines_before` they are only dropped.
        """
        for table in FACT_TABLES:
            path = part_path(task, table.name)
            if not path.exists():
                continue
            if lines_before is None:
                path.unlink()
                continue
            with pa.memory_map(str(path)) as source:
                rows = conform(pa.ipc.open_file(source).read_all(), table.stored_schema)
                at = table.schema.get_field_index("line")
                line = pc.add(rows.column("line"), lines_before + 1)
            self._pending[table.name].append(rows.set_column(at, table.schema.field(at), line))
            self._n_pending[table.name] += rows.num_rows
            path.unlink()
            if self._n_pending[table.name] >= _ROWS_PER_GROUP:
                self._flush(table)

    def _flush(self, table: Table) -> None:
        """Write what is pending as one row group: thousands of small files give a few of them."""
        if pending := self._pending[table.name]:
            self._writer(table).write_table(pa.concat_tables(pending))
            self._pending[table.name] = []
            self._n_pending[table.name] = 0

    def _writer(self, table: Table) -> pq.ParquetWriter:
        if table.name not in self._writers:
            texts = [f.name for f in table.schema if pa.types.is_string(f.type)]
            counts = ("line", "byte_offset", "seq", "stamp_us", "step_to", "consumed_samples")
            self._writers[table.name] = pq.ParquetWriter(
                self._folder / f"{table.name}.parquet", table.stored_schema, compression="zstd",
                # readers see plain texts, whatever Arrow held them in
                store_schema=False, compression_level=1, use_dictionary=texts,
                column_encoding={c: "DELTA_BINARY_PACKED" for c in counts
                                 if c in table.schema.names},
            )  # fmt: skip
        return self._writers[table.name]


def _ledger_row(
    plan: FilePlan, results: Sequence[ChunkResult], summary: IngestSummary
) -> LedgerRow:
    """The ledger row of a file."""
    look = plan.look
    end = plan.parsed_from if plan.sniff else look.size_bytes
    last = ChunkResult(0, end, end, 0, None, 0, {})
    # an empty chunk lies inside a record of the one before it
    last = next((r for r in reversed(results) if r.n_lines), last)
    if not last.tail_sha:
        last = _with_tail(last, plan)
    status, problem = _status(plan, results)
    n_lines = sum(r.n_lines for r in results)
    summary.n_files += 1
    summary.n_lines += n_lines
    summary.n_bytes += last.next_byte - plan.parsed_from
    summary.claimed_lines += sum(r.claimed_lines for r in results)
    for result in results:
        for name, n_rows in result.n_rows.items():
            summary.n_rows[name] = summary.n_rows.get(name, 0) + n_rows
    if problem:
        summary.warnings.append(f"{look.name}: {problem}")
    return {
        "file_id": plan.file_id, "cluster": plan.cluster, "path": look.name,
        "first_path": plan.first_path, "ordinal": plan.ordinal, "size_bytes": look.size_bytes,
        "mtime_us": look.mtime_us, "compression": look.compression,
        "parsed_from": plan.parsed_from, "parsed_to": last.next_byte,
        "tail_offset": last.tail_offset,
        "tail_line": plan.lines_before + n_lines - last.n_lines + last.tail_line,
        "n_lines": plan.lines_before + n_lines,
        "head_bytes": min(len(look.head), last.next_byte),
        "head_sha": sha(look.head[: last.next_byte]),
        "tail_bytes": last.tail_bytes, "tail_sha": last.tail_sha,
        "format": plan.sniff.format if plan.sniff else None,
        "format_version": format_named(plan.sniff.format).version if plan.sniff else None,
        "sniff": plan.detail, "timezone": plan.timezone,
        "status": status, "status_detail": problem,
        "n_facts": sum(sum(r.n_rows.values()) for r in results),
    }  # fmt: skip


def _status(plan: FilePlan, results: Sequence[ChunkResult]) -> tuple[str, str | None]:
    """How reading a file went, and what the user should know of it."""
    if plan.sniff is None:
        return "unrecognised", "no format claims it: binary data, or an unknown kind of file"
    if n_killers := sum(r.is_killer for r in results):
        return "failed", f"{n_killers} of {len(results)} chunks kill the process that parses them"
    reasons = [r.truncated_reason for r in results if r.truncated_reason]
    return ("truncated", reasons[-1]) if reasons else ("parsed", None)


def _with_tail(last: ChunkResult, plan: FilePlan) -> ChunkResult:
    """`last` with the hash of the bytes before its end, for a file of which nothing was parsed."""
    look, n_bytes = plan.look, min(TAIL_BYTES, last.next_byte)
    try:
        tail = read_range(look.path, look.compression, last.next_byte - n_bytes, n_bytes)
    except UnreadableFileError:
        tail = b""
    return dataclasses.replace(last, tail_bytes=n_bytes, tail_sha=sha(tail))


class ProgressLine:
    """One line on stderr, rewritten: how much is read and how long the rest will take."""

    def __init__(self) -> None:
        """Time counts from here."""
        self._began = self._shown = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        """Show it; only on a terminal, a few times a second."""
        if not sys.stderr.isatty() or not total:
            return
        now = time.monotonic()
        is_last = done >= total
        if not is_last and now - self._shown < _SHOW_EVERY_S:
            return
        self._shown = now
        rest_s = (now - self._began) * (total - done) / max(done, 1)
        text = f"{done / 1e6:,.0f} of {total / 1e6:,.0f} MB read, {rest_s:.0f} s left"
        sys.stderr.write(f"\r{text:<60}" + ("\n" if is_last else ""))
        sys.stderr.flush()
