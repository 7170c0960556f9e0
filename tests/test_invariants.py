"""The same bytes give the same tables: in any order, chunks, processes, and night by night."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from pipeline import database, timeline
from pipeline.ingest import ingest
from pipeline.resources import samples_dir
from pipeline.schema import TIMELINE_TABLES

MODIFIED = 1_770_200_000  # one modification time for all: it is part of a file's row
Tables = dict[str, list[dict[str, object]]]


def tables_of(lake: Path) -> Tables:
    """Every timeline table as rows in a fixed order."""
    timeline.rebuild(lake)
    assert timeline.check(lake) == []
    con = database.connect(lake)
    out: Tables = {}
    for table in TIMELINE_TABLES:
        rows = con.table(table.name).to_arrow_table().to_pylist()
        out[table.name] = sorted(rows, key=repr)
    return out


def write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    os.utime(path, (MODIFIED, MODIFIED))


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """(folder with the sample logs, their bytes by relative path, their tables)."""
    folder = tmp_path_factory.mktemp("samples") / "logs"
    source = samples_dir() / "logs"
    contents = {
        str(p.relative_to(source)): p.read_bytes() for p in sorted(source.rglob("*")) if p.is_file()
    }
    for name, data in contents.items():
        write(folder / name, data)
    lake = folder.parent / "baseline"
    ingest([str(folder)], lake)
    return folder, contents, tables_of(lake)


def test_chunk_size_processes_and_order_do_not_matter(logs, tmp_path):
    folder, contents, wanted = logs
    paths = [str(folder / name) for name in contents]
    random.Random(7).shuffle(paths)
    ingest(paths, tmp_path, jobs=2, chunk_bytes=1500)
    assert tables_of(tmp_path) == wanted


def test_a_second_ingest_adds_nothing(logs, tmp_path):
    folder, _, wanted = logs
    assert ingest([str(folder)], tmp_path).batch == 1
    assert ingest([str(folder)], tmp_path).batch is None
    assert tables_of(tmp_path) == wanted


def test_one_file_a_batch_is_the_same_as_all_at_once(logs, tmp_path):
    folder, contents, wanted = logs
    for name in sorted(contents, reverse=True):
        ingest([str(folder / name)], tmp_path)
    assert tables_of(tmp_path) == wanted


@pytest.mark.parametrize("seed", range(4))
def test_growth_night_by_night_is_the_same_as_all_at_once(logs, tmp_path, seed):
    folder, contents, wanted = logs
    dice = random.Random(seed)
    n_nights = 2 + seed % 3
    ends = {
        name: [*sorted(dice.randrange(len(text) + 1) for _ in range(n_nights - 1)), len(text)]
        for name, text in contents.items()
    }
    try:
        for night in range(n_nights):
            shutil.rmtree(folder)
            folder.mkdir()
            for name, text in contents.items():
                if ends[name][night]:
                    write(folder / name, text[: ends[name][night]])
            ingest([str(folder)], tmp_path)
    finally:
        for name, text in contents.items():
            write(folder / name, text)
    assert tables_of(tmp_path) == wanted
