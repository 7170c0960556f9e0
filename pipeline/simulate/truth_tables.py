"""The truth as tables `run`, `segment` and `incident`, in the product's own columns.

What only a reading of logs can have (confidence, evidence, rules, lines) is null.
"""

from __future__ import annotations

import bisect
import itertools
from collections import defaultdict
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.schema import INCIDENT, RUN, SEGMENT
from pipeline.simulate.history import Attempt, End, History, Incident, Launch
from pipeline.simulate.scenario import Detection
from pipeline.simulate.stories import load_stories
from pipeline.simulate.truth import Piece, RunTruth, truth_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from parsers.tables import Table

Row = dict[str, object]


def write(history: History, folder: Path) -> None:
    """Write the three tables as Parquet files into `folder`, which must exist."""
    truths = truth_of(history)
    rows: dict[Table, list[Row]] = {RUN: [], SEGMENT: [], INCIDENT: []}
    for truth in truths:
        rows[RUN].append(_run_row(history, truth))
        rows[SEGMENT] += _segment_rows(history, truth)
        rows[INCIDENT] += _incident_rows(history, truth)
    for table, given in rows.items():
        pq.write_table(
            pa.Table.from_pylist(given, schema=table.schema), folder / f"{table.name}.parquet"
        )


def attempt_id(truth: RunTruth, attempt: Attempt | None) -> str | None:
    """`name/2`: the second attempt of the run."""
    return None if attempt is None else f"{truth.history.spec.name}/{attempt.ordinal}"


def incident_id(truth: RunTruth, incident: Incident | None) -> str | None:
    """`name/incident-3`."""
    return None if incident is None else f"{truth.history.spec.name}/incident-{incident.number}"


def _n_gpus(history: History, attempt: Attempt | None) -> int | None:
    gpus = history.scenario.cluster.gpus_per_node
    return None if attempt is None else len(attempt.nodes) * gpus


def _run_row(history: History, truth: RunTruth) -> Row:
    run, pieces = truth.history, truth.pieces
    steps = {name: sum(p.n_steps for p in pieces if p.category == name)
             for name in ("lost_recompute", "uncommitted")}  # fmt: skip
    first, last = run.attempts[0], run.launches[-1]
    held = [(p, _n_gpus(history, p.attempt) or 0) for p in pieces]
    gpu_us = sum(p.duration_us * n for p, n in held)
    kept_gpu_us = sum(_ratio(truth, p) * p.duration_us * n for p, n in held)
    planned = last.end not in (End.COMPLETED, End.FAILED, End.OPEN)
    return {
        "run_id": run.spec.name,
        "cluster": history.scenario.cluster.name,
        "name": run.spec.name,
        "start_at": truth.start_us,
        "end_at": truth.end_us,
        "is_open": truth.is_open,
        "end_state": "planned" if planned else str(last.end),
        "n_attempts": len(run.attempts),
        "n_launches": len(run.launches),
        "n_incidents": len(run.incidents),
        "n_gpus": _n_gpus(history, first),
        "wall_s": (truth.end_us - truth.start_us) / 1e6,
        "queue_s": (first.start_us - first.submit_us) / 1e6,
        "tor_observed": truth.tor,
        "tor_low": truth.tor,
        "tor_high": truth.tor,
        "tor_observed_gpu": kept_gpu_us / gpu_us,
        "t_opt_s": truth.optimal_us / 1e6,
        "reference_step_s": truth.reference_us / 1e6,
        "steps_kept": sum(p.n_kept for p in pieces),
        "steps_lost": steps["lost_recompute"],
        "steps_skipped": 0,
        "steps_uncommitted": steps["uncommitted"],
        "unexplained_share": 0.0,
    }


def _ratio(truth: RunTruth, piece: Piece) -> float:
    if piece.category != "productive":
        return 0.0
    if piece.phase == "evaluation":
        return 1.0
    return piece.n_kept * truth.reference_us / piece.duration_us


def _segment_rows(history: History, truth: RunTruth) -> Iterable[Row]:
    name = truth.history.spec.name

    def same(p: Piece) -> tuple[object, ...]:
        incident = p.incident or p.slow
        return (p.attempt and p.attempt.ordinal, p.launch_no, p.category, p.phase, p.cause,
                incident and incident.number)  # fmt: skip

    for _, group in itertools.groupby(truth.pieces, same):
        pieces = list(group)
        first, last = pieces[0], pieces[-1]
        duration_us = last.to_us - first.from_us
        yield {
            "segment_id": f"{name}/segment-{first.from_us}",
            "run_id": name,
            "attempt_id": attempt_id(truth, first.attempt),
            "launch_no": first.launch_no,
            "start_at": first.from_us,
            "end_at": last.to_us,
            "duration_s": duration_us / 1e6,
            "category": first.category,
            "phase": first.phase,
            "performance_ratio": sum(_ratio(truth, p) * p.duration_us for p in pieces)
            / duration_us,
            "n_steps": sum(p.n_steps for p in pieces),
            "n_gpus": _n_gpus(history, first.attempt),
            "incident_id": incident_id(truth, first.incident or first.slow),
            "cause": first.cause,
        }


def _incident_rows(history: History, truth: RunTruth) -> Iterable[Row]:
    by_incident: dict[int, list[Piece]] = defaultdict(list)
    kept: list[tuple[int, int]] = []  # (launch, begin) of kept steps, in order
    for piece in truth.pieces:
        incident = piece.incident or piece.slow
        if incident is not None:
            by_incident[incident.number].append(piece)
        if piece.category == "productive" and piece.phase == "train":
            kept.append((piece.launch_no, piece.from_us))
    ended: dict[int, tuple[Attempt, Launch]] = {}  # the first launch that each incident ended
    for attempt in truth.history.attempts:
        for launch in attempt.launches:
            if launch.incident is not None:
                ended.setdefault(launch.incident.number, (attempt, launch))
    for incident in truth.history.incidents:
        caused = [p for p in by_incident[incident.number] if p.incident is incident]
        slowed = [p for p in by_incident[incident.number] if p.slow is incident]
        lost = [p for p in caused if p.category == "lost_recompute"]
        recovery_us = sum(p.duration_us for p in caused if p.category == "recovery")
        lost_us = sum(p.duration_us for p in lost)
        slow_us = sum((1 - _ratio(truth, p)) * p.duration_us for p in slowed)
        where = ended.get(incident.number)
        resumed_us = None
        if where is not None:
            place = bisect.bisect(kept, (where[1].number + 1, 0))
            resumed_us = kept[place][1] if place < len(kept) else None
        story = load_stories()[incident.story]
        is_slow = incident.detection is None
        mode = "fail_slow" if is_slow else (
            "fail_stop" if incident.detection is Detection.CRASH else "hang"
        )  # fmt: skip
        yield {
            "incident_id": incident_id(truth, incident),
            "run_id": truth.history.spec.name,
            "attempt_id": attempt_id(truth, where[0]) if where else None,
            "launch_no": where[1].number if where else None,
            "onset_at": incident.onset_us,
            "detected_at": incident.detected_us,
            "ended_at": incident.ended_us,
            "resumed_at": resumed_us,
            "type": story.type,
            "signature_id": story.signature,
            "mode": mode,
            "domain": story.domain,
            "nodes": [history.node_name(n) for n in incident.nodes],
            "gpus": [] if incident.gpu is None else [history.pci_address(incident.gpu)],
            "lost_steps": sum(p.n_steps for p in lost),
            "lost_s": lost_us / 1e6,
            "recovery_s": recovery_us / 1e6,
            "slow_s": slow_us / 1e6,
            "total_s": (lost_us + recovery_us + slow_us) / 1e6,
            "gpu_hours": sum(
                p.duration_us * (_n_gpus(history, p.attempt) or 0) for p in caused
            ) / 3.6e9,
            "n_attempts": incident.n_attempts,
        }  # fmt: skip
