"""What so many events allow to be said, and that every limit is named."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.durations import durations
from pipeline.selection import (
    Caution,
    History,
    Order,
    TypedDurations,
    TypeFit,
    describe,
    generator,
)


def found_in(times, observed=None, n_replicates=0, **columns) -> TypeFit:
    order = columns.pop("order", Order.UNKNOWN)
    history = columns.pop("history", None)
    sample = durations(times, observed, **columns)
    typed = TypedDurations("gpu.bus", "gap", sample, history, order)
    return describe(typed, generator(0, "gpu.bus", "gap"), n_replicates)


def cautions(found: TypeFit) -> set[Caution]:
    return {note.caution for note in found.notes}


def test_no_event_gives_an_upper_bound_only():
    found = found_in([100.0, 50.0], [0, 0])
    assert (found.n_events, found.laws, found.chosen, found.rate.mtbf) == (0, (), None, None)
    assert found.rate.high == pytest.approx(np.log(20) / 150)
    assert cautions(found) == {Caution.NO_EVENT}


@pytest.mark.parametrize("n", [1, 4])
def test_up_to_four_events_give_a_rate_only(n):
    found = found_in(np.arange(1.0, n + 1))
    assert [law.fitted.law.name for law in found.laws] == ["exponential"]
    assert found.chosen == "exponential"
    assert cautions(found) == {Caution.RATE_ONLY}


def test_few_events_keep_the_exponential_unless_it_is_clearly_wrong():
    gaps = [3, 5, 7, 18, 43, 85, 91, 98, 100, 130, 230, 487]  # Weibull against it: p = 0.28
    unclear = found_in(gaps)
    assert len(unclear.laws) == 4
    assert unclear.chosen == "exponential"
    assert Caution.FEW_EVENTS in cautions(unclear)
    assert all(law.goodness.p is None for law in unclear.laws)
    clear = found_in(10 + np.random.default_rng(1).random(10))
    assert clear.chosen != "exponential"


def test_ties_keep_the_exponential_and_are_named():
    times = [23, 261, 87, 7, 120, 14, 62, 47, 225, 71, 246, 21, 42, 20, 5, 12, 120, 11, 3, 14, 71,
             11, 14, 11, 16, 90, 1, 16, 52, 95]  # fmt: skip
    found = found_in(times)  # AICc 307.4 exponential, 308.3, 307.7, 308.8
    assert found.chosen == "exponential"
    assert found.tied == ("exponential", "weibull", "lognormal", "gamma")
    assert Caution.TIE in cautions(found)


def test_enough_events_choose_the_law_that_fits_and_test_it():
    rng = np.random.default_rng(2)
    found = found_in(rng.lognormal(3, 1.2, 300), n_replicates=99)
    assert found.chosen == "lognormal"
    by_name = {law.fitted.law.name: law.goodness.p for law in found.laws}
    assert by_name["lognormal"] > 0.05
    assert by_name["exponential"] == 0.01
    assert Caution.REJECTED not in cautions(found)


def test_a_rejected_law_is_said_to_be_rejected():
    rng = np.random.default_rng(3)
    two_humps = np.concatenate([rng.normal(10, 0.5, 60), rng.normal(100, 5, 60)])
    found = found_in(two_humps, n_replicates=99)
    assert found.chosen is not None
    note = next(n for n in found.notes if n.caution is Caution.REJECTED)
    assert "use the durations themselves" in note.message


@pytest.mark.parametrize("n", [6, 30])
def test_equal_durations_are_no_law(n):
    found = found_in([5.0] * n, n_replicates=19)
    assert {Caution.EQUAL_DURATIONS, Caution.NOT_CONVERGED} <= cautions(found)
    assert found.chosen == "exponential"
    assert all(law.note.startswith("not converged") for law in found.laws[1:])
    assert all(law.goodness.p is None for law in found.laws[1:])


def test_fractional_weights_are_named_and_not_tested():
    found = found_in(np.arange(1.0, 41), weight=np.full(40, 1.5), n_replicates=19)
    assert {Caution.FRACTIONAL_WEIGHTS, Caution.NO_GOODNESS} <= cautions(found)
    assert found.n_events == 60


def test_a_trend_in_order_of_time_leaves_no_law_chosen():
    gaps = np.geomspace(100, 1, 25)
    history = History(np.cumsum(gaps), float(gaps.sum()), failure_terminated=True)
    in_time = found_in(gaps, history=history, order=Order.TIME)
    assert (in_time.chosen, in_time.trend.verdict) == (None, "worsening")
    assert in_time.power_law.beta > 1
    assert Caution.TREND in cautions(in_time)
    unknown = found_in(gaps, history=history)
    assert unknown.chosen is not None
    assert "if rows are in order of time" in next(
        n.message for n in unknown.notes if n.caution is Caution.TREND
    )


def test_sorted_rows_have_no_order_of_time():
    assert Caution.ORDER_UNKNOWN in cautions(found_in(np.arange(1.0, 30), order=Order.SORTED))


def test_other_types_do_not_change_the_replicates_of_one():
    assert generator(1, "a", "gap").random() == generator(1, "a", "gap").random()
    assert generator(1, "a", "gap").random() != generator(1, "b", "gap").random()
    assert generator(1, "a", "gap").random() != generator(1, "a", "recovery").random()
