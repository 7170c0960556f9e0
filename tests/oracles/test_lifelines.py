"""Fits and curves agree with lifelines to five digits."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from pipeline.distributions import EXPONENTIAL, LOGNORMAL, WEIBULL
from pipeline.durations import durations
from pipeline.fits import fit
from pipeline.survival import aalen_johansen, kaplan_meier, nelson_aalen
from tests.oracles.samples import CASES, inspected, inspected_durations

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # theirs
    import lifelines

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]
FIVE_DIGITS = 1e-5

FITTERS = {
    "exponential": (EXPONENTIAL, lifelines.ExponentialFitter, {"mean": "lambda_"}),
    "weibull": (WEIBULL, lifelines.WeibullFitter, {"shape": "rho_", "scale": "lambda_"}),
    "lognormal": (LOGNORMAL, lifelines.LogNormalFitter, {"mu": "mu_", "sigma": "sigma_"}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize(("law", "fitter", "names"), FITTERS.values(), ids=FITTERS.keys())
def test_right_censored_late_and_weighted_fits_agree(case, law, fitter, names):
    data = {"durations": case.time, "event_observed": case.seen, "entry": case.entry,
            "weights": case.weight}  # fmt: skip
    theirs = fitter().fit(**data)
    # its simplex stops early at times: once more, from its own answer
    theirs = fitter().fit(**data, initial_point=theirs._fitted_parameters_)
    ours = fit(law, case.sample)
    for name, attribute in names.items():
        assert ours.parameters[name] == pytest.approx(getattr(theirs, attribute), rel=FIVE_DIGITS)
        assert ours.standard_errors[name] == pytest.approx(
            theirs.summary["se(coef)"][attribute], rel=1e-4
        )
    assert ours.log_likelihood == pytest.approx(theirs.log_likelihood_, rel=FIVE_DIGITS)


@pytest.mark.parametrize(("law", "fitter", "names"), FITTERS.values(), ids=FITTERS.keys())
def test_fits_of_inspections_agree(law, fitter, names):
    lower, upper = inspected()
    theirs = fitter().fit_interval_censoring(lower, upper)
    ours = fit(law, inspected_durations())
    for name, attribute in names.items():
        assert ours.parameters[name] == pytest.approx(getattr(theirs, attribute), rel=FIVE_DIGITS)
    assert ours.log_likelihood == pytest.approx(theirs.log_likelihood_, rel=FIVE_DIGITS)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_kaplan_meier_agrees(case):
    theirs = lifelines.KaplanMeierFitter().fit(
        case.time, case.seen, entry=case.entry, weights=case.weight
    )
    ours = kaplan_meier(case.sample)
    inside = ours.value > 0
    ages = ours.age[inside]
    assert ours.value[inside] == pytest.approx(
        theirs.survival_function_at_times(ages).to_numpy(), rel=1e-9
    )
    bounds = theirs.confidence_interval_survival_function_.loc[ages].to_numpy()
    assert ours.low[inside] == pytest.approx(bounds[:, 0], rel=FIVE_DIGITS)
    assert ours.high[inside] == pytest.approx(bounds[:, 1], rel=FIVE_DIGITS)


def test_nelson_aalen_agrees():
    case = CASES["censored"]
    theirs = lifelines.NelsonAalenFitter().fit(case.time, case.seen)
    ours = nelson_aalen(case.sample)
    assert ours.value == pytest.approx(
        theirs.cumulative_hazard_at_times(ours.age).to_numpy(), rel=1e-9
    )
    bounds = theirs.confidence_interval_.loc[ours.age].to_numpy()
    assert ours.low == pytest.approx(bounds[:, 0], rel=FIVE_DIGITS)
    assert ours.high == pytest.approx(bounds[:, 1], rel=FIVE_DIGITS)


def test_aalen_johansen_agrees():
    rng = np.random.default_rng(8)
    time, cause = rng.exponential(10, 120), rng.integers(0, 3, 120)
    theirs = lifelines.AalenJohansenFitter(calculate_variance=True).fit(time, cause, 1)
    ours = aalen_johansen({str(c): durations(time, cause == c) for c in (1, 2)})["1"]
    assert ours.value == pytest.approx(
        theirs.cumulative_density_.loc[ours.age].to_numpy().ravel(), rel=1e-9
    )
    variance = theirs.variance_.loc[ours.age].to_numpy().ravel()
    known = np.isfinite(variance)  # theirs has none at the last end
    assert known.sum() == known.size - 1
    assert ours.standard_error[known] ** 2 == pytest.approx(variance[known], rel=FIVE_DIGITS)
