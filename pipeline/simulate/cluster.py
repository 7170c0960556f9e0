"""The pool of nodes: runs ask for nodes and give them back, in the order of time."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator


@dataclass(frozen=True)
class Request:
    """`n` nodes, wanted from `at_us` on; answered with a Grant."""

    at_us: int
    n: int


@dataclass(frozen=True)
class Release:
    """Nodes given back at `at_us`; those in `back_us` only return from repair at that instant."""

    at_us: int
    nodes: tuple[int, ...]
    back_us: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Grant:
    """Nodes held from `at_us` on."""

    at_us: int
    nodes: tuple[int, ...]


def serve(n_nodes: int, lives: list[Generator[Request | Release, Grant | None, None]]) -> None:
    """Let all lives run to their end; requests are served first come, first served.

    A life that asks for more than ever becomes free is never answered: its run ends there.
    """
    free = list(range(n_nodes))
    heapq.heapify(free)
    queue: deque[tuple[int, Request]] = deque()
    order = itertools.count()
    agenda: list[tuple[int, int, int, Request | Release]] = []

    def proceed(life: int, answer: Grant | None) -> None:
        try:
            wish = lives[life].send(answer)
        except StopIteration:
            return
        heapq.heappush(agenda, (wish.at_us, next(order), life, wish))

    for life in range(len(lives)):
        proceed(life, None)
    while agenda:
        now_us, _, life, wish = heapq.heappop(agenda)
        if isinstance(wish, Request):
            queue.append((life, wish))
        else:
            for node in wish.nodes:
                if node in wish.back_us:
                    back = Release(max(wish.back_us[node], now_us), (node,))
                    heapq.heappush(agenda, (back.at_us, next(order), -1, back))
                else:
                    heapq.heappush(free, node)
            if life >= 0:
                proceed(life, None)
        while queue and queue[0][1].n <= len(free):
            waiting, request = queue.popleft()
            nodes = tuple(sorted(heapq.heappop(free) for _ in range(request.n)))
            proceed(waiting, Grant(now_us, nodes))
