"""How often intervals hold the truth and tests reject it, on many simulated data sets.

`python -m tests.bench.simulate_coverage` (`make coverage`): prints one line per claim of
docs/statistics.md with its bounds; exit code 1 where one is outside.
"""

from __future__ import annotations

# ruff: noqa: T201 - a script that prints its result
import argparse
import sys
from dataclasses import dataclass

import numpy as np

from pipeline.distributions import EXPONENTIAL, GAMMA, LOGNORMAL, WEIBULL, Law
from pipeline.durations import Batch, Rows, durations
from pipeline.fits import fit, maximise, profile_bounds
from pipeline.goodness import goodness_of_fit
from pipeline.rates import poisson_interval
from pipeline.recurrence import crow_amsaa, trend


@dataclass(frozen=True)
class Share:
    """A simulated share and the bounds that it must keep."""

    claim: str
    value: float
    low: float
    high: float
    n: int

    @property
    def holds(self) -> bool:
        return self.low <= self.value <= self.high


def profile_coverage(
    law: Law, theta: tuple[float, ...], n_samples: int, n: int, censored: float, seed: int
) -> np.ndarray:
    """Per parameter, the share of samples whose 95 % profile interval holds the true value.

    Every sample has n rows of the law; exponential ages censor the share `censored` of them.
    """
    rng, truth = np.random.default_rng(seed), np.array(theta)
    age = law.draw(rng, truth, (n_samples, n))
    limit = np.full(age.shape, np.inf)
    if censored:
        limit = -np.log(rng.random(age.shape)) * limit_scale(law, truth, censored)
    return covered(law, truth, np.minimum(age, limit), age <= limit)


def limit_scale(law: Law, theta: np.ndarray, censored: float) -> float:
    """The mean of exponential censoring ages that censors this share of the law's rows."""
    grid = law.quantile((np.arange(4_000) + 0.5) / 4_000, theta)
    scales = np.geomspace(grid[0], grid[0] * 1e-6, 400)
    shares = np.array([np.mean(1 - np.exp(-grid / s)) for s in scales])
    return float(np.interp(censored, shares, scales))


def covered(law: Law, truth: np.ndarray, time: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Per parameter, the share of rows of the matrix whose interval holds the truth."""
    n_samples = time.shape[0]

    def rows(chosen: np.ndarray) -> Rows:
        owner = np.nonzero(chosen)[0]
        return Rows(time[chosen], np.ones(owner.size), owner, n_samples)

    none = Rows(np.empty(0), np.empty(0), np.empty(0, np.int64), n_samples)
    batch = Batch(rows(seen), rows(~seen), none, none)
    best = maximise(law, batch, law.start(batch))
    low, high = profile_bounds(law, batch, best)
    holds = (low <= truth[:, None]) & (truth[:, None] <= high)
    return holds[:, best.converged].mean(axis=1)


def trend_rejections(n_samples: int, mean_events: float, seed: int) -> tuple[float, float]:
    """Shares of homogeneous histories that Laplace and MIL-HDBK-189 reject at 5 %."""
    rng = np.random.default_rng(seed)
    found = [trend(rng.random(max(rng.poisson(mean_events), 2)), 1) for _ in range(n_samples)]
    tested = [t for t in found if t is not None]
    return (
        float(np.mean([t.laplace_p < 0.05 for t in tested])),
        float(np.mean([t.mil_hdbk_189_p < 0.05 for t in tested])),
    )


def goodness_rejections(law: Law, theta: tuple[float, ...], n_samples: int, seed: int) -> float:
    """Share of true laws, 60 rows and a quarter censored, that are rejected at 5 %."""
    rng, truth = np.random.default_rng(seed), np.array(theta)
    scale, rejected = limit_scale(law, truth, 0.25), 0
    for _ in range(n_samples):
        age = law.draw(rng, truth, (60,))
        limit = rng.exponential(scale, 60)
        sample = durations(np.minimum(age, limit), age <= limit)
        (tested,) = goodness_of_fit([fit(law, sample)], sample, rng, 199)
        rejected += tested.p is not None and tested.p <= 0.05
    return rejected / n_samples


def power_law_coverage(n_samples: int, seed: int) -> tuple[float, float]:
    """Coverage of beta and of the end intensity, beta 1.5 and 30 events expected."""
    rng = np.random.default_rng(seed)
    laws = [crow_amsaa(rng.random(rng.poisson(30)) ** (1 / 1.5), 1) for _ in range(n_samples)]
    known = [law for law in laws if law is not None]
    return (
        float(np.mean([law.beta_low <= 1.5 <= law.beta_high for law in known])),
        float(np.mean([law.end_intensity_low <= 45 <= law.end_intensity_high for law in known])),
    )


def shares(n: int) -> list[Share]:
    """Every claim, simulated with about n data sets."""
    found = []
    counts = np.random.default_rng(1).poisson(5, n)
    bounds = np.array([poisson_interval(k, 1) for k in range(int(counts.max()) + 1)])
    hits = ((bounds[counts, 0] <= 5) & (bounds[counts, 1] >= 5)).mean()
    found.append(Share("exact Poisson interval, mean 5", float(hits), 0.95, 1.0, n))
    cases = [
        (WEIBULL, (np.log(0.7), 0.0), 200, 0.3), (WEIBULL, (np.log(0.7), 0.0), 20, 0.3),
        (WEIBULL, (np.log(2.0), 0.0), 50, 0.0), (EXPONENTIAL, (0.0,), 20, 0.3),
        (LOGNORMAL, (0.0, 0.0), 50, 0.3), (GAMMA, (np.log(2.0), 0.0), 50, 0.3),
    ]  # fmt: skip
    for seed, (law, theta, rows, censored) in enumerate(cases):
        holds = profile_coverage(law, theta, n, rows, censored, seed)
        for name, value in zip(law.parameters, holds, strict=True):
            claim = f"profile interval, {law.name} {name}, n = {rows}, {censored:.0%} censored"
            found.append(Share(claim, float(value), 0.92, 0.98, n))
    laplace, mil = trend_rejections(n, 20, 3)
    found.append(Share("Laplace rejects a constant rate", laplace, 0.03, 0.07, n))
    found.append(Share("MIL-HDBK-189 rejects a constant rate", mil, 0.03, 0.07, n))
    beta, end = power_law_coverage(n, 4)
    found.append(Share("power law, beta", beta, 0.92, 0.98, n))
    found.append(Share("power law, intensity at the end", end, 0.92, 0.98, n))
    few = max(n // 10, 50)
    for law, theta in ((WEIBULL, (np.log(0.7), 0.0)), (LOGNORMAL, (0.0, 0.0))):
        rejected = goodness_rejections(law, theta, few, 5)
        found.append(Share(f"goodness of fit rejects a true {law.name}", rejected, 0.0, 0.07, few))
    return found


def main() -> int:
    """Print every share; 1 where one is outside its bounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-sets", type=int, default=10_000)
    found = shares(parser.parse_args().data_sets)
    for s in found:
        mark = "" if s.holds else "  OUTSIDE"
        print(f"{s.claim:62} {s.value:7.4f}  [{s.low:.2f}, {s.high:.2f}]  {s.n:6}{mark}")
    return 0 if all(s.holds for s in found) else 1


if __name__ == "__main__":
    sys.exit(main())
