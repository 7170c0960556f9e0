"""The checkpoint interval that gives the highest TOR: exact, approximate, and as storage allows.

An interval is useful work between two checkpoints, in seconds; delta_s is the blocking stall,
mtbf_up_s the mean up time between failures. All forms are for exponential up time. The optimum does
not depend on detection, restart or commit latency.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy import special

from pipeline.errors import ParameterError
from pipeline.scenario import not_negative, positive

_SERIES_BELOW = 1e-6
"""delta / M below which the series is more exact than Lambert's function near its branch point."""


def exact(delta_s: float, mtbf_up_s: float) -> float:
    """tau* = M (1 + W0(-exp(-1 - delta / M))): the maximum of equations (2) and (3)."""
    _check(delta_s, mtbf_up_s)
    stall = delta_s / mtbf_up_s
    if stall < _SERIES_BELOW:
        return daly(delta_s, mtbf_up_s)
    return float(mtbf_up_s * (1 + special.lambertw(-math.exp(-1 - stall)).real))


def young(delta_s: float, mtbf_up_s: float) -> float:
    """sqrt(2 delta M): first order, Young 1974."""
    _check(delta_s, mtbf_up_s)
    return math.sqrt(2 * delta_s) * math.sqrt(mtbf_up_s)


def daly_first_order(delta_s: float, mtbf_up_s: float, restart_s: float) -> float:
    """sqrt(2 delta (M + R)) - delta: Daly 2006, first order."""
    _check(delta_s, mtbf_up_s, restart_s)
    return math.sqrt(2 * delta_s * (mtbf_up_s + restart_s)) - delta_s


def daly(delta_s: float, mtbf_up_s: float) -> float:
    """Daly 2006, higher order: M where delta >= 2 M, else a series in x = sqrt(delta / (2 M)).

    sqrt(2 delta M) (1 + x / 3 + x^2 / 9) - delta.
    """
    _check(delta_s, mtbf_up_s)
    if delta_s >= 2 * mtbf_up_s:
        return mtbf_up_s
    x = math.sqrt(delta_s / (2 * mtbf_up_s))
    return young(delta_s, mtbf_up_s) * (1 + x / 3 + x * x / 9) - delta_s


def saxena_period(save_s: float, mttf_s: float, recovery_s: float) -> float:
    """Period from one save to the next, the save included (arXiv 2410.18124).

    T_s + sqrt(2 (T_f + T_r) T_s + T_s^2).
    """
    _check(save_s, mttf_s, recovery_s)
    return save_s + math.sqrt(2 * (mttf_s + recovery_s) * save_s + save_s**2)


@dataclass(frozen=True)
class Storage:
    """What one checkpoint weighs and how fast it can be written."""

    checkpoint_bytes: float
    bandwidth_bytes_per_s: float

    def __post_init__(self) -> None:
        """ParameterError where either is impossible."""
        problems = positive("checkpoint_bytes", self.checkpoint_bytes)
        problems += positive("bandwidth_bytes_per_s", self.bandwidth_bytes_per_s)
        if problems:
            raise ParameterError(problems)

    @property
    def write_s(self) -> float:
        """Seconds to write one checkpoint."""
        return self.checkpoint_bytes / self.bandwidth_bytes_per_s

    def shortest_interval(self, delta_s: float) -> float:
        """Least useful work between saves with which a save ends before the next begins."""
        return max(self.write_s - delta_s, 0.0)


def within(optimum_s: float, storage: Storage | None, delta_s: float) -> float:
    """The best interval that the storage can keep up with.

    TOR has one maximum in the interval, so the best allowed one is the nearest allowed one.
    """
    return optimum_s if storage is None else max(optimum_s, storage.shortest_interval(delta_s))


def _check(delta_s: float, mtbf_up_s: float, restart_s: float = 0.0) -> None:
    problems = not_negative("delta_s", delta_s) + positive("mtbf_up_s", mtbf_up_s)
    problems += not_negative("restart_s", restart_s)
    if problems:
        raise ParameterError(problems)
