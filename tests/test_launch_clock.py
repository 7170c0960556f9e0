"""Clocks of logs that are wrong, and how the timeline still finds the time of each launch."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.histories import START, TrainLog, accounting, one, segments, steps, timeline_of

DAY = 86_400


def moved(log: TrainLog, offsets: dict[int, float]) -> TrainLog:
    """The log with the stamps of some rows (by index, negative from the end) moved by seconds."""
    for index, offset_s in offsets.items():
        log.rows[index]["stamp_us"] += round(offset_s * 1e6)
    return log


@pytest.mark.parametrize(
    "offsets",
    [
        pytest.param({0: -3650 * DAY}, id="the first line, ten years back"),
        pytest.param({-1: 3650 * DAY}, id="the last line, ten years ahead"),
        pytest.param({50: 7200}, id="one line two hours ahead"),
        pytest.param({50: -7200}, id="one line two hours back"),
        pytest.param({50: 7 * DAY, 51: 7 * DAY, 52: 7 * DAY}, id="three lines in a row"),
        pytest.param({20: 9 * DAY, 40: -9 * DAY, 60: 7200, 80: -7200}, id="here and there"),
    ],
)
@pytest.mark.parametrize("has_accounting", [True, False])
def test_wild_stamps_do_not_move_the_run(offsets, has_accounting):
    log = TrainLog()
    end = steps(log, START, 1, 100)
    rows = [accounting(1, START, end, "COMPLETED")] if has_accounting else []
    con = timeline_of(moved(log, offsets).rows, accounts=rows)
    # where the first or the last line is wild, the stated durations tell its time
    found = one(con, "select wall_s, steps_kept, tor_observed from run")
    assert found == pytest.approx((1000.0, 100, 1.0), abs=1e-6)


def test_silence_of_days_inside_a_log_is_no_wild_stamp():
    log = TrainLog()
    steps(log, START, 1, 5)
    end = steps(log, START + 9 * DAY, 6, 10)
    con = timeline_of(log.rows)
    assert one(con, "select wall_s, steps_kept from run") == (end - START, 10)


@pytest.mark.parametrize("skew_s", [-90.0, -300.0, -7200.0, 5400.0])
def test_log_whose_clock_disagrees_with_its_accounting_stays_with_it(skew_s):
    log = TrainLog()
    end = steps(log, START + 30, 1, 100)
    offsets = dict.fromkeys(range(len(log.rows)), skew_s)
    con = timeline_of(
        moved(log, offsets).rows, accounts=[accounting(1, START, end + 20, "COMPLETED")]
    )
    assert one(con, "select count(*), sum(steps_kept), sum(wall_s) from run") == (1, 100, 1050.0)
    # moved into the allocation by the least that makes it fit, by whole quarters of an hour if far
    assert one(con, "select t_opt_s from run") == pytest.approx((1000.0,))
    assert one(con, "select clock_offset_s from launch") == (
        {-90.0: 60.0, -300.0: 270.0, -7200.0: 7200.0, 5400.0: -5400.0}[skew_s],
    )


def test_work_printed_after_the_end_of_its_allocation_is_no_progress():
    log = TrainLog()
    end = steps(log, START, 1, 100)
    con = timeline_of(log.rows, accounts=[accounting(1, START, end - 200, "COMPLETED")])
    assert one(con, "select wall_s, clock_offset_s from run join launch using (run_id)") == (
        800.0, None,
    )  # fmt: skip


def test_each_launch_goes_to_the_attempt_that_it_overlaps_most():
    log = TrainLog()
    first_end = steps(log, START + 10, 1, 50)
    # the second process starts before its allocation by the clock of its node
    second = first_end + 600
    end = steps(log, second, 51, 100)
    con = timeline_of(
        log.rows,
        accounts=[
            accounting(1, START, first_end + 5, "NODE_FAIL"),
            accounting(2, second + 100, end + 5, "COMPLETED", submit=first_end + 6),
        ],
    )
    assert one(con, "select count(*), any_value(n_attempts), any_value(steps_kept) from run") == (
        1, 2, 100,
    )  # fmt: skip
    assert con.execute("select count(distinct attempt_id) from launch").fetchone() == (2,)


def test_hour_that_the_clock_shows_twice_is_two_hours():
    """Europe/Paris, 2025-10-26: 02:00-03:00 comes twice (01:00 and 02:00 UTC)."""
    wall = datetime(2025, 10, 26, 1, 50, tzinfo=UTC).timestamp()  # as printed, read as if UTC
    first_fold, log = wall + 600, TrainLog()
    log.event("train_start", wall)
    for n in range(1, 21):  # every ten minutes of true time: 01:50 ... 05:10 without the fold
        true = wall + 600 * n
        printed = true if true < first_fold + 3600 else true - 3600
        log.event("step", printed, step_to=n, step_ms=600_000.0)
    con = timeline_of(log.rows, zones={"log": "Europe/Paris"})
    assert segments(con) == [("productive", "train", 12_000.0, 1.0)]
    assert one(con, "select start_at from run") == (datetime(2025, 10, 25, 23, 50, tzinfo=UTC),)


def test_accounting_in_the_doubled_hour_is_read_by_its_elapsed_time():
    def printed(hour: int, minute: int) -> float:
        return datetime(2025, 10, 26, hour, minute, tzinfo=UTC).timestamp()

    con = timeline_of(
        accounts=[
            accounting(1, printed(1, 30), printed(2, 30), "COMPLETED", elapsed_s=3600, job="11"),
            accounting(2, printed(1, 30), printed(2, 30), "COMPLETED", elapsed_s=7200, job="12"),
            accounting(3, printed(2, 15), printed(3, 30), "COMPLETED", elapsed_s=8100, job="13"),
        ],
        zones={"accounting": "Europe/Paris"},
    )
    ends = "select job_id, epoch(end_at - start_at)::bigint from attempt order by 1"
    assert con.execute(ends).fetchall() == [("11", 3600), ("12", 7200), ("13", 8100)]


def test_submission_in_the_doubled_hour_is_before_the_start():
    def printed(hour: int, minute: int) -> float:
        return datetime(2025, 10, 26, hour, minute, tzinfo=UTC).timestamp()

    row = accounting(1, printed(2, 45), printed(2, 3), "COMPLETED", submit=printed(2, 42),
                     elapsed_s=18 * 60)  # fmt: skip
    con = timeline_of(accounts=[row], zones={"accounting": "Europe/Paris"})
    assert one(con, "select submit_at, start_at, end_at from attempt") == (
        datetime(2025, 10, 26, 0, 42, tzinfo=UTC), datetime(2025, 10, 26, 0, 45, tzinfo=UTC),
        datetime(2025, 10, 26, 1, 3, tzinfo=UTC),
    )  # fmt: skip


def test_submission_behind_its_start_takes_no_time_from_the_attempt():
    log = TrainLog()
    first_end = steps(log, START, 1, 50)
    second = first_end + 300
    end = steps(log, second, 51, 100)
    con = timeline_of(
        log.rows,
        accounts=[accounting(1, START, first_end, "NODE_FAIL"),
                  accounting(2, second, end, "COMPLETED", submit=second + 400)],
    )  # fmt: skip
    assert one(con, "select wall_s, steps_kept, tor_observed from run") == pytest.approx(
        (1300.0, 100, 1000 / 1300)
    )


def test_time_of_day_is_read_in_the_zone_of_its_file():
    """23:30 in Paris stands at 22:30 UTC: the day changes with the local clock."""
    midnight = datetime(2025, 1, 10, 0, 0, tzinfo=UTC).timestamp()
    log = TrainLog()
    log.event("train_start", midnight - 1800)  # printed 2025-01-09 23:30
    log.event("step", None, step_to=1, stamp_us=int(23.75 * 3600 * 1e6), stamp_kind="time_of_day",
              stamp_source="inline", stamp_resolution_s=1.0)  # fmt: skip
    log.event("step", None, step_to=2, stamp_us=int(0.25 * 3600 * 1e6), stamp_kind="time_of_day",
              stamp_source="inline", stamp_resolution_s=1.0)  # fmt: skip
    con = timeline_of(log.rows, zones={"log": "Europe/Paris"})
    assert con.execute(
        "select occurred_at from train_event where kind = 'step' order by seq"
    ).fetchall() == [
        (datetime(2025, 1, 9, 22, 45, tzinfo=UTC),),
        (datetime(2025, 1, 9, 23, 15, tzinfo=UTC),),
    ]
