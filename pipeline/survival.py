"""Estimates without a law: Kaplan-Meier, Nelson-Aalen, Aalen-Johansen.

All three count, at every age at which an end was seen, the ends (by weight) and what was at risk
just before: rows that had entered and had not yet ended or been lost. Rows lost at an age count as
at risk at that age. Ends between two instants are refused: these estimates need exact ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import special

from pipeline.durations import Durations, DurationsError, Floats


@dataclass(frozen=True)
class Curve:
    """An estimate at the ages where it jumps, with its standard error and pointwise interval."""

    age: Floats
    at_risk: Floats
    events: Floats
    value: Floats
    standard_error: Floats
    low: Floats
    high: Floats

    def at(self, ages: Floats, before: float) -> Floats:
        """The value at these ages; `before` left of the first jump."""
        place = np.searchsorted(self.age, ages, side="right")
        return np.concatenate([[before], self.value])[place]


def kaplan_meier(sample: Durations, level: float = 0.95) -> Curve:
    """P(T > t) after every age with an end; Greenwood standard error, log-log interval.

    Estimand: survival, assuming that censoring says nothing about the end. At the end of a sample
    whose last row is an end it is 0, with no standard error and no interval there.
    """
    age, at_risk, events = _jumps(sample)
    value = np.asarray(np.cumprod(1 - events / at_risk), float)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.sqrt(np.cumsum(events / (at_risk * (at_risk - events))))
        reach = np.exp(special.ndtri((1 + level) / 2) * spread / np.abs(np.log(value)))
        known: list[Floats] = [
            np.where(value > 0, part, np.nan)
            for part in (value * spread, value**reach, value ** (1 / reach))
        ]
    return Curve(age, at_risk, events, value, *known)


def nelson_aalen(sample: Durations, level: float = 0.95) -> Curve:
    """Cumulative hazard after every age with an end: sum of ends / at risk; log interval."""
    age, at_risk, events = _jumps(sample)
    value: Floats = np.cumsum(events / at_risk)
    error: Floats = np.sqrt(np.cumsum(events / at_risk**2))
    reach = np.exp(special.ndtri((1 + level) / 2) * error / value)
    return Curve(age, at_risk, events, value, error, value / reach, value * reach)


def aalen_johansen(by_cause: Mapping[str, Durations], level: float = 0.95) -> dict[str, Curve]:
    """P(ended by this cause before t) among competing causes, at every age with an end of any.

    by_cause: for every cause the same rows, ends of the other causes as censored. Estimand:
    cumulative incidence; over all causes it sums with Kaplan-Meier's survival to 1, which
    1 - Kaplan-Meier of single causes does not. It does not say what would happen without one of
    them. Standard error: delta method; interval on the log-log scale.
    """
    samples = list(by_cause.values())
    exposures = [s.exposure for s in samples]
    if not np.allclose(exposures, exposures[0], rtol=1e-9):
        raise DurationsError(f"causes with different time at risk: {exposures}")
    ends = [_jumps(s) for s in samples]
    age = np.unique(np.concatenate([a for a, _, _ in ends]))
    ours = np.zeros((len(samples), age.size))
    for i, (own_age, _, events) in enumerate(ends):
        ours[i, np.searchsorted(age, own_age)] = events
    at_risk, events = _at_risk(samples[0], age), ours.sum(axis=0)
    survival = np.concatenate([[1.0], np.cumprod(1 - events / at_risk)])[:-1]
    curves = {}
    for cause, own in zip(by_cause, ours, strict=True):
        value = np.cumsum(survival * own / at_risk)
        error = np.sqrt(_incidence_variance(at_risk, events, own, survival, value))
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.exp(special.ndtri((1 + level) / 2) * error / (value * -np.log(value)))
            low, high = value**reach, value ** (1 / reach)
        curves[cause] = Curve(age, at_risk, own, value, error, low, high)
    return curves


def _incidence_variance(
    at_risk: Floats, events: Floats, ours: Floats, survival: Floats, value: Floats
) -> Floats:
    """Variance of the cumulative incidence at every age t: sums over the ages s <= t of

        (F(t) - F(s))^2 d / (n (n - d))  +  S(s-)^2 d_k (n - d_k) / n^3
            -  2 (F(t) - F(s)) S(s-) d_k / n^2

    with d of all causes, d_k of this one, n at risk.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        risk = np.where(at_risk > events, events / (at_risk * (at_risk - events)), 0.0)
    own = survival**2 * ours * (at_risk - ours) / at_risk**3
    mixed = survival * ours / at_risk**2
    square = value**2 * np.cumsum(risk) - 2 * value * np.cumsum(risk * value)
    square += np.cumsum(risk * value**2)
    cross = value * np.cumsum(mixed) - np.cumsum(mixed * value)
    variance: Floats = np.maximum(square + np.cumsum(own) - 2 * cross, 0.0)  # rounding
    return variance


def _jumps(sample: Durations) -> tuple[Floats, Floats, Floats]:
    """(ages at which ends were seen, at risk just before, ends), by weight."""
    if sample.is_interval.any():
        raise DurationsError(
            "ends between two instants: Kaplan-Meier and its kin need exact ends; fit a law instead"
        )
    exact = sample.is_exact
    age, place = np.unique(sample.lower[exact], return_inverse=True)
    events: Floats = np.bincount(place, sample.weight[exact], age.size).astype(float)
    return age, _at_risk(sample, age), events


def _at_risk(sample: Durations, age: Floats) -> Floats:
    """Weight of the rows that had entered before each age and were alive just before it."""
    return _later(sample.lower, sample.weight, age) - _later(sample.entry, sample.weight, age)


def _later(at: Floats, weight: Floats, ages: Floats) -> Floats:
    """Weight of the rows whose instant is at or behind each age."""
    order = np.argsort(at, kind="stable")
    behind = np.concatenate([np.cumsum(weight[order][::-1])[::-1], [0.0]])
    found: Floats = behind[np.searchsorted(at[order], ages, side="left")]
    return found
