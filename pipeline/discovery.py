"""Which files an ingest looks at: files, folders and globs, each file once, in a fixed order."""

from __future__ import annotations

import errno
import glob
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import UsageError

_REASONS = {
    errno.EACCES: "no permission to read it; run as a user who may, or leave it out",
    errno.ELOOP: "its symbolic links form a loop",
    errno.ENOENT: "a symbolic link that leads nowhere",
}


@dataclass(frozen=True)
class Unreadable:
    """One file or folder that cannot be read, and why."""

    path: Path
    reason: str


def discover(paths: Sequence[str], lake: Path) -> tuple[list[Path], list[Unreadable]]:
    """All regular files of `paths`, absolute, sorted, each once, and what cannot be read.

    Folders are walked without following symbolic links to folders; folders whose name begins with
    a dot and the lake itself are left out. UsageError names every path that fits nothing.
    """
    found: dict[str, Path] = {}
    broken: dict[str, Unreadable] = {}
    missing: list[str] = []
    inside_lake = os.path.realpath(lake) + os.sep
    for text in paths:
        n_candidates = 0
        for candidate in _candidates(text):
            n_candidates += 1
            path = candidate.path if isinstance(candidate, Unreadable) else candidate
            absolute = os.path.abspath(path)  # noqa: PTH100 - `resolve` would follow links
            if (os.path.realpath(absolute) + os.sep).startswith(inside_lake):
                continue
            reason = candidate.reason if isinstance(candidate, Unreadable) else _problem(path)
            if reason is None:
                found[absolute] = Path(absolute)
            else:
                broken[absolute] = Unreadable(Path(absolute), reason)
        if not n_candidates and not Path(text or "\0").is_dir():
            missing.append(f"{text!r}: no such file or folder, and no glob that fits a file")
    if missing:
        raise UsageError("\n".join(missing))
    return [found[k] for k in sorted(found)], [broken[k] for k in sorted(broken)]


def is_unicode(path: Path) -> bool:
    """Whether the bytes of a path are UTF-8: else only Python can open it."""
    return os.fsencode(path).decode("utf-8", "replace") == str(path)


def path_text(path: Path) -> str:
    """`path` as text that any file and terminal can hold: bytes that are no UTF-8 as escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _candidates(text: str) -> Iterator[Path | Unreadable]:
    if not text:
        return
    path = Path(text)
    try:
        if path.is_dir():
            yield from _walk(path)
            return
        if path.exists() or path.is_symlink():
            yield path
            return
    except OSError as error:
        yield Unreadable(path, _reason(error))
        return
    for name in sorted(glob.glob(text, recursive=True)):  # noqa: PTH207 - takes any pattern
        match = Path(name)
        if match.is_dir():
            yield from _walk(match)
        else:
            yield match


def _walk(folder: Path) -> Iterator[Path | Unreadable]:
    closed: list[Unreadable] = []

    def note(error: OSError) -> None:
        closed.append(Unreadable(Path(os.fsdecode(error.filename)), _reason(error)))

    for root, folders, names in os.walk(folder, onerror=note, followlinks=False):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        for name in sorted(names):
            yield Path(root) / name
    yield from closed


def _problem(path: Path) -> str | None:
    """Why `path` is no file to read; None if it is one."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        return _reason(error)
    return None if stat.S_ISREG(mode) else "no regular file (folder, pipe, socket or device)"


def _reason(error: OSError) -> str:
    return _REASONS.get(error.errno or 0) or error.strerror or str(error)
