"""What happened: the records that truth and logs are both written from. All times in whole
microseconds of UTC since 1970; intervals are half-open."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pipeline.simulate.scenario import Detection, Run, Scenario, Scope


class End(StrEnum):
    """How a launch ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    TIME_LIMIT = "time_limit"
    EXIT_BEFORE_LIMIT = "exit_before_limit"
    PREEMPTION = "preemption"
    MAINTENANCE = "maintenance"
    CODE_CHANGE = "code_change"
    GROW = "grow"
    OPEN = "open"


@dataclass
class Incident:
    """One cause: a failure with its retry chain, or a fail-slow episode."""

    number: int
    story: str
    onset_us: int
    nodes: tuple[int, ...]
    gpu: int | None
    detection: Detection | None  # None: fail-slow
    detected_us: int | None = None
    ended_us: int | None = None
    n_attempts: int = 1
    ratio: float = 1.0
    scope: Scope | None = None


@dataclass
class Steps:
    """Complete steps `first`, `first + 1`, ... without anything between them."""

    first: int
    start_us: int
    ends_us: NDArray[np.int64]
    rate: float
    slow: Incident | None
    warm_up_us: int = 0  # excess of the only step of this stretch

    @property
    def last(self) -> int:
        """The last step."""
        return self.first + len(self.ends_us) - 1

    @property
    def end_us(self) -> int:
        """The end of the last step."""
        return int(self.ends_us[-1])


@dataclass
class Save:
    """One checkpoint: training stands still in [begin, end), and it is durable from then on."""

    step: int
    begin_us: int
    end_us: int | None  # None: cut off
    durable_us: int | None  # None: never
    is_async: bool
    is_local: bool
    is_final: bool = False


@dataclass
class Evaluation:
    """One evaluation behind `step`."""

    step: int
    begin_us: int
    end_us: int | None  # None: cut off


@dataclass
class Launch:
    """One start of the processes of a job."""

    number: int  # order in the run, from 1
    resume_step: int
    nodes: list[int]
    begin_us: int  # the job's start, or the end of the launch before in the same job
    marks: list[tuple[str, int]] = field(default_factory=list)  # start-up marks reached, in order
    items: list[Steps | Save | Evaluation] = field(default_factory=list)
    end: End = End.COMPLETED
    stopped_us: int = 0  # when it stopped to work
    end_us: int = 0  # when its processes were gone
    incident: Incident | None = None
    shrunk_by: Incident | None = None  # elastic: whose nodes are missing
    said_us: int | None = None  # first error line

    @property
    def last_step(self) -> int:
        """The last complete step; the one resumed from where there was none."""
        steps = [item.last for item in self.items if isinstance(item, Steps)]
        return steps[-1] if steps else self.resume_step

    @property
    def progress_us(self) -> int:
        """The end of the last complete step, evaluation, save or start-up mark."""
        for item in reversed(self.items):
            if item.end_us is not None:
                return item.end_us
        return self.marks[-1][1] if self.marks else self.begin_us


@dataclass
class Attempt:
    """One allocation of one job."""

    ordinal: int
    job_id: int
    restart_count: int
    submit_us: int
    eligible_us: int
    start_us: int = 0
    end_us: int | None = None  # None: still running
    state: str = ""
    exit_code: str = "0:0"
    step_state: str = ""
    failed_node: int | None = None
    nodes: list[int] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)


@dataclass
class RunHistory:
    """All attempts of one run."""

    spec: Run
    attempts: list[Attempt] = field(default_factory=list)
    incidents: list[Incident] = field(default_factory=list)

    @property
    def launches(self) -> list[Launch]:
        """All launches in order."""
        return [launch for attempt in self.attempts for launch in attempt.launches]

    @property
    def total_steps(self) -> int:
        """The last step that was ever reached."""
        return max((launch.last_step for launch in self.launches), default=0)


@dataclass
class History:
    """All runs of a scenario."""

    scenario: Scenario
    seed: int
    runs: list[RunHistory]
    skew_us: dict[int, int] = field(default_factory=dict)  # what a node's clock is ahead

    def clock_us(self, node: int, us: int) -> int:
        """What the node's clock shows at `us`."""
        return us + self.skew_us.get(node, 0)

    def node_name(self, node: int) -> str:
        """`node007`, wide enough for the whole cluster."""
        width = max(3, len(str(self.scenario.cluster.nodes)))
        return f"node{node + 1:0{width}d}"

    def pci_address(self, gpu: int) -> str:
        """The PCI address of a GPU of a node, as the kernel prints it."""
        return f"0000:{_BUSES[gpu % len(_BUSES)]:02x}:00"


_BUSES = (0x1B, 0x43, 0x52, 0x61, 0x9D, 0xC3, 0xD1, 0xDF)
