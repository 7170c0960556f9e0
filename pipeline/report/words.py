"""Words and number formats of the pages: for an engineer at three in the morning."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from pipeline.report.model import Attempt, Choice, Incident, Run

CATEGORIES = {
    "productive": ("Productive", "kept steps at full speed, and evaluation"),
    "slow": ("Slow steps", "time beyond the reference step time"),
    "lost_recompute": ("Lost work", "steps that ran and were rolled back or discarded"),
    "recovery": ("Recovery", "from the last progress to productive again"),
    "checkpoint": ("Checkpointing", "training stood still for a save"),
    "startup": ("Start-up", "before the first step, and the final shutdown"),
    "planned": ("Planned stops", "cancel, maintenance, time limit, preemption, hand-over"),
    "uncommitted": ("Uncommitted", "work after the last checkpoint that nothing continued"),
    "unexplained": ("Unexplained", "no log line says what happened"),
}
"""Category (and slow, its part of productive): name, meaning; in the order of legends."""

FASTER = ("Faster steps", "steps faster than the reference: time gained")
"""Name and meaning of slow where it is negative."""

CAUSES_SHOWN = 3
"""Causes that an answer names; the others stand in the loss table."""

_CAUSES = {
    "checkpoint": "Saving checkpoints",
    "startup": "Starting up",
    "planned": "Planned stops and the way back",
    "slow": "Steps slower than the reference",
    "uncommitted": "Work that no checkpoint kept",
    "unexplained": "Time that no log explains",
}

_TYPES = {
    "unattributed": "Failures without a cause in the logs",
    "gpu.memory": "GPU memory error",
    "gpu.bus": "GPU fell off the bus",
    "gpu.engine": "GPU engine fault",
    "gpu.firmware": "GPU firmware (GSP) fault",
    "gpu.power_thermal": "GPU power or heat",
    "gpu.other": "GPU fault",
    "gpu.unknown": "GPU fault of unknown kind",
    "nvlink.link": "NVLink error",
    "nvlink.switch": "NVSwitch error",
    "network.link": "Network link down or flapping",
    "network.nic": "Network card fault",
    "network.path": "Network path broken",
    "host.memory": "Host out of memory or memory error",
    "host.os": "Operating system fault",
    "host.cpu": "CPU fault",
    "host.pcie": "PCIe error",
    "host.power": "Host lost power",
    "host.other": "Host fault",
    "storage.fs": "File system error",
    "storage.disk": "Disk error",
    "storage.object_store": "Object store error",
    "storage.capacity": "Storage full",
    "comm.hang": "Collective hung",
    "comm.peer_lost": "Lost contact with a peer",
    "comm.bootstrap": "Communicator did not come up",
    "comm.system": "Communication error",
    "comm.abort": "Communicator aborted",
    "comm.store": "Rendezvous store lost",
    "process.exit": "A rank died, cause not logged",
    "software.user": "Error in the training code",
    "software.config": "Wrong configuration",
    "software.dataloader": "Data loader failed",
    "software.gpu_kernel": "GPU kernel error in the code",
    "software.gpu_oom": "GPU out of memory",
    "software.driver": "Driver error",
    "software.comm_lib": "Communication library error",
    "software.process": "Process crashed",
    "software.unknown": "Software error of unknown kind",
    "numerical.nan": "Loss became NaN",
    "numerical.sdc": "Silent data corruption",
    "numerical.discarded_updates": "Updates discarded by the loss scaler",
    "checkpoint.save": "Checkpoint could not be saved",
    "checkpoint.load": "Checkpoint could not be loaded",
    "checkpoint.corrupt": "Checkpoint was corrupt",
    "checkpoint.mismatch": "Checkpoint did not fit the job",
    "performance.straggler": "Straggling rank",
    "scheduler.node_fail": "Node failed (scheduler's verdict)",
    "scheduler.launch": "Job could not be launched",
    "scheduler.evict": "Job was evicted",
}

_UNATTRIBUTED = {
    "hang": "Hang without a cause in the logs",
    "fail_slow": "Slow stretch without a cause in the logs",
}

_ROLES = {
    "root": "another possible cause",
    "either": "cause or symptom",
    "symptom": "symptom",
    "cascade": "followed from it",
    "teardown": "clean-up",
    "context": "context",
    "recovery": "recovery",
    "accounting": "accounting",
}

_LINK_RULES = {
    "E1": "same run id",
    "E2": "requeue of the same job",
    "E4": "loads the run's checkpoint",
    "E5": "next task of a serial array",
    "E7": "same user, name and folder",
    "file": "next start in the same log",
}

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_NOISE = 1e-9
"""Sums of floats differ by less than this from what they stand for."""


def category(name: str, seconds: float | None) -> tuple[str, str]:
    """Name and meaning of a category; slow of less than nothing is a gain."""
    return FASTER if name == "slow" and (seconds or 0) < 0 else CATEGORIES[name]


def cause(name: str, kind: str | None, seconds: float = 0) -> str:
    """What cost the time, in words; `kind` is the type of an incident."""
    if name == "incident":
        return incident_type(kind)
    if name == "slow" and seconds < 0:
        return "Steps faster than the reference"
    if name == "slow" and kind is not None:
        return incident_type(kind, "fail_slow")
    return _CAUSES.get(name, name.replace("_", " ").capitalize())


def incident_type(kind: str | None, mode: str | None = None) -> str:
    """The type of an incident in words; the type itself where there are none."""
    if kind in (None, "unattributed") and mode in _UNATTRIBUTED:
        return _UNATTRIBUTED[mode]
    title = _TYPES.get(kind or "unattributed", kind or "unattributed")
    return f"Slowed: {title}" if mode == "fail_slow" else title


def role(name: str, *, is_root: bool, confidence: str) -> str:
    """The part of a line in an incident; the chosen root of an unattributed one is only a hint."""
    if is_root:
        return "best hint" if confidence == "unattributed" else "root"
    return _ROLES.get(name, name)


def link_rule(rule: str | None, confidence: float | None) -> str:
    """Why an attempt belongs to its run; with the rule's name where a confidence is given."""
    if rule is None:
        return "first attempt"
    sure = "" if confidence is None else f" ({rule}, {ratio(confidence, 2)})"
    return _LINK_RULES.get(rule, rule) + sure


def attempt_end(attempt: Attempt, run: Run) -> str:
    """How an attempt ended: by its accounting, else as its last launch tells."""
    if attempt.end_kind not in (None, "unknown", "open"):
        return str(attempt.end_kind).replace("_", " ")
    launches = [x for x in run.launches if x.attempt_id == attempt.attempt_id]
    if launches and launches[-1].end_state is not None:
        return f"{launches[-1].end_state}: {launches[-1].end_rule or 'no rule'}"
    return attempt.end_kind or "unknown"


def duration(seconds: float | None) -> str:
    """Seconds in the two units that matter: `42.5 s`, `12 min 5 s`, `5 h 12 min`, `3 d 4 h`."""
    if seconds is None:
        return "unknown"
    if seconds < 0:
        return _negative(duration(-seconds))
    if seconds < 10:
        return f"{_rounded(seconds, 2)} s" if seconds > _NOISE else "0 s"
    if round(seconds, 1) < _MINUTE:
        return f"{seconds:.1f} s"
    for size, big, small_size, small in (
        (_HOUR, "min", 1, "s"), (2 * _DAY, "h", _MINUTE, "min"), (float("inf"), "d", _HOUR, "h"),
    ):  # fmt: skip
        whole = round(seconds / small_size)
        if whole * small_size < size:
            per_big = {"min": 60, "h": 60, "d": 24}[big]
            high, low = divmod(whole, per_big)
            return f"{high} {big} {low} {small}" if low else f"{high} {big}"
    raise AssertionError(seconds)  # the last size has no limit


def seconds(value: float | None) -> str:
    """`1,234.5 s`."""
    return "unknown" if value is None else f"{amount(value)} s"


def amount(value: float) -> str:
    """A number with one decimal, thousands separated."""
    return _negative(amount(-value)) if value < 0 else _rounded(value, 1)


def share(value: float | None) -> str:
    """A share as percentage with one decimal; only exact ones print as 0 % and 100 %."""
    if value is None:
        return "unknown"
    return _negative(share(-value)) if value < 0 else f"{_rounded(value * 100, 1, whole=100)}%"


def ratio(value: float, digits: int = 3) -> str:
    """A TOR, speed or confidence; only exact ones print as 0 and 1."""
    return _negative(ratio(-value, digits)) if value < 0 else _rounded(value, digits, whole=1)


def number(value: float | None) -> str:
    """A count or an amount, three figures or more, with thousands separated."""
    if value is None:
        return "unknown"
    if isinstance(value, int) or abs(value) >= 100:
        return f"{value:,.0f}"
    if value < 0:
        return _negative(number(-value))
    return f"{value:,.1f}" if value >= 10 else _rounded(value, 2)


def _rounded(value: float, digits: int, whole: float | None = None) -> str:
    """A number of 0 or more; one that is not 0 or `whole` but would print so as a bound.

    `<0.01` above 0, `>0.99` below 1, `>1.00` above 1. The noise of sums counts as exact.
    """
    text, step = f"{value:,.{digits}f}", 10.0**-digits
    if value > _NOISE and text == f"{0:.{digits}f}":
        return f"<{step:.{digits}f}"
    if whole is not None and text == f"{whole:,.{digits}f}" and abs(value - whole) > _NOISE:
        return f">{whole - step if value < whole else whole:,.{digits}f}"
    return text


def _negative(text: str) -> str:
    """The text of a number with its sign turned, and with it the direction of a bound."""
    turned = {"<": ">-", ">": "<-"}
    return turned[text[0]] + text[1:] if text[0] in turned else f"-{text}"


def size(n_bytes: int) -> str:
    """Bytes in decimal units."""
    amount = float(n_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:,.1f} TB"


def moment(at: datetime | None) -> str:
    """`2026-02-01 04:05:06` in UTC."""
    if at is None:
        return "unknown"
    return (at.astimezone(UTC) + timedelta(microseconds=500_000)).strftime("%Y-%m-%d %H:%M:%S")


def tor(low: float | None, high: float | None, has_interval: bool) -> str:
    """TOR with three decimals, or the interval that unexplained time leaves."""
    if low is None:
        return "unknown"
    if has_interval and high is not None and ratio(low) != ratio(high):
        return f"{ratio(low)}\N{EN DASH}{ratio(high)}"
    return ratio(low)


def counted(n: int, noun: str, plural: str | None = None) -> str:
    """`1 incident`, `2 incidents`."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {plural or noun + 's'}"


def shown_file(path: str, root: str) -> str:
    """A path without the folder that all files of the report share."""
    return path[len(root) :] if root and path.startswith(root) else path


def some(names: Sequence[str], shown: int = 3, n: int | None = None) -> str:
    """The first names, and how many more there are; `n` in all where not all are given."""
    more = (len(names) if n is None else n) - shown
    return ", ".join(names[:shown]) + (f" and {more:,} more" if more > 0 else "")


def covered(runs: Sequence[Run]) -> str:
    """The time that runs cover, from the first start to the last end."""
    if not runs:
        return "no runs"
    start_at, end_at = min(r.start_at for r in runs), max(r.end_at for r in runs)
    return f"{moment(start_at)} to {moment(end_at)} UTC"


def choice(chosen: Choice) -> str:
    """Which runs were asked for, and that they are not cut at the window."""
    which = "Only runs" if chosen.run is None else f"Only runs called {chosen.run}"
    which += "" if chosen.cluster is None else f" of cluster {chosen.cluster}"
    since = "" if chosen.since is None else f" that end after {moment(chosen.since)} UTC"
    until = "" if chosen.until is None else f" that start before {moment(chosen.until)} UTC"
    whole = "" if chosen.since is chosen.until is None else "; each is shown and counted whole"
    return f"{which}{since}{' and' if since and until else ''}{until}{whole}."


def cost(i: Incident) -> str:
    """What the cost of an incident went into."""
    parts = [
        f"{duration(seconds)} {what}"
        for seconds, what in ((i.lost_s, "redone"), (i.recovery_s, "recovery"), (i.slow_s, "slow"))
        if seconds is None or seconds > 0
    ]
    return ", ".join(parts) or "nothing"


def evidence(i: Incident) -> str:
    """How many lines speak of an incident, and how many occurrences they report."""
    lines = counted(i.n_evidence_lines, "line")
    if (i.n_evidence or 0) <= i.n_evidence_lines:
        return f"{lines} of evidence"
    return f"{lines} of evidence, {counted(i.n_evidence or 0, 'occurrence')}"


def more_evidence(i: Incident) -> str | None:
    """`and 8 more lines`; None where a report shows them all."""
    more = i.n_evidence_lines - len({(e.file_id, e.line) for e in i.evidence})
    return f"and {counted(more, 'more line')}" if more > 0 else None


def unread_training(paths: Sequence[str]) -> str:
    """The warning about training logs of an unknown dialect."""
    logs = counted(len(paths), "log that looks like training", "logs that look like training")
    return f"no dialect reads the steps of {logs}: {some(paths)}; see `wallsplit explain FILE`"


def lost(lost_s: float | None, wall_s: float) -> str:
    """`1 h of 2 h lost`; where steps beat the reference by more than was lost, what was gained."""
    if lost_s is not None and lost_s < 0:
        return f"{duration(-lost_s)} gained in {duration(wall_s)}"
    return f"{duration(lost_s)} of {duration(wall_s)} lost"


def gpu_hours(hours: float | None) -> str:
    """`20.5 GPU-hours`."""
    return "GPU-hours unknown" if hours is None else f"{number(hours)} GPU-hours"


def phase(name: str) -> str:
    """A phase of a segment in words."""
    return name.replace("_", " ").capitalize()


def change(seconds_added: float) -> str:
    """A number of seconds added to a clock: `+1 h`, `-2 min 5 s`."""
    return f"{'+' if seconds_added > 0 else ''}{duration(seconds_added)}"


def signed(value: float) -> str:
    """A change of TOR: `+0.012`, `-0.300`."""
    text = ratio(value)
    return f"+{text}" if value > 0 and text[0].isdigit() else text


def run_name(run: Run) -> str:
    """The name of a run, bounded; its id where it has none."""
    name = run.name or run.run_id
    return name if len(name) <= 100 else name[:99] + "\N{HORIZONTAL ELLIPSIS}"


def reference(run: Run) -> str:
    """How the reference step time was found."""
    if run.reference_step_s is None:
        return "no usable step times in the logs"
    found = f"median of {counted(run.n_healthy_steps or 0, 'healthy step')}"
    if run.reference_p10_s is not None:
        found += f", 10th percentile {step_time(run.reference_p10_s)}"
    return found


def step_time(seconds: float | None) -> str:
    """The time of one step with four figures."""
    if seconds is None:
        return "unknown"
    return f"{seconds:.4g} s" if seconds >= 1 else f"{seconds * 1000:.4g} ms"
