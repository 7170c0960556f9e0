"""Read files as newline-aligned blocks with exact byte offsets and line numbers.

This is the only module that opens log files. Plain, gz and zst files give the same blocks; a chunk
of a plain file owns the records that begin in its byte range.
"""

from __future__ import annotations

import errno
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt
import zstandard
from isal import isal_zlib

from parsers.formats import HEAD_BYTES, Block

BLOCK_BYTES = 4 * 1024 * 1024
MAX_LINE_BYTES = 16 * 1024 * 1024
"""A longer line is cut here: its rest is skipped and reported."""

_PIECE_BYTES = {"gz": 16 * 1024, "zst": 4 * 1024}
"""Compressed bytes per step: small enough that a decompression bomb stays below some 130 MB."""
_MAGIC = {b"\x1f\x8b": "gz", b"\x28\xb5\x2f\xfd": "zst"}

RecordStart = Callable[[bytes], bool]


class UnreadableFileError(OSError):
    """A file that cannot be read at all; the message says why and what to do."""


@dataclass(frozen=True)
class CutLine:
    """A line longer than the limit: where it stands and how many bytes it has."""

    line: int  # 0-based in the chunk
    byte_offset: int
    n_bytes: int


class _Source(Protocol):
    truncated_reason: str | None

    def readinto(self, view: memoryview) -> int: ...


class _Plain:
    """Bytes of a plain file from `start` on."""

    def __init__(self, handle: BinaryIO, start: int) -> None:
        handle.seek(start)
        self._handle: Any = handle  # BinaryIO lacks readinto in typeshed
        self.truncated_reason: str | None = None

    def readinto(self, view: memoryview) -> int:
        return int(self._handle.readinto(view) or 0)


class _Inflated:
    """Decompressed bytes of a gz (any number of members) or zst (any number of frames) file."""

    def __init__(self, handle: BinaryIO, compression: str) -> None:
        self._handle = handle
        self._compression = compression
        self._inflater: Any = None  # of the open member; None between members
        self._raw = b""
        self._ready = memoryview(b"")
        self.truncated_reason: str | None = None

    def readinto(self, view: memoryview) -> int:
        while not self._ready and self.truncated_reason is None:
            if not self._raw:
                self._raw = self._handle.read(_PIECE_BYTES[self._compression])
                if not self._raw:
                    if self._inflater is not None:
                        self.truncated_reason = f"the {self._compression} data ends too early"
                    break
            self._ready = memoryview(self._inflate())
        n_bytes = min(len(view), len(self._ready))
        view[:n_bytes] = self._ready[:n_bytes]
        self._ready = self._ready[n_bytes:]
        return n_bytes

    def _inflate(self) -> bytes:
        if self._inflater is None:
            self._raw = self._raw.lstrip(b"\0")  # padding between members is allowed
            if not self._raw:
                return b""
            self._inflater = _inflater(self._compression)
        try:
            out: bytes = self._inflater.decompress(self._raw)
        except (zlib.error, isal_zlib.error, zstandard.ZstdError) as error:
            self.truncated_reason = f"the {self._compression} data is damaged: {error}"
            return b""
        self._raw = b""
        if self._inflater.eof:
            self._raw = self._inflater.unused_data
            self._inflater = None
        return out


def _inflater(compression: str) -> Any:  # noqa: ANN401 - two libraries with one protocol
    if compression == "gz":
        return isal_zlib.decompressobj(wbits=31)
    return zstandard.ZstdDecompressor().decompressobj()


@dataclass
class BlockReader:
    """Blocks of one chunk of one file; iterate once, then read what was seen.

    `start` and `end` are any byte positions of the decompressed file: the chunk begins with the
    first record that starts at or after `start` and ends before the first one that starts at or
    after `end`. A compressed file is read as one chunk.
    """

    path: Path
    start: int = 0
    end: int | None = None
    compression: str | None = None
    is_record_start: RecordStart | None = None
    block_bytes: int = BLOCK_BYTES
    max_line_bytes: int = MAX_LINE_BYTES

    first_byte: int | None = field(default=None, init=False)  # where the first line begins
    next_byte: int = field(default=0, init=False)  # where the line behind the chunk begins
    n_lines: int = field(default=0, init=False)
    tail_offset: int | None = field(default=None, init=False)  # start of a last line without \n
    truncated_reason: str | None = field(default=None, init=False)
    cut_lines: list[CutLine] = field(default_factory=list, init=False)

    def __iter__(self) -> Iterator[Block]:
        """Newline-aligned blocks; `Block.data` is only valid until the next one."""
        self.next_byte = self.start
        is_inside = self.start == 0
        with open_bytes(self.path, self.compression, max(self.start - 1, 0)) as source:
            for block in self._raw_blocks(source):
                last = len(block.starts)
                first = 0 if is_inside else self._first_record(block, self.start)
                is_inside = is_inside or first < last
                if self.end is not None:
                    last = self._first_record(block, self.end)
                if first < last:
                    yield self._own(block, first, last)
                if last < len(block.starts):
                    self.truncated_reason = None
                    return
            self.truncated_reason = source.truncated_reason

    def _own(self, block: Block, first: int, last: int) -> Block:
        owned = Block(
            block.data, block.byte_offset, self.n_lines - first, block.starts, block.ends
        )  # fmt: skip
        if first or last < len(block.starts):
            base, limit = int(block.starts[first]), int(block.ends[last - 1])
            # keep the newline: the block must look as if it were cut there
            limit = min(limit + 1, len(block.data))
            owned = Block(
                block.data[base:limit], block.byte_offset + base, self.n_lines,
                block.starts[first:last] - base, block.ends[first:last] - base,
            )  # fmt: skip
        if self.first_byte is None:
            self.first_byte = owned.byte_offset
        self.n_lines += last - first
        self.next_byte = owned.byte_offset + len(owned.data)
        has_newline = len(owned.data) > int(owned.ends[-1])
        self.tail_offset = None if has_newline else owned.byte_offset + int(owned.starts[-1])
        return owned

    def _first_record(self, block: Block, at_byte: int) -> int:
        """Index of the first line at or after `at_byte` that starts a record."""
        index = int(np.searchsorted(block.starts, at_byte - block.byte_offset))
        if self.is_record_start is not None:
            while index < len(block.starts) and not self.is_record_start(block.line(index)):
                index += 1
        return index

    def _raw_blocks(self, source: _Source) -> Iterator[Block]:
        """Every block of the source, from the byte it stands at."""
        buffer = np.empty(self.block_bytes, dtype=np.uint8)
        offset = max(self.start - 1, 0)
        filled = 0
        while True:
            n_read = source.readinto(memoryview(buffer)[filled:])
            is_end = n_read == 0 and filled < len(buffer)
            filled += n_read
            if not is_end and filled < len(buffer):
                continue
            newlines = np.flatnonzero(buffer[:filled] == ord("\n"))
            if not is_end and not newlines.size:
                if filled < self.max_line_bytes:
                    bigger = np.empty(min(2 * filled, self.max_line_bytes), dtype=np.uint8)
                    bigger[:filled] = buffer[:filled]
                    buffer = bigger
                    continue
                yield _block(buffer, filled, offset, newlines)
                n_skipped, rest, is_whole = self._skip_line(source, buffer)
                if self.first_byte is not None:
                    self.cut_lines.append(CutLine(self.n_lines - 1, offset, filled + n_skipped))
                    self.next_byte = offset + filled + n_skipped
                    self.tail_offset = None if is_whole else offset
                offset += filled + n_skipped
                filled = rest
                continue
            cut = filled if is_end else int(newlines[-1]) + 1
            if cut:
                yield _block(buffer, cut, offset, newlines)
            if is_end:
                return
            rest = filled - cut
            buffer[:rest] = buffer[cut:filled].copy()
            offset += cut
            filled = rest

    @staticmethod
    def _skip_line(source: _Source, buffer: npt.NDArray[np.uint8]) -> tuple[int, int, bool]:
        """Drop the rest of a line: (bytes dropped, bytes kept in the buffer, newline was found)."""
        n_skipped = 0
        while n_read := source.readinto(memoryview(buffer)):
            newlines = np.flatnonzero(buffer[:n_read] == ord("\n"))
            if newlines.size:
                cut = int(newlines[0]) + 1
                buffer[: n_read - cut] = buffer[cut:n_read].copy()
                return n_skipped + cut, n_read - cut, True
            n_skipped += n_read
        return n_skipped, 0, False


def _block(
    buffer: npt.NDArray[np.uint8], filled: int, offset: int, newlines: npt.NDArray[np.int64]
) -> Block:
    """A block of the first `filled` bytes; the last line may lack its newline."""
    ends = newlines if newlines.size and newlines[-1] + 1 == filled else np.append(newlines, filled)
    starts = np.empty_like(ends)
    starts[0] = 0
    starts[1:] = ends[:-1] + 1
    return Block(memoryview(buffer)[:filled], offset, 0, starts, ends)


@contextmanager
def open_bytes(path: Path, compression: str | None, start: int = 0) -> Iterator[_Source]:
    """The decompressed bytes of a file from `start` (0 where compressed); UnreadableFileError."""
    with _opened(path) as handle:
        if compression is None:
            yield _Plain(handle, start)
        else:
            yield _Inflated(handle, compression)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    advice = {
        errno.EISDIR: "it is a folder; give a file, or the folder to `ingest`",
        errno.EACCES: "no permission to read it; run as a user who may, or leave it out",
        errno.EPERM: "no permission to read it; run as a user who may, or leave it out",
        errno.ENOENT: "it does not exist; check the path",
        errno.ELOOP: "its symbolic links form a loop; remove one of them",
    }
    try:
        handle = path.open("rb", buffering=0)
    except OSError as error:
        why = advice.get(error.errno or 0, error.strerror or "it cannot be opened")
        raise UnreadableFileError(error.errno, f"cannot read {path}: {why}") from error
    with handle:
        yield handle


def detect_compression(path: Path) -> str | None:
    """`gz`, `zst` or None, by the first bytes of the file."""
    with _opened(path) as handle:
        head = handle.read(4)
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)


def read_head(path: Path, compression: str | None = None, n_bytes: int = HEAD_BYTES) -> bytes:
    """The first `n_bytes` of the decompressed file, cut behind its last whole line if it has one."""
    head = read_range(path, compression, 0, n_bytes)
    whole = head.rfind(b"\n") + 1
    return head[:whole] if whole and len(head) == n_bytes else head


def read_range(path: Path, compression: str | None, start: int, n_bytes: int) -> bytes:
    """`n_bytes` of the decompressed file from `start`; fewer where it ends."""
    parts: list[bytes] = []
    with open_bytes(path, compression, start) as source:
        to_skip = start if compression else 0
        buffer = memoryview(bytearray(min(max(n_bytes, 1), BLOCK_BYTES)))
        wanted = n_bytes
        while wanted and (n_read := source.readinto(buffer)):
            skipped = min(to_skip, n_read)
            to_skip -= skipped
            piece = bytes(buffer[skipped : min(n_read, skipped + wanted)])
            parts.append(piece)
            wanted -= len(piece)
    return b"".join(parts)
