"""One pass over a block for all literals of all formats, by Hyperscan."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import hyperscan
import numpy as np
import numpy.typing as npt

from parsers.formats import Block

_SLICE_BYTES = 256 * 1024
"""A slice that stays in the cache scans twice as fast as a whole block."""

_END_BITS = 40  # a hit is kept as one integer: pattern, then end


class PatternError(ValueError):
    """A pattern that cannot be looked for; the message holds the pattern and the reason."""


@dataclass(frozen=True)
class Pattern:
    """Something to look for: a literal, or a regex for literals that would hit too often.

    A regex reads bytes (`.` is one byte); `^` and `$` are the borders of a line. It cannot look
    around or refer back, and must not match a newline: a match over two lines is found only where
    no block ends between them. Several patterns may share an id or a text.
    `is_dense` patterns are reported without their lines: "this block has some".
    """

    id: int
    text: bytes
    is_regex: bool = False
    is_dense: bool = False


@dataclass(frozen=True)
class Hits:
    """Lines of a block that hold patterns, sorted by (line, pattern), each pair once.

    `dense`: ids of the dense patterns that occur in the block.
    """

    lines: npt.NDArray[np.int64]
    patterns: npt.NDArray[np.int64]
    dense: frozenset[int]


class Scanner:
    """A compiled set of patterns (some 10 ms); one per process, it cannot be pickled."""

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        """PatternError names every pattern that cannot be compiled."""
        self._ids, self._rank_of = np.unique(
            np.array([p.id for p in patterns], dtype=np.int64), return_inverse=True
        )
        self._is_dense = np.array([p.is_dense for p in patterns], dtype=np.bool_)
        self._database = _compiled(patterns)

    def scan(self, block: Block) -> Hits:
        """Where the patterns occur; a match belongs to the line in which it ends."""
        found = self._find(block)
        if not len(found):
            nothing = np.empty(0, dtype=np.int64)
            return Hits(nothing, nothing, frozenset())
        patterns = found >> _END_BITS
        is_dense = self._is_dense[patterns]
        dense = frozenset(self._ids[self._rank_of[patterns[is_dense]]].tolist())
        single = found[~is_dense]
        # a match ends behind its last byte
        ends = (single & ((1 << _END_BITS) - 1)) - 1
        lines = np.searchsorted(block.starts, ends, side="right") - 1
        pairs = np.unique(lines * len(self._ids) + self._rank_of[single >> _END_BITS])
        lines, ranks = np.divmod(pairs, len(self._ids))
        return Hits(lines, self._ids[ranks], dense)

    def _find(self, block: Block) -> npt.NDArray[np.int64]:
        """All matches as `pattern << _END_BITS | end`, in no order."""
        found = [np.empty(0, dtype=np.int64)]
        if self._database is None:
            return found[0]
        for begin, end in pairwise(_slice_borders(block)):
            hits = array("q")
            self._database.scan(
                block.data[begin:end], match_event_handler=_keep, context=hits.append
            )
            if hits:
                found.append(np.frombuffer(hits, dtype=np.int64) + begin)
        return np.concatenate(found)


def _keep(pattern: int, _start: int, end: int, _flags: int, append: Callable[[int], None]) -> None:
    append(pattern << _END_BITS | end)


def _slice_borders(block: Block) -> list[int]:
    """Line starts about a slice apart, and both ends of the block: no line is in two slices."""
    wanted = np.arange(_SLICE_BYTES, len(block.data), _SLICE_BYTES)
    at = np.searchsorted(block.starts, wanted)
    cuts = np.unique(block.starts[at[at < len(block.starts)]])
    return [0, *cuts.tolist(), len(block.data)]


def _compiled(patterns: Sequence[Pattern]) -> Any:
    """The database of all patterns, each under its index; None without patterns."""
    if not patterns:
        return None
    try:
        return _database(patterns)
    except hyperscan.error as error:
        # Hyperscan says what is wrong, but not with which pattern
        problems = [p for p in map(_problem, patterns) if p is not None]
        raise PatternError("\n".join(problems) or str(error)) from error


def _database(patterns: Sequence[Pattern]) -> Any:
    database: Any = hyperscan.Database()
    database.compile(
        expressions=[p.text if p.is_regex else _escaped(p.text) for p in patterns],
        ids=list(range(len(patterns))),
        flags=[_flags(p) for p in patterns],
        elements=len(patterns),
    )
    return database


def _problem(pattern: Pattern) -> str | None:
    try:
        _database([pattern])
    except hyperscan.error as error:
        return f"cannot look for {pattern.text!r}: {error}"
    return None


def _escaped(literal: bytes) -> bytes:
    return b"".join(b"\\x%02x" % byte for byte in literal)


def _flags(pattern: Pattern) -> int:
    flags = int(hyperscan.HS_FLAG_MULTILINE) if pattern.is_regex else 0
    if pattern.is_dense:
        flags |= int(hyperscan.HS_FLAG_SINGLEMATCH)
    return flags
