"""`wallsplit split`: rebuild the timeline tables from the facts."""

from __future__ import annotations

import argparse

from pipeline.commands import options

HELP = "rebuild the timeline tables from the facts"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    options.add_lake(parser)


def run(args: argparse.Namespace) -> int:
    """Rebuild; print the rows of each table."""
    from pipeline import lake, timeline

    summary = timeline.rebuild(lake.require_lake(args.lake))
    for name, n_rows in summary.n_rows.items():
        print(f"{name:20} {n_rows:>12,}")
    return 0
