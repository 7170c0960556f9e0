"""The truth about stories without chance, against arithmetic by hand.

One node; 60 s allocation, 70 s initialisation, 20 s data: the first step begins at 150 s, or at
180 s after a load of 30 s. Steps of 10 s; a save of 20 s after every tenth. No queue; a requeue is
submitted after 5 s and held for 121 s. A clean end takes 10 s.
"""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from pipeline.simulate import output
from pipeline.simulate.engine import simulate
from pipeline.simulate.scenario import parse, resized
from pipeline.simulate.truth import truth_of

CRASH = {"story": "software_bug", "clock": "job", "law": 905.04 / 3600}


def told(seconds, run=None, cluster=None, **tables):
    """(wall, TOR, seconds by category, truth, history) of a story of so many seconds."""
    plain = {
        "name": "a", "nodes": 1, "steps": {"jitter": 0}, "checkpoint": {"every_steps": 10},
        "restart": {"queue_s": 0},
    }  # fmt: skip
    scenario = parse(
        {"title": "t", "cluster": {"nodes": 2, "days": seconds / 86400} | (cluster or {}),
         "run": [plain | (run or {})], **tables}, "test",
    )  # fmt: skip
    history = simulate(resized(scenario, None, None), 0)
    (truth,) = truth_of(history)
    sums: dict[str, float] = {}
    for piece in truth.pieces:
        sums[piece.category] = sums.get(piece.category, 0) + piece.duration_us / 1e6
    return (truth.end_us - truth.start_us) / 1e6, truth.tor, sums, truth, history


def test_a_crash_costs_the_step_in_flight_the_way_back_and_what_no_save_held(tmp_path):
    # up to the crash at 905.04: 6 saves, 63 steps; seen 40 s later, ended 30 s after that; again at
    # 1101.04 and in training from 1281.04 on; over at 1728: step 99 ends at 1731.04, last save
    wall_s, tor, sums, truth, history = told(1728, failure=[CRASH])
    assert wall_s == pytest.approx(1761.04)
    assert tor == pytest.approx(990 / 1761.04)
    assert sums == pytest.approx(
        {"productive": 990, "lost_recompute": 30, "checkpoint": 10 * 20, "startup": 150 + 10,
         "recovery": 5.04 + 70 + 5 + 121 + 180}
    )  # fmt: skip
    assert [a.state for a in truth.history.attempts] == ["REQUEUED", "COMPLETED"]
    output.write(history, tmp_path)
    (incident,) = pq.read_table(tmp_path / "truth" / "incident.parquet").to_pylist()
    assert (incident["type"], incident["mode"], incident["lost_steps"], incident["n_attempts"]) == (
        "software.user", "fail_stop", 3, 1)  # fmt: skip
    assert (incident["lost_s"], incident["recovery_s"]) == pytest.approx((30, 381.04))


def test_steps_behind_the_last_save_of_a_run_that_was_given_up_are_uncommitted():
    wall_s, tor, sums, _, _ = told(400, {"ending": "fail"}, failure=[CRASH])
    assert wall_s == pytest.approx(975.04)
    assert tor == pytest.approx(600 / 975.04)
    assert sums == pytest.approx(
        {"productive": 600, "uncommitted": 30, "checkpoint": 120, "startup": 150, "recovery": 75.04}
    )


def test_a_fail_slow_episode_costs_the_surplus_of_its_steps():
    # onset after 360 s of up time, for 100 s: steps 20 to 23 take 20 s; over at 600, in step 35
    slow = {"story": "thermal", "every_hours": 0.1, "duration_s": 100, "ratio": 0.5}
    wall_s, tor, sums, truth, _ = told(600, slow=[slow])
    assert wall_s == pytest.approx(630)
    assert tor == pytest.approx(350 / 630)
    assert sums == pytest.approx({"productive": 390, "checkpoint": 80, "startup": 160})
    (episode,) = truth.history.incidents
    assert sum(p.n_steps for p in truth.pieces if p.slow is episode) == 4


def test_a_time_limit_rolls_back_as_a_planned_stop():
    # killed at 605 with 39 steps; gone at 615, next job at 675, in training from 855 on
    wall_s, _, sums, truth, _ = told(900, {"time_limit_s": 605})
    assert sums == pytest.approx(
        {"productive": 350, "lost_recompute": 90, "checkpoint": 4 * 20, "startup": 150 + 10,
         "planned": 5 + 10 + 60 + 180}
    )  # fmt: skip
    lost = [p for p in truth.pieces if p.category == "lost_recompute"]
    assert {(p.cause, p.incident) for p in lost} == {("planned", None)}
    assert truth.history.attempts[0].state == "TIMEOUT"
    assert wall_s == pytest.approx(sum(sums.values()))


def test_a_background_save_counts_once_it_is_durable():
    # stalls of 2 s at 250, 352, ...; durable 100 s later. The crash at 905.04 has step 74; the save
    # of step 70 (stall until 864) comes too late: back to step 60
    save = {"every_steps": 10, "is_async": True, "stall_s": 2, "commit_s": 100}
    _, _, sums, truth, _ = told(1728, {"checkpoint": save}, failure=[CRASH])
    assert truth.history.launches[1].resume_step == 60
    assert sums["lost_recompute"] == pytest.approx(140)


def test_a_chain_of_failures_is_one_incident():
    chain = CRASH | {"retry_share": 0.99, "retry_limit": 3}
    _, _, _, truth, _ = told(2000, failure=[chain])
    (incident,) = truth.history.incidents[:1]
    launches = truth.history.launches[:4]
    assert [x.incident is incident for x in launches] == [True, True, True, False]
    assert incident.n_attempts == 3
    assert [x.last_step - x.resume_step for x in launches[1:3]] == [0, 0]


def test_elastic_training_goes_on_with_fewer_nodes_and_grows_again():
    run = {"nodes": 2, "min_nodes": 1}
    crash = CRASH | {"way_back": "elastic", "breaks_node": True, "story": "gpu_bus"}
    _, _, _, truth, _ = told(1700, run, {"repair_s": 300}, failure=[crash])
    assert len(truth.history.attempts) == 1
    assert [len(x.nodes) for x in truth.history.launches] == [2, 1, 2]
    shrunk = [p for p in truth.pieces if p.launch_no == 2 and p.phase == "train"]
    assert all(p.slow is truth.history.incidents[0] for p in shrunk)
    assert sum(p.duration_us for p in shrunk) == sum(p.n_steps for p in shrunk) * 20_000_000


def test_hot_spares_take_the_place_of_broken_nodes():
    run = {"nodes": 1, "hot_spares": 1}
    crash = CRASH | {"way_back": "in_job", "breaks_node": True, "story": "gpu_bus"}
    _, _, _, truth, _ = told(1728, run, failure=[crash])
    first, second = truth.history.launches[:2]
    assert len(truth.history.attempts) == 1
    assert first.nodes != second.nodes


def test_jobs_wait_for_nodes_first_come_first_served():
    scenario = parse(
        {"title": "t", "cluster": {"nodes": 3, "days": 600 / 86400},
         "run": [{"name": "a", "nodes": 2}, {"name": "b", "nodes": 2, "submit_after_s": 10},
                 {"name": "c", "nodes": 1, "submit_after_s": 20}]}, "test",
    )  # fmt: skip
    starts = {
        run.spec.name: run.attempts[0] for run in simulate(resized(scenario, None, None), 0).runs
    }
    assert starts["b"].start_us == starts["a"].end_us
    assert starts["c"].start_us == starts["b"].start_us


def test_nodes_of_one_switch_fail_together():
    batch = {"story": "network_link", "domain": "switch", "every_hours": 905.04 / 3600}
    cluster = {"nodes": 8, "nodes_per_switch": 4}
    _, _, _, truth, _ = told(1000, {"nodes": 8}, cluster, batch=[batch])
    nodes = truth.history.incidents[0].nodes
    assert nodes in ((0, 1, 2, 3), (4, 5, 6, 7))
