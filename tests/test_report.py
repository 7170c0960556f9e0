"""Reports over a small hand-made set of timeline tables, hostile texts among them."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from html.parser import HTMLParser
from itertools import pairwise

import msgspec
import pyarrow as pa
import pytest

from parsers.text_log import TextLog
from pipeline import database, timeline
from pipeline.catalog import IngestOptions
from pipeline.errors import UsageError
from pipeline.ingest import ingest
from pipeline.report import Choice, Report, build_from
from pipeline.report.markdown_parts import cell, code
from pipeline.report.markup import el
from pipeline.report.model import Segment
from pipeline.report.timeline_chart import MIN_WIDTH, bars
from tests.histories import START, TrainLog, accounting, timeline_of
from tests.report_tables import BEGIN, HOSTILE, MADE, at, report_of, split_tables


@pytest.fixture(scope="module")
def report() -> Report:
    return report_of(split_tables())


def test_json_has_the_fields_of_the_contract_in_their_order(report):
    document = json.loads(report.to_json())
    assert list(document) == ["generated_at", "window", "clusters", "data_quality", "runs",
                              "failure_rates", "fits", "predictions", "choice"]  # fmt: skip
    assert list(document["data_quality"]) == [
        "files", "bytes", "lines", "claimed_lines", "rejects", "reject_share", "coverage",
        "warnings", "unread_training_logs"]  # fmt: skip
    run = document["runs"][0]
    assert list(run)[:17] == [
        "run_id", "name", "cluster", "start_at", "end_at", "is_open", "wall_s", "tor_observed",
        "tor_predicted", "segments_s", "queue_s", "steps_kept", "steps_lost", "reference_step_s",
        "n_attempts", "n_incidents", "losses"]  # fmt: skip
    assert list(run["segments_s"]) == [
        "productive", "slow", "lost_recompute", "checkpoint", "recovery", "startup", "planned",
        "uncommitted", "unexplained"]  # fmt: skip
    assert list(run["losses"][0]) == [
        "cause", "type", "seconds", "share", "gpu_hours", "incident_id"]  # fmt: skip


def test_json_sums_to_the_wall_clock_and_losses_to_what_tor_misses(report):
    run = json.loads(report.to_json())["runs"][0]
    assert run["segments_s"] == {
        "productive": 500.0, "slow": 100.0, "lost_recompute": 80.0, "checkpoint": 20.0,
        "recovery": 150.0, "startup": 100.0, "planned": 0.0, "uncommitted": 0.0,
        "unexplained": 50.0}  # fmt: skip
    assert sum(run["segments_s"].values()) == run["wall_s"]
    assert sum(x["share"] for x in run["losses"]) == pytest.approx(1 - run["tor_observed"])


def test_json_writes_instants_with_z_floats_unrounded_and_unknown_as_null(report):
    document = json.loads(report.to_json())
    assert document["generated_at"] == "2026-02-03T06:00:00.25Z"
    assert document["window"] == {"start": "2026-02-01T00:00:00Z", "end": "2026-02-01T01:28:20Z"}
    first, second = document["runs"]
    assert first["reference_step_s"] == 1 / 3
    assert (second["name"], second["tor_observed"], second["queue_s"]) == (None, None, None)
    assert second["segments_s"]["slow"] is None
    assert second["segments_s"]["productive"] == 300.0


def test_json_of_log_text_is_harmless_on_a_terminal_and_loses_nothing(report):
    text = report.to_json()
    assert all(c.isprintable() or c == "\n" for c in text)
    evidence = json.loads(text)["runs"][0]["incidents"][0]["evidence"]
    assert evidence[0]["message"] == HOSTILE
    assert [e["line"] for e in evidence] == [12, 10, 11, *range(13, 22)]  # root first, 12 at most


def test_the_same_tables_give_the_same_pages(report):
    again = report_of(split_tables())
    assert again.to_json() == report.to_json()
    assert again.to_markdown() == report.to_markdown()
    assert again.to_html() == report.to_html()


def test_counts_over_files_and_every_warning(report):
    quality = report.data_quality
    assert (quality.files, quality.lines, quality.claimed_lines, quality.rejects) == (
        3, 1000, 250, 5,
    )  # fmt: skip
    assert (quality.reject_share, quality.coverage) == (0.02, 0.25)
    leads = [w.partition(":")[0] for w in quality.warnings]
    assert leads == [
        "1 file truncated",
        "5 records rejected",
        "left out, no attempt fits 1 log with step lines",
        "accounting rows missing for 1 run",
        "accounting was taken without --duplicates, earlier attempts are missing",
        "accounting steps without the row of their job",
        "clocks of logs moved to fit their allocation",
        "kept apart, but perhaps one run",
        "not ended when the logs were taken, counted up to the last evidence",
        "no TOR, the logs show no step times",
        "more than 0.5% of the time is unexplained, so TOR is an interval",
        "the reference step time rests on few healthy steps",
    ]


def test_times_without_zone_are_named_where_no_zone_was_given():
    log = TrainLog()
    log.event("train_start", START)
    log.event("step", START + 10, step_to=1, step_ms=10_000.0)
    con = timeline_of(log.rows, accounts=[accounting(1, START, START + 10, "COMPLETED")])
    con.execute("create view reject as select * from raw_reject")
    ledger = con.table("raw_file").to_arrow_table().to_pylist()
    unzoned = [{**row, "timezone": None, "sniff": "{}"} for row in ledger]
    con.register("raw_file", pa.Table.from_pylist(unzoned))
    con.execute(database.NEWEST_FILE)
    warnings = build_from(con, Choice(), MADE).data_quality.warnings
    assert "times without zone are read as UTC in 2 files" in warnings[0]


@pytest.mark.parametrize(
    ("rows", "lead"),
    [
        ([("10:00:05", "10:02:06", "")], "accounting was perhaps taken without --duplicates"),
        ([("10:00:05", "10:02:06", "1")], "accounting was taken without --duplicates"),
        ([("10:00:05", "10:02:06", "0")], None),
        ([("10:00:05", "10:05:06", "")], None),
        ([("08:00:00", "08:00:00", ""), ("10:00:05", "10:02:06", "")], None),
        ([("08:00:00", "08:00:00", "0"), ("10:00:05", "10:02:06", "1")], None),
    ],
)
def test_a_requeue_without_the_row_before_it_is_warned_about(tmp_path, rows, lead):
    lines = ["JobID|JobIDRaw|JobName|State|Submit|Eligible|Start|End|NNodes|Restarts"]
    for submit, eligible, restarts in rows:
        day = "2026-03-01T"
        lines.append(
            f"7|7|train|FAILED|{day}{submit}|{day}{eligible}|{day}{eligible}|{day}11:00:00|2|"
            + restarts
        )
    (tmp_path / "sacct.txt").write_text("\n".join(lines) + "\n")
    ingest([str(tmp_path / "sacct.txt")], tmp_path / "lake", IngestOptions(timezone="UTC"))
    timeline.rebuild(tmp_path / "lake")
    con = database.connect(tmp_path / "lake")
    warnings = build_from(con, Choice(), MADE).data_quality.warnings
    found = [w for w in warnings if "--duplicates" in w]
    assert len(found) == (lead is not None)
    assert all(w.startswith(lead) for w in found)


@pytest.mark.parametrize(
    ("choice", "runs"),
    [
        ({"run": "r2"}, ["r2"]),
        ({"run": "llama"}, ["r1"]),
        ({"since": at(2000)}, ["r2"]),
        ({"until": at(5000)}, ["r1"]),
        ({"since": at(6000)}, []),
    ],
)
def test_runs_are_chosen_by_name_id_and_overlap(choice, runs):
    assert [r.run_id for r in report_of(split_tables(), **choice).runs] == runs


def test_an_unknown_run_is_refused_and_the_known_ones_named():
    with pytest.raises(UsageError, match=r"no run 'x'.* r2, 2026.*; r1 \(llama\), 2026"):
        report_of(split_tables(), run="x")


def test_no_runs_is_an_answer_on_every_page():
    empty = report_of({})
    assert json.loads(empty.to_json())["window"] == {"start": None, "end": None}
    assert "No runs" in empty.to_html()
    assert "No runs" in empty.to_markdown()
    assert "no runs" in empty.to_terminal()


def test_terminal_says_tor_loss_and_top_causes(report):
    assert report.to_terminal().splitlines()[:2] == [
        "TOR 0.500\N{EN DASH}0.550: 8 min 20 s of 16 min 40 s lost in 1 run, 1 incident",
        (
            "   23.0%    3 min 50 s  GPU fell off the bus  (1 incident, 1 min 20 s of work redone, "
            "2 min 30 s to get going again)"
        ),
    ]


MARKDOWN = """\
<!-- wallsplit report -->
# Where the wall-clock time went

cluster c, 2026-02-01 00:00:00 to 2026-02-01 01:28:20 UTC, made 2026-02-03 06:00:00 UTC

- `llama`: **TOR 0.500\N{EN DASH}0.550**, 8 min 20 s of 16 min 40 s lost, 1.11 GPU-hours. Most: \
GPU fell off the bus 3 min 50 s (1 incident); Steps slower than the reference 1 min 40 s; \
Starting up 1 min 40 s.
- `r2`: TOR unknown, no usable step times in the logs.

## Data quality

3 files, 1,000 lines, 5.0 MB; 250 lines understood (25.0%); 5 records rejected (2.0%).
"""

MARKDOWN_LOSSES = """\
### Losses

| cause | incidents | time | GPU-hours | share |
| --- | --- | --- | --- | --- |
| GPU fell off the bus | 1 | 3 min 50 s | 0.51 | 0.2300 |
| Steps slower than the reference |  | 1 min 40 s | 0.22 | 0.1000 |
| Starting up |  | 1 min 40 s | 0.22 | 0.1000 |
| Time that no log explains |  | 50.0 s | 0.11 | 0.0500 |
| Saving checkpoints |  | 20.0 s | 0.04 | 0.0200 |
| 1 - TOR |  | 8 min 20 s | 1.11 | 0.5000 |
"""


def test_markdown_leads_with_the_answer_and_lists_every_loss(report):
    text = report.to_markdown()
    assert text.startswith(MARKDOWN)
    assert MARKDOWN_LOSSES in text
    assert "and 8 more lines: `wallsplit show incident:i1 --lake LAKE`" in text


def test_markdown_keeps_log_text_in_code_spans(report):
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", report.to_markdown())
    assert "<script" not in outside.replace("\\<", "")
    assert "\u202e" not in report.to_markdown()
    assert code("a`b|c``") == "``` a`b|c`` ```"
    assert cell("a|b") == "`a\\|b`"


class Page(HTMLParser):
    """Checks nesting, and collects elements and their text."""

    VOID = frozenset({"meta", "br", "hr", "col"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.text += data + "\n"


def test_html_is_well_formed_and_loads_nothing(report):
    page = Page(report.to_html())
    for tag, attributes in page.elements:
        assert tag not in ("link", "img", "iframe", "object", "base", "form")
        assert not any(name.startswith("on") or name == "src" for name in attributes)
        assert (attributes.get("href") or "#").startswith("#")
    assert not re.search(r"https?://|url\(|@import", report.to_html())


def test_html_shows_hostile_text_as_text():
    tables = split_tables(name=HOSTILE)
    tables["incident"][0].update(type=HOSTILE, nodes=[HOSTILE], confidence="weak")
    tables["loss"][0]["type"] = HOSTILE
    tables["attempt"][0].update(state=HOSTILE, job_id=HOSTILE)
    tables["run_link"][0]["evidence"] = HOSTILE
    text = report_of(tables).to_html()
    page = Page(text)
    assert [tag for tag, _ in page.elements].count("script") == 1
    assert "alert('x')" in page.text
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    assert "\\u202egnp.exe" in page.text


def test_html_policy_allows_only_our_own_script(report):
    policy = next(a["content"] for t, a in Page(report.to_html()).elements if "http-equiv" in a)
    assert policy.startswith("default-src 'none'")
    assert "script-src 'sha256-" in policy


def test_html_answers_before_it_shows_data_and_charts(report):
    text = report.to_html()
    places = [text.index(s) for s in ("0.500\N{EN DASH}0.550", "GPU fell off the bus",
                                      "Can the data be trusted?", 'class="bar"')]  # fmt: skip
    assert places == sorted(places)


def test_html_is_usable_without_sight_or_scripts(report):
    page = Page(report.to_html())
    charts = [a for tag, a in page.elements if tag == "svg" and "aria-hidden" not in a]
    assert charts
    assert all(a["role"] == "img" and a["aria-label"] for a in charts)
    assert all("scope" in a for tag, a in page.elements if tag == "th")
    assert "speed r = 0.500" in page.text  # tooltips are titles, not only a script
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    links = {a["href"] for tag, a in page.elements if tag == "a"}
    assert links <= {f"#{i}" for i in ids}


def test_text_never_passes_for_markup():
    assert el("p", {"title": '"><b>'}, "<i>", el("b", {}, "x"), None, ["&"]) == (
        '<p title="&quot;&gt;&lt;b&gt;">&lt;i&gt;<b>x</b>&amp;</p>'
    )


def test_thousands_of_slivers_are_drawn_merged_and_still_tile():
    second = timedelta(seconds=1)
    segments = [
        Segment(
            segment_id=str(n), launch_no=1, start_at=BEGIN + n * second,
            end_at=BEGIN + (n + 1) * second, duration_s=1.0,
            category="checkpoint" if n % 10 == 0 else "productive", phase="save",
            performance_ratio=1.0, incident_id=None, cause=None, rule=None,
        )
        for n in range(20_000)
    ]  # fmt: skip
    drawn = list(bars(segments, BEGIN, 20_000.0))
    assert len(drawn) <= 1000 / MIN_WIDTH
    assert sum(b.n for b in drawn) == 20_000
    for left, right in pairwise(drawn):
        assert left.x + left.width == pytest.approx(right.x)
    assert sum(sum(b.seconds.values()) for b in drawn) == pytest.approx(20_000)


def test_write_leaves_three_files_and_nothing_else(report, tmp_path):
    path = report.write(tmp_path / "out")
    assert path.read_text() == report.to_html()
    assert sorted(p.name for p in path.parent.iterdir()) == [
        "report.html", "report.json", "report.md"]  # fmt: skip


def test_a_report_of_the_real_split_sums_and_renders():
    log, clock = TrainLog(), START
    log.event("train_start", clock)
    for step in range(1, 61):
        clock += 10
        log.event("step", clock, step_to=step, step_ms=10_000.0)
    con = timeline_of(log.rows, accounts=[accounting(1, START, clock + 5, "COMPLETED")])
    con.execute("create view reject as select * from raw_reject")
    report = build_from(con, Choice(), MADE)
    run = report.runs[0]
    parts = msgspec.structs.astuple(run.segments_s)
    assert sum(parts) == pytest.approx(run.wall_s)
    Page(report.to_html())


def test_a_report_is_no_log_when_it_is_fed_back(report):
    for text in (report.to_html(), report.to_markdown(), report.to_json()):
        assert TextLog().sniff(text.encode()[:65536], "report").score == 0
