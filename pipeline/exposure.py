"""What a lake says about failures: up time at risk, times to failure, detection and recovery.

Observation model. A stretch is the up time of one launch; it ends by one failure or by something
else. For every type of failure all stretches are at risk; those that another type, a planned stop,
the end of the run or of the data ended are right-censored (competing risks). A fail-slow episode
does not end a stretch: its clock runs from the restart, or from the episode before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import duckdb
import numpy as np
from numpy.typing import NDArray

from pipeline.durations import Durations, Flags, Floats, Ints, durations
from pipeline.selection import History, Order, TypedDurations

ALL_TYPES = "all"
DEFAULT_RESOLUTION_S = 1.0  # of an instant in a run without steps

Columns = dict[str, NDArray[Any]]


class Mode(StrEnum):
    """Whether a failure ends progress or slows it."""

    FAIL_STOP = "fail_stop"  # hangs included
    FAIL_SLOW = "fail_slow"


class Cause(NamedTuple):
    """Failures that are counted together; type `all` are those of every type that stop a run."""

    type: str
    mode: Mode


_STRETCHES = """
select s.run_id, s.launch_no, s.up_s, s.node_hours, s.gpu_hours, s.type,
    coalesce(r.reference_step_s, $resolution) as step_s
from up_stretch as s
join run as r using (run_id)
order by s.start_at, s.run_id, s.launch_no
"""

_INCIDENTS = """
with up as (
    select
        i.incident_id,
        sum(epoch_us(least(s.end_at, i.onset_at)) - epoch_us(s.start_at)) / 1e6 as before_s
    from incident as i
    join segment as s
        on s.run_id = i.run_id and s.launch_no = i.launch_no and s.start_at < i.onset_at
        and s.category in ('productive', 'lost_recompute', 'checkpoint', 'uncommitted')
    group by all
)

select
    i.run_id, i.launch_no, i.type, i.domain, i.n_attempts,
    case when i.mode = 'fail_slow' then 'fail_slow' else 'fail_stop' end as mode,
    epoch_us(coalesce(u.end_at, i.onset_at)) as failed_us,
    -- without any log nothing tells when progress ended
    case when u.rule is distinct from 'allocation'
        then (epoch_us(i.detected_at) - epoch_us(i.onset_at)) / 1e6 end as detection_s,
    (epoch_us(coalesce(i.resumed_at, r.end_at)) - epoch_us(i.detected_at)) / 1e6 as recovery_s,
    (epoch_us(coalesce(i.resumed_at, r.end_at)) - epoch_us(i.onset_at)) / 1e6 as slow_duration_s,
    i.resumed_at is not null as is_over,
    coalesce(up.before_s, 0) as before_s,
    coalesce(r.reference_step_s, $resolution) as step_s
from incident as i
join run as r using (run_id)
left join up_stretch as u using (incident_id)
left join up using (incident_id)
order by i.onset_at, i.incident_id
"""

_PIECES = """
select epoch_us(s.start_at) as start_us, epoch_us(s.end_at) as end_us, s.n_gpus, a.n_nodes
from segment as s
join up_stretch as u using (run_id, launch_no)
left join attempt as a on a.attempt_id = s.attempt_id
where
    s.category in ('productive', 'lost_recompute', 'checkpoint', 'uncommitted')
    or (s.category = 'unexplained' and u.rule = 'allocation')
"""

_NODES = """
select node, sum(s.up_s) / 3600 as hours
from up_stretch as s
join attempt as a using (attempt_id), unnest(a.nodes) as u(node)
group by all
order by node
"""

_NODE_EVENTS = """
select node, count(*) as n
from incident as i, unnest(i.nodes) as u(node)
where i.mode <> 'fail_slow'
group by all
order by node
"""


@dataclass(frozen=True)
class Observed:
    """Columns of stretches, incidents and up segments, in order of time; one array each."""

    stretches: Columns
    incidents: Columns
    pieces: Columns
    node_hours: dict[str, float]
    node_events: dict[str, int]

    @property
    def causes(self) -> list[Cause]:
        """`all`, then every type and mode seen; nothing where nothing was up."""
        if self.stretches["up_s"].sum() <= 0:
            return []
        pairs = set(zip(self.incidents["type"], self.incidents["mode"], strict=True))
        return [
            Cause(ALL_TYPES, Mode.FAIL_STOP),
            *sorted(Cause(str(kind), Mode(mode)) for kind, mode in pairs),
        ]

    def chosen(self, cause: Cause) -> Flags:
        """The incidents of the cause."""
        is_mode = self.incidents["mode"] == cause.mode
        if cause.type == ALL_TYPES:
            return np.asarray(is_mode)
        return np.asarray(is_mode & (self.incidents["type"] == cause.type))


def observe(con: duckdb.DuckDBPyConnection) -> Observed:
    """What the timeline tables of a lake say; a connection of `database.connect`."""
    resolution = {"resolution": DEFAULT_RESOLUTION_S}
    return Observed(
        _columns(con.sql(_STRETCHES, params=resolution)),
        _columns(con.sql(_INCIDENTS, params=resolution)),
        _columns(con.sql(_PIECES)),
        dict(con.sql(_NODES).fetchall()),
        dict(con.sql(_NODE_EVENTS).fetchall()),
    )


def _columns(relation: duckdb.DuckDBPyRelation) -> Columns:
    table = relation.to_arrow_table()
    return {n: table[n].to_numpy(zero_copy_only=False) for n in table.column_names}


def hours(observed: Observed) -> dict[str, float | None]:
    """Up hours of all jobs by unit; null where nodes or GPUs are not known of all."""
    rows = observed.stretches
    return {
        "job_hour": float(rows["up_s"].sum() / 3600),
        "node_hour": _known_sum(rows["node_hours"]),
        "gpu_hour": _known_sum(rows["gpu_hours"]),
    }


def _known_sum(column: NDArray[Any]) -> float | None:
    values = column.astype(float)
    return None if np.isnan(values).any() else float(values.sum())


def unit_of(observed: Observed, cause: Cause, known: dict[str, float | None]) -> str:
    """The exposure of the cause: GPUs or nodes for what breaks with them, else the job."""
    domains = observed.incidents["domain"][observed.chosen(cause)]
    if cause.type == ALL_TYPES or "infrastructure" not in domains:
        return "job_hour"
    unit = "gpu_hour" if cause.type.startswith("gpu.") else "node_hour"
    return unit if known[unit] is not None else "job_hour"


def times_to_failure(observed: Observed, cause: Cause, unit: str) -> TypedDurations:
    """Up times to a failure of the cause, all other ends right-censored, and their history.

    A failure before any up time lies between 0 and one step.
    """
    rows = observed.stretches
    if cause.mode is Mode.FAIL_SLOW:
        sample, quantity = _slow_gaps(observed, cause), "slow_gap"
    else:
        ended_by = rows["type"]
        is_all = cause.type == ALL_TYPES
        seen = np.array([t is not None and (is_all or t == cause.type) for t in ended_by], bool)
        sample, quantity = _until(rows["up_s"], seen, rows["step_s"]), "gap"
    return TypedDurations(
        cause.type, quantity, sample, history(observed, cause, unit), Order.TIME
    )  # fmt: skip


def _until(up: Floats, seen: Flags, step: Floats) -> Durations:
    kept = seen | (up > 0)
    upper = np.where(seen & (up <= 0), step, np.nan)
    return durations(up[kept], seen[kept], upper=upper[kept])


def _slow_gaps(observed: Observed, cause: Cause) -> Durations:
    """Up times to an episode since the restart or the episode before, and what is left over."""
    rows, lines = observed.stretches, observed.incidents
    onsets: dict[tuple[str, int], list[float]] = {}
    for i in np.flatnonzero(observed.chosen(cause)):
        place = (lines["run_id"][i], lines["launch_no"][i])
        onsets.setdefault(place, []).append(float(lines["before_s"][i]))
    times: list[float] = []
    seen: list[bool] = []
    steps: list[float] = []
    columns = (rows[name] for name in ("run_id", "launch_no", "up_s", "step_s"))
    for run, launch, up, step in zip(*columns, strict=True):
        ends = sorted(min(at, up) for at in onsets.get((run, launch), []))
        parts = np.diff([0.0, *ends, up]).tolist()
        times += parts
        seen += [True] * len(ends) + [False]
        steps += [step] * len(parts)
    return _until(np.array(times), np.array(seen), np.array(steps))


def history(observed: Observed, cause: Cause, unit: str) -> History:
    """Failures of the cause on the axis of the fleet's cumulative exposure.

    A failure before any exposure has no place on the axis and is left out.
    """
    pieces = observed.pieces
    begin, end = pieces["start_us"].astype(float), pieces["end_us"].astype(float)
    column = {"node_hour": "n_nodes", "gpu_hour": "n_gpus"}.get(unit)
    weight = pieces[column].astype(float) if column else np.ones(begin.size)
    total = float((weight * (end - begin)).sum() / 3.6e9)
    failed = observed.incidents["failed_us"][observed.chosen(cause)].astype(float)
    at = (_passed(begin, weight, failed) - _passed(end, weight, failed)) / 3.6e9
    return History(np.clip(at[at > 0], 0.0, total), total, failure_terminated=False)


def _passed(starts: Floats, weight: Floats, at: Floats) -> Floats:
    """Sum of weight x (at - start) over the starts that lie before, for every instant."""
    order = np.argsort(starts, kind="stable")
    first = float(starts.min(initial=np.inf))
    count = np.concatenate([[0.0], np.cumsum(weight[order])])
    sums = np.concatenate([[0.0], np.cumsum(weight[order] * (starts[order] - first))])
    place = np.searchsorted(starts[order], at, side="right")
    passed: Floats = count[place] * (at - first) - sums[place]
    return passed


def windows(axis: History, n: int) -> Ints:
    """Failures in `n` windows of equal exposure."""
    found: Ints = np.histogram(axis.times, bins=n, range=(0.0, axis.end))[0]
    return found


def by_size(observed: Observed) -> dict[int, tuple[int, float]]:
    """(failures that stopped a run, up hours) by nodes of the job; not of jobs of unknown size."""
    rows = observed.stretches
    sizes = rows["node_hours"].astype(float) * 3600 / np.where(rows["up_s"] > 0, rows["up_s"], 1.0)
    known = np.isfinite(sizes) & (sizes > 0)
    nodes = np.round(sizes[known]).astype(np.int64)
    failed = np.array([kind is not None for kind in rows["type"]], bool)[known]
    up = rows["up_s"][known]
    return {
        int(n): (int(failed[nodes == n].sum()), float(up[nodes == n].sum() / 3600))
        for n in np.unique(nodes)
    }


def counts(observed: Observed, cause: Cause) -> tuple[int, int]:
    """(incidents of the cause, attempts that they ended or slowed)."""
    chosen = observed.chosen(cause)
    return int(chosen.sum()), int(observed.incidents["n_attempts"][chosen].sum())


def stages(observed: Observed, cause: Cause) -> Iterable[TypedDurations]:
    """Detection and recovery of failures that stop a run, or the length of slow episodes.

    Detection reaches from the onset to the first error or the end of the attempt, recovery from
    there to the first kept step, an episode from its onset to its end. What is not over is censored
    at the end of its run; what no clock could tell apart lies between 0 and one step.
    """
    rows = observed.incidents
    chosen = np.flatnonzero(observed.chosen(cause))
    is_over = rows["is_over"][chosen].astype(bool)
    always = np.ones(chosen.size, bool)
    names = (
        {"slow_duration": is_over}
        if cause.mode is Mode.FAIL_SLOW
        else {"detection": always, "recovery": is_over}
    )
    for quantity, seen in names.items():
        time = rows[f"{quantity}_s"][chosen].astype(float)
        usable = (time >= 0) & (seen | (time > 0))  # not of instants that are unknown
        if usable.any():
            sample = _until(time[usable], seen[usable], rows["step_s"][chosen][usable])
            yield TypedDurations(cause.type, quantity, sample, has_rate=False)
