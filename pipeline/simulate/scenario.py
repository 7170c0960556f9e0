"""Everything a simulation can be told: the TOML schema of presets and of users' own scenarios.

Durations are seconds and may be a number or a law, `{ law = "weibull", mean = 600, shape = 0.7 }`.
"""

from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from zoneinfo import available_timezones

from pipeline.errors import UsageError
from pipeline.simulate.dialects import load_dialects
from pipeline.simulate.laws import Law
from pipeline.simulate.settings import Reader, section, setting
from pipeline.simulate.stories import load_stories

PRESETS = Path(__file__).parent / "presets"


class Clock(StrEnum):
    """Whose age counts for a failure."""

    GPU = "gpu"
    NODE = "node"
    JOB = "job"


class Detection(StrEnum):
    """How a failure is noticed."""

    CRASH = "crash"
    HANG = "hang"
    OPERATOR = "operator"


class WayBack(StrEnum):
    """How training gets going again."""

    REQUEUE = "requeue"
    OPERATOR = "operator"
    IN_JOB = "in_job"
    ELASTIC = "elastic"


class Ending(StrEnum):
    """What becomes of a run when the days are over."""

    COMPLETE = "complete"
    OPEN = "open"
    FAIL = "fail"


class FileLayout(StrEnum):
    """How the output of a job's attempts is spread over files."""

    PER_JOB = "per_job"
    PER_ATTEMPT = "per_attempt"
    ROTATED = "rotated"


class Scope(StrEnum):
    """What a fail-slow episode slows, and so which log tells of it."""

    NODE = "node"
    NETWORK = "network"
    ALL = "all"


class StopKind(StrEnum):
    """Why a healthy job is stopped."""

    MAINTENANCE = "maintenance"
    CODE_CHANGE = "code_change"
    PREEMPTION = "preemption"


class DomainKind(StrEnum):
    """What fails as one piece."""

    SWITCH = "switch"
    POWER = "power"


@dataclass(frozen=True)
class Cluster:
    """The machines."""

    name: str = setting("name of the cluster", default="harbor")
    nodes: int = setting("nodes of the pool", default=16, low=1, high=1e6)
    gpus_per_node: int = setting("GPUs of a node", default=8, low=1, high=64)
    start: str = setting("first instant, UTC, ISO 8601", default="2026-02-02T08:00:00")
    days: float = setting("length of the story in days", default=1.0, low=0.001, high=1000)
    timezone: str = setting("IANA zone of the nodes' clocks", default="UTC")
    nodes_per_switch: int = setting("nodes behind one leaf switch", default=16, low=1)
    nodes_per_power_domain: int = setting("nodes on one power feed", default=32, low=1)
    lemon_nodes: int = setting("nodes that fail more often than others", default=0)
    lemon_factor: float = setting("how many times as often", default=10.0, low=1)
    repair_s: Law = setting("a broken node returns after this", default=Law(7200.0))
    scale_exponent: float = setting(
        "failures grow as (nodes / reference_nodes) ** this; 1 is linear", default=1.0, high=4
    )
    reference_nodes: int = setting(
        "nodes of one job for which the failure laws hold (0: that of the first run)", default=0
    )


@dataclass(frozen=True)
class Steps:
    """Training steps."""

    step_s: float = setting("fault-free time of one step", default=10.0, low=0.001)
    jitter: float = setting("relative standard deviation of a step time", default=0.002, high=0.2)
    warm_up_s: Law = setting("what a launch's first steps take longer, in sum", default=Law(0.0))
    warm_up_steps: int = setting("steps that share it, each half of the one before", default=1,
                                 low=1, high=5)  # fmt: skip
    global_batch: int = setting("samples per step", default=1024, low=1)


@dataclass(frozen=True)
class Evaluation:
    """Evaluations between steps."""

    every_steps: int = setting("one after so many steps; 0: none", default=0)
    duration_s: Law = setting("time of one", default=Law(30.0))


@dataclass(frozen=True)
class Checkpoint:
    """Saves."""

    every_steps: int = setting("a persistent save after so many steps; 0: none", default=100)
    stall_s: Law = setting("training stands still so long", default=Law(20.0))
    is_async: bool = setting("the rest is written in the background", default=False)
    commit_s: Law = setting("from the end of the stall until durable, if async",
                            default=Law(120.0))  # fmt: skip
    lost_share: float = setting("share of async saves that never commit", default=0.0, high=1)
    local_every_steps: int = setting("a save to the node's own disk after so many steps; 0: none",
                                     default=0)  # fmt: skip
    local_stall_s: Law = setting("stall of a local save", default=Law(1.0))


@dataclass(frozen=True)
class StartUp:
    """From an allocation to the first step."""

    allocation_s: Law = setting("start of the job to the first line of its log", default=Law(60.0))
    relaunch_s: Law = setting("end of a launch to the first line of the next one in the same job",
                              default=Law(20.0))  # fmt: skip
    initialisation_s: Law = setting("first line to working communicators", default=Law(70.0))
    load_s: Law = setting("reading a checkpoint (a fresh start takes none)", default=Law(30.0))
    data_s: Law = setting("model and data ready after that", default=Law(20.0))


@dataclass(frozen=True)
class Restart:
    """Between the attempts of a run."""

    queue_s: Law = setting("waiting for resources besides free nodes", default=Law(60.0))
    requeue_s: Law = setting("end of a job to its new submission by the scheduler",
                             default=Law(5.0))  # fmt: skip
    backoff_s: Law = setting("submission by the scheduler to eligible", default=Law(121.0))
    operator_gap_s: Law = setting("end of a job to a new one submitted by somebody",
                                  default=Law(1800.0))  # fmt: skip
    chain_gap_s: Law = setting("end of a job at its time limit to the next one of its chain",
                               default=Law(60.0))  # fmt: skip
    shutdown_s: Law = setting("last line of a clean end to the end of the job", default=Law(10.0))


@dataclass(frozen=True)
class Logs:
    """How the run writes."""

    dialect: str = setting("megatron, megatron_deepspeed, hf, torchtitan or deepspeed",
                           default="megatron")  # fmt: skip
    log_interval: int = setting("a step line every so many steps", default=1, low=1)
    files: FileLayout = setting("per_job (appended), per_attempt or rotated",
                                default=FileLayout.PER_JOB)  # fmt: skip
    rotate_lines: int = setting("lines of one file if rotated", default=2000, low=10)
    ranks: int = setting("ranks that write a log of their own; 1: all goes to the job's output",
                         default=1, low=1, high=64)  # fmt: skip
    is_labelled: bool = setting("a launcher's label stands before every line", default=False)


@dataclass(frozen=True)
class Run:
    """One training run."""

    name: str = setting("name of the job")
    nodes: int = setting("nodes that it trains on", low=1)
    hot_spares: int = setting("idle nodes that its job holds besides", default=0)
    submit_after_s: float = setting("submitted so long after the first instant", default=0.0)
    time_limit_s: float = setting("time limit of a job; 0: none", default=0.0)
    exit_before_s: float = setting("saves and exits so long before the limit; 0: is killed",
                                   default=0.0)  # fmt: skip
    min_nodes: int = setting("smallest size that elastic training shrinks to; 0: not elastic",
                             default=0)  # fmt: skip
    ending: Ending = setting("complete, open, or fail: nobody restarts it after its next failure",
                             default=Ending.COMPLETE)  # fmt: skip
    steps: Steps = section("training steps", Steps)
    evaluation: Evaluation = section("evaluations", Evaluation)
    checkpoint: Checkpoint = section("saves", Checkpoint)
    start_up: StartUp = section("from an allocation to the first step", StartUp)
    restart: Restart = section("between attempts", Restart)
    logs: Logs = section("how it writes", Logs)


@dataclass(frozen=True)
class Failure:
    """One kind of failure of jobs."""

    story: str = setting("row of stories.toml: its type and its lines")
    clock: Clock = setting("gpu, node or job: whose up time the law counts", default=Clock.NODE)
    law: Law | None = setting("hours of up time between failures of one gpu, node or job",
                              default=None)  # fmt: skip
    count: float = setting("instead of a law: exponential, this many in calibration_days of a job "
                           "of reference_nodes", default=0.0)  # fmt: skip
    calibration_days: float = setting("up time, in days, that `count` refers to", default=1.0,
                                      low=0.001)  # fmt: skip
    detection: Detection = setting("crash, hang (a time-out ends it) or operator",
                                   default=Detection.CRASH)  # fmt: skip
    detect_s: Law = setting("failure to the first error line", default=Law(40.0))
    end_s: Law = setting("first error line to the end of the job", default=Law(30.0))
    way_back: WayBack = setting("requeue, operator, in_job or elastic", default=WayBack.REQUEUE)
    breaks_node: bool = setting("the node leaves for repair", default=False)
    keeps_local: bool = setting("local checkpoints survive it", default=False)
    rollback_checkpoints: int = setting("checkpoints to go back beyond the newest usable one",
                                        default=0)  # fmt: skip
    retry_share: float = setting("chance that a restart fails again of the same cause",
                                 default=0.0, high=0.99)  # fmt: skip
    retry_limit: int = setting("failures in a row after which somebody must repair it", default=6,
                               low=1)  # fmt: skip


@dataclass(frozen=True)
class Slow:
    """One kind of fail-slow episode; of several at a time the slowest decides."""

    story: str = setting("row of stories.toml: its type and its lines")
    scope: Scope = setting("node, network or all", default=Scope.NODE)
    every_hours: Law = setting("up time of the job between onsets", default=Law(24.0))
    duration_s: Law = setting("until it heals itself", default=Law(1800.0))
    ratio: float = setting("speed while it lasts", default=0.6, low=0.01, high=1)


@dataclass(frozen=True)
class Stop:
    """One kind of planned stop."""

    kind: StopKind = setting("maintenance, code_change or preemption")
    every_hours: Law = setting("up time of the job between two", default=Law(168.0))
    saves: bool = setting("saves and exits; else it is killed", default=True)
    gap_s: Law = setting("end of the job to the next submission", default=Law(1800.0))


@dataclass(frozen=True)
class Batch:
    """Nodes that fail together."""

    story: str = setting("row of stories.toml: its type and its lines")
    domain: DomainKind = setting("switch or power", default=DomainKind.SWITCH)
    every_hours: Law = setting("wall time between two in the whole cluster", default=Law(168.0))
    detect_s: Law = setting("failure to the first error line", default=Law(40.0))
    end_s: Law = setting("first error line to the end of the job", default=Law(260.0))


@dataclass(frozen=True)
class Scenario:
    """A whole story."""

    title: str = setting("one line on what is shown")
    sources: tuple[str, ...] = setting("where the figures come from", default=())
    cluster: Cluster = section("the machines", Cluster)
    run: tuple[Run, ...] = section("training runs", Run, is_list=True)
    failure: tuple[Failure, ...] = section("kinds of failures", Failure, is_list=True)
    slow: tuple[Slow, ...] = section("kinds of fail-slow episodes", Slow, is_list=True)
    stop: tuple[Stop, ...] = section("kinds of planned stops", Stop, is_list=True)
    batch: tuple[Batch, ...] = section("failures of a whole domain", Batch, is_list=True)


def preset_names() -> list[str]:
    """The presets that come with the package, sorted."""
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def load(name: str) -> Scenario:
    """The scenario of a preset, or of a TOML file; UsageError with every mistake."""
    path = PRESETS / f"{name}.toml"
    if not path.is_file():
        path = Path(name)
    if path.suffix != ".toml" or not path.is_file():
        raise UsageError(
            f"{name}: no preset and no TOML file; presets: {', '.join(preset_names())}"
        )
    try:
        return parse(tomllib.loads(path.read_text()), str(path))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not readable as TOML: {error}") from error


def parse(table: dict[str, object], where: str) -> Scenario:
    """The scenario that a TOML table describes; UsageError with every mistake."""
    reader = Reader()
    scenario: Scenario | None = reader.read(Scenario, table, "")
    problems = reader.problems + (contradictions(scenario) if scenario else [])
    if problems or scenario is None:
        raise UsageError("\n".join(f"{where}: {p}" for p in problems))
    return scenario


def contradictions(scenario: Scenario) -> list[str]:
    """What single values cannot show: unknown stories, runs that never fit, ..."""
    stories = load_stories()
    told = [
        *(("failure", f.story) for f in scenario.failure),
        *(("slow", s.story) for s in scenario.slow),
        *(("batch", b.story) for b in scenario.batch),
    ]
    problems = [
        f"{kind}: story {story!r} is none of {', '.join(sorted(stories))}"
        for kind, story in told
        if story not in stories
    ]
    for failure in scenario.failure:
        if (failure.law is None) == (failure.count == 0):
            problems.append(f"failure {failure.story}: give either law or count")
        if failure.keeps_local and failure.way_back is not WayBack.IN_JOB:
            problems.append(
                f'failure {failure.story}: keeps_local needs way_back = "in_job": '
                "another job may get other nodes"
            )
    if not scenario.run:
        problems.append("run: at least one [[run]] is needed")
    if len({run.name for run in scenario.run}) < len(scenario.run):
        problems.append("run: two runs bear one name")
    for run in scenario.run:
        problems += [f"run {run.name}: {p}" for p in _contradictions_of(run, scenario)]
    if scenario.cluster.timezone not in available_timezones():
        problems.append(f"cluster.timezone: {scenario.cluster.timezone!r} is no IANA zone")
    try:
        datetime.fromisoformat(scenario.cluster.start)
    except ValueError:
        problems.append(
            f"cluster.start: {scenario.cluster.start!r} is not like 2026-02-02T08:00:00"
        )
    return problems


def _contradictions_of(run: Run, scenario: Scenario) -> list[str]:
    dialects = load_dialects()
    dialect = dialects.get(run.logs.dialect)
    wrong = {
        "needs more nodes than the cluster has":
            run.nodes + run.hot_spares > scenario.cluster.nodes,
        "min_nodes is above nodes": run.min_nodes > run.nodes,
        f"dialect {run.logs.dialect!r} is none of {', '.join(sorted(dialects))}": dialect is None,
        f"dialect {run.logs.dialect!r} tells of no background saves":
            run.checkpoint.is_async and dialect is not None and not dialect.committed,
        "exit_before_s is not below time_limit_s": 0 < run.time_limit_s <= run.exit_before_s,
        "exit_before_s needs time_limit_s": run.exit_before_s > 0 and not run.time_limit_s,
        'ending = "fail" needs a failure': run.ending is Ending.FAIL and not scenario.failure,
    }  # fmt: skip
    return [what for what, is_wrong in wrong.items() if is_wrong]


def resized(scenario: Scenario, nodes: int | None, days: float | None) -> Scenario:
    """The scenario with `nodes` in the cluster (runs in proportion) and `days` of story."""
    wrong = [f"--nodes: {nodes} is not above 0"] if nodes is not None and nodes < 1 else []
    if days is not None and not 0 < days <= 1000:
        wrong.append(f"--days: {days:g} is not in 0 to 1000")
    if wrong:
        raise UsageError("\n".join(wrong))
    cluster = scenario.cluster
    first = cluster.reference_nodes or scenario.run[0].nodes
    factor = 1.0 if nodes is None else nodes / cluster.nodes
    runs = tuple(
        dataclasses.replace(
            run,
            nodes=max(1, round(run.nodes * factor)),
            hot_spares=round(run.hot_spares * factor),
            min_nodes=round(run.min_nodes * factor),
        )
        for run in scenario.run
    )
    cluster = dataclasses.replace(
        cluster,
        nodes=cluster.nodes if nodes is None else nodes,
        days=cluster.days if days is None else days,
        reference_nodes=first,
    )
    changed = dataclasses.replace(scenario, cluster=cluster, run=runs)
    problems = contradictions(changed)
    if problems:
        raise UsageError("\n".join(problems))
    return changed
