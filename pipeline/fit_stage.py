"""The fits of a lake: rates, trends and laws per type of failure, written beside its timeline."""

from __future__ import annotations

import math
import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from scipy import special

from parsers.tables import Table
from pipeline import database, exposure, scaling, timeline
from pipeline.errors import LakeError
from pipeline.exposure import Cause, Observed
from pipeline.lake import timeline_dir
from pipeline.rates import Rate, benjamini_hochberg, lemons, poisson_rate
from pipeline.recurrence import Dispersion, dispersion
from pipeline.schema import DISTRIBUTION_FIT, FAILURE_RATE, NODE_RATE
from pipeline.selection import History, LawFit, TypeFit, describe, generator

DEFAULT_SEED = 0
DEFAULT_REPLICATES = 999
TREND_FALSE_DISCOVERY_SHARE = 0.10
EVENTS_PER_WINDOW = 2  # windows of equal exposure are made so wide on average
MAX_WINDOWS = 40
NOT_LINEAR_P = 0.05
MIN_EVENTS_FOR_SIZE = 5
_SOURCE = "fit_source.txt"

Row = dict[str, object]


@dataclass(frozen=True)
class LakeFit:
    """Rates by cause, fits of every quantity of every cause, nodes, and how size matters."""

    rates: list[Row]
    fits: list[TypeFit]
    nodes: list[Row]
    size_notes: tuple[str, ...]


def refresh(lake: Path) -> None:
    """Fit with the defaults and publish, unless that was done for this timeline before."""
    folder = timeline_dir(lake)
    source = folder / _SOURCE if folder else None
    wanted = _source_text(DEFAULT_SEED, DEFAULT_REPLICATES)
    if source is None or not source.is_file() or source.read_text() != wanted:
        publish(lake, DEFAULT_SEED, DEFAULT_REPLICATES)


def publish(lake: Path, seed: int, n_replicates: int) -> LakeFit:
    """Fit a lake's current timeline and write the fit tables into its folder.

    LakeError where there is no timeline. A timeline that is rebuilt meanwhile waits.
    """
    with timeline.one_at_a_time(lake):
        folder = timeline_dir(lake)
        if folder is None:
            raise LakeError(f"{lake} has no timeline: run `wallsplit split --lake {lake}` first")
        found = fit_lake(exposure.observe(database.connect(lake)), seed, n_replicates)
        _write(folder, FAILURE_RATE, found.rates)
        _write(folder, DISTRIBUTION_FIT, [r for one in found.fits for r in _law_rows(one, seed)])
        _write(folder, NODE_RATE, found.nodes)
        (folder / _SOURCE).write_text(_source_text(seed, n_replicates))
    return found


def fit_lake(observed: Observed, seed: int, n_replicates: int) -> LakeFit:
    """Rates and fits of every cause, `all` first; empty where nothing was up."""
    known = exposure.hours(observed)
    rows, fits = [], []
    for cause in observed.causes:
        unit = exposure.unit_of(observed, cause, known)
        materials = [
            exposure.times_to_failure(observed, cause, unit), *exposure.stages(observed, cause),
        ]  # fmt: skip
        own = [describe(m, generator(seed, m.type, m.quantity), n_replicates) for m in materials]
        rows.append(_rate_row(observed, cause, unit, known, own[0]))
        fits += own
    size_notes = _size_notes(exposure.by_size(observed))
    for row in rows[:1]:
        row["notes"] = (
            "; ".join([*([str(row["notes"])] if row["notes"] else []), *size_notes]) or None
        )
    return LakeFit(_confirmed(rows), fits, _node_rows(observed), tuple(size_notes))


def _rate_row(
    observed: Observed, cause: Cause, unit: str, known: dict[str, float | None], gap: TypeFit
) -> Row:
    n, n_raw = exposure.counts(observed, cause)
    bursts = _bursts(exposure.history(observed, cause, unit), n)
    rate = widened(poisson_rate(n, known[unit] or 0.0), bursts)
    has_trend = gap.trend is not None and gap.trend.verdict in ("worsening", "improving")
    end_rate = gap.power_law.end_intensity * 1000 if has_trend and gap.power_law else None
    return {
        "type": cause.type, "mode": str(cause.mode), "n_events": n, "n_raw": n_raw,
        "exposure_hours": rate.exposure, "exposure_unit": unit, "clock": "up",
        "rate_per_khour": rate.rate * 1000, "ci_low": rate.low * 1000, "ci_high": rate.high * 1000,
        "mtbf_s": _seconds(rate.mtbf), "mtbf_low_s": _seconds(rate.mtbf_low),
        "mtbf_high_s": _seconds(rate.mtbf_high), "method": rate.method,
        "trend": "too_few_events" if gap.trend is None else gap.trend.verdict,
        "trend_p": None if gap.trend is None else gap.trend.mil_hdbk_189_p,
        "end_rate_per_khour": end_rate,
        "dispersion": None if bursts is None else bursts.index,
        "job_hours": known["job_hour"], "node_hours": known["node_hour"],
        "gpu_hours": known["gpu_hour"],
        "notes": "; ".join(note.message for note in gap.notes) or None,
    }  # fmt: skip


def _size_notes(groups: dict[int, tuple[int, float]]) -> list[str]:
    """Where jobs of several sizes do not fail as their nodes say.

    A rate a + bN against bN: twice the gain in log-likelihood is chi-square with one degree, its
    p-value halved since a cannot be below 0.
    """
    sized = [(size, n, hours * 3600) for size, (n, hours) in groups.items()]
    total = sum(n for _, n, _ in sized)
    if len(sized) < 2 or total == 0:
        return []
    sizes, counts, seconds = zip(*sized, strict=True)
    line = scaling.fit_size_line(sizes, counts, seconds)
    per_node = total / sum(size * s for size, _, s in sized)
    gain = sum(n * math.log(line.rate(size) / (per_node * size)) for size, n, _ in sized if n)
    p = float(special.chdtrc(1, max(2 * gain, 0.0))) / 2
    notes = []
    if p < NOT_LINEAR_P:
        notes.append(
            f"failures do not grow in proportion to nodes: {line.job_rate * 3.6e6:.3g} per 1000 "
            f"job hours plus {line.node_rate * 3.6e6:.3g} per 1000 node hours (p = {p:.2g})"
        )
    for size, n, s in sized:
        expected_s = 1 / (per_node * size)
        if n >= MIN_EVENTS_FOR_SIZE and scaling.divergence(expected_s, s / n) is not None:
            notes.append(
                f"jobs of {size} nodes fail every {s / n / 3600:.3g} h, not every "
                f"{expected_s / 3600:.3g} h as the rate per node says"
            )
    return notes


def _seconds(hours: float | None) -> float | None:
    return None if hours is None else hours * 3600


def _bursts(axis: History, n: int) -> Dispersion | None:
    """Dispersion of the failures over windows that hold two of them on average."""
    n_windows = min(MAX_WINDOWS, n // EVENTS_PER_WINDOW)
    return dispersion(exposure.windows(axis, n_windows)) if n_windows > 1 else None


def widened(rate: Rate, bursts: Dispersion | None) -> Rate:
    """The rate; where failures burst, its interval is stretched by the root of the dispersion.

    On the scale of the logarithm, so that it stays above 0.
    """
    if bursts is None or not bursts.is_overdispersed or rate.mtbf is None:
        return rate
    factor = bursts.index**0.5
    low = rate.rate * (rate.low / rate.rate) ** factor
    high = rate.rate * (rate.high / rate.rate) ** factor
    method = f"{rate.method}, widened {factor:.2f} times for bursts"
    return Rate(
        rate.n_events, rate.exposure, rate.rate, low, high, rate.mtbf, 1 / high, 1 / low, method
    )


def _confirmed(rows: list[Row]) -> list[Row]:
    """Rows whose trend survives the number of types tested; the others are said to have none."""
    tested = [row for row in rows if row["trend"] in ("none", "worsening", "improving")]
    adjusted = benjamini_hochberg([float(str(row["trend_p"])) for row in tested])
    for row, q in zip(tested, adjusted, strict=True):
        if row["trend"] != "none" and q > TREND_FALSE_DISCOVERY_SHARE:
            row |= {"trend": "none", "end_rate_per_khour": None}
    return rows


def _law_rows(found: TypeFit, seed: int) -> list[Row]:
    return [_law_row(found, law, seed) for law in found.laws]


def _law_row(found: TypeFit, law: LawFit, seed: int) -> Row:
    fitted, is_known = law.fitted, law.fitted.converged
    notes = [law.note, *(note.message for note in found.notes)]
    lows = {name: low for name, (low, _) in fitted.intervals.items()}
    highs = {name: high for name, (_, high) in fitted.intervals.items()}
    return {
        "type": found.type, "quantity": found.quantity, "law": fitted.law.name,
        "parameters": fitted.parameters if is_known else dict.fromkeys(fitted.parameters),
        "log_likelihood": fitted.log_likelihood if is_known else None,
        "aicc": fitted.aicc if is_known else None, "bic": fitted.bic if is_known else None,
        "n_events": round(found.n_events), "n_censored": round(found.n_censored),
        "gof_statistic": law.goodness.statistic, "gof_p": law.goodness.p,
        "is_chosen": fitted.law.name == found.chosen, "converged": is_known,
        "interval_low": lows, "interval_high": highs, "seed": seed,
        "note": "; ".join(note for note in notes if note) or None,
    }  # fmt: skip


def _node_rows(observed: Observed) -> list[Row]:
    """Every node with exposure; failures of nodes without any are left out."""
    counts = {n: k for n, k in observed.node_events.items() if observed.node_hours.get(n, 0) > 0}
    return [
        {
            "node": r.node, "n_events": r.n_events, "node_hours": r.exposure, "p": r.p, "q": r.q,
            "p_triple": r.p_triple, "is_lemon": r.is_lemon,
        }
        for r in lemons(counts, observed.node_hours)
    ]  # fmt: skip


def _write(folder: Path, table: Table, rows: Sequence[Row]) -> None:
    """Write one table under its schema; readers see the old one or the new one."""
    columns = {
        c.name: pa.array([_cell(row[c.name]) for row in rows], c.type) for c in table.columns
    }
    staged = folder / f".{table.name}-{uuid.uuid4().hex}.parquet"
    pq.write_table(pa.table(columns, schema=table.schema), staged, compression="zstd")
    with staged.open("rb") as handle:
        os.fsync(handle.fileno())
    staged.replace(folder / f"{table.name}.parquet")


def _cell(value: object) -> object:
    return list(value.items()) if isinstance(value, dict) else value


def _source_text(seed: int, n_replicates: int) -> str:
    return f"seed {seed}, {n_replicates} replicates\n"
