"""What the regexes of data files must obey, so that hostile lines cannot stall a parser."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from re import _constants as ops  # type: ignore[attr-defined]  # the stdlib's own parser
from re import _parser  # type: ignore[attr-defined]
from typing import Any, Final

_REPEATS: Final = {ops.MAX_REPEAT, ops.MIN_REPEAT}
_FORBIDDEN: Final = {
    ops.ATOMIC_GROUP: "an atomic group",
    ops.POSSESSIVE_REPEAT: "a possessive repeat",
    ops.ASSERT: "look-around",
    ops.ASSERT_NOT: "look-around",
    ops.GROUPREF: "a back-reference",
    ops.GROUPREF_EXISTS: "a back-reference",
}


def problems_of(pattern: str) -> list[str]:
    """Why `pattern` may not stand in a data file; empty when it may.

    Refused: what does not compile; look-around, back-references, atomic groups and possessive
    repeats (other engines must run it too); and an unbounded repeat inside an unbounded repeat,
    which backtracks without bound.
    """
    try:
        re.compile(pattern)
        tree = _parser.parse(pattern)
    except re.error as error:
        return [f"does not compile: {error}"]
    return sorted(set(_walk(tree, is_repeated=False)))


def _walk(tree: Any, *, is_repeated: bool) -> list[str]:
    found = []
    for op, value in tree:
        if op in _FORBIDDEN:
            found.append(f"uses {_FORBIDDEN[op]}")
        repeats = op in _REPEATS and value[1] > 64
        if repeats and is_repeated:
            found.append("repeats without bound inside an unbounded repeat")
        for child in _children(op, value):
            found += _walk(child, is_repeated=is_repeated or repeats)
    return found


def _children(op: Any, value: Any) -> list[Any]:
    if op in _REPEATS:
        return [value[2]]
    if op is ops.SUBPATTERN:
        return [value[3]]
    if op is ops.BRANCH:
        return list(value[1])
    return []


_STALL_S: Final = 0.1
"""CPU time for a hostile line of 2,048 characters: a search that takes longer is worse than
quadratic."""

_MAX_CUTS: Final = 40


def stalls_on(pattern: re.Pattern[str], seeds: Iterable[str]) -> str | None:
    """A line made from the seeds on which a search backtracks too long, or None.

    Short lines come first, so that the try itself ends where the worst is found.
    """
    for length in (128, 2048):
        for line in _hostile_lines(seeds, length):
            begin = time.thread_time()
            pattern.search(line)
            if time.thread_time() - begin > _STALL_S:
                return line
    return None


def _hostile_lines(seeds: Iterable[str], length: int) -> Iterator[str]:
    """Beginnings of good lines that go on with what repeats like to eat, and their repetitions."""
    for seed in seeds:
        cuts = [m.end() for m in re.finditer(r"\w+|\W", seed)]
        for cut in (0, *cuts[:: len(cuts) // _MAX_CUTS + 1], len(seed)):
            for fill in ("a", "0", " "):
                yield (seed[:cut] + fill * length)[:length]
        for part in (seed[:-1] + " ", seed[: len(seed) // 2] + " "):
            yield (part * (length // len(part) + 1))[:length]
        yield "a" * length + seed
