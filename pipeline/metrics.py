"""Metrics beside TOR, as pure functions over the timeline tables `segment` and `incident`.

Effective training time ratio (ETTR) as in arXiv 2410.21680: productive time over wall clock; over a
sliding window as in arXiv 2509.16293. Goodput with the badput types of the ml-goodput-measurement
package. Mean time to failure with an exact Poisson interval. What each cause costs in GPU-hours and
money. Slow steps count as productive in all of them: TOR = ETTR x mean performance ratio.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy import stats

_HOUR_S = 3600.0
_STOPPING = ("fail_stop", "hang")
_UP = ("productive", "lost_recompute", "checkpoint", "uncommitted")

_BADPUT_OF_PHASE = {
    "detection": "INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION",
    "teardown": "INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION",
    "requeue_wait": "INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION",
    "operator_gap": "INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION",
    "allocation": "INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION",
    "initialisation": "TPU_INITIALIZATION",
    "compile": "PROGRAM_STARTUP",
    "warm_up": "PROGRAM_STARTUP",
    "launch": "TRAINING_PREP",
    "checkpoint_load": "UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME",
}
"""Phase of recovery or start-up -> badput type; other phases are OTHER."""
_BADPUT_OF_CATEGORY = {
    "checkpoint": "UNPRODUCTIVE_CHECKPOINT_SAVE_TIME",
    "lost_recompute": "WASTED_PROGRESS_FROM_DISRUPTION",
    "uncommitted": "WASTED_PROGRESS_FROM_DISRUPTION",
    "planned": "CUSTOM_BADPUT_EVENTS",
    "unexplained": "OTHER",
}
GOODPUT = "GOODPUT"


def efficiency(segment: pl.DataFrame) -> pl.DataFrame:
    """One row per run: wall_s, productive_s, ettr, mean_performance_ratio, tor.

    mean_performance_ratio and tor are null where the speed of productive time is not known, the
    former without productive time too.
    """
    is_productive = pl.col("category") == "productive"
    productive = pl.col("duration_s").filter(is_productive).sum()
    known = pl.col("performance_ratio").filter(is_productive).is_not_null().all()
    kept = pl.when(known).then(
        (pl.col("duration_s") * pl.col("performance_ratio")).filter(is_productive).sum()
    )
    return (
        segment.group_by("run_id")
        .agg(
            wall_s=pl.col("duration_s").sum(),
            productive_s=productive,
            ettr=productive / pl.col("duration_s").sum(),
            mean_performance_ratio=pl.when(productive > 0).then(kept / productive),
            tor=kept / pl.col("duration_s").sum(),
        )
        .sort("run_id")
    )


def lowest_window(segment: pl.DataFrame, window_s: float = _HOUR_S) -> pl.DataFrame:
    """One row per run: the lowest ETTR of any window of `window_s`, and the end of that window.

    Exact: productive time grows linearly between segments, so the minimum lies where a window
    begins or ends with a segment. Null for runs shorter than the window.
    """
    rows: list[tuple[object, float | None, float | None]] = []
    for (run_id,), part in segment.sort("run_id", "start_at").group_by(
        "run_id", maintain_order=True
    ):
        lasts = part["duration_s"].to_numpy()
        works = np.where(part["category"].to_numpy() == "productive", lasts, 0.0)
        edge, done = (np.concatenate([[0.0], np.cumsum(x)]) for x in (lasts, works))
        ends = np.unique(np.concatenate([edge, edge + window_s]))
        ends = ends[(ends >= window_s) & (ends <= edge[-1])]
        if not ends.size:
            rows.append((run_id, None, None))
            continue
        ratio = (np.interp(ends, edge, done) - np.interp(ends - window_s, edge, done)) / window_s
        lowest = int(ratio.argmin())
        rows.append((run_id, float(ratio[lowest]), float(ends[lowest])))
    columns = {"run_id": pl.String, "lowest_ettr": pl.Float64, "after_s": pl.Float64}
    begin = segment.group_by("run_id").agg(begin=pl.col("start_at").min())
    after = pl.duration(microseconds=(pl.col("after_s") * 1e6).round().cast(pl.Int64))
    return (
        pl.DataFrame(rows, schema=columns, orient="row")
        .join(begin, on="run_id", validate="1:1")
        .select("run_id", "lowest_ettr", lowest_at=pl.col("begin") + after)
        .sort("run_id")
    )


def goodput(segment: pl.DataFrame) -> pl.DataFrame:
    """One row per run and badput type, GOODPUT among them: seconds, share; shares sum to 1.

    Evaluation is badput there, steps at half speed are goodput.
    """
    phase, category = pl.col("phase"), pl.col("category")
    by_phase = phase.replace_strict(_BADPUT_OF_PHASE, default="OTHER", return_dtype=pl.String)
    is_train = (category == "productive") & (phase != "evaluation")
    kind = (
        pl.when(is_train)
        .then(pl.lit(GOODPUT))
        .when(category == "productive")
        .then(pl.lit("CUSTOM_BADPUT_EVENTS"))
        .when(category.is_in(["recovery", "startup"]))
        .then(by_phase)
        .otherwise(category.replace_strict(_BADPUT_OF_CATEGORY, default="OTHER",
                                           return_dtype=pl.String))
    )  # fmt: skip
    return (
        segment.with_columns(badput_type=kind)
        .group_by("run_id", "badput_type")
        .agg(seconds=pl.col("duration_s").sum())
        .with_columns(share=pl.col("seconds") / pl.col("seconds").sum().over("run_id"))
        .sort(["run_id", "seconds", "badput_type"], descending=[False, True, False])
    )


@dataclass(frozen=True)
class Mttf:
    """Mean time to failure of the given runs."""

    n_failures: int
    up_s: float
    wall_s: float
    mttf_up_s: float | None
    """Up time per failure; None without one."""
    low_s: float | None
    high_s: float | None
    """95 % interval of it; without a failure only low_s, one-sided."""
    mtbf_wall_s: float | None
    """Wall clock per failure."""


def mttf(segment: pl.DataFrame, incident: pl.DataFrame, level: float = 0.95) -> Mttf:
    """Failures that ended a launch, over the up time and the wall clock of the runs.

    Up: steps, lost steps, evaluation and saves. Interval: exact for a Poisson count. Slow stretches
    are no failures here.
    """
    n = incident.filter(pl.col("mode").is_in(_STOPPING)).height
    up = float(segment.filter(pl.col("category").is_in(_UP))["duration_s"].sum())
    wall = float(segment["duration_s"].sum())
    if n == 0:
        low = up / -np.log1p(-level) if up else None
        return Mttf(0, up, wall, None, low, None, None)
    tail = (1 - level) / 2
    return Mttf(
        n,
        up,
        wall,
        up / n,
        float(2 * up / stats.chi2.ppf(1 - tail, 2 * n + 2)),
        float(2 * up / stats.chi2.ppf(tail, 2 * n)),
        wall / n,
    )


def costs(
    segment: pl.DataFrame, incident: pl.DataFrame, price_per_gpu_hour: float | None = None
) -> pl.DataFrame:
    """One row per cause and type, dearest first: n_incidents, seconds, gpu_hours, money.

    seconds: wall clock that made no progress, as in `loss`; productive time of unknown speed is
    left out. gpu_hours: of the GPUs held meanwhile; seconds_without_gpus is the part of the time
    whose GPUs are not known or that held none.
    """
    is_slow = pl.col("category") == "productive"
    lost = pl.col("duration_s") * (1 - pl.col("performance_ratio"))
    has_gpus = pl.col("n_gpus").is_not_null()
    gpu_hours = (pl.col("lost_s") * pl.col("n_gpus") / _HOUR_S).sum()
    price = pl.lit(price_per_gpu_hour, dtype=pl.Float64)
    return (
        segment.with_columns(
            lost_s=lost, cause=pl.when(is_slow).then(pl.lit("slow")).otherwise(pl.col("cause"))
        )
        .filter(pl.col("lost_s") != 0)
        .join(
            incident.select("incident_id", "type"),
            on="incident_id",
            how="left",
            validate="m:1",
        )
        .group_by("cause", "type")
        .agg(
            n_incidents=pl.col("incident_id").drop_nulls().n_unique(),
            seconds=pl.col("lost_s").sum(),
            gpu_hours=pl.when(has_gpus.any()).then(gpu_hours),
            seconds_without_gpus=pl.col("lost_s").filter(~has_gpus).sum(),
        )
        .with_columns(money=pl.col("gpu_hours") * price)
        .sort(["seconds", "cause", "type"], descending=[True, False, False])
    )


def all_in_cost_s(ettr: float, wall_s: float, n_incidents: int) -> float:
    """Mean cost of an incident if incidents are all that costs: (1 - ETTR) x wall clock / n.

    Everything that an incident costs is in it: detection, restart, lost work, slow start.
    """
    return (1 - ettr) * wall_s / n_incidents
