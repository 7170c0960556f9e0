"""Scenarios whose TOR is known: from the derivation's check tables and from simulation."""

from __future__ import annotations

from pipeline.random_times import Exponential
from pipeline.scenario import Checkpointing, FailSlow, FailStop, Scenario

HOUR, DAY = 3600.0, 86400.0


def stop(name: str, rate: float, detect: float, restart: float, **more: object) -> FailStop:
    return FailStop(name, Exponential(1 / rate), detect, restart, **more)  # type: ignore[arg-type]


def slow(rate: float, duration: float, ratio: float, pause: float, **more: object) -> FailSlow:
    return FailSlow("slow", Exponential(1 / rate), Exponential(duration), ratio, pause, **more)  # type: ignore[arg-type]


def one_type(
    tau: float, delta: float, detect: float, restart: float, mtbf: float, latency: float = 0.0
) -> Scenario:
    """One exponential fail-stop type."""
    return Scenario(
        Checkpointing(tau, delta, latency), (stop("failure", 1 / mtbf, detect, restart),)
    )


LLAMA = Scenario(
    Checkpointing(1800, 20),
    (
        stop("gpu", 220 / (54 * DAY), 60, 540),
        stop("software", 54 / (54 * DAY), 600, 900),
        stop("other", 145 / (54 * DAY), 300, 600),
    ),
    (slow(1 / (6 * HOUR), 900, 0.8, 60),),
)
HARSH = Scenario(
    Checkpointing(1200, 30),
    (stop("a", 1 / (2 * HOUR), 300, 600), stop("b", 1 / (8 * HOUR), 1800, 900)),
    (slow(1 / (3 * HOUR), 1800, 0.5, 120),),
)
MILD = Scenario(
    Checkpointing(3600, 10),
    (stop("a", 1 / (40 * HOUR), 600, 600),),
    (slow(1 / (24 * HOUR), 1440, 0.7, 0),),
)
MIXTURES = {
    # scenario, simulated, (7), (8)
    "llama-like": (LLAMA, 0.83854, 0.83607, 0.83907),
    "harsh": (HARSH, 0.66781, 0.64246, 0.66699),
    "mild": (MILD, 0.97205, 0.97165, 0.97180),
}
