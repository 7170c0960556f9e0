"""What the durations of one type allow to be said: rate, trend, law, and with which caution.

    0 events       an upper bound of the rate
    1 to 4         the rate; the exponential is assumed, not tested
    5 to 19        all laws are shown; the exponential is chosen unless a likelihood-ratio test
                   against the Weibull gives p < 0.01
    20 and more    the law with the least AICc, and its goodness of fit

A difference in AICc below 2 is a tie: the exponential is kept if it is in the tie. "Exponential" at
ten events means that they are too few to tell.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy import special

from pipeline.distributions import EXPONENTIAL, LAWS, WEIBULL, Law
from pipeline.durations import Durations, Floats
from pipeline.fits import Fit, fit
from pipeline.goodness import Goodness, goodness_of_fit
from pipeline.rates import Rate, poisson_rate
from pipeline.recurrence import PowerLaw, Trend, crow_amsaa, trend

MIN_EVENTS_FOR_SHAPE = 5
MIN_EVENTS_FOR_CHOICE = 20
TIE_AICC = 2.0
LR_P = 0.01
REJECTED_P = 0.05


class Caution(StrEnum):
    """Names of what limits an answer."""

    NO_EVENT = "no_event"
    RATE_ONLY = "rate_only"
    FEW_EVENTS = "few_events"
    EQUAL_DURATIONS = "equal_durations"
    TIE = "tie"
    REJECTED = "rejected"
    NOT_CONVERGED = "not_converged"
    OPEN_INTERVAL = "open_interval"
    NO_GOODNESS = "no_goodness_of_fit"
    TREND = "trend"
    ORDER_UNKNOWN = "order_unknown"
    FRACTIONAL_WEIGHTS = "fractional_weights"


@dataclass(frozen=True)
class Note:
    """A caution, and what it means here."""

    caution: Caution
    message: str


@dataclass(frozen=True)
class History:
    """Failures of one type on their axis of cumulative exposure, in order of time."""

    times: Floats
    end: float
    failure_terminated: bool


class Order(StrEnum):
    """What the order of the rows means."""

    TIME = "time"  # each began when the one before had ended
    UNKNOWN = "unknown"
    SORTED = "sorted"  # by duration: any order of time is lost


@dataclass(frozen=True)
class TypedDurations:
    """The durations of one type of failure, or of one stage of the way back from it.

    history: the same ends on the axis of exposure; null where the rows do not tell. has_rate: they
    are times between failures, so that events / time at risk is a rate.
    """

    type: str
    quantity: str
    sample: Durations
    history: History | None = None
    order: Order = Order.UNKNOWN
    has_rate: bool = True


@dataclass(frozen=True)
class LawFit:
    """One law with its goodness of fit; `note` says what it must not be used for."""

    fitted: Fit
    goodness: Goodness
    note: str


@dataclass(frozen=True)
class TypeFit:
    """Everything that durations of one type say, and what they do not."""

    type: str
    quantity: str
    n_events: float
    n_censored: float
    exposure: float
    laws: tuple[LawFit, ...]
    chosen: str | None
    tied: tuple[str, ...]
    trend: Trend | None
    power_law: PowerLaw | None
    rate: Rate | None
    notes: tuple[Note, ...]


def describe(typed: TypedDurations, rng: np.random.Generator, n_replicates: int) -> TypeFit:
    """All of it for one type. A trend over rows that are in order of time leaves no law chosen."""
    sample = typed.sample
    events, notes = sample.n_events, _count_notes(sample)
    fits = [fit(law, sample) for law in _allowed(events)]
    chosen, tied, choice_notes = _choose(fits, events)
    tested_fits = _goodness(fits, sample, rng, n_replicates)
    laws = tuple(
        LawFit(f, goodness, _law_note(f)) for f, goodness in zip(fits, tested_fits, strict=True)
    )
    notes += choice_notes + _law_notes(laws, chosen)
    tested, power_law = _trend(typed.history)
    if typed.order is Order.SORTED:
        notes.append(Note(Caution.ORDER_UNKNOWN, "rows sorted by duration: no trend can be seen"))
    if tested is not None and tested.verdict in ("worsening", "improving"):
        notes.append(_trend_note(tested, typed.order))
        chosen = None if typed.order is Order.TIME else chosen
    return TypeFit(
        typed.type, typed.quantity, events, sample.n_censored, sample.exposure, laws, chosen, tied,
        tested, power_law, poisson_rate(events, sample.exposure) if typed.has_rate else None,
        tuple(notes),
    )  # fmt: skip


def _trend(history: History | None) -> tuple[Trend | None, PowerLaw | None]:
    if history is None:
        return None, None
    times, end, until_failure = history.times, history.end, history.failure_terminated
    return (
        trend(times, end, failure_terminated=until_failure),
        crow_amsaa(times, end, failure_terminated=until_failure),
    )


def generator(seed: int, kind: str, quantity: str) -> np.random.Generator:
    """The generator of one type: the same whatever other types there are."""
    return np.random.default_rng([seed, zlib.crc32(f"{kind}\0{quantity}".encode())])


def _allowed(events: float) -> tuple[Law, ...]:
    if events == 0:
        return ()
    return (EXPONENTIAL,) if events < MIN_EVENTS_FOR_SHAPE else LAWS


def _count_notes(sample: Durations) -> list[Note]:
    """What the number of events does not allow."""
    events, notes = sample.n_events, []
    if events == 0:
        notes.append(Note(Caution.NO_EVENT, "no event: only an upper bound of the rate"))
    elif events < MIN_EVENTS_FOR_SHAPE:
        notes.append(
            Note(
                Caution.RATE_ONLY,
                f"{_counted(events)}: rate only; the exponential is assumed, not tested",
            )
        )
    elif events < MIN_EVENTS_FOR_CHOICE:
        notes.append(
            Note(
                Caution.FEW_EVENTS,
                f"{events:g} events: too few to tell laws apart; exponential unless a "
                f"likelihood-ratio test rejects it (p < {LR_P})",
            )
        )
    ends = sample.upper[~sample.is_censored]
    if events > 1 and np.ptp(ends) <= 1e-6 * ends.max(initial=0.0) and not sample.is_interval.any():
        notes.append(
            Note(
                Caution.EQUAL_DURATIONS,
                "all durations are equal: a timer, a fixed window or a rounded clock, not a law",
            )
        )
    if np.any(sample.weight != np.round(sample.weight)):
        notes.append(
            Note(
                Caution.FRACTIONAL_WEIGHTS,
                "weights are no counts: intervals take them as if they were, p-values are left out",
            )
        )
    return notes


def _counted(events: float) -> str:
    return f"{events:g} event{'' if events == 1 else 's'}"


def _choose(fits: list[Fit], events: float) -> tuple[str | None, tuple[str, ...], list[Note]]:
    """(chosen law, laws tied with the least AICc, notes)."""
    usable = [f for f in fits if f.converged and f.aicc is not None]
    if not usable:
        return (EXPONENTIAL.name if events else None), (), []
    by_name = {f.law.name: f for f in usable}
    if events < MIN_EVENTS_FOR_CHOICE:
        if EXPONENTIAL.name not in by_name or WEIBULL.name not in by_name:
            return EXPONENTIAL.name, (), []
        gain = 2 * (by_name[WEIBULL.name].log_likelihood - by_name[EXPONENTIAL.name].log_likelihood)
        if float(special.chdtrc(1, max(gain, 0.0))) >= LR_P:
            return EXPONENTIAL.name, (), []
        usable = [f for f in usable if f.law.name != EXPONENTIAL.name]
    best = min(_aicc(f) for f in usable)
    tied = tuple(f.law.name for f in usable if _aicc(f) - best < TIE_AICC)
    chosen = (
        EXPONENTIAL.name if EXPONENTIAL.name in tied else min(usable, key=_aicc).law.name
    )  # fmt: skip
    if len(tied) == 1:
        return chosen, tied, []
    others = ", ".join(name for name in tied if name != chosen)
    return chosen, tied, [Note(Caution.TIE, f"{chosen} is chosen; no worse: {others}")]


def _aicc(fitted: Fit) -> float:
    return float("inf") if fitted.aicc is None else fitted.aicc


def _goodness(
    fits: list[Fit], sample: Durations, rng: np.random.Generator, n_replicates: int
) -> list[Goodness]:
    if sample.n_events < MIN_EVENTS_FOR_CHOICE:
        why = f"not tested below {MIN_EVENTS_FOR_CHOICE} events"
        return [Goodness(None, None, why, 0) for _ in fits]
    usable = [f for f in fits if f.converged]
    tested = iter(goodness_of_fit(usable, sample, rng, n_replicates))
    failed = Goodness(None, None, "the fit did not converge", 0)
    return [next(tested) if f.converged else failed for f in fits]


def _law_note(fitted: Fit) -> str:
    """What a law of this sample must not be used for; empty where nothing limits it."""
    if not fitted.converged:
        return "not converged: the likelihood has no maximum; the parameters are no estimates"
    open_sides = [
        f"{side} bound of {name}"
        for name, bounds in fitted.intervals.items()
        for side, bound in zip(("lower", "upper"), bounds, strict=True)
        if bound is None
    ]
    notes = [f"no {', '.join(open_sides)} found"] if open_sides else []
    if fitted.aicc is None:
        notes.append("too few events for AICc")
    return "; ".join(notes)


def _law_notes(laws: tuple[LawFit, ...], chosen: str | None) -> list[Note]:
    notes = []
    failed = [law.fitted.law.name for law in laws if not law.fitted.converged]
    if failed:
        notes.append(Note(Caution.NOT_CONVERGED, f"no maximum found: {', '.join(failed)}"))
    for law in laws:
        if law.fitted.law.name != chosen:
            continue
        if law.note and law.fitted.converged and law.fitted.aicc is not None:
            notes.append(Note(Caution.OPEN_INTERVAL, f"{chosen}: {law.note}"))
        p = law.goodness.p
        if p is None and law.fitted.n_events >= MIN_EVENTS_FOR_CHOICE:
            notes.append(Note(Caution.NO_GOODNESS, f"goodness of fit: {law.goodness.method}"))
        elif p is not None and p < REJECTED_P:
            others = [
                f"{o.fitted.law.name} (p = {o.goodness.p:.2g})"
                for o in laws
                if o.goodness.p is not None and o.goodness.p >= REJECTED_P
            ]
            message = (
                f"the data reject the {chosen} law (p = {p:.2g}); not rejected: "
                f"{', '.join(others) or 'no law'}; use the durations themselves"
            )
            notes.append(Note(Caution.REJECTED, message))
    return notes


def _trend_note(tested: Trend, order: Order) -> Note:
    which = "more" if tested.verdict == "worsening" else "less"
    found = f"failures get {which} frequent (Laplace U = {tested.laplace_u:.2f})"
    if order is Order.TIME:
        return Note(Caution.TREND, f"{found}: no single law holds; use the rate at the end")
    return Note(Caution.TREND, f"{found} if rows are in order of time: then no single law holds")
