"""Time at risk, times to failure and stages of recovery, from timelines worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline import database, exposure, timeline
from pipeline.exposure import ALL_TYPES, Cause, Mode, Observed, observe
from pipeline.ingest import ingest
from pipeline.resources import samples_dir
from tests.histories import START, TrainLog, accounting, fault, steps, timeline_of

ALL = Cause(ALL_TYPES, Mode.FAIL_STOP)
BUS = Cause("gpu.bus", Mode.FAIL_STOP)
LINK = Cause("network.link", Mode.FAIL_STOP)
XID = {
    "signature_id": "gpu.xid79_fallen_off_bus", "component": "gpu.bus", "mode": "fail_stop",
    "role": "root", "domain": "infrastructure", "node": "node001", "file_id": "kernel",
}  # fmt: skip


@pytest.fixture(scope="module")
def sample(tmp_path_factory) -> Observed:
    """The packaged samples: two runs, three failures, one of them slow."""
    lake = tmp_path_factory.mktemp("lake")
    ingest([str(samples_dir() / "logs")], lake)
    timeline.rebuild(lake)
    return observe(database.connect(lake))


def made(stretches: list[tuple], incidents: list[tuple] = ()) -> Observed:
    """Observed from (run, launch, up_s, nodes, type) and (run, launch, type, mode, before_s).

    Stretch k of every run begins at second 10,000 k; its failure comes `before_s` later.
    """
    begins = {(r, n): 1e10 * n for r, n, *_ in stretches}
    failed = [begins[r, n] + 1e6 * before for r, n, _, _, before in incidents]
    names = ("run_id", "launch_no", "type", "mode", "before_s")
    columns = {name: np.array([row[i] for row in incidents], object)
               for i, name in enumerate(names)}  # fmt: skip
    n = len(incidents)
    return Observed(
        {
            "run_id": np.array([r for r, *_ in stretches], object),
            "launch_no": np.array([n for _, n, *_ in stretches]),
            "up_s": np.array([up for _, _, up, _, _ in stretches], float),
            "node_hours": np.array(
                [np.nan if k is None else up * k / 3600 for _, _, up, k, _ in stretches]
            ),
            "gpu_hours": np.full(len(stretches), np.nan),
            "type": np.array([kind for *_, kind in stretches], object),
            "step_s": np.full(len(stretches), 10.0),
        },
        {
            **columns, "failed_us": np.array(failed), "n_attempts": np.ones(n, np.int64),
            "domain": np.array(["infrastructure"] * n, object),
            "detection_s": np.full(n, 60.0), "recovery_s": np.full(n, 300.0),
            "slow_duration_s": np.full(n, 500.0), "is_over": np.ones(n, bool),
            "step_s": np.full(n, 10.0),
        },
        {
            "start_us": np.array([begins[r, n] for r, n, *_ in stretches]),
            "end_us": np.array([begins[r, n] + 1e6 * up for r, n, up, *_ in stretches]),
            "n_nodes": np.array([np.nan if k is None else k for *_, k, _ in stretches], float),
            "n_gpus": np.full(len(stretches), np.nan),
        },
        {}, {},
    )  # fmt: skip


def rows_of(sample) -> list[tuple[float, float]]:
    return list(zip(sample.lower.tolist(), sample.upper.tolist(), strict=True))


def test_up_time_of_the_samples_is_that_of_their_story(sample):
    # launches of pretrain-7b: 1500 + 30 + 60 + 220, 1500 + 60 + 60 + 120, 1900 + 30 + 60 s;
    # finetune-1b: 600 + 10 s
    rows = sample.stretches
    assert sorted(zip(rows["up_s"], rows["type"], strict=True), key=lambda r: r[0]) == [
        (610.0, None), (1740.0, "unattributed"), (1810.0, "gpu.bus"), (1990.0, None),
    ]  # fmt: skip
    hours = exposure.hours(sample)
    assert hours["job_hour"] == pytest.approx(6150 / 3600)
    assert hours["node_hour"] == pytest.approx((5540 * 4 + 610) / 3600)
    assert hours["gpu_hour"] == pytest.approx((5540 * 32 + 610 * 8) / 3600)


def test_other_ends_are_right_censored(sample):
    typed = exposure.times_to_failure(sample, BUS, "gpu_hour")
    assert rows_of(typed.sample) == [
        (610, np.inf), (1740, np.inf), (1810, 1810), (1990, np.inf),
    ]  # fmt: skip


def test_slow_episode_splits_the_stretch_it_lies_in(sample):
    typed = exposure.times_to_failure(sample, Cause("unattributed", Mode.FAIL_SLOW), "job_hour")
    assert typed.quantity == "slow_gap"
    assert rows_of(typed.sample) == [
        (400, 400), (610, np.inf), (1590, np.inf), (1740, np.inf), (1810, np.inf),
    ]  # fmt: skip
    assert typed.sample.exposure == 6150


def test_stages_of_the_samples_are_those_of_their_story(sample):
    stages = {s.quantity: s.sample for s in exposure.stages(sample, ALL)}
    assert stages["detection"].lower == pytest.approx([4.104251, 602])
    assert stages["recovery"].lower == pytest.approx([635.895749, 1648])
    (episode,) = exposure.stages(sample, Cause("unattributed", Mode.FAIL_SLOW))
    assert (episode.quantity, episode.sample.lower.tolist()) == ("slow_duration", [820.0])


def test_causes_are_all_types_in_both_modes(sample):
    assert sample.causes == [
        ALL, BUS, Cause("unattributed", Mode.FAIL_SLOW), Cause("unattributed", Mode.FAIL_STOP),
    ]  # fmt: skip


def test_every_cause_has_the_same_time_at_risk_and_events_sum_to_all():
    observed = made(
        [("a", 1, 100, 2, "gpu.bus"), ("a", 2, 50, 2, None), ("b", 1, 70, 2, "network.link"),
         ("b", 2, 30, 2, "gpu.bus")],
        [("a", 1, "gpu.bus", "fail_stop", 100), ("b", 1, "network.link", "fail_stop", 70),
         ("b", 2, "gpu.bus", "fail_stop", 30)],
    )  # fmt: skip
    samples = {c: exposure.times_to_failure(observed, c, "job_hour").sample
               for c in (ALL, BUS, LINK)}  # fmt: skip
    assert {s.exposure for s in samples.values()} == {250}
    assert [samples[c].n_events for c in (ALL, BUS, LINK)] == [3, 2, 1]
    assert exposure.counts(observed, ALL) == (3, 3)


def test_failure_before_any_step_lies_between_zero_and_a_step():
    observed = made([("a", 1, 0, 2, "gpu.bus"), ("a", 2, 40, 2, None)],
                    [("a", 1, "gpu.bus", "fail_stop", 0)])  # fmt: skip
    assert rows_of(exposure.times_to_failure(observed, BUS, "job_hour").sample) == [
        (0, 10), (40, np.inf),
    ]  # fmt: skip


def test_history_runs_on_the_exposure_of_the_whole_fleet():
    """Two runs at once: an hour of both is two job-hours, or six node-hours of 2 and 4 nodes."""
    observed = made(
        [("a", 1, 3600, 2, "gpu.bus"), ("b", 1, 7200, 4, None)],
        [("a", 1, "gpu.bus", "fail_stop", 3600)],
    )
    by_job = exposure.history(observed, BUS, "job_hour")
    assert (by_job.times.tolist(), by_job.end) == ([2.0], 3.0)
    by_node = exposure.history(observed, BUS, "node_hour")
    assert by_node.times == pytest.approx([6.0])
    assert by_node.end == pytest.approx(10.0)
    assert exposure.windows(by_job, 3).tolist() == [0, 0, 1]


def test_unit_is_that_of_what_broke_where_it_is_known():
    known = {"job_hour": 1.0, "node_hour": 2.0, "gpu_hour": None}
    observed = made([("a", 1, 9, 2, "gpu.bus"), ("a", 2, 9, 2, "network.link")],
                    [("a", 1, "gpu.bus", "fail_stop", 9),
                     ("a", 2, "network.link", "fail_stop", 9)])  # fmt: skip
    assert exposure.unit_of(observed, ALL, known) == "job_hour"
    assert exposure.unit_of(observed, LINK, known) == "node_hour"
    assert exposure.unit_of(observed, BUS, known) == "job_hour"
    assert exposure.unit_of(observed, BUS, known | {"gpu_hour": 16.0}) == "gpu_hour"
    observed.incidents["domain"][:] = "workload"
    assert exposure.unit_of(observed, LINK, known) == "job_hour"


def test_unknown_nodes_of_one_stretch_leave_node_hours_unknown():
    observed = made([("a", 1, 3600, 2, None), ("b", 1, 3600, None, None)])
    assert exposure.hours(observed) == {"job_hour": 2.0, "node_hour": None, "gpu_hour": None}
    assert exposure.by_size(observed) == {2: (0, 1.0)}


def test_nothing_up_has_no_causes():
    assert made([("a", 1, 0, 2, "gpu.bus")], [("a", 1, "gpu.bus", "fail_stop", 0)]).causes == []
    assert made([]).causes == []


def test_run_that_never_came_back_censors_its_recovery():
    """One failure, then nothing but an attempt that dies before any step."""
    log = TrainLog()
    end = steps(log, START, 1, 20)
    con = timeline_of(
        log.rows, [fault(100, end + 5, **XID)], [accounting(1, START, end + 60, "FAILED")]
    )
    observed = observe(con)
    stages = {s.quantity: s.sample for s in exposure.stages(observed, BUS)}
    assert rows_of(stages["detection"]) == [(5, 5)]
    assert rows_of(stages["recovery"]) == [(55, np.inf)]


def test_accounting_alone_gives_the_allocation_as_time_at_risk():
    con = timeline_of(accounts=[
        accounting(1, START, START + 7200, "NODE_FAIL", n_nodes=2),
        accounting(2, START + 8000, START + 11600, "COMPLETED", submit=START + 7201, n_nodes=2),
    ])  # fmt: skip
    rows = con.execute("select up_s, node_hours, type, rule from up_stretch order by 1").fetchall()
    assert rows == [(3600, 2, None, "allocation"), (7200, 4, "scheduler.node_fail", "allocation")]
    typed = exposure.times_to_failure(observe(con), ALL, "job_hour")
    assert (typed.sample.n_events, typed.history.times.tolist()) == (1, [pytest.approx(2.0)])
    assert [s.quantity for s in exposure.stages(observe(con), ALL)] == ["recovery"]


def test_launch_that_failed_before_any_step_is_a_stretch_without_up_time():
    log = TrainLog()
    log.event("train_start", START + 5)
    second = START + 300
    end = steps(log, second, 1, 20)
    con = timeline_of(
        log.rows, [fault(100, START + 30, **XID)],
        [accounting(1, START, START + 60, "FAILED"),
         accounting(2, second - 5, end, "COMPLETED", submit=START + 61)],
    )  # fmt: skip
    rows = con.execute("select up_s, type, node_hours from up_stretch order by 1").fetchall()
    assert rows[0] == (0, "gpu.bus", 0)
    assert len(rows) == 2
    (found,) = con.execute("select count(*) from incident").fetchone()
    assert found == 1
