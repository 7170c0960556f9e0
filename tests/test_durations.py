"""Durations: what is refused, and that order, grouping and unit of the rows do not matter."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.durations import DurationsError, Rows, batch_of, durations


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"times": []}, "no durations"),
        ({"times": [1.0, np.nan]}, "row 1 (from 0): not a finite duration"),
        ({"times": [np.inf, 1.0]}, "row 0 (from 0): not a finite duration"),
        ({"times": [3.0, -1.0]}, "row 1 (from 0): negative duration"),
        ({"times": [0.0, 1.0]}, "row 0 (from 0): observed duration of 0"),
        ({"times": [0.0, 0.0], "observed": [0, 0]}, "no time at risk"),
        ({"times": [2.0], "upper": [1.0]}, "`upper` is below"),
        ({"times": [2.0], "upper": [np.inf]}, "`upper` is below the duration or not finite"),
        ({"times": [2.0], "upper": [3.0], "observed": [0]}, "`upper` stands beside"),
        ({"times": [2.0], "entry": [-1.0]}, "`entry` is negative"),
        ({"times": [2.0], "entry": [2.0]}, "`entry` is not before the end"),
        ({"times": [2.0], "entry": [3.0], "observed": [0]}, "`entry` is not before the end"),
        ({"times": [2.0], "weight": [0.0]}, "weight is not a positive number"),
        ({"times": [2.0], "weight": [np.nan]}, "weight is not a positive number"),
        ({"times": [2.0, 3.0], "weight": [1.0]}, "columns of different lengths"),
    ],
)
def test_rows_that_say_nothing_true_are_refused(columns, message):
    with pytest.raises(DurationsError) as refused:
        durations(**columns)
    assert message in str(refused.value)


def test_every_kind_of_mistake_is_named_at_once():
    with pytest.raises(DurationsError) as refused:
        durations([1.0, -1.0, np.nan, 0.0])
    assert len(str(refused.value).splitlines()) == 3


def test_rows_are_sorted_and_equal_ones_merged():
    sample = durations([3, 1, 3, 3, 2], [1, 1, 1, 0, 0], weight=[1, 1, 2, 1, 1])
    assert sample.lower.tolist() == [1, 2, 3, 3]
    assert sample.upper.tolist() == [1, np.inf, 3, np.inf]
    assert sample.weight.tolist() == [1, 1, 3, 1]
    assert (sample.n_events, sample.n_censored, sample.exposure) == (4, 2, 15)


def test_interval_and_late_entry_count_only_time_at_risk():
    sample = durations([0, 5, 9], [1, 1, 0], upper=[2, np.nan, np.nan], entry=[0, 1, 4])
    assert sample.n_events == 2
    assert sample.exposure == 1 + 4 + 5


def test_censored_row_without_time_at_risk_is_left_out():
    assert durations([0, 4], [0, 1]).lower.tolist() == [4]


def test_batch_divides_by_the_survival_of_late_entries():
    batch = batch_of(durations([5, 9], [1, 0], entry=[2, 3]))
    assert batch.survivors.t.tolist() == [9, 2, 3]
    assert batch.survivors.weight.tolist() == [1, -1, -1]


def test_totals_of_samples_without_rows_are_zero():
    rows = Rows(np.array([1.0, 2.0, 5.0]), np.array([1.0, 2.0, 1.0]), np.array([1, 1, 3]), 5)
    assert rows.sum_t.tolist() == [0, 5, 0, 5, 0]
    assert rows.only(np.array([False, True, True, True, False])).sum_t.tolist() == [5, 0, 5]
    assert rows.repeated(2).sum_t.tolist() == [0, 5, 0, 5, 0] * 2
