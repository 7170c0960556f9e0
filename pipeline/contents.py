"""What a file holds: contents are told apart by their bytes, not by paths.

The ledger keeps hashes of the first 64 KiB of a content and of the 64 KiB before its last parsed
byte, so that a file may grow, be renamed, rotated or compressed without being counted twice.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parsers.blocks import UnreadableFileError, detect_compression, open_bytes, read_range
from parsers.formats import HEAD_BYTES
from pipeline.discovery import path_text

TAIL_BYTES = 64 * 1024


@dataclass(frozen=True)
class Known:
    """The newest ledger row of one content."""

    file_id: str
    batch: int
    cluster: str
    path: str
    first_path: str
    ordinal: int
    size_bytes: int
    mtime_us: int
    compression: str | None
    parsed_to: int
    tail_offset: int
    tail_line: int
    head_bytes: int
    head_sha: str
    tail_bytes: int
    tail_sha: str
    format: str | None
    sniff: str
    timezone: str | None
    status: str  # of the last try to read it, also where that found nothing to parse
    status_detail: str | None


def known_contents(rows: Sequence[Mapping[str, Any]]) -> dict[str, Known]:
    """The newest ledger row of every readable content, by file_id; rows in any order."""
    newest: dict[str, dict[str, Any]] = {}
    for row in sorted(rows, key=lambda r: r["batch"]):
        if row["parsed_from"] is not None:
            newest[row["file_id"]] = dict(row)
        elif row["file_id"] in newest:
            newest[row["file_id"]] |= {k: row[k] for k in ("status", "status_detail")}
    fields = Known.__dataclass_fields__
    return {k: Known(**{f: row[f] for f in fields}) for k, row in newest.items()}


def file_id(cluster: str, first_path: str, ordinal: int) -> str:
    """The name of a content: where it was first seen, and the how-many-eth content that was."""
    return sha(f"{cluster}\0{first_path}\0{ordinal}".encode())[:16]


def sha(data: bytes) -> str:
    """The hash that the ledger keeps of heads and tails."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


@dataclass(frozen=True)
class Look:
    """What one look at a file shows."""

    path: Path
    size_bytes: int
    mtime_us: int
    compression: str | None
    head: bytes

    @property
    def name(self) -> str:
        """The path as the ledger spells it."""
        return path_text(self.path)


def look_at(path: Path) -> Look:
    """One look at a file: its head and what the file system says; UnreadableFileError."""
    compression = detect_compression(path)
    try:
        status = path.stat()
    except OSError as error:
        raise UnreadableFileError(error.errno, f"cannot read {path}: {error.strerror}") from error
    head = read_range(path, compression, 0, HEAD_BYTES)
    return Look(path, status.st_size, status.st_mtime_ns // 1000, compression, head)


def begins_as(look: Look, content: Known) -> bool:
    """Whether the file begins with the head of a content."""
    return len(look.head) >= content.head_bytes and (
        sha(look.head[: content.head_bytes]) == content.head_sha
    )


def is_content(look: Look, content: Known) -> bool:
    """Whether the file begins with everything that was parsed of a content."""
    if not begins_as(look, content):
        return False
    if look.compression is None and look.size_bytes < content.parsed_to:
        return False
    if look.size_bytes == content.size_bytes and look.mtime_us == content.mtime_us:
        return True
    start = content.parsed_to - content.tail_bytes
    return sha(read_range(look.path, look.compression, start, content.tail_bytes)) == (
        content.tail_sha
    )


def is_whole_content(look: Look, content: Known) -> bool:
    """Whether the file holds what was parsed of a content, and nothing more."""
    if look.compression is None and look.size_bytes != content.parsed_to:
        return False
    return is_content(look, content) and not (
        look.compression and read_range(look.path, look.compression, content.parsed_to, 1)
    )


def holds(path: Path, content: Known) -> bool:
    """Whether the file begins with all that was parsed of a content; UnreadableFileError."""
    return is_content(look_at(path), content)


def still_holds(path: Path, content: Known) -> bool:
    """The same of a file that may be gone by now."""
    try:
        return holds(path, content)
    except UnreadableFileError:
        return False


class ByHead:
    """Contents by the hash of their head, whose length differs between short ones."""

    def __init__(self, known: Iterable[Known]) -> None:
        """Contents of which nothing was parsed are left out: every file begins with them."""
        self._contents: dict[tuple[int, str], list[Known]] = {}
        for content in known:
            if content.head_bytes:
                key = (content.head_bytes, content.head_sha)
                self._contents.setdefault(key, []).append(content)
        self._sizes = sorted({n_bytes for n_bytes, _ in self._contents})

    def contents(self, head: bytes) -> list[Known]:
        """Those that a file with this head may continue, the longest first."""
        running = hashlib.blake2b(digest_size=16)
        done = 0
        found: list[Known] = []
        for n_bytes in self._sizes[: bisect_right(self._sizes, len(head))]:
            running.update(head[done:n_bytes])
            done = n_bytes
            found += self._contents.get((n_bytes, running.hexdigest()), ())
        return sorted(found, key=lambda k: (-k.parsed_to, k.file_id))


def has_same_bytes(one: Look, other: Look) -> bool:
    """Whether two files with the same head have the same decompressed bytes throughout."""
    is_plain = one.compression == other.compression is None
    if is_plain and (one.size_bytes != other.size_bytes or _tail(one) != _tail(other)):
        return False
    return _whole_sha(one) == _whole_sha(other)


def _tail(look: Look) -> bytes:
    return read_range(look.path, None, max(look.size_bytes - TAIL_BYTES, 0), TAIL_BYTES)


def _whole_sha(look: Look) -> str:
    running = hashlib.blake2b(digest_size=16)
    buffer = memoryview(bytearray(1024 * 1024))
    with open_bytes(look.path, look.compression) as source:
        while n_bytes := source.readinto(buffer):
            running.update(buffer[:n_bytes])
    return running.hexdigest()
