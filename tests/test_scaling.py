"""Rates at other sizes: published figures, and lines through several sizes."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline import scaling
from pipeline.errors import ParameterError


@pytest.mark.parametrize(
    ("rate", "gpus", "hours"),
    [
        (6.50, 8, 3692.3),
        (6.50, 1_024, 28.85),
        (6.50, 12_000, 2.462),
        (6.50, 16_384, 1.803),  # arXiv 2410.21680 projects 1.8
        (6.50, 100_000, 0.295),
        (6.50, 131_072, 0.225),  # 0.23
        (2.34, 16_384, 5.008),
        (2.34, 100_000, 0.821),
    ],
)
def test_acceptance_a1_mean_time_to_failure_from_a_rate_per_node(rate, gpus, hours):
    assert scaling.mttf_s(rate, gpus / 8) / 3600 == pytest.approx(hours, rel=0.002)


def test_acceptance_a1_measured_times_that_contradict_the_rate_are_flagged():
    # 7.9 h measured at 1,024 GPUs, 47.7 days at 8
    assert scaling.divergence(scaling.mttf_s(6.5, 128), 7.9 * 3600) == pytest.approx(3.65, abs=0.01)
    assert scaling.divergence(scaling.mttf_s(6.5, 1), 47.7 * 86400) == pytest.approx(3.23, abs=0.01)
    assert scaling.divergence(scaling.mttf_s(6.5, 2048), 1.8 * 3600) is None
    assert scaling.divergence(3600, 7200 * 1.01) == pytest.approx(1 / 2.02)


def test_acceptance_a6_large_jobs_fail_more_than_linearly():
    # arXiv 2602.00277: 2.3 failures per 1000 server-days; 18 min at 100,000 GPUs
    assert scaling.mttf_s(2.3, 4000) / 3600 == pytest.approx(2.609, rel=2e-3)
    assert scaling.mttf_s(2.3, 12_500) / 60 == pytest.approx(50.1, rel=2e-3)
    assert scaling.divergence(scaling.mttf_s(2.3, 12_500), 18 * 60) == pytest.approx(2.78, abs=0.01)


def test_acceptance_a3_rate_per_node_from_counts():
    assert scaling.per_1000_node_days(419, 2048, 54 * 86400) == pytest.approx(3.789, rel=2e-3)


def test_acceptance_a9_rates_of_devices():
    # arXiv 2503.11901: hours between uncorrectable memory errors, per GPU
    for hours, gpus, job_hours in ((88_768, 608, 146.0), (283_271, 448, 632.3)):
        rate = 1000 * 24 / hours
        assert scaling.mttf_s(rate, gpus) / 3600 == pytest.approx(job_hours, rel=1e-3)


def test_line_through_exact_counts_is_found():
    sizes, exposure = np.array([10.0, 100.0, 1000.0]), np.array([1e7, 1e7, 1e6])
    job, node = 2e-6, 3e-7
    counts = (job + node * sizes) * exposure
    line = scaling.fit_size_line(sizes, counts, exposure)
    assert (line.job_rate, line.node_rate) == pytest.approx((job, node), rel=1e-5)
    assert line.rate(2000) == pytest.approx(job + 2000 * node, rel=1e-5)
    assert (line.is_extrapolated(2000), line.is_extrapolated(2001)) == (False, True)


def test_line_keeps_rates_at_zero_or_more_and_the_total():
    falls = scaling.fit_size_line([1, 10], [100, 10], [1e6, 1e6])
    assert falls.node_rate == pytest.approx(0, abs=1e-12)
    assert falls.job_rate == pytest.approx(110 / 2e6)
    rises = scaling.fit_size_line([1, 10], [1, 100], [1e6, 1e6])
    assert rises.job_rate == pytest.approx(0, abs=1e-12)
    one = scaling.fit_size_line([8, 8], [3, 5], [1e6, 1e6])
    assert (one.job_rate, one.rate(8)) == (0, pytest.approx(4e-6))
    none = scaling.fit_size_line([1, 10], [0, 0], [1e6, 1e6])
    assert none.rate(10) == 0


def test_impossible_sizes_are_named():
    with pytest.raises(ParameterError, match=r"(?s)nodes = 0.*exposure_s = -1"):
        scaling.fit_size_line([0.0], [1], [-1.0])
    with pytest.raises(ParameterError, match="one of each"):
        scaling.fit_size_line([1.0], [1, 2], [1.0])
    with pytest.raises(ParameterError, match="nodes = 0"):
        scaling.mttf_s(1.0, 0)
