"""Which closed form fits a scenario, what it says, and what it takes for granted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline import mixtures, tor
from pipeline.mixtures import Loss, Split
from pipeline.random_times import Exponential, mean_of
from pipeline.scenario import FailStop, Scenario

_CHECKPOINTS = (
    "the job resumes exactly at its newest usable checkpoint",
    "the clock of failures runs while the job is up, checkpoint stalls included",
)
_POINTS = 2001
_MIDDLES = (np.arange(200) + 0.5) / 200
"""Probabilities whose quantiles stand for a law."""
_NEVER = 1e-200
_EXPONENTIAL = "up times are exponential: failures strike at a constant rate"
FREE_DOWN = "nothing fails while the job is down"
FAILING_RESTARTS = "failures also strike during the restart, not between failure and detection"

ASSUMPTIONS: dict[str, tuple[str, ...]] = {
    "(1)": (
        "form (1): one fail-stop type with any law of up time; its clock starts anew with the job",
        *_CHECKPOINTS,
    ),
    "(2)": ("form (2): one fail-stop type", _EXPONENTIAL, FREE_DOWN, *_CHECKPOINTS),
    "(3)": (
        "form (3): one fail-stop type",
        _EXPONENTIAL,
        FAILING_RESTARTS,
        *_CHECKPOINTS,
    ),
    "(5)": (
        "form (5): one fail-slow type, healthy and degraded by turns",
        "checkpoints cost the same share of time at any speed",
    ),
    "(8)": (
        "form (8): several failure types that strike independently",
        _EXPONENTIAL,
        FREE_DOWN,
        "a restart after a fail-stop failure ends every slow state",
        "of overlapping slow states the slowest decides",
        *_CHECKPOINTS,
    ),
    "(9)": (
        "form (9): failures that copies in memory survive, and failures that need a durable one",
        _EXPONENTIAL,
        FREE_DOWN,
        "the latency of durable checkpoints enters to first order",
        *_CHECKPOINTS,
    ),
    "phi": ("nothing fails: what checkpoints cost is all that is lost",),
}
"""Closed form -> what it assumes, in words for users."""


@dataclass(frozen=True)
class Closed:
    """TOR by one closed form, and where the rest of the wall clock goes."""

    form: str
    tor: float
    split: Split

    @property
    def losses(self) -> dict[str, dict[str, float]]:
        """Cause -> redone, down, slow: shares of the wall clock; with tor they sum to 1."""
        return {x.cause: _row(x) for x in self.split.losses}


def closed_form(scenario: Scenario) -> Closed:
    """The closed form that fits best.

    `restarts_fail` chooses (3) over (2) where one exponential fail-stop type is all there is; forms
    of several types have no failures during down time.
    """
    form = form_of(scenario)
    if form == "(1)":
        split = _renewal(scenario)
    elif form == "(5)":
        split = mixtures.alternating(scenario)
    else:
        split = mixtures.combined(scenario, restarts_fail=form == "(3)")
    return Closed(form, float(split.tor[0]), split)


def form_of(scenario: Scenario) -> str:
    """Name of that form."""
    stops, slows = scenario.stops, scenario.slows
    if not stops and not slows:
        return "phi"
    if not stops and len(slows) == 1 and not slows[0].is_overlapping:
        return "(5)"
    tiers = {s.tier for s in stops if s.loss_s is None}
    if scenario.checkpointing.memory is not None and len(tiers) > 1:
        return "(9)"
    if len(stops) != 1 or slows:
        return "(8)"
    if not isinstance(stops[0].uptime, Exponential) and has_plain_rollback(scenario):
        return "(1)"
    return "(3)" if scenario.restarts_fail else "(2)"


def has_plain_rollback(scenario: Scenario) -> bool:
    """Whether every failure goes back to the newest checkpoint and nothing else slows the job."""
    return (
        scenario.checkpointing.memory is None
        and scenario.steady_ratio == 1
        and all(s.loss_s is None and s.aftershocks is None for s in scenario.stops)
    )


def _renewal(scenario: Scenario) -> Split:
    plan, (stop,) = scenario.checkpointing, scenario.stops
    down_s = _down_with_failed_restarts(stop) if scenario.restarts_fail else stop.down_s
    value = tor.renewal(stop.uptime, plan.tau_s, plan.delta_s, down_s, plan.latency_s)
    cycle = stop.uptime.mean + down_s
    down, stalls = down_s / cycle, value * plan.delta_s / plan.tau_s
    nothing = np.zeros(1)
    losses = (
        Loss("checkpoint", nothing, nothing, np.array([stalls])),
        Loss(stop.name, np.array([max(1 - value - down - stalls, 0.0)]), np.array([down]), nothing),
    )
    return Split(np.array([value]), losses, np.array([stop.uptime.mean]), np.array([down_s]),
                 np.ones(1), nothing)  # fmt: skip


def _down_with_failed_restarts(stop: FailStop) -> float:
    """Mean down time where a restart that a failure strikes is begun anew, after a new detection.

    (D + E[min(X, R)]) / P(X >= R) with the clock of X started at the restart.
    """
    restart = stop.restart_s
    times = np.array([restart]) if isinstance(restart, (int, float)) else restart.quantile(_MIDDLES)
    t = np.linspace(0.0, 1.0, _POINTS) * times[:, None]
    survival = stop.uptime.survival(t)
    lasts = np.trapezoid(survival, t, axis=1).mean()
    comes_through = max(float(survival[:, -1].mean()), _NEVER)
    return float((mean_of(stop.detect_s) + lasts) / comes_through)


def _row(loss: Loss) -> dict[str, float]:
    return {"redone": float(loss.redone[0]), "down": float(loss.down[0]),
            "slow": float(loss.slow[0])}  # fmt: skip
