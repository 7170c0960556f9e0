"""The timeline of a lake is the old or the new one, whatever happens to its rebuild."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from parsers.tables import Table
from pipeline import database, lake, timeline
from pipeline.errors import LakeError
from pipeline.report.model import write_whole
from tests.lakes import read, step_line, train_log

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with a timeline, and facts that came since."""
    folder = tmp_path_factory.mktemp("made")
    log = folder / "train.log"
    log.write_text(train_log())
    read(log, into=folder / "lake")
    timeline.rebuild(folder / "lake")
    with log.open("a") as more:
        more.write("".join(step_line(s) for s in range(41, 51)))
    read(log, into=folder / "lake")
    return folder / "lake"


@pytest.fixture
def lake_dir(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(made, tmp_path / "lake", symlinks=True))


def hidden(lake_dir: Path) -> set[str]:
    """What a lake hides beside the lock, the current timeline and the one before it."""
    current = timeline.timeline_dir(lake_dir)
    assert current is not None
    found = {p.name for p in lake_dir.iterdir() if p.name.startswith(".")}
    return found - {".timeline.lock", current.name}


def n_steps(lake_dir: Path) -> int:
    return len(database.connect(lake_dir).sql("select step_to from step_interval").fetchall())


def test_full_disk_leaves_the_old_timeline(lake_dir: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "pipeline.cli", "split", "--lake", str(lake_dir)],
        capture_output=True, text=True, cwd=ROOT, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000)),
    )  # fmt: skip
    assert process.returncode == 1
    assert process.stderr == (
        f"wallsplit split: no space left in the lake {lake_dir} (File too large): its timeline "
        "stays the old one; raise the limit of file sizes (ulimit -f) and run again\n"
    )
    assert n_steps(lake_dir) == 40
    assert hidden(lake_dir) == set()
    timeline.rebuild(lake_dir)
    assert n_steps(lake_dir) == 50


@pytest.mark.parametrize("error", [OSError(errno.EIO, "x"), KeyboardInterrupt(), LakeError("x")])
def test_interrupted_rebuild_leaves_the_old_timeline(
    lake_dir: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    export = timeline._export

    def fail(con: object, table: Table, *rest: object) -> int:
        if table.name == "segment":
            raise error
        return export(con, table, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(timeline, "_export", fail)
    with pytest.raises(KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else LakeError):
        timeline.rebuild(lake_dir)
    assert n_steps(lake_dir) == 40
    assert hidden(lake_dir) == set()


def test_tables_that_fit_neither_memory_nor_disk_are_a_clear_error(lake_dir: Path) -> None:
    (lake_dir / database.SPILL).touch()  # no folder can be made there
    too_much = "set memory_limit = '20MB'; create temp table t as select md5(i::varchar) as x "
    with (
        pytest.raises(LakeError, match=r"no space left in the lake .* free some space"),
        timeline._room_to_spill(lake_dir),
        database.new_connection(spill_to=lake_dir) as con,
    ):
        con.execute(too_much + "from range(1000000) as t(i) order by x")


def test_what_killed_rebuilds_left_is_removed(lake_dir: Path) -> None:
    before = timeline.timeline_dir(lake_dir)
    assert before is not None
    (lake_dir / ".timeline-dead").mkdir()
    (lake_dir / ".timeline-dead" / "run.parquet").touch()
    (lake_dir / ".timeline-link-dead").symlink_to(".timeline-dead")
    (lake_dir / database.SPILL).mkdir()
    (lake_dir / database.SPILL / "duckdb_temp").touch()
    timeline.rebuild(lake_dir)
    assert hidden(lake_dir) == {before.name}


def test_tables_that_are_being_read_stay_until_the_second_rebuild(lake_dir: Path) -> None:
    con = database.connect(lake_dir)
    timeline.rebuild(lake_dir)
    assert con.sql("select count(*) from step_interval").fetchall() == [(40,)]
    timeline.rebuild(lake_dir)
    assert len(hidden(lake_dir)) == 1


def test_refresh_rebuilds_only_what_is_old(lake_dir: Path) -> None:
    assert timeline.refresh(lake_dir) is not None
    assert n_steps(lake_dir) == 50
    made = timeline.timeline_dir(lake_dir)
    assert timeline.refresh(lake_dir) is None
    assert timeline.timeline_dir(lake_dir) == made


@pytest.mark.parametrize("code", [*lake._ADVICE, errno.EIO])
def test_errors_of_the_system_say_what_where_and_what_to_do(tmp_path: Path, code: int) -> None:
    with (
        pytest.raises(LakeError) as caught,
        lake.explained(tmp_path, "write to", "nothing was added"),
    ):
        raise OSError(code, os.strerror(code), "somewhere")
    text = str(caught.value)
    assert text.startswith(("cannot write to the lake", "no space left in the lake"))
    assert f"{tmp_path} ({os.strerror(code)}): nothing was added; " in text


@pytest.mark.parametrize("command", [["ingest", "{log}"], ["split"], ["sql", "select 1"]])
def test_path_that_is_no_text_is_refused(tmp_path: Path, command: list[str]) -> None:
    log = tmp_path / "train.log"
    log.write_text(train_log())
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/l\xe9ke")
    args = [part.format(log=log) for part in command]
    process = subprocess.run(
        [sys.executable, "-m", "pipeline.cli", *args, "--lake", folder],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert process.returncode == 1
    assert "l\\xe9ke: the path of a lake must be UTF-8" in process.stderr
    assert not Path(folder).exists()


def test_reports_written_at_once_are_one_of_them_whole(tmp_path: Path) -> None:
    path = tmp_path / "report.md"
    texts = [str(n) * 100_000 for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(lambda text: write_whole(path, text), texts * 5):
            assert path.read_text() in texts
    assert [p.name for p in tmp_path.iterdir()] == ["report.md"]
