"""The wall clock of a run as one bar: inline SVG that needs no script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pipeline.report import words
from pipeline.report.markup import Html, el, lines
from pipeline.report.model import Run, Segment

WIDTH = 1000.0
"""Width of the bar in its own units; about a pixel each on a desk screen."""
MIN_WIDTH = 0.5
"""Neighbouring segments narrower than this are drawn as one."""
_HEIGHT = 64
_THIN = 2.0
_OVERLAP = 0.4
_NEAR = 0.025
"""Markers nearer to each other than this share of the width are drawn as one."""
_FULL_SPEED = 0.995

_TICK_S = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400,
    172800, 604800, 1209600, 2592000, 7776000, 31536000,
)  # fmt: skip
_MAX_TICKS = 8


@dataclass(frozen=True)
class Bar:
    """A rectangle of the timeline: `n` segments from x on, named after the one that takes most."""

    x: float
    width: float
    segment: Segment
    n: int
    seconds: dict[str, float]


def bars(segments: Sequence[Segment], start_at: datetime, wall_s: float) -> Iterator[Bar]:
    """Rectangles that tile the bar as the segments tile the run."""
    pending: list[Segment] = []
    for segment in segments:
        if _width(segment.duration_s, wall_s) >= MIN_WIDTH:
            if pending:
                yield _merged(pending, start_at, wall_s)
                pending = []
            yield _merged([segment], start_at, wall_s)
            continue
        pending.append(segment)
        if _width(sum(s.duration_s for s in pending), wall_s) >= MIN_WIDTH:
            yield _merged(pending, start_at, wall_s)
            pending = []
    if pending:
        yield _merged(pending, start_at, wall_s)


def _width(seconds: float, wall_s: float) -> float:
    return seconds / wall_s * WIDTH if wall_s > 0 else 0.0


def _merged(segments: list[Segment], start_at: datetime, wall_s: float) -> Bar:
    seconds: dict[str, float] = {}
    for s in segments:
        seconds[s.category] = seconds.get(s.category, 0) + s.duration_s
    most = max(seconds, key=lambda category: seconds[category])
    longest = max((s for s in segments if s.category == most), key=lambda s: s.duration_s)
    begin = (segments[0].start_at - start_at).total_seconds()
    return Bar(
        x=_width(begin, wall_s),
        width=_width(sum(s.duration_s for s in segments), wall_s),
        segment=longest,
        n=len(segments),
        seconds=seconds,
    )


def timeline(run: Run, segments: Sequence[Segment], numbers: dict[str, int]) -> Html:
    """The bar with its incidents above, its launches and a time axis below.

    `numbers` gives each incident id the number under which the table lists it.
    """
    drawn = list(bars(segments, run.start_at, run.wall_s))
    n_merged = sum(b.n for b in drawn if b.n > 1)
    share = ", ".join(
        f"{words.category(name, seconds)[0].lower()} {words.share(seconds / run.wall_s)}"
        for name, seconds in categories(run)
        if seconds and run.wall_s
    )
    label = f"Timeline of {words.run_name(run)}, {words.duration(run.wall_s)}: {share}"
    svg = el(
        "svg",
        {"viewBox": f"0 0 {WIDTH:.0f} {_HEIGHT}", "preserveAspectRatio": "none", "role": "img",
         "aria-label": label, "class": "bar"},
        # thin bars lie on top of wide ones, which overlap a little so that no seam shines through
        [_rectangle(bar, numbers, _OVERLAP) for bar in drawn if bar.width > _THIN],
        [_rectangle(bar, numbers, 0) for bar in drawn if bar.width <= _THIN],
    )  # fmt: skip
    note = None
    if n_merged:
        note = el(
            "p", {"class": "note"},
            f"{n_merged:,} segments narrower than half a pixel are drawn merged; "
            "all sums count them one by one.",
        )  # fmt: skip
    return el(
        "div", {"class": "timeline"},
        _incident_marks(run, numbers), svg, _launch_marks(run), _axis(run), note,
    )  # fmt: skip


def categories(run: Run) -> list[tuple[str, float | None]]:
    """(category, seconds) in the order of legends, slow apart from productive."""
    return [(name, getattr(run.segments_s, name)) for name in words.CATEGORIES]


def _rectangle(bar: Bar, numbers: dict[str, int], overlap: float) -> Html:
    """A rectangle with its tooltip; productive time fills the height by its speed."""
    s = bar.segment
    place = {"x": f"{bar.x:.3f}", "width": f"{bar.width + overlap:.3f}"}
    full = {**place, "y": "0", "height": f"{_HEIGHT}"}
    title = el("title", {}, lines(_tooltip(bar, numbers)))
    if s.category == "productive" and s.performance_ratio is not None:
        ratio = min(max(s.performance_ratio, 0.0), 1.0)
        if ratio < _FULL_SPEED:
            height = _HEIGHT * ratio
            fast = {**place, "y": f"{_HEIGHT - height:.2f}", "height": f"{height:.2f}"}
            return el(
                "g", {"class": "s", "data-c": "productive"}, title,
                el("rect", {**full, "class": "slow"}), el("rect", {**fast, "class": "productive"}),
            )  # fmt: skip
    return el("rect", {**full, "class": f"s {s.category}", "data-c": s.category}, title)


def _tooltip(bar: Bar, numbers: dict[str, int]) -> Iterator[str]:
    s = bar.segment
    if bar.n > 1:
        yield f"{bar.n} short segments"
        for name, seconds in sorted(bar.seconds.items(), key=lambda item: -item[1]):
            yield f"{words.CATEGORIES[name][0]}: {words.duration(seconds)}"
        return
    yield f"{words.CATEGORIES[s.category][0]}: {s.phase.replace('_', ' ')}"
    yield words.duration(s.duration_s)
    yield f"{words.moment(s.start_at)} to {words.moment(s.end_at)}"
    if s.category == "productive":
        speed = "unknown" if s.performance_ratio is None else words.ratio(s.performance_ratio)
        if (s.performance_ratio or 0) > 1:
            speed += ", faster than the reference"
        yield f"speed r = {speed}"
    if s.incident_id in numbers:
        yield f"cause: incident {numbers[s.incident_id]}"
    elif s.cause is not None:
        yield f"cause: {s.cause}"
    yield f"rule: {s.rule or 'unknown'}, segment:{s.segment_id}"


def _incident_marks(run: Run, numbers: dict[str, int]) -> Html:
    """Numbered marks at the onsets; several close together are one mark that names them."""
    placed = [(_at(run, i.onset_at), i) for i in run.incidents if i.onset_at is not None]
    groups: list[tuple[float, list[int], list[str]]] = []
    for x, incident in sorted(placed, key=lambda p: (p[0], numbers[p[1].incident_id])):
        number = numbers[incident.incident_id]
        what = words.incident_type(incident.type, incident.mode)
        title = f"{number}: {what}, {words.moment(incident.onset_at)}"
        if groups and x - groups[-1][0] < _NEAR:
            groups[-1][1].append(number)
            groups[-1][2].append(title)
        else:
            groups.append((x, [number], [title]))
    marks = [
        el("a", {"class": "mark", "href": f"#{run.run_id}-i{ids[0]}", "style": f"left:{x:.3%}",
                 "title": "; ".join(titles[:5]) + (" ..." if len(titles) > 5 else ""),
                 "aria-label": f"incident {titles[0]}"},
           f"{ids[0]}" if len(ids) == 1 else f"{ids[0]}\N{EN DASH}{ids[-1]}")
        for x, ids, titles in groups
    ]  # fmt: skip
    return el("div", {"class": "marks"}, marks) if marks else Html("")


def _launch_marks(run: Run) -> Html:
    """Ticks where a process started."""
    ticks = [
        el("i", {"style": f"left:{_at(run, launch.start_at):.3%}",
                 "title": f"launch {launch.launch_no}, {words.moment(launch.start_at)}"})
        for launch in run.launches
        if launch.start_at is not None
    ]  # fmt: skip
    return el("div", {"class": "launches", "aria-hidden": "true"}, ticks)


def _axis(run: Run) -> Html:
    ticks = [
        el("span", {"style": f"left:{_at(run, at):.3%}"}, _tick_text(at, step_s, is_first=n == 0))
        for n, (at, step_s) in enumerate(_ticks(run.start_at, run.wall_s))
    ]
    return el("div", {"class": "axis", "aria-hidden": "true"}, ticks)


def _ticks(start_at: datetime, wall_s: float) -> list[tuple[datetime, int]]:
    """Round instants inside the run, at most `_MAX_TICKS`, with the step between them."""
    step_s = next((t for t in _TICK_S if wall_s / t <= _MAX_TICKS), _TICK_S[-1])
    begin = start_at.astimezone(UTC)
    midnight = begin.replace(hour=0, minute=0, second=0, microsecond=0)
    behind_s = (begin - midnight).total_seconds()
    first = midnight + timedelta(seconds=-(-behind_s // step_s) * step_s)
    n = int((wall_s - (first - begin).total_seconds()) // step_s) + 1
    # the last tick keeps its text inside the bar
    at = [first + timedelta(seconds=k * step_s) for k in range(max(n, 0))]
    return [(t, step_s) for t in at if (t - begin).total_seconds() <= 0.94 * wall_s]


def _tick_text(at: datetime, step_s: int, *, is_first: bool) -> str:
    if step_s >= 86400:
        return at.strftime("%Y-%m-%d" if is_first else "%m-%d")
    text = at.strftime("%H:%M:%S" if step_s < 60 else "%H:%M")
    is_new_day = at.hour == at.minute == at.second == 0
    return f"{at:%m-%d} {text}" if is_first or is_new_day else text


def _at(run: Run, at: datetime | None) -> float:
    """The place of an instant on the bar, 0 to 1."""
    if at is None or run.wall_s <= 0:
        return 0.0
    return min(max((at - run.start_at).total_seconds() / run.wall_s, 0.0), 1.0)
