"""Rates: published clusters, exact coverage, pooling, lemons."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from pipeline.rates import (
    RateError,
    benjamini_hochberg,
    lemons,
    poisson_interval,
    poisson_rate,
    pool,
)

# arXiv 2407.21783, table of interruptions: 54 days, 16,384 GPUs in 2,048 nodes
LLAMA3 = {
    "faulty GPU": 148, "HBM3": 72, "software bug": 54, "network": 35, "host maintenance": 32,
    "GPU SRAM": 19, "GPU system processor": 17, "NIC": 7, "NCCL watchdog": 7,
    "silent data corruption": 6, "GPU thermal": 6, "SSD": 3, "power supply": 3, "chassis": 2,
    "IO board": 2, "dependency": 2, "CPU": 2, "system memory": 2,
}  # fmt: skip
LLAMA3_HOURS = 54 * 24


def test_acceptance_a3_rates_of_a_published_run():
    total = poisson_rate(sum(LLAMA3.values()), LLAMA3_HOURS)
    assert total.n_events == 419
    assert (total.mtbf, total.mtbf_low, total.mtbf_high) == pytest.approx(
        (3.093, 2.811, 3.412), rel=2e-3
    )
    per_1000_node_days = 1000 * 24 / 2_048
    assert [per_1000_node_days * r for r in (total.rate, total.low, total.high)] == pytest.approx(
        [3.789, 3.435, 4.169], rel=2e-3
    )
    expected = {
        "HBM3": (18.0, 14.3, 23.0), "silent data corruption": (216, 99.2, 588.6),
        "SSD": (432, 147.8, 2094.8), "faulty GPU": (8.76, 7.5, 10.4), "NIC": (185.1, 89.9, 460.5),
    }  # fmt: skip
    for cause, (mtbf, low, high) in expected.items():
        rate = poisson_rate(LLAMA3[cause], LLAMA3_HOURS)
        assert rate.mtbf == pytest.approx(mtbf, rel=2e-3)
        assert (rate.mtbf_low, rate.mtbf_high) == pytest.approx((low, high), rel=0.01)


def test_acceptance_a3_causes_sum_to_the_total_and_their_intervals_do_not():
    rates = [poisson_rate(n, LLAMA3_HOURS) for n in LLAMA3.values()]
    total = poisson_rate(419, LLAMA3_HOURS)
    assert math.fsum(r.rate for r in rates) == pytest.approx(total.rate, rel=1e-14)
    assert sum(r.high for r in rates) > 1.2 * total.high


@pytest.mark.parametrize(
    ("hours_per_gpu", "gpus", "hours"), [(88_768, 608, 146.0), (283_271, 448, 632.3)]
)
def test_acceptance_a9_device_rates_scale_to_a_cluster(hours_per_gpu, gpus, hours):
    """arXiv 2503.11901: mean hours between uncorrectable memory errors per GPU."""
    cluster = poisson_rate(1, hours_per_gpu / gpus)
    assert cluster.mtbf == pytest.approx(hours, rel=1e-3)


def test_acceptance_a10_exact_interval_covers_at_least_its_level():
    """10,000 Poisson counts of mean 5."""
    counts = np.random.default_rng(0).poisson(5, 10_000)
    bounds = np.array([poisson_interval(n, 1) for n in range(counts.max() + 1)])
    assert ((bounds[counts, 0] <= 5) & (bounds[counts, 1] >= 5)).mean() >= 0.95


def test_no_event_is_a_bound_and_never_an_infinite_mean_time():
    rate = poisson_rate(0, 1000)
    assert (rate.rate, rate.low, rate.mtbf, rate.mtbf_high) == (0, 0, None, None)
    assert rate.mtbf_low == pytest.approx(1000 / math.log(20))


@pytest.mark.parametrize("exposure", [0, -1, math.nan, math.inf])
def test_rate_without_exposure_is_refused(exposure):
    with pytest.raises(RateError):
        poisson_rate(3, exposure)


def test_pooling_finds_the_law_that_rates_were_drawn_from():
    rng = np.random.default_rng(3)
    rates = rng.gamma(2, 0.5, 4_000)
    exposures = rng.uniform(1, 9, 4_000)
    pooled = pool(rng.poisson(rates * exposures), exposures)
    assert pooled.shape == pytest.approx(2, rel=0.15)
    assert pooled.mean == pytest.approx(1, rel=0.05)
    assert ((pooled.low <= rates) & (rates <= pooled.high)).mean() == pytest.approx(0.95, abs=0.015)


def test_pooled_estimates_beat_single_ones():
    rng = np.random.default_rng(9)
    rates = rng.gamma(4, 0.25, 300)
    counts = rng.poisson(rates * 2)
    pooled = pool(counts, np.full(300, 2.0))
    assert ((pooled.rates - rates) ** 2).mean() < 0.7 * ((counts / 2 - rates) ** 2).mean()


def test_groups_that_differ_by_chance_share_one_rate():
    pooled = pool([2, 2, 2, 2], [10, 10, 10, 10])
    assert math.isinf(pooled.shape)
    assert pooled.rates == pytest.approx(0.2)


def test_benjamini_hochberg_by_hand():
    assert benjamini_hochberg([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.02, 0.04, 0.04, 0.02])


def test_a_node_that_fails_too_often_is_a_lemon():
    counts = {"n7": 9, "n1": 1, "n2": 1}
    exposures = {f"n{i}": 100.0 for i in range(60)} | {"idle": 0.0}
    found = lemons(counts, exposures)
    assert len(found) == 60
    assert [r.node for r in found if r.is_lemon] == ["n7"]
    assert found[0].p == pytest.approx(stats.binom.sf(8, 11, 1 / 60))


def test_even_fleets_have_no_lemons():
    """60 fleets of 64 equal nodes: at most 5 % name one, within 3 standard errors."""
    rng = np.random.default_rng(5)
    exposures = {f"n{i:02d}": 1.0 for i in range(64)}
    named = 0
    for _ in range(60):
        counts = dict(zip(exposures, rng.poisson(0.7, 64).tolist(), strict=True))
        named += any(r.is_lemon for r in lemons(counts, exposures))
    assert named <= 3 + 3 * 1.7


def test_event_on_a_node_without_exposure_is_refused():
    with pytest.raises(RateError, match="n9"):
        lemons({"n9": 1}, {"n1": 5.0})
