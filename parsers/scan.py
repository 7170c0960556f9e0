"""One pass over a block for all literals of all formats, by Hyperscan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import hyperscan
import numpy as np
import numpy.typing as npt

from parsers.formats import Block

_SLICE_BYTES = 256 * 1024
"""A slice that stays in the cache scans twice as fast as a whole block."""


@dataclass(frozen=True)
class Pattern:
    """Something to look for: a literal, or a regex for literals that would hit too often.

    `is_dense` patterns are reported once a slice at most, without their lines: "here are some".
    """

    id: int
    text: bytes
    is_regex: bool = False
    is_dense: bool = False


@dataclass(frozen=True)
class Hits:
    """Lines of a block that hold patterns, sorted by (line, pattern), each pair once."""

    lines: npt.NDArray[np.int64]
    patterns: npt.NDArray[np.int64]
    dense: frozenset[int]


class Scanner:
    """A compiled set of patterns; one per process, it cannot be pickled."""

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self._dense = {p.id for p in patterns if p.is_dense}
        self._database: Any = hyperscan.Database() if patterns else None
        if patterns:
            self._database.compile(
                expressions=[p.text if p.is_regex else _escaped(p.text) for p in patterns],
                ids=[p.id for p in patterns],
                flags=[_flags(p) for p in patterns],
                elements=len(patterns),
            )

    def scan(self, block: Block) -> Hits:
        """Where the patterns occur; a match belongs to the line in which it ends."""
        found: list[tuple[int, int]] = []
        if self._database is not None:
            for begin, end in _slices(block):
                self._database.scan(
                    block.data[begin:end],
                    match_event_handler=_keep,
                    context=(begin, found.append),
                )
        dense = frozenset(i for i, _ in found if i in self._dense)
        pairs = np.array([f for f in found if f[0] not in self._dense], np.int64).reshape(-1, 2)
        # a match ends behind its last byte
        lines = np.searchsorted(block.starts, pairs[:, 1] - 1, side="right") - 1
        unique = np.unique(np.column_stack((lines, pairs[:, 0])), axis=0)
        return Hits(unique[:, 0], unique[:, 1], dense)


def _keep(pattern: int, _start: int, end: int, _flags: int, context: Any) -> None:  # noqa: ANN401
    begin, append = context
    append((pattern, begin + end))


def _escaped(literal: bytes) -> bytes:
    return b"".join(b"\\x%02x" % byte for byte in literal)


def _flags(pattern: Pattern) -> int:
    flags = int(hyperscan.HS_FLAG_DOTALL) if not pattern.is_regex else 0
    if pattern.is_dense:
        flags |= int(hyperscan.HS_FLAG_SINGLEMATCH)
    return flags


def _slices(block: Block) -> list[tuple[int, int]]:
    """Newline-aligned byte ranges of about a slice each: no match can span two of them."""
    wanted = np.arange(_SLICE_BYTES, len(block.data), _SLICE_BYTES)
    at = np.searchsorted(block.starts, wanted)
    cuts = np.unique(block.starts[at[at < len(block.starts)]])
    borders = [0, *cuts[cuts > 0].tolist(), len(block.data)]
    return list(zip(borders[:-1], borders[1:], strict=True))
