"""The split of wall-clock time, against answers worked out by hand or by plain arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.resources import sql_dir
from tests.histories import (
    START,
    TrainLog,
    accounting,
    fault,
    one,
    seconds_by_category,
    segments,
    timeline_of,
)

STEP_S = 10.0


@dataclass(frozen=True)
class Attempt:
    """What one attempt did: idle before its start, start-up, then steps first..last (1-based)."""

    first: int
    last: int
    idle_s: float = 300.0
    init_s: float = 90.0
    slow: range = range(0)


def story(attempts: list[Attempt], step_s: float = STEP_S):
    """Facts of attempts of one requeued job that end with their last step."""
    log, accounts, at = TrainLog(), [], START
    for n, attempt in enumerate(attempts):
        at += attempt.idle_s if n else 0
        start = at
        at += attempt.init_s
        log.event("train_start", at)
        for step in range(attempt.first, attempt.last + 1):
            spent = step_s * (2 if step in attempt.slow else 1)
            at += spent
            log.event("step", at, step_to=step, total_steps=10_000, step_ms=spent * 1000)
        is_last = n == len(attempts) - 1
        accounts.append(
            accounting(n + 1, start, at, "COMPLETED" if is_last else "NODE_FAIL",
                       submit=start - (1 if n else 0))
        )  # fmt: skip
    return timeline_of(log.rows, accounts=accounts)


# case: attempts; T_obs, kept, lost seconds, TOR (published table of observed-TOR cases)
OBSERVED = {
    "rollback of 19 steps": ([Attempt(1, 100), Attempt(82, 200)], 2670, 2000, 190, 0.749064),
    "crash right after a save": (
        [Attempt(1, 100), Attempt(101, 200, idle_s=3600)], 5780, 2000, 0, 0.346021),
    "second crash goes back further": (
        [Attempt(1, 100), Attempt(82, 121), Attempt(61, 200)], 3670, 2000, 800, 0.544959),
    "crash loop": ([Attempt(1, 100), Attempt(82, 82), Attempt(82, 200)], 3070, 2000, 200, 0.651466),
    "fail-slow": (
        [Attempt(1, 200, init_s=0, slow=range(51, 151))], 3000, 2000, 0, 0.666667),
}  # fmt: skip


@pytest.mark.parametrize("case", OBSERVED)
def test_observed_tor_of_hand_computed_histories(case):
    attempts, wall_s, kept_s, lost_s, tor = OBSERVED[case]
    con = story(attempts)
    found = one(con, "select wall_s, t_opt_s, tor_observed, tor_high, steps_kept from run")
    assert found == pytest.approx((wall_s, kept_s, tor, tor, 200), abs=1e-6)
    assert seconds_by_category(con).get("lost_recompute", 0) == pytest.approx(lost_s)


def test_two_writers_make_no_restart_and_no_step_twice():
    log = TrainLog()
    log.event("train_start", START)
    for step in range(1, 201):
        log.event("step", START + 10 * step, step_to=step, step_ms=10_000.0)
        log.event("step", START + 10 * step + 0.3, step_to=step, step_ms=10_000.0)
    con = timeline_of(log.rows, accounts=[accounting(1, START, START + 2000, "COMPLETED")])
    assert one(con, "select wall_s, tor_observed, steps_kept, n_launches from run") == (
        2000.0, 1.0, 200, 1,
    )  # fmt: skip


def test_end_marker_before_a_restart_that_repeats_steps_is_a_failure():
    log = TrainLog()
    log.event("train_start", START)
    for step in range(1, 101):
        log.event("step", START + 10 * step, step_to=step, step_ms=10_000.0)
    log.event("shutdown", START + 1000, detail="completed")
    log.event("train_start", START + 1600)
    for step in range(91, 201):
        log.event("step", START + 1600 + 10 * (step - 90), step_to=step, step_ms=10_000.0)
    con = timeline_of(log.rows)
    assert one(con, "select wall_s, tor_observed, steps_lost, n_incidents from run") == (
        pytest.approx((2700.0, 0.7407407, 10, 1), abs=1e-6)
    )


def test_clean_hand_over_is_planned_and_no_incident():
    log = TrainLog()
    log.event("train_start", START)
    for step in range(1, 51):
        log.event("step", START + 10 * step, step_to=step, step_ms=10_000.0)
    log.event("shutdown", START + 500, detail="exit_interval")
    log.event("train_start", START + 700)
    for step in range(51, 101):
        log.event("step", START + 700 + 10 * (step - 50), step_to=step, step_ms=10_000.0)
    con = timeline_of(log.rows)
    assert seconds_by_category(con) == {"productive": 1000.0, "planned": 200.0}
    assert one(con, "select n_incidents, steps_lost from run") == (0, 0)


def test_hang_is_detection_time_of_one_incident():
    log = TrainLog()
    log.event("train_start", START + 60)
    for step in range(1, 31):
        log.event("step", START + 60 + 10 * step, step_to=step, step_ms=10_000.0)
    last = START + 360
    watchdog = fault(
        9000, last + 1805, "torch.watchdog_timeout", component="comm.hang", mode="hang",
        role="symptom", captures=[("ran_ms", "1800000")],
    )  # fmt: skip
    con = timeline_of(log.rows, [watchdog], [accounting(1, START, last + 1900, "FAILED")])
    assert segments(con) == [
        ("startup", "allocation", 60.0, 0.0),
        ("uncommitted", "train", 300.0, 0.0),
        ("recovery", "detection", 1900.0, 0.0),
    ]
    assert one(con, "select type, mode, confidence, recovery_s, signature_id from incident") == (
        "unattributed", "hang", "unattributed", 1900.0, "torch.watchdog_timeout",
    )  # fmt: skip


def test_kernel_line_on_a_node_of_the_job_is_the_root():
    log = TrainLog()
    log.event("train_start", START)
    for step in range(1, 31):
        log.event("step", START + 10 * step, step_to=step, step_ms=10_000.0)
    xid = fault(
        100, START + 303, "gpu.xid79_fallen_off_bus", file_id="kernel", component="gpu.bus",
        mode="fail_stop", role="root", node="node001", gpu="0000:9b:00", priority=10,
        domain="infrastructure",
    )  # fmt: skip
    other_node = {**xid, "node": "node777", "seq": 200, "byte_offset": 200, "priority": 1}
    banner = fault(
        9000, START + 310, "slurm.node_failure_banner", component="scheduler.node_fail",
        mode="fail_stop", role="root", priority=18, domain="infrastructure",
    )  # fmt: skip
    con = timeline_of(
        log.rows, [xid, other_node, banner], [accounting(1, START, START + 330, "NODE_FAIL")]
    )
    assert one(con, "select type, confidence, nodes, gpus, n_evidence from incident") == (
        "gpu.bus", "confirmed", ["node001"], ["0000:9b:00"], 3,
    )  # fmt: skip


def test_saves_without_times_take_the_surplus_beside_them():
    log = TrainLog()
    at = START
    log.event("train_start", at)
    for step in range(1, 201):
        at += 10 + (40 if step % 50 == 1 and step > 1 else 0) + (120 if step == 101 else 0)
        log.event("step", at, step_to=step, step_ms=10_000.0)
        if step % 100 == 0:
            log.event("evaluation")
        if step % 50 == 0:
            log.event("checkpoint_save", phase="begin", step_to=step)
            log.event("checkpoint_save", phase="end", step_to=step)
    con = timeline_of(log.rows)
    assert one(
        con,
        """
        select
            sum(duration_s) filter (phase = 'save'), sum(duration_s) filter (phase = 'evaluation'),
            sum(duration_s) filter (phase = 'train'), count(*) filter (category = 'unexplained')
        from segment
        """,
    ) == (120.0, 120.0, 2000.0, 0)


def test_discarded_updates_are_lost_and_named():
    log = TrainLog()
    log.event("train_start", START)
    for step in range(1, 41):
        log.event(
            "step", START + 10 * step, step_to=step, step_ms=10_000.0,
            skipped_steps=1 if step in (20, 21) else 0,
        )  # fmt: skip
    con = timeline_of(log.rows)
    assert seconds_by_category(con) == {"productive": 380.0, "lost_recompute": 20.0}
    assert one(con, "select steps_kept, steps_skipped, steps_lost from run") == (38, 2, 0)
    assert one(con, "select type, mode, lost_s from incident") == (
        "numerical.discarded_updates", "fail_slow", 20.0,
    )  # fmt: skip


def test_launches_inside_one_allocation_are_one_attempt():
    log = TrainLog()
    log.event("train_start", START + 30)
    for step in range(1, 28):
        log.event("step", START + 30 + step, step_to=step, step_ms=1000.0)
    exit_line = fault(
        2850, START + 60, "elastic.child_failed", component="process.exit", mode="fail_stop",
        role="symptom",
    )  # fmt: skip
    log.event("train_start", START + 90)
    for step in range(21, 81):
        log.event("step", START + 70 + step, step_to=step, step_ms=1000.0)
    con = timeline_of(log.rows, [exit_line], [accounting(1, START, START + 155, "COMPLETED")])
    assert one(con, "select n_attempts, n_launches, steps_lost, steps_kept from run") == (
        1, 2, 7, 80,
    )  # fmt: skip
    assert [s[:3] for s in segments(con)] == [
        ("startup", "allocation", 30.0),
        ("productive", "train", 20.0),
        ("lost_recompute", "train", 7.0),
        ("recovery", "detection", 3.0),
        ("recovery", "launch", 30.0),
        ("productive", "train", 60.0),
        ("startup", "shutdown", 5.0),
    ]


def test_unstamped_steps_get_their_time_from_durations():
    log = TrainLog()
    log.event("train_start", START + 60)
    for step in range(1, 41):
        log.event("step", step_to=step, step_ms=10_000.0)
    con = timeline_of(log.rows, accounts=[accounting(1, START, START + 500, "TIMEOUT")])
    assert segments(con) == [
        ("startup", "allocation", 60.0, 0.0),
        ("productive", "train", 400.0, 1.0),
        ("planned", "shutdown", 40.0, 0.0),
    ]
    assert one(con, "select distinct time_source from train_event where kind = 'step'") == (
        "cumulative",
    )


def test_accounting_alone_gives_bounds_and_no_number():
    con = timeline_of(accounts=[accounting(1, START, START + 100, "COMPLETED")])
    assert one(con, "select tor_observed, tor_low, tor_high, unexplained_share from run") == (
        None, None, 1.0, 1.0,
    )  # fmt: skip


def test_recycled_job_id_of_another_user_is_another_run():
    con = timeline_of(
        accounts=[
            accounting(1, START, START + 100, "COMPLETED"),
            accounting(2, START + 200, START + 300, "COMPLETED", user="v"),
        ]
    )
    assert one(con, "select count(*) from run") == (2,)


def test_orphan_steps_do_not_make_an_attempt():
    con = timeline_of(accounts=[accounting(1, START, START + 100, "COMPLETED", step_id="0")])
    assert one(con, "select count(*), count(attempt_id) from attempt_step") == (1, 0)
    assert one(con, "select count(*) from attempt") == (0,)


@st.composite
def histories(draw):
    """Attempts that each resume somewhere at or before the step after the furthest one reached."""
    attempts, reached = [], 0
    for n in range(draw(st.integers(1, 5))):
        first = 1 if n == 0 else draw(st.integers(1, reached + 1))
        last = first + draw(st.integers(0, 40))
        attempts.append(
            Attempt(
                first, last,
                idle_s=draw(st.integers(1, 5000)), init_s=draw(st.integers(0, 900)),
            )
        )  # fmt: skip
        reached = last
    return attempts


def executed(attempts: list[Attempt]) -> tuple[int, int]:
    """(steps that survive, complete executions that were rolled back)."""
    runs: list[list[int]] = []
    for attempt in attempts:
        runs = [[s for s in run if s < attempt.first] for run in runs]
        runs.append(list(range(attempt.first, attempt.last + 1)))
    kept = sum(map(len, runs))
    return kept, sum(a.last - a.first + 1 for a in attempts) - kept


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories())
def test_any_history_tiles_and_counts_every_step_once(attempts):
    con = story(attempts)
    wall_s = sum(
        a.init_s + STEP_S * (a.last - a.first + 1) + (a.idle_s if n else 0)
        for n, a in enumerate(attempts)
    )
    kept, lost = executed(attempts)
    found = one(con, "select wall_s, steps_kept, steps_lost, t_opt_s, tor_observed from run")
    assert found == pytest.approx((wall_s, kept, lost, kept * STEP_S, kept * STEP_S / wall_s))
    for path in (sql_dir() / "checks").glob("*.sql"):
        assert con.execute(path.read_text()).fetchall() == [], path.stem


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories(), st.integers(1, 10_000))
def test_more_downtime_never_raises_tor(attempts, more_s):
    worse = [*attempts[:-1], Attempt(
        attempts[-1].first, attempts[-1].last, attempts[-1].idle_s, attempts[-1].init_s + more_s
    )]  # fmt: skip
    tor = [one(story(a), "select tor_observed from run")[0] for a in (attempts, worse)]
    assert tor[1] < tor[0]


def async_log(commit_at_step: int | None) -> TrainLog:
    """100 steps of 10 s; at step 50 a save is staged for 2 s and committed later, or never."""
    log = TrainLog()
    at = START
    log.event("train_start", at)
    for step in range(1, 101):
        at += 10
        log.event("step", at, step_to=step, step_ms=10_000.0)
        if step == 50:
            log.event("checkpoint_save", at, phase="begin", step_to=50)
            at += 2
            log.event(
                "checkpoint_save", at, phase="end", step_to=50, detail="scheduled", is_async=True
            )
        if step == commit_at_step:
            log.event("checkpoint_save", at, phase="end", step_to=50)
    return log


def test_async_save_costs_its_staging_and_is_durable_at_its_commit():
    con = timeline_of(async_log(commit_at_step=60).rows)
    assert one(con, "select is_async, is_durable, epoch(durable_at)::double from checkpoint") == (
        True, True, START + 602,
    )  # fmt: skip
    assert [s[:3] for s in segments(con)] == [
        ("productive", "train", 500.0),
        ("checkpoint", "staging", 2.0),
        ("productive", "train", 500.0),
    ]


def test_async_save_without_commit_leaves_its_steps_uncommitted():
    log = async_log(commit_at_step=None)
    con = timeline_of(log.rows, accounts=[accounting(1, START, START + 1002, "NODE_FAIL")])
    assert one(con, "select is_durable from checkpoint") == (False,)
    assert one(con, "select steps_kept, steps_uncommitted, steps_lost from run") == (0, 100, 0)
    committed = async_log(commit_at_step=60)
    con = timeline_of(committed.rows, accounts=[accounting(1, START, START + 1002, "NODE_FAIL")])
    assert one(con, "select steps_kept, steps_uncommitted, steps_lost from run") == (50, 50, 0)


def test_step_numbers_that_outrun_the_clock_give_no_tor():
    log = TrainLog()
    log.event("train_start", START)
    for n in range(1, 101):
        step = n if n <= 50 else 1_000_000 + n
        log.event("step", START + 10 * n, step_to=step, step_ms=10_000.0)
    con = timeline_of(log.rows, accounts=[accounting(1, START, START + 1000, "COMPLETED")])
    found = one(con, "select wall_s, reference_step_s, tor_observed, tor_low, tor_high from run")
    assert found == (1000.0, 10.0, None, None, None)


def test_stated_step_times_that_contradict_the_stamps_give_no_tor():
    log = TrainLog()
    log.event("train_start", START)
    for n in range(1, 60):
        log.event("step", START + 10 * n, step_to=n, step_ms=100_000.0)
    con = timeline_of(log.rows, accounts=[accounting(1, START, START + 590, "COMPLETED")])
    assert one(con, "select reference_step_s, tor_low, tor_high from run") == (100.0, None, None)


def test_allocation_that_never_lasted_does_not_swallow_its_log():
    log = TrainLog()
    log.event("train_start", START)
    for n in range(1, 101):
        log.event("step", START + 10 * n, step_to=n, step_ms=10_000.0)
    con = timeline_of(log.rows, accounts=[accounting(1, START, START, "FAILED")])
    assert one(con, "select wall_s, tor_observed, end_state from run") == (1000.0, 1.0, "open")


def test_start_before_the_submission_is_no_negative_wait():
    log = TrainLog()
    log.event("train_start", START)
    for n in range(1, 11):
        log.event("step", START + 10 * n, step_to=n, step_ms=10_000.0)
    rows = [accounting(1, START, START + 100, "COMPLETED", submit=START + 60)]
    assert one(timeline_of(log.rows, accounts=rows), "select queue_s, wall_s from run") == (
        None, 100.0,
    )  # fmt: skip


@pytest.mark.parametrize("off_s", [-3650 * 86_400, 3650 * 86_400])
def test_one_wild_stamp_does_not_stretch_the_run(off_s):
    log = TrainLog()
    log.event("train_start", START)
    for n in range(1, 101):
        at = START + 10 * n + (off_s if n == 51 else 0)
        log.event("step", at, step_to=n, step_ms=10_000.0)
    con = timeline_of(log.rows)
    assert one(con, "select wall_s, steps_kept, tor_low, tor_high from run") == (
        1000.0, 100, 1.0, 1.0,
    )  # fmt: skip


def test_running_job_with_a_log_is_counted_up_to_its_last_line():
    log = TrainLog()
    log.event("train_start", START)
    for n in range(1, 101):
        log.event("step", START + 10 * n, step_to=n, step_ms=10_000.0)
    con = timeline_of(log.rows, accounts=[accounting(1, START, None, "RUNNING")])
    found = one(con, "select n_attempts, n_launches, is_open, steps_kept, t_opt_s from run")
    assert found == (1, 1, True, 100, 1000.0)


def test_steps_shorter_than_their_stamps_are_all_kept_work():
    log = TrainLog()
    log.event("train_start", START)
    for n in range(1, 601):
        log.event("step", START + n * 3 // 10, step_to=n, step_ms=300.0)
    con = timeline_of(log.rows, accounts=[accounting(1, START, START + 180, "COMPLETED")])
    found = one(con, "select wall_s, steps_kept, t_opt_s, tor_observed from run")
    assert found == pytest.approx((180.0, 600, 180.0, 1.0))


def test_reference_of_steps_shorter_than_their_stamps_without_stated_times():
    log = TrainLog(resolution_s=1.0)
    log.event("train_start", START)
    for n in range(1, 2001):
        log.event("step", START + n * 3 // 10, step_to=n)
    con = timeline_of(log.rows, accounts=[accounting(1, START, START + 600, "COMPLETED")])
    reference_s, tor = one(con, "select reference_step_s, tor_observed from run")
    assert reference_s == pytest.approx(0.3, rel=0.03)
    assert tor == pytest.approx(1.0, rel=0.03)


def test_first_line_of_a_fresh_launch_covers_its_log_interval():
    log = TrainLog()
    log.event("fresh_start", START)
    log.event("train_start", START)
    for n in range(10, 201, 10):
        log.event("step", START + 10 * n, step_to=n, step_ms=10_000.0)
    con = timeline_of(log.rows, accounts=[accounting(1, START, START + 2100, "COMPLETED")])
    found = one(con, "select steps_kept, tor_observed from run")
    assert found == pytest.approx((200, 2000 / 2100))


def test_fault_on_a_node_of_another_cluster_explains_nothing():
    log = TrainLog()
    log.event("train_start", START)
    for n in range(1, 11):
        log.event("step", START + 10 * n, step_to=n, step_ms=10_000.0)
    xid = fault(
        100, START + 99, "xid.79", "kernel", node="node001", component="gpu.bus", role="root",
        domain="hardware", mode="fail_stop",
    )  # fmt: skip
    rows = [accounting(1, START, START + 120, "FAILED")]
    types = [
        one(timeline_of(log.rows, [xid], rows, clusters={"kernel": c}), "select type from incident")
        for c in ("default", "elsewhere")
    ]
    assert types == [("gpu.bus",), ("unattributed",)]
