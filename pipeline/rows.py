"""Rows of tables as plain values: for JSON, CSV and the terminal."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal

import duckdb

Value = object
_NO_VALUE = re.compile(
    r"INTERVAL|_NS\b|\bTIME WITH TIME ZONE|\bBIT\b|BIGNUM|UNION|VARIANT|GEOMETRY"
)
_NOT_ASCII = re.compile(r"[^\x00-\x7e]")


def plain_rows(relation: duckdb.DuckDBPyRelation) -> Iterator[dict[str, Value]]:
    """Rows with values that JSON knows: ISO 8601 instants with Z, maps as objects, NaN as null.

    Types that Python has no value for, such as intervals, are text.
    """
    texts = [bool(_NO_VALUE.search(str(t))) for t in relation.types]
    if any(texts):
        names = [f'"{name.replace(chr(34), chr(34) * 2)}"' for name in relation.columns]
        relation = relation.project(
            ", ".join(
                f"#{n}::varchar as {name}" if is_text else f"#{n} as {name}"
                for n, (name, is_text) in enumerate(zip(names, texts, strict=True), 1)
            )
        )
    for batch in relation.to_arrow_reader(10_000):
        for row in batch.to_pylist():
            yield {name: plain(value) for name, value in row.items()}


def plain(value: Value) -> Value:
    """One value as JSON knows it; what it does not know as text."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, list | dict):
        return _plain_all(value)
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def _plain_all(values: list[Value] | dict[Value, Value]) -> Value:
    """A list, a struct or a map, which Arrow gives as a list of pairs."""
    if isinstance(values, dict):
        return {str(k): plain(v) for k, v in values.items()}
    pairs = [v for v in values if isinstance(v, tuple) and len(v) == 2]
    if values and len(pairs) == len(values):
        return {str(k): plain(v) for k, v in pairs}
    return [plain(v) for v in values]


def iso(moment: datetime) -> str:
    """`2026-02-01T00:00:10.123Z`: as many decimals as the moment has; without a zone it is UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    text = aware.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00")
    return text.rstrip("0").rstrip(".") + "Z"


def instant(text: str) -> datetime:
    """An instant of ISO 8601; UTC where it names no zone. ValueError if it is none."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def to_json(value: Value, indent: int | None = None) -> str:
    """JSON in the order of the keys given, on one line unless `indent` says else; NaN is refused.

    Control characters and direction marks are escaped, so that a terminal shows it unharmed.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
    return _NOT_ASCII.sub(_json_escape, text)


def _json_escape(match: re.Match[str]) -> str:
    """The character itself if it can be seen; beyond ASCII JSON has only characters of strings."""
    return match[0] if match[0].isprintable() else json.dumps(match[0])[1:-1]


def harmless(text: str) -> str:
    """Text of a log for a terminal: control characters and direction marks are shown as escapes."""
    return "".join(c if c.isprintable() or c == "\t" else _escape(c) for c in text)


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
