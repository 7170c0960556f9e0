"""Log text of any origin: training dialects and failure signatures, found in one pass.

Every literal of every rule is looked for at once; only lines that hold one are decoded, cut into
frames at `\\r`, peeled of launcher prefixes and read by the rules whose literal they hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from parsers.dense import read_dense
from parsers.faults import Catalogue, load_catalogue
from parsers.formats import Block, Facts, ParseContext, Row, Sniff
from parsers.prefixes import Peeled, peel
from parsers.scan import Pattern, Scanner
from parsers.tables import (
    CLOCK_MARK,
    FAULT_EVENT,
    MAX_TEXT_BYTES,
    REJECT,
    TRAIN_EVENT,
    StampKind,
    StampSource,
    Table,
)
from parsers.training import Dialect, Rejected, Rule, load_dialects, stamp_columns

REPORT_MARK = b"wallsplit report"
"""Stands in the first line of our own reports, whose quotes must not be read as faults."""

_CLOCK_PATTERNS = (
    rb"(19|20)\d\d[-/]\d\d[-/]\d\d[T \-]\d\d:\d\d:\d\d",
    rb"[EWIF]\d{3,4} \d\d:\d\d:\d\d\.\d{6}",
    rb"[A-Z][a-z]{2} [ \d]\d (20\d\d )?\d\d:\d\d:\d\d",
)
_CLOCK_HEAD_BYTES = 256  # a time further inside a line is not the line's own
_CONTROL_BYTES = bytes(b for b in range(32) if b not in b"\t\n\r\x1b\0")


class TextLog:
    """Any text that is not of a more specific format."""

    name = "text"
    version = "1"

    def sniff(self, head: bytes, file_name: str) -> Sniff:
        """Low for any text, higher with anchors of a dialect, 0 for binary data and own reports."""
        first_line = head.partition(b"\n")[0]
        n_control = len(head) - len(head.translate(None, _CONTROL_BYTES))
        if REPORT_MARK in first_line or n_control > len(head) // 20:
            return Sniff(self.name, 0.0)
        anchors = {
            f"dialect:{d.name}": sum(head.count(a.encode()) for a in d.anchors)
            for d in load_dialects()
        }
        detail = {k: str(n) for k, n in sorted(anchors.items()) if n}
        detail["clock"] = "0" if _is_stamped(head) else "1"
        return Sniff(self.name, 0.5 if len(detail) > 1 else 0.1, detail)

    def is_record_start(self, line: bytes, sniff: Sniff) -> bool:
        """Every line is a record of its own."""
        return True

    def parse(self, blocks: Iterator[Block], context: ParseContext) -> Facts:
        """Train events, fault events, clock marks and rejects of the blocks."""
        reader = _reader(context.dialect_dirs, context.sniff.detail.get("clock") == "1")
        facts = Facts()
        for block in blocks:
            facts.n_lines += len(block.starts)
            reader.read(block, context.file_id, facts)
        return facts


@dataclass(frozen=True)
class _Wanted:
    """What the occurrence of one literal makes worth trying."""

    rules: tuple[Rule, ...] = ()
    signatures: tuple[int, ...] = ()
    is_clock: bool = False


class _Reader:
    """Scanner, rules and signatures of one process."""

    def __init__(self, dialects: Sequence[Dialect], catalogue: Catalogue, *, clock: bool) -> None:
        self._catalogue = catalogue
        self._wanted: list[_Wanted] = []
        self._texts: list[str] = []
        patterns: list[Pattern] = []
        for text, wanted in sorted(_literals(dialects, catalogue).items()):
            # a literal that other rules or signatures want as well is read line by line
            is_dense = [r.is_dense for r in wanted.rules] == [True] and not wanted.signatures
            patterns.append(Pattern(len(self._wanted), text, is_dense=is_dense))
            self._wanted.append(wanted)
            self._texts.append(text.decode())
        for index, signature in enumerate(catalogue.signatures):
            if signature.scan == "regex":
                text = re.sub(r"\(\?P<\w+>", "(", signature.regex).encode()
                patterns.append(Pattern(len(self._wanted), text, is_regex=True))
                self._wanted.append(_Wanted(signatures=(index,)))
        if clock:
            for text in _CLOCK_PATTERNS:
                patterns.append(Pattern(len(self._wanted), text, is_regex=True))
                self._wanted.append(_Wanted(is_clock=True))
        self._scanner = Scanner(patterns)

    def read(self, block: Block, file_id: str, facts: Facts) -> None:
        """Add the facts of one block."""
        hits = self._scanner.scan(block)
        lines, patterns = hits.lines, hits.patterns
        for pattern in sorted(hits.dense):
            rule = self._wanted[pattern].rules[0]
            dense = read_dense(block, rule, self._texts[pattern], file_id)
            facts.claimed_lines += sum(part.num_rows for part in dense.rows)
            for part in dense.rows:
                facts.add_table(TRAIN_EVENT, part)
            lines = np.concatenate([lines, dense.leftover])
            patterns = np.concatenate([patterns, np.full(len(dense.leftover), pattern)])
        if hits.dense:
            order = np.lexsort((patterns, lines))
            lines, patterns = lines[order], patterns[order]
        if not len(lines):
            return
        borders = np.flatnonzero(np.diff(lines)) + 1
        for line, ids in zip(
            lines[np.concatenate([[0], borders])].tolist(),
            np.split(patterns, borders),
            strict=True,
        ):
            self._read_line(block, line, ids.tolist(), file_id, facts)

    def _read_line(
        self, block: Block, line: int, ids: list[int], file_id: str, facts: Facts
    ) -> None:
        wanted = [self._wanted[i] for i in ids]
        # forks first: what they override is not read by the base as well
        rules = sorted(
            dict.fromkeys(r for w in wanted for r in w.rules), key=lambda r: r.overrides is None
        )
        signatures = sorted({s for w in wanted for s in w.signatures})
        raw = block.line(line)
        start = block.byte_offset + int(block.starts[line])
        if not rules and not signatures:
            raw = raw[:_CLOCK_HEAD_BYTES]
        evidence: dict[str, object] = {
            "file_id": file_id, "line": block.first_line + line, "byte_offset": start,
        }  # fmt: skip
        above: Peeled | None = None
        frame_at = 0
        n_rows = 0
        seen: set[tuple[object, ...]] = set()
        for frame in raw.split(b"\r"):
            if frame:
                text = frame.decode("utf-8", "replace")
                peeled = peel(text, above)
                above = above or peeled
                for table, row in self._read_frame(peeled, rules, signatures):
                    progress = (row.get("kind"), row.get("step_to"), row.get("total_steps"))
                    if row.get("detail") == "progress_bar" and progress in seen:
                        continue
                    seen.add(progress)
                    facts.add(table, {**evidence, "seq": start + frame_at + n_rows, **row})
                    n_rows += 1
            frame_at += len(frame) + 1
        if any(w.is_clock for w in wanted) and not n_rows and above is not None:
            self._mark_clock(above, evidence, facts)
        facts.claimed_lines += n_rows > 0

    def _read_frame(
        self, peeled: Peeled, rules: Sequence[Rule], signatures: Sequence[int]
    ) -> Iterator[tuple[Table, Row]]:
        payload = peeled.payload
        context = {**_who(peeled), **_when(peeled)}
        done: set[tuple[str, str]] = set()
        for rule in rules:
            if (rule.dialect, rule.id) in done:
                continue
            if not any(literal in payload for literal in rule.literals):
                continue
            for row in rule.apply(payload):
                if isinstance(row, Rejected):
                    yield REJECT, _reject(rule.dialect, row.reason, payload)
                    continue
                if rule.overrides is not None:
                    done.add((rule.overrides, rule.id))
                yield TRAIN_EVENT, {**context, **row}
        if signatures:
            fault = self._catalogue.match(payload, signatures)
            if fault is not None:
                node = fault.get("node") or peeled.node
                yield FAULT_EVENT, {**context, **fault, "node": node}

    def _mark_clock(self, peeled: Peeled, evidence: dict[str, object], facts: Facts) -> None:
        when = _when(peeled)
        if when:
            row = {**evidence, "seq": evidence["byte_offset"], **_who(peeled), **when}
            facts.add(CLOCK_MARK, row)


def _who(peeled: Peeled) -> Row:
    return {"rank": peeled.rank, "node": peeled.node}


def _when(peeled: Peeled) -> dict[str, object]:
    """The line's own time, unless it lacks a date that its carrier has."""
    own, carrier = peeled.line_stamp, peeled.stamp
    dated = (StampKind.UTC, StampKind.LOCAL)
    if own is not None and (own.kind in dated or carrier is None or carrier.kind not in dated):
        return stamp_columns(own, StampSource.INLINE)
    return stamp_columns(carrier, StampSource.PREFIX)


def _reject(source: str, reason: str, payload: str) -> Row:
    return {"format": source, "reason": reason, "raw": payload[:MAX_TEXT_BYTES]}


def _literals(dialects: Sequence[Dialect], catalogue: Catalogue) -> dict[bytes, _Wanted]:
    rules: dict[str, list[Rule]] = {}
    for rule in (r for d in dialects for r in d.rules):
        for literal in rule.literals:
            rules.setdefault(literal, []).append(rule)
    signatures: dict[str, list[int]] = {}
    for index, signature in enumerate(catalogue.signatures):
        if signature.scan != "regex":
            for literal in signature.literals:
                signatures.setdefault(literal, []).append(index)
    return {
        text.encode(): _Wanted(tuple(rules.get(text, ())), tuple(signatures.get(text, ())))
        for text in rules.keys() | signatures.keys()
    }


@lru_cache(maxsize=8)
def _reader(dialect_dirs: tuple[str, ...], clock: bool) -> _Reader:
    return _Reader(load_dialects(dialect_dirs), load_catalogue(), clock=clock)


def _is_stamped(head: bytes) -> bool:
    """Whether at least half of the head's lines begin with a time."""
    lines = [line for line in head.split(b"\n")[:400] if line.strip()]
    stamped = 0
    for line in lines:
        peeled = peel(line[:_CLOCK_HEAD_BYTES].decode("utf-8", "replace"))
        stamped += peeled.line_stamp is not None or peeled.stamp is not None
    return bool(lines) and 2 * stamped >= len(lines)
