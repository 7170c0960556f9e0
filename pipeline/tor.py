"""Closed forms of the predicted Training Overhead Ratio (TOR) = optimal / observed training time.

The metric and its stage model are those of arXiv 2408.07482. The equations (1) to (9) are ours,
derived for that stage model; docs/tor.md gives them with their assumptions. Symbols: tau_s useful
work between two checkpoints, delta_s blocking stall, P = tau + delta, latency_s until the
checkpoint is durable, detect_s and restart_s of a failure, mtbf_up_s mean up time between failures.

Everything is in seconds. Single forms take numbers or arrays that broadcast, and give arrays or
numbers; impossible values raise ParameterError (a ValueError) that names them all. Extreme values
give the limit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from pipeline.errors import ParameterError
from pipeline.random_times import Floats, RandomTime

Real = float | Floats

_TERMS = 1 << 20
"""Checkpoints of equation (1) that are summed one by one; beyond them the sum is an integral."""
_TAIL = 1e-12


def checkpoint_efficiency(tau_s: Real, delta_s: Real) -> Any:
    """phi = tau / (tau + delta): the TOR of a job that never fails."""
    _require(above_zero={"tau_s": tau_s}, from_zero={"delta_s": delta_s})
    return np.true_divide(tau_s, tau_s + delta_s)


def renewal(
    uptime: RandomTime, tau_s: float, delta_s: float, down_s: float, latency_s: float = 0.0
) -> float:
    """(1) One fail-stop type with any law of up time, whose clock starts anew with each restart.

    TOR = tau sum_{k>=1} S(k P + L) / (E[X] + E[down]); nothing fails during down time.
    """
    _require(
        above_zero={"tau_s": tau_s, "mean of uptime": uptime.mean},
        from_zero={"delta_s": delta_s, "down_s": down_s, "latency_s": latency_s},
    )
    period = tau_s + delta_s
    if np.isinf(uptime.mean):
        return tau_s / period
    last = float(uptime.quantile(np.array([1 - _TAIL]))[0])
    n_terms = int(min(max((last - latency_s) / period, 0), _TERMS)) + 1
    kept = float(uptime.survival(np.arange(1.0, n_terms + 1) * period + latency_s).sum())
    begin = (n_terms + 0.5) * period + latency_s
    if begin < last:
        log_t = np.linspace(np.log(begin), np.log(last), _points(begin, last))
        t = np.exp(log_t)
        kept += float(np.trapezoid(uptime.survival(t) * t, log_t)) / period
    return min(tau_s * kept / (uptime.mean + down_s), tau_s / period)


def _points(begin: float, last: float) -> int:
    """Points of the tail's integral: so many per decade that its error stays below 1e-6."""
    return int(2000 * (np.log10(last) - np.log10(begin))) + 100


def exponential(
    tau_s: Real, delta_s: Real, down_s: Real, mtbf_up_s: Real, latency_s: Real = 0.0
) -> Any:
    """(2) Exponential up time, nothing fails during down time.

    TOR = tau exp(-L / M) / (expm1(P / M) (M + D + R)).
    """
    return complete(tau_s, delta_s, down_s, 0.0, mtbf_up_s, latency_s)


def complete(
    tau_s: Real,
    delta_s: Real,
    detect_s: Real,
    restart_s: Real,
    mtbf_up_s: Real,
    latency_s: Real = 0.0,
) -> Any:
    """(3) Exponential up time, failures also strike during the restart, not before detection.

    TOR = tau exp(-L / M) / ((M + D) exp(R / M) expm1(P / M)); (2) with D + R as detection.
    """
    _require_stop(tau_s, delta_s, detect_s, restart_s, mtbf_up_s, latency_s)
    period = np.add(tau_s, delta_s)
    with np.errstate(over="ignore", under="ignore"):
        kept = np.exp(-np.divide(np.add(latency_s, restart_s), mtbf_up_s))
        waste = special.exprel(np.divide(period, mtbf_up_s)) * (1 + np.divide(detect_s, mtbf_up_s))
        return np.divide(tau_s, period) * kept / waste


def first_order(
    tau_s: Real,
    delta_s: Real,
    detect_s: Real,
    restart_s: Real,
    mtbf_up_s: Real,
    latency_s: Real = 0.0,
) -> Any:
    """(4) First order in 1 / M, for P + L + R below 0.1 M; 0 where it would be negative.

    TOR ~ (tau / P) (1 - (P / 2 + L) / M) / (1 + (D + R) / M).
    """
    _require_stop(tau_s, delta_s, detect_s, restart_s, mtbf_up_s, latency_s)
    period = np.add(tau_s, delta_s)
    with np.errstate(over="ignore"):
        kept = np.maximum(1 - np.divide(period / 2 + latency_s, mtbf_up_s), 0)
        down = np.divide(np.add(detect_s, restart_s), mtbf_up_s)
        return np.divide(tau_s, period) * kept / (1 + down)


def expected_ettr(tau_s: Real, delta_s: Real, down_s: Real, mttf_s: Real) -> Any:
    """Expected effective training time ratio as estimated in arXiv 2410.21680; at least 0.

    (1 - (u0 + dt / 2) / MTTF) / (1 + w / dt) with u0 = down_s, dt = tau_s and w = delta_s.
    """
    _require(
        above_zero={"tau_s": tau_s, "mttf_s": mttf_s},
        from_zero={"delta_s": delta_s, "down_s": down_s},
    )
    kept = 1 - np.divide(np.add(down_s, np.divide(tau_s, 2)), mttf_s)
    return np.maximum(kept, 0) / (1 + np.divide(delta_s, tau_s))


def alternating(
    healthy_s: Real,
    degraded_s: Real,
    ratio: Real,
    pause_s: Real = 0.0,
    loss_s: Real = 0.0,
    efficiency: Real = 1.0,
) -> Any:
    """(5) Fail-slow, healthy and degraded by turns; `efficiency` is phi.

    TOR = phi (M_s + r W - loss) / (M_s + W + q); self-healing: q = loss = 0. At least 0.
    """
    _require(
        above_zero={"healthy_s": healthy_s},
        from_zero={"degraded_s": degraded_s, "pause_s": pause_s, "loss_s": loss_s},
        ratios={"ratio": ratio, "efficiency": efficiency},
    )
    if np.all(np.isinf(healthy_s)):
        return np.multiply(efficiency, 1.0)
    kept = np.add(healthy_s, np.multiply(ratio, degraded_s)) - loss_s
    return efficiency * np.maximum(kept, 0) / (np.add(healthy_s, degraded_s) + pause_s)


def synchronous_ratio(load: Floats, ratio: Floats) -> Any:
    """(6) Mean speed where slow events overlap and the slowest decides.

    load: (types, ...) onset rate x mean duration, any law of durations; ratio: (types,).
    E[r] = sum_j r_j (1 - exp(-rho_j)) prod_{i<j} exp(-rho_i) + prod_j exp(-rho_j), r ascending.
    """
    load, ratio = np.asarray(load, dtype=np.float64), np.asarray(ratio, dtype=np.float64)
    _require(from_zero={"load": load}, ratios={"ratio": ratio})
    mean = np.zeros(load.shape[1:])
    none_slower = np.ones(load.shape[1:])
    for j in np.argsort(ratio, kind="stable"):
        mean = mean + ratio[j] * none_slower * -np.expm1(-load[j])
        none_slower = none_slower * np.exp(-load[j])
    return mean + none_slower


def multiplicative_ratio(load: Floats, ratio: Floats) -> Any:
    """(6) Mean speed where overlapping slow events multiply: exp(-sum_j rho_j (1 - r_j))."""
    load, ratio = np.asarray(load, dtype=np.float64), np.asarray(ratio, dtype=np.float64)
    _require(from_zero={"load": load}, ratios={"ratio": ratio})
    return np.exp(-np.tensordot(1 - ratio, load, axes=1))


def up_mtbf(mtbf_wall_s: Real, down_s: Real) -> Any:
    """Mean up time between failures, from that in wall-clock time: M = M_w - E[down].

    down_s is the mean of everything between a failure and productive again, failed restarts
    included. ParameterError where no up time is left.
    """
    _require(above_zero={"mtbf_wall_s": mtbf_wall_s}, from_zero={"down_s": down_s})
    if np.any(np.asarray(mtbf_wall_s) <= down_s):
        problem = (
            f"a mean wall-clock time between failures of {np.min(mtbf_wall_s):g} s leaves no up "
            f"time beside a mean down time of {np.max(down_s):g} s: expected more, or a mean up "
            "time (--clock up)"
        )
        raise ParameterError([problem])
    return np.subtract(mtbf_wall_s, down_s)


def _require_stop(
    tau_s: Real,
    delta_s: Real,
    detect_s: Real,
    restart_s: Real,
    mtbf_up_s: Real,
    latency_s: Real,
) -> None:
    _require(
        above_zero={"tau_s": tau_s, "mtbf_up_s": mtbf_up_s},
        from_zero={
            "delta_s": delta_s,
            "detect_s": detect_s,
            "restart_s": restart_s,
            "latency_s": latency_s,
        },
    )


def _require(
    above_zero: dict[str, Real] | None = None,
    from_zero: dict[str, Real] | None = None,
    ratios: dict[str, Real] | None = None,
) -> None:
    """ParameterError that names every value outside its range; inf is only a mean time's limit."""
    problems = []
    for name, value in (above_zero or {}).items():
        if not np.all(np.greater(value, 0)):
            problems.append(f"{name} = {_worst(value)}: expected above 0")
    for name, value in (from_zero or {}).items():
        if not np.all(np.isfinite(value) & np.greater_equal(value, 0)):
            problems.append(f"{name} = {_worst(value)}: expected a finite number, 0 or more")
    for name, value in (ratios or {}).items():
        if not np.all(np.greater(value, 0) & np.less_equal(value, 1)):
            problems.append(f"{name} = {_worst(value)}: expected above 0 and at most 1")
    if problems:
        raise ParameterError(problems)


def _worst(value: Real) -> str:
    values = np.ravel(value)
    return f"{values[0]:g}" if values.size == 1 else f"{values.min():g} to {values.max():g}"
