"""Rows of `sacct` text that newlines inside a cell tore apart, put together again.

sacct quotes nothing. A row ends when the header's number of delimiters is reached; what cannot
become a whole row is a reject, never a guess.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from parsers.sacct_layout import Layout, read_header

MAX_PIECES = 10_000
MAX_RECORD_CHARS = 1_000_000
"""A longer torn row is given up: its beginning was damage."""

OTHER_HEADER = (
    "another header line: the rows below it are read by the first one; split the file here"
)


@dataclass(frozen=True)
class Record:
    """Text that began at a line: a whole row, or the reason why it is none."""

    line: int  # 0-based in the chunk
    byte_offset: int
    text: str
    problem: str | None = None


@dataclass
class _Open:
    """The row being put together."""

    line: int
    byte_offset: int
    n_delimiters: int
    pieces: list[str]
    n_chars: int
    problem: str | None = None  # once set, pieces only belong to the reject


@dataclass
class Joiner:
    """Lines in, records out. Whole rows that nothing can follow need not pass through it.

    Feed, in order, every line without the header's number of delimiters, and for an open-ended
    layout the whole row before it; call `whole` where other rows stand between.
    """

    layout: Layout
    emit: Callable[[Record], None]
    _open: _Open | None = field(default=None, init=False)

    @property
    def is_open(self) -> bool:
        """Whether the next line may belong to a row that has begun."""
        return self._open is not None

    def whole(self) -> None:
        """A whole row (or the end) comes next: what is open ends here."""
        done, self._open = self._open, None
        if done is None:
            return
        problem = done.problem
        if problem is None and done.n_delimiters != self.layout.n_delimiters:
            problem = self._wrong_count(done.n_delimiters)
        text = "\n".join(done.pieces).rstrip("\n")
        self.emit(Record(done.line, done.byte_offset, text, problem))

    def row(self, line: int, byte_offset: int, text: str) -> None:
        """A whole row that the next line may lengthen."""
        self.whole()
        self._begin(line, byte_offset, text, self.layout.n_delimiters)

    def piece(self, line: int, byte_offset: int, text: str, n_delimiters: int) -> None:
        """A line with too few or too many delimiters."""
        if (problem := self._refusal(text, n_delimiters)) is not None:
            self.whole()
            self._begin(line, byte_offset, text, n_delimiters, problem)
            return
        begins = self.layout.begins_row(text)
        current = self._open
        if current is not None and not begins and self._continues(current, n_delimiters):
            self._lengthen(current, text, n_delimiters)
            return
        self.whole()
        if not text.strip():
            return
        if not begins and not self.layout.may_break(n_delimiters):
            problem = f"not a row: {self._wrong_count(n_delimiters)}"
        self._begin(line, byte_offset, text, n_delimiters, problem)

    def _begin(
        self, line: int, byte_offset: int, text: str, n_delimiters: int, problem: str | None = None
    ) -> None:
        self._open = _Open(line, byte_offset, n_delimiters, [text], len(text), problem)

    def _refusal(self, text: str, n_delimiters: int) -> str | None:
        """Why a line alone can be no part of any row."""
        if "jobid" in text.lower() and read_header(text) is not None:
            return OTHER_HEADER
        if n_delimiters > self.layout.n_delimiters:
            return self._wrong_count(n_delimiters)
        return None

    def _continues(self, current: _Open, n_delimiters: int) -> bool:
        """Whether a line that begins no row belongs to the open one."""
        if current.problem is not None:
            return True
        if current.n_delimiters < self.layout.n_delimiters:
            return self.layout.may_break(current.n_delimiters)
        return self.layout.is_open_ended and n_delimiters == 0

    def _lengthen(self, current: _Open, text: str, n_delimiters: int) -> None:
        current.n_delimiters += n_delimiters
        current.n_chars += len(text) + 1
        if current.problem is None:
            if current.n_delimiters > self.layout.n_delimiters:
                current.problem = self._wrong_count(current.n_delimiters)
            elif len(current.pieces) >= MAX_PIECES or current.n_chars > MAX_RECORD_CHARS:
                current.problem = "a row goes on over too many lines"
        if current.problem is None or len(current.pieces) < 2:
            current.pieces.append(text)

    def _wrong_count(self, n_delimiters: int) -> str:
        extra = 0 if self.layout.has_trailing else 1
        return f"{n_delimiters + extra} cells where the header has {len(self.layout.columns)}"
