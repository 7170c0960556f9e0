"""What a report says, as plain records: the JSON contract first, then what the pages also need."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

import msgspec

from pipeline.errors import OutputError

UNEXPLAINED_LIMIT = 0.005
"""Above this unexplained share of the wall clock TOR is given as an interval."""


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """The time that the report covers; runs in it are counted whole."""

    start: datetime | None
    end: datetime | None


class DataQuality(msgspec.Struct, frozen=True, kw_only=True):
    """What was read, what could not be read, and what to know before trusting a number."""

    files: int
    bytes: int
    lines: int
    claimed_lines: int
    rejects: int
    reject_share: float | None
    coverage: float | None
    warnings: list[str]
    unread_training_logs: list[str]


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """A predicted TOR with its interval."""

    value: float
    ci_low: float | None
    ci_high: float | None
    method: str


class SegmentSeconds(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of a run per use; they sum to its wall clock. slow is null without a step time."""

    productive: float
    slow: float | None
    lost_recompute: float
    checkpoint: float
    recovery: float
    startup: float
    planned: float
    uncommitted: float
    unexplained: float


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """What one cause cost a run. GPU-hours count GPUs while they were held."""

    cause: str
    type: str | None
    seconds: float
    share: float
    gpu_hours: float | None
    incident_id: str | None


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A line that speaks of an incident."""

    file: str
    line: int
    role: str
    is_root: bool
    signature_id: str | None
    occurred_at: datetime | None
    node: str | None
    rank: int | None
    count: int | None
    message: str | None
    file_id: str


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """One failure: what, when, where, what it cost, and the lines that show it."""

    incident_id: str
    attempt_id: str | None
    launch_no: int | None
    onset_at: datetime | None
    detected_at: datetime | None
    ended_at: datetime | None
    resumed_at: datetime | None
    type: str
    signature_id: str | None
    mode: str
    domain: str
    nodes: list[str]
    gpus: list[str]
    lost_steps: int | None
    lost_s: float | None
    recovery_s: float | None
    slow_s: float | None
    total_s: float | None
    gpu_hours: float | None
    n_attempts: int | None
    confidence: str
    n_evidence: int | None
    n_evidence_lines: int
    summary: str | None
    evidence: list[Evidence] = []


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One allocation of a run, and why it belongs to it."""

    attempt_id: str
    ordinal: int
    scheduler: str | None
    job_id: str | None
    submit_at: datetime | None
    start_at: datetime | None
    end_at: datetime | None
    state: str | None
    end_kind: str | None
    exit_code: int | None
    exit_signal: int | None
    n_nodes: int | None
    n_gpus: int | None
    failed_nodes: list[str]
    is_runaway: bool | None
    first_step: int | None
    last_step: int | None
    n_launches: int
    link_rule: str | None
    link_confidence: float | None
    link_evidence: str | None
    file: str | None
    line: int | None


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """One process start of a run."""

    launch_no: int
    attempt_id: str
    start_at: datetime | None
    end_at: datetime | None
    first_step: int | None
    last_step: int | None
    end_state: str | None
    end_rule: str | None
    file: str | None
    log_rule: str | None
    log_confidence: float | None
    clock_offset_s: float | None


class Checkpoints(msgspec.Struct, frozen=True, kw_only=True):
    """The saves of a run; blocked_s is the time that training stood still for them."""

    n_saves: int
    n_durable: int
    n_async: int
    blocked_s: float
    last_durable_step: int | None
    last_durable_at: datetime | None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One training run: the fields of the JSON contract, then further ones."""

    run_id: str
    name: str | None
    cluster: str | None
    start_at: datetime
    end_at: datetime
    is_open: bool | None
    wall_s: float
    tor_observed: float | None
    tor_predicted: Prediction | None
    segments_s: SegmentSeconds
    queue_s: float | None
    steps_kept: int | None
    steps_lost: int | None
    reference_step_s: float | None
    n_attempts: int
    n_incidents: int
    losses: list[Loss]
    end_state: str | None
    tor_low: float | None
    tor_high: float | None
    tor_observed_gpu: float | None
    t_opt_s: float | None
    unexplained_share: float | None
    n_launches: int | None
    n_gpus: int | None
    reference_p10_s: float | None
    n_healthy_steps: int | None
    steps_skipped: int | None
    steps_uncommitted: int | None
    time_error_s: float | None
    checkpoints: Checkpoints
    attempts: list[Attempt]
    launches: list[Launch]
    incidents: list[Incident]

    @property
    def has_interval(self) -> bool:
        """Whether so much time is unexplained that TOR must be given as an interval."""
        return (
            self.tor_low is not None
            and self.tor_high is not None
            and (self.unexplained_share or 0) > UNEXPLAINED_LIMIT
        )


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of equal use of a run's wall clock, for drawing."""

    segment_id: str
    launch_no: int | None
    start_at: datetime
    end_at: datetime
    duration_s: float
    category: str
    phase: str
    performance_ratio: float | None
    incident_id: str | None
    cause: str | None
    rule: str | None


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs a report is about: a run (id or name), a cluster, those that overlap a window.

    The window is [since, until); what is None leaves none out.
    """

    run: str | None = None
    cluster: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the report is about every run of the lake."""
        return self == Choice()


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the pages show; `why_empty` and `timelines` are not part of the JSON.

    `why_empty` says why there are no runs; `timelines` holds the segments of each run id.
    """

    generated_at: datetime
    window: Window
    clusters: list[str]
    data_quality: DataQuality
    runs: list[Run]
    failure_rates: list[dict[str, object]] = []
    fits: list[dict[str, object]] = []
    predictions: list[dict[str, object]] = []
    choice: Choice = Choice()
    why_empty: list[str] = []
    timelines: dict[str, list[Segment]] = {}

    def to_json(self) -> str:
        """The report as JSON, fields in the order of the contract."""
        from pipeline.report.json_page import to_json

        return to_json(self)

    def to_markdown(self) -> str:
        """The report as Markdown."""
        from pipeline.report.markdown_page import to_markdown

        return to_markdown(self)

    def to_html(self) -> str:
        """The report as one self-contained HTML page."""
        from pipeline.report.html_page import to_html

        return to_html(self)

    def to_terminal(self) -> str:
        """The answer in a few lines of plain text."""
        from pipeline.report.terminal import to_terminal

        return to_terminal(self)

    @property
    def file_stem(self) -> str:
        """`report` of a whole lake; a name for each choice of runs, so that none replaces another.

        `report-run-3384dc42bbf605d7`, `report-since-20260201T000000Z`.
        """
        parts = ["report"]
        if self.choice.run is not None:
            ids = [run.run_id for run in self.runs]
            parts.append(ids[0] if len(ids) == 1 else _as_file_name(self.choice.run))
        for word, at in (("since", self.choice.since), ("until", self.choice.until)):
            if at is not None:
                parts.append(f"{word}-{at.astimezone(UTC):%Y%m%dT%H%M%SZ}")
        return "-".join(parts)

    def text(self, form: str) -> str:
        """The report as `json`, `md` or `html`, with a newline at its end."""
        pages = {"json": self.to_json, "md": self.to_markdown, "html": self.to_html}
        text = pages[form]()
        return text if text.endswith("\n") else text + "\n"

    def write(self, folder: Path) -> Path:
        """The path of report.html, written to `folder` beside report.md and report.json."""
        for form in ("json", "md", "html"):
            write_whole(folder / f"report.{form}", self.text(form))
        return folder / "report.html"


def _as_file_name(name: str) -> str:
    """A name that any file system takes, told apart from other names that look like it then."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", name)[:80]
    digest = hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=4).hexdigest()
    return plain if plain == name else f"{plain}-{digest}"


@contextmanager
def _alone(path: Path) -> Iterator[TextIO]:
    """A file open for writing, empty, that no other process writes meanwhile; it may be renamed.

    All use one name, so that writers who were killed leave one file at most.
    """
    while True:
        with path.open("a", encoding="utf-8") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            try:
                is_renamed = path.stat().st_ino != os.fstat(handle.fileno()).st_ino
            except FileNotFoundError:
                is_renamed = True
            if not is_renamed:
                handle.truncate(0)
                yield handle
                return


def write_whole(path: Path, text: str) -> None:
    """Write a file in one step, so that a reader never sees half of it; OutputError."""
    if path.is_dir():
        raise OutputError(f"{path} is a folder; expected the name of a file to write")
    new = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():  # a pipe or a device
            path.write_text(text, encoding="utf-8")
            return
        with _alone(new) as handle:
            handle.write(text)
            handle.flush()
            new.replace(path)
    except OSError as error:
        raise OutputError(
            f"cannot write {path}: {error.strerror}; expected a place that this user may change"
        ) from error
