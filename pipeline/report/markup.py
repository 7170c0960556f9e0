"""HTML elements from values: every text is made harmless and escaped, unless it is `Html`."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping

from pipeline.rows import harmless

Attributes = Mapping[str, str | int | float | None]
Child = object

_VOID = frozenset({"meta", "br", "hr", "col"})


class Html(str):
    """Markup made by this module; a plain string, such as a log line, never passes for it."""

    __slots__ = ()


def text(value: object) -> Html:
    """A value as text: control characters and direction marks visible, special ones escaped."""
    return Html(html.escape(harmless(str(value)), quote=True))


def el(tag: str, attributes: Attributes | None = None, *children: Child) -> Html:
    """One element. Attributes that are None are left out; children are text, markup or lists."""
    given = (attributes or {}).items()
    shown = "".join(f' {name}="{text(value)}"' for name, value in given if value is not None)
    if tag in _VOID:
        return Html(f"<{tag}{shown}>")
    return Html(f"<{tag}{shown}>{together(children)}</{tag}>")


def together(children: Iterable[Child]) -> Html:
    """Children one behind the other; None is nothing."""
    return Html("".join(_child(c) for c in children))


def lines(values: Iterable[object]) -> Html:
    """Texts on lines of their own, for the tooltip of an SVG element."""
    return Html("\n".join(text(v) for v in values))


def raw(markup: str) -> Html:
    """Our own CSS or JavaScript as it is; never anything that comes from a log."""
    return Html(markup)


def _child(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return child
    if isinstance(child, list | tuple):
        return together(child)
    return text(child)
