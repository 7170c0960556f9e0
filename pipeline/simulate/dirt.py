"""Dirt that real logs have, one knob each: what is written stays true, how it is written does not.

Knobs work in the order of `Knob`, whatever the order in which they are given.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from pipeline.errors import UsageError
from pipeline.simulate.emit_training import labelled
from pipeline.simulate.history import End, History, RunHistory
from pipeline.simulate.laws import US_PER_S
from pipeline.simulate.lines import Line, LogFile, Manner

if TYPE_CHECKING:
    from collections.abc import Collection

    import numpy as np

    from pipeline.simulate.scenario import Scenario


class Knob(StrEnum):
    """What `--dirt` takes."""

    DST_CHANGE = "dst_change"
    CLOCK_SKEW = "clock_skew"
    NO_TIMESTAMPS = "no_timestamps"
    DUPLICATE_WRITERS = "duplicate_writers"
    BUFFERED = "buffered"
    INTERLEAVED_RANKS = "interleaved_ranks"
    TORN_LINES = "torn_lines"
    MISSING_LOG = "missing_log"
    MISSING_ACCOUNTING = "missing_accounting"
    RECYCLED_JOB_ID = "recycled_job_id"
    OUT_OF_ORDER_FILES = "out_of_order_files"
    BAD_BYTES = "bad_bytes"
    TRUNCATED = "truncated"


MEANINGS = {
    Knob.DST_CHANGE: "clocks go back an hour in the middle, and no stamp shows its offset",
    Knob.CLOCK_SKEW: "the clock of every node is off by up to 30 s",
    Knob.NO_TIMESTAMPS: "trainers print no time on step and checkpoint lines",
    Knob.DUPLICATE_WRITERS: "a second rank prints every step 0.3 s later",
    Knob.BUFFERED: "stdout is written in blocks of 8 KiB, and its last block dies with the process",
    Knob.INTERLEAVED_RANKS: "labelled lines of all ranks, with chatter between them",
    Knob.TORN_LINES: "every 200th line is cut in two by a line of another writer",
    Knob.MISSING_LOG: "the output of one job is gone",
    Knob.MISSING_ACCOUNTING: "there is no accounting",
    Knob.RECYCLED_JOB_ID: "another user's job of two years ago bore the first job's id",
    Knob.OUT_OF_ORDER_FILES: "files lie in folders in no order, all copied at one instant, and "
    "the rows of the accounting are shuffled",
    Knob.BAD_BYTES: "every 200th line holds bytes that are no UTF-8, or NULs",
    Knob.TRUNCATED: "the newest training log ends in the middle of a line",
}

SKEW_S = 30
SECOND_WRITER_US = 300_000
BUFFER_BYTES = 8192
ONE_IN = 200
_CUT_SHARE = 0.03  # of the newest log that a cut takes
_AUTUMN_CHANGE = datetime(2025, 10, 26, 1, tzinfo=UTC)
_STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?"
# bracketed before the line, Python logging's `stamp - root - INFO - `, HF's `] stamp >> `
_PRINTED_STAMP = re.compile(
    rf"^(?P<space>\s*)(?:\[{_STAMP}\]\s*|\[titan\] {_STAMP} - root - INFO - )"
    rf"|(?<=\]) {_STAMP}(?= >>)"
)


def knobs_named(names: list[str]) -> list[Knob]:
    """The knobs of these names; UsageError for unknown ones."""
    unknown = [name for name in names if name not in list(Knob)]
    if unknown:
        raise UsageError(
            f"--dirt: no knob {', '.join(map(repr, unknown))}; known: {', '.join(Knob)}"
        )
    return [Knob(name) for name in names]


def prepared(scenario: Scenario, knobs: Collection[Knob]) -> Scenario:
    """The scenario, moved in time where a knob needs a certain day."""
    if Knob.DST_CHANGE not in knobs:
        return scenario
    begin = _AUTUMN_CHANGE - timedelta(days=scenario.cluster.days / 2)
    moved = replace(
        scenario.cluster, timezone="Europe/Berlin",
        start=begin.replace(tzinfo=None, microsecond=0).isoformat(),
    )  # fmt: skip
    return replace(scenario, cluster=moved)


def manner(knobs: Collection[Knob]) -> Manner:
    """How programs write."""
    stamp = "%Y-%m-%dT%H:%M:%S" if Knob.DST_CHANGE in knobs else Manner().accounting_stamp
    later = SECOND_WRITER_US if Knob.DUPLICATE_WRITERS in knobs else None
    return Manner(later, stamp)


def skew_clocks(history: History, rng: np.random.Generator) -> None:
    """Set every node's clock off by up to SKEW_S."""
    offsets = rng.uniform(-SKEW_S, SKEW_S, history.scenario.cluster.nodes) * US_PER_S
    history.skew_us = {node: round(float(us)) for node, us in enumerate(offsets)}


def soil_lines(
    history: History, logs: list[LogFile], knobs: Collection[Knob], rng: np.random.Generator
) -> list[LogFile]:
    """The files with those knobs applied that change lines or drop files."""
    runs = {run.spec.name: run for run in history.runs}
    training = [log for log in logs if log.kind == "training"]
    for log in training:
        _soil_training(history, log, runs[log.run], knobs, rng)
    gone: list[LogFile] = []
    if Knob.MISSING_LOG in knobs:
        gone.append(training[int(rng.integers(len(training)))])
    accounting = [log for log in logs if log.kind == "accounting"]
    if Knob.MISSING_ACCOUNTING in knobs:
        gone += accounting
    for log in accounting:
        if Knob.RECYCLED_JOB_ID in knobs:
            log.lines = _with_old_job(log.lines)
        if Knob.OUT_OF_ORDER_FILES in knobs:
            rows = log.lines[1:]
            log.lines = [log.lines[0], *(rows[i] for i in rng.permutation(len(rows)))]
    return [log for log in logs if not any(log is other for other in gone)]


def _soil_training(
    history: History,
    log: LogFile,
    run: RunHistory,
    knobs: Collection[Knob],
    rng: np.random.Generator,
) -> None:
    if Knob.NO_TIMESTAMPS in knobs:
        log.lines = [_stampless(line) for line in log.lines]
    if Knob.BUFFERED in knobs:
        log.lines = _buffered(log.lines, run)
    if Knob.INTERLEAVED_RANKS in knobs:
        log.lines = labelled(history, _with_chatter(history, log.lines, rng), run)
    if Knob.TORN_LINES in knobs:
        log.lines = _torn(history, log.lines, rng)


def _stampless(line: Line) -> Line:
    if line.is_error or "datetime:" in line.text:
        return line
    return replace(line, text=_PRINTED_STAMP.sub(lambda m: m["space"] or "", line.text, count=1))


def _buffered(lines: list[Line], run: RunHistory) -> list[Line]:
    """Blocks of stdout as they are flushed, stderr at once; what is not flushed dies."""
    ends = {launch.number: launch.end for launch in run.launches}
    out: list[Line] = []
    waiting: list[Line] = []
    for line, after in zip(lines, [*lines[1:], None], strict=True):
        if line.is_error:
            out.append(line)
        else:
            waiting.append(line)
            if sum(len(w.text) for w in waiting) >= BUFFER_BYTES:
                out += waiting
                waiting = []
        if after is None or after.launch != line.launch:
            if ends[line.launch] not in (End.FAILED, End.TIME_LIMIT):
                out += waiting
            waiting = []
    return out


def _with_chatter(history: History, lines: list[Line], rng: np.random.Generator) -> list[Line]:
    """Every third line is followed by what another rank says."""
    ranks = rng.integers(0, 16, len(lines))
    out = []
    for i, line in enumerate(lines):
        out.append(line)
        if i % 3 == 0 and line.text.endswith("\n"):
            out.append(_chatter(history, line, int(ranks[i])))
    return out


def _chatter(history: History, beside: Line, rank: int) -> Line:
    text = f"{history.node_name(rank // 8)}:{40171 + rank}:{41171 + rank} [{rank % 8}] NCCL INFO "
    text += "Channel 03/0 : "
    text += f"{rank}[{rank % 8}] -> {rank + 8}[{rank % 8}] [send] via NET/IB/4/GDRDMA\n"
    return replace(beside, text=text, rank=rank, is_error=False)


def _torn(history: History, lines: list[Line], rng: np.random.Generator) -> list[Line]:
    """One line in ONE_IN is cut by a whole line of another rank."""
    is_torn = rng.random(len(lines)) < 1 / ONE_IN
    places = rng.random(len(lines))
    out = []
    for i, line in enumerate(lines):
        if not is_torn[i] or len(line.text) < 4:
            out.append(line)
            continue
        cut = 1 + int(places[i] * (len(line.text) - 2))
        out += [replace(line, text=line.text[:cut]), _chatter(history, line, 5),
                replace(line, text=line.text[cut:])]  # fmt: skip
    return out


def _with_old_job(rows: list[Line]) -> list[Line]:
    """The first job's rows once more, two years ago, by somebody else under another name."""
    columns = rows[0].text.rstrip("\n").split("|")
    user, name, work_dir, stdout = (columns.index(c) for c in
                                    ("User", "JobName", "WorkDir", "StdOut"))  # fmt: skip
    first = rows[1].text.split("|")
    old = []
    for row in rows[1:5]:  # the job and its three steps
        cells = row.text.rstrip("\n").split("|")
        cells = [
            re.sub(r"^(20\d\d)(?=-\d\d-\d\dT)", lambda m: str(int(m[1]) - 2), c) for c in cells
        ]
        if cells[user]:
            cells[user], cells[name] = "somebody", "sweep"
            cells[work_dir] = "/home/somebody"
            cells[stdout] = first[stdout].replace("/home/demo/runs", "/home/somebody")
        old.append(Line(row.us, "|".join(cells) + "\n", None))
    return [rows[0], *old, *rows[1:]]


def soiled(
    logs: list[LogFile], knobs: Collection[Knob], rng: np.random.Generator
) -> list[tuple[str, bytes, int]]:
    """(name below `logs/`, bytes, modified second) of every file, with the other knobs applied."""
    newest = max((log for log in logs if log.kind == "training"), key=_modified_s, default=None)
    files = []
    copied_s = max(map(_modified_s, logs), default=0) + 86400
    for i, log in enumerate(logs):
        texts = [line.text.encode() for line in log.lines]
        if Knob.BAD_BYTES in knobs and log.kind != "accounting":
            texts = _with_bad_bytes(texts, rng)
        data = b"".join(texts)
        if Knob.TRUNCATED in knobs and log is newest:
            data = data[: max(1, round(len(data) * (1 - _CUT_SHARE)))].rstrip(b"\n")
        name, modified_s = log.name, _modified_s(log)
        if Knob.OUT_OF_ORDER_FILES in knobs:
            name, modified_s = f"{(len(logs) - i) * 7919 % 97:02d}/{log.name}", copied_s
        files.append((name, data, modified_s))
    return files


def _modified_s(log: LogFile) -> int:
    return max(line.us for line in log.lines) // US_PER_S


def _with_bad_bytes(texts: list[bytes], rng: np.random.Generator) -> list[bytes]:
    """One line in ONE_IN holds bytes that no text has; every other time it is a line of NULs."""
    is_hit = rng.random(len(texts)) < 1 / ONE_IN
    places = rng.random(len(texts))
    out = []
    for i, text in enumerate(texts):
        if not is_hit[i]:
            out.append(text)
        elif i % 2:
            out += [text, bytes(64) + b"\n"] if text.endswith(b"\n") else [text]
        else:
            cut = int(places[i] * len(text))
            out.append(text[:cut] + b"\xff\xfe\x9d" + text[cut:])
    return out
