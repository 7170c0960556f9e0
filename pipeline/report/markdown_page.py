"""The Markdown report: the answer, the data, then runs, losses, attempts and incidents as text."""

from __future__ import annotations

from collections.abc import Iterator

from parsers.text_log import REPORT_MARK
from pipeline.report import words
from pipeline.report.markdown_parts import cell, code, plain, table
from pipeline.report.model import Incident, Report, Run
from pipeline.report.summary import answer, gpu_hours, lost_s, worst_first
from pipeline.report.timeline_chart import categories

MAX_RUNS_IN_DETAIL = 30
"""Runs with a chapter of their own; the others stand in the table of runs."""
MAX_ROWS = 200


def to_markdown(report: Report) -> str:
    """The report as GitHub-flavoured Markdown; log text stands in code spans."""
    parts = [
        _head(report),
        _quality(report),
        _runs(report),
        *([*run_facts(r), *_incidents(r)] for r in worst_first(report)[:MAX_RUNS_IN_DETAIL]),
    ]
    return "\n\n".join(text for part in parts if (text := "\n".join(part))) + "\n"


def _head(report: Report) -> Iterator[str]:
    yield f"<!-- {REPORT_MARK} -->"
    yield "# Where the wall-clock time went"
    yield ""
    where = f"cluster {plain(', '.join(report.clusters))}, " if report.clusters else ""
    made = f"made {words.moment(report.generated_at)} UTC"
    yield f"{where}{words.covered(report.runs)}, {made}"
    yield ""
    if not report.choice.is_whole:
        yield f"{plain(words.choice(report.choice))}"
        yield ""
    if not report.runs:
        yield "**No runs**"
        yield ""
        yield from (f"- {plain(reason)}" for reason in report.why_empty)
        return
    total = answer(report.runs)
    n_known = total.n_runs - total.n_runs_without_tor
    if n_known > 1:
        yield (
            f"**TOR {total.tor}** over {words.counted(n_known, 'run')}: {total.lost}, "
            f"{words.gpu_hours(total.gpu_hours)}, {words.counted(total.n_incidents, 'incident')}."
            + (f" {total.gain}" if total.gain else "")
        )
        yield ""
    for run in worst_first(report)[:MAX_RUNS_IN_DETAIL]:
        yield f"- {_run_answer(run)}"


def _run_answer(run: Run) -> str:
    tor = words.tor(run.tor_low, run.tor_high, run.has_interval)
    if run.tor_low is None:
        return f"{code(words.run_name(run))}: TOR unknown, no usable step times in the logs."
    total = answer([run])
    top = "; ".join(
        f"{plain(c.title)} {words.duration(c.seconds)}"
        + (f" ({words.counted(c.n_incidents, 'incident')})" if c.n_incidents else "")
        for c in total.worst
    )
    return (
        f"{code(words.run_name(run))}: **TOR {tor}**{_by_gpus(run)}, {total.lost}, "
        f"{words.gpu_hours(gpu_hours(run.losses))}."
        + (f" Most: {top}." if top else "")
        + (f" {total.gain}" if total.gain else "")
    )


def _by_gpus(run: Run) -> str:
    gpu = run.tor_observed_gpu
    return "" if gpu is None else f" ({words.ratio(gpu)} weighted by GPUs)"


def _quality(report: Report) -> Iterator[str]:
    q = report.data_quality
    yield "## Data quality" + ("" if report.choice.is_whole else " of the whole lake")
    yield ""
    yield (
        f"{words.counted(q.files, 'file')}, {words.counted(q.lines, 'line')}, "
        f"{words.size(q.bytes)}; {words.counted(q.claimed_lines, 'line')} understood "
        f"({words.share(q.coverage)}); "
        f"{words.counted(q.rejects, 'record')} rejected ({words.share(q.reject_share)})."
    )
    if q.warnings:
        yield ""
        yield from (f"- {plain(w)}" for w in q.warnings)


def _runs(report: Report) -> Iterator[str]:
    if not report.runs:
        return
    yield "## Runs"
    yield ""
    header = ("run", "id", "TOR", "TOR by GPUs", "wall clock", "lost", "GPU-hours lost",
              "incidents", "state")  # fmt: skip
    rows = [
        (
            cell(words.run_name(r)), cell(r.run_id),
            words.tor(r.tor_low, r.tor_high, r.has_interval),
            "unknown" if r.tor_observed_gpu is None else words.ratio(r.tor_observed_gpu),
            words.duration(r.wall_s), words.duration(lost_s(r)),
            words.number(None if r.tor_low is None else gpu_hours(r.losses)),
            f"{r.n_incidents:,}", r.end_state or "unknown",
        )
        for r in report.runs
    ]  # fmt: skip
    yield from table(header, rows)


def run_facts(run: Run) -> Iterator[str]:
    """The chapter of a run: its figures, where its time went, its losses and attempts."""
    yield f"## Run {code(words.run_name(run))}"
    yield ""
    launches = words.counted(run.n_launches or 0, "launch", "launches")
    queue = "" if run.queue_s is None else f", after {words.duration(run.queue_s)} in the queue"
    yield (
        f"{code(run.run_id)}, {words.moment(run.start_at)} to {words.moment(run.end_at)} UTC, "
        f"{run.end_state or 'end unknown'}{queue}. {words.counted(run.n_attempts, 'attempt')}, "
        f"{launches} seen. Steps: {words.number(run.steps_kept)} kept, "
        f"{words.number(run.steps_lost)} rolled back. Reference step time "
        f"{words.step_time(run.reference_step_s)} ({words.reference(run)}). "
        f"{words.counted(run.checkpoints.n_saves, 'checkpoint')} saved, "
        f"{words.duration(run.checkpoints.blocked_s)} blocked."
    )
    yield ""
    yield from table(
        ("where the time went", "seconds", "share"),
        [
            (words.category(name, s)[0], "unknown" if s is None else words.amount(s),
             words.share(None if s is None or not run.wall_s else s / run.wall_s))
            for name, s in categories(run)
            if s != 0
        ],
    )  # fmt: skip
    yield from _losses(run)
    yield from _attempts(run)


def _losses(run: Run) -> Iterator[str]:
    if run.tor_low is None:
        return
    yield ""
    yield "### Losses"
    yield ""
    causes = answer([run]).causes
    rows = [
        (plain(c.title), f"{c.n_incidents:,}" if c.n_incidents else "",
         words.duration(c.seconds), words.number(c.gpu_hours), words.ratio(c.share, 4))
        for c in causes
    ]  # fmt: skip
    rows.append(("1 - TOR", "", words.duration(lost_s(run)),
                 words.number(gpu_hours(run.losses)), words.ratio(1 - run.tor_low, 4)))  # fmt: skip
    yield from table(("cause", "incidents", "time", "GPU-hours", "share"), rows)


def _attempts(run: Run) -> Iterator[str]:
    if not run.attempts:
        return
    yield ""
    yield f"### Attempts ({len(run.attempts):,})"
    yield ""
    header = ("#", "job", "start (UTC)", "end (UTC)", "state", "ended by", "nodes", "GPUs",
              "steps", "linked by")  # fmt: skip
    rows = [
        (
            f"{a.ordinal}", cell(a.job_id), words.moment(a.start_at),
            "still open" if a.end_at is None else words.moment(a.end_at),
            cell(a.state), plain(words.attempt_end(a, run)),
            words.number(a.n_nodes), words.number(a.n_gpus),
            "" if a.last_step is None else f"{a.first_step or 0:,} to {a.last_step:,}",
            plain(words.link_rule(a.link_rule, a.link_confidence)),
        )
        for a in run.attempts[:MAX_ROWS]
    ]  # fmt: skip
    yield from table(header, rows)


def _incidents(run: Run) -> Iterator[str]:
    if not run.incidents:
        return
    yield ""
    yield f"### Incidents ({len(run.incidents):,})"
    for number, incident in enumerate(run.incidents[:MAX_ROWS], 1):
        yield ""
        yield from _incident(incident, number)


def _incident(i: Incident, number: int) -> Iterator[str]:
    yield (
        f"{number}. **{plain(words.incident_type(i.type, i.mode))}** ({plain(i.type)}, {i.mode}, "
        f"{i.confidence}), {words.moment(i.onset_at)} UTC"
    )
    suspects = ", ".join(code(name) for name in [*i.nodes, *i.gpus][:6]) or "none named"
    yield (
        f"   - cost {words.duration(i.total_s)} ({words.cost(i)}), "
        f"{words.number(i.lost_steps)} steps lost, {words.gpu_hours(i.gpu_hours)}; "
        f"suspects: {suspects}"
    )
    for e in i.evidence:
        kind = words.role(e.role, is_root=e.is_root, confidence=i.confidence)
        said = code(e.message or e.signature_id or "-")
        yield f"   - {plain(kind)} {code(f'{e.file}:{e.line}')} {said}"
    if more := words.more_evidence(i):
        yield f"   - {more}: {code(f'wallsplit show incident:{i.incident_id} --lake LAKE')}"
