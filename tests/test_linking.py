"""Which attempts are one run, and which only look alike."""

from __future__ import annotations

import pytest

from tests.histories import START, TrainLog, accounting, fault, one, steps, timeline_of

HOUR, DAY = 3600.0, 86_400.0


def logged(file_id: str, start: float, first: int, last: int, *, load: str | None = None,
           save: str | None = None) -> TrainLog:  # fmt: skip
    """One process: it loads a checkpoint of step first-1, runs first..last, saves."""
    log = TrainLog(file_id)
    if load:
        log.event("checkpoint_load", start, step_to=first - 1, checkpoint_path=load)
    end = steps(log, start, first, last)
    if save:
        log.event("checkpoint_save", end, step_to=last, checkpoint_path=save)
    return log


def runs(logs: list[TrainLog], accounts: list[dict[str, object]] | None = None) -> int:
    rows = [row for log in logs for row in log.rows]
    return int(one(timeline_of(rows, accounts=accounts), "select count(*) from run")[0])


def jobs(*logs: TrainLog, gap: float = 600, **columns: object) -> list[dict[str, object]]:
    """One accounting row per log, each a job of its own."""
    found = []
    for n, log in enumerate(logs):
        stamps = [int(row["stamp_us"]) / 1e6 for row in log.rows if row.get("stamp_us")]
        found.append(accounting(
            n + 1, min(stamps), max(stamps), "FAILED" if n < len(logs) - 1 else "COMPLETED",
            job=str(100 + n), job_name=f"job{n}", stdout_path=f"/logs/{log.file_id}",
            **{name: value[n] for name, value in columns.items()},
        ))  # fmt: skip
    return found


def test_loading_the_checkpoint_of_the_attempt_before_continues_its_run():
    first = logged("a", START, 1, 50, save="/ckpt/run")
    second = logged("b", START + HOUR, 51, 90, load="/ckpt/run", save="/ckpt/run")
    assert runs([first, second], jobs(first, second)) == 1


def test_spike_rollback_to_an_older_checkpoint_continues_its_run():
    first = logged("a", START, 1, 50, save="/ckpt/run")
    second = logged("b", START + HOUR, 51, 90, load="/ckpt/run", save="/ckpt/run")
    third = logged("c", START + 2 * HOUR, 51, 99, load="/ckpt/run", save="/ckpt/run")
    assert runs([first, second, third], jobs(first, second, third)) == 1


def test_fork_that_saves_elsewhere_is_a_new_run():
    first = logged("a", START, 1, 50, save="/ckpt/run")
    fork = logged("b", START + HOUR, 51, 90, load="/ckpt/run", save="/ckpt/fork")
    assert runs([first, fork], jobs(first, fork)) == 2


def test_fine_tune_that_starts_its_counter_anew_is_a_new_run():
    base = logged("a", START, 1, 50, save="/ckpt/run")
    tune = TrainLog("b")
    tune.event("checkpoint_load", START + HOUR, step_to=50, checkpoint_path="/ckpt/run")
    steps(tune, START + HOUR, 1, 40)
    assert runs([base, tune], jobs(base, tune)) == 2


@pytest.mark.parametrize(("work_dirs", "n_runs"), [(["/u", "/u"], 1), (["/u", "/v"], 2)])
def test_relative_checkpoint_folder_is_one_only_in_one_working_directory(work_dirs, n_runs):
    first = logged("a", START, 1, 50, save="./ckpt")
    second = logged("b", START + HOUR, 51, 90, load="./ckpt", save="./ckpt")
    assert runs([first, second], jobs(first, second, work_dir=work_dirs)) == n_runs


def test_run_that_still_goes_on_is_not_continued_by_another():
    first = logged("a", START, 1, 400, save="/ckpt/run")
    rows = jobs(first)
    first.event("checkpoint_save", START + 500, step_to=50, checkpoint_path="/ckpt/run")
    second = logged("b", START + 1000, 51, 90, load="/ckpt/run", save="/ckpt/run")
    rows += jobs(second)
    rows[1] |= {"job_id": "200", "native_id": "200", "line": 2, "seq": 200}
    assert runs([first, second], rows) == 2


@pytest.mark.parametrize(("gap_s", "n_runs"), [(600, 1), (3 * DAY, 1), (8 * DAY, 2)])
def test_equal_job_id_long_after_is_another_job(gap_s, n_runs):
    rows = [
        accounting(1, START, START + 500, "NODE_FAIL"),
        accounting(2, START + 500 + gap_s, START + 2000 + gap_s, "COMPLETED"),
    ]
    assert runs([], rows) == n_runs


def test_equal_run_id_of_two_jobs_at_once_is_a_copied_script():
    rows = [
        accounting(1, START, START + 5000, "COMPLETED", job="1", comment="run_id=x"),
        accounting(2, START + 60, START + 5000, "COMPLETED", job="2", comment="run_id=x",
                   job_name="other"),
    ]  # fmt: skip
    assert runs([], rows) == 2


def test_serial_array_of_one_cluster_does_not_reach_into_another():
    def task(n: int, cluster: str, at: float) -> dict[str, object]:
        return accounting(
            n, at, at + 500, "COMPLETED", job=f"{cluster}{n}", cluster=cluster, array_job_id=77,
            array_task_id=n, array_throttle=1 if cluster == "a" else None, job_name=f"{n}",
        )  # fmt: skip

    rows = [task(1, "a", START), task(2, "a", START + 600),
            task(3, "b", START), task(4, "b", START + 600)]  # fmt: skip
    assert runs([], rows) == 3


def test_crash_loop_without_checkpoint_in_one_log_is_one_run():
    log = TrainLog()
    for n in range(3):
        log.event("fresh_start", START + 1000 * n)
        steps(log, START + 1000 * n, 1, 30)
    con = timeline_of(log.rows)
    assert one(con, "select n_attempts, steps_kept, steps_lost, n_incidents from run") == (
        3, 30, 60, 2,
    )  # fmt: skip


def test_fresh_start_behind_a_finished_run_in_one_log_is_another_run():
    log = TrainLog()
    for n in range(2):
        log.event("fresh_start", START + 1000 * n)
        end = steps(log, START + 1000 * n, 1, 30)
        log.event("shutdown", end, detail="completed")
    assert runs([log]) == 2


def test_logs_of_ranks_are_one_attempt_without_accounting():
    logs = [logged(f"train_rank{n}", START + n / 10, 1, 50) for n in range(3)]
    con = timeline_of([row for log in logs for row in log.rows])
    assert one(con, "select n_attempts, n_launches, steps_kept from run") == (1, 1, 50)


def test_logs_of_seeds_are_runs_of_their_own():
    assert runs([logged(f"train_seed{n}", START + n / 10, 1, 50) for n in range(3)]) == 3


def test_resized_allocation_is_one_attempt():
    log = TrainLog()
    end = steps(log, START, 1, 100)
    rows = [
        accounting(1, START, START + 400, "RESIZING", n_gpus=16, nodes=["n1", "n2"]),
        accounting(2, START + 400, end, "COMPLETED", n_gpus=8, nodes=["n1"]),
    ]
    con = timeline_of(log.rows, accounts=rows)
    assert one(
        con, "select n_attempts, n_launches, steps_kept, wall_s, n_gpus, n_incidents from run"
    ) == (1, 1, 100, 1000.0, 16, 0)


def test_logs_of_one_attempt_that_overlap_in_a_chain_lose_no_time():
    """a overlaps b, b overlaps c, and each next one has more steps: a and c are kept."""
    logs = [
        logged("a", START, 1, 30), logged("b", START + 200, 21, 120),
        logged("c", START + 1100, 31, 150),
    ]  # fmt: skip
    rows = [row for log in logs for row in log.rows]
    banners = [
        fault(50, None, "slurm.banner", file_id=log.file_id, captures=[("id", "4711")],
              component="scheduler.banner", mode="context", role="context")
        for log in logs
    ]  # fmt: skip
    con = timeline_of(
        rows, banners, [accounting(1, START, START + 2300, "COMPLETED", stdout_path=None)]
    )
    assert con.execute("select file_id from launch order by launch_no").fetchall() == [
        ("a",), ("c",),
    ]  # fmt: skip


def namesakes(*logs: TrainLog, **columns: object) -> list[dict[str, object]]:
    """Accounting of jobs of one user, name and folder, one per log."""
    return [
        accounting(
            n + 1, START + HOUR * n, START + HOUR * (n + 1) - 120,
            "FAILED" if n < len(logs) - 1 else "COMPLETED", job=str(100 + n), work_dir="/u",
            stdout_path=f"/logs/{log.file_id}", **columns,
        )
        for n, log in enumerate(logs)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("resumes_at", "n_runs"),
    [
        pytest.param(301, 1, id="behind the last logged step"),
        pytest.param(281, 1, id="before it"),
        pytest.param(318, 1, id="behind it, but the unseen rest could reach it"),
        pytest.param(400, 2, id="further than the unseen rest could reach"),
    ],
)
def test_jobs_of_one_name_are_one_run_if_the_steps_go_on(resumes_at, n_runs):
    """The first log ends 480 s before its attempt does: 48 steps more may have been done."""
    first = logged("a", START, 1, 300)
    second = TrainLog("b")
    second.event("resume", START + HOUR, step_to=resumes_at - 1)
    steps(second, START + HOUR, resumes_at, resumes_at + 20)
    assert runs([first, second], namesakes(first, second)) == n_runs


def test_job_without_a_log_between_two_that_go_on_is_of_their_run():
    first, third = logged("a", START, 1, 300), TrainLog("c")
    third.event("resume", START + 2 * HOUR, step_to=300)
    steps(third, START + 2 * HOUR, 301, 340)
    rows = namesakes(first, TrainLog("b"), third)
    con = timeline_of(first.rows + third.rows, accounts=rows)
    assert one(con, "select n_attempts, steps_kept from run") == (3, 340)
    # the job without a log got nowhere: the next one began where the first had ended
    assert one(
        con,
        "select category, duration_s from segment join attempt using (attempt_id) "
        "where job_id = '101'",
    ) == ("recovery", 3480.0)


def test_fresh_start_of_a_job_that_had_saved_nothing_goes_on_with_its_run():
    first, second = logged("a", START, 1, 30), TrainLog("b")
    second.event("fresh_start", START + HOUR)
    steps(second, START + HOUR, 1, 340)
    rows = namesakes(first, second)
    con = timeline_of(first.rows + second.rows, accounts=rows)
    assert one(con, "select n_attempts, steps_kept, steps_lost from run") == (2, 340, 30)
    rows[0] |= {"state": "COMPLETED", "state_base": "COMPLETED"}
    assert runs([first, second], rows) == 2


def test_job_without_a_log_before_another_run_stays_alone():
    first, third = logged("a", START, 1, 300, save="/ckpt"), TrainLog("c")
    third.event("fresh_start", START + 2 * HOUR)
    steps(third, START + 2 * HOUR, 1, 340)
    assert runs([first, third], namesakes(first, TrainLog("b"), third)) == 3


@pytest.mark.parametrize(("first_step", "n_runs"), [(51, 1), (1, 2)])
def test_logs_of_one_name_without_accounting_are_one_run_if_the_steps_go_on(first_step, n_runs):
    first = logged("slurm-101.out", START, 1, 50)
    second = TrainLog("slurm-102.out")
    if first_step > 1:
        second.event("resume", START + HOUR, step_to=first_step - 1)
    steps(second, START + HOUR, first_step, 90)
    assert runs([first, second]) == n_runs
