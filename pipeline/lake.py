"""A lake on disk: batches of facts in Parquet, each committed by one atomic rename.

    LAKE/facts/batch=000001/<table>.parquet   facts of one ingest, and file.parquet, its ledger
    LAKE/facts/.staging-PID-ID/               a batch being written; swept once its lock is free
    LAKE/timeline -> .timeline-ID/            the current timeline tables

A batch is complete or absent. Any tool can read it; this module is the only writer.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from parsers.tables import Column, Table
from pipeline.discovery import is_unicode, path_text
from pipeline.errors import LakeError

TIMELINE_LINK = "timeline"
_FACTS = "facts"
_BATCH_NAME = re.compile(r"batch=(\d{6,})")
_STAGING = ".staging-"
_LOCK = ".lock"

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_ADVICE = {
    errno.ENOSPC: "free some space and run again",
    errno.EDQUOT: "free some of your quota and run again",
    errno.EFBIG: "raise the limit of file sizes (ulimit -f) and run again",
    errno.EROFS: "mount its file system writable, or name another --lake",
    errno.EACCES: "run as a user who may change it, or name another --lake",
    errno.EPERM: "run as a user who may change it, or name another --lake",
    errno.ENOTDIR: "expected a folder, or a path where one can be made; name another --lake",
    errno.EEXIST: "expected a folder, or a path where one can be made; name another --lake",
    errno.ENOENT: "expected a folder, or a path where one can be made; name another --lake",
    errno.ENAMETOOLONG: "name a --lake with a shorter path",
    errno.ELOOP: "remove one of the symbolic links, or name another --lake",
}

_I64, _STR = pa.int64(), pa.string()

LEDGER = Table(
    "file",
    "one row per file that a batch read, or could not read",
    ("file_id", "batch"),
    (
        Column("file_id", _STR, "made from cluster, first-seen path and ordinal of the content"),
        Column("cluster", _STR, "cluster that the file belongs to"),
        Column("path", _STR, "path under which it was read"),
        Column("first_path", _STR, "path under which its content was first seen"),
        Column("ordinal", _I64, "contents that the first path held before"),
        Column("size_bytes", _I64, "size on disk", "bytes"),
        Column("mtime_us", _I64, "modification time", "us"),
        Column("compression", _STR, "gz, zst or null"),
        Column("parsed_from", _I64, "first byte that this batch parsed; null if none", "bytes"),
        Column("parsed_to", _I64, "byte behind the last one parsed", "bytes"),
        Column("tail_offset", _I64, "start of the last record: the next batch goes on", "bytes"),
        Column("tail_line", _I64, "lines before tail_offset"),
        Column("n_lines", _I64, "lines before parsed_to, an unfinished one included"),
        Column("head_bytes", _I64, "bytes that head_sha covers", "bytes"),
        Column("head_sha", _STR, "hash of the first bytes of the content"),
        Column("tail_bytes", _I64, "bytes before parsed_to that tail_sha covers", "bytes"),
        Column("tail_sha", _STR, "hash of the last parsed bytes"),
        Column("format", _STR, "recognised format"),
        Column("format_version", _STR, "version of the format's parser"),
        Column("sniff", _STR, "JSON: what recognition found, as parsing needs it"),
        Column("timezone", _STR, "IANA zone for times without offset; null: UTC is assumed"),
        Column("status", _STR, "parsed, truncated, unreadable, waiting, unrecognised or failed"),
        Column("status_detail", _STR, "why, where status is not parsed"),
        Column("n_facts", _I64, "facts that this batch found in it"),
    ),
)
"""Named `file` on disk; the timeline table of that name is the current state of every file."""


def committed_batches(lake: Path) -> dict[int, Path]:
    """Number and folder of every committed batch, ascending."""
    folder = lake / _FACTS
    if not is_unicode(lake):
        raise LakeError(
            f"{path_text(lake)}: the path of a lake must be UTF-8, since any tool shall read it; "
            "name another --lake"
        )
    with explained(lake, "read"):
        entries = list(folder.iterdir()) if folder.is_dir() else []
    found = {int(m[1]): entry for entry in entries if (m := _BATCH_NAME.fullmatch(entry.name))}
    return dict(sorted(found.items()))


@contextmanager
def explained(lake: Path, action: str, kept: str = "it is as it was") -> Iterator[None]:
    """LakeError with advice where the system refuses an action ("read", "write to") meanwhile.

    `kept` says what has not changed.
    """
    try:
        yield
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        what = "no space left in" if error.errno in _NO_SPACE else f"cannot {action}"
        advice = _ADVICE.get(error.errno or 0, "look at the system log, then run again")
        raise LakeError(f"{what} the lake {lake} ({why}): {kept}; {advice}") from error


def require_lake(lake: Path) -> Path:
    """`lake` itself if it holds a batch; else LakeError."""
    if not committed_batches(lake):
        raise LakeError(
            f"{lake} holds no facts: expected a folder that `wallsplit ingest PATH... --lake "
            f"{lake}` has filled"
        )
    return lake


def timeline_dir(lake: Path) -> Path | None:
    """The folder of the current timeline tables; None before the first split."""
    link = lake / TIMELINE_LINK
    with explained(lake, "read"):
        return link.resolve() if link.is_dir() else None


def read_ledger(lake: Path) -> tuple[int, pa.Table]:
    """(number of the last batch or 0, ledger rows of all batches with their batch)."""
    batches = committed_batches(lake)
    parts = []
    for number, folder in batches.items():
        path = folder / f"{LEDGER.name}.parquet"
        try:
            rows = pq.read_table(path, schema=LEDGER.schema)
        except (OSError, pa.ArrowInvalid) as error:
            raise LakeError(
                f"cannot read the ledger {path}: {error}; restore the folder {folder.name} from a "
                "copy, or ingest the logs into a new lake"
            ) from error
        parts.append(rows.append_column("batch", pa.array([number] * rows.num_rows, pa.int64())))
    empty = LEDGER.schema.append(pa.field("batch", pa.int64())).empty_table()
    return max(batches, default=0), pa.concat_tables(parts) if parts else empty


@dataclass(frozen=True)
class Staging:
    """A batch being written."""

    folder: Path


@contextmanager
def staging(lake: Path) -> Iterator[Staging]:
    """A locked folder for the next batch; it is gone afterwards unless it was committed.

    LakeError where the lake cannot be written, also by the caller meanwhile.
    """
    facts = lake / _FACTS
    folder = facts / f"{_STAGING}{os.getpid()}-{uuid.uuid4().hex[:12]}"
    with explained(lake, "write to", "nothing was added"):
        facts.mkdir(parents=True, exist_ok=True)
        sweep(lake)
        lock = _locked(folder)
        try:
            yield Staging(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            _lock_file(folder).unlink(missing_ok=True)
            lock.close()


def commit(staged: Staging, number: int) -> bool:
    """Publish the staged batch under `number`; False if another ingest took the number.

    The folder holds nothing but complete files by then; all of it is on disk before the rename.
    """
    target = staged.folder.parent / f"batch={number:06d}"
    try:
        for path in (*staged.folder.iterdir(), staged.folder):
            _fsync(path)
        # a target that exists is never empty, and a rename onto a filled folder fails
        staged.folder.rename(target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    _fsync(target.parent)
    _fsync(target.parent.parent)
    return True


def sweep(lake: Path) -> None:
    """Remove what crashed ingests left: staging folders whose lock is free; OSError."""
    for lock_file in (lake / _FACTS).glob(f"{_STAGING}*{_LOCK}"):
        try:
            with lock_file.open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock_file.with_name(lock_file.name.removesuffix(_LOCK)), True)
                lock_file.unlink()
        except FileNotFoundError:
            continue  # its owner, or another sweeper, was faster
        except BlockingIOError:
            continue  # a live rival


def _locked(folder: Path) -> IO[str]:
    """Make `folder`; a handle that keeps others from sweeping it while it is open."""
    while True:
        lock = _lock_file(folder).open("w")
        fcntl.flock(lock, fcntl.LOCK_EX)
        # a sweeper may have removed the file between its opening and its locking
        if _lock_file(folder).exists():
            break
        lock.close()
    try:
        folder.mkdir()
    except OSError:
        lock.close()
        raise
    return lock


def _lock_file(folder: Path) -> Path:
    """Beside the folder: it is there before the folder is, and after it has gone."""
    return folder.with_name(folder.name + _LOCK)


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
