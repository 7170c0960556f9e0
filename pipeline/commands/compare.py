"""`wallsplit compare`: two runs, clusters or windows side by side."""

from __future__ import annotations

import argparse
import sys

from pipeline.commands import options, reading

HELP = "two runs, clusters or windows side by side"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    options.add_lake(parser)
    for name in ("A", "B"):
        parser.add_argument(name.lower(), metavar=name,
                            help="a run (id or name), cluster:NAME, or SINCE..UNTIL")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Print the comparison."""
    import msgspec

    from pipeline.report.comparison import compare, to_markdown
    from pipeline.rows import to_json

    found = compare(reading.timeline_lake(args.lake), args.a, args.b)
    if args.json:
        print(to_json(msgspec.to_builtins(found)))
    else:
        sys.stdout.write(to_markdown(found))
    return 0
