"""Ingest as a command's options say: shared by `ingest` and `run`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.commands import options, output
from pipeline.errors import LakeError

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
        jobs=args.jobs or settings.jobs or executor.default_jobs(),
        progress=ingest.ProgressLine(),
    )
    output.warn(summary.warnings)
    return settings, summary


def exit_code(settings: Config, summary: IngestSummary) -> int:
    """3 where more records were unreadable than the settings allow."""
    from pipeline.report import words

    limit = settings.reject_limit * summary.claimed_lines
    if summary.n_rejects <= limit:
        return 0
    share = words.share(summary.n_rejects / summary.claimed_lines)
    problem = (
        f"{summary.n_rejects} of {summary.claimed_lines} claimed records ({share}) could not be "
        "read; see the table reject"
    )
    output.warn([problem])
    return 3


def timeline_lake(lake_dir: Path) -> Path:
    """A lake that has been split; LakeError if not, a warning where facts have come since."""
    from pipeline import lake

    if lake.timeline_dir(lake.require_lake(lake_dir)) is None:
        raise LakeError(f"{lake_dir} has facts and no timeline yet; run `wallsplit split --lake "
                        f"{lake_dir}`")  # fmt: skip
    warn_of_old_timeline(lake_dir)
    return lake_dir


def warn_of_old_timeline(lake_dir: Path) -> None:
    """A warning where the timeline tables do not tell what the facts tell."""
    from pipeline import lake, timeline

    if lake.timeline_dir(lake_dir) is None:
        output.warn([f"the timeline tables are empty until `wallsplit split --lake {lake_dir}`"])
    elif not timeline.is_current(lake_dir):
        problem = (
            "the timeline tables are older than the facts or the program; bring them up to date "
            f"with `wallsplit split --lake {lake_dir}`"
        )
        output.warn([problem])


def summary_text(summary: IngestSummary) -> str:
    """What was read, in one line."""
    from pipeline.report.words import counted, size

    if summary.batch is None and not summary.n_unchanged:
        return "no files to read"
    if summary.batch is None:
        return f"nothing new in {counted(summary.n_unchanged, 'file')}"
    return (
        f"{counted(summary.n_files, 'file')}, {counted(summary.n_lines, 'line')}, "
        f"{size(summary.n_bytes)}: {counted(summary.n_facts, 'fact')}, "
        f"{counted(summary.n_rejects, 'reject')} "
        f"({counted(summary.n_unchanged, 'file')} unchanged)"
    )
