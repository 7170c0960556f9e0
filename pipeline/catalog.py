"""What an ingest must read: files against the ledger, without reading more than heads and tails.

A content goes on where it was left, wherever it stands now. What was read once stays read: a file
that got another content, or lost its end, gives a new content beside the old one; which lines both
tell is found by SQL.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from parsers.blocks import UnreadableFileError, whole_lines
from parsers.formats import Sniff, recognise
from pipeline.contents import (
    ByHead,
    Known,
    Look,
    begins_as,
    file_id,
    has_same_bytes,
    is_content,
    is_whole_content,
    look_at,
    sha,
    still_holds,
)
from pipeline.discovery import Unreadable, path_text

DEFAULT_CLUSTER = "default"
_TEXT = "text"
_WAITS = (
    "it was read with --dialects or --signatures that are not named now: what was read stays, what "
    "is new waits; name them again, or in the file of --config"
)
_NAMES_SHOWN = 3


@dataclass(frozen=True)
class IngestOptions:
    """What the user may choose about reading."""

    cluster: str = DEFAULT_CLUSTER
    timezone: str | None = None
    format: str | None = None
    dialect_dirs: tuple[str, ...] = ()
    signature_dirs: tuple[str, ...] = ()


@dataclass(frozen=True)
class FilePlan:
    """One file to read, from which byte, as which content."""

    look: Look
    file_id: str
    cluster: str
    first_path: str
    ordinal: int
    parsed_from: int
    lines_before: int
    sniff: Sniff | None  # None: no format claims it
    detail: str  # JSON of what parsing depends on
    timezone: str | None


@dataclass(frozen=True)
class Failure:
    """One file that is not read now, why, and the content that stood there before."""

    path: str
    file_id: str
    ordinal: int
    status: str  # unreadable, or waiting for what it was read with before
    reason: str
    content: Known | None


@dataclass(frozen=True)
class Plan:
    """Everything that an ingest has to do, and what the user should know of it."""

    files: tuple[FilePlan, ...]
    failures: tuple[Failure, ...]
    n_unchanged: int
    n_duplicates: int
    warnings: tuple[str, ...]


def plan(
    paths: Sequence[Path],
    broken: Sequence[Unreadable],
    known: Mapping[str, Known],
    options: IngestOptions,
) -> Plan:
    """What is new in `paths` against what is known. Reads heads and tails only."""
    planner = _Planner(known, options, frozenset(map(path_text, paths)))
    for item in broken:
        planner.unreadable.append((item.path, item.reason))
    looks = [look for path in paths if (look := planner.look(path)) is not None]
    # what stands where it stood is certain; then what moved; only the rest can be new
    for step in (planner.take_in_place, planner.take_moved, planner.take_new):
        looks = [look for look in looks if not planner.is_taken(step, look)]
    failures = tuple(planner.failures())
    return Plan(
        tuple(sorted(planner.files, key=lambda f: f.look.path)), failures, planner.n_unchanged,
        planner.n_duplicates,
        (*(f"{f.path}: {f.reason}" for f in failures), *planner.notes.warnings(known, options)),
    )  # fmt: skip


@dataclass
class _Notes:
    """What a user should know of a plan, by what happened; lists hold paths."""

    replaced: list[str] = field(default_factory=list)
    read_anew: list[str] = field(default_factory=list)
    other_zone: dict[tuple[str | None, str], list[str]] = field(default_factory=dict)
    other_cluster: set[str] = field(default_factory=set)
    new: list[str] = field(default_factory=list)
    new_text: list[str] = field(default_factory=list)

    def warnings(self, known: Mapping[str, Known], options: IngestOptions) -> list[str]:
        """One warning per thing that happened, most serious first."""
        out = list(self.replaced)
        if self.read_anew:
            out.append(
                f"{_some(self.read_anew)} are read anew from their beginning: the dialects or "
                "signatures for them are not those of before")  # fmt: skip
        for (before, now), paths in sorted(self.other_zone.items(), key=repr):
            out.append(
                f"{_some(paths)}: times without offset now mean {now}, not "
                f"{before or 'UTC as assumed'}, in all that was ever read of them")  # fmt: skip
        out += [
            f"files known as of cluster {name!r} stay there, not in {options.cluster!r}: ids are "
            "made from that name; ingest them into a new lake to change it"
            for name in sorted(self.other_cluster)
        ]
        return out + self._left_out(known, options)

    def _left_out(self, known: Mapping[str, Known], options: IngestOptions) -> list[str]:
        """Settings that files of this lake were read with, but not the new ones."""
        zones = {k.timezone for k in known.values() if k.timezone}
        clusters = {k.cluster for k in known.values()} - {DEFAULT_CLUSTER}
        out = []
        if self.new and zones and options.timezone is None:
            out.append(
                f"{_some(self.new)} are new and no --timezone is named: times without offset are "
                f"read as UTC, but in other files of this lake as {_words(zones)}")  # fmt: skip
        if self.new and clusters and options.cluster == DEFAULT_CLUSTER:
            out.append(
                f"{_some(self.new)} are new and no --cluster is named: they belong to the cluster "
                f"whose accounting knows their job; other files of this lake are of "
                f"{_words(clusters)}")  # fmt: skip
        if self.new_text and not options.dialect_dirs and any(map(_definitions_of, known.values())):
            out.append(
                f"{_some(self.new_text)} are new and were read without the --dialects or "
                "--signatures of other files of this lake; once they are named, they are read anew"
            )  # fmt: skip
        return out


def _some(paths: Sequence[str]) -> str:
    """The first paths, and how many more there are."""
    more = len(paths) - _NAMES_SHOWN
    return ", ".join(paths[:_NAMES_SHOWN]) + (f" and {more} more files" if more > 0 else "")


def _words(names: set[str]) -> str:
    return ", ".join(sorted(names))


class _Planner:
    """The state of one planning: which contents and paths have been dealt with."""

    def __init__(
        self, known: Mapping[str, Known], options: IngestOptions, paths_now: frozenset[str]
    ) -> None:
        self.files: list[FilePlan] = []
        self.unreadable: list[tuple[Path, str]] = []
        self.n_unchanged = self.n_duplicates = 0
        self.notes = _Notes()
        self._options = options
        self._paths_now = paths_now
        self._definitions = _definitions(options)
        self._held: set[str] = set()  # contents that have been found
        self._waiting: list[tuple[str, Known]] = []
        newest_last = sorted(known.values(), key=lambda k: (k.batch, k.ordinal))
        self._by_path = {k.path: k for k in newest_last}
        self._by_head = ByHead(known.values())
        self._new_by_head: dict[str, list[Look]] = {}
        self._ordinals: dict[str, int] = {}
        for content in known.values():
            n_before = self._ordinals.get(content.first_path, 0)
            self._ordinals[content.first_path] = max(n_before, content.ordinal + 1)

    def look(self, path: Path) -> Look | None:
        """One look at a file; None, and a note, if it cannot be read."""
        try:
            return look_at(path)
        except UnreadableFileError as error:
            self.unreadable.append((path, str(error.strerror)))
            return None

    def is_taken(self, step: Callable[[Look], bool], look: Look) -> bool:
        """Whether the step dealt with the file; so it has if the file turns out unreadable."""
        try:
            return step(look)
        except UnreadableFileError as error:
            self.unreadable.append((look.path, str(error.strerror)))
            return True

    def take_in_place(self, look: Look) -> bool:
        """A content that stands where it was last seen."""
        content = self._by_path.get(look.name)
        if content is None or not is_content(look, content):
            return False
        self._hold(look, content)
        return True

    def take_moved(self, look: Look) -> bool:
        """A content that was last seen elsewhere and is no longer there."""
        for content in self._by_head.contents(look.head):
            if content.file_id in self._held or not is_content(look, content):
                continue
            if content.path not in self._paths_now and still_holds(Path(content.path), content):
                continue
            self._hold(look, content)
            return True
        return False

    def take_new(self, look: Look) -> bool:
        """A copy of something known, or a new content."""
        if look.head and self._is_duplicate(look):
            self.n_duplicates += 1
            return True
        sniff = _sniff(look, self._options)
        before = self._by_path.get(look.name)
        if before is not None and before.file_id not in self._held:
            if _is_corrected_table(look, sniff, before):
                self._hold_again(look, sniff, before, (0, 0))
                return True
            if before.format == _TEXT:
                self.notes.replaced.append(_replaced(look, before))
        self._add_new(look, sniff)
        return True

    def failures(self) -> list[Failure]:
        """What is not read, by path."""
        out = [
            Failure(name, k.file_id, k.ordinal, "waiting", _WAITS, k)
            for name, k in sorted(self._waiting, key=lambda w: w[0])
        ]
        for path, reason in sorted(self.unreadable):
            name = path_text(path)
            content = self._by_path.get(name)
            if content is not None and content.file_id not in self._held:
                out.append(Failure(name, content.file_id, content.ordinal, "unreadable", reason,
                                   content))  # fmt: skip
                continue
            ordinal = self._ordinals.get(name, 0)
            new_id = file_id(self._options.cluster, name, ordinal)
            out.append(Failure(name, new_id, ordinal, "unreadable", reason, None))
        return out

    def _hold(self, look: Look, content: Known) -> None:
        """Go on with a known content, if there is anything to go on with."""
        options = self._options
        before, now = _definitions_of(content), self._definitions_for(content.format)
        is_changed = before != now
        is_unchanged = (
            content is self._by_path.get(look.name)  # else others stood there since
            and content.status not in ("unreadable", "waiting")
            and look.size_bytes == (
                content.size_bytes if look.compression else content.parsed_to
            )
            and options.timezone in (None, content.timezone)
            and options.format in (None, content.format)
        )  # fmt: skip
        if is_changed and before.keys() - now.keys():
            self._held.add(content.file_id)
            self.n_unchanged += is_unchanged
            if not is_unchanged:
                self._waiting.append((look.name, content))
            return
        if is_unchanged and not is_changed:
            self._held.add(content.file_id)
            self.n_unchanged += 1
            return
        sniff = _sniff(look, options)
        goes_on = (
            look.compression is None
            and sniff is not None
            and sniff.format == content.format
            and self._detail(sniff) == content.sniff
        )
        if is_changed:
            self.notes.read_anew.append(look.name)
        at = (content.tail_offset, content.tail_line) if goes_on else (0, 0)
        self._hold_again(look, sniff, content, at)

    def _hold_again(
        self, look: Look, sniff: Sniff | None, content: Known, at: tuple[int, int]
    ) -> None:
        """Read a known content from (byte, line) on; its facts from there on are superseded."""
        self._held.add(content.file_id)
        if self._options.cluster not in (content.cluster, DEFAULT_CLUSTER):
            self.notes.other_cluster.add(content.cluster)
        zone = self._options.timezone or content.timezone
        if zone and zone != content.timezone:
            self.notes.other_zone.setdefault((content.timezone, zone), []).append(look.name)
        self._add(FilePlan(
            look, content.file_id, content.cluster, content.first_path, content.ordinal, *at,
            sniff, self._detail(sniff), zone,
        ))  # fmt: skip

    def _add_new(self, look: Look, sniff: Sniff | None) -> None:
        """Read a new content; its name is made from where it stands."""
        options = self._options
        ordinal = self._ordinals.get(look.name, 0)
        self._ordinals[look.name] = ordinal + 1
        self.notes.new.append(look.name)
        if sniff is not None and sniff.format == _TEXT:
            self.notes.new_text.append(look.name)
        self._add(FilePlan(
            look, file_id(options.cluster, look.name, ordinal), options.cluster, look.name,
            ordinal, 0, 0, sniff, self._detail(sniff), options.timezone,
        ))  # fmt: skip

    def _add(self, file: FilePlan) -> None:
        self.files.append(file)
        self._new_by_head.setdefault(sha(file.look.head), []).append(file.look)

    def _detail(self, sniff: Sniff | None) -> str:
        """The part of a sniff that parsing depends on; counts of anchors only inform."""
        if sniff is None:
            return "{}"
        detail = {k: v for k, v in sniff.detail.items() if not k.startswith("dialect:")}
        return json.dumps(dict(sorted((detail | self._definitions_for(sniff.format)).items())))

    def _definitions_for(self, format_name: str | None) -> dict[str, str]:
        return self._definitions if format_name == _TEXT else {}

    def _is_duplicate(self, look: Look) -> bool:
        """Whether the same bytes are known from, or will be read from, another file."""
        return any(is_whole_content(look, k) for k in self._by_head.contents(look.head)) or any(
            has_same_bytes(look, other) for other in self._new_by_head.get(sha(look.head), ())
        )


def _is_corrected_table(look: Look, sniff: Sniff | None, before: Known) -> bool:
    """Whether a table was written again from its beginning on, with rows changed or added.

    Its old rows then stand in it too. A table that begins elsewhere is of another window of time,
    a shorter one may be cut: what stood in the old one is still true.
    """
    return (
        sniff is not None
        and sniff.format == before.format != _TEXT
        and begins_as(look, before)
        and look.compression == before.compression
        and look.size_bytes >= before.size_bytes
    )


def _replaced(look: Look, before: Known) -> str:
    return (
        f"{look.name} held {before.size_bytes:,} bytes when it was last read, now it holds "
        f"{look.size_bytes:,} that do not go on from there: it was cut, rotated or written anew. "
        "What was read stays; what both tell counts once; give the rotated files too, if there are"
    )


def _definitions(options: IngestOptions) -> dict[str, str]:
    """The hashes of the user's dialects and signatures; no entry without any."""
    found = {}
    for name, folders in (
        ("dialects", options.dialect_dirs), ("signatures", options.signature_dirs),
    ):  # fmt: skip
        files = sorted(p for folder in folders for p in Path(folder).glob("*.toml"))
        if files:
            found[name] = sha(b"\0".join(p.read_bytes() for p in files))[:16]
    return found


def _definitions_of(content: Known) -> dict[str, str]:
    """The same of what a known content was read with."""
    detail = json.loads(content.sniff)
    return {k: detail[k] for k in ("dialects", "signatures") if k in detail}


def _sniff(look: Look, options: IngestOptions) -> Sniff | None:
    sniffs = recognise(whole_lines(look.head), look.path.name, options.format)
    return sniffs[0] if sniffs else None
