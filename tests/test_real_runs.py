"""Real training logs and accounting, from bytes to runs: what their collection says they show.

The third-party files are not part of the project; `WALLSPLIT_REAL_LOGS` names their folder.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

import duckdb
import pytest

from parsers.dialect_files import load_dialects
from pipeline import database, timeline
from pipeline.ingest import ingest
from tests.histories import one

HF = next(d for d in load_dialects() if d.name == "hf")


@pytest.fixture
def split(real_logs, tmp_path):
    """A function from a path below the real files to a connection with its timeline tables."""

    def split_path(*names: str) -> duckdb.DuckDBPyConnection:
        paths = [str(p) for name in names for p in sorted(real_logs.glob(name))]
        assert paths, names
        ingest(paths, tmp_path)
        timeline.rebuild(tmp_path)
        assert timeline.check(tmp_path) == []
        return database.connect(tmp_path)

    return split_path


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)


def test_megatron_steps_that_were_all_skipped_are_no_progress(split):
    con = split("training/megatron/*1999618.out")
    run = one(con, "select steps_kept, steps_skipped, tor_observed, end_state from run")
    assert run == (0, 4, 0.0, "planned")
    steps = con.sql(
        "select step_to, step_ms, global_batch, skipped_steps, occurred_at from train_event "
        "where kind = 'step' order by step_to"
    ).fetchall()
    assert [s[:4] for s in steps] == [
        (1, 150_891.7, 1024, 1),
        (2, 123_896.3, 1024, 1),
        (3, 124_362.2, 1024, 1),
        (4, 122_224.0, 1024, 1),
    ]
    # no step line has a time: the milestone before the first, and the stated durations
    assert steps[3][4] == datetime(2021, 5, 27, 21, 51, 29, 374200, tzinfo=UTC)
    milestones = con.sql(
        "select occurred_at from train_event where kind in "
        "('dist_init', 'model_built', 'data_built', 'train_start') order by seq"
    ).fetchall()
    assert milestones == [
        (utc(2021, 5, 27, 21, 42, 46),),
        (utc(2021, 5, 27, 21, 42, 47),),
        (utc(2021, 5, 27, 21, 42, 48),),
        (utc(2021, 5, 27, 21, 42, 48),),
    ]
    # the JOB and the STEP banner tell of one stop, 67 s after the last step
    assert con.sql(
        "select distinct occurred_at from fault_event where signature_id = 'slurm.time_limit'"
    ).fetchall() == [(utc(2021, 5, 27, 21, 52, 36),)]
    assert one(con, "select duration_s, category from segment order by start_at desc limit 1") == (
        pytest.approx(66.6, abs=0.1), "planned",
    )  # fmt: skip
    assert one(
        con, "select count(*) from incident where type <> 'numerical.discarded_updates'"
    ) == (0,)
    assert one(con, "select count(*) from fault_event where signature_id = 'launch.deepspeed_kill'")
    assert one(con, "select n_lines, n_rejects from file") == (10_814, 0)


def test_megatron_deepspeed_log_that_just_stops_is_an_open_run(split):
    con = split("training/megatron/*ds-on.out")
    assert one(con, "select steps_kept, steps_skipped, end_state, n_incidents from run") == (
        49, 0, "open", 0,
    )  # fmt: skip
    found = one(
        con,
        "select count(*), min(step_to), max(step_to), sum(step_ms) / 1000, count(loss) "
        "from train_event where kind = 'step'",
    )
    assert found == (49, 1, 49, pytest.approx(6710.394, abs=1e-3), 49)
    assert one(con, "select occurred_at from train_event where kind = 'train_start'") == (
        utc(2021, 6, 10, 20, 47, 54),
    )


def test_sixteen_bars_are_one_run_of_four_steps_of_which_two_made_no_progress(split):
    con = split("training/hf/*1832552.out")
    assert one(con, "select steps_kept, steps_skipped, n_launches, end_state from run") == (
        2, 2, 1, "completed",
    )  # fmt: skip
    assert one(con, "select reference_step_s from run")[0] == pytest.approx(220, abs=6)
    assert one(
        con,
        "select count(*) filter (kind = 'anomaly'), "
        "count(*) filter (kind = 'train_config' and total_steps = 4), "
        "count(*) filter (kind = 'checkpoint_save') from train_event",
    ) == (2, 16, 1)
    assert one(con, "select begin_at from checkpoint") == (
        datetime(2021, 5, 25, 6, 45, 27, 390000, tzinfo=UTC),
    )
    assert con.sql(
        "select distinct occurred_at from train_event where kind = 'anomaly' order by 1"
    ).fetchall() == [
        (datetime(2021, 5, 25, 6, 38, 10, 754000, tzinfo=UTC),),
        (datetime(2021, 5, 25, 6, 41, 46, 236000, tzinfo=UTC),),
    ]


def test_torchtitan_excerpt_saves_step_50_and_completes(split):
    con = split("training/excerpts/torchtitan*.log")
    assert con.sql("select step_to from train_event where kind = 'step' order by 1").fetchall() == [
        (49,), (50,),
    ]  # fmt: skip
    assert one(con, "select step, is_durable from checkpoint") == (50, True)
    assert one(con, "select detail from train_event where kind = 'shutdown'") == ("completed",)


def test_identical_accounting_rows_are_one_step_without_a_job(split):
    con = split("slurm/gcm/sample-sacct-output.txt")
    assert one(con, "select count(*) from accounting_row") == (68,)
    assert one(
        con, "select native_id, step_id, state, exit_code, attempt_id from attempt_step"
    ) == ("8084960", "0", "COMPLETED", 0, None)
    assert one(con, "select count(*) from attempt") == (0,)


def test_row_torn_by_a_newline_is_one_attempt(split):
    con = split("slurm/gcm/sample-sacct-one-multiline.txt")
    assert con.sql(
        "select job_id, state, end_kind, exit_code, n_nodes, n_gpus from attempt order by job_id"
    ).fetchall() == [
        ("201729", "FAILED", "app_fail", 6, 128, 1024),
        ("201844", "REQUEUED", "requeue_unspecified", 0, 32, 256),
    ]
    assert con.sql(
        "select native_id, step_id, attempt_id is not null from attempt_step order by 1, 2"
    ).fetchall() == [("200131", "0", False), ("201729", "batch", True)]


def test_bad_bytes_keep_both_twins(split):
    con = split("slurm/gcm/sample-sacct-output-invalid-utf8.txt")
    assert con.sql("select job_id, state, end_kind from attempt order by job_id").fetchall() == [
        ("3557891", "FAILED", "app_fail"),
        ("3557892", "TIMEOUT", "timeout"),
    ]
    assert one(con, "select count(*) from attempt_step where native_id = '3557893'") == (5,)
    assert one(
        con,
        "select s.end_at - a.end_at = interval 1 second from attempt_step as s "
        "join attempt as a using (attempt_id) where s.native_id = '3557892' and s.step_id = '0'",
    ) == (True,)


def test_cancelled_job_with_unknown_end_is_kept(split):
    con = split("slurm/slurm2sql/test-data1.csv")
    assert con.sql(
        "select job_id, end_kind, end_at is null, is_open from attempt order by job_id"
    ).fetchall() == [
        ("43974388", "cancel_user", False, False),
        ("43977780", "cancel_user", True, False),
    ]


def test_iteration_lines_quoted_in_a_chronicle_are_read(split):
    con = split("training/chronicles/*.md")
    steps = con.sql(
        "select step_to, step_ms / 1000, loss from train_event where kind = 'step' order by step_to"
    ).fetchall()
    assert len(steps) == 18
    assert (steps[0][0], steps[-1][0]) == (12_695, 45_000)
    by_step = {step: (seconds, loss) for step, seconds, loss in steps}
    assert by_step[31_219] == pytest.approx((106.36, 5.098124))  # the loss spike
    # hard-wrapped in the middle: step and time are there, the loss is on another line
    assert by_step[42_780][0] == pytest.approx(105.16)
    assert by_step[42_784] == (pytest.approx(111.14), None)
    assert one(con, "select step_to, loss from train_event where kind = 'evaluation'") == (
        45_000,
        pytest.approx(2.327091),
    )
    assert one(con, "select distinct total_steps from train_event where kind = 'step'") == (
        115_311,
    )


def test_every_rank_of_the_hf_log_speaks(split, real_logs):
    con = split("training/hf/*1832552.out")
    assert one(
        con,
        "select count(*) from train_event where kind = 'train_start' and detail is null "
        "and occurred_at between '2021-05-25 06:30:55.249Z' and '2021-05-25 06:30:55.345Z'",
    ) == (16,)
    # sixteen dicts and one summary say that training is over
    assert one(
        con, "select count(*) from train_event where kind = 'shutdown' and message like '{%'"
    ) == (16,)
    frames = [
        row
        for path in sorted((real_logs / "training" / "hf").glob("*.out"))
        for frame in re.split(rb"[\r\n]", path.read_bytes())
        for rule in HF.rules
        if rule.id in ("step", "bar_start")
        for row in rule.apply(frame.decode("utf-8", "replace"))
    ]
    assert len(frames) == 112
    assert {row.get("step_to", 0) for row in frames} == {0, 1, 2, 3, 4}
    assert {row["total_steps"] for row in frames} == {4}
