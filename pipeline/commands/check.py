"""`wallsplit check`: every invariant over a lake; exit 1 if one is broken."""

from __future__ import annotations

import argparse

from pipeline.commands import options
from pipeline.commands.output import harmless

HELP = "every invariant over a lake; exit 1 if one is broken"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    options.add_lake(parser)


def run(args: argparse.Namespace) -> int:
    """Print what breaks an invariant; 1 if anything does."""
    from pipeline import lake, timeline

    violations = timeline.check(lake.require_lake(args.lake))
    for v in violations:
        print(f"{v.check}: {v.n_rows} rows break it: {v.meaning}")
        for example in v.examples:
            print(f"  {harmless(example)}")
    if not violations:
        print("every invariant holds")
    return 1 if violations else 0
