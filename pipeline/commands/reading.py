"""Ingest as a command's options say: shared by `ingest` and `run`."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from pipeline.commands import options, output

if TYPE_CHECKING:
    from pipeline.config import Config
    from pipeline.ingest import IngestSummary


def read(args: argparse.Namespace) -> tuple[Config, IngestSummary]:
    """Ingest as the command's options say; (settings, summary)."""
    from pipeline import config, executor, ingest

    settings = config.load(args.config)
    summary = ingest.ingest(
        args.paths,
        args.lake,
        options.ingest_options(args, settings),
        jobs=args.jobs or executor.default_jobs(),
        progress=ingest.ProgressLine(),
    )
    output.warn(summary.warnings)
    return settings, summary


def exit_code(settings: Config, summary: IngestSummary) -> int:
    """3 where more records were unreadable than the settings allow."""
    limit = settings.reject_limit * summary.claimed_lines
    if summary.n_rejects <= limit:
        return 0
    share = summary.n_rejects / summary.claimed_lines
    print(
        f"warning: {summary.n_rejects} of {summary.claimed_lines} claimed records ({share:.1%}) "
        "could not be read; see the table reject",
        file=sys.stderr,
    )
    return 3


def summary_text(summary: IngestSummary) -> str:
    """What was read, in one line."""
    if summary.batch is None:
        return f"nothing new in {summary.n_unchanged} files"
    return (
        f"{summary.n_files} files, {summary.n_lines:,} lines, {summary.n_bytes / 1e6:,.1f} MB: "
        f"{summary.n_facts:,} facts, {summary.n_rejects:,} rejects "
        f"({summary.n_unchanged} files unchanged)"
    )
