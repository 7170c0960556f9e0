"""`wallsplit postmortem`: one run or incident: order, first signs, cost, rivals, what to check."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pipeline.commands import options, reading

HELP = "one run or incident as Markdown: what happened in order, cost, other causes, what to check"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    options.add_lake(parser)
    parser.add_argument("run_id", metavar="RUN", help="id or name of a run")
    parser.add_argument("--incident", metavar="ID",
                        help="only this incident: its id, or its number in the report")  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="PATH", help="file (default: stdout)")


def run(args: argparse.Namespace) -> int:
    """Print or write the post-mortem."""
    from pipeline.report.model import write_whole
    from pipeline.report.postmortem import postmortem

    text = postmortem(reading.timeline_lake(args.lake), args.run_id, args.incident)
    if args.out is None:
        sys.stdout.write(text)
        return 0
    write_whole(args.out, text)
    print(args.out)
    return 0
