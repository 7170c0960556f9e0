"""Chance obeys its laws, and presets give the figures of their sources. Seeds are fixed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pipeline.simulate.engine import simulate
from pipeline.simulate.hazards import Hazards
from pipeline.simulate.history import End
from pipeline.simulate.laws import US_PER_H, Law, LawName
from pipeline.simulate.scenario import load, parse, resized
from pipeline.simulate.truth import truth_of


@pytest.mark.parametrize(
    ("law", "relative_sd"),
    [
        (Law(60), 0),
        (Law(60, LawName.EXPONENTIAL), 1),
        # sd / mean of a Weibull law: sqrt(gamma(1 + 2/k) / gamma(1 + 1/k)^2 - 1)
        (Law(60, LawName.WEIBULL, shape=0.7),
         math.sqrt(math.gamma(1 + 2 / 0.7) / math.gamma(1 + 1 / 0.7) ** 2 - 1)),
        (Law(60, LawName.LOGNORMAL, sigma=0.5), math.sqrt(math.exp(0.25) - 1)),
        (Law(60, LawName.UNIFORM, half_width=0.5), 0.5 / math.sqrt(3)),
    ],
)  # fmt: skip
def test_draws_have_the_mean_and_spread_of_their_law(law, relative_sd):
    drawn = law.draw(np.random.default_rng(1), 1_000_000)
    assert drawn.mean() == pytest.approx(60, rel=0.01)
    assert drawn.std() / 60 == pytest.approx(relative_sd, abs=0.015)


def hazards_of(seed=0, n_nodes=50, **failure):
    scenario = parse(
        {"title": "t", "cluster": {"nodes": n_nodes, "lemon_nodes": 1, "lemon_factor": 20},
         "run": [{"name": "a", "nodes": n_nodes}], "failure": [{"story": "gpu_bus"} | failure]},
        "test",
    )  # fmt: skip
    return Hazards(resized(scenario, None, None), np.random.default_rng(seed), 0)


def strikes(hazards, nodes, hours):
    """All strikes on a job that is up for so many hours."""
    found, now_us = [], 0
    while True:
        strike = hazards.next_strike(0, nodes, now_us)
        if strike.at_us > hours * US_PER_H:
            return found
        hazards.expose(0, nodes, strike.at_us - now_us)
        hazards.renew(strike)
        found.append(strike)
        now_us = strike.at_us


@pytest.mark.parametrize(("clock", "units"), [("gpu", 49 * 8), ("node", 49), ("job", 1)])
def test_a_count_is_the_mean_number_of_failures(clock, units):
    # the lemon node stands aside, so that 49 of 50 nodes are at work
    hazards = hazards_of(clock=clock, count=500, calibration_days=10)
    lemon = int(np.argmax(hazards.frailty))
    nodes = [n for n in range(50) if n != lemon]
    share = 1 if clock == "job" else 49 / 50
    assert len(strikes(hazards, nodes, 240)) == pytest.approx(500 * share, abs=4 * math.sqrt(500))


def test_a_lemon_node_fails_as_often_as_its_factor_says():
    hazards = hazards_of(clock="node", count=1000, calibration_days=10)
    lemon = int(np.argmax(hazards.frailty))
    n_lemon = sum(s.nodes[0] == lemon for s in strikes(hazards, list(range(50)), 240))
    assert n_lemon == pytest.approx(20 * 20, abs=4 * 20)  # 1000 / 50 x 20


def test_llama3_has_its_published_interruptions():
    (truth,) = truth_of(simulate(resized(load("llama3"), None, None), seed=1))
    run = truth.history
    assert run.spec.nodes * 8 == 16_384
    assert len(run.incidents) == pytest.approx(419, abs=3 * math.sqrt(419))
    n_planned = sum(x.end is End.MAINTENANCE for x in run.launches)
    assert n_planned == pytest.approx(47, abs=3 * math.sqrt(47))
    assert truth.tor > 0.90
    # no more than 16.69 minutes each over 466 interruptions, if 90 % is met
    lost_s = sum(p.duration_us for p in truth.pieces if p.category != "productive") / 1e6
    assert lost_s / 60 / (len(run.incidents) + n_planned) < 16.69


def test_hundred_k_fails_every_18_minutes_and_growth_is_superlinear():
    def wall_minutes_between_failures(nodes):
        (truth,) = truth_of(simulate(resized(load("hundred-k"), nodes, 1), seed=1))
        failures = [i for i in truth.history.incidents if i.detection is not None]
        return 24 * 60 / len(failures), truth.tor

    full, tor = wall_minutes_between_failures(None)
    assert full == pytest.approx(18, rel=0.25)  # 80 failures a day
    assert tor == pytest.approx(0.80, abs=0.04)
    third, _ = wall_minutes_between_failures(4200)
    assert third / full == pytest.approx(3**1.9, rel=0.5)


def test_retry_chains_have_their_published_lengths():
    (truth,) = truth_of(simulate(resized(load("retry-chains"), None, 300), seed=2))
    chains = [i for i in truth.history.incidents if i.story == "gpu_hbm"]
    assert len(chains) == pytest.approx(60, abs=4 * math.sqrt(60))
    lengths = np.array([i.n_attempts for i in chains])
    assert lengths.mean() == pytest.approx(69 / 12, abs=1.1)
    assert (lengths < 7).mean() == pytest.approx(1 / 3, abs=0.24)


def test_bloom_leaves_its_jobs_before_their_limit():
    (truth,) = truth_of(simulate(resized(load("bloom"), None, None), seed=1))
    ends = [x.end for x in truth.history.launches]
    assert ends.count(End.EXIT_BEFORE_LIMIT) > 20
    assert End.TIME_LIMIT not in ends
