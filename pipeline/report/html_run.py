"""The section of one run: figures, timeline, losses, attempts, incidents."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.report import words
from pipeline.report.html_parts import (
    figure,
    framed,
    lost_figure,
    number_cell,
    table,
    text_cell,
)
from pipeline.report.markup import Child, Html, el, together
from pipeline.report.model import Attempt, Evidence, Incident, Run, Segment
from pipeline.report.summary import Cause, answer, gpu_hours, lost_s
from pipeline.report.timeline_chart import categories, timeline

MAX_ROWS = 200
"""Attempts or incidents listed for one run; the JSON report has all."""
_MAX_LOSS_ROWS = 12
_OPEN_EVIDENCE = 6
"""With more incidents than this their evidence is folded."""


def run_section(run: Run, segments: Sequence[Segment], root: str) -> Html:
    """Everything about one run; `root` is the folder that paths are shown relative to."""
    numbers = {incident.incident_id: n for n, incident in enumerate(run.incidents, 1)}
    return el(
        "section", {"class": "card run", "id": run.run_id},
        el("h2", {}, words.run_name(run), " ",
           el("span", {"class": f"state {run.end_state or 'unknown'}"},
              run.end_state or "unknown end")),
        el("p", {"class": "sub"}, el("code", {}, run.run_id),
           f" · {words.moment(run.start_at)} to {words.moment(run.end_at)} UTC"
           f"{' (last evidence)' if run.is_open else ''}"),
        _figures(run),
        el("h3", {}, "Timeline"),
        timeline(run, segments, numbers),
        _legend(run),
        _losses(run),
        _attempts(run, root),
        _incidents(run, root),
    )  # fmt: skip


def _figures(run: Run) -> Html:
    skipped = f", {run.steps_skipped:,} discarded" if run.steps_skipped else ""
    launches = f"{words.counted(run.n_launches or 0, 'launch', 'launches')} seen"
    saves = run.checkpoints
    return el(
        "dl", {"class": "figures"},
        figure("TOR", el("b", {}, words.tor(run.tor_low, run.tor_high, run.has_interval)),
               _tor_note(run)),
        figure("Wall clock", words.duration(run.wall_s),
               None if run.queue_s is None
               else f"after {words.duration(run.queue_s)} in the queue"),
        lost_figure(lost_s(run), _gpu_note(run)),
        figure("Steps kept", words.number(run.steps_kept),
               f"{words.number(run.steps_lost)} rolled back{skipped}"),
        figure("Reference step", words.step_time(run.reference_step_s), words.reference(run)),
        figure("Attempts", f"{run.n_attempts:,}", launches),
        figure("Checkpoints", f"{saves.n_saves:,} saved",
               f"{saves.n_durable:,} complete, {words.duration(saves.blocked_s)} blocked"),
    )  # fmt: skip


def _tor_note(run: Run) -> str | None:
    if run.tor_low is None:
        return "no usable step times in the logs"
    gpu = run.tor_observed_gpu
    notes = [
        f"interval: {words.share(run.unexplained_share)} of the time is unexplained"
        if run.has_interval else None,
        None if gpu is None else f"{words.ratio(gpu)} weighted by GPUs",
    ]  # fmt: skip
    return "; ".join(note for note in notes if note) or None


def _gpu_note(run: Run) -> str:
    hours = None if run.tor_low is None else gpu_hours(run.losses)
    return "GPU count unknown" if hours is None else f"{words.number(hours)} GPU-hours"


def _legend(run: Run) -> Html:
    """Seconds and share of each category; the names light up the timeline."""
    rows = []
    for name, seconds in categories(run):
        if seconds == 0:
            continue
        title, meaning = words.category(name, seconds)
        part = seconds / run.wall_s if seconds is not None and run.wall_s else None
        rows.append(
            el("tr", {"data-category": name},
               el("th", {"scope": "row"}, el("i", {"class": f"swatch {name}"}), title),
               el("td", {"class": "meaning"}, meaning),
               el("td", {"class": "num"}, words.duration(seconds)),
               el("td", {"class": "num"}, "" if seconds is None else words.seconds(seconds)),
               el("td", {"class": "num"}, words.share(part)))
        )  # fmt: skip
    head = el("tr", {}, [el("th", {"scope": "col", "class": c}, h) for h, c in (
        ("Category", None), ("Meaning", "meaning"), ("Time", "num"), ("Seconds", "num"),
        ("Share", "num"))])  # fmt: skip
    return framed(el("table", {"class": "legend"}, el("thead", {}, head), el("tbody", {}, rows)))


def _losses(run: Run) -> Html | None:
    """From 1 down to TOR: one floating bar per cause."""
    if run.tor_low is None:
        return None
    causes = answer([run]).causes
    shown, rest = causes[:_MAX_LOSS_ROWS], causes[_MAX_LOSS_ROWS:]
    rows = [_loss_row("Wall clock", (0.0, 1.0), "whole", [words.duration(run.wall_s), "", "1.000"])]
    level = 1.0
    for cause in shown:
        rows.append(_loss_row(
            _loss_title(cause), (level - cause.share, level), cause.category,
            [words.duration(cause.seconds), number_cell(cause.gpu_hours),
             words.signed(-cause.share)],
        ))  # fmt: skip
        level -= cause.share
    if rest:
        part = sum(c.share for c in rest)
        rows.append(_loss_row(
            words.counted(len(rest), "other cause"), (level - part, level), "planned",
            [words.duration(sum(c.seconds for c in rest)), "", words.signed(-part)],
        ))  # fmt: skip
    rows.append(_loss_row("TOR", (0.0, run.tor_low), "productive",
                          [words.duration(run.t_opt_s), "", words.ratio(run.tor_low)]))  # fmt: skip
    head = el("tr", {}, [el("th", {"scope": "col", "class": c}, h) for h, c in (
        ("Cause", None), ("From 1 down to TOR", "chart"), ("Time", "num"), ("GPU-hours", "num"),
        ("TOR", "num"))])  # fmt: skip
    return together([
        el("h3", {}, "What it lost"),
        framed(el("table", {"class": "waterfall"}, el("thead", {}, head), el("tbody", {}, rows))),
    ])  # fmt: skip


def _loss_title(cause: Cause) -> Child:
    if not cause.n_incidents:
        return cause.title
    return together([cause.title, el("small", {}, f" \N{MULTIPLICATION SIGN} {cause.n_incidents}")])


def _loss_row(title: Child, span: tuple[float, float], kind: str, cells: list[Child]) -> Html:
    low, high = sorted(min(max(v, 0.0), 1.0) * 100 for v in span)
    bar = el(
        "svg", {"viewBox": "0 0 100 10", "preserveAspectRatio": "none", "aria-hidden": "true"},
        el("rect", {"x": f"{low:.3f}", "width": f"{max(high - low, 0.15):.3f}", "y": 0,
                    "height": 10, "class": kind}),
    )  # fmt: skip
    return el("tr", {"class": "total"} if kind in ("whole", "productive") else {},
              el("th", {"scope": "row"}, title), el("td", {"class": "chart"}, bar),
              [el("td", {"class": "num"}, c) for c in cells])  # fmt: skip


def _attempts(run: Run, root: str) -> Html | None:
    if not run.attempts:
        return None
    header = ("#", "Job", "Start (UTC)", "End (UTC)", "State", "Ended by", "Nodes", "GPUs",
              "Steps", "Belongs to the run because")  # fmt: skip
    rows = [_attempt_row(run, a, root) for a in run.attempts[:MAX_ROWS]]
    return together([
        el("h3", {}, f"Attempts ({len(run.attempts):,})"),
        table(header, rows, numeric=(6, 7, 8)), _cut_note(len(run.attempts)),
    ])  # fmt: skip


def _attempt_row(run: Run, a: Attempt, root: str) -> list[Child]:
    place = None
    if a.file is not None:
        path = f"{words.shown_file(a.file, root)}:{a.line}"
        place = el("small", {"class": "id short", "title": path}, path.rpartition("/")[2])
    steps = None if a.last_step is None else f"{a.first_step or 0:,}\N{EN DASH}{a.last_step:,}"
    signal = f", signal {a.exit_signal}" if a.exit_signal else ""
    exit_text = "" if a.exit_code is None else f" (exit {a.exit_code}{signal})"
    why = [words.link_rule(a.link_rule, None)]
    if a.link_rule is not None:
        sure = "" if a.link_confidence is None else f" {words.ratio(a.link_confidence, 2)}"
        seen = f": {a.link_evidence}" if a.link_evidence is not None else ""
        why.append(el("small", {"class": "id"}, f"{a.link_rule}{sure}{seen}"))
    return [
        f"{a.ordinal}",
        together([text_cell(a.job_id), place]),
        _time(words.moment(a.start_at)),
        _time("still open" if a.end_at is None else words.moment(a.end_at)),
        text_cell(a.state),
        f"{words.attempt_end(a, run)}{exit_text}",
        number_cell(a.n_nodes),
        number_cell(a.n_gpus),
        text_cell(steps),
        together(why),
    ]


def _time(text: str) -> Html:
    return el("span", {"class": "time"}, text)


def _incidents(run: Run, root: str) -> Html:
    if not run.incidents:
        return together([el("h3", {}, "Incidents"), el("p", {"class": "note"}, "None.")])
    is_open = len(run.incidents) <= _OPEN_EVIDENCE
    shown = run.incidents[:MAX_ROWS]
    header = ("#", "When (UTC)", "What", "Confidence", "Suspects", "Steps lost", "Cost",
              "GPU-hours")  # fmt: skip
    head = el("tr", {}, [el("th", {"scope": "col", "class": "num" if n > 4 else None}, h)
                         for n, h in enumerate(header)])  # fmt: skip
    bodies = [_incident(run, i, n, root, is_open=is_open) for n, i in enumerate(shown, 1)]
    return together([
        el("h3", {}, f"Incidents ({len(run.incidents):,})"),
        framed(el("table", {"class": "incidents"}, el("thead", {}, head), bodies)),
        _cut_note(len(run.incidents)),
    ])  # fmt: skip


def _incident(run: Run, i: Incident, number: int, root: str, *, is_open: bool) -> Html:
    suspects = [*i.nodes, *(f"GPU {gpu}" for gpu in i.gpus)]
    cells: list[Child] = [
        together([_time(words.moment(i.onset_at)),
                  el("small", {"class": "id time"}, _resumed(i))]),
        together([el("b", {}, words.incident_type(i.type, i.mode)),
                  el("small", {"class": "id"}, f"{i.type}, {i.mode}, {i.domain}")]),
        el("span", {"class": f"pill {i.confidence}"}, i.confidence),
        text_cell(words.some(suspects, 4) or None),
        number_cell(i.lost_steps),
        together([words.duration(i.total_s),
                  el("small", {"class": "id"}, f"{words.seconds(i.total_s)}: {words.cost(i)}")]),
        number_cell(i.gpu_hours),
    ]  # fmt: skip
    row = el(
        "tr", {},
        el("th", {"scope": "row"}, el("span", {"class": "mark"}, number)),
        [el("td", {"class": "num" if n > 3 else None}, c) for n, c in enumerate(cells)],
    )  # fmt: skip
    detail = el("tr", {"class": "detail"}, el("td", {}),
                el("td", {"colspan": len(cells)}, _evidence(i, root, is_open=is_open)))  # fmt: skip
    return el("tbody", {"id": f"{run.run_id}-i{number}"}, row, detail)


def _resumed(i: Incident) -> str:
    if i.resumed_at is None:
        return "never resumed"
    return f"resumed {words.moment(i.resumed_at)}"


def _evidence(i: Incident, root: str, *, is_open: bool) -> Html:
    if not i.evidence:
        return el("p", {"class": "note"}, i.summary or "No line speaks of it.")
    more = words.more_evidence(i)
    return el(
        "details", {"open": "open"} if is_open else {},
        el("summary", {}, words.evidence(i)),
        el("ul", {"class": "evidence"}, [_line(e, i, root) for e in i.evidence]),
        el("p", {"class": "note"}, f"{more}: ",
           el("code", {}, f"wallsplit show incident:{i.incident_id} --lake LAKE"))
        if more else None,
    )  # fmt: skip


def _line(e: Evidence, i: Incident, root: str) -> Html:
    role = words.role(e.role, is_root=e.is_root, confidence=i.confidence)
    who = [role, e.node, None if e.rank is None else f"rank {e.rank}"]
    note = ", ".join(w for w in who if w)
    return el(
        "li", {"class": "root" if e.is_root else None},
        el("code", {"class": "place", "title": f"{e.file}:{e.line}"},
           f"{words.shown_file(e.file, root)}:{e.line}"),
        el("span", {"class": "role"}, note),
        el("code", {"class": "text"}, e.message or e.signature_id or ""),
    )  # fmt: skip


def _cut_note(n: int) -> Html | None:
    if n <= MAX_ROWS:
        return None
    return el("p", {"class": "note"}, f"The first {MAX_ROWS} of {n:,}; the JSON report has all.")
