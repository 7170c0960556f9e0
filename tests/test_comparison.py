"""Two runs, clusters or windows side by side."""

from __future__ import annotations

import json
import re

import pytest

from pipeline.cli import main
from pipeline.errors import UsageError
from pipeline.report.comparison import chosen, compare_from, to_markdown
from pipeline.report.model import Choice
from tests.report_tables import HOSTILE, Tables, at, connection, split_tables


def tables() -> Tables:
    """The run of `split_tables`, and a copy of it on another cluster that lost half as much."""
    made = split_tables()
    made["run"] = made["run"][:1]
    run = made["run"][0]
    made["run"].append({**run, "run_id": "r9", "name": "better", "cluster": "d", "wall_s": 750.0,
                        "start_at": at(9000), "end_at": at(9750), "tor_observed": 2 / 3,
                        "tor_low": 2 / 3, "tor_high": 0.7, "reference_step_s": 0.25,
                        "steps_lost": 0, "n_incidents": 0})  # fmt: skip
    segments = [s for s in made["segment"] if s["run_id"] == "r1"]
    made["segment"] = segments + [
        {**s, "segment_id": f"{s['segment_id']}b", "run_id": "r9"}
        for s in segments
        if s["incident_id"] is None
    ]
    made["segment"][-1]["duration_s"] = 30.0  # unexplained
    made["loss"] += [
        {"run_id": "r9", "cause": cause, "seconds": seconds, "share": seconds / 750,
         "gpu_hours": seconds * 8 / 3600}
        for cause, seconds in (("slow", 100.0), ("startup", 100.0), ("checkpoint", 20.0),
                               ("unexplained", 30.0))
    ]  # fmt: skip
    return made


def rows(text: str, title: str) -> dict[str, list[str]]:
    (found,) = re.findall(rf"{title}\n\n(.*?)(?=\n\n|\Z)", text, re.DOTALL)
    lines = [[c.strip() for c in line.strip("|").split("|")] for line in found.splitlines()[2:]]
    return {line[0]: line[1:] for line in lines}


def test_figures_stand_side_by_side_with_their_change():
    text = to_markdown(compare_from(connection(tables()), "llama", "better"))
    assert rows(text, "# `llama` and `better`") == {
        "TOR": ["0.500\N{EN DASH}0.550", "0.667\N{EN DASH}0.700", "+0.167"],
        "wall clock": ["16 min 40 s", "12 min 30 s", "x 0.75"],
        "lost": ["8 min 20 s", "4 min 10 s", "x 0.50"],
        "GPU-hours lost": ["1.11", "0.56", "x 0.50"],
        "reference step": ["333.3 ms", "250 ms", "x 0.75"],
        "GPUs": ["8", "8", "x 1.00"],
        "steps kept": ["1,500", "1,500", "x 1.00"],
        "steps rolled back": ["240", "0", "x 0.00"],
        "checkpoints": ["1", "0", "x 0.00"],
        "attempts": ["2", "2", "x 1.00"],
        "launches": ["2", "2", "x 1.00"],
        "incidents": ["1", "0", "x 0.00"],
    }


def test_each_use_has_seconds_and_share_and_incidents_stand_by_type():
    text = to_markdown(compare_from(connection(tables()), "r1", "r9"))
    uses = rows(text, "## Where the time went")
    assert uses["Productive"] == ["500.0", "50.0%", "500.0", "66.7%", "+16.7 points"]
    assert uses["Slow steps"] == ["100.0", "10.0%", "100.0", "13.3%", "+3.3 points"]
    assert uses["Lost work"] == ["80.0", "8.0%", "0.0", "0.0%", "-8.0 points"]
    assert uses["Unexplained"] == ["50.0", "5.0%", "30.0", "4.0%", "-1.0 points"]
    assert "Planned stops" not in uses
    assert rows(text, "## Incidents") == {
        "GPU fell off the bus": ["gpu.bus", "1", "3 min 50 s", "0", "0 s"]}  # fmt: skip


def test_several_runs_are_summed_and_those_on_both_sides_are_told():
    found = compare_from(connection(tables()), "cluster:d", f"..{at(20_000).isoformat()}")
    assert found.a.run_ids == ["r9"]
    assert found.b.run_ids == ["r1", "r9"]
    assert (found.b.wall_s, found.b.steps_kept, found.b.reference_step_s) == (1750.0, 3000, None)
    assert found.b.tor_low == pytest.approx(1000 / 1750)
    text = to_markdown(found)
    assert "1 run stands on both sides: runs are counted whole." in text
    assert "| reference step | 250 ms |  |  |" in text


def test_a_run_without_tor_is_in_the_times_and_not_in_the_tor():
    made = tables()
    made["run"][1].update(tor_observed=None, tor_low=None, tor_high=None)
    text = to_markdown(compare_from(connection(made), "llama", "2026-01-01.."))
    assert "1 run of B without step times: in its times, not in its TOR." in text
    assert rows(text, r"# `llama` and `2026-01-01..` \(2 runs\)")["TOR"][2] == "0.000"


def test_a_gain_is_told_as_one():
    made = tables()
    made["segment"][3]["performance_ratio"] = 1.5
    text = to_markdown(compare_from(connection(made), "r1", "r9"))
    assert rows(text, "## Where the time went")["Slow steps (below 0: a gain)"][:2] == [
        "-100.0", "-10.0%"]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("llama", Choice(run="llama")),
        ("cluster:c", Choice(cluster="c")),
        ("2026-02-01..", Choice(since=at(0))),
        ("..2026-02-01T00:01", Choice(until=at(60))),
        ("2026-02-01..2026-02-01T01:01+01:00", Choice(since=at(0), until=at(60))),
    ],
)
def test_a_side_is_a_run_a_cluster_or_a_window(text, choice):
    assert chosen(text) == choice


@pytest.mark.parametrize(
    ("side", "why"),
    [("x..y", "is no window"), ("cluster:none", "no runs\nno run fits"),
     ("nothing", "no run 'nothing'"), ("2030-01-01..", "no runs\nno run fits")],
)  # fmt: skip
def test_a_side_without_runs_is_refused(side, why):
    with pytest.raises(UsageError, match=why):
        compare_from(connection(tables()), "llama", side)


def test_names_are_data():
    made = tables()
    made["run"][0]["name"] = HOSTILE
    made["incident"][0]["type"] = HOSTILE
    text = to_markdown(compare_from(connection(made), HOSTILE, "r9"))
    assert all(c.isprintable() or c == "\n" for c in text)
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text.replace("\\`", ""))
    assert "<script" not in outside.replace("\\<", "")


def test_command_prints_markdown_or_json(tmp_path, capsys):
    assert main(["demo", "--out", str(tmp_path / "demo")]) == 0
    args = ["compare", "--lake", str(tmp_path / "demo" / "lake"), "pretrain-7b", "finetune-1b"]
    capsys.readouterr()
    assert main(args) == 0
    assert "| TOR | 0.538 | 0.870 | +0.331 |" in capsys.readouterr().out
    assert main([*args, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["a"]["segments_s"]["recovery"] == 2890.0
    assert found["a"]["incidents"] == {"gpu.bus": 1, "unattributed": 2}
    assert found["b"]["reference_step_s"] == 3.0
    assert main([*args[:-1], "nothing"]) == 2
