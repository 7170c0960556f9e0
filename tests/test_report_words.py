"""Numbers in words: none prints as nothing or all that is not, and gains are told as gains."""

from __future__ import annotations

import json
import re

import pytest

from pipeline.report import words
from tests.report_tables import Tables, at, report_of, split_tables


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "unknown"), (0, "0 s"), (0.244, "0.24 s"), (42.5, "42.5 s"), (59.96, "1 min"),
     (725, "12 min 5 s"), (3599.6, "1 h"), (18_720, "5 h 12 min"), (273_600, "3 d 4 h"),
     (-90, "-1 min 30 s"), (0.004, "<0.01 s"), (-0.004, ">-0.01 s"), (1e-13, "0 s")],
)  # fmt: skip
def test_durations_are_told_in_two_units(seconds, text):
    assert words.duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "unknown"), (0.0, "0.0%"), (1.0, "100.0%"), (0.5, "50.0%"), (0.9997, ">99.9%"),
     (0.0003, "<0.1%"), (1.0002, ">100.0%"), (-0.0003, ">-0.1%"), (-0.25, "-25.0%"),
     (-0.9997, "<-99.9%"), (1 - 1e-13, "100.0%")],
)  # fmt: skip
def test_a_share_prints_as_nothing_or_all_only_if_it_is(value, text):
    assert words.share(value) == text


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(0.99996, 3, ">0.999"), (1.0, 3, "1.000"), (1.00004, 3, ">1.000"), (0.0, 3, "0.000"),
     (0.00004, 3, "<0.001"), (-0.00004, 3, ">-0.001"), (0.5384, 3, "0.538"), (0.999, 2, ">0.99"),
     (0.95, 2, "0.95")],
)  # fmt: skip
def test_a_ratio_prints_as_0_or_1_only_if_it_is(value, digits, text):
    assert words.ratio(value, digits) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [(None, None, "unknown"), (0.5, 0.55, "0.500\N{EN DASH}0.550"), (0.5, 0.50004, "0.500"),
     (0.99996, 1.0, ">0.999\N{EN DASH}1.000")],
)  # fmt: skip
def test_tor_is_a_number_or_the_interval_that_can_be_seen(low, high, text):
    assert words.tor(low, high, has_interval=True) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "unknown"), (0, "0"), (7, "7"), (0.004, "<0.01"), (-0.004, ">-0.01"), (9.994, "9.99"),
     (12.34, "12.3"), (1234.5, "1,234"), (-3.25, "-3.25"), (0.0, "0.00")],
)  # fmt: skip
def test_amounts_have_three_figures(value, text):
    assert words.number(value) == text


def test_changes_of_tor_carry_their_sign():
    assert [words.signed(v) for v in (0.012, -0.3, 0.00001, 0.0)] == [
        "+0.012", "-0.300", "<0.001", "0.000"]  # fmt: skip


def nearly_perfect() -> Tables:
    """A run of 100,000 s that lost 4 s in a save: TOR 0.99996."""
    tables = split_tables()
    first = tables["segment"][0]
    tables["segment"] = [
        {**first, "category": "productive", "phase": "train", "performance_ratio": 1.0,
         "duration_s": 99_996.0, "end_at": at(99_996), "cause": None},
        {**first, "segment_id": "s1", "category": "checkpoint", "phase": "save", "duration_s": 4.0,
         "performance_ratio": 0.0, "start_at": at(99_996), "end_at": at(100_000),
         "cause": "checkpoint"},
    ]  # fmt: skip
    tables["loss"] = [{"run_id": "r1", "cause": "checkpoint", "seconds": 4.0, "share": 0.00004,
                       "gpu_hours": 0.001}]  # fmt: skip
    tables["run"] = [{**tables["run"][0], "wall_s": 100_000.0, "end_at": at(100_000),
                      "n_incidents": 0, "tor_observed": 0.99996, "tor_low": 0.99996,
                      "tor_high": 0.99996, "tor_observed_gpu": 0.99996, "t_opt_s": 99_996.0,
                      "unexplained_share": 0.0}]  # fmt: skip
    tables["incident"] = tables["incident_evidence"] = []
    return tables


def test_no_page_calls_a_nearly_perfect_run_perfect():
    report = report_of(nearly_perfect())
    seen = re.sub(r"<title>.*?</title>|aria-label=\"[^\"]*\"", "", report.to_html())
    html = re.sub(r"<(style|script)>.*?</\1>|<[^>]+>", "|", seen, flags=re.DOTALL)
    # headline, run, weighted by GPUs, foot of the waterfall
    assert html.count("&gt;0.999") == 4
    assert "&gt;0.999 weighted by GPUs" in html
    assert "&gt;99.9%" in html
    assert html.count("|1.000|") == 1  # the wall clock of the waterfall
    assert "100.0%" not in html
    for text in (report.to_markdown(), report.to_terminal()):
        assert ">0.999" in text.replace("\\>", ">")
        assert "1.000" not in text
        assert "100.0%" not in text
    assert "| Saving checkpoints |  | 4.00 s | <0.01 | <0.0001 |" in report.to_markdown()


def faster(seconds: float = 200.0, r: float = 1.5) -> Tables:
    """The run of `split_tables` with steps faster than the reference where it had slow ones."""
    tables = split_tables()
    gain = seconds * (r - 1)
    tables["segment"][3].update(performance_ratio=r, duration_s=seconds)
    tables["loss"][1].update(seconds=-gain, share=-gain / 1000, gpu_hours=-gain * 8 / 3600)
    tables["run"][0].update(tor_observed=0.7, tor_low=0.7, tor_high=0.75, t_opt_s=700.0)
    return tables


def test_steps_faster_than_the_reference_are_shown_as_a_gain_and_explained():
    report = report_of({**faster(), "run": faster()["run"][:1]})
    assert report.runs[0].segments_s.slow == -100.0
    said = "Steps faster than the reference: 1 min 40 s gained (10.0% of the wall clock)"
    html, markdown = report.to_html(), report.to_markdown()
    for text in (html, markdown, report.to_terminal()):
        assert said in text
    assert "| Faster steps | -100.0 | -10.0% |" in markdown
    assert "time beyond the reference step time" not in html
    assert "Slow steps" not in html
    assert "+0.100" in html
    (warning,) = [w for w in report.data_quality.warnings if "faster" in w]
    assert warning.endswith("a gain: 1 run: llama [r1] (1 min 40 s)")
    assert json.loads(report.to_json())["runs"][0]["segments_s"]["slow"] == -100.0


def test_bars_of_a_run_with_a_gain_still_end_at_its_wall_clock():
    report = report_of({**faster(), "run": faster()["run"][:1]})
    bar = re.search(r'<svg[^>]*class="whole-bar".*?</svg>', report.to_html())
    assert bar is not None
    widths = {name: float(width) for width, name in
              re.findall(r'width="([\d.]+)" y="0" height="10" class="(\w+)"', bar[0])}  # fmt: skip
    assert widths["productive"] == 60.0  # 400 s + 200 s of 1000 s, not the 700 s of work in them
    assert widths["slow"] == 0.0
    assert sum(widths.values()) == pytest.approx(100)


def test_a_run_that_gained_more_than_it_lost_says_so():
    tables = faster(r=3.5)  # 500 s gained, 400 s lost
    tables["run"][0].update(tor_observed=1.1, tor_low=1.1, tor_high=1.15, t_opt_s=1100.0)
    report = report_of({**tables, "run": tables["run"][:1]})
    assert report.to_terminal().startswith(
        "TOR 1.100\N{EN DASH}1.150: 1 min 40 s gained in 16 min 40 s in 1 run, 1 incident"
    )
    assert "1 min 40 s gained in 16 min 40 s" in report.to_markdown()
    assert "<dt>Gained</dt><dd>1 min 40 s</dd>" in report.to_html()


def test_some_names_tell_how_many_more_there_are():
    assert words.some([]) == ""
    assert words.some(["a", "b", "c"]) == "a, b, c"
    assert words.some(["a", "b", "c", "d"]) == "a, b, c and 1 more"
    assert words.some(["a", "b", "c"], n=1003) == "a, b, c and 1,000 more"


@pytest.mark.parametrize(
    ("name", "kind", "seconds", "text"),
    [
        ("slow", None, 5, "Steps slower than the reference"),
        ("slow", None, -5, "Steps faster than the reference"),
        ("slow", "unattributed", 5, "Slow stretch without a cause in the logs"),
        ("slow", "gpu.power_thermal", 5, "Slowed: GPU power or heat"),
        ("incident", "gpu.bus", 5, "GPU fell off the bus"),
        ("incident", "new.kind", 5, "new.kind"),
    ],
)
def test_causes_are_told_in_words(name, kind, seconds, text):
    assert words.cause(name, kind, seconds) == text


def test_a_slow_stretch_stands_beside_other_slow_steps_and_counts_its_incident():
    tables = split_tables()
    tables["loss"][1].update(type="gpu.power_thermal", incident_id="i2", seconds=60.0, share=0.06)
    tables["loss"].append({"run_id": "r1", "cause": "slow", "seconds": 40.0, "share": 0.04})
    tables["incident"].append({
        **tables["incident"][0], "incident_id": "i2", "onset_at": at(520),
        "type": "gpu.power_thermal", "mode": "fail_slow", "lost_s": 0.0, "recovery_s": 0.0,
        "slow_s": 60.0, "total_s": 60.0, "lost_steps": 0})  # fmt: skip
    text = report_of(tables).to_markdown()
    assert "| Slowed: GPU power or heat | 1 | 1 min | 0.22 | 0.0600 |" in text
    assert "| Steps slower than the reference |  | 40.0 s | unknown | 0.0400 |" in text
    assert "cost 1 min (1 min slow), 0 steps lost" in text
    assert "cost 3 min 50 s (1 min 20 s redone, 2 min 30 s recovery), 240 steps lost" in text
