"""The laws: survival against SciPy's, derivatives against differences, draws against survival."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from pipeline.distributions import EXPONENTIAL, GAMMA, LAWS, LOGNORMAL, WEIBULL, Law
from pipeline.durations import batch_of, durations
from pipeline.fits import likelihood

THETAS = [(-1.2, 0.3), (0.0, 0.0), (0.9, -0.8), (2.5, 0.4)]
AGES = np.array([1e-6, 0.01, 0.3, 1.0, 2.5, 9.0])


def reference(law: Law, theta: np.ndarray) -> stats.rv_continuous:
    if law is EXPONENTIAL:
        return stats.expon(scale=math.exp(theta[0]))
    if law is WEIBULL:
        return stats.weibull_min(math.exp(theta[0]), scale=math.exp(theta[1]))
    if law is LOGNORMAL:
        return stats.lognorm(math.exp(theta[1]), scale=math.exp(theta[0]))
    return stats.gamma(math.exp(theta[0]), scale=math.exp(theta[1]))


def columns(law: Law, theta: tuple[float, float]) -> np.ndarray:
    return np.array(theta[: len(law.parameters)])


@pytest.mark.parametrize("theta", THETAS)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_survival_and_density_are_those_of_scipy(law, theta):
    point = columns(law, theta)
    expected = reference(law, point)
    assert law.survival(AGES, point[:, None]) == pytest.approx(expected.sf(AGES), rel=1e-9)
    for age in AGES[expected.sf(AGES) > 1e-250]:
        batch = batch_of(durations([age]))
        censored = batch_of(durations([age], [0]))
        assert law.log_density(batch, point[:, None]).value == pytest.approx(
            expected.logpdf(age), rel=1e-9, abs=1e-12
        )
        assert likelihood(law, censored, point[:, None]).value == pytest.approx(
            expected.logsf(age), rel=1e-9, abs=1e-14
        )


@pytest.mark.parametrize("theta", THETAS)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_gradient_and_hessian_are_those_of_the_likelihood(law, theta):
    sample = durations(
        [0.4, 1.7, 0.9, 0, 0.5, 1.1], [1, 1, 0, 1, 1, 1],
        upper=[np.nan, np.nan, np.nan, 0.3, 0.8, np.nan], entry=[0, 0.2, 0.1, 0, 0.05, 0],
        weight=[1, 2, 1, 1, 1, 3],
    )  # fmt: skip
    batch, point, step = batch_of(sample), columns(law, theta), 1e-5

    def at(shift: np.ndarray):
        return likelihood(law, batch, (point + shift)[:, None])

    k = point.size
    found, pairs = at(np.zeros(k)), [(0, 0)] if k == 1 else [(0, 0), (0, 1), (1, 1)]
    for i in range(k):
        axis = np.eye(k)[i] * step
        slope = (at(axis).value - at(-axis).value) / (2 * step)
        assert found.gradient[i] == pytest.approx(slope, rel=1e-6, abs=1e-6)
    for part, (i, j) in zip(found.hessian, pairs, strict=True):
        axis = np.eye(k)[j] * step
        bend = (at(axis).gradient[i] - at(-axis).gradient[i]) / (2 * step)
        assert part == pytest.approx(bend, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_quantile_inverts_survival_and_draws_follow_it(law):
    theta = columns(law, (0.4, -0.3))
    levels = np.array([0.999, 0.5, 0.01])
    assert law.survival(law.quantile(levels, theta), theta[:, None]) == pytest.approx(levels)
    drawn = law.draw(np.random.default_rng(1), theta, (20_000,))
    assert stats.kstest(drawn, lambda t: 1 - law.survival(t, theta[:, None])).pvalue > 0.001


def test_gamma_survival_keeps_its_digits_beyond_underflow():
    # Q(3, x) = e^-x (1 + x + x^2 / 2)
    for x in (600.0, 650.0, 700.0, 5_000.0):
        batch = batch_of(durations([x], [0]))
        found = likelihood(GAMMA, batch, np.array([[math.log(3)], [0.0]]))
        assert found.value == pytest.approx(-x + math.log(1 + x + x * x / 2), rel=1e-13)
