"""`show`: the raw lines behind a number, and what it says where they are gone."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from pipeline.cli import main
from tests.lakes import train_log

ROOT = Path(__file__).parents[1]


def test_show_prints_the_raw_line_of_a_fact(
    log: Path, lake_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["sql", "--lake", str(lake_dir), "--json", "select file_id, line from fault_event"])
    (fault,) = json.loads(capsys.readouterr().out)
    evidence = f"fact:fault_event:{fault['file_id']}:{fault['line']}"
    raw = log.read_text().splitlines()[fault["line"] - 1]

    def shown() -> str:
        assert main(["show", evidence, "--lake", str(lake_dir)]) == 0
        return capsys.readouterr().out

    assert shown() == f"{log}:{fault['line']}: {raw}\n"
    packed = log.with_name("train.log.1.gz")
    packed.write_bytes(gzip.compress(log.read_bytes()))
    text = log.read_text()
    log.unlink()
    assert "does not exist" in shown()
    assert raw.removeprefix("[rank3]: ") in shown()
    main(["ingest", str(packed), "--lake", str(lake_dir), "--jobs", "1"])
    capsys.readouterr()
    assert shown() == f"{packed}:{fault['line']}: {raw}\n"
    packed.write_bytes(gzip.compress(text.replace("iteration", "ITERATION").encode()))
    assert "other bytes" in shown()


def test_show_prints_the_lines_of_segments_and_incidents(
    lake_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind in ("segment", "incident"):
        query = f"select {kind}_id as id from {kind} where file_id is not null"  # noqa: S608
        main(["sql", "--lake", str(lake_dir), "--json", query])
        for row in json.loads(capsys.readouterr().out):
            assert main(["show", f"{kind}:{row['id']}", "--lake", str(lake_dir)]) == 0
            assert "train.log:" in capsys.readouterr().out


def test_show_of_a_file_and_line(
    log: Path, lake_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", f"{log}:2"]) == 0
    assert "iteration        1/" in capsys.readouterr().out
    assert main(["show", f"{log}:1000"]) == 1
    assert "55 lines" in capsys.readouterr().err
    moved = log.rename(log.with_name("moved.log"))
    main(["ingest", str(moved), "--lake", str(lake_dir), "--jobs", "1"])
    capsys.readouterr()
    assert main(["show", f"{log}:2", "--lake", str(lake_dir)]) == 0
    assert capsys.readouterr().out.startswith(f"{moved}:2:")


def test_show_of_unknown_things_ends_with_1(
    lake_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for evidence in ("segment:none", "incident:", "fact:reject:none:1", "/none:1", f"{ROOT}:1"):
        assert main(["show", evidence, "--lake", str(lake_dir)]) == 1
        assert capsys.readouterr().err.startswith("wallsplit show: ")


def ingested(folder: Path, files: dict[str, str]) -> Path:
    """A split lake that holds files of these names and texts below `folder`."""
    lake_dir = folder / "lake"
    for name, text in files.items():
        (folder / "logs" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "logs" / name).write_text(text)
    assert main(["run", str(folder / "logs"), "--lake", str(lake_dir), "--jobs", "1"]) == 0
    return lake_dir


def test_show_takes_the_short_names_that_reports_print(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lake_dir = ingested(tmp_path, {"a/train.log": train_log(), "b/train.log": train_log(41, 80)})
    report = json.loads((lake_dir / "reports" / "report.json").read_text())
    html = (lake_dir / "reports" / "report.html").read_text()
    evidence = report["runs"][0]["incidents"][0]["evidence"][0]
    short = f"{evidence['file'].removeprefix(f'{tmp_path}/logs/')}:{evidence['line']}"
    assert f">{short}<" in html
    capsys.readouterr()
    assert main(["show", short, "--lake", str(lake_dir)]) == 0
    assert "CUDA out of memory" in capsys.readouterr().out
    assert main(["show", "train.log:2", "--lake", str(lake_dir)]) == 1
    err = capsys.readouterr().err
    assert "train.log is the name of 2 files; give one of" in err
    assert f"{tmp_path}/logs/b/train.log" in err


def test_show_of_a_removed_or_changed_log_says_so_and_shows_what_is_stored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake_dir = ingested(tmp_path, {"train.log": train_log()})
    log = tmp_path / "logs" / "train.log"
    lines = log.read_text().splitlines()
    chatter = next(n for n, line in enumerate(lines, 1) if "prefetched" in line)

    def shown(number: int, code: int) -> str:
        capsys.readouterr()
        assert main(["show", f"{log}:{number}", "--lake", str(lake_dir)]) == code
        return "".join(capsys.readouterr())

    assert shown(len(lines), 0) == f"{log}:{len(lines)}: {lines[-1]}\n"
    log.write_text(train_log().replace("rank", "RANK"))
    changed = shown(len(lines), 0)
    assert "holds other bytes since it was read; stored text]" in changed
    assert lines[-1].removeprefix("[rank3]: ") in changed
    assert "no text of the line is stored" in shown(chatter, 1)
    log.unlink()
    assert "does not exist" in shown(len(lines), 0)
    assert "does not exist" in shown(chatter, 1)


def test_show_of_a_path_prefers_what_stands_there_now(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake_dir = ingested(tmp_path, {"train.log": train_log()})
    log = tmp_path / "logs" / "train.log"
    log.rename(log.with_name("train.log.1"))
    log.write_text("a new beginning\n" + train_log(41, 80))
    assert main(["run", str(log.parent), "--lake", str(lake_dir), "--jobs", "1"]) == 0
    capsys.readouterr()
    assert main(["show", f"{log}:1", "--lake", str(lake_dir)]) == 0
    assert capsys.readouterr().out == f"{log}:1: a new beginning\n"


def test_show_names_the_part_of_each_line_in_an_incident(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake_dir = ingested(tmp_path, {"train.log": train_log()})
    report = json.loads((lake_dir / "reports" / "report.json").read_text())
    (incident,) = report["runs"][0]["incidents"]
    capsys.readouterr()
    assert main(["show", f"incident:{incident['incident_id']}", "--lake", str(lake_dir)]) == 0
    assert "  [root] " in capsys.readouterr().out.splitlines()[0]
