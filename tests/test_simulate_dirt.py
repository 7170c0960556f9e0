"""Each knob spoils the logs in its one way and leaves the truth as it is."""

from __future__ import annotations

import itertools
import re

import pytest

from pipeline.cli import main
from pipeline.errors import UsageError
from pipeline.simulate import dirt, output
from pipeline.simulate.dirt import MEANINGS, Knob
from pipeline.simulate.engine import simulate
from tests.simulated_cases import scenario_of

SEED = 4  # five jobs, four failures


def written(folder, *knobs, case="crashes"):
    """(bytes by file name, bytes of the truth) of a story with these knobs."""
    scenario = dirt.prepared(scenario_of(case), knobs)
    files = output.write(simulate(scenario, SEED), folder, knobs)
    truth = {p.name: p.read_bytes() for p in (folder / "truth").iterdir()}
    return {str(p.relative_to(folder / "logs")): p.read_bytes() for p in files}, truth


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    return written(tmp_path_factory.mktemp("clean"))


@pytest.mark.parametrize("knob", [k for k in Knob if k is not Knob.DST_CHANGE])
def test_a_knob_changes_logs_and_not_the_truth(knob, clean, tmp_path):
    logs, truth = written(tmp_path, knob)
    assert logs != clean[0]
    assert truth == clean[1]


def test_every_knob_is_explained():
    assert set(MEANINGS) == set(Knob)


def test_unknown_knobs_are_refused_by_name():
    with pytest.raises(UsageError, match=r"'rust'.*known: dst_change"):
        dirt.knobs_named(["buffered", "rust"])


def test_clocks_go_back_in_the_middle_of_the_story(tmp_path):
    logs, _ = written(tmp_path, Knob.DST_CHANGE)
    sacct = logs["sacct.txt"].decode()
    assert not re.search(r"T\d\d:\d\d:\d\d[+-]", sacct)
    seen = "".join(text.decode() for name, text in logs.items() if name.startswith("slurm"))
    minutes = re.findall(r"2025-10-26 (\d\d:\d\d):\d\d\.\d+\] iteration", seen)
    falls = [(a, b) for a, b in itertools.pairwise(minutes) if b < a]
    assert falls == [("02:59", "02:00")]


def test_no_step_line_keeps_a_stamp(clean, tmp_path):
    logs, _ = written(tmp_path, Knob.NO_TIMESTAMPS)
    steps = [x for t in logs.values() for x in t.decode().splitlines() if " iteration " in x]
    assert steps
    assert not [x for x in steps if re.search(r"\d\d:\d\d:\d\d", x)]


def test_what_was_buffered_at_a_failure_is_lost_and_at_a_clean_end_is_not(clean, tmp_path):
    logs, _ = written(tmp_path, Knob.BUFFERED)
    n_lost = 0
    for name, text in clean[0].items():
        if name.startswith("slurm"):
            lines, kept = text.decode().splitlines(), logs[name].decode().splitlines()
            assert set(kept) <= set(lines)
            n_lost += len(lines) - len(kept)
    assert n_lost > 0
    last = max(clean[0], key=lambda n: n if n.startswith("slurm") else "")
    assert logs[last].decode().splitlines()[-1] == clean[0][last].decode().splitlines()[-1]


def test_bad_bytes_are_no_text(tmp_path):
    logs, _ = written(tmp_path, Knob.BAD_BYTES)
    assert any(b"\xff\xfe" in t for t in logs.values())
    assert any(bytes(64) in t for t in logs.values())


def test_the_cut_log_ends_inside_a_line(clean, tmp_path):
    logs, _ = written(tmp_path, Knob.TRUNCATED)
    cut = [n for n in logs if logs[n] != clean[0][n]]
    assert len(cut) == 1
    assert clean[0][cut[0]].startswith(logs[cut[0]])
    assert not logs[cut[0]].endswith(b"\n")


def test_an_old_job_of_somebody_else_bears_the_first_id(clean, tmp_path):
    logs, _ = written(tmp_path, Knob.RECYCLED_JOB_ID)
    added = set(logs["sacct.txt"].decode().splitlines()) - set(
        clean[0]["sacct.txt"].decode().splitlines()
    )
    assert len(added) == 4
    assert all("2024-" in row and "2026-" not in row for row in added)
    assert sum("|somebody|" in row for row in added) == 1


def test_labels_stand_before_what_a_rank_begins_to_write(tmp_path):
    logs, _ = written(tmp_path, Knob.INTERLEAVED_RANKS, case="torchtitan")
    text = next(t for n, t in logs.items() if n.startswith("slurm")).decode()
    steps = [line for line in text.splitlines() if "  loss: " in line]
    assert steps
    assert all(line.startswith("[rank0]:[titan] ") for line in steps)


def test_the_command_writes_a_story_and_says_what_happened(tmp_path, capsys):
    out = tmp_path / "story"
    arguments = ["simulate", "tiny", "--seed", "1", "--days", "0.05", "--out", str(out),
                 "--dirt", "bad_bytes", "truncated"]  # fmt: skip
    assert main(arguments) == 0
    assert re.search(r"pretrain: TOR 0\.\d{4}, 1\.\d h, \d+ attempts", capsys.readouterr().out)
    assert {p.name for p in out.iterdir()} == {"logs", "truth", "wallsplit.toml"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nosuch"], "presets: bloom, demo"),
        (["tiny", "--nodes", "0"], "--nodes: 0"),
        (["tiny", "--days", "-1"], "--days: -1"),
        (["tiny", "--seed", "-1"], "--seed: -1"),
        (["tiny", "--dirt", "mud"], "no knob 'mud'"),
    ],
)
def test_wrong_arguments_are_usage_errors(arguments, message, tmp_path, capsys):
    assert main(["simulate", *arguments, "--out", str(tmp_path / "x")]) == 2
    assert message in capsys.readouterr().err
