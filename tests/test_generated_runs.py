"""Real training processes that were killed on purpose, against the truth that they recorded.

`tests/data/generated` holds the logs of two runs of the HF Trainer on a CPU, and what callbacks
inside the processes wrote about every step (`truth.rank0.jsonl`) and the driver about every
process (`truth.driver.jsonl`). wallsplit sees the training log and one accounting row per attempt.

What the log alone cannot tell: a progress frame has whole seconds; a save has a begin and no end; a
step whose process was killed before it drew its frame leaves no line, though the truth knows that
it was complete. Those executions are counted below from the log itself.
"""

from __future__ import annotations

import json
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pipeline import database, timeline
from pipeline.ingest import ingest
from tests.histories import one

DATA = Path(__file__).parent / "data" / "generated"
COLUMNS = "JobID|JobIDRaw|JobName|User|Submit|Start|End|State|ExitCode|NNodes|AllocTRES|StdOut"
RUNS = ("hf_single", "torchrun_ddp")


def events(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def accounting(name: str) -> str:
    """One row per attempt of the driver; times rounded to the whole seconds that sacct prints."""
    driver = events(DATA / name / "truth.driver.jsonl")
    starts = [e["t"] for e in driver if e["event"] == "attempt_launch"]
    ends = [e["t"] for e in driver if e["event"] == "attempt_end"]
    rows = [COLUMNS]
    for n, (start, end) in enumerate(zip(starts, ends, strict=True)):
        state = "COMPLETED" if n == len(starts) - 1 else "FAILED"
        times = [datetime.fromtimestamp(round(t), UTC) for t in (start, start, end)]
        text = "|".join(f"{t:%Y-%m-%dT%H:%M:%S}" for t in times)
        rows.append(f"815|815|{name}|demo|{text}|{state}|0:0|1|gres/gpu=1|/runs/train.log")
    return "\n".join(rows) + "\n"


@pytest.fixture(scope="module", params=RUNS)
def run(request, tmp_path_factory):
    """(name, connection with the timeline) of one generated run."""
    name = request.param
    folder = tmp_path_factory.mktemp(name)
    shutil.copy(DATA / name / "train.log", folder)
    (folder / "sacct.txt").write_text(accounting(name))
    lake = folder / "lake"
    ingest([str(folder)], lake)
    timeline.rebuild(lake)
    assert timeline.check(lake) == []
    return name, database.connect(lake)


def test_every_category_is_near_the_truth(run):
    name, con = run
    truth = json.loads((DATA / "truth_summary.json").read_text())[name]
    found = dict(con.sql("select category, sum(duration_s) from segment group by all").fetchall())
    wanted = {
        "productive": truth["productive_s"] + truth["eval_s"],  # the slow loss included
        "lost_recompute": truth["lost_recompute_s"],
        "checkpoint": truth["ckpt_s"],
        "recovery": truth["recovery_s"],
        "startup": truth["startup_s"] + truth["tail_s"],
    }
    tolerance_s = max(2.0, 0.06 * truth["wall_s"])
    assert {k: found.get(k, 0) for k in wanted} == pytest.approx(wanted, abs=tolerance_s)
    assert set(found) <= set(wanted)


def executed(name: str) -> list[set[int]]:
    """The complete steps of every process start, as rank 0 recorded them."""
    starts: list[set[int]] = []
    for event in events(DATA / name / "truth.rank0.jsonl"):
        if event["event"] == "process_start":
            starts.append(set())
        elif event["event"] == "step_end":
            starts[-1].add(event["step"])
    return starts


def last_frames(name: str) -> list[int]:
    """The last step that each process start drew, by reading the bars without wallsplit."""
    total = {"hf_single": 120, "torchrun_ddp": 80}[name]
    text = (DATA / name / "train.log").read_text()
    drawn = [int(n) for n in re.findall(rf"\| (\d+)/{total} \[", text)]
    last: list[int] = []
    for before, step in zip([None, *drawn], drawn, strict=False):
        if step == 0 and before is not None:
            last.append(before)
    return [*last, drawn[-1]]


def test_steps_kept_and_lost_are_those_that_the_log_shows(run):
    name, con = run
    starts, shown = executed(name), last_frames(name)
    kept, lost, hidden = 0, 0, 0
    for n, steps in enumerate(starts):
        resumed = min((min(later) for later in starts[n + 1 :]), default=max(steps) + 1)
        kept += len([s for s in steps if s < resumed])
        lost += len([s for s in steps if s >= resumed])
        hidden += len([s for s in steps if s > shown[n]])
    assert {"hf_single": (120, 20, 2), "torchrun_ddp": (80, 19, 1)}[name] == (kept, lost, hidden)
    assert one(con, "select steps_kept, steps_lost from run") == (kept, lost - hidden)


def test_process_starts_and_attempts(run):
    name, con = run
    assert one(con, "select n_attempts, n_launches, n_incidents, end_state from run") == (
        {"hf_single": 3, "torchrun_ddp": 1}[name], 3, 2, "completed",
    )  # fmt: skip
    assert con.sql("select first_step from launch order by launch_no").fetchall() == [
        (min(steps),) for steps in executed(name)
    ]


def test_injected_exception_is_the_root_and_the_kill_stays_unattributed(run):
    name, con = run
    found = con.sql("select type, signature_id from incident order by onset_at").fetchall()
    exception = ("gpu.memory", "cuda.ecc")
    if name == "hf_single":  # nothing prints when a process gets SIGKILL
        assert found == [("unattributed", None), exception]
    else:  # the agent sees the signal
        assert found == [exception, ("unattributed", "elastic.child_failed")]


def test_evidence_of_the_launcher_has_year_and_rank(run):
    name, con = run
    found = con.sql(
        "select occurred_at, captures['code'], captures['lr'] from fault_event "
        "where signature_id = 'elastic.child_failed' order by occurred_at"
    ).fetchall()
    lines = [
        (datetime(2026, 11, 30, 21, 30, 26, 493000, tzinfo=UTC), "1", "1"),
        (datetime(2026, 11, 30, 21, 30, 38, 667000, tzinfo=UTC), "-9", "0"),
    ]
    assert found == (lines if name == "torchrun_ddp" else [])
