"""The command line: what it prints, how it ends, and that nothing makes it show a traceback."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from parsers.tables import FACT_TABLES
from pipeline.cli import main
from pipeline.schema import ALL_TABLES
from tests.lakes import sacct, train_log

ROOT = Path(__file__).parents[1]
HEAVY = ("polars", "duckdb", "pyarrow", "scipy", "numpy", "hyperscan")


def command(*args: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pipeline.cli", *args],
        capture_output=True, text=True, cwd=ROOT, check=False, timeout=60, **options,
    )  # type: ignore[call-overload, no-any-return]  # fmt: skip


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom pipeline.cli import main\n"
        "try: main(['ingest', '--help'])\nexcept SystemExit: pass\n"
        f"print([m for m in {HEAVY} if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT,
                         check=True).stdout  # fmt: skip
    assert out.splitlines()[-1] == "[]"


def test_no_command_prints_help_and_version_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "exit codes:" in capsys.readouterr().out
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("wallsplit ")


def test_ingest_says_what_it_read(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ["ingest", str(log), "--lake", str(tmp_path / "lake"), "--jobs", "1"]
    assert main([*args, "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert (first["batch"], first["files"], first["lines"], first["rejects"]) == (1, 1, 55, 0)
    assert main(args) == 0
    assert "nothing new" in capsys.readouterr().out


def test_too_many_rejects_end_with_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jobs = tmp_path / "sacct.txt"
    jobs.write_text(sacct() + "120|pretrain|cut short\n121|pretrain|cut short\n")
    assert main(["ingest", str(jobs), "--lake", str(tmp_path / "lake"), "--jobs", "1"]) == 3
    assert "could not be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    "args",
    [
        ["ingest", "{missing}", "--lake", "{lake}"],
        ["ingest", "{log}", "--lake", "{lake}", "--timezone", "Mars/Olympus"],
        ["ingest", "{log}", "--lake", "{lake}", "--format", "nonsense"],
        ["ingest", "{log}", "--lake", "{lake}", "--jobs", "0"],
        ["ingest", "{log}", "--lake", "{lake}", "--dialects", "{missing}"],
        ["ingest", "{log}", "--lake", "{lake}", "--config", "{missing}"],
        ["facts", "{log}", "--table", "nonsense"],
        ["show", "nonsense"],
        ["show", "segment:1"],
        ["show", "{log}:0"],
        ["show", "fact:run:x:1", "--lake", "{lake}"],
        ["sql", "--lake", "{lake}", "select nonsense"],
        ["report", "--lake", "{lake}", "--since", "yesterday"],
    ],
)
def test_wrong_usage_ends_with_2(
    args: list[str],
    log: Path,
    shared_lake: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    filled = [a.format(log=log, lake=shared_lake, missing=tmp_path / "missing") for a in args]
    assert main(filled) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"wallsplit {args[0]}: ")


def test_every_mistake_is_named_at_once(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ingest", str(log), "--lake", str(tmp_path / "lake"), "--jobs", "0",
                 "--timezone", "Mars/Olympus", "--format", "nonsense"]) == 2  # fmt: skip
    err = capsys.readouterr().err
    assert all(word in err for word in ("--jobs", "Mars/Olympus", "nonsense"))


@pytest.mark.parametrize("name", ["split", "check", "report", "sql"])
def test_lake_without_facts_ends_with_1(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = [name, "--lake", str(tmp_path / "none"), *(["select 1"] if name == "sql" else [])]
    assert main(args) == 1
    assert "wallsplit ingest" in capsys.readouterr().err


def test_damaged_table_is_named(lake_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = lake_dir / "facts" / "batch=000001" / "train_event.parquet"
    path.write_bytes(path.read_bytes()[:-30])
    for name in ("split", "check"):
        assert main([name, "--lake", str(lake_dir)]) == 1
        assert "train_event.parquet" in capsys.readouterr().err


def test_facts_are_json_lines_with_their_table(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["facts", str(log)]) == 0
    facts = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    steps = [f for f in facts if f["table"] == "train_event" and f["kind"] == "step"]
    assert [f["step_to"] for f in steps] == list(range(1, 41))
    assert steps[0]["occurred_at"] == "2026-02-01T00:00:01Z"
    assert [f["table"] for f in facts].count("fault_event") == 1


def test_schema_names_every_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "--json"]) == 0
    tables = {t["table"] for t in json.loads(capsys.readouterr().out)}
    assert {"run", "segment", "incident", "train_event", "fault_event", "reject"} <= tables


def test_check_holds_on_a_good_lake(shared_lake: Path) -> None:
    assert main(["check", "--lake", str(shared_lake)]) == 0


def test_run_twice_prints_the_same_report(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ["run", str(log), "--lake", str(tmp_path / "lake"), "--jobs", "1", "--json"]
    reports = []
    for _ in range(2):
        assert main(args) == 0
        reports.append(json.loads(capsys.readouterr().out))
        del reports[-1]["generated_at"]
    assert reports[0] == reports[1]
    assert list((tmp_path / "lake" / "reports").iterdir())


def test_demo_needs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--out", str(tmp_path / "demo")]) == 0
    out, err = capsys.readouterr()
    assert "TOR" in out
    assert err == ""


# no traceback, whatever comes


def dirty_files(folder: Path) -> None:
    """Files that break naive readers."""
    folder.mkdir()
    rng = random.Random(7)
    text = train_log()
    files: dict[str, bytes] = {
        "invalid_utf8.log": text.encode().replace(b"consumed", b"con\xff\xfesumed"),
        "nul.log": text.encode().replace(b"lm loss", b"lm\0loss"),
        "crlf.log": text.replace("\n", "\r\n").encode(),
        "bare_cr.log": text.replace("\n", "\r").encode(),
        "long_line.log": b"x" * 3_000_000 + b" iteration 1/ 2 | lm loss: 1 |\n" + text.encode(),
        "no_newline.log": text.rstrip().encode(),
        "half_record.log": text.encode()[:-200],
        "empty.log": b"",
        "newlines.log": b"\n" * 5000,
        "random.bin": rng.randbytes(50_000),
        "utf16.log": text.encode("utf-16"),
        "cut.gz": gzip.compress(text.encode())[:-9],
        "not_really.gz": b"\x1f\x8b" + rng.randbytes(500),
        "not_really.zst": b"\x28\xb5\x2f\xfd" + rng.randbytes(500),
        "sacct_cut.txt": sacct().encode()[:-30],
        "sacct_dirty.txt": sacct().replace("COMPLETED", "COM\x1b[2J\0\xff").encode("latin-1"),
        "sacct_header_only.txt": sacct(0).encode(),
        "markup.log": text.replace("rank", "<script>alert(1)</script>").encode(),
        "huge_numbers.log": text.replace("1000.0", "9" * 400).replace("/    1000", "/" + "9" * 40)
        .encode(),
        "bad_dates.log": text.replace("2026-02-01", "2026-99-99").encode(),
        "far_dates.log": text.replace("2026-02-01", "9999-12-31").encode(),
    }  # fmt: skip
    for name, data in files.items():
        (folder / name).write_bytes(data)
    (folder / "nowhere").symlink_to(folder / "missing")
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "pipe")


def test_dirty_files_never_show_a_traceback(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    dirty_files(logs)
    lake_dir = str(tmp_path / "lake")
    done = command("run", str(logs), "--lake", lake_dir, "--jobs", "2")
    assert done.returncode in (0, 3), done.stderr
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    for args in (["check", "--lake", lake_dir], ["explain", str(logs)], ["facts", str(logs)]):
        done = command(*args)
        assert done.returncode in (0, 1), done.stderr
        assert "Traceback" not in done.stderr
    assert "broken" not in command("check", "--lake", lake_dir).stdout
    again = command("ingest", str(logs), "--lake", lake_dir, "--json")
    assert json.loads(again.stdout)["batch"] is None


def test_closed_pipe_is_quiet(shared_lake: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "pipeline.cli", "sql", "--lake", str(shared_lake),
         "select * from range(200000)", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=30) == 0


def test_error_shows_no_traceback_unless_asked(lake_dir: Path, log: Path) -> None:
    shutil.rmtree(lake_dir)
    lake_dir.write_text("a file")
    args = ("ingest", str(log), "--lake", str(lake_dir))
    done = command(*args)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    debug = command(*args, env={**os.environ, "WALLSPLIT_DEBUG": "1"})
    assert "Traceback" in debug.stderr


def test_run_rebuilds_after_an_ingest_that_it_did_not_do(
    tmp_path: Path, log: Path, lake_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.log"
    other.write_text(train_log().replace("2026", "2027"))
    assert main(["ingest", str(other), "--lake", str(lake_dir), "--jobs", "1"]) == 0
    capsys.readouterr()
    assert (
        main(["run", str(log), str(other), "--lake", str(lake_dir), "--jobs", "1", "--json"]) == 0
    )
    report = json.loads(capsys.readouterr().out)
    assert (report["data_quality"]["files"], len(report["runs"])) == (2, 2)


def test_only_one_line_too_long_ends_with_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "long.log"
    path.write_bytes(b"x" * (17 << 20) + b"\n")
    assert main(["ingest", str(path), "--lake", str(tmp_path / "lake"), "--jobs", "1"]) == 3
    assert "1 of 1 claimed records (100.0%)" in capsys.readouterr().err


def test_counts_of_one_are_told_in_the_singular(
    tmp_path: Path, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ["ingest", str(log), "--lake", str(tmp_path / "lake"), "--jobs", "1"]
    assert main(args) == 0
    first = capsys.readouterr().out
    assert first.startswith("1 file, 55 lines, ")
    assert first.endswith("0 rejects (0 files unchanged)\n")
    assert main(args) == 0
    assert capsys.readouterr().out == "nothing new in 1 file\n"


def test_an_empty_folder_is_no_lake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "logs").mkdir()
    args = [str(tmp_path / "logs"), "--lake", str(tmp_path / "lake"), "--jobs", "1"]
    assert main(["ingest", *args]) == 0
    assert capsys.readouterr().out == "no files to read\n"
    assert main(["run", *args]) == 1
    assert f"no files to read in {tmp_path / 'logs'}" in capsys.readouterr().err


# facts


def facts(*args: object, capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    assert main(["facts", *map(str, args)]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_facts_show_accounting_once_unless_its_rows_are_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = tmp_path / "sacct.txt"
    jobs.write_text(sacct())
    assert {f["table"] for f in facts(jobs, capsys=capsys)} == {"attempt"}
    for name, n_rows in (("accounting_row", 20), ("file", 1)):
        found = facts(jobs, "--table", name, capsys=capsys)
        assert [f["table"] for f in found] == [name] * n_rows


def test_facts_have_the_columns_of_their_tables(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = {t.name: t.schema.names for t in ALL_TABLES}
    for fact in facts(log, capsys=capsys):
        assert list(fact) == ["table", *columns[str(fact["table"])]]


def test_every_fact_table_can_be_asked_for() -> None:
    from pipeline.commands.facts import SHOWN, TABLES

    contract = {"attempt", "attempt_step", "train_event", "fault_event", "reject"}
    assert contract <= set(SHOWN)
    assert {t.name for t in FACT_TABLES} <= set(TABLES)


# report


def test_a_report_on_some_runs_leaves_the_nightly_page_alone(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake_dir = tmp_path / "lake"
    assert main(["run", str(log), "--lake", str(lake_dir), "--jobs", "1"]) == 0
    nightly = lake_dir / "reports" / "report.html"
    whole = nightly.read_text()
    capsys.readouterr()
    for chosen in (["--since", "2026-01-01"], ["--run", "train.log"], ["--until", "2025-01-01"]):
        assert main(["report", "--lake", str(lake_dir), *chosen]) == 0
        path = Path(capsys.readouterr().out.strip())
        assert path.parent == nightly.parent
        assert path != nightly
        assert "Only runs" in path.read_text()
    assert nightly.read_text() == whole
    assert main(["report", "--lake", str(lake_dir)]) == 0
    assert capsys.readouterr().out == f"{nightly}\n"


def test_a_report_goes_where_it_is_sent_or_says_why_not(
    lake_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for form, begin in (("html", "<!doctype"), ("md", "<!-- wallsplit"), ("json", "{")):
        out = tmp_path / "new" / f"x.{form}"
        args = ["report", "--lake", str(lake_dir), "--format", form, "--out"]
        assert main([*args, str(out)]) == 0
        assert capsys.readouterr().out == f"{out}\n"
        assert out.read_text().startswith(begin)
        for wrong, why in ((tmp_path, "is a folder"), (out / "x", "cannot write")):
            assert main([*args, str(wrong)]) == 1
            assert why in capsys.readouterr().err


def test_a_window_that_ends_before_it_begins_is_wrong_usage(
    shared_lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--lake", str(shared_lake), "--since", "2026-02-02", "--until",
                 "2026-02-01"]) == 2  # fmt: skip
    assert "--since 2026-02-02 is not before --until 2026-02-01" in capsys.readouterr().err


def test_run_into_an_unwritable_place_says_so(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ["run", str(log), "--lake", str(tmp_path / "lake"), "--jobs", "1", "--out", str(log)]
    assert main(args) == 1
    assert f"cannot write {log}/report.json" in capsys.readouterr().err


def test_run_warns_of_a_training_log_that_no_dialect_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "home_made\x1b[31m.log"
    log.write_text("".join(f"update {n} took 8.3s, loss {n / 7:.3f}\n" for n in range(1, 50)))
    for form in ([], ["--json"]):
        assert main(["run", str(log), "--lake", str(tmp_path / "l"), "--jobs", "1", *form]) == 0
        err = capsys.readouterr().err
        assert "no dialect reads the steps of 1 log that looks like training" in err
        assert "wallsplit explain" in err
        assert "\x1b" not in err


def test_jobs_without_logs_appear_or_say_why_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = tmp_path / "sacct.txt"
    head = "JobID|JobIDRaw|JobName|State|Submit|Start|End|ElapsedRaw|NNodes"
    when = "2026-02-01T00:00:00|2026-02-01T00:10:00"
    rows = [
        f"900|900|a|RUNNING|{when}|Unknown|3600|2",
        f"901|901|b|FAILED|{when}|2026-02-01T01:10:00|3600|2",
    ]
    jobs.write_text("\n".join([head, *rows, ""]))
    lake_dir = str(tmp_path / "lake")
    assert main(["run", str(jobs), "--lake", lake_dir, "--jobs", "1"]) == 0
    out = capsys.readouterr().out
    assert "without a GPU count in the accounting (collect AllocTRES)" in out
    assert "900 (RUNNING)" in out
    assert "901 (FAILED)" in out
    gpus = [f"{head}|AllocTRES", *(f"{row}|gres/gpu=16" for row in rows), ""]
    jobs.write_text("\n".join(gpus))
    assert main(["run", str(jobs), "--lake", f"{lake_dir}2", "--jobs", "1", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [(r["name"], r["end_state"], r["wall_s"], r["n_incidents"]) for r in report["runs"]] == [
        ("a", "open", 3600.0, 0), ("b", "failed", 3600.0, 1)]  # fmt: skip
