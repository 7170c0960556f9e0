"""Observed TOR of published case shapes, written out as raw logs, to one millionth.

A calculator that finds disruptions by repeated step numbers alone gives 98.4 % for the crash right
after a save, 59.95 % for the second crash, 100 % for the fail-slow window, and counts 200
disruptions for the two writers.

Layout: steps of 10 s, counted from 1 in the log; an attempt begins with 90 s of start-up and ends
with its last step; the job is requeued after the downtime, and the accounting shows every attempt.
The last three cases have no start-up: their log and their only attempt begin with the first step.
Each case is also read from its training log alone, where nothing tells of the first start-up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pipeline import database, timeline
from pipeline.ingest import ingest
from tests.histories import one

BEGIN = datetime(2026, 2, 1, tzinfo=UTC)
STEP_S = 10
N_STEPS = 200
START_UP_S = 90
SKEW_S = 0.3
COLUMNS = "JobID|JobIDRaw|JobName|User|Submit|Start|End|State|ExitCode|NNodes|AllocTRES|StdOut"


@dataclass
class RawLogs:
    """A Megatron log and the accounting of its attempts, as they are written."""

    now: datetime = BEGIN
    log: list[str] = field(default_factory=list)
    accounting: list[str] = field(default_factory=lambda: [COLUMNS])

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def milestone(self, name: str) -> None:
        self.log.append(f"[{name}] datetime: {self.now:%Y-%m-%d %H:%M:%S.%f} ")

    def step(self, number: int, seconds: float = STEP_S, skews_s: tuple[float, ...] = (0,)) -> None:
        self.wait(seconds)
        for skew_s in skews_s:
            printed = self.now + timedelta(seconds=skew_s)
            self.log.append(
                f" [{printed:%Y-%m-%d %H:%M:%S.%f}] iteration {number:8d}/{N_STEPS:8d} | "
                f"elapsed time per iteration (ms): {seconds * 1000:.1f} | "
                "learning rate: 1.000000E-04 | lm loss: 2.0E+00 |"
            )

    def account(self, start: datetime, state: str) -> None:
        submit = start - timedelta(seconds=1 if len(self.accounting) > 1 else 0)
        times = "|".join(f"{t:%Y-%m-%dT%H:%M:%S}" for t in (submit, start, self.now))
        self.accounting.append(
            f"4711|4711|pretrain|demo|{times}|{state}|0:0|1|gres/gpu=8|/runs/slurm-4711.out"
        )

    def write(self, folder: Path) -> list[str]:
        (folder / "slurm-4711.out").write_text("\n".join(self.log) + "\n")
        (folder / "sacct.txt").write_text("\n".join(self.accounting) + "\n")
        return [str(folder)]


def attempts(*ranges: tuple[int, int], down_s: float = 300) -> RawLogs:
    """Attempts that execute steps first..last, counted from 0 as in the published table."""
    raw = RawLogs()
    for n, (first, last) in enumerate(ranges):
        raw.wait(down_s if n else 0)
        start = raw.now
        raw.wait(START_UP_S)
        raw.milestone("before the start of training step")
        for step in range(first, last + 1):
            raw.step(step + 1)
        raw.account(start, "COMPLETED" if n == len(ranges) - 1 else "NODE_FAIL")
    return raw


def end_marker_before_restart() -> RawLogs:
    """One allocation: an end record, 600 s without a process, then a launch that goes back."""
    raw = RawLogs()
    raw.milestone("before the start of training step")
    for step in range(100):
        raw.step(step + 1)
    raw.milestone("after training is done")
    raw.wait(600)
    raw.milestone("before the start of training step")
    for step in range(90, 200):
        raw.step(step + 1)
    raw.account(BEGIN, "COMPLETED")
    return raw


def fail_slow() -> RawLogs:
    """One attempt; steps 50 to 149 take 20 s, and the log prints so."""
    raw = RawLogs()
    raw.milestone("before the start of training step")
    for step in range(200):
        raw.step(step + 1, 2 * STEP_S if 50 <= step < 150 else STEP_S)
    raw.account(BEGIN, "COMPLETED")
    return raw


def two_writers() -> RawLogs:
    """One attempt; two ranks print every step, the second one SKEW_S later."""
    raw = RawLogs()
    raw.milestone("before the start of training step")
    for step in range(200):
        raw.step(step + 1, skews_s=(0, SKEW_S))
    raw.account(BEGIN, "COMPLETED")
    return raw


# raw logs; T_obs, kept s, lost s, down + start-up s, slow s, incidents, TOR
CASES = {
    "A crash right after a save": (
        attempts((0, 99), (100, 199), down_s=3600), 5780, 2000, 0, 3780, 0, 1, 0.346021),
    "B rollback of 19 steps": (attempts((0, 99), (81, 199)), 2670, 2000, 190, 480, 0, 1, 0.749064),
    "C crash loop": (
        attempts((0, 99), (81, 81), (81, 199)), 3070, 2000, 200, 870, 0, 2, 0.651466),
    "F second crash goes back further": (
        attempts((0, 99), (81, 120), (60, 199)), 3670, 2000, 800, 870, 0, 2, 0.544959),
    "H end marker before restart": (
        end_marker_before_restart(), 2700, 2000, 100, 600, 0, 1, 0.740741),
    "I fail-slow": (fail_slow(), 3000, 2000, 0, 0, 1000, 1, 0.666667),
    "J two writers": (two_writers(), 2000, 2000, 0, 0, 0, 0, 1.0),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_case(case, tmp_path):
    raw, wall_s, kept_s, lost_s, down_s, slow_s, n_incidents, tor = CASES[case]
    logs, lake = tmp_path / "logs", tmp_path / "lake"
    logs.mkdir()
    ingest(raw.write(logs), lake)
    timeline.rebuild(lake)
    assert timeline.check(lake) == []
    con = database.connect(lake)
    found = one(con, "select wall_s, t_opt_s, tor_observed, tor_high, n_incidents from run")
    assert found == pytest.approx((wall_s, kept_s, tor, tor, n_incidents), abs=1e-6)
    seconds = one(
        con,
        """
        select
            coalesce(sum(duration_s) filter (category = 'lost_recompute'), 0),
            coalesce(sum(duration_s) filter (category in ('recovery', 'startup', 'planned')), 0),
            sum(duration_s * (1 - performance_ratio)) filter (category = 'productive')
        from segment
        """,
    )
    assert seconds == pytest.approx((lost_s, down_s, slow_s), abs=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_log_alone_gives_the_same_work_and_no_first_start_up(case, tmp_path):
    raw, wall_s, kept_s, lost_s, down_s, slow_s, n_incidents, _ = CASES[case]
    raw.write(tmp_path)
    lake = tmp_path / "lake"
    ingest([str(tmp_path / "slurm-4711.out")], lake)
    timeline.rebuild(lake)
    assert timeline.check(lake) == []
    con = database.connect(lake)
    unseen_s = START_UP_S if case[0] in "ABCF" else 0
    # an open run ends with its last evidence: here the second writer's line of the last step
    tail_s = SKEW_S if case[0] == "J" else 0
    wall_s += tail_s - unseen_s
    found = one(
        con, "select wall_s, t_opt_s, tor_low, tor_high, steps_lost, n_incidents, is_open from run"
    )
    assert found == pytest.approx(
        (wall_s, kept_s, kept_s / wall_s, (kept_s + tail_s) / wall_s, lost_s / STEP_S,
         n_incidents, True), abs=1e-6,
    )  # fmt: skip
    seconds = one(
        con,
        """
        select
            coalesce(sum(duration_s) filter (category = 'lost_recompute'), 0),
            coalesce(sum(duration_s) filter (category = 'recovery'), 0),
            sum(duration_s * (1 - performance_ratio)) filter (category = 'productive'),
            coalesce(sum(duration_s) filter (category = 'unexplained'), 0)
        from segment
        """,
    )
    assert seconds == pytest.approx((lost_s, down_s - unseen_s, slow_s, tail_s), abs=1e-6)
