"""How trainers write: rows of `dialects.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Dialect:
    """Line templates of one trainer, by what they tell; an empty tuple: it says nothing.

    `stamp` is a strftime form; with `,%f` three digits are printed, as Python's logging does.
    """

    title: str
    stamp: str
    step: str
    label: str = ""
    step_end: str = "\n"
    first_line: tuple[str, ...] = ()
    initialised: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()
    load_begin: tuple[str, ...] = ()
    loaded: tuple[str, ...] = ()
    ready: tuple[str, ...] = ()
    resumed: tuple[str, ...] = ()
    bar_begin: str = ""
    evaluation_begin: tuple[str, ...] = ()
    evaluation_end: tuple[str, ...] = ()
    save_begin: tuple[str, ...] = ()
    save_end: tuple[str, ...] = ()
    staging_begin: tuple[str, ...] = ()
    staging_end: tuple[str, ...] = ()
    committed: tuple[str, ...] = ()
    local_save: tuple[str, ...] = ()
    final_save: tuple[str, ...] = ()
    completed: tuple[str, ...] = ()
    exit_before_limit: tuple[str, ...] = ()
    sigterm: tuple[str, ...] = ()


@cache
def load_dialects() -> dict[str, Dialect]:
    """All dialects by name."""
    table = tomllib.loads((Path(__file__).parent / "dialects.toml").read_text())
    return {name: _dialect(row) for name, row in table.items()}


def _dialect(row: dict[str, Any]) -> Dialect:
    given: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in row.items()}
    return Dialect(**given)
