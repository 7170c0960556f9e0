"""Every table of a lake: grain, key, columns, units, meaning. Docs and checks are made from here.

Facts come from `parsers.tables`; the tables below are made from them by the stages in `sql/`.
Where a fact table and a timeline table share a name, the timeline table is the resolved view.
"""

from __future__ import annotations

import pyarrow as pa

from parsers.tables import ACCOUNTING_ROW, CLOCK_MARK, REJECT, Column, Table

_I64, _I32, _F64, _STR, _BOOL = pa.int64(), pa.int32(), pa.float64(), pa.string(), pa.bool_()
_AT = pa.timestamp("us", tz="UTC")
_NAMES = pa.list_(_STR)

_PLACE = (
    Column("file_id", _STR, "content's origin; survives renaming, rotation and compression"),
    Column("line", _I64, "1-based, counts \\n only"),
    Column("byte_offset", _I64, "0-based start of the line in the decompressed bytes", "bytes"),
)
_WHEN = (
    Column("occurred_at", _AT, "instant, resolved over all files; null where nothing tells"),
    Column("time_source", _STR, "inline, prefix, interpolated, cumulative, scheduler or mtime"),
    Column("time_error_s", _F64, "bound of the error of occurred_at", "s"),
)

FILE = Table(
    "file",
    "one row per log file known to the lake",
    ("file_id",),
    (
        Column("file_id", _STR, "content's origin; survives renaming, rotation and compression"),
        Column("log_id", _STR, "first file of the log that it is part of; its own id if alone"),
        Column("part_no", _I64, "place in that log, from 1: rotated files are one log"),
        Column("cluster", _STR, "cluster that the file belongs to"),
        Column("path", _STR, "newest path under which the content was seen"),
        Column("file_name", _STR, "last part of the path"),
        Column("format", _STR, "recognised format"),
        Column("dialect", _STR, "dialect whose step lines are used; null without step lines"),
        Column(
            "status",
            _STR,
            "parsed, truncated, unreadable, waiting, unrecognised, failed or superseded",
        ),
        Column("status_detail", _STR, "why, where status is not parsed"),
        Column("compression", _STR, "gz, zst or null"),
        Column("timezone", _STR, "IANA zone in which times without offset are read"),
        Column("n_bytes", _I64, "decompressed bytes parsed so far", "bytes"),
        Column("n_lines", _I64, "lines parsed so far"),
        Column(
            "n_claimed_lines",
            _I64,
            "lines, or objects of JSON, that gave a fact or a reject",
        ),
        Column("n_rejects", _I64, "records that a format claimed and could not read"),
        Column("first_at", _AT, "first instant in the file"),
        Column("last_at", _AT, "last instant in the file"),
        Column("modified_at", _AT, "modification time of the file"),
    ),
)

ATTEMPT = Table(
    "attempt",
    "one row per allocation of one job; without accounting one row per process start in a log",
    ("attempt_id",),
    (
        Column("attempt_id", _STR, "made from scheduler, cluster, native id and submit time"),
        Column("cluster", _STR, "cluster"),
        Column("scheduler", _STR, "slurm; null for an attempt known only from a log"),
        Column("job_id", _STR, "job id as printed"),
        Column("native_id", _STR, "the scheduler's own key (JobIDRaw)"),
        Column("array_job_id", _I64, "job id of the array"),
        Column("array_task_id", _I64, "index in the array"),
        Column("job_name", _STR, "job name"),
        Column("user", _STR, "user name or id"),
        Column("submit_at", _AT, "submission"),
        Column("eligible_at", _AT, "when nothing but resources was missing"),
        Column("start_at", _AT, "start of the allocation"),
        Column("end_at", _AT, "end of the allocation; null while open"),
        Column("time_error_s", _F64, "resolution of these instants", "s"),
        Column("state", _STR, "state as printed"),
        Column("end_kind", _STR, "completed, app_fail, oom, timeout, ..., open, unknown"),
        Column("exit_code", _I32, "exit status"),
        Column("exit_signal", _I32, "signal"),
        Column("exit_trusted", _BOOL, "false where the source prints wrong codes"),
        Column("n_nodes", _I32, "nodes allocated"),
        Column("n_gpus", _I32, "GPUs allocated"),
        Column("nodes", _NAMES, "host names"),
        Column("failed_nodes", _NAMES, "host names that the scheduler blames"),
        Column("restart_count", _I32, "restarts before this attempt"),
        Column("never_started", _BOOL, "ended without an allocation"),
        Column("is_open", _BOOL, "not ended when the accounting was taken"),
        Column("is_runaway", _BOOL, "still RUNNING long after its time limit"),
        Column("work_dir", _STR, "working directory; never opened"),
        Column("stdout_path", _STR, "where the job's output goes; never opened"),
        Column("comment", _STR, "free text of the submitter"),
        Column("submit_line", _STR, "command line of the submission"),
        Column("array_throttle", _I64, "tasks of the array that may run at once"),
        *_PLACE,
    ),
)

ATTEMPT_STEP = Table(
    "attempt_step",
    "one row per step of an attempt (batch, extern, 0, ...)",
    ("native_id", "step_id", "start_at", "file_id", "line"),
    (
        Column("attempt_id", _STR, "null where the job's own row is missing"),
        Column("cluster", _STR, "cluster"),
        Column("native_id", _STR, "the scheduler's own key of the job"),
        Column("step_id", _STR, "batch, extern, 0, ..."),
        Column("step_name", _STR, "name of the step"),
        Column("start_at", _AT, "start"),
        Column("end_at", _AT, "end; may lie after the end of the job"),
        Column("state", _STR, "state as printed"),
        Column("exit_code", _I32, "exit status"),
        Column("exit_signal", _I32, "signal"),
        *_PLACE,
    ),
)

TRAIN_EVENT = Table(
    "train_event",
    "one row per event of a training log, with its resolved time and step interval",
    ("file_id", "seq"),
    (
        Column("kind", _STR, "step, evaluation, checkpoint_save, checkpoint_load, resume, ..."),
        Column("detail", _STR, "refines kind"),
        Column("phase", _STR, "instant, begin or end"),
        *_WHEN,
        Column("step_from", _I64, "first step of the interval"),
        Column("step_to", _I64, "last step of the interval, 1-based"),
        Column("n_steps", _I64, "steps in the interval"),
        Column("duration_ms", _F64, "duration of the event as stated", "ms"),
        Column("step_ms", _F64, "mean duration of one step as stated", "ms"),
        Column("world_size", _I64, "ranks that take part"),
        Column("global_batch", _I64, "samples per step over all ranks"),
        Column("total_steps", _I64, "planned last step"),
        Column("loss", _F64, "training or evaluation loss"),
        Column("grad_norm", _F64, "norm of the gradient"),
        Column("lr", _F64, "learning rate"),
        Column("tflops", _F64, "TFLOP/s per GPU as printed"),
        Column("tps", _F64, "tokens per second per GPU as printed"),
        Column("skipped_steps", _I64, "steps whose update was discarded"),
        Column("nan_steps", _I64, "steps with a NaN"),
        Column("checkpoint_path", _STR, "directory as printed; never opened"),
        Column("checkpoint_tier", _STR, "persistent, local or memory"),
        Column("is_async", _BOOL, "the save goes on in the background"),
        Column("rank", _I32, "global rank"),
        Column("node", _STR, "host name as printed"),
        Column("dialect", _STR, "dialect that read the line"),
        Column("launch_in_file", _I32, "process start in this file, from 1"),
        Column("message", _STR, "short text of the line"),
        *_PLACE,
        Column("seq", _I64, "byte position of the record: file order"),
    ),
)

FAULT_EVENT = Table(
    "fault_event",
    "one row per line that a failure signature matched",
    ("file_id", "seq", "signature_id"),
    (
        Column("signature_id", _STR, "row of the failure catalogue"),
        Column("component", _STR, "e.g. gpu.bus; the same word is incident.type"),
        Column("mode", _STR, "fail_stop, hang, fail_slow, precursor, context or benign"),
        Column("domain", _STR, "infrastructure, workload, operator or unknown"),
        Column("role", _STR, "root, either, symptom, cascade, teardown, context or recovery"),
        Column("priority", _I32, "order among roots: smaller explains more"),
        *_WHEN,
        Column("rank", _I32, "global rank"),
        Column("node", _STR, "host name as printed"),
        Column("gpu", _STR, "PCI address or device index"),
        Column("count", _I64, "occurrences that the line reports"),
        Column("captures", pa.map_(_STR, _STR), "named groups of the signature"),
        Column("message", _STR, "the matched line, bounded"),
        *_PLACE,
        Column("seq", _I64, "byte position of the record: file order"),
    ),
)

RUN = Table(
    "run",
    "one row per training run: attempts that continue each other's work",
    ("run_id",),
    (
        Column("run_id", _STR, "made from the first attempt"),
        Column("cluster", _STR, "cluster"),
        Column("name", _STR, "job name, or file name without accounting"),
        Column("start_at", _AT, "start of the first attempt"),
        Column("end_at", _AT, "end of the last attempt; of an open run the last evidence"),
        Column("is_open", _BOOL, "the run had not ended when the logs were taken"),
        Column("end_state", _STR, "completed, planned, failed, open or unknown"),
        Column("n_attempts", _I64, "attempts that started"),
        Column("n_launches", _I64, "process starts"),
        Column("n_incidents", _I64, "incidents"),
        Column("n_gpus", _I64, "most GPUs that an attempt held"),
        Column("wall_s", _F64, "T_obs: end - start", "s"),
        Column("queue_s", _F64, "first submit to first start", "s"),
        Column("tor_observed", _F64, "observed TOR, equal to tor_low; null without step times"),
        Column("tor_low", _F64, "unexplained time counted as lost"),
        Column("tor_high", _F64, "unexplained time counted as productive"),
        Column("tor_observed_gpu", _F64, "observed TOR weighted by GPUs"),
        Column("t_opt_s", _F64, "kept steps at the reference step time and kept evaluation", "s"),
        Column("reference_step_s", _F64, "fault-free step time of the key with most steps", "s"),
        Column("reference_p10_s", _F64, "10th percentile of the healthy step times", "s"),
        Column("n_healthy_steps", _I64, "steps that the reference rests on"),
        Column("steps_kept", _I64, "steps whose result survives"),
        Column("steps_lost", _I64, "complete executions that were rolled back"),
        Column("steps_skipped", _I64, "kept executions whose update was discarded"),
        Column("steps_uncommitted", _I64, "steps after the last durable checkpoint"),
        Column("unexplained_share", _F64, "unexplained seconds / wall_s"),
        Column("time_error_s", _F64, "largest error bound of a step time used", "s"),
    ),
)

RUN_ATTEMPT = Table(
    "run_attempt",
    "one row per attempt of a run",
    ("run_id", "attempt_id"),
    (
        Column("run_id", _STR, "run"),
        Column("attempt_id", _STR, "attempt"),
        Column("ordinal", _I64, "order in the run, from 1"),
        Column("link_rule", _STR, "why it belongs to the run; null for the first attempt"),
        Column("link_confidence", _F64, "0 to 1"),
    ),
)

RUN_LINK = Table(
    "run_link",
    "one row per reason to put two attempts into one run, used or only suggested",
    ("attempt_id", "prev_attempt_id", "rule"),
    (
        Column("prev_attempt_id", _STR, "earlier attempt"),
        Column("attempt_id", _STR, "later attempt"),
        Column("rule", _STR, "E1 ... E7, or file for starts in one log"),
        Column("confidence", _F64, "0 to 1"),
        Column("is_used", _BOOL, "confidence reached the threshold"),
        Column("evidence", _STR, "what agrees, or what speaks against it"),
    ),
)

LAUNCH = Table(
    "launch",
    "one row per process start of a run",
    ("run_id", "launch_no"),
    (
        Column("run_id", _STR, "run"),
        Column("launch_no", _I64, "order in the run, from 1"),
        Column("attempt_id", _STR, "attempt it ran in"),
        Column("file_id", _STR, "log that tells of it"),
        Column("launch_in_file", _I32, "order in that file, from 1"),
        Column("start_at", _AT, "first sign of the process"),
        Column("end_at", _AT, "end of the process, or of its attempt"),
        Column("first_step", _I64, "first step executed"),
        Column("last_step", _I64, "last step completed"),
        Column("end_state", _STR, "failed, planned, completed, open or unknown"),
        Column("end_rule", _STR, "what end_state rests on"),
        Column("log_rule", _STR, "why the log belongs to the attempt"),
        Column("log_confidence", _F64, "0 to 1"),
        Column("clock_offset_s", _F64, "added to the log's times to fit its allocation", "s"),
    ),
)

STEP_INTERVAL = Table(
    "step_interval",
    "one row per step line that counts: the steps it covers and the time they took",
    ("run_id", "launch_no", "step_to"),
    (
        Column("run_id", _STR, "run"),
        Column("launch_no", _I64, "launch"),
        Column("attempt_id", _STR, "attempt"),
        Column("step_from", _I64, "first step"),
        Column("step_to", _I64, "last step"),
        Column("n_steps", _I64, "steps"),
        Column("n_skipped", _I64, "steps whose update was discarded"),
        Column("n_lost", _I64, "steps rolled back later"),
        Column("start_at", _AT, "end of whatever came before"),
        Column("end_at", _AT, "end of the last step"),
        Column("train_s", _F64, "time in steps, saves and evaluations taken out", "s"),
        Column("reference_s", _F64, "n_steps at the reference step time", "s"),
        *_PLACE,
    ),
)

CHECKPOINT = Table(
    "checkpoint",
    "one row per checkpoint save that a log shows",
    ("run_id", "launch_no", "seq"),
    (
        Column("run_id", _STR, "run"),
        Column("launch_no", _I64, "launch"),
        Column("step", _I64, "step that it holds; null where no line tells"),
        Column("begin_at", _AT, "begin of the blocking save or of the staging"),
        Column("durable_at", _AT, "when it was known to be complete; null if never shown"),
        Column("is_durable", _BOOL, "complete, or loaded later"),
        Column("is_async", _BOOL, "written in the background"),
        Column("tier", _STR, "persistent, local or memory"),
        Column("path", _STR, "directory as printed; never opened"),
        *_PLACE,
        Column("seq", _I64, "byte position of the record: file order"),
    ),
)

SEGMENT = Table(
    "segment",
    "one row per maximal stretch of equal use of a run's wall clock; segments tile the run",
    ("segment_id",),
    (
        Column("segment_id", _STR, "made from run and start"),
        Column("run_id", _STR, "run"),
        Column("attempt_id", _STR, "attempt; null between attempts"),
        Column("launch_no", _I64, "launch that ran, or whose end is paid for"),
        Column("start_at", _AT, "start, included"),
        Column("end_at", _AT, "end, excluded"),
        Column("duration_s", _F64, "end - start", "s"),
        Column("category", _STR, "productive, lost_recompute, checkpoint, recovery, startup, ..."),
        Column("phase", _STR, "train, evaluation, save, detection, requeue_wait, ..."),
        Column("performance_ratio", _F64, "reference step time / step time; 0 if not productive"),
        Column("n_steps", _I64, "complete steps inside"),
        Column("n_gpus", _I64, "GPUs held; null between attempts"),
        Column("incident_id", _STR, "incident that caused it; null where none did"),
        Column("cause", _STR, "incident, checkpoint, startup, planned, slow, uncommitted, ..."),
        Column("rule", _STR, "rule that made the segment"),
        *_PLACE,
    ),
)

LOSS = Table(
    "loss",
    "one row per cause that cost a run time; shares sum to 1 - TOR",
    ("run_id", "cause", "incident_id"),
    (
        Column("run_id", _STR, "run"),
        Column("cause", _STR, "incident, checkpoint, startup, planned, slow, uncommitted, ..."),
        Column("type", _STR, "component of the incident; null for other causes"),
        Column("incident_id", _STR, "incident; null for other causes"),
        Column("seconds", _F64, "time that made no progress", "s"),
        Column("share", _F64, "seconds / wall_s"),
        Column("gpu_hours", _F64, "GPUs held meanwhile; null without a GPU count", "h"),
    ),
)

INCIDENT = Table(
    "incident",
    "one row per failure that ended an attempt or a launch, made steps useless, or slowed them",
    ("incident_id",),
    (
        Column("incident_id", _STR, "made from run and launch"),
        Column("run_id", _STR, "run"),
        Column("attempt_id", _STR, "attempt that it ended"),
        Column("launch_no", _I64, "launch that it ended"),
        Column("onset_at", _AT, "last progress, or first sign if earlier"),
        Column("detected_at", _AT, "first error line, else end of the attempt"),
        Column("ended_at", _AT, "end of the attempt or launch"),
        Column("resumed_at", _AT, "first kept step after it; null if never"),
        Column("type", _STR, "component.type, or unattributed"),
        Column("signature_id", _STR, "signature of the root, or the best hint"),
        Column("mode", _STR, "fail_stop, hang or fail_slow"),
        Column("domain", _STR, "infrastructure, workload, operator or unknown"),
        Column("nodes", _NAMES, "suspected nodes"),
        Column("gpus", _NAMES, "suspected GPUs"),
        Column("lost_steps", _I64, "complete steps rolled back"),
        Column("lost_s", _F64, "time of those steps", "s"),
        Column("recovery_s", _F64, "detection to resumed", "s"),
        Column("slow_s", _F64, "time lost at reduced speed", "s"),
        Column("total_s", _F64, "lost_s + recovery_s + slow_s", "s"),
        Column("gpu_hours", _F64, "GPUs held meanwhile; null without a GPU count", "h"),
        Column("n_attempts", _I64, "attempts that it ended, or that it slowed"),
        Column("confidence", _STR, "confirmed, likely, weak or unattributed"),
        Column("n_evidence", _I64, "occurrences of the facts that speak of it, repeats included"),
        Column("summary", _STR, "the root's line, bounded"),
        *_PLACE,
    ),
)

INCIDENT_EVIDENCE = Table(
    "incident_evidence",
    "one row per fact that speaks of an incident",
    ("incident_id", "file_id", "seq", "signature_id"),
    (
        Column("incident_id", _STR, "incident"),
        Column("signature_id", _STR, "signature; null for an accounting row"),
        Column("role", _STR, "root, either, symptom, cascade, teardown, context or accounting"),
        Column("is_root", _BOOL, "chosen as the root of the incident"),
        Column("occurred_at", _AT, "instant; null where nothing tells"),
        Column("node", _STR, "host name"),
        Column("rank", _I32, "global rank"),
        Column("count", _I64, "occurrences"),
        Column("message", _STR, "the line, bounded"),
        *_PLACE,
        Column("seq", _I64, "byte position of the record: file order"),
    ),
)

UP_STRETCH = Table(
    "up_stretch",
    "one row per launch of a run that was up or failed: time at risk, and which failure ended it",
    ("run_id", "launch_no"),
    (
        Column("run_id", _STR, "run"),
        Column("launch_no", _I64, "launch"),
        Column("attempt_id", _STR, "attempt it ran in"),
        Column("start_at", _AT, "begin of its up time; onset of the failure where there is none"),
        Column("end_at", _AT, "end of its up time; onset of the failure where there is none"),
        Column(
            "up_s", _F64, "training, evaluating and saving, kept or not; 0 if it never was up", "s"
        ),
        Column("node_hours", _F64, "the same by nodes; null without a node count", "h"),
        Column("gpu_hours", _F64, "the same by GPUs; null without a GPU count", "h"),
        Column("incident_id", _STR, "failure that ended it; null where it ended otherwise"),
        Column("type", _STR, "type of that failure"),
        Column("rule", _STR, "steps, or allocation where no log tells what ran"),
    ),
)

FAILURE_RATE = Table(
    "failure_rate",
    "one row per type and mode of failure, and `all` for those that stop a run",
    ("type", "mode"),
    (
        Column("type", _STR, "component.type, unattributed, or all"),
        Column("mode", _STR, "fail_stop, hangs included, or fail_slow"),
        Column("n_events", _I64, "incidents"),
        Column("n_raw", _I64, "attempts that they ended, retries included"),
        Column("exposure_hours", _F64, "up time at risk, in the unit", "h"),
        Column("exposure_unit", _STR, "job_hour, node_hour or gpu_hour"),
        Column("clock", _STR, "up: the clock runs while the job trains, evaluates or saves"),
        Column("rate_per_khour", _F64, "incidents per 1000 hours of exposure", "1/kh"),
        Column("ci_low", _F64, "95 % interval of the rate", "1/kh"),
        Column("ci_high", _F64, "95 % interval of the rate", "1/kh"),
        Column("mtbf_s", _F64, "exposure per incident; null without an incident", "s"),
        Column("mtbf_low_s", _F64, "95 % interval", "s"),
        Column("mtbf_high_s", _F64, "95 % interval; null without an incident", "s"),
        Column("method", _STR, "how the interval was made"),
        Column("trend", _STR, "none, worsening, improving or too_few_events"),
        Column("trend_p", _F64, "two-sided p of MIL-HDBK-189; null below two incidents"),
        Column("end_rate_per_khour", _F64, "rate at the end of the data; null without trend",
               "1/kh"),
        Column("dispersion", _F64, "variance over mean of counts; above 1: bursts"),
        Column("job_hours", _F64, "up hours of all jobs", "h"),
        Column("node_hours", _F64, "up hours by nodes; null without node counts", "h"),
        Column("gpu_hours", _F64, "up hours by GPUs; null without GPU counts", "h"),
        Column("notes", _STR, "what limits the row; null where nothing does"),
    ),
)  # fmt: skip

DISTRIBUTION_FIT = Table(
    "distribution_fit",
    "one row per law fitted to the durations of one type",
    ("type", "quantity", "law"),
    (
        Column("type", _STR, "type of failure, or all"),
        Column("quantity", _STR, "gap, detection, recovery, slow_gap or slow_duration"),
        Column("law", _STR, "exponential, weibull, lognormal or gamma"),
        Column("parameters", pa.map_(_STR, _F64), "by name; times in seconds"),
        Column("log_likelihood", _F64, "of durations in seconds"),
        Column("aicc", _F64, "Akaike's criterion for few events; null where they are too few"),
        Column("bic", _F64, "Bayesian information criterion"),
        Column("n_events", _I64, "ends seen"),
        Column("n_censored", _I64, "durations without an end"),
        Column("gof_statistic", _F64, "Kolmogorov-Smirnov distance; null where not tested"),
        Column("gof_p", _F64, "its p-value by parametric bootstrap; null where not tested"),
        Column("is_chosen", _BOOL, "the law to use"),
        Column("converged", _BOOL, "false: the parameters are no estimates and null"),
        Column("interval_low", pa.map_(_STR, _F64), "95 % profile interval, by parameter"),
        Column("interval_high", pa.map_(_STR, _F64), "95 % profile interval, by parameter"),
        Column("seed", _I64, "seed of the bootstrap"),
        Column("note", _STR, "what limits the fit; null where nothing does"),
    ),
)

NODE_RATE = Table(
    "node_rate",
    "one row per node that was in a job: its failures against its share of the exposure",
    ("node",),
    (
        Column("node", _STR, "host name"),
        Column("n_events", _I64, "incidents that name it"),
        Column("node_hours", _F64, "up hours of jobs that held it", "h"),
        Column("p", _F64, "probability of at least so many by its share of the exposure"),
        Column("q", _F64, "p after Benjamini-Hochberg over all nodes"),
        Column("p_triple", _F64, "posterior probability of three times the mean rate"),
        Column("is_lemon", _BOOL, "2 incidents or more, and q <= 5 % or p_triple > 95 %"),
    ),
)

FIT_TABLES: tuple[Table, ...] = (FAILURE_RATE, DISTRIBUTION_FIT, NODE_RATE)
"""Tables that the fits write beside those of the timeline."""

TIMELINE_TABLES: tuple[Table, ...] = (
    FILE,
    ATTEMPT,
    ATTEMPT_STEP,
    TRAIN_EVENT,
    FAULT_EVENT,
    RUN,
    RUN_ATTEMPT,
    RUN_LINK,
    LAUNCH,
    STEP_INTERVAL,
    CHECKPOINT,
    SEGMENT,
    LOSS,
    INCIDENT,
    INCIDENT_EVIDENCE,
    UP_STRETCH,
)
"""Tables that the stages of `sql/` make, in the order in which reports and docs list them."""

ALL_TABLES: tuple[Table, ...] = (*TIMELINE_TABLES, *FIT_TABLES, ACCOUNTING_ROW, CLOCK_MARK, REJECT)
"""Every table that `wallsplit sql` can ask by name."""
