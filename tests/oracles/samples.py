"""Samples of every kind of row, on which two implementations must agree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.durations import Durations, durations


@dataclass(frozen=True)
class Case:
    """Rows as the oracles take them, and as durations."""

    time: np.ndarray
    seen: np.ndarray
    entry: np.ndarray
    weight: np.ndarray

    @property
    def sample(self) -> Durations:
        return durations(self.time, self.seen, entry=self.entry, weight=self.weight)


def case(seed: int, n: int, *, shape: float, censored: bool, late: bool, weighted: bool) -> Case:
    rng = np.random.default_rng(seed)
    entry = np.where(rng.random(n) < 0.4, 20 * rng.random(n), 0.0) if late else np.zeros(n)
    age = np.array([next(t for t in 50 * rng.weibull(shape, 500) if t > e) for e in entry])
    limit = entry + rng.exponential(90, n) if censored else np.full(n, np.inf)
    weight = rng.integers(1, 5, n).astype(float) if weighted else np.ones(n)
    return Case(np.minimum(age, limit), age <= limit, entry, weight)


CASES = {
    "complete": case(1, 40, shape=1.4, censored=False, late=False, weighted=False),
    "censored": case(2, 120, shape=0.8, censored=True, late=False, weighted=False),
    "weighted": case(3, 60, shape=2.5, censored=True, late=False, weighted=True),
    "late": case(4, 150, shape=1.2, censored=True, late=True, weighted=False),
    "late and weighted": case(5, 90, shape=0.9, censored=True, late=True, weighted=True),
}


def inspected(seed: int = 6, n: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """(lower, upper) of ages seen at inspections 5 apart; upper is infinite beyond 60."""
    age = 30 * np.random.default_rng(seed).weibull(1.3, n)
    lower = np.minimum(np.floor(age / 5) * 5, 60)
    return lower, np.where(age < 60, lower + 5, np.inf)


def inspected_durations() -> Durations:
    lower, upper = inspected()
    return durations(lower, np.isfinite(upper), upper=np.where(np.isfinite(upper), upper, np.nan))
