"""Printed times: every form that cluster logs use, read without guessing year, date or zone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Final

from parsers.tables import StampKind

_YEAR = 1972
"""Stands for an unknown year: a leap year, so that February 29 exists."""

_EPOCH_DAY = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class Stamp:
    """A time as printed: microseconds in the sense of `kind`, and the step that it can show."""

    us: int
    kind: StampKind
    resolution_s: float


_CLOCK = r"(?P<h>[01]\d|2[0-3]):(?P<mi>[0-5]\d):(?P<s>[0-5]\d|60)(?!\d)"
_FRACTION = r"(?:[.,](?P<f>\d{1,9})\d*)?"
_ZONE = r"(?P<zone> ?(?:Z\b|UTC\b|GMT\b|[+-](?:0\d|1[0-4]):?(?:00|15|30|45)(?!\w)))?"
_MONTH_DAY = r"[-/](?P<m>\d\d)[-/](?P<d>\d\d)"
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_MONTH_NAME = f"(?P<mon>{'|'.join(_MONTHS)})"

_Forms = tuple[tuple[str, re.Pattern[str]], ...]


def _compiled(*forms: tuple[str, str]) -> _Forms:
    return tuple((kind, re.compile(form)) for kind, form in forms)


# Order matters: the longer form of two that begin alike stands first.
_DIGIT_FORMS: Final = _compiled(
    # Ascend: 2025-04-08-18:07:20.444.436
    ("ascend", rf"(?P<y>20\d\d){_MONTH_DAY}-{_CLOCK}\.(?P<ms>\d{{3}})\.(?P<us>\d{{3}})"),
    # 2026-02-01T00:00:10.123+01:00, 2026-02-01 00:00:10,123, 2025-11-09 15:39:31.043 +08:00;
    # 2025-05-21_15:43:03 (torchelastic's summary), 2025-04-08-18:07:20 (Ascend)
    ("dated", rf"(?P<y>(?:19|20)\d\d){_MONTH_DAY}[T _-]{_CLOCK}{_FRACTION}{_ZONE}"),
    # month first: 01/17/2024 14:07:46
    ("dated", rf"(?P<m>\d\d)/(?P<d>\d\d)/(?P<y>20\d\d) {_CLOCK}{_FRACTION}{_ZONE}"),
    # month and day only: 02/01 00:00:10
    ("no_year", rf"(?P<m>\d\d)/(?P<d>\d\d) {_CLOCK}{_FRACTION}"),
)
_LETTER_FORMS: Final = _compiled(
    # glog: E1130 21:30:26.493000 (padded, ms); c10: E602 11:17:52.185053341 (not padded, ns)
    ("glog", rf"[EWIFV](?P<md>\d{{3,4}}) {_CLOCK}\.(?P<f>\d{{6,9}})(?!\d)"),
    # dmesg -T: Sun Feb 23 16:24:18 2025
    ("dated", rf"[MTWFS][a-z]{{2}} {_MONTH_NAME} +(?P<d>\d{{1,2}}) {_CLOCK} (?P<y>20\d\d)"),
    # fabric manager: Jul 23 2024 07:53:55
    ("dated", rf"{_MONTH_NAME} +(?P<d>\d{{1,2}}) (?P<y>20\d\d) {_CLOCK}{_FRACTION}"),
    # syslog: Feb 14 05:03:41
    ("no_year", rf"{_MONTH_NAME} +(?P<d>\d{{1,2}}) {_CLOCK}{_FRACTION}"),
)
# Only brackets tell these from other numbers: [155044.078590], [15:58:29].
_BRACKET_FORMS: Final = _compiled(
    ("boot", r" *(?P<boot>\d{1,10}\.\d{6})(?=\])"),
    ("time_of_day", rf"{_CLOCK}{_FRACTION}(?=\])"),
)
_EPOCH = re.compile(r"(?P<whole>1\d{9})(?:\.(?P<f>\d{1,9})|(?P<ms>\d{3}))?")


def find_stamp(text: str, start: int = 0) -> tuple[Stamp, int] | None:
    """The time at `start` (blanks and one bracket before it allowed), and where it ends.

    None where no known form stands there, or the date is impossible.
    """
    while text.startswith((" ", "\t"), start):
        start += 1
    is_bracketed = text.startswith("[", start)
    start += is_bracketed
    forms = _LETTER_FORMS if text[start : start + 1].isalpha() else _DIGIT_FORMS
    for kind, form in (*forms, *_BRACKET_FORMS) if is_bracketed else forms:
        match = form.match(text, start)
        if match:
            stamp = _read(kind, match.groupdict(""))
            end = match.end()
            return (stamp, end + text.startswith("]", end)) if stamp else None
    return None


def parse_stamp(text: str) -> Stamp | None:
    """The time that `text` is; epoch seconds `1706860208.35` or milliseconds too. Else None."""
    text = text.strip()
    found = find_stamp(text)
    if found:
        return None if text[found[1] :].strip(" ]") else found[0]
    match = _EPOCH.fullmatch(text)
    if match is None:
        return None
    fraction = match["f"] or match["ms"] or ""
    us = int(match["whole"]) * 1_000_000 + _fraction_us(fraction)
    return Stamp(us, StampKind.UTC, _resolution_s(fraction))


def _read(kind: str, g: Mapping[str, str]) -> Stamp | None:
    if kind == "boot":
        whole, _, fraction = g["boot"].partition(".")
        return Stamp(int(whole) * 1_000_000 + int(fraction), StampKind.BOOT, 1e-6)
    fraction = g["ms"] + g["us"] if kind == "ascend" else g.get("f", "")
    clock_us = (int(g["h"]) * 3600 + int(g["mi"]) * 60 + int(g["s"])) * 1_000_000
    if kind == "glog":
        return _read_glog(int(g["md"]), clock_us, fraction)
    clock_us += _fraction_us(fraction)
    resolution_s = _resolution_s(fraction)
    if kind == "time_of_day":
        return Stamp(clock_us, StampKind.TIME_OF_DAY, resolution_s)
    month = _MONTHS.index(g["mon"]) + 1 if "mon" in g else int(g["m"])
    day_us = _day_us(_YEAR if kind == "no_year" else int(g["y"]), month, int(g["d"]))
    if day_us is None:
        return None
    if kind == "no_year":
        return Stamp(day_us + clock_us, StampKind.LOCAL_NO_YEAR, resolution_s)
    zone = g.get("zone", "").strip()
    if not zone:
        return Stamp(day_us + clock_us, StampKind.LOCAL, resolution_s)
    return Stamp(day_us + clock_us - _offset_us(zone), StampKind.UTC, resolution_s)


def _read_glog(month_day: int, clock_us: int, fraction: str) -> Stamp | None:
    """Month x 100 + day. Nine digits (c10) come from another clock: only whole seconds count."""
    day_us = _day_us(_YEAR, *divmod(month_day, 100))
    if day_us is None:
        return None
    if len(fraction) > 6:
        return Stamp(day_us + clock_us, StampKind.LOCAL_NO_YEAR, 1.0)
    # Python's form prints milliseconds and three zeros
    resolution_s = 1e-3 if fraction.endswith("000") else 1e-6
    return Stamp(day_us + clock_us + _fraction_us(fraction), StampKind.LOCAL_NO_YEAR, resolution_s)


def _offset_us(zone: str) -> int:
    """Microseconds east of UTC, of `Z`, `UTC`, `+0100` or `-05:30`."""
    if zone[0] not in "+-":
        return 0
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    return (minutes if zone[0] == "+" else -minutes) * 60_000_000


@lru_cache(maxsize=1024)  # lines of one log are of few days
def _day_us(year: int, month: int, day: int) -> int | None:
    try:
        return (date(year, month, day).toordinal() - _EPOCH_DAY) * 86_400_000_000
    except ValueError:
        return None


def _fraction_us(fraction: str) -> int:
    return int(fraction[:6].ljust(6, "0")) if fraction else 0


def _resolution_s(fraction: str) -> float:
    return float(10.0 ** -min(len(fraction), 6))
