"""Simulated logs through the product, and how far its answer is from the truth."""

from __future__ import annotations

import itertools
import tomllib
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from pipeline import database, timeline
from pipeline.catalog import IngestOptions
from pipeline.ingest import ingest

Row = dict[str, Any]
Stretch = tuple[datetime, datetime, str]
TABLES = ("run", "segment", "incident")
INTERVAL_SHARE = 0.005
"""Unexplained share of the wall clock above which a report gives TOR as an interval."""
NOTHING = "nothing"
"""Stands for the category where one of two timelines has no segment."""


@dataclass(frozen=True)
class Difference:
    """How far a run's answer is from the truth; pairs are (true, found)."""

    run: str
    n_runs: int
    """runs that were found for it"""
    wall_s: float
    tor: tuple[float, float | None]
    is_interval: bool
    """the report gives TOR as an interval"""
    worst_s: float
    """the longest stretch whose category is wrong, and where it begins, and the two categories"""
    worst_at: datetime | None
    worst_words: tuple[str, str]
    wrong_share: float
    """share of the wall clock whose category is wrong"""
    seconds: dict[str, tuple[float, float]]
    """by category"""
    steps_kept: tuple[int, int]
    steps_lost: tuple[int, int]
    types: tuple[list[str], list[str]]
    """of incidents that are no fail-slow episodes, in the order of their onset"""

    @property
    def tor_error(self) -> float:
        """Found minus true; nan where no TOR was found."""
        return float("nan") if self.tor[1] is None else self.tor[1] - self.tor[0]


def read_back(folder: Path, lake: Path) -> list[str]:
    """Ingest the logs of a simulation and build its timeline; the invariants that it breaks."""
    settings = tomllib.loads((folder / "wallsplit.toml").read_text())
    options = IngestOptions(timezone=settings["timezone"])
    ingest([str(folder / "logs")], lake, options)
    timeline.rebuild(lake)
    return [violation.check for violation in timeline.check(lake)]


def differences(folder: Path, lake: Path) -> list[Difference]:
    """One per true run, by name; of the found runs of a name the one with most time in common."""
    con = database.connect(lake)
    found = {name: con.table(name).to_arrow_table().to_pylist() for name in TABLES}
    true = {name: pq.read_table(folder / "truth" / f"{name}.parquet").to_pylist()
            for name in TABLES}  # fmt: skip
    runs = sorted(true["run"], key=lambda r: r["name"])
    names = {r["name"] for r in runs}
    strangers = [r for r in found["run"] if r["name"] not in names]  # without accounting
    return [
        _difference(run, [r for r in found["run"] if r["name"] == run["name"]] or strangers,
                    true, found)
        for run in runs
    ]  # fmt: skip


def _difference(
    run: Row, candidates: list[Row], true: dict[str, list[Row]], found: dict[str, list[Row]]
) -> Difference:
    def common_s(other: Row) -> float:
        end, start = min(other["end_at"], run["end_at"]), max(other["start_at"], run["start_at"])
        return max(0.0, (end - start).total_seconds())

    nobody: Row = {"run_id": None, "tor_observed": None, "steps_kept": 0, "steps_lost": 0,
                   "unexplained_share": None}  # fmt: skip
    best = max(candidates, key=common_s, default=nobody)
    lines = (
        _stretches(true["segment"], run["run_id"]),
        _stretches(found["segment"], best["run_id"]),
    )
    wrong = _wrong_stretches(*lines)
    begin, end, words = max(wrong, key=lambda w: w[1] - w[0], default=(None, None, ("", "")))
    sums: list[dict[str, float]] = [defaultdict(float), defaultdict(float)]
    for line, total in zip(lines, sums, strict=True):
        for a, b, category in line:
            total[category] += (b - a).total_seconds()
    return Difference(
        run=run["name"],
        n_runs=len(candidates),
        wall_s=run["wall_s"],
        tor=(run["tor_observed"], best["tor_observed"]),
        is_interval=(best["unexplained_share"] or 0) > INTERVAL_SHARE,
        worst_s=(end - begin).total_seconds() if begin and end else 0.0,
        worst_at=begin,
        worst_words=words,
        wrong_share=sum((b - a).total_seconds() for a, b, _ in wrong) / run["wall_s"],
        seconds={c: (sums[0][c], sums[1][c]) for c in sorted({*sums[0], *sums[1]})},
        steps_kept=(run["steps_kept"], best["steps_kept"]),
        steps_lost=(run["steps_lost"], best["steps_lost"]),
        types=(_types(true["incident"], run), _types(found["incident"], best)),
    )


def _types(incidents: list[Row], run: Row) -> list[str]:
    own = [i for i in incidents if i["run_id"] == run["run_id"] and i["mode"] != "fail_slow"]
    return [i["type"] for i in sorted(own, key=lambda i: i["onset_at"])]


def _stretches(segments: list[Row], run_id: str | None) -> list[Stretch]:
    own = sorted((s for s in segments if s["run_id"] == run_id), key=lambda s: s["start_at"])
    return [(s["start_at"], s["end_at"], s["category"]) for s in own]


def _wrong_stretches(
    true: list[Stretch], found: list[Stretch]
) -> list[tuple[datetime, datetime, tuple[str, str]]]:
    """(start, end, (true, found) at its start) of every stretch of unequal category."""
    edges = sorted({t for a, b, _ in true + found for t in (a, b)})
    wrong: list[tuple[datetime, datetime, tuple[str, str]]] = []
    i = j = 0
    for a, b in itertools.pairwise(edges):
        while i < len(true) and true[i][1] <= a:
            i += 1
        while j < len(found) and found[j][1] <= a:
            j += 1
        one = true[i][2] if i < len(true) and true[i][0] <= a else NOTHING
        other = found[j][2] if j < len(found) and found[j][0] <= a else NOTHING
        if one == other:
            continue
        if wrong and wrong[-1][1] == a:
            wrong[-1] = (wrong[-1][0], b, wrong[-1][2])
        else:
            wrong.append((a, b, (one, other)))
    return wrong
