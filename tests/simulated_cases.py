"""Small simulated stories, each with one trouble, for the round trip through the product.

A case changes the preset `tiny` (Megatron, four nodes, eight hours, crashes) in a few settings.
"""

from __future__ import annotations

import copy
import tomllib
from dataclasses import dataclass, field
from typing import Any

from pipeline.simulate.scenario import PRESETS, Scenario, parse, resized

Table = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """Changes of the preset: of its tables, and of its only run."""

    tables: Table = field(default_factory=dict)
    run: Table = field(default_factory=dict)


def exponential(hours: float) -> Table:
    return {"law": "exponential", "mean": hours}


def job_failure(story: str, hours: float, **settings: object) -> Table:
    return {"failure": [{"story": story, "clock": "job", "law": exponential(hours), **settings}]}


def node_failure(hours: float, **settings: object) -> Table:
    return {"failure": [{"story": "gpu_bus", "law": exponential(hours), "end_s": 100,
                         "breaks_node": True, **settings}]}  # fmt: skip


def stop(kind: str, **settings: object) -> Table:
    return {"failure": [], "stop": [{"kind": kind, "every_hours": exponential(2), **settings}]}


CASES = {
    "crashes": Case(),
    "no failure": Case({"failure": []}),
    "background saves": Case(
        run={"checkpoint": {"is_async": True, "stall_s": 3, "commit_s": 200, "lost_share": 0.2}}
    ),
    "local saves": Case(
        job_failure("gpu_oom", 1.5, detect_s=3, way_back="in_job", keeps_local=True),
        {"checkpoint": {"local_every_steps": 10, "local_stall_s": 2}},
    ),
    "restarts inside the job": Case(job_failure("gpu_oom", 1.5, detect_s=3, way_back="in_job")),
    "hot spares": Case(node_failure(6, way_back="in_job"), {"hot_spares": 2}),
    "elastic": Case(node_failure(8, way_back="elastic"), {"min_nodes": 2}),
    "hangs with a time-out": Case(
        job_failure("hang", 2, detection="hang", detect_s=602, end_s=50)
    ),
    "hangs that somebody notices": Case(
        job_failure("hang", 2, detection="operator", way_back="operator",
                    detect_s={"law": "lognormal", "mean": 5400})
    ),
    "fail-slow at half speed": Case(
        {"slow": [{"story": "thermal", "every_hours": exponential(1.5), "duration_s": 1200,
                   "ratio": 0.5}]}
    ),
    "fail-slow at 0.9": Case(
        {"slow": [{"story": "link_flap", "scope": "network", "every_hours": exponential(1.5),
                   "duration_s": 1200, "ratio": 0.9}]}
    ),
    "time limit": Case({"failure": []}, {"time_limit_s": 7200}),
    "exit before the limit": Case({"failure": []}, {"time_limit_s": 7200, "exit_before_s": 300}),
    "preemption": Case(stop("preemption", saves=False)),
    "preemption with a save": Case(stop("preemption")),
    "maintenance": Case(stop("maintenance")),
    "cancelled for a change": Case(stop("code_change", saves=False)),
    "divergence": Case(
        job_failure("nan", 2, detect_s=2, way_back="operator", rollback_checkpoints=2)
    ),
    "retry chains": Case(job_failure("gpu_hbm", 3, detect_s=2, retry_share=0.8, retry_limit=5)),
    "a switch fails": Case(
        {"cluster": {"nodes": 16, "nodes_per_switch": 4},
         "batch": [{"story": "network_link", "domain": "switch", "every_hours": exponential(1)}]}
    ),
    "still running": Case(run={"ending": "open"}),
    "given up": Case(run={"ending": "fail"}),
    "long warm-up": Case(run={"steps": {"warm_up_s": 40, "warm_up_steps": 5}}),
    "fast steps": Case(
        {"cluster": {"days": 0.1}}, {"steps": {"step_s": 0.5}, "checkpoint": {"every_steps": 1000}}
    ),
    "every tenth step": Case(run={"logs": {"log_interval": 10}}),
    "one file per attempt": Case(run={"logs": {"files": "per_attempt"}}),
    "a log per rank": Case(run={"logs": {"ranks": 3}}),
    "labelled lines": Case(run={"logs": {"is_labelled": True}}),
    "rotated files": Case(run={"logs": {"files": "rotated", "rotate_lines": 400}}),
    "megatron_seconds": Case(run={"logs": {"dialect": "megatron_seconds"}}),
    "megatron_deepspeed": Case(run={"logs": {"dialect": "megatron_deepspeed"}}),
    "hf": Case(run={"logs": {"dialect": "hf"}}),
    "torchtitan": Case(run={"logs": {"dialect": "torchtitan"}}),
    "torchtitan, every tenth step": Case(
        run={"logs": {"dialect": "torchtitan", "log_interval": 10}}
    ),
    "torchtitan, background saves": Case(
        run={"logs": {"dialect": "torchtitan"},
             "checkpoint": {"is_async": True, "stall_s": 3, "commit_s": 200, "lost_share": 0.2}}
    ),
    "deepspeed, no evaluation": Case(
        run={"logs": {"dialect": "deepspeed"}, "evaluation": {"every_steps": 0}}
    ),
    "megatron_deepspeed, no evaluation": Case(
        run={"logs": {"dialect": "megatron_deepspeed"}, "evaluation": {"every_steps": 0}}
    ),
}  # fmt: skip


def scenario_of(name: str) -> Scenario:
    """The scenario of a case."""
    table = tomllib.loads((PRESETS / "tiny.toml").read_text())
    case = copy.deepcopy(CASES[name])
    _merge(table, case.tables)
    _merge(table["run"][0], case.run)
    return resized(parse(table, name), None, None)


def _merge(table: Table, changes: Table) -> None:
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(table.get(key), dict):
            _merge(table[key], value)
        else:
            table[key] = value
