"""A setting that a later night leaves out or changes: nothing silently changes or vanishes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline import database, timeline
from pipeline.catalog import IngestOptions
from pipeline.ingest import IngestSummary
from tests.lakes import BANNER, ledger, living, read, step_line, steps

MINE = """\
name = "mine"
title = "Our own trainer"
versions = "2026"
anchors = [">> update "]
near_misses = [">> update skipped"]

[[rule]]
id = "step"
literal = ">> update "
regex = '''>> update (?P<step>\\d+) took (?P<step_s>[\\d.]+)s'''
emit = { kind = "step" }

[[test]]
line = ">> update 12 took 8.31s"
expect = { kind = "step", step_to = 12, step_ms = 8310.0 }
"""
PUMP = """\
[[signature]]
id = "site.pump"
order = 1000
component = "host.other"
mode = "fail_slow"
domain = "infrastructure"
role = "root"
priority = 40
scope = "node"
literals = ["pump failure"]
regex = 'chassis (?P<chassis>\\d+): pump failure'
positive = ["chassis 7: pump failure"]
negative = ["no pump failure"]
"""


def updates(first: int, last: int) -> str:
    return "".join(f">> update {n} took 1.0s\n" for n in range(first, last + 1))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    return tmp_path / "logs" / "x.out"


@pytest.fixture
def lake_dir(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def folder(path: Path, text: str) -> tuple[str]:
    path.mkdir()
    (path / "mine.toml").write_text(text)
    return (str(path),)


def night(log: Path, lake_dir: Path, **options: object) -> IngestSummary:
    return read(log.parent, into=lake_dir, options=IngestOptions(**options))  # type: ignore[arg-type]


def test_without_its_dialects_a_file_waits(log: Path, lake_dir: Path, tmp_path: Path) -> None:
    mine = folder(tmp_path / "mine", MINE)
    log.write_text(updates(1, 20))
    assert night(log, lake_dir, dialect_dirs=mine).warnings == []
    assert night(log, lake_dir).warnings == []
    log.write_text(updates(1, 30))
    summary = night(log, lake_dir)
    assert (summary.n_lines, steps(lake_dir)) == (0, list(range(1, 21)))
    assert ledger(lake_dir)[-1]["status"] == "waiting"
    assert night(log, lake_dir).batch is None
    assert len(summary.warnings) == 1
    assert str(log) in summary.warnings[0]
    assert "waits" in summary.warnings[0]
    assert night(log, lake_dir, dialect_dirs=mine).warnings == []
    assert steps(lake_dir) == list(range(1, 31))


def test_changed_dialects_are_a_new_reading_and_it_is_said(
    log: Path, lake_dir: Path, tmp_path: Path
) -> None:
    log.write_text(updates(1, 20))
    night(log, lake_dir)
    assert steps(lake_dir) == []
    for name, text in (("first", MINE), ("second", MINE.replace("Our own", "Their own"))):
        options = {"dialect_dirs": folder(tmp_path / name, text)}
        (warning,) = night(log, lake_dir, **options).warnings
        assert "read anew" in warning
        assert steps(lake_dir) == list(range(1, 21))
        assert night(log, lake_dir, **options).batch is None


def test_new_file_beside_files_with_dialects_is_told_of(
    log: Path, lake_dir: Path, tmp_path: Path
) -> None:
    mine = folder(tmp_path / "mine", MINE)
    log.write_text(updates(1, 20))
    night(log, lake_dir, dialect_dirs=mine)
    log.with_name("y.out").write_text("another job\n" + updates(1, 5))
    (warning,) = night(log, lake_dir).warnings
    assert "y.out" in warning
    assert "--dialects" in warning
    night(log, lake_dir, dialect_dirs=mine)
    assert len(steps(lake_dir)) == 25


def test_signatures_of_the_user_are_found_and_kept(
    log: Path, lake_dir: Path, tmp_path: Path
) -> None:
    mine = folder(tmp_path / "mine", PUMP)
    log.write_text("chassis 7: pump failure\n")
    night(log, lake_dir, signature_dirs=mine)
    assert len(living(lake_dir)["fault_event"]) == 1
    log.write_text("chassis 7: pump failure\n" * 2)
    assert "waits" in night(log, lake_dir).warnings[0]
    assert len(living(lake_dir)["fault_event"]) == 1
    night(log, lake_dir, signature_dirs=mine)
    assert len(living(lake_dir)["fault_event"]) == 2


def zones(lake_dir: Path) -> list[tuple[object, ...]]:
    timeline.rebuild(lake_dir)
    con = database.connect(lake_dir)
    return con.sql("select file_name, timezone from file order by all").fetchall()


def test_zone_of_known_files_stays_and_new_files_are_told_of(log: Path, lake_dir: Path) -> None:
    log.write_text(BANNER + step_line(1))
    assert night(log, lake_dir, timezone="Europe/Paris").warnings == []
    log.write_text(BANNER + step_line(1) + step_line(2))
    assert night(log, lake_dir).warnings == []
    log.with_name("y.out").write_text("another job\n" + step_line(9))
    (warning,) = night(log, lake_dir).warnings
    assert "y.out" in warning
    assert "Europe/Paris" in warning
    assert zones(lake_dir) == [("x.out", "Europe/Paris"), ("y.out", "UTC")]


def test_changed_zone_is_said(log: Path, lake_dir: Path) -> None:
    log.write_text(BANNER + step_line(1))
    night(log, lake_dir)
    (warning,) = night(log, lake_dir, timezone="Europe/Paris").warnings
    assert "Europe/Paris, not UTC as assumed" in warning
    (warning,) = night(log, lake_dir, timezone="Asia/Tokyo").warnings
    assert "Asia/Tokyo, not Europe/Paris" in warning
    assert zones(lake_dir) == [("x.out", "Asia/Tokyo")]


def test_a_rotated_log_keeps_the_zone_that_its_older_files_were_given(
    log: Path, lake_dir: Path
) -> None:
    log.write_text(BANNER + "".join(map(step_line, range(1, 11))))
    night(log, lake_dir, timezone="Europe/Paris")
    log.rename(log.with_name("x.out.1"))
    log.write_text("".join(map(step_line, range(11, 21))))
    night(log, lake_dir)
    assert zones(lake_dir) == [("x.out", "Europe/Paris"), ("x.out.1", "Europe/Paris")]


def test_new_file_without_a_cluster_is_told_of_and_belongs_to_the_one_of_the_accounting(
    log: Path, lake_dir: Path
) -> None:
    accounting = log.with_name("sacct.txt")
    accounting.write_text(
        "JobID|JobName|State|Submit|Start|End|ExitCode|NNodes|AllocTRES\n"
        "4711|train|COMPLETED|2026-02-01T00:00:00|2026-02-01T00:00:00|2026-02-01T01:00:00|0:0|1|"
        "gres/gpu=8\n"
    )
    assert night(log, lake_dir, cluster="aurora").warnings == []
    new = log.with_name("slurm-4711.out")
    new.write_text(BANNER + "".join(map(step_line, range(1, 41))))
    (warning,) = night(log, lake_dir).warnings
    assert "slurm-4711.out" in warning
    assert "aurora" in warning
    timeline.rebuild(lake_dir)
    con = database.connect(lake_dir)
    assert con.sql("select cluster, name, n_attempts from run").fetchall() == [
        ("aurora", "train", 1)
    ]
    assert {row["cluster"] for row in ledger(lake_dir)} == {"aurora", "default"}
