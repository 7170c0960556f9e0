"""Time all fits of many types, with profile intervals and a bootstrap of every law.

`python -m tests.bench.bench_fits`: 50 types; per type 50, 100, 200 or 1,000 durations, some of
them right-censored; four laws, 1,000 bootstrap replicates each. CPU seconds of one process.
"""

from __future__ import annotations

# ruff: noqa: T201 - a script that prints its result
import argparse
import time

import numpy as np

from pipeline.durations import Durations, durations
from pipeline.selection import TypedDurations, describe, generator

SIZES = (50, 100, 200, 1_000)
TARGET_S = 10.0


def sample(rng: np.random.Generator, n: int, *, is_censored: bool) -> Durations:
    """Weibull durations of shape 0.6 to 1.4 hours apart; about a fifth censored."""
    age = 3600 * rng.weibull(rng.uniform(0.6, 1.4), n)
    limit = rng.exponential(4 * 3600, n) if is_censored else np.full(n, np.inf)
    return durations(np.minimum(age, limit), age <= limit)


def seconds(n_types: int, n: int, replicates: int, *, is_censored: bool) -> tuple[float, float]:
    """(CPU seconds for all types, share of censored rows)."""
    rng = np.random.default_rng(n)
    samples = [sample(rng, n, is_censored=is_censored) for _ in range(n_types)]
    begin = time.process_time()
    for i, rows in enumerate(samples):
        kind = f"type {i}"
        describe(TypedDurations(kind, "gap", rows), generator(0, kind, "gap"), replicates)
    spent = time.process_time() - begin
    return spent, sum(s.n_censored for s in samples) / (n * n_types)


def main() -> None:
    """Print CPU seconds per size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--types", type=int, default=50)
    parser.add_argument("--replicates", type=int, default=1_000)
    args = parser.parse_args()
    print(f"{args.types} types, 4 laws, {args.replicates} replicates each; target {TARGET_S:g} s")
    for n in SIZES:
        for is_censored in (False, True):
            spent, share = seconds(args.types, n, args.replicates, is_censored=is_censored)
            print(f"n = {n:5}  censored {share:4.0%}  {spent:6.2f} s CPU")


if __name__ == "__main__":
    main()
