"""Goodness of fit: honest p-values under censoring and late entry, and what is not tested."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline import goodness
from pipeline.distributions import EXPONENTIAL, GAMMA, LAWS, LOGNORMAL, WEIBULL
from pipeline.durations import Durations, durations
from pipeline.fits import fit
from pipeline.goodness import goodness_of_fit, ks_distance


def censored(rng: np.random.Generator, n: int, shape: float = 0.8) -> Durations:
    age, limit = rng.weibull(shape, n), rng.exponential(2.5, n)
    return durations(np.minimum(age, limit), age <= limit)


def p_of(law, sample: Durations, seed: int = 0, n: int = 199) -> float:
    (tested,) = goodness_of_fit([fit(law, sample)], sample, np.random.default_rng(seed), n)
    assert tested.p is not None
    return tested.p


def test_distance_of_complete_data_is_kolmogorovs():
    # exponential of mean 2 at 1, 2, 3: S = e^-t/2; greatest gap just before 1: 1 - e^-0.5
    assert ks_distance(EXPONENTIAL, np.array([np.log(2.0)]), durations([1, 2, 3])) == (
        pytest.approx(1 - np.exp(-0.5))
    )


def test_distance_under_censoring_is_from_kaplan_meier():
    # the end at 3 has one row at risk: S falls from 2/3 to 0 there, and not at the censored age 2
    sample = durations([1, 2, 3], [1, 0, 1])
    expected = max(
        abs(1 - np.exp(-1)), abs(2 / 3 - np.exp(-1)), abs(2 / 3 - np.exp(-3)), np.exp(-3)
    )
    assert ks_distance(EXPONENTIAL, np.array([0.0]), sample) == pytest.approx(expected)


@pytest.mark.parametrize("law", [EXPONENTIAL, WEIBULL], ids=["exponential", "weibull"])
def test_true_laws_are_rejected_at_the_nominal_share(law):
    """120 samples of 40 rows, a third censored: 5 % rejected, within 3 standard errors."""
    rng = np.random.default_rng(7)
    shape = 1.0 if law is EXPONENTIAL else 0.7
    p = np.array([p_of(law, censored(rng, 40, shape), seed) for seed in range(120)])
    assert (p <= 0.05).mean() <= 0.11
    assert 0.42 <= p.mean() <= 0.58  # uniform: 0.5, standard error 0.026


def test_true_law_of_late_rows_passes():
    rng = np.random.default_rng(2)
    passed = 0
    for seed in range(40):
        entry = np.where(rng.random(60) < 0.5, rng.exponential(0.5, 60), 0.0)
        age = np.array([next(t for t in rng.weibull(0.8, 200) if t > e) for e in entry])
        limit = entry + rng.exponential(3, 60)
        sample = durations(np.minimum(age, limit), age <= limit, entry=entry)
        passed += p_of(WEIBULL, sample, seed, 99) > 0.05
    assert passed >= 34  # 38 expected, standard error 1.4


def test_wrong_law_is_rejected():
    rng = np.random.default_rng(5)
    assert p_of(EXPONENTIAL, censored(rng, 150, 3.0)) <= 0.01
    assert p_of(WEIBULL, durations(rng.lognormal(0, 1.5, 400))) <= 0.01


def test_answer_depends_on_the_seed_alone():
    sample = censored(np.random.default_rng(1), 50)
    shuffled = Durations(
        *(part[::-1] for part in (sample.entry, sample.lower, sample.upper, sample.weight))
    )
    again = durations(shuffled.lower, np.isfinite(shuffled.upper))
    assert p_of(WEIBULL, sample, 3) == p_of(WEIBULL, again, 3)
    assert p_of(WEIBULL, sample, 3) != p_of(WEIBULL, sample, 4)


@pytest.mark.parametrize("law", LAWS[1:], ids=[law.name for law in LAWS[1:]])
def test_condensed_censored_rows_change_no_distance(law, monkeypatch):
    rng = np.random.default_rng(8)
    sample = censored(rng, 120, 1.5)
    scheme = goodness._Scheme.of(sample)
    fitted = fit(law, sample)

    def distances() -> np.ndarray:
        again = np.random.default_rng(3)
        return goodness._replicate_distances(fitted, scheme, scheme.censoring(again, 50), again)

    condensed = distances()
    monkeypatch.setattr(goodness, "_condensed", lambda _, survivors, __: survivors)
    assert condensed == pytest.approx(distances(), rel=2e-3)


def test_replicates_are_censored_as_the_data_were():
    """A fixed window censors replicates at the window; drawn ages never precede the row's end."""
    sample = durations([1.0, 2.0, 3.0, 5.0, 5.0], [1, 1, 1, 0, 0])
    limit = goodness._Scheme.of(sample).censoring(np.random.default_rng(0), 20)
    assert np.all(limit == 5.0)
    mixed = durations([1.0, 2.0, 4.0, 6.0, 9.0], [1, 0, 1, 0, 1])
    limit = goodness._Scheme.of(mixed).censoring(np.random.default_rng(0), 4_000)
    assert set(limit[:, 0]) == {2.0, 6.0, np.inf}  # 1/4, 3/4 * 1/2 and the rest, by Kaplan-Meier
    assert (limit[:, 0] == 2.0).mean() == pytest.approx(1 / 4, abs=0.03)
    assert (limit[:, 0] == 6.0).mean() == pytest.approx(3 / 8, abs=0.03)
    assert set(limit[:, 1]) == {2.0}
    assert set(limit[:, 2]) == {6.0, np.inf}


@pytest.mark.parametrize(
    ("sample", "n", "method"),
    [
        (durations([1.0, 2, 3], upper=[1.5, np.nan, np.nan]), 99, "ends between two instants"),
        (durations([1.0, 2, 3], weight=[1, 1.5, 1]), 99, "weights that are no counts"),
        (durations([1.0, 2, 3]), 0, "not asked for"),
    ],
)
def test_what_cannot_be_tested_has_no_p_and_says_why(sample, n, method):
    (tested,) = goodness_of_fit([fit(WEIBULL, sample)], sample, np.random.default_rng(0), n)
    assert tested.p is None
    assert method in tested.method


def test_weights_are_rows():
    sample = durations([1.0, 2, 4, 7, 9, 15], weight=[3, 2, 5, 1, 2, 1])
    rows = durations(np.repeat([1.0, 2, 4, 7, 9, 15], [3, 2, 5, 1, 2, 1]))
    assert p_of(GAMMA, sample) == p_of(GAMMA, rows)


def test_a_subset_with_few_ends_is_not_tested():
    rng = np.random.default_rng(0)
    age = rng.exponential(100, 20_000)
    sample = durations(np.minimum(age, 1), age <= 1)  # one in a hundred ends
    (tested,) = goodness_of_fit([fit(WEIBULL, sample)], sample, np.random.default_rng(0), 99)
    assert tested.p is None
    assert tested.method.startswith("not tested: 1000 of 20000 rows drawn at random, with ")


def test_many_rows_are_tested_on_a_subset_and_it_is_said():
    rng = np.random.default_rng(0)
    sample = durations(rng.lognormal(0, 1, 3_000))
    (good, bad) = goodness_of_fit(
        [fit(LOGNORMAL, sample), fit(EXPONENTIAL, sample)], sample, np.random.default_rng(0), 99
    )
    assert "on 1000 of 3000 rows drawn at random, with 1000 ends" in good.method
    assert good.p > 0.05
    assert bad.p == 0.01
