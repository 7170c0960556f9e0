"""Published and independently computed answers: every check of tests/data/known-answers.json.

The file holds data sets, quantities, values and tolerances with their sources. Each check is one
test. What the product does not offer (a regression, a free location, a two-sample test, the invalid
p-value) is composed here from its fits and curves, so that the same code is under test.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import optimize, special, stats

from pipeline.distributions import EXPONENTIAL, GAMMA, LAWS, LOGNORMAL, WEIBULL
from pipeline.durations import durations
from pipeline.fits import fit
from pipeline.goodness import goodness_of_fit
from pipeline.rates import poisson_interval, poisson_rate
from pipeline.recurrence import crow_amsaa, crow_amsaa_grouped, mean_cumulative, trend
from pipeline.survival import kaplan_meier

KNOWN = json.loads((Path(__file__).parent / "data" / "known-answers.json").read_text())
N_CHECKS = 418
Answers = dict[str, Any]

SHORT = {"expon": EXPONENTIAL, "weibull": WEIBULL, "lognorm": LOGNORMAL, "gamma": GAMMA}


def lifetime(data: dict[str, Any]) -> Answers:
    sample = durations(data["times"], 1 - np.array(data["censored"]))
    fits = {short: fit(law, sample) for short, law in SHORT.items()}
    weibull = fits["weibull"]
    found: Answers = {
        "n": sample.n_events + sample.n_censored, "events": sample.n_events,
        "total_time": sample.exposure,
        "expon.scale": fits["expon"].parameters["mean"],
        "weibull.se_log_shape": weibull.standard_errors["shape"] / weibull.parameters["shape"],
        "weibull.se_log_scale": weibull.standard_errors["scale"] / weibull.parameters["scale"],
        "weibull.shape_ci95_profile_low": weibull.intervals["shape"][0],
        "weibull.shape_ci95_profile_high": weibull.intervals["shape"][1],
        "best_by_aicc": min(fits, key=lambda short: fits[short].aicc),
    }  # fmt: skip
    for short, fitted in fits.items():
        assert fitted.converged
        found |= {f"{short}.{name}": value for name, value in fitted.parameters.items()}
        found |= {f"{short}.loglik": fitted.log_likelihood, f"{short}.aicc": fitted.aicc}
    gain = 2 * (weibull.log_likelihood - fits["expon"].log_likelihood)
    found |= {"lr_weibull_vs_expon.stat": gain, "lr_weibull_vs_expon.p": special.chdtrc(1, gain)}
    return found


def regression(data: dict[str, Any]) -> Answers:
    """log T = intercept + coefficient x control + W / shape: Weibull fits at every coefficient."""
    times, seen = np.array(data["times"], float), 1 - np.array(data["censored"])
    control = np.array(data["covariate_control"])

    def fitted(coefficient: float) -> Any:
        return fit(WEIBULL, durations(times * np.exp(-coefficient * control), seen))

    def log_likelihood(coefficient: float) -> float:
        return fitted(coefficient).log_likelihood - coefficient * (control * seen).sum()

    best = optimize.minimize_scalar(lambda c: -log_likelihood(c), (-2, 0), tol=1e-10).x
    at_best = fitted(best).parameters
    point = np.array([math.log(at_best["scale"]), best, -math.log(at_best["shape"])])

    def full(theta: np.ndarray) -> float:
        shape = math.exp(-theta[2])
        u = shape * (np.log(times) - theta[0] - theta[1] * control)
        return float((seen * (math.log(shape) - np.log(times) + u) - np.exp(u)).sum())

    assert full(point) == pytest.approx(log_likelihood(best), abs=1e-8)
    step, axes = 1e-4, np.eye(3)
    hessian = np.array([
        [
            (full(point + step * (a + b)) - full(point + step * (a - b))
             - full(point - step * (a - b)) + full(point - step * (a + b))) / (4 * step**2)
            for b in axes
        ]
        for a in axes
    ])  # fmt: skip
    errors = np.sqrt(np.diag(np.linalg.inv(-hessian)))
    return {
        "intercept": point[0], "coef_control": best, "log_scale": point[2],
        "scale": math.exp(point[2]), "loglik": log_likelihood(best), "se_intercept": errors[0],
        "se_coef_control": errors[1], "se_log_scale": errors[2],
    }  # fmt: skip


def survival_curve(data: dict[str, Any]) -> Answers:
    curve = kaplan_meier(durations(data["times"], 1 - np.array(data["censored"])))
    named = {f"S({age:g})": v for age, v in zip(curve.age, curve.value, strict=True)}
    return named | {
        f"se({age:g})": v for age, v in zip(curve.age, curve.standard_error, strict=True)
    }


def two_sample(data: dict[str, Any]) -> Answers:
    """The log-rank test from the numbers at risk of the pooled and of the second group's curve."""
    times, seen = np.array(data["times"], float), 1 - np.array(data["censored"])
    second = np.array(data["group"]) == 1
    pooled = kaplan_meier(durations(times, seen))
    own = kaplan_meier(durations(times[second], seen[second]))
    at_risk = np.array([(times[second] >= age).sum() for age in pooled.age])
    assert own.at_risk.tolist() == [at_risk[pooled.age == age][0] for age in own.age]
    d, n = pooled.events, pooled.at_risk
    expected = (d * at_risk / n).sum()
    variance = (d * at_risk * (n - at_risk) * (n - d) / (n**2 * np.maximum(n - 1, 1))).sum()
    return {
        "chi2": (own.events.sum() - expected) ** 2 / variance,
        "expected_events_placebo": expected, "observed_events_placebo": own.events.sum(),
    }  # fmt: skip


def free_location(data: dict[str, Any]) -> Answers:
    """The location at which the shifted times have the likeliest Weibull fit."""
    times, seen = np.array(data["times"], float), 1 - np.array(data["censored"])

    def fitted(location: float) -> Any:
        return fit(WEIBULL, durations(times - location, seen))

    best = optimize.minimize_scalar(
        lambda c: -fitted(c).log_likelihood, bounds=(50, 142), method="bounded",
        options={"xatol": 1e-7},
    ).x  # fmt: skip
    named = {f"weibull.{k}": v for k, v in fitted(best).parameters.items()}
    return named | {"weibull.loc": best}


def recurrent(times: list[float], end: float, failure_terminated: bool) -> Answers:
    tested = trend(times, end, failure_terminated=failure_terminated)
    law = crow_amsaa(times, end, failure_terminated=failure_terminated)
    assert tested is not None
    assert law is not None
    return {
        "sum_log_times": np.log(times).sum(), "crow.beta_mle": law.beta, "crow.lambda": law.scale,
        "crow.beta_unbiased": law.beta_unbiased,
        "crow.mtbf_instantaneous_end": 1 / law.end_intensity,
        "crow.mtbf_instantaneous_end_modified": end / (law.n_events * law.beta_unbiased),
        "laplace.U": tested.laplace_u, "mil189.chi2": tested.mil_hdbk_189_chi2,
        "mil189.df": tested.df, "mil189.p_two_sided": tested.mil_hdbk_189_p,
    }  # fmt: skip


def recurrent_times(data: dict[str, Any]) -> Answers:
    return recurrent(data["times"], data["end"], data["termination"] == "failure")


def recurrent_gaps(data: dict[str, Any]) -> Answers:
    times = np.cumsum(data["gaps"]).astype(float)
    return recurrent(times.tolist(), float(times[-1]), data["termination"] == "failure")


def recurrent_grouped(data: dict[str, Any]) -> Answers:
    rows = data["intervals"]
    counts = [row["failures"] for row in rows]
    edges = [rows[0]["start"], *(row["end"] for row in rows)]
    beta, scale = crow_amsaa_grouped(edges, counts, sum(counts))
    return {"crow.beta_mle": beta, "crow.lambda": scale}


def mcf(data: dict[str, Any]) -> Answers:
    assert data["last_is_end_of_observation"]
    curve = mean_cumulative([u[:-1] for u in data["units"]], [u[-1] for u in data["units"]])
    named = {}
    for i, age in enumerate(curve.age):
        named[f"mcf({age:g})"] = curve.value[i]
        named[f"var_independent_events({age:g})"] = curve.variance_independent[i]
        named[f"var_robust_nelson({age:g})"] = curve.variance[i]
    return named


def rate_ci(data: dict[str, Any]) -> Answers:
    named = {}
    for case in data["cases"]:
        n, exposure = case["n"], case["exposure"]
        place = f"(n={n},T={exposure:g})"
        named[f"rate_low{place}"], named[f"rate_high{place}"] = poisson_interval(n, exposure)
        if n == 0:
            named[f"rate_upper_one_sided95{place}"] = poisson_rate(n, exposure).high
    return named


def goodness(data: dict[str, Any]) -> Answers:
    sample = durations(data["times"], 1 - np.array(data["censored"]))
    named, shorts = {}, ("weibull", "expon")
    fits = [fit(SHORT[short], sample) for short in shorts]
    for short, tested in zip(
        shorts, goodness_of_fit(fits, sample, np.random.default_rng(1), 1999), strict=True
    ):
        named[f"{short}.ks_stat"], named[f"{short}.ks_p_bootstrap"] = tested.statistic, tested.p
        # what must not be reported: the p-value that ignores that the law was fitted
        named[f"{short}.ks_p_naive_INVALID"] = stats.kstwo.sf(tested.statistic, sample.n_events)
    return named


COMPUTE: dict[str, Callable[[dict[str, Any]], Answers]] = {
    "lifetime": lifetime, "lifetime_regression": regression, "kaplan_meier": survival_curve,
    "two_sample": two_sample, "lifetime_location_free": free_location,
    "recurrent_times": recurrent_times, "recurrent_gaps": recurrent_gaps,
    "recurrent_grouped": recurrent_grouped, "mcf": mcf, "rate_ci": rate_ci,
    "goodness_of_fit": goodness,
}  # fmt: skip
DATASETS = {d["id"]: d for d in KNOWN["datasets"]}
CHECKS = [(d["id"], check) for d in DATASETS.values() for check in d["expected"]]


@functools.cache
def answers(name: str) -> Answers:
    dataset = DATASETS[name]
    return COMPUTE[dataset["kind"]](dataset["data"])


def test_no_check_is_left_out():
    assert len(CHECKS) == N_CHECKS
    assert len({(name, check["quantity"]) for name, check in CHECKS}) == N_CHECKS


@pytest.mark.parametrize(
    ("name", "check"), CHECKS, ids=[f"{name}:{check['quantity']}" for name, check in CHECKS]
)
def test_known_answer(name, check):
    found, expected = answers(name)[check["quantity"]], check["value"]
    if isinstance(expected, str):
        assert found == expected
    else:
        bound = (check["atol"] or 0.0) + (check["rtol"] or 0.0) * abs(expected)
        assert abs(found - expected) <= bound
    published = check["published"]
    if published is not None:  # to the digits printed
        text = f"{published!r}"
        digits = len(re.sub(r"[.\-]|e.*", "", text).lstrip("0"))
        assert found == pytest.approx(published, rel=max(2 * 10.0 ** (1 - digits), 2e-4))


def test_every_law_was_checked():
    assert set(SHORT.values()) == set(LAWS)
