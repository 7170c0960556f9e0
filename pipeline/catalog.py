"""What an ingest must read: files against the ledger, without reading more than heads and tails.

Content is recognised by hashes of its first 64 KiB and of the 64 KiB before the last parsed byte,
so that a file may grow, be renamed, rotated or compressed without being counted twice.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parsers.blocks import UnreadableFileError, detect_compression, read_range
from parsers.formats import HEAD_BYTES, Sniff, recognise
from pipeline.errors import UsageError

TAIL_BYTES = 64 * 1024


@dataclass(frozen=True)
class IngestOptions:
    """What the user may choose about reading."""

    cluster: str = "default"
    timezone: str | None = None
    format: str | None = None
    dialect_dirs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Known:
    """The newest ledger row of one content."""

    file_id: str
    path: str
    first_path: str
    ordinal: int
    size_bytes: int
    mtime_us: int
    compression: str | None
    parsed_to: int
    tail_offset: int
    n_lines: int
    head_bytes: int
    head_sha: str
    tail_bytes: int
    tail_sha: str
    first_line_sha: str
    format: str
    sniff: str
    timezone: str | None
    status: str
    status_detail: str | None


@dataclass(frozen=True)
class FilePlan:
    """One file to read, from which byte, as which content."""

    path: Path
    file_id: str
    first_path: str
    ordinal: int
    size_bytes: int
    mtime_us: int
    compression: str | None
    parsed_from: int
    lines_before: int
    head: bytes
    sniff: Sniff | None  # None: no format claims it


@dataclass(frozen=True)
class Unreadable:
    """One file that cannot be read, and why."""

    path: Path
    reason: str


@dataclass(frozen=True)
class Plan:
    """Everything that an ingest has to do."""

    files: tuple[FilePlan, ...]
    unreadable: tuple[Unreadable, ...]
    n_unchanged: int
    n_duplicates: int


def discover(paths: Sequence[str], lake: Path) -> tuple[list[Path], list[Unreadable]]:
    """All files of files, folders and globs, absolute, sorted, each once; UsageError if none fits.

    Folders are walked without following symbolic links to folders; the lake itself is left out.
    """
    found: dict[str, Path] = {}
    broken: list[Unreadable] = []
    lake_path = os.path.realpath(lake)
    for text in paths:
        path = Path(text)
        if path.is_dir():
            candidates = list(_walk(path))
        elif path.exists() or path.is_symlink():
            candidates = [path]
        else:
            candidates = sorted(Path(path.anchor or ".").glob(
                str(path.relative_to(path.anchor)) if path.anchor else text))  # fmt: skip
            candidates = [c for c in candidates if not c.is_dir()]
            if not candidates:
                raise UsageError(f"{text}: no such file, folder or matching glob")
        for candidate in candidates:
            absolute = os.path.abspath(candidate)  # noqa: PTH100 - resolve() would follow links
            if os.path.realpath(absolute).startswith(lake_path + os.sep):
                continue
            if candidate.is_file():
                found[absolute] = Path(absolute)
            elif not candidate.exists():
                broken.append(Unreadable(Path(absolute), "a symbolic link that leads nowhere"))
            else:
                broken.append(Unreadable(Path(absolute), "no regular file (pipe, socket, device)"))
    return [found[k] for k in sorted(found)], broken


def _walk(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder, followlinks=False):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        for name in sorted(names):
            yield Path(root) / name


def known_contents(rows: Sequence[Mapping[str, Any]]) -> dict[str, Known]:
    """The newest ledger row of every readable content, by file_id; rows in any order."""
    newest: dict[str, Mapping[str, Any]] = {}
    for row in sorted(rows, key=lambda r: r["batch"]):
        if row["parsed_from"] is not None:
            newest[row["file_id"]] = row
    fields = Known.__dataclass_fields__
    return {k: Known(**{f: row[f] for f in fields}) for k, row in newest.items()}


def plan(
    paths: Sequence[Path], broken: Sequence[Unreadable], known: Mapping[str, Known],
    options: IngestOptions,
) -> Plan:  # fmt: skip
    """What is new in `paths` against what is known. Reads heads and tails only."""
    by_path = _newest_by_path(known)
    ordinals: dict[str, int] = {}
    for content in known.values():
        ordinals[content.first_path] = max(ordinals.get(content.first_path, 0), content.ordinal + 1)
    files: list[FilePlan] = []
    unreadable = list(broken)
    held: set[str] = set()  # contents that still stand where they were last seen
    n_unchanged = n_duplicates = 0
    undecided: list[tuple[Path, _Look]] = []
    for path in paths:
        try:
            look = _look(path)
            content = by_path.get(str(path))
            if content is None or not _is_content(look, content):
                undecided.append((path, look))
                continue
            held.add(content.file_id)
            if _is_unchanged(look, content):
                n_unchanged += 1
            else:
                files.append(_continued(look, content, options))
        except UnreadableFileError as error:
            unreadable.append(Unreadable(path, str(error.strerror)))
    for path, look in undecided:
        try:
            moved = _moved(look, known, held, paths_now={str(p) for p in paths})
            if moved is not None:
                held.add(moved.file_id)
                files.append(_continued(look, moved, options))
            elif _is_duplicate(look, known, files):
                n_duplicates += 1
            else:
                files.append(_new(look, by_path.get(str(path)), held, ordinals, options))
        except UnreadableFileError as error:
            unreadable.append(Unreadable(path, str(error.strerror)))
    files.sort(key=lambda f: str(f.path))
    return Plan(tuple(files), tuple(unreadable), n_unchanged, n_duplicates)


@dataclass(frozen=True)
class _Look:
    """What one look at a file shows."""

    path: Path
    size_bytes: int
    mtime_us: int
    compression: str | None
    head: bytes


def _look(path: Path) -> _Look:
    compression = detect_compression(path)
    status = path.stat()
    head = read_range(path, compression, 0, HEAD_BYTES)
    return _Look(path, status.st_size, status.st_mtime_ns // 1000, compression, head)


def _newest_by_path(known: Mapping[str, Known]) -> dict[str, Known]:
    out: dict[str, Known] = {}
    for content in sorted(known.values(), key=lambda k: k.ordinal):
        out[content.path] = content
    return out


def sha(data: bytes) -> str:
    """The hash that the ledger keeps of heads and tails."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def first_line_sha(head: bytes) -> str:
    """The hash of the first line, by which a rewritten file is told from another one."""
    return sha(head.partition(b"\n")[0])


def _is_content(look: _Look, content: Known) -> bool:
    """Whether the file begins with everything that was parsed of `content`."""
    if len(look.head) < content.head_bytes:
        return False
    if sha(look.head[: content.head_bytes]) != content.head_sha:
        return False
    if look.compression is None and look.size_bytes < content.parsed_to:
        return False
    if look.size_bytes == content.size_bytes and look.mtime_us == content.mtime_us:
        return True
    start = content.parsed_to - content.tail_bytes
    return sha(read_range(look.path, look.compression, start, content.tail_bytes)) == (
        content.tail_sha
    )


def _is_unchanged(look: _Look, content: Known) -> bool:
    if str(look.path) != content.path:
        return False
    if look.compression is None:
        return look.size_bytes == content.parsed_to
    return look.size_bytes == content.size_bytes


def _moved(
    look: _Look, known: Mapping[str, Known], held: set[str], paths_now: set[str]
) -> Known | None:
    """The content that stood elsewhere before and stands here now."""
    for content in sorted(known.values(), key=lambda k: (-k.parsed_to, k.file_id)):
        if content.file_id in held or not content.head_bytes or not _is_content(look, content):
            continue
        old = Path(content.path)
        if content.path not in paths_now and old.exists():
            try:
                if _is_content(_look(old), content):
                    continue
            except UnreadableFileError:
                pass
        return content
    return None


def _is_duplicate(look: _Look, known: Mapping[str, Known], files: Sequence[FilePlan]) -> bool:
    """Whether the same bytes are known from, or will be read from, another file."""
    if not look.head:
        return False
    for content in known.values():
        is_whole = look.compression is not None or look.size_bytes == content.parsed_to
        if is_whole and _is_content(look, content) and not _has_more(look, content.parsed_to):
            return True
    return any(
        f.size_bytes == look.size_bytes and f.compression == look.compression
        and sha(look.head) == sha(f.head) and _same_tail(look, f)
        for f in files
    )  # fmt: skip


def _has_more(look: _Look, n_bytes: int) -> bool:
    return look.compression is not None and bool(
        read_range(look.path, look.compression, n_bytes, 1)
    )


def _same_tail(look: _Look, other: FilePlan) -> bool:
    start = max(look.size_bytes - TAIL_BYTES, 0)
    return read_range(look.path, None, start, TAIL_BYTES) == read_range(
        other.path, None, start, TAIL_BYTES
    )


def _continued(look: _Look, content: Known, options: IngestOptions) -> FilePlan:
    """Go on behind the last whole line; from the beginning where the format is seen anew."""
    sniff = _sniff(look, options)
    is_same_format = (
        sniff is not None and sniff.format == content.format
        and parse_detail(sniff) == json.loads(content.sniff)
    )  # fmt: skip
    goes_on = is_same_format and look.compression is None
    return FilePlan(
        path=look.path, file_id=content.file_id, first_path=content.first_path,
        ordinal=content.ordinal, size_bytes=look.size_bytes, mtime_us=look.mtime_us,
        compression=look.compression, parsed_from=content.tail_offset if goes_on else 0,
        lines_before=content.n_lines if goes_on else 0, head=look.head, sniff=sniff,
    )  # fmt: skip


def _new(
    look: _Look, before: Known | None, held: set[str], ordinals: dict[str, int],
    options: IngestOptions,
) -> FilePlan:  # fmt: skip
    """A content not seen before, or a rewritten one that takes the place of the old."""
    path = str(look.path)
    is_rewritten = (
        before is not None
        and before.file_id not in held
        and before.first_path == path
        and before.first_line_sha == first_line_sha(look.head)
    )
    ordinal = before.ordinal if is_rewritten and before is not None else ordinals.get(path, 0)
    ordinals[path] = max(ordinals.get(path, 0), ordinal + 1)
    return FilePlan(
        path=look.path, file_id=file_id(options.cluster, path, ordinal), first_path=path,
        ordinal=ordinal, size_bytes=look.size_bytes, mtime_us=look.mtime_us,
        compression=look.compression, parsed_from=0, lines_before=0, head=look.head,
        sniff=_sniff(look, options),
    )  # fmt: skip


def file_id(cluster: str, first_path: str, ordinal: int) -> str:
    """The name of a content: where it was first seen, and the how-many-eth content that was."""
    return sha(f"{cluster}\0{first_path}\0{ordinal}".encode())[:16]


def _sniff(look: _Look, options: IngestOptions) -> Sniff | None:
    head = look.head
    whole = head.rfind(b"\n") + 1
    if whole and len(head) == HEAD_BYTES:
        head = head[:whole]
    sniffs = recognise(head, look.path.name, options.format)
    return sniffs[0] if sniffs else None


def parse_detail(sniff: Sniff) -> dict[str, str]:
    """The part of a sniff that parsing depends on; counts of anchors only inform."""
    return {k: v for k, v in sorted(sniff.detail.items()) if not k.startswith("dialect:")}
