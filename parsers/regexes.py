"""What the regexes of data files must obey, so that hostile lines cannot stall a parser."""

from __future__ import annotations

import re
from re import _constants as ops  # type: ignore[attr-defined]  # the stdlib's own parser
from re import _parser  # type: ignore[attr-defined]
from typing import Any, Final

_REPEATS: Final = {ops.MAX_REPEAT, ops.MIN_REPEAT}
_FORBIDDEN: Final = {
    ops.ASSERT: "look-around",
    ops.ASSERT_NOT: "look-around",
    ops.GROUPREF: "a back-reference",
    ops.GROUPREF_EXISTS: "a back-reference",
}


def problems_of(pattern: str) -> list[str]:
    """Why `pattern` may not stand in a data file; empty when it may.

    Refused: what does not compile, look-around and back-references (other engines must run it too),
    and an unbounded repeat inside an unbounded repeat, which backtracks without bound.
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
