"""Fits for programs and for people: the JSON contract of `wallsplit fit`, and its text."""

from __future__ import annotations

import math
from collections.abc import Iterable

from pipeline.rates import Rate
from pipeline.recurrence import PowerLaw, Trend
from pipeline.selection import LawFit, TypeFit

Json = dict[str, object]


def as_json(found: TypeFit, seed: int, unit: str | None) -> Json:
    """One type as the contract has it; a value that does not exist is null.

    unit: of all times and parameters; null where the input does not say it.
    """
    return {
        "type": found.type,
        "quantity": found.quantity,
        "unit": unit,
        "n_events": _count(found.n_events),
        "n_censored": _count(found.n_censored),
        "exposure": found.exposure,
        "laws": [_law(law) for law in found.laws],
        "chosen": found.chosen,
        "tied": list(found.tied),
        "trend": _trend(found.trend, found.power_law),
        "rate": _rate(found.rate),
        "notes": [{"name": str(n.caution), "message": n.message} for n in found.notes],
        "seed": seed,
    }


def _law(law: LawFit) -> Json:
    fitted, goodness = law.fitted, law.goodness
    is_known = fitted.converged
    return {
        "law": fitted.law.name,
        "parameters": {
            name: _finite(value) if is_known else None for name, value in fitted.parameters.items()
        },
        "standard_errors": dict(fitted.standard_errors),
        "intervals": {name: list(bounds) for name, bounds in fitted.intervals.items()},
        "interval_method": fitted.interval_method,
        "log_likelihood": _finite(fitted.log_likelihood) if is_known else None,
        "aicc": fitted.aicc if is_known else None,
        "bic": _finite(fitted.bic) if is_known else None,
        "gof": {
            "statistic": goodness.statistic, "p": goodness.p, "method": goodness.method,
            "replicates": goodness.n_replicates,
        },
        "converged": fitted.converged,
        "note": law.note or None,
    }  # fmt: skip


def _trend(found: Trend | None, law: PowerLaw | None) -> Json | None:
    """p is that of MIL-HDBK-189, two-sided."""
    if found is None:
        return None
    return {
        "laplace_u": found.laplace_u, "laplace_p": found.laplace_p,
        "mil_hdbk_189_chi2": found.mil_hdbk_189_chi2, "df": found.df, "p": found.mil_hdbk_189_p,
        "verdict": found.verdict,
        "crow_amsaa": None if law is None else {
            "beta": law.beta, "lambda": law.scale, "beta_interval": [law.beta_low, law.beta_high],
            "beta_unbiased": law.beta_unbiased, "end_intensity": law.end_intensity,
            "end_intensity_interval": [law.end_intensity_low, law.end_intensity_high],
        },
    }  # fmt: skip


def _rate(rate: Rate | None) -> Json | None:
    if rate is None:
        return None
    return {
        "value": rate.rate, "ci_low": rate.low, "ci_high": rate.high, "exposure": rate.exposure,
        "mtbf": rate.mtbf, "mtbf_low": rate.mtbf_low, "mtbf_high": rate.mtbf_high,
        "method": rate.method,
    }  # fmt: skip


def _count(value: float) -> int | float:
    return int(value) if value == int(value) else value


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def as_text(found: Iterable[TypeFit], seed: int, n_replicates: int, unit: str | None) -> str:
    """All types for people: rate, trend, laws with intervals, what limits them."""
    blocks = [_block(one, unit or "unit of the input") for one in found]
    footer = (
        f"intervals at 95 %; * chosen; goodness of fit with {n_replicates} replicates, seed {seed}"
    )
    return "\n\n".join([*blocks, footer])


def _block(found: TypeFit, unit: str) -> str:
    plural = "" if found.n_events == 1 else "s"
    counts = f"{found.n_events:g} event{plural}, {found.n_censored:g} censored"
    lines = [f"{found.type} {found.quantity}: {counts}, {_short(found.exposure)} at risk [{unit}]"]
    if found.rate is not None:
        lines.append(f"  {_rate_text(found.rate)}")
    if found.trend is not None:
        lines.append(f"  {_trend_text(found.trend)}")
    if found.laws:
        lines += _law_lines(found)
    lines += [f"  {note.caution}: {note.message}" for note in found.notes]
    return "\n".join(lines)


def _rate_text(rate: Rate) -> str:
    if rate.mtbf is None:
        return (
            f"rate at most {_short(rate.high)}, mean time between at least {_short(rate.mtbf_low)} "
            f"({rate.method})"
        )
    high = "" if rate.mtbf_high is None else _short(rate.mtbf_high)
    return (
        f"rate {_short(rate.rate)} ({_short(rate.low)} to {_short(rate.high)}), mean time between "
        f"{_short(rate.mtbf)} ({_short(rate.mtbf_low)} to {high})"
    )


def _trend_text(found: Trend) -> str:
    verdict = found.verdict.replace("_", " ")
    return (
        f"trend: {verdict}; Laplace U = {found.laplace_u:.2f} (p = {found.laplace_p:.2g}), "
        f"MIL-HDBK-189 chi2 = {found.mil_hdbk_189_chi2:.1f}, {found.df} df "
        f"(p = {found.mil_hdbk_189_p:.2g})"
    )


def _law_lines(found: TypeFit) -> list[str]:
    rows = [("", "law", "parameters", "AICc", "fit p")]
    for law in found.laws:
        fitted = law.fitted
        parameters = (
            ", ".join(
                f"{name} {_short(value)} ({_bound(fitted.intervals[name][0])} to "
                f"{_bound(fitted.intervals[name][1])})"
                for name, value in fitted.parameters.items()
            )
            if fitted.converged
            else "not converged"
        )
        aicc = "" if fitted.aicc is None or not fitted.converged else f"{fitted.aicc:.1f}"
        p = "" if law.goodness.p is None else f"{law.goodness.p:.3f}"
        mark = "*" if fitted.law.name == found.chosen else ""
        rows.append((mark, fitted.law.name, parameters, aicc, p))
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    return [
        f"  {row[0]:1} {row[1]:{widths[1]}}  {row[2]:{widths[2]}}  {row[3]:>{widths[3]}}  "
        f"{row[4]:>{widths[4]}}".rstrip()
        for row in rows
    ]


def cell(value: object) -> object:
    """A value of a table for people: four digits of a float."""
    return _short(value) if isinstance(value, float) else value


def _short(value: float) -> str:
    return f"{value:.4g}"


def _bound(value: float | None) -> str:
    return "?" if value is None else _short(value)
