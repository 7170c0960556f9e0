"""Several failure types in closed form: check values, additive losses, tiers, limits, monotony."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import mixtures, tor
from pipeline.random_times import Exponential
from pipeline.scenario import Checkpointing, FailSlow, FailStop, MemoryTier, Scenario
from tests.scenarios import HARSH, HOUR, LLAMA, MIXTURES, one_type, stop
from tests.test_tor import CHECKS


def value(scenario: Scenario, *, restarts_fail: bool = False) -> float:
    return float(mixtures.combined(scenario, restarts_fail=restarts_fail).tor[0])


@pytest.mark.parametrize("name", MIXTURES)
def test_mixtures_give_the_check_values(name):
    scenario, simulated, first_order, combined = MIXTURES[name]
    assert mixtures.first_order(scenario).tor == pytest.approx(first_order, abs=5.01e-6)
    assert value(scenario) == pytest.approx(combined, abs=5.01e-6)
    assert value(scenario) == pytest.approx(simulated, abs=0.004)


def test_intermediate_values_of_a_mixture():
    split = mixtures.combined(LLAMA)
    assert split.mtbf_up_s[0] == pytest.approx(11135.08, abs=5e-3)
    assert split.down_s[0] == pytest.approx(819.809, abs=5e-4)
    assert split.speed[0] == pytest.approx(0.992437, abs=5e-7)
    assert split.pause[0] == pytest.approx(0.00257005, abs=5e-9)
    budget = mixtures.first_order(LLAMA)
    wanted = {"gpu": (0.042910, 0.028292), "software": (0.010532, 0.017361),
              "other": (0.028281, 0.027971), "slow": (0.008333, 0.002778)}  # fmt: skip
    for name, (redone, down) in wanted.items():
        assert budget.redone[name] == pytest.approx(redone, abs=5.01e-7)
        assert budget.down[name] == pytest.approx(down, abs=5.01e-7)


@pytest.mark.parametrize("row", CHECKS)
def test_one_type_is_the_form_of_one_type(row):
    tau, delta, detect, restart, mtbf, latency = row[:6]
    scenario = one_type(*row[:6])
    assert value(scenario) == pytest.approx(
        tor.exponential(tau, delta, detect + restart, mtbf, latency), rel=1e-12
    )
    assert value(scenario, restarts_fail=True) == pytest.approx(
        tor.complete(tau, delta, detect, restart, mtbf, latency), rel=1e-12
    )
    assert mixtures.first_order(scenario).tor == pytest.approx(
        tor.first_order(tau, delta, detect, restart, mtbf, latency), rel=1e-12
    )


def test_equal_types_are_one_type():
    halves = replace(LLAMA, slows=(), stops=tuple(
        stop(name, 1 / 20000, 300, 600) for name in ("a", "b")))  # fmt: skip
    whole = replace(LLAMA, slows=(), stops=(stop("a", 1 / 10000, 300, 600),))
    for restarts_fail in (False, True):
        assert value(halves, restarts_fail=restarts_fail) == pytest.approx(
            value(whole, restarts_fail=restarts_fail), rel=1e-12
        )


def test_slow_type_that_never_strikes_changes_nothing():
    never = replace(HARSH.slows[0], onset=Exponential(math.inf))
    bare = replace(HARSH, slows=())
    assert value(replace(HARSH, slows=(never,))) == pytest.approx(value(bare), rel=1e-12)
    assert value(replace(HARSH, stops=())) < value(replace(HARSH, stops=(), slows=()))
    assert value(replace(HARSH, stops=(), slows=())) == pytest.approx(1200 / 1230, rel=1e-12)


def test_alternating_scenario_is_the_alternating_form():
    slow = FailSlow("slow", Exponential(21600.0), 1800.0, 0.7, 300.0, 900.0, is_overlapping=False)
    split = mixtures.alternating(Scenario(Checkpointing(1800, 20), (), (slow,)))
    phi = 1800 / 1820
    assert split.tor[0] == pytest.approx(phi * 0.92658, abs=5e-6)
    assert split.tor[0] + sum(x.share[0] for x in split.losses) == pytest.approx(1, abs=1e-12)
    shares = {x.cause: x for x in split.losses}
    assert shares["slow"].down[0] == pytest.approx(300 / 23700)
    assert shares["checkpoint"].slow[0] == pytest.approx(23400 / 23700 * (1 - phi))
    # beside the mixture form: the share of degraded time is the same, only phi enters otherwise
    free = Scenario(Checkpointing(1800, 0), (), (slow,))
    assert value(free) == pytest.approx(float(mixtures.alternating(free).tor[0]), rel=1e-12)


def test_own_loss_replaces_the_roll_back():
    # FlashRecovery: 150 s down and at most the running step, no stall
    free = stop("a", 1 / 10800, 0, 150, loss_s=5.0)
    scenario = Scenario(Checkpointing(1800, 0), (free,))
    assert value(scenario) == pytest.approx((1 - 5 / 10800) / (1 + 150 / 10800), rel=1e-12)
    everything = replace(free, loss_s=20000.0)  # more is redone than is done
    assert value(replace(scenario, stops=(everything,))) == 0


def test_published_recovery_without_checkpoints():
    # acceptance: 4,800 devices recover in 150 s; one step of 10 s (5, 30) is lost at most
    for step, wanted in ((10, 0.98584), (5, 0.98607), (30, 0.98493)):
        assert tor.exponential(step, 0, 150, 10800) == pytest.approx(wanted, abs=5e-6)


def test_two_tiers_by_hand():
    # failures: 1/h that a copy survives, none else: the durable interval does not matter
    plan = Checkpointing(3600, 20, memory=MemoryTier(600, 20))
    soft = Scenario(plan, (stop("soft", 1 / HOUR, 0, 60, tier="memory"),))
    assert value(soft) == pytest.approx(tor.exponential(600, 20, 60, 3600), rel=1e-12)
    # one failure in ten needs the durable tier; mean up time to bank n intervals from a recursion
    stops = (
        stop("soft", 0.9 / HOUR, 0, 60, tier="memory"),
        stop("hard", 0.1 / HOUR, 0, 600),
    )
    period, cost, down, n = 620.0, 3600.0, 0.9 * 60 + 0.1 * 600, 6
    ok = math.exp(-period / 3600)
    # E_k = (1 - ok)(M + down) + ok E_{k+1} + (1 - ok)(0.9 E_k + 0.1 E_0), E_n = 0: solve for E_0
    matrix, right = np.zeros((n, n)), np.full(n, (1 - ok) * (cost + down))
    for k in range(n):
        matrix[k, k] += 1 - (1 - ok) * 0.9
        matrix[k, 0] -= (1 - ok) * 0.1
        if k + 1 < n:
            matrix[k, k + 1] -= ok
    wanted = 3600 / np.linalg.solve(matrix, right)[0]
    assert value(Scenario(plan, stops)) == pytest.approx(wanted, rel=1e-12)


def test_tier_of_one_copy_is_no_tier():
    plain = one_type(1800, 20, 60, 300, 7200)
    tiered = replace(plain, checkpointing=Checkpointing(1800, 20, memory=MemoryTier(1800, 5)))
    assert value(tiered) == pytest.approx(value(plain), rel=1e-12)


def test_standing_overhead_slows_everything():
    scenario = replace(HARSH, stops=(), slows=(), steady_ratio=0.9)
    assert value(scenario) == pytest.approx(1200 / (1200 / 0.9 + 30), rel=1e-12)
    split = mixtures.combined(scenario)
    assert {x.cause for x in split.losses} == {"checkpoint", "overhead"}


def test_draws_are_columns():
    terms = mixtures.stop_terms(LLAMA)
    twice = mixtures.StopTerms(
        np.hstack([terms.rate, 2 * terms.rate]), terms.detect_s, terms.restart_s
    )
    split = mixtures.combined(LLAMA, twice)
    doubled = replace(LLAMA, stops=tuple(
        replace(s, uptime=Exponential(s.uptime.mean / 2)) for s in LLAMA.stops))  # fmt: skip
    assert split.tor == pytest.approx([value(LLAMA), value(doubled)], rel=1e-12)


def test_extremes_give_limits():
    assert value(one_type(1800, 20, 600, 300, 1e-290), restarts_fail=True) == 0
    assert value(one_type(1e290, 20, 600, 300, 3600)) == 0
    assert value(one_type(1800, 20, 600, 300, 1e300)) == pytest.approx(1800 / 1820, rel=1e-12)
    rare = Scenario(Checkpointing(1800, 20, memory=MemoryTier(1, 0)), (
        stop("a", 1e-300, 1, 1, tier="memory"), stop("b", 1e-300, 1, 1)))  # fmt: skip
    assert value(rare) == pytest.approx(1800 / 1820, rel=1e-9)
    often = Scenario(rare.checkpointing, (
        stop("a", 1e300, 1, 1, tier="memory"), stop("b", 1e300, 1, 1)))  # fmt: skip
    assert value(often) == 0


seconds = st.floats(0, 3e4)
means = st.floats(10, 1e7)


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    n = draw(st.integers(1, 6))
    copy = draw(st.floats(1, 3e3))
    memory = MemoryTier(copy, draw(st.floats(0, 60))) if draw(st.booleans()) else None
    plan = Checkpointing(n * copy, draw(st.floats(0, 600)), draw(seconds), memory)
    stops = tuple(
        FailStop(
            f"stop{i}", Exponential(draw(means)), draw(seconds), draw(seconds),
            loss_s=draw(st.none() | seconds), tier=draw(st.sampled_from(["memory", "durable"])),
        )
        for i in range(draw(st.integers(0, 3)))
    )  # fmt: skip
    slows = tuple(
        FailSlow(
            f"slow{i}", Exponential(draw(means)), draw(seconds), draw(st.floats(0.05, 1)),
            draw(seconds), draw(seconds), is_overlapping=draw(st.booleans()),
        )
        for i in range(draw(st.integers(0, 2)))
    )  # fmt: skip
    return Scenario(plan, stops, slows, steady_ratio=draw(st.sampled_from([1.0, 0.97])))


@given(scenarios(), st.booleans())
@settings(max_examples=300, deadline=None)
def test_every_lost_second_has_one_cause(scenario, restarts_fail):
    split = mixtures.combined(scenario, restarts_fail=restarts_fail)
    assert 0 <= split.tor[0] <= 1
    assert all(part[0] >= 0 for x in split.losses for part in (x.redone, x.down, x.slow))
    assert split.tor[0] + sum(x.share[0] for x in split.losses) == pytest.approx(1, abs=1e-9)
    assert len(split.losses) >= 1 + len(scenario.stops) + len(scenario.slows)


@given(scenarios(), st.booleans(), st.floats(1, 10))
@settings(max_examples=300, deadline=None)
def test_tor_falls_with_every_cost(scenario, restarts_fail, factor):
    here = value(scenario, restarts_fail=restarts_fail) + 1e-9
    plan = scenario.checkpointing
    worse = [
        replace(scenario, checkpointing=replace(plan, delta_s=plan.delta_s * factor)),
        replace(scenario, checkpointing=replace(plan, latency_s=plan.latency_s * factor)),
    ]
    for i, s in enumerate(scenario.stops):
        around = scenario.stops[:i], scenario.stops[i + 1 :]
        changed = [replace(s, detect_s=s.detect_s * factor), replace(s, tier="durable"),
                   replace(s, restart_s=s.restart_s * factor)]  # fmt: skip
        if s.loss_s is not None:
            changed.append(replace(s, loss_s=s.loss_s * factor))
        if not scenario.slows and not (restarts_fail and len(scenario.stops) > 1):
            changed.append(replace(s, uptime=Exponential(s.uptime.mean / factor)))
        worse += [replace(scenario, stops=(*around[0], c, *around[1])) for c in changed]
    for j, s in enumerate(scenario.slows):
        around = scenario.slows[:j], scenario.slows[j + 1 :]
        changed = [replace(s, pause_s=s.pause_s * factor), replace(s, loss_s=s.loss_s * factor),
                   replace(s, ratio=s.ratio / factor)]  # fmt: skip
        worse += [replace(scenario, slows=(*around[0], c, *around[1])) for c in changed]
    for other in worse:
        assert value(other, restarts_fail=restarts_fail) <= here
