"""Two runs, clusters or windows side by side, as Markdown or JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from parsers.text_log import REPORT_MARK
from pipeline.errors import UsageError
from pipeline.report import words
from pipeline.report.markdown_parts import code, plain, table
from pipeline.report.model import Choice, Report
from pipeline.report.reading import build_from
from pipeline.report.summary import answer
from pipeline.rows import instant

if TYPE_CHECKING:
    import duckdb


_OF_ONE_RUN = ("reference_step_s", "n_gpus")
N = TypeVar("N", int, float)


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One side of a comparison: sums over its runs; shares are of the wall clock.

    TOR is that of the runs that have one, weighted by wall clock. What only a single run has, such
    as a reference step time, is null for several.
    """

    name: str
    run_ids: list[str]
    n_runs_without_tor: int
    wall_s: float
    tor_low: float | None
    tor_high: float | None
    has_interval: bool
    lost_s: float | None
    gpu_hours_lost: float | None
    segments_s: dict[str, float | None]
    incidents: dict[str, int]
    incident_s: dict[str, float | None]
    n_attempts: int
    n_launches: int | None
    steps_kept: int | None
    steps_lost: int | None
    reference_step_s: float | None
    n_gpus: int | None
    n_saves: int

    @property
    def n_incidents(self) -> int:
        """Incidents of every type."""
        return sum(self.incidents.values())

    def share(self, category: str) -> float | None:
        """The share of the wall clock that went into a category."""
        seconds = self.segments_s[category]
        return None if seconds is None or not self.wall_s else seconds / self.wall_s


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two sides of one lake."""

    a: Side
    b: Side


def compare(lake: Path, a: str, b: str) -> Comparison:
    """Two sides; each is a run (id or name), `cluster:NAME`, or `SINCE..UNTIL`.

    An open window leaves one instant out: `2026-02-01..`. UsageError where a side has no runs.
    """
    from pipeline import database

    con = database.connect(lake)
    try:
        return compare_from(con, a, b)
    finally:
        con.close()


def compare_from(con: duckdb.DuckDBPyConnection, a: str, b: str) -> Comparison:
    """The comparison from the tables on a connection."""
    made = datetime.now(UTC)
    return Comparison(a=_side(build_from(con, chosen(a), made), a),
                      b=_side(build_from(con, chosen(b), made), b))  # fmt: skip


def chosen(text: str) -> Choice:
    """The choice of runs that one side names."""
    if text.startswith("cluster:"):
        return Choice(cluster=text.removeprefix("cluster:"))
    since, dots, until = text.partition("..")
    if not dots:
        return Choice(run=text)
    try:
        return Choice(
            since=instant(since) if since else None, until=instant(until) if until else None
        )
    except ValueError as error:
        raise UsageError(
            f"{text!r} is no window; expected e.g. 2026-02-01..2026-03-01, or one end of it"
        ) from error


def _side(report: Report, name: str) -> Side:
    runs = report.runs
    if not runs:
        raise UsageError(f"{name}: no runs\n" + "\n".join(report.why_empty))
    total = answer(runs)
    found = [i for run in runs for i in run.incidents]
    types = sorted({i.type for i in found})
    return Side(
        name=name,
        run_ids=[run.run_id for run in runs],
        n_runs_without_tor=total.n_runs_without_tor,
        wall_s=sum(run.wall_s for run in runs),
        tor_low=total.tor_low,
        tor_high=total.tor_high,
        has_interval=total.has_interval,
        lost_s=None if total.tor_low is None else total.lost_s,
        gpu_hours_lost=total.gpu_hours,
        segments_s={name: _sum(getattr(r.segments_s, name) for r in runs)
                    for name in words.CATEGORIES},
        incidents={kind: sum(i.type == kind for i in found) for kind in types},
        incident_s={kind: _sum(i.total_s for i in found if i.type == kind) for kind in types},
        n_attempts=sum(run.n_attempts for run in runs),
        n_launches=_sum(run.n_launches for run in runs),
        steps_kept=_sum(run.steps_kept for run in runs),
        steps_lost=_sum(run.steps_lost for run in runs),
        reference_step_s=runs[0].reference_step_s if len(runs) == 1 else None,
        n_gpus=runs[0].n_gpus if len(runs) == 1 else None,
        n_saves=sum(run.checkpoints.n_saves for run in runs),
    )  # fmt: skip


def _sum(values: Iterable[N | None]) -> N | None:
    """A sum; null where one of its parts is."""
    known = list(values)
    if any(v is None for v in known):
        return None
    return sum(v for v in known if v is not None)


def to_markdown(found: Comparison) -> str:
    """The comparison as one Markdown page; a change is that from A to B."""
    a, b = found.a, found.b
    parts = [
        [f"<!-- {REPORT_MARK} -->", f"# {_title(a)} and {_title(b)}"],
        [*_figures(a, b), *_notes(a, b)],
        ["## Where the time went", "", *_times(a, b)],
        ["## Incidents", "", *_incidents(a, b)],
    ]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _title(side: Side) -> str:
    n = len(side.run_ids)
    return code(side.name) + ("" if n == 1 else f" ({words.counted(n, 'run')})")


def _notes(a: Side, b: Side) -> Iterator[str]:
    if n_both := len(set(a.run_ids) & set(b.run_ids)):
        stand = "stands" if n_both == 1 else "stand"
        yield ""
        yield f"{words.counted(n_both, 'run')} {stand} on both sides: runs are counted whole."
    for name, side in (("A", a), ("B", b)):
        if side.n_runs_without_tor and side.tor_low is not None:
            n = words.counted(side.n_runs_without_tor, "run")
            yield ""
            yield f"{n} of {name} without step times: in its times, not in its TOR."


def _figures(a: Side, b: Side) -> Iterator[str]:
    amounts: list[tuple[str, str, Callable[[float | None], str]]] = [
        ("wall clock", "wall_s", words.duration), ("lost", "lost_s", words.duration),
        ("GPU-hours lost", "gpu_hours_lost", words.number),
        ("reference step", "reference_step_s", words.step_time), ("GPUs", "n_gpus", words.number),
        ("steps kept", "steps_kept", words.number),
        ("steps rolled back", "steps_lost", words.number),
        ("checkpoints", "n_saves", words.number), ("attempts", "n_attempts", words.number),
        ("launches", "n_launches", words.number), ("incidents", "n_incidents", words.number),
    ]  # fmt: skip
    tors = (words.tor(s.tor_low, s.tor_high, s.has_interval) for s in (a, b))
    rows = [("TOR", *tors, _change(a.tor_low, b.tor_low, words.signed))]
    for title, name, shown in amounts:
        values = getattr(a, name), getattr(b, name)
        # what only a single run has is nothing to show for several
        cells = ["" if v is None and name in _OF_ONE_RUN and len(s.run_ids) > 1 else shown(v)
                 for s, v in zip((a, b), values, strict=True)]  # fmt: skip
        rows.append((title, cells[0], cells[1], _times_as(*values)))
    yield from table(("", "A", "B", "A to B"), rows)


def _times(a: Side, b: Side) -> Iterator[str]:
    rows = []
    for name, (title, _) in words.CATEGORIES.items():
        seconds = a.segments_s[name], b.segments_s[name]
        if seconds == (0, 0):
            continue
        cells = [
            text for s in (a, b)
            for text in (_amount(s.segments_s[name]), words.share(s.share(name)))
        ]  # fmt: skip
        is_gain = any(s is not None and s < 0 for s in seconds)
        change = _change(a.share(name), b.share(name), _points)
        rows.append((f"{title} (below 0: a gain)" if is_gain else title, *cells, change))
    yield from table(
        ("use", "A, seconds", "A, share", "B, seconds", "B, share", "change of share"), rows
    )


def _incidents(a: Side, b: Side) -> Iterator[str]:
    def cost(kind: str) -> float:
        return (a.incident_s.get(kind) or 0) + (b.incident_s.get(kind) or 0)

    kinds = sorted({*a.incidents, *b.incidents}, key=lambda kind: (-cost(kind), kind))
    if not kinds:
        yield "None on either side."
        return
    rows = [
        (plain(words.incident_type(kind)), plain(kind), *(
            text for s in (a, b)
            for text in (f"{s.incidents.get(kind, 0):,}",
                         words.duration(s.incident_s.get(kind, 0.0)))))
        for kind in kinds
    ]  # fmt: skip
    yield from table(("incident", "type", "A", "A, cost", "B", "B, cost"), rows)


def _amount(seconds: float | None) -> str:
    return "unknown" if seconds is None else words.amount(seconds)


def _points(value: float) -> str:
    """A difference of shares in percentage points."""
    text = words.share(value).removesuffix("%")
    return f"{'+' if value > 0 and text[0].isdigit() else ''}{text} points"


def _change(a: float | None, b: float | None, shown: Callable[[float], str]) -> str:
    return "" if a is None or b is None else shown(b - a)


def _times_as(a: float | None, b: float | None) -> str:
    """`x 1.25`: B in units of A; empty where one is unknown or A is nothing."""
    if not a or b is None:
        return ""
    return f"x {words.ratio(b / a, 2) if abs(b / a) < 10 else words.number(b / a)}"
