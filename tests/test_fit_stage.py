"""The fit tables of a lake: what they hold, that they are written once, and that truth is found."""

from __future__ import annotations

import json
import math
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline import database, fit_stage, timeline
from pipeline.cli import main
from pipeline.errors import LakeError
from pipeline.exposure import observe
from pipeline.ingest import ingest
from pipeline.rates import poisson_rate
from pipeline.recurrence import Dispersion
from pipeline.resources import samples_dir
from pipeline.schema import FIT_TABLES
from tests.test_exposure import made


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    lake = tmp_path_factory.mktemp("samples") / "lake"
    ingest([str(samples_dir() / "logs")], lake)
    timeline.rebuild(lake)
    return lake


@pytest.fixture
def lake(samples, tmp_path):
    return shutil.copytree(samples, tmp_path / "lake", symlinks=True)


def fleet(seed: int, n_runs: int = 30, nodes: int = 16):
    """Runs of 16 nodes that fail by two causes at rates per job hour of 0.1 and 0.03."""
    rng = np.random.default_rng(seed)
    stretches, incidents = [], []
    for run in range(n_runs):
        for launch in range(1, 9):
            bus, link = 3600 * rng.exponential([1 / 0.1, 1 / 0.03])
            up, kind = min((bus, "gpu.bus"), (link, "network.link"), (8 * 3600.0, None))
            stretches.append((f"r{run:02d}", launch, up, nodes, kind))
            if kind:
                incidents.append((f"r{run:02d}", launch, kind, "fail_stop", up))
    return made(stretches, incidents)


def test_rates_of_the_samples_are_events_per_hour_at_risk(lake):
    found = fit_stage.publish(lake, 0, 19)
    rows = {(r["type"], r["mode"]): r for r in found.rates}
    assert [(k, r["n_events"], r["exposure_unit"]) for k, r in rows.items()] == [
        (("all", "fail_stop"), 2, "job_hour"), (("gpu.bus", "fail_stop"), 1, "gpu_hour"),
        (("unattributed", "fail_slow"), 1, "job_hour"),
        (("unattributed", "fail_stop"), 1, "job_hour"),
    ]  # fmt: skip
    total = rows["all", "fail_stop"]
    assert total["rate_per_khour"] == pytest.approx(1000 * 2 / (6150 / 3600))
    assert total["mtbf_s"] == pytest.approx(3075)
    exact = poisson_rate(2, 6150 / 3600)
    assert (total["ci_low"], total["ci_high"]) == pytest.approx(
        (1000 * exact.low, 1000 * exact.high)
    )
    assert rows["gpu.bus", "fail_stop"]["mtbf_s"] == pytest.approx(5540 * 32 + 610 * 8)


def test_tables_on_disk_are_those_of_the_schema(lake):
    fit_stage.publish(lake, 3, 19)
    for table in FIT_TABLES:
        assert pq.read_schema(lake / "timeline" / f"{table.name}.parquet") == table.schema
    con = database.connect(lake)
    law = con.execute(
        """
        select law, parameters['mean'], n_events, n_censored, is_chosen, converged, seed
        from distribution_fit where type = 'all' and quantity = 'gap'
        """
    ).fetchall()
    assert law == [("exponential", 3075.0, 2, 2, True, True, 3)]
    nodes = con.execute("select node, n_events from node_rate order by 2 desc, 1").fetchall()
    assert nodes[0] == ("node003", 1)
    assert len(nodes) == 5


def test_fits_are_made_once_for_a_timeline_and_again_for_a_new_one(lake):
    fit_stage.refresh(lake)
    path = lake / "timeline" / "failure_rate.parquet"
    first = path.stat().st_mtime_ns
    fit_stage.refresh(lake)
    assert path.stat().st_mtime_ns == first
    timeline.rebuild(lake)
    assert not path.exists()
    assert database.connect(lake).execute("select count(*) from failure_rate").fetchone() == (0,)
    fit_stage.refresh(lake)
    assert path.exists()


def test_lake_without_a_timeline_is_refused(tmp_path):
    (tmp_path / "lake").mkdir()
    with pytest.raises(LakeError, match="wallsplit split"):
        fit_stage.publish(tmp_path / "lake", 0, 0)


def test_true_rates_are_found_in_their_intervals():
    """12 fleets: the rate per job hour of all, 0.13, is covered in 95 %, 3 standard errors."""
    hits = 0
    for seed in range(12):
        found = fit_stage.fit_lake(fleet(seed, 3), 0, 0)
        rows = {r["type"]: r for r in found.rates}
        hits += rows["all"]["ci_low"] <= 130 <= rows["all"]["ci_high"]
        assert rows["all"]["n_events"] == sum(rows[k]["n_events"] for k in rows if k != "all")
        # the same exposure for every cause, so that causes sum to the total
        assert len({r["job_hours"] for r in found.rates}) == 1
    assert hits >= 9


def test_laws_of_competing_causes_are_those_that_drew_them():
    found = fit_stage.fit_lake(fleet(1), 0, 99)
    chosen = {(f.type, f.quantity): f for f in found.fits}
    for kind, rate in (("gpu.bus", 0.1), ("network.link", 0.03)):
        gap = chosen[kind, "gap"]
        assert gap.chosen == "exponential"
        low, high = gap.laws[0].fitted.intervals["mean"]
        assert low <= 3600 / rate <= high
        assert gap.laws[0].goodness.p > 0.01


def test_trend_leaves_no_law_chosen_and_gives_the_rate_at_the_end():
    """One run whose launches fail sooner and sooner."""
    gaps = 3600 * np.geomspace(20, 0.5, 30)
    stretches = [("a", n, up, 4, "gpu.bus") for n, up in enumerate(gaps, 1)]
    incidents = [("a", n, "gpu.bus", "fail_stop", up) for n, up in enumerate(gaps, 1)]
    observed = made(stretches, incidents)
    observed.pieces["start_us"] = 1e6 * np.concatenate([[0], np.cumsum(gaps)[:-1]])
    observed.pieces["end_us"] = 1e6 * np.cumsum(gaps)
    observed.incidents["failed_us"] = 1e6 * np.cumsum(gaps)
    found = fit_stage.fit_lake(observed, 0, 0)
    row = next(r for r in found.rates if r["type"] == "gpu.bus")
    assert row["trend"] == "worsening"
    assert row["end_rate_per_khour"] > 1.5 * row["rate_per_khour"]
    gap = next(f for f in found.fits if (f.type, f.quantity) == ("gpu.bus", "gap"))
    assert gap.chosen is None


def test_trends_that_many_types_explain_are_not_claimed():
    rows = [{"type": f"t{i}", "trend": "none", "trend_p": 0.5, "end_rate_per_khour": None}
            for i in range(30)]  # fmt: skip
    rows += [{"type": "by chance", "trend": "improving", "trend_p": 0.02,
              "end_rate_per_khour": 1.0},
             {"type": "clear", "trend": "worsening", "trend_p": 1e-5,
              "end_rate_per_khour": 2.0}]  # fmt: skip
    kept = {r["type"]: (r["trend"], r["end_rate_per_khour"]) for r in fit_stage._confirmed(rows)}
    assert kept["by chance"] == ("none", None)
    assert kept["clear"] == ("worsening", 2.0)


def test_bursts_widen_the_interval_on_the_scale_of_the_logarithm():
    rate = poisson_rate(40, 1000)
    wide = fit_stage.widened(rate, Dispersion(4.0, 1e-6, 20, is_overdispersed=True))
    assert math.log(wide.high / rate.rate) == pytest.approx(2 * math.log(rate.high / rate.rate))
    assert wide.low > 0
    assert "widened 2.00 times for bursts" in wide.method
    assert fit_stage.widened(rate, Dispersion(4.0, None, 5, is_overdispersed=None)) == rate


def test_sizes_that_do_not_scale_are_noted():
    """arXiv 2410.21680: large jobs fail at the rate per node, small ones several times as often."""
    notes = fit_stage._size_notes({1: (30, 1_000.0), 512: (300, 100.0)})
    assert "do not grow in proportion to nodes" in notes[0]
    assert "jobs of 1 nodes fail every 33.3 h, not every 158 h" in notes[1]
    assert fit_stage._size_notes({8: (4, 100.0)}) == []
    assert fit_stage._size_notes({1: (1, 1_000.0), 512: (51, 100.0)}) == []


def test_command_prints_rates_then_fits(lake, capsys):
    assert main(["fit", "--lake", str(lake), "--gof-replicates", "9"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("type          mode       n_events")
    assert "gpu.bus gap: 1 event, 3 censored, 6150 at risk [s]" in text
    assert main(["fit", "--lake", str(lake), "--gof-replicates", "9", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    gap = next(f for f in found if (f["type"], f["quantity"]) == ("gpu.bus", "gap"))
    assert (gap["unit"], gap["n_events"], gap["chosen"]) == ("s", 1, "exponential")
    assert gap["failure_rate"]["exposure_unit"] == "gpu_hour"
    assert next(f for f in found if f["quantity"] == "recovery")["failure_rate"] is None


def test_report_holds_rates_and_fits_unless_it_is_of_a_part(lake, capsys):
    fit_stage.publish(lake, 0, 9)
    assert main(["report", "--lake", str(lake), "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [(r["type"], r["n_events"]) for r in report["failure_rates"]] == [
        ("all", 2), ("gpu.bus", 1), ("unattributed", 1), ("unattributed", 1),
    ]  # fmt: skip
    assert report["fits"][0]["parameters"] == {"mean": 3075.0}
    assert main(["report", "--lake", str(lake), "--format", "json", "--run", "pretrain-7b"]) == 0
    part = json.loads(capsys.readouterr().out)
    assert (part["failure_rates"], part["fits"]) == ([], [])


def test_lake_or_file_is_needed_and_not_both(lake, capsys):
    assert main(["fit"]) == 2
    assert main(["fit", "gaps.csv", "--lake", str(lake)]) == 2
    assert "either a CSV file or --lake" in capsys.readouterr().err


def test_lake_where_nothing_was_up_says_so(tmp_path, capsys):
    log = tmp_path / "notes.log"
    log.write_text("nothing here\n")
    lake = tmp_path / "lake"
    ingest([str(log)], lake)
    assert main(["fit", "--lake", str(lake)]) == 0
    assert "nothing was up" in capsys.readouterr().out
    timeline.rebuild(lake)
    assert observe(database.connect(lake)).causes == []
