"""A predicted TOR as JSON and as lines for a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.parameters import Parameters
from pipeline.predict import LossRow, Prediction
from pipeline.random_times import mean_of
from pipeline.report import words
from pipeline.scenario import Scenario
from pipeline.what_if import Answer, Sweep, UnderStrategies

Json = Mapping[str, object]
_HOUR = 3600
_SHOWN = 5


def as_json(given: Parameters, answer: Answer) -> Json:
    """The JSON of `wallsplit predict`: the documented fields first, then what else is known."""
    p = answer.prediction
    return {
        "tor": p.tor,
        "ci_low": p.ci_low,
        "ci_high": p.ci_high,
        "method": p.method,
        "clock": given.clock,
        "parameters": _parameters(given, answer),
        "loss_budget": [_loss(row) for row in p.losses],
        "optimal_interval_s": {
            "exact": p.optimum.exact,
            "young": p.optimum.young,
            "daly": p.optimum.daly,
            "within_storage": p.optimum.within_storage,
            "tor": p.optimum.tor,
            "gain": p.optimum.gain,
        },
        "assumptions": list(p.assumptions),
        "flags": list(p.flags),
        "seed": p.seed,
        "form": p.form,
        "closed_tor": p.closed_tor,
        "first_order_tor": p.first_order_tor,
        "simulated_tor": p.simulated_tor,
        "standard_error": p.standard_error,
        "tor_per_provisioned_node": _per_provisioned_node(given, p.tor),
        "sensitivity": [{"what_if": w, "tor_gain": g} for w, g in p.sensitivities],
        "strategy": _strategy(answer.under) if answer.under else None,
    }


def _parameters(given: Parameters, answer: Answer) -> Json:
    scenario = answer.setup.scenario
    plan = scenario.checkpointing
    slow = scenario.slows[0] if scenario.slows else None
    return {
        "mtbf_up_s": answer.setup.mtbf_up_s,
        "mtbf_wall_s": answer.setup.mtbf_wall_s,
        "tau_s": plan.tau_s,
        "delta_s": plan.delta_s,
        "ckpt_latency_s": plan.latency_s,
        "memory_interval_s": plan.memory.interval_s if plan.memory else None,
        "memory_cost_s": plan.memory.cost_s if plan.memory else None,
        "detect_s": _of_stops(scenario, "detect_s"),
        "restart_s": _of_stops(scenario, "restart_s"),
        "slow_mtbe_s": slow.onset.mean if slow else None,
        "slow_dur_s": mean_of(slow.duration_s) if slow else None,
        "r_slow": slow.ratio if slow else None,
        "mitigate_pause_s": slow.pause_s if slow else None,
        "mitigate_loss_s": slow.loss_s if slow else None,
        "nodes": given.nodes,
        "spares": given.spares,
        "repair_s": given.repair_s,
        "max_missing": given.max_missing,
        "uptime_shape": given.uptime_shape,
        "burst_share": given.burst_share,
        "burst_gap_s": given.burst_gap_s,
        "failures": given.failures,
        "exposure_s": given.exposure_s,
        "step_time_s": given.step_time_s,
    }


def _of_stops(scenario: Scenario, name: str) -> float | None:
    return mean_of(getattr(scenario.stops[0], name)) if scenario.stops else None


def _loss(row: LossRow) -> Json:
    return {
        "type": row.type,
        "seconds_per_hour": row.share * _HOUR,
        "share": row.share,
        "redone_share": row.redone,
        "down_share": row.down,
        "slow_share": row.slow,
    }


def _per_provisioned_node(given: Parameters, tor: float) -> float | None:
    """TOR of all nodes paid for, spares included."""
    if given.nodes is None or given.spares is None:
        return None
    return tor * given.nodes / (given.nodes + given.spares)


def _strategy(under: UnderStrategies) -> Json:
    return {
        "ids": [s.id for s in under.strategies],
        "tor_low": under.low.tor,
        "tor_typical": under.typical.tor if under.typical else None,
        "tor_high": under.high.tor,
        "tor_baseline": under.baseline.tor,
        "changed": list(under.changed),
        "not_applied": list(under.skipped),
        "evidence": [
            {"id": s.id, "kind": s.evidence, "scale": s.scale, "source": s.source, "url": s.url,
             "claim": s.claim, "requires": list(s.requires), "notes": s.notes}
            for s in under.strategies
        ],
    }  # fmt: skip


def as_text(given: Parameters, answer: Answer) -> str:
    """The answer first, then where time goes, what would help, what to know about it."""
    p = answer.prediction
    lines = [_headline(answer)]
    if answer.under is not None:
        lines += _strategy_lines(answer.under)
    lines.append(f"lost {words.duration((1 - p.tor) * _HOUR)} of every hour")
    lines += [_loss_line(row) for row in p.losses if row.share > 0]
    lines += _interval_lines(answer)
    if p.sensitivities:
        lines.append("what would help")
        lines += [f"  {100 * g:+6.2f} points  {w}" for w, g in p.sensitivities[:_SHOWN]]
    per_node = _per_provisioned_node(given, p.tor)
    if per_node is not None:
        lines.append(f"TOR {per_node:.4f} per provisioned node, spares included")
    lines += [f"note: {x}" for x in p.flags]
    lines += ["assumes", *(f"  {x}" for x in p.assumptions)]
    return "\n".join(lines)


def _headline(answer: Answer) -> str:
    p = answer.prediction
    found = [f"TOR {p.tor:.4f}"]
    if p.ci_low is not None and p.ci_high is not None:
        found.append(f"({p.ci_low:.4f} to {p.ci_high:.4f})")
    how = f"closed form {p.form}" if p.method == "closed" else "simulated"
    if p.standard_error is not None:
        how += f", standard error {p.standard_error:.1g}"
    up, wall = answer.setup.mtbf_up_s, answer.setup.mtbf_wall_s
    if up is not None:
        how += f", one failure in {words.duration(up)} of up time"
    if wall is not None:
        how += f" ({words.duration(wall)} of wall clock)"
    return f"{' '.join(found)}  {how}"


def _loss_line(row: LossRow) -> str:
    parts = {"redone work": row.redone, "down": row.down, "": row.slow}
    named = [f"{words.share(v)} {k}" for k, v in parts.items() if v > 0 and k]
    detail = f"  ({', '.join(named)})" if len(named) > 1 or (named and row.slow) else ""
    seconds = words.duration(row.share * _HOUR)
    return f"  {words.share(row.share):>6}  {seconds:>13}  {row.type}{detail}"


def _interval_lines(answer: Answer) -> list[str]:
    best = answer.prediction.optimum
    tau = answer.setup.scenario.checkpointing.tau_s
    if best.exact is None or best.young is None or best.daly is None:
        return []
    line = (
        f"checkpoint every {words.duration(tau)} of work; best {words.duration(best.exact)}"
        f" (Young {words.duration(best.young)}, Daly {words.duration(best.daly)})"
    )
    if best.gain is not None:
        line += f": {100 * best.gain:+.2f} points"
    return [line]


def _strategy_lines(under: UnderStrategies) -> list[str]:
    ids = " and ".join(s.id for s in under.strategies)
    span = f"TOR {under.low.tor:.4f} to {under.high.tor:.4f}"
    without = f"without {under.baseline.tor:.4f}"
    return [f"with {ids}: {span}, {without}", *(f"  {x}" for x in under.changed)]


def sweep_json(sweep: Sweep) -> Json:
    """One row per value of the parameter."""
    return {
        "parameter": sweep.parameter,
        "rows": [_sweep_row(value, answer.prediction) for value, answer in sweep.answers],
    }


def _sweep_row(value: float, p: Prediction) -> dict[str, object]:
    return {
        "value": value,
        "tor": p.tor,
        "ci_low": p.ci_low,
        "ci_high": p.ci_high,
        "method": p.method,
        "standard_error": p.standard_error,
        "optimal_interval_s": p.optimum.exact,
        "flags": list(p.flags),
    }


def sweep_text(sweep: Sweep) -> str:
    """A line per value, the best one marked."""
    best = max(answer.prediction.tor for _, answer in sweep.answers)
    lines = [f"{sweep.parameter:>20}  TOR     method"]
    for value, answer in sweep.answers:
        p = answer.prediction
        mark = "  best" if p.tor == best else ""
        lines.append(f"{value:>20.6g}  {p.tor:.4f}  {p.method}{mark}")
    return "\n".join(lines)
