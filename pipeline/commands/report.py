"""`wallsplit report`: reports: html, md or json."""

from __future__ import annotations

import argparse
from pathlib import Path

from pipeline.commands import options

HELP = "reports: html, md or json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    options.add_lake(parser)
    parser.add_argument("--run", dest="run_id", metavar="RUN", help="only this run")
    parser.add_argument("--since", metavar="T", help="only runs that end after this instant")
    parser.add_argument("--until", metavar="T", help="only runs that start before this instant")
    parser.add_argument("--format", choices=("html", "md", "json"), default="html")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="PATH",
        help="file (default: stdout for md and json, LAKE/reports/ for html)",
    )


def run(args: argparse.Namespace) -> int:
    """Write or print one report."""
    from pipeline import lake
    from pipeline.report import build

    lake.require_lake(args.lake)
    report = build(args.lake, args.run_id, options.instant(args.since), options.instant(args.until))
    if args.format == "html":
        path = args.out or args.lake / "reports" / "report.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(report.to_html())
        print(path)
        return 0
    text = report.to_json() if args.format == "json" else report.to_markdown()
    if args.out:
        args.out.write_text(text + "\n")
    else:
        print(text)
    return 0
