"""Failure rates of a job of another size: per node, and as a line through several sizes.

Rates per node do not carry over without limit: published clusters fail up to three times as often
as their node rate says, and large jobs more than linearly. Hence the marks below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from pipeline.errors import ParameterError
from pipeline.scenario import positive

_DAY_S = 86400.0
DIVERGENT = 2.0
"""Factor between two mean times beyond which they contradict each other."""
EXTRAPOLATED = 2.0
"""Factor beyond the largest observed size from which a rate is extrapolated."""


def mttf_s(failures_per_1000_node_days: float, nodes: float) -> float:
    """Mean time to failure of a job on `nodes` nodes, if failures are proportional to nodes."""
    problems = positive("failures_per_1000_node_days", failures_per_1000_node_days)
    problems += positive("nodes", nodes)
    if problems:
        raise ParameterError(problems)
    return 1000 * _DAY_S / (failures_per_1000_node_days * nodes)


def per_1000_node_days(n_failures: float, nodes: float, exposure_s: float) -> float:
    """Failures per 1000 node-days of `nodes` nodes observed for `exposure_s` each."""
    problems = positive("nodes", nodes) + positive("exposure_s", exposure_s)
    if problems:
        raise ParameterError(problems)
    return 1000 * n_failures / (nodes * exposure_s / _DAY_S)


def divergence(expected_s: float, measured_s: float) -> float | None:
    """Expected over measured mean time where they differ by more than a factor of two, else None.

    Above 1: the job fails more often than its nodes say.
    """
    factor = expected_s / measured_s
    return factor if max(factor, 1 / factor) > DIVERGENT else None


@dataclass(frozen=True)
class SizeLine:
    """rate = job_rate + node_rate x nodes, in failures per second."""

    job_rate: float
    node_rate: float
    largest: float
    """Largest size that was observed, in nodes."""

    def rate(self, nodes: float) -> float:
        """Failures per second of a job of this size."""
        return self.job_rate + self.node_rate * nodes

    def is_extrapolated(self, nodes: float) -> bool:
        """Whether the size is more than twice the largest observed one."""
        return nodes > EXTRAPOLATED * self.largest


def fit_size_line(
    nodes: Sequence[float], n_failures: Sequence[int], exposure_s: Sequence[float]
) -> SizeLine:
    """The line of greatest Poisson likelihood, both rates at least 0.

    One entry per job size: nodes, failures, seconds in which jobs of this size were observed. One
    size alone cannot tell the two rates apart: all of it is put on the nodes.
    """
    size = np.asarray(nodes, dtype=np.float64)
    count = np.asarray(n_failures, dtype=np.float64)
    exposure = np.asarray(exposure_s, dtype=np.float64)
    problems = [p for x in size for p in positive("nodes", float(x))]
    problems += [p for x in exposure for p in positive("exposure_s", float(x))]
    if not size.size or size.size != count.size or size.size != exposure.size:
        problems.append("nodes, n_failures, exposure_s: expected one of each per job size")
    if problems:
        raise ParameterError(problems)
    total = count.sum()
    if np.unique(size).size == 1 or total == 0:
        return SizeLine(0.0, float(total / (size * exposure).sum()), float(size.max()))

    # expected counts per size if all failures came from the job, or from the nodes
    parts = np.stack([exposure / exposure.sum(), size * exposure / (size * exposure).sum()])

    # at the maximum the expected counts sum to the observed ones: one share is left to find
    def loss(share: float) -> float:
        expected = total * (share * parts[0] + (1 - share) * parts[1])
        return float(-(count * np.log(expected)).sum())

    best = optimize.minimize_scalar(loss, bounds=(0.0, 1.0), method="bounded",
                                    options={"xatol": 1e-12})  # fmt: skip
    share = min((0.0, 1.0, float(best.x)), key=loss)
    return SizeLine(
        share * total / exposure.sum(),
        (1 - share) * total / float((size * exposure).sum()),
        float(size.max()),
    )
