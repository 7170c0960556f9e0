"""The same bytes give the same tables: in any order, chunks, processes, and night by night."""

from __future__ import annotations

import gzip
import os
import random
import shutil
from collections.abc import Callable
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


ROTATIONS: dict[str, Callable[[str, int], str]] = {
    "numbered": lambda name, age: name if age == 0 else f"{name}.{age}",
    "packed": lambda name, age: name + ("" if age == 0 else f".{age}" + ".gz" * (age > 1)),
    "dated": lambda name, age: name if age == 0 else f"{name}-202602{9 - age:02d}",
    "dated before the extension": lambda name, age: (
        name if age == 0 else f"{Path(name).with_suffix('')}.2026-02-{9 - age:02d}.out"),
}  # fmt: skip


def cut(data: bytes, n_parts: int, dice: random.Random) -> list[bytes]:
    """The bytes in so many parts of whole lines, some of which may be empty."""
    lines = data.splitlines(keepends=True)
    ends = [*sorted(dice.randrange(len(lines) + 1) for _ in range(n_parts - 1)), len(lines)]
    return [b"".join(lines[a:b]) for a, b in zip([0, *ends], ends, strict=False)]


def rotate(folder: Path, name: str, rotation: str, parts: list[bytes]) -> None:
    """The parts that are written so far, the last one under the name of the log."""
    for stale in (folder / name).parent.glob(f"{Path(name).stem}*"):
        stale.unlink()
    for age, data in enumerate(reversed(parts)):
        path = folder / ROTATIONS[rotation](name, age)
        write(path, gzip.compress(data) if path.suffix == ".gz" else data)


def in_logs(tables: Tables) -> Tables:
    """The tables with the name of the log for its files, and places counted through all of them."""
    before: dict[str, tuple[str, int, int]] = {}
    sums = {}
    for row in sorted(tables["file"], key=lambda r: (r["log_id"], r["part_no"])):
        name, n_bytes, n_lines = sums.get(row["log_id"], (row["log_id"], 0, 0))
        before[row["file_id"]] = (name, n_bytes, n_lines)
        sums[row["log_id"]] = (name, n_bytes + row["n_bytes"], n_lines + row["n_lines"])
    names = {
        row["log_id"]: Path(row["path"]).name
        for row in sorted(tables["file"], key=lambda r: r["part_no"])
    }

    def moved(row: dict[str, object]) -> dict[str, object]:
        if row.get("file_id") is None:
            return row
        log_id, n_bytes, n_lines = before[row["file_id"]]
        new = {"file_id": names[log_id], "line": n_lines, "byte_offset": n_bytes, "seq": n_bytes}
        return {
            k: new[k] if k == "file_id" else v + new[k] if k in new else v for k, v in row.items()
        }

    return {
        name: sorted(map(moved, rows), key=repr) for name, rows in tables.items() if name != "file"
    }


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("rotation", ROTATIONS)
def test_a_rotated_set_is_one_log(logs, tmp_path, rotation, seed):
    _, contents, wanted = logs
    dice = random.Random(seed)
    for name, data in contents.items():
        if name.endswith(".out"):
            rotate(tmp_path / "logs", name, rotation, cut(data, 2 + seed, dice))
        else:
            write(tmp_path / "logs" / name, data)
    ingest([str(tmp_path / "logs")], tmp_path / "lake")
    assert in_logs(tables_of(tmp_path / "lake")) == in_logs(wanted)


@pytest.mark.parametrize("rotation", ROTATIONS)
def test_a_log_rotated_night_by_night_is_one_log(logs, tmp_path, rotation):
    _, contents, wanted = logs
    dice = random.Random(len(rotation))
    n_parts = 3
    parts = {name: cut(data, n_parts, dice) for name, data in contents.items()}
    for night in range(n_parts):
        for name, data in contents.items():
            if not name.endswith(".out"):
                write(tmp_path / "logs" / name, data)
                continue
            written = parts[name][: night + 1]
            if night < n_parts - 1:  # its last part still grows
                written[-1] = written[-1][: dice.randrange(len(written[-1]) + 1)]
            rotate(tmp_path / "logs", name, rotation, written)
        ingest([str(tmp_path / "logs")], tmp_path / "lake")
    assert in_logs(tables_of(tmp_path / "lake")) == in_logs(wanted)
