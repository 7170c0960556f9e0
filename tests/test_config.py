"""Settings of a nightly job: what a file may say, and that a dialect is not dropped in silence."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pipeline.cli import main
from pipeline.config import Config, load, timezone_problems
from pipeline.errors import UsageError

DIALECT = """\
name = "mytrainer"
title = "Our own trainer"
versions = "2026"
anchors = [">> update "]
near_misses = [">> update skipped"]

[[rule]]
id = "step"
literal = ">> update "
regex = '''>> update (?P<step>\\d+) of (?P<total>\\d+) took (?P<step_s>[\\d.]+)s, loss'''
emit = { kind = "step" }

[[test]]
line = "[2026-02-01 00:00:10] >> update 12 of 500 took 8.31s, loss 2.104"
expect = { kind = "step", step_to = 12, total_steps = 500, step_ms = 8310.0 }
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "wallsplit.toml"
    path.write_text(text)
    return path


def test_every_setting_is_read_and_folders_are_relative_to_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, """
        cluster = "harbor"
        timezone = "Europe/Paris"
        dialects = ["dialects", "/etc/wallsplit/dialects"]
        jobs = 3
        reject_limit = 0
    """)  # fmt: skip
    assert load(path) == Config(
        "harbor", "Europe/Paris", (f"{tmp_path}/dialects", "/etc/wallsplit/dialects"), 3, 0
    )
    assert load(None) == load(write(tmp_path, "")) == Config()


def test_every_mistake_is_named_at_once_with_what_was_expected(tmp_path: Path) -> None:
    path = write(tmp_path, """
        cluster = 5
        timezone = "Mars/Olympus"
        dialects = "dialects"
        jobs = 0
        reject_limit = 1.5
        colour = "red"
    """)  # fmt: skip
    with pytest.raises(UsageError) as caught:
        load(path)
    said = str(caught.value).splitlines()
    assert said == [
        f"{path}: cluster = 5; expected a name in quotes",
        f"{path}: {timezone_problems('Mars/Olympus')[0]}",
        f"{path}: dialects = 'dialects'; expected a list of folders such as [\"dialects\"]",
        f"{path}: jobs = 0; expected a whole number, 1 or more",
        f"{path}: reject_limit = 1.5; expected a share between 0 and 1",
        f"{path}: unknown setting 'colour'; known: cluster, dialects, jobs, reject_limit, timezone",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["jobs = true", "jobs = 1.5", "dialects = [1]", "timezone = 1",
                                  "reject_limit = true", "cluster = ''"])  # fmt: skip
def test_a_value_of_the_wrong_type_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=re.escape(text.partition(" ")[0])):
        load(write(tmp_path, text))


@pytest.fixture
def nightly(tmp_path: Path) -> tuple[Path, Path]:
    """(log of an own dialect, settings that name the folder of that dialect)."""
    (tmp_path / "conf" / "dialects").mkdir(parents=True)
    (tmp_path / "conf" / "dialects" / "mytrainer.toml").write_text(DIALECT)
    log = tmp_path / "train.log"
    log.write_text("".join(
        f"[2026-02-01 00:{s // 6:02d}:{s % 6}0] >> update {s} of 90 took 10.00s, loss 2.1\n"
        for s in range(1, 61)))  # fmt: skip
    return log, write(tmp_path / "conf", 'dialects = ["dialects"]\njobs = 1\n')


def steps_kept(lake: Path) -> list[int]:
    report = json.loads((lake / "reports" / "report.json").read_text())
    return [run["steps_kept"] for run in report["runs"]]


def test_dialects_of_the_settings_are_used_from_any_folder(
    nightly: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    log, settings = nightly
    lake = tmp_path / "lake"
    monkeypatch.chdir(tmp_path / "conf" / "dialects")
    for _ in range(2):
        assert main(["run", str(log), "--lake", str(lake), "--config", str(settings)]) == 0
        assert steps_kept(lake) == [60]
        assert capsys.readouterr().err == ""


def test_a_folder_of_the_settings_that_is_missing_is_named(
    nightly: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, settings = nightly
    settings.write_text('dialects = ["nowhere"]')
    assert main(["run", str(log), "--lake", str(tmp_path / "l"), "--config", str(settings)]) == 2
    assert str(settings.parent / "nowhere") in capsys.readouterr().err


def test_a_night_without_the_dialects_of_the_lake_is_warned_about(
    nightly: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, settings = nightly
    lake = tmp_path / "lake"
    args = ["run", str(log), "--lake", str(lake), "--jobs", "1"]
    assert main([*args, "--config", str(settings)]) == 0
    assert capsys.readouterr().err == ""
    with log.open("a") as more:
        more.write("[2026-02-01 00:10:10] >> update 61 of 90 took 10.00s, loss 2.1\n")
    # it is told until the dialects are back, not only in the night in which they were left out
    for _ in range(2):
        assert main(args) == 0
        assert f"{log}: it was read with --dialects" in capsys.readouterr().err
        assert steps_kept(lake) == [60]
        report = json.loads((lake / "reports" / "report.json").read_text())
        (told,) = [w for w in report["data_quality"]["warnings"] if "waiting" in w]
        assert str(log) in told
    assert main([*args, "--dialects", str(settings.parent / "dialects")]) == 0
    assert capsys.readouterr().err == ""
    assert steps_kept(lake) == [61]


def test_options_go_before_settings(
    nightly: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, settings = nightly
    settings.write_text('dialects = ["nowhere"]\ntimezone = "Europe/Paris"\njobs = 1\n')
    lake = tmp_path / "lake"
    options = ["--dialects", str(settings.parent / "dialects"), "--timezone", "UTC", "--jobs", "1"]
    args = ["ingest", str(log), "--lake", str(lake), "--config", str(settings), *options]
    assert main(args) == 0
    capsys.readouterr()
    query = "select timezone from newest_file"
    assert main(["sql", "--lake", str(lake), query, "--csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "UTC"
