"""The parameters of a prediction as users give them, checked all at once, and the scenario of them.

All times are seconds. `clock` says what the mean time between failures and the exposure count:
up time, or wall-clock time, which includes detection, restarts and pauses. It is turned into up
time here and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from scipy import optimize, stats

from pipeline import checkpoint_interval, scaling, tor
from pipeline.checkpoint_interval import Storage
from pipeline.errors import ParameterError
from pipeline.random_times import Exponential, Frozen, RandomTime
from pipeline.scenario import (
    DURABLE,
    MEMORY,
    Aftershocks,
    Checkpointing,
    FailSlow,
    FailStop,
    MemoryTier,
    Scenario,
    SparePool,
    checked,
    not_negative,
    positive,
    ratio,
)

UP, WALL = "up", "wall"


@dataclass(frozen=True)
class ObservedSize:
    """Failures counted on jobs of one size."""

    nodes: float
    n_failures: int
    exposure_s: float


@dataclass(frozen=True)
class Parameters:
    """What was given; None where nothing was."""

    mtbf_s: float | None = None
    clock: str = UP
    failures: int | None = None
    exposure_s: float | None = None
    node_rate: float | None = None
    """Failures per 1000 node-days."""
    nodes: int | None = None
    observed_sizes: tuple[ObservedSize, ...] = ()
    failure_type: str = "failure"
    uptime_shape: float | None = None
    burst_share: float | None = None
    burst_gap_s: float | None = None
    checkpoint_interval_s: float | None = None
    checkpoint_cost_s: float | None = None
    checkpoint_latency_s: float | None = None
    checkpoint_bytes: float | None = None
    storage_bandwidth: float | None = None
    memory_interval_s: float | None = None
    memory_cost_s: float | None = None
    memory_survives: float | None = None
    """Share of failures that a copy in memory survives."""
    detect_s: float | None = None
    restart_s: float | None = None
    restart_parts: Mapping[str, float] = field(default_factory=dict)
    slow_mtbe_s: float | None = None
    slow_duration_s: float | None = None
    slow_ratio: float | None = None
    mitigation_pause_s: float | None = None
    mitigation_loss_s: float | None = None
    spares: int | None = None
    repair_s: float | None = None
    max_missing: int | None = None
    step_time_s: float | None = None


@dataclass(frozen=True)
class Setup:
    """A scenario, and how it came from the parameters."""

    scenario: Scenario
    storage: Storage | None
    mtbf_up_s: float | None
    mtbf_wall_s: float | None
    notes: tuple[str, ...]
    flags: tuple[str, ...]


_POSITIVE = (
    "mtbf_s", "exposure_s", "node_rate", "nodes", "uptime_shape", "burst_gap_s",
    "checkpoint_interval_s", "checkpoint_bytes", "storage_bandwidth", "memory_interval_s",
    "slow_mtbe_s", "step_time_s",
)  # fmt: skip
_FROM_ZERO = (
    "failures", "checkpoint_cost_s", "checkpoint_latency_s", "memory_cost_s", "detect_s",
    "restart_s", "slow_duration_s", "mitigation_pause_s", "mitigation_loss_s", "spares",
    "repair_s", "max_missing",
)  # fmt: skip
_TOGETHER = (
    ("failures", "exposure_s"), ("burst_share", "burst_gap_s"),
    ("checkpoint_bytes", "storage_bandwidth"),
    ("memory_interval_s", "memory_survives"), ("slow_mtbe_s", "slow_duration_s", "slow_ratio"),
    ("spares", "repair_s"),
)  # fmt: skip
_COSTS = ("checkpoint_cost_s", "checkpoint_latency_s", "detect_s", "restart_s")


def option(name: str) -> str:
    """`--checkpoint-cost` of `checkpoint_cost_s`: the name by which users know it."""
    return "--" + name.removesuffix("_s").replace("_", "-")


def setup(given: Parameters) -> Setup:
    """The scenario of the parameters; ParameterError that names everything wrong with them."""
    problems = problems_in(given)
    if problems:
        raise ParameterError(problems)
    notes: list[str] = []
    flags: list[str] = []
    costs = _COSTS if has_stops(given) else _COSTS[:1]
    missing = [option(n) for n in costs if getattr(given, n) is None]
    if missing:
        notes.append(f"not given, taken as 0: {', '.join(missing)}")
    slows = _slows(given)
    mtbf, clock = _mtbf(given, notes, flags)
    up, wall = _clocks(given, mtbf, clock, slows, notes)
    stops = _stops(given, up)
    storage = None
    if given.checkpoint_bytes is not None and given.storage_bandwidth is not None:
        storage = Storage(given.checkpoint_bytes, given.storage_bandwidth)
    plan = _checkpointing(given, up, storage, notes)
    pool = None
    if given.spares is not None and given.repair_s is not None and given.nodes is not None:
        pool = SparePool(given.nodes, given.spares, Exponential(given.repair_s) if given.repair_s
                         else 0.0, given.max_missing or 0)  # fmt: skip
        notes.append("repair times are exponential; each failure breaks one node")
    scenario = checked(Scenario(plan, stops, slows, pool, restarts_fail=clock == UP))
    return Setup(scenario, storage, up, wall, tuple(notes), tuple(flags))


def problems_in(given: Parameters) -> list[str]:
    """Everything that the parameters alone show to be wrong."""
    return [*_range_problems(given), *_combination_problems(given)]


def _range_problems(given: Parameters) -> list[str]:
    found: list[str] = []
    checks = [(n, positive) for n in _POSITIVE] + [(n, not_negative) for n in _FROM_ZERO]
    for name, check in checks:
        value = getattr(given, name)
        if value is not None:
            found += check(option(name), value)
    if given.slow_ratio is not None:
        found += ratio("--slow-ratio", given.slow_ratio)
    for name in ("burst_share", "memory_survives"):
        value = getattr(given, name)
        if value is not None and not 0 <= value < 1:
            found.append(f"{option(name)} = {value:g}: expected 0 or more, below 1")
    for name, value in given.restart_parts.items():
        found += not_negative(f"--restart-part {name}", value)
    if not found and sum(given.restart_parts.values()) > (given.restart_s or 0) * (1 + 1e-9):
        found.append("--restart-part: expected parts that sum to at most --restart")
    return found


def _combination_problems(given: Parameters) -> list[str]:
    found = []
    for names in _TOGETHER:
        absent = [option(n) for n in names if getattr(given, n) is None]
        if 0 < len(absent) < len(names):
            present = [option(n) for n in names if getattr(given, n) is not None]
            found.append(f"{' and '.join(present)}: expected {' and '.join(absent)} too")
    needs_nodes = {
        "--node-rate": given.node_rate, "--observed": given.observed_sizes or None,
        "--spares": given.spares,
    }  # fmt: skip
    if given.nodes is None:
        found += [f"{n}: expected --nodes too" for n, v in needs_nodes.items() if v is not None]
    if given.max_missing and given.spares is None:
        found.append("--max-missing: expected --spares and --repair too")
    if given.mtbf_s is not None and given.failures is not None:
        found.append("--mtbf and --failures: expected one of them")
    if not has_stops(given) and given.slow_mtbe_s is None:
        found.append(
            "nothing fails: expected --mtbf, --failures and --exposure, --node-rate and --nodes, "
            "or --slow-mtbe, --slow-duration and --slow-ratio"
        )
    return found


def has_stops(given: Parameters) -> bool:
    """Whether anything is said about fail-stop failures."""
    sources = (given.mtbf_s, given.failures, given.node_rate, given.observed_sizes or None)
    return any(x is not None for x in sources)


def _mtbf(given: Parameters, notes: list[str], flags: list[str]) -> tuple[float | None, str]:
    """Mean time between failures and its clock; None where no fail-stop failure is given."""
    by_nodes = None
    if given.node_rate is not None and given.nodes is not None:
        by_nodes = scaling.mttf_s(given.node_rate, given.nodes)
    if given.observed_sizes and given.nodes is not None:
        line = scaling.fit_size_line(
            [x.nodes for x in given.observed_sizes],
            [x.n_failures for x in given.observed_sizes],
            [x.exposure_s for x in given.observed_sizes],
        )
        notes.append(
            f"failures per day of a job = {line.job_rate * 86400:.4g} + "
            f"{line.node_rate * 86400:.4g} x nodes, fitted to {len(given.observed_sizes)} sizes"
        )
        if line.is_extrapolated(given.nodes):
            flags.append(
                f"{given.nodes:,} nodes are more than twice the largest observed size of "
                f"{line.largest:g}: the rate is extrapolated"
            )
        rate = line.rate(given.nodes)
        by_nodes = 1 / rate if rate else math.inf
    measured = given.mtbf_s
    if given.failures is not None and given.exposure_s is not None:
        measured = given.exposure_s / given.failures if given.failures else math.inf
    if measured is None:
        return by_nodes, given.clock
    if by_nodes is not None and (factor := scaling.divergence(by_nodes, measured)):
        flags.append(
            f"the rate per node says one failure in {by_nodes / 3600:.3g} h, the job says one in "
            f"{measured / 3600:.3g} h, a factor of {max(factor, 1 / factor):.1f} apart: failures "
            "are not proportional to nodes; the job's own figure is used"
        )
    return measured, given.clock


def _clocks(
    given: Parameters,
    mtbf: float | None,
    clock: str,
    slows: tuple[FailSlow, ...],
    notes: list[str],
) -> tuple[float | None, float | None]:
    """Mean time between failures in up time and in wall-clock time."""
    if mtbf is None:
        return None, None
    down = (given.detect_s or 0.0) + (given.restart_s or 0.0)
    if clock == UP:
        notes.append("the time between failures is up time: steps and checkpoint stalls")
        return mtbf, None
    up = up_mtbf(mtbf, down, slows) if math.isfinite(mtbf) else mtbf
    notes.append(
        "the time between failures is wall-clock time from one incident to the next; a failed "
        f"restart belongs to the incident before it; without {down:g} s of down time each, "
        f"{up:.6g} s of it are up time"
    )
    return up, mtbf


def up_mtbf(mtbf_wall_s: float, down_s: float, slows: tuple[FailSlow, ...]) -> float:
    """M with M_w = M + E[down] + kappa(M) M, kappa the mitigation pauses per up second."""
    most = float(tor.up_mtbf(mtbf_wall_s, down_s))

    def beyond(up: float) -> float:
        pauses = sum(s.rate * s.pause_s * up / (1 + _mean(s) / up) for s in slows)
        return up + pauses - most

    if not any(s.pause_s for s in slows):
        return most
    return float(optimize.brentq(beyond, most * 1e-12, most, xtol=1e-12 * most))


def _mean(slow: FailSlow) -> float:
    duration = slow.duration_s
    return duration if isinstance(duration, (int, float)) else duration.mean


def _stops(given: Parameters, up: float | None) -> tuple[FailStop, ...]:
    if up is None:
        return ()
    stop = FailStop(
        given.failure_type,
        _uptime(given, up),
        given.detect_s or 0.0,
        given.restart_s or 0.0,
        victims=0 if given.spares is None else 1,
        aftershocks=None if given.burst_gap_s is None or given.burst_share is None
        else Aftershocks(given.burst_share, Exponential(given.burst_gap_s)),
        n_events=given.failures,
        exposure_s=_up_exposure(given, up),
        parts=given.restart_parts,
    )  # fmt: skip
    if given.memory_survives is None:
        return (stop,)
    shares = {MEMORY: given.memory_survives, DURABLE: 1 - given.memory_survives}
    return tuple(
        replace(
            stop,
            name=f"{given.failure_type}, {tier} tier",
            uptime=_uptime(given, up / share) if share else Exponential(math.inf),
            n_events=None if given.failures is None else given.failures * share,
            tier=tier,
        )
        for tier, share in shares.items()
    )


def _uptime(given: Parameters, mean: float) -> RandomTime:
    """Up times with the given mean over all failures, those of bursts included."""
    if given.burst_share and given.burst_gap_s:
        # mean = (1 - b) m + b / (1 / m + 1 / gap), solved for m
        b, gap = given.burst_share, given.burst_gap_s
        half = ((1 - b) * gap + b * gap - mean) / 2
        mean = (-half + math.sqrt(half * half + (1 - b) * mean * gap)) / (1 - b)
    shape = given.uptime_shape
    if shape is None or shape == 1 or math.isinf(mean):
        return Exponential(mean)
    return Frozen(stats.weibull_min(shape, scale=mean / math.gamma(1 + 1 / shape)))


def _up_exposure(given: Parameters, up: float) -> float | None:
    """Up time in which the failures were counted."""
    if given.failures is None or given.exposure_s is None:
        return None
    return given.failures * up if given.failures else given.exposure_s


def _slows(given: Parameters) -> tuple[FailSlow, ...]:
    if given.slow_mtbe_s is None or given.slow_duration_s is None or given.slow_ratio is None:
        return ()
    duration = given.slow_duration_s
    return (
        FailSlow(
            "slow",
            Exponential(given.slow_mtbe_s),
            Exponential(duration) if duration else 0.0,
            given.slow_ratio,
            given.mitigation_pause_s or 0.0,
            given.mitigation_loss_s or 0.0,
            is_overlapping=has_stops(given),
        ),
    )


def _checkpointing(
    given: Parameters, up: float | None, storage: Storage | None, notes: list[str]
) -> Checkpointing:
    """The checkpoints; without an interval the best one."""
    delta = given.checkpoint_cost_s or 0.0
    latency = given.checkpoint_latency_s or 0.0
    memory = None
    if given.memory_interval_s is not None:
        memory = MemoryTier(given.memory_interval_s, given.memory_cost_s or 0.0)
    tau = given.checkpoint_interval_s
    if tau is None:
        tau = _best_interval(given, up, storage, delta)
        if memory is not None:
            tau = max(1, round(tau / memory.interval_s)) * memory.interval_s
        notes.append(f"--checkpoint-interval not given: the best one, {tau:.6g} s, is taken")
    return Checkpointing(tau, delta, latency, memory)


def _best_interval(
    given: Parameters, up: float | None, storage: Storage | None, delta: float
) -> float:
    if up is None or math.isinf(up) or not delta:
        problem = (
            "--checkpoint-interval: expected, since without it the best interval is taken, which "
            "needs --checkpoint-cost above 0 and failures"
        )
        raise ParameterError([problem])
    rolls = up / (1 - (given.memory_survives or 0.0))
    return checkpoint_interval.within(checkpoint_interval.exact(delta, rolls), storage, delta)
