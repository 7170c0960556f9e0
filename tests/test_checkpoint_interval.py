"""The best checkpoint interval: published values, the maximum itself, slow storage."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import checkpoint_interval as interval
from pipeline import tor
from pipeline.errors import ParameterError

# delta, R, M, Young, Daly first order, Daly, exact, TOR at Young, exact, exact / 2, 2 x exact
CHECKS = [
    (20, 300, 10800, 657.3, 646.3, 644.0, 644.0, 0.914597, 0.914608, 0.90130, 0.90091),
    (60, 600, 10800, 1138.4, 1109.6, 1098.8, 1098.8, 0.849665, 0.849719, 0.82899, 0.82793),
    (300, 600, 28440, 4130.9, 3874.2, 3933.3, 3933.3, 0.843568, 0.843708, 0.81613, 0.81421),
    (300, 300, 3600, 1469.7, 1229.7, 1276.5, 1276.9, 0.591600, 0.593716, 0.54788, 0.53967),
]


@pytest.mark.parametrize("row", CHECKS)
def test_acceptance_a7_optimum_gives_the_check_values(row):
    delta, restart, mtbf, young, daly_first, daly, exact = row[:7]
    assert interval.young(delta, mtbf) == pytest.approx(young, abs=0.0501)
    assert interval.daly_first_order(delta, mtbf, restart) == pytest.approx(daly_first, abs=0.0501)
    assert interval.daly(delta, mtbf) == pytest.approx(daly, abs=0.0501)
    best = interval.exact(delta, mtbf)
    assert best == pytest.approx(exact, abs=0.0501)
    taus = (interval.young(delta, mtbf), best, best / 2, 2 * best)
    for tau, wanted, digits in zip(taus, row[7:], (6, 6, 5, 5), strict=True):
        reached = tor.complete(tau, delta, 0, restart, mtbf)
        assert reached == pytest.approx(wanted, abs=0.501 * 10**-digits), tau
    assert tor.complete(best, delta, 0, restart, mtbf) - tor.complete(
        taus[0], delta, 0, restart, mtbf
    ) < 0.003  # fmt: skip


def test_acceptance_a7_published_examples():
    # mean time between interruptions 6,000 s, repair 600 s, save 10 s, step 15 s
    between_saves = interval.daly_first_order(10, 6000, 600) + 10
    assert between_saves == pytest.approx(363.3, abs=0.05)
    assert round(between_saves / 15) == 24
    assert interval.saxena_period(10, 6000, 600) == pytest.approx(373.5, abs=0.1)


@given(st.floats(1e-6, 1e4), st.floats(1, 1e7), st.floats(0, 1e4), st.floats(1.01, 30))
@settings(max_examples=300, deadline=None)
def test_optimum_is_the_single_maximum(delta, mtbf, down, factor):
    best = interval.exact(delta, mtbf)
    assert 0 < best <= mtbf
    reached = [
        tor.complete(best * f, delta, down, down, mtbf)
        for f in (1 / factor**2, 1 / factor, 1, factor, factor**2)
    ]
    slack = 1e-12
    assert reached[0] <= reached[1] + slack
    assert reached[1] <= reached[2] + slack
    assert reached[3] <= reached[2] + slack
    assert reached[4] <= reached[3] + slack


@given(st.floats(-12, -4), st.floats(1, 1e9))
def test_optimum_is_smooth_where_the_series_takes_over(exponent, mtbf):
    delta = 10**exponent * mtbf
    assert interval.exact(delta, mtbf) == pytest.approx(interval.daly(delta, mtbf), rel=1e-5)
    near = interval.exact(delta * (1 + 1e-3), mtbf) / interval.exact(delta, mtbf)
    assert near == pytest.approx(math.sqrt(1 + 1e-3), rel=2e-5)


def test_limits_of_the_optimum():
    assert interval.exact(0, 3600) == 0
    assert interval.exact(1e9, 3600) == pytest.approx(3600)
    assert interval.daly(1e9, 3600) == 3600


def test_storage_that_cannot_keep_up_sets_the_interval():
    storage = interval.Storage(checkpoint_bytes=9e12, bandwidth_bytes_per_s=1e10)
    assert storage.write_s == 900
    assert interval.within(644.0, storage, 20) == 880  # the save must end before the next begins
    assert interval.within(1000.0, storage, 20) == 1000
    assert interval.within(644.0, None, 20) == 644
    assert interval.within(644.0, interval.Storage(1e9, 1e10), 20) == 644
    # nothing shorter is allowed, and beyond the optimum TOR falls
    there, longer = (tor.complete(tau, 20, 0, 300, 10800) for tau in (880, 1000))
    assert there > longer


def test_impossible_values_are_named():
    with pytest.raises(ParameterError, match=r"(?s)delta_s = -1.*mtbf_up_s = 0"):
        interval.exact(-1, 0)
    with pytest.raises(ParameterError, match="bandwidth_bytes_per_s = nan"):
        interval.Storage(1, math.nan)
