"""Reports over a small hand-made set of timeline tables, hostile texts among them."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from itertools import pairwise

import duckdb
import msgspec
import pyarrow as pa
import pytest

from parsers.text_log import TextLog
from pipeline.errors import UsageError
from pipeline.report import Choice, Report, build_from, words
from pipeline.report.markdown_page import cell, code
from pipeline.report.markup import el
from pipeline.report.model import Segment
from pipeline.report.timeline_chart import MIN_WIDTH, bars
from pipeline.schema import ALL_TABLES
from tests.histories import START, TrainLog, accounting, timeline_of

BEGIN = datetime(2026, 2, 1, tzinfo=UTC)
MADE = datetime(2026, 2, 3, 6, 0, 0, 250_000, tzinfo=UTC)
HOSTILE = "</code><script>alert('x')</script> \"q\" \x1b[31m \x00 \u202egnp.exe `|*_ &amp; ]]>"
PLACE = {"file_id": "f1", "line": 7, "byte_offset": 700}

# category, phase, seconds, r, cause, incident
SPLIT = [
    ("startup", "initialisation", 100.0, 0.0, "startup", None),
    ("productive", "train", 400.0, 1.0, None, None),
    ("checkpoint", "save", 20.0, 0.0, "checkpoint", None),
    ("productive", "train", 200.0, 0.5, "slow", None),
    ("lost_recompute", "train", 80.0, 0.0, "incident", "i1"),
    ("recovery", "detection", 150.0, 0.0, "incident", "i1"),
    ("unexplained", "unknown", 50.0, 0.0, "unexplained", None),
]
Tables = dict[str, list[dict[str, object]]]


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def split_tables(name: str = "llama") -> Tables:
    """A run of 1000 s with TOR 0.5, or 0.55 if its unexplained time was useful; and one without."""
    segments, losses, clock = [], [], 0.0
    for n, (category, phase, seconds, r, cause, incident) in enumerate(SPLIT):
        segments.append({
            "segment_id": f"s{n}", "run_id": "r1", "launch_no": 1, "start_at": at(clock),
            "end_at": at(clock + seconds), "duration_s": seconds, "category": category,
            "phase": phase, "performance_ratio": r, "cause": cause, "incident_id": incident,
            "n_gpus": 8, "rule": "kept steps", **PLACE,
        })  # fmt: skip
        clock += seconds
    for cause, kind, seconds, incident in (
        ("incident", "gpu.bus", 230.0, "i1"), ("slow", None, 100.0, None),
        ("startup", None, 100.0, None), ("unexplained", None, 50.0, None),
        ("checkpoint", None, 20.0, None),
    ):  # fmt: skip
        losses.append({"run_id": "r1", "cause": cause, "type": kind, "seconds": seconds,
                       "share": seconds / 1000, "gpu_hours": seconds * 8 / 3600,
                       "incident_id": incident})  # fmt: skip
    segments.append({
        "segment_id": "t0", "run_id": "r2", "start_at": at(5000), "end_at": at(5300),
        "duration_s": 300.0, "category": "productive", "phase": "train", "rule": "steps", **PLACE,
    })  # fmt: skip
    return {
        "segment": segments,
        "loss": losses,
        "run": [
            {"run_id": "r1", "cluster": "c", "name": name, "start_at": at(0), "end_at": at(1000),
             "is_open": False, "end_state": "completed", "n_attempts": 2, "n_launches": 2,
             "n_incidents": 1, "n_gpus": 8, "wall_s": 1000.0, "queue_s": 60.0,
             "tor_observed": 0.5, "tor_low": 0.5, "tor_high": 0.55, "t_opt_s": 500.0,
             "reference_step_s": 1 / 3, "n_healthy_steps": 12, "steps_kept": 1500,
             "steps_lost": 240, "unexplained_share": 0.05, "time_error_s": 0.001},
            {"run_id": "r2", "cluster": "c", "start_at": at(5000), "end_at": at(5300),
             "is_open": True, "end_state": "open", "n_attempts": 1, "wall_s": 300.0},
        ],
        "run_attempt": [
            {"run_id": "r1", "attempt_id": "a1", "ordinal": 1},
            {"run_id": "r1", "attempt_id": "a2", "ordinal": 2, "link_rule": "E2",
             "link_confidence": 0.99},
            {"run_id": "r2", "attempt_id": "a3", "ordinal": 1},
        ],
        "run_link": [
            {"prev_attempt_id": "a1", "attempt_id": "a2", "rule": "E2", "confidence": 0.99,
             "is_used": True, "evidence": "job id 1"},
            {"prev_attempt_id": "a2", "attempt_id": "a3", "rule": "E7", "confidence": 0.6,
             "is_used": False, "evidence": "same user, name and folder"},
        ],
        "attempt": [
            {"attempt_id": a, "scheduler": scheduler, "job_id": "1", "native_id": native,
             "start_at": at(0), "state": "NODE_FAIL", "end_kind": "node_fail", "n_gpus": 8,
             "restart_count": restarts, "file_id": "f1", "line": 3}
            for a, scheduler, native, restarts in (
                ("a1", "slurm", "1", 0), ("a2", "slurm", "1", 3), ("a3", None, None, None))
        ],
        "attempt_step": [{"native_id": "99", "step_id": "batch", "file_id": "f1", "line": 9}],
        "launch": [{"run_id": "r1", "launch_no": 1, "attempt_id": "a1", "start_at": at(50),
                    "first_step": 1, "last_step": 1500, "file_id": "f1", "log_rule": "stdout",
                    "log_confidence": 1.0}],
        "checkpoint": [{"run_id": "r1", "launch_no": 1, "step": 1000, "begin_at": at(500),
                        "durable_at": at(520), "is_durable": True, "is_async": False, "seq": 1}],
        "incident": [
            {"incident_id": "i1", "run_id": "r1", "attempt_id": "a1", "launch_no": 1,
             "onset_at": at(720), "ended_at": at(800), "type": "gpu.bus", "mode": "fail_stop",
             "domain": "infrastructure", "nodes": ["node<7>"], "gpus": ["0000:9b:00"],
             "lost_steps": 240, "lost_s": 80.0, "recovery_s": 150.0, "slow_s": 0.0,
             "total_s": 230.0, "gpu_hours": 0.5, "confidence": "confirmed", "n_evidence": 41,
             "summary": HOSTILE},
        ],
        "incident_evidence": [
            {"incident_id": "i1", "signature_id": "gpu.xid79", "role": "root", "is_root": n == 2,
             "occurred_at": at(720 + n), "node": "node<7>", "count": 2, "message": HOSTILE,
             "file_id": "f1", "line": 10 + n, "seq": n}
            for n in range(20)
        ],
        "file": [
            {"file_id": "f1", "path": f"/logs/{HOSTILE}.log", "format": "text", "dialect": "hf",
             "status": "parsed", "n_bytes": 5_000_000, "n_lines": 1000, "n_claimed_lines": 250,
             "n_rejects": 5},
            {"file_id": "f2", "path": "/logs/b.gz", "status": "truncated", "n_bytes": 10,
             "status_detail": "ends inside a gzip member", "n_lines": 0, "n_claimed_lines": 0,
             "n_rejects": 0},
            {"file_id": "f3", "path": "/logs/lonely.log", "status": "parsed", "dialect": "hf"},
        ],
        "reject": [{"file_id": "f1", "line": n, "seq": n, "reason": "no step number"}
                   for n in range(1, 6)],
    }  # fmt: skip


def connection(tables: Tables) -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.execute("set timezone = 'UTC'")
    for table in ALL_TABLES:
        con.register(table.name, pa.Table.from_pylist(tables.get(table.name, []), table.schema))
    return con


def report_of(tables: Tables, **choice: object) -> Report:
    return build_from(connection(tables), Choice(**choice), MADE)


@pytest.fixture(scope="module")
def report() -> Report:
    return report_of(split_tables())


def test_json_has_the_fields_of_the_contract_in_their_order(report):
    document = json.loads(report.to_json())
    assert list(document) == ["generated_at", "window", "clusters", "data_quality", "runs",
                              "failure_rates", "fits", "predictions"]  # fmt: skip
    assert list(document["data_quality"]) == [
        "files", "bytes", "lines", "claimed_lines", "rejects", "reject_share", "coverage",
        "warnings"]  # fmt: skip
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
        "1 log with step lines belong to no attempt and are left out",
        "accounting rows missing for 1 run",
        "accounting was taken without --duplicates, earlier attempts are missing",
        "accounting steps without the row of their job",
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
    unzoned = [{**row, "timezone": None} for row in ledger]
    con.register("raw_file", pa.Table.from_pylist(unzoned))
    warnings = build_from(con, Choice(), MADE).data_quality.warnings
    assert "times without zone are read as UTC in 2 files" in warnings[0]


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
    with pytest.raises(UsageError, match=r"no run 'x'.*r2 \(None\), r1 \(llama\)"):
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
    assert "and 17 more: `wallsplit show incident:i1`" in text


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


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "unknown"), (0, "0 s"), (0.244, "0.24 s"), (42.5, "42.5 s"), (59.96, "1 min"),
     (725, "12 min 5 s"), (3599.6, "1 h"), (18_720, "5 h 12 min"), (273_600, "3 d 4 h"),
     (-90, "-1 min 30 s")],
)  # fmt: skip
def test_durations_are_told_in_two_units(seconds, text):
    assert words.duration(seconds) == text


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
