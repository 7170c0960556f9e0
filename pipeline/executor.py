"""Run chunk parses in this process, or on a local pool that survives the death of a worker."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


def run(
    function: Callable[[Task], Result], tasks: Sequence[Task], jobs: int
) -> Iterator[tuple[Task, Result | None]]:
    """(task, result) of every task, in the order in which they finish.

    None is the result of a task that killed its worker twice: once beside others, once alone.
    `function` must be a top-level function, tasks and results plain values. With one job everything
    runs in this process.
    """
    if jobs <= 1 or len(tasks) <= 1:
        for task in tasks:
            yield task, function(task)
        return
    lost: list[Task] = []
    with _pool(min(jobs, len(tasks))) as pool:
        futures = {pool.submit(function, task): task for task in tasks}
        for future in as_completed(futures):
            try:
                yield futures[future], future.result()
            except BrokenProcessPool:
                lost.append(futures[future])
    for task in lost:
        with _pool(1) as pool:
            try:
                yield task, pool.submit(function, task).result()
            except BrokenProcessPool:
                yield task, None


def _pool(jobs: int) -> ProcessPoolExecutor:
    # spawn: a fork after Polars has run in the parent hangs
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(jobs, mp_context=context, initializer=_one_thread)


def _one_thread() -> None:
    os.environ["POLARS_MAX_THREADS"] = "1"


def default_jobs() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))
