"""`wallsplit ingest`: facts only: read what is new into the lake."""

from __future__ import annotations

import argparse

from pipeline.commands import options, reading

HELP = "facts only: read what is new into the lake"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    options.add_reading(parser)
    parser.add_argument("--json", action="store_true", help="print what was read as JSON")


def run(args: argparse.Namespace) -> int:
    """Ingest; 3 where too many records were unreadable."""
    from pipeline.rows import to_json

    settings, summary = reading.read(args)
    if args.json:
        print(to_json({
            "batch": summary.batch, "files": summary.n_files, "unchanged": summary.n_unchanged,
            "duplicates": summary.n_duplicates, "bytes": summary.n_bytes,
            "lines": summary.n_lines, "claimed_lines": summary.claimed_lines,
            "facts": summary.n_facts, "rejects": summary.n_rejects,
            "rows": dict(sorted(summary.n_rows.items())), "warnings": summary.warnings,
        }))  # fmt: skip
    else:
        print(reading.summary_text(summary))
    return reading.exit_code(settings, summary)
