"""Which cluster a log is of that was given without a name."""

from __future__ import annotations

import pytest

from tests.histories import START, TrainLog, accounting, fault, steps, timeline_of


def clusters(
    log: TrainLog, *jobs: tuple[str, str, str], faults: list[dict[str, object]] | None = None,
    given: str = "default", stdout: dict[str, str] | None = None,
) -> list[tuple[object, ...]]:  # fmt: skip
    """(cluster, attempts known to an accounting) of the run of a log; jobs: (cluster, id, node)."""
    end = steps(log, START, 1, 40)
    accounts = [
        accounting(n, START, end, "COMPLETED", job=job, cluster=cluster, nodes=[node],
                   stdout_path=(stdout or {}).get(job))
        for n, (cluster, job, node) in enumerate(jobs, 1)
    ]  # fmt: skip
    con = timeline_of(log.rows, faults, accounts, clusters={log.file_id: given})
    return con.execute(
        "select f.cluster, count(a.scheduler) from file as f join launch as l using (file_id) "
        "join attempt as a using (attempt_id) where f.file_name = $name group by all",
        {"name": log.file_id},
    ).fetchall()


@pytest.mark.parametrize(
    ("jobs", "wanted"),
    [
        ([("aurora", "4711", "n1")], ("aurora", 1)),
        ([("aurora", "4711", "n1"), ("borealis", "4712", "n2")], ("aurora", 1)),
        ([("aurora", "4710", "n1"), ("borealis", "4711", "n2")], ("borealis", 1)),
        ([("aurora", "4711", "n1"), ("borealis", "4711", "n2")], ("default", 0)),
        ([("aurora", "1", "n1"), ("borealis", "2", "n2")], ("default", 0)),
    ],
)
def test_job_in_the_name_of_a_log(jobs: list[tuple[str, str, str]], wanted: object) -> None:
    assert clusters(TrainLog("slurm-4711.out"), *jobs) == [wanted]


def test_job_in_a_banner_of_a_log() -> None:
    banner = fault(50, None, "slurm.banner", file_id="x.log", captures=[("id", "4711")],
                   component="scheduler.banner", mode="context", role="context")  # fmt: skip
    jobs = ("aurora", "4710", "n1"), ("borealis", "4711", "n2")
    assert clusters(TrainLog("x.log"), *jobs, faults=[banner]) == [("borealis", 1)]


def test_output_file_of_a_job() -> None:
    jobs = ("aurora", "4710", "n1"), ("borealis", "4711", "n2")
    stdout = {"4710": "/scratch/other.log", "4711": "/scratch/llama.log"}
    assert clusters(TrainLog("llama.log"), *jobs, stdout=stdout) == [("borealis", 1)]


def test_node_of_a_line_where_no_job_is_named() -> None:
    log = TrainLog("x.log")
    log.event("metric", START, node="n2.example.org")
    jobs = ("aurora", "4710", "n1"), ("borealis", "4711", "n2")
    assert clusters(log, *jobs) == [("borealis", 0)]


def test_job_goes_before_nodes() -> None:
    log = TrainLog("slurm-4711.out")
    log.event("metric", START, node="n2")
    jobs = ("aurora", "4711", "n1"), ("borealis", "4712", "n2")
    assert clusters(log, *jobs) == [("aurora", 1)]


def test_name_that_was_given_stays() -> None:
    jobs = ("aurora", "4711", "n1"), ("borealis", "4712", "n2")
    log = TrainLog("slurm-4711.out")
    assert clusters(log, *jobs, given="borealis") == [("borealis", 0)]
