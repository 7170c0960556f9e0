"""Slurm host lists: `node[001-003,07],login1` to the names that they mean."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import product

MAX_HOSTS = 65_536
"""A list with more names is refused: no cluster has them, damage has."""

_NO_NODES = frozenset(("", "None assigned", "(null)", "(unknown)", "None", "N/A", "Unknown"))
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_CUBE = re.compile(r"([0-9A-Z]{2,3})x([0-9A-Z]{2,3})")
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class HostlistError(ValueError):
    """A host list that is malformed or means too many hosts."""


@lru_cache(maxsize=65_536)
def expand(text: str, limit: int = MAX_HOSTS) -> tuple[str, ...]:
    """The host names of a host list, in order; empty where it says that there are none.

    Zero padding is kept (`[01-03]`), several brackets multiply, `[000x133]` is a cube of three
    coordinates. HostlistError above `limit` names or on a malformed list.
    """
    text = text.strip()
    if text in _NO_NODES:
        return ()
    hosts: list[str] = []
    for part in _split(text):
        hosts += _expand_one(part, limit - len(hosts))
    return tuple(hosts)


def _split(text: str) -> list[str]:
    """The comma-separated parts, commas inside brackets apart."""
    parts, depth, start = [], 0, 0
    for i, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if depth not in (0, 1):
            raise HostlistError(f"unbalanced brackets in host list {text[:80]!r}")
        if char == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    if depth:
        raise HostlistError(f"unbalanced brackets in host list {text[:80]!r}")
    parts.append(text[start:])
    if not all(parts):
        raise HostlistError(f"empty name in host list {text[:80]!r}")
    return parts


def _expand_one(part: str, limit: int) -> list[str]:
    pieces = re.split(r"[\[\]]", part)
    choices = [
        [piece] if i % 2 == 0 else _expand_bracket(piece, limit) for i, piece in enumerate(pieces)
    ]
    n_hosts = 1
    for choice in choices:
        n_hosts *= len(choice)
    if n_hosts > limit:
        raise HostlistError(f"host list {part[:80]!r} means more than {MAX_HOSTS} hosts")
    return ["".join(names) for names in product(*choices)]


def _expand_bracket(text: str, limit: int) -> list[str]:
    names: list[str] = []
    for item in text.split(","):
        if cube := _CUBE.fullmatch(item):
            axes = [range(_DIGITS.index(a), _DIGITS.index(b) + 1)
                    for a, b in zip(cube[1], cube[2], strict=False)]  # fmt: skip
            names += ["".join(_DIGITS[d] for d in point) for point in product(*axes)]
            continue
        found = _RANGE.fullmatch(item)
        if not found:
            raise HostlistError(f"{item[:40]!r} is no range of a host list")
        low, high = found[1], found[2] or found[1]
        if int(high) - int(low) >= limit or int(high) < int(low):
            raise HostlistError(f"range {item[:40]!r} of a host list is too long or backwards")
        names += [str(n).zfill(len(low)) for n in range(int(low), int(high) + 1)]
    return names
