"""The failure catalogue: signatures as data, and the match of one line against them.

Rows stand in `parsers/signatures/*.toml` and in folders of the user. They are tried in their order;
the first match counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from parsers.fault_words import Scope
from parsers.formats import Row
from parsers.signature import CatalogueError, Signature, merged_name, problems_in, read_folder
from parsers.tables import MAX_TEXT_BYTES

_BUILT_IN = Path(__file__).parent / "signatures"
_MAX_CAPTURE = 120
_MAX_INT32 = 2**31 - 1


@dataclass(frozen=True)
class Catalogue:
    """Signatures in the order in which they are tried."""

    signatures: tuple[Signature, ...]

    def match(self, payload: str, candidates: Iterable[int] | None = None) -> Row | None:
        """The columns of `fault_event` that the first matching signature gives, or None.

        `candidates`: indices of signatures worth trying (their literal occurred), ascending. Source
        lines that a traceback quotes match nothing. `rank` and `node` are absent where the line
        itself does not tell them; ranks inside a process group are captures only.
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
# `  what():  [Rank 0] Watchdog caught ...` is no source line but the text of a C++ exception.
_SOURCE_LINE = re.compile(
    r'\s{2,}(?:File "|raise |\^|~|return |self\.|if |for |with |await |(?!what\(\):)[\w.]+\('
    r"|.*\braise [A-Z]\w+\()"
)
_NCCL_HOST = re.compile(
    r"(?:^|[\s>\]])(?P<host>[A-Za-z0-9][\w.-]{0,63}):\d+:\d+ (?:\[-?\d+\] )?.{0,80}NCCL "
)
# `[PG 0 (default_pg) Rank 7]`: only the default group numbers its ranks as the job does.
_DEFAULT_GROUP_RANK = re.compile(
    r"\[PG (?:ID )?(?:0\b[^\]]{0,60}|[^\]]{0,60}\(default_pg\)) Rank (?P<rank>\d{1,6})\]"
)
_REPEATED = re.compile(
    r"message repeated (?P<rsyslog>\d{1,9}) times: \["
    r"|\[repeated (?P<ray>\d{1,9})x across cluster"
)


def _row(signature: Signature, match: re.Match[str], payload: str) -> Row:
    captures = {
        merged_name(k): v[:_MAX_CAPTURE] for k, v in match.groupdict().items() if v is not None
    }
    row: dict[str, object] = {
        **signature.meaning,
        "gpu": _gpu(signature, captures),
        "count": _count(signature, captures, payload),
        "captures": list(captures.items()),
        "message": _bounded(payload.strip()),
    }
    for case in signature.case:
        if case.applies(match):
            row |= case.meaning
            break
    row |= _who(signature, captures, payload)
    return row


def _who(
    signature: Signature, captures: dict[str, str], payload: str
) -> Iterator[tuple[str, object]]:
    """Node and global rank, as far as the line itself tells them."""
    rank = _whole(captures.get(signature.columns.get("rank", "")))
    if rank is None and (group := _DEFAULT_GROUP_RANK.search(payload)):
        rank = int(group["rank"])
    if rank is not None:
        yield "rank", rank
    node = captures.get(signature.columns.get("node", ""))
    if node is None and "NCCL " in payload and (host := _NCCL_HOST.search(payload)):
        node = host["host"]
    if node is not None:
        yield "node", node


def _gpu(signature: Signature, captures: dict[str, str]) -> str | None:
    """PCI address or device index; an address in a row about a node is of a NIC or a switch."""
    if name := signature.columns.get("gpu"):
        text = captures.get(name)
        return pci_address(text) if text and ":" in text else text
    if signature.scope is Scope.NODE:
        return None
    if pci := captures.get("pci"):
        return pci_address(pci)
    if bus := captures.get("bus"):
        return _address_of_bus(bus)
    return None


def _count(signature: Signature, captures: dict[str, str], payload: str) -> int:
    """How often the line says that it happened: 1 unless it states a number."""
    if repeated := _REPEATED.search(payload):
        return int(repeated["rsyslog"] or repeated["ray"])
    stated = _whole(captures.get(signature.columns.get("count", "")))
    return 1 if stated is None else stated


def _whole(text: str | None) -> int | None:
    """The number, or None where it is no rank or count: `RankID:-1` means unknown."""
    if text is None or not text.isdecimal() or len(text) > 10:
        return None
    return number if (number := int(text)) <= _MAX_INT32 else None


def _bounded(text: str) -> str:
    if len(text) * 4 <= MAX_TEXT_BYTES:
        return text
    return text.encode("utf-8", "replace")[:MAX_TEXT_BYTES].decode("utf-8", "ignore")


def pci_address(text: str) -> str:
    """`0000:9b:00` from any printed form: upper case, long domain, function behind a dot."""
    parts = text.lower().split(".")[0].split(":")
    return ":".join([parts[0][-4:].zfill(4), *parts[1:]])


def _address_of_bus(bus: str) -> str:
    """`0000:9b:00` from NCCL's `busId 9b000`: hexadecimal domain, bus, device and function."""
    digits = bus.lower().zfill(8)
    return f"{digits[:-5].zfill(4)[-4:]}:{digits[-5:-3]}:{digits[-3:-1]}"


@lru_cache(maxsize=8)
def load_catalogue(extra_dirs: tuple[str, ...] = ()) -> Catalogue:
    """The built-in catalogue and that of user folders.

    A user row with a known id replaces that row and is tried at its own `order`; a new one is tried
    before all others, in its `order` among the new ones. A row of `id` and `disabled = true` takes
    a known one out. User rows are checked at once (CatalogueError names every problem); built-in
    ones by the tests.
    """
    built_in = read_folder(_BUILT_IN)
    known = {s.id: s for s in built_in.signatures}
    rows, problems = dict(known), built_in.problems
    for folder in map(read_folder, map(Path, extra_dirs)):
        problems += folder.problems + problems_in(folder.signatures)
        rows |= {s.id: s for s in folder.signatures}
        for name, file in folder.disabled.items():
            if rows.pop(name, None) is None:
                problems.append(f"{file}: {name}: disabled, but there is no such signature")
    if problems:
        raise CatalogueError("\n".join(problems))
    return Catalogue(tuple(sorted(rows.values(), key=lambda s: (s.id in known, s.order, s.id))))
