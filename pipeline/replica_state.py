"""What the simulation knows of each of its jobs at one moment: a row per job, a column per fact."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from pipeline.random_times import Floats

Ints = npt.NDArray[np.int64]


@dataclass
class State:
    """One row per living replica; times in seconds."""

    number: Ints
    wall: Floats
    up: Floats  # up time since the beginning
    age: Floats  # up time since the last restart
    intervals: Floats  # durable checkpoints taken: whole intervals of work
    copies: Floats  # memory copies since then
    done: Floats  # work since the last save of any tier
    stalled: Floats  # part of the current stall that is over
    owed: Floats  # work redone without going back to a checkpoint
    fail_at: Floats  # age of the next failure
    fail_type: Ints
    slow_on: Floats  # (replicas, slow types): age of the next onset
    slow_end: Floats  # age at which the degraded state ends
    marks: Floats  # (replicas, m): up time of the last durable checkpoints, newest first
    back_at: Floats  # (replicas, k): wall clock at which nodes in repair are back

    @classmethod
    def fresh(cls, n: int, n_slow: int, n_marks: int, back_at: Floats) -> State:
        """`n` jobs that begin."""
        return cls(
            number=np.arange(n), wall=np.zeros(n), up=np.zeros(n), age=np.zeros(n),
            intervals=np.zeros(n), copies=np.zeros(n), done=np.zeros(n), stalled=np.zeros(n),
            owed=np.zeros(n), fail_at=np.full(n, np.inf), fail_type=np.zeros(n, dtype=np.int64),
            slow_on=np.full((n, n_slow), np.inf), slow_end=np.full((n, n_slow), -np.inf),
            marks=np.full((n, n_marks), -np.inf), back_at=back_at,
        )  # fmt: skip

    def take(self, rows: npt.NDArray[np.bool_]) -> State:
        """The rows that are true."""
        return State(*(getattr(self, f.name)[rows] for f in fields(self)))


def marked(marks: Floats, n_new: Floats, newest: Floats, spacing: Floats) -> Floats:
    """The last checkpoints after `n_new` more, the newest of which at `newest`."""
    order = np.arange(marks.shape[1])
    added = np.minimum(n_new, marks.shape[1]).astype(np.int64)[:, None]
    old = np.take_along_axis(marks, np.maximum(order - added, 0), axis=1)
    new = newest[:, None] - order * spacing[:, None]
    return np.asarray(np.where(order < added, new, old))
