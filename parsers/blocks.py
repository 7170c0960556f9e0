"""Read files as newline-aligned blocks with exact byte offsets and line numbers.

This is the only module that opens log files. Plain, gz and zst files give the same blocks; a chunk
owns the records that begin in its byte range.
"""

from __future__ import annotations

import errno
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import zstandard
from isal import isal_zlib

from parsers.formats import HEAD_BYTES, Block

BLOCK_BYTES = 4 * 1024 * 1024
MAX_LINE_BYTES = 16 * 1024 * 1024
"""A longer line is cut here: its rest is skipped and reported."""

_READ_ON_BYTES = 64 * 1024
"""At both borders of a chunk so much is read at first: enough to complete most lines."""

_INDEX_BYTES = 256 * 1024
"""Newlines are sought in pieces that stay in the cache: nearly twice as fast as a whole block."""

_PIECE_BYTES = {"gz": 16 * 1024, "zst": 4 * 1024}
"""Compressed bytes per step: small enough that a decompression bomb stays below some 130 MB."""

_SKIPPABLE_FRAME = b"\x2a\x4d\x18"  # behind a byte 0x50 to 0x5f; pzstd begins its files with one

_ADVICE = {
    errno.EISDIR: "it is a folder; give a file, or the folder to `ingest`",
    errno.EACCES: "no permission to read it; run as a user who may, or leave it out",
    errno.EPERM: "no permission to read it; run as a user who may, or leave it out",
    errno.ENOENT: "it does not exist; check the path",
    errno.ELOOP: "its symbolic links form a loop; remove one of them",
    errno.ESTALE: "the file server no longer knows it; run again",
    errno.EIO: "the disk or file server failed; look at the system log, then run again",
    errno.EINVAL: "it is a device, pipe or socket; give a regular file",
    errno.ENXIO: "it is a device, pipe or socket; give a regular file",
}

_ISAL_ERROR: type[Exception] = isal_zlib.IsalError  # type: ignore[assignment]  # its stub is wrong
_DAMAGED = (zlib.error, _ISAL_ERROR, zstandard.ZstdError)

RecordStart = Callable[[bytes], bool]


class UnreadableFileError(OSError):
    """A file that cannot be read at all; the message says why and what to do."""

    def __str__(self) -> str:
        """The message without the error number that OSError puts before it."""
        return str(self.strerror)


@dataclass(frozen=True)
class CutLine:
    """A line longer than the limit: where it stands and how many bytes it has without `\\n`."""

    line: int  # 0-based in the chunk
    byte_offset: int
    n_bytes: int


class Source(Protocol):
    """A stream of decompressed bytes."""

    truncated_reason: str | None

    def readinto(self, view: memoryview) -> int:
        """Number of bytes put into `view`: at least one before the end of the file, else 0."""
        ...

    def skip(self, n_bytes: int) -> None:
        """Go forward, to the end of the file at most."""
        ...


class _Plain:
    """Bytes of a plain file."""

    truncated_reason: str | None = None

    def __init__(self, handle: FileIO) -> None:
        self._handle = handle

    def readinto(self, view: memoryview) -> int:
        return self._handle.readinto(view) or 0

    def skip(self, n_bytes: int) -> None:
        self._handle.seek(n_bytes, os.SEEK_CUR)


class _Inflated:
    """Decompressed bytes of a gz (any number of members) or zst (any number of frames) file."""

    def __init__(self, handle: FileIO, compression: str) -> None:
        self._handle = handle
        self._compression = compression
        self._inflater: Any = None  # of the open member; None between members
        self._raw = b""
        self._ready = memoryview(b"")
        self.truncated_reason: str | None = None

    def readinto(self, view: memoryview) -> int:
        self._fill()
        n_bytes = min(len(view), len(self._ready))
        view[:n_bytes] = self._ready[:n_bytes]
        self._ready = self._ready[n_bytes:]
        return n_bytes

    def skip(self, n_bytes: int) -> None:
        while n_bytes:
            self._fill()
            if not self._ready:
                return
            n_dropped = min(n_bytes, len(self._ready))
            self._ready = self._ready[n_dropped:]
            n_bytes -= n_dropped

    def _fill(self) -> None:
        """Make bytes ready, unless there are some or the file has ended."""
        while not self._ready and self.truncated_reason is None:
            if not self._raw:
                self._raw = self._handle.read(_PIECE_BYTES[self._compression]) or b""
                if not self._raw:
                    if self._inflater is not None:
                        self.truncated_reason = f"the {self._compression} data ends too early"
                    return
            self._ready = memoryview(self._inflate())

    def _inflate(self) -> bytes:
        if self._inflater is None:
            if self._compression == "gz":
                self._raw = self._raw.lstrip(b"\0")  # padding between members is allowed
            if not self._raw:
                return b""
            self._inflater = _inflater(self._compression)
        try:
            out: bytes = self._inflater.decompress(self._raw)
        except _DAMAGED as error:
            self.truncated_reason = f"the {self._compression} data is damaged: {error}"
            return b""
        self._raw = b""
        if self._inflater.eof:
            self._raw = self._inflater.unused_data
            self._inflater = None
        return out


def _inflater(compression: str) -> Any:
    if compression == "gz":
        return isal_zlib.decompressobj(wbits=31)
    return zstandard.ZstdDecompressor().decompressobj()


@dataclass
class BlockReader:
    """Blocks of one chunk of one file; iterate once, then read what was seen.

    `start` and `end` are any byte positions of the decompressed file: the chunk begins with the
    first record that starts at or after `start` and ends before the first one that starts at or
    after `end`. Chunks that share their borders hold every record once, whatever `block_bytes`.
    Nothing behind `end` is given out but the rest of a record that began before it, so a file may
    grow meanwhile. Reading a compressed file from `start` inflates what stands before it.
    `in_pieces` is for whole files whose records do not follow lines: a block ends anywhere, so its
    first line may be the rest of one, which `first_line` then numbers; no line is ever cut.
    """

    path: Path
    start: int = 0
    end: int | None = None
    compression: str | None = None
    is_record_start: RecordStart | None = None
    block_bytes: int = BLOCK_BYTES
    max_line_bytes: int = MAX_LINE_BYTES
    in_pieces: bool = False

    first_byte: int | None = field(default=None, init=False)  # where the first line begins
    next_byte: int = field(default=0, init=False)  # where the line behind the chunk begins
    n_lines: int = field(default=0, init=False)
    tail_offset: int | None = field(default=None, init=False)  # start of a last line without \n
    truncated_reason: str | None = field(default=None, init=False)  # why bytes are missing
    cut_lines: list[CutLine] = field(default_factory=list, init=False)

    @property
    def n_bytes(self) -> int:
        """Bytes of the lines seen, cut ones counted whole."""
        return 0 if self.first_byte is None else self.next_byte - self.first_byte

    def __iter__(self) -> Iterator[Block]:
        """Newline-aligned blocks; `Block.data` is only valid until the next one."""
        self.next_byte = self.start
        is_inside = self.start == 0
        with open_bytes(self.path, self.compression) as source:
            if self.end is not None and self.end <= self.start:
                return
            lines = _AlignedLines(source, self)
            for block in lines:
                n_lines = len(block.starts)
                first = 0 if is_inside else self._first_record(block, self.start)
                is_inside = is_inside or first < n_lines
                last = n_lines if self.end is None else self._first_record(block, self.end)
                if first < last:
                    self._note(block, first, last, lines)
                    yield self._part(block, first, last)
                is_over = self.end is not None and not is_inside and lines.offset >= self.end
                if last < n_lines or is_over:
                    return
            self.truncated_reason = source.truncated_reason
            if self.truncated_reason is None and lines.offset < (self.end or 0):
                self.truncated_reason = f"the file now ends before byte {self.end}"

    def _part(self, block: Block, first: int, last: int) -> Block:
        """Lines `first` to `last` of a block, as if it were cut there."""
        first_line = self.n_lines - (last - first)
        starts, ends = block.starts[first:last], block.ends[first:last]
        base = int(starts[0])
        limit = min(int(ends[-1]) + 1, len(block.data))
        return Block(
            block.data[base:limit], block.byte_offset + base, first_line,
            starts - base if base else starts, ends - base if base else ends,
        )  # fmt: skip

    def _note(self, block: Block, first: int, last: int, lines: _AlignedLines) -> None:
        """Count the lines that this chunk owns."""
        if self.first_byte is None:
            self.first_byte = block.byte_offset + int(block.starts[first])
        self.n_lines += last - first - lines.is_rest
        if last < len(block.starts):
            self.next_byte = block.byte_offset + int(block.starts[last])
            return
        self.next_byte = lines.offset
        tail = block.byte_offset + int(block.starts[-1])
        self.tail_offset = None if lines.has_newline else tail
        if lines.is_cut:
            n_bytes = lines.offset - block.byte_offset - lines.has_newline
            self.cut_lines.append(CutLine(self.n_lines - 1, block.byte_offset, n_bytes))

    def _first_record(self, block: Block, at_byte: int) -> int:
        """Index of the first line at or after `at_byte` that starts a record."""
        index = int(np.searchsorted(block.starts, at_byte - block.byte_offset))
        if self.is_record_start is not None:
            while index < len(block.starts) and not self.is_record_start(block.line(index)):
                index += 1
        return index


class _AlignedLines:
    """All whole lines from the first one at or after a chunk's start, in one reused buffer.

    After each block: `offset` is where the next line begins, `has_newline` whether the last line of
    the block had one, `is_cut` whether the block is one line without all of its bytes, `is_rest`
    whether its first line began in the block before.
    """

    def __init__(self, source: Source, reader: BlockReader) -> None:
        self.offset = 0
        self.has_newline = False
        self.is_cut = False
        self.is_rest = False
        self._source = source
        self._reader = reader
        self._most = reader.max_line_bytes + 1  # a buffer so full without newline must be cut
        self._usual = min(reader.block_bytes, self._most)
        self._buffer = np.empty(self._usual, dtype=np.uint8)
        self._filled = 0

    def __iter__(self) -> Iterator[Block]:
        if self._reader.start:
            # from one byte earlier: a newline there makes `start` the beginning of a line
            self._source.skip(self._reader.start - 1)
            self.offset = self._reader.start - 1
            if not self._go_to_next_line():
                return
        while True:
            is_end = self._fill()
            filled = self._filled
            newlines = _newlines(self._buffer[:filled])
            if self._reader.in_pieces:
                yield from self._piece(newlines)
                if is_end:
                    return
                continue
            self.is_cut = not newlines.size and filled == self._most
            if self.is_cut:
                yield from self._cut_line()
                continue
            if not newlines.size and not is_end:
                if filled == len(self._buffer):
                    self._resize(min(2 * filled, self._most))
                continue
            cut = filled if is_end else int(newlines[-1]) + 1
            if cut:
                block = _block(self._buffer, cut, self.offset, newlines)
                self.has_newline = bool(newlines.size) and int(newlines[-1]) + 1 == cut
                self.offset += cut
                yield block
            if is_end:
                return
            self._keep(cut)

    def _piece(self, newlines: npt.NDArray[np.int64]) -> Iterator[Block]:
        """All that is in the buffer, wherever its last line ends."""
        if self._filled:
            self.is_rest = self.offset > 0 and not self.has_newline
            block = _block(self._buffer, self._filled, self.offset, newlines)
            self.has_newline = bool(newlines.size) and int(newlines[-1]) + 1 == self._filled
            self.offset += self._filled
            yield block
            self._filled = 0

    def _fill(self) -> bool:
        """Fill the buffer, but little behind the chunk; True at the end of the file."""
        wanted = len(self._buffer)
        if self._reader.end is not None:
            to_end = self._reader.end + _READ_ON_BYTES - self.offset
            wanted = min(wanted, max(to_end, 2 * self._filled, _READ_ON_BYTES))
        while self._filled < wanted:
            n_read = self._source.readinto(self._buffer[self._filled : wanted].data)
            if not n_read:
                return True
            self._filled += n_read
        return False

    def _cut_line(self) -> Iterator[Block]:
        """The beginning of a line that is too long; its end is sought in a buffer of its own."""
        nothing = np.empty(0, dtype=np.int64)
        block = _block(self._buffer, self._most - 1, self.offset, nothing)
        piece, rest = np.empty(self._usual, dtype=np.uint8), 0
        self.offset += self._most
        self.has_newline = False
        while not self.has_newline and (n_read := self._source.readinto(piece.data)):
            newlines = _newlines(piece[:n_read])
            self.has_newline = bool(newlines.size)
            cut = int(newlines[0]) + 1 if self.has_newline else n_read
            self.offset += cut
            rest = n_read - cut
            piece[:rest] = piece[cut:n_read].copy()
        yield block
        self._buffer, self._filled = piece, rest

    def _go_to_next_line(self) -> bool:
        """Drop bytes up to and with the first newline; False where the chunk has none."""
        limit = self._reader.end
        while limit is None or self.offset < limit:
            self._filled = self._source.readinto(self._buffer[:_READ_ON_BYTES].data)
            if not self._filled:
                break
            newlines = _newlines(self._buffer[: self._filled])
            cut = int(newlines[0]) + 1 if newlines.size else self._filled
            self.offset += cut
            self._keep(cut)
            if newlines.size:
                return True
        return False

    def _keep(self, cut: int) -> None:
        """Move what stands behind `cut` to the front of a buffer of the usual size."""
        rest = self._filled - cut
        self._buffer[:rest] = self._buffer[cut : self._filled].copy()
        self._filled = rest
        if len(self._buffer) > self._usual > rest:
            self._resize(self._usual)

    def _resize(self, n_bytes: int) -> None:
        buffer = np.empty(n_bytes, dtype=np.uint8)
        buffer[: self._filled] = self._buffer[: self._filled]
        self._buffer = buffer


def _newlines(buffer: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Positions of all newlines, ascending."""
    newline = ord("\n")
    if len(buffer) <= _INDEX_BYTES:
        return np.flatnonzero(buffer == newline)
    pieces = [
        np.flatnonzero(buffer[at : at + _INDEX_BYTES] == newline) + at
        for at in range(0, len(buffer), _INDEX_BYTES)
    ]
    return np.concatenate(pieces)


def _block(
    buffer: npt.NDArray[np.uint8], filled: int, offset: int, newlines: npt.NDArray[np.int64]
) -> Block:
    """A block of the first `filled` bytes; the last line may lack its newline."""
    ends = newlines if newlines.size and newlines[-1] + 1 == filled else np.append(newlines, filled)
    starts = np.empty_like(ends)
    starts[0] = 0
    starts[1:] = ends[:-1] + 1
    return Block(buffer[:filled].data, offset, 0, starts, ends)


@contextmanager
def open_bytes(path: Path, compression: str | None) -> Iterator[Source]:
    """The decompressed bytes of a file; UnreadableFileError where it cannot be opened or read."""
    with _opened(path) as handle:
        yield _Plain(handle) if compression is None else _Inflated(handle, compression)


@contextmanager
def _opened(path: Path) -> Iterator[FileIO]:
    try:
        with _open_regular(path) as handle:
            yield handle
    except UnreadableFileError:
        raise
    except OSError as error:
        why = _ADVICE.get(error.errno or 0, error.strerror or str(error))
        raise UnreadableFileError(error.errno, f"cannot read {path}: {why}") from error


def _open_regular(path: Path) -> FileIO:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # else a pipe waits for its writer
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(code, os.strerror(code))
    return FileIO(descriptor)


def detect_compression(path: Path) -> str | None:
    """`gz`, `zst` or None, by the first bytes of the file."""
    with _opened(path) as handle:
        head = handle.read(4) or b""
    if head.startswith(b"\x1f\x8b"):
        return "gz"
    is_skippable = head[1:] == _SKIPPABLE_FRAME and 0x50 <= head[0] <= 0x5F
    return "zst" if is_skippable or head == b"\x28\xb5\x2f\xfd" else None


def read_head(path: Path, compression: str | None = None, n_bytes: int = HEAD_BYTES) -> bytes:
    """The first `n_bytes` of the decompressed file, cut behind its last whole line if any."""
    return whole_lines(read_range(path, compression, 0, n_bytes), n_bytes)


def whole_lines(head: bytes, n_bytes: int = HEAD_BYTES) -> bytes:
    """A file's head of at most `n_bytes`, without the line that this limit cuts.

    A line that fills half of the head stays: it is what the file consists of.
    """
    whole = head.rfind(b"\n") + 1
    return head[:whole] if whole > n_bytes // 2 and len(head) == n_bytes else head


def read_range(path: Path, compression: str | None, start: int, n_bytes: int) -> bytes:
    """`n_bytes` of the decompressed file from `start`; fewer where it ends."""
    parts: list[bytes] = []
    with open_bytes(path, compression) as source:
        source.skip(start)
        buffer = memoryview(bytearray(min(n_bytes, BLOCK_BYTES)))
        while n_bytes and (n_read := source.readinto(buffer[: min(n_bytes, len(buffer))])):
            parts.append(bytes(buffer[:n_read]))
            n_bytes -= n_read
    return b"".join(parts)
