"""What commands print: text made harmless, rows as tables, warnings on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable

MAX_WARNINGS = 20


def harmless(text: str) -> str:
    """Lines of text with control characters and direction marks shown as escapes."""
    from pipeline.rows import harmless as harmless_line

    return "\n".join(harmless_line(part) for part in text.split("\n"))


def warn(warnings: list[str]) -> None:
    """The first warnings on stderr, and how many more there are."""
    for warning in warnings[:MAX_WARNINGS]:
        print(f"warning: {harmless(warning)}", file=sys.stderr)
    if len(warnings) > MAX_WARNINGS:
        print(f"warning: {len(warnings) - MAX_WARNINGS} more", file=sys.stderr)


def print_table(columns: list[str], rows: Iterable[dict[str, object]]) -> None:
    """Columns as wide as their widest cell, cells bounded, one row a line."""
    cells = [columns, *([harmless("" if v is None else str(v))[:60] for v in row.values()]
                        for row in rows)]  # fmt: skip
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    for row in cells:
        print("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip())
