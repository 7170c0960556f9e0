"""`wallsplit predict`: its JSON and text, strategies, sweeps, and what it makes of wrong input."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.cli import main

ROW = ["--mtbf", "10800", "--checkpoint-interval", "1800", "--checkpoint-cost", "20",
       "--detect", "600", "--restart", "300"]  # fmt: skip
FIELDS = ["tor", "ci_low", "ci_high", "method", "clock", "parameters", "loss_budget",
          "optimal_interval_s", "assumptions", "flags", "seed"]  # fmt: skip


@pytest.fixture
def ask(capsys):
    def run(*args: str) -> dict:
        assert main(["predict", *args, "--json"]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        return json.loads(out)

    return run


def test_json_has_the_documented_fields_in_order(ask):
    found = ask(*ROW)
    assert list(found)[: len(FIELDS)] == FIELDS
    assert found["tor"] == pytest.approx(0.83666, abs=5e-6)
    assert (found["ci_low"], found["ci_high"]) == (None, None)
    assert (found["method"], found["clock"], found["seed"]) == ("closed", "up", 0)
    assert list(found["optimal_interval_s"])[:3] == ["exact", "young", "daly"]
    assert found["optimal_interval_s"]["exact"] == pytest.approx(644.0, abs=0.05)
    assert found["optimal_interval_s"]["young"] == pytest.approx(657.3, abs=0.05)
    budget = found["loss_budget"]
    assert {"type", "seconds_per_hour", "share"} <= set(budget[0])
    assert found["tor"] + sum(x["share"] for x in budget) == pytest.approx(1)
    assert budget[0]["seconds_per_hour"] == pytest.approx(3600 * budget[0]["share"])
    wanted = {
        "mtbf_up_s": 10800, "mtbf_wall_s": None, "tau_s": 1800, "delta_s": 20,
        "ckpt_latency_s": 0, "detect_s": 600, "restart_s": 300, "slow_mtbe_s": None,
    }  # fmt: skip
    assert {k: found["parameters"][k] for k in wanted} == wanted


def test_units_may_stand_behind_times(ask):
    plain = ask(*ROW)
    units = ask("--mtbf", "3h", "--checkpoint-interval", "30 min", "--checkpoint-cost", "20s",
                "--detect", "10min", "--restart", "300000ms")  # fmt: skip
    assert units == plain


def test_clock_changes_the_answer(ask):
    up, wall = ask(*ROW), ask(*ROW, "--clock", "wall")
    assert wall["tor"] == pytest.approx(0.82581, abs=5e-6)
    assert up["tor"] > wall["tor"]
    assert (wall["clock"], wall["parameters"]["mtbf_up_s"]) == ("wall", 9900)


def test_method_can_be_chosen_and_is_said(ask):
    found = ask(*ROW, "--method", "simulate", "--seed", "7", "--replicas", "200")
    assert (found["method"], found["seed"]) == ("simulate", 7)
    assert found["tor"] == found["simulated_tor"]
    assert abs(found["tor"] - 0.83666) < 4 * found["standard_error"]
    assert found["closed_tor"] == pytest.approx(0.83666, abs=5e-6)
    again = ask(*ROW, "--method", "simulate", "--seed", "7", "--replicas", "200")
    assert again == found


def test_simulation_is_chosen_by_itself(ask):
    harsh = ("--mtbf", "1.6h", "--checkpoint-interval", "1200", "--checkpoint-cost", "30",
             "--detect", "600", "--restart", "660", "--slow-mtbe", "3h", "--slow-duration",
             "1800", "--slow-ratio", "0.5", "--mitigation-pause", "120")  # fmt: skip
    found = ask(*harsh)
    assert found["method"] == "simulate"
    assert any("disagree" in x and "simulated" in x for x in found["flags"])
    assert ask(*harsh, "--method", "closed")["method"] == "closed"


def test_counted_failures_give_an_interval(ask):
    found = ask(*ROW[2:], "--failures", "419", "--exposure", "54d")
    assert found["ci_low"] < found["tor"] < found["ci_high"]
    assert found["parameters"]["mtbf_up_s"] == pytest.approx(3.093 * 3600, rel=2e-3)


def test_acceptance_a8_flash_recovery(ask):
    found = ask(*ROW, "--strategy", "flashrecovery", "--step-time", "10")
    # 150 s down, half a step lost, nothing saved
    assert found["tor"] == pytest.approx(0.98584, abs=2e-4)
    assert found["strategy"]["tor_typical"] == found["tor"]
    assert found["ci_low"] < found["tor"] <= found["ci_high"]


@pytest.mark.parametrize("name", ["gemini", "fftrainer", "deadpool", "ft-hsdp"])
def test_acceptance_a8_claims_are_ranges_from_the_baseline(ask, name):
    baseline = ask(*ROW)
    found = ask(*ROW, "--strategy", name, "--step-time", "10")
    assert found["ci_low"] == found["tor"] == baseline["tor"]
    assert found["ci_high"] > baseline["tor"]
    assert found["strategy"]["tor_typical"] is None
    assert any(x.startswith("a range, no value") for x in found["flags"])


def test_strategy_tells_its_source_and_what_was_not_applied(ask):
    found = ask(*ROW, "--strategy", "byterobust", "--step-time", "10", "--nodes", "10000")
    evidence = found["strategy"]["evidence"][0]
    assert (evidence["kind"], evidence["id"]) == ("measured", "byterobust")
    assert "2509.16293" in evidence["source"]
    assert any("R (schedule)" in x for x in found["strategy"]["not_applied"])
    assert any("extrapolated to 80,000" in x for x in found["flags"])
    parts = ask(*ROW, "--strategy", "byterobust", "--step-time", "10",
                "--restart-part", "schedule=200")  # fmt: skip
    assert "byterobust: R (schedule) x 0.092" in parts["strategy"]["changed"]


def test_two_strategies_may_go_together_unless_they_share_a_parameter(ask, capsys):
    found = ask(*ROW, "--strategy", "lemon-eviction", "--strategy", "reft",
                "--restart-part", "load=100")  # fmt: skip
    assert found["strategy"]["ids"] == ["lemon-eviction", "reft"]
    assert main(["predict", *ROW, "--strategy", "gemini", "--strategy", "reft"]) == 2
    assert "both change" in capsys.readouterr().err


def test_failures_of_another_kind_are_not_helped(ask):
    found = ask(*ROW, "--strategy", "deadpool", "--failure-type", "storage.fs")
    assert found["ci_high"] == found["tor"]
    assert any("no figure of the strategy can be applied" in x for x in found["flags"])


def test_spares_show_what_they_cost(ask):
    found = ask(*ROW, "--nodes", "64", "--spares", "4", "--repair", "1d", "--replicas", "100")
    assert found["method"] == "simulate"
    assert found["tor_per_provisioned_node"] == pytest.approx(found["tor"] * 64 / 68)


def test_sweep_answers_for_each_value(ask, capsys):
    found = ask(*ROW[2:], "--sweep", "mtbf=3600:36000:10")
    assert (found["parameter"], len(found["rows"])) == ("mtbf", 10)
    values = [row["value"] for row in found["rows"]]
    assert values == pytest.approx([3600 * k for k in range(1, 11)])
    tors = [row["tor"] for row in found["rows"]]
    assert all(a < b for a, b in pairwise(tors))
    assert ask(*ROW)["tor"] == pytest.approx(tors[2])
    assert main(["predict", *ROW, "--sweep", "checkpoint-interval=200:1400:13"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line.endswith("best")] == ["600"]


def test_text_begins_with_the_answer(capsys):
    assert main(["predict", *ROW]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "TOR 0.8367  closed form (3), one failure in 3 h of up time"
    assert lines[1] == "lost 9 min 48 s of every hour"
    assert any(
        line.startswith("checkpoint every 30 min of work; best 10 min 44 s") for line in lines
    )
    assert "assumes" in lines


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], ["nothing fails"]),
        (["--mtbf", "1/h"], ["--mtbf '1/h': expected seconds, or a number with"]),
        (["--mtbf", "inf", "--checkpoint-interval", "60"], ["--mtbf = inf"]),
        (["--mtbf", "0", "--detect", "-5", "--slow-ratio", "1.01", "--restart", "x",
          "--strategy", "y", "--sweep", "z=1:2:3", "--seed", "-1", "--replicas", "1",
          "--nodes", "1.5", "--restart-part", "load", "--observed", "1:2"],
         ["--mtbf = 0", "--detect = -5", "--slow-ratio = 1.01", "--restart 'x'", "strategy 'y'",
          "--sweep 'z'", "--seed -1", "--replicas 1", "--nodes '1.5'", "--restart-part 'load'",
          "--observed '1:2'"]),
        ([*ROW, "--clock", "wall", "--sweep", "mtbf=100:2000:3"],
         ["--sweep mtbf = 100: a mean wall-clock time", "no up time"]),
        ([*ROW, "--strategy", "byterobust"], ["--step-time"]),
        ([*ROW, "--sweep", "mtbf=1:2:1001"], ["2 to 1000 values"]),
    ],
)  # fmt: skip
def test_wrong_input_ends_with_2_and_names_everything(args, words, capsys):
    assert main(["predict", *args]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    for word in words:
        assert word in err, word


def test_simulation_without_end_ends_with_1(capsys):
    args = ["--mtbf", "60", "--restart", "3600", "--checkpoint-interval", "60"]
    assert main(["predict", *args, "--method", "simulate"]) == 1
    assert "hardly ever comes through" in capsys.readouterr().err
    assert main(["predict", *args]) == 0


extreme = st.sampled_from(["1e-300", "1e-9", "0.5", "1", "60", "3600", "1e7", "1e15", "1e300"])


@given(
    st.fixed_dictionaries(
        {"--mtbf": extreme, "--checkpoint-interval": extreme},
        optional=dict.fromkeys(
            ("--checkpoint-cost", "--checkpoint-latency", "--detect", "--restart"), extreme
        ),
    ),
    st.sampled_from(["up", "wall"]),
    st.sampled_from([[], ["--method", "simulate"], ["--slow-mtbe", "1e5", "--slow-duration", "60",
                     "--slow-ratio", "0.1"], ["--memory-interval", "1", "--memory-survives", "0.5"],
                     ["--uptime-shape", "0.5"]]),
)  # fmt: skip
@settings(max_examples=40, deadline=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
def test_extremes_give_a_number_or_a_reason(capsys, options, clock, more):
    args = [x for pair in options.items() for x in pair]
    code = main(["predict", *args, "--clock", clock, *more, "--replicas", "2", "--json"])
    out, err = capsys.readouterr()
    if code == 0:
        found = json.loads(out)
        assert 0 <= found["tor"] <= 1
        assert math.isfinite(found["tor"])
    else:
        assert code in (1, 2)
        assert err.startswith("wallsplit predict: ")
