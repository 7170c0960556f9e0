"""The failure catalogue: signatures as data, and the match of one line against them.

A signature is a row of `parsers/signatures/*.toml`: the literals that a line must hold, the regex
that it must match, and what the match means. Rows are tried in their order; the first match counts.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, lru_cache
from pathlib import Path

from parsers.formats import Row
from parsers.regexes import problems_of
from parsers.tables import MAX_TEXT_BYTES

_BUILT_IN = Path(__file__).parent / "signatures"
_MAX_CAPTURE = 120


class Mode(StrEnum):
    """What the event does to progress."""

    FAIL_STOP = "fail_stop"
    HANG = "hang"
    FAIL_SLOW = "fail_slow"
    PRECURSOR = "precursor"
    CONTEXT = "context"
    BENIGN = "benign"


class Domain(StrEnum):
    """Who would fix it."""

    INFRASTRUCTURE = "infrastructure"
    WORKLOAD = "workload"
    OPERATOR = "operator"
    UNKNOWN = "unknown"


class Role(StrEnum):
    """What the event can say about the cause of an incident."""

    ROOT = "root"
    EITHER = "either"
    SYMPTOM = "symptom"
    CASCADE = "cascade"
    TEARDOWN = "teardown"
    CONTEXT = "context"
    RECOVERY = "recovery"


class CatalogueError(ValueError):
    """Every problem of a catalogue at once, one a line."""


@dataclass(frozen=True)
class Signature:
    """One row of the catalogue."""

    id: str
    order: int
    component: str
    mode: str
    domain: str
    role: str
    priority: int
    scope: str
    literals: tuple[str, ...]
    regex: str
    scan: str = "literal"  # "regex": the literals are too common, scan for the regex instead
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

    def search(self, payload: str) -> re.Match[str] | None:
        """The match of the regex in a payload that holds one of the literals."""
        if not any(literal in payload for literal in self.literals):
            return None
        return self.compiled.search(payload)


@dataclass(frozen=True)
class Catalogue:
    """Signatures in the order in which they are tried."""

    signatures: tuple[Signature, ...]

    def match(self, payload: str, candidates: Iterable[int] | None = None) -> Row | None:
        """The columns of `fault_event` that the first matching signature gives, or None.

        `candidates`: indices of signatures worth trying (their literal occurred), ascending.
        """
        if _SOURCE_LINE.match(payload):
            return None
        indices = range(len(self.signatures)) if candidates is None else candidates
        for index in indices:
            signature = self.signatures[index]
            match = signature.search(payload)
            if match:
                return _row(signature, match, payload)
        return None


# Source lines of a traceback quote the words of errors: `    raise RuntimeError("CUDA error`.
_SOURCE_LINE = re.compile(
    r'\s{2,}(?:File "|raise |\^|~|return |self\.|if |for |with |await |[\w.]+\('
    r"|.*\braise [A-Z]\w+\()"
)
_NCCL_HOST = re.compile(r"(?P<host>[A-Za-z][\w.-]*):\d+:\d+ (?:\[\d+\] )?\S* ?.{0,40}NCCL ")


def _row(signature: Signature, match: re.Match[str], payload: str) -> Row:
    # `pid2` is `pid` in another form of the line: a regex cannot name two groups alike
    captures = {
        k.rstrip("0123456789"): v[:_MAX_CAPTURE]
        for k, v in match.groupdict().items()
        if v is not None
    }
    node = captures.get("host")
    if node is None and signature.scope == "node":
        node = captures.get("node")
    if node is None and "NCCL " in payload and (host := _NCCL_HOST.search(payload)):
        node = host["host"]
    pci = captures.get("pci")
    return {
        "signature_id": signature.id,
        "component": signature.component,
        "mode": signature.mode,
        "domain": signature.domain,
        "role": signature.role,
        "priority": signature.priority,
        "node": node,
        "gpu": pci_address(pci) if pci else None,
        "count": 1,
        "captures": list(captures.items()),
        "message": payload.strip()[:MAX_TEXT_BYTES],
    }


def pci_address(text: str) -> str:
    """`0000:9b:00` from any printed form: upper case, long domain, function behind a dot."""
    parts = text.lower().split(".")[0].split(":")
    return ":".join([parts[0][-4:].zfill(4), *parts[1:]])


@lru_cache(maxsize=8)
def load_catalogue(extra_dirs: tuple[str, ...] = ()) -> Catalogue:
    """The built-in catalogue and that of user folders, whose rows replace equal ids or add.

    User rows are checked at once (CatalogueError names every problem); built-in ones by the tests.
    """
    rows = {s.id: s for s in read_folder(_BUILT_IN)}
    for folder in extra_dirs:
        added = read_folder(Path(folder))
        if problems := problems_in(added):
            raise CatalogueError("\n".join(problems))
        rows |= {s.id: s for s in added}
    return Catalogue(tuple(sorted(rows.values(), key=lambda s: (s.order, s.id))))


def read_folder(folder: Path) -> list[Signature]:
    """Signatures of all `*.toml` files of a folder, unchecked but complete; CatalogueError."""
    found, problems = [], []
    for path in sorted(folder.glob("*.toml")):
        try:
            table = tomllib.loads(path.read_text())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            problems.append(f"{path}: not readable as TOML: {error}")
            continue
        for number, row in enumerate(table.get("signature", []), start=1):
            try:
                found.append(_signature(row, str(path)))
            except (TypeError, KeyError) as error:
                name = row.get("id", f"signature {number}")
                problems.append(f"{path}: {name}: missing or unknown key: {error}")
    if problems:
        raise CatalogueError("\n".join(problems))
    return found


def _signature(row: Mapping[str, object], place: str) -> Signature:
    lists = {k: tuple(v) for k, v in row.items() if isinstance(v, list)}
    return Signature(**{**row, **lists, "place": place})  # type: ignore[arg-type]  # TOML is untyped


def problems_in(signatures: Iterable[Signature]) -> list[str]:
    """Everything that is wrong with the signatures, one sentence each."""
    problems, seen = [], set()
    for s in signatures:
        where = f"{s.place}: {s.id}"
        if s.id in seen:
            problems.append(f"{where}: the id occurs twice")
        seen.add(s.id)
        for word, known in ((s.mode, Mode), (s.domain, Domain), (s.role, Role)):
            if word not in set(known):
                expected = ", ".join(known)
                problems.append(f"{where}: {word!r} is not one of {expected}")
        if not re.fullmatch(r"[a-z0-9_]+\.[a-z0-9_]+|unattributed", s.component):
            problems.append(f"{where}: component {s.component!r} is not of the form family.kind")
        if not s.literals or not all(s.literals):
            problems.append(f"{where}: no literals: name a text that every such line holds")
        bad = problems_of(s.regex)
        problems += [f"{where}: the regex {why}" for why in bad]
        if not bad:
            problems += [f"{where}: {why}" for why in _example_problems(s)]
    return problems


def _example_problems(s: Signature) -> list[str]:
    problems = [] if s.positive else ["no positive example"]
    for line in s.positive:
        if not any(literal in line for literal in s.literals):
            problems.append(f"its example holds none of its literals: {line!r}")
        elif not s.search(line):
            problems.append(f"does not match its example: {line!r}")
    problems += [f"matches its near miss: {line!r}" for line in s.negative if s.search(line)]
    return problems
