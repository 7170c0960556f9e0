"""`wallsplit sql`: one question in SQL over every fact and timeline table by name; read only."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pipeline.commands import options, reading
from pipeline.commands.output import print_table
from pipeline.errors import UsageError

HELP = "one question in SQL over every fact and timeline table by name; it can only read"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    options.add_lake(parser)
    parser.add_argument("query", metavar="SQL", help="one query, e.g. 'select * from run'")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one array of objects")
    form.add_argument("--csv", action="store_true",
                      help="CSV with a header line; cells are exact, also those that begin with "
                           "= + - @, which a spreadsheet may take for a formula")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Run the query and print its rows."""
    import csv
    import tempfile

    import duckdb

    from pipeline import database, lake
    from pipeline.rows import plain_rows, to_json

    con = database.connect(lake.require_lake(args.lake))
    reading.warn_of_old_timeline(args.lake)
    with tempfile.TemporaryDirectory(prefix="wallsplit-") as spill_to:
        database.restrict(con, args.lake, Path(spill_to))
        try:
            # `query` takes one query and nothing that writes, not even inside `with`
            relation = con.sql("from query($query)", params={"query": args.query})
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
            raise database.damage(args.lake) or UsageError(
                f"the query failed: {error}\nexpected one query that only reads the tables of "
                "`wallsplit schema`"
            ) from error
        finally:
            con.close()
    return 0
