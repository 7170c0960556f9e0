"""The answer over all runs of a report: TOR, what was lost, and to which causes."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.report import words
from pipeline.report.model import UNEXPLAINED_LIMIT, Loss, Report, Run


@dataclass(frozen=True)
class Cause:
    """What one cause, or one type of incident, cost some runs; share is of their wall clock."""

    cause: str
    type: str | None
    seconds: float
    share: float
    gpu_hours: float | None
    n_incidents: int
    n_hangs: int
    lost_s: float
    recovery_s: float
    nodes: tuple[str, ...]

    @property
    def title(self) -> str:
        """The cause in words."""
        return words.cause(self.cause, self.type, self.seconds)

    @property
    def category(self) -> str:
        """The category whose colour stands for the cause."""
        return "recovery" if self.cause == "incident" else self.cause

    @property
    def story(self) -> str:
        """How often it struck and what the time went into."""
        if self.cause != "incident":
            is_known = self.cause in words.CATEGORIES
            meaning = words.category(self.cause, self.seconds)[1] if is_known else ""
            struck = words.counted(self.n_incidents, "incident") if self.n_incidents else ""
            return ", ".join(part for part in (struck, meaning) if part)
        parts = [words.counted(self.n_incidents, "incident")]
        if self.n_hangs:
            parts = [f"{parts[0]}, of which {words.counted(self.n_hangs, 'hang')}"]
        if 0 < self.n_hangs == self.n_incidents:
            parts = [words.counted(self.n_hangs, "hang")]
        if self.lost_s > 0:
            parts.append(f"{words.duration(self.lost_s)} of work redone")
        if self.recovery_s > 0:
            parts.append(f"{words.duration(self.recovery_s)} to get going again")
        return ", ".join(parts)


@dataclass(frozen=True)
class Answer:
    """TOR of some runs together, weighted by wall clock; runs without TOR are only counted."""

    tor_low: float | None
    tor_high: float | None
    has_interval: bool
    wall_s: float
    lost_s: float
    gpu_hours: float | None
    n_runs: int
    n_runs_without_tor: int
    n_incidents: int
    causes: tuple[Cause, ...]

    @property
    def tor(self) -> str:
        """TOR as text."""
        return words.tor(self.tor_low, self.tor_high, self.has_interval)

    @property
    def lost(self) -> str:
        """What was lost of the wall clock, as text."""
        return words.lost(self.lost_s, self.wall_s)

    @property
    def worst(self) -> tuple[Cause, ...]:
        """The causes to name first."""
        return tuple(c for c in self.causes if c.seconds > 0)[: words.CAUSES_SHOWN]

    @property
    def others(self) -> tuple[Cause, ...]:
        """The causes of further losses."""
        return tuple(c for c in self.causes if c.seconds > 0)[words.CAUSES_SHOWN :]

    @property
    def gain(self) -> str | None:
        """What steps faster than the reference gave back, as a sentence; None if they did not."""
        gains = [c for c in self.causes if c.seconds < 0]
        if not gains:
            return None
        gained, part = -sum(c.seconds for c in gains), -sum(c.share for c in gains)
        return (
            f"{gains[0].title}: {words.duration(gained)} gained "
            f"({words.share(part)} of the wall clock), set against the losses."
        )


def answer(runs: list[Run]) -> Answer:
    """The answer for `runs`; the causes that cost most come first."""
    known = [r for r in runs if r.tor_low is not None]
    wall_s = sum(r.wall_s for r in known)
    low = sum((r.tor_low or 0) * r.wall_s for r in known)
    high = sum((r.tor_high or r.tor_low or 0) * r.wall_s for r in known)
    unexplained_s = sum(r.segments_s.unexplained for r in known)
    causes = _causes(known, wall_s)
    return Answer(
        tor_low=low / wall_s if wall_s else None,
        tor_high=high / wall_s if wall_s else None,
        has_interval=bool(wall_s) and unexplained_s / wall_s > UNEXPLAINED_LIMIT,
        wall_s=wall_s,
        lost_s=wall_s - low,
        gpu_hours=_sum_known([c.gpu_hours for c in causes]),
        n_runs=len(runs),
        n_runs_without_tor=len(runs) - len(known),
        n_incidents=sum(r.n_incidents for r in runs),
        causes=causes,
    )


def lost_s(run: Run) -> float | None:
    """Seconds of a run that made no progress; null without a step time."""
    return None if run.tor_low is None else run.wall_s * (1 - run.tor_low)


def gpu_hours(losses: list[Loss]) -> float | None:
    """GPU-hours of losses together; null where no loss knows its GPUs."""
    return _sum_known([loss.gpu_hours for loss in losses])


def worst_first(report: Report) -> list[Run]:
    """The runs of a report, those that lost most time first."""
    return sorted(report.runs, key=lambda r: (-(lost_s(r) or 0), -r.wall_s, r.start_at, r.run_id))


def _causes(runs: list[Run], wall_s: float) -> tuple[Cause, ...]:
    groups: dict[tuple[str, str | None], list[Loss]] = {}
    for run in runs:
        for loss in run.losses:
            groups.setdefault((loss.cause, loss.type), []).append(loss)
    incidents = {i.incident_id: i for run in runs for i in run.incidents}
    causes = []
    for (cause, kind), losses in groups.items():
        struck = [incidents[i] for x in losses if (i := x.incident_id) in incidents]
        seconds = sum(loss.seconds for loss in losses)
        causes.append(
            Cause(
                cause=cause,
                type=kind,
                seconds=seconds,
                share=seconds / wall_s if wall_s else 0,
                gpu_hours=gpu_hours(losses),
                n_incidents=len(struck),
                n_hangs=sum(i.mode == "hang" for i in struck),
                lost_s=sum(i.lost_s or 0 for i in struck),
                recovery_s=sum(i.recovery_s or 0 for i in struck),
                nodes=tuple(sorted({node for i in struck for node in i.nodes})),
            )
        )
    return tuple(sorted(causes, key=lambda c: (-c.seconds, c.cause, c.type or "")))


def _sum_known(values: list[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) if known else None
