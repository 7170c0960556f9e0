"""The simulation: closed forms within three standard errors, an independent one, pools, seeds."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from pipeline import mixtures, tor
from pipeline.errors import ParameterError
from pipeline.random_times import Empirical, Exponential, Floats, Frozen
from pipeline.replica_limits import SimulationError
from pipeline.replicas import Simulation
from pipeline.replicas import simulate as simulate_scenario
from pipeline.scenario import (
    Aftershocks,
    Checkpointing,
    FailSlow,
    FailStop,
    MemoryTier,
    Scenario,
    SparePool,
)
from tests.one_job import tor_of_one_job
from tests.scenarios import HOUR, LLAMA, MIXTURES, one_type, slow, stop
from tests.test_tor import CHECKS


def simulate(scenario: Scenario, *, restarts_fail: bool = True, **options: object) -> Simulation:
    changed = replace(scenario, restarts_fail=restarts_fail)
    return simulate_scenario(changed, **options)  # type: ignore[arg-type]


def assert_agrees(found: Simulation, wanted: float, *, n_failures: int = 100_000) -> None:
    assert found.n_failures >= n_failures
    assert found.n_cut == 0
    assert abs(found.tor - wanted) <= 3 * found.standard_error, (found.tor, wanted)
    assert found.tor + sum(sum(x.values()) for x in found.losses.values()) == pytest.approx(1)


@pytest.mark.parametrize("row", CHECKS)
def test_exponential_failures_agree_with_forms_2_and_3(row):
    scenario = one_type(*row[:6])
    tau, delta, detect, restart, mtbf, latency = row[:6]
    complete = tor.complete(tau, delta, detect, restart, mtbf, latency)
    assert_agrees(simulate(scenario, seed=11), complete)
    free = tor.exponential(tau, delta, detect + restart, mtbf, latency)
    assert_agrees(simulate(scenario, seed=12, restarts_fail=False), free)


@pytest.mark.parametrize(
    "law",
    [
        *(stats.weibull_min(k, scale=10800 / math.gamma(1 + 1 / k)) for k in (0.5, 0.7, 1.5, 3.0)),
        stats.lognorm(1.0, scale=10800 * math.exp(-0.5)),
        stats.gamma(0.5, scale=21600),
    ],
    ids=["weibull 0.5", "weibull 0.7", "weibull 1.5", "weibull 3", "lognormal", "gamma 0.5"],
)
@pytest.mark.parametrize("latency", [0.0, 400.0, 4000.0])
def test_any_law_of_up_times_agrees_with_form_1(law, latency):
    uptime = Frozen(law)
    scenario = Scenario(
        Checkpointing(1800, 20, latency), (FailStop("failure", uptime, 600.0, 300.0),)
    )
    wanted = tor.renewal(uptime, 1800, 20, 900, latency)
    assert_agrees(simulate(scenario, seed=3, restarts_fail=False), wanted)


def test_observed_up_times_and_durations_agree_with_form_1():
    uptime = Empirical([500.0, 3000.0, 9000.0, 30000.0])
    down = Empirical([60.0, 60.0, 3000.0])
    scenario = Scenario(Checkpointing(1800, 20), (FailStop("failure", uptime, 0.0, down),))
    wanted = tor.renewal(uptime, 1800, 20, 1040)
    assert_agrees(simulate(scenario, seed=3, restarts_fail=False), wanted)


@pytest.mark.parametrize(
    ("healthy", "degraded", "ratio", "pause", "loss"),
    [(86400, 1440, 0.6, 0, 0), (21600, 1800, 0.7, 300, 900), (3600, 600, 0.3, 60, 0)],
)
def test_slow_states_by_turns_agree_with_form_5(healthy, degraded, ratio, pause, loss):
    state = slow(1 / healthy, degraded, ratio, pause, loss_s=loss, is_overlapping=False)
    found = simulate(Scenario(Checkpointing(600), (), (state,)), seed=5, cycles=100)
    assert_agrees(found, tor.alternating(healthy, degraded, ratio, pause, loss), n_failures=0)


def test_overlapping_slow_states_agree_with_form_6():
    states = tuple(
        FailSlow(f"slow{i}", Exponential(1 / rate), duration, ratio)
        for i, (rate, duration, ratio) in enumerate([
            (1 / 3600, Exponential(600), 0.8),
            (1 / 7200, 3000.0, 0.5),  # any law of durations
            (1 / 20000, Frozen(stats.lognorm(1.0, scale=10000 * math.exp(-0.5))), 0.9),
        ])
    )  # fmt: skip
    found = simulate(Scenario(Checkpointing(600), (), states), seed=5, cycles=150)
    assert found.standard_error < 7e-4
    assert_agrees(found, 0.787422, n_failures=0)


def test_multiplied_slow_downs_agree_with_form_6():
    """No option of the simulation: overlapping events are counted here at random instants."""
    rng = np.random.default_rng(7)
    speed = np.ones(200_000)
    for rate, duration, ratio in [(1 / 3600, 600, 0.8), (1 / 7200, 3000, 0.5),
                                  (1 / 20000, 10000, 0.9)]:  # fmt: skip
        # onsets in a window before the instant; those still there act
        window = 20.0 * duration
        onsets = rng.poisson(rate * window, speed.size)
        ages = rng.uniform(0, window, onsets.sum())
        acts = rng.exponential(duration, onsets.sum()) > ages
        speed *= ratio ** np.bincount(np.repeat(np.arange(speed.size), onsets), acts, speed.size)
    error = speed.std() / math.sqrt(speed.size)
    assert abs(speed.mean() - 0.747017) <= 3 * error


@pytest.mark.parametrize("name", MIXTURES)
@pytest.mark.parametrize("restarts_fail", [True, False])
def test_mixtures_agree_with_form_8(name, restarts_fail):
    scenario, simulated, *_ = MIXTURES[name]
    found = simulate(scenario, seed=8, restarts_fail=restarts_fail)
    split = mixtures.combined(scenario, restarts_fail=restarts_fail)
    assert found.n_failures >= 100_000
    assert found.tor == pytest.approx(float(split.tor[0]), abs=0.004)
    if not restarts_fail:
        assert found.tor == pytest.approx(simulated, abs=0.004)
    for loss in split.losses:
        for part, share in found.losses[loss.cause].items():
            assert share == pytest.approx(float(getattr(loss, part)[0]), abs=0.002), loss.cause


def test_mixture_without_slow_types_agrees_exactly():
    scenario = replace(LLAMA, slows=())
    for restarts_fail in (True, False):
        wanted = float(mixtures.combined(scenario, restarts_fail=restarts_fail).tor[0])
        assert_agrees(simulate(scenario, seed=2, restarts_fail=restarts_fail), wanted)


TIERED = Scenario(
    Checkpointing(3600, 40, memory=MemoryTier(600, 4)),
    (
        stop("soft", 0.8 / HOUR, 30, 120, tier="memory"),
        stop("hard", 0.2 / HOUR, 300, 600),
        stop("peer", 0.5 / HOUR, 10, 30, loss_s=8.0),
    ),
)


@pytest.mark.parametrize("restarts_fail", [True, False])
def test_two_tiers_agree_with_form_9(restarts_fail):
    # a failure of the other kind during a restart changes the tier that is gone back to
    scenario = TIERED if not restarts_fail else replace(TIERED, stops=TIERED.stops[1:])
    wanted = float(mixtures.combined(scenario, restarts_fail=restarts_fail).tor[0])
    found = simulate(scenario, seed=4, restarts_fail=restarts_fail)
    assert_agrees(found, wanted)


@pytest.mark.parametrize("restarts_fail", [True, False])
def test_everything_at_once_agrees_with_an_independent_simulation(restarts_fail):
    # the latency reaches over several checkpoints and over changes of speed
    plan = Checkpointing(1800, 30, 2500, MemoryTier(300, 3))
    soft, hard = Frozen(stats.gamma(3, scale=3000)), Frozen(stats.weibull_min(3, scale=10000))
    scenario = Scenario(
        plan,
        (
            FailStop("soft", soft, 30.0, 200.0, tier="memory"),
            FailStop("hard", hard, Exponential(60), Frozen(stats.gamma(2, scale=200))),
            stop("peer", 1 / 20000, 5, 20, loss_s=15.0),
        ),
        (
            slow(1 / 5000, 2000, 0.4, 30, loss_s=20.0),
            replace(slow(1 / 7000, 900, 0.7, 10), name="other", is_overlapping=False),
        ),
    )
    wanted, error = tor_of_one_job(scenario, 4000, 1, restarts_fail=restarts_fail)
    found = simulate(scenario, seed=4, restarts_fail=restarts_fail)
    spread = math.hypot(error, found.standard_error)
    assert spread < 0.005
    assert abs(found.tor - wanted) <= 3 * spread


class Bursts:
    """Up time after a failure that brings another one with probability `share`."""

    def __init__(self, mean: float, share: float, gap: float) -> None:
        self.sooner = 1 / (1 / mean + 1 / gap)
        self.usual, self.share = mean, share
        self.mean = (1 - share) * mean + share * self.sooner

    def survival(self, t: Floats) -> Floats:
        return (1 - self.share) * np.exp(-t / self.usual) + self.share * np.exp(-t / self.sooner)

    def quantile(self, p: Floats) -> Floats:
        return -self.usual * np.log1p(-p)  # an upper bound is all that form (1) needs


def test_bursts_agree_with_form_1_of_their_up_times():
    law = Bursts(20000, 0.4, 600)
    shocks = Aftershocks(0.4, Exponential(600))
    burst = FailStop("failure", Exponential(20000), 60.0, 300.0, aftershocks=shocks)
    assert burst.rate == pytest.approx(1 / law.mean)
    scenario = Scenario(Checkpointing(1800, 20), (burst,))
    found = simulate(scenario, seed=6, restarts_fail=False)
    assert_agrees(found, tor.renewal(law, 1800, 20, 360))
    # the same number of failures, spread evenly, costs more: bursts strike fresh checkpoints
    assert found.tor > tor.exponential(1800, 20, 360, law.mean) + 0.01


def pooled(spares: int, repair: float, max_missing: int = 0, mtbf: float = 7200) -> Scenario:
    node = FailStop("node", Exponential(mtbf), 0.0, 60.0, victims=1)
    pool = SparePool(8, spares, Exponential(repair), max_missing)
    return Scenario(Checkpointing(1e-3), (node,), pool=pool)


def test_without_spares_the_job_waits_for_each_repair():
    scenario = pooled(0, 3600)
    wanted = 7200 / (7200 + 3600 + 60)  # the restart begins when the node is back
    found = simulate(scenario, seed=6, restarts_fail=False)
    assert_agrees(found, wanted, n_failures=60_000)


def test_enough_spares_never_wait_and_more_spares_never_harm():
    reached = [simulate(pooled(k, 14400), seed=6).tor for k in (0, 1, 2, 20)]
    assert reached == sorted(reached)
    plenty = simulate(pooled(20, 14400), seed=6, restarts_fail=False)
    assert_agrees(plenty, 7200 / 7260)


def test_shrunk_job_runs_at_the_share_of_its_nodes():
    # failures cost nothing but the node: nodes in repair are a Poisson number of mean 0.5
    node = FailStop("node", Exponential(7200), 0.0, 0.0, victims=1)
    pool = SparePool(16, 0, Exponential(3600), max_missing=12)
    found = simulate(Scenario(Checkpointing(1e-3), (node,), pool=pool), seed=6)
    assert_agrees(found, 1 - 0.5 / 16)
    assert found.losses["missing nodes"]["slow"] == pytest.approx(0.5 / 16, rel=0.02)


def test_standing_overhead_is_charged_as_such():
    scenario = replace(one_type(600, 0, 0, 0, 36000), steady_ratio=0.9)
    found = simulate(scenario, seed=6)
    wanted = float(mixtures.combined(scenario, restarts_fail=True).tor[0])
    assert_agrees(found, wanted)
    assert found.losses["overhead"]["slow"] == pytest.approx(found.tor * (1 / 0.9 - 1), rel=1e-3)


def test_equal_seeds_give_equal_results():
    first, again, other = (simulate(LLAMA, n_replicas=50, seed=s) for s in (1, 1, 2))
    assert first.tor == again.tor
    assert (first.kept_s == again.kept_s).all()
    assert first.tor != other.tor


def test_standard_error_is_the_spread_between_seeds():
    scenario = one_type(1800, 20, 600, 300, 10800)
    runs = [simulate(scenario, n_replicas=200, cycles=20, seed=s) for s in range(100)]
    spread = np.std([r.tor for r in runs])
    assert spread == pytest.approx(np.mean([r.standard_error for r in runs]), rel=0.2)
    wanted = tor.complete(1800, 20, 600, 300, 10800)
    assert np.mean([r.tor for r in runs]) == pytest.approx(wanted, abs=3 * spread / math.sqrt(100))


def test_what_never_comes_up_again_is_cut_and_said():
    always = FailStop("failure", Empirical([100.0]), 0.0, 200.0)
    found = simulate(Scenario(Checkpointing(10), (always,)), n_replicas=2)
    assert (found.n_cut, found.tor) == (2, pytest.approx(0, abs=1e-3))


def test_scenarios_without_end_are_refused():
    with pytest.raises(SimulationError, match="hardly ever comes through"):
        simulate(one_type(1800, 20, 0, 3600, 60))
    busy = replace(LLAMA, slows=(slow(0.2, 0.1, 0.5, 0),))
    assert simulate(busy, n_replicas=2, cycles=1).n_failures >= 2
    with pytest.raises(SimulationError, match="too many to simulate"):
        simulate(busy, cycles=100)
    for nothing in ((), (slow(1e-300, 1, 0.5, 0),)):
        never = tuple(replace(s, onset=Exponential(math.inf)) for s in nothing)
        with pytest.raises(SimulationError, match="nothing"):
            simulate(Scenario(Checkpointing(1), (), never))


def test_impossible_scenarios_are_named_all_at_once():
    broken = Scenario(
        Checkpointing(0, -1, memory=MemoryTier(math.nan, 1)),
        (FailStop("a", Exponential(0), -5.0, 1.0, loss_s=-1, tier="tape"),
         FailStop("a", Exponential(5), n_events=3)),
        (FailSlow("slow", Exponential(3600), 60.0, 1.5, -2.0),),
        SparePool(0, -1, 10.0),
    )  # fmt: skip
    with pytest.raises(ParameterError) as caught:
        simulate(broken)
    for word in ("tau_s = 0", "delta_s = -1", "memory.interval_s = nan", "mean of a.uptime = 0",
                 "a.detect_s = -5", "a.loss_s = -1", "'tape'", "both or none", "slow.ratio = 1.5",
                 "slow.pause_s = -2", "nodes = 0", "spares = -1", "named 'a'"):  # fmt: skip
        assert word in str(caught.value), word
    with pytest.raises(ParameterError, match="whole multiple"):
        simulate(replace(TIERED, checkpointing=Checkpointing(1000, 1, memory=MemoryTier(300))))
    with pytest.raises(ParameterError, match="parts sum to 90 s"):
        simulate(replace(TIERED, stops=(stop("a", 1, 0, 60, parts={"load": 90}),)))
    with pytest.raises(ParameterError, match="fewer than nodes"):
        simulate(replace(TIERED, pool=SparePool(4, 0, 1.0, 4)))
