"""`wallsplit check`: every invariant over a lake; exit 1 if one is broken."""

from __future__ import annotations

import argparse

from pipeline.commands import options, reading
from pipeline.commands.output import harmless

HELP = "every invariant over a lake; exit 1 if one is broken"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    options.add_lake(parser)


def run(args: argparse.Namespace) -> int:
    """Print what breaks an invariant; 1 if anything does."""
    from pipeline import timeline
    from pipeline.report.words import counted

    violations = timeline.check(reading.timeline_lake(args.lake))
    for v in violations:
        verb = "breaks" if v.n_rows == 1 else "break"
        print(f"{v.check}: {counted(v.n_rows, 'row')} {verb} it: {v.meaning}")
        for example in v.examples:
            print(f"  {harmless(example)}")
    if not violations:
        print("every invariant holds")
    return 1 if violations else 0
