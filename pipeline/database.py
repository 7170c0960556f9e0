"""DuckDB over a lake: facts and timeline tables by name, on one connection.

Raw facts are views named `raw_<table>`; they hold only what is alive: a fact of batch b is alive
unless a later batch parsed its file again from its byte or before it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from parsers.tables import FACT_TABLES
from pipeline.errors import LakeError
from pipeline.lake import LEDGER, committed_batches, timeline_dir
from pipeline.schema import ALL_TABLES, FIT_TABLES, TIMELINE_TABLES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parsers.tables import Table

MEMORY_LIMIT = "1GB"  # DuckDB goes beyond its limit by some hundred MB
_REMEDY = {
    True: "`wallsplit split --lake DIR` makes the timeline tables anew",
    False: "restore the folder of that batch from a copy, or ingest the logs into a new lake",
}
"""What to do about a table of the timeline, and of the facts."""
SPILL = ".spill"
"""Folder of a lake that takes what does not fit into memory while its tables are made."""
_BATCH = pa.field("batch", pa.int64())

_LIVE = """
create or replace temp table file_live as
select
    file_id,
    batch,
    min(parsed_from) over (
        partition by file_id order by batch
        rows between 1 following and unbounded following) as live_until
from raw_file
where parsed_from is not null
"""


NEWEST_FILE = """
create or replace view newest_file as
select * from raw_file
qualify row_number() over (partition by file_id order by batch desc) = 1
"""
"""The newest ledger row of every file."""


def connect(lake: Path) -> duckdb.DuckDBPyConnection:
    """A connection with a view per table of `schema.ALL_TABLES`, ready for questions.

    Timeline tables that were never built are empty. Instants are shown in UTC. LakeError where
    a file of the lake is missing or cannot be read.
    """
    con = new_connection()
    register_facts(con, lake)
    folder = timeline_dir(lake)
    for table in TIMELINE_TABLES:
        if folder is None:
            con.register(table.name, table.schema.empty_table())
        else:
            _show_timeline_table(con, folder / f"{table.name}.parquet", table)
    for table in FIT_TABLES:  # made behind the timeline, by the first fit
        path = folder / f"{table.name}.parquet" if folder else None
        if path is None or not path.exists():
            con.register(table.name, table.schema.empty_table())
        else:
            _show_timeline_table(con, path, table)
    names = {table.name for table in (*TIMELINE_TABLES, *FIT_TABLES)}
    for table in ALL_TABLES:
        if table.name not in names:
            con.table(f"raw_{table.name}").create_view(table.name)
    return con


def _show_timeline_table(con: duckdb.DuckDBPyConnection, path: Path, table: Table) -> None:
    try:
        rows = con.from_parquet(str(path))
    except duckdb.Error as error:
        what = "is damaged" if path.exists() else "is missing"
        raise LakeError(f"the timeline table {path} {what}; {_REMEDY[True]}") from error
    if missing := sorted(set(table.schema.names) - set(rows.columns)):
        raise LakeError(
            f"the timeline table {path} is of another release, it has no {', '.join(missing)}; "
            f"{_REMEDY[True]}"
        )
    rows.create_view(table.name)


def restrict(con: duckdb.DuckDBPyConnection, lake: Path, spill_to: Path) -> None:
    """Let questions on `con` read nothing but the tables of a lake, and change no setting."""
    folder = timeline_dir(lake)
    inside = [*committed_batches(lake).values(), *([] if folder is None else [folder])]
    con.execute("set temp_directory = $folder", {"folder": str(spill_to)})
    con.execute("set allowed_directories = $inside", {"inside": [str(p) for p in inside]})
    con.execute("set enable_external_access = false")
    con.execute("set python_enable_replacements = false")
    con.execute("set lock_configuration = true")


def damage(lake: Path) -> LakeError | None:
    """The tables of a lake that cannot be read through; None if all can.

    DuckDB does not say which file it failed on, so all are read, which may take as long as an
    ingest did: for use after a failure.
    """
    made = timeline_dir(lake)
    folders = [*committed_batches(lake).values(), *([made] if made else [])]
    problems = []
    for path in (path for folder in folders for path in sorted(folder.glob("*.parquet"))):
        try:
            for _ in pq.ParquetFile(path).iter_batches():
                pass
        except (OSError, pa.ArrowException) as error:
            problems.append(f"cannot read {path}: {error}; {_REMEDY[path.parent == made]}")
    return LakeError("\n".join(problems)) if problems else None


def new_connection(spill_to: Path | None = None) -> duckdb.DuckDBPyConnection:
    """An empty connection in UTC with bounded memory; `spill_to` takes what does not fit."""
    con = duckdb.connect()
    con.execute("set timezone = 'UTC'")
    con.execute("set memory_limit = $limit", {"limit": MEMORY_LIMIT})
    con.execute("set enable_progress_bar = false")
    if spill_to is not None:
        con.execute("set temp_directory = $folder", {"folder": str(spill_to / SPILL)})
    return con


def register_facts(con: duckdb.DuckDBPyConnection, lake: Path) -> None:
    """Make `raw_file` (every ledger row), `newest_file` and a view of living facts per table.

    LakeError where a file of the lake cannot be read.
    """
    batches = committed_batches(lake)
    _register(con, LEDGER.name, LEDGER.schema, batches, "raw_file")
    con.execute(_LIVE)
    con.execute(NEWEST_FILE)
    for table in FACT_TABLES:
        _register(con, table.name, table.schema, batches, f"every_{table.name}")
        facts = con.table(f"every_{table.name}").set_alias("f")
        alive = con.table("file_live").set_alias("l")
        (
            facts.join(alive, "f.file_id = l.file_id and f.batch = l.batch")
            .filter("l.live_until is null or f.byte_offset < l.live_until")
            .project("f.*")
            .create_view(f"raw_{table.name}")
        )


def _register(
    con: duckdb.DuckDBPyConnection,
    name: str,
    schema: pa.Schema,
    batches: Mapping[int, Path],
    view: str,
) -> None:
    """Show one table of all batches, with the number of its batch, under `view`."""
    files = [str(p) for d in batches.values() if (p := d / f"{name}.parquet").exists()]
    if not files:
        con.register(view, schema.append(_BATCH).empty_table())
        return
    try:
        rows = con.read_parquet(files, hive_partitioning=True, union_by_name=True)
    except duckdb.Error as error:
        raise LakeError(f"cannot read the facts: {error}; {_REMEDY[False]}") from error
    rows.create_view(view)
