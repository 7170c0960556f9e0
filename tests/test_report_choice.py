"""Reports on some runs of a lake, and on none: what they say about what they leave out."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest

from pipeline.errors import OutputError
from pipeline.report import Choice, build
from pipeline.report.model import write_whole
from tests.lakes import train_log
from tests.report_tables import HOSTILE, at, report_of, split_tables

WINDOW = {"since": "2026-02-01T00:08:20Z", "until": "2026-02-01T00:10:00Z"}
WHOLE_LAKE = "the counts and the warnings about files and accounting are those of the whole lake"


def pages(report):
    return report.to_html(), report.to_markdown()


def test_a_report_on_all_runs_says_nothing_of_a_choice():
    report = report_of(split_tables())
    assert report.choice.is_whole
    assert WHOLE_LAKE not in report.data_quality.warnings
    for page in pages(report):
        assert "Only runs" not in page
        assert "whole lake" not in page


def test_a_window_says_that_runs_are_shown_whole_and_data_quality_is_that_of_the_lake():
    report = report_of(split_tables(), since=at(500), until=at(600))
    assert [r.wall_s for r in report.runs] == [1000.0]
    said = (
        "Only runs that end after 2026-02-01 00:08:20 UTC and that start before "
        "2026-02-01 00:10:00 UTC; each is shown and counted whole."
    )
    for page in pages(report):
        assert said in page
        assert "of the whole lake" in page
        assert "2026-02-01 00:00:00 to 2026-02-01 00:16:40 UTC" in page  # what the run covers
    assert report.data_quality.warnings[0] == WHOLE_LAKE
    document = json.loads(report.to_json())
    assert document["choice"] == {"run": None, "cluster": None, **WINDOW}
    assert document["window"] == {"start": "2026-02-01T00:08:20Z", "end": "2026-02-01T00:10:00Z"}


def test_a_report_on_one_run_names_it_and_its_name_is_data():
    report = report_of(split_tables(name=HOSTILE), run=HOSTILE)
    html, markdown = pages(report)
    assert "<script>alert" not in html
    assert "Only runs called &lt;/code&gt;&lt;script&gt;" in html
    assert "Only runs called \\<" in markdown
    for text in (html, markdown, report.to_terminal()):
        assert "\x1b" not in text
        assert "\u202e" not in text


def test_an_empty_window_says_which_runs_there_are():
    report = report_of(split_tables(name=HOSTILE), since=at(6000))
    html, markdown, terminal = *pages(report), report.to_terminal()
    for text in (html, markdown, terminal):
        assert "no run fits; the lake has 2 runs, the newest are:" in text
        assert "r2, 2026-02-01 01:23:20 to 2026-02-01 01:28:20 UTC" in text
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert "<script>alert" not in html
    assert "## Runs" not in markdown


@pytest.mark.parametrize(
    ("choice", "stem"),
    [
        ({}, "report"),
        ({"run": "r1"}, "report-r1"),
        ({"run": "llama"}, "report-r1"),
        ({"since": at(0)}, "report-since-20260201T000000Z"),
        ({"run": "r1", "since": at(0), "until": at(60)},
         "report-r1-since-20260201T000000Z-until-20260201T000100Z"),
        ({"until": datetime(2026, 2, 1, 1, tzinfo=timezone(timedelta(hours=1)))},
         "report-until-20260201T000000Z"),
    ],
)  # fmt: skip
def test_each_choice_of_runs_has_a_page_of_its_own(choice, stem):
    assert report_of(split_tables(), **choice).file_stem == stem


def test_a_name_of_several_runs_makes_a_file_name_that_cannot_leave_its_folder():
    tables = split_tables(name="../../etc/x y")
    tables["run"][1]["name"] = "../../etc/x y"
    both = report_of(tables, run="../../etc/x y")
    assert len(both.runs) == 2
    assert both.file_stem.startswith("report-.._.._etc_x_y-")
    tables["run"][0]["name"] = tables["run"][1]["name"] = "../../etc/x_y"
    assert report_of(tables, run="../../etc/x_y").file_stem != both.file_stem


JOBS = [
    ("900", "RUNNING", "open", at(0), None),
    ("901", "FAILED", "app_fail", at(0), None),
    ("902", "FAILED", "app_fail", at(0), 0),
    ("903", "RUNNING", "open", at(0), 16),
    ("904", "PENDING", "open", None, None),
    ("905", "CANCELLED", "cancel_user", None, None),
]


NO_COUNT = "without a log, and without a GPU count in the accounting (collect AllocTRES)"


def jobs_without_runs():
    return {"attempt": [
        {"attempt_id": f"a{job}", "scheduler": "slurm", "job_id": job, "state": state,
         "end_kind": end_kind, "start_at": start_at, "n_gpus": n_gpus, "never_started": False}
        for job, state, end_kind, start_at, n_gpus in JOBS
    ]}  # fmt: skip


def test_jobs_that_are_in_no_run_say_why():
    report = report_of(jobs_without_runs())
    assert report.runs == []
    assert [why.partition(", ")[2] for why in report.why_empty] == [
        f"{NO_COUNT}: 900 (RUNNING), 901 (FAILED)",
        "without a log, an end or ElapsedRaw to show how long it was: 903 (RUNNING)",
        "without GPUs, and without a log: 902 (FAILED)",
        "waiting in the queue: 904 (PENDING)",
        "never started: 905 (CANCELLED)",
    ]
    assert report.why_empty[0].startswith("2 jobs in no run, ")
    for text in (*pages(report), report.to_terminal()):
        assert "900 (RUNNING), 901 (FAILED)" in text.replace("\\", "")


def test_beside_runs_only_the_jobs_that_should_have_one_are_warned_about():
    tables = split_tables()
    tables["attempt"] += jobs_without_runs()["attempt"]
    about = [w for w in report_of(tables).data_quality.warnings if "in no run" in w]
    assert [w.rpartition(": ")[2] for w in about] == ["900 (RUNNING), 901 (FAILED)",
                                                      "903 (RUNNING)"]  # fmt: skip


def test_an_empty_lake_says_that_there_is_nothing():
    assert report_of({}).why_empty == ["the logs show neither jobs nor training steps"]


def test_a_training_log_that_no_dialect_reads_is_warned_about(tmp_path):
    log = tmp_path / "home_made<script>.log"
    log.write_text("".join(f"update {n} of 500 took 8.3s, loss {n / 7:.3f}\n" for n in range(500)))
    other = tmp_path / "kernel.log"
    other.write_text("step 1 of the installation\nerror rate 5\n" * 50)
    tables = split_tables()
    tables["file"] = [
        {"file_id": p.name, "path": str(p), "format": "text", "status": "parsed",
         "n_bytes": 20_000, "n_lines": 500}
        for p in (log, other, tmp_path / "gone.log")
    ]  # fmt: skip
    report = report_of(tables)
    assert report.data_quality.unread_training_logs == [str(log)]
    assert (
        f"no dialect reads the steps of 1 log that looks like training: {log}; "
        "see `wallsplit explain FILE`"
    ) in report.data_quality.warnings
    assert "home_made&lt;script&gt;.log" in report.to_html()


# writing


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    target = tmp_path / "new" / "report.html"
    write_whole(target, "text")
    assert target.read_text() == "text"
    with pytest.raises(OutputError, match="is a folder; expected the name of a file"):
        write_whole(tmp_path / "new", "text")
    with pytest.raises(OutputError, match=r"cannot write .*report\.html/x"):
        write_whole(target / "x", "text")
    assert [p.name for p in tmp_path.rglob("*")] == ["new", "report.html"]


def test_a_device_is_written_to_and_not_replaced(tmp_path):
    link = tmp_path / "out"
    link.symlink_to("/dev/null")
    write_whole(link, "text")
    assert link.is_char_device()
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_building_with_a_choice_reads_a_lake(tmp_path, capsys):
    from pipeline.cli import main

    (tmp_path / "train.log").write_text(train_log())
    lake = tmp_path / "lake"
    assert main(["run", str(tmp_path / "train.log"), "--lake", str(lake), "--jobs", "1"]) == 0
    capsys.readouterr()
    made = datetime(2026, 3, 1, tzinfo=UTC)
    report = build(lake, Choice(since=datetime(2026, 2, 1, tzinfo=UTC)), made)
    assert (len(report.runs), report.generated_at) == (1, made)
