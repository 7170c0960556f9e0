"""Pieces of Markdown that a text of a log cannot break out of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pipeline.rows import harmless

_SPECIAL = "\\`*_{}[]<>#|~&"


def code(value: str) -> str:
    """A text of a log as a code span that it cannot leave."""
    text = harmless(value) or "-"
    fence = "`"
    while fence in text:
        fence += "`"
    space = " " if text[:1] in "` " or text[-1:] in "` " else ""
    return f"{fence}{space}{text}{space}{fence}"


def cell(value: str | None) -> str:
    """A text of a log as a code span in a table; empty where it is unknown."""
    return "" if value is None else code(value).replace("|", "\\|")


def plain(value: str) -> str:
    """A text as it is, with everything escaped that Markdown could take for markup."""
    return "".join(f"\\{c}" if c in _SPECIAL else c for c in harmless(value))


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table; cells are Markdown already."""
    yield f"| {' | '.join(header)} |"
    yield f"|{' --- |' * len(header)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
