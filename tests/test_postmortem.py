"""Post-mortems: the order of things, who was first, rivals of the root, cost, and what to check."""

from __future__ import annotations

import re
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest

from parsers.fault_words import Component
from pipeline.cli import main
from pipeline.errors import UsageError
from pipeline.report.postmortem import checks, postmortem, postmortem_from
from tests.report_tables import HOSTILE, Tables, at, connection, split_tables

# what speaks of the incident i1: signature, component, role, priority, second, node, rank
SIGNS = [
    ("gpu.xid79", "gpu.bus", "root", 10, 722, "node7", None),
    ("ib.mlx5_link_down", "network.link", "root", 20, 724, "node7", None),
    ("nccl.ib_completion_err", "network.path", "either", 5, 721, "node3", 12),
    ("nccl.ib_completion_err", "network.path", "either", 5, 730, "node4", 16),
    ("torch.watchdog_timeout", "comm.hang", "either", 1, 760, "node3", 12),
    ("elastic.child_failed", "process.exit", "symptom", 50, 770, None, None),
    ("slurm.task_exit", "process.exit", "symptom", 50, None, None, None),
]


def tables(name: str = "llama") -> Tables:
    """The run of `split_tables`, whose incident cost 80 s of steps and 150 s of recovery."""
    made = split_tables(name=name)
    place = {"file_id": "f2", "byte_offset": 0}
    made["incident"][0].update(
        detected_at=at(721), ended_at=at(800), resumed_at=at(950), n_evidence=7, nodes=["node7"]
    )
    made["incident_evidence"] = [
        {"incident_id": "i1", "signature_id": signature, "role": role, "is_root": n == 0,
         "occurred_at": None if second is None else at(second), "node": node, "rank": rank,
         "count": 1, "message": f"line of {signature}", "line": 10 + n, "seq": 100 * n, **place}
        for n, (signature, _, role, _, second, node, rank) in enumerate(SIGNS)
    ]  # fmt: skip
    made["fault_event"] = [
        {"signature_id": signature, "component": component, "role": role, "priority": priority,
         "mode": "hang" if component == "comm.hang" else "fail_stop", "domain": "infrastructure",
         "line": 10 + n, "seq": 100 * n, **place}
        for n, (signature, component, role, priority, *_) in enumerate(SIGNS)
    ]  # fmt: skip
    return made


def chapter(text: str, title: str) -> list[str]:
    """The lines below a heading that begins so, up to the next heading."""
    (found,) = re.findall(rf"^#+ {title}.*?\n\n(.*?)(?=\n#|\Z)", text, re.DOTALL | re.MULTILINE)
    return [line for line in found.splitlines() if line]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def test_things_stand_in_the_order_of_time_with_who_and_where():
    text = postmortem_from(connection(tables()), "r1")
    rows = [cells(line) for line in chapter(text, "What happened, in order")[2:]]
    assert [(row[1], row[2], row[4]) for row in rows] == [
        ("0 s", "", ""),  # onset
        ("+1.00 s", "", ""),  # detected
        ("+1.00 s", "node3, rank 12", "`/logs/b.gz:12`"),
        ("+2.00 s", "node7", "`/logs/b.gz:10`"),
        ("+4.00 s", "node7", "`/logs/b.gz:11`"),
        ("+10.0 s", "node4, rank 16", "`/logs/b.gz:13`"),
        ("+40.0 s", "node3, rank 12", "`/logs/b.gz:14`"),
        ("+50.0 s", "", "`/logs/b.gz:15`"),
        ("+1 min 20 s", "", ""),  # end of the process start
        ("+3 min 50 s", "", ""),  # resumed
        ("", "", "`/logs/b.gz:16`"),  # a line without a time
    ]
    assert rows[3][3] == "**root** `line of gpu.xid79`"
    assert rows[2][3] == "cause or symptom `line of nccl.ib_completion_err`"
    times = [row[0] for row in rows[:-1]]
    assert all(a <= b for a, b in pairwise(times))
    assert rows[-1][0] == "no time"


def test_what_only_slows_ranks_behind_what_stops():
    made = tables()
    made["fault_event"][1]["mode"] = "fail_slow"
    rows = chapter(postmortem_from(connection(made), "r1"), "What else could be the cause")[2:]
    assert [cells(row)[1] for row in rows] == [
        "`nccl.ib_completion_err`", "`ib.mlx5_link_down`", "`torch.watchdog_timeout`"]  # fmt: skip
    assert cells(rows[1])[5] == "slows or warns, stops nothing"


def test_every_attempt_that_a_chain_of_retries_ended_is_named():
    made = tables()
    made["incident"][0]["n_attempts"] = 2
    made["attempt"][0].update(end_at=at(800), state="FAILED")
    made["attempt"][1].update(start_at=at(820), end_at=at(860), state="NODE_FAIL")
    made["launch"].append({**made["launch"][0], "launch_no": 2, "start_at": at(830)})
    text = postmortem_from(connection(made), "r1")
    assert "struck attempt 1 (job `1`) and 1 more attempt." in text
    told = [cells(line)[1:4:2] for line in chapter(text, "What happened, in order")[2:]]
    assert [row for row in told if "attempt" in row[1] or "launch" in row[1]] == [
        ["+1 min 20 s", "*attempt 1 ended: FAILED*"], ["+1 min 50 s", "*launch 2 started*"],
        ["+2 min 20 s", "*attempt 2 ended: NODE\\_FAIL*"]]  # fmt: skip


def test_the_first_to_speak_are_named_with_their_lead():
    lines = chapter(postmortem_from(connection(tables()), "r1"), "Who was first")
    assert lines[:3] == [
        "- `node3`, rank 12: 2026-02-01 00:12:01 UTC, first, 2 lines",
        "- `node7`: 2026-02-01 00:12:02 UTC, +1.00 s, 2 lines",
        "- `node4`, rank 16: 2026-02-01 00:12:10 UTC, +9.00 s, 1 line",
    ]
    assert "Clocks of nodes may differ" in lines[-1]


def test_rivals_of_the_root_stand_in_the_order_in_which_a_root_is_chosen():
    rows = chapter(postmortem_from(connection(tables()), "r1"), "What else could be the cause")[2:]
    assert [cells(row)[1:3] for row in rows] == [
        ["`ib.mlx5_link_down`", "1"], ["`nccl.ib_completion_err`", "2"],
        ["`torch.watchdog_timeout`", "1"]]  # fmt: skip
    assert [cells(row)[5] for row in rows] == [
        "explains less, or came later", "may be a symptom of the root",
        "such lines are never a cause, only a hint"]  # fmt: skip
    assert cells(rows[1])[4] == "`node3`, `node4`"


def test_the_cost_sums_over_its_phases():
    rows = [cells(line) for line in chapter(postmortem_from(connection(tables()), "r1"), "Cost")]
    assert rows[2:5] == [
        ["Lost work", "Train", "1 min 20 s"], ["Recovery", "Detection", "2 min 30 s"],
        ["**together**", "", "**3 min 50 s**"]]  # fmt: skip
    assert rows[5] == ["240 steps to do again, 0.50 GPU-hours held meanwhile."]


def test_what_to_check_next_names_the_suspects():
    lines = chapter(postmortem_from(connection(tables()), "r1"), "What to check next")
    assert any("PCIe, power and temperature of the GPU on `node7`" in line for line in lines)


@pytest.mark.parametrize("component", [*Component, "unattributed", "something.new"])
def test_every_type_of_incident_has_something_to_check(component):
    assert checks(str(component), "fail_stop")
    assert all(check.strip() == check and check for check in checks(str(component), "hang"))


def test_keys_of_the_checks_are_types_or_their_first_parts():
    import pipeline.report

    path = Path(pipeline.report.__file__).with_name("checks.toml")
    known = {str(c) for c in Component} | {str(c).partition(".")[0] for c in Component}
    assert set(tomllib.loads(path.read_text())) <= known | {"unattributed"}


def test_an_unexplained_hang_is_looked_at_like_a_collective():
    assert checks("unattributed", "hang") == checks("comm.hang", "hang")
    assert checks("unattributed", "fail_stop") != checks("unattributed", "hang")


def test_one_incident_can_be_chosen_by_number_or_id():
    con = connection(tables())
    whole = postmortem_from(con, "llama")
    assert "## Run `llama`" in whole
    for wanted in ("1", "i1", "incident:i1"):
        one = postmortem_from(con, "r1", wanted)
        assert "## Incident 1: GPU fell off the bus" in one
        assert "## Run" not in one
    with pytest.raises(UsageError, match=r"no incident '2' in r1; .*\n1: i1 \(gpu.bus\)"):
        postmortem_from(con, "r1", "2")


def test_a_name_of_several_runs_is_refused_with_their_ids():
    made = tables()
    made["run"][1]["name"] = "llama"
    with pytest.raises(UsageError, match=r"llama is the name of 2 runs(.|\n)*r1, (.|\n)*r2, "):
        postmortem_from(connection(made), "llama")


def test_a_run_without_incidents_says_so():
    text = postmortem_from(connection(tables()), "r2")
    assert "No incident: no launch ended in a failure that the logs show." in text
    assert "What happened" not in text


def test_log_text_stays_text():
    made = tables(name=HOSTILE)
    made["incident"][0].update(type=HOSTILE, nodes=[HOSTILE], gpus=[HOSTILE])
    for row in made["incident_evidence"]:
        row.update(message=HOSTILE, node=HOSTILE)
    made["fault_event"][1]["component"] = HOSTILE
    made["attempt"][0].update(state=HOSTILE, job_id=HOSTILE, end_at=at(800))
    text = postmortem_from(connection(made), "r1")
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text.replace("\\`", ""))
    assert "<script" not in outside.replace("\\<", "")
    assert all(c.isprintable() or c == "\n" for c in text)
    n_columns = {line.count(" | ") for line in chapter(text, "What happened, in order")[2:]}
    assert n_columns == {4}  # no text opens a column of its own


def test_command_prints_or_writes_the_same_text(tmp_path, capsys):
    assert main(["demo", "--out", str(tmp_path / "demo")]) == 0
    lake = tmp_path / "demo" / "lake"
    capsys.readouterr()
    assert main(["postmortem", "--lake", str(lake), "pretrain-7b"]) == 0
    printed = capsys.readouterr().out
    assert printed == postmortem(lake, "pretrain-7b")
    assert "**TOR 0.538**: 1 h 6 min of 2 h 23 min lost, 3 incidents." in printed
    out = tmp_path / "x.md"
    assert main(["postmortem", "--lake", str(lake), "pretrain-7b", "--out", str(out)]) == 0
    assert out.read_text() == printed
    assert main(["postmortem", "--lake", str(lake), "nothing"]) == 2
    assert "no run 'nothing'" in capsys.readouterr().err


def test_the_answer_of_the_demo_is_told(tmp_path):
    assert main(["demo", "--out", str(tmp_path / "demo")]) == 0
    text = postmortem(tmp_path / "demo" / "lake", "pretrain-7b", "1")
    rows = [cells(line) for line in chapter(text, "Cost")[2:]]
    # the story of the samples: 22 steps of 10 s, then 640 s until the next kept step
    assert rows[0] == ["Lost work", "Train", "3 min 40 s"]
    assert rows[7] == ["**together**", "", "**14 min 20 s**"]
    slow = postmortem(tmp_path / "demo" / "lake", "pretrain-7b", "3")
    assert "slowed attempt 3" in slow
    # 40 steps took twice the 10 s of the reference
    assert [cells(line) for line in chapter(slow, "Cost")[2:4]] == [
        ["Slow steps", "Train", "6 min 40 s"], ["**together**", "", "**6 min 40 s**"]]  # fmt: skip
    assert "the steps become slow" in slow
    first, second = chapter(text, "Who was first")[:2]
    assert first.startswith("- `node003`: 2026-02-03 08:37:29 UTC, first")
    assert "+36.9 s" in second
