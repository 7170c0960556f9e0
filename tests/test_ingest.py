"""The same bytes give the same facts, however they are cut, ordered, grown, moved or compressed."""

from __future__ import annotations

import gzip
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parsers.formats import HEAD_BYTES, all_formats
from pipeline import catalog, database
from pipeline import ingest as ingest_module
from pipeline.catalog import IngestOptions
from pipeline.chunks import ChunkResult, ChunkTask, parse_chunk
from pipeline.discovery import discover
from pipeline.errors import UsageError
from pipeline.ingest import ingest
from tests.lakes import BANNER, ledger, living, read, sacct, step_line, steps, train_log

CHUNK = 1024


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Two training logs and an accounting file."""
    folder = tmp_path / "logs"
    (folder / "b").mkdir(parents=True)
    (folder / "a.log").write_text(train_log())
    (folder / "b" / "c.log").write_text(train_log(41, 70))
    (folder / "sacct.txt").write_text(sacct())
    return folder


@pytest.fixture
def lake_dir(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def once(log: Path, into: Path) -> object:
    """The facts of one fresh ingest without file names."""
    read(log, into=into)
    facts = living(into, ids=False)
    shutil.rmtree(into)
    return facts


def test_facts_have_exact_lines_and_bytes(logs: Path, lake_dir: Path) -> None:
    summary = read(logs, into=lake_dir, chunk_bytes=CHUNK)
    assert summary.batch == 1
    assert summary.n_files == 3
    assert steps(lake_dir) == list(range(1, 71))
    raw = {row["file_id"]: Path(str(row["path"])).read_bytes() for row in ledger(lake_dir)}
    facts = living(lake_dir)
    for rows in facts.values():
        for file_id, line, byte_offset, *_ in rows:
            assert raw[file_id][:byte_offset].count(b"\n") == line - 1
            assert byte_offset == 0 or raw[file_id][byte_offset - 1 : byte_offset] == b"\n"
    assert {row["n_lines"] for row in ledger(lake_dir)} == {55, 42, 22}


def test_a_second_ingest_of_the_same_bytes_commits_nothing(logs: Path, lake_dir: Path) -> None:
    read(logs, into=lake_dir)
    before = living(lake_dir)
    summary = read(logs, into=lake_dir)
    assert summary.batch is None
    assert summary.n_unchanged == 3
    assert living(lake_dir) == before


@pytest.mark.parametrize("chunk_bytes", [200, CHUNK, 4099])
def test_chunk_size_does_not_change_facts(logs: Path, tmp_path: Path, chunk_bytes: int) -> None:
    read(logs, into=tmp_path / "whole")
    read(logs, into=tmp_path / "cut", chunk_bytes=chunk_bytes)
    assert living(tmp_path / "cut") == living(tmp_path / "whole")


def test_jobs_and_order_of_paths_do_not_change_facts(logs: Path, tmp_path: Path) -> None:
    read(logs, into=tmp_path / "one")
    paths = (logs / "sacct.txt", logs / "b", logs / "a.log")
    read(*paths, into=tmp_path / "two", jobs=2, chunk_bytes=4099)
    assert living(tmp_path / "two") == living(tmp_path / "one")


def test_facts_are_stored_in_file_order(logs: Path, lake_dir: Path) -> None:
    import pyarrow.parquet as pq

    read(logs, into=lake_dir, chunk_bytes=CHUNK)
    rows = pq.read_table(lake_dir / "facts" / "batch=000001" / "train_event.parquet")
    places = list(zip(*(rows.column(c).to_pylist() for c in ("file_id", "seq")), strict=True))
    assert places == sorted(places)


def test_half_a_line_is_read_again_when_it_is_whole(tmp_path: Path, lake_dir: Path) -> None:
    log = tmp_path / "train.log"
    whole = train_log()
    cut = whole.index("elapsed", len(whole) // 2)
    log.write_text(whole[:cut])
    read(log, into=lake_dir)
    log.write_text(whole)
    read(log, into=lake_dir)
    assert steps(lake_dir) == list(range(1, 41))
    assert living(lake_dir, ids=False) == once(log, tmp_path / "fresh")
    rows = ledger(lake_dir)
    assert len({row["file_id"] for row in rows}) == 1
    assert rows[1]["parsed_from"] == rows[0]["tail_offset"] == whole.rindex("\n", 0, cut) + 1
    assert rows[1]["n_lines"] == whole.count("\n")


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    cuts=st.lists(st.integers(0, 2600), min_size=1, max_size=6),
    kind=st.sampled_from(["train", "sacct", "dirty"]),
)
def test_night_by_night_equals_one_ingest(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], kind: str
) -> None:
    folder = tmp_path_factory.mktemp("grown")
    whole = {
        "train": train_log(1, 8).encode(),
        "sacct": sacct().encode(),
        "dirty": b"\xff\0\r\n" + train_log(1, 6).replace("\n", "\r\n").encode() + b"\n\n\x80 tail",
    }[kind]
    log = folder / "file.log"
    for cut in [*sorted(cuts), len(whole)]:
        log.write_bytes(whole[:cut])
        read(log, into=folder / "grown", chunk_bytes=CHUNK)
    assert living(folder / "grown", ids=False) == once(log, folder / "fresh")
    assert ledger(folder / "grown")[-1]["parsed_to"] == len(whole)
    assert ledger(folder / "grown")[-1]["n_lines"] == len(whole.removesuffix(b"\n").split(b"\n"))


def test_renamed_file_keeps_its_id_and_its_facts(tmp_path: Path, lake_dir: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(train_log())
    read(log, into=lake_dir)
    before = living(lake_dir)
    log.rename(tmp_path / "renamed.log")
    read(tmp_path / "renamed.log", into=lake_dir)
    assert living(lake_dir) == before
    assert ledger(lake_dir)[-1]["path"] == str(tmp_path / "renamed.log")
    assert read(tmp_path / "renamed.log", into=lake_dir).batch is None


def test_rotation_with_the_same_banner_loses_and_repeats_nothing(
    tmp_path: Path, lake_dir: Path
) -> None:
    log, rotated = tmp_path / "train.log", tmp_path / "train.log.1"
    log.write_text(train_log(1, 20))
    read(tmp_path / "train.log", into=lake_dir)
    log.rename(rotated)
    log.write_text(train_log(21, 30))
    read(log, rotated, into=lake_dir)
    assert steps(lake_dir) == list(range(1, 31))
    assert len({row["file_id"] for row in ledger(lake_dir)}) == 2


def test_copytruncate_keeps_the_old_content_under_its_id(tmp_path: Path, lake_dir: Path) -> None:
    log, rotated = tmp_path / "train.log", tmp_path / "train.log.1"
    log.write_text(train_log(1, 20))
    read(tmp_path, into=lake_dir)
    old_id = ledger(lake_dir)[0]["file_id"]
    shutil.copy(log, rotated)
    log.write_text(train_log(21, 25))
    read(tmp_path, into=lake_dir)
    assert steps(lake_dir) == list(range(1, 26))
    newest = {row["path"]: row["file_id"] for row in ledger(lake_dir)}
    assert newest[str(rotated)] == old_id
    assert newest[str(log)] != old_id


def test_rotation_twice_with_compression(tmp_path: Path, lake_dir: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    log = logs / "train.log"
    log.write_text(train_log(1, 10))
    read(logs, into=lake_dir)
    with log.open("a") as more:
        more.write("".join(step_line(s) for s in range(11, 16)))
    log.rename(logs / "train.log.1")
    log.write_text(train_log(16, 20))
    read(logs, into=lake_dir)
    (logs / "train.log.2.gz").write_bytes(gzip.compress((logs / "train.log.1").read_bytes()))
    log.rename(logs / "train.log.1")
    log.write_text(train_log(21, 22))
    read(logs, into=lake_dir)
    assert steps(lake_dir) == list(range(1, 23))
    assert len({row["file_id"] for row in ledger(lake_dir)}) == 3
    assert read(logs, into=lake_dir).batch is None


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_compressed_copy_is_not_counted_twice(tmp_path: Path, lake_dir: Path, suffix: str) -> None:
    log = tmp_path / "train.log"
    log.write_text(train_log())
    read(log, into=lake_dir)
    before = living(lake_dir)
    packed = tmp_path / f"train.log.{suffix}"
    pack = gzip.compress if suffix == "gz" else zstandard.ZstdCompressor().compress
    packed.write_bytes(pack(log.read_bytes()))
    assert read(log, packed, into=lake_dir).n_duplicates == 1
    assert living(lake_dir) == before
    log.unlink()
    read(packed, into=lake_dir)
    assert living(lake_dir) == before
    assert ledger(lake_dir)[-1]["compression"] == suffix
    assert read(packed, into=lake_dir).batch is None


@pytest.mark.parametrize("names", [("a.log", "b.log"), ("a.log", "a.log.gz"), ("a.gz", "b.log")])
def test_copies_seen_in_one_ingest_are_counted_once(
    tmp_path: Path, lake_dir: Path, names: tuple[str, str]
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    for name in names:
        data = train_log().encode()
        (logs / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    summary = read(logs, into=lake_dir)
    assert summary.n_duplicates == 1
    assert steps(lake_dir) == list(range(1, 41))
    assert read(logs, into=lake_dir).batch is None


def test_a_long_table_written_anew_from_the_same_beginning_is_read_anew(
    tmp_path: Path, lake_dir: Path
) -> None:
    accounting = tmp_path / "sacct.txt"
    text = sacct(1500)
    accounting.write_text(text)
    read(accounting, into=lake_dir)
    assert text.rindex("COMPLETED") > HEAD_BYTES
    at = text.rindex("COMPLETED")
    accounting.write_text(text[:at] + "NODE_FAIL" + text[at + 9 :])
    assert read(accounting, into=lake_dir).warnings == []
    rows = database_rows(lake_dir, "select state, count(*) from raw_accounting_row group by all")
    assert sorted(rows) == [("COMPLETED", 1499), ("NODE_FAIL", 1)]
    assert len({row["file_id"] for row in ledger(lake_dir)}) == 1


def database_rows(lake_dir: Path, query: str) -> list[tuple[object, ...]]:
    con = database.new_connection()
    database.register_facts(con, lake_dir)
    return con.sql(query).fetchall()


def test_equal_first_lines_and_names_do_not_collide(tmp_path: Path, lake_dir: Path) -> None:
    for number in range(3):
        folder = tmp_path / "logs" / f"job{number}"
        folder.mkdir(parents=True)
        (folder / "train.log").write_text(train_log(number * 10 + 1, number * 10 + 10))
    read(tmp_path / "logs", into=lake_dir)
    assert len({row["file_id"] for row in ledger(lake_dir)}) == 3
    assert steps(lake_dir) == list(range(1, 31))


def test_a_short_file_that_turns_out_to_be_accounting_is_read_anew(
    tmp_path: Path, lake_dir: Path
) -> None:
    log = tmp_path / "jobs.txt"
    whole = "welcome to the cluster\n" + sacct()
    log.write_text(whole[:23])
    read(log, into=lake_dir)
    log.write_text(whole)
    read(log, into=lake_dir)
    assert [row["format"] for row in ledger(lake_dir)] == ["text", "sacct"]
    assert len(living(lake_dir)["accounting_row"]) == 20


def test_zone_given_later_is_taken_without_reading_again(tmp_path: Path, lake_dir: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(train_log())
    read(log, into=lake_dir)
    paris = IngestOptions(timezone="Europe/Paris")
    assert read(log, into=lake_dir, options=paris).batch == 2
    assert ledger(lake_dir)[-1]["timezone"] == "Europe/Paris"
    assert steps(lake_dir) == list(range(1, 41))
    assert read(log, into=lake_dir, options=paris).batch is None
    with log.open("a") as more:
        more.write(step_line(41))
    read(log, into=lake_dir)
    assert ledger(lake_dir)[-1]["timezone"] == "Europe/Paris"
    assert steps(lake_dir) == list(range(1, 42))


def test_another_cluster_name_does_not_count_files_twice(tmp_path: Path, lake_dir: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(train_log())
    read(log, into=lake_dir, options=IngestOptions(cluster="aurora"))
    with log.open("a") as more:
        more.write(step_line(41))
    summary = read(log, into=lake_dir, options=IngestOptions(cluster="borealis"))
    assert {row["cluster"] for row in ledger(lake_dir)} == {"aurora"}
    assert steps(lake_dir) == list(range(1, 42))
    assert "aurora" in summary.warnings[0]


def test_unreadable_things_are_rows_and_warnings(tmp_path: Path, lake_dir: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "good.log").write_text(train_log())
    (logs / "cut.gz").write_bytes(gzip.compress(random.Random(1).randbytes(90) * 30
                                                + train_log(41, 60).encode())[:-40])  # fmt: skip
    (logs / "empty.log").touch()
    (logs / "binary.bin").write_bytes(random.Random(2).randbytes(5000))
    (logs / "nowhere.log").symlink_to(logs / "missing")
    (logs / "loop").symlink_to(logs)
    (logs / "self").symlink_to(logs / "self")
    os.mkfifo(logs / "pipe")
    summary = read(logs, into=lake_dir)
    status = {Path(str(row["path"])).name: row["status"] for row in ledger(lake_dir)}
    assert status == {
        "good.log": "parsed", "cut.gz": "truncated", "empty.log": "parsed",
        "binary.bin": "unrecognised", "nowhere.log": "unreadable", "self": "unreadable",
        "pipe": "unreadable",
    }  # fmt: skip
    assert len(summary.warnings) == 5
    assert read(logs, into=lake_dir).batch is None


def test_file_that_becomes_unreadable_keeps_facts_and_zone(
    tmp_path: Path, lake_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "train.log"
    text = train_log()
    log.write_text(text)
    read(log, into=lake_dir, options=IngestOptions(timezone="Europe/Paris"))
    before = living(lake_dir)
    log.unlink()
    log.symlink_to(tmp_path / "unmounted")
    assert read(log, into=lake_dir).batch == 2
    assert living(lake_dir) == before
    row = ledger(lake_dir)[-1]
    assert (row["status"], row["timezone"], row["parsed_from"]) == (
        "unreadable", "Europe/Paris", None,
    )  # fmt: skip
    assert row["n_lines"] == text.count("\n")
    log.unlink()
    log.write_text(text)
    read(log, into=lake_dir)
    assert ledger(lake_dir)[-1]["status"] == "parsed"
    assert living(lake_dir) == before


@pytest.fixture
def nobody(tmp_path: Path) -> Iterator[None]:
    """The test runs as a user who does not own the files."""
    if os.geteuid() != 0:
        yield
        return
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_what_may_not_be_read_is_said(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    logs = tmp_path / "logs"
    (logs / "closed").mkdir(parents=True)
    (logs / "good.log").write_text(train_log())
    (logs / "secret.log").write_text(train_log())
    (logs / "closed").chmod(0)
    (logs / "secret.log").chmod(0)
    all_formats()  # imports that this user may not do
    request.getfixturevalue("nobody")
    found, broken = discover([str(logs), str(logs / "closed" / "x.log")], tmp_path / "lake")
    assert {b.path for b in broken} == {logs / "closed", logs / "closed" / "x.log"}
    plan = catalog.plan(found, broken, {}, IngestOptions())
    assert [f.look.path.name for f in plan.files] == ["good.log"]
    assert len(plan.failures) == 3
    assert all("permission" in f.reason for f in plan.failures)


def test_name_that_is_no_text_is_read(tmp_path: Path, lake_dir: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    Path(os.fsdecode(os.fsencode(logs) + b"/caf\xe9\x1b.log")).write_text(train_log())
    read(logs, into=lake_dir)
    assert steps(lake_dir) == list(range(1, 41))
    assert read(logs, into=lake_dir).batch is None


def test_globs_folders_and_the_lake_itself(logs: Path) -> None:
    (logs / ".git").mkdir()
    (logs / ".git" / "x.log").write_text(train_log(71, 80))
    (logs / ".hidden.log").write_text(train_log(71, 80))
    lake_dir = logs / "lake"
    assert ingest([str(logs / "*")], lake_dir).n_files == 3
    assert ingest([str(logs)], lake_dir).n_files == 1  # the hidden file
    assert ingest([str(logs)], lake_dir).batch is None


@pytest.mark.parametrize("path", ["", "missing/*.log", "a\0b", "[", "**x/y"])
def test_path_that_fits_nothing_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"no such file"):
        ingest([path], tmp_path / "lake")


def killer(task: ChunkTask) -> ChunkResult:
    """Dies at the chunk that begins in the middle of the file."""
    if task.start == 2 * CHUNK:
        os._exit(9)
    return parse_chunk(task)


def test_chunk_that_kills_its_worker_becomes_a_row_and_a_reject(
    tmp_path: Path, lake_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "train.log"
    log.write_text(train_log())
    monkeypatch.setattr(ingest_module, "parse_chunk", killer)
    summary = read(log, into=lake_dir, jobs=2, chunk_bytes=CHUNK)
    monkeypatch.undo()
    row = ledger(lake_dir)[-1]
    assert row["status"] == "failed"
    assert row["n_lines"] == log.read_text().count("\n")
    assert summary.n_rejects == 1
    (reject,) = living(lake_dir)["reject"]
    assert reject[2] in range(2 * CHUNK, 3 * CHUNK)
    raw = log.read_bytes()
    for _, line, byte_offset, *_ in living(lake_dir)["train_event"]:
        assert raw[:byte_offset].count(b"\n") == line - 1


def test_file_replaced_while_it_is_read_is_left_for_the_next_time(
    tmp_path: Path, lake_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "train.log"
    log.write_text(train_log(1, 20))

    def replace(task: ChunkTask) -> ChunkResult:
        log.write_text(train_log(21, 40, "another banner\n"))
        return parse_chunk(task)

    monkeypatch.setattr(ingest_module, "parse_chunk", replace)
    summary = read(log, into=lake_dir)
    monkeypatch.undo()
    assert "replaced" in summary.warnings[0]
    assert steps(lake_dir) == []
    read(log, into=lake_dir)
    assert steps(lake_dir) == list(range(21, 41))


def test_progress_ends_at_the_total(logs: Path, lake_dir: Path) -> None:
    seen: list[tuple[int, int]] = []
    read(logs, into=lake_dir, chunk_bytes=CHUNK, progress=lambda *n: seen.append(n))
    total = sum(p.stat().st_size for p in logs.rglob("*") if p.is_file())
    assert seen[-1] == (total, total)
    assert seen == sorted(seen)


def test_banner_alone_does_not_merge_contents(tmp_path: Path, lake_dir: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(train_log(1, 5))
    read(tmp_path / "train.log", into=lake_dir)
    log.rename(tmp_path / "train.log.1")
    log.write_text(BANNER)
    read(log, tmp_path / "train.log.1", into=lake_dir)
    with log.open("a") as more:
        more.write(step_line(6))
    read(log, tmp_path / "train.log.1", into=lake_dir)
    assert steps(lake_dir) == list(range(1, 7))
