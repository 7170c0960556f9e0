"""What a failure leaves behind: rows of `stories.toml`, one per kind of cause."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Story:
    """One kind of cause, and its lines by who writes them.

    `kernel` goes to the kernel log of the node, `culprit` is printed by the rank that fails,
    `survivors` by ranks on other nodes, `agent` by the launcher on the failing node.
    """

    id: str
    type: str
    domain: str
    state: str
    signature: str | None = None
    kernel: tuple[str, ...] = ()
    culprit: tuple[str, ...] = ()
    survivors: tuple[str, ...] = ()
    agent: tuple[str, ...] = ()
    kernel_end: tuple[str, ...] = ()


@cache
def load_stories() -> dict[str, Story]:
    """All stories by id."""
    table = tomllib.loads((Path(__file__).parent / "stories.toml").read_text())
    shared = {name: tuple(lines) for name, lines in table["lines"].items()}
    stories = {}
    given: dict[str, Any]
    for row in table["story"]:
        given = {
            key: tuple(_expanded(value, shared)) if isinstance(value, list) else value
            for key, value in row.items()
        }
        story = Story(**given)
        stories[story.id] = story
    return stories


def _expanded(lines: list[str], shared: dict[str, tuple[str, ...]]) -> list[str]:
    """The lines, with `@name` replaced by the shared lines of that name."""
    return [
        part for line in lines for part in (shared[line[1:]] if line.startswith("@") else (line,))
    ]


def shared_lines(name: str) -> tuple[str, ...]:
    """Lines that belong to no single cause: banners of the scheduler, watchdogs, ..."""
    table = tomllib.loads((Path(__file__).parent / "stories.toml").read_text())
    return tuple(table["lines"][name])
