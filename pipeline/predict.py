"""Predicted TOR of a scenario: which method, which number, how sure, and what would help.

A closed form gives the answer unless it cannot be trusted; then the simulation does, and the result
says why. The result holds everything that it rests on: parameters, assumptions, clock, seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pipeline import mixtures
from pipeline.checkpoint_interval import Storage
from pipeline.closed_form import (
    ASSUMPTIONS,
    FAILING_RESTARTS,
    FREE_DOWN,
    Closed,
    closed_form,
)
from pipeline.random_times import distance_from_exponential, mean_of
from pipeline.replica_limits import SimulationError
from pipeline.replicas import Simulation, simulate
from pipeline.scenario import Scenario, checked
from pipeline.uncertainty import is_uncertain, tor_interval
from pipeline.what_helps import Optimum, optimum, sensitivities

CLOSED, SIMULATE = "closed", "simulate"
N_REPLICAS = 1000

_DISAGREEMENT = 0.01
_LONG_RESTART = 0.3  # of the MTBF
_LARGE_SHARE = 0.3  # of what failures cost
_NOT_EXPONENTIAL = 0.077
"""Distance of a Weibull law of shape 1.25 from the exponential one; shape 0.8 has 0.085."""
_FEW_EVENTS = 5


@dataclass(frozen=True)
class LossRow:
    """What one cause costs, in shares of the wall clock."""

    type: str
    redone: float
    down: float
    slow: float

    @property
    def share(self) -> float:
        """All of it."""
        return self.redone + self.down + self.slow


@dataclass(frozen=True)
class Prediction:
    """One predicted TOR."""

    tor: float
    ci_low: float | None
    ci_high: float | None
    method: str
    form: str
    """Closed form that fits the scenario, whether or not it gave the answer."""
    closed_tor: float
    first_order_tor: float
    simulated_tor: float | None
    standard_error: float | None
    losses: tuple[LossRow, ...]
    """Largest first; with tor they sum to 1."""
    optimum: Optimum
    assumptions: tuple[str, ...]
    flags: tuple[str, ...]
    seed: int
    sensitivities: tuple[tuple[str, float], ...]
    """What if (in words), TOR gained; closed form, largest gain first."""


@np.errstate(over="ignore", under="ignore", divide="ignore")  # extremes give limits
def predict(
    scenario: Scenario,
    *,
    method: str | None = None,
    storage: Storage | None = None,
    seed: int = 0,
    n_replicas: int = N_REPLICAS,
) -> Prediction:
    """Predicted TOR of a scenario.

    `method`: `closed`, `simulate`, or None to choose. ParameterError for an impossible scenario;
    SimulationError where a simulation was asked for that would not come to an end.
    """
    checked(scenario)
    closed = closed_form(scenario)
    first = mixtures.first_order(scenario)
    reasons = reasons_to_simulate(scenario, closed, first.tor)
    flags: list[str] = []
    simulation: Simulation | None = None
    if method == SIMULATE or (method is None and reasons):
        try:
            simulation = simulate(scenario, n_replicas=n_replicas, seed=seed)
        except SimulationError as error:
            if method == SIMULATE:
                raise
            flags.append(f"not simulated: {error}")
    flags += _method_flags(simulation, closed, reasons, method)
    rng = np.random.default_rng(seed)
    fails = scenario.restarts_fail and closed.form in ("(1)", "(3)")
    interval = tor_interval(scenario, rng, restarts_fail=fails)
    best = optimum(scenario, storage)
    flags += [*best.flags, *_count_flags(scenario)]
    losses = simulation.losses if simulation else closed.losses
    return Prediction(
        tor=simulation.tor if simulation else closed.tor,
        ci_low=interval.low if interval else None,
        ci_high=interval.high if interval else None,
        method=SIMULATE if simulation else CLOSED,
        form=closed.form,
        closed_tor=closed.tor,
        first_order_tor=first.tor,
        simulated_tor=simulation.tor if simulation else None,
        standard_error=simulation.standard_error if simulation else None,
        losses=_loss_rows(losses),
        optimum=best,
        assumptions=_assumptions(scenario, closed.form, simulation),
        flags=tuple(flags),
        seed=seed,
        sensitivities=sensitivities(scenario),
    )


def reasons_to_simulate(scenario: Scenario, closed: Closed, first_order_tor: float) -> list[str]:
    """Why the closed form is not to be trusted; empty where it is."""
    reasons = []
    apart = abs(closed.tor - first_order_tor)
    if apart > _DISAGREEMENT and closed.form != "(1)":  # which is exact, and no exponential form
        reasons.append(
            f"closed forms disagree by {100 * apart:.1f} points (form {closed.form} "
            f"{closed.tor:.3f}, first order {first_order_tor:.3f})"
        )
    cost = sum(sum(closed.losses[s.name].values()) for s in scenario.stops)
    for stop in scenario.stops:
        share = sum(closed.losses[stop.name].values()) / cost if cost else 0.0
        is_far = distance_from_exponential(stop.uptime) >= _NOT_EXPONENTIAL
        if closed.form != "(1)" and share > _LARGE_SHARE and is_far:
            reasons.append(f"up times of {stop.name} are far from exponential")
        if stop.aftershocks is not None and stop.aftershocks.share > 0:
            reasons.append(f"failures of {stop.name} come in bursts")
    rate = scenario.stop_rate
    if rate and sum(s.rate * mean_of(s.restart_s) for s in scenario.stops) > _LONG_RESTART:
        reasons.append(f"restarts take more than {_LONG_RESTART:g} of the MTBF")
    if scenario.pool is not None:
        reasons.append("spares and repairs are limited")
    plan = scenario.checkpointing
    if plan.memory is not None and plan.latency_s > plan.tau_s + plan.delta_s:
        reasons.append("durable checkpoints overlap: their latency exceeds their period")
    return reasons


def _method_flags(
    simulation: Simulation | None, closed: Closed, reasons: list[str], method: str | None
) -> list[str]:
    """What the reader must know about how the number came about."""
    if simulation is None:
        return [f"{reason}: consider --method simulate" for reason in reasons]
    flags = [] if method == SIMULATE else [f"{reason}: simulated" for reason in reasons]
    model_error = closed.tor - simulation.tor
    flags.append(
        f"closed form {closed.form} gives {closed.tor:.4f}: {100 * model_error:+.2f} points "
        "against the simulation"
    )
    if simulation.n_cut:
        flags.append(
            f"{simulation.n_cut} of {simulation.n_replicas} replicas did not come up again: every "
            "restart was struck by another failure"
        )
    return flags


def _count_flags(scenario: Scenario) -> list[str]:
    flags = [
        f"the rate of {s.name} rests on {s.n_events:g} failures: no law can be told from so few"
        for s in scenario.stops if s.n_events is not None and 0 < s.n_events < _FEW_EVENTS
    ]  # fmt: skip
    return flags + [
        f"no failure of {s.name} was seen: it counts in the interval alone, with half a failure"
        for s in scenario.stops if s.n_events == 0
    ]  # fmt: skip


def _assumptions(scenario: Scenario, form: str, simulation: Simulation | None) -> tuple[str, ...]:
    found = list(ASSUMPTIONS[form]) if simulation is None else _simulated(scenario, simulation)
    if simulation is None and form == "(1)":
        found.append(FAILING_RESTARTS if scenario.restarts_fail else FREE_DOWN)
    if is_uncertain(scenario):
        found.append(
            "the interval holds the uncertainty of counted failures (Gamma, n + 1/2) and observed "
            "durations (bootstrap), not that of the model"
        )
    else:
        found.append("all parameters are taken as exact: there is no interval")
    return tuple(found)


def _simulated(scenario: Scenario, simulation: Simulation) -> list[str]:
    size = f"{simulation.n_replicas:,} replicas, {simulation.n_failures:,} failures"
    during = "during the restart too" if scenario.restarts_fail else "not during down time"
    return [
        f"simulation of {size}, seed {simulation.seed}",
        "clocks of all failure types start anew with each restart, which ends every slow state",
        f"failures strike while the job is up, checkpoint stalls included, and {during}",
        "the job resumes exactly at its newest usable checkpoint",
    ]


def _loss_rows(losses: Mapping[str, Mapping[str, float]]) -> tuple[LossRow, ...]:
    rows = [LossRow(name, x["redone"], x["down"], x["slow"]) for name, x in losses.items()]
    return tuple(sorted(rows, key=lambda row: (-row.share, row.type)))
