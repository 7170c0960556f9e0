"""The JSON report: contract fields in their order, instants with Z, unknown is null."""

from __future__ import annotations

import json
import math
import re
from datetime import datetime

import msgspec

from pipeline.report.model import Report
from pipeline.rows import iso

_FIELDS = (
    "generated_at", "window", "clusters", "data_quality", "runs", "failure_rates", "fits",
    "predictions",
)  # fmt: skip
_NOT_ASCII = re.compile(r"[^\x00-\x7e]")


def to_json(report: Report) -> str:
    """The report as indented JSON; floats are not rounded, NaN and infinity become null.

    Control characters and direction marks are escaped, so that a terminal shows it unharmed.
    """
    document = {name: _plain(getattr(report, name)) for name in _FIELDS}
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1)
    return _NOT_ASCII.sub(_escaped, text)


def _plain(value: object) -> object:
    if isinstance(value, msgspec.Struct):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _escaped(match: re.Match[str]) -> str:
    """The character itself if it can be seen; beyond ASCII JSON has only characters of strings."""
    return match[0] if match[0].isprintable() else json.dumps(match[0])[1:-1]
