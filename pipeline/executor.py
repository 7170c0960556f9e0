"""Run chunk parses in this process, or on a local pool that survives the death of a worker."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
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
    `function` must be a top-level function, tasks and results plain values. With one job or one
    task everything runs in this process. Whoever stops iterating drops the tasks not begun.
    """
    if jobs <= 1 or len(tasks) <= 1:
        for task in tasks:
            yield task, function(task)
        return
    lost: list[Task] = []
    yield from _run_together(function, tasks, min(jobs, len(tasks)), lost)
    yield from _run_alone(function, lost)


def _run_together(
    function: Callable[[Task], Result], tasks: Sequence[Task], jobs: int, lost: list[Task]
) -> Iterator[tuple[Task, Result]]:
    """Results of what finished; the rest, once a worker has died, goes to `lost`."""
    pool = _pool(jobs)
    try:
        futures = {}
        for task in tasks:
            try:
                futures[pool.submit(function, task)] = task
            except BrokenProcessPool:
                lost.append(task)
        for future in as_completed(futures):
            try:
                result = future.result()
            except BrokenProcessPool:
                lost.append(futures[future])
            else:
                yield futures[future], result
    finally:
        pool.shutdown(cancel_futures=True)


def _run_alone(
    function: Callable[[Task], Result], tasks: Sequence[Task]
) -> Iterator[tuple[Task, Result | None]]:
    """One task at a time in a worker of its own, a new one after each death."""
    pool: ProcessPoolExecutor | None = None
    try:
        for task in tasks:
            pool = pool or _pool(1)
            try:
                result: Result | None = pool.submit(function, task).result()
            except BrokenProcessPool:
                pool.shutdown()
                pool, result = None, None
            yield task, result
    finally:
        if pool is not None:
            pool.shutdown(cancel_futures=True)


def _pool(jobs: int) -> ProcessPoolExecutor:
    # spawn: a fork after Polars has run in the parent hangs
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin_worker)


def _begin_worker() -> None:
    os.environ["POLARS_MAX_THREADS"] = "1"
    # the parent handles Ctrl-C; a worker would only print a traceback
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker whose parent was killed waits for tasks for ever: end it."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def default_jobs() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))
