"""Dialect files: read, checked, and refused with every mistake at once.

A file is one dialect: its name, the texts by which it is recognised, `[[rule]]` tables that turn
lines into train events, and `[[test]]` tables with lines and what they must give. A fork names the
dialect that it `extends`. docs/dialects.md is the page for those who write one.
"""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from parsers.clock import parse_stamp
from parsers.formats import Row
from parsers.prefixes import peel
from parsers.regexes import problems_of, stalls_on
from parsers.tables import EVIDENCE, STAMP, TRAIN_EVENT, StampSource
from parsers.training import (
    DETAILS,
    KINDS,
    PHASES,
    TRANSFORMS,
    VOCABULARY,
    Dialect,
    KeyValues,
    Rejected,
    Rule,
    stamp_columns,
)

BUILT_IN: Final = Path(__file__).parent / "dialects"

MIN_LITERAL_CHARS: Final = 4
"""A shorter text stands in too many lines to find the few that matter."""

_SHAPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "a text": lambda v: isinstance(v, str) and v != "",
    "a list of texts": lambda v: isinstance(v, list) and all(isinstance(t, str) and t for t in v),
    "a text or a list of texts": lambda v: _SHAPES["a text"](v) or _SHAPES["a list of texts"](v),
    "true or false": lambda v: isinstance(v, bool),
    "a table": lambda v: isinstance(v, dict),
    "a table of texts": lambda v: (
        isinstance(v, dict) and all(isinstance(t, str) for t in v.values())
    ),
    "[[...]] tables": lambda v: isinstance(v, list) and all(isinstance(t, dict) for t in v),
}

# Key: (shape, is it needed). A key that stands nowhere here is refused.
_Keys = Mapping[str, tuple[str, bool]]
DIALECT_KEYS: Final[_Keys] = {
    "name": ("a text", True), "title": ("a text", False), "versions": ("a text", False),
    "extends": ("a text", False), "anchors": ("a list of texts", False),
    "near_misses": ("a list of texts", False), "rule": ("[[...]] tables", True),
    "test": ("[[...]] tables", True),
}  # fmt: skip
RULE_KEYS: Final[_Keys] = {
    "id": ("a text", True), "literal": ("a text or a list of texts", True),
    "regex": ("a text", True), "claim": ("a text", False), "emit": ("a table of texts", True),
    "set": ("a table", False), "kv": ("a table", False), "dict": ("a table of texts", False),
    "transform": ("a list of texts", False), "has_suffixes": ("true or false", False),
    "is_dense": ("true or false", False),
}  # fmt: skip
EMIT_KEYS: Final[_Keys] = {
    "kind": ("a text", True), "phase": ("a text", False), "detail": ("a text", False),
}  # fmt: skip
KV_KEYS: Final[_Keys] = {
    "sep": ("a text", True), "assign": ("a text", True), "map": ("a table of texts", True),
    "is_closed": ("true or false", False),
}  # fmt: skip
TEST_KEYS: Final[_Keys] = {"line": ("a text", True), "expect": ("a table", True)}

_GIVEN: Final = frozenset(("dialect", "kind", "phase", "detail", "message"))
SET_COLUMNS: Final = {
    c.name: c for c in TRAIN_EVENT.columns if c not in EVIDENCE + STAMP and c.name not in _GIVEN
}
"""Columns that a rule may set to a constant."""
_EXPECT_NAMES: Final = ({c.name for c in TRAIN_EVENT.columns} - {c.name for c in EVIDENCE}) | {"at"}

# What a transform needs among the names that a rule captures.
_NEEDS: Final = {
    "step_from_path": {"ckpt_path"}, "zero_based_step": {"step"},
    "step_from_interval": {"step_from", "n_steps"}, "step_of_epoch": {"step", "epoch"},
    "literal_dict": {"dict"},
}  # fmt: skip


class DialectError(ValueError):
    """Every problem of the dialect files at once, one a line."""


@dataclass(frozen=True)
class _File:
    """A TOML file of a folder."""

    path: Path
    table: Mapping[str, Any]

    @property
    def name(self) -> str | None:
        """The name that it gives itself; None where it gives none."""
        name = self.table.get("name")
        return name if isinstance(name, str) else None


@dataclass
class _Checked:
    """A dialect, as far as its file allows one, and what is wrong with the file."""

    dialect: Dialect | None = None
    problems: list[str] = field(default_factory=list)


@lru_cache(maxsize=8)
def load_dialects(extra_dirs: tuple[str, ...] = ()) -> tuple[Dialect, ...]:
    """The built-in dialects and those of the user's folders, by name.

    User dialects are checked and their examples run; DialectError names every problem of every
    file. Built-in ones are checked by tests.
    """
    files, problems = _read_folder(BUILT_IN)
    places = {f.name: "built in; take another name, and extends to change its rules" for f in files}
    users: list[_File] = []
    for folder in extra_dirs:
        found, bad = _read_folder(Path(folder))
        problems += bad
        for file in found:
            if file.name is not None and file.name in places:
                problems.append(f"{file.path}: name: {file.name!r} is {places[file.name]}")
            places.setdefault(file.name, f"also the name of {file.path}")
            users.append(file)
    extended = {f.name: f.table.get("extends") for f in (*files, *users)}
    dialects = [_dialect(f.table) for f in files]
    for file in users:
        checked = check(file.table, extended)
        problems += [f"{file.path}: {why}" for why in checked.problems]
        if checked.dialect is not None:
            dialects.append(checked.dialect)
    if problems:
        raise DialectError("\n".join(problems))
    return tuple(sorted(dialects, key=lambda d: d.name))


def _read_folder(folder: Path) -> tuple[list[_File], list[str]]:
    """The TOML files of a folder, and what kept some from being read."""
    found, problems = [], []
    if not folder.is_dir():
        return [], [f"{folder}: no such folder; --dialects needs a folder of *.toml files"]
    paths = sorted(folder.glob("*.toml"))
    if not paths:
        problems.append(f"{folder}: holds no *.toml file; --dialects needs a folder of them")
    for path in paths:
        try:
            found.append(_File(path, tomllib.loads(path.read_text(encoding="utf-8"))))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
            problems.append(f"{path}: not readable as TOML: {error}")
    return found, problems


def _dialect(table: Mapping[str, Any]) -> Dialect:
    """The dialect of a table whose keys are right."""
    name, base = table["name"], table.get("extends")
    return Dialect(
        name=name,
        title=table.get("title", name),
        versions=table.get("versions", ""),
        anchors=tuple(table.get("anchors", ())),
        rules=tuple(_rule(name, base, row) for row in table["rule"]),
        tests=tuple((t["line"], t["expect"]) for t in table["test"]),
        near_misses=tuple(table.get("near_misses", ())),
        extends=base,
    )


def _rule(dialect: str, base: str | None, row: Mapping[str, Any]) -> Rule:
    literal = row["literal"]
    return Rule(
        dialect=dialect,
        id=row["id"],
        literals=(literal,) if isinstance(literal, str) else tuple(literal),
        regex=re.compile(row["regex"]),
        emit=row["emit"],
        set=row.get("set", {}),
        claim=re.compile(row["claim"]) if "claim" in row else None,
        kv=KeyValues(**row["kv"]) if "kv" in row else None,
        dict_map=row.get("dict", {}),
        transforms=tuple(row.get("transform", ())),
        has_suffixes=row.get("has_suffixes", False),
        is_dense=row.get("is_dense", False),
        overrides=base,
    )


def check(table: Mapping[str, Any], extended: Mapping[str | None, object]) -> _Checked:
    """The dialect of a file's table, and everything that is wrong with it, one sentence each.

    `extended`: what every known dialect extends, by name.
    """
    problems = _misfits(table, DIALECT_KEYS, "")
    base = table.get("extends")
    if isinstance(base, str) and (base not in extended or extended[base] is not None):
        problems.append(f"extends: {base!r} is no dialect of its own{_nearest(base, extended)}")
    rows, tests = (_tables(table.get(key)) for key in ("rule", "test"))
    ids = [row.get("id") for row in rows]
    for number, row in enumerate(rows, start=1):
        where = f"rule {row['id']}: " if isinstance(row.get("id"), str) else f"rule {number}: "
        problems += _rule_problems(row, where)
        if row.get("id") in ids[: number - 1]:
            problems.append(f"{where}id: another rule has it too")
    for number, test in enumerate(tests, start=1):
        where = f"test {number}: "
        problems += _misfits(test, TEST_KEYS, where)
        names = _tables([test.get("expect")])
        problems += _unknown(f"{where}expect", names[0] if names else (), _EXPECT_NAMES)
    if problems:
        return _Checked(None, problems)
    dialect = _dialect(table)
    return _Checked(dialect, list(_example_problems(dialect)))


def _tables(value: object) -> list[Mapping[str, Any]]:
    """The tables of a value that ought to be a list of tables."""
    return [t for t in value if isinstance(t, dict)] if isinstance(value, list) else []


def _misfits(table: Mapping[str, Any], keys: _Keys, where: str) -> list[str]:
    """Unknown, missing and misshapen keys of a table."""
    problems = [f"{where}unknown key {k!r}{_nearest(k, keys)}" for k in table if k not in keys]
    for key, (shape, is_needed) in keys.items():
        if key not in table:
            problems += [f"{where}missing key {key!r}"] if is_needed else []
        elif not _SHAPES[shape](table[key]):
            problems.append(f"{where}{key}: must be {shape.replace('...', key)}")
    return problems


def _unknown(where: str, words: Iterable[str], known: Collection[str]) -> list[str]:
    return [f"{where}: unknown word {w!r}{_nearest(w, known)}" for w in words if w not in known]


def _nearest(word: object, known: Iterable[object]) -> str:
    """What was probably meant, or all that could be meant where few could."""
    words = sorted(str(k) for k in known)
    if near := difflib.get_close_matches(str(word), words, n=1):
        return f"; did you mean {near[0]!r}?"
    return f"; known: {', '.join(words)}"


def _rule_problems(row: Mapping[str, Any], where: str) -> list[str]:
    """What is wrong with a rule by itself."""
    problems = _misfits(row, RULE_KEYS, where)
    for key, keys in (("emit", EMIT_KEYS), ("kv", KV_KEYS)):
        if isinstance(row.get(key), dict):
            problems += _misfits(row[key], keys, f"{where}{key}: ")
    if problems:
        return problems
    for key in ("regex", "claim"):
        problems += [f"{where}{key}: {why}" for why in problems_of(row.get(key, ""))]
    if problems:
        return problems
    rule = _rule("", None, row)
    return [f"{where}{why}" for why in (*_word_problems(rule), *_use_problems(rule))]


def _word_problems(rule: Rule) -> Iterator[str]:
    """Words that no vocabulary holds."""
    yield from _unknown("emit.kind", [rule.emit["kind"]], KINDS)
    yield from _unknown("emit.phase", [rule.emit.get("phase", "instant")], PHASES)
    if (detail := rule.emit.get("detail")) is not None:
        known = DETAILS.get(rule.emit["kind"])
        if known is None:
            yield f"emit.detail: the kind {rule.emit['kind']!r} has none"
        else:
            yield from _unknown("emit.detail", [detail], known)
    yield from _unknown("transform", rule.transforms, TRANSFORMS)
    yield from _unknown("regex", rule.regex.groupindex, VOCABULARY)
    yield from _unknown("kv.map", rule.kv.map.values() if rule.kv else (), VOCABULARY)
    yield from _unknown("dict", rule.dict_map.values(), VOCABULARY)
    yield from _unknown("set", rule.set, SET_COLUMNS)


def _use_problems(rule: Rule) -> Iterator[str]:
    """Keys that contradict each other or cannot work."""
    for literal in rule.literals or ("",):
        if len(literal) < MIN_LITERAL_CHARS:
            yield (
                f"literal: {literal!r} is shorter than {MIN_LITERAL_CHARS} characters: "
                "name a text that every such line holds and few others do"
            )
    groups = set(rule.regex.groupindex)
    captured = groups | set(rule.dict_map.values()) | set(rule.kv.map.values() if rule.kv else ())
    for transform in sorted(TRANSFORMS & set(rule.transforms)):
        for name in sorted(_NEEDS[transform] - captured):
            yield f"transform: {transform} needs {name!r}, which the rule does not capture"
    for key, group, is_there in (
        ("kv", "rest", rule.kv is not None),
        ("literal_dict", "dict", "literal_dict" in rule.transforms),
    ):
        if is_there != (group in groups):
            yield f"{key}: it and the regex's group {group!r} need each other"
    if bool(rule.dict_map) != ("literal_dict" in rule.transforms):
        yield "dict: it and the transform literal_dict need each other"
    if rule.is_dense and (rule.kv is None or rule.emit["kind"] != "step"):
        yield "is_dense: only step rules with kv can be read in bulk"
    for name, value in rule.set.items():
        if name in SET_COLUMNS and not _is_of(value, SET_COLUMNS[name].type):
            yield f"set.{name}: {value!r} is no {SET_COLUMNS[name].type}"


def _is_of(value: object, column_type: pa.DataType) -> bool:
    try:
        pa.scalar(value, column_type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return False
    return isinstance(value, bool) == bool(pa.types.is_boolean(column_type))


def _example_problems(dialect: Dialect) -> Iterator[str]:
    """What the lines of a dialect show to be wrong with its rules."""
    payloads = [peel(line).payload for line, _ in dialect.tests]
    for line, expect in dialect.tests:
        rows = read_line(dialect, line)
        if not any(isinstance(r, dict) and _fits(r, expect) for r in rows):
            yield f"test: {line!r} gave {_shown(rows)}, expected {dict(expect)}"
    for line in dialect.near_misses:
        rows = [r for r in read_line(dialect, line) if not isinstance(r, Rejected)]
        if rows:
            yield f"near_misses: {line!r} gave {_shown(rows)}"
    for rule in dialect.rules:
        read = [p for p in payloads if any(isinstance(r, dict) for r in rule.apply(p))]
        if not read:
            yield f"rule {rule.id}: regex: matches no line of a [[test]]"
        elif unseen := [x for x in rule.literals if not any(x in p for p in read)]:
            yield f"rule {rule.id}: literal: {unseen[0]!r} is in no [[test]] line that it reads"
        for key, pattern in (("regex", rule.regex), ("claim", rule.claim)):
            if pattern and (hostile := stalls_on(pattern, (*read, *rule.literals))):
                yield (
                    f"rule {rule.id}: {key}: backtracks too long, as on {hostile[:60]!r}: "
                    "bound its repeats"
                )


def read_line(dialect: Dialect, line: str) -> list[Row | Rejected]:
    """Rows of a whole line by a dialect's own rules, with what its prefixes tell."""
    peeled = peel(line)
    context = {
        "rank": peeled.rank,
        "node": peeled.node,
        **stamp_columns(peeled.line_stamp or peeled.stamp, StampSource.INLINE),
    }
    rows = dialect.read(peeled.payload)
    return [r if isinstance(r, Rejected) else {**context, **r} for r in rows]


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


def _shown(rows: Sequence[Row | Rejected]) -> object:
    if not rows:
        return "nothing"
    return [
        r if isinstance(r, Rejected)
        else {k: v for k, v in r.items() if v is not None and k != "message"} for r in rows
    ]  # fmt: skip
