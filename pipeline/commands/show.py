"""`wallsplit show`: the raw lines behind a fact, segment or incident."""

from __future__ import annotations

import argparse

from pipeline.commands import options
from pipeline.commands.output import harmless

HELP = "the raw lines behind a fact, segment or incident"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    evidence = "FILE:LINE, segment:ID, incident:ID or fact:TABLE:FILE_ID:LINE"
    parser.add_argument("evidence", metavar="EVIDENCE", help=evidence)
    options.add_lake(parser, required=False)


def run(args: argparse.Namespace) -> int:
    """Print the lines."""
    from pipeline.show import show

    for line in show(args.evidence, args.lake):
        note = f"  [{line.note}]" if line.note else ""
        print(harmless(f"{line.path}:{line.line}:{note} {line.text}"))
    return 0
