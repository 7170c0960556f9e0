"""TOR of a whole scenario in closed form: several failure types, slow states, checkpoint tiers.

Equations (7), (8) and (9) of docs/tor.md, and where every lost second of them goes. Rates are per
up second, times in seconds. Arrays have failure types on axis 0 and parameter draws on axis 1;
a scenario's own parameters are one draw.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from pipeline import tor
from pipeline.random_times import Floats, mean_of
from pipeline.scenario import DURABLE, Checkpointing, Scenario

_NEVER = 1e-200
"""Probability of what all but never happens; its inverse bounds costs, to keep shares finite."""


@dataclass(frozen=True)
class StopTerms:
    """Fail-stop types as numbers, each (types, draws)."""

    rate: Floats
    detect_s: Floats
    restart_s: Floats


@dataclass(frozen=True)
class Loss:
    """What one cause costs, as shares of the wall clock, each (draws,)."""

    cause: str
    """Name of a failure type, or `checkpoint` or `overhead`."""
    redone: Floats
    """Work and stalls that a roll-back made useless."""
    down: Floats
    """Detection, restart and pauses of mitigations."""
    slow: Floats
    """Time beyond that of full speed, and checkpoint stalls."""

    @property
    def share(self) -> Floats:
        """All of it."""
        return self.redone + self.down + self.slow


@dataclass(frozen=True)
class Split:
    """TOR and where the rest of the wall clock goes; tor + sum of shares = 1. Each (draws,)."""

    tor: Floats
    losses: tuple[Loss, ...]
    mtbf_up_s: Floats
    down_s: Floats
    """Mean down time per failure, failed restarts included where they are modelled."""
    speed: Floats
    """Mean speed while up: E[r] of the slow types."""
    pause: Floats
    """Mitigation pause per up second (kappa)."""


def stop_terms(scenario: Scenario) -> StopTerms:
    """The scenario's own rates and mean durations."""
    stops = scenario.stops
    return StopTerms(
        _column([s.rate for s in stops]),
        _column([mean_of(s.detect_s) for s in stops]),
        _column([mean_of(s.restart_s) for s in stops]),
    )


@np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore")
def combined(
    scenario: Scenario, terms: StopTerms | None = None, *, restarts_fail: bool = False
) -> Split:
    """(8) Exponential up times, slow states that a fail-stop restart clears; (9) with two tiers.

    TOR = tau exp(-L lambda_d) / (G (1 + lambda E[down] + kappa)), where G is the mean up time that
    it takes to bank tau of work:

        G = ((1 + l_d x)^(n-1) (1 + l_d x') - 1) / l_d,  x = expm1(P l_r) / l_r

    l_r: rate of failures that roll back, l_d: of those that only a durable checkpoint survives,
    n: saves per durable interval, P: their period at mean speed, P' and x': of the last one.
    One tier: G = expm1(P / M) M, so that (8) is (2) without slow types. With `restarts_fail`,
    failures also strike during restarts: (3) for one type. With two tiers the latency enters to
    first order.
    """
    plan = scenario.checkpointing
    terms = terms or stop_terms(scenario)
    rate = terms.rate.sum(axis=0)
    slow = _slow_terms(scenario, rate)
    own_loss = np.array([s.loss_s is not None for s in scenario.stops], dtype=bool)
    is_durable = np.array([_needs_durable(plan, s.tier) for s in scenario.stops], dtype=bool)
    rolled = terms.rate[~own_loss].sum(axis=0)
    durable = terms.rate[~own_loss & is_durable].sum(axis=0)
    redone = terms.rate[own_loss] * _column([s.loss_s or 0.0 for s in scenario.stops])[own_loss]
    down = np.minimum(_down_per_up_second(terms, restarts_fail=restarts_fail), 1 / _NEVER)

    net = np.maximum(slow.speed - redone.sum(axis=0) - slow.redone.sum(axis=0), 0)
    speed = scenario.steady_ratio * net
    up = 1 / (1 + down.sum(axis=0) + slow.paused.sum(axis=0))
    banked = _up_time_to_bank(plan, speed, rolled, durable)
    value = plan.tau_s * up * np.exp(-plan.latency_s * durable) / banked
    value = np.where(np.isfinite(banked), np.minimum(value, 1.0), 0.0)
    per_speed = np.where(speed > 0, value / speed, 0.0)
    stalls = value * _stall_per_interval(plan) / plan.tau_s
    rolled_back = np.maximum(up - per_speed - stalls, 0)

    # where nothing is ever kept, own losses are all that up time goes into
    rolls = np.concatenate([
        terms.rate * _mean_loss(scenario) * np.where(own_loss[:, None], net == 0, 1.0),
        slow.redone * (net == 0),
    ])  # fmt: skip
    back = _shares(np.minimum(rolls, 1 / _NEVER)) * rolled_back
    full = per_speed * scenario.steady_ratio
    back[: own_loss.size][own_loss] += full * redone
    back[own_loss.size :] += full * slow.redone
    beyond = _shares(slow.beyond) * (1 - slow.speed) * full
    nothing = np.zeros_like(value)
    losses = [Loss("checkpoint", nothing, nothing, stalls)]
    losses += [Loss(s.name, back[i], down[i] * up, nothing) for i, s in enumerate(scenario.stops)]
    losses += [
        Loss(s.name, back[own_loss.size + j], slow.paused[j] * up, beyond[j])
        for j, s in enumerate(scenario.slows)
    ]
    if scenario.steady_ratio < 1:
        losses.append(Loss("overhead", nothing, nothing, per_speed - full))
    mean_down = np.where(rate > 0, down.sum(axis=0) / rate, 0.0)
    return Split(value, tuple(losses), 1 / rate, mean_down, slow.speed, slow.paused.sum(axis=0))


def alternating(scenario: Scenario) -> Split:
    """(5) of a scenario with one fail-slow type, healthy and degraded by turns, and nothing else.

    Checkpoints cost their share phi at any speed.
    """
    (slow,) = scenario.slows
    phi = float(_efficiency(scenario.checkpointing)) * scenario.steady_ratio
    healthy, degraded = slow.onset.mean, mean_of(slow.duration_s)
    value = tor.alternating(healthy, degraded, slow.ratio, slow.pause_s, slow.loss_s, phi)
    cycle = healthy + degraded + slow.pause_s
    paused, redone, beyond = (
        np.array([0.0 if np.isinf(cycle) else x / cycle])
        for x in (slow.pause_s, phi * slow.loss_s, phi * (1 - slow.ratio) * degraded)
    )
    nothing = np.zeros(1)
    rest = np.maximum(1 - value - paused - redone - beyond, 0)
    overhead = (1 - paused) * (1 - scenario.steady_ratio)
    losses = [
        Loss("checkpoint", nothing, nothing, rest - overhead),
        Loss(slow.name, redone, paused, beyond),
        *([Loss("overhead", nothing, nothing, overhead)] if scenario.steady_ratio < 1 else []),
    ]
    up = healthy + degraded
    speed = np.array([1.0 if np.isinf(up) else (healthy + slow.ratio * degraded) / up])
    return Split(np.array([value]), tuple(losses), np.array([np.inf]), nothing, speed,
                 np.array([0.0 if np.isinf(up) else slow.pause_s / up]))  # fmt: skip


@dataclass(frozen=True)
class FirstOrder:
    """(7): TOR to first order, and the additive budget of types as fractions of up time."""

    tor: float
    redone: dict[str, float]
    """Per type: rate x loss; of slow types rate x ((1 - r) W + loss)."""
    down: dict[str, float]
    """Per type: rate x (D + R); of slow types rate x pause."""


def first_order(scenario: Scenario) -> FirstOrder:
    """(7) For attribution; at least 0.

    TOR ~ phi [1 - sum l_i loss_i - sum l_j ((1 - r_j) W_j + loss_j)]
        / [1 + sum l_i (D_i + R_i) + sum l_j q_j],  loss_i = P_i / 2 + L_i of the tier it needs.
    """
    loss = _mean_loss(scenario)[:, 0]
    redone = {s.name: s.rate * loss[i] for i, s in enumerate(scenario.stops)}
    down = {s.name: s.rate * s.down_s for s in scenario.stops}
    for slow in scenario.slows:
        degraded = (1 - slow.ratio) * mean_of(slow.duration_s)
        redone[slow.name] = slow.rate * (degraded + slow.loss_s)
        down[slow.name] = slow.rate * slow.pause_s
    kept = max(1 - sum(redone.values()), 0.0)
    phi = float(_efficiency(scenario.checkpointing)) * scenario.steady_ratio
    return FirstOrder(phi * kept / (1 + sum(down.values())), redone, down)


@dataclass(frozen=True)
class _Slow:
    """Slow types as numbers, each (types, draws) but speed (draws,)."""

    speed: Floats
    beyond: Floats
    """(1 - r) times the share of up time with an event of the type."""
    paused: Floats
    redone: Floats


def _slow_terms(scenario: Scenario, stop_rate: Floats) -> _Slow:
    """rho_j = l_j / (1 / W_j + lambda): a fail-stop failure ends a slow state before its time.

    Of events that come by turns the share of up time is that of an alternating renewal process.
    """
    slows = scenario.slows
    onset = _column([s.rate for s in slows])
    duration = _column([mean_of(s.duration_s) for s in slows])
    ratio = np.array([s.ratio for s in slows])
    survives = 1 / (1 + duration * stop_rate)
    load = onset * duration * survives
    by_turns = np.array([not s.is_overlapping for s in slows], dtype=bool)
    onset = np.where(by_turns[:, None], onset / (1 + load), onset)
    load = np.where(by_turns[:, None], np.log1p(load), load)
    return _Slow(
        tor.synchronous_ratio(load, ratio),
        (1 - ratio[:, None]) * -np.expm1(-load),
        np.minimum(onset * survives * _column([s.pause_s for s in slows]), 1 / _NEVER),
        np.minimum(onset * survives * _column([s.loss_s for s in slows]), 1 / _NEVER),
    )


def _down_per_up_second(terms: StopTerms, *, restarts_fail: bool) -> Floats:
    """(types, draws): rate x down time that the type is charged with.

    Where restarts fail, each failure of any type leads to one try, which comes through with the
    mean probability p of exp(-R / M); the number of tries per failure of the running job is 1 / p.
    """
    if not restarts_fail:
        return terms.rate * (terms.detect_s + terms.restart_s)
    rate = terms.rate.sum(axis=0)
    exposed = rate * terms.restart_s
    tried = terms.detect_s + terms.restart_s * special.exprel(-exposed)
    comes_through = (terms.rate / rate * np.exp(-exposed)).sum(axis=0)
    charged = terms.rate * tried / np.maximum(comes_through, _NEVER)
    return np.where(terms.rate * tried > 0, charged, 0.0)


def _up_time_to_bank(plan: Checkpointing, speed: Floats, rolled: Floats, durable: Floats) -> Floats:
    """Mean up time G that it takes to bank one durable interval; inf where it never comes."""
    n = plan.n_copies
    copy_s = plan.memory.cost_s if plan.memory else 0.0
    last = plan.tau_s / n / speed + plan.delta_s
    last = last * special.exprel(last * rolled)
    if n == 1:
        return last * np.ones_like(durable)
    each = plan.tau_s / n / speed + copy_s
    each = each * special.exprel(each * rolled)
    exponent = (n - 1) * np.log1p(durable * each) + np.log1p(durable * last)
    linear = (n - 1) * each * _log1p_over(durable * each) + last * _log1p_over(durable * last)
    return np.where(np.isfinite(each + last), linear * special.exprel(exponent), np.inf)


def _log1p_over(x: Floats) -> Floats:
    """log(1 + x) / x, 1 at 0."""
    return np.where(x < 1e-8, 1 - x / 2, np.log1p(x) / np.where(x > 0, x, 1.0))


def _mean_loss(scenario: Scenario) -> Floats:
    """(types, 1): work redone per failure to first order: half a period and the latency."""
    plan = scenario.checkpointing
    durable = (plan.tau_s + _stall_per_interval(plan)) / 2 + plan.latency_s
    copy = durable
    if plan.memory is not None:
        copy = (plan.memory.interval_s + plan.memory.cost_s) / 2
    return _column([
        s.loss_s if s.loss_s is not None else durable if _needs_durable(plan, s.tier) else copy
        for s in scenario.stops
    ])  # fmt: skip


def mean_losses(scenario: Scenario) -> dict[str, float]:
    """Work redone per failure of each fail-stop type, to first order."""
    losses = _mean_loss(scenario)[:, 0]
    return {s.name: float(losses[i]) for i, s in enumerate(scenario.stops)}


def _needs_durable(plan: Checkpointing, tier: str) -> bool:
    return plan.memory is None or tier == DURABLE


def _stall_per_interval(plan: Checkpointing) -> float:
    copies = plan.memory.cost_s * (plan.n_copies - 1) if plan.memory else 0.0
    return plan.delta_s + copies


def _efficiency(plan: Checkpointing) -> float:
    return float(tor.checkpoint_efficiency(plan.tau_s, _stall_per_interval(plan)))


def _shares(weights: Floats) -> Floats:
    """Weights as shares of their sum over types; equal to them where they are all 0."""
    total = weights.sum(axis=0)
    return np.asarray(np.divide(weights, total, out=np.zeros_like(weights), where=total > 0))


def _column(values: npt.ArrayLike) -> Floats:
    return np.asarray(values, dtype=np.float64).reshape(-1, 1)
