"""The HTML report: one file without network, the answer first, then the data, then each run."""

from __future__ import annotations

import base64
import hashlib
import os.path
from importlib.resources import files

from parsers.text_log import REPORT_MARK
from pipeline.report import words
from pipeline.report.html_parts import figure, lost_figure, number_cell, stacked, table
from pipeline.report.html_run import run_section
from pipeline.report.markup import Child, Html, el, raw, together
from pipeline.report.model import Report, Run
from pipeline.report.summary import Answer, Cause, answer, gpu_hours, lost_s, worst_first
from pipeline.report.timeline_chart import categories

MAX_RUNS_IN_DETAIL = 30
"""Runs with a section of their own; the others stand in the table of runs."""
MAX_RUNS_LISTED = 500
_LEAST_SHARE = 0.001

TOR_MEANING = (
    "Training Overhead Ratio: the time that the kept steps would have taken without any trouble, "
    "divided by the wall-clock time that was spent. 1 is perfect."
)


def to_html(report: Report) -> str:
    """The report as one self-contained page; log text is escaped, nothing is loaded."""
    css = files("pipeline.report").joinpath("report.css").read_text(encoding="utf-8")
    js = files("pipeline.report").joinpath("report.js").read_text(encoding="utf-8")
    body = el(
        "body", {},
        el("main", {}, _header(report), _answer(report), _data_quality(report), _runs(report),
           _details(report), _footer()),
        el("script", {}, raw(js)),
    )  # fmt: skip
    head = el(
        "head", {},
        el("meta", {"charset": "utf-8"}),
        el("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        el("meta", {"name": "color-scheme", "content": "light dark"}),
        el("meta", {"http-equiv": "Content-Security-Policy", "content": _policy(js)}),
        el("title", {}, f"wallsplit: {_title(report)}"),
        el("style", {}, raw(css)),
    )  # fmt: skip
    return (
        f"<!doctype html><!-- {REPORT_MARK} -->\n" + el("html", {"lang": "en"}, head, body) + "\n"
    )


def _policy(js: str) -> str:
    """Nothing may be loaded and no script but ours may run, whatever a log line says."""
    digest = base64.b64encode(hashlib.sha256(js.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _title(report: Report) -> str:
    if len(report.runs) == 1:
        return words.run_name(report.runs[0])
    return words.counted(len(report.runs), "run")


def _header(report: Report) -> Html:
    where = f"Cluster {', '.join(report.clusters)} · " if report.clusters else ""
    return el(
        "header", {},
        el("p", {"class": "brand"}, "wallsplit"),
        el("h1", {}, "Where the wall-clock time went"),
        el("p", {"class": "sub"},
           f"{where}{words.covered(report.runs)} · made {words.moment(report.generated_at)} UTC"),
        None if report.choice.is_whole
        else el("p", {"class": "sub choice"}, words.choice(report.choice)),
    )  # fmt: skip


def _answer(report: Report) -> Html:
    if not report.runs:
        return el(
            "section", {"class": "card"}, el("h2", {}, "No runs"),
            el("ul", {"class": "warnings"}, [el("li", {}, why) for why in report.why_empty]),
        )  # fmt: skip
    total = answer(report.runs)
    return el("section", {"class": "answer", "aria-label": "The answer"}, _tor_card(report, total),
              _causes_card(total))  # fmt: skip


def _tor_card(report: Report, total: Answer) -> Html:
    n_known = total.n_runs - total.n_runs_without_tor
    if total.tor_low is None:
        meaning: Child = "No log shows how long a step took, so there is no TOR."
    elif total.has_interval:
        meaning = (
            f"Between {words.share(total.tor_low)} and {words.share(total.tor_high)} of the wall "
            "clock was useful training; the logs do not explain the difference."
        )
    else:
        meaning = f"{words.share(total.tor_low)} of the wall clock was useful training."
    return el(
        "div", {"class": "card hero"},
        el("p", {"class": "label"},
           "TOR", f" of {words.counted(n_known, 'run')} together" if n_known > 1 else None),
        el("p", {"class": "big", "title": TOR_MEANING}, total.tor),
        el("p", {"class": "meaning"}, meaning),
        _shares(report, total),
        el("dl", {"class": "figures"},
           lost_figure(total.lost_s if n_known else None,
                       f"of {words.duration(total.wall_s)}" if n_known else None),
           figure("GPU-hours lost", words.number(total.gpu_hours),
                  None if total.gpu_hours is not None else "no GPU counts in the data"),
           figure("Incidents", f"{total.n_incidents:,}")),
        el("p", {"class": "note"},
           f"{words.counted(total.n_runs_without_tor, 'run')} without step times not included.")
        if total.n_runs_without_tor and n_known else None,
    )  # fmt: skip


def _shares(report: Report, total: Answer) -> Html | None:
    """One bar over all runs with a TOR, and its legend."""
    if total.tor_low is None or total.wall_s <= 0:
        return None
    sums = dict.fromkeys(words.CATEGORIES, 0.0)
    for run in report.runs:
        if run.tor_low is not None:
            for name, seconds in categories(run):
                sums[name] += seconds or 0
    parts = [(name, seconds) for name, seconds in sums.items() if seconds != 0]
    legend = [
        el("li", {}, el("i", {"class": f"swatch {name}"}), words.category(name, seconds)[0], " ",
           el("span", {"class": "share"}, words.share(seconds / total.wall_s)))
        for name, seconds in parts
        if abs(seconds) / total.wall_s >= _LEAST_SHARE
    ]  # fmt: skip
    return el("div", {"class": "shares"}, stacked(parts, total.wall_s, "whole-bar"),
              el("ul", {}, legend))  # fmt: skip


def _causes_card(total: Answer) -> Html:
    top, rest = total.worst, total.others
    most = max((c.seconds for c in top), default=0)
    notes = [total.gain] if total.gain else []
    if rest:
        notes.append(
            f"{words.counted(len(rest), 'other cause')}: "
            f"{words.duration(sum(c.seconds for c in rest))}, "
            f"{words.share(sum(c.share for c in rest))} of the wall clock."
        )
    empty = el("p", {}, "Nothing was lost that the logs can show.") if not top else None
    return el(
        "div", {"class": "card causes"},
        el("p", {"class": "label"}, "What cost most"),
        el("ol", {}, [_cause(c, most) for c in top]), empty,
        [el("p", {"class": "note"}, note) for note in notes],
    )  # fmt: skip


def _cause(cause: Cause, most: float) -> Html:
    width = max(cause.seconds, 0) / most if most > 0 else 0
    story = cause.story
    if cause.nodes:
        story += f"; suspected: {words.some(cause.nodes)}"
    gpus = f" · {words.number(cause.gpu_hours)} GPU-hours" if cause.gpu_hours is not None else ""
    return el(
        "li", {},
        el("div", {"class": "row"}, el("b", {}, cause.title),
           el("span", {"class": "cost"}, words.duration(cause.seconds),
              el("small", {}, f" {words.share(cause.share)}{gpus}"))),
        el("div", {"class": "meter"},
           el("i", {"class": cause.category, "style": f"width:{width:.2%}"})),
        el("p", {"class": "story"}, story) if story else None,
    )  # fmt: skip


def _data_quality(report: Report) -> Html:
    q = report.data_quality
    rejects = f"{q.rejects:,}"
    note = f"{words.share(q.reject_share)} of {words.counted(q.claimed_lines, 'line')} understood"
    # a run without step times is one whole gap; it is counted as such elsewhere
    gaps = [
        s
        for r in report.runs
        if r.tor_low is not None
        for s in report.timelines.get(r.run_id, [])
        if s.category == "unexplained"
    ]
    longest = max(gaps, key=lambda s: s.duration_s, default=None)
    warnings = None
    if q.warnings:
        warnings = el(
            "details", {"open": "open"} if len(q.warnings) <= 12 else {},
            el("summary", {}, f"{words.counted(len(q.warnings), 'warning')} about the data"),
            el("ul", {"class": "warnings"}, [_warning(w) for w in q.warnings]),
        )  # fmt: skip
    return el(
        "section", {"class": "card quality", "id": "data"},
        el("h2", {}, "Can the data be trusted?"),
        None if report.choice.is_whole
        else el("p", {"class": "note"}, "Counts and warnings are those of the whole lake; window "
                "and gaps those of the runs shown."),
        el("dl", {"class": "figures"},
           figure("Window", _date(report.window.start), f"to {_date(report.window.end)} UTC")
           if report.runs else None,
           figure("Read", words.counted(q.files, "file"),
                  f"{words.counted(q.lines, 'line')}, {words.size(q.bytes)}"),
           figure("Lines understood", words.share(q.coverage),
                  words.counted(q.claimed_lines, "line")),
           figure("Rejected records", rejects, note),
           figure("Gaps", words.duration(sum(s.duration_s for s in gaps)),
                  f"{words.counted(len(gaps), 'stretch', 'stretches')} unexplained, "
                  f"longest {words.duration(longest.duration_s)}" if longest
                  else "no unexplained time")),
        warnings,
    )  # fmt: skip


def _warning(warning: str) -> Html:
    lead, colon, rest = warning.partition(": ")
    return el("li", {}, el("b", {}, lead), colon, rest)


def _date(at: object) -> str:
    return str(at)[:16] if at is not None else "unknown"


def _runs(report: Report) -> Html | None:
    if len(report.runs) < 2:
        return None
    runs = worst_first(report)
    header = ("Run", "Where the time went", "TOR", "Wall clock", "Lost", "GPU-hours lost",
              "Incidents", "State")  # fmt: skip
    rows = [_run_row(r, has_section=n < MAX_RUNS_IN_DETAIL) for n, r in enumerate(runs)]
    note = None
    if len(rows) > MAX_RUNS_LISTED:
        note = el("p", {"class": "note"},
                  f"The {MAX_RUNS_LISTED} runs that lost most of {len(rows):,}; the JSON report "
                  "has all.")  # fmt: skip
    return el(
        "section", {"class": "card", "id": "runs"},
        el("h2", {}, "Runs, those that lost most first"),
        table(header, rows[:MAX_RUNS_LISTED], numeric=(2, 3, 4, 5, 6)), note,
    )  # fmt: skip


def _run_row(run: Run, *, has_section: bool) -> list[Child]:
    name = words.run_name(run)
    link = el("a", {"href": f"#{run.run_id}"}, name) if has_section else el("span", {}, name)
    return [
        together([link, el("small", {"class": "id"}, run.run_id)]),
        _mini_bar(run),
        el("b", {}, words.tor(run.tor_low, run.tor_high, run.has_interval)),
        words.duration(run.wall_s),
        words.duration(lost_s(run)),
        number_cell(None if run.tor_low is None else gpu_hours(run.losses)),
        f"{run.n_incidents:,}",
        run.end_state or "unknown",
    ]


def _mini_bar(run: Run) -> Html:
    return stacked([(n, s) for n, s in categories(run) if s], run.wall_s, "mini")


def _details(report: Report) -> Html:
    runs = worst_first(report)[:MAX_RUNS_IN_DETAIL]
    root = _common_folder(report)
    return together(run_section(r, report.timelines.get(r.run_id, []), root) for r in runs)


def _common_folder(report: Report) -> str:
    """The folder that all files of the evidence share, with a slash at its end."""
    paths = {e.file for r in report.runs for i in r.incidents for e in i.evidence}
    paths |= {launch.file for r in report.runs for launch in r.launches if launch.file}
    folders = {os.path.dirname(p) for p in paths if os.path.isabs(p)}  # noqa: PTH120, PTH117
    if not folders or len(folders) < len({os.path.dirname(p) for p in paths}):  # noqa: PTH120
        return ""
    common = os.path.commonpath(sorted(folders))
    return common.rstrip("/") + "/" if common != "/" else ""


def _footer() -> Html:
    return el(
        "footer", {},
        el("p", {}, TOR_MEANING),
        el("p", {},
           "Every loss belongs to exactly one cause, so the losses of a run sum to 1 - TOR. "
           "GPU-hours count GPUs while they were held. The lines behind a number: "
           , el("code", {}, "wallsplit show incident:ID --lake LAKE"), "."),
    )  # fmt: skip
