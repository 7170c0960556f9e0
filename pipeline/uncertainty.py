"""How sure a predicted TOR is: draws of what it rests on, pushed through the closed form.

Rates: Gamma(n + 1/2, exposure), the posterior of a Poisson rate under Jeffreys' prior, so that a
type without a single failure has a mean rate of 0.5 / exposure. Observed durations: bootstrap of
their mean. Whatever else is taken as exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline import mixtures
from pipeline.random_times import Duration, Empirical, Floats, mean_of
from pipeline.scenario import Scenario

N_DRAWS = 10_000
_CELLS = 10_000_000
"""Durations that a bootstrap draws at once."""


@dataclass(frozen=True)
class Interval:
    """Median and central interval of the draws."""

    low: float
    median: float
    high: float


def tor_interval(
    scenario: Scenario,
    rng: np.random.Generator,
    *,
    restarts_fail: bool,
    level: float = 0.95,
    n_draws: int = N_DRAWS,
) -> Interval | None:
    """The interval that counts and observed durations leave; None where all is taken as exact."""
    if not is_uncertain(scenario):
        return None
    terms = draw_terms(scenario, rng, n_draws)
    values = mixtures.combined(scenario, terms, restarts_fail=restarts_fail).tor
    low, median, high = np.quantile(values, [(1 - level) / 2, 0.5, (1 + level) / 2])
    return Interval(float(low), float(median), float(high))


def is_uncertain(scenario: Scenario) -> bool:
    """Whether anything rests on a count or on observed durations."""
    return any(
        s.n_events is not None or isinstance(s.detect_s, Empirical)
        or isinstance(s.restart_s, Empirical)
        for s in scenario.stops
    )  # fmt: skip


def draw_terms(scenario: Scenario, rng: np.random.Generator, n_draws: int) -> mixtures.StopTerms:
    """Rates and mean durations of the fail-stop types, (types, draws)."""
    rate = np.empty((len(scenario.stops), n_draws))
    detect, restart = np.empty_like(rate), np.empty_like(rate)
    for i, stop in enumerate(scenario.stops):
        if stop.n_events is None or stop.exposure_s is None:
            rate[i] = stop.rate
        else:
            rate[i] = rng.gamma(stop.n_events + 0.5, 1 / stop.exposure_s, n_draws)
        detect[i] = _means(stop.detect_s, rng, n_draws)
        restart[i] = _means(stop.restart_s, rng, n_draws)
    return mixtures.StopTerms(rate, detect, restart)


def _means(time: Duration, rng: np.random.Generator, n_draws: int) -> Floats:
    """Mean of a duration, once per draw; of observed ones a bootstrap."""
    if not isinstance(time, Empirical):
        return np.full(n_draws, mean_of(time))
    values = time.values
    means = np.empty(n_draws)
    rows = max(_CELLS // values.size, 1)
    for first in range(0, n_draws, rows):
        some = means[first : first + rows]
        some[:] = values[rng.integers(values.size, size=(some.size, values.size))].mean(axis=1)
    return means
