"""The packaged samples, from raw logs to the answer that their story implies."""

from __future__ import annotations

import json

import pytest

from pipeline import database, timeline
from pipeline.ingest import ingest
from pipeline.resources import samples_dir
from tests import make_samples
from tests.histories import one

CATEGORIES = (
    "productive slow lost_recompute checkpoint recovery startup planned uncommitted unexplained"
).split()


@pytest.fixture(scope="module")
def con(tmp_path_factory):
    lake = tmp_path_factory.mktemp("lake")
    ingest([str(samples_dir() / "logs")], lake)
    timeline.rebuild(lake)
    assert timeline.check(lake) == []
    return database.connect(lake)


def test_committed_samples_are_what_the_story_writes():
    for name, text in make_samples.files().items():
        assert (samples_dir() / name).read_text() == text, name


@pytest.mark.parametrize("name", ["pretrain-7b", "finetune-1b"])
def test_every_second_of_the_story_is_found(con, name):
    wanted = json.loads((samples_dir() / "expected.json").read_text())["runs"][name]
    run_id, *found = con.execute(
        """
        select run_id, wall_s, tor_observed, queue_s, n_attempts, steps_kept, steps_lost,
            reference_step_s, tor_high
        from run where name = $name
        """,
        {"name": name},
    ).fetchone()
    assert found == pytest.approx(
        [wanted[k] for k in ("wall_s", "tor_observed", "queue_s", "n_attempts", "steps_kept",
                             "steps_lost", "reference_step_s", "tor_observed")],
        abs=1e-9,
    )  # fmt: skip
    seconds = dict(con.execute(
        """
        select category, sum(duration_s * case when category = 'productive'
            then performance_ratio else 1 end)
        from segment where run_id = $id group by all
        union all
        select 'slow', sum(duration_s * (1 - performance_ratio))
        from segment where run_id = $id and category = 'productive'
        """,
        {"id": run_id},
    ).fetchall())  # fmt: skip
    assert {c: seconds.get(c, 0) for c in CATEGORIES} == pytest.approx(wanted["segments_s"])
    incidents = con.execute(
        """
        select type, mode, nodes, gpus, lost_steps, lost_s, recovery_s, slow_s, confidence
        from incident where run_id = $id order by onset_at
        """,
        {"id": run_id},
    ).fetchall()
    names = ("type", "mode", "nodes", "gpus", "lost_steps", "lost_s", "recovery_s", "slow_s",
             "confidence")  # fmt: skip
    assert len(incidents) == len(wanted["incidents"])
    for row, incident in zip(incidents, wanted["incidents"], strict=True):
        seen = dict(zip(names, row, strict=True))
        assert {k: seen[k] for k in incident} == incident


def test_there_are_two_runs_and_nothing_else(con):
    assert one(con, "select count(*) from run") == (2,)
    assert one(con, "select sum(n_rejects), count(*) from file") == (0, 6)
