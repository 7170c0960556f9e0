"""One launch: start-up, then steps in vectorised stretches between saves, evaluations and changes
of speed, until something ends it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from pipeline.simulate.history import End, Evaluation, Incident, Launch, Save, Steps
from pipeline.simulate.laws import US_PER_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pipeline.simulate.scenario import Run, Slow

NEVER = 2**62
_CHUNK = 100_000  # steps of one stretch at most
_MANY_SAVES = 500  # older ones are deleted


@dataclass
class Bounds:
    """What ends a launch: killed at `hard_us`, or asked to save and leave at `soft_us`."""

    hard_us: int
    soft_us: int
    soft_end: End


@dataclass
class Slowness:
    """Fail-slow episodes of a run: what is active, and when the next of each kind begins."""

    kinds: tuple[Slow, ...]
    due_us: list[int]  # up time of the job at the next onset, per kind
    active: list[tuple[int, Incident]] = field(default_factory=list)  # (until, episode)


@dataclass
class Trainer:
    """The part of a run that survives its launches: its generator and its checkpoints."""

    spec: Run
    rng: np.random.Generator
    slowness: Slowness
    incidents: list[Incident]
    saves: list[Save] = field(default_factory=list)
    up_us: int = 0

    def usable_step(self, at_us: int, *, has_local: bool, n_back: int) -> int:
        """The step to resume from at `at_us`: the newest durable checkpoint, or `n_back` before."""
        steps = sorted(
            {s.step for s in self.saves
             if s.durable_us is not None and s.durable_us <= at_us
             and (has_local or not s.is_local)}
        )  # fmt: skip
        return steps[-1 - n_back] if len(steps) > n_back else 0

    def forget_after(self, step: int, *, has_local: bool) -> None:
        """Drop checkpoints that the resumed run will write again, or that are lost."""
        kept = [s for s in self.saves if s.step <= step and (has_local or not s.is_local)]
        self.saves = kept[-_MANY_SAVES:]

    def work(self, launch: Launch, first_mark_us: int, bounds: Bounds, goal_us: int) -> None:
        """Fill a launch from its first line on; `goal_us` is when the run is complete."""
        if self._start_up(launch, first_mark_us, bounds.hard_us):
            _Loop(self, launch, bounds, goal_us).run()
        else:
            launch.stopped_us = bounds.hard_us
            launch.end = End.FAILED
        self._settle(launch)

    def _start_up(self, launch: Launch, first_mark_us: int, hard_us: int) -> bool:
        """Marks in order; False where the launch ended before it was ready."""
        spec, rng, now = self.spec.start_up, self.rng, first_mark_us
        spans = [("first_line", 0), ("initialised", spec.initialisation_s.draw_us(rng))]
        load_us = spec.load_s.draw_us(rng)
        if launch.resume_step:
            spans += [("load_begin", 0), ("loaded", load_us)]
        spans.append(("ready", spec.data_s.draw_us(rng)))
        for name, span_us in spans:
            now += span_us
            if now >= hard_us:
                return False
            launch.marks.append((name, now))
        return True

    def _settle(self, launch: Launch) -> None:
        """Saves that were still being written when the launch ended never became durable."""
        for item in launch.items:
            if isinstance(item, Save):
                if item.durable_us is not None and item.durable_us > launch.stopped_us:
                    item.durable_us = None
                self.saves.append(item)
        self.up_us += launch.stopped_us - launch.begin_us


class _Loop:
    """The training loop of one launch."""

    def __init__(self, trainer: Trainer, launch: Launch, bounds: Bounds, goal_us: int) -> None:
        self.trainer, self.launch, self.bounds, self.goal_us = trainer, launch, bounds, goal_us
        self.now = launch.marks[-1][1]
        self.step = launch.resume_step
        self.capacity = len(launch.nodes) / trainer.spec.nodes
        slow = trainer.slowness
        lead = launch.begin_us - trainer.up_us
        self.onsets = [due + lead for due in slow.due_us]
        warm_up_us = trainer.spec.steps.warm_up_s.draw_us(trainer.rng)
        n = trainer.spec.steps.warm_up_steps
        shares = np.array([0.5**i for i in range(n)]) if warm_up_us else np.array([])
        self.warm_up_us = [round(warm_up_us * s / shares.sum()) for s in shares]

    def run(self) -> None:
        """Steps until a bound or the goal ends them."""
        checkpoint, evaluation = self.trainer.spec.checkpoint, self.trainer.spec.evaluation
        everies = [e for e in (checkpoint.every_steps, evaluation.every_steps,
                               checkpoint.local_every_steps) if e]  # fmt: skip
        while True:
            target = min([(self.step // e + 1) * e for e in everies], default=self.step + _CHUNK)
            if not self._stretch(min(target - self.step, _CHUNK)):
                return self._stop(End.FAILED, self.bounds.hard_us)
            if self.now >= min(self.bounds.soft_us, self.goal_us):
                return self._leave()
            if self.step == target and not (self._evaluate_if_due() and self._save_if_due()):
                return self._stop(End.FAILED, self.bounds.hard_us)

    def _stretch(self, n_asked: int) -> int:
        """Steps done: fewer than asked where speed changes, none where the kill comes first."""
        rate, slow, until_us = self._speed()
        warm_up_us = self.warm_up_us.pop(0) if self.warm_up_us else 0
        n = 1 if warm_up_us else n_asked
        durations = self._durations(n, rate)
        durations[0] += warm_up_us
        ends = self.now + np.cumsum(durations)
        n_before_change = max(1, int(np.searchsorted(ends - durations, until_us)))
        n_before_kill = int(np.searchsorted(ends, self.bounds.hard_us, side="right"))
        n_asked_to = int(np.searchsorted(ends, min(self.bounds.soft_us, self.goal_us))) + 1
        n_done = min(n, n_before_change, n_before_kill, n_asked_to)
        if n_done:
            done = ends[:n_done]
            self.launch.items.append(Steps(self.step + 1, self.now, done, rate, slow, warm_up_us))
            self.step += n_done
            self.now = int(done[-1])
        return n_done

    def _durations(self, n: int, rate: float) -> NDArray[np.int64]:
        steps = self.trainer.spec.steps
        # symmetric, so that mean and median agree with the fault-free time
        noise = np.clip(self.trainer.rng.standard_normal(n), -4, 4) * steps.jitter
        exact = steps.step_s * US_PER_S / rate * (1 + noise)
        return np.maximum(1, np.rint(exact)).astype(np.int64)

    def _speed(self) -> tuple[float, Incident | None, int]:
        """(speed, episode that sets it, instant until which it holds)."""
        slow = self.trainer.slowness
        for i, kind in enumerate(slow.kinds):
            if self.onsets[i] <= self.now:
                self._begin_episode(i, kind)
        slow.active = [(until, e) for until, e in slow.active if until > self.now]
        worst = min((e for _, e in slow.active), key=lambda e: e.ratio, default=None)
        until_us = min([*self.onsets, *(until for until, _ in slow.active)], default=NEVER)
        rate = self.capacity * (worst.ratio if worst else 1.0)
        return rate, worst or self.launch.shrunk_by, until_us

    def _begin_episode(self, row: int, kind: Slow) -> None:
        trainer, rng = self.trainer, self.trainer.rng
        episode = Incident(
            number=len(trainer.incidents) + 1, story=kind.story, onset_us=self.now,
            nodes=(int(rng.choice(self.launch.nodes)),), gpu=int(rng.integers(8)),
            detection=None, detected_us=self.now, ratio=kind.ratio, scope=kind.scope,
        )  # fmt: skip
        trainer.incidents.append(episode)
        until_us = self.now + kind.duration_s.draw_us(rng)
        episode.ended_us = until_us
        trainer.slowness.active.append((until_us, episode))
        gap_us = kind.every_hours.draw_hours_us(rng)
        trainer.slowness.due_us[row] += gap_us
        self.onsets[row] += gap_us

    def _evaluate_if_due(self) -> bool:
        """Whether the launch lived through it; True where none was due."""
        if self.step % _or_never(self.trainer.spec.evaluation.every_steps):
            return True
        begin, self.now = (
            self.now,
            self.now + self.trainer.spec.evaluation.duration_s.draw_us(self.trainer.rng),
        )
        is_whole = self.now <= self.bounds.hard_us
        self.launch.items.append(Evaluation(self.step, begin, self.now if is_whole else None))
        return is_whole

    def _save_if_due(self) -> bool:
        checkpoint = self.trainer.spec.checkpoint
        if self.step % _or_never(checkpoint.every_steps) == 0:
            return self._save(is_local=False, is_final=False)
        if self.step % _or_never(checkpoint.local_every_steps) == 0:
            return self._save(is_local=True, is_final=False)
        return True

    def _save(self, *, is_local: bool, is_final: bool) -> bool:
        """Whether the launch lived until training could go on."""
        checkpoint, rng = self.trainer.spec.checkpoint, self.trainer.rng
        law = checkpoint.local_stall_s if is_local else checkpoint.stall_s
        begin, self.now = self.now, self.now + law.draw_us(rng)
        is_whole = self.now <= self.bounds.hard_us
        is_async = checkpoint.is_async and not is_local and not is_final
        durable = self.now if is_whole else None
        if is_async and is_whole:
            is_lost = rng.random() < checkpoint.lost_share
            durable = None if is_lost else self.now + checkpoint.commit_s.draw_us(rng)
        self.launch.items.append(
            Save(self.step, begin, self.now if is_whole else None, durable, is_async, is_local,
                 is_final)
        )  # fmt: skip
        return is_whole

    def _leave(self) -> None:
        """A last save, then a clean end; unless the kill comes first."""
        has_saves = self.trainer.spec.checkpoint.every_steps > 0
        if has_saves and not self._save(is_local=False, is_final=True):
            return self._stop(End.FAILED, self.bounds.hard_us)
        is_complete = self.goal_us <= self.bounds.soft_us
        return self._stop(End.COMPLETED if is_complete else self.bounds.soft_end, self.now)

    def _stop(self, end: End, at_us: int) -> None:
        self.launch.end, self.launch.stopped_us = end, at_us


def _or_never(every: int) -> int:
    return every or NEVER
