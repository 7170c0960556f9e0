"""Metrics beside TOR: the packaged samples by hand, and published figures."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from pipeline import database, metrics, timeline
from pipeline.cli import main
from pipeline.ingest import ingest
from pipeline.resources import samples_dir

START = datetime(2026, 2, 1, tzinfo=UTC)


def segments(*rows: tuple[str, str, float], run_id: str = "run-1", **more: object) -> pl.DataFrame:
    """Segments of (category, phase, seconds), one after the other."""
    at, found = START, []
    for category, phase, seconds in rows:
        end = at + timedelta(seconds=seconds)
        found.append({
            "run_id": run_id, "start_at": at, "end_at": end, "duration_s": float(seconds),
            "category": category, "phase": phase, "n_gpus": 8, "incident_id": None,
            "cause": None if category == "productive" else category,
            "performance_ratio": 1.0 if category == "productive" else 0.0,
        } | more)  # fmt: skip
        at = end
    return pl.DataFrame(found, schema_overrides={"incident_id": pl.String, "cause": pl.String})


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """The packaged samples, split."""
    path = tmp_path_factory.mktemp("lake")
    ingest([str(samples_dir() / "logs")], path)
    timeline.rebuild(path)
    return path


@pytest.fixture(scope="module")
def tables(lake):
    """Their timeline: segment, incident, run."""
    con = database.connect(lake)
    return {name: con.sql(f"from {name}").pl() for name in ("segment", "incident", "run")}


def of(tables: dict[str, pl.DataFrame], name: str) -> dict[str, pl.DataFrame]:
    run_id = tables["run"].filter(pl.col("name") == name)["run_id"].item()
    return {k: t.filter(pl.col("run_id") == run_id) for k, t in tables.items()}


def test_acceptance_a4_one_long_outage_shows_in_the_window():
    # 10 h with one outage of 50 min
    segment = segments(
        ("productive", "train", 4 * 3600), ("recovery", "detection", 3000),
        ("productive", "train", 6 * 3600 - 3000),
    )  # fmt: skip
    assert metrics.efficiency(segment)["ettr"].item() == pytest.approx(0.916667, abs=5e-7)
    lowest = metrics.lowest_window(segment)
    assert lowest["lowest_ettr"].item() == pytest.approx(1 / 6, abs=1e-9)
    end = lowest["lowest_at"].item()
    assert START + timedelta(hours=4, seconds=3000) <= end <= START + timedelta(hours=5)


def test_acceptance_a4_cost_of_an_incident_is_more_than_its_restart():
    # arXiv 2509.16293: 175 incidents in 90 days at 0.97
    cost = metrics.all_in_cost_s(0.97, 90 * 86400, 128 + 20 + 15 + 12)
    assert cost / 60 == pytest.approx(22.217, rel=1e-3)
    assert cost > 109  # the longest of the mean restarts
    # arXiv 2407.21783: more than 0.90 with 419 unexpected interruptions in 54 days
    assert metrics.all_in_cost_s(0.90, 54 * 86400, 419) / 60 == pytest.approx(18.56, abs=0.005)
    assert metrics.all_in_cost_s(0.90, 54 * 86400, 466) / 60 == pytest.approx(16.69, abs=0.005)


def test_window_of_a_run_that_is_shorter_is_unknown():
    lowest = metrics.lowest_window(segments(("productive", "train", 3599)))
    assert lowest.row(0) == ("run-1", None, None)
    whole = metrics.lowest_window(segments(("productive", "train", 3600)))
    assert whole["lowest_ettr"].item() == 1


def test_samples_have_the_ratios_of_their_story(tables):
    # productive and slow: 4,620 + 400 s of 8,585 s
    one = of(tables, "pretrain-7b")
    found = metrics.efficiency(one["segment"]).row(0, named=True)
    assert found["ettr"] == pytest.approx(5020 / 8585)
    assert found["mean_performance_ratio"] == pytest.approx(4620 / 5020)
    assert found["tor"] == pytest.approx(found["ettr"] * found["mean_performance_ratio"])
    every = metrics.efficiency(tables["segment"]).join(tables["run"], on="run_id")
    assert every["tor"].to_list() == pytest.approx(every["tor_observed"].to_list(), abs=1e-9)
    assert every["wall_s"].to_list() == pytest.approx(every["wall_s_right"].to_list())


def test_unknown_speed_leaves_the_ratio_unknown():
    unknown = segments(("productive", "train", 60), ("recovery", "detection", 40)).with_columns(
        performance_ratio=pl.when(pl.col("category") != "productive").then(0.0)
    )
    found = metrics.efficiency(unknown).row(0, named=True)
    assert (found["ettr"], found["tor"], found["mean_performance_ratio"]) == (0.6, None, None)
    nothing = metrics.efficiency(segments(("recovery", "detection", 40))).row(0, named=True)
    assert (nothing["ettr"], nothing["tor"], nothing["mean_performance_ratio"]) == (0, 0, None)


def test_samples_have_an_hour_without_progress(tables):
    lowest = metrics.lowest_window(of(tables, "pretrain-7b")["segment"])
    segment = of(tables, "pretrain-7b")["segment"].sort("start_at")
    assert 0 <= lowest["lowest_ettr"].item() < 5020 / 8585
    # the same, minute by minute
    begin, end = segment["start_at"].min(), segment["end_at"].max()
    ratios = []
    for minute in range(60, int((end - begin).total_seconds() // 60) + 1):
        until = begin + timedelta(minutes=minute)
        since = until - timedelta(hours=1)
        seconds = [
            (min(row["end_at"], until) - max(row["start_at"], since)).total_seconds()
            for row in segment.iter_rows(named=True) if row["category"] == "productive"
        ]  # fmt: skip
        ratios.append(sum(s for s in seconds if s > 0) / 3600)
    assert lowest["lowest_ettr"].item() <= min(ratios) + 1e-9
    assert lowest["lowest_ettr"].item() == pytest.approx(min(ratios), abs=60 / 3600)


def test_goodput_of_the_samples_adds_up(tables):
    found = metrics.goodput(of(tables, "pretrain-7b")["segment"])
    shares = dict(zip(found["badput_type"], found["share"], strict=True))
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["UNPRODUCTIVE_CHECKPOINT_SAVE_TIME"] == pytest.approx(180 / 8585)
    assert shares["WASTED_PROGRESS_FROM_DISRUPTION"] == pytest.approx(340 / 8585)
    evaluation = of(tables, "pretrain-7b")["segment"].filter(pl.col("phase") == "evaluation")
    assert shares[metrics.GOODPUT] == pytest.approx((5020 - evaluation["duration_s"].sum()) / 8585)


def test_every_category_and_phase_has_its_badput_type():
    rows = {
        ("productive", "train"): "GOODPUT",
        ("productive", "evaluation"): "CUSTOM_BADPUT_EVENTS",
        ("planned", "maintenance"): "CUSTOM_BADPUT_EVENTS",
        ("startup", "initialisation"): "TPU_INITIALIZATION",
        ("recovery", "initialisation"): "TPU_INITIALIZATION",
        ("startup", "compile"): "PROGRAM_STARTUP",
        ("recovery", "warm_up"): "PROGRAM_STARTUP",
        ("recovery", "launch"): "TRAINING_PREP",
        ("recovery", "checkpoint_load"): "UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME",
        ("recovery", "requeue_wait"): "INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION",
        ("checkpoint", "save"): "UNPRODUCTIVE_CHECKPOINT_SAVE_TIME",
        ("lost_recompute", "train"): "WASTED_PROGRESS_FROM_DISRUPTION",
        ("uncommitted", "train"): "WASTED_PROGRESS_FROM_DISRUPTION",
        ("startup", "shutdown"): "OTHER",
        ("unexplained", "unknown"): "OTHER",
    }
    for (category, phase), wanted in rows.items():
        found = metrics.goodput(segments((category, phase, 10)))
        assert found["badput_type"].to_list() == [wanted], (category, phase)


def test_mean_time_to_failure_of_the_samples(tables):
    found = metrics.mttf(tables["segment"], tables["incident"])
    # one fall off the bus and one hang; the slow stretch is no failure
    up = 5020 + 340 + 180 + 600 + 10
    assert (found.n_failures, found.up_s, found.wall_s) == (2, up, 8585 + 690)
    assert found.mttf_up_s == up / 2
    assert found.mtbf_wall_s == 9275 / 2
    # Garwood: 2 events, [0.2422, 7.2247] expected
    assert found.low_s == pytest.approx(up / 7.2247, rel=1e-4)
    assert found.high_s == pytest.approx(up / 0.2422, rel=1e-3)


def test_mean_time_without_failures_is_a_lower_bound():
    none = pl.DataFrame(schema={"incident_id": pl.String, "mode": pl.String, "type": pl.String})
    found = metrics.mttf(segments(("productive", "train", 3000)), none)
    assert (found.mttf_up_s, found.high_s, found.mtbf_wall_s) == (None, None, None)
    assert found.low_s == pytest.approx(3000 / 2.9957, rel=1e-4)


def test_acceptance_a3_mean_time_of_a_large_run():
    # arXiv 2407.21783: 419 unexpected interruptions in 54 days
    incident = pl.DataFrame({
        "incident_id": [str(i) for i in range(419)], "mode": ["fail_stop"] * 419,
        "type": ["gpu.unknown"] * 419,
    })  # fmt: skip
    found = metrics.mttf(segments(("productive", "train", 54 * 86400)), incident)
    hours = [x / 3600 for x in (found.mttf_up_s, found.low_s, found.high_s)]
    assert hours == pytest.approx([3.093, 2.811, 3.412], rel=2e-3)


def test_costs_of_the_samples_are_the_losses(tables):
    found = metrics.costs(tables["segment"], tables["incident"], price_per_gpu_hour=2.5)
    lost = 9275 - 4620 - 600
    assert found["seconds"].sum() == pytest.approx(lost)
    assert found["seconds"].to_list() == sorted(found["seconds"], reverse=True)
    by_cause = {(r["cause"], r["type"]): r for r in found.iter_rows(named=True)}
    bus = by_cause["incident", "gpu.bus"]
    assert (bus["n_incidents"], bus["seconds"]) == (1, pytest.approx(860))
    assert bus["money"] == pytest.approx(2.5 * bus["gpu_hours"])
    held = tables["segment"].filter(pl.col("n_gpus").is_not_null())
    gpu_seconds = (held["duration_s"] * (1 - held["performance_ratio"]) * held["n_gpus"]).sum()
    assert found["gpu_hours"].sum() == pytest.approx(gpu_seconds / 3600)
    assert found["seconds_without_gpus"].sum() == pytest.approx(
        lost - (held["duration_s"] * (1 - held["performance_ratio"])).sum()
    )


def test_cost_without_gpu_count_or_price_is_unknown(tables):
    unknown = segments(("recovery", "detection", 60), n_gpus=None).with_columns(
        pl.col("n_gpus").cast(pl.Int64)
    )
    row = metrics.costs(unknown, tables["incident"]).row(0, named=True)
    assert (row["gpu_hours"], row["money"], row["seconds_without_gpus"]) == (None, None, 60)
    priced = metrics.costs(segments(("recovery", "detection", 60)), tables["incident"])
    assert (priced["gpu_hours"].item(), priced["money"].item()) == (pytest.approx(8 / 60), None)


def test_command_prints_the_metrics(lake, tables, capsys):
    assert main(["metrics", "--lake", str(lake), "--json", "--price", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["runs", "goodput", "costs", "failures"]
    assert found["failures"]["n_failures"] == 2
    assert {r["run_id"] for r in found["runs"]} == set(tables["run"]["run_id"])
    assert sum(r["seconds"] for r in found["goodput"]) == pytest.approx(9275)
    run_id = of(tables, "finetune-1b")["run"]["run_id"].item()
    assert main(["metrics", "--lake", str(lake), "--run", run_id, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 1
    assert main(["metrics", "--lake", str(lake)]) == 0
    assert capsys.readouterr().out.startswith("runs\nrun_id ")


def test_command_refuses_what_cannot_be(lake, capsys):
    for more in (["--run", "nonsense"], ["--price", "-1"], ["--price", "nan"]):
        assert main(["metrics", "--lake", str(lake), *more]) == 2
        assert "expected" in capsys.readouterr().err


def test_command_on_a_lake_without_runs(tmp_path, capsys):
    log = tmp_path / "notes.log"
    log.write_text("nothing of interest\n")
    ingest([str(log)], tmp_path / "lake")
    timeline.rebuild(tmp_path / "lake")
    assert main(["metrics", "--lake", str(tmp_path / "lake"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == []
