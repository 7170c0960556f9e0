"""Settings of a nightly job, from a TOML file; all mistakes are reported at once.

cluster = "aurora"            # name of the cluster the logs belong to
timezone = "Europe/Paris"     # zone of times without offset
reject_limit = 0.01           # share of claimed lines that may be unreadable
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from zoneinfo import available_timezones

from pipeline.errors import UsageError


@dataclass(frozen=True)
class Config:
    """Settings; command-line options go before them."""

    cluster: str = "default"
    timezone: str | None = None
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
    types: dict[str, tuple[type, ...]] = {
        "cluster": (str,),
        "timezone": (str,),
        "reject_limit": (int, float),
    }
    for key, value in table.items():
        if key not in types:
            problems.append(f"{path}: unknown setting {key!r}; known: {', '.join(sorted(types))}")
        elif not isinstance(value, types[key]) or isinstance(value, bool):
            problems.append(f"{path}: {key} = {value!r} has the wrong type")
        elif key == "timezone" and isinstance(value, str):
            problems += [f"{path}: {p}" for p in timezone_problems(value)]
        elif isinstance(value, int | float) and not 0 <= value <= 1:
            problems.append(f"{path}: reject_limit = {value} is no share between 0 and 1")
    if problems:
        raise UsageError("\n".join(problems))
    return Config(**table)


def timezone_problems(zone: str) -> list[str]:
    """Why `zone` is no IANA time zone; empty when it is one."""
    if zone in available_timezones():
        return []
    return [f"unknown time zone {zone!r}; expected an IANA name such as Europe/Paris or UTC"]
