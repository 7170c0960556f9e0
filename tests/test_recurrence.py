"""Trend tests, power law, mean cumulative function, dispersion: beyond the known answers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pipeline.durations import DurationsError
from pipeline.recurrence import (
    crow_amsaa,
    crow_amsaa_grouped,
    dispersion,
    mean_cumulative,
    trend,
)


def test_laplace_by_hand():
    # times 1, 2, 9 of 12: (4 - 6) / (12 sqrt(1/36)) = -1
    found = trend([9, 1, 2], 12)
    assert found.laplace_u == pytest.approx(-1)
    assert found.laplace_p == pytest.approx(2 * stats.norm.cdf(-1))
    assert found.mil_hdbk_189_chi2 == pytest.approx(2 * np.log(12**3 / 18))
    assert found.df == 6
    assert found.mil_hdbk_189_p == pytest.approx(2 * min(
        stats.chi2.cdf(found.mil_hdbk_189_chi2, 6), stats.chi2.sf(found.mil_hdbk_189_chi2, 6)
    ))  # fmt: skip
    assert found.verdict == "too_few_events"


def test_last_failure_ends_a_failure_terminated_history():
    ended, cut = trend([1, 2, 9, 12], 99, failure_terminated=True), trend([1, 2, 9], 12)
    assert (ended.laplace_u, ended.mil_hdbk_189_chi2, ended.df) == (
        cut.laplace_u, cut.mil_hdbk_189_chi2, cut.df,
    )  # fmt: skip
    assert (ended.n_events, cut.n_events) == (4, 3)


def test_verdict_needs_both_tests_and_eight_events():
    late = [50, 70, 80, 85, 90, 94, 97, 99]
    assert trend(late, 100).verdict == "worsening"
    assert trend([100 - t for t in late], 100).verdict == "improving"
    assert trend(late[1:], 100).verdict == "too_few_events"
    assert trend(range(5, 100, 10), 100).verdict == "none"


def test_nothing_to_test_is_null():
    assert trend([], 10) is None
    assert trend([10], 10, failure_terminated=True) is None
    assert crow_amsaa([], 10) is None
    assert crow_amsaa([10], 10, failure_terminated=True) is None


@pytest.mark.parametrize("times", [[0.0, 1.0], [-1.0], [5.0, 11.0], [np.nan]])
def test_times_outside_the_observation_are_refused(times):
    with pytest.raises(DurationsError, match="outside the observation"):
        trend(times, 10)


def test_homogeneous_histories_are_rejected_at_the_nominal_share():
    """1,000 homogeneous histories: 3-7 % rejected at 5 %, by each test."""
    rng = np.random.default_rng(0)
    found = [trend(rng.uniform(0, 1, max(rng.poisson(20), 2)), 1) for _ in range(1_000)]
    assert 0.03 <= np.mean([f.laplace_p < 0.05 for f in found]) <= 0.07
    assert 0.03 <= np.mean([f.mil_hdbk_189_p < 0.05 for f in found]) <= 0.07


def test_power_law_intervals_cover_the_truth():
    """600 histories of beta 1.5, about 30 events: 95 % covered within 3 standard errors."""
    rng = np.random.default_rng(1)
    hits = np.zeros(2)
    for _ in range(600):
        law = crow_amsaa(rng.random(rng.poisson(30)) ** (1 / 1.5), 1)
        hits += (
            law.beta_low <= 1.5 <= law.beta_high,
            (law.end_intensity_low <= 45 <= law.end_intensity_high),
        )
    assert np.all(hits / 600 >= 0.923)
    assert np.all(hits / 600 <= 0.977)


def test_end_intensity_is_that_of_the_power_law():
    law = crow_amsaa([1, 2, 9], 12)
    assert law.end_intensity == pytest.approx(law.scale * law.beta * 12 ** (law.beta - 1))
    assert law.scale * 12**law.beta == pytest.approx(3)


def test_counts_that_accumulate_are_refused():
    with pytest.raises(DurationsError, match="not cumulative"):
        crow_amsaa_grouped([0, 200, 400, 600, 3000], [2, 3, 4, 11], 11)


def test_grouped_counts_in_fine_intervals_approach_the_exact_times():
    times = np.array([5.0, 40.0, 43.0, 175.0, 389.0, 712.0, 747.0, 795.0, 1299.0, 1478.0])
    edges = np.linspace(0, 1500, 15_001)
    counts, _ = np.histogram(times, edges)
    beta, scale = crow_amsaa_grouped(edges.tolist(), counts.tolist(), 10)
    exact = crow_amsaa(times, 1500)
    assert beta == pytest.approx(exact.beta, rel=1e-3)
    assert scale == pytest.approx(exact.scale, rel=1e-2)


def test_failures_in_one_end_interval_have_no_power_law():
    with pytest.raises(DurationsError, match="no beta"):
        crow_amsaa_grouped([0, 1, 2], [0, 3], 3)


def test_mean_cumulative_of_units_alike_has_no_variance():
    curve = mean_cumulative([[1, 3], [1, 3], [1, 3]], [5, 5, 5])
    assert curve.value.tolist() == [1, 2]
    assert curve.variance == pytest.approx([0, 0], abs=1e-15)


def test_mean_cumulative_interval_covers_units_that_depend_on_themselves():
    """Units with rates of their own: robust variance sees it, the independent one does not."""
    rng = np.random.default_rng(4)
    hits, loose = 0, 0
    for _ in range(120):
        rates = rng.gamma(0.8, 5, 60)
        curve = mean_cumulative([np.sort(rng.random(rng.poisson(r))) for r in rates], np.ones(60))
        hits += curve.low[-1] <= 4 <= curve.high[-1]
        loose += abs(curve.value[-1] - 4) <= 1.96 * np.sqrt(curve.variance_independent[-1])
    assert hits / 120 >= 0.88
    assert loose / 120 <= 0.80


def test_failure_behind_the_end_of_a_unit_is_refused():
    with pytest.raises(DurationsError, match="unit 2"):
        mean_cumulative([[1], [3]], [2, 2])


def test_dispersion_of_bursts_and_of_a_poisson_process():
    rng = np.random.default_rng(6)
    bursts = rng.poisson(1, 40) * 5
    assert dispersion(bursts).is_overdispersed
    shares = [dispersion(rng.poisson(3, 30)).is_overdispersed for _ in range(400)]
    assert np.mean(shares) <= 0.05


def test_few_windows_claim_nothing():
    found = dispersion([0, 9, 0, 9])
    assert found.index > 1.5
    assert (found.p, found.is_overdispersed) == (None, None)
    assert dispersion([0, 0, 0]) is None
