"""A training job as its failure model sees it: checkpoints, failure types, spare nodes.

All times are seconds. The clock of failures runs only while the job is up: it executes steps or
stands still for a checkpoint. Down time is never part of it. A mean time between failures that was
counted in wall-clock time becomes one of up time in `tor.up_mtbf`, and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline.errors import ParameterError
from pipeline.random_times import Duration, Exponential, RandomTime, mean_of

MEMORY, DURABLE = "memory", "durable"
_MOST_SPARES = 10_000
"""Of spare and missing nodes: a simulation watches each."""


@dataclass(frozen=True)
class MemoryTier:
    """Copies in the memory of peers, between the durable checkpoints."""

    interval_s: float
    """Useful work between two copies; the durable interval is a whole multiple of it."""
    cost_s: float = 0.0
    """Stall per copy. Where a durable checkpoint falls due, it alone is written."""


@dataclass(frozen=True)
class Checkpointing:
    """When the job saves its state and what that costs."""

    tau_s: float
    """Useful work at full speed between two durable checkpoints."""
    delta_s: float = 0.0
    """Blocking stall per checkpoint."""
    latency_s: float = 0.0
    """From the end of the stall until the checkpoint is durable, in up time."""
    memory: MemoryTier | None = None

    @property
    def n_copies(self) -> int:
        """Saves of any tier per durable interval, the durable one included."""
        return round(self.tau_s / self.memory.interval_s) if self.memory else 1


@dataclass(frozen=True)
class Aftershocks:
    """Failures that bring more of their type: bursts."""

    share: float
    """Probability that a failure is followed by another of its type."""
    gap: RandomTime
    """Up time from the restart to that one."""


@dataclass(frozen=True)
class FailStop:
    """A type of failure that ends the job at once."""

    name: str
    uptime: RandomTime
    """Up time from a restart to the next failure of this type, were it the only one."""
    detect_s: Duration = 0.0
    """Failure to detection; nothing can fail meanwhile."""
    restart_s: Duration = 0.0
    """Detection to productive again."""
    loss_s: float | None = None
    """Work redone per failure; None: whatever was done since the last usable checkpoint."""
    tier: str = DURABLE
    """Checkpoints that survive it: `memory` (all) or `durable` (those alone)."""
    victims: int = 0
    """Nodes that need repair after it."""
    aftershocks: Aftershocks | None = None
    n_events: float | None = None
    """Failures, or a share of them, that the mean up time rests on; None: it is taken as exact."""
    exposure_s: float | None = None
    """Up time in which they were counted."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """Named parts of the mean restart, e.g. {"load": 90}; the rest has no name."""

    @property
    def rate(self) -> float:
        """Failures per up second, aftershocks included."""
        mean = self.uptime.mean
        if math.isinf(mean):
            return 0.0
        if self.aftershocks is None:
            return 1 / mean
        # the sooner of both, as for exponential laws
        sooner = 1 / (1 / mean + 1 / self.aftershocks.gap.mean)
        return 1 / ((1 - self.aftershocks.share) * mean + self.aftershocks.share * sooner)

    @property
    def down_s(self) -> float:
        """Mean of detection and an undisturbed restart."""
        return mean_of(self.detect_s) + mean_of(self.restart_s)


@dataclass(frozen=True)
class FailSlow:
    """A type of failure with which the job goes on at reduced speed."""

    name: str
    onset: RandomTime
    """Up time to the next onset: from the last onset, or from the last end if not overlapping."""
    duration_s: Duration
    """Up time in the degraded state: until it heals or a mitigation begins."""
    ratio: float
    """Speed in the degraded state as a share of full speed."""
    pause_s: float = 0.0
    """Stand-still of the mitigation."""
    loss_s: float = 0.0
    """Work redone per mitigation."""
    is_overlapping: bool = True
    """Whether a second event may begin while one lasts; the slowest then decides."""

    @property
    def rate(self) -> float:
        """Onsets per up second (of healthy up time if not overlapping)."""
        mean = self.onset.mean
        return 0.0 if math.isinf(mean) else 1 / mean


@dataclass(frozen=True)
class SparePool:
    """Nodes of the job and the spares that replace broken ones while these are repaired."""

    nodes: int
    spares: int
    repair_s: Duration
    max_missing: int = 0
    """Nodes without which the job goes on, at (nodes - missing) / nodes of its speed."""


@dataclass(frozen=True)
class Scenario:
    """Everything that a prediction rests on."""

    checkpointing: Checkpointing
    stops: tuple[FailStop, ...] = ()
    slows: tuple[FailSlow, ...] = ()
    pool: SparePool | None = None
    steady_ratio: float = 1.0
    """Speed of the healthy job as a share of the reference: below 1 for standing overheads."""
    restarts_fail: bool = True
    """Whether failures also strike between detection and productive again. False where restarts
    hold failed tries already, as incidents counted in wall-clock time do."""

    @property
    def stop_rate(self) -> float:
        """Fail-stop failures per up second, all types."""
        return sum(s.rate for s in self.stops)


def checked(scenario: Scenario) -> Scenario:
    """The scenario itself; ParameterError that names everything impossible in it."""
    problems = _checkpointing_problems(scenario.checkpointing)
    for stop in scenario.stops:
        problems += _stop_problems(stop)
    for slow in scenario.slows:
        problems += _slow_problems(slow)
    if scenario.pool is not None:
        problems += _pool_problems(scenario.pool)
    problems += ratio("steady_ratio", scenario.steady_ratio)
    names = [s.name for s in scenario.stops] + [s.name for s in scenario.slows]
    problems += [f"two failure types are named {n!r}" for n in dict.fromkeys(names)
                 if names.count(n) > 1]  # fmt: skip
    if problems:
        raise ParameterError(problems)
    return scenario


def _checkpointing_problems(plan: Checkpointing) -> list[str]:
    found = [
        *positive("tau_s", plan.tau_s),
        *not_negative("delta_s", plan.delta_s),
        *not_negative("latency_s", plan.latency_s),
    ]
    if plan.memory is None:
        return found
    found += positive("memory.interval_s", plan.memory.interval_s)
    found += not_negative("memory.cost_s", plan.memory.cost_s)
    if not found and not _divides(plan.memory.interval_s, plan.tau_s):
        found.append(
            f"tau_s = {plan.tau_s:g}: expected a whole multiple of the memory interval "
            f"{plan.memory.interval_s:g}"
        )
    return found


def _divides(part: float, whole: float) -> bool:
    n = round(whole / part)
    return n >= 1 and math.isclose(n * part, whole, rel_tol=1e-9)


def _stop_problems(stop: FailStop) -> list[str]:
    at = f"{stop.name}."
    found = [
        *_mean_problems(f"{at}uptime", stop.uptime),
        *not_negative(f"{at}detect_s", mean_of(stop.detect_s)),
        *not_negative(f"{at}restart_s", mean_of(stop.restart_s)),
        *(not_negative(f"{at}loss_s", stop.loss_s) if stop.loss_s is not None else ()),
        *not_negative(f"{at}victims", stop.victims),
    ]
    if stop.tier not in (MEMORY, DURABLE):
        found.append(f"{at}tier = {stop.tier!r}: expected {MEMORY} or {DURABLE}")
    if stop.aftershocks is not None:
        share = stop.aftershocks.share
        if not 0 <= share < 1:
            found.append(f"{at}aftershocks.share = {share:g}: expected 0 or more, below 1")
        found += _mean_problems(f"{at}aftershocks.gap", stop.aftershocks.gap)
    if (stop.n_events is None) != (stop.exposure_s is None):
        found.append(f"{at}n_events and {at}exposure_s: expected both or none")
    if stop.exposure_s is not None:
        found += positive(f"{at}exposure_s", stop.exposure_s)
        found += not_negative(f"{at}n_events", stop.n_events or 0)
    found += [p for name, part in stop.parts.items() for p in not_negative(f"{at}{name}", part)]
    if not found and sum(stop.parts.values()) > mean_of(stop.restart_s) * (1 + 1e-9):
        found.append(
            f"{at}parts sum to {sum(stop.parts.values()):g} s: expected at most the restart of "
            f"{mean_of(stop.restart_s):g} s"
        )
    return found


def _slow_problems(slow: FailSlow) -> list[str]:
    at = f"{slow.name}."
    return [
        *_mean_problems(f"{at}onset", slow.onset),
        *not_negative(f"{at}duration_s", mean_of(slow.duration_s)),
        *ratio(f"{at}ratio", slow.ratio),
        *not_negative(f"{at}pause_s", slow.pause_s),
        *not_negative(f"{at}loss_s", slow.loss_s),
    ]


def _pool_problems(pool: SparePool) -> list[str]:
    found = [
        *positive("nodes", pool.nodes),
        *not_negative("spares", pool.spares),
        *not_negative("repair_s", mean_of(pool.repair_s)),
        *not_negative("max_missing", pool.max_missing),
    ]
    if pool.spares + pool.max_missing > _MOST_SPARES:
        found.append(f"spares and max_missing: expected at most {_MOST_SPARES:,} together")
    if not found and pool.max_missing >= pool.nodes:
        found.append(f"max_missing = {pool.max_missing}: expected fewer than nodes = {pool.nodes}")
    return found


def _mean_problems(name: str, time: RandomTime) -> list[str]:
    """A mean of inf is an event that never happens; so is no other law's."""
    if isinstance(time, Exponential) and time.mean == math.inf:
        return []
    return positive(f"mean of {name}", time.mean)


def positive(name: str, value: float) -> list[str]:
    """What is wrong with a value that must be finite and above 0."""
    ok = 0 < value < math.inf
    return [] if ok else [f"{name} = {value:g}: expected a finite number above 0"]


def not_negative(name: str, value: float) -> list[str]:
    """What is wrong with a value that must be finite and 0 or more."""
    ok = 0 <= value < math.inf
    return [] if ok else [f"{name} = {value:g}: expected a finite number, 0 or more"]


def ratio(name: str, value: float) -> list[str]:
    """What is wrong with a value that must be above 0 and at most 1."""
    return [] if 0 < value <= 1 else [f"{name} = {value:g}: expected above 0 and at most 1"]
