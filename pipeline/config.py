"""Settings of a nightly job, from a TOML file; all mistakes are reported at once.

cluster = "aurora"            # name of the cluster the logs belong to
timezone = "Europe/Paris"     # zone of times without offset
dialects = ["dialects"]       # folders with dialects of your own, relative to this file
jobs = 4                      # processes
reject_limit = 0.01           # share of claimed lines that may be unreadable
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from zoneinfo import available_timezones

from pipeline.errors import UsageError


@dataclass(frozen=True)
class Config:
    """Settings; command-line options go before them."""

    cluster: str = "default"
    timezone: str | None = None
    dialects: tuple[str, ...] = ()
    jobs: int | None = None
    reject_limit: float = 0.01


def load(path: Path | None) -> Config:
    """The settings of a file, or the defaults; UsageError with every mistake."""
    if path is None:
        return Config()
    try:
        table = tomllib.loads(path.read_text())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not readable as TOML: {error}") from error
    problems = []
    for key, value in table.items():
        if key not in _CHECKS:
            problems.append(f"unknown setting {key!r}; known: {', '.join(sorted(_CHECKS))}")
        else:
            problems += _CHECKS[key](key, value)
    if problems:
        raise UsageError("\n".join(f"{path}: {p}" for p in problems))
    folders = tuple(str(path.parent / folder) for folder in table.pop("dialects", ()))
    return Config(**table, dialects=folders)


def _name(key: str, value: object) -> list[str]:
    return [] if isinstance(value, str) and value else _wrong(key, value, "a name in quotes")


def _zone(key: str, value: object) -> list[str]:
    if not isinstance(value, str):
        return _wrong(key, value, "a name in quotes")
    return timezone_problems(value)


def _folders(key: str, value: object) -> list[str]:
    if isinstance(value, list) and all(isinstance(v, str) and v for v in value):
        return []
    return _wrong(key, value, 'a list of folders such as ["dialects"]')


def _count(key: str, value: object) -> list[str]:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    return [] if is_count else _wrong(key, value, "a whole number, 1 or more")


def _share(key: str, value: object) -> list[str]:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and 0 <= value <= 1:  # type: ignore[operator]  # a number by now
        return []
    return _wrong(key, value, "a share between 0 and 1")


def _wrong(key: str, value: object, expected: str) -> list[str]:
    return [f"{key} = {value!r}; expected {expected}"]


_CHECKS: dict[str, Callable[[str, object], list[str]]] = {
    "cluster": _name,
    "timezone": _zone,
    "dialects": _folders,
    "jobs": _count,
    "reject_limit": _share,
}


def timezone_problems(zone: str) -> list[str]:
    """Why `zone` is no IANA time zone; empty when it is one."""
    if zone in available_timezones():
        return []
    return [f"unknown time zone {zone!r}; expected an IANA name such as Europe/Paris or UTC"]
