"""Durations of one kind, as seen: exact, right-censored, between two inspections, entered late.

`Durations` is what a user or a lake gives, checked and in canonical order. `Batch` is what the
likelihood sees: the rows of many samples at once, so that a thousand bootstrap samples are fitted
with the same few array operations as one sample.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipeline.errors import WallsplitError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

MAX_PROBLEMS = 10
_ZERO = (
    "observed duration of 0; merge events of the same instant, or give the clock's resolution as "
    "`upper`"
)


class DurationsError(WallsplitError):
    """Durations from which nothing can be estimated; the message names rows and remedies."""


@dataclass(frozen=True)
class Durations:
    """Durations of one kind in one unit; distinct rows in ascending order.

    A row says that `weight` things were at risk from age `entry` on (0: from birth) and ended at an
    age between `lower` and `upper`: seen exactly where both are equal, still alive at `lower` where
    `upper` is infinite.
    """

    entry: Floats
    lower: Floats
    upper: Floats
    weight: Floats

    @cached_property
    def is_exact(self) -> Flags:
        """Rows whose end was seen."""
        return np.asarray(self.lower == self.upper)

    @cached_property
    def is_censored(self) -> Flags:
        """Rows that were alive when they were last seen."""
        return np.isinf(self.upper)

    @cached_property
    def is_interval(self) -> Flags:
        """Rows whose end lies between two instants."""
        return np.asarray(~self.is_exact & ~self.is_censored)

    @property
    def n_events(self) -> float:
        """Ends seen, by weight."""
        return float(self.weight[~self.is_censored].sum())

    @property
    def n_censored(self) -> float:
        """Rows without an end, by weight."""
        return float(self.weight[self.is_censored].sum())

    @property
    def exposure(self) -> float:
        """Time at risk, by weight; an end between two instants counts as their middle."""
        end = np.where(self.is_interval, (self.lower + self.upper) / 2, self.lower)
        return float((self.weight * (end - self.entry)).sum())

    @cached_property
    def unit(self) -> float:
        """The unit in which the laws are fitted: the median of the last ages seen."""
        return float(np.median(np.where(self.is_interval, self.upper, self.lower)))

    def scaled(self, factor: float) -> Durations:
        """The same durations in another unit."""
        return Durations(self.entry * factor, self.lower * factor, self.upper * factor, self.weight)

    def take(self, rows: Ints | Flags) -> Durations:
        """Only these rows."""
        return Durations(self.entry[rows], self.lower[rows], self.upper[rows], self.weight[rows])


def durations(
    times: ArrayLike,
    observed: ArrayLike | None = None,
    *,
    upper: ArrayLike | None = None,
    entry: ArrayLike | None = None,
    weight: ArrayLike | None = None,
    name_row: Callable[[int], str] = "row {} (from 0)".format,
) -> Durations:
    """Checked durations in canonical order, whatever the order and grouping of the input.

    times: ages at the end, or when last seen; observed: whether the end was seen (default: all);
    upper: where greater than the time, the observed end lies between both; entry: age from which
    the row was at risk (default 0); weight: how often the row counts (default 1); name_row: what
    messages call a row, counted from 0.
    DurationsError names every kind of mistake: not finite, negative, observed at age 0, ended
    before entry, no weight, no rows.
    """
    time = np.asarray(times, dtype=float)
    if time.ndim != 1 or time.size == 0:
        raise DurationsError("no durations: expected at least one row")
    n = time.size
    seen = np.ones(n, bool) if observed is None else np.asarray(observed).astype(bool)
    late = np.zeros(n) if entry is None else np.asarray(entry, dtype=float)
    weights = np.ones(n) if weight is None else np.asarray(weight, dtype=float)
    top = time if upper is None else np.asarray(upper, dtype=float)
    top = np.where(np.isnan(top), time, top)
    if any(column.shape != (n,) for column in (seen, late, weights, top)):
        raise DurationsError(f"columns of different lengths: expected {n} values in each")
    end = np.where(seen, np.maximum(time, top), np.inf)
    _refuse(time, top, late, weights, seen, name_row)
    at_risk = seen | (late < time)  # alive at its entry and never seen again: it says nothing
    if not at_risk.any():
        raise DurationsError("no time at risk: every duration is 0 and censored")
    order = np.lexsort((weights, late, end, time))
    order = order[at_risk[order]]
    rows = np.stack([late[order], time[order], end[order]])
    is_new = np.ones(order.size, bool)
    is_new[1:] = np.any(rows[:, 1:] != rows[:, :-1], axis=0)
    total = np.add.reduceat(weights[order], np.flatnonzero(is_new))
    entered, lower, upper_end = rows[:, is_new]
    return Durations(entered, lower, upper_end, total)


def _refuse(
    time: Floats, top: Floats, late: Floats, weight: Floats, seen: Flags,
    name_row: Callable[[int], str],
) -> None:  # fmt: skip
    """DurationsError with every kind of mistake and the rows that show it."""
    with np.errstate(invalid="ignore"):
        kinds = [
            ("not a finite duration; expected a number >= 0", ~np.isfinite(time)),
            ("negative duration; look for clocks set back or times without a zone", time < 0),
            (_ZERO, seen & (time == 0) & ~(top > 0)),
            (
                "`upper` is below the duration or not finite",
                np.isinf(top) & np.isfinite(time) | (top < time),
            ),
            ("`upper` stands beside an end that was not observed", ~seen & (top > time)),
            ("`entry` is negative or not finite", ~np.isfinite(late) | (late < 0)),
            ("`entry` is not before the end", (time > 0) & ((late > time) | seen & (late >= top))),
            ("weight is not a positive number", ~np.isfinite(weight) | (weight <= 0)),
        ]
    problems = []
    for meaning, is_wrong in kinds:
        rows = np.flatnonzero(is_wrong)
        if rows.size:
            shown = ", ".join(name_row(int(row)) for row in rows[:MAX_PROBLEMS])
            more = f" and {rows.size - MAX_PROBLEMS} more" if rows.size > MAX_PROBLEMS else ""
            problems.append(f"{shown}{more}: {meaning}")
    if problems:
        raise DurationsError("\n".join(problems))


@dataclass(frozen=True)
class Rows:
    """Ages of many samples, those of a sample together; `owner` ascends."""

    t: Floats
    weight: Floats
    owner: Ints
    n_samples: int

    @cached_property
    def log_t(self) -> Floats:
        """Logarithms of the ages; -inf at 0."""
        with np.errstate(divide="ignore"):
            return np.log(self.t)

    @cached_property
    def _starts(self) -> tuple[Ints, Ints]:
        """(first row of every sample that has rows, those samples)."""
        counts = np.bincount(self.owner, minlength=self.n_samples)
        filled = np.flatnonzero(counts)
        return (np.cumsum(counts) - counts)[filled], filled

    @cached_property
    def _weight(self) -> Floats | None:
        """The weights; none where all are 1."""
        return None if np.all(self.weight == 1) else self.weight

    def total(self, values: Floats) -> Floats:
        """Weighted sum over the rows of every sample."""
        starts, filled = self._starts
        sums = np.zeros(self.n_samples)
        if filled.size:
            weighted = values if self._weight is None else values * self._weight
            sums[filled] = np.add.reduceat(weighted, starts)
        return sums

    def totals(self, parts: tuple[Floats, ...]) -> tuple[Floats, ...]:
        """Weighted sums of several values per row."""
        return tuple(self.total(part) for part in parts)

    @cached_property
    def count(self) -> Floats:
        """Rows per sample, by weight."""
        return self.total(np.ones_like(self.t))

    @cached_property
    def sum_t(self) -> Floats:
        """Sum of the ages, per sample."""
        return self.total(self.t)

    @cached_property
    def sum_log_t(self) -> Floats:
        """Sum of the logarithms of the ages, per sample."""
        return self.total(self.log_t)

    @cached_property
    def sum_log_t2(self) -> Floats:
        """Sum of the squared logarithms of the ages, per sample."""
        return self.total(self.log_t**2)

    def only(self, samples: Flags) -> Rows:
        """The rows of the chosen samples, which are numbered anew."""
        kept = samples[self.owner]
        number = np.cumsum(samples) - 1
        return Rows(self.t[kept], self.weight[kept], number[self.owner[kept]], int(samples.sum()))

    def repeated(self, times: int) -> Rows:
        """Every sample `times` times: copy c of sample s is sample c * n_samples + s."""
        shift = np.repeat(np.arange(times) * self.n_samples, self.t.size)
        return Rows(
            np.tile(self.t, times), np.tile(self.weight, times),
            np.tile(self.owner, times) + shift, self.n_samples * times,
        )  # fmt: skip


@dataclass(frozen=True)
class Batch:
    """Many samples as a likelihood sees them.

    events: ends seen exactly. survivors: ages that were survived; the entry age of a late row
    stands here with negative weight, which divides by its survival. lower and upper: both sides of
    ends between two instants, row by row.
    """

    events: Rows
    survivors: Rows
    lower: Rows
    upper: Rows

    @property
    def n_samples(self) -> int:
        """Samples in the batch."""
        return self.events.n_samples

    @cached_property
    def n_events(self) -> Floats:
        """Ends seen exactly or between two instants, per sample, by weight."""
        return self.events.count + self.upper.count

    @cached_property
    def exposure(self) -> Floats:
        """Time at risk per sample; an end between two instants counts as their middle."""
        between = (self.lower.sum_t + self.upper.sum_t) / 2
        return self.events.sum_t + self.survivors.sum_t + between

    @cached_property
    def log_moments(self) -> tuple[Floats, Floats]:
        """(mean, standard deviation) of the logarithms of the ends, per sample, to start from."""
        middle = np.log((self.lower.t + self.upper.t) / 2)
        n = np.maximum(self.n_events, 0.5)
        mean = (self.events.sum_log_t + self.upper.total(middle)) / n
        square = (self.events.sum_log_t2 + self.upper.total(middle**2)) / n
        return mean, np.sqrt(np.maximum(square - mean**2, 1e-4))

    def only(self, samples: Flags) -> Batch:
        """The chosen samples, numbered anew."""
        return Batch(
            self.events.only(samples), self.survivors.only(samples), self.lower.only(samples),
            self.upper.only(samples),
        )  # fmt: skip

    def repeated(self, times: int) -> Batch:
        """Every sample `times` times."""
        return Batch(
            self.events.repeated(times), self.survivors.repeated(times),
            self.lower.repeated(times), self.upper.repeated(times),
        )  # fmt: skip


def batch_of(sample: Durations) -> Batch:
    """A batch of this one sample."""

    def rows(t: Floats, weight: Floats) -> Rows:
        return Rows(t, weight, np.zeros(t.size, np.int64), 1)

    late = sample.entry > 0
    gone, between = sample.is_censored, sample.is_interval
    return Batch(
        rows(sample.lower[sample.is_exact], sample.weight[sample.is_exact]),
        rows(
            np.concatenate([sample.lower[gone], sample.entry[late]]),
            np.concatenate([sample.weight[gone], -sample.weight[late]]),
        ),
        rows(sample.lower[between], sample.weight[between]),
        rows(sample.upper[between], sample.weight[between]),
    )
