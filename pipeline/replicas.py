"""TOR by simulation: many independent copies of a job at once, event by event.

Each replica is one job. An event of a replica is its next failure, onset or end of a slow state, or
return of a repaired node; between two events the speed is constant, and any number of checkpoints
is counted at once. All replicas take one event per turn, as NumPy arrays.

A replica ends with the first restart (without fail-stop types: the first end of all slow states)
after its horizon. There everything starts anew, so that the ratio of the sums of kept work and wall
clock estimates the long-run TOR without the bias of a cut-off.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline import node_pool
from pipeline.random_times import Floats, draw
from pipeline.replica_limits import horizon, marks_needed
from pipeline.replica_state import Ints, State, marked
from pipeline.scenario import MEMORY, FailSlow, FailStop, Scenario, checked

_MAX_TRIES = 10_000
"""Restarts in a row after which a replica is given up."""


@dataclass(frozen=True)
class Simulation:
    """What the replicas say."""

    tor: float
    standard_error: float
    losses: dict[str, dict[str, float]]
    """Cause -> redone, down, slow: shares of the wall clock; with tor they sum to 1."""
    n_replicas: int
    n_failures: int
    n_cut: int
    """Replicas that ended without coming up again."""
    seed: int
    kept_s: Floats
    wall_s: Floats


def simulate(
    scenario: Scenario,
    *,
    n_replicas: int = 1000,
    cycles: float | None = None,
    seed: int = 0,
) -> Simulation:
    """TOR of a scenario with its standard error.

    `cycles` is the mean number of failures per replica (default: 100, fewer where a cycle has very
    many events). ParameterError for an impossible scenario, SimulationError where it would not come
    to an end. Equal seeds give equal results.
    """
    checked(scenario)
    horizon_s = horizon(scenario, n_replicas, cycles)
    return _Replicas(scenario, n_replicas, horizon_s, seed).run()


class _Replicas:
    """One simulation: what it was asked, its state, its sums."""

    def __init__(self, scenario: Scenario, n: int, horizon_s: float, seed: int) -> None:
        self.scenario, self.n, self.horizon_s, self.seed = scenario, n, horizon_s, seed
        self.rng = np.random.default_rng(seed)
        self.stops: tuple[FailStop, ...] = scenario.stops
        self.slows: tuple[FailSlow, ...] = scenario.slows
        plan = scenario.checkpointing
        self.n_copies = plan.n_copies
        self.work = plan.tau_s / self.n_copies
        self.copy_s = plan.memory.cost_s if plan.memory else 0.0
        self.delta_s, self.latency_s = plan.delta_s, plan.latency_s
        self.from_memory = np.array([bool(plan.memory) and s.tier == MEMORY for s in self.stops])
        self.own_loss = np.array([np.nan if s.loss_s is None else s.loss_s for s in self.stops])
        self.rates = np.array([s.rate for s in self.stops])
        self.kept, self.total = np.zeros(n), np.zeros(n)
        self.rolled, self.down = np.zeros(len(self.stops)), np.zeros(len(self.stops))
        self.beyond, self.paused = np.zeros(len(self.slows)), np.zeros(len(self.slows))
        self.missing_s = self.overhead_s = self.worked_s = 0.0
        self.owed_slow = np.zeros(len(self.slows))
        self.n_failures = self.n_cut = 0
        self.state = self._begin()

    def _begin(self) -> State:
        """All replicas fresh from a restart."""
        back_at = node_pool.empty(self.scenario, self.n)
        state = State.fresh(self.n, len(self.slows), marks_needed(self.scenario), back_at)
        everyone = np.arange(self.n)
        if self.stops:
            total = self.rates.sum()
            kinds = self.rng.choice(len(self.stops), size=self.n, p=self.rates / total)
            self._plan(state, everyone, kinds)
        else:
            self._plan_slow(state, everyone)
        return state

    def run(self) -> Simulation:
        """Turn by turn until no replica is left."""
        while self.state.wall.size:
            state = self.state
            ratio, slowest, capacity = self._speed(state)
            event = self._next_event(state, capacity)
            self._advance(state, event, ratio, slowest, capacity)
            self._begin_slow(state)
            ended = np.zeros(state.wall.size, dtype=bool)
            if self.stops:
                failed = np.flatnonzero(state.fail_at == state.age)
                if failed.size:
                    self._fail(state, failed)
                    ended[failed] = state.wall[failed] >= self.horizon_s
            else:
                ended = (state.wall >= self.horizon_s) & (
                    state.slow_end.max(axis=1) == state.age
                )  # fmt: skip
            if ended.any():
                self._end(state, ended)
        return self._result()

    def _speed(self, state: State) -> tuple[Floats, Ints, Floats]:
        """Speed of the slowest active type, which it is (-1: none), and the nodes' share."""
        n = state.wall.size
        ratio, slowest = np.ones(n), np.full(n, -1, dtype=np.int64)
        for j, slow in enumerate(self.slows):
            rules = (state.slow_end[:, j] > state.age) & (slow.ratio < ratio)
            ratio[rules], slowest[rules] = slow.ratio, j
        pool = self.scenario.pool
        if pool is None or not pool.max_missing:
            return ratio, slowest, np.ones(n)
        return ratio, slowest, node_pool.working_share(pool, state.back_at, state.wall)

    def _next_event(self, state: State, capacity: Floats) -> Floats:
        """Age at which something happens next to each replica."""
        event = state.fail_at.copy()
        for j in range(len(self.slows)):
            np.minimum(event, state.slow_on[:, j], out=event)
            end = state.slow_end[:, j]
            np.minimum(event, np.where(end > state.age, end, np.inf), out=event)
        short = np.flatnonzero(capacity < 1)
        if short.size:
            back = node_pool.until_next(state.back_at[short], state.wall[short])
            event[short] = np.minimum(event[short], state.age[short] + back)
        return event

    def _advance(
        self, state: State, event: Floats, ratio: Floats, slowest: Ints, capacity: Floats
    ) -> None:
        """Work and save until the event."""
        lasts = event - state.age
        steady = self.scenario.steady_ratio
        speed = steady * ratio * capacity
        work_s = self.work / speed
        period = work_s + self.copy_s
        interval = (self.n_copies - 1) * period + work_s + self.delta_s
        before = state.copies * self.work + state.done
        elapsed = state.copies * period + state.done / speed + state.stalled + lasts
        n_new = np.floor(elapsed / interval)
        rest = elapsed - n_new * interval
        if self.n_copies > 1:
            state.copies = np.minimum(np.floor(rest / period), self.n_copies - 1)
            in_copy = rest - state.copies * period
        else:
            in_copy = rest
        state.done = np.minimum(in_copy * speed, self.work)
        state.stalled = np.maximum(in_copy - work_s, 0)
        state.intervals += n_new
        state.wall += lasts
        state.up += lasts
        state.age = event
        if state.marks.shape[1]:
            state.marks = marked(state.marks, n_new, state.up - rest, interval)
        worked = n_new * self.work * self.n_copies + state.copies * self.work + state.done - before
        self.worked_s += float(worked.sum())
        if self.slows:
            beyond = worked * (1 / ratio - 1)
            self.beyond += np.bincount(slowest + 1, beyond, len(self.slows) + 1)[1:]
        self.missing_s += float((worked / ratio * (1 / capacity - 1)).sum())
        self.overhead_s += float((worked / (ratio * capacity)).sum()) * (1 / steady - 1)

    def _begin_slow(self, state: State) -> None:
        """Onsets that fall on this event; a mitigation happens if no failure comes before it."""
        for j, slow in enumerate(self.slows):
            hit = np.flatnonzero(state.slow_on[:, j] == state.age)
            if not hit.size:
                continue
            age = state.age[hit]
            end = age + draw(slow.duration_s, self.rng, hit.size)
            state.slow_end[hit, j] = np.maximum(state.slow_end[hit, j], end)
            onset = slow.onset.sample(self.rng, hit.size)
            state.slow_on[hit, j] = onset + (age if slow.is_overlapping else end)
            mitigated = hit[end < state.fail_at[hit]]
            state.wall[mitigated] += slow.pause_s
            state.owed[mitigated] += slow.loss_s
            self.paused[j] += slow.pause_s * mitigated.size
            self.owed_slow[j] += slow.loss_s * mitigated.size

    def _fail(self, state: State, failed: Ints) -> None:
        """Roll back, be down, and come up again."""
        trying, kinds = failed, state.fail_type[failed]
        for _ in range(_MAX_TRIES):
            self.n_failures += trying.size
            self._roll_back(state, trying, kinds)
            self._break_nodes(state, trying, kinds)
            self._wait(state, trying, kinds, self._times(kinds, "detect_s"))
            if self.scenario.pool is not None:
                back_at, wall = state.back_at[trying], state.wall[trying]
                waits = node_pool.until_enough(self.scenario.pool, back_at, wall)
                self._wait(state, trying, kinds, waits)  # nothing runs, so nothing fails
            restart = self._times(kinds, "restart_s")
            if not self.scenario.restarts_fail:
                self._wait(state, trying, kinds, restart)
                self._plan(state, trying, kinds)
                return
            strikes, next_kinds = self._next_failures(kinds)
            self._wait(state, trying, kinds, np.minimum(strikes, restart))
            up = strikes >= restart
            self._plan(state, trying[up], kinds[up])
            trying, kinds = trying[~up], next_kinds[~up]
            if not trying.size:
                return
        self.n_cut += trying.size
        state.wall[trying] = np.maximum(state.wall[trying], self.horizon_s)

    def _times(self, kinds: Ints, name: str) -> Floats:
        """A duration per failure, by its type."""
        times = np.empty(kinds.size)
        for i, stop in enumerate(self.stops):
            rows = np.flatnonzero(kinds == i)
            if rows.size:
                times[rows] = draw(getattr(stop, name), self.rng, rows.size)
        return times

    def _wait(self, state: State, rows: Ints, kinds: Ints, seconds: Floats) -> None:
        state.wall[rows] += seconds
        self.down += np.bincount(kinds, seconds, len(self.stops))

    def _roll_back(self, state: State, rows: Ints, kinds: Ints) -> None:
        """Back to the newest checkpoint that survives the type, or redo its own loss."""
        lost = self.own_loss[kinds]
        rolls = np.isnan(lost)
        lost[rolls] = 0
        state.owed[rows] += lost
        to_copy = rolls & self.from_memory[kinds]
        lost[to_copy] += state.done[rows[to_copy]]
        durable = rolls & ~self.from_memory[kinds]
        back = rows[durable]
        late = (state.marks[back] > state.up[back, None] - self.latency_s).sum(axis=1)
        interval = self.work * self.n_copies
        lost[durable] += (
            late * interval + state.copies[back] * self.work + state.done[back]
        )  # fmt: skip
        state.intervals[back] -= late
        state.copies[back] = 0
        state.marks[back] = -np.inf
        state.done[rows[rolls]] = state.stalled[rows[rolls]] = 0
        self.rolled += np.bincount(kinds, lost, len(self.stops))

    def _break_nodes(self, state: State, rows: Ints, kinds: Ints) -> None:
        pool = self.scenario.pool
        if pool is None:
            return
        victims = np.array([s.victims for s in self.stops])[kinds]
        for k in range(int(victims.max(initial=0))):
            hit = rows[victims > k]
            free = state.back_at[hit].argmin(axis=1)
            state.back_at[hit, free] = state.wall[hit] + draw(pool.repair_s, self.rng, hit.size)

    def _plan(self, state: State, rows: Ints, kinds: Ints) -> None:
        """What happens next to replicas that have just come up after failures of these types."""
        state.age[rows] = 0
        state.fail_at[rows], state.fail_type[rows] = self._next_failures(kinds)
        self._plan_slow(state, rows)

    def _plan_slow(self, state: State, rows: Ints) -> None:
        for j, slow in enumerate(self.slows):
            state.slow_on[rows, j] = slow.onset.sample(self.rng, rows.size)
            state.slow_end[rows, j] = -np.inf

    def _next_failures(self, kinds: Ints) -> tuple[Floats, Ints]:
        """Time to the next failure after those of `kinds`, and its type."""
        first = np.full(kinds.size, np.inf)
        kind = np.zeros(kinds.size, dtype=np.int64)
        for i, stop in enumerate(self.stops):
            time = stop.uptime.sample(self.rng, kinds.size)
            if stop.aftershocks is not None:
                follows = kinds == i
                follows &= self.rng.random(kinds.size) < stop.aftershocks.share
                gap = stop.aftershocks.gap.sample(self.rng, int(follows.sum()))
                time[follows] = np.minimum(time[follows], gap)
            sooner = time < first
            first[sooner], kind[sooner] = time[sooner], i
        return first, kind

    def _end(self, state: State, ended: npt.NDArray[np.bool_]) -> None:
        """Note what the replicas reached and let them go."""
        whole = state.intervals * self.n_copies + state.copies
        reached = whole * self.work + state.done - state.owed
        self.kept[state.number[ended]] = reached[ended]
        self.total[state.number[ended]] = state.wall[ended]
        self.state = state.take(~ended)

    def _result(self) -> Simulation:
        kept, wall = float(self.kept.sum()), float(self.total.sum())
        tor = max(kept / wall, 0.0)
        off = self.kept - tor * self.total
        error = np.sqrt(np.square(off).sum() * self.n / max(self.n - 1, 1)) / wall
        return Simulation(
            tor, float(error), self._losses(tor, wall), self.n, self.n_failures, self.n_cut,
            self.seed, self.kept, self.total,
        )  # fmt: skip

    def _losses(self, tor: float, wall: float) -> dict[str, dict[str, float]]:
        """Shares of the wall clock by cause; what roll-backs took is what all else leaves.

        Stalls and slowness of kept work count as such, those of lost work as redone.
        """
        plan = self.scenario.checkpointing
        stalls = (plan.delta_s + (self.n_copies - 1) * self.copy_s) / plan.tau_s * tor
        kept_share = tor * wall / self.worked_s if self.worked_s else 0.0
        beyond = self.beyond * kept_share / wall
        missing, overhead = (x * kept_share / wall for x in (self.missing_s, self.overhead_s))
        down, paused = self.down / wall, self.paused / wall
        accounted = tor + stalls + beyond.sum() + missing + overhead + down.sum() + paused.sum()
        lost = np.concatenate([self.rolled, self.owed_slow])
        redone = lost / (lost.sum() or 1.0) * max(1 - accounted, 0.0)
        losses = {"checkpoint": {"redone": 0.0, "down": 0.0, "slow": float(stalls)}}
        for i, stop in enumerate(self.stops):
            losses[stop.name] = {"redone": float(redone[i]), "down": float(down[i]), "slow": 0.0}
        for j, slow in enumerate(self.slows):
            losses[slow.name] = {
                "redone": float(redone[len(self.stops) + j]),
                "down": float(paused[j]),
                "slow": float(beyond[j]),
            }
        for name, share in (("missing nodes", missing), ("overhead", overhead)):
            if share:
                losses[name] = {"redone": 0.0, "down": 0.0, "slow": float(share)}
        return losses
