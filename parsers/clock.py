"""Printed times: every form that cluster logs use, read without guessing year, date or zone."""

from __future__ import annotations

import re
from calendar import timegm
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from parsers.tables import StampKind

_YEAR = 1972
"""Stands for an unknown year: a leap year, so that February 29 exists."""


@dataclass(frozen=True)
class Stamp:
    """A time as printed: microseconds in the sense of `kind`, and the step that it can show."""

    us: int
    kind: StampKind
    resolution_s: float


_CLOCK = r"(?P<h>[01]\d|2[0-3]):(?P<mi>[0-5]\d):(?P<s>[0-5]\d|60)"
_FRACTION = r"(?:[.,](?P<f>\d{1,9}))?"
_ZONE = r"(?P<zone> ?(?:Z\b|UTC\b|GMT\b|[+-]\d\d:?\d\d(?!\d)))?"
_MONTH_DAY = r"[-/](?P<m>\d\d)[-/](?P<d>\d\d)"
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_MONTH_NAME = f"(?P<mon>{'|'.join(_MONTHS)})"

# Order matters: the longer form of two that begin alike stands first.
_FORMS: Final = tuple(
    (kind, re.compile(rf"\[?{form}\]?"))
    for kind, form in (
        # 2026-02-01T00:00:10.123+01:00, [2026-02-01 00:00:10,123], 2025-11-09 15:39:31.043 +08:00
        ("dated", rf"(?P<y>(?:19|20)\d\d){_MONTH_DAY}[T ]{_CLOCK}{_FRACTION}{_ZONE}"),
        # Ascend: 2025-04-08-18:07:20.444.436
        ("ascend", rf"(?P<y>20\d\d){_MONTH_DAY}-{_CLOCK}\.(?P<ms>\d{{3}})\.(?P<us>\d{{3}})"),
        # month first: 01/17/2024 14:07:46
        ("dated", rf"(?P<m>\d\d)/(?P<d>\d\d)/(?P<y>20\d\d) {_CLOCK}{_FRACTION}{_ZONE}"),
        # dmesg -T: Sun Feb 23 16:24:18 2025
        ("dated", rf"[MTWFS][a-z]{{2}} {_MONTH_NAME} +(?P<d>\d{{1,2}}) {_CLOCK} (?P<y>20\d\d)"),
        # fabric manager: Jul 23 2024 07:53:55
        ("dated", rf"{_MONTH_NAME} +(?P<d>\d{{1,2}}) (?P<y>20\d\d) {_CLOCK}{_FRACTION}"),
        # syslog: Feb 14 05:03:41
        ("no_year", rf"{_MONTH_NAME} +(?P<d>\d{{1,2}}) {_CLOCK}{_FRACTION}"),
        # glog: E1130 21:30:26.493000 (padded, ms); c10: E602 11:17:52.185053341 (not padded, ns)
        ("glog", rf"[EWIFV](?P<md>\d{{3,4}}) {_CLOCK}\.(?P<f>\d{{6,9}})"),
        # month/day only: 02/01 00:00:10
        ("no_year", rf"(?P<m>\d\d)/(?P<d>\d\d) {_CLOCK}{_FRACTION}"),
        # seconds since boot: [155044.078590]
        ("boot", r"(?<=\[) *(?P<boot>\d{1,10}\.\d{6})(?=\])"),
        ("time_of_day", rf"(?<=\[){_CLOCK}{_FRACTION}(?=\])"),
    )
)  # fmt: skip
_ANYWHERE = re.compile(
    r"(?P<boot_dot>\[ *\d{1,10}\.\d{6}\])|[EWIFV]\d{3,4} \d\d:|\d\d:\d\d:\d\d"
)  # a cheap sign that a line may hold a time at all


def find_stamp(text: str, start: int = 0) -> tuple[Stamp, int] | None:
    """The time at `start` (blanks and one bracket before it allowed), and where it ends.

    None where no known form stands there, or the date is impossible.
    """
    while text.startswith(" ", start) or text.startswith("\t", start):
        start += 1
    for kind, form in _FORMS:
        if kind in ("boot", "time_of_day"):
            if not text.startswith("[", start):
                continue
            match = form.match(text, start + 1)
        else:
            match = form.match(text, start)
        if match:
            stamp = _read(kind, match)
            if stamp is None:
                return None
            return stamp, match.end()
    return None


def parse_stamp(text: str) -> Stamp | None:
    """The time that `text` is; epoch seconds such as `1706860208.35` too. None if it is none."""
    text = text.strip()
    found = find_stamp(text)
    if found and not text[found[1] :].strip(" ]"):
        return found[0]
    if re.fullmatch(r"1[0-9]{9}(?:\.\d{1,9})?", text):
        whole, _, fraction = text.partition(".")
        return Stamp(
            int(whole) * 1_000_000 + _fraction_us(fraction),
            StampKind.UTC,
            _resolution_s(fraction),
        )
    return None


def may_hold_stamp(text: str) -> bool:
    """Whether a time may stand somewhere in `text`; cheap, for lines that nothing else wants."""
    return _ANYWHERE.search(text) is not None


def _read(kind: str, match: re.Match[str]) -> Stamp | None:
    g = match.groupdict()
    if kind == "boot":
        whole, _, fraction = g["boot"].partition(".")
        return Stamp(int(whole) * 1_000_000 + int(fraction), StampKind.BOOT, 1e-6)
    clock_us = (int(g["h"]) * 3600 + int(g["mi"]) * 60 + int(g["s"])) * 1_000_000
    fraction = g["ms"] + g["us"] if kind == "ascend" else g.get("f") or ""
    resolution_s = _resolution_s(fraction)
    if kind == "glog":
        return _read_glog(g, clock_us, fraction)
    clock_us += _fraction_us(fraction)
    if kind == "time_of_day":
        return Stamp(clock_us, StampKind.TIME_OF_DAY, resolution_s)
    month = _MONTHS.index(g["mon"]) + 1 if g.get("mon") else int(g["m"])
    year = _YEAR if kind == "no_year" else int(g["y"])
    day_us = _day_us(year, month, int(g["d"]))
    if day_us is None:
        return None
    us = day_us + clock_us
    if kind == "no_year":
        return Stamp(us, StampKind.LOCAL_NO_YEAR, resolution_s)
    zone = (g.get("zone") or "").strip()
    if not zone:
        return Stamp(us, StampKind.LOCAL, resolution_s)
    if zone[0] in "+-":
        digits = zone[1:].replace(":", "")
        offset_us = (int(digits[:2]) * 60 + int(digits[2:])) * 60_000_000
        us -= offset_us if zone[0] == "+" else -offset_us
    return Stamp(us, StampKind.UTC, resolution_s)


def _read_glog(g: dict[str, str], clock_us: int, fraction: str) -> Stamp | None:
    """Month x 100 + day. Nine digits (c10) come from another clock: only whole seconds count."""
    month, day = divmod(int(g["md"]), 100)
    day_us = _day_us(_YEAR, month, day)
    if day_us is None:
        return None
    if len(fraction) > 6:
        return Stamp(day_us + clock_us, StampKind.LOCAL_NO_YEAR, 1.0)
    # Python's form prints milliseconds and pads them with zeros
    return Stamp(day_us + clock_us + _fraction_us(fraction), StampKind.LOCAL_NO_YEAR, 1e-3)


def _day_us(year: int, month: int, day: int) -> int | None:
    try:
        moment = datetime(year, month, day, tzinfo=UTC)
    except ValueError:
        return None
    return timegm(moment.timetuple()) * 1_000_000


def _fraction_us(fraction: str) -> int:
    return int(fraction[:6].ljust(6, "0")) if fraction else 0


def _resolution_s(fraction: str) -> float:
    return float(10.0 ** -min(len(fraction), 6))
