"""The fact tables that parsers fill: one row per thing that some bytes say.

Facts hold only what their own bytes state. A time is kept as it was printed (`stamp_*`); the year,
the zone and times that must be inferred are resolved later, by SQL, over all files.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

MAX_TEXT_BYTES = 500
"""Longest raw text that a fact or a reject keeps: enough to recognise a line."""


class StampKind(StrEnum):
    """What a printed time says about its zone and date."""

    UTC = "utc"  # an offset, a Z or an epoch stood in the line: `stamp_us` is the instant
    LOCAL = "local"  # full date, no zone: `stamp_us` reads the wall clock as if it were UTC
    LOCAL_NO_YEAR = "local_no_year"  # month and day only: `stamp_us` uses the year 1972
    TIME_OF_DAY = "time_of_day"  # no date: `stamp_us` counts from 1970-01-01
    BOOT = "boot"  # `stamp_us` counts from the boot of the node


class StampSource(StrEnum):
    """Who printed the time: the record itself, or the carrier that transported it."""

    INLINE = "inline"
    PREFIX = "prefix"


@dataclass(frozen=True)
class Column:
    """One column: its name, Arrow type, unit (or None) and a line of meaning."""

    name: str
    type: pa.DataType
    meaning: str
    unit: str | None = None


@dataclass(frozen=True)
class Table:
    """One table: its grain ("one row per ..."), key and columns."""

    name: str
    grain: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema, in column order."""
        return pa.schema([(c.name, c.type) for c in self.columns])

    @property
    def stored_schema(self) -> pa.Schema:
        """The schema on the way to disk: columns of few distinct texts hold each text once."""
        few = pa.dictionary(pa.int32(), pa.string())
        return pa.schema([(c.name, few if c.name in _FEW_TEXTS else c.type) for c in self.columns])


_FEW_TEXTS = frozenset(
    "file_id dialect kind detail phase stamp_kind stamp_source signature_id component mode domain "
    "role scheduler cluster format".split()
)

_I64, _I32, _F64, _STR, _BOOL = pa.int64(), pa.int32(), pa.float64(), pa.string(), pa.bool_()

EVIDENCE = (
    Column("file_id", _STR, "content's origin; survives renaming, rotation and compression"),
    Column("line", _I64, "1-based, counts \\n only"),
    Column(
        "byte_offset",
        _I64,
        "0-based start of the line, or of a JSON object in it, in the decompressed bytes",
        "bytes",
    ),
    Column("seq", _I64, "0-based byte position of the record itself: orders facts of one line"),
)
STAMP = (
    Column("stamp_us", _I64, "the time as printed; how to read it says stamp_kind", "us"),
    Column("stamp_kind", _STR, "utc, local, local_no_year, time_of_day or boot; null without time"),
    Column("stamp_source", _STR, "inline (the record printed it) or prefix (its carrier did)"),
    Column("stamp_resolution_s", _F64, "smallest step that the printed form can show", "s"),
)
WHO = (
    Column("rank", _I32, "global rank, from a launcher label or the record"),
    Column("node", _STR, "host name as printed"),
)

TRAIN_EVENT = Table(
    "train_event",
    "one row per event that a training log states",
    ("file_id", "seq"),
    (
        *EVIDENCE,
        *STAMP,
        Column("elapsed_s", _F64, "clock of the printing process since it started counting", "s"),
        Column("elapsed_resolution_s", _F64, "smallest step of elapsed_s", "s"),
        *WHO,
        Column("dialect", _STR, "dialect that read the line"),
        Column("kind", _STR, "step, evaluation, checkpoint_save, checkpoint_load, resume, ..."),
        Column("detail", _STR, "refines kind: overflow_skip, completed, progress_bar, ..."),
        Column("phase", _STR, "instant, begin or end"),
        Column("step_from", _I64, "first step of the interval, where the line states it"),
        Column("step_to", _I64, "last step completed (1-based) or the step of a checkpoint"),
        Column("n_steps", _I64, "steps that the line covers, where it states them"),
        Column("total_steps", _I64, "planned last step"),
        Column("duration_ms", _F64, "duration that the line states, whole event", "ms"),
        Column("step_ms", _F64, "mean duration of one step that the line states", "ms"),
        Column("global_batch", _I64, "samples per step over all ranks"),
        Column("world_size", _I64, "ranks that take part"),
        Column("consumed_samples", _I64, "samples read since the run began"),
        Column("tokens", _I64, "tokens read since the run began"),
        Column("loss", _F64, "training or evaluation loss"),
        Column("grad_norm", _F64, "norm of the gradient"),
        Column("lr", _F64, "learning rate"),
        Column("tflops", _F64, "TFLOP/s per GPU as printed"),
        Column("tps", _F64, "tokens per second per GPU as printed"),
        Column("skipped_steps", _I64, "steps of the interval whose update was discarded"),
        Column("nan_steps", _I64, "steps of the interval with a NaN"),
        Column("checkpoint_path", _STR, "directory as printed; never opened"),
        Column("checkpoint_tier", _STR, "persistent, local or memory"),
        Column("is_async", _BOOL, "the save goes on in the background"),
        Column("message", _STR, "short text of the line, bounded"),
    ),
)

FAULT_EVENT = Table(
    "fault_event",
    "one row per line that a failure signature matched",
    ("file_id", "seq", "signature_id"),
    (
        *EVIDENCE,
        *STAMP,
        *WHO,
        Column("gpu", _STR, "PCI address or device index as printed"),
        Column("signature_id", _STR, "row of the failure catalogue"),
        Column("component", _STR, "e.g. gpu.bus; the same word is incident.type"),
        Column("mode", _STR, "fail_stop, hang, fail_slow, precursor, context or benign"),
        Column("domain", _STR, "infrastructure, workload, operator or unknown"),
        Column("role", _STR, "root, either, symptom, cascade, teardown, context or recovery"),
        Column("priority", _I32, "order among roots: smaller explains more"),
        Column("count", _I64, "occurrences that the line reports"),
        Column("captures", pa.map_(_STR, _STR), "named groups of the signature"),
        Column("message", _STR, "the matched line, bounded"),
    ),
)

CLOCK_MARK = Table(
    "clock_mark",
    "one row per line that only shows what time it was, in logs without times on events",
    ("file_id", "seq"),
    (*EVIDENCE, *STAMP, *WHO),
)

_SACCT_TIMES = tuple(
    Column(f"{name}_us", _I64, f"{name} time as printed, read by stamp_kind", "us")
    for name in ("submit", "eligible", "start", "end")
)

ACCOUNTING_ROW = Table(
    "accounting_row",
    "one row per job-level or step-level record of a scheduler's accounting, duplicates included",
    ("file_id", "seq"),
    (
        *EVIDENCE,
        Column("scheduler", _STR, "slurm"),
        Column("cluster", _STR, "cluster that the row names"),
        Column("job_id", _STR, "job id as printed, without the step"),
        Column("step_id", _STR, "batch, extern, 0, ...; null for the job itself"),
        Column("native_id", _STR, "the scheduler's own key of the job (JobIDRaw without step)"),
        Column("array_job_id", _I64, "job id of the array"),
        Column("array_task_id", _I64, "index in the array"),
        Column("array_throttle", _I64, "tasks that may run at once, from [a-b%N]"),
        Column("het_offset", _I32, "component of a heterogeneous job"),
        Column("sluid", _STR, "Slurm's id of one particular run of a job"),
        Column("job_name", _STR, "name of the job or step"),
        Column("user", _STR, "user name or id"),
        Column("account", _STR, "account"),
        Column("partition", _STR, "partition"),
        Column("comment", _STR, "free text of the submitter, bounded"),
        Column("submit_line", _STR, "command line of the submission, bounded"),
        Column("work_dir", _STR, "working directory; never opened"),
        Column("stdout_path", _STR, "where the job's output goes; never opened"),
        *_SACCT_TIMES,
        Column("stamp_kind", _STR, "utc or local, for all times of the row"),
        Column("elapsed_s", _I64, "elapsed time as reported (excludes suspension)", "s"),
        Column("suspended_s", _I64, "suspended time", "s"),
        Column("time_limit_s", _I64, "time limit; null when unlimited or not printed", "s"),
        Column("state", _STR, "state as printed"),
        Column("state_base", _STR, "first word of the state, upper case"),
        Column("reason", _STR, "reason as printed"),
        Column("exit_code", _I32, "exit status"),
        Column("exit_signal", _I32, "signal"),
        Column("exit_trusted", _BOOL, "false where the source is known to print wrong codes"),
        Column("n_nodes", _I32, "nodes allocated"),
        Column("n_gpus", _I32, "GPUs allocated"),
        Column("nodes", pa.list_(_STR), "host names of the allocation"),
        Column("failed_nodes", pa.list_(_STR), "host names that the scheduler blames"),
        Column("restart_count", _I32, "restarts before this row"),
        Column("never_started", _BOOL, "no node was ever allocated"),
    ),
)

REJECT = Table(
    "reject",
    "one row per record that a format claimed and could not read",
    ("file_id", "seq"),
    (
        *EVIDENCE,
        Column("format", _STR, "format that claimed the record"),
        Column("reason", _STR, "why it could not be read"),
        Column("raw", _STR, "the record, bounded, bad bytes replaced"),
    ),
)

FACT_TABLES: tuple[Table, ...] = (
    TRAIN_EVENT,
    FAULT_EVENT,
    CLOCK_MARK,
    ACCOUNTING_ROW,
    REJECT,
)
"""Every table that a parser may fill, in the order in which they are written."""
