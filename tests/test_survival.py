"""Estimates without a law, by hand and as identities."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.durations import DurationsError, durations
from pipeline.survival import aalen_johansen, kaplan_meier, nelson_aalen


def test_kaplan_meier_by_hand():
    # at 2: 4 of 5 remain; at 3 one is lost first counts as at risk: (3-1)/3; at 6 the last one ends
    curve = kaplan_meier(durations([2, 2.5, 3, 3, 6], [1, 0, 1, 0, 1]))
    assert curve.age.tolist() == [2, 3, 6]
    assert curve.at_risk.tolist() == [5, 3, 1]
    assert curve.value == pytest.approx([4 / 5, 4 / 5 * 2 / 3, 0])
    greenwood = (4 / 5 * 2 / 3) * np.sqrt(1 / (5 * 4) + 1 / (3 * 2))
    assert curve.standard_error[1] == pytest.approx(greenwood)
    assert np.isnan([curve.standard_error[2], curve.low[2], curve.high[2]]).all()
    assert np.all(curve.low[:2] < curve.value[:2])
    assert np.all(curve.high[:2] > curve.value[:2])
    assert curve.at(np.array([1.0, 2.0, 5.9, 7.0]), before=1.0) == pytest.approx(
        [1, 4 / 5, 8 / 15, 0]
    )


def test_late_rows_are_at_risk_only_behind_their_entry():
    curve = kaplan_meier(durations([2, 4, 6], [1, 1, 1], entry=[0, 2, 3]))
    assert curve.at_risk.tolist() == [1, 2, 1]


def test_weights_count_rows():
    weighted = kaplan_meier(durations([2, 3, 5], [1, 0, 1], weight=[3, 2, 1]))
    rows = kaplan_meier(durations([2, 2, 2, 3, 3, 5], [1, 1, 1, 0, 0, 1]))
    assert weighted.value.tolist() == rows.value.tolist()


def test_nelson_aalen_by_hand():
    curve = nelson_aalen(durations([2, 2.5, 3, 3, 6], [1, 0, 1, 0, 1]))
    assert curve.value == pytest.approx([1 / 5, 1 / 5 + 1 / 3, 1 / 5 + 1 / 3 + 1])
    assert curve.standard_error[1] == pytest.approx(np.sqrt(1 / 25 + 1 / 9))


def test_aalen_johansen_by_hand():
    # ends: a at 1 and 4, b at 2; lost at 3. F_a = 1/4 + 1/2 * 1/1; F_b = 3/4 * 1/3
    times = [1, 2, 3, 4]
    curves = aalen_johansen(
        {"a": durations(times, [1, 0, 0, 1]), "b": durations(times, [0, 1, 0, 0])}
    )
    assert curves["a"].age.tolist() == [1, 2, 4]
    assert curves["a"].value == pytest.approx([1 / 4, 1 / 4, 3 / 4])
    assert curves["b"].value == pytest.approx([0, 1 / 4, 1 / 4])


def test_aalen_johansen_of_one_cause_is_kaplan_meier():
    sample = durations([2, 2.5, 3, 3, 6, 8], [1, 0, 1, 0, 1, 0])
    curve, km = aalen_johansen({"only": sample})["only"], kaplan_meier(sample)
    assert curve.value == pytest.approx(1 - km.value)
    assert curve.standard_error == pytest.approx(km.standard_error)


@settings(max_examples=50, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.integers(1, 20), st.sampled_from(["a", "b", "lost"])), min_size=1, max_size=40
    )
)
def test_incidences_and_survival_sum_to_one(rows):
    times = [t for t, _ in rows]
    curves = aalen_johansen(
        {cause: durations(times, [c == cause for _, c in rows]) for cause in ("a", "b")}
    )
    survival = kaplan_meier(durations(times, [c != "lost" for _, c in rows]))
    total = curves["a"].value + curves["b"].value + survival.value
    assert total == pytest.approx(np.ones(total.size))


def test_ends_between_two_instants_are_refused():
    with pytest.raises(DurationsError, match="between two instants"):
        kaplan_meier(durations([1, 2], upper=[1.5, np.nan]))


def test_causes_over_different_rows_are_refused():
    with pytest.raises(DurationsError, match="different time at risk"):
        aalen_johansen({"a": durations([1, 2]), "b": durations([1, 3])})
