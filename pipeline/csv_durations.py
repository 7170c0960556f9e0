"""Durations from a CSV file: checked line by line, every kind of mistake named with its lines."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np

from pipeline.durations import MAX_PROBLEMS, Durations, DurationsError, Floats, Ints, durations
from pipeline.selection import History, Order, TypedDurations

COLUMNS = ("duration", "observed", "type", "weight", "entry", "upper")
QUANTITY = "duration"
ALL_TYPES = "all"
UNKNOWN_TYPE = "unknown"
_OBSERVED = {"1": 1.0, "0": 0.0, "true": 1.0, "false": 0.0}


def read(path: Path, *, by_type: bool) -> list[TypedDurations]:
    """The durations of every type of a CSV file, by name; one type `all` unless `by_type`.

    Columns: duration; optionally observed (1 or 0, default 1), type (default `unknown`), weight
    (default 1), entry (age from which the row was at risk, default 0) and upper (the end lies
    between duration and upper). DurationsError names the lines that cannot be read.
    """
    lines, columns = _columns(path)
    names = columns.pop("type", None)
    if by_type and names is None:
        raise DurationsError(f"{path}: no column `type`; expected one to tell types apart")
    values = {name: _numbers(path, name, texts, lines) for name, texts in columns.items()}
    everything = np.arange(len(lines))
    pooled = _sample(path, everything, values, lines)  # names the mistakes of all types at once
    if not by_type or names is None:
        return [_typed(ALL_TYPES, pooled, everything, values)]
    kinds, place = np.unique([t.strip() or UNKNOWN_TYPE for t in names], return_inverse=True)
    groups = [(str(kind), np.flatnonzero(place == i)) for i, kind in enumerate(kinds)]
    return [_typed(kind, _sample(path, rows, values, lines), rows, values) for kind, rows in groups]


def _columns(path: Path) -> tuple[list[int], dict[str, list[str]]]:
    """(line of every row, texts of every column)."""
    with path.open(encoding="utf-8-sig", newline="") as handle:
        reader = csv.reader(handle)
        try:
            header = [name.strip() for name in next(reader, [])]
            _check_header(path, header)
            lines, rows = [], []
            for row in reader:
                if row:
                    lines.append(reader.line_num)
                    rows.append(row)
        except UnicodeDecodeError as error:
            raise DurationsError(f"{path}: not UTF-8 text ({error.reason})") from error
        except csv.Error as error:
            raise DurationsError(f"{path}:{reader.line_num}: not CSV: {error}") from error
    wrong = [n for n, row in zip(lines, rows, strict=True) if len(row) != len(header)]
    if wrong:
        raise DurationsError(
            f"{_places(path, wrong)}: expected {len(header)} values, as in the header"
        )
    if not rows:
        raise DurationsError(f"{path}: a header without rows; expected at least one duration")
    return lines, dict(zip(header, map(list, zip(*rows, strict=True)), strict=True))


def _check_header(path: Path, header: list[str]) -> None:
    if not header:
        raise DurationsError(f"{path}: empty; expected a header line with the column `duration`")
    known = f"known columns: {', '.join(COLUMNS)}"
    problems = [f"unknown column {name!r}" for name in header if name not in COLUMNS]
    problems += [f"column {n!r} twice" for n in sorted(set(header)) if header.count(n) > 1]
    if "duration" not in header:
        problems.append("no column 'duration'")
    if problems:
        raise DurationsError(f"{path}:1: {'; '.join(problems)}; {known}")


def _numbers(path: Path, name: str, texts: list[str], lines: list[int]) -> Floats:
    """One column as numbers; an empty text is a mistake where the column needs a value."""
    empty = {"entry": 0.0, "upper": math.nan}.get(name)
    values, wrong = [], []
    for line, text in zip(lines, texts, strict=True):
        value = _number(name, text.strip(), empty)
        if value is None:
            wrong.append(line)
        values.append(0.0 if value is None else value)
    if wrong:
        expected = "1 or 0" if name == "observed" else "a number"
        raise DurationsError(f"{_places(path, wrong)}: column `{name}`: expected {expected}")
    return np.array(values)


def _number(name: str, text: str, empty: float | None) -> float | None:
    if name == "observed":
        return _OBSERVED.get(text.lower())
    if not text:
        return empty
    try:
        return float(text)
    except ValueError:
        return None


def _places(path: Path, lines: list[int]) -> str:
    shown = ", ".join(str(n) for n in lines[:MAX_PROBLEMS])
    return f"{path}:{shown}" + (
        f" and {len(lines) - MAX_PROBLEMS} more lines" if len(lines) > MAX_PROBLEMS else ""
    )


def _sample(path: Path, rows: Ints, values: dict[str, Floats], lines: list[int]) -> Durations:
    chosen = {name: column[rows] for name, column in values.items()}
    return durations(
        chosen["duration"], chosen.get("observed"), upper=chosen.get("upper"),
        entry=chosen.get("entry"), weight=chosen.get("weight"),
        name_row=lambda row: f"{path}:{lines[rows[row]]}",
    )  # fmt: skip


def _typed(kind: str, sample: Durations, rows: Ints, values: dict[str, Floats]) -> TypedDurations:
    """The durations of a type, with its history as if its rows had followed each other.

    There is none where the rows are sorted, which time is not, or stand for more than one thing.
    """
    time = values["duration"][rows]
    steps = np.diff(time)
    if rows.size > 2 and (np.all(steps >= 0) or np.all(steps <= 0)):
        return TypedDurations(kind, QUANTITY, sample, order=Order.SORTED)
    if {"upper", "entry", "weight"} & set(values):
        return TypedDurations(kind, QUANTITY, sample)
    seen = values["observed"][rows] > 0 if "observed" in values else np.ones(rows.size, bool)
    total = np.cumsum(time)
    history = History(total[seen], float(total[-1]), bool(seen[-1]))
    return TypedDurations(kind, QUANTITY, sample, history)
