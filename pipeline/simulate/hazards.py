"""When what fails next. Ages of GPUs, nodes and jobs count only while a job on them is up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pipeline.simulate.laws import US_PER_DAY, US_PER_H, Law, LawName
from pipeline.simulate.scenario import Batch, Clock, DomainKind, Failure, Scenario

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True)
class Strike:
    """A failure to come: at this instant, on these nodes, on this GPU of the first of them."""

    at_us: int
    kind: Failure | Batch
    nodes: tuple[int, ...]
    gpu: int | None
    place: tuple[int, int]  # row of the scenario, unit: what to renew


def _instant(strike: Strike) -> int:
    return strike.at_us


class Hazards:
    """The remaining lives of everything that can fail."""

    def __init__(self, scenario: Scenario, rng: np.random.Generator, start_us: int) -> None:
        """Everything is new at `start_us`; the first lives are drawn here."""
        self._scenario = scenario
        self._rng = rng
        cluster = scenario.cluster
        self._age_us = np.zeros(cluster.nodes)
        self._job_age_us = np.zeros(len(scenario.run))
        self.frailty = np.ones(cluster.nodes)
        lemons = rng.choice(cluster.nodes, min(cluster.lemon_nodes, cluster.nodes), replace=False)
        self.frailty[lemons] = cluster.lemon_factor
        self._laws = [self._unit_law(failure) for failure in scenario.failure]
        self._due_us = [self._first_due(i, f) for i, f in enumerate(scenario.failure)]
        self._batches = [self._batch_times(batch, start_us) for batch in scenario.batch]

    def _unit_law(self, failure: Failure) -> Law:
        """Hours between failures of one unit, for the size of the first run."""
        cluster, run = self._scenario.cluster, self._scenario.run[0]
        reference = cluster.reference_nodes or run.nodes
        stress = (run.nodes / reference) ** (cluster.scale_exponent - 1)
        if failure.law is not None:
            return failure.law.scaled(1 / stress)
        units = {Clock.JOB: 1, Clock.NODE: reference,
                 Clock.GPU: reference * cluster.gpus_per_node}[failure.clock]  # fmt: skip
        mean = failure.calibration_days * 24 * units / failure.count
        return Law(mean / stress, LawName.EXPONENTIAL)

    def _first_due(self, row: int, failure: Failure) -> NDArray[np.float64]:
        """The age at which each unit fails: (runs), (nodes) or (nodes x GPUs)."""
        n_nodes, n_gpus = len(self._age_us), self._scenario.cluster.gpus_per_node
        if failure.clock is Clock.JOB:
            return self._laws[row].draw(self._rng, len(self._job_age_us)) * US_PER_H
        lives = self._laws[row].draw(
            self._rng, n_nodes * (n_gpus if failure.clock is Clock.GPU else 1)
        )
        lives = lives.reshape(n_nodes, -1) / self.frailty[:, None]
        return np.asarray(lives * US_PER_H)

    def _batch_times(
        self, batch: Batch, start_us: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """(instants, domain of each, nodes of a domain), to twice the story's length."""
        cluster = self._scenario.cluster
        size = (cluster.nodes_per_switch if batch.domain is DomainKind.SWITCH
                else cluster.nodes_per_power_domain)  # fmt: skip
        span_us = 2 * cluster.days * US_PER_DAY
        gaps: list[int] = []
        total = 0
        while total < span_us:
            gaps.append(batch.every_hours.draw_hours_us(self._rng))
            total += gaps[-1]
        times = start_us + np.cumsum(np.array(gaps, np.int64))[:-1]
        n_domains = -(-cluster.nodes // size)
        return times, self._rng.integers(0, n_domains, len(times)), size

    def next_strike(self, run: int, nodes: Sequence[int], now_us: int) -> Strike | None:
        """The first failure that a job up on `nodes` from `now_us` on would meet."""
        held = np.asarray(nodes)
        strikes = [self._next_of(i, f, run, held, now_us)
                   for i, f in enumerate(self._scenario.failure)]  # fmt: skip
        for i, batch in enumerate(self._scenario.batch):
            times, domains, size = self._batches[i]
            hits = np.flatnonzero((times > now_us) & np.isin(domains, held // size))
            if len(hits):
                hit = hits[0]
                victims = tuple(int(n) for n in held[held // size == domains[hit]])
                strikes.append(Strike(int(times[hit]), batch, victims, None, (-1, 0)))
        return min(strikes, key=_instant, default=None)

    def _next_of(
        self, row: int, failure: Failure, run: int, held: NDArray[np.int64], now_us: int
    ) -> Strike:
        due = self._due_us[row]
        gpu: int | None
        left: float
        if failure.clock is Clock.JOB:
            left = float(due[run] - self._job_age_us[run])
            node = int(self._rng.choice(held))
            gpu = int(self._rng.integers(self._scenario.cluster.gpus_per_node))
            return Strike(now_us + round(max(left, 0)), failure, (node,), gpu, (row, run))
        lives = due[held] - self._age_us[held][:, None]
        place, unit = divmod(int(np.argmin(lives)), lives.shape[1])
        left = float(lives[place, unit])
        node = int(held[place])
        gpu = unit if failure.clock is Clock.GPU else None
        strike_unit = node * lives.shape[1] + unit
        return Strike(now_us + round(max(left, 0)), failure, (node,), gpu, (row, strike_unit))

    def expose(self, run: int, nodes: Sequence[int], us: int) -> None:
        """Let a job and its nodes grow older by `us` of up time."""
        self._age_us[np.asarray(nodes)] += us
        self._job_age_us[run] += us

    def renew(self, strike: Strike) -> None:
        """Give the unit that failed a new life."""
        row, unit = strike.place
        if row < 0:
            return
        due = self._due_us[row]
        life = self._laws[row].draw_hours_us(self._rng)
        if self._scenario.failure[row].clock is Clock.JOB:
            due[unit] = self._job_age_us[unit] + life
            return
        node = unit // due.shape[1]
        due[node, unit % due.shape[1]] = self._age_us[node] + life / self.frailty[node]
