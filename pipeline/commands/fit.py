"""`wallsplit fit`: failure rates and the laws of durations."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.commands import options
from pipeline.commands.output import harmless, print_table
from pipeline.errors import UsageError

if TYPE_CHECKING:
    from pipeline.fit_stage import LakeFit

HELP = "failure rates, trends and laws of durations, of a lake or of a CSV file"

RATE_COLUMNS = (
    "type", "mode", "n_events", "exposure_hours", "exposure_unit", "rate_per_khour", "ci_low",
    "ci_high", "mtbf_s", "trend", "dispersion",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument(
        "file", type=Path, nargs="?", metavar="FILE",
        help="CSV with duration, and optionally observed (1/0), type, weight, entry, upper",
    )  # fmt: skip
    options.add_lake(parser, required=False)
    parser.add_argument(
        "--by", choices=("type",), help="fit every type of the CSV by itself; a lake always is"
    )
    parser.add_argument(
        "--gof-replicates", type=int, default=999, metavar="N",
        help="replicates of the goodness of fit (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, metavar="N",
                        help="seed of the replicates (default: %(default)s)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="one array, an object per type")


def run(args: argparse.Namespace) -> int:
    """Fit every type and print what it says; of a lake, the fit tables are written too."""
    problems = []
    if args.gof_replicates < 0:
        problems.append(f"--gof-replicates {args.gof_replicates}: expected 0 or more")
    if args.seed < 0:
        problems.append(f"--seed {args.seed}: expected 0 or more")
    if (args.file is None) == (args.lake is None):
        problems.append("expected either a CSV file or --lake DIR")
    if args.file is not None and not args.file.is_file():
        problems.append(f"{args.file}: no such file; expected a CSV with a column `duration`")
    if problems:
        raise UsageError("\n".join(problems))
    return _fit_file(args) if args.lake is None else _fit_lake(args)


def _fit_file(args: argparse.Namespace) -> int:
    from pipeline import csv_durations, fit_output, selection
    from pipeline.rows import to_json

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


def _fit_lake(args: argparse.Namespace) -> int:
    from pipeline import fit_output, fit_stage, lake, timeline
    from pipeline.rows import to_json

    lake.require_lake(args.lake)
    if not timeline.is_current(args.lake):
        timeline.rebuild(args.lake)
    found = fit_stage.publish(args.lake, args.seed, args.gof_replicates)
    if args.json:
        rates = {(row["type"], row["mode"]): row for row in found.rates}
        modes = {"gap": "fail_stop", "slow_gap": "fail_slow"}
        print(to_json([
            fit_output.as_json(one, args.seed, unit="s")
            | {"failure_rate": rates.get((one.type, modes.get(one.quantity)))}
            for one in found.fits
        ]))  # fmt: skip
    elif found.rates:
        _print_lake(found, args.seed, args.gof_replicates)
    else:
        print("nothing was up: no failure rate can be told")
    return 0


def _print_lake(found: LakeFit, seed: int, n_replicates: int) -> None:
    from pipeline import fit_output

    print_table(
        list(RATE_COLUMNS),
        ({name: fit_output.cell(row[name]) for name in RATE_COLUMNS} for row in found.rates),
    )
    print()
    print(harmless(fit_output.as_text(found.fits, seed, n_replicates, unit="s")))
    for note in found.size_notes:
        print(note)
    lemons = [str(row["node"]) for row in found.nodes if row["is_lemon"]]
    if lemons:
        print(harmless(f"nodes that fail too often: {', '.join(lemons)}"))
