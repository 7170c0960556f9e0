"""Intervals of predicted TOR: the derivation's check values, and what widens them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from pipeline import tor
from pipeline.random_times import Empirical, Exponential
from pipeline.scenario import Checkpointing, FailStop, Scenario
from pipeline.uncertainty import draw_terms, tor_interval
from tests.scenarios import HOUR, one_type


def counted(n: int, exposure_s: float, down: object = 900.0) -> Scenario:
    mean = exposure_s / n if n else math.inf
    stop = FailStop("failure", Exponential(mean), down, n_events=n, exposure_s=exposure_s)
    return Scenario(Checkpointing(1800, 20), (stop,))


@pytest.mark.parametrize(
    ("n", "hours", "low", "high"),
    [(4, 100, 0.9429, 0.9823), (5, 1296, 0.9848, 0.9883), (20, 1296, 0.9775, 0.9842),
     (419, 1296, 0.8291, 0.8548)],
)  # fmt: skip
def test_acceptance_a10_intervals_of_counted_failures(n, hours, low, high):
    scenario = counted(n, hours * HOUR)
    rng = np.random.default_rng(1)
    found = tor_interval(scenario, rng, restarts_fail=False, n_draws=50_000)
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.001)
    if n == 419:
        assert found.median == pytest.approx(0.8422, abs=0.001)
    if n == 4:
        assert tor.exponential(1800, 20, 900, 25 * HOUR) == pytest.approx(0.96935, abs=5e-6)


def test_exact_parameters_leave_no_interval():
    exact = one_type(1800, 20, 600, 300, 10800)
    assert tor_interval(exact, np.random.default_rng(1), restarts_fail=True) is None


def test_type_without_failures_counts_in_the_interval_alone():
    scenario = counted(0, 100 * HOUR)
    found = tor_interval(scenario, np.random.default_rng(1), restarts_fail=True)
    assert found.low < found.median < found.high <= 1800 / 1820
    rates = draw_terms(scenario, np.random.default_rng(1), 100_000).rate
    assert rates.mean() == pytest.approx(0.5 / (100 * HOUR), rel=0.02)


def test_few_observed_durations_widen_the_interval():
    sure = counted(400, 400 * 3 * HOUR)
    few = replace(sure, stops=(replace(sure.stops[0], detect_s=Empirical([60.0, 300.0, 2340.0])),))
    widths = []
    for scenario in (sure, few):
        found = tor_interval(scenario, np.random.default_rng(1), restarts_fail=True)
        widths.append(found.high - found.low)
    assert widths[1] > 2 * widths[0]


def test_bootstrap_spreads_like_the_standard_error_of_the_mean():
    values = np.random.default_rng(3).exponential(100, 1000)
    scenario = counted(5, 5 * HOUR, Empirical(values))
    means = draw_terms(scenario, np.random.default_rng(1), 8000).detect_s[0]
    assert means.mean() == pytest.approx(values.mean(), rel=0.01)
    assert means.std() == pytest.approx(values.std() / math.sqrt(1000), rel=0.05)
