"""`wallsplit explain`: what is recognised in files, and what is not."""

from __future__ import annotations

import argparse

from pipeline.commands import options
from pipeline.commands.output import harmless

HELP = (
    "what is recognised in files, and what is not; exit 1 if one looks like a training log that no "
    "dialect reads, or if none can be read"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("paths", nargs="+", metavar="FILE", help="file, folder or glob")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options.add_parsing(parser)


def run(args: argparse.Namespace) -> int:
    """Explain each file; 1 where a training log was not recognised or nothing could be read."""
    from pipeline import config, explain
    from pipeline.rows import to_json

    found = explain.explain(args.paths, options.ingest_options(args, config.Config()))
    if args.json:
        print(to_json([e.as_dict() for e in found]))
    else:
        for e in found:
            print(harmless(explain.as_text(e)))
    is_read = any(e.formats for e in found)
    return 1 if any(e.is_unrecognised_training for e in found) or not is_read else 0
