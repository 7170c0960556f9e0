"""Which files are one log: rotated sets are, ranks, experiments and jobs are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline import database, timeline
from tests.histories import START, TrainLog, one, steps, timeline_of
from tests.lakes import BANNER, read, step_line

HOUR = 3600.0


def part(file_id: str, start: float, first: int, last: int, *, begins: bool = False) -> TrainLog:
    """Steps first..last, ten seconds each; with the sign of a process start before if it begins."""
    log = TrainLog(file_id)
    steps(log, start, first, last)
    if not begins:
        log.rows.pop(0)
    return log


def runs_of(*logs: TrainLog) -> list[tuple[object, ...]]:
    """(launches, incidents, steps kept) of every run."""
    con = timeline_of([row for log in logs for row in log.rows])
    return con.execute(
        "select n_launches, n_incidents, steps_kept from run order by start_at"
    ).fetchall()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x.out.1", "x.out"),
        ("x.out.2.gz", "x.out"),
        ("x.out.2.gz", "x.out.1"),
        ("x.log-20231113", "x.log-20231114.gz"),
        ("x.log.2023-11-13", "x.log"),
        ("x.2023-11-13_12-00-00_123456.log", "x.log"),
        ("train.log.10", "train.log.9"),
        ("plain.1", "plain"),
        ("app.1.log", "app.log"),
    ],
)
def test_names_of_rotation_make_one_log(old: str, new: str) -> None:
    first = part(old, START, 1, 40, begins=True)
    assert runs_of(first, part(new, START + 400, 41, 90)) == [(1, 0, 90)]


def test_rotation_between_two_launches_makes_one_log_of_both() -> None:
    first = part("x.out.1", START, 1, 40, begins=True)
    second = part("x.out", START + HOUR, 41, 90, begins=True)
    assert runs_of(first, second) == [(2, 1, 90)]


@pytest.mark.parametrize(
    ("one_name", "other_name"),
    [
        ("train.1.log", "train.2.log"),  # experiments, counted upwards
        ("train-20231114.log", "train-20231115.log"),  # named by the day that they began
        ("slurm-20260101.out", "slurm-20260102.out"),  # job ids that look like dates
        ("run.1", "run.2"),
        ("v1.2", "v1.3"),
        ("a/x.out.1", "b/x.out"),
    ],
)
def test_names_that_only_look_alike_are_logs_of_their_own(one_name: str, other_name: str) -> None:
    first = part(one_name, START, 1, 40, begins=True)
    second = part(other_name, START + HOUR, 1, 50, begins=True)
    assert runs_of(first, second) == [(1, 0, 40), (1, 0, 50)]


def test_a_doubtful_name_joins_what_goes_on_at_once() -> None:
    first = part("train-20231114.log", START, 1, 40, begins=True)
    assert runs_of(first, part("train-20231115.log", START + 400, 41, 90)) == [(1, 0, 90)]


@pytest.mark.parametrize(("start", "first"), [(START + 5 * HOUR, 41), (START + 400, 91)])
def test_a_doubtful_name_does_not_join_what_goes_on_later(start: float, first: int) -> None:
    older = part("train-20231114.log", START, 1, 40, begins=True)
    newer = part("train-20231115.log", start, first, first + 9)
    con = timeline_of(older.rows + newer.rows)
    assert one(con, "select count(distinct log_id) from file") == (2,)


def test_logs_of_ranks_at_one_time_are_no_rotated_set() -> None:
    logs = [part(f"train.log.{n}", START + n, 1, 40, begins=True) for n in (1, 2)]
    con = timeline_of([row for log in logs for row in log.rows])
    assert one(con, "select count(distinct log_id) from file") == (2,)


def test_steps_that_do_not_go_on_are_not_of_the_log_before() -> None:
    first = part("x.out.1", START, 1, 40, begins=True)
    other = part("x.out", START + HOUR, 20, 90)
    assert len(runs_of(first, other)) == 2


def test_parts_without_any_time_are_ordered_by_their_names() -> None:
    logs = [TrainLog("x.out.2"), TrainLog("x.out.1"), TrainLog("x.out")]
    for n, log in enumerate(logs):
        for step in range(n * 20 + 1, n * 20 + 21):
            log.event("step", step_to=step, step_ms=1000.0, total_steps=60)
    assert [row[2] for row in runs_of(*logs)] == [60]


def test_places_name_the_file_in_which_a_line_stands(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "x.out.1").write_text(BANNER + "".join(map(step_line, range(1, 21))))
    (logs / "x.out").write_text("".join(map(step_line, range(21, 41))))
    read(logs, into=tmp_path / "lake")
    timeline.rebuild(tmp_path / "lake")
    con = database.connect(tmp_path / "lake")
    rows = con.sql(
        "select f.path, e.line, e.byte_offset, e.seq, e.step_to from train_event as e "
        "join file as f using (file_id) where kind = 'step' order by step_to"
    ).fetchall()
    assert len(rows) == 40
    for path, line, byte_offset, seq, step in rows:
        raw = Path(path).read_bytes()
        assert seq == byte_offset
        assert raw[:byte_offset].count(b"\n") == line - 1
        assert f"iteration {step:8d}/".encode() in raw[byte_offset:].split(b"\n", 1)[0]
    parts = con.sql("select path, part_no, log_id from file order by part_no").fetchall()
    assert [Path(path).name for path, *_ in parts] == ["x.out.1", "x.out"]
    assert parts[0][2] == parts[1][2]
    assert con.sql("select file_id from launch").fetchall() == [(parts[0][2],)]


def test_run_of_a_rotated_log_is_called_as_the_log_was(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "x.out.2").write_text(BANNER + "".join(map(step_line, range(1, 21))))
    (logs / "x.out.1").write_text("".join(map(step_line, range(21, 41))))
    read(logs, into=tmp_path / "lake")
    timeline.rebuild(tmp_path / "lake")
    assert database.connect(tmp_path / "lake").sql("select name from run").fetchall() == [
        ("x.out",)
    ]
