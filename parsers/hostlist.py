"""Slurm host lists: `node[001-003,07],login1` to the names that they mean."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import product
from math import prod

MAX_HOSTS = 65_536
"""A list with more names is refused: no cluster has them, damage has."""

_PAGE = 64  # names made at once

_NO_NODES = frozenset(("", "None assigned", "(null)", "(unknown)", "None", "N/A", "Unknown"))
_ONE_NAME = re.compile(r"[^\[\],\s]+")
_ONE_RANGE = re.compile(r"([^\[\],\s]*)\[([0-9]{1,18})-([0-9]{1,18})\]")
_PART = re.compile(r"(?:[^\[\],\s]|\[[^\[\]\s]*\])+")
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_CUBE = re.compile(r"([0-9A-Z]{2,5})x([0-9A-Z]{2,5})")
_COORDINATES = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class HostlistError(ValueError):
    """A host list that is malformed or means too many hosts."""


def expand(text: str, limit: int = MAX_HOSTS) -> tuple[str, ...]:
    """The host names of a host list, in order; empty where it says that there are none.

    Zero padding is kept (`[01-03]`), several brackets multiply, `[000x133]` is a box whose corners
    are written with one base-36 digit per axis. HostlistError above `limit` names or on a
    malformed list. Source: the hostlist expressions of sinfo(1) and scontrol(1).
    """
    text = text.strip()
    if text in _NO_NODES:
        return ()
    if _ONE_NAME.fullmatch(text):
        return (text,)
    if one := _ONE_RANGE.fullmatch(text):
        return tuple(_numbers(one[1], one[2], one[3], limit, text))
    hosts: list[str] = []
    at = 0
    while found := _PART.match(text, at):
        hosts += _expand_part(found[0], limit - len(hosts), text)
        at = found.end()
        if at == len(text):
            return tuple(hosts)
        if text[at] != ",":
            break
        at += 1
    raise HostlistError(f"host list {text[:80]!r} is malformed at character {at + 1}")


def _expand_part(part: str, limit: int, text: str) -> list[str]:
    """Names of one comma-separated part: fixed pieces and brackets in turn."""
    pieces = re.split(r"[\[\]]", part)
    choices = [
        [piece] if i % 2 == 0 else _expand_bracket(piece, limit, text)
        for i, piece in enumerate(pieces)
    ]
    if prod(len(choice) for choice in choices) > limit:
        raise _too_many(text)
    return ["".join(names) for names in product(*choices)]


def _expand_bracket(bracket: str, limit: int, text: str) -> list[str]:
    names: list[str] = []
    for item in bracket.split(","):
        room = limit - len(names)
        if found := _RANGE.fullmatch(item):
            names += _numbers("", found[1], found[2] or found[1], room, text)
        elif (cube := _CUBE.fullmatch(item)) and len(cube[1]) == len(cube[2]):
            names += _box(cube[1], cube[2], room, text)
        else:
            raise HostlistError(f"{item[:40]!r} is no range, in host list {text[:80]!r}")
    return names


def _numbers(prefix: str, low: str, high: str, limit: int, text: str) -> list[str]:
    first, last, width = int(low), int(high), len(low)
    if last < first:
        raise HostlistError(f"range {low}-{high} runs backwards, in host list {text[:80]!r}")
    if last - first >= limit:
        raise _too_many(text)
    names: list[str] = []
    for page in range(first // _PAGE, last // _PAGE + 1):
        at = page * _PAGE
        names += _page(prefix, width, page)[max(first - at, 0) : last + 1 - at]
    return names


@lru_cache(maxsize=2048)
def _page(prefix: str, width: int, page: int) -> tuple[str, ...]:
    """Neighbouring names: a cluster's lists are made of the same ones again and again."""
    return tuple(f"{prefix}{n:0{width}d}" for n in range(page * _PAGE, (page + 1) * _PAGE))


def _box(low: str, high: str, limit: int, text: str) -> list[str]:
    axes = [
        _COORDINATES[_COORDINATES.index(a) : _COORDINATES.index(b) + 1]
        for a, b in zip(low, high, strict=True)
    ]
    if not all(axes):
        raise HostlistError(f"box {low}x{high} runs backwards, in host list {text[:80]!r}")
    if prod(len(axis) for axis in axes) > limit:
        raise _too_many(text)
    return ["".join(point) for point in product(*axes)]


def _too_many(text: str) -> HostlistError:
    return HostlistError(f"host list {text[:80]!r} means too many hosts")
