"""`wallsplit sql`: run SQL over every fact and timeline table by name."""

from __future__ import annotations

import argparse
import sys

from pipeline.commands import options
from pipeline.commands.output import print_table
from pipeline.errors import UsageError

HELP = "run SQL over every fact and timeline table by name"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    options.add_lake(parser)
    parser.add_argument("query", metavar="SQL", help="one statement, e.g. 'select * from run'")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one array of objects")
    form.add_argument("--csv", action="store_true", help="CSV with a header line")


def run(args: argparse.Namespace) -> int:
    """Run the query and print its rows."""
    import csv

    import duckdb

    from pipeline import database, lake
    from pipeline.rows import plain_rows, to_json

    con = database.connect(lake.require_lake(args.lake))
    try:
        relation = con.sql(args.query)
        if relation is None:
            return 0
        rows = plain_rows(relation)
        if args.json:
            print(to_json(list(rows)))
        elif args.csv:
            writer = csv.DictWriter(sys.stdout, relation.columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        else:
            print_table(relation.columns, rows)
    except duckdb.Error as error:
        raise UsageError(f"the query failed: {error}") from error
    return 0
