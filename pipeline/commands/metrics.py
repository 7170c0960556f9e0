"""`wallsplit metrics`: ETTR, goodput, mean time to failure and cost per cause, beside TOR."""

from __future__ import annotations

import argparse

from pipeline.commands import options
from pipeline.commands.output import print_table
from pipeline.errors import UsageError

HELP = "metrics beside TOR: ETTR, goodput, mean time to failure, cost per cause"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    options.add_lake(parser)
    parser.add_argument("--run", dest="run_id", metavar="RUN", help="only this run")
    parser.add_argument("--price", type=float, metavar="X", help="money per GPU-hour")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Print the metrics of all runs together, or of one."""
    from dataclasses import asdict

    import polars as pl

    from pipeline import database, lake, metrics
    from pipeline.rows import plain, to_json

    if args.price is not None and not 0 <= args.price < float("inf"):
        raise UsageError(f"--price {args.price}: expected a finite number, 0 or more")
    con = database.connect(lake.require_lake(args.lake))
    segment, incident = con.table("segment").pl(), con.table("incident").pl()
    if args.run_id is not None:
        segment, incident = (t.filter(pl.col("run_id") == args.run_id) for t in (segment, incident))
        if segment.is_empty():
            raise UsageError(f"no run {args.run_id!r} in the lake; expected a run_id of table run")
    tables = {
        "runs": metrics.efficiency(segment).join(
            metrics.lowest_window(segment), on="run_id", validate="1:1", maintain_order="left"
        ),
        "goodput": metrics.goodput(segment),
        "costs": metrics.costs(segment, incident, args.price),
        "failures": pl.DataFrame([asdict(metrics.mttf(segment, incident))]),
    }
    rows = {name: [{k: plain(v) for k, v in row.items()} for row in table.iter_rows(named=True)]
            for name, table in tables.items()}  # fmt: skip
    if args.json:
        print(to_json(rows | {"failures": rows["failures"][0]}, indent=1))
        return 0
    for name, table in tables.items():
        print(name)
        print_table(table.columns, [{k: _short(v) for k, v in row.items()} for row in rows[name]])
    return 0


def _short(value: object) -> object:
    """Numbers with as many digits as a reader wants."""
    return f"{value:.6g}" if isinstance(value, float) else value
