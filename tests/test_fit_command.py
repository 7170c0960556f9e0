"""`wallsplit fit FILE.csv`: the contract of its JSON, its text, and files that cannot be read."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from pipeline.cli import main

BEARINGS = [17.88, 28.92, 33.0, 41.52, 42.12, 45.6, 48.4, 51.84, 51.96, 54.12, 55.56, 67.8, 68.64,
            68.64, 68.88, 84.12, 93.12, 98.64, 105.12, 105.84, 127.92, 128.04, 173.4]  # fmt: skip
ROCOF = [104, 131, 1597, 59, 4, 503, 157, 6, 118, 173, 114, 62, 101, 216, 106, 140, 1, 102, 3, 393,
         96, 232, 89, 61, 37, 293, 7, 165, 87, 99]  # fmt: skip


@pytest.fixture
def csv_of(tmp_path: Path):
    def write(text: str | bytes) -> str:
        path = tmp_path / "gaps.csv"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return str(path)

    return write


def fitted(capsys: pytest.CaptureFixture[str], *args: str) -> list[dict]:
    assert main(["fit", *args, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def column(values, header="duration") -> str:
    return "\n".join([header, *map(str, values)]) + "\n"


def test_json_is_the_contract(csv_of, capsys):
    (found,) = fitted(capsys, csv_of(column(BEARINGS)), "--gof-replicates", "99")
    assert (found["type"], found["quantity"], found["n_events"], found["n_censored"]) == (
        "all", "duration", 23, 0,
    )  # fmt: skip
    laws = {law["law"]: law for law in found["laws"]}
    assert list(laws) == ["exponential", "weibull", "lognormal", "gamma"]
    assert {name: list(law["parameters"]) for name, law in laws.items()} == {
        "exponential": ["mean"], "weibull": ["shape", "scale"], "lognormal": ["mu", "sigma"],
        "gamma": ["shape", "scale"],
    }  # fmt: skip
    weibull = laws["weibull"]
    assert weibull["parameters"] == pytest.approx({"shape": 2.10184688, "scale": 81.874559})
    assert weibull["intervals"]["shape"] == pytest.approx([1.50399124, 2.79126535], rel=1e-6)
    assert weibull["standard_errors"]["shape"] == pytest.approx(0.156365968 * 2.10184688, rel=1e-6)
    assert weibull["gof"]["statistic"] == pytest.approx(0.151041237, abs=1e-6)
    assert 0.05 < weibull["gof"]["p"] < 0.5
    assert (weibull["converged"], weibull["note"]) == (True, None)
    assert {"log_likelihood", "aicc", "bic"} <= set(weibull)
    assert found["chosen"] == "gamma"
    assert found["tied"] == ["weibull", "lognormal", "gamma"]
    assert found["trend"] is None  # sorted rows
    assert found["rate"]["mtbf"] == pytest.approx(1661.08 / 23)
    assert found["seed"] == 0


def test_rows_in_order_give_the_trend(csv_of, capsys):
    (found,) = fitted(capsys, csv_of(column(ROCOF)), "--gof-replicates", "0")
    assert found["trend"]["laplace_u"] == pytest.approx(2.4094383)
    assert found["trend"]["crow_amsaa"]["beta"] == pytest.approx(1.58805339)
    assert found["trend"]["crow_amsaa"]["lambda"] == pytest.approx(3.70272885e-05)
    assert found["trend"]["df"] == 58
    assert {"mil_hdbk_189_chi2", "p", "verdict"} <= set(found["trend"])


def test_types_are_fitted_apart_or_together(csv_of, capsys):
    rows = [f"{d},{o},{t}" for d, o, t in [
        (5, 1, "b"), (9, 0, "a"), (7, 1, "a"), (3, 1, ""), (8, 1, "b"),
    ]]  # fmt: skip
    path = csv_of("\n".join(["duration,observed,type", *rows]))
    assert [(f["type"], f["n_events"], f["n_censored"]) for f in fitted(capsys, path)] == [
        ("all", 4, 1)
    ]
    apart = fitted(capsys, path, "--by", "type")
    assert [(f["type"], f["n_events"], f["exposure"]) for f in apart] == [
        ("a", 1, 16), ("b", 2, 13), ("unknown", 1, 3),
    ]  # fmt: skip


def test_one_types_answer_does_not_depend_on_the_others(csv_of, capsys):
    rng = np.random.default_rng(0)
    mine = [f"{t},x" for t in rng.exponential(5, 25)]
    other = [f"{t},y" for t in rng.exponential(9, 25)]
    args = ("--by", "type", "--gof-replicates", "50")
    alone = fitted(capsys, csv_of("\n".join(["duration,type", *mine])), *args)
    both = fitted(capsys, csv_of("\n".join(["duration,type", *other, *mine])), *args)
    assert both[0] == alone[0]


def test_seed_is_said_and_changes_only_p_values(csv_of, capsys):
    path = csv_of(column(BEARINGS))
    one, again, other = (
        fitted(capsys, path, "--gof-replicates", "200", "--seed", seed)[0]
        for seed in ("5", "5", "6")
    )
    assert one == again
    assert one["seed"] == 5
    assert one["laws"][1]["gof"]["p"] != other["laws"][1]["gof"]["p"]
    assert one["laws"][1]["parameters"] == other["laws"][1]["parameters"]


def test_weight_entry_and_upper_are_read(csv_of, capsys):
    path = csv_of("duration,observed,weight,entry,upper\n0,1,7,,5\n5,0,3,0,\n")
    (found,) = fitted(capsys, path)
    law = found["laws"][0]
    assert law["parameters"]["mean"] == pytest.approx(-5 / math.log(0.3))
    assert (found["n_events"], found["n_censored"], found["trend"]) == (7, 3, None)


def test_text_leads_with_rate_law_and_limits(csv_of, capsys):
    assert main(["fit", csv_of(column(ROCOF)), "--gof-replicates", "19"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("all duration: 30 events, 0 censored, 5256 at risk")
    assert "trend: worsening; Laplace U = 2.41" in text
    assert "mean time between 175.2 (" in text
    assert "trend: failures get more frequent" in text
    assert text.rstrip().endswith("goodness of fit with 19 replicates, seed 0")


def test_text_of_types_cannot_change_a_terminal(csv_of, capsys):
    assert main(["fit", csv_of("duration,type\n5,\x1b[31mred\n"), "--by", "type"]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_all_censored_one_event_and_equal_values_are_limited_answers(csv_of, capsys):
    path = csv_of(
        "duration,observed,type\n5,0,censored\n7,0,censored\n9,1,one\n"
        + "4,1,equal\n" * 30
    )  # fmt: skip
    censored, equal, one = fitted(capsys, path, "--by", "type", "--gof-replicates", "9")
    assert (censored["laws"], censored["rate"]["mtbf"]) == ([], None)
    assert [n["name"] for n in censored["notes"]] == ["no_event"]
    assert [n["name"] for n in one["notes"]] == ["rate_only"]
    assert "equal_durations" in [n["name"] for n in equal["notes"]]
    assert equal["laws"][1]["parameters"] == {"shape": None, "scale": None}
    assert equal["laws"][1]["converged"] is False


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty; expected a header line"),
        ("duration\n", "a header without rows"),
        ("time,censored\n1,0\n", "unknown column 'time'; unknown column 'censored'"),
        ("duration,censored\n1,0\n", "known columns: duration, observed"),
        ("duration,duration\n1,2\n", "column 'duration' twice"),
        ("duration\n5\nfive\n\n", "gaps.csv:3: column `duration`: expected a number"),
        ("duration,observed\n5,yes\n", "gaps.csv:2: column `observed`: expected 1 or 0"),
        ("duration,observed\n5\n", "gaps.csv:2: expected 2 values"),
        ("duration\n5\n-1\n", "gaps.csv:3: negative duration"),
        ("duration\n5\nnan\ninf\n", "gaps.csv:3, {}:4: not a finite duration"),
        ("duration\n\n\n0\n", "gaps.csv:4: observed duration of 0"),
        ("duration,observed\n0,0\n", "no time at risk"),
        (b"duration\n\xff\n", "not UTF-8 text"),
        (b"duration\n1\x00\n", "expected a number"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(csv_of, capsys, text, message):
    path = csv_of(text)
    assert main(["fit", path]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert message.format(path) in err


def test_missing_type_column_is_named(csv_of, capsys):
    assert main(["fit", csv_of("duration\n5\n"), "--by", "type"]) == 1
    assert "no column `type`" in capsys.readouterr().err


def test_wrong_options_are_named_at_once(tmp_path, capsys):
    args = ["fit", str(tmp_path / "none.csv"), "--gof-replicates", "-1", "--seed", "-2"]
    assert main(args) == 2
    err = capsys.readouterr().err
    assert all(word in err for word in ("none.csv", "--gof-replicates -1", "--seed -2"))


def test_windows_files_and_byte_order_marks_are_read(csv_of, capsys):
    (found,) = fitted(capsys, csv_of(b"\xef\xbb\xbfduration,observed\r\n5,1\r\n7,0\r\n"))
    assert (found["n_events"], found["n_censored"]) == (1, 1)


def test_a_hundred_thousand_rows_are_fitted_and_the_subset_is_said(csv_of, capsys):
    times = np.random.default_rng(0).weibull(0.8, 100_001)
    (found,) = fitted(capsys, csv_of(column(times)), "--gof-replicates", "19")
    law = found["laws"][1]
    assert law["parameters"]["shape"] == pytest.approx(0.8, abs=0.01)
    assert law["interval_method"] == "observed information"
    assert "on 1000 of 100001 rows" in law["gof"]["method"]
