"""From a scenario and a seed to a history."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime

import numpy as np

from pipeline.simulate.cluster import serve
from pipeline.simulate.hazards import Hazards
from pipeline.simulate.history import History, RunHistory
from pipeline.simulate.laws import US_PER_S
from pipeline.simulate.life import RunLife
from pipeline.simulate.scenario import Scenario

FIRST_JOB_ID = 48211


def simulate(scenario: Scenario, seed: int) -> History:
    """What happens on the cluster; the same scenario and seed give the same history."""
    streams = np.random.SeedSequence(seed).spawn(len(scenario.run) + 1)
    begin = datetime.fromisoformat(scenario.cluster.start).replace(tzinfo=UTC)
    start_us = round(begin.timestamp()) * US_PER_S
    hazards = Hazards(scenario, np.random.default_rng(streams[0]), start_us)
    job_ids = itertools.count(FIRST_JOB_ID, 7)
    runs = [RunHistory(spec) for spec in scenario.run]
    lives = [
        RunLife(i, run, scenario, hazards, np.random.default_rng(streams[i + 1]), job_ids, start_us)
        for i, run in enumerate(runs)
    ]
    serve(scenario.cluster.nodes, [life.live() for life in lives])
    return History(scenario, seed, [run for run in runs if run.attempts])
