"""Failure rates: exact intervals, pooling of groups, nodes that fail too often.

A rate is events per exposure of one named unit (node-, GPU- or job-hours); the events are incidents
after merging. Cause-specific rates over the same exposure sum to the total rate exactly; their
intervals do not sum to its interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special
from scipy.optimize import brentq

from pipeline.durations import Floats
from pipeline.errors import WallsplitError

LEVEL = 0.95
FALSE_DISCOVERY_SHARE = 0.05
LEMON_FACTOR = 3.0
LEMON_PROBABILITY = 0.95
MIN_LEMON_EVENTS = 2


class RateError(WallsplitError):
    """Counts or exposures that no rate can be made from."""


@dataclass(frozen=True)
class Rate:
    """Events per unit of exposure with the exact Poisson interval, and the same as mean times.

    Without events: low is 0, high the one-sided bound, the mean time between events is at least
    `mtbf_low` and has no estimate.
    """

    n_events: float
    exposure: float
    rate: float
    low: float
    high: float
    mtbf: float | None
    mtbf_low: float
    mtbf_high: float | None
    method: str


def poisson_interval(n: float, exposure: float, level: float = LEVEL) -> tuple[float, float]:
    """Two-sided exact interval of a Poisson rate: chi2(a/2; 2n) / 2T, chi2(1 - a/2; 2n + 2) / 2T.

    n may be a sum of weights. Source: the chi-square relation of the Poisson law.
    """
    tail = (1 - level) / 2
    low = float(special.gammaincinv(n, tail)) / exposure if n > 0 else 0.0
    return low, float(special.gammainccinv(n + 1, tail)) / exposure


def poisson_rate(n: float, exposure: float, level: float = LEVEL) -> Rate:
    """The rate n / exposure. Estimand: mean rate over the exposure, assuming a Poisson process."""
    if not (math.isfinite(exposure) and exposure > 0 and math.isfinite(n) and n >= 0):
        raise RateError(f"{n} events in an exposure of {exposure}: expected n >= 0, exposure > 0")
    if n == 0:
        high = -math.log(1 - level) / exposure
        return Rate(0, exposure, 0.0, 0.0, high, None, 1 / high, None,
                    f"no event: one-sided {level:.0%} bound")  # fmt: skip
    low, high = poisson_interval(n, exposure, level)
    return Rate(n, exposure, n / exposure, low, high, exposure / n, 1 / high, 1 / low,
                f"exact Poisson, {level:.0%}")  # fmt: skip


@dataclass(frozen=True)
class Pooled:
    """Rates of groups drawn from one gamma law, and the posterior of every group.

    shape is infinite where the groups differ no more than by chance: one common rate.
    """

    mean: float
    shape: float
    rates: Floats
    low: Floats
    high: Floats


def pool(counts: ArrayLike, exposures: ArrayLike, level: float = LEVEL) -> Pooled:
    """Gamma-Poisson pooled rates: groups with few events borrow from all.

    Estimand: the rate of every group, assuming Poisson counts whose rates come from a gamma law
    (shape a, mean m). a and m maximise the negative-binomial likelihood of the counts; the
    posterior of a group is gamma(a + n, a / m + exposure).
    """
    n, t = _counted(counts, exposures)
    if n.sum() == 0:
        raise RateError("no event in any group: only an upper bound of the common rate exists")
    mean, shape = n.sum() / t.sum(), _extra_shape(n, t)
    if math.isinf(shape):
        bounds = poisson_interval(float(n.sum()), float(t.sum()), level)
        common, low, high = (np.full(n.size, rate) for rate in (mean, *bounds))
        return Pooled(mean, shape, common, low, high)
    mean = _mean_at(shape, n, t)
    inverse, tail = shape / mean, (1 - level) / 2
    below, above = (special.gammaincinv(shape + n, q) / (inverse + t) for q in (tail, 1 - tail))
    return Pooled(mean, shape, (shape + n) / (inverse + t), below, above)


def _mean_at(shape: float, n: Floats, t: Floats) -> float:
    """The mean rate that makes the counts most likely at this shape."""

    def score(log_mean: float) -> float:
        expected = math.exp(log_mean) * t
        return float(((n - expected) / (1 + expected / shape)).sum())

    rates = (n + 0.5) / t
    return math.exp(brentq(score, math.log(rates.min()) - 5, math.log(rates.max()) + 5))


def _profile(shape: float, n: Floats, t: Floats) -> float:
    """Negative-binomial log-likelihood at this shape and its best mean, constants left out."""
    expected = _mean_at(shape, n, t) * t
    steps = special.gammaln(shape + n) - special.gammaln(shape) - n * math.log(shape)
    return float((steps + n * np.log(expected) - (shape + n) * np.log1p(expected / shape)).sum())


def _extra_shape(n: Floats, t: Floats) -> float:
    """The shape that makes the counts most likely; infinite where it has no maximum."""
    grid = np.exp(np.linspace(math.log(1e-3), math.log(1e5), 120))
    heights = [_profile(a, n, t) for a in grid]
    best = int(np.argmax(heights))
    if best == grid.size - 1:
        return math.inf
    low, high = math.log(grid[max(best - 1, 0)]), math.log(grid[best + 1])
    golden = (math.sqrt(5) - 1) / 2
    while high - low > 1e-8:
        one, other = high - golden * (high - low), low + golden * (high - low)
        if _profile(math.exp(one), n, t) < _profile(math.exp(other), n, t):
            low = one
        else:
            high = other
    return math.exp((low + high) / 2)


@dataclass(frozen=True)
class NodeRate:
    """One node against all: how unlikely its count is, and whether it is a lemon.

    p: probability of at least so many of all events on this node, by its share of the exposure.
    q: p after Benjamini-Hochberg over all nodes. p_triple: posterior probability that its rate is
    more than 3 times the group's mean.
    """

    node: str
    n_events: int
    exposure: float
    p: float
    q: float
    p_triple: float
    is_lemon: bool


def lemons(counts: Mapping[str, int], exposures: Mapping[str, float]) -> list[NodeRate]:
    """Every node with exposure, those that fail most unlikely often first.

    A lemon has at least 2 events, and q <= 5 % or a posterior probability above 95 %. Collapse
    retries before counting. Nodes without exposure are left out: they were never in a job. A lemon
    compared before and after its replacement needs a held-out period: regression to the mean.
    """
    strange = sorted(set(counts) - set(exposures))
    if strange:
        raise RateError(f"events on nodes without exposure: {', '.join(strange[:10])}")
    nodes = sorted(node for node, exposure in exposures.items() if exposure > 0)
    if not nodes:
        return []
    n = np.array([counts.get(node, 0) for node in nodes])
    t = np.array([exposures[node] for node in nodes])
    total = int(n.sum())
    share = t / t.sum()
    p = np.where(n > 0, special.bdtrc(n - 1, total, share), 1.0)
    q = benjamini_hochberg(p)
    triple = _posterior_above(n, t, LEMON_FACTOR)
    found = [
        NodeRate(
            node, int(n[i]), float(t[i]), float(p[i]), float(q[i]), float(triple[i]),
            bool(n[i] >= MIN_LEMON_EVENTS
                 and (q[i] <= FALSE_DISCOVERY_SHARE or triple[i] > LEMON_PROBABILITY)),
        )
        for i, node in enumerate(nodes)
    ]  # fmt: skip
    return sorted(found, key=lambda r: (r.p, r.node))


def _posterior_above(n: Floats, t: Floats, factor: float) -> Floats:
    """Posterior probability of a rate above `factor` times the pooled mean; 0 without variation."""
    if n.sum() == 0 or n.size < 2:
        return np.zeros(n.size)
    pooled = pool(n, t)
    if math.isinf(pooled.shape):
        return np.zeros(n.size)
    bound = factor * pooled.mean * (pooled.shape / pooled.mean + t)
    return np.asarray(special.gammaincc(pooled.shape + n, bound))


def benjamini_hochberg(p: ArrayLike) -> Floats:
    """p-values adjusted so that calling those <= x keeps the false share of calls below x."""
    values = np.asarray(p, float)
    order = np.argsort(values)
    ranks = np.arange(1, values.size + 1)
    stepped = np.minimum.accumulate((values[order] * values.size / ranks)[::-1])[::-1]
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def _counted(counts: ArrayLike, exposures: ArrayLike) -> tuple[Floats, Floats]:
    n, t = np.asarray(counts, float), np.asarray(exposures, float)
    if n.shape != t.shape or n.size == 0 or np.any(n < 0) or not np.all(t > 0):
        raise RateError("expected one count >= 0 and one exposure > 0 per group")
    return n, t
