"""Failures that recur: trend tests, power law of reliability growth, mean cumulative function.

Times are cumulative exposure, not calendar time: a fleet that grows fails more often without any
trend. The trend comes first: gaps whose rate changes do not share one law, and none may be fitted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special
from scipy.optimize import brentq

from pipeline.durations import DurationsError, Floats, Ints

MIN_EVENTS_FOR_TREND = 8
MIN_WINDOWS = 10


@dataclass(frozen=True)
class Trend:
    """Two tests of a constant rate against a monotone one, and what both say together.

    laplace_u > 0 and a small mil_hdbk_189_chi2 mean failures get more frequent. p is two-sided; the
    verdict is `none`, `worsening`, `improving` or `too_few_events` (below 8).
    """

    n_events: int
    laplace_u: float
    laplace_p: float
    mil_hdbk_189_chi2: float
    df: int
    mil_hdbk_189_p: float
    verdict: str


@dataclass(frozen=True)
class PowerLaw:
    """Crow-AMSAA: expected failures scale x T^beta; the intensity at the end, and intervals.

    beta > 1: failures get more frequent. beta_unbiased corrects the small-sample bias of beta; it
    is null where there are too few events for it.
    """

    n_events: int
    beta: float
    beta_low: float
    beta_high: float
    beta_unbiased: float | None
    scale: float
    end_intensity: float
    end_intensity_low: float
    end_intensity_high: float


def trend(times: ArrayLike, end: float, *, failure_terminated: bool = False) -> Trend | None:
    """Laplace and MIL-HDBK-189 tests of failure times; null without events to test.

    times: cumulative exposure at every failure, of one system or of a fleet. end: exposure at which
    observation stopped; with `failure_terminated` it is that of the last failure, which then is no
    event of the tests. Assumption under test: a Poisson process of constant rate.
    Laplace: U = (mean t - T/2) / (T sqrt(1 / 12 n)). MIL-HDBK-189: chi2 = 2 sum ln(T / t) with 2n
    degrees of freedom. A trend needs p < 0.05 in both, or |U| > 2.58, and at least 8 events.
    """
    t, end = _checked(times, end, failure_terminated)
    inner = t[:-1] if failure_terminated else t
    n = inner.size
    if n == 0:
        return None
    u = (inner.mean() - end / 2) / (end * math.sqrt(1 / (12 * n)))
    chi2 = 2 * np.log(end / inner).sum()
    lower = float(special.gammainc(n, chi2 / 2))
    u_p = 2 * float(special.ndtr(-abs(u)))
    chi2_p = 2 * min(lower, float(special.gammaincc(n, chi2 / 2)))
    if t.size < MIN_EVENTS_FOR_TREND:
        verdict = "too_few_events"
    elif (u_p < 0.05 and chi2_p < 0.05) or abs(u) > 2.58:
        verdict = "worsening" if u > 0 else "improving"
    else:
        verdict = "none"
    return Trend(int(t.size), float(u), u_p, float(chi2), 2 * n, chi2_p, verdict)


def crow_amsaa(
    times: ArrayLike, end: float, *, failure_terminated: bool = False, level: float = 0.95
) -> PowerLaw | None:
    """The power-law process that fits best; null without two different failure times.

    Estimand: the intensity scale beta t^(beta - 1) of a Poisson process. beta = n / sum ln(T / t);
    its interval is exact (chi-square with 2n degrees, 2(n - 1) failure-terminated), that of the
    intensity at the end is the profile likelihood. Source: MIL-HDBK-189.
    """
    t, end = _checked(times, end, failure_terminated)
    n = t.size
    spread = float(np.log(end / t).sum()) if n else 0.0
    if spread <= 0:
        return None
    beta = n / spread
    degrees = n - 1 if failure_terminated else n
    tail = (1 - level) / 2
    low, high = (special.gammaincinv(degrees, q) / n * beta for q in (tail, 1 - tail))
    lost = 2 if failure_terminated else 1
    # log-likelihood with r times the estimated end intensity and the best beta: n (ln r - 2 sqrt r)
    drop = float(special.chdtri(1, 1 - level)) / (2 * n)

    def excess(log_r: float) -> float:
        return 2 * math.exp(log_r / 2) - log_r - 2 - drop

    reach = 2 + 2 * math.sqrt(drop) + drop
    ratios = [math.exp(brentq(excess, *bounds)) for bounds in ((-reach, 0.0), (0.0, reach))]
    intensity = n * beta / end
    return PowerLaw(
        n, beta, float(low), float(high), beta * (n - lost) / n if n > lost else None,
        n / end**beta, intensity, intensity * ratios[0], intensity * ratios[1],
    )  # fmt: skip


def crow_amsaa_grouped(
    edges: Sequence[float], counts: Sequence[int], n_events: int
) -> tuple[float, float]:
    """(beta, scale) of the power law from counts per interval of cumulative exposure.

    edges: one more than counts, ascending from 0. counts: failures inside each interval, not
    cumulative; they must sum to `n_events`. Solves sum n_k [(b^beta ln b - a^beta ln a) / (b^beta -
    a^beta) - ln T] = 0 for intervals (a, b]. Source: MIL-HDBK-189.
    """
    edge, count = np.asarray(edges, float), np.asarray(counts, float)
    if edge.size != count.size + 1 or edge[0] != 0 or np.any(np.diff(edge) <= 0):
        raise DurationsError("edges must ascend from 0, one more than there are counts")
    if np.any(count < 0) or count.sum() != n_events or n_events < 1:
        raise DurationsError(
            f"counts sum to {count.sum():g} for {n_events} failures: expected failures inside each "
            "interval, not cumulative ones"
        )
    # in units of the end: ln T = 0, and edges stay in (0, 1]
    a, b = edge[:-1] / edge[-1], edge[1:] / edge[-1]

    def score(beta: float) -> float:
        return float((count * _log_slope(a, b, beta)).sum())

    if score(_BETA_RANGE[0]) * score(_BETA_RANGE[1]) > 0:
        raise DurationsError("all failures lie in the first or last interval: no beta fits best")
    beta = float(brentq(score, *_BETA_RANGE, xtol=1e-12))
    return beta, n_events / float(edge[-1]) ** beta


_BETA_RANGE = (0.01, 50.0)


def _log_slope(a: Floats, b: Floats, beta: float) -> Floats:
    """d/d beta of ln(b^beta - a^beta); 0 ln 0 = 0."""
    top, bottom = b**beta, a**beta
    log_a = np.log(np.where(a > 0, a, 1.0))
    slope: Floats = (top * np.log(b) - bottom * log_a) / (top - bottom)
    return slope


@dataclass(frozen=True)
class MeanCumulative:
    """Mean number of failures per unit up to each age, with robust pointwise interval."""

    age: Floats
    at_risk: Ints
    value: Floats
    variance: Floats
    variance_independent: Floats
    low: Floats
    high: Floats


def mean_cumulative(
    failures: Sequence[ArrayLike], ends: ArrayLike, level: float = 0.95
) -> MeanCumulative:
    """The mean cumulative function of units with their own end of observation.

    failures: ages of every unit's failures; ends: age at which each unit was last seen. A failure
    at a unit's end counts: it is still at risk. Estimand: expected failures per unit by age,
    without any assumption on how failures of a unit depend on each other.
    variance: sum over units of (sum over ages of (d_i - mean d) / at risk)^2, which keeps the
    covariance within units. variance_independent takes single failures as independent; some
    packages print it. The interval is value x exp(+- z se / value) with the former.
    """
    last = np.asarray(ends, float)
    times = [np.asarray(f, float) for f in failures]
    if len(times) != last.size or last.size == 0:
        raise DurationsError(f"{len(times)} units with failures, {last.size} ends of observation")
    for unit, (seen, end) in enumerate(zip(times, last, strict=True), 1):
        if not np.isfinite(end) or np.any(~np.isfinite(seen) | (seen < 0) | (seen > end)):
            raise DurationsError(f"unit {unit}: failures outside 0 .. {end}, its observation")
    age, place = np.unique(np.concatenate(times), return_inverse=True)
    unit_of = np.repeat(np.arange(last.size), [seen.size for seen in times])
    count = np.bincount(place, minlength=age.size)
    m = last.size - np.searchsorted(np.sort(last), age, side="left")  # ends at the age count
    value = np.cumsum(count / m)
    # every failure by itself: the sum over units of (d_i - 1/m)^2 / m^2 is (1 - 1/m) / m^2
    single = np.cumsum(count * (1 - 1 / m) / m**2)
    variance = np.zeros(age.size)
    drift = np.zeros(last.size)  # of every unit from the mean so far
    for k, when in enumerate(age):
        drift -= np.where(last >= when, count[k] / m[k] ** 2, 0.0)
        np.add.at(drift, unit_of[place == k], 1 / m[k])
        variance[k] = (drift**2).sum()
    reach = np.exp(float(special.ndtri((1 + level) / 2)) * np.sqrt(variance) / value)
    return MeanCumulative(age, m, value, variance, single, value / reach, value * reach)


@dataclass(frozen=True)
class Dispersion:
    """Variance over mean of counts in windows of equal exposure, and its chi-square p-value.

    1 for a Poisson process; more means bursts. p and is_overdispersed are null below 10 windows.
    """

    index: float
    p: float | None
    n_windows: int
    is_overdispersed: bool | None


def dispersion(counts: ArrayLike) -> Dispersion | None:
    """Whether failures come in bursts: index > 1.5 with p < 0.05; null without any failure.

    Assumption under test: equal Poisson counts in windows of equal exposure.
    """
    count = np.asarray(counts, float)
    n = count.size
    if n < 2 or count.sum() == 0:
        return None
    index = float(count.var(ddof=1) / count.mean())
    if n < MIN_WINDOWS:
        return Dispersion(index, None, n, None)
    p = float(special.chdtrc(n - 1, (n - 1) * index))
    return Dispersion(index, p, n, index > 1.5 and p < 0.05)


def _checked(times: ArrayLike, end: float, failure_terminated: bool) -> tuple[Floats, float]:
    """Ascending failure times within the observation, and its end."""
    t = np.sort(np.asarray(times, float))
    if failure_terminated and t.size:
        end = float(t[-1])
    if not math.isfinite(end) or end <= 0:
        raise DurationsError(f"observation ends at {end}: expected an exposure above 0")
    if t.size and (not np.isfinite(t).all() or t[0] <= 0 or t[-1] > end):
        raise DurationsError(f"failure times outside the observation, 0 to {end:g}")
    return t, end
