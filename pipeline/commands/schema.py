"""`wallsplit schema`: every table: grain, key, columns, types, units, meaning."""

from __future__ import annotations

import argparse

HELP = "every table: grain, key, columns, types, units, meaning"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Print every table."""
    from pipeline.rows import to_json
    from pipeline.schema import ALL_TABLES

    if args.json:
        print(to_json([
            {
                "table": t.name, "grain": t.grain, "key": list(t.key),
                "columns": [
                    {"name": c.name, "type": str(c.type), "unit": c.unit, "meaning": c.meaning}
                    for c in t.columns
                ],
            }
            for t in ALL_TABLES
        ]))  # fmt: skip
        return 0
    for table in ALL_TABLES:
        print(f"{table.name}: {table.grain}\n  key: {', '.join(table.key)}")
        for c in table.columns:
            unit = f" [{c.unit}]" if c.unit else ""
            print(f"  {c.name:22} {c.type!s:28} {c.meaning}{unit}")
        print()
    return 0
