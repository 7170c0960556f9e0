"""A lake holds whole batches only, whatever happens to the ingest that writes one."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pyarrow.parquet as pq
import pytest

from parsers.tables import FACT_TABLES
from pipeline import ingest as ingest_module
from pipeline import lake
from pipeline.errors import LakeError
from tests.lakes import ledger, living, read, step_line, steps, train_log

ROOT = Path(__file__).parents[1]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "train.log"
    path.write_text(train_log())
    return path


@pytest.fixture
def lake_dir(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder and its bytes."""
    return {
        str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()
    }


def names(folder: Path) -> list[str]:
    """The names of what stands in a folder, sorted."""
    return sorted(p.name for p in folder.iterdir())


def start(log: Path, lake_dir: Path, code: str = "", jobs: int = 1) -> subprocess.Popen[str]:
    """An ingest in another process; `code` runs in it before."""
    text = (
        f"import sys\nfrom pathlib import Path\nfrom pipeline import ingest\n{code}\n"
        "summary = ingest.ingest([sys.argv[1]], Path(sys.argv[2]), jobs=int(sys.argv[3]),"
        " chunk_bytes=1024)\nprint(summary.batch)\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", text, str(log), str(lake_dir), str(jobs)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip


def test_batch_is_parquet_with_the_schema_of_every_table(log: Path, lake_dir: Path) -> None:
    read(log, into=lake_dir)
    (folder,) = lake.committed_batches(lake_dir).values()
    assert folder == lake_dir / "facts" / "batch=000001"
    assert names(folder) == ["fault_event.parquet", "file.parquet", "train_event.parquet"]
    for table in (*FACT_TABLES, lake.LEDGER):
        path = folder / f"{table.name}.parquet"
        if path.exists():
            assert pq.read_schema(path).equals(table.schema)
            metadata = pq.ParquetFile(path).metadata
            assert metadata.row_group(0).column(0).compression == "ZSTD"
    assert names(lake_dir / "facts") == ["batch=000001"]


def test_many_small_files_share_a_row_group(tmp_path: Path, lake_dir: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    for number in range(20):
        (logs / f"{number}.log").write_text(train_log(1, 3, f"rank {number}\n"))
    read(logs, into=lake_dir)
    (folder,) = lake.committed_batches(lake_dir).values()
    metadata = pq.ParquetFile(folder / "train_event.parquet").metadata
    assert (metadata.num_rows, metadata.num_row_groups) == (60, 1)


def test_reading_skips_what_is_no_batch(log: Path, lake_dir: Path) -> None:
    read(log, into=lake_dir)
    for name in (".staging-1-abc", "batch=x", "notes"):
        (lake_dir / "facts" / name).mkdir()
    assert list(lake.committed_batches(lake_dir)) == [1]


def test_no_lake_is_a_clear_error(tmp_path: Path) -> None:
    assert lake.committed_batches(tmp_path / "none") == {}
    with pytest.raises(LakeError, match="wallsplit ingest"):
        lake.require_lake(tmp_path / "none")


def test_damaged_ledger_is_named(log: Path, lake_dir: Path) -> None:
    read(log, into=lake_dir)
    path = lake_dir / "facts" / "batch=000001" / "file.parquet"
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(LakeError, match=r"batch=000001/file\.parquet"):
        read(log, into=lake_dir)


def test_second_commit_of_a_number_is_refused(lake_dir: Path) -> None:
    with lake.staging(lake_dir) as one, lake.staging(lake_dir) as two:
        for staged in (one, two):
            (staged.folder / "file.parquet").write_text(staged.folder.name)
        assert lake.commit(one, 1)
        assert not lake.commit(two, 1)
    assert names(lake_dir / "facts") == ["batch=000001"]


def test_loser_of_a_race_plans_again(
    log: Path, lake_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The winner has read the same bytes: the loser finds nothing new."""
    commit = lake.commit

    def lose(staged: lake.Staging, number: int) -> bool:
        monkeypatch.setattr(lake, "commit", commit)
        read(log, into=lake_dir)
        return commit(staged, number)

    monkeypatch.setattr(lake, "commit", lose)
    summary = read(log, into=lake_dir)
    assert (summary.batch, summary.n_unchanged) == (None, 1)
    assert steps(lake_dir) == list(range(1, 41))
    assert names(lake_dir / "facts") == ["batch=000001"]


def test_live_staging_is_not_swept_but_an_abandoned_one_is(lake_dir: Path) -> None:
    with lake.staging(lake_dir) as staged:
        abandoned = lake_dir / "facts" / ".staging-1-dead"
        abandoned.mkdir()
        (abandoned / "train_event.parquet").touch()
        (lake_dir / "facts" / ".staging-1-dead.lock").touch()
        lake.sweep(lake_dir)
        assert staged.folder.is_dir()
        assert not abandoned.exists()
    assert names(lake_dir / "facts") == []


def test_abandoned_staging_goes_even_where_nothing_is_new(log: Path, lake_dir: Path) -> None:
    read(log, into=lake_dir)
    (lake_dir / "facts" / ".staging-1-dead").mkdir()
    (lake_dir / "facts" / ".staging-1-dead.lock").touch()
    assert read(log, into=lake_dir).batch is None
    assert names(lake_dir / "facts") == ["batch=000001"]


def test_ingests_at_once_keep_every_fact_once(tmp_path: Path, lake_dir: Path) -> None:
    logs = []
    for number in range(3):
        logs.append(tmp_path / f"job{number}.log")
        logs[-1].write_text(train_log(number * 20 + 1, number * 20 + 20, f"job {number}\n"))
    running = [start(log, lake_dir) for log in (*logs, logs[0])]
    for process in running:
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")
    assert steps(lake_dir) == list(range(1, 61))
    assert list(lake.committed_batches(lake_dir)) == [1, 2, 3]
    assert names(lake_dir / "facts") == [f"batch=00000{n}" for n in (1, 2, 3)]


WAIT = """
import time
real = ingest.parse_chunk
def slow(task):
    if task.number == 2:
        Path(sys.argv[2], "ready").touch()
        time.sleep(60)
    return real(task)
ingest.parse_chunk = slow
"""


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.02)


def test_killed_ingest_leaves_a_good_lake(log: Path, lake_dir: Path) -> None:
    read(log, into=lake_dir)
    with log.open("a") as more:
        more.write("".join(step_line(s) for s in range(41, 61)))
    before = tree(lake_dir)
    process = start(log, lake_dir, WAIT)
    wait_for((lake_dir / "ready").exists)
    process.kill()
    process.communicate()
    (lake_dir / "ready").unlink()
    left = [n for n in names(lake_dir / "facts") if n.startswith(".staging")]
    assert left
    assert {k: v for k, v in tree(lake_dir).items() if ".staging" not in k} == before
    read(log, into=lake_dir)
    assert steps(lake_dir) == list(range(1, 61))
    assert names(lake_dir / "facts") == ["batch=000001", "batch=000002"]


def test_workers_end_with_a_killed_parent(log: Path, lake_dir: Path, tmp_path: Path) -> None:
    code = """
from tests.test_lake import sleeper
ingest.parse_chunk = sleeper
"""
    process = start(log, lake_dir, code, jobs=2)
    pids = tmp_path / "pids"
    wait_for(lambda: pids.is_dir() and len(names(pids)) == 2)
    process.kill()
    process.communicate()
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in names(pids)))


def sleeper(task: ingest_module.ChunkTask) -> NoReturn:
    """A parse that never ends; says which process runs it."""
    pids = Path(task.path).parent / "pids"
    pids.mkdir(exist_ok=True)
    (pids / str(os.getpid())).touch()
    time.sleep(3600)
    raise AssertionError


def test_full_disk_changes_nothing(
    log: Path, lake_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read(log, into=lake_dir)
    with log.open("a") as more:
        more.write(step_line(41))
    before = tree(lake_dir)

    def full(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for name in ("write_table", "ParquetWriter"):
        with monkeypatch.context() as patch:
            patch.setattr(pq, name, full)
            with pytest.raises(LakeError, match="no space left"):
                read(log, into=lake_dir)
        assert tree(lake_dir) == before
    read(log, into=lake_dir)
    assert steps(lake_dir) == list(range(1, 42))


@pytest.mark.parametrize("jobs", [1, 2])
def test_limit_of_file_size_changes_nothing(
    log: Path, lake_dir: Path, tmp_path: Path, jobs: int
) -> None:
    read(log, into=lake_dir)
    before = tree(lake_dir)
    others = tmp_path / "others"
    others.mkdir()
    for number in range(3):
        (others / f"{number}.log").write_text(train_log(41, 90, f"job {number}\n"))
    process = subprocess.run(
        [sys.executable, "-m", "pipeline.cli", "ingest", str(others), "--lake", str(lake_dir),
         "--jobs", str(jobs)],
        capture_output=True, text=True, cwd=ROOT, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)),
    )  # fmt: skip
    assert process.returncode == 1
    assert "no space left" in process.stderr
    assert "Traceback" not in process.stderr
    assert tree(lake_dir) == before


def test_lake_that_cannot_be_written_is_a_clear_error(log: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LakeError, match="cannot write to the lake"):
        read(log, into=tmp_path / "file")


def test_interrupted_ingest_leaves_nothing(log: Path, lake_dir: Path) -> None:
    process = start(log, lake_dir, WAIT)
    wait_for((lake_dir / "ready").exists)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode != 0
    assert names(lake_dir / "facts") == []
    assert ledger(lake_dir) == []
    read(log, into=lake_dir)
    assert len(living(lake_dir)["train_event"]) == 41
