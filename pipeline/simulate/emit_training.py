"""Training logs: what each launch of a run prints, in the dialect of its trainer."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np

from pipeline.simulate.dialects import Dialect, load_dialects
from pipeline.simulate.emit_faults import end_lines
from pipeline.simulate.history import End, Evaluation, History, Launch, RunHistory, Save, Steps
from pipeline.simulate.laws import US_PER_S
from pipeline.simulate.lines import Line, LogFile, Manner, printed
from pipeline.simulate.scenario import FileLayout

if TYPE_CHECKING:
    from collections.abc import Iterator

_CLEAN_ENDS = {
    End.COMPLETED: "completed",
    End.EXIT_BEFORE_LIMIT: "exit_before_limit",
    End.PREEMPTION: "sigterm",
    End.MAINTENANCE: "sigterm",
    End.CODE_CHANGE: "sigterm",
    End.GROW: "sigterm",
}


def training_logs(history: History, manner: Manner) -> Iterator[LogFile]:
    """The output of every job, by the layout of its run; files without any line are left out."""
    for run in history.runs:
        by_file: dict[str, LogFile] = {}
        for attempt in run.attempts:
            name = f"slurm-{attempt.job_id}.out"
            if run.spec.logs.files is FileLayout.PER_ATTEMPT:
                name = f"slurm-{attempt.job_id}-{attempt.restart_count}.out"
            log = by_file.setdefault(name, LogFile(name, [], "training", run.spec.name))
            for launch in attempt.launches:
                is_last = launch is attempt.launches[-1]
                lines = LaunchWriter(history, run, launch, manner).lines()
                lines += end_lines(history, attempt, launch, is_last=is_last)
                for line in lines:
                    line.launch = launch.number
                log.lines += lines
        for log in by_file.values():
            if run.spec.logs.is_labelled:
                log.lines = labelled(history, log.lines, run)
            if not log.lines:
                continue
            is_rotated = run.spec.logs.files is FileLayout.ROTATED
            yield from _rotated(log, run) if is_rotated else (log,)
            yield from _other_ranks(log, run)


def _other_ranks(log: LogFile, run: RunHistory) -> Iterator[LogFile]:
    """What further ranks with a log of their own repeat of rank 0's words."""
    for rank in range(1, run.spec.logs.ranks):
        lines = [replace(line, rank=rank) for line in log.lines if line.rank == 0]
        name = f"{log.name.removesuffix('.out')}-rank{rank}.out"
        yield LogFile(name, lines, log.kind, log.run)


def labelled(history: History, lines: list[Line], run: RunHistory) -> list[Line]:
    """The lines with the label of the launcher before all that a rank begins to write."""
    form = load_dialects()[run.spec.logs.dialect].label
    gpus = history.scenario.cluster.gpus_per_node
    out, is_begun = [], False
    for line in lines:
        text = line.text
        if line.rank is not None and not is_begun:
            text = form.format(rank=line.rank, local_rank=line.rank % gpus) + text
        is_begun = not text.endswith("\n")
        out.append(replace(line, text=text))
    return out


def _rotated(log: LogFile, run: RunHistory) -> Iterator[LogFile]:
    """The log in parts of equal length: the newest keeps the name, `.1` is the one before it."""
    size = run.spec.logs.rotate_lines
    parts = [log.lines[i : i + size] for i in range(0, len(log.lines), size)]
    for i, part in enumerate(parts):
        n_newer = len(parts) - 1 - i
        name = f"{log.name}.{n_newer}" if n_newer else log.name
        yield LogFile(name, part, log.kind, log.run)


class LaunchWriter:
    """Writes one launch in time order."""

    def __init__(self, history: History, run: RunHistory, launch: Launch, manner: Manner) -> None:
        """Nothing is written before `lines`."""
        self._history, self._launch, self._run, self._manner = history, launch, run, manner
        self._dialect: Dialect = load_dialects()[run.spec.logs.dialect]
        self._zone = ZoneInfo(history.scenario.cluster.timezone)
        self._total = run.total_steps
        self._world = len(launch.nodes) * history.scenario.cluster.gpus_per_node
        self._lines: list[Line] = []
        self._bar_us = 0
        self._unsaid_us, self._unsaid = 0, 0  # steps since the last step line
        self._commits: deque[Save] = deque()

    def lines(self) -> list[Line]:
        """All that rank 0 prints, without what comes of its end."""
        marks = dict(self._launch.marks)
        for name, us in self._launch.marks:
            self._say(name, us, load_s=(us - marks.get("load_begin", us)) / US_PER_S)
            if name == "initialised" and not self._launch.resume_step:
                self._say("fresh", us)
            if name == "ready":
                self._begin_bar(us)
        for item in self._launch.items:
            if isinstance(item, Steps):
                self._steps(item)
            elif isinstance(item, Save):
                self._save(item)
            else:
                self._evaluation(item)
        clean_end = _CLEAN_ENDS.get(self._launch.end)
        if clean_end and self._launch.items:
            is_killed = isinstance(self._launch.items[-1], Steps)
            if not (is_killed and self._run.spec.checkpoint.every_steps):
                self._say(clean_end, self._launch.stopped_us)
        return self._lines

    def _say(self, what: str, us: int, **values: object) -> None:
        templates: tuple[str, ...] = getattr(self._dialect, what)
        if not templates:
            return
        given = self._values(us) | values
        self._lines += [Line(us, t.format_map(given) + "\n") for t in templates]

    def _begin_bar(self, us: int) -> None:
        self._bar_us = us
        if self._launch.resume_step:
            self._say("resumed", us)
        if self._dialect.bar_begin:
            step = self._launch.resume_step
            values = self._values(us) | self._progress(step)
            self._lines.append(Line(us, self._dialect.bar_begin.format_map(values)))

    def _progress(self, step: int) -> dict[str, Any]:
        total = max(self._total, 1)
        return {"percent": 100 * step // total, "bar": ("#" * (10 * step // total)).ljust(10)}

    def _values(self, us: int) -> dict[str, Any]:
        spec = self._run.spec
        return {
            "stamp": printed(
                self._history.clock_us(self._launch.nodes[0], us), self._zone, self._dialect.stamp
            ),
            "name": spec.name,
            "batch": spec.steps.global_batch, "resume": self._launch.resume_step,
            "first": self._launch.resume_step + 1, "world_size": self._world,
            "total": self._total,
        }  # fmt: skip

    def _steps(self, item: Steps) -> None:
        """A line per log interval, and for the first step of the launch."""
        every = self._run.spec.logs.log_interval
        numbers = np.arange(item.first, item.last + 1)
        said = np.flatnonzero(
            (numbers % every == 0) | (numbers == self._launch.resume_step + 1)
        ).tolist()
        spent = np.cumsum(np.diff(item.ends_us, prepend=item.start_us))
        before = -1
        for i in said:
            spent_us = int(spent[i]) - (int(spent[before]) if before >= 0 else 0)
            n = i - before
            self._commit_until(int(item.ends_us[i]), item)
            self._step(
                int(numbers[i]), int(item.ends_us[i]), (spent_us + self._unsaid_us) / (
                    n + self._unsaid)
            )  # fmt: skip
            self._unsaid_us, self._unsaid, before = 0, 0, i
        self._commit_until(item.end_us, item)
        left = len(numbers) - 1 - before
        if left:
            self._unsaid += left
            self._unsaid_us += int(spent[-1]) - (int(spent[before]) if before >= 0 else 0)

    def _step(self, step: int, us: int, mean_us: float) -> None:
        spec = self._run.spec
        elapsed_s = (us - self._bar_us) // US_PER_S
        left_s = round((self._total - step) * mean_us / US_PER_S)
        values = self._values(us) | self._progress(step) | {
            "step": step, "samples": step * spec.steps.global_batch, "ms": mean_us / 1000,
            "seconds": mean_us / US_PER_S, "loss": _loss(step), "grad": 0.3 + _loss(step) / 20,
            "tps": spec.steps.global_batch * 4096 * US_PER_S / mean_us / self._world,
            "elapsed": _clock(elapsed_s), "remaining": _clock(left_s),
            "tokens": step * spec.steps.global_batch * 2048,
            "rate_samples": spec.steps.global_batch * US_PER_S / mean_us,
            "rate": f"{mean_us / US_PER_S:5.2f}s/it" if mean_us > US_PER_S
            else f"{US_PER_S / mean_us:5.2f}it/s",
        }  # fmt: skip
        self._lines.append(Line(us, self._dialect.step.format_map(values) + self._dialect.step_end))
        if self._manner.second_writer_us is not None:
            later_us = us + self._manner.second_writer_us
            values["stamp"] = self._values(later_us)["stamp"]
            text = self._dialect.step.format_map(values) + self._dialect.step_end
            self._lines.append(Line(later_us, text, self._world - 1))

    def _commit_until(self, us: int, item: Steps) -> None:
        """Background saves are found complete at the end of the first step after that."""
        while self._commits and (self._commits[0].durable_us or 0) <= us:
            save = self._commits.popleft()
            durable_us = save.durable_us or 0
            at = int(item.ends_us[np.searchsorted(item.ends_us, durable_us)])
            saved_s = (durable_us - (save.end_us or 0)) / US_PER_S
            self._say("committed", max(at, self._lines[-1].us), step=save.step, save_s=saved_s)

    def _save(self, item: Save) -> None:
        if item.is_local:
            if item.end_us is not None:
                self._say("local_save", item.end_us, step=item.step)
            return
        if item.is_final and self._dialect.final_save:
            self._say("final_save", item.begin_us, step=item.step)
        self._say("staging_begin" if item.is_async else "save_begin", item.begin_us, step=item.step)
        if item.end_us is None:
            return
        stall_s = (item.end_us - item.begin_us) / US_PER_S
        self._say("staging_end" if item.is_async else "save_end", item.end_us, step=item.step,
                  save_s=stall_s)  # fmt: skip
        if item.is_async and item.durable_us is not None:
            self._commits.append(item)

    def _evaluation(self, item: Evaluation) -> None:
        self._say("evaluation_begin", item.begin_us, step=item.step)
        if item.end_us is not None:
            self._say("evaluation_end", item.end_us, step=item.step, loss=_loss(item.step) + 0.05,
                      evaluation_s=(item.end_us - item.begin_us) / US_PER_S)  # fmt: skip


def _loss(step: int) -> float:
    return 2.2 + 9 / (1 + step / 200)


def _clock(seconds: int) -> str:
    """`02:07` or `1:02:07`, as tqdm prints."""
    minutes, second = divmod(max(seconds, 0), 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour}:{minute:02d}:{second:02d}" if hour else f"{minute:02d}:{second:02d}"
