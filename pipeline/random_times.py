"""Random times: how long until something happens, how long it lasts.

The prediction asks four things of a time: its mean, its survival, its quantiles and draws. A time
that is known exactly is a plain number of seconds. Draws come from the generator that is passed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from scipy.stats._distn_infrastructure import rv_continuous_frozen

Floats = npt.NDArray[np.float64]


class RandomTime(Protocol):
    """A law of durations in seconds, all of them at least 0."""

    @property
    def mean(self) -> float:
        """Mean in seconds; inf where it never happens."""

    def survival(self, t: Floats) -> Floats:
        """P(T > t) of each t >= 0."""

    def quantile(self, p: Floats) -> Floats:
        """Smallest t with P(T <= t) >= p of each p in [0, 1]."""

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        """`size` independent draws."""


Duration = float | RandomTime
"""Seconds: a number, or a law to draw from."""


@dataclass(frozen=True)
class Exponential:
    """Constant hazard: S(t) = exp(-t / mean). A mean of inf is an event that never happens."""

    mean: float

    def survival(self, t: Floats) -> Floats:
        """exp(-t / mean)."""
        return np.exp(-np.asarray(t) / self.mean)

    def quantile(self, p: Floats) -> Floats:
        """-mean log(1 - p)."""
        with np.errstate(divide="ignore"):
            return -self.mean * np.log1p(-np.asarray(p))

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        """Draws; all inf where the mean is."""
        if math.isinf(self.mean):
            return np.full(size, math.inf)
        return rng.standard_exponential(size) * self.mean


class Empirical:
    """The observed durations themselves, each as likely as the next."""

    def __init__(self, values: Sequence[float] | Floats) -> None:
        """ValueError unless there is at least one value and all are finite and at least 0."""
        self.values = np.sort(np.asarray(values, dtype=np.float64))
        if not (self.values.size and np.isfinite(self.values).all() and self.values[0] >= 0):
            raise ValueError("empirical durations: expected one or more finite values >= 0")

    @cached_property
    def mean(self) -> float:
        """Mean of the values."""
        return float(self.values.mean())

    def survival(self, t: Floats) -> Floats:
        """Share of the values above t."""
        return 1 - np.searchsorted(self.values, t, side="right") / self.values.size

    def quantile(self, p: Floats) -> Floats:
        """The value below or at which a share p of the values lies."""
        rank = np.ceil(np.asarray(p) * self.values.size).astype(np.int64) - 1
        return self.values[np.maximum(rank, 0)]

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        """Draws with replacement."""
        return self.values[rng.integers(self.values.size, size=size)]


class Frozen:
    """A frozen SciPy distribution with location 0, e.g. `weibull_min(0.7, scale=3600)`."""

    def __init__(self, distribution: rv_continuous_frozen[Any, Any]) -> None:
        """Any distribution of non-negative times."""
        self._distribution = distribution

    @cached_property
    def mean(self) -> float:
        """Mean of the distribution."""
        return float(self._distribution.mean())

    def survival(self, t: Floats) -> Floats:
        """The distribution's survival function."""
        return np.asarray(self._distribution.sf(t), dtype=np.float64)

    def quantile(self, p: Floats) -> Floats:
        """The distribution's quantiles."""
        return np.asarray(self._distribution.ppf(p), dtype=np.float64)

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        """Draws."""
        return np.asarray(self._distribution.rvs(size=size, random_state=rng), dtype=np.float64)


@dataclass(frozen=True)
class Scaled:
    """Another law with all its times multiplied by a factor above 0."""

    time: RandomTime
    factor: float

    @property
    def mean(self) -> float:
        """Mean of the other law times the factor."""
        return self.time.mean * self.factor

    def survival(self, t: Floats) -> Floats:
        """P(factor x T > t)."""
        return self.time.survival(np.asarray(t) / self.factor)

    def quantile(self, p: Floats) -> Floats:
        """Quantiles of the other law times the factor."""
        return self.time.quantile(p) * self.factor

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        """Draws."""
        return self.time.sample(rng, size) * self.factor


def mean_of(time: Duration) -> float:
    """Mean of a duration in seconds."""
    return time if isinstance(time, (int, float)) else time.mean


def draw(time: Duration, rng: np.random.Generator, size: int) -> Floats:
    """`size` durations; of a number of seconds that number each time."""
    if isinstance(time, (int, float)):
        return np.full(size, float(time))
    return time.sample(rng, size)


def distance_from_exponential(time: RandomTime) -> float:
    """Largest |S(t) - exp(-t / mean)| over the quantiles of a law: 0 if it is exponential.

    0.085 for a Weibull law of shape 0.8, 0.077 of shape 1.25.
    """
    if isinstance(time, Exponential):
        return 0.0
    at = np.unique(time.quantile(np.linspace(0.0, 0.999, 500)))
    at = np.concatenate([at, np.nextafter(at[at > 0], 0)])  # both sides of a step
    return float(np.abs(time.survival(at) - np.exp(-at / time.mean)).max())
