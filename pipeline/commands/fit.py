"""`wallsplit fit`: failure rates and the laws of durations."""

from __future__ import annotations

import argparse
from pathlib import Path

from pipeline.commands.output import harmless
from pipeline.errors import UsageError

HELP = "failure rates and laws of durations, from a CSV file"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument(
        "file", type=Path, metavar="FILE",
        help="CSV with duration, and optionally observed (1/0), type, weight, entry, upper",
    )  # fmt: skip
    parser.add_argument("--by", choices=("type",), help="fit every type of the CSV by itself")
    parser.add_argument(
        "--gof-replicates", type=int, default=999, metavar="N",
        help="replicates of the goodness of fit (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, metavar="N",
                        help="seed of the replicates (default: %(default)s)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="one array, an object per type")


def run(args: argparse.Namespace) -> int:
    """Fit every type and print what it says."""
    from pipeline import csv_durations, fit_output, selection
    from pipeline.rows import to_json

    problems = []
    if args.gof_replicates < 0:
        problems.append(f"--gof-replicates {args.gof_replicates}: expected 0 or more")
    if args.seed < 0:
        problems.append(f"--seed {args.seed}: expected 0 or more")
    if not args.file.is_file():
        problems.append(f"{args.file}: no such file; expected a CSV with a column `duration`")
    if problems:
        raise UsageError("\n".join(problems))
    found = [
        selection.describe(
            typed,
            selection.generator(args.seed, typed.type, typed.quantity),
            args.gof_replicates,
        )
        for typed in csv_durations.read(args.file, by_type=args.by is not None)
    ]
    if args.json:
        print(to_json([fit_output.as_json(one, args.seed, unit=None) for one in found]))
    else:
        print(harmless(fit_output.as_text(found, args.seed, args.gof_replicates, unit=None)))
    return 0
