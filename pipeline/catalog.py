"""What an ingest must read: files against the ledger, without reading more than heads and tails.

Content is recognised by hashes of its first 64 KiB and of the 64 KiB before the last parsed byte,
so that a file may grow, be renamed, rotated or compressed without being counted twice.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parsers.blocks import UnreadableFileError, detect_compression, open_bytes, read_range
from parsers.formats import HEAD_BYTES, Sniff, recognise
from pipeline.discovery import Unreadable, path_text

TAIL_BYTES = 64 * 1024
DEFAULT_CLUSTER = "default"


@dataclass(frozen=True)
class IngestOptions:
    """What the user may choose about reading."""

    cluster: str = DEFAULT_CLUSTER
    timezone: str | None = None
    format: str | None = None
    dialect_dirs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Known:
    """The newest ledger row of one content."""

    file_id: str
    cluster: str
    path: str
    first_path: str
    ordinal: int
    size_bytes: int
    mtime_us: int
    compression: str | None
    parsed_to: int
    tail_offset: int
    tail_line: int
    head_bytes: int
    head_sha: str
    tail_bytes: int
    tail_sha: str
    first_line_sha: str
    format: str | None
    sniff: str
    timezone: str | None
    status: str  # of the last try to read it, also where that found nothing to parse
    status_detail: str | None


@dataclass(frozen=True)
class FilePlan:
    """One file to read, from which byte, as which content."""

    path: Path
    file_id: str
    cluster: str
    first_path: str
    ordinal: int
    size_bytes: int
    mtime_us: int
    compression: str | None
    parsed_from: int
    lines_before: int
    head: bytes
    sniff: Sniff | None  # None: no format claims it
    detail: str  # JSON of what parsing depends on
    timezone: str | None


@dataclass(frozen=True)
class Failure:
    """One file that cannot be read, why, and the content that stood there before."""

    path: str
    file_id: str
    ordinal: int
    reason: str
    content: Known | None


@dataclass(frozen=True)
class Plan:
    """Everything that an ingest has to do."""

    files: tuple[FilePlan, ...]
    failures: tuple[Failure, ...]
    n_unchanged: int
    n_duplicates: int
    other_clusters: tuple[str, ...]  # names under which files of this ingest are known already


def known_contents(rows: Sequence[Mapping[str, Any]]) -> dict[str, Known]:
    """The newest ledger row of every readable content, by file_id; rows in any order."""
    newest: dict[str, dict[str, Any]] = {}
    for row in sorted(rows, key=lambda r: r["batch"]):
        if row["parsed_from"] is not None:
            newest[row["file_id"]] = dict(row)
        elif row["file_id"] in newest:
            newest[row["file_id"]] |= {k: row[k] for k in ("status", "status_detail")}
    fields = Known.__dataclass_fields__
    return {k: Known(**{f: row[f] for f in fields}) for k, row in newest.items()}


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
    files = sorted(planner.files, key=lambda f: f.path)
    return Plan(
        tuple(files), tuple(planner.failures()), planner.n_unchanged, planner.n_duplicates,
        tuple(sorted(planner.other_clusters)),
    )  # fmt: skip


class _Planner:
    """The state of one planning: which contents and paths have been dealt with."""

    def __init__(
        self, known: Mapping[str, Known], options: IngestOptions, paths_now: frozenset[str]
    ) -> None:
        self.files: list[FilePlan] = []
        self.unreadable: list[tuple[Path, str]] = []
        self.n_unchanged = self.n_duplicates = 0
        self.other_clusters: set[str] = set()
        self._options = options
        self._paths_now = paths_now
        self._dialects = _dialects_sha(options.dialect_dirs)
        self._held: set[str] = set()  # contents that have been found
        self._by_path = {k.path: k for k in sorted(known.values(), key=lambda k: k.ordinal)}
        self._by_head = _ByHead(known.values())
        self._new_by_head: dict[str, list[FilePlan]] = {}
        self._ordinals: dict[str, int] = {}
        for content in known.values():
            n_before = self._ordinals.get(content.first_path, 0)
            self._ordinals[content.first_path] = max(n_before, content.ordinal + 1)

    def look(self, path: Path) -> _Look | None:
        """One look at a file; None, and a note, if it cannot be read."""
        try:
            return _look(path)
        except UnreadableFileError as error:
            self.unreadable.append((path, str(error.strerror)))
            return None

    def is_taken(self, step: Callable[[_Look], bool], look: _Look) -> bool:
        """Whether the step dealt with the file; so it has if the file turns out unreadable."""
        try:
            return step(look)
        except UnreadableFileError as error:
            self.unreadable.append((look.path, str(error.strerror)))
            return True

    def take_in_place(self, look: _Look) -> bool:
        """A content that stands where it was last seen."""
        content = self._by_path.get(look.name)
        if content is None or not _is_content(look, content):
            return False
        self._hold(look, content)
        return True

    def take_moved(self, look: _Look) -> bool:
        """A content that was last seen elsewhere and is no longer there."""
        for content in self._by_head.contents(look.head):
            if content.file_id in self._held or not _is_content(look, content):
                continue
            if content.path not in self._paths_now and _still_holds(Path(content.path), content):
                continue
            self._hold(look, content)
            return True
        return False

    def take_new(self, look: _Look) -> bool:
        """A copy of something known, a rewritten content, or a new one."""
        if look.head and self._is_duplicate(look):
            self.n_duplicates += 1
            return True
        before = self._by_path.get(look.name)
        is_rewritten = (
            before is not None
            and before.file_id not in self._held
            and before.first_path == look.name
            and before.first_line_sha == first_line_sha(look.head)
        )
        if is_rewritten and before is not None:
            self._held.add(before.file_id)
            cluster, ordinal, zone = self._cluster(before), before.ordinal, before.timezone
            name = before.file_id
        else:
            cluster, zone = self._options.cluster, None
            ordinal = self._next_ordinal(look.name)
            name = file_id(cluster, look.name, ordinal)
        sniff = _sniff(look, self._options)
        self._add(look, sniff, name, cluster, look.name, ordinal, (0, 0), zone)
        return True

    def failures(self) -> list[Failure]:
        """What could not be read, by path."""
        out = []
        for path, reason in sorted(self.unreadable):
            name = path_text(path)
            content = self._by_path.get(name)
            if content is not None and content.file_id not in self._held:
                out.append(Failure(name, content.file_id, content.ordinal, reason, content))
                continue
            ordinal = self._ordinals.get(name, 0)
            new_id = file_id(self._options.cluster, name, ordinal)
            out.append(Failure(name, new_id, ordinal, reason, None))
        return out

    def _hold(self, look: _Look, content: Known) -> None:
        self._held.add(content.file_id)
        cluster = self._cluster(content)
        options = self._options
        is_unchanged = (
            look.name == content.path
            and content.status != "unreadable"
            and look.size_bytes == (
                content.size_bytes if look.compression else content.parsed_to
            )
            and options.timezone in (None, content.timezone)
            and options.format in (None, content.format)
            and json.loads(content.sniff).get("dialects", "") == self._dialects_of(content.format)
        )  # fmt: skip
        if is_unchanged:
            self.n_unchanged += 1
            return
        sniff = _sniff(look, options)
        goes_on = (
            look.compression is None
            and sniff is not None
            and sniff.format == content.format
            and self._detail(sniff) == content.sniff
        )
        at = (content.tail_offset, content.tail_line) if goes_on else (0, 0)
        self._add(
            look, sniff, content.file_id, cluster, content.first_path, content.ordinal, at,
            content.timezone,
        )  # fmt: skip

    def _add(
        self, look: _Look, sniff: Sniff | None, name: str, cluster: str, first_path: str,
        ordinal: int, at: tuple[int, int], zone: str | None,
    ) -> None:  # fmt: skip
        file = FilePlan(
            path=look.path, file_id=name, cluster=cluster, first_path=first_path, ordinal=ordinal,
            size_bytes=look.size_bytes, mtime_us=look.mtime_us, compression=look.compression,
            parsed_from=at[0], lines_before=at[1], head=look.head, sniff=sniff,
            detail=self._detail(sniff), timezone=self._options.timezone or zone,
        )  # fmt: skip
        self.files.append(file)
        self._new_by_head.setdefault(sha(look.head), []).append(file)

    def _cluster(self, content: Known) -> str:
        """The cluster that a known content stays in: its id is made from that name."""
        if self._options.cluster not in (content.cluster, DEFAULT_CLUSTER):
            self.other_clusters.add(content.cluster)
        return content.cluster

    def _next_ordinal(self, first_path: str) -> int:
        ordinal = self._ordinals.get(first_path, 0)
        self._ordinals[first_path] = ordinal + 1
        return ordinal

    def _detail(self, sniff: Sniff | None) -> str:
        """The part of a sniff that parsing depends on; counts of anchors only inform."""
        if sniff is None:
            return "{}"
        detail = {k: v for k, v in sniff.detail.items() if not k.startswith("dialect:")}
        if dialects := self._dialects_of(sniff.format):
            detail["dialects"] = dialects
        return json.dumps(dict(sorted(detail.items())))

    def _dialects_of(self, format_name: str | None) -> str:
        return self._dialects if format_name == "text" else ""

    def _is_duplicate(self, look: _Look) -> bool:
        """Whether the same bytes are known from, or will be read from, another file."""
        for content in self._by_head.contents(look.head):
            is_whole = look.compression is not None or look.size_bytes == content.parsed_to
            if is_whole and _is_content(look, content) and not _has_more(look, content.parsed_to):
                return True
        return any(_same_bytes(look, f) for f in self._new_by_head.get(sha(look.head), ()))


class _ByHead:
    """Contents by the hash of their head, whose length differs between short ones."""

    def __init__(self, known: Iterable[Known]) -> None:
        self._contents: dict[tuple[int, str], list[Known]] = {}
        for content in sorted(known, key=lambda k: (-k.parsed_to, k.file_id)):
            if content.head_bytes:
                key = (content.head_bytes, content.head_sha)
                self._contents.setdefault(key, []).append(content)
        self._sizes = sorted({n_bytes for n_bytes, _ in self._contents})

    def contents(self, head: bytes) -> list[Known]:
        """Those that a file with this head may continue, the longest first."""
        running = hashlib.blake2b(digest_size=16)
        done = 0
        found: list[Known] = []
        for n_bytes in self._sizes[: bisect_right(self._sizes, len(head))]:
            running.update(head[done:n_bytes])
            done = n_bytes
            found += self._contents.get((n_bytes, running.hexdigest()), ())
        return sorted(found, key=lambda k: (-k.parsed_to, k.file_id))


@dataclass(frozen=True)
class _Look:
    """What one look at a file shows."""

    path: Path
    size_bytes: int
    mtime_us: int
    compression: str | None
    head: bytes

    @property
    def name(self) -> str:
        """The path as the ledger spells it."""
        return path_text(self.path)


def _look(path: Path) -> _Look:
    compression = detect_compression(path)
    try:
        status = path.stat()
    except OSError as error:
        raise UnreadableFileError(error.errno, f"cannot read {path}: {error.strerror}") from error
    head = read_range(path, compression, 0, HEAD_BYTES)
    return _Look(path, status.st_size, status.st_mtime_ns // 1000, compression, head)


def sha(data: bytes) -> str:
    """The hash that the ledger keeps of heads and tails."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def first_line_sha(head: bytes) -> str:
    """The hash of the first line, by which a rewritten file is told from another one."""
    return sha(head.partition(b"\n")[0])


def _is_content(look: _Look, content: Known) -> bool:
    """Whether the file begins with everything that was parsed of `content`."""
    if len(look.head) < content.head_bytes:
        return False
    if sha(look.head[: content.head_bytes]) != content.head_sha:
        return False
    if look.compression is None and look.size_bytes < content.parsed_to:
        return False
    if look.size_bytes == content.size_bytes and look.mtime_us == content.mtime_us:
        return True
    start = content.parsed_to - content.tail_bytes
    return sha(read_range(look.path, look.compression, start, content.tail_bytes)) == (
        content.tail_sha
    )


def holds(path: Path, content: Known) -> bool:
    """Whether the file begins with all that was parsed of a content; UnreadableFileError."""
    return _is_content(_look(path), content)


def _still_holds(path: Path, content: Known) -> bool:
    try:
        return holds(path, content)
    except UnreadableFileError:
        return False


def _has_more(look: _Look, n_bytes: int) -> bool:
    return look.compression is not None and bool(
        read_range(look.path, look.compression, n_bytes, 1)
    )


def _same_bytes(look: _Look, other: FilePlan) -> bool:
    """Whether two files with the same head have the same decompressed bytes throughout."""
    is_plain = look.compression == other.compression is None
    if is_plain and (look.size_bytes != other.size_bytes or not _same_tail(look, other)):
        return False
    return _whole_sha(look.path, look.compression) == _whole_sha(other.path, other.compression)


def _same_tail(look: _Look, other: FilePlan) -> bool:
    start = max(look.size_bytes - TAIL_BYTES, 0)
    return read_range(look.path, None, start, TAIL_BYTES) == read_range(
        other.path, None, start, TAIL_BYTES
    )


def _whole_sha(path: Path, compression: str | None) -> str:
    running = hashlib.blake2b(digest_size=16)
    buffer = memoryview(bytearray(1024 * 1024))
    with open_bytes(path, compression) as source:
        while n_bytes := source.readinto(buffer):
            running.update(buffer[:n_bytes])
    return running.hexdigest()


def _dialects_sha(folders: Sequence[str]) -> str:
    """The hash of user dialects; empty without any."""
    files = sorted(p for folder in folders for p in Path(folder).glob("*.toml"))
    return sha(b"\0".join(p.read_bytes() for p in files))[:16] if files else ""


def file_id(cluster: str, first_path: str, ordinal: int) -> str:
    """The name of a content: where it was first seen, and the how-many-eth content that was."""
    return sha(f"{cluster}\0{first_path}\0{ordinal}".encode())[:16]


def _sniff(look: _Look, options: IngestOptions) -> Sniff | None:
    head = look.head
    whole = head.rfind(b"\n") + 1
    if whole and len(head) == HEAD_BYTES:
        head = head[:whole]
    sniffs = recognise(head, look.path.name, options.format)
    return sniffs[0] if sniffs else None
