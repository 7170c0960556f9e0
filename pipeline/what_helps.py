"""What would raise a predicted TOR: the best checkpoint interval, and what each cost is worth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pipeline import checkpoint_interval
from pipeline.checkpoint_interval import Storage
from pipeline.closed_form import closed_form
from pipeline.random_times import Exponential, mean_of
from pipeline.scenario import MEMORY, Checkpointing, FailStop, Scenario

_WORTH_CHANGING = 0.005
_SHORT_STALL_S = 1.0


@dataclass(frozen=True)
class Optimum:
    """Checkpoint intervals in seconds of useful work; None where nothing rolls back."""

    exact: float | None
    young: float | None
    daly: float | None
    within_storage: float | None
    """The best one that the storage can keep up with; equal to `exact` without a limit."""
    tor: float | None
    """Closed form at that interval."""
    gain: float | None
    """TOR there less TOR at the given interval."""
    flags: tuple[str, ...]


def optimum(scenario: Scenario, storage: Storage | None = None) -> Optimum:
    """The best interval of durable checkpoints, by the exponential forms.

    With slow states, work takes longer: the interval of useful work shrinks with the mean speed.
    With a memory tier, Young's and Daly's forms see only failures that need the durable one.
    """
    plan = scenario.checkpointing
    rate = _rolling_rate(scenario)
    if rate == 0:
        return Optimum(None, None, None, None, None, None, ())
    mtbf = 1 / rate
    closed = closed_form(scenario)
    if plan.memory is None:
        speed = float(closed.split.speed[0]) * scenario.steady_ratio
        exact = speed * checkpoint_interval.exact(plan.delta_s, mtbf)
    else:
        exact = _best_multiple(scenario)
    allowed = checkpoint_interval.within(exact, storage, plan.delta_s)
    reached = gain = None
    if allowed > 0:
        moved = with_interval(scenario, allowed)
        reached = closed_form(moved).tor
        gain = reached - closed.tor
    return Optimum(
        exact,
        checkpoint_interval.young(plan.delta_s, mtbf),
        checkpoint_interval.daly(plan.delta_s, mtbf),
        allowed,
        reached,
        gain,
        tuple(_flags(scenario, storage, exact, allowed, gain)),
    )


def _flags(
    scenario: Scenario,
    storage: Storage | None,
    exact: float,
    allowed: float,
    gain: float | None,
) -> list[str]:
    """What to do about the interval, and when its optimum means little."""
    plan = scenario.checkpointing
    flags = []
    if plan.delta_s < _SHORT_STALL_S:
        flags.append("a stall below 1 s: save at every step rather than at a computed optimum")
    elif gain is not None and gain > _WORTH_CHANGING:
        flags.append(
            f"a checkpoint every {allowed:.0f} s instead of {plan.tau_s:.0f} s would gain "
            f"{100 * gain:.1f} points"
        )
    if storage is not None:
        least = storage.shortest_interval(plan.delta_s)
        if plan.tau_s < least:
            flags.append(
                f"the storage needs {storage.write_s:.0f} s per checkpoint: saves every "
                f"{plan.tau_s:.0f} s pile up"
            )
        if exact < least:
            flags.append(f"the storage, not the failures, sets the best interval: {least:.0f} s")
    if plan.latency_s > plan.tau_s + plan.delta_s and plan.memory is None:
        flags.append(
            "checkpoints are durable only after the next has begun: several are under way at once"
        )
    return flags


def _rolling_rate(scenario: Scenario) -> float:
    """Failures per up second that go back to a durable checkpoint."""
    has_copies = scenario.checkpointing.memory is not None
    return sum(
        s.rate for s in scenario.stops
        if s.loss_s is None and not (has_copies and s.tier == MEMORY)
    )  # fmt: skip


def _best_multiple(scenario: Scenario) -> float:
    """Best whole multiple of the memory interval, by search: TOR has one maximum in it."""
    memory = scenario.checkpointing.memory
    if memory is None:
        raise TypeError("a scenario without a memory tier has no multiples of its interval")

    def reached(n: int) -> float:
        moved = with_interval(scenario, n * memory.interval_s)
        return closed_form(moved).tor

    low, high = 1, 2
    while reached(high) > reached(high // 2) and high < 1 << 40:
        high *= 2
    while high - low > 2:  # the maximum lies in [low, high]
        third = (high - low) // 3
        left, right = low + third, high - third
        if reached(left) < reached(right):
            low = left
        else:
            high = right
    return memory.interval_s * max(range(low, high + 1), key=reached)


def with_interval(scenario: Scenario, tau_s: float) -> Scenario:
    """The scenario with durable checkpoints every `tau_s` of work (a multiple of memory copies)."""
    plan = scenario.checkpointing
    if plan.memory is not None:
        tau_s = max(1, round(tau_s / plan.memory.interval_s)) * plan.memory.interval_s
    return replace(scenario, checkpointing=replace(plan, tau_s=tau_s))


def sensitivities(scenario: Scenario) -> tuple[tuple[str, float], ...]:
    """What halving each cost, or doubling each mean time, would gain: (what if, TOR gained).

    Nothing where spares are limited: the closed forms, which compare these, do not see them.
    """
    if scenario.pool is not None:
        return ()
    here = closed_form(scenario).tor
    gains = [(words, closed_form(changed).tor - here) for words, changed in _changes(scenario)]
    return tuple(sorted((g for g in gains if g[1] > 0), key=lambda g: -g[1]))


def _changes(scenario: Scenario) -> list[tuple[str, Scenario]]:
    plan = scenario.checkpointing
    found: list[tuple[str, Scenario]] = []

    def saves(words: str, change: Callable[[Checkpointing], Checkpointing]) -> None:
        found.append((words, replace(scenario, checkpointing=change(plan))))

    saves("checkpoint cost halved", lambda p: replace(p, delta_s=p.delta_s / 2))
    saves("checkpoint latency halved", lambda p: replace(p, latency_s=p.latency_s / 2))
    for i, s in enumerate(scenario.stops):
        rarer = Exponential(2 / s.rate) if s.rate else s.uptime
        changes: Mapping[str, FailStop] = {
            "detection halved": replace(s, detect_s=mean_of(s.detect_s) / 2),
            "restart halved": replace(s, restart_s=mean_of(s.restart_s) / 2, parts={}),
            "half as often": replace(s, uptime=rarer, aftershocks=None),
        }
        for words, changed in changes.items():
            stops = (*scenario.stops[:i], changed, *scenario.stops[i + 1 :])
            found.append((f"{s.name}: {words}", replace(scenario, stops=stops)))
    for j, slow in enumerate(scenario.slows):
        for words, now in {
            "degraded time halved": replace(slow, duration_s=mean_of(slow.duration_s) / 2),
            "slow-down halved": replace(slow, ratio=(1 + slow.ratio) / 2),
            "mitigation pause halved": replace(slow, pause_s=slow.pause_s / 2),
        }.items():
            slows = (*scenario.slows[:j], now, *scenario.slows[j + 1 :])
            found.append((f"{slow.name}: {words}", replace(scenario, slows=slows)))
    return found
