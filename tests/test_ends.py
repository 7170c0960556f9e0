"""How an attempt ended, and what the time behind its last line was."""

from __future__ import annotations

import pytest

from tests.histories import (
    START,
    TrainLog,
    accounting,
    fault,
    one,
    seconds_by_category,
    segments,
    steps,
    timeline_of,
)

WATCHDOG = {
    "signature_id": "torch.watchdog_timeout", "component": "comm.hang", "mode": "hang",
    "role": "symptom",
}  # fmt: skip
TIME_LIMIT = {
    "signature_id": "slurm.time_limit_banner", "component": "scheduler.time_limit",
    "mode": "fail_stop", "role": "root", "domain": "operator",
}  # fmt: skip


def trained(n_steps: int = 60, step_s: float = 10.0) -> tuple[TrainLog, float]:
    log = TrainLog()
    return log, steps(log, START, 1, n_steps, step_s)


@pytest.mark.parametrize(
    ("state", "category"), [("COMPLETED", "startup"), ("PREEMPTED", "planned")]
)
def test_long_silence_behind_an_end_marker_is_unexplained_beyond_ten_minutes(state, category):
    log, end = trained()
    log.event("shutdown", end, detail="completed")
    con = timeline_of(log.rows, accounts=[accounting(1, START, end + 7200, state)])
    assert segments(con)[1:] == [(category, "shutdown", 600.0, 0.0),
                                 ("unexplained", "unknown", 6600.0, 0.0)]  # fmt: skip
    tor, high = one(con, "select tor_observed, tor_high from run")
    assert (tor, high) == pytest.approx((600 / 7800, 7200 / 7800))


def test_silence_behind_an_end_marker_is_the_shutdown():
    log, end = trained()
    log.event("shutdown", end, detail="completed")
    con = timeline_of(log.rows, accounts=[accounting(1, START, end + 590, "COMPLETED")])
    assert segments(con)[1:] == [("startup", "shutdown", 590.0, 0.0)]


def test_silence_without_an_end_marker_may_be_a_log_that_was_cut():
    log, end = trained()
    con = timeline_of(log.rows, accounts=[accounting(1, START, end + 540, "COMPLETED")])
    assert segments(con)[1:] == [("startup", "shutdown", 100.0, 0.0),
                                 ("unexplained", "unknown", 440.0, 0.0)]  # fmt: skip


def test_steps_without_any_time_give_no_tor():
    log = TrainLog()
    for n in range(1, 61):
        log.event("step", None, step_to=n)
    con = timeline_of(log.rows, accounts=[accounting(1, START, START + 900, "COMPLETED")])
    assert one(con, "select steps_kept, tor_observed, tor_low, tor_high from run") == (
        60, None, None, None,
    )  # fmt: skip


@pytest.mark.parametrize("state", ["COMPLETED", "TIMEOUT"])
def test_silence_is_long_only_beside_the_usual_time_between_lines(state):
    log, end = trained(n_steps=10, step_s=1800.0)
    con = timeline_of(log.rows, accounts=[accounting(1, START, end + 3600, state)])
    assert [s[1:3] for s in segments(con)[1:]] == [("shutdown", 3600.0)]


@pytest.mark.parametrize("state", ["TIMEOUT", "CANCELLED by 1000", "REQUEUED", "DEADLINE"])
def test_long_silence_until_somebody_stops_it_is_a_hang(state):
    log, end = trained()
    con = timeline_of(log.rows, accounts=[accounting(1, START, end + 7200, state)])
    assert seconds_by_category(con)["recovery"] == 7200.0
    assert one(con, "select mode, type, confidence, domain from incident") == (
        "hang", "unattributed", "unattributed", "unknown",
    )  # fmt: skip


@pytest.mark.parametrize("state", ["TIMEOUT", "CANCELLED by 1000", "REQUEUED", "DEADLINE"])
def test_hang_that_the_scheduler_ended_is_a_failure(state):
    log, end = trained()
    hang = fault(9000, end + 1800, **WATCHDOG)
    con = timeline_of(log.rows, [hang], [accounting(1, START, end + 7200, state)])
    assert seconds_by_category(con)["recovery"] == 7200.0
    assert one(con, "select mode, signature_id, recovery_s from incident") == (
        "hang", "torch.watchdog_timeout", 7200.0,
    )  # fmt: skip


@pytest.mark.parametrize("state", ["TIMEOUT", "CANCELLED by 1000", "PREEMPTED"])
def test_errors_that_the_kill_itself_makes_are_no_failure(state):
    log, end = trained()
    dying = fault(9000, end + 30, **WATCHDOG)
    con = timeline_of(log.rows, [dying], [accounting(1, START, end + 40, state)])
    assert seconds_by_category(con) == {"productive": 600.0, "planned": 40.0}


def test_log_alone_takes_errors_before_the_stop_as_failure_and_those_behind_it_not():
    log, end = trained()
    hang = fault(9000, end + 1800, **WATCHDOG)
    stop = fault(9500, end + 3600, **TIME_LIMIT)
    states = [
        one(timeline_of(log.rows, faults), "select end_state from run")[0]
        for faults in ([hang, stop], [stop, {**hang, "seq": 9900, "byte_offset": 9900}], [stop])
    ]
    assert states == ["failed", "planned", "planned"]


@pytest.mark.parametrize(
    ("state", "use"), [("COMPLETED", ("checkpoint", "save")), ("TIMEOUT", ("planned", "shutdown"))]
)
def test_last_save_without_an_end_line_lasts_until_the_end_if_that_is_complete(state, use):
    log, end = trained()
    log.event("checkpoint_save", end, phase="begin", step_to=60)
    con = timeline_of(log.rows, accounts=[accounting(1, START, end + 45, state)])
    assert segments(con) == [("productive", "train", 600.0, 1.0), (*use, 45.0, 0.0)]


def test_save_in_flight_at_a_failure_is_detection():
    log, end = trained()
    log.event("checkpoint_save", end, phase="begin", step_to=60)
    con = timeline_of(log.rows, accounts=[accounting(1, START, end + 45, "NODE_FAIL")])
    assert segments(con)[-1] == ("recovery", "detection", 45.0, 0.0)


def test_saves_that_only_show_their_end_are_durable_checkpoints():
    log = TrainLog()
    log.event("train_start", START)
    for n in range(1, 61):
        log.event("step", START + 10 * n, step_to=n, step_ms=10_000.0)
        if n in (20, 40):
            log.event("checkpoint_save", START + 10 * n + 5, phase="end", step_to=n)
    con = timeline_of(log.rows, accounts=[accounting(1, START, START + 620, "NODE_FAIL")])
    assert con.execute("select step, is_durable from checkpoint order by step").fetchall() == [
        (20, True), (40, True),
    ]  # fmt: skip
    assert one(con, "select steps_kept, steps_uncommitted from run") == (40, 20)


def test_last_save_without_times_lasts_until_the_end_marker():
    log, end = trained()
    log.event("checkpoint_save", None, phase="begin", step_to=60)
    log.event("checkpoint_save", None, phase="end", step_to=60)
    log.event("shutdown", end + 20, detail="completed")
    con = timeline_of(log.rows, accounts=[accounting(1, START, end + 25, "COMPLETED")])
    assert segments(con)[1:] == [("checkpoint", "save", 20.0, 0.0),
                                 ("startup", "shutdown", 5.0, 0.0)]  # fmt: skip


def test_last_save_proves_the_steps_behind_the_last_logged_one():
    log = TrainLog()
    log.event("fresh_start", START)
    log.event("train_start", START)
    for n in range(10, 101, 10):
        log.event("step", START + 10 * n, step_to=n, step_ms=10_000.0)
    log.event("checkpoint_save", START + 1020, phase="begin", step_to=102)
    log.event("checkpoint_save", START + 1030, phase="end", step_to=102)
    con = timeline_of(log.rows, accounts=[accounting(1, START, START + 1035, "COMPLETED")])
    assert segments(con) == [
        ("productive", "train", 1020.0, 1.0),
        ("checkpoint", "save", 10.0, 0.0),
        ("startup", "shutdown", 5.0, 0.0),
    ]
    assert one(con, "select steps_kept from run") == (102,)


def test_stall_beside_a_save_that_only_shows_its_end_is_the_save():
    log = TrainLog()
    log.event("train_start", START)
    at = START
    for n in range(1, 61):
        at += 12 if n % 10 == 1 and n > 1 else 10
        log.event("step", at, step_to=n, step_ms=10_000.0)
        if n % 10 == 0:
            log.event("checkpoint_save", at + 2, phase="end", step_to=n, checkpoint_tier="local")
    con = timeline_of(log.rows, accounts=[accounting(1, START, at, "COMPLETED")])
    assert seconds_by_category(con) == {"productive": 600.0, "checkpoint": 10.0}


def test_smaller_world_is_slow_and_not_warm_up():
    log = TrainLog()
    log.event("train_start", START)
    at = START
    for n in range(1, 61):
        at += 10
        log.event("step", at, step_to=n, step_ms=10_000.0)
    first_end, at = at, at + 120
    log.event("train_start", at)
    for n in range(61, 101):
        at += 40 if n == 61 else 15
        log.event("step", at, step_to=n, step_ms=15_000.0 if n > 61 else 40_000.0)
    con = timeline_of(
        log.rows,
        accounts=[accounting(1, START, first_end, "NODE_FAIL"),
                  accounting(2, first_end + 120, at, "COMPLETED", submit=first_end + 1)],
    )  # fmt: skip
    found = seconds_by_category(con)
    assert found["productive"] == pytest.approx(1000.0)
    # 25 s of warm-up beside 120 s of waiting; 40 steps of 15 s instead of 10 are slow
    assert (found["recovery"], found["slow"]) == pytest.approx((145.0, 200.0))
