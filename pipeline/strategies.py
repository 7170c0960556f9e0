"""Fault-tolerance strategies: published figures as changes of a scenario's parameters.

`strategies.toml` holds the figures, each with its source and the kind of its evidence. A strategy
turns one scenario into two, at the worst and the best end of its evidence; a claim ("up to") has no
effect at its worst end. What cannot be applied is listed with the reason, never guessed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from pathlib import Path

from pipeline import mixtures
from pipeline.errors import ParameterError
from pipeline.random_times import Duration, Exponential, Scaled, mean_of
from pipeline.scenario import FailSlow, FailStop, Scenario

_FILE = Path(__file__).with_name("strategies.toml")
_DOWN_TIMES = {"D", "R", "down"}
EXTRAPOLATED = 4
"""Factor beyond the largest devices of the evidence from which results are extrapolated."""
ANY = "failure"
"""A fail-stop type of which no kind is known."""


class Evidence(StrEnum):
    """How a figure is known."""

    MEASURED = "measured"
    CLAIMED_MAX = "claimed-max"
    SIMULATED = "simulated"
    UNKNOWN = "unknown"


class End(StrEnum):
    """Which end of the evidence is meant."""

    BEST = "best"
    TYPICAL = "typical"
    WORST = "worst"


@dataclass(frozen=True)
class Change:
    """One parameter that a strategy sets or multiplies."""

    parameter: str
    part: str | None
    is_factor: bool
    values: Mapping[str, float]
    unit: str | None
    evidence: Evidence
    condition: str
    relative_to: str | None

    def value(self, end: End) -> float | None:
        """The figure at this end; None where there is none, or no effect is meant."""
        if end == End.WORST and self.is_claim:
            return None
        return self.values.get(end)

    @property
    def is_claim(self) -> bool:
        """Whether it may have no effect at all."""
        return self.evidence in (Evidence.CLAIMED_MAX, Evidence.SIMULATED)


@dataclass(frozen=True)
class Strategy:
    """One published system or practice."""

    id: str
    title: str
    source: str
    url: str | None
    evidence: Evidence
    scale: str | None
    largest_devices: int | None
    covers: tuple[str, ...]
    requires: tuple[str, ...]
    claim: str | None
    notes: str
    changes: tuple[Change, ...]

    @property
    def touches(self) -> frozenset[str]:
        """Parameters that it owns; D, R and down are one."""
        names = {c.parameter for c in self.changes}
        return frozenset(names | (_DOWN_TIMES if names & _DOWN_TIMES else set()))

    @property
    def is_claim(self) -> bool:
        """Whether its worst end is no effect at all."""
        return self.evidence in (Evidence.CLAIMED_MAX, Evidence.SIMULATED)


@dataclass(frozen=True)
class Catalogue:
    """All strategies by id, and the kinds of failures by component."""

    strategies: Mapping[str, Strategy]
    kinds: Mapping[str, str]


@dataclass(frozen=True)
class Applied:
    """A scenario under strategies, what was changed in it and what could not be."""

    scenario: Scenario
    changed: tuple[str, ...]
    skipped: tuple[str, ...]


@cache
def load_catalogue() -> Catalogue:
    """The catalogue that comes with the program."""
    data = tomllib.loads(_FILE.read_text())
    strategies = [_strategy(x) for x in data["strategy"]]
    kinds = {c: kind for kind, components in data["kinds"].items() for c in components}
    return Catalogue({s.id: s for s in strategies}, kinds)


def _strategy(row: Mapping[str, object]) -> Strategy:
    def names(key: str) -> tuple[str, ...]:
        value = row.get(key, ())
        return tuple(str(x) for x in value) if isinstance(value, list) else ()

    def text(key: str) -> str | None:
        return None if row.get(key) is None else str(row[key])

    largest, changes = row.get("largest_devices"), row.get("change", [])
    return Strategy(
        id=str(row["id"]), title=str(row["title"]), source=str(row["source"]), url=text("url"),
        evidence=Evidence(str(row["evidence"])), scale=text("scale"),
        largest_devices=largest if isinstance(largest, int) else None,
        covers=names("covers"), requires=names("requires"), claim=text("claim"),
        notes=str(row["notes"]),
        changes=tuple(_change(c) for c in changes) if isinstance(changes, list) else (),
    )  # fmt: skip


def _change(row: Mapping[str, object]) -> Change:
    is_factor = "multiply" in row
    values = row["multiply" if is_factor else "set"]
    if not isinstance(values, dict):
        raise TypeError(f"values of a change: expected a table, found {values!r}")
    return Change(
        parameter=str(row["parameter"]),
        part=None if row.get("part") is None else str(row["part"]),
        is_factor=is_factor,
        values={str(k): float(v) for k, v in values.items()},
        unit=None if row.get("unit") is None else str(row["unit"]),
        evidence=Evidence(str(row["evidence"])),
        condition=str(row["condition"]),
        relative_to=None if row.get("relative_to") is None else str(row["relative_to"]),
    )


def problems_in(ids: Iterable[str]) -> list[str]:
    """Unknown strategies, and pairs that own one parameter."""
    catalogue = load_catalogue().strategies
    problems: list[str] = []
    known: list[Strategy] = []
    for name in ids:
        if name not in catalogue:
            problems.append(f"unknown strategy {name!r}; known: {', '.join(catalogue)}")
            continue
        strategy = catalogue[name]
        for other in known:
            common = sorted(strategy.touches & other.touches)
            if common:
                problems.append(
                    f"{other.id} and {strategy.id} both change {', '.join(common)}: expected one "
                    "owner per parameter, drop one of them"
                )
        known.append(strategy)
    return problems


def find(ids: Iterable[str]) -> tuple[Strategy, ...]:
    """Strategies by id; ParameterError for unknown ones and for two that own one parameter."""
    names = tuple(ids)
    problems = problems_in(names)
    if problems:
        raise ParameterError(problems)
    return tuple(load_catalogue().strategies[name] for name in names)


def kind_of(component: str, mode: str | None = None) -> str | None:
    """Kind of a failure by its component and mode; None where it is unknown or no failure."""
    if mode in ("hang", "fail_slow"):
        return mode
    kinds = load_catalogue().kinds
    if component in kinds.values():
        return component
    kind = kinds.get(component)
    return None if kind == "no_failure" else kind


def apply(
    scenario: Scenario, strategies: Iterable[Strategy], end: End, step_s: float | None
) -> Applied:
    """The scenario with every applicable change, at one end of the evidence.

    `step_s`: duration of a step, for changes that are given in steps; ParameterError if missing.
    """
    changed: list[str] = []
    skipped: list[str] = []
    for strategy in strategies:
        if end == End.WORST and strategy.is_claim:
            continue
        for change in strategy.changes:
            if end == End.WORST and change.is_claim:
                continue
            label = f"{strategy.id}: {change.parameter}"
            label += f" ({change.part})" if change.part else ""
            value = change.value(end)
            if change.relative_to is not None:
                skipped.append(f"{label}: a ratio against {change.relative_to}")
            elif value is None:
                if End.BEST not in change.values:
                    skipped.append(f"{label}: no figure known")
            else:
                seconds = value * _unit(change, step_s, strategy.id)
                now, why_not = _applied(scenario, strategy, change, seconds)
                if why_not:
                    skipped.append(f"{label}: {why_not}")
                else:
                    scenario = now
                    sign = "x" if change.is_factor else "="
                    changed.append(f"{label} {sign} {value:g} {change.unit or ''}".rstrip())
    return Applied(scenario, tuple(changed), tuple(skipped))


def _unit(change: Change, step_s: float | None, strategy: str) -> float:
    if change.unit != "step":
        return 1.0
    if step_s is None:
        raise ParameterError([
            f"{strategy} gives {change.parameter} in steps: expected the time of one (--step-time)"
        ])  # fmt: skip
    return step_s


def _applied(
    scenario: Scenario, strategy: Strategy, change: Change, value: float
) -> tuple[Scenario, str | None]:
    """The changed scenario, or why it stays as it is."""
    plan, part = scenario.checkpointing, change.part
    match change.parameter:
        case "tau" if plan.memory is not None:
            return scenario, "the scenario has a memory tier of its own"
        case "tau":
            tau = _new(plan.tau_s, change, value)
            return replace(scenario, checkpointing=replace(plan, tau_s=tau)), None
        case "delta":
            delta = _new(plan.delta_s, change, value)
            return replace(scenario, checkpointing=replace(plan, delta_s=delta)), None
        case "L":
            latency = _new(plan.latency_s, change, value)
            return replace(scenario, checkpointing=replace(plan, latency_s=latency)), None
        case "r" if part == "overhead":
            steady = min(scenario.steady_ratio * value, 1.0)
            return replace(scenario, steady_ratio=steady), None
        case "r" | "W" | "q":
            return _with_slows(scenario, strategy, change, value)
        case _:
            return _with_stops(scenario, strategy, change, value)


def _with_stops(
    scenario: Scenario, strategy: Strategy, change: Change, value: float
) -> tuple[Scenario, str | None]:
    """Change the fail-stop types of the kinds that the strategy covers."""
    losses = mixtures.mean_losses(scenario)
    edit = _stop_edit(change, value, losses)
    stops, is_covered, is_changed = [], False, False
    for stop in scenario.stops:
        now = stop
        if stop.name == ANY or kind_of(stop.name) in strategy.covers:
            is_covered = True
            now = edit(stop)
        is_changed |= now is not stop
        stops.append(now)
    if not is_covered:
        return scenario, "no failure type of a kind that it covers"
    if not is_changed:
        return scenario, f"the restart has no part named {change.part}"
    return replace(scenario, stops=tuple(stops)), None


def _stop_edit(
    change: Change, value: float, losses: Mapping[str, float]
) -> Callable[[FailStop], FailStop]:
    part = change.part

    def edit(stop: FailStop) -> FailStop:
        match change.parameter:
            case "D":
                return replace(stop, detect_s=_new_time(stop.detect_s, change, value))
            case "R" if part is None:
                restart = _new_time(stop.restart_s, change, value)
                return replace(stop, restart_s=restart, parts={})
            case "R" if part is not None and part in stop.parts:
                before = stop.parts[part]
                now = _new(before, change, value)
                return replace(
                    stop,
                    restart_s=max(mean_of(stop.restart_s) - before + now, 0.0),
                    parts={**stop.parts, part: now},
                )
            case "down":
                return replace(stop, detect_s=0.0, restart_s=value, parts={})
            case "loss":
                return replace(stop, loss_s=_new(losses[stop.name], change, value))
            case "lambda":
                exposure = None if stop.exposure_s is None else stop.exposure_s / value
                rarer = (
                    Exponential(stop.uptime.mean / value)
                    if isinstance(stop.uptime, Exponential)
                    else Scaled(stop.uptime, 1 / value)
                )
                return replace(stop, uptime=rarer, exposure_s=exposure)
            case _:
                return stop

    return edit


def _with_slows(
    scenario: Scenario, strategy: Strategy, change: Change, value: float
) -> tuple[Scenario, str | None]:
    """Change the fail-slow types, or those that bear the name of the part."""
    if "fail_slow" not in strategy.covers:
        return scenario, "a slow state after a failure is not part of the scenario"
    slows = [
        _slow_edit(s, change, value) if change.part in (None, s.name) else s
        for s in scenario.slows
    ]  # fmt: skip
    if not scenario.slows:
        return scenario, "the scenario has no slow states"
    if all(now is before for now, before in zip(slows, scenario.slows, strict=True)):
        return scenario, f"no slow state is named {change.part}"
    return replace(scenario, slows=tuple(slows)), None


def _slow_edit(slow: FailSlow, change: Change, value: float) -> FailSlow:
    match change.parameter:
        case "r":
            return replace(slow, ratio=min(_new(slow.ratio, change, value), 1.0))
        case "W":
            return replace(slow, duration_s=_new_time(slow.duration_s, change, value))
        case _:
            return replace(slow, pause_s=_new(slow.pause_s, change, value))


def _new(before: float, change: Change, value: float) -> float:
    return before * value if change.is_factor else value


def _new_time(before: Duration, change: Change, value: float) -> Duration:
    if not change.is_factor:
        return value
    return before * value if isinstance(before, (int, float)) else Scaled(before, value)
