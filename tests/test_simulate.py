"""A simulated history is told truly: it tiles, its lines are known, its settings are checked."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from parsers.faults import load_catalogue
from pipeline.errors import UsageError, WallsplitError
from pipeline.schema import INCIDENT, RUN, SEGMENT
from pipeline.simulate import output
from pipeline.simulate.engine import simulate
from pipeline.simulate.scenario import Scenario, load, parse, preset_names, resized
from pipeline.simulate.stories import load_stories
from pipeline.simulate.truth import truth_of

SMALL = {"title": "small", "cluster": {"nodes": 4, "days": 0.1}, "run": [{"name": "a", "nodes": 4}]}


def scenario(**parts) -> Scenario:
    return resized(parse({**SMALL, **parts}, "test"), None, None)


@pytest.mark.parametrize("preset", preset_names())
def test_truth_tiles_every_run_and_sums_to_one(preset, tmp_path):
    history = simulate(resized(load(preset), None, 0.3), seed=1)
    output.write(history, tmp_path)
    tables = {
        t.name: pq.read_table(tmp_path / "truth" / f"{t.name}.parquet")
        for t in (RUN, SEGMENT, INCIDENT)
    }
    for table in (RUN, SEGMENT, INCIDENT):
        assert tables[table.name].schema.equals(table.schema)
    runs = tables["run"].to_pylist()
    assert runs
    for run in runs:
        segments = [s for s in tables["segment"].to_pylist() if s["run_id"] == run["run_id"]]
        assert (segments[0]["start_at"], segments[-1]["end_at"]) == (run["start_at"], run["end_at"])
        for before, after in itertools.pairwise(segments):
            assert before["end_at"] == after["start_at"]
        kept_s = sum(s["performance_ratio"] * s["duration_s"] for s in segments)
        assert kept_s == pytest.approx(run["t_opt_s"])
        assert kept_s / run["wall_s"] == pytest.approx(run["tor_observed"])


def test_a_seed_gives_the_same_bytes_and_another_seed_others(tmp_path):
    def contents(seed, name):
        written = output.write(simulate(resized(load("tiny"), None, 0.1), seed), tmp_path / name)
        return {path.name: path.read_bytes() for path in written}

    assert contents(5, "one") == contents(5, "two")
    assert contents(5, "three") != contents(6, "four")


def test_the_catalogue_knows_the_root_line_of_every_story():
    catalogue = load_catalogue()
    fields = dict.fromkeys(("rank", "local_rank", "pid"), 3) | {
        "pci": "0000:1b:00", "node": "node001",
    }  # fmt: skip
    for story in load_stories().values():
        if story.signature is None:
            continue
        lines = [t.format_map(fields) for t in (*story.kernel, *story.culprit)]
        facts = [fact for line in lines if (fact := catalogue.match(line))]
        assert (story.signature, story.type) in [
            (f["signature_id"], f["component"]) for f in facts
        ], story.id


def test_every_mistake_of_a_scenario_is_told_at_once():
    with pytest.raises(UsageError) as error:
        parse(
            {
                "title": 3,
                "cluster": {"nodes": 0, "colour": "red"},
                "run": [{"name": "a", "nodes": 2, "steps": {"step_s": {"law": "normal"}}}],
                "failure": [{"story": "gpu_bus", "law": {"law": "weibull", "shape": -1}}],
            },
            "test",
        )
    for part in ("title: 3", "cluster.nodes: 0", "cluster.colour: unknown", "run[1].steps.step_s",
                 "failure[1].law: shape = -1", "failure[1].law: mean is missing"):  # fmt: skip
        assert f"test: {part}" in str(error.value), part


def test_contradictions_of_a_scenario_are_told():
    with pytest.raises(UsageError) as error:
        scenario(
            run=[
                {"name": "a", "nodes": 9, "logs": {"dialect": "morse"}},
                {"name": "a", "nodes": 1},
            ],
            failure=[{"story": "fire", "law": 3}],
            cluster={"nodes": 4, "timezone": "Mars/Base"},
        )  # fmt: skip
    for part in ("more nodes", "'morse'", "one name", "'fire'", "Mars/Base"):
        assert part in str(error.value), part


def test_a_folder_with_files_is_left_alone(tmp_path):
    (tmp_path / "mine").write_text("x")
    with pytest.raises(WallsplitError, match="not empty"):
        output.write(simulate(scenario(), 0), tmp_path)


def test_an_unharmed_run_loses_only_start_up_saves_and_shutdown():
    (truth,) = truth_of(simulate(scenario(), 0))
    categories = {p.category for p in truth.pieces}
    assert categories == {"startup", "productive", "checkpoint"}
    assert truth.history.attempts[0].state == "COMPLETED"


@pytest.mark.checkout
def test_the_scenario_of_the_page_runs(tmp_path):
    text = (Path(__file__).parents[1] / "docs" / "simulate.md").read_text()
    path = tmp_path / "mine.toml"
    path.write_text(re.findall(r"```toml\n(.*?)```", text, re.DOTALL)[0])
    (run,) = simulate(resized(load(str(path)), None, None), 0).runs
    assert run.spec.logs.dialect == "torchtitan"
