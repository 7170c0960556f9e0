"""The objects of one array of a JSON document of any size, found by one scan over its bytes.

Memory holds one block and the object that is open. A string cannot span lines (RFC 8259, section
7), so a quote that was lost damages its line and no more.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from parsers.formats import Block

MAX_OBJECT_BYTES = 32 * 1024 * 1024
"""A longer object is given up: a job with ten thousand steps has less."""

KEPT_BYTES = 1024
"""What is kept of an object that is given up: enough to recognise it."""

_SLICE_BYTES = 128 * 1024  # scanned at once: stays in the cache
_FIRST_SLICE_BYTES = 4 * 1024  # behind damage, which may come again and again
_KEY_BYTES = 64  # where the key of an array is sought before its bracket

_BLANKS = re.compile(rb"\s*")
_LINE_WITH_OBJECT = re.compile(rb"(?<=\n)\{")
_QUOTE, _BACKSLASH, _NEWLINE, _BRACE, _BRACKET = b'"\\\n{['

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Chars = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class JsonObject:
    """Bytes of one element of the array and where they stand."""

    line: int  # 0-based in the chunk
    byte_offset: int
    data: bytes  # only the beginning where there is a problem
    problem: str | None = None


class ObjectScanner:
    """Blocks in (pieces of lines too), elements out that are objects or arrays.

    `first_byte` is where the first document begins; more may follow, blanks or lines of other text
    between them. The array is the one that stands under `key` in the outermost object.
    """

    def __init__(self, key: str, first_byte: int) -> None:
        """Nothing is read yet."""
        self._key = re.compile(rb'(?<!\\)"%s"\s*:\s*\Z' % re.escape(key.encode()))
        self._first_byte = first_byte
        self._depth = 0
        self._is_in_string = self._is_escaped = self._is_in_array = False
        self._is_in_text = False  # behind a document stands something else than blanks
        self._slice_bytes = _SLICE_BYTES
        self._before = b""  # last bytes of the block before
        self._start: int | None = None  # of the open element, in the bytes of the file
        self._line = 0
        self._kept: list[bytes] = []  # of the open element, from earlier blocks
        self._n_kept = 0
        self._end = (0, 0)  # (line, byte) of the last byte seen

    def read(self, block: Block) -> Iterator[JsonObject]:
        """The elements that end in this block."""
        size = len(block.data)
        at = min(max(self._first_byte - block.byte_offset, 0), size)
        while at < size:
            if self._depth == 0:
                at = self._next_document(block.data, at)
            end = min(at + self._slice_bytes, size)
            self._slice_bytes = min(2 * self._slice_bytes, _SLICE_BYTES)
            at = yield from self._scan(block, at, end)
        if self._start is not None:
            self._keep(block)
        self._before = (self._before + bytes(block.data[-_KEY_BYTES:]))[-_KEY_BYTES:]
        self._end = (block.first_line + len(block.starts) - 1, block.byte_offset + size - 1)

    def finish(self) -> Iterator[JsonObject]:
        """What is still open where the bytes end."""
        if self._start is not None:
            yield self._given_up(b"".join(self._kept), "the file ends inside this object")
        elif self._depth > 0:
            problem = "the file ends inside the document: objects may be missing"
            yield JsonObject(*self._end, b"", problem)

    def _next_document(self, data: memoryview, at: int) -> int:
        """Where the next document begins: at once behind blanks, else at a line with a brace."""
        if not self._is_in_text:
            at = _skip_blanks(data, at)
            if at == len(data) or data[at] == _BRACE:
                return at
            self._is_in_text = True
        if at == 0 and self._before.endswith(b"\n") and data[0] == _BRACE:
            start = 0
        elif found := _LINE_WITH_OBJECT.search(data, at):
            start = found.start()
        else:
            return len(data)
        self._is_in_text = False
        return start

    def _scan(self, block: Block, at: int, end: int) -> Generator[JsonObject, None, int]:
        """Elements that end in a slice; returns where the next slice begins."""
        marks, kinds, depths = self._brackets(block.data, at, end)
        is_opening = (kinds == _BRACE) | (kinds == _BRACKET)
        is_shallow = depths <= np.where(is_opening, 3, 2)
        events = zip(
            (marks[is_shallow] + at).tolist(), kinds[is_shallow].tolist(),
            depths[is_shallow].tolist(), is_opening[is_shallow].tolist(), strict=True,
        )  # fmt: skip
        for place, kind, depth, opens in events:
            if opens and depth == 3 and self._is_in_array:
                self._begin(block, place)
            elif opens and depth == 2:
                self._is_in_array = kind == _BRACKET and self._has_key(block, place)
            elif not opens and depth == 2 and self._start is not None:
                yield self._whole(block, place + 1)
            elif not opens and depth <= 1:
                self._is_in_array = False
                if depth == 0 and (after := self._behind(block, place + 1, end)) is not None:
                    return after
        return end

    def _brackets(self, data: memoryview, at: int, end: int) -> tuple[Ints, Chars, Ints]:
        """(place, character, depth behind it) of the brackets of a slice outside strings."""
        chars = np.frombuffer(data, np.uint8, end - at, at)
        marks = np.flatnonzero(_IS_MARK[chars])
        kinds = chars[marks]
        is_quote = kinds == _QUOTE
        if self._is_escaped or (kinds == _BACKSLASH).any():
            is_quote &= ~self._escaped(marks[kinds == _BACKSLASH], len(chars))[marks]
        # the parity of a count that may wrap around
        is_in_string = (np.cumsum(is_quote, dtype=np.uint8) + self._is_in_string) % 2 == 1
        if (is_newline := kinds == _NEWLINE).any():
            places = np.arange(len(kinds), dtype=np.int32)
            line = np.maximum.accumulate(np.where(is_newline, places, -1))
            is_in_string ^= (line >= 0) & is_in_string[line]  # a line begins outside of strings
        if len(marks):
            self._is_in_string = bool(is_in_string[-1])
        is_bracket = (_STEP[kinds] != 0) & ~is_in_string
        kinds = kinds[is_bracket]
        depths = self._depth + np.cumsum(_STEP[kinds])
        if len(depths):
            self._depth = int(depths[-1])
        return marks[is_bracket], kinds, depths

    def _escaped(self, backslashes: Ints, n_chars: int) -> Bools:
        """Which characters of a slice stand behind a backslash that is not escaped itself."""
        is_escaped = np.zeros(n_chars + 1, np.bool_)
        is_escaped[0] = self._is_escaped
        begins = np.diff(backslashes, prepend=-2) != 1
        run_starts = backslashes[begins]
        in_run = backslashes - run_starts[np.cumsum(begins) - 1]
        if self._is_escaped and len(backslashes) and backslashes[0] == 0:
            in_run[np.cumsum(begins) == 1] += 1
        is_escaped[backslashes[in_run % 2 == 0] + 1] = True
        self._is_escaped = bool(is_escaped[n_chars])
        return is_escaped

    def _behind(self, block: Block, at: int, end: int) -> int | None:
        """Behind a document: None where the next one follows in this slice, else where to go on."""
        after = _skip_blanks(block.data, at)
        if after < end and block.data[after] == _BRACE:
            return None
        self._depth = 0
        self._is_in_string = self._is_escaped = False
        self._slice_bytes = _FIRST_SLICE_BYTES
        return after

    def _begin(self, block: Block, place: int) -> None:
        self._start = block.byte_offset + place
        self._line = block.first_line + int(np.searchsorted(block.starts, place, "right")) - 1

    def _has_key(self, block: Block, place: int) -> bool:
        text = bytes(block.data[max(place - _KEY_BYTES, 0) : place])
        if place < _KEY_BYTES:
            text = (self._before + text)[-_KEY_BYTES:]
        return self._key.search(text) is not None

    def _keep(self, block: Block) -> None:
        """Copy what this block holds of the open element."""
        data = bytes(block.data[max((self._start or 0) - block.byte_offset, 0) :])
        self._n_kept += len(data)
        if self._n_kept <= MAX_OBJECT_BYTES:
            self._kept.append(data)
        else:
            self._kept = [b"".join(self._kept)[:KEPT_BYTES] or data[:KEPT_BYTES]]

    def _whole(self, block: Block, end: int) -> JsonObject:
        """The open element, which ends before `end`."""
        start = self._start or 0
        data = bytes(block.data[max(start - block.byte_offset, 0) : end])
        n_bytes = block.byte_offset + end - start
        if n_bytes > MAX_OBJECT_BYTES:
            problem = f"an object of {n_bytes} bytes: more than {MAX_OBJECT_BYTES}"
            return self._given_up(b"".join(self._kept) or data, problem)
        found = JsonObject(self._line, start, b"".join([*self._kept, data]))
        self._close()
        return found

    def _given_up(self, data: bytes, problem: str) -> JsonObject:
        found = JsonObject(self._line, self._start or 0, data[:KEPT_BYTES], problem)
        self._close()
        return found

    def _close(self) -> None:
        self._start = None
        self._kept, self._n_kept = [], 0


def _marks() -> tuple[Bools, npt.NDArray[np.int8]]:
    """By character: whether it matters to the scan, and by how much it changes the depth."""
    is_mark, step = np.zeros(256, np.bool_), np.zeros(256, np.int8)
    is_mark[list(b'"\\\n{}[]')] = True
    step[list(b"{[")] = 1
    step[list(b"}]")] = -1
    return is_mark, step


_IS_MARK, _STEP = _marks()


def _skip_blanks(data: memoryview, at: int) -> int:
    found = _BLANKS.match(data, at)
    return found.end() if found else at
