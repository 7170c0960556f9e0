"""Fits: closed forms, invariances, intervals as the likelihood has them, hopeless samples."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from pipeline.distributions import EXPONENTIAL, GAMMA, LAWS, LOGNORMAL, WEIBULL
from pipeline.durations import Durations, batch_of, durations
from pipeline.fits import fit, likelihood

LAW_NAMES = [law.name for law in LAWS]


def mixed(seed: int = 1, n: int = 60) -> Durations:
    """Exact, censored, late and interval rows of a Weibull law."""
    rng = np.random.default_rng(seed)
    age, entry = 40 * rng.weibull(1.3, 4 * n), 10 * rng.random(4 * n)
    alive = age > entry
    age, entry = age[alive][:n], np.where(rng.random(alive.sum()) < 0.3, entry[alive], 0.0)[:n]
    limit = entry + 60 * rng.random(n)
    seen = age <= limit
    lower = np.where(seen, age, limit)
    inside = seen & (rng.random(n) < 0.2)
    lower = np.where(inside, np.maximum(entry, np.floor(age / 5) * 5), lower)
    upper = np.where(inside, np.floor(age / 5) * 5 + 5, np.nan)
    return durations(lower, seen, upper=upper, entry=entry)


def test_exponential_of_late_and_censored_rows_is_time_at_risk_per_end():
    sample = durations([4, 9, 7, 12], [1, 0, 1, 0], entry=[1, 0, 2, 6], weight=[1, 1, 2, 1])
    fitted = fit(EXPONENTIAL, sample)
    assert fitted.parameters["mean"] == pytest.approx((3 + 9 + 2 * 5 + 6) / 3, rel=1e-12)
    assert fitted.standard_errors["mean"] == pytest.approx(28 / 3 / math.sqrt(3), rel=1e-9)
    assert fitted.log_likelihood == pytest.approx(-3 * math.log(28 / 3) - 3, rel=1e-12)


def test_exponential_of_one_inspection_is_the_logarithm_of_the_survivors_share():
    # 7 of 10 fail before an inspection at age 5: S(5) = 0.3
    sample = durations([0, 5], [1, 0], upper=[5, np.nan], weight=[7, 3])
    assert fit(EXPONENTIAL, sample).parameters["mean"] == pytest.approx(-5 / math.log(0.3))


def test_complete_lognormal_is_mean_and_deviation_of_the_logarithms():
    times = [12.0, 40.0, 7.5, 93.0, 21.0]
    found = fit(LOGNORMAL, durations(times)).parameters
    assert found["mu"] == pytest.approx(np.log(times).mean(), rel=1e-12)
    assert found["sigma"] == pytest.approx(np.log(times).std(), rel=1e-12)


@pytest.mark.parametrize("law", LAWS, ids=LAW_NAMES)
def test_no_other_parameters_make_any_kind_of_row_likelier(law):
    sample = mixed()
    fitted = fit(law, sample)
    batch = batch_of(sample.scaled(1 / fitted.unit))
    searched = optimize.minimize(
        lambda theta: -likelihood(law, batch, theta[:, None]).value[0], np.zeros(fitted.theta.size),
        method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000},
    )  # fmt: skip
    assert fitted.converged
    assert fitted.theta == pytest.approx(searched.x, abs=1e-5)


@pytest.mark.parametrize(
    ("law", "scipy_law", "order"),
    [
        (WEIBULL, stats.weibull_min, ("shape", "scale")),
        (GAMMA, stats.gamma, ("shape", "scale")),
        (LOGNORMAL, stats.lognorm, ("sigma", "mu")),
    ],
    ids=["weibull", "gamma", "lognormal"],
)
def test_right_censored_fits_are_those_of_scipy(law, scipy_law, order):
    rng = np.random.default_rng(4)
    age, limit = rng.weibull(1.4, 80), rng.exponential(2, 80)
    time, seen = np.minimum(age, limit), age <= limit
    data = stats.CensoredData.right_censored(time, ~seen)
    shape, _, scale = scipy_law.fit(
        data, floc=0, optimizer=lambda f, x0, args, disp: optimize.fmin(
            f, x0, args=args, disp=disp, xtol=1e-9, ftol=1e-12, maxiter=4000, maxfun=4000
        ),
    )  # fmt: skip
    found = fit(law, durations(time, seen)).parameters
    expected = (shape, math.log(scale) if law is LOGNORMAL else scale)
    assert [found[name] for name in order] == pytest.approx(expected, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("law", LAWS, ids=LAW_NAMES)
def test_profile_bounds_lie_where_the_likelihood_has_dropped(law):
    """Each bound is the edge: with the parameter held there, 2 x drop = 3.8415 at its best."""
    sample = mixed()
    fitted = fit(law, sample)
    batch = batch_of(sample.scaled(1 / fitted.unit))
    best = likelihood(law, batch, fitted.theta[:, None]).value[0]
    for i, (name, kind) in enumerate(law.parameters.items()):
        for bound in fitted.intervals[name]:
            shift = math.log(fitted.unit) if kind != "shape" else 0.0
            held = (bound if kind == "log_time" else math.log(bound)) - shift
            rest = [0.0] if fitted.theta.size == 2 else []

            def fall(other, i=i, held=held):
                theta = np.insert(np.asarray(other, float), i, held)
                return -likelihood(law, batch, theta[:, None]).value[0]

            low = -fall(rest) if not rest else -optimize.minimize_scalar(
                fall, bracket=(-0.5, 0.5), tol=1e-12
            ).fun  # fmt: skip
            assert 2 * (best - low) == pytest.approx(3.841459, abs=1e-5)


UNITS = {"hours": 1 / 3600, "microseconds": 1e6, "nanoseconds": 1e9}


@pytest.mark.parametrize("factor", UNITS.values(), ids=UNITS.keys())
@pytest.mark.parametrize("law", LAWS, ids=LAW_NAMES)
def test_estimates_do_not_depend_on_the_unit(law, factor):
    sample = mixed()
    one, other = fit(law, sample), fit(law, sample.scaled(factor))
    exact = sample.weight[sample.is_exact].sum()
    assert other.log_likelihood == pytest.approx(
        one.log_likelihood - exact * math.log(factor), rel=1e-9
    )
    for name, kind in law.parameters.items():
        values = [(f.parameters[name], f.standard_errors[name], *f.intervals[name])
                  for f in (one, other)]  # fmt: skip
        if kind == "log_time":
            expected = [v + math.log(factor) for v in values[0]]
            expected[1] = values[0][1]
        else:
            expected = [v * (factor if kind == "scale" else 1) for v in values[0]]
        assert values[1] == pytest.approx(tuple(expected), rel=1e-9)


ROW = st.tuples(
    st.floats(0.1, 1e4), st.booleans(), st.integers(1, 4), st.sampled_from([0.0, 0.0, 0.05])
)


@settings(max_examples=15, deadline=None)
@given(rows=st.lists(ROW, min_size=8, max_size=30), seed=st.integers(0, 2**32 - 1))
def test_order_and_grouping_of_rows_do_not_matter(rows, seed):
    """A row of weight w is w rows; a shuffled sample is the same sample: to the last bit."""
    time, seen, weight, entry = (np.array(column) for column in zip(*rows, strict=True))
    one = durations(time, seen, weight=weight, entry=entry)
    copies = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(rows)), weight))
    other = durations(time[copies], seen[copies], entry=entry[copies])
    for law in LAWS:
        assert fit(law, one).parameters == fit(law, other).parameters
        assert fit(law, one).intervals == fit(law, other).intervals


@settings(max_examples=25, deadline=None)
@given(
    times=st.lists(st.floats(1e-3, 1e6), min_size=5, max_size=40, unique=True),
    factor=st.floats(1e-6, 1e6),
)
def test_rescaled_samples_have_rescaled_fits(times, factor):
    one, other = durations(times), durations(np.array(times) * factor)
    for law in (EXPONENTIAL, WEIBULL):
        first, second = fit(law, one), fit(law, other)
        assert second.converged == first.converged
        scale = list(law.parameters)[-1]
        if first.converged:
            assert second.parameters[scale] == pytest.approx(
                first.parameters[scale] * factor, rel=1e-9
            )


@pytest.mark.parametrize(
    "sample",
    [
        durations([5.0] * 10),
        durations([5.0]),
        durations([5.0, 5.0, 3.0], [1, 1, 0]),
        durations([5.0, 7.0], [0, 0]),
        durations(5 + np.arange(10) * 1e-9),
        durations([0, 5], [1, 0], upper=[5, np.nan], weight=[7, 3]),
    ],
    ids=["equal", "one", "censored before", "no event", "almost equal", "one inspection"],
)
@pytest.mark.parametrize("law", LAWS[1:], ids=LAW_NAMES[1:])
def test_samples_without_a_maximum_are_said_not_to_converge(law, sample):
    fitted = fit(law, sample)
    assert not fitted.converged
    assert all(error is None for error in fitted.standard_errors.values())
    assert all(bounds == (None, None) for bounds in fitted.intervals.values())


def test_equal_durations_outlived_by_others_have_a_fit():
    fitted = fit(WEIBULL, durations([5.0] * 10 + [10.0] * 3, [1] * 10 + [0] * 3))
    assert fitted.converged
    assert 1 < fitted.parameters["shape"] < 10


def test_dropping_censored_rows_would_mislead():
    rng = np.random.default_rng(0)
    age = rng.exponential(100, 2_000)
    whole = fit(WEIBULL, durations(np.minimum(age, 60), age <= 60)).parameters
    events_only = fit(WEIBULL, durations(age[age <= 60])).parameters
    assert whole["shape"] == pytest.approx(1, abs=0.1)
    assert events_only["shape"] > 1.3


def test_aicc_counts_events_and_is_unknown_where_they_are_too_few():
    time, seen = np.array([3.0, 5.0, 9.0, 20.0, 20.0]), np.array([1, 1, 1, 0, 0])
    assert fit(WEIBULL, durations(time, seen)).aicc is None
    one = fit(EXPONENTIAL, durations(time, seen))
    assert one.aicc == pytest.approx(2 - 2 * one.log_likelihood + 4 / (3 - 2))
    assert one.bic == pytest.approx(math.log(3) - 2 * one.log_likelihood)
