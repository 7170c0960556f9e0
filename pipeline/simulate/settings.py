"""Read a TOML table into frozen dataclasses; every mistake is found before any is reported.

A field made by `setting` carries its meaning; docs are made from it. Supported types: bool, int,
float, str, StrEnum, Law, `X | None`, another settings class, and tuples of one.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from dataclasses import MISSING, dataclass
from enum import StrEnum
from typing import Any

from pipeline.simulate.laws import Law, LawName

_LAW_KEYS = {"law", "mean", "shape", "sigma", "half_width"}


def setting(
    meaning: str, *, default: Any = MISSING, low: float = 0.0, high: float = float("inf")
) -> Any:
    """A field with its meaning and the range [low, high] of its value or mean."""
    return dataclasses.field(
        default=default, metadata={"meaning": meaning, "low": low, "high": high}
    )


def section(meaning: str, kind: type, *, is_list: bool = False) -> Any:
    """A field that holds a table (or an array of tables) of its own."""
    factory = tuple if is_list else kind
    return dataclasses.field(default_factory=factory, metadata={"meaning": meaning})


@dataclass
class Reader:
    """Turns tables into settings and gathers problems on the way."""

    problems: list[str] = dataclasses.field(default_factory=list)

    def read(self, kind: type, table: object, where: str) -> Any:
        """An instance of `kind`; None where a problem was found."""
        if not isinstance(table, dict):
            self._say(where, f"must be a table, not {table!r}")
            return None
        fields = {f.name: f for f in dataclasses.fields(kind)}
        hints = typing.get_type_hints(kind)
        for key in table.keys() - fields.keys():
            self._say(f"{where}.{key}", f"unknown; known: {', '.join(fields)}")
        given: dict[str, object] = {}
        n_before = len(self.problems)
        for name, field in fields.items():
            place = f"{where}.{name}"
            if name in table:
                given[name] = self._value(hints[name], table[name], place, field.metadata)
            elif field.default is MISSING and field.default_factory is MISSING:
                self._say(place, "is missing")
        return kind(**given) if len(self.problems) == n_before else None

    def _say(self, where: str, what: str) -> None:
        self.problems.append(f"{where.lstrip('.')}: {what}")

    def _value(
        self, kind: Any, value: object, where: str, limits: typing.Mapping[str, Any]
    ) -> object:
        if typing.get_origin(kind) is types.UnionType:
            kind = next(k for k in typing.get_args(kind) if k is not types.NoneType)
        if typing.get_origin(kind) is tuple:
            return self._tuple(typing.get_args(kind)[0], value, where, limits)
        if dataclasses.is_dataclass(kind) and kind is not Law:
            return self.read(typing.cast("type", kind), value, where)
        if kind is Law:
            law = self._law(value, where)
            self._check_range(None if law is None else law.mean, where, limits)
            return law
        if isinstance(kind, type) and issubclass(kind, StrEnum):
            if value not in list(kind):
                self._say(where, f"{value!r} is none of {', '.join(kind)}")
                return None
            return kind(typing.cast("str", value))
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if kind is float and is_number:
            value = float(typing.cast("float", value))
        if type(value) is not kind:
            self._say(where, f"{value!r} is no {kind.__name__}")
            return None
        if is_number:
            self._check_range(typing.cast("float", value), where, limits)
        return value

    def _tuple(
        self, kind: Any, value: object, where: str, limits: typing.Mapping[str, Any]
    ) -> tuple[object, ...]:
        if not isinstance(value, list):
            self._say(where, f"must be an array, not {value!r}")
            return ()
        return tuple(
            self._value(kind, item, f"{where}[{i + 1}]", limits) for i, item in enumerate(value)
        )

    def _law(self, value: object, where: str) -> Law | None:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return Law(float(value))
        if not isinstance(value, dict):
            self._say(where, f"{value!r} is neither a number nor a law such as "
                      '{ law = "exponential", mean = 60 }')  # fmt: skip
            return None
        wrong = [f"{k!r} is no part of a law" for k in sorted(value.keys() - _LAW_KEYS)]
        if value.get("law") not in list(LawName):
            wrong.append(f"law = {value.get('law')!r} is none of {', '.join(LawName)}")
        for key in _LAW_KEYS - {"law"}:
            number = value.get(key, 1.0)
            if isinstance(number, bool) or not isinstance(number, int | float) or number <= 0:
                wrong.append(f"{key} = {number!r} is no number above 0")
        if "mean" not in value:
            wrong.append("mean is missing")
        for problem in wrong:
            self._say(where, problem)
        if wrong:
            return None
        numbers = {k: float(v) for k, v in value.items() if k != "law"}
        return Law(law=LawName(value["law"]), **numbers)

    def _check_range(
        self, value: float | None, where: str, limits: typing.Mapping[str, Any]
    ) -> None:
        if value is not None and not limits["low"] <= value <= limits["high"]:
            self._say(where, f"{value:g} is not in {limits['low']:g} to {limits['high']:g}")
