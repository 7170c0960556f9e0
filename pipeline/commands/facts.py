"""`wallsplit facts`: the facts of files as JSON lines, without a lake."""

from __future__ import annotations

import argparse
from pathlib import Path

from pipeline.commands import options
from pipeline.commands.output import warn
from pipeline.errors import UsageError

SHOWN = ("attempt", "attempt_step", "train_event", "fault_event", "clock_mark", "reject")
"""Tables printed unless one is asked for: each fact once."""
TABLES = (*SHOWN, "accounting_row", "file")
"""accounting_row: accounting as it was read, before attempt is made of it; file: what was read."""
HELP = "the facts of files as JSON lines, without a lake"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("paths", nargs="+", metavar="FILE", help="file, folder or glob")
    parser.add_argument("--table", metavar="NAME", help=f"only this table: {', '.join(TABLES)}")
    options.add_parsing(parser)


def run(args: argparse.Namespace) -> int:
    """Print the facts; one object a line."""
    import tempfile

    from pipeline import config, database, ingest, timeline
    from pipeline.rows import plain_rows, to_json

    if args.table is not None and args.table not in TABLES:
        raise UsageError(f"unknown table {args.table!r}; expected one of {', '.join(TABLES)}")
    reading = options.ingest_options(args, config.Config())
    with tempfile.TemporaryDirectory(prefix="wallsplit-") as folder:
        lake_dir = Path(folder)
        summary = ingest.ingest(args.paths, lake_dir, reading)
        warn(summary.warnings)
        timeline.rebuild(lake_dir)
        con = database.connect(lake_dir)
        for name in SHOWN if args.table is None else (args.table,):
            for row in plain_rows(con.table(name)):
                row.pop("batch", None)  # of the folder that is thrown away
                print(to_json({"table": name, **row}))
    return 0
