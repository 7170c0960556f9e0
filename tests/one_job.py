"""A job simulated second by second of its events, one after the other: slow, plain, independent.

It shares no code with `pipeline.replicas`; tests compare the two.
"""

from __future__ import annotations

import math

import numpy as np

from pipeline.random_times import draw
from pipeline.scenario import Scenario


def tor_of_one_job(
    scenario: Scenario, n_failures: int, seed: int, *, restarts_fail: bool
) -> tuple[float, float]:
    """TOR over so many failures of the running job, and its standard error from 40 batches."""
    job = _Job(scenario, np.random.default_rng(seed), restarts_fail)
    kept, wall = [], []
    before = (0.0, 0.0)
    for n in range(1, n_failures + 1):
        job.run_to_failure()
        if n % (n_failures // 40) == 0:
            now = (job.safe_work(), job.wall)
            kept.append(now[0] - before[0])
            wall.append(now[1] - before[1])
            before = now
    tor = sum(kept) / sum(wall)
    off = np.array(kept) - tor * np.array(wall)
    return tor, float(off.std(ddof=1) / np.mean(wall) / math.sqrt(len(kept)))


class _Job:
    def __init__(self, scenario: Scenario, rng: np.random.Generator, restarts_fail: bool) -> None:
        self.scenario, self.rng, self.restarts_fail = scenario, rng, restarts_fail
        self.wall = self.up = 0.0
        self.position = 0.0  # work done, roll-backs taken away
        self.redone = 0.0
        self.durable: list[tuple[float, float]] = [(-math.inf, 0.0)]  # (up time when safe, work)
        self.copy = 0.0

    def one(self, time: object) -> float:
        return float(draw(time, self.rng, 1)[0])  # type: ignore[arg-type]

    def safe_work(self) -> float:
        return self.position - self.redone

    def next_failure(self) -> tuple[float, int]:
        times = [self.one(s.uptime) for s in self.scenario.stops]
        return min(times), int(np.argmin(times))

    def run_to_failure(self) -> None:
        left, kind = self.next_failure()
        plan = self.scenario.checkpointing
        work = plan.memory.interval_s if plan.memory else plan.tau_s
        onset = [self.one(s.onset) for s in self.scenario.slows]
        end = [-math.inf] * len(onset)
        age, done, stall = 0.0, self.position % work, 0.0
        done = 0.0 if work - done < 1e-6 else done
        while age < left:
            active = [s.ratio for s, e in zip(self.scenario.slows, end, strict=True) if e > age]
            speed = min(active, default=1.0)
            times = [left, *onset, *(e for e in end if e > age)]
            until_save = age + (stall if stall > 0 else (work - done) / speed)
            to = min(*times, until_save)
            lasts = to - age
            self.wall += lasts
            self.up += lasts
            if stall > 0:
                stall -= lasts
                if to == until_save:
                    stall = 0.0
                    self.save()
            else:
                done += lasts * speed
                self.position += lasts * speed
                if to == until_save:
                    done = 0.0
                    stall = self.stall_of_this_save(work)
                    if stall == 0:
                        self.save()
            age = to
            for j, slow in enumerate(self.scenario.slows):
                if onset[j] == age:
                    ends = age + self.one(slow.duration_s)
                    end[j] = max(end[j], ends)
                    if ends < left:
                        self.wall += slow.pause_s
                        self.redone += slow.loss_s
                    onset[j] = (age if slow.is_overlapping else ends) + self.one(slow.onset)
        self.come_up(kind)

    def is_durable_save(self) -> bool:
        whole = self.position / self.scenario.checkpointing.tau_s
        return abs(whole - round(whole)) < 1e-6

    def stall_of_this_save(self, work: float) -> float:
        plan = self.scenario.checkpointing
        return plan.delta_s if self.is_durable_save() else plan.memory.cost_s

    def save(self) -> None:
        self.position = float(f"{self.position:.6f}")
        self.copy = self.position
        if self.is_durable_save():
            safe_at = self.up + self.scenario.checkpointing.latency_s
            self.durable.append((safe_at, self.position))

    def come_up(self, kind: int) -> None:
        while True:
            stop = self.scenario.stops[kind]
            if stop.loss_s is not None:
                self.redone += stop.loss_s
            elif stop.tier == "memory" and self.scenario.checkpointing.memory:
                self.position = self.copy
            else:
                safe = [(at, work) for at, work in self.durable if at <= self.up]
                self.durable = safe[-1:]
                self.position = self.copy = safe[-1][1]
            self.wall += self.one(stop.detect_s)
            restart = self.one(stop.restart_s)
            strikes, kind = self.next_failure()
            if not self.restarts_fail or strikes >= restart:
                self.wall += restart
                return
            self.wall += strikes
