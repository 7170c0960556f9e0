"""What was read once stays read: files that are cut, rotated, written anew or read in windows."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from pipeline import database, timeline
from tests.lakes import BANNER, read, sacct, step_line

Run = tuple[object, ...]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    return tmp_path / "logs" / "x.out"


@pytest.fixture
def lake_dir(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def steps_text(first: int, last: int) -> str:
    """Steps a second apart."""
    return "".join(step_line(s, minute=s // 60) for s in range(first, last + 1))


def night(log: Path, text: str | bytes, lake_dir: Path) -> tuple[list[str], list[Run]]:
    """One night with that text in the log: warnings, and (launches, steps kept, lost, TOR)."""
    log.write_bytes(text if isinstance(text, bytes) else text.encode())
    summary = read(log.parent, into=lake_dir)
    timeline.rebuild(lake_dir)
    assert timeline.check(lake_dir) == []
    return summary.warnings, rows(
        lake_dir,
        "select n_launches, steps_kept, steps_lost, round(tor_observed, 9) from run order by all",
    )


def rows(lake_dir: Path, query: str) -> list[Run]:
    return database.connect(lake_dir).sql(query).fetchall()


WHOLE = BANNER + steps_text(1, 400)
CUT = WHOLE[: WHOLE.index("\n", 20_000) + 1]


@pytest.mark.parametrize("cut", [CUT, CUT[:-90], WHOLE[: len(WHOLE) - 200], BANNER, ""])
def test_a_cut_copy_of_a_log_loses_nothing_and_warns(log: Path, lake_dir: Path, cut: str) -> None:
    warnings, before = night(log, WHOLE, lake_dir)
    assert (warnings, before) == ([], [(1, 400, 0, 1.0)])
    warnings, after = night(log, cut, lake_dir)
    assert after == before
    assert len(warnings) == 1
    for part in (str(log), f"{len(WHOLE):,}", f"{len(cut):,}"):
        assert part in warnings[0]
    assert night(log, cut, lake_dir) == ([], before)
    assert night(log, WHOLE, lake_dir)[1] == before  # somebody put it back


def test_a_cut_log_that_goes_on_keeps_what_was_cut_off(log: Path, lake_dir: Path) -> None:
    night(log, WHOLE, lake_dir)
    night(log, CUT, lake_dir)
    _, runs = night(log, CUT + BANNER + steps_text(401, 450), lake_dir)
    assert [run[1] for run in runs] == [450]


def test_a_launch_that_overwrites_the_log_is_a_second_launch(log: Path, lake_dir: Path) -> None:
    starts = "[2026-02-01 00:{:02d}:00.000000] setting random seeds to 1234 ...\n"
    first = BANNER + starts.format(0) + steps_text(1, 400)
    night(log, first, lake_dir)
    second = BANNER + "[after megatron is initialized] datetime: 2026-02-01 00:07:00.000000 \n"
    warnings, runs = night(log, second + steps_text(430, 500), lake_dir)
    assert "stays" in warnings[0]
    assert sum(int(str(run[1])) for run in runs) == 471


def test_an_edited_log_supersedes_and_says_so(log: Path, lake_dir: Path) -> None:
    _, before = night(log, WHOLE, lake_dir)
    edited = WHOLE.replace(BANNER, "host names removed\n" + BANNER)
    warnings, after = night(log, edited, lake_dir)
    assert after == before
    assert str(log) in warnings[0]
    status = "select status, status_detail from file where status <> 'parsed'"
    assert rows(lake_dir, status) == [
        ("superseded", "from line 2 on told again by newer content of its path")
    ]


def test_windows_of_a_log_are_one_log(log: Path, lake_dir: Path) -> None:
    night(log, BANNER + steps_text(1, 100), lake_dir)
    night(log, steps_text(40, 180), lake_dir)
    _, runs = night(log, steps_text(150, 300), lake_dir)
    assert runs == [(1, 300, 0, 1.0)]


def test_a_packed_copy_that_was_cut_counts_nothing_twice(log: Path, lake_dir: Path) -> None:
    log.with_name("x.out.1.gz").write_bytes(gzip.compress(WHOLE.encode())[:3000])
    warnings, runs = night(log, WHOLE, lake_dir)
    assert runs == [(1, 400, 0, 1.0)]
    assert "ends too early" in warnings[0]
    assert [status for (status,) in rows(lake_dir, "select status from file order by all")] == [
        "parsed", "superseded",
    ]  # fmt: skip


HEADER = sacct().partition("\n")[0] + "\n"


def job(number: int, state: str, end: str) -> str:
    return f"{number}|pretrain|none|{state}|2026-02-01T00:00:00|2026-02-01T00:01:00|{end}|0:0|2\n"


def test_accounting_that_is_overwritten_each_night_keeps_older_jobs(
    log: Path, lake_dir: Path
) -> None:
    accounting = log.with_name("sacct.txt")
    done = "2026-02-01T02:00:00"
    night(accounting, HEADER + job(1, "COMPLETED", done) + job(2, "RUNNING", "Unknown"), lake_dir)
    warnings, _ = night(
        accounting, HEADER + job(2, "NODE_FAIL", done) + job(3, "RUNNING", "Unknown"), lake_dir
    )
    assert warnings == []
    assert rows(lake_dir, "select job_id, state from attempt order by all") == [
        ("1", "COMPLETED"), ("2", "NODE_FAIL"), ("3", "RUNNING"),
    ]  # fmt: skip


def test_accounting_that_was_corrected_says_what_it_said_last(log: Path, lake_dir: Path) -> None:
    accounting = log.with_name("sacct.txt")
    done = "2026-02-01T02:00:00"
    for state in ("COMPLETED", "NODE_FAIL", "COMPLETED", "FAILED"):
        night(accounting, HEADER + job(1, state, done), lake_dir)
        assert rows(lake_dir, "select state from attempt") == [(state,)]
