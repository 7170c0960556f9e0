"""Fits agree with surpyval to five digits."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from pipeline.distributions import EXPONENTIAL, GAMMA, LOGNORMAL, WEIBULL
from pipeline.fits import fit
from pipeline.recurrence import crow_amsaa, mean_cumulative
from tests.oracles.samples import CASES, inspected, inspected_durations

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # theirs
    import surpyval
    from surpyval import recurrent

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]
FIVE_DIGITS = 1e-5


def exponential(params: np.ndarray) -> dict[str, float]:
    return {"mean": 1 / params[0]}


def weibull(params: np.ndarray) -> dict[str, float]:
    return {"scale": params[0], "shape": params[1]}


def lognormal(params: np.ndarray) -> dict[str, float]:
    return {"mu": params[0], "sigma": params[1]}


def gamma(params: np.ndarray) -> dict[str, float]:
    return {"shape": params[0], "scale": 1 / params[1]}


PAIRS = {
    "exponential": (EXPONENTIAL, surpyval.Exponential, exponential),
    "weibull": (WEIBULL, surpyval.Weibull, weibull),
    "lognormal": (LOGNORMAL, surpyval.LogNormal, lognormal),
    "gamma": (GAMMA, surpyval.Gamma, gamma),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize(("law", "theirs", "named"), PAIRS.values(), ids=PAIRS.keys())
def test_right_censored_late_and_weighted_fits_agree(case, law, theirs, named):
    late = {"tl": case.entry} if case.entry.any() else {}
    model = theirs.fit(case.time, c=1 - case.seen.astype(int), n=case.weight.astype(int), **late)
    ours = fit(law, case.sample)
    assert ours.parameters == pytest.approx(named(model.params), rel=FIVE_DIGITS)
    assert ours.log_likelihood == pytest.approx(-model.neg_ll(), rel=FIVE_DIGITS)


@pytest.mark.parametrize(("law", "theirs", "named"), PAIRS.values(), ids=PAIRS.keys())
def test_fits_of_inspections_agree(law, theirs, named):
    lower, upper = inspected()
    model = theirs.fit(xl=lower, xr=upper)
    assert fit(law, inspected_durations()).parameters == pytest.approx(
        named(model.params), rel=FIVE_DIGITS
    )


def test_power_law_agrees():
    times = np.array([5.0, 40.0, 43.0, 175.0, 389.0, 712.0, 747.0, 795.0, 1299.0, 1478.0, 1500.0])
    model = recurrent.CrowAMSAA.fit(times, c=[0] * 10 + [1])
    ours = crow_amsaa(times[:-1], 1500)
    alpha, beta = model.params  # (t / alpha)^beta
    assert ours.beta == pytest.approx(beta, rel=FIVE_DIGITS)
    assert ours.scale == pytest.approx(alpha**-beta, rel=FIVE_DIGITS)


def test_mean_cumulative_function_agrees():
    units = [[5, 10, 15, 17], [6, 13, 17, 19], [12, 20, 25, 26], [13, 15, 24], [16, 22, 25, 28]]
    x = np.concatenate(units)
    unit = np.repeat(np.arange(len(units)), [len(u) for u in units])
    last = np.concatenate([[0] * (len(u) - 1) + [1] for u in units])
    model = recurrent.NonParametricCounting.fit(x, i=unit, c=last)
    ours = mean_cumulative([u[:-1] for u in units], [u[-1] for u in units])
    assert ours.value == pytest.approx(model.mcf(ours.age), rel=1e-9)
