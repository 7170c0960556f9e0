"""Run the stages of `sql/` over a lake's facts and publish the timeline tables.

A stage is one statement in a file `NNN_name.sql`; it makes the table `name` (a name that ends with
`macros`: macros). Stages run in the order of their numbers on one connection. Between two of them
SciPy finds connected attempts. They see the files of a rotated log as one; what is published names
the file in which each line stands.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline import database, log_places
from pipeline.errors import LakeError
from pipeline.lake import TIMELINE_LINK, committed_batches, explained, timeline_dir
from pipeline.resources import sql_dir
from pipeline.schema import TIMELINE_TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from parsers.tables import Table

LINK_STAGE = "run_link"
"""The stage behind which connected attempts are put together."""

_SOURCE = "source.txt"
_STAGING = ".timeline-"


@dataclass(frozen=True)
class TimelineSummary:
    """What a rebuild made: rows per published table."""

    n_rows: dict[str, int]


@dataclass(frozen=True)
class Violation:
    """Rows that break an invariant: the check, its meaning and the first rows as text."""

    check: str
    meaning: str
    n_rows: int
    examples: tuple[str, ...]


def rebuild(lake: Path) -> TimelineSummary:
    """Rebuild all timeline tables of a lake and publish them in one atomic step.

    A second rebuild on the same lake waits for the first. The old tables stay readable until the
    new ones are complete, and those that are being read until the rebuild after this one.
    LakeError where there is no room for them; then the old ones stay.
    """
    with one_at_a_time(lake):
        return _rebuild(lake)


def refresh(lake: Path) -> TimelineSummary | None:
    """Rebuild unless the tables are current, also after waiting for another rebuild."""
    if is_current(lake):
        return None
    with one_at_a_time(lake):
        return None if is_current(lake) else _rebuild(lake)


def _rebuild(lake: Path) -> TimelineSummary:
    before = timeline_dir(lake)
    _remove_timelines(lake, lambda folder: not (folder / _SOURCE).exists())  # of killed rebuilds
    shutil.rmtree(lake / database.SPILL, ignore_errors=True)
    source = _source(lake)  # first: a batch that lands meanwhile must make the tables stale
    staging = lake / f"{_STAGING}{uuid.uuid4().hex}"
    staging.mkdir()
    try:
        with _room_to_spill(lake), database.new_connection(spill_to=lake) as con:
            database.register_facts(con, lake)
            run_stages(con)
            places = log_places.places(con)
            n_rows = {t.name: _export(con, t, staging, places) for t in TIMELINE_TABLES}
        (staging / _SOURCE).write_text(source)
        _publish(lake, staging)
    except BaseException:  # an interrupt included: what is half written goes, the error stays
        shutil.rmtree(staging, ignore_errors=True)
        raise
    _remove_timelines(lake, lambda folder: folder not in (before, timeline_dir(lake)))
    return TimelineSummary(n_rows)


def is_current(lake: Path) -> bool:
    """Whether the published tables come from all facts of the lake and from today's stages."""
    folder = timeline_dir(lake)
    source = folder / _SOURCE if folder else None
    with explained(lake, "read"):
        return source is not None and source.is_file() and source.read_text() == _source(lake)


def _source(lake: Path) -> str:
    """What the tables are made from: the last batch, and a hash of every stage."""
    stages = hashlib.sha256()
    for path in sorted(sql_dir().glob("*.sql")):
        stages.update(path.read_bytes())
    return f"batch {max(committed_batches(lake), default=0)}, stages {stages.hexdigest()}\n"


def run_stages(con: duckdb.DuckDBPyConnection) -> None:
    """Make every table of `sql/` on a connection that has the raw facts."""
    for path in sorted(sql_dir().glob("*.sql")):
        name = path.stem.split("_", 1)[1]
        text = path.read_text()
        if name.endswith("macros"):
            con.execute(text)
            continue
        try:
            con.execute(f"create or replace temp table {name} as\n{text}")
        except duckdb.Error as error:
            error.add_note(f"while making {name} ({path.name})")
            raise
        if name == LINK_STAGE:
            con.register("attempt_component", _components(con))


def _components(con: duckdb.DuckDBPyConnection) -> pa.Table:
    """(attempt_id, component): attempts connected by used links share a component number."""
    import numpy as np
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ids = [r[0] for r in con.sql("select attempt_id from attempt_all order by all").fetchall()]
    place = {attempt_id: i for i, attempt_id in enumerate(ids)}
    links = con.sql(
        "select prev_attempt_id, attempt_id from run_link where is_used order by all"
    ).fetchall()
    pairs = np.array([(place[a], place[b]) for a, b in links], dtype=np.int64).reshape(-1, 2)
    graph = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(ids),) * 2)
    labels = connected_components(graph, directed=False)[1] if ids else np.array([], np.int32)
    return pa.table({"attempt_id": pa.array(ids, pa.string()), "component": labels})


def check(lake: Path) -> list[Violation]:
    """Every invariant of `sql/checks/` that the lake breaks, with its first rows."""
    con = database.connect(lake)
    violations = []
    for path in sorted((sql_dir() / "checks").glob("*.sql")):
        text = path.read_text()
        rows = con.execute(text).fetchmany(1000)
        if rows:
            meaning = text.splitlines()[0].removeprefix("-- ")
            examples = tuple(str(row) for row in rows[:5])
            violations.append(Violation(path.stem, meaning, len(rows), examples))
    return violations


def _export(
    con: duckdb.DuckDBPyConnection, table: Table, folder: Path, places: log_places.Places
) -> int:
    """Write one table under its schema; the number of its rows."""
    reader = con.table(table.name).to_arrow_reader(250_000)
    names = table.schema.names
    n_rows = 0
    path = folder / f"{table.name}.parquet"
    with pq.ParquetWriter(path, table.schema, compression="zstd") as writer:
        for batch in reader:
            rows = pa.table(batch.to_pydict() if not batch.num_rows else batch).select(names)
            writer.write_table(places.in_files(rows).cast(table.schema))
            n_rows += rows.num_rows
    with path.open("rb") as handle:
        os.fsync(handle.fileno())
    return n_rows


def _publish(lake: Path, staging: Path) -> None:
    """Let the timeline link point to `staging`."""
    link = lake / TIMELINE_LINK
    if link.exists() and not link.is_symlink():
        raise LakeError(
            f"{link} is a folder that wallsplit did not make; "
            "expected a link to the current timeline. Move it away and run again."
        )
    pointer = lake / f"{_STAGING}link-{uuid.uuid4().hex}"
    pointer.symlink_to(staging.name)
    pointer.replace(link)


def _remove_timelines(lake: Path, is_old: Callable[[Path], bool]) -> None:
    """Remove old timelines, and the pointers of rebuilds killed while they published."""
    for entry in lake.glob(f"{_STAGING}*"):
        if entry.is_symlink():
            entry.unlink()
        elif entry.is_dir() and is_old(entry.resolve()):
            shutil.rmtree(entry, ignore_errors=True)


@contextmanager
def _room_to_spill(lake: Path) -> Iterator[None]:
    """LakeError where what does not fit into memory does not fit on the disk either."""
    try:
        yield
    except (duckdb.OutOfMemoryException, duckdb.IOException) as error:
        is_spill = isinstance(error, duckdb.OutOfMemoryException) or database.SPILL in str(error)
        if not is_spill:
            raise
        raise LakeError(
            f"no space left in the lake {lake} for tables that are larger than "
            f"{database.MEMORY_LIMIT} ({str(error).splitlines()[0]}): its timeline stays the old "
            "one; free some space and run again"
        ) from error


@contextmanager
def one_at_a_time(lake: Path) -> Iterator[None]:
    """Keep others from changing the lake's timeline meanwhile; LakeError where that fails."""
    with (
        explained(lake, "write to", "its timeline stays the old one"),
        (lake / ".timeline.lock").open("w") as handle,
    ):
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
