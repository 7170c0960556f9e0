"""The life of one run: submissions, allocations, launches, what ends them, and the way back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipeline.simulate.cluster import Grant, Release, Request
from pipeline.simulate.history import Attempt, End, Incident, Launch, RunHistory
from pipeline.simulate.laws import US_PER_S
from pipeline.simulate.scenario import (
    Batch,
    Detection,
    Ending,
    Failure,
    Scenario,
    StopKind,
    WayBack,
)
from pipeline.simulate.stories import load_stories
from pipeline.simulate.training import NEVER, Bounds, Slowness, Trainer

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    import numpy as np

    from pipeline.simulate.hazards import Hazards, Strike

_END_OF_STOP = {
    StopKind.MAINTENANCE: End.MAINTENANCE,
    StopKind.CODE_CHANGE: End.CODE_CHANGE,
    StopKind.PREEMPTION: End.PREEMPTION,
}
# (state, exit code) that the accounting shows; a failure shows that of its story
_STATE_OF_END = {
    End.COMPLETED: ("COMPLETED", "0:0"),
    End.EXIT_BEFORE_LIMIT: ("COMPLETED", "0:0"),
    End.TIME_LIMIT: ("TIMEOUT", "0:0"),
    End.PREEMPTION: ("PREEMPTED", "0:0"),
    End.MAINTENANCE: ("CANCELLED by 0", "0:0"),
    End.CODE_CHANGE: ("CANCELLED by 1001", "0:0"),
    End.OPEN: ("RUNNING", "0:0"),
}


@dataclass
class _Plan:
    """What would end a launch first, and why."""

    bounds: Bounds
    hard_end: End
    strike: Strike | None
    hard_stop: int | None  # row of the planned stop that is the hard bound
    soft_stop: int | None


@dataclass
class _Held:
    """Nodes of an attempt: at work, idle, and broken until an instant."""

    active: list[int]
    spares: list[int]
    back_us: dict[int, int] = field(default_factory=dict)
    shrunk_by: Incident | None = None


@dataclass
class _Next:
    """The next submission of the run."""

    submit_us: int
    eligible_us: int
    is_requeue: bool


class RunLife:
    """One run; `live` is the generator that the cluster serves."""

    def __init__(
        self, index: int, history: RunHistory, scenario: Scenario, hazards: Hazards,
        rng: np.random.Generator, job_ids: Iterator[int], start_us: int,
    ) -> None:  # fmt: skip
        """Draws the first planned stops and fail-slow episodes."""
        self._index, self._history, self._scenario = index, history, scenario
        self._spec, self._hazards, self._rng, self._job_ids = history.spec, hazards, rng, job_ids
        self._start_us = start_us
        self._horizon_us = start_us + round(scenario.cluster.days * 86400) * US_PER_S
        is_endless = self._spec.ending is not Ending.COMPLETE
        self._goal_us = NEVER if is_endless else self._horizon_us
        slow_due_us = [kind.every_hours.draw_hours_us(rng) for kind in scenario.slow]
        self._trainer = Trainer(
            self._spec, rng, Slowness(scenario.slow, slow_due_us), history.incidents
        )
        self._stop_due_us = [stop.every_hours.draw_hours_us(rng) for stop in scenario.stop]
        self._chain: tuple[Incident, Failure] | None = None
        self._resume_step = 0

    def live(self) -> Generator[Request | Release, Grant | None, None]:
        """Attempt after attempt until the run is over."""
        restart, rng = self._spec.restart, self._rng
        first_us = self._start_us + round(self._spec.submit_after_s * US_PER_S)
        coming: _Next | None = _Next(first_us, first_us, is_requeue=False)
        job_id, restart_count = next(self._job_ids), 0
        while coming is not None:
            wanted_us = coming.eligible_us + restart.queue_s.draw_us(rng)
            grant = yield Request(wanted_us, self._spec.nodes + self._spec.hot_spares)
            assert grant is not None  # noqa: S101  a request is answered with a grant
            if self._spec.ending is Ending.OPEN and grant.at_us >= self._horizon_us:
                yield Release(grant.at_us, grant.nodes)
                return
            attempt = Attempt(
                len(self._history.attempts) + 1, job_id, restart_count, coming.submit_us,
                coming.eligible_us, grant.at_us, nodes=list(grant.nodes),
            )  # fmt: skip
            self._history.attempts.append(attempt)
            n = self._spec.nodes
            held = _Held(attempt.nodes[:n], attempt.nodes[n:])
            coming = self._run_attempt(attempt, held)
            if attempt.end_us is None:
                return
            yield Release(attempt.end_us, grant.nodes, held.back_us)
            if coming is not None and coming.is_requeue:
                restart_count += 1
            else:
                job_id, restart_count = next(self._job_ids), 0

    def _run_attempt(self, attempt: Attempt, held: _Held) -> _Next | None:
        """Launch after launch inside one allocation; what comes behind it."""
        start_up = self._spec.start_up
        begin_us = attempt.start_us
        first_us = begin_us + start_up.allocation_s.draw_us(self._rng)
        while True:
            launch = Launch(
                len(self._history.launches) + 1, self._resume_step, list(held.active), begin_us,
                shrunk_by=held.shrunk_by,
            )  # fmt: skip
            attempt.launches.append(launch)
            plan = self._plan(attempt, held, begin_us, first_us)
            self._trainer.work(launch, first_us, plan.bounds, self._goal_us)
            self._hazards.expose(self._index, held.active, launch.stopped_us - begin_us)
            if launch.end is End.FAILED and plan.hard_end is not End.FAILED:
                launch.end = plan.hard_end
            if launch.end is End.FAILED:
                kind = self._fail(launch, plan, held, attempt)
                coming = self._after_failure(attempt, launch, kind, held)
            else:
                coming = self._after_stop(attempt, launch, plan, held)
            if attempt.state:
                return coming
            begin_us = launch.end_us
            first_us = begin_us + start_up.relaunch_s.draw_us(self._rng)

    def _plan(self, attempt: Attempt, held: _Held, begin_us: int, first_us: int) -> _Plan:
        spec = self._spec
        strike = self._hazards.next_strike(self._index, held.active, begin_us)
        hard: list[tuple[int, End, int | None]] = [
            (strike.at_us if strike else NEVER, End.FAILED, None)
        ]
        if self._chain is not None:
            mean_us = spec.start_up.initialisation_s.mean * US_PER_S
            hard.append((first_us + round(mean_us * self._rng.uniform(0.1, 0.9)), End.FAILED, None))
        soft: list[tuple[int, End, int | None]] = [(NEVER, End.COMPLETED, None)]
        if spec.ending is Ending.OPEN:
            hard.append((self._horizon_us, End.OPEN, None))
        if spec.time_limit_s:
            limit_us = attempt.start_us + round(spec.time_limit_s * US_PER_S)
            hard.append((limit_us, End.TIME_LIMIT, None))
            if spec.exit_before_s:
                exit_us = limit_us - round(spec.exit_before_s * US_PER_S)
                soft.append((exit_us, End.EXIT_BEFORE_LIMIT, None))
        for row, stop in enumerate(self._scenario.stop):
            due_us = begin_us + max(0, self._stop_due_us[row] - self._trainer.up_us)
            (soft if stop.saves else hard).append((due_us, _END_OF_STOP[stop.kind], row))
        if held.shrunk_by is not None:
            soft.append((max(held.back_us.values()), End.GROW, None))
        hard_us, hard_end, hard_row = min(hard, key=lambda h: h[0])
        soft_us, soft_end, soft_row = min(soft, key=lambda s: s[0])
        return _Plan(Bounds(hard_us, soft_us, soft_end), hard_end, strike, hard_row, soft_row)

    def _fail(self, launch: Launch, plan: _Plan, held: _Held, attempt: Attempt) -> Failure | Batch:
        """Book a failure on its incident; its kind."""
        is_strike = plan.strike is not None and plan.strike.at_us == launch.stopped_us
        if self._chain is not None and not is_strike:
            incident, chain_kind = self._chain
            kind: Failure | Batch = chain_kind
            incident.n_attempts += 1
        else:
            assert plan.strike is not None  # noqa: S101  nothing else ends in failure
            kind = plan.strike.kind
            self._hazards.renew(plan.strike)
            detection = kind.detection if isinstance(kind, Failure) else Detection.CRASH
            incident = Incident(
                len(self._history.incidents) + 1, kind.story, launch.stopped_us,
                plan.strike.nodes, plan.strike.gpu, detection,
            )  # fmt: skip
            self._history.incidents.append(incident)
            self._chain = None
        launch.incident = incident
        said_us = launch.stopped_us + kind.detect_s.draw_us(self._rng)
        end_us = said_us + kind.end_s.draw_us(self._rng)
        if self._spec.time_limit_s:
            limit_us = attempt.start_us + round(self._spec.time_limit_s * US_PER_S)
            end_us = max(launch.stopped_us + 1, min(end_us, limit_us))
        launch.end_us = end_us
        is_silent = incident.detection is Detection.OPERATOR or said_us > end_us
        launch.said_us = None if is_silent else said_us
        incident.detected_us = incident.detected_us or min(said_us, end_us)
        incident.ended_us = end_us
        is_broken = isinstance(kind, Batch) or kind.breaks_node
        for node in incident.nodes if is_broken and incident.n_attempts == 1 else ():
            held.back_us[node] = end_us + self._scenario.cluster.repair_s.draw_us(self._rng)
        return kind

    def _after_failure(
        self, attempt: Attempt, launch: Launch, kind: Failure | Batch, held: _Held
    ) -> _Next | None:
        """Restart inside the job, or end the job; `attempt.state` is set where it ended."""
        incident = launch.incident
        assert incident is not None  # noqa: S101  set by _fail
        way = kind.way_back if isinstance(kind, Failure) else WayBack.REQUEUE
        self._chain = None
        if isinstance(kind, Failure) and self._rng.random() < kind.retry_share:
            if incident.n_attempts < kind.retry_limit:
                self._chain = (incident, kind)
            else:
                way = WayBack.OPERATOR
        is_over = self._spec.ending is Ending.FAIL and launch.end_us >= self._horizon_us
        is_over |= self._spec.ending is Ending.OPEN and launch.end_us >= self._horizon_us
        is_inside = not is_over and self._restart_inside(way, launch, kind, held)
        n_back = kind.rollback_checkpoints if isinstance(kind, Failure) else 0
        has_local = is_inside and isinstance(kind, Failure) and kind.keeps_local
        self._resume(launch, has_local=has_local, n_back=n_back)
        if is_inside:
            return None
        story = load_stories()[incident.story]
        attempt.end_us = launch.end_us
        state, code = story.state, "1:0"
        if incident.detection is Detection.OPERATOR:
            state, code = "CANCELLED by 1001", "0:0"
        elif incident.detection is Detection.HANG:
            state = "FAILED"
        attempt.step_state = state
        if state == "NODE_FAIL":
            attempt.failed_node = incident.nodes[0]
        is_requeue = way is not WayBack.OPERATOR
        if is_requeue and state == "FAILED":
            state, code = "REQUEUED", "0:0"  # hides the cause
        attempt.state, attempt.exit_code = state, code
        return None if is_over else self._next(attempt, is_requeue=is_requeue, gap=None)

    def _restart_inside(
        self, way: WayBack, launch: Launch, kind: Failure | Batch, held: _Held
    ) -> bool:
        """Whether the job goes on with the nodes that it has; `held` is what it works on then."""
        incident = launch.incident
        if incident is None or way in (WayBack.REQUEUE, WayBack.OPERATOR):
            return False
        broken = [n for n in incident.nodes if n in held.back_us and n in held.active]
        if way is WayBack.ELASTIC and broken:
            rest = [n for n in held.active if n not in broken]
            if not self._spec.min_nodes or len(rest) < self._spec.min_nodes:
                return False
            held.active, held.shrunk_by = rest, incident
            return True
        ready = [n for n in held.spares if held.back_us.get(n, 0) <= launch.end_us]
        if len(ready) < len(broken):
            return False
        for node, spare in zip(broken, ready, strict=False):
            held.active[held.active.index(node)] = spare
            held.spares[held.spares.index(spare)] = node
        return True

    def _after_stop(
        self, attempt: Attempt, launch: Launch, plan: _Plan, held: _Held
    ) -> _Next | None:
        """End or hand over a launch that did not fail."""
        shutdown_us = self._spec.restart.shutdown_s.draw_us(self._rng)
        launch.end_us = launch.stopped_us + (0 if launch.end is End.OPEN else shutdown_us)
        if launch.end is End.GROW:
            self._resume(launch, has_local=True, n_back=0)
            held.active += [n for n in held.back_us if n not in held.active]
            held.active.sort()
            held.back_us.clear()
            held.shrunk_by = None
            return None
        attempt.end_us = None if launch.end is End.OPEN else launch.end_us
        attempt.state, attempt.exit_code = _STATE_OF_END[launch.end]
        is_saved = launch.stopped_us != plan.bounds.hard_us
        if is_saved and launch.end in (End.MAINTENANCE, End.CODE_CHANGE):
            attempt.state = "COMPLETED"  # the trainer left by itself
        attempt.step_state = attempt.state
        if launch.end in (End.COMPLETED, End.OPEN):
            return None
        self._resume(launch, has_local=False, n_back=0)
        row = plan.soft_stop if is_saved else plan.hard_stop
        if row is None:  # the time limit
            gap_us = self._spec.restart.chain_gap_s.draw_us(self._rng)
            return self._next(attempt, is_requeue=False, gap=gap_us)
        stop = self._scenario.stop[row]
        self._stop_due_us[row] += stop.every_hours.draw_hours_us(self._rng)
        gap_us = stop.gap_s.draw_us(self._rng)
        is_requeue = launch.end is End.PREEMPTION
        return self._next(attempt, is_requeue=is_requeue, gap=gap_us)

    def _resume(self, launch: Launch, *, has_local: bool, n_back: int) -> None:
        self._resume_step = self._trainer.usable_step(
            launch.stopped_us, has_local=has_local, n_back=n_back
        )
        self._trainer.forget_after(self._resume_step, has_local=has_local)

    def _next(self, attempt: Attempt, *, is_requeue: bool, gap: int | None) -> _Next:
        """The next submission: by the scheduler (its back-off holds it), or by somebody."""
        restart, rng = self._spec.restart, self._rng
        end_us = attempt.end_us or 0
        if not is_requeue:
            submit_us = end_us + (restart.operator_gap_s.draw_us(rng) if gap is None else gap)
            return _Next(submit_us, submit_us, is_requeue=False)
        # a requeue is submitted in another second than any earlier one
        submit_us = end_us + max(US_PER_S, restart.requeue_s.draw_us(rng))
        wait_us = max(restart.backoff_s.draw_us(rng), gap or 0)
        return _Next(submit_us, submit_us + wait_us, is_requeue=True)
