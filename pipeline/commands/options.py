"""Options that several commands share, and the checked settings that they make."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import UsageError

if TYPE_CHECKING:
    from datetime import datetime

    from pipeline.catalog import IngestOptions
    from pipeline.config import Config


def add_lake(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """`--lake DIR`."""
    parser.add_argument("--lake", type=Path, required=required, metavar="DIR",
                        help="folder with facts and timeline tables")  # fmt: skip


def add_parsing(parser: argparse.ArgumentParser) -> None:
    """How text is read: zone, format, dialects."""
    parser.add_argument("--timezone", metavar="ZONE",
                        help="IANA zone of times without offset (default: UTC)")  # fmt: skip
    parser.add_argument("--format", metavar="NAME", help="take files as this format")
    parser.add_argument("--dialects", action="append", default=[], metavar="DIR",
                        help="folder with your own training-log dialects")  # fmt: skip


def add_reading(parser: argparse.ArgumentParser) -> None:
    """What is read into which lake, and how."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help="file, folder or glob")
    add_lake(parser)
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings as TOML")
    parser.add_argument("--cluster", metavar="NAME", help="cluster that the logs belong to")
    add_parsing(parser)
    parser.add_argument("--jobs", type=int, metavar="N", help="processes (default: the cores)")


def ingest_options(args: argparse.Namespace, config: Config) -> IngestOptions:
    """Checked reading options; every mistake at once."""
    from parsers.dialect_files import DialectError, load_dialects
    from parsers.formats import all_formats
    from pipeline.catalog import IngestOptions
    from pipeline.config import timezone_problems

    zone = args.timezone or config.timezone
    problems = timezone_problems(zone) if zone else []
    names = [f.name for f in all_formats()]
    if args.format is not None and args.format not in names:
        problems.append(f"unknown format {args.format!r}; known: {', '.join(names)}")
    if getattr(args, "jobs", None) is not None and args.jobs < 1:
        problems.append(f"--jobs {args.jobs}: expected 1 or more")
    folders = tuple(args.dialects) or config.dialects
    try:
        load_dialects(folders)
    except DialectError as error:
        problems.append(str(error))
    if problems:
        raise UsageError("\n".join(problems))
    cluster = getattr(args, "cluster", None) or config.cluster
    return IngestOptions(cluster, zone, args.format, folders)


def instant(text: str | None) -> datetime | None:
    """An instant of ISO 8601; UTC where it names no zone."""
    from pipeline import rows

    try:
        return None if text is None else rows.instant(text)
    except ValueError as error:
        raise UsageError(f"{text!r} is no instant; expected e.g. 2026-02-01T00:00:00Z") from error
