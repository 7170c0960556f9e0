"""From parameters to a scenario: clocks, sizes, what is missing, and every mistake at once."""

from __future__ import annotations

import math

import pytest

from pipeline import tor
from pipeline.closed_form import closed_form
from pipeline.errors import ParameterError
from pipeline.parameters import ObservedSize, Parameters, setup, up_mtbf
from pipeline.random_times import Exponential
from pipeline.scenario import FailSlow

ROW = Parameters(
    mtbf_s=10800, checkpoint_interval_s=1800, checkpoint_cost_s=20, detect_s=600, restart_s=300
)


def changed(**values: object) -> Parameters:
    return Parameters(**{**{k: v for k, v in vars(ROW).items() if v is not None}, **values})


def value(given: Parameters) -> float:
    return closed_form(setup(given).scenario).tor


def test_clock_decides_what_the_mean_time_counts():
    assert value(ROW) == pytest.approx(0.83666, abs=5e-6)
    wall = setup(changed(clock="wall"))
    assert (wall.mtbf_up_s, wall.mtbf_wall_s) == (9900, 10800)
    assert closed_form(wall.scenario).tor == pytest.approx(0.82581, abs=5e-6)
    assert any("wall-clock" in n and "9900 s" in n for n in wall.notes)
    assert any("up time" in n for n in setup(ROW).notes)


def test_acceptance_a6_wall_clock_of_a_large_job():
    # arXiv 2602.00277: 18 min between failures, stalls of 10 and of 3 min; nothing rolled back
    def effective(clock: str, stall: float, **where: float) -> float:
        given = Parameters(mtbf_s=18 * 60, clock=clock, checkpoint_interval_s=1e-3,
                           checkpoint_cost_s=0, **(where or {"detect_s": stall}))  # fmt: skip
        return value(given)

    assert effective("wall", 600) == pytest.approx(8 / 18, rel=2e-3)
    assert effective("wall", 180) == pytest.approx(0.8333, rel=2e-3)
    assert effective("up", 600) == pytest.approx(18 / 28, rel=2e-3)
    # in wall-clock time it does not matter whether the stall is detection or restart
    assert effective("wall", 0, restart_s=600) == pytest.approx(8 / 18, rel=2e-3)
    # 80 % are published for 3 min: 3.3 points go to missing replicas and the rest
    assert effective("wall", 180) - 0.80 == pytest.approx(0.033, abs=0.001)


def test_wall_clock_without_room_for_up_time_is_refused():
    with pytest.raises(ParameterError, match="leaves no up time"):
        setup(changed(clock="wall", mtbf_s=900))


def test_mitigation_pauses_are_no_up_time_either():
    slow = FailSlow("slow", Exponential(5000), Exponential(1000), 0.5, 300)
    up = up_mtbf(10800, 900, (slow,))
    kappa = 300 / 5000 / (1 + 1000 / up)
    assert up + 900 + kappa * up == pytest.approx(10800)
    assert up_mtbf(10800, 900, ()) == 9900


def test_counts_become_a_rate_and_its_exposure():
    up = setup(changed(mtbf_s=None, failures=20, exposure_s=216000.0)).scenario.stops[0]
    assert (up.uptime.mean, up.n_events, up.exposure_s) == (10800, 20, 216000)
    wall = setup(changed(mtbf_s=None, failures=20, exposure_s=216000.0, clock="wall"))
    stop = wall.scenario.stops[0]
    assert (stop.uptime.mean, stop.exposure_s) == (9900, 198000)
    none = setup(changed(mtbf_s=None, failures=0, exposure_s=3600.0)).scenario.stops[0]
    assert (none.rate, none.exposure_s) == (0, 3600)


def test_rate_per_node_gives_the_mean_time_and_contradictions_are_flagged():
    given = changed(mtbf_s=None, node_rate=6.5, nodes=2048)
    assert setup(given).mtbf_up_s / 3600 == pytest.approx(1.803, rel=1e-3)
    both = setup(changed(mtbf_s=7.9 * 3600, node_rate=6.5, nodes=128))
    assert both.mtbf_up_s == 7.9 * 3600
    assert "a factor of 3.7 apart" in both.flags[0]
    assert setup(changed(mtbf_s=28 * 3600, node_rate=6.5, nodes=128)).flags == ()


def test_sizes_give_a_line_that_is_printed_and_marked():
    sizes = (ObservedSize(100, 32, 1e7), ObservedSize(1000, 302, 1e7))
    found = setup(changed(mtbf_s=None, nodes=2001, observed_sizes=sizes))
    assert 1 / found.mtbf_up_s == pytest.approx(2e-7 + 3e-8 * 2001, rel=1e-4)
    assert any("fitted to 2 sizes" in n for n in found.notes)
    assert "extrapolated" in found.flags[0]
    assert setup(changed(mtbf_s=None, nodes=2000, observed_sizes=sizes)).flags == ()


def test_missing_interval_is_the_best_one():
    found = setup(changed(checkpoint_interval_s=None))
    assert found.scenario.checkpointing.tau_s == pytest.approx(644.0, abs=0.05)
    assert any("the best one, 643.97" in n or "the best one, 644" in n for n in found.notes)
    with pytest.raises(ParameterError, match="needs --checkpoint-cost above 0"):
        setup(changed(checkpoint_interval_s=None, checkpoint_cost_s=None))
    limited = setup(changed(checkpoint_interval_s=None, checkpoint_bytes=9e12,
                            storage_bandwidth=1e10))  # fmt: skip
    assert limited.scenario.checkpointing.tau_s == 880


def test_costs_that_were_not_given_are_named():
    notes = setup(Parameters(mtbf_s=3600, checkpoint_interval_s=60)).notes
    assert notes[0] == (
        "not given, taken as 0: --checkpoint-cost, --checkpoint-latency, --detect, --restart"
    )


def test_mean_time_holds_whatever_the_law():
    weibull = setup(changed(uptime_shape=0.7)).scenario.stops[0]
    assert weibull.uptime.mean == pytest.approx(10800)
    assert value(changed(uptime_shape=0.7, detect_s=900, restart_s=0)) == pytest.approx(
        0.84334, abs=1e-5
    )
    assert isinstance(setup(changed(uptime_shape=1)).scenario.stops[0].uptime, Exponential)
    bursts = setup(changed(burst_share=0.4, burst_gap_s=600)).scenario.stops[0]
    assert 1 / bursts.rate == pytest.approx(10800)
    assert bursts.uptime.mean > 10800


def test_memory_tier_splits_the_failures():
    given = changed(memory_interval_s=300, memory_survives=0.8, memory_cost_s=2,
                    mtbf_s=None, failures=20, exposure_s=216000.0)  # fmt: skip
    soft, hard = setup(given).scenario.stops
    assert (soft.tier, hard.tier) == ("memory", "durable")
    assert soft.rate + hard.rate == pytest.approx(1 / 10800)
    assert (soft.n_events, hard.n_events) == (pytest.approx(16), pytest.approx(4))
    assert value(given) > value(ROW)


def test_slow_states_alone_come_by_turns():
    given = Parameters(slow_mtbe_s=21600, slow_duration_s=1800, slow_ratio=0.7,
                       mitigation_pause_s=300, mitigation_loss_s=900,
                       checkpoint_interval_s=1800, checkpoint_cost_s=0)  # fmt: skip
    assert value(given) == pytest.approx(0.92658, abs=5.01e-6)
    beside = setup(changed(slow_mtbe_s=21600, slow_duration_s=1800, slow_ratio=0.7))
    assert beside.scenario.slows[0].is_overlapping


def test_spares_make_a_pool():
    pool = setup(changed(spares=2, repair_s=86400, nodes=64, max_missing=4)).scenario.pool
    assert (pool.nodes, pool.spares, pool.max_missing) == (64, 2, 4)


def test_every_mistake_is_named_at_once():
    broken = Parameters(
        mtbf_s=-1, failures=3, checkpoint_interval_s=math.nan, checkpoint_cost_s=-2,
        slow_ratio=1.2, burst_share=1.0, spares=-1, max_missing=1, node_rate=0,
        restart_parts={"load": -1}, memory_survives=2, observed_sizes=(ObservedSize(1, 1, 1),),
    )  # fmt: skip
    with pytest.raises(ParameterError) as caught:
        setup(broken)
    for line in (
        "--mtbf = -1: expected a finite number above 0",
        "--checkpoint-interval = nan: expected a finite number above 0",
        "--checkpoint-cost = -2: expected a finite number, 0 or more",
        "--slow-ratio = 1.2: expected above 0 and at most 1",
        "--burst-share = 1: expected 0 or more, below 1",
        "--spares = -1: expected a finite number, 0 or more",
        "--node-rate = 0: expected a finite number above 0",
        "--restart-part load = -1: expected a finite number, 0 or more",
        "--memory-survives = 2: expected 0 or more, below 1",
        "--failures: expected --exposure too",
        "--slow-ratio: expected --slow-mtbe and --slow-duration too",
        "--burst-share: expected --burst-gap too",
        "--memory-survives: expected --memory-interval too",
        "--spares: expected --repair too",
        "--observed: expected --nodes too",
        "--node-rate: expected --nodes too",
        "--mtbf and --failures: expected one of them",
    ):
        assert line in caught.value.problems, line


def test_parts_of_the_restart_fit_into_it():
    with pytest.raises(ParameterError, match="sum to at most --restart"):
        setup(changed(restart_parts={"load": 301}))
    assert setup(changed(restart_parts={"load": 300})).scenario.stops[0].parts == {"load": 300}


def test_nothing_that_fails_is_a_mistake():
    with pytest.raises(ParameterError, match="nothing fails"):
        setup(Parameters(checkpoint_interval_s=60))


def test_acceptance_a2_published_effective_time_at_12000_gpus():
    """arXiv 2410.21680: 1,500 nodes, restart and write of 300 s, interval by Young."""
    rows = [
        # failures per 1000 node-days, nodes, write, restart, estimate, form (3), published
        (6.5, 1500, 300, 300, 0.7398, 0.7358, None),
        (1.0, 1500, 300, 300, 0.8979, 0.8966, 0.9),
        (6.5, 1500, 10, 300, 0.9205, 0.9215, 0.9),
        (6.5, 2048, 300, 300, 0.6960, 0.6921, None),
        (6.5, 12500, 120, 120, 0.525, 0.530, None),
    ]
    for rate, nodes, write, restart, estimate, complete, published in rows:
        mtbf = setup(Parameters(node_rate=rate, nodes=nodes, checkpoint_interval_s=1)).mtbf_up_s
        tau = math.sqrt(2 * write * mtbf)
        found = value(Parameters(node_rate=rate, nodes=nodes, checkpoint_interval_s=tau,
                                 checkpoint_cost_s=write, restart_s=restart))  # fmt: skip
        assert found == pytest.approx(complete, abs=0.001)
        assert float(tor.expected_ettr(tau, write, restart, mtbf)) == pytest.approx(
            estimate, abs=0.001
        )
        if published is not None:
            # the paper rounds: its 0.9 with quick writes stands for 0.92
            assert found == pytest.approx(published, abs=0.022)


def test_acceptance_a5_checkpoint_at_every_step():
    """arXiv 2509.16293, Table 8: the step time from one system predicts the other two."""
    rows = [
        (6.77, 0.3984, 4.483, 1.84, 0.7090, 0.7005, 0.04, 0.9912, 0.9923),
        (7.14, 0.3911, 4.586, 1.69, 0.7307, 0.7236, 0.03, 0.9935, 0.9912),
        (13.02, 0.4307, 9.850, 0.22, 0.9782, 0.9590, 0.01, 0.9990, 0.9971),
        (12.98, 0.4280, 9.712, 0.18, 0.9818, 0.9692, 0.02, 0.9979, 0.9911),
    ]
    for stall, ratio, step, *others in rows:
        back = stall * ratio / (1 - ratio)
        assert back == pytest.approx(step, abs=0.001)
        for delta, predicted, measured in (others[:3], others[3:]):
            found = tor.checkpoint_efficiency(back, delta)
            assert found == pytest.approx(predicted, abs=1e-4)
            assert found == pytest.approx(measured, abs=0.02)
