"""`wallsplit run`: ingest what is new, split, fit, write reports: the nightly job."""

from __future__ import annotations

import argparse
from pathlib import Path

from pipeline.commands import options, output, reading
from pipeline.commands.output import harmless
from pipeline.errors import LakeError

HELP = "ingest what is new, split, fit, write reports: the nightly job"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    options.add_reading(parser)
    parser.add_argument("--out", type=Path, metavar="DIR", help="reports (default: LAKE/reports)")
    parser.add_argument("--json", action="store_true", help="print the JSON report")


def run(args: argparse.Namespace) -> int:
    """The nightly job; 3 where too many records were unreadable."""
    from pipeline import fit_stage, lake, timeline
    from pipeline.report import build, words

    settings, summary = reading.read(args)
    if not lake.committed_batches(args.lake):
        raise LakeError(f"no files to read in {', '.join(args.paths)}, and the lake {args.lake} "
                        "is empty")  # fmt: skip
    timeline.refresh(args.lake)
    fit_stage.refresh(args.lake)
    report = build(args.lake)
    out = args.out or args.lake / "reports"
    html = report.write(out)
    if unread := report.data_quality.unread_training_logs:
        output.warn([words.unread_training(unread)])
    if args.json:
        print(report.to_json())
    else:
        print(reading.summary_text(summary))
        print(harmless(report.to_terminal()))
        print(f"report: {html}")
    return reading.exit_code(settings, summary)
