"""Speed of predictions: `python -m tests.bench.bench_predict`.

A sweep of 50 values with 1,000 replicas each, as `wallsplit predict --sweep` runs it, and 10,000
draws of an interval. CPU seconds of this process; the target of the sweep is 10 s on two cores.
"""

from __future__ import annotations

# ruff: noqa: T201 - a script that prints its result
import argparse
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from pipeline.parameters import Parameters
from pipeline.uncertainty import tor_interval
from pipeline.what_if import Options, sweep
from tests.scenarios import LLAMA

PLAIN = Parameters(
    mtbf_s=10800, checkpoint_interval_s=1800, checkpoint_cost_s=20, detect_s=600, restart_s=300
)
SLOW = replace(PLAIN, slow_mtbe_s=21600, slow_duration_s=900, slow_ratio=0.8, mitigation_pause_s=60)
POOLED = replace(PLAIN, nodes=128, spares=2, repair_s=86400, max_missing=4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=50)
    parser.add_argument("--replicas", type=int, default=1000)
    args = parser.parse_args()
    options = Options(method="simulate", n_replicas=args.replicas)
    text = f"checkpoint-interval=300:3600:{args.points}"
    for name, given in (("one type", PLAIN), ("with slow states", SLOW), ("with spares", POOLED)):
        found, seconds = timed(lambda given=given: sweep(given, options, text))
        errors = [a.prediction.standard_error for _, a in found.answers]
        print(
            f"sweep, {name:16} {args.points} x {args.replicas:,} replicas: {seconds:6.2f} s, "
            f"largest standard error {max(errors):.1e}"
        )
    first = LLAMA.stops[0]
    counted = replace(first, n_events=220, exposure_s=220 * first.uptime.mean)
    scenario = replace(LLAMA, stops=(counted, *LLAMA.stops[1:]))
    _, seconds = timed(
        lambda: tor_interval(scenario, np.random.default_rng(0), restarts_fail=False)
    )
    print(f"interval of 10,000 draws: {1000 * seconds:.1f} ms")


def timed(run: Callable[[], object]) -> tuple[object, float]:
    """What it gave, and the CPU seconds that it took."""
    begin = time.process_time()
    found = run()
    return found, time.process_time() - begin


if __name__ == "__main__":
    main()
