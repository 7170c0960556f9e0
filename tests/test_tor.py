"""Closed forms of TOR: published and derived check values, limits, monotony, impossible values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pipeline import tor
from pipeline.errors import ParameterError, UsageError
from pipeline.random_times import Empirical, Exponential, Frozen

# tau, delta, D, R, M, L, (3), (2), (4), ETTR estimate of arXiv 2410.21680
CHECKS = [
    (1800, 20, 600, 300, 10800, 0, 0.83666, 0.83817, 0.83601, 0.82418),
    (3600, 60, 1800, 600, 10800, 0, 0.67001, 0.67609, 0.66841, 0.60109),
    (3600, 60, 1800, 600, 10800, 300, 0.65166, 0.65757, 0.64605, None),
    (600, 5, 30, 120, 1800, 0, 0.76778, 0.77020, 0.76160, 0.74380),
    (7200, 300, 600, 900, 28440, 0, 0.79605, 0.79694, 0.79166, 0.78785),
    (60, 0.5, 10, 60, 600, 0, 0.83890, 0.84410, 0.84335, 0.82645),
    (10, 0.02, 30, 60, 10800, 0, 0.98927, 0.98930, 0.98930, 0.98923),
]


@pytest.mark.parametrize("row", CHECKS)
def test_fail_stop_forms_give_the_check_values(row):
    tau, delta, detect, restart, mtbf, latency, complete, exponential, first, ettr = row
    down = detect + restart
    printed = {"abs": 5.01e-6}
    assert tor.complete(tau, delta, detect, restart, mtbf, latency) == pytest.approx(
        complete, **printed
    )
    assert tor.exponential(tau, delta, down, mtbf, latency) == pytest.approx(exponential, **printed)
    assert tor.first_order(tau, delta, detect, restart, mtbf, latency) == pytest.approx(
        first, **printed
    )
    if ettr is not None:
        assert tor.expected_ettr(tau, delta, down, mtbf) == pytest.approx(ettr, **printed)


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [(0.5, 0.85254), (0.7, 0.84334), (1.0, 0.83817), (1.5, 0.83625), (3.0, 0.83601)],
)
def test_weibull_up_times_give_the_check_values(shape, wanted):
    scale = 10800 / math.gamma(1 + 1 / shape)
    uptime = Frozen(stats.weibull_min(shape, scale=scale))
    assert tor.renewal(uptime, 1800, 20, 900) == pytest.approx(wanted, abs=1e-5)


def test_renewal_with_exponential_up_times_is_the_exponential_form():
    for tau, delta, detect, restart, mtbf, latency, *_ in CHECKS:
        assert tor.renewal(
            Exponential(mtbf), tau, delta, detect + restart, latency
        ) == pytest.approx(
            tor.exponential(tau, delta, detect + restart, mtbf, latency), rel=1e-9
        )  # fmt: skip


def test_renewal_sums_heavy_tails_to_their_end():
    # 4 million checkpoints until the tail has gone: the end of the sum is an integral
    uptime = Frozen(stats.weibull_min(0.4, scale=1e5))
    whole = sum(
        float(uptime.survival(np.arange(k, k + 10**6) * 100.0).sum())
        for k in range(1, 5 * 10**6, 10**6)
    )
    wanted = 90.0 * whole / (uptime.mean + 60)
    assert tor.renewal(uptime, 90.0, 10.0, 60.0) == pytest.approx(wanted, rel=1e-8)


def test_renewal_takes_observed_up_times_as_they_are():
    # two up times: 1,000 s holds two periods of 400 s, 300 s none; down 100 s each time
    assert tor.renewal(Empirical([300, 1000]), 390, 10, 100) == pytest.approx(2 * 390 / 1500)


def test_complete_form_without_detection_is_dalys_complete_model():
    tau, delta, restart, mtbf = 1800.0, 20.0, 300.0, 10800.0
    work = 1e6  # Daly 2006: M exp(R/M) (exp((tau+delta)/M) - 1) per interval
    wall = mtbf * math.exp(restart / mtbf) * math.expm1((tau + delta) / mtbf) * work / tau
    assert tor.complete(tau, delta, 0, restart, mtbf) == pytest.approx(work / wall, rel=1e-12)


@pytest.mark.parametrize(
    ("healthy", "degraded", "ratio", "pause", "loss", "wanted"),
    [
        (86400, 1440, 0.6, 0, 0, 0.99344),
        (21600, 1800, 0.7, 300, 900, 0.92658),
        (3600, 600, 0.3, 60, 0, 0.88732),
    ],
)
def test_alternating_form_gives_the_check_values(healthy, degraded, ratio, pause, loss, wanted):
    assert tor.alternating(healthy, degraded, ratio, pause, loss) == pytest.approx(
        wanted, abs=5.01e-6
    )


def test_overlapping_slow_events_give_the_check_values():
    load = np.array([600 / 3600, 3000 / 7200, 10000 / 20000])
    ratio = np.array([0.8, 0.5, 0.9])
    assert tor.synchronous_ratio(load, ratio) == pytest.approx(0.787422, abs=5e-7)
    assert tor.multiplicative_ratio(load, ratio) == pytest.approx(0.747017, abs=5.01e-7)
    assert tor.synchronous_ratio(load[:1], ratio[:1]) == pytest.approx(0.969296, abs=5e-7)


def test_wall_clock_mtbf_is_not_an_up_time_mtbf():
    assert tor.up_mtbf(10800, 900) == 9900
    assert tor.exponential(1800, 20, 900, 10800) == pytest.approx(0.83817, abs=5e-6)
    assert tor.exponential(1800, 20, 900, tor.up_mtbf(10800, 900)) == pytest.approx(
        0.82581, abs=5e-6
    )
    with pytest.raises(ParameterError, match="leaves no up time"):
        tor.up_mtbf(900, 900)


def test_limits():
    assert tor.complete(1800, 20, 600, 300, 1e12) == pytest.approx(1800 / 1820, abs=1e-6)
    assert tor.complete(1800, 20, 600, 300, math.inf) == 1800 / 1820
    assert tor.exponential(1800, 20, 900, math.inf) == 1800 / 1820
    assert tor.first_order(1800, 20, 600, 300, math.inf) == 1800 / 1820
    assert tor.renewal(Exponential(math.inf), 1800, 20, 900) == 1800 / 1820
    assert tor.alternating(math.inf, 600, 0.5, 60) == 1
    assert tor.complete(1800, 20, 600, 300, 100) == pytest.approx(1.6e-9, rel=0.02)
    assert tor.complete(1e-9, 0, 0, 0, 10800) == pytest.approx(1, abs=1e-12)
    for form in (tor.complete, tor.first_order):
        assert form(1800, 20, 600, 300, 1e-300) == 0
        assert form(1e300, 20, 600, 300, 1800) == 0
    assert tor.renewal(Exponential(1e-3), 1800, 20, 900) == 0
    assert tor.expected_ettr(1800, 20, 900, 1e-300) == 0
    assert tor.alternating(3600, 600, 0.3, 0, 1e9) == 0


def test_impossible_values_are_named_all_at_once():
    with pytest.raises(ValueError, match="tau_s") as caught:
        tor.complete(0, -1, math.nan, 5, -3, math.inf)
    assert isinstance(caught.value, UsageError)
    for name in ("tau_s = 0", "delta_s = -1", "detect_s = nan", "mtbf_up_s = -3", "latency_s"):
        assert name in str(caught.value), name
    assert "restart_s" not in str(caught.value)
    with pytest.raises(ParameterError, match=r"ratio = 1\.2"):
        tor.alternating(3600, 60, 1.2)
    with pytest.raises(ParameterError, match="ratio = 0: "):
        tor.alternating(3600, 60, 0)
    with pytest.raises(ParameterError, match=r"mtbf_up_s = -5 to 10"):
        tor.exponential(10, 1, 1, np.array([-5.0, 10.0]))


def test_forms_take_arrays():
    mtbf = np.array([3600.0, 10800.0, math.inf])
    whole = tor.complete(1800, 20, 600, 300, mtbf)
    assert whole == pytest.approx([tor.complete(1800, 20, 600, 300, m) for m in mtbf])


times = st.floats(0, 1e5)
positive = st.floats(1e-2, 1e6)
ratios = st.floats(0.01, 1)


@given(positive, times, times, times, positive, times, st.floats(1, 10))
@settings(max_examples=400, deadline=None)
def test_fail_stop_forms_fall_with_every_cost_and_rise_with_mtbf(
    tau, delta, detect, restart, mtbf, latency, factor
):
    for form in (tor.complete, tor.first_order):
        here = form(tau, delta, detect, restart, mtbf, latency)
        slack = 1e-12
        assert 0 <= here <= 1
        assert form(tau, delta, detect, restart, mtbf * factor, latency) >= here - slack
        assert form(tau, delta * factor, detect, restart, mtbf, latency) <= here + slack
        assert form(tau, delta, detect * factor, restart, mtbf, latency) <= here + slack
        assert form(tau, delta, detect, restart * factor, mtbf, latency) <= here + slack
        assert form(tau, delta, detect, restart, mtbf, latency * factor) <= here + slack
    complete = tor.complete(tau, delta, detect, restart, mtbf, latency)
    assert complete <= tor.exponential(tau, delta, detect + restart, mtbf, latency) + 1e-12
    assert complete <= tor.checkpoint_efficiency(tau, delta) + 1e-12


@given(positive, times, ratios, times, times, st.floats(1, 10))
@settings(max_examples=200, deadline=None)
def test_alternating_form_moves_the_right_way(healthy, degraded, ratio, pause, loss, factor):
    here = tor.alternating(healthy, degraded, ratio, pause, loss)
    slack = 1e-12
    assert 0 <= here <= 1
    assert tor.alternating(healthy * factor, degraded, ratio, pause, loss) >= here - slack
    assert tor.alternating(healthy, degraded, ratio, pause * factor, loss) <= here + slack
    assert tor.alternating(healthy, degraded, ratio, pause, loss * factor) <= here + slack
    assert tor.alternating(healthy, degraded, min(1, ratio * factor), pause, loss) >= here - slack


@given(st.lists(st.tuples(st.floats(0, 20), ratios), min_size=1, max_size=5))
@settings(max_examples=200, deadline=None)
def test_overlapping_speeds_lie_between_the_slowest_and_one(events):
    load, ratio = (np.array(x) for x in zip(*events, strict=True))
    for speed in (tor.synchronous_ratio(load, ratio), tor.multiplicative_ratio(load, ratio)):
        assert 0 <= speed <= 1 + 1e-12
    assert tor.synchronous_ratio(load, ratio) >= ratio.min() - 1e-12
    assert tor.multiplicative_ratio(load, ratio) <= tor.synchronous_ratio(load, ratio) + 1e-12
    assert tor.synchronous_ratio(0 * load, ratio) == pytest.approx(1)
