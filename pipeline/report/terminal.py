"""The answer in a few lines of plain text."""

from __future__ import annotations

from pipeline.report import words
from pipeline.report.model import Report
from pipeline.report.summary import answer, lost_s, worst_first
from pipeline.rows import harmless

_RUNS_SHOWN = 10


def to_terminal(report: Report) -> str:
    """TOR, hours lost and top causes of all runs, then of the runs that lost most."""
    if not report.runs:
        return "\n".join(["no runs", *(f"  {harmless(reason)}" for reason in report.why_empty)])
    total = answer(report.runs)
    n_known = total.n_runs - total.n_runs_without_tor
    headline = (
        f"TOR {total.tor}: {total.lost} in {words.counted(n_known, 'run')}, "
        f"{words.counted(total.n_incidents, 'incident')}"
    )
    if total.tor_low is None:
        headline = (
            f"TOR unknown: no usable step times in {words.counted(total.n_runs, 'run')}, "
            f"{words.counted(total.n_incidents, 'incident')}"
        )
    lines = [headline]
    for cause in total.worst:
        story = f"  ({cause.story})" if cause.story else ""
        cost = f"{words.share(cause.share):>6}  {words.duration(cause.seconds):>12}"
        lines.append(f"  {cost}  {cause.title}{story}")
    if total.gain:
        lines.append(f"  {total.gain}")
    for run in worst_first(report)[:_RUNS_SHOWN]:
        tor = words.tor(run.tor_low, run.tor_high, run.has_interval)
        lines.append(
            f"{run.run_id}  TOR {tor:<13} wall {words.duration(run.wall_s):>12}  "
            f"lost {words.duration(lost_s(run)):>12}  {harmless(words.run_name(run))}"
        )
    if len(report.runs) > _RUNS_SHOWN:
        lines.append(f"... and {len(report.runs) - _RUNS_SHOWN} more runs")
    n_warnings = len(report.data_quality.warnings)
    if n_warnings:
        lines.append(f"{words.counted(n_warnings, 'warning')} about the data: see the report")
    return "\n".join(lines)
