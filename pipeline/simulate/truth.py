"""The truth about a history in the product's own words: every second of every run, split.

The definitions are those of docs/how-a-second-is-counted.md, applied to what happened and not to
what a log shows of it. The reference step time is the median of the healthy steps as they ran.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from pipeline.simulate.history import (
    Attempt,
    End,
    Evaluation,
    History,
    Incident,
    Launch,
    RunHistory,
    Save,
    Steps,
)
from pipeline.simulate.laws import US_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator

_PHASE_OF_MARK = {
    "initialised": "initialisation",
    "load_begin": "initialisation",
    "loaded": "checkpoint_load",
    "ready": "initialisation",
}
_HEALTHY_AFTER = 5  # first steps of a launch are no reference


@dataclass(frozen=True)
class Piece:
    """[from_us, to_us) of a run, with one use."""

    from_us: int
    to_us: int
    attempt: Attempt | None
    launch_no: int
    category: str
    phase: str
    cause: str | None
    incident: Incident | None = None
    n_steps: int = 0
    n_kept: int = 0
    slow: Incident | None = None

    @property
    def duration_us(self) -> int:
        """Its length."""
        return self.to_us - self.from_us


@dataclass(frozen=True)
class Lost:
    """Steps [first, last] of a launch that were thrown away, and by which incident (None: a
    planned stop)."""

    first: int
    last: int
    incident: Incident | None


@dataclass(frozen=True)
class RunTruth:
    """One run: its tiling and its step time."""

    history: RunHistory
    pieces: list[Piece]
    reference_us: float
    is_open: bool

    @property
    def start_us(self) -> int:
        """Start of the first attempt."""
        return self.pieces[0].from_us

    @property
    def end_us(self) -> int:
        """End of the last attempt; of an open run the last progress."""
        return self.pieces[-1].to_us

    @property
    def optimal_us(self) -> float:
        """Kept steps at the reference, and kept evaluation."""
        evaluation = sum(
            p.duration_us for p in self.pieces
            if p.category == "productive" and p.phase == "evaluation"
        )  # fmt: skip
        return sum(p.n_kept for p in self.pieces) * self.reference_us + evaluation

    @property
    def tor(self) -> float:
        """Training Overhead Ratio."""
        return self.optimal_us / (self.end_us - self.start_us)


def truth_of(history: History) -> list[RunTruth]:
    """The truth of every run that started."""
    return [_Teller(run).tell() for run in history.runs]


class _Teller:
    def __init__(self, run: RunHistory) -> None:
        self._run = run
        self._launches = run.launches
        self._last_steps = [launch.last_step for launch in self._launches]
        self._uncommitted = self._committed()
        self._lost = {launch.number: self._lost_of(i) for i, launch in enumerate(self._launches)}

    def tell(self) -> RunTruth:
        pieces = [p for p in self._pieces() if p.to_us > p.from_us]
        for before, after in itertools.pairwise(pieces):
            assert before.to_us == after.from_us, (before, after)  # noqa: S101  they tile
        is_open = self._launches[-1].end is End.OPEN
        return RunTruth(self._run, pieces, self._reference_us(), is_open)

    def _reference_us(self) -> float:
        healthy = [np.empty(0, np.int64)]
        for launch in self._launches:
            for item in launch.items:
                if isinstance(item, Steps) and item.rate == 1 and not item.warm_up_us:
                    times = np.diff(item.ends_us, prepend=item.start_us)
                    n_young = launch.resume_step + _HEALTHY_AFTER + 1 - item.first
                    healthy.append(times[max(0, n_young) :])
        times = np.concatenate(healthy)
        return float(np.median(times)) if len(times) else self._run.spec.steps.step_s * US_PER_S

    def _lost_of(self, index: int) -> list[Lost]:
        """Steps of a launch that later launches with steps did again, the newest first."""
        launches, lasts = self._launches, self._last_steps
        later = range(index + 1, len(launches))
        floor = min(
            (launches[i].resume_step for i in later if lasts[i] > launches[i].resume_step),
            default=lasts[index],
        )
        lost, known_from, cause = [], lasts[index] + 1, launches[index]
        for i in later:
            if known_from <= floor + 1:
                break
            first = max(floor, launches[i].resume_step) + 1
            if first < known_from:
                incident = cause.incident if cause.end is End.FAILED else None
                lost.append(Lost(first, known_from - 1, incident))
                known_from = first
            if launches[i].end is End.FAILED:
                cause = launches[i]
        return lost

    def _committed(self) -> tuple[int, int] | None:
        """(launch, last durable step) of the last launch with steps of a run that failed."""
        stepping = [x for x in self._launches if self._last_steps[x.number - 1] > x.resume_step]
        if self._launches[-1].end is not End.FAILED or not stepping:
            return None
        launch = stepping[-1]
        durable = [s.step for s in launch.items if isinstance(s, Save) and s.durable_us is not None]
        return launch.number, max(durable, default=launch.resume_step)

    def _pieces(self) -> Iterator[Piece]:
        before: Launch | None = None
        ended_us: int | None = None
        for attempt in self._run.attempts:
            if ended_us is not None and before is not None:
                way = _way(attempt.launches[0], before)
                gap = "teardown" if attempt.restart_count else "operator_gap"
                yield replace(way, from_us=ended_us, to_us=attempt.submit_us, phase=gap)
                yield replace(
                    way, from_us=attempt.submit_us, to_us=attempt.start_us, phase="requeue_wait"
                )
            for launch in attempt.launches:
                yield from self._launch_pieces(attempt, launch, before)
                before = launch
            ended_us = attempt.end_us

    def _launch_pieces(
        self, attempt: Attempt, launch: Launch, before: Launch | None
    ) -> Iterator[Piece]:
        way = replace(_way(launch, before), attempt=attempt)
        now_us = launch.begin_us
        for name, mark_us in launch.marks:
            first = "allocation" if launch is attempt.launches[0] else "launch"
            phase = _PHASE_OF_MARK.get(name, first)
            yield replace(way, from_us=now_us, to_us=mark_us, phase=phase)
            now_us = mark_us
        for item in launch.items:
            if item.end_us is None:
                break
            if isinstance(item, Steps):
                ready_us = item.start_us + item.warm_up_us
                yield replace(way, from_us=now_us, to_us=ready_us, phase="warm_up")
                yield from self._step_pieces(way, launch, item, ready_us)
            elif isinstance(item, Save):
                yield Piece(now_us, item.end_us, attempt, launch.number, "checkpoint",
                            "staging" if item.is_async else "save", "checkpoint")  # fmt: skip
            else:
                yield self._evaluation_piece(way, item, launch)
            now_us = item.end_us
        if launch.end is not End.OPEN:
            yield replace(_tail(way, launch), from_us=now_us, to_us=launch.end_us)

    def _evaluation_piece(self, way: Piece, item: Evaluation, launch: Launch) -> Piece:
        end_us = item.end_us or item.begin_us
        piece = replace(way, from_us=item.begin_us, to_us=end_us, phase="evaluation")
        for lost in self._lost[launch.number]:
            if lost.first <= item.step <= lost.last:
                return _thrown_away(piece, lost)
        return replace(piece, category="productive", cause=None, incident=None)

    def _step_pieces(
        self, way: Piece, launch: Launch, item: Steps, ready_us: int
    ) -> Iterator[Piece]:
        """The stretch, cut where the fate of its steps changes."""
        committed = None
        if self._uncommitted is not None and self._uncommitted[0] == launch.number:
            committed = self._uncommitted[1]
        cuts = {item.first, item.last + 1}
        for lost in self._lost[launch.number]:
            cuts |= {lost.first, lost.last + 1}
        if committed is not None:
            cuts.add(committed + 1)
        inside = sorted(c for c in cuts if item.first <= c <= item.last + 1)
        for first, behind in itertools.pairwise(inside):
            start_us = (
                ready_us if first == item.first else int(item.ends_us[first - item.first - 1])
            )
            n = behind - first
            piece = Piece(
                start_us, int(item.ends_us[behind - item.first - 1]), way.attempt, launch.number,
                "productive", "train", "slow" if item.rate < 1 else None, n_steps=n, n_kept=n,
                slow=item.slow,
            )  # fmt: skip
            thrown = [x for x in self._lost[launch.number] if x.first <= first <= x.last]
            if thrown:
                piece = _thrown_away(piece, thrown[0])
            elif committed is not None and first > committed:
                piece = replace(piece, category="uncommitted", cause="uncommitted", n_kept=0)
            yield piece


def _way(launch: Launch, before: Launch | None) -> Piece:
    """The use of time on the way to a launch, by how the one before it ended."""
    if before is None:
        return Piece(0, 0, None, launch.number, "startup", "", "startup")
    if before.end is End.FAILED:
        return Piece(0, 0, None, launch.number, "recovery", "", "incident", before.incident)
    return Piece(0, 0, None, launch.number, "planned", "", "planned")


def _tail(way: Piece, launch: Launch) -> Piece:
    """The use of time behind the last progress of a launch."""
    if launch.end is End.FAILED:
        return replace(way, category="recovery", phase="detection", cause="incident",
                       incident=launch.incident)  # fmt: skip
    category = "startup" if launch.end is End.COMPLETED else "planned"
    return replace(way, category=category, phase="shutdown", cause=category, incident=None)


def _thrown_away(piece: Piece, lost: Lost) -> Piece:
    return replace(
        piece, category="lost_recompute", n_kept=0, slow=None, incident=lost.incident,
        cause="planned" if lost.incident is None else "incident",
    )  # fmt: skip
