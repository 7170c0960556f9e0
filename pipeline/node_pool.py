"""Broken nodes and spares of many simulated jobs: who is in repair, and who must wait for it.

`back_at` is (jobs, slots): the wall clock at which a node in repair is back; a slot whose time has
passed is free. Times are seconds.
"""

from __future__ import annotations

import numpy as np

from pipeline.random_times import Floats
from pipeline.scenario import Scenario, SparePool

SOON_S = 1e-6
"""A node that comes back within this time is back: a turn is never shorter than the clock can."""


def empty(scenario: Scenario, n_jobs: int) -> Floats:
    """All nodes whole; as many slots as nodes can ever be in repair at once."""
    pool = scenario.pool
    if pool is None:
        return np.empty((n_jobs, 0))
    at_once = max((s.victims for s in scenario.stops), default=0)
    return np.full((n_jobs, pool.spares + pool.max_missing + at_once), -np.inf)


def working_share(pool: SparePool, back_at: Floats, wall: Floats) -> Floats:
    """Nodes that the job has, as a share of those it wants; spares stand in first."""
    in_repair = (back_at > wall[:, None] + SOON_S).sum(axis=1)
    return np.asarray(1 - np.maximum(in_repair - pool.spares, 0) / pool.nodes)


def until_next(back_at: Floats, wall: Floats) -> Floats:
    """Seconds until the next node is back; inf where all are."""
    away = back_at - wall[:, None]
    return np.asarray(np.where(away > SOON_S, away, np.inf).min(axis=1))


def until_enough(pool: SparePool, back_at: Floats, wall: Floats) -> Floats:
    """Seconds until no more nodes are in repair than spares and missing ones are allowed."""
    position = back_at.shape[1] - 1 - pool.spares - pool.max_missing
    if position < 0:
        return np.zeros(wall.size)
    ready = np.partition(back_at, position, axis=1)[:, position]
    return np.asarray(np.maximum(ready - wall, 0))
