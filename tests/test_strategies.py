"""The catalogue of strategies: its form, its sources, and what it does to a scenario."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import pytest

from parsers.faults import load_catalogue as load_signatures
from pipeline import mixtures, strategies
from pipeline.errors import ParameterError
from pipeline.random_times import Exponential
from pipeline.scenario import Checkpointing, FailSlow, FailStop, MemoryTier, Scenario
from pipeline.strategies import End, Evidence, apply, find, kind_of, load_catalogue
from tests.scenarios import one_type, slow, stop

ALL = load_catalogue().strategies
PARAMETERS = {"tau", "delta", "L", "D", "R", "down", "lambda", "loss", "r", "W", "q"}
SCENARIO = Scenario(
    Checkpointing(1800, 20),
    (
        FailStop("gpu.memory", Exponential(20000), 300.0, 600.0, parts={"load": 200.0}),
        FailStop("storage.fs", Exponential(40000), 60.0, 600.0),
    ),
    (slow(1 / 30000, 1200, 0.5, 60),),
)


@pytest.mark.parametrize("name", ALL)
def test_entry_is_complete(name):
    rows = tomllib.loads(strategies._FILE.read_text())["strategy"]
    row = next(r for r in rows if r["id"] == name)
    entry = ALL[name]
    known = {"id", "title", "source", "url", "evidence", "scale", "largest_devices", "covers",
             "requires", "claim", "notes", "change"}  # fmt: skip
    assert set(row) <= known
    assert all(row.get(k) for k in ("id", "title", "source", "notes"))
    kinds = set(load_catalogue().kinds.values()) - {"no_failure"}
    assert set(entry.covers) <= kinds
    has_figures = any(c.values for c in entry.changes)
    if entry.evidence == Evidence.UNKNOWN:
        assert not has_figures
    for raw, change in zip(row.get("change", []), entry.changes, strict=True):
        assert set(raw) <= {"parameter", "part", "set", "multiply", "unit", "evidence",
                            "condition", "relative_to"}  # fmt: skip
        assert ("set" in raw) != ("multiply" in raw)
        assert change.parameter in PARAMETERS
        assert set(change.values) <= {"best", "typical", "worst"}
        if change.is_claim:
            assert set(change.values) <= {"best"}, "a claim has no worst end but the baseline"
        elif change.values:
            assert {"best", "worst"} <= set(change.values)
        if change.is_factor:
            assert change.unit is None
        else:
            assert change.unit in ("s", "step", "ratio")


def test_every_component_of_the_failure_catalogue_has_one_kind():
    data = tomllib.loads(strategies._FILE.read_text())["kinds"]
    listed = [c for components in data.values() for c in components]
    assert len(listed) == len(set(listed))
    assert {s.component for s in load_signatures().signatures} == set(listed)
    assert kind_of("gpu.bus") == "gpu_fault"
    assert kind_of("gpu.bus", "hang") == "hang"
    assert kind_of("nvlink.link", "fail_slow") == "fail_slow"
    assert kind_of("scheduler.time_limit") is None
    assert kind_of("unattributed") is None
    assert kind_of("node_loss") == "node_loss"


def test_acceptance_a8_strategies_that_share_a_parameter_are_refused():
    pairs = [("gemini", "byterobust"), ("reft", "moevement"), ("deadpool", "fftrainer")]
    for pair in pairs:
        with pytest.raises(ParameterError, match=f"{pair[0]} and {pair[1]} both change"):
            find(pair)
    # a total down time owns detection and restart
    with pytest.raises(ParameterError, match="D, R, down"):
        find(["deadpool", "hot-spares"])
    assert [s.id for s in find(["lemon-eviction", "hot-spares"])] == [
        "lemon-eviction", "hot-spares"]  # fmt: skip
    with pytest.raises(ParameterError, match="unknown strategy 'x'; known: checkpoint-restart"):
        find(["x"])


@pytest.mark.parametrize("name", [n for n, s in ALL.items() if s.is_claim])
def test_acceptance_a8_claims_have_no_effect_at_their_worst_end(name):
    assert apply(SCENARIO, find([name]), End.WORST, 10.0).scenario == SCENARIO


@pytest.mark.parametrize("name", ALL)
def test_both_ends_are_scenarios_that_can_be(name):
    for end in (End.BEST, End.WORST):
        applied = apply(SCENARIO, find([name]), end, 10.0)
        value = float(mixtures.combined(applied.scenario).tor[0])
        assert 0 <= value <= 1
        assert applied.changed or applied.scenario == SCENARIO
        assert not (applied.changed and end == End.BEST) or applied.scenario != SCENARIO


def test_only_failures_that_a_strategy_covers_change():
    applied = apply(SCENARIO, find(["flashrecovery"]), End.BEST, 10.0)
    gpu, storage = applied.scenario.stops
    assert (gpu.detect_s, gpu.restart_s, gpu.loss_s) == (0, 150, 5)
    assert storage == SCENARIO.stops[1]
    assert applied.scenario.checkpointing.delta_s == 0
    assert apply(SCENARIO, find(["flashrecovery"]), End.WORST, 10.0).scenario.stops[0].loss_s == 10


def test_parts_change_only_what_bears_their_name():
    applied = apply(SCENARIO, find(["reft"]), End.BEST, None)
    gpu = applied.scenario.stops[0]
    assert gpu.restart_s == pytest.approx(400 + 200 * 0.08091)
    assert gpu.parts["load"] == pytest.approx(16.182)
    bare = replace(SCENARIO, stops=(replace(SCENARIO.stops[0], parts={}),))
    skipped = apply(bare, find(["reft"]), End.BEST, None).skipped
    assert skipped == ("reft: R (load): the restart has no part named load",)


def test_ratios_against_other_systems_are_not_applied():
    applied = apply(SCENARIO, find(["oobleck"]), End.BEST, None)
    assert applied.scenario.slows == SCENARIO.slows
    assert "oobleck: r: a ratio against Bamboo and Varuna" in applied.skipped


def test_speeds_are_capped_and_overheads_stand():
    faster = apply(SCENARIO, find(["malleus"]), End.BEST, None)
    assert faster.scenario.slows[0].ratio == 1
    assert "malleus: q: no figure known" in faster.skipped
    slowed = replace(SCENARIO, slows=(replace(SCENARIO.slows[0], ratio=0.2),))
    assert apply(slowed, find(["malleus"]), End.WORST, None).scenario.slows[0].ratio == (
        pytest.approx(0.526))  # fmt: skip
    watched = apply(SCENARIO, find(["greyhound"]), End.BEST, None)
    assert watched.scenario.steady_ratio == 0.9961
    named = replace(SCENARIO, slows=(replace(SCENARIO.slows[0], name="compute"),))
    assert apply(named, find(["greyhound"]), End.BEST, None).scenario.slows[0].ratio == (
        pytest.approx(0.795))  # fmt: skip


def test_rates_change_with_the_exposure_of_their_count():
    counted = replace(SCENARIO.stops[0], n_events=10, exposure_s=200000.0)
    scenario = replace(SCENARIO, stops=(counted,))
    gpu = apply(scenario, find(["lemon-eviction"]), End.BEST, None).scenario.stops[0]
    assert gpu.uptime.mean == pytest.approx(20000 / 0.27)
    assert gpu.n_events / gpu.exposure_s == pytest.approx(gpu.rate)


def test_steps_need_their_duration():
    with pytest.raises(ParameterError, match="--step-time"):
        apply(SCENARIO, find(["byterobust"]), End.BEST, None)


def test_memory_tier_keeps_its_own_interval():
    tiered = replace(SCENARIO, checkpointing=Checkpointing(1800, 20, memory=MemoryTier(300)))
    skipped = apply(tiered, find(["in-memory-checkpoint"]), End.BEST, 10.0).skipped
    assert skipped == ("in-memory-checkpoint: tau: the scenario has a memory tier of its own",)


def test_loss_is_multiplied_from_what_is_lost_now():
    scenario = one_type(1800, 20, 0, 300, 10800)
    gained = apply(scenario, find(["moevement"]), End.BEST, None).scenario.stops[0]
    # the stall is cut first: (1800 + 5) / 2 of work is what a failure costs
    assert gained.loss_s == pytest.approx(902.5 * 0.03226)


def test_acceptance_a8_published_effective_time_leaves_little_per_failure():
    # MoEvement: 0.94 at 10 min between failures: 38.3 s of down time, or 36 s of lost work
    all_down = 600 / 0.94 - 600
    assert all_down == pytest.approx(38.3, abs=0.01)
    down = Scenario(Checkpointing(1, 0), (stop("a", 1 / 600, 38, 0, loss_s=0.0),))
    assert float(mixtures.combined(down).tor[0]) == pytest.approx(600 / 638)
    assert 600 / 638 >= 0.94
    lost = Scenario(Checkpointing(1, 0), (stop("a", 1 / 600, 0, 0, loss_s=36.0),))
    assert float(mixtures.combined(lost).tor[0]) == pytest.approx(0.94)


def test_slow_states_of_other_kinds_are_left_alone():
    other = replace(SCENARIO, slows=(FailSlow("slow", Exponential(1e5), 60.0, 0.5),))
    applied = apply(other, find(["r2ccl"]), End.BEST, None)
    assert applied.scenario.slows == other.slows
    assert any(x.startswith("r2ccl: r:") for x in applied.skipped)
    assert any("kind that it covers" in x for x in applied.skipped)
