"""Accounting: `sacct -P -D` over all jobs, with the rows of their steps."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from pipeline.simulate.history import Attempt, History, RunHistory
from pipeline.simulate.laws import US_PER_S
from pipeline.simulate.lines import Line, LogFile, printed
from pipeline.simulate.scenario import FileLayout

if TYPE_CHECKING:
    from collections.abc import Iterator

COLUMNS = (
    "Cluster JobID JobIDRaw Restarts User Account Partition Submit Eligible Start End ElapsedRaw "
    "Suspended TimelimitRaw State Reason ExitCode FailedNode NNodes AllocTRES NodeList Flags "
    "StdOut WorkDir JobName Comment"
).split()


def accounting_log(history: History, stamp: str) -> LogFile:
    """`sacct.txt`: whole seconds, on the cluster's clock, rows in the order of their start."""
    attempts = [(attempt, run) for run in history.runs for attempt in run.attempts]
    attempts.sort(key=lambda pair: (pair[0].start_us, pair[0].job_id))
    lines = [Line(0, "|".join(COLUMNS) + "\n", None)]
    for attempt, run in attempts:
        for row in _rows(history, run, attempt, stamp):
            text = "|".join(str(row[column]) for column in COLUMNS)
            lines.append(Line(attempt.end_us or attempt.start_us, text + "\n", None))
    return LogFile("sacct.txt", lines, "accounting")


def _rows(
    history: History, run: RunHistory, attempt: Attempt, stamp: str
) -> Iterator[dict[str, object]]:
    """The job, its batch and extern steps, and its first step."""
    zone = ZoneInfo(history.scenario.cluster.timezone)
    n_nodes, spec = len(attempt.nodes), run.spec
    end = "Unknown" if attempt.end_us is None else printed(attempt.end_us, zone, stamp)
    until_us = attempt.end_us or attempt.launches[-1].end_us
    pattern = f"slurm-{attempt.job_id}.out"
    if spec.logs.files is FileLayout.PER_ATTEMPT:
        pattern = f"slurm-{attempt.job_id}-{attempt.restart_count}.out"
    gpus = n_nodes * history.scenario.cluster.gpus_per_node
    job: dict[str, object] = {
        "Cluster": history.scenario.cluster.name, "JobID": attempt.job_id,
        "JobIDRaw": attempt.job_id, "Restarts": attempt.restart_count, "User": "demo",
        "Account": "research", "Partition": "gpu",
        "Submit": printed(attempt.submit_us, zone, stamp),
        "Eligible": printed(attempt.eligible_us, zone, stamp),
        "Start": printed(attempt.start_us, zone, stamp), "End": end,
        "ElapsedRaw": until_us // US_PER_S - attempt.start_us // US_PER_S,
        "Suspended": "00:00:00", "TimelimitRaw": round(spec.time_limit_s / 60) or "",
        "State": attempt.state, "Reason": "None", "ExitCode": attempt.exit_code,
        "FailedNode": "" if attempt.failed_node is None
        else history.node_name(attempt.failed_node),
        "NNodes": n_nodes, "AllocTRES": f"billing={gpus},cpu={gpus * 12},gres/gpu={gpus},"
                                        f"node={n_nodes}",
        "NodeList": node_list([history.node_name(n) for n in attempt.nodes]),
        "Flags": "SchedMain", "StdOut": f"/home/demo/runs/{pattern}",
        "WorkDir": "/home/demo/runs", "JobName": spec.name, "Comment": "",
    }  # fmt: skip
    yield job
    is_lost = attempt.step_state == "NODE_FAIL"
    state = "CANCELLED" if is_lost else attempt.step_state.split()[0]
    code = "1:0" if state == "FAILED" else attempt.exit_code
    for step, step_state, step_code in (
        ("batch", state, "0:15" if is_lost else code),
        ("extern", "RUNNING" if state == "RUNNING" else "COMPLETED", "0:0"),
        ("0", state, "0:9" if is_lost else code),
    ):
        yield {
            **job, "JobID": f"{attempt.job_id}.{step}", "JobIDRaw": f"{attempt.job_id}.{step}",
            "User": "", "State": step_state, "ExitCode": step_code, "TimelimitRaw": "",
            "StdOut": "", "WorkDir": "", "FailedNode": "",
            "JobName": "train" if step == "0" else step,
        }  # fmt: skip


def node_list(names: list[str]) -> str:
    """A Slurm host list of names that share their letters and width: `node[001-004,007]`."""
    letters = names[0].rstrip("0123456789")
    numbers = sorted(int(name.removeprefix(letters)) for name in names)
    width = len(names[0]) - len(letters)
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    if len(numbers) == 1:
        return names[0]
    texts = [f"{a:0{width}d}" if a == b else f"{a:0{width}d}-{b:0{width}d}" for a, b in ranges]
    return f"{letters}[{','.join(texts)}]"
