"""The JSON report: contract fields in their order, instants with Z, unknown is null."""

from __future__ import annotations

import math
from datetime import datetime

import msgspec

from pipeline import rows
from pipeline.report.model import Report

_FIELDS = (
    "generated_at", "window", "clusters", "data_quality", "runs", "failure_rates", "fits",
    "predictions", "choice",
)  # fmt: skip


def to_json(report: Report) -> str:
    """The report as indented JSON; floats are not rounded, NaN and infinity become null."""
    document = {name: _plain(getattr(report, name)) for name in _FIELDS}
    return rows.to_json(document, indent=1)


def _plain(value: object) -> object:
    if isinstance(value, msgspec.Struct):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, datetime):
        return rows.iso(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
