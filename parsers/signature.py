"""One row of the failure catalogue: what it holds, how it is read from TOML, and what it must obey.

A row says which literals a line must hold, which regex it must match, and what the match means. Its
cases change that meaning by the words of the line: `Nonfatal` counts more than the code before it.
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from parsers.fault_words import Component, Domain, Mode, Role, Scope
from parsers.regexes import problems_of, stalls_on


class CatalogueError(ValueError):
    """Every problem of a catalogue at once, one a line."""


class Scan(StrEnum):
    """What the block scanner looks for: the literals, or the regex where they are too common."""

    LITERAL = "literal"
    REGEX = "regex"


@dataclass(frozen=True)
class Case:
    """What a match means instead, where the text of one group has or lacks some words."""

    group: str
    example: str  # a line of the row to which the case applies
    has: str = ""  # regex that the group's text must contain, or
    lacks: str = ""  # regex that it must not contain
    component: Component | None = None
    mode: Mode | None = None
    domain: Domain | None = None
    role: Role | None = None
    priority: int | None = None

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(self.has or self.lacks)

    def applies(self, match: re.Match[str]) -> bool:
        """Whether the match is such a case; never where the group took no part."""
        text = match[self.group]
        return text is not None and bool(self._pattern.search(text)) == bool(self.has)

    @property
    def meaning(self) -> dict[str, str | int]:
        """The columns of `fault_event` that the case changes."""
        return {k: v for k in _MEANING if (v := getattr(self, k)) is not None}


@dataclass(frozen=True)
class Signature:
    """One row of the catalogue."""

    id: str
    order: int
    component: Component
    mode: Mode
    domain: Domain
    role: Role
    priority: int
    scope: Scope
    literals: tuple[str, ...]
    regex: str
    scan: Scan = Scan.LITERAL
    columns: Mapping[str, str] = field(default_factory=dict)  # column: the capture that fills it
    case: tuple[Case, ...] = ()  # the first that applies counts
    notes: str = ""
    source: str = ""
    verified: bool = False
    positive: tuple[str, ...] = ()
    negative: tuple[str, ...] = ()
    place: str = field(default="", compare=False)  # file it was read from

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """The regex, compiled when its literal first occurs."""
        return re.compile(self.regex)

    @cached_property
    def meaning(self) -> dict[str, str | int]:
        """The columns of `fault_event` that every match has, unless a case applies."""
        return {"signature_id": self.id, **{k: getattr(self, k) for k in _MEANING}}

    def search(self, payload: str) -> re.Match[str] | None:
        """The match of the regex in a payload that holds one of the literals."""
        if not any(literal in payload for literal in self.literals):
            return None
        return self.compiled.search(payload)


_MEANING: Final = ("component", "mode", "domain", "role", "priority")
_CLOSED: Final[Mapping[str, type[StrEnum]]] = {
    "component": Component, "mode": Mode, "domain": Domain, "role": Role, "scope": Scope,
    "scan": Scan,
}  # fmt: skip
_LISTS: Final = frozenset({"literals", "positive", "negative"})
_NUMBERS: Final = frozenset({"order", "priority"})
_FILLED: Final = frozenset({"node", "rank", "gpu", "count"})


def merged_name(group: str) -> str:
    """The capture that a group gives: `pid2` is `pid` in another form of the line.

    A regex cannot name two groups alike.
    """
    return group.rstrip("0123456789")


@dataclass
class Folder:
    """What a folder of TOML files holds: rows, ids that it switches off, and its problems."""

    signatures: list[Signature] = field(default_factory=list)
    disabled: dict[str, str] = field(default_factory=dict)  # id: file
    problems: list[str] = field(default_factory=list)


def read_folder(path: Path) -> Folder:
    """Rows of all `*.toml` files of a folder; what cannot be read is among the problems."""
    found = Folder()
    if not path.is_dir():
        found.problems.append(f"{path}: no such folder of signatures")
    for file in sorted(path.glob("*.toml")):
        try:
            table = tomllib.loads(file.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
            found.problems.append(f"{file}: not readable as TOML: {error}")
            continue
        rows = table.get("signature")
        if table.keys() != {"signature"} or not isinstance(rows, list):
            found.problems.append(f"{file}: expected [[signature]] tables and nothing else")
            continue
        for number, row in enumerate(rows, start=1):
            name = row.get("id", f"signature {number}")
            if row.get("disabled") is True and row.keys() == {"id", "disabled"}:
                found.disabled[str(name)] = str(file)
                continue
            signature, problems = _signature(row, str(file))
            found.problems += [f"{file}: {name}: {why}" for why in problems]
            if signature is not None:
                found.signatures.append(signature)
    return found


def _signature(row: Mapping[str, Any], place: str) -> tuple[Signature | None, list[str]]:
    values, problems = _values(row, Signature)
    cases = row.get("case", [])
    if not isinstance(cases, list):
        cases, problems = [], [*problems, "'case' must be [[signature.case]] tables"]
    read = []
    for case in cases:
        of_case, bad = _values(case, Case)
        problems += [f"case: {why}" for why in bad]
        if not bad:
            read.append(Case(**of_case))
    if problems:
        return None, problems
    return Signature(**{**values, "case": tuple(read), "place": place}), []


def _values(
    row: Mapping[str, Any], kind: type[Signature | Case]
) -> tuple[dict[str, Any], list[str]]:
    """Values of a TOML table under the types of the record's fields, and what is wrong."""
    known = {f.name: f for f in dataclasses.fields(kind)}
    needed = {
        name for name, f in known.items()
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    }  # fmt: skip
    problems = [f"missing or unknown key: {k!r}" for k in sorted(needed - row.keys())]
    values: dict[str, Any] = {}
    for key, value in row.items():
        if key not in known or key == "place":
            problems.append(f"missing or unknown key: {key!r}")
        elif key != "case":
            values[key], why = _value(key, value)
            problems += why
    return values, problems


def _value(key: str, value: Any) -> tuple[Any, list[str]]:
    if key in _CLOSED:
        words = [str(word) for word in _CLOSED[key]]
        if value in words:
            return _CLOSED[key](value), []
        return value, [f"{key} {value!r} is not one of {', '.join(words)}"]
    if key in _LISTS:
        good = isinstance(value, list) and all(isinstance(v, str) for v in value)
        return tuple(value), [] if good else [f"{key!r} must be a list of texts"]
    if key == "columns":
        good = isinstance(value, dict) and all(isinstance(v, str) for v in value.values())
        return value, [] if good else ["'columns' must be a table of capture names"]
    wanted = int if key in _NUMBERS else bool if key == "verified" else str
    return value, [] if type(value) is wanted else [f"{key!r} must be of type {wanted.__name__}"]


def problems_in(signatures: Iterable[Signature]) -> list[str]:
    """Everything that is wrong with the signatures, one sentence each."""
    problems, seen = [], set()
    for s in signatures:
        where = f"{s.place}: {s.id}"
        if s.id in seen:
            problems.append(f"{where}: the id occurs twice")
        seen.add(s.id)
        if not s.literals or not all(s.literals):
            problems.append(f"{where}: no literals: name a text that every such line holds")
        bad = problems_of(s.regex)
        problems += [f"{where}: the regex {why}" for why in bad]
        if not bad:
            problems += [f"{where}: {why}" for why in _problems_of_sound(s)]
    return problems


def _problems_of_sound(s: Signature) -> Iterator[str]:
    """What is wrong with a row whose regex is allowed."""
    yield from _example_problems(s)
    captures = {merged_name(g) for g in s.compiled.groupindex}
    for column, capture in s.columns.items():
        if column not in _FILLED:
            yield f"column {column!r} is not one of {', '.join(sorted(_FILLED))}"
        if capture not in captures:
            yield f"column {column!r} is filled by {capture!r}, which the regex does not capture"
    bad = [f"case on {c.group!r}: {why}" for c in s.case for why in _case_problems(s, c)]
    yield from bad or _misfits(s)
    if line := stalls_on(s.compiled, (*s.positive, *s.literals)):
        yield f"the regex backtracks too long, as on {line[:80]!r}: bound its repeats"


def _example_problems(s: Signature) -> Iterator[str]:
    if not s.positive:
        yield "no positive example"
    for line in s.positive:
        if not any(literal in line for literal in s.literals):
            yield f"its example holds none of its literals: {line!r}"
        elif not s.search(line):
            yield f"does not match its example: {line!r}"
    yield from (f"matches its near miss: {line!r}" for line in s.negative if s.search(line))


def _case_problems(s: Signature, case: Case) -> Iterator[str]:
    if bool(case.has) == bool(case.lacks):
        yield "needs one of 'has' and 'lacks'"
    if not case.meaning:
        yield "changes nothing: name a component, mode, domain, role or priority"
    if case.group not in s.compiled.groupindex:
        yield "the regex has no such group"
    yield from (f"its regex {why}" for why in problems_of(case.has or case.lacks))


def _misfits(s: Signature) -> Iterator[str]:
    """Cases, each sound by itself, that are not the first to apply to their example."""
    for case in s.case:
        match = s.search(case.example)
        if not match or next((c for c in s.case if c.applies(match)), None) is not case:
            yield f"case on {case.group!r}: does not apply to its example: {case.example!r}"
