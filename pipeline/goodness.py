"""Goodness of fit: is the distance between a fitted law and the data what the law itself gives?

The distance is Kolmogorov-Smirnov's, with Kaplan-Meier in place of the empirical distribution: the
greatest difference between it and the fitted survival, just before and just after every end seen.
Its distribution under a fitted law has no table: the p-value is a parametric bootstrap. Every
replicate is drawn from the fitted law, censored as the data were, and fitted again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.distributions import Law
from pipeline.durations import Batch, Durations, Flags, Floats, Ints, Rows
from pipeline.fits import Fit, fit, maximise
from pipeline.survival import kaplan_meier

METHOD = "Kolmogorov-Smirnov distance, parametric bootstrap, refitted"
MAX_ROWS = 1_000
MIN_ENDS = 20
MAX_COUNT = 1e9  # more than anybody counted: weights of that size are something else
_CELLS = 400_000  # durations drawn at a time: bounds the memory
_TOLERANCE = 1e-2  # of the last step of a replicate's fit: the error left is about its square
_N_NODES = 12  # ages at which log survival is read for the censored rows of a replicate
_MIN_CONVERGED_SHARE = 0.9


@dataclass(frozen=True)
class Goodness:
    """Distance of a fitted law from the data, and how often the law itself gives a greater one.

    p is null where it was not asked for or cannot be had; `method` says why.
    """

    statistic: float | None
    p: float | None
    method: str
    n_replicates: int


def goodness_of_fit(
    fits: Sequence[Fit], sample: Durations, rng: np.random.Generator, n_replicates: int
) -> list[Goodness]:
    """For every law fitted to the sample: (1 + replicates at least as far) / (1 + replicates).

    Needs exact or right-censored ends; late entries are allowed. Beyond `MAX_ROWS` rows a random
    subset of that size is tested, if it holds `MIN_ENDS` ends. The plain Kolmogorov p-value
    presumes a law that was not fitted to the same data, and lets bad fits pass.
    """
    if sample.is_interval.any():
        why = "not defined for ends between two instants"
        return [Goodness(None, None, why, 0) for _ in fits]
    n_rows = float(sample.weight.sum())
    is_counted = bool(np.all(sample.weight == np.round(sample.weight))) and n_rows < MAX_COUNT
    if n_replicates == 0 or not is_counted:
        why = "not asked for" if is_counted else "not defined for weights that are no counts"
        return [Goodness(_distance(f, sample), None, why, 0) for f in fits]
    method = METHOD
    if n_rows > MAX_ROWS:
        whole, sample = sample, _subset(sample, rng, MAX_ROWS)
        subset = f"{MAX_ROWS} of {n_rows:.0f} rows drawn at random, with {sample.n_events:.0f} ends"
        if sample.n_events < MIN_ENDS:
            return [Goodness(_distance(f, whole), None, f"not tested: {subset}", 0) for f in fits]
        method += f", on {subset}"
        fits = [fit(f.law, sample) for f in fits]
    scheme = _Scheme.of(sample)
    size = max(1, _CELLS // scheme.entry.size)
    parts = []
    for done in range(0, n_replicates, size):
        limit = scheme.censoring(rng, min(size, n_replicates - done))
        parts.append([_replicate_distances(f, scheme, limit, rng) for f in fits])
    return [
        _compared(_distance(f, sample), np.concatenate(far), method)
        for f, far in zip(fits, zip(*parts, strict=True), strict=True)
    ]


def _compared(distance: float, far: Floats, method: str) -> Goodness:
    """How the distance ranks among those of the replicates; NaN where one could not be fitted."""
    fitted = far[np.isfinite(far)]
    if fitted.size < _MIN_CONVERGED_SHARE * far.size:
        why = f"only {fitted.size} of {far.size} replicates could be fitted"
        return Goodness(distance, None, why, int(fitted.size))
    # a replicate that ties with the data up to rounding counts as at least as far
    n_far = int((fitted >= distance * (1 - 1e-9)).sum())
    return Goodness(distance, (1 + n_far) / (1 + fitted.size), method, int(fitted.size))


def _distance(fitted: Fit, sample: Durations) -> float:
    return ks_distance(fitted.law, fitted.theta, sample.scaled(1 / fitted.unit))


def ks_distance(law: Law, theta: Floats, sample: Durations) -> float:
    """Greatest |Kaplan-Meier - fitted survival| at the ends, before and after each jump."""
    curve = kaplan_meier(sample)
    fitted = law.survival(curve.age, theta[:, None])
    before = np.concatenate([[1.0], curve.value[:-1]])
    return float(np.maximum(np.abs(before - fitted), np.abs(curve.value - fitted)).max())


def _subset(sample: Durations, rng: np.random.Generator, size: int) -> Durations:
    """`size` of the rows that the weights stand for, drawn without replacement."""
    counts = sample.weight.astype(np.int64)
    drawn = rng.multivariate_hypergeometric(counts, size, method="marginals")
    kept = drawn > 0
    rows = sample.take(kept)
    return Durations(rows.entry, rows.lower, rows.upper, drawn[kept].astype(float))


@dataclass(frozen=True)
class _Scheme:
    """How the data were entered and censored, one row per thing observed.

    Censored rows keep their censoring age. That of a row whose end was seen is not known; it is
    drawn from Kaplan-Meier's estimate of the censoring law beyond that end.
    """

    entry: Floats
    censored_at: Floats  # infinite where the end was seen
    beyond: Floats  # estimated P(not yet censored) at the end; 0 for censored rows
    cuts: Floats  # ages at which rows were censored
    survival: Floats  # estimated P(censored later) at these ages, descending

    @classmethod
    def of(cls, sample: Durations) -> _Scheme:
        """The scheme of exact and right-censored rows whose weights are counts."""
        copies = sample.weight.astype(np.int64)
        entry, age = np.repeat(sample.entry, copies), np.repeat(sample.lower, copies)
        gone = np.repeat(sample.is_censored, copies)
        lost = kaplan_meier(
            Durations(
                sample.entry, sample.lower,
                np.where(sample.is_censored, sample.lower, np.inf), sample.weight,
            )
        )  # fmt: skip
        return cls(
            entry, np.where(gone, age, np.inf), np.where(gone, 0.0, lost.at(age, 1.0)),
            lost.age, lost.value,
        )  # fmt: skip

    def censoring(self, rng: np.random.Generator, n: int) -> Floats:
        """(n, rows): a censoring age for every row of every replicate."""
        if self.survival.size == 0:
            return np.full((n, self.entry.size), np.inf)
        drawn = np.tile(self.censored_at, (n, 1))
        seen = np.isinf(self.censored_at)
        level = rng.random((n, int(seen.sum()))) * self.beyond[seen]
        # the first cut at which no more than `level` is left
        places = np.searchsorted(-self.survival, -level)
        drawn[:, seen] = np.concatenate([self.cuts, [np.inf]])[places]
        return drawn


def _replicate_distances(
    fitted: Fit, scheme: _Scheme, limit: Floats, rng: np.random.Generator
) -> Floats:
    """Distance of every replicate from its own fit; NaN where it could not be fitted.

    limit: (replicates, rows), the age at which each row is censored.
    """
    law, theta, (n, n_rows) = fitted.law, fitted.theta, limit.shape
    entry, limit = scheme.entry / fitted.unit, limit / fitted.unit
    is_late = entry > 0
    if is_late.any():
        alive = law.survival(np.where(is_late, entry, 1.0), theta[:, None])
        end = law.quantile(rng.random(limit.shape) * np.where(is_late, alive, 1.0), theta)
        end = np.maximum(end, entry * (1 + 1e-9))  # rounding must not end it at its entry
    else:
        end = law.draw(rng, theta, limit.shape)
    age, is_end = _sorted(np.minimum(end, limit), end <= limit)
    batch = _batch(fitted, age, is_end, entry, scheme.cuts / fitted.unit)
    refitted = maximise(law, batch, np.tile(theta[:, None], n), tolerance=_TOLERANCE)
    # in ascending order row j has j rows before it that are gone
    entered = np.searchsorted(np.sort(entry), age) if is_late.any() else n_rows
    at_risk = entered - np.arange(n_rows)
    after = np.cumprod(1 - is_end / at_risk, axis=1)
    before = np.concatenate([np.ones((n, 1)), after[:, :-1]], axis=1)
    rows = batch.events
    expected = law.survival(rows.t, refitted.theta[:, rows.owner])
    gap = np.zeros(limit.shape)
    gap[is_end] = np.maximum(np.abs(before[is_end] - expected), np.abs(after[is_end] - expected))
    return np.where(refitted.converged, gap.max(axis=1), np.nan)


def _sorted(age: Floats, is_end: Flags) -> tuple[Floats, Flags]:
    """Every row of the matrix ascending, ends before censored ages that are equal.

    Positive doubles sort as their bit patterns: the last bit carries the flag along, at the price
    of one unit in the last place, and saves an index sort.
    """
    bits = age.view(np.int64) & ~np.int64(1) | ~is_end
    bits.sort(axis=1)
    return (bits & ~np.int64(1)).view(np.float64), (bits & 1) == 0


def _batch(fitted: Fit, age: Floats, is_end: Flags, entry: Floats, cuts: Floats) -> Batch:
    """The replicates as the likelihood sees them."""
    n = age.shape[0]
    n_ends = is_end.sum(axis=1)

    def rows(t: Floats, counts: Ints) -> Rows:
        return Rows(t, np.ones(t.size), np.repeat(np.arange(n), counts), n)

    none = rows(np.empty(0), np.zeros(n, np.int64))
    survivors = _condensed(fitted, rows(age[~is_end], age.shape[1] - n_ends), cuts)
    late = entry[entry > 0]
    if late.size:
        t = np.concatenate([survivors.t, np.tile(late, n)])
        weight = np.concatenate([survivors.weight, -np.ones(late.size * n)])
        owner = np.concatenate([survivors.owner, np.repeat(np.arange(n), late.size)])
        order = np.argsort(owner, kind="stable")
        survivors = Rows(t[order], weight[order], owner[order], n)
    return Batch(rows(age[is_end], n_ends), survivors, none, none)


def _condensed(fitted: Fit, survivors: Rows, cuts: Floats) -> Rows:
    """Few rows per replicate in place of all its censored ones, with equal sums of log survival.

    Censored ages are among the cuts, so that counts of cuts stand for them. Many cuts are condensed
    to Chebyshev nodes: log survival of laws close to the fitted one is close to a polynomial in the
    root of the fitted cumulative hazard, and polynomials keep their sums exactly.
    """
    n, m = survivors.n_samples, cuts.size
    if survivors.t.size <= n * min(m, _N_NODES):
        return survivors
    place = np.searchsorted(cuts, survivors.t * (1 - 1e-9))
    counts = np.bincount(survivors.owner * m + place, minlength=n * m).reshape(n, m)
    is_met = counts.any(axis=0)
    weights, ages = counts[:, is_met].astype(float), cuts[is_met]
    if ages.size > _N_NODES:
        law, theta = fitted.law, fitted.theta
        root = np.sqrt(-np.log(np.maximum(law.survival(ages, theta[:, None]), 1e-300)))
        low, high = root.min(), root.max()
        angle = (np.arange(_N_NODES) + 0.5) * np.pi / _N_NODES
        x = np.clip((2 * root - low - high) / max(high - low, 1e-12), -1, 1)
        degree = np.arange(_N_NODES)
        polynomials = np.cos(np.outer(np.arccos(x), degree))
        inverse = np.cos(np.outer(degree, angle)) * np.where(degree == 0, 1, 2)[:, None] / _N_NODES
        weights = weights @ polynomials @ inverse
        nodes = (low + high + np.cos(angle) * (high - low)) / 2
        ages = law.quantile(np.exp(-(nodes**2)), theta)
    weight: Floats = weights.ravel()
    return Rows(np.tile(ages, n), weight, np.repeat(np.arange(n), ages.size), n)
