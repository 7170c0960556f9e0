"""Predictions of scenarios: the method that is chosen, the result's fields, what would help."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from pipeline import mixtures, tor
from pipeline.checkpoint_interval import Storage
from pipeline.closed_form import ASSUMPTIONS, closed_form, form_of
from pipeline.errors import ParameterError
from pipeline.predict import predict
from pipeline.random_times import Empirical, Exponential, Frozen, distance_from_exponential
from pipeline.replica_limits import SimulationError
from pipeline.replicas import simulate
from pipeline.scenario import (
    Aftershocks,
    Checkpointing,
    FailStop,
    MemoryTier,
    Scenario,
    SparePool,
)
from pipeline.what_helps import optimum, with_interval
from tests.scenarios import HARSH, HOUR, LLAMA, MILD, one_type, slow, stop
from tests.test_tor import CHECKS

ONE = one_type(1800, 20, 600, 300, 10800)


@pytest.mark.parametrize("row", CHECKS)
def test_one_type_is_form_3_or_form_2(row):
    tau, delta, detect, restart, mtbf, latency = row[:6]
    found = predict(one_type(*row[:6]))
    assert (found.method, found.form) == ("closed", "(3)")
    assert found.tor == pytest.approx(row[6], abs=5.01e-6)
    free = predict(replace(one_type(*row[:6]), restarts_fail=False), method="closed")
    assert free.form == "(2)"
    wanted = tor.exponential(tau, delta, detect + restart, mtbf, latency)
    assert free.tor == pytest.approx(float(wanted), rel=1e-12)


def test_form_follows_the_scenario():
    uptime = Frozen(stats.weibull_min(0.7, scale=9000))
    weibull = Scenario(Checkpointing(1800, 20), (FailStop("a", uptime, 0.0, 900.0),))
    turns = replace(slow(1 / 9000, 600, 0.5, 0), is_overlapping=False)
    tiered = replace(
        HARSH, checkpointing=Checkpointing(1200, 30, memory=MemoryTier(300, 1)),
        stops=(replace(HARSH.stops[0], tier="memory"), HARSH.stops[1]),
    )  # fmt: skip
    forms = {
        "phi": Scenario(Checkpointing(1800, 20)),
        "(1)": weibull,
        "(2)": replace(ONE, restarts_fail=False),
        "(3)": ONE,
        "(5)": Scenario(Checkpointing(1800, 20), (), (turns,)),
        "(8)": LLAMA,
        "(9)": tiered,
    }
    assert {name: form_of(s) for name, s in forms.items()} == {name: name for name in forms}
    assert set(ASSUMPTIONS) == set(forms)
    for name, scenario in forms.items():
        closed = closed_form(scenario)
        total = closed.tor + sum(sum(x.values()) for x in closed.losses.values())
        assert total == pytest.approx(1, abs=1e-9), name
        assert predict(scenario, method="closed").assumptions[: len(ASSUMPTIONS[name])] == (
            ASSUMPTIONS[name])  # fmt: skip
    free = closed_form(replace(weibull, restarts_fail=False))
    assert free.tor == pytest.approx(tor.renewal(uptime, 1800, 20, 900))


def test_form_1_with_failing_restarts_is_form_3_for_exponential_times_and_agrees_with_simulation():
    plan = Checkpointing(1800, 20)
    same = FailStop("a", Frozen(stats.expon(scale=10800)), 600.0, 3000.0)
    wanted = tor.complete(1800, 20, 600, 3000, 10800)
    assert closed_form(Scenario(plan, (same,))).form == "(1)"
    assert closed_form(Scenario(plan, (same,))).tor == pytest.approx(float(wanted), rel=1e-6)
    uptime, restart = Frozen(stats.weibull_min(0.6, scale=9000)), Frozen(stats.gamma(3, scale=900))
    scenario = Scenario(plan, (FailStop("a", uptime, 600.0, restart),))
    found = simulate(scenario, seed=3)
    assert abs(found.tor - closed_form(scenario).tor) <= 3 * found.standard_error


def test_simulation_is_chosen_where_closed_forms_disagree_and_says_so():
    found = predict(HARSH, seed=5)
    assert found.method == "simulate"
    assert found.simulated_tor == found.tor
    assert found.standard_error < 1e-3
    assert found.flags[0] == (
        "closed forms disagree by 2.5 points (form (8) 0.667, first order 0.642): simulated"
    )
    assert any("closed form (8) gives 0.6670" in x for x in found.flags)
    assert "seed 5" in found.assumptions[0]
    assert predict(HARSH, method="closed").tor == pytest.approx(0.66699, abs=5e-6)
    assert any("consider --method simulate" in x for x in predict(HARSH, method="closed").flags)
    assert predict(MILD).method == "closed"
    assert predict(LLAMA).method == "closed"


def test_simulation_is_chosen_where_no_closed_form_holds():
    lognormal = Frozen(stats.lognorm(1.5, scale=20000))
    cases = {
        "far from exponential": replace(
            MILD, stops=(replace(MILD.stops[0], uptime=lognormal), stop("b", 1e-7, 60, 60))
        ),
        "bursts": replace(
            ONE,
            stops=(replace(ONE.stops[0], aftershocks=Aftershocks(0.3, Exponential(600))),),
        ),
        "restarts take more than 0.3": one_type(60, 1, 0, 400, 1200),
        "spares": replace(ONE, pool=SparePool(8, 1, Exponential(3600))),
        "overlap": Scenario(Checkpointing(1800, 5, 4000, MemoryTier(300, 1)), ONE.stops),
    }
    for words, scenario in cases.items():
        found = predict(scenario, n_replicas=50)
        assert found.method == "simulate", words
        assert any(words in x and x.endswith("simulated") for x in found.flags), words
        total = found.tor + sum(row.share for row in found.losses)
        assert total == pytest.approx(1, abs=1e-6)


def test_distance_from_the_exponential_law():
    for shape, wanted in ((0.8, 0.085), (1.25, 0.077)):
        law = Frozen(stats.weibull_min(shape, scale=3600))
        assert distance_from_exponential(law) == pytest.approx(wanted, abs=0.001)
    assert distance_from_exponential(Frozen(stats.expon(scale=5))) < 1e-9
    assert distance_from_exponential(Empirical([5.0])) == pytest.approx(1 - math.exp(-1))


def test_what_cannot_be_simulated_is_answered_in_closed_form_unless_asked_for():
    hopeless = one_type(60, 1, 0, 3600, 300)
    found = predict(hopeless)
    assert found.method == "closed"
    assert any(x.startswith("not simulated: a restart of 3600 s") for x in found.flags)
    with pytest.raises(SimulationError):
        predict(hopeless, method="simulate")


def test_losses_are_sorted_and_sum_to_the_rest():
    for found in (predict(LLAMA), predict(HARSH)):
        shares = [row.share for row in found.losses]
        assert shares == sorted(shares, reverse=True)
        assert found.tor + sum(shares) == pytest.approx(1)
    assert [row.type for row in predict(LLAMA).losses] == [
        "gpu", "other", "software", "checkpoint", "slow"]  # fmt: skip


def test_optimum_is_where_the_closed_form_is_highest():
    for scenario in (ONE, LLAMA, HARSH):
        best = optimum(scenario)
        reached = closed_form(with_interval(scenario, best.exact)).tor
        for factor in (0.97, 1.03):
            assert closed_form(with_interval(scenario, best.exact * factor)).tor < reached
        assert best.tor == pytest.approx(reached)
        assert best.gain == pytest.approx(reached - closed_form(scenario).tor)
    assert optimum(ONE).exact == pytest.approx(644.0, abs=0.05)


def test_optimum_of_two_tiers_is_a_whole_number_of_copies():
    scenario = Scenario(
        Checkpointing(3600, 60, memory=MemoryTier(300, 2)),
        (stop("soft", 1 / 7200, 30, 120, tier="memory"), stop("hard", 1 / 72000, 300, 900)),
    )
    best = optimum(scenario).exact
    candidates = [300.0 * n for n in range(1, 60)]
    reached = [closed_form(with_interval(scenario, t)).tor for t in candidates]
    assert best == candidates[int(np.argmax(reached))]


def test_optimum_says_when_it_means_little():
    assert "gain 3.0 points" in optimum(ONE).flags[0]
    assert "644 s instead of 1800 s" in optimum(ONE).flags[0]
    assert optimum(one_type(650, 20, 600, 300, 10800)).flags == ()
    assert "at every step" in optimum(one_type(10, 0.02, 30, 60, 10800)).flags[0]
    assert "several are under way" in optimum(one_type(600, 20, 0, 0, 10800, 700)).flags[0]
    slow_storage = optimum(one_type(600, 20, 600, 300, 10800), Storage(9e12, 1e10))
    assert slow_storage.within_storage == 880
    assert any("pile up" in x for x in slow_storage.flags)
    assert any("the storage, not the failures" in x for x in slow_storage.flags)
    none = optimum(Scenario(Checkpointing(60), (stop("a", 1e-4, 5, 5, loss_s=1.0),)))
    assert none.exact is none.young is none.daly is none.gain is None


def test_what_would_help_is_what_the_closed_form_gains():
    gains = dict(predict(ONE).sensitivities)
    cheaper = one_type(1800, 10, 600, 300, 10800)
    assert gains["checkpoint cost halved"] == pytest.approx(
        closed_form(cheaper).tor - closed_form(ONE).tor
    )
    rarer = one_type(1800, 20, 600, 300, 21600)
    assert gains["failure: half as often"] == pytest.approx(
        closed_form(rarer).tor - closed_form(ONE).tor
    )
    assert "checkpoint latency halved" not in gains
    assert list(gains.values()) == sorted(gains.values(), reverse=True)
    assert {"slow: slow-down halved", "gpu: half as often"} <= set(
        dict(predict(LLAMA).sensitivities)
    )


def test_what_would_help_is_not_told_where_spares_are_limited():
    pooled = replace(ONE, pool=SparePool(8, 1, Exponential(3600)))
    assert predict(pooled, n_replicas=20).sensitivities == ()


def test_counted_failures_give_an_interval_and_few_of_them_a_mark():
    counted = replace(ONE, stops=(replace(ONE.stops[0], n_events=4, exposure_s=43200.0),))
    found = predict(counted)
    assert found.ci_low < found.tor < found.ci_high
    assert any("rests on 4 failures" in x for x in found.flags)
    quiet = FailStop("a", Exponential(math.inf), 60.0, 60.0, n_events=0, exposure_s=HOUR)
    never = replace(ONE, stops=(quiet,))
    unseen = predict(never)
    assert unseen.tor == pytest.approx(1800 / 1820)
    assert unseen.ci_low < unseen.ci_high < unseen.tor
    assert any("no failure of a was seen" in x for x in unseen.flags)
    assert predict(ONE).ci_low is None


def test_impossible_scenarios_are_refused():
    with pytest.raises(ParameterError, match="tau_s = 0"):
        predict(replace(ONE, checkpointing=Checkpointing(0)))


def test_first_order_is_beside_the_answer():
    found = predict(LLAMA)
    assert found.first_order_tor == pytest.approx(mixtures.first_order(LLAMA).tor)
    assert found.closed_tor == found.tor
