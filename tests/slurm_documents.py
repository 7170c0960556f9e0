"""Small accounting documents in the shape of every data_parser generation, for tests."""

from __future__ import annotations

import json

GENERATIONS = tuple(range(37, 46))
"""dbv0.0.37 (Slurm 21.08) to v0.0.45 (26.05)."""

NO_VAL, INFINITE = 2**32 - 2, 2**32 - 1


def number(value, generation):
    """A number that may be unset: plain or null before v0.0.39, then an object."""
    if generation < 39:
        return value
    return {"set": value is not None, "infinite": False, "number": value or 0}


def exit_code(code, generation, signal=None):
    """An exit code as that generation prints it: up to v0.0.39 always SUCCESS."""
    if generation < 40:
        return {"status": "SUCCESS", "return_code": 0}
    status = "SIGNALED" if signal else "ERROR" if code else "SUCCESS"
    return {
        "status": [status],
        "return_code": number(None if signal else code, generation),
        "signal": {"id": number(signal, generation), "name": ""},
    }


def tres(nodes, gpus, generation, kind="gpu"):
    """Resources of an allocation, an energy that nobody measured among them."""
    nothing = None if generation < 39 else ""
    found = [
        ("cpu", nothing, 1, 96 * nodes), ("energy", nothing, 3, -2), ("node", nothing, 4, nodes),
        ("gres", kind, 1001, gpus),
    ]  # fmt: skip
    keys = ("type", "name", "id", "count")
    return {"allocated": [dict(zip(keys, values, strict=True)) for values in found],
            "requested": []}  # fmt: skip


def state(name, generation):
    """A state: a word before v0.0.40, then a list."""
    return name if generation < 40 else [name]


def step(generation, job_id, name, start, end, code=0, **options):
    """One step of a job on four nodes."""
    key = {"job_id": job_id, "step_id": name} if generation == 39 else f"{job_id}.{name}"
    times = (
        {"start": start, "end": end}
        if generation < 40
        else {"start": number(start, generation), "end": number(end, generation)}
    )
    return {
        "time": {"elapsed": end - start, "suspended": 0, **times},
        "exit_code": exit_code(code, generation, options.get("signal")),
        "nodes": {"count": 4, "range": "node[001-004]"},
        "state": state(options.get("state", "COMPLETED"), generation),
        "step": {"id": key, "name": options.get("step_name", name)},
        "tres": tres(4, 32, generation),
    }


def job(generation, job_id, submit, *, start=0, end=0, **options):
    """One job of the cluster `harbor`; options are the fields that differ."""
    nothing = None if generation < 39 else ""
    nodes = options.get("nodes", "node[001-004]")
    n_nodes = options.get("n_nodes", 4)
    record = {
        "account": "research",
        "comment": {"administrator": nothing, "job": nothing, "system": nothing},
        "allocation_nodes": n_nodes,
        "array": {
            "job_id": options.get("array_job_id", 0),
            "limits": {"max": {"running": {"tasks": options.get("throttle", 0)}}},
            "task_id": number(options.get("task_id"), generation),
            "task": options.get("tasks", nothing),
        },
        "association": {"account": "research", "cluster": "harbor", "user": "ana"},
        "cluster": "harbor",
        "exit_code": exit_code(options.get("code", 0), generation, options.get("signal")),
        "time": {
            "elapsed": options.get("elapsed", max(end - start, 0)),
            "eligible": options.get("eligible", submit),
            "end": end, "start": start, "submission": submit, "suspended": 0,
            "limit": number(options.get("limit", 1440), generation),
        },
        "group": "ana",
        "het": {
            "job_id": options.get("het_job_id", 0),
            "job_offset": number(options.get("het_offset"), generation),
        },
        "job_id": job_id,
        "name": "pretrain",
        "nodes": nodes,
        "partition": "gpu",
        "kill_request_user": options.get("killed_by", nothing),
        "state": {"current": state(options.get("state", "COMPLETED"), generation),
                  "reason": "None"},
        "steps": options.get("steps", []),
        "tres": tres(n_nodes, 8 * n_nodes, generation) if n_nodes else {"allocated": []},
        "user": "ana",
        "working_directory": "/home/ana",
    }  # fmt: skip
    if generation >= 39:
        record |= {"failed_node": options.get("failed_node", ""),
                   "submit_line": "sbatch train.sh", "script": '#!/bin/sh\n{["}'}  # fmt: skip
    if generation >= 41:
        record |= {"stdout": "/home/ana/slurm-%j.out",
                   "stdout_expanded": f"/home/ana/slurm-{job_id}.out"}  # fmt: skip
    if generation >= 42:
        record["restart_cnt"] = options.get("restarts", 0)
    if generation >= 45:
        record["sluid"] = f"s{job_id}"
    return record


def live_job(generation, job_id, submit, **options):
    """One job of the cluster `harbor` as squeue shows it: end or start may be forecasts."""
    is_old = generation < 40
    name = options.get("state", "RUNNING")
    time = (lambda value: value) if is_old else (lambda value: number(value, generation))
    code = exit_code(options.get("code", 0), 40, options.get("signal"))
    return {
        "account": "research",
        "array_job_id": time(options.get("array_job_id", 0)),
        "array_task_id": number(options.get("task_id"), generation),
        "array_max_tasks": time(options.get("throttle", 0)),
        "array_task_string": options.get("tasks", ""),
        "cluster": "harbor",
        "eligible_time": time(submit),
        "end_time": time(options.get("end", 0)),
        "exit_code": options.get("code", 0) << 8 if is_old else code,
        "het_job_id": time(options.get("het_job_id", 0)),
        "het_job_offset": number(options.get("het_offset"), generation),
        "job_id": job_id,
        "job_resources": {"nodes": "node[001-004]", "allocated_hosts": 4},
        "job_state": state(name, generation),
        "name": "pretrain",
        "node_count": number(4, generation),
        "nodes": options.get("nodes", "node[001-004]"),
        "partition": "gpu",
        "restart_cnt": options.get("restarts", 0),
        "standard_output": f"/home/ana/slurm-{job_id}.out",
        "start_time": time(options.get("start", 0)),
        "state_reason": options.get("reason", "None"),
        "submit_time": time(submit),
        "time_limit": number(options.get("limit", 1440), generation),
        "tres_alloc_str": options.get("tres", "cpu=384,node=4,billing=32,gres/gpu=32"),
        "user_name": "ana",
        "current_working_directory": "/home/ana",
    }


def meta(generation):
    """Who printed a document; version fields as odd as real ones."""
    if generation < 39:
        return {
            "plugin": {"type": f"openapi/dbv0.0.{generation}"},
            "Slurm": {"version": {"major": 21, "micro": 8, "minor": 8}, "release": "21.08.8-2"},
        }
    if generation == 39:
        return {"plugins": {"data_parser": "data_parser/v0.0.39"},
                "command": ["sacct", "--json"], "Slurm": {"release": "23.02.6"}}  # fmt: skip
    return {
        "plugin": {"data_parser": f"data_parser/v0.0.{generation}"}, "command": ["sacct", "--json"],
        "slurm": {"version": {"major": "23", "micro": "5", "minor": "11"}, "cluster": "harbor"},
    }  # fmt: skip


def document(generation, jobs, indent=None):
    """The bytes of a document; slashes escaped, as json-c does."""
    whole = {"jobs": jobs, "meta": meta(generation), "errors": [], "warnings": []}
    if generation < 40:
        whole = {"meta": whole.pop("meta"), "errors": whole.pop("errors"), **whole}
    return json.dumps(whole, indent=indent).replace("/", "\\/").encode()
