"""Log text of any origin: training dialects and failure signatures, found in one pass.

Every literal of every rule is looked for at once; only lines that hold one are decoded, cut into
frames (at `\\r` and behind progress bars), peeled of launcher prefixes and read by the rules and
signatures whose literal they hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from parsers.clock_marks import read_marks
from parsers.dense import read_dense
from parsers.dialect_files import load_dialects
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
from parsers.training import Dialect, Rejected, Rule, stamp_columns

REPORT_MARK = "wallsplit report"
"""Stands in the first line of our own reports, whose quotes must not be read as faults."""
_JSON_REPORT = re.compile(rb'\s*\{\s*"generated_at": "[^"]*",\s*"window": \{')

MAX_RECORD_CHARS = 16 * 1024
"""A longer frame is read in pieces, so that no regex ever sees megabytes."""

_Ints = npt.NDArray[np.int64]

_CLOCK_PATTERNS = (
    rb"(19|20)\d\d[-/]\d\d[-/]\d\d[T _\-]\d\d:\d\d:\d\d",
    rb"\d\d/\d\d/20\d\d \d\d:\d\d:\d\d",
    rb"[EWIFV]\d{3,4} \d\d:\d\d:\d\d\.\d{6}",
    rb"[A-Z][a-z]{2} [ \d]\d (20\d\d )?\d\d:\d\d:\d\d",
)
_CLOCK_HEAD_BYTES = 256  # a time further inside a line is not the line's own
_CONTROL_BYTES = bytes(b for b in range(32) if b not in b"\t\n\r\x1b")
_HOLE = re.compile(rb"\0{16,}")  # a crash or copytruncate leaves blocks of NULs in good logs

# A bar is printed without an end of line: what follows it on its line is a record of its own,
# even of another rank: `24/1752 [01:08<1:21:20,  2.82s/it][rank5]:[E602 11:17:52.185053341 ...`.
_FRAME_END = re.compile(rb"\r|(?<=it/s\])(?=\S)|(?<=s/it\])(?=\S)")


class TextLog:
    """Any text that is not of a more specific format."""

    name = "text"
    version = "1"
    spans_lines = False

    def sniff(self, head: bytes, file_name: str) -> Sniff:
        """Low for any text, higher with anchors of a dialect, 0 for binary data and own reports."""
        is_report = REPORT_MARK.encode() in head.partition(b"\n")[0] or _JSON_REPORT.match(head)
        text = _HOLE.sub(b"", head)
        n_control = len(text) - len(text.translate(None, _CONTROL_BYTES))
        if is_report or n_control > len(text) // 20:
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
        has_clock = context.sniff.detail.get("clock") == "1"
        reader = _reader(context.dialect_dirs, context.signature_dirs, has_clock)
        facts = Facts()
        for block in blocks:
            facts.n_lines += len(block.starts)
            reader.read(block, context.file_id, facts)
        return facts


@dataclass(frozen=True)
class _Wanted:
    """What the literals of a line make worth trying, in order."""

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
        self._is_clock = np.array([w.is_clock for w in self._wanted])
        self._forks = self._patterns_of_forks()
        self._scanner = Scanner(patterns)
        self._merged = lru_cache(maxsize=4096)(self._merge)

    def read(self, block: Block, file_id: str, facts: Facts) -> None:
        """Add the facts of one block."""
        hits = self._scanner.scan(block)
        lines, patterns = hits.lines, hits.patterns
        bulk = [np.empty(0, dtype=np.int64)]
        for pattern in sorted(hits.dense):
            rule = self._wanted[pattern].rules[0]
            dense = read_dense(block, rule, self._texts[pattern], file_id)
            forked = hits.lines[np.isin(hits.patterns, self._forks[pattern])]
            leftover = [dense.leftover]
            for part in dense.rows:
                of_part = part.column("line").to_numpy() - block.first_line
                is_forked = np.isin(of_part, forked)
                leftover.append(of_part[is_forked])
                facts.add_table(TRAIN_EVENT, part.filter(~is_forked) if len(forked) else part)
                bulk.append(of_part[~is_forked])
            singly = np.concatenate(leftover)
            lines = np.concatenate([lines, singly])
            patterns = np.concatenate([patterns, np.full(len(singly), pattern)])
        done = np.sort(np.concatenate(bulk))  # np.unique hashes: several times slower
        done = done[np.diff(done, prepend=-1) > 0]
        facts.claimed_lines += len(done)
        lines, patterns = self._without_bulk_marks(block, lines, patterns, done, file_id, facts)
        if hits.dense:
            order = np.lexsort((patterns, lines))
            lines, patterns = lines[order], patterns[order]
        if not len(lines):
            return
        borders = np.flatnonzero(np.diff(lines)) + 1
        firsts = lines[np.concatenate([[0], borders])]
        for line, ids, is_done in zip(
            firsts.tolist(), np.split(patterns, borders), np.isin(firsts, done).tolist(),
            strict=True,
        ):  # fmt: skip
            wanted = self._merged(tuple(ids.tolist()))
            n_rows = self._read_line(block, line, wanted, file_id, facts, n_before=int(is_done))
            facts.claimed_lines += n_rows > 0 and not is_done

    def _patterns_of_forks(self) -> dict[int, list[int]]:
        """Of each dense pattern those of the rules that go before its own, where both are found."""
        return {
            dense: [
                number for number, wanted in enumerate(self._wanted)
                if any((r.overrides, r.id) == (rule.dialect, rule.id) for r in wanted.rules)
            ]
            for dense, of_dense in enumerate(self._wanted)
            for rule in of_dense.rules
            if rule.is_dense
        }  # fmt: skip

    def _without_bulk_marks(
        self, block: Block, lines: _Ints, patterns: _Ints, done: _Ints, file_id: str, facts: Facts
    ) -> tuple[_Ints, _Ints]:
        """The hits without those on times that bulk rows tell, of `done` lines or as marks."""
        is_clock = self._is_clock[patterns]
        if not is_clock.any():
            return lines, patterns
        others = np.setdiff1d(lines[~is_clock], done)
        timed = np.setdiff1d(np.setdiff1d(lines[is_clock], done), others)
        marks = read_marks(block, timed, file_id)
        if marks.rows is not None:
            facts.add_table(CLOCK_MARK, marks.rows)
        is_left = ~is_clock | np.isin(lines, np.union1d(others, marks.leftover))
        return lines[is_left], patterns[is_left]

    def _merge(self, ids: tuple[int, ...]) -> _Wanted:
        wanted = [self._wanted[i] for i in ids]
        rules = dict.fromkeys(r for w in wanted for r in w.rules)
        return _Wanted(
            # forks first: what they override is not read by the base as well
            tuple(sorted(rules, key=lambda r: r.overrides is None)),
            tuple(sorted({s for w in wanted for s in w.signatures})),
            any(w.is_clock for w in wanted),
        )

    def _read_line(
        self, block: Block, line: int, wanted: _Wanted, file_id: str, facts: Facts, *, n_before: int
    ) -> int:
        """Number of rows that the line gives, beside `n_before` that it gave in bulk."""
        raw = block.line(line)
        start = block.byte_offset + int(block.starts[line])
        evidence: dict[str, object] = {
            "file_id": file_id, "line": block.first_line + line, "byte_offset": start,
        }  # fmt: skip
        if not wanted.rules and not wanted.signatures:
            raw = raw[:_CLOCK_HEAD_BYTES]
        above: Peeled | None = None
        n_rows = 0
        mark: Row = {}
        is_stamped = False
        seen: set[tuple[object, ...]] = set()
        for at, frame in _frames(raw):
            peeled = peel(frame.decode("utf-8", "replace"), above)
            above = above or peeled
            if wanted.is_clock and not mark and (when := _when(peeled)):
                mark = {**evidence, "seq": start + at, **_who(peeled), **when}
            seq = start + at + (n_before if at == 0 else 0)
            for table, row in self._read_frame(peeled, wanted):
                bar = (row.get("kind"), row.get("step_to"), row.get("total_steps"), peeled.rank)
                if row.get("detail") == "progress_bar" and bar in seen:
                    continue
                seen.add(bar)
                facts.add(table, {**evidence, "seq": seq, **_bounded(row)})
                seq += 1
                n_rows += 1
                is_stamped |= row.get("stamp_us") is not None
        if mark and not is_stamped:
            facts.add(CLOCK_MARK, mark)
        return n_rows

    def _read_frame(self, peeled: Peeled, wanted: _Wanted) -> Iterator[tuple[Table, Row]]:
        context = {**_who(peeled), **_when(peeled)}
        text = peeled.payload
        for begin in range(0, len(text), MAX_RECORD_CHARS):
            payload = text[begin : begin + MAX_RECORD_CHARS]
            yield from _train_events(payload, wanted.rules, context)
            if wanted.signatures:
                fault = self._catalogue.match(payload, wanted.signatures)
                if fault is not None:
                    node = fault.get("node") or peeled.node
                    yield FAULT_EVENT, {**context, **fault, "node": node}


def _train_events(payload: str, rules: Sequence[Rule], context: Row) -> Iterator[tuple[Table, Row]]:
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


def _frames(line: bytes) -> Iterator[tuple[int, bytes]]:
    """Where in the line each non-empty frame begins, and its bytes."""
    begin = 0
    for cut in _FRAME_END.finditer(line):
        if cut.start() > begin:
            yield begin, line[begin : cut.start()]
        begin = cut.end()
    if begin < len(line):
        yield begin, line[begin:]


def _who(peeled: Peeled) -> Row:
    return {"rank": peeled.rank, "node": peeled.node}


def _when(peeled: Peeled) -> dict[str, object]:
    """The line's own time, unless it lacks a date that its carrier has."""
    own, carrier = peeled.line_stamp, peeled.stamp
    dated = (StampKind.UTC, StampKind.LOCAL)
    if own is not None and (own.kind in dated or carrier is None or carrier.kind not in dated):
        return stamp_columns(own, StampSource.INLINE)
    return stamp_columns(carrier, StampSource.PREFIX)


def _bounded(row: Row) -> Row:
    """The row with its texts cut to so many bytes, not characters."""
    long = {
        name: text.encode()[:MAX_TEXT_BYTES].decode(errors="ignore")
        for name in ("message", "raw")
        if isinstance(text := row.get(name), str) and len(text.encode()) > MAX_TEXT_BYTES
    }
    return {**row, **long} if long else row


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
def _reader(dialect_dirs: tuple[str, ...], signature_dirs: tuple[str, ...], clock: bool) -> _Reader:
    return _Reader(load_dialects(dialect_dirs), load_catalogue(signature_dirs), clock=clock)


def _is_stamped(head: bytes) -> bool:
    """Whether at least half of the head's lines begin with a time."""
    lines = [line for line in head.split(b"\n")[:400] if line.strip()]
    stamped = 0
    for line in lines:
        peeled = peel(line[:_CLOCK_HEAD_BYTES].decode("utf-8", "replace"))
        stamped += peeled.line_stamp is not None or peeled.stamp is not None
    return bool(lines) and 2 * stamped >= len(lines)
