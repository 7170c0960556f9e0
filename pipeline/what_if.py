"""The answer to a question about parameters: the prediction, under strategies a range of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from pipeline import strategies
from pipeline.errors import ParameterError
from pipeline.parameters import Parameters, Setup, option, setup
from pipeline.predict import N_REPLICAS, Prediction, predict
from pipeline.strategies import EXTRAPOLATED, Applied, End, Strategy

GPUS_PER_NODE = 8


@dataclass(frozen=True)
class Options:
    """How to answer."""

    method: str | None = None
    strategy_ids: tuple[str, ...] = ()
    seed: int = 0
    n_replicas: int = N_REPLICAS


@dataclass(frozen=True)
class UnderStrategies:
    """What strategies make of a prediction."""

    strategies: tuple[Strategy, ...]
    baseline: Prediction
    low: Prediction
    high: Prediction
    typical: Prediction | None
    changed: tuple[str, ...]
    skipped: tuple[str, ...]


@dataclass(frozen=True)
class Answer:
    """The prediction that is meant, with the range that strategies give it."""

    setup: Setup
    prediction: Prediction
    under: UnderStrategies | None


def answer(given: Parameters, options: Options) -> Answer:
    """Predicted TOR of the parameters; under strategies the typical one, else the worst.

    With strategies ci_low and ci_high span from the worst to the best end of their evidence.
    ParameterError names everything wrong with the parameters.
    """
    made = setup(given)
    baseline = _told(made, _predicted(made, options))
    if not options.strategy_ids:
        return Answer(made, baseline, None)
    chosen = strategies.find(options.strategy_ids)
    under = _under(given, made, options, chosen, baseline)
    low = _least(under.low)
    high = max(under.high.tor, under.high.ci_high or 0.0)
    meant = under.typical or under.low
    prediction = replace(
        meant, ci_low=min(low, meant.tor), ci_high=max(high, meant.tor),
        assumptions=(*meant.assumptions, *_strategy_notes(under)),
        flags=(*meant.flags, *_strategy_flags(given, under)),
    )  # fmt: skip
    return Answer(made, prediction, under)


def _predicted(made: Setup, options: Options) -> Prediction:
    return predict(
        made.scenario, method=options.method, storage=made.storage, seed=options.seed,
        n_replicas=options.n_replicas,
    )  # fmt: skip


def _told(made: Setup, prediction: Prediction) -> Prediction:
    """The prediction with what was taken for granted on the way to its scenario."""
    return replace(
        prediction,
        assumptions=(*prediction.assumptions, *made.notes),
        flags=(*made.flags, *prediction.flags),
    )


def _under(
    given: Parameters,
    made: Setup,
    options: Options,
    chosen: tuple[Strategy, ...],
    baseline: Prediction,
) -> UnderStrategies:
    ends = {
        end: strategies.apply(made.scenario, chosen, end, given.step_time_s) for end in End
    }  # fmt: skip
    found = {
        end: baseline
        if applied.scenario == made.scenario
        else _told(made, _predicted(replace(made, scenario=applied.scenario), options))
        for end, applied in ends.items()
    }
    low, high = sorted((found[End.WORST], found[End.BEST]), key=lambda p: p.tor)
    has_typical = all(
        End.TYPICAL in c.values for s in chosen for c in s.changes if c.values
    ) and not any(s.is_claim for s in chosen)
    best: Applied = ends[End.BEST]
    return UnderStrategies(
        chosen, baseline, low, high, found[End.TYPICAL] if has_typical else None,
        best.changed, best.skipped,
    )  # fmt: skip


def _least(prediction: Prediction) -> float:
    return prediction.tor if prediction.ci_low is None else prediction.ci_low


def _strategy_notes(under: UnderStrategies) -> list[str]:
    notes = [f"{s.id}: {s.evidence} ({s.source})" for s in under.strategies]
    notes += [f"{s.id} needs {'; '.join(s.requires)}" for s in under.strategies if s.requires]
    notes.append("ci_low to ci_high spans from the worst to the best end of the evidence")
    return notes


def _strategy_flags(given: Parameters, under: UnderStrategies) -> list[str]:
    flags = [f"not applied: {x}" for x in under.skipped]
    if not under.changed:
        flags.append("no figure of the strategy can be applied here: nothing was computed")
    if under.typical is None and under.changed:
        flags.append(
            f"a range, no value: TOR {under.low.tor:.4f} to {under.high.tor:.4f}, without the "
            f"strategy {under.baseline.tor:.4f}"
        )
    if given.failure_type == strategies.ANY:
        flags += [
            f"{s.id} covers {', '.join(s.covers) or 'no failures'}: all failures are taken to be "
            "of these kinds (--failure-type says of which they are)"
            for s in under.strategies
        ]
    devices = (given.nodes or 0) * GPUS_PER_NODE
    return flags + [
        f"{s.id} was shown at {s.largest_devices:,} devices at most: extrapolated to "
        f"{devices:,} ({GPUS_PER_NODE} per node)"
        for s in under.strategies
        if s.largest_devices is not None and devices > EXTRAPOLATED * s.largest_devices
    ]


@dataclass(frozen=True)
class Sweep:
    """One parameter over a range, the answer at each value."""

    parameter: str
    answers: tuple[tuple[float, Answer], ...]


SWEPT: Mapping[str, str] = {
    option(name).removeprefix("--"): name
    for name in (
        "mtbf_s", "node_rate", "nodes", "uptime_shape", "burst_share", "burst_gap_s",
        "checkpoint_interval_s", "checkpoint_cost_s", "checkpoint_latency_s", "memory_cost_s",
        "memory_survives", "detect_s", "restart_s", "slow_mtbe_s", "slow_duration_s", "slow_ratio",
        "mitigation_pause_s", "mitigation_loss_s", "spares", "repair_s", "max_missing",
    )
}  # fmt: skip
"""Option without dashes -> field: what a sweep may vary."""
_WHOLE = {"nodes", "spares", "max-missing"}
MAX_POINTS = 1000


def sweep(given: Parameters, options: Options, text: str) -> Sweep:
    """The answers along `PARAM=from:to:n`, n values evenly apart, both ends included.

    ParameterError if the text is none, or any value gives an impossible scenario.
    """
    problems = sweep_problems(text)
    if problems:
        raise ParameterError(problems)
    parameter, first, last, n = _parts(text)
    rows = []
    for value in np.linspace(first, last, int(n)).tolist():
        whole = round(value) if parameter in _WHOLE else value
        try:
            rows.append((float(whole), answer(_at(given, parameter, whole), options)))
        except ParameterError as error:
            raise ParameterError([f"--sweep {parameter} = {whole:g}: {p}"
                                  for p in error.problems]) from error  # fmt: skip
    return Sweep(parameter, tuple(rows))


def at_first_value(given: Parameters, text: str) -> Parameters:
    """The parameters with which a sweep begins, which must be complete."""
    parameter, first, *_ = _parts(text)
    return _at(given, parameter, round(first) if parameter in _WHOLE else first)


def _at(given: Parameters, parameter: str, value: float) -> Parameters:
    return replace(given, **{SWEPT[parameter]: value})  # type: ignore[arg-type]  # chosen at run time


def sweep_problems(text: str) -> list[str]:
    """What keeps a text from being PARAM=from:to:n."""
    parameter, first, last, n = _parts(text)
    problems = []
    if parameter not in SWEPT:
        problems.append(f"--sweep {parameter!r}: expected one of {', '.join(SWEPT)}")
    if not (math.isfinite(first) and math.isfinite(last) and 2 <= n <= MAX_POINTS
            and n == round(n)):  # fmt: skip
        problems.append(
            f"--sweep {text!r}: expected PARAM=from:to:n with numbers and 2 to {MAX_POINTS} values"
        )
    return problems


def _parts(text: str) -> tuple[str, float, float, float]:
    parameter, _, span = text.partition("=")
    try:
        first, last, n = (float(x) for x in span.split(":"))
    except ValueError:
        first, last, n = math.nan, math.nan, 0.0
    return parameter.removeprefix("--"), first, last, n
