"""Lines on their way into files, and the printed forms of instants."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from pipeline.simulate.laws import US_PER_S


@dataclass(slots=True)
class Line:
    """One print: when, what (its end included), and by which rank (None: the launcher)."""

    us: int
    text: str
    rank: int | None = 0
    is_error: bool = False  # stderr: never buffered
    launch: int = 0  # 0: of no launch


@dataclass
class LogFile:
    """A file to be written: its name below `logs/`, its lines, and what it tells about."""

    name: str
    lines: list[Line]
    kind: str  # training, accounting or kernel
    run: str = ""


@dataclass(frozen=True)
class Manner:
    """How programs write, besides what they say."""

    second_writer_us: int | None = None  # a second rank prints every step so much later
    accounting_stamp: str = "%Y-%m-%dT%H:%M:%S%z"  # SLURM_TIME_FORMAT='%FT%T%z'


def printed(us: int, zone: ZoneInfo, form: str) -> str:
    """An instant on the zone's clock; a form that ends in `,%f` shows milliseconds."""
    whole, rest = divmod(us, US_PER_S)
    moment = datetime.fromtimestamp(whole, zone)
    if form.endswith(",%f"):
        return f"{moment.strftime(form[:-3])},{rest // 1000:03d}"
    return moment.replace(microsecond=rest).strftime(form)


def iso_second(us: int, zone: ZoneInfo) -> str:
    """`2026-02-03T12:00:01`."""
    return printed(us, zone, "%Y-%m-%dT%H:%M:%S")


def glog(us: int, zone: ZoneInfo, level: str) -> str:
    """`E0203 12:00:01.318000`: what Python's torchelastic prints (milliseconds)."""
    return f"{level}{printed(us, zone, '%m%d %H:%M:%S')}.{us % US_PER_S // 1000:03d}000"


def c10(us: int, zone: ZoneInfo) -> str:
    """`E203 12:00:01.318211734`: month without padding, nanoseconds of another clock."""
    moment = datetime.fromtimestamp(us // US_PER_S, zone)
    day = moment.month * 100 + moment.day
    return f"E{day} {moment:%H:%M:%S}.{(us * 7919) % 1_000_000_000:09d}"
