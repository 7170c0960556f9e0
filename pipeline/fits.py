"""Maximum-likelihood fits of a law: estimates, standard errors, profile intervals, AICc and BIC.

Newton's method in log-parameters on data scaled by their median, on many samples at once. Right-
and interval-censored, left-truncated and weighted rows enter the likelihood as

    sum w log f(t)  +  sum w log S(t)  +  sum w log(S(a) - S(b))  -  sum w log S(entry)
        exact             censored           between a and b             entered late

Standard errors come from the observed information, intervals from the profile likelihood: the set
where twice the drop from its maximum stays below the chi-square quantile (3.8415 at 95 %).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement

import numpy as np
from scipy import special

from pipeline.distributions import Kind, Law, Terms
from pipeline.durations import Batch, Durations, Flags, Floats, batch_of

LEVEL = 0.95
MAX_PROFILE_ROWS = 100_000
_TOLERANCE = 1e-7  # of the last Newton step: the error left is its square
_MAX_STEPS = 100
_MAX_STEP = 2.0  # in log-parameters
_MAX_HALVINGS = 40
_MIN_CURVATURE = 1e-9  # of the flattest direction against the steepest
_STILL_SHARE = 0.3  # of samples at rest, from which on only the others are computed
_MAX_THETA = 25.0  # shapes and scales beyond e^25 medians are no estimates


@dataclass(frozen=True)
class Maximum:
    """Where the likelihood of every sample of a batch is greatest."""

    theta: Floats  # (k, samples)
    value: Floats
    gradient: Floats  # (k, samples)
    hessian: Floats  # (k (k + 1) / 2, samples), upper triangles
    converged: Flags


@dataclass(frozen=True)
class Fit:
    """One law fitted to one sample; durations in the unit of the sample.

    intervals: profile likelihood at `LEVEL`; a bound that was not found is null. `parameters` of a
    fit that did not converge are where the search stopped, and no estimates.
    """

    law: Law
    theta: Floats  # (k,) in the sample's median as unit
    unit: float
    parameters: dict[str, float]
    standard_errors: dict[str, float | None]
    intervals: dict[str, tuple[float | None, float | None]]
    log_likelihood: float
    aicc: float | None  # null where events are too few for the correction
    bic: float
    n_events: float
    converged: bool
    interval_method: str


def fit(law: Law, sample: Durations) -> Fit:
    """The law that makes the sample most likely, whatever the order and unit of its rows.

    Estimand: the parameters of the law of durations of this kind, assuming that they are
    independent, share the law, and that censoring says nothing about the end. Where the likelihood
    has no single maximum (no end, one distinct end, one inspection) it does not converge, and says
    so.
    """
    unit = sample.unit
    batch = batch_of(sample.scaled(1 / unit))
    best = maximise(law, batch, law.start(batch))
    is_peak = best.converged[0] and _is_peaked(best)[0]
    converged = bool(is_peak and sample.n_events > 0)
    errors = np.sqrt(_variances(best)[:, 0]) if converged else np.full(best.theta.shape[0], np.nan)
    is_small = sample.lower.size <= MAX_PROFILE_ROWS
    if converged and is_small:
        bounds = profile_bounds(law, batch, best)[:, :, 0]
    else:  # not a number where the fit did not converge
        z = special.ndtri((1 + LEVEL) / 2)
        bounds = best.theta[:, 0] + np.outer([-z, z], errors)
    k, events = len(law.parameters), sample.n_events
    exact = float(sample.weight[sample.is_exact].sum())
    log_likelihood = float(best.value[0]) - exact * math.log(unit)
    room = events - k - 1
    columns = list(zip(law.parameters.items(), best.theta[:, 0], errors, bounds.T, strict=True))
    return Fit(
        law=law,
        theta=best.theta[:, 0],
        unit=unit,
        parameters={name: natural(kind, value, unit) for (name, kind), value, _, _ in columns},
        standard_errors={
            name: _known(e if kind is Kind.LOG_TIME else e * natural(kind, value, unit))
            for (name, kind), value, e, _ in columns
        },
        intervals={
            name: (_known(natural(kind, low, unit)), _known(natural(kind, high, unit)))
            for (name, kind), _, _, (low, high) in columns
        },
        log_likelihood=log_likelihood,
        aicc=2 * k - 2 * log_likelihood + 2 * k * (k + 1) / room if room > 0 else None,
        bic=k * math.log(events) - 2 * log_likelihood if events > 0 else math.nan,
        n_events=events,
        converged=converged,
        interval_method="profile likelihood" if is_small else "observed information",
    )


def natural(kind: Kind, theta: float, unit: float) -> float:
    """A fitted parameter as users know it, in their unit."""
    if kind is Kind.LOG_TIME:
        return float(theta) + math.log(unit)
    with np.errstate(over="ignore"):
        return float(np.exp(theta)) * (unit if kind is Kind.SCALE else 1.0)


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def likelihood(law: Law, batch: Batch, theta: Floats) -> Terms:
    """Log-likelihood of every sample with gradient and Hessian; theta (k, samples)."""
    terms = law.log_density(batch, theta)
    if batch.survivors.t.size:
        parts = law.parts(batch.survivors, theta)
        terms = _sum(terms, law.log_survival(batch.survivors.totals(parts), theta))
    if batch.upper.t.size:
        terms = _sum(terms, _between(law, batch, theta))
    return terms


def _sum(one: Terms, other: Terms) -> Terms:
    return Terms(
        one.value + other.value,
        tuple(a + b for a, b in zip(one.gradient, other.gradient, strict=True)),
        tuple(a + b for a, b in zip(one.hessian, other.hessian, strict=True)),
    )


def _between(law: Law, batch: Batch, theta: Floats) -> Terms:
    """log(S(a) - S(b)), summed over the rows between a and b; a may be 0, where S is 1."""
    columns, is_born = theta[:, batch.lower.owner], batch.lower.t > 0
    lower = replace(batch.lower, t=np.where(is_born, batch.lower.t, 1.0))
    first, second = (
        law.log_survival(law.parts(rows, theta), columns) for rows in (lower, batch.upper)
    )
    first = Terms(
        np.where(is_born, first.value, 0.0),
        tuple(np.where(is_born, g, 0.0) for g in first.gradient),
        tuple(np.where(is_born, h, 0.0) for h in first.hessian),
    )
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        value = first.value + np.log(-np.expm1(second.value - first.value))
        shares = np.exp(first.value - value), np.exp(second.value - value)  # S(a), S(b) / gap
    gradient = [
        shares[0] * a - shares[1] * b
        for a, b in zip(first.gradient, second.gradient, strict=True)
    ]  # fmt: skip
    pairs = list(combinations_with_replacement(range(len(gradient)), 2))
    hessian = [
        shares[0] * (first.hessian[p] + first.gradient[i] * first.gradient[j])
        - shares[1] * (second.hessian[p] + second.gradient[i] * second.gradient[j])
        - gradient[i] * gradient[j]
        for p, (i, j) in enumerate(pairs)
    ]
    total = batch.upper.total
    return Terms(total(value), tuple(map(total, gradient)), tuple(map(total, hessian)))


def maximise(
    law: Law, batch: Batch, start: Floats, free: Flags | None = None, tolerance: float = _TOLERANCE
) -> Maximum:
    """The maximum of every sample from `start` (k, samples).

    free: (k, samples), parameters that may move (default: all). tolerance: greatest last step; the
    error left is about its square. Steps that would lower the likelihood are halved; where the
    surface is not concave, curvature is taken by its size, so that steps go uphill.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # wild steps are halved
        return _maximise(law, batch, start, free, tolerance)


def _maximise(
    law: Law, batch: Batch, start: Floats, free: Flags | None, tolerance: float
) -> Maximum:
    moving = np.ones_like(start, dtype=bool) if free is None else free
    theta, terms = start.copy(), likelihood(law, batch, start)
    value, gradient, hessian = terms.value, np.stack(terms.gradient), np.stack(terms.hessian)
    converged = np.zeros(start.shape[1], dtype=bool)
    rest, part = np.arange(start.shape[1]), batch  # samples that still move, and their rows
    for _ in range(_MAX_STEPS):
        step = _ascent(gradient[:, rest], hessian[:, rest], moving[:, rest])
        step, terms = _climb(law, part, theta[:, rest], value[rest], step)
        theta[:, rest] += step
        value[rest], gradient[:, rest], hessian[:, rest] = (
            terms.value, np.stack(terms.gradient), np.stack(terms.hessian),
        )  # fmt: skip
        is_still = np.abs(step).max(axis=0) < tolerance
        converged[rest[is_still]] = True
        if is_still.all():
            break
        if is_still.mean() > _STILL_SHARE:
            rest, part = rest[~is_still], part.only(~is_still)
    is_inside = np.isfinite(value) & (np.abs(theta) < _MAX_THETA).all(axis=0)
    return Maximum(theta, value, gradient, hessian, converged & is_inside)


def _square(hessian: Floats) -> Floats:
    """(samples, k, k) from the upper triangles (parts, samples)."""
    if hessian.shape[0] == 1:
        return hessian.T[:, :, None]
    aa, ab, bb = hessian
    return np.moveaxis(np.array([[aa, ab], [ab, bb]]), -1, 0)


def _ascent(gradient: Floats, hessian: Floats, moving: Flags) -> Floats:
    """Newton steps (k, samples), uphill and bounded; zero where a parameter is fixed."""
    is_usable = np.isfinite(gradient).all(axis=0) & np.isfinite(hessian).all(axis=0)
    slope = np.where(moving & is_usable, gradient, 0.0).T
    both = (moving[:, None] & moving[None, :] & is_usable).transpose(2, 0, 1)
    curvature = np.where(both, -_square(hessian), np.eye(moving.shape[0]))
    sizes, axes = np.linalg.eigh(curvature)
    sizes = np.maximum(np.abs(sizes), 1e-12 + 1e-9 * np.abs(sizes).max(axis=1, keepdims=True))
    along = np.einsum("rij,ri->rj", axes, slope) / sizes
    step = np.einsum("rij,rj->ir", axes, along)
    length = np.abs(step).max(axis=0)
    bounded: Floats = step * np.minimum(1.0, _MAX_STEP / np.maximum(length, 1e-300))
    return bounded


def _climb(
    law: Law, batch: Batch, theta: Floats, value: Floats, step: Floats
) -> tuple[Floats, Terms]:
    """The step, or the part of it that does not lead down, and the likelihood behind it."""
    slack = 1e-10 * (1 + np.abs(value))
    for _ in range(_MAX_HALVINGS):
        terms = likelihood(law, batch, theta + step)
        is_down = ~(terms.value >= value - slack)
        if not is_down.any():
            return step, terms
        step = np.where(is_down, step / 2, step)
    step = np.where(is_down, 0.0, step)
    return step, likelihood(law, batch, theta + step)


def _is_peaked(best: Maximum) -> Flags:
    """Whether the likelihood falls in every direction, so that the maximum is a single point."""
    curvature = -_square(best.hessian)
    usable = np.asarray(np.isfinite(curvature).all(axis=(1, 2)))
    sizes = np.linalg.eigvalsh(np.where(usable[:, None, None], curvature, 0.0))
    return np.asarray(usable & (sizes[:, 0] > _MIN_CURVATURE * sizes[:, -1]))


def _variances(best: Maximum) -> Floats:
    """(k, samples): diagonal of the inverse observed information; NaN where it has none."""
    information = -_square(best.hessian)
    usable = np.asarray(np.isfinite(information).all(axis=(1, 2)))
    usable[usable] &= np.abs(np.linalg.det(information[usable])) > 0
    variance = np.full(best.theta.shape, np.nan)
    inverse = np.linalg.inv(information[usable])
    variance[:, usable] = np.diagonal(inverse, axis1=1, axis2=2).T
    return variance


def profile_bounds(law: Law, batch: Batch, best: Maximum, level: float = LEVEL) -> Floats:
    """(2, k, samples): lower and upper bound of every parameter; NaN where none was found.

    With the other parameter at its best for each value, the signed root of twice the drop of the
    log-likelihood is close to linear: Newton's method finds where it reaches the normal quantile.
    """
    k, n = best.theta.shape
    target = float(special.ndtri((1 + level) / 2))
    # copy c of the batch: parameter c // 2, downward where c is even
    which = np.repeat(np.arange(2 * k) // 2, n)
    sign = np.repeat(np.where(np.arange(2 * k) % 2 == 0, -1.0, 1.0), n)
    column = np.arange(2 * k * n)
    copies = batch.repeated(2 * k)
    peak = np.tile(best.theta, 2 * k)
    top = np.tile(best.value, 2 * k)
    free = np.ones_like(peak, dtype=bool)
    free[which, column] = False
    spread = np.sqrt(np.tile(_variances(best), 2 * k)[which, column])
    centre = peak[which, column]
    away = np.where(np.isfinite(spread), spread * target, np.nan)  # distance from the estimate
    found = np.zeros(column.size, dtype=bool)
    theta = peak
    for _ in range(25):
        theta = theta.copy()
        theta[which, column] = np.where(np.isfinite(away), centre + sign * away, centre)
        held = maximise(law, copies, theta, free, tolerance=1e-6)
        theta = held.theta
        drop = np.maximum(top - held.value, 0.0)
        root = np.sqrt(2 * drop)
        found = held.converged & (np.abs(root - target) < 1e-9)
        if (found | ~np.isfinite(away)).all():
            break
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = -sign * held.gradient[which, column] / root
            moved = away + (target - root) / slope
        moved = np.where((slope > 0) & np.isfinite(moved), moved, away * 2)
        away = np.where(found, away, np.clip(moved, away / 3, away * 3))
    bounds = np.where(found, centre + sign * away, np.nan)
    return np.moveaxis(bounds.reshape(k, 2, n), 0, 1)
