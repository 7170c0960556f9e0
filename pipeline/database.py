"""DuckDB over a lake: facts and timeline tables by name, on one connection.

Raw facts are views named `raw_<table>`; they hold only what is alive: a fact of batch b is alive
unless a later batch parsed its file again from its byte or before it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from parsers.tables import FACT_TABLES
from pipeline.lake import LEDGER, committed_batches, timeline_dir
from pipeline.schema import ALL_TABLES, FIT_TABLES, TIMELINE_TABLES

if TYPE_CHECKING:
    from collections.abc import Mapping

MEMORY_LIMIT = "1GB"  # DuckDB goes beyond its limit by some hundred MB
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


def connect(lake: Path) -> duckdb.DuckDBPyConnection:
    """A connection with a view per table of `schema.ALL_TABLES`, ready for questions.

    Timeline tables that were never built are empty. Instants are shown in UTC.
    """
    con = new_connection()
    register_facts(con, lake)
    folder = timeline_dir(lake)
    for table in (*TIMELINE_TABLES, *FIT_TABLES):
        path = folder / f"{table.name}.parquet" if folder else None
        if path is not None and path.exists():
            con.from_parquet(str(path)).create_view(table.name)
        else:
            con.register(table.name, table.schema.empty_table())
    names = {table.name for table in (*TIMELINE_TABLES, *FIT_TABLES)}
    for table in ALL_TABLES:
        if table.name not in names:
            con.table(f"raw_{table.name}").create_view(table.name)
    return con


def new_connection(spill_to: Path | None = None) -> duckdb.DuckDBPyConnection:
    """An empty connection in UTC with bounded memory; `spill_to` takes what does not fit."""
    con = duckdb.connect()
    con.execute("set timezone = 'UTC'")
    con.execute("set memory_limit = $limit", {"limit": MEMORY_LIMIT})
    con.execute("set enable_progress_bar = false")
    if spill_to is not None:
        con.execute("set temp_directory = $folder", {"folder": str(spill_to / ".spill")})
    return con


def register_facts(con: duckdb.DuckDBPyConnection, lake: Path) -> None:
    """Make `raw_file` (every ledger row) and one view of living facts per fact table."""
    batches = committed_batches(lake)
    _register(con, LEDGER.name, LEDGER.schema, batches, "raw_file")
    con.execute(_LIVE)
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
    con.read_parquet(
        files, hive_partitioning=True, union_by_name=True
    ).create_view(view)  # fmt: skip
