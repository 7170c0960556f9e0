"""Words by which a line sounds important, or like a training step, whatever its dialect."""

from __future__ import annotations

import re
from pathlib import Path

from parsers.blocks import UnreadableFileError, read_range

# a colour in front of a word ends with a letter
_BEGIN = rb"(?i)(?:(?<![a-z])|(?<=\x1b\[[0-9]m)|(?<=\x1b\[[0-9]{2}m))"
SIGNAL = re.compile(
    _BEGIN + rb"(?:iter(?:ation)?s?|steps?|updates?|epochs?|loss|checkpoint(?:s|ed|ing)?|ckpt|"
    rb"resum(?:e|ed|ing)|restart(?:ed|ing)?|errors?|exception|fail(?:ed|ure)?|timeout|timed out|"
    rb"abort(?:ed|ing)?|killed|fatal|panic|oom|nan)(?![a-z])"
)
"""Anything that the answer could rest on: steps, saves, restarts and failures."""

_STEP = re.compile(
    _BEGIN + rb"(?:iter(?:ation)?|steps?|updates?|batch)(?![a-z])\W{0,20}\d|\d/\d+ \[\d"
)
_MEASURE = re.compile(
    _BEGIN + rb"(?:loss|perplexity|ppl|grad(?:ient)?[ _]?norm)(?![a-z])\W{0,20}[\d-]|"
    rb"\d ?(?:tok(?:en)?s?|samples?|it)/s(?:ec)?(?![a-z])|\d ?s/it(?![a-z])"
)
_IN_EVERY_MEASURE = (b"loss", b"perplexity", b"ppl", b"norm", b"/s", b"s/it")
_LOOKS_LIKE_TRAINING = 3  # so many step-like lines are no accident
_LOOK_BYTES = 64 * 1024


def is_step_like(line: bytes) -> bool:
    """Whether a line gives a step number and something that is measured at every step."""
    return bool(_STEP.search(line) and _MEASURE.search(line))


def are_training(n_step_like: int) -> bool:
    """Whether so many step-like lines make a training log."""
    return n_step_like >= _LOOKS_LIKE_TRAINING


def looks_like_training(path: Path, compression: str | None, n_bytes: int) -> bool:
    """Whether the first 64 KiB of a file, or the last of `n_bytes`, hold step-like lines.

    Of a compressed file only the first are looked at. False where the file cannot be read.
    """
    if not path.is_file():  # a pipe that stands there now would never end
        return False
    n_step_like = 0
    starts = {0} if compression else {0, max(n_bytes - _LOOK_BYTES, _LOOK_BYTES)}
    for start in starts:
        try:
            data = read_range(path, compression, start, _LOOK_BYTES)
            lower = data.lower()
        except UnreadableFileError:
            return False
        # most other logs hold none of these: their lines need no second look
        if any(text in lower for text in _IN_EVERY_MEASURE):
            n_step_like += sum(is_step_like(part) for part in re.split(rb"[\r\n]", data))
    return are_training(n_step_like)
