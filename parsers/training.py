"""Training-log dialects as data: load them, and read one line by their rules.

A dialect is a TOML file: anchors by which it is recognised, rules that turn lines into train
events, lines that must match and lines that must not. A fork is ten lines that extend another.
"""

from __future__ import annotations

import ast
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from parsers.clock import Stamp, parse_stamp
from parsers.formats import Row
from parsers.regexes import problems_of
from parsers.tables import MAX_TEXT_BYTES, TRAIN_EVENT, StampSource

_BUILT_IN = Path(__file__).parent / "dialects"
MAX_STEP: Final = 2**53
"""Beyond it a number is no step count but damage."""

KINDS: Final = frozenset(
    "attempt_start imports_done dist_init model_built data_built compile train_start train_config "
    "step metric evaluation checkpoint_save checkpoint_commit checkpoint_fail checkpoint_load "
    "resume fresh_start anomaly membership restart shutdown".split()
)
PHASES: Final = frozenset(("instant", "begin", "end"))

# Name in a regex or map -> (column, factor to the column's unit). Text columns have no factor.
_INTEGERS: Final = {
    "step": "step_to", "step_from": "step_from", "n_steps": "n_steps", "total": "total_steps",
    "batch": "global_batch", "world": "world_size", "samples": "consumed_samples",
    "tokens": "tokens", "skipped": "skipped_steps", "nan_steps": "nan_steps",
}  # fmt: skip
_FLOATS: Final = {
    "dur_ms": ("duration_ms", 1.0), "dur_s": ("duration_ms", 1000.0),
    "step_ms": ("step_ms", 1.0), "step_s": ("step_ms", 1000.0),
    "loss": ("loss", 1.0), "grad_norm": ("grad_norm", 1.0), "lr": ("lr", 1.0),
    "tflops": ("tflops", 1.0), "tps": ("tps", 1.0),
}  # fmt: skip
_TEXTS: Final = {"ckpt_path": "checkpoint_path", "tier": "checkpoint_tier"}
_SPECIAL: Final = frozenset(("ts", "elapsed", "rest", "dict"))
VOCABULARY: Final = frozenset((*_INTEGERS, *_FLOATS, *_TEXTS, *_SPECIAL))
TRANSFORMS: Final = frozenset(("step_from_path", "zero_based_step", "literal_dict"))

_SUFFIX: Final = {"K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}
_STEP_IN_PATH = re.compile(r"(?:checkpoint-|step[-_=]?|iter_|global_step)0*(\d+)(?!.*\d{3})")


class DialectError(ValueError):
    """Every problem of the dialects at once, one a line."""


@dataclass(frozen=True)
class Rejected:
    """A line that a rule claims and cannot read, and why."""

    reason: str


@dataclass(frozen=True)
class KeyValues:
    """How the group `rest` divides into keys and values."""

    sep: str
    assign: str
    map: Mapping[str, str]
    is_closed: bool = True  # a last piece without `sep` behind it is cut off, not a value


@dataclass(frozen=True, eq=False)
class Rule:
    """One kind of line of a dialect."""

    dialect: str
    id: str
    literals: tuple[str, ...]
    regex: re.Pattern[str]
    emit: Mapping[str, str]
    set: Mapping[str, object] = field(default_factory=dict)
    claim: re.Pattern[str] | None = None
    kv: KeyValues | None = None
    dict_map: Mapping[str, str] = field(default_factory=dict)
    transforms: tuple[str, ...] = ()
    has_suffixes: bool = False
    is_dense: bool = False
    overrides: str | None = None  # base dialect whose rule of the same id this one replaces

    def apply(self, payload: str) -> list[Row | Rejected]:
        """Train events that the payload states by this rule; empty where it does not match."""
        rows = [self._row(match) for match in self.regex.finditer(payload)]
        if not rows and self.claim is not None and self.claim.search(payload):
            return [Rejected(f"looks like {self.dialect} {self.id}, but is not complete")]
        return rows

    def _row(self, match: re.Match[str]) -> Row | Rejected:
        values = {k: v for k, v in match.groupdict().items() if v is not None}
        if self.kv is not None:
            values |= _split(values.get("rest", ""), self.kv)
        if "literal_dict" in self.transforms:
            read = _literal_dict(values["dict"], self.dict_map)
            if read is None:
                return Rejected(f"{self.dialect} {self.id}: not a dict of plain values")
            values |= read
        row: dict[str, object] = {
            "dialect": self.dialect,
            "phase": "instant",
            **self.emit,
            **self.set,
        }
        if row["kind"] != "step":  # step lines are many and all alike: `show` prints them
            row["message"] = match.group(0).strip()[:MAX_TEXT_BYTES]
        problem = _fill(row, values, has_suffixes=self.has_suffixes)
        if problem:
            return Rejected(f"{self.dialect} {self.id}: {problem}")
        if "step_from_path" in self.transforms and row.get("step_to") is None:
            row["step_to"] = step_in_path(str(row.get("checkpoint_path") or ""))
        if "zero_based_step" in self.transforms and isinstance(row.get("step_to"), int):
            row["step_to"] += 1  # type: ignore[operator]  # just checked
        return row


@dataclass(frozen=True)
class Dialect:
    """A training-log format."""

    name: str
    title: str
    versions: str
    anchors: tuple[str, ...]
    rules: tuple[Rule, ...]
    tests: tuple[tuple[str, Mapping[str, object]], ...] = ()
    near_misses: tuple[str, ...] = ()
    extends: str | None = None  # the rules of this dialect apply as well, where not overridden

    def read(self, payload: str) -> list[Row | Rejected]:
        """What every rule of the dialect makes of a payload."""
        return [
            row
            for rule in self.rules
            if any(literal in payload for literal in rule.literals)
            for row in rule.apply(payload)
        ]


def step_in_path(path: str) -> int | None:
    """The step that a checkpoint folder is named after, e.g. 40 of `out/checkpoint-40`."""
    found = _STEP_IN_PATH.search(path)
    return int(found[1]) if found and int(found[1]) <= MAX_STEP else None


def stamp_columns(stamp: Stamp | None, source: StampSource) -> dict[str, object]:
    """The `stamp_*` columns of a fact."""
    if stamp is None:
        return {}
    return {
        "stamp_us": stamp.us,
        "stamp_kind": str(stamp.kind),
        "stamp_source": str(source),
        "stamp_resolution_s": stamp.resolution_s,
    }


def _split(rest: str, kv: KeyValues) -> dict[str, str]:
    pieces = rest.split(kv.sep)
    if kv.is_closed:
        pieces = pieces[:-1]
    values = {}
    for piece in pieces:
        key, assign, value = piece.partition(kv.assign)
        name = kv.map.get(key.strip())
        if assign and name is not None:
            values[name] = value.strip()
    return values


def _literal_dict(text: str, names: Mapping[str, str]) -> dict[str, str] | None:
    """Values by our names; old versions print floats, new ones quoted strings."""
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        # nan and inf are bare words in old versions
        found = dict(re.findall(r"'([\w./-]+)': '?([-+\w.]+)'?", text))
    if not isinstance(found, dict):
        return None
    return {names[k]: str(v) for k, v in found.items() if k in names}


def _fill(row: dict[str, object], values: Mapping[str, str], *, has_suffixes: bool) -> str | None:
    """Put values into their columns; the problem where a count cannot be a count."""
    for name, text in values.items():
        if name in _INTEGERS:
            number = _number(text, has_suffixes=has_suffixes)
            if number is None or not math.isfinite(number) or not 0 <= number <= MAX_STEP:
                return f"{name} is {text[:40]!r}, not a count"
            row[_INTEGERS[name]] = int(number)
        elif name in _FLOATS:
            column, factor = _FLOATS[name]
            number = _number(text, has_suffixes=has_suffixes)
            if number is not None:
                is_time = column in ("duration_ms", "step_ms")
                if is_time and not 0 <= number < 1e12:
                    return f"{name} is {text[:40]!r}, not a duration"
                row[column] = number * factor
        elif name in _TEXTS:
            row[_TEXTS[name]] = text.rstrip(".")[:MAX_TEXT_BYTES] or None
        elif name == "ts":
            row |= stamp_columns(parse_stamp(text), StampSource.INLINE)
        elif name == "elapsed":
            row["elapsed_s"] = _clock_s(text)
            row["elapsed_resolution_s"] = 1.0
    return None


def _number(text: str, *, has_suffixes: bool) -> float | None:
    text = text.replace(",", "")
    factor = 1.0
    if has_suffixes and text[-1:].upper() in _SUFFIX:
        factor = _SUFFIX[text[-1].upper()]
        text = text[:-1]
    try:
        return float(text) * factor
    except ValueError:
        return None


def _clock_s(text: str) -> float:
    """Seconds of `mm:ss` or `h:mm:ss`."""
    seconds = 0
    for part in text.split(":"):
        seconds = seconds * 60 + int(part)
    return float(seconds)


@lru_cache(maxsize=8)
def load_dialects(extra_dirs: tuple[str, ...] = ()) -> tuple[Dialect, ...]:
    """The built-in dialects and those of user folders, which replace equal names or add.

    User dialects are checked at once (DialectError names every problem); built-in ones by tests.
    """
    tables: dict[str, tuple[str, dict[str, Any]]] = {}
    user: set[str] = set()
    for folder in (str(_BUILT_IN), *extra_dirs):
        for place, table in _read_folder(Path(folder)):
            tables[str(table.get("name"))] = (place, table)
            if folder != str(_BUILT_IN):
                user.add(str(table.get("name")))
    problems: list[str] = []
    dialects = []
    for name, (place, table) in sorted(tables.items()):
        try:
            dialect = _dialect(table, {k: t for k, (_, t) in tables.items()})
        except (KeyError, TypeError, AttributeError) as error:
            problems.append(f"{place}: missing or malformed key: {error}")
            continue
        except DialectError as error:
            problems.append(f"{place}: {error}")
            continue
        if name in user:
            problems += [f"{place}: {why}" for why in problems_in(dialect)]
        dialects.append(dialect)
    if problems:
        raise DialectError("\n".join(problems))
    return tuple(dialects)


def _read_folder(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    found, problems = [], []
    if not folder.is_dir():
        raise DialectError(f"{folder}: no such folder; --dialects needs a folder of *.toml files")
    for path in sorted(folder.glob("*.toml")):
        try:
            found.append((str(path), tomllib.loads(path.read_text())))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            problems.append(f"{path}: not readable as TOML: {error}")
    if problems:
        raise DialectError("\n".join(problems))
    return found


def _dialect(table: Mapping[str, Any], every: Mapping[str, Mapping[str, Any]]) -> Dialect:
    name = str(table["name"])
    base = table.get("extends")
    if base is not None and (base not in every or every[base].get("extends")):
        raise DialectError(f"extends {base!r}, which is no dialect of its own")
    rules = [replace(_rule(name, row), overrides=base) for row in table.get("rule", [])]
    return Dialect(
        name=name,
        title=str(table.get("title", name)),
        versions=str(table.get("versions", "")),
        anchors=tuple(table.get("anchors", [])),
        rules=tuple(rules),
        tests=tuple((t["line"], t["expect"]) for t in table.get("test", [])),
        near_misses=tuple(table.get("near_misses", [])),
        extends=base,
    )


def _rule(dialect: str, row: Mapping[str, Any]) -> Rule:
    literals = row["literal"]
    for pattern in (row["regex"], row.get("claim", "")):
        if bad := problems_of(pattern):
            raise DialectError(f"rule {row['id']}: the regex {', '.join(bad)}")
    kv = row.get("kv")
    return Rule(
        dialect=dialect,
        id=row["id"],
        literals=(literals,) if isinstance(literals, str) else tuple(literals),
        regex=re.compile(row["regex"]),
        emit=row["emit"],
        set=row.get("set", {}),
        claim=re.compile(row["claim"]) if "claim" in row else None,
        kv=KeyValues(kv["sep"], kv["assign"], kv["map"], kv.get("is_closed", True)) if kv else None,
        dict_map=row.get("dict", {}),
        transforms=tuple(row.get("transform", [])),
        has_suffixes=bool(row.get("has_suffixes", False)),
        is_dense=bool(row.get("is_dense", False)),
    )


def problems_in(dialect: Dialect) -> list[str]:
    """Everything that is wrong with a dialect, one sentence each."""
    problems = []
    for rule in dialect.rules:
        names = set(rule.regex.groupindex) | set(rule.dict_map.values())
        names |= set(rule.kv.map.values()) if rule.kv else set()
        problems += [f"rule {rule.id}: unknown name {n!r}" for n in sorted(names - VOCABULARY)]
        columns = set(rule.set) - {c.name for c in TRAIN_EVENT.columns}
        problems += [f"rule {rule.id}: unknown column {c!r}" for c in sorted(columns)]
        unknown = set(rule.transforms) - TRANSFORMS
        problems += [f"rule {rule.id}: unknown transform {t!r}" for t in sorted(unknown)]
        if rule.emit.get("kind") not in KINDS:
            problems.append(f"rule {rule.id}: unknown kind {rule.emit.get('kind')!r}")
        if rule.emit.get("phase", "instant") not in PHASES:
            problems.append(f"rule {rule.id}: unknown phase {rule.emit.get('phase')!r}")
        if not rule.literals or not all(rule.literals):
            problems.append(f"rule {rule.id}: no literal: name a text that every such line holds")
    return problems + _test_problems(dialect)


def _test_problems(dialect: Dialect) -> list[str]:
    problems: list[str] = []
    for line, expect in dialect.tests:
        rows = dialect.read(line)
        fitting = [r for r in rows if isinstance(r, dict) and _fits(r, expect)]
        if not fitting:
            problems.append(f"{line!r} gave {_seen(rows)}, expected {dict(expect)}")
    for line in dialect.near_misses:
        rows = [r for r in dialect.read(line) if not isinstance(r, Rejected)]
        if rows:
            problems.append(f"near miss {line!r} gave {_seen(rows)}")
    return problems


def _fits(row: Row, expect: Mapping[str, object]) -> bool:
    for name, value in expect.items():
        found = row.get(name)
        if isinstance(value, float) and isinstance(found, int | float):
            if not math.isclose(found, value, rel_tol=1e-9):
                return False
        elif name == "at":
            us = row.get("stamp_us")
            wanted = parse_stamp(str(value))
            if wanted is None or us != wanted.us:
                return False
        elif found != value:
            return False
    return True


def _seen(rows: Sequence[Row | Rejected]) -> list[object]:
    return [r if isinstance(r, Rejected) else {k: v for k, v in r.items() if v is not None}
            for r in rows]  # fmt: skip
