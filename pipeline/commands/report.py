"""`wallsplit report`: reports: html, md or json."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pipeline.commands import options, reading
from pipeline.errors import UsageError

HELP = "reports on all runs or on some: html, md or json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    options.add_lake(parser)
    parser.add_argument("--run", dest="run_id", metavar="RUN", help="only runs of this id or name")
    parser.add_argument("--since", metavar="T", help="only runs that end after this instant")
    parser.add_argument("--until", metavar="T", help="only runs that start before this instant")
    parser.add_argument("--format", choices=("html", "md", "json"), default="html",
                        help="form of the report (default: %(default)s)")  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="FILE",
                        help="default: stdout for md and json; html goes to LAKE/reports, under a "
                             "name of its own where --run, --since or --until chooses runs",
                        )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Write or print one report."""
    from pipeline.report import Choice, build
    from pipeline.report.model import write_whole

    choice = Choice(
        run=args.run_id, since=options.instant(args.since), until=options.instant(args.until)
    )
    if choice.since and choice.until and choice.since >= choice.until:
        raise UsageError(f"--since {args.since} is not before --until {args.until}")
    report = build(reading.timeline_lake(args.lake), choice)
    text = report.text(args.format)
    path = args.out
    if path is None and args.format == "html":
        path = args.lake / "reports" / f"{report.file_stem}.html"
    if path is None:
        sys.stdout.write(text)
        return 0
    write_whole(path, text)
    print(path)
    return 0
