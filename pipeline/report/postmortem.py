"""The post-mortem of a run or of one incident, as Markdown: order, first signs, cost, rivals."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from parsers.text_log import REPORT_MARK
from pipeline.errors import UsageError
from pipeline.report import questions, words
from pipeline.report.markdown_page import run_facts
from pipeline.report.markdown_parts import cell, code, plain, table
from pipeline.report.model import Choice, Evidence, Incident, Run, Segment
from pipeline.report.quality import OF_WHOLE_LAKE
from pipeline.report.reading import ask, build_from, grouped, records
from pipeline.report.summary import answer

if TYPE_CHECKING:
    import duckdb

MAX_CANDIDATES = 10
_FIRST_SIGNS = 5
_MILESTONES = 20


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of one signature that could name the cause of an incident, and were not chosen."""

    signature_id: str
    component: str
    role: str
    is_hint: bool
    is_milder: bool
    n_lines: int
    first_at: datetime | None
    nodes: list[str]
    file: str
    line: int


class FirstSign(msgspec.Struct, frozen=True, kw_only=True):
    """When a node or rank first spoke of an incident."""

    node: str | None
    rank: int | None
    first_at: datetime
    n_lines: int


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """An incident with all that a post-mortem says about it."""

    number: int
    incident: Incident
    segments: list[Segment]
    lines: list[Evidence]
    candidates: list[Candidate]
    first_signs: list[FirstSign]


def postmortem(lake: Path, run: str, incident: str | None = None) -> str:
    """The post-mortem of a run, or of one of its incidents, as Markdown.

    UsageError where `run` is no id or name of exactly one run, or it has no such incident.
    """
    from pipeline import database

    con = database.connect(lake)
    try:
        return postmortem_from(con, run, incident)
    finally:
        con.close()


def postmortem_from(con: duckdb.DuckDBPyConnection, run: str, incident: str | None = None) -> str:
    """The post-mortem from the tables on a connection; the same tables give the same text."""
    report = build_from(con, Choice(run=run), datetime.now(UTC))
    if len(report.runs) > 1:
        ids = "\n".join(f"{r.run_id}, {words.covered([r])}" for r in report.runs)
        raise UsageError(f"{run} is the name of {len(report.runs)} runs; give the id of one\n{ids}")
    whole = report.runs[0]
    cases = _cases(con, whole, report.timelines.get(whole.run_id, []), incident)
    parts = [
        [f"<!-- {REPORT_MARK} -->", f"# Post-mortem of {code(words.run_name(whole))}"],
        list(_summary(whole, cases)),
        *([] if incident else [list(run_facts(whole))]),
        *(list(_chapter(whole, case)) for case in cases),
        list(_doubts(report.data_quality.warnings)),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _cases(
    con: duckdb.DuckDBPyConnection, run: Run, segments: list[Segment], wanted: str | None
) -> list[Case]:
    chosen = [
        (number, i)
        for number, i in enumerate(run.incidents, 1)
        if wanted is None or wanted.removeprefix("incident:") in (i.incident_id, str(number))
    ]
    if wanted is not None and not chosen:
        known = "\n".join(
            f"{number}: {i.incident_id} ({i.type}), {words.moment(i.onset_at)} UTC"
            for number, i in enumerate(run.incidents, 1)
        )
        raise UsageError(
            f"no incident {wanted!r} in {run.run_id}; expected the number or id of one\n"
            + (known or "it has none")
        )
    ids: dict[str, object] = {"incidents": [i.incident_id for _, i in chosen]}
    lines = grouped(ask(con, questions.INCIDENT_LINE, ids), "incident_id")
    candidates = grouped(ask(con, questions.CANDIDATE, ids), "incident_id")
    signs = grouped(ask(con, questions.FIRST_SIGN, ids), "incident_id")
    return [
        Case(
            number=number,
            incident=i,
            segments=[s for s in segments if s.incident_id == i.incident_id],
            lines=records(lines.get(i.incident_id, []), Evidence),
            candidates=records(candidates.get(i.incident_id, []), Candidate),
            first_signs=records(signs.get(i.incident_id, []), FirstSign),
        )
        for number, i in chosen
    ]


def _summary(run: Run, cases: list[Case]) -> Iterator[str]:
    total = answer([run])
    lost = "" if run.tor_low is None else f": {total.lost}"
    tor = words.tor(run.tor_low, run.tor_high, run.has_interval)
    yield f"**TOR {tor}**{lost}, {words.counted(run.n_incidents, 'incident')}."
    if not run.incidents:
        yield ""
        yield "No incident: no launch ended in a failure that the logs show."
        return
    yield ""
    for case in cases:
        i = case.incident
        yield (
            f"- Incident {case.number}: {plain(words.incident_type(i.type, i.mode))}, "
            f"{words.moment(i.onset_at)} UTC, cost {words.duration(i.total_s)}, "
            f"{words.gpu_hours(i.gpu_hours)} ({i.confidence})"
        )


def _chapter(run: Run, case: Case) -> Iterator[str]:
    i = case.incident
    yield f"## Incident {case.number}: {plain(words.incident_type(i.type, i.mode))}"
    yield ""
    suspects = ", ".join(code(name) for name in [*i.nodes, *i.gpus]) or "none named"
    yield (
        f"{code(f'incident:{i.incident_id}')}: {plain(i.type)}, {i.mode}, {i.domain}, "
        f"{i.confidence}{_where(run, i)}. Suspects: {suspects}."
    )
    yield from _cost(case)
    yield from _order(run, case)
    yield from _first(case)
    yield from _rivals(case)
    yield from _next(case)


def _where(run: Run, i: Incident) -> str:
    """Which attempts an incident struck."""
    first = next((a for a in run.attempts if a.attempt_id == i.attempt_id), None)
    if first is None:
        return ""
    verb = "slowed" if i.mode == "fail_slow" else "struck"
    job = "" if first.job_id is None else f" (job {code(first.job_id)})"
    more = (i.n_attempts or 1) - 1
    others = f" and {words.counted(more, 'more attempt')}" if more > 0 else ""
    return f", {verb} attempt {first.ordinal}{job}{others}"


def _cost(case: Case) -> Iterator[str]:
    """Seconds per phase; they sum to the cost of the incident. Of slow steps the excess counts."""
    i = case.incident
    seconds: dict[tuple[str, str], float] = {}
    for s in case.segments:
        is_slow = s.category == "productive"
        key = ("slow" if is_slow else s.category, s.phase)
        lost = (1 - (s.performance_ratio or 0)) * s.duration_s if is_slow else s.duration_s
        seconds[key] = seconds.get(key, 0) + lost
    rows = [
        (words.category(category, spent)[0], words.phase(phase), words.duration(spent))
        for (category, phase), spent in seconds.items()
    ]
    rows.append(("**together**", "", f"**{words.duration(i.total_s)}**"))
    yield from _heading("Cost")
    yield from table(("use", "phase", "time"), rows)
    yield ""
    steps = "steps unknown" if i.lost_steps is None else words.counted(i.lost_steps, "step")
    yield f"{steps} to do again, {words.gpu_hours(i.gpu_hours)} held meanwhile."


def _order(run: Run, case: Case) -> Iterator[str]:
    """Milestones and lines of evidence by time; lines without a time come last."""
    i = case.incident
    moments = [(at, _milestone(what)) for at, what in _milestones(run, i) if at is not None]
    moments += [(e.occurred_at, _said(e, i)) for e in case.lines if e.occurred_at is not None]
    timeless = [e for e in case.lines if e.occurred_at is None]
    rows = [
        (words.moment(at), _behind(at, i.onset_at), *cells)
        for at, cells in sorted(moments, key=lambda m: m[0])
    ]
    rows += [("no time", "", *_said(e, i)) for e in timeless]
    yield from _heading("What happened, in order")
    yield from table(("at (UTC)", "after onset", "who", "what", "line"), rows)
    more = i.n_evidence_lines - len({(e.file_id, e.line) for e in case.lines})
    if more > 0:
        yield ""
        yield (
            f"{words.counted(more, 'more line')}: "
            f"{code(f'wallsplit show incident:{i.incident_id} --lake LAKE')}"
        )


def _milestones(run: Run, i: Incident) -> Iterator[tuple[datetime | None, str]]:
    is_slow = i.mode == "fail_slow"
    yield (
        i.onset_at,
        "onset: "
        + (
            "the steps become slow"
            if is_slow
            else "last progress, or the first sign if that is earlier"
        ),
    )
    if i.detected_at not in (i.onset_at, i.ended_at):
        yield i.detected_at, "detected: the first error"
    ends = [a for a in run.attempts if _is_in(a.end_at, i)]
    for attempt in ends[:_MILESTONES]:
        yield attempt.end_at, f"attempt {attempt.ordinal} ended: {attempt.state or 'state unknown'}"
    if i.ended_at not in [a.end_at for a in ends]:
        yield i.ended_at, "the steps are fast again" if is_slow else "the process ended"
    for launch in [x for x in run.launches if _is_in(x.start_at, i)][:_MILESTONES]:
        yield launch.start_at, f"launch {launch.launch_no} started"
    if not is_slow:
        yield i.resumed_at, "resumed: first step that was kept"


def _is_in(at: datetime | None, i: Incident) -> bool:
    """Whether an instant lies in an incident, from its onset until the run resumed."""
    until = i.resumed_at or i.ended_at
    return None not in (at, i.onset_at, until) and i.onset_at < at <= until  # type: ignore[operator]


def _milestone(what: str) -> tuple[str, str, str]:
    return "", f"*{plain(what)}*", ""


def _said(e: Evidence, i: Incident) -> tuple[str, str, str]:
    """(who, what, line) of a line of evidence."""
    who = ", ".join(w for w in (e.node, None if e.rank is None else f"rank {e.rank}") if w)
    role = words.role(e.role, is_root=e.is_root, confidence=i.confidence)
    message = cell(e.message or e.signature_id)
    shown = f"**{role}** {message}" if e.is_root else f"{role} {message}"
    return plain(who), shown, cell(f"{e.file}:{e.line}")


def _behind(at: datetime, onset_at: datetime | None) -> str:
    if onset_at is None:
        return ""
    seconds = (at - onset_at).total_seconds()
    return "0 s" if seconds == 0 else words.change(seconds)


def _first(case: Case) -> Iterator[str]:
    yield from _heading("Who was first")
    signs = case.first_signs
    if not signs:
        yield "No line of the failure carries a time."
        return
    start = signs[0].first_at
    for n, sign in enumerate(signs[:_FIRST_SIGNS]):
        lag = (sign.first_at - start).total_seconds()
        behind = "first" if n == 0 else f"{words.change(lag)}" if lag else "at the same instant"
        yield (
            f"- {_name(sign)}: {words.moment(sign.first_at)} UTC, {behind}, "
            f"{words.counted(sign.n_lines, 'line')}"
        )
    if len(signs) > _FIRST_SIGNS:
        more = words.counted(len(signs) - _FIRST_SIGNS, "more node or rank", "more nodes or ranks")
        yield f"- and {more}"
    yield ""
    yield "Clocks of nodes may differ: a lead of less than a few seconds proves nothing."


def _name(sign: FirstSign) -> str:
    rank = None if sign.rank is None else f"rank {sign.rank}"
    named = [code(sign.node)] if sign.node is not None else []
    return ", ".join([*named, *([rank] if rank else [])]) or "a line that names neither"


def _rivals(case: Case) -> Iterator[str]:
    yield from _heading("What else could be the cause")
    if not case.candidates:
        yield "No other line could name one."
        return
    rows = [
        (
            plain(words.incident_type(c.component)), code(c.signature_id), f"{c.n_lines:,}",
            words.moment(c.first_at), ", ".join(code(node) for node in c.nodes[:4]),
            _why_behind(c), cell(f"{c.file}:{c.line}"),
        )
        for c in case.candidates[:MAX_CANDIDATES]
    ]  # fmt: skip
    yield from table(
        ("candidate", "signature", "lines", "first at (UTC)", "nodes", "ranks behind because",
         "first line"),
        rows,
    )  # fmt: skip


def _why_behind(c: Candidate) -> str:
    if c.is_hint:
        return "such lines are never a cause, only a hint"
    if c.is_milder:
        return "slows or warns, stops nothing"
    if c.role == "either":
        return "may be a symptom of the root"
    return "explains less, or came later"


def _next(case: Case) -> Iterator[str]:
    yield from _heading("What to check next")
    nodes = ", ".join(code(node) for node in case.incident.nodes) or "the nodes of the attempt"
    for check in checks(case.incident.type, case.incident.mode):
        yield f"- {check.replace('{nodes}', nodes)}"


def checks(kind: str, mode: str) -> list[str]:
    """What to look at after an incident of a type, or of the first part of its type.

    A hang that nothing explains is looked at as one of a collective, a slow stretch as one of
    performance.
    """
    if kind == "unattributed":
        kind = {"hang": "comm.hang", "fail_slow": "performance"}.get(mode, kind)
    text = files("pipeline.report").joinpath("checks.toml").read_text(encoding="utf-8")
    known = tomllib.loads(text)
    found = known.get(kind) or known.get(kind.partition(".")[0]) or known["unattributed"]
    return list(found["checks"])


def _doubts(warnings: list[str]) -> Iterator[str]:
    if doubts := [w for w in warnings if w != OF_WHOLE_LAKE]:
        yield "## What weakens these numbers"
        yield ""
        yield from (f"- {plain(w)}" for w in doubts)


def _heading(title: str) -> Iterator[str]:
    yield ""
    yield f"### {title}"
    yield ""
