"""What can be simulated: how long that takes, and how many digits it needs."""

from __future__ import annotations

import numpy as np

from pipeline.errors import WallsplitError
from pipeline.random_times import mean_of
from pipeline.scenario import Scenario

_CYCLES = 100.0
_TURNS = 5_000
"""Events per replica that the default length should not need more than."""
_MAX_TURNS = 200_000
_MAX_MARKS = 10_000_000
_MAX_RANGE = 1e13
"""Longest over shortest time: beyond, sums in double precision lose the short ones."""
_MAX_RESTART = 6.0
"""Longest restart in mean times between failures: 400 tries."""


class SimulationError(WallsplitError):
    """A scenario that cannot be simulated in reasonable time."""


def horizon(scenario: Scenario, n_replicas: int, cycles: float | None) -> float:
    """Wall-clock seconds that each replica lasts at least: a mean of `cycles` failures.

    Without `cycles`: 100, fewer where a cycle has very many events. SimulationError where the
    simulation would not come to an end or not fit in memory or numbers.
    """
    cycle_s, n_turns = _cycle(scenario)
    if cycles is None:
        cycles = min(_CYCLES, max(1.0, _TURNS / n_turns))
    if n_turns * cycles > _MAX_TURNS:
        raise SimulationError(
            f"about {n_turns * cycles:.2g} events per replica are too many to simulate: expected "
            f"at most {_MAX_TURNS:,}; the closed form (--method closed) has no such limit"
        )
    _check_range(scenario, cycles * cycle_s)
    n_marks = marks_needed(scenario)
    if n_marks * n_replicas > _MAX_MARKS:
        raise SimulationError(
            f"{n_marks:,} checkpoints under way at once are too many to simulate: expected a "
            "latency of fewer periods"
        )
    return cycles * cycle_s


def _cycle(scenario: Scenario) -> tuple[float, float]:
    """Mean wall-clock seconds from one failure to the next, and events in them."""
    if not (scenario.stops or scenario.slows):
        raise SimulationError("nothing can fail: expected a failure type to simulate")
    rate = scenario.stop_rate
    slow_rate = sum(s.rate for s in scenario.slows)
    if rate == 0:
        if slow_rate == 0:
            raise SimulationError("no failure type ever strikes: there is nothing to simulate")
        longest = max(1 / s.rate + mean_of(s.duration_s) for s in scenario.slows if s.rate)
        return longest, 2 * slow_rate * longest + 1
    restart = max(mean_of(s.restart_s) for s in scenario.stops) if scenario.restarts_fail else 0.0
    if restart * rate > _MAX_RESTART:
        raise SimulationError(
            f"a restart of {restart:g} s hardly ever comes through where failures strike every "
            f"{1 / rate:g} s: too many tries to simulate; use the closed form (--method closed)"
        )
    down = sum(s.rate * s.down_s for s in scenario.stops) / rate
    return 1 / rate + down, float(np.exp(restart * rate)) + 2 * slow_rate / rate


def _check_range(scenario: Scenario, horizon_s: float) -> None:
    """SimulationError where the longest time has no digits left for the shortest."""
    plan = scenario.checkpointing
    copy = [plan.memory.interval_s, plan.memory.cost_s] if plan.memory else []
    stops = [t for s in scenario.stops for t in (mean_of(s.detect_s), mean_of(s.restart_s))]
    slows = [t for s in scenario.slows for t in (s.onset.mean, mean_of(s.duration_s), s.pause_s)]
    uptimes = [s.uptime.mean for s in scenario.stops]
    times = [plan.tau_s, plan.delta_s, plan.latency_s, horizon_s, *copy, *stops, *slows, *uptimes]
    given = [t for t in times if t > 0 and t != np.inf]
    if max(given) / min(given) > _MAX_RANGE or not 1e-100 < horizon_s < 1e100:
        raise SimulationError(
            f"times from {min(given):g} to {max(given):g} s are too far apart to simulate; the "
            "closed form (--method closed) has no such limit"
        )


def marks_needed(scenario: Scenario) -> int:
    """Durable checkpoints that can be under way at once, and one more."""
    plan = scenario.checkpointing
    if not plan.latency_s:
        return 0
    return int(np.ceil(plan.latency_s / (plan.tau_s + plan.delta_s))) + 1
