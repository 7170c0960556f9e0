"""Laws of durations: how long until something strikes, and how long it lasts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

US_PER_S = 1_000_000
US_PER_H = 3600 * US_PER_S
US_PER_DAY = 24 * US_PER_H


class LawName(StrEnum):
    """The families that a scenario may name."""

    CONSTANT = "constant"
    EXPONENTIAL = "exponential"
    WEIBULL = "weibull"
    LOGNORMAL = "lognormal"
    UNIFORM = "uniform"


@dataclass(frozen=True)
class Law:
    """A law by its mean, in the unit of the setting that holds it.

    weibull: scale = mean / gamma(1 + 1 / shape). lognormal: mu = ln(mean) - sigma^2 / 2, so that
    `mean` is the mean and not the median. uniform: mean x (1 +- half_width).
    """

    mean: float
    law: LawName = LawName.CONSTANT
    shape: float = 1.0
    sigma: float = 0.5
    half_width: float = 0.5

    def draw(self, rng: np.random.Generator, n: int) -> NDArray[np.float64]:
        """`n` independent values."""
        match self.law:
            case LawName.EXPONENTIAL:
                return rng.exponential(self.mean, n)
            case LawName.WEIBULL:
                return self.mean / math.gamma(1 + 1 / self.shape) * rng.weibull(self.shape, n)
            case LawName.LOGNORMAL:
                mu = math.log(self.mean) - self.sigma**2 / 2
                return rng.lognormal(mu, self.sigma, n)
            case LawName.UNIFORM:
                reach = self.mean * self.half_width
                return rng.uniform(self.mean - reach, self.mean + reach, n)
            case LawName.CONSTANT:
                return np.full(n, self.mean)

    def draw_us(self, rng: np.random.Generator) -> int:
        """One duration of a law in seconds, in whole microseconds."""
        return round(float(self.draw(rng, 1)[0]) * US_PER_S)

    def draw_hours_us(self, rng: np.random.Generator) -> int:
        """One duration of a law in hours, in whole microseconds."""
        return round(float(self.draw(rng, 1)[0]) * US_PER_H)

    def scaled(self, factor: float) -> Law:
        """The law of `factor` times the duration."""
        return Law(self.mean * factor, self.law, self.shape, self.sigma, self.half_width)
