"""What failed: one incident per failure, its root, its cost, and slow stretches."""

from __future__ import annotations

import pytest

from pipeline.resources import sql_dir
from tests.histories import (
    START,
    TrainLog,
    accounting,
    fault,
    one,
    steps,
    timeline_of,
)

XID = {
    "signature_id": "gpu.xid79_fallen_off_bus", "component": "gpu.bus", "mode": "fail_stop",
    "role": "root", "domain": "infrastructure", "node": "node001", "file_id": "kernel",
}  # fmt: skip
THROTTLE = {
    "signature_id": "gpu.thermal_slowdown", "component": "gpu.thermal", "mode": "fail_slow",
    "role": "root", "domain": "infrastructure", "node": "node001", "file_id": "kernel",
    "priority": 5,
}  # fmt: skip
EXCEPTION = {
    "signature_id": "python.exception", "component": "software.user", "mode": "fail_stop",
    "role": "root", "domain": "workload",
}  # fmt: skip


def holds(con) -> bool:
    return all(
        con.execute(path.read_text()).fetchall() == []
        for path in (sql_dir() / "checks").glob("*.sql")
    )


def test_fault_of_the_incident_before_does_not_explain_the_next():
    """Two failures four minutes apart: the first one's kernel line is no root of the second."""
    log = TrainLog()
    first_end = steps(log, START, 1, 20)
    second = first_end + 120
    end = steps(log, second, 21, 30)
    xid = fault(100, first_end + 3, **XID)
    con = timeline_of(
        log.rows, [xid],
        [accounting(1, START, first_end + 20, "FAILED"),
         accounting(2, second, end + 20, "FAILED", submit=first_end + 21)],
    )  # fmt: skip
    assert con.execute("select type from incident order by onset_at").fetchall() == [
        ("gpu.bus",), ("unattributed",),
    ]  # fmt: skip


def retries(*roots: dict[str, object] | None) -> list[tuple[object, ...]]:
    """Incidents of 20 steps, then attempts that die before any step, then 10 steps more."""
    log, faults, rows = TrainLog(), [], []
    at = steps(log, START, 1, 20)
    rows.append(accounting(1, START, at + 10, "FAILED"))
    if roots[0]:
        faults.append(fault(100, at + 5, **roots[0]))
    for n, root in enumerate(roots[1:], start=2):
        log.event("attempt_start", at + 100)
        rows.append(accounting(n, at + 90, at + 150, "FAILED", submit=at + 11))
        if root:
            faults.append(fault(100 * n, at + 140, **root))
        at += 140
    end = steps(log, at + 100, 21, 30)
    rows.append(accounting(9, at + 90, end, "COMPLETED", submit=at + 11))
    con = timeline_of(log.rows, faults, rows)
    assert holds(con)
    return con.execute(
        "select type, n_attempts, round(total_s) from incident order by onset_at"
    ).fetchall()


def test_attempts_that_fail_again_before_any_step_are_one_incident():
    assert retries(XID, XID, None) == [("gpu.bus", 3, 380.0)]
    assert retries(None, None) == [("unattributed", 2, 240.0)]


def test_cause_that_only_a_retry_shows_is_that_of_the_chain():
    assert retries(None, XID, None) == [("gpu.bus", 3, 380.0)]


def test_retry_that_fails_for_another_reason_is_another_incident():
    other = {**EXCEPTION, "file_id": "kernel", "node": "node001"}
    assert [i[:2] for i in retries(XID, other)] == [("gpu.bus", 1), ("software.user", 1)]


def test_what_stops_a_launch_goes_before_what_made_it_slow():
    log = TrainLog()
    end = steps(log, START, 1, 60)
    con = timeline_of(
        log.rows, [fault(9000, end + 2, **EXCEPTION), fault(100, end - 360, **THROTTLE)],
        [accounting(1, START, end + 10, "FAILED")],
    )  # fmt: skip
    assert one(con, "select type, mode from incident where mode <> 'fail_slow'") == (
        "software.user", "fail_stop",
    )  # fmt: skip


def test_exception_without_a_time_in_the_log_of_another_rank_is_the_root():
    logs = [TrainLog("rank0"), TrainLog("rank1")]
    for log in logs:
        end = steps(log, START, 1, 60)
    logs[1].event("metric", end)  # says a little more: it is the log of the launch
    error = fault(9000, None, file_id="rank0", **EXCEPTION)
    banners = [
        fault(50, None, "slurm.banner", file_id=log.file_id, captures=[("id", "4711")],
              component="scheduler.banner", mode="context", role="context")
        for log in logs
    ]  # fmt: skip
    con = timeline_of(
        [row for log in logs for row in log.rows], [error, *banners],
        [accounting(1, START, end + 10, "FAILED", stdout_path=None)],
    )  # fmt: skip
    assert one(con, "select type from incident") == ("software.user",)


def test_end_of_a_launch_is_never_fail_slow():
    log = TrainLog()
    end = steps(log, START, 1, 60)
    link = {**THROTTLE, "signature_id": "ib.mlx5_link_down", "component": "network.link"}
    con = timeline_of(
        log.rows, [fault(100, end + 2, **link)], [accounting(1, START, end + 10, "FAILED")]
    )
    assert one(con, "select type, mode from incident") == ("network.link", "fail_stop")


def slowed(slow: range, factor: float, n_steps: int = 200) -> tuple[TrainLog, float]:
    log, at = TrainLog(), START
    log.event("train_start", at)
    for n in range(1, n_steps + 1):
        spent = 10 * (factor if n in slow else 1)
        at += spent
        log.event("step", at, step_to=n, step_ms=spent * 1000)
    return log, at


def test_slow_stretch_is_an_incident_with_onset_end_and_cost():
    log, end = slowed(range(51, 151), 2.0)
    con = timeline_of(log.rows, accounts=[accounting(1, START, end, "COMPLETED")])
    assert one(
        con,
        """
        select type, mode, confidence, epoch(onset_at)::double, epoch(ended_at)::double, slow_s,
            total_s, lost_s, recovery_s, gpu_hours
        from incident
        """,
    ) == pytest.approx(
        ("unattributed", "fail_slow", "unattributed", START + 500, START + 2500, 1000.0, 1000.0,
         0.0, 0.0, 8 * 1000 / 3600)
    )  # fmt: skip
    assert one(con, "select cause, type, seconds, incident_id is not null from loss") == (
        "slow", "unattributed", pytest.approx(1000.0), True,
    )  # fmt: skip
    assert one(con, "select tor_observed from run") == (pytest.approx(2 / 3),)
    assert holds(con)


def test_slow_stretch_is_explained_by_a_slow_device_on_its_node():
    log, end = slowed(range(51, 151), 2.0)
    faults = [fault(100, START + 490, **THROTTLE), fault(200, START + 700, **XID)]
    con = timeline_of(log.rows, faults, [accounting(1, START, end, "COMPLETED")])
    assert one(con, "select type, nodes, confidence from incident") == (
        "gpu.thermal", ["node001"], "confirmed",
    )  # fmt: skip


def test_single_slow_steps_are_jitter_and_no_incident():
    log, end = slowed(range(50, 200, 40), 3.0)
    con = timeline_of(log.rows, accounts=[accounting(1, START, end, "COMPLETED")])
    assert one(con, "select n_incidents from run") == (0,)
    assert one(con, "select cause, incident_id, seconds from loss") == (
        "slow", None, pytest.approx(80.0),
    )  # fmt: skip


def test_two_slow_stretches_are_two_incidents():
    log, at = TrainLog(), START
    log.event("train_start", at)
    for n in range(1, 201):
        spent = 20 if 31 <= n <= 60 or 101 <= n <= 130 else 10
        at += spent
        log.event("step", at, step_to=n, step_ms=spent * 1000.0)
    con = timeline_of(log.rows, accounts=[accounting(1, START, at, "COMPLETED")])
    assert con.execute("select slow_s from incident order by onset_at").fetchall() == [
        (pytest.approx(300.0),), (pytest.approx(300.0),),
    ]  # fmt: skip
