"""Pieces that several parts of the HTML page are made of."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pipeline.report import words
from pipeline.report.markup import Child, Html, el


def figure(label: str, value: Child, note: Child = None) -> Html:
    """A number with its name above and a remark below."""
    return el(
        "div", {}, el("dt", {}, label), el("dd", {}, value),
        el("dd", {"class": "note"}, note) if note is not None else None,
    )  # fmt: skip


def lost_figure(lost_s: float | None, note: Child) -> Html:
    """Time lost; where fast steps gained more than was lost, time gained."""
    if lost_s is not None and lost_s < 0:
        return figure("Gained", words.duration(-lost_s), note)
    return figure("Lost", words.duration(lost_s), note)


def table(
    header: Sequence[Child], rows: Sequence[Sequence[Child]], numeric: Collection[int] = ()
) -> Html:
    """A table in a frame that scrolls sideways on a narrow screen; the first column is a header."""
    head = el("tr", {}, [el("th", {"scope": "col", **_kind(n, numeric)}, h)
                         for n, h in enumerate(header)])  # fmt: skip
    body = [
        el("tr", {}, [
            el("th", {"scope": "row", **_kind(n, numeric)}, cell) if n == 0
            else el("td", _kind(n, numeric), cell)
            for n, cell in enumerate(row)
        ])
        for row in rows
    ]  # fmt: skip
    return framed(el("table", {}, el("thead", {}, head), el("tbody", {}, body)))


def stacked(parts: Sequence[tuple[str, float]], total_s: float, kind: str) -> Html:
    """(category, seconds) as one bar, each with its share of `total_s` in the label.

    What fast steps gained is part of productive, which would be wider than its time: it is not
    drawn.
    """
    x = 0.0
    drawn = []
    gain = sum(seconds for _, seconds in parts if seconds < 0)
    for name, said in parts:
        seconds = max(said + gain if name == "productive" else said, 0)
        width = min(seconds / total_s * 100, 100 - x) if total_s > 0 else 0.0
        drawn.append(el("rect", {"x": f"{x:.3f}", "width": f"{width:.3f}", "y": 0, "height": 10,
                                 "class": name}))  # fmt: skip
        x += width
    label = ", ".join(
        f"{words.category(name, seconds)[0]} "
        f"{words.share(seconds / total_s if total_s > 0 else None)}"
        for name, seconds in parts
    )
    return el(
        "svg",
        {"viewBox": "0 0 100 10", "preserveAspectRatio": "none", "class": kind, "role": "img",
         "aria-label": label},
        el("title", {}, label), drawn,
    )  # fmt: skip


def framed(inner: Child) -> Html:
    """Something wide in a frame of its own that scrolls sideways."""
    return el("div", {"class": "frame", "tabindex": 0}, inner)


def number_cell(value: float | None) -> Child:
    """A number of a table; a dash that says why where it is unknown."""
    if value is None:
        return el("span", {"class": "none", "title": "unknown"}, "\N{EN DASH}")
    return words.number(value)


def text_cell(value: str | None) -> Child:
    """A text of a table; a dash where it is unknown."""
    if value is None:
        return el("span", {"class": "none", "title": "unknown"}, "\N{EN DASH}")
    return value


def _kind(column: int, numeric: Collection[int]) -> dict[str, str]:
    return {"class": "num"} if column in numeric else {}
