"""What failures print: in the job's output by the culprit, by survivors and by the launcher, and in
the kernel logs of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from pipeline.simulate.history import Attempt, End, History, Incident, Launch
from pipeline.simulate.laws import US_PER_S
from pipeline.simulate.lines import Line, LogFile, c10, glog, iso_second, printed
from pipeline.simulate.scenario import Detection, Scope
from pipeline.simulate.stories import Story, load_stories, shared_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

_N_SURVIVORS = 4  # of hundreds that would print the same
_SWITCH_LINES = 3  # nodes on which a network episode leaves a line
_BANNERS = {
    End.TIME_LIMIT: "time_limit",
    End.PREEMPTION: "preemption",
    End.MAINTENANCE: "cancelled",
    End.CODE_CHANGE: "cancelled",
}


class _Voice:
    """Fills the fields of fault lines for one launch."""

    def __init__(self, history: History, attempt: Attempt, launch: Launch) -> None:
        self._history, self._attempt, self._launch = history, attempt, launch
        self._zone = ZoneInfo(history.scenario.cluster.timezone)
        self._gpus = history.scenario.cluster.gpus_per_node

    def rank_of(self, node: int, gpu: int) -> int:
        """The global rank on a GPU of a node of the launch; of the first node if it is no part."""
        place = self._launch.nodes.index(node) if node in self._launch.nodes else 0
        return place * self._gpus + gpu % self._gpus

    def survivors(self, incident: Incident, culprit: int) -> list[int]:
        """A few ranks that print what they see: on other nodes, or beside the culprit."""
        ranks = range(0, len(self._launch.nodes) * self._gpus, 5)
        elsewhere = [r for r in ranks if self._launch.nodes[r // self._gpus] not in incident.nodes]
        return (elsewhere or [r for r in ranks if r != culprit])[:_N_SURVIVORS]

    def line(self, template: str, us: int, rank: int, *, stopped_us: int, label: bool) -> Line:
        """One line as `rank` (or the launcher on its node) prints it."""
        node = self._launch.nodes[rank // self._gpus]
        victim = self._launch.incident.nodes[0] if self._launch.incident else node
        ran_ms = max(us - stopped_us, 0) // 1000
        shown_us = self._history.clock_us(node, us)
        text = template.format_map(
            {
                "node": self._history.node_name(node), "rank": rank,
                "local_rank": rank % self._gpus, "pid": 40171 + rank, "tid": 41171 + rank,
                "agent_pid": 40122, "exit_code": 1, "seq": 98000 + self._launch.number,
                "peer": f"192.0.2.{victim % 254 + 1}", "port": 40000 + rank,
                "pci": self._history.pci_address(rank % self._gpus), "job": self._attempt.job_id,
                "first_node": self._history.node_name(self._launch.nodes[0]),
                "ran_ms": ran_ms, "timeout_ms": max(1, ran_ms // 1000 - 2) * 1000,
                "c10": c10(shown_us, self._zone), "glog": glog(shown_us, self._zone, "E"),
                "glog_w": glog(shown_us, self._zone, "W"),
                "glog_i": glog(shown_us, self._zone, "I"),
                "stamp": printed(shown_us, self._zone, "%Y-%m-%d %H:%M:%S"),
                "second": iso_second(shown_us, self._zone),
                "iso": f"{iso_second(shown_us, self._zone)}.{shown_us % US_PER_S // 1000:03d}",
            }
        )  # fmt: skip
        return Line(us, text + "\n", rank if label else None, is_error=True)


def end_lines(history: History, attempt: Attempt, launch: Launch, *, is_last: bool) -> list[Line]:
    """What stands in the job's output behind the last words of a launch, in time order."""
    voice = _Voice(history, attempt, launch)
    incident = launch.incident
    if incident is not None and launch.end is End.FAILED:
        lines = _failure_lines(voice, launch, incident)
        if not is_last:
            lines += [voice.line(t, launch.end_us, 0, stopped_us=launch.stopped_us, label=False)
                      for t in shared_lines("agent_restart")]  # fmt: skip
        banner = _banner_of_failure(attempt, incident) if is_last else None
    else:
        lines = []
        is_clean = attempt.state == "COMPLETED" or launch.end in (End.COMPLETED, End.GROW)
        banner = None if is_clean else _BANNERS.get(launch.end)
    if banner:
        rank = 0
        if incident is not None and incident.nodes[0] in launch.nodes:
            rank = voice.rank_of(incident.nodes[0], 0)
        lines += [voice.line(t, launch.end_us, rank, stopped_us=launch.stopped_us, label=False)
                  for t in shared_lines(banner)]  # fmt: skip
    return sorted(lines, key=lambda line: line.us)


def _banner_of_failure(attempt: Attempt, incident: Incident) -> str | None:
    if attempt.state == "NODE_FAIL":
        return "node_failure"
    return "cancelled" if incident.detection is Detection.OPERATOR else "task_exit"


def _failure_lines(voice: _Voice, launch: Launch, incident: Incident) -> list[Line]:
    """The culprit first, then survivors, then the launcher's agent on the failing node."""
    if launch.said_us is None or not launch.marks:
        return []
    story = load_stories()[incident.story]
    culprit = voice.rank_of(incident.nodes[0], incident.gpu or 0)
    templates = story.survivors
    if incident.detection is Detection.HANG and not templates:
        templates = shared_lines("watchdog")
    others = voice.survivors(incident, culprit)
    said, stopped = launch.said_us, launch.stopped_us
    lines = [voice.line(t, said, culprit, stopped_us=stopped, label=True) for t in story.culprit]
    room_us = max(launch.end_us - said, 1)
    for i, rank in enumerate(others):
        at = said + min(i * 1000, room_us // 2)
        lines += [voice.line(t, at, rank, stopped_us=stopped, label=True) for t in templates]
    agent_us = said + room_us * 3 // 4
    lines += [voice.line(t, agent_us, culprit, stopped_us=stopped, label=False)
              for t in story.agent]  # fmt: skip
    return lines


def kernel_logs(history: History) -> Iterator[LogFile]:
    """One kernel log per node that has something to tell, ISO stamps with offset."""
    by_node: dict[int, list[tuple[int, str]]] = {}
    for run in history.runs:
        for incident in run.incidents:
            story = load_stories()[incident.story]
            nodes = incident.nodes
            if incident.scope in (Scope.NETWORK, Scope.ALL):
                nodes = tuple(run.attempts[0].nodes[:_SWITCH_LINES])
            for node in nodes:
                by_node.setdefault(node, []).extend(_kernel_lines(history, story, incident))
    zone = ZoneInfo(history.scenario.cluster.timezone)
    for node, lines in sorted(by_node.items()):
        name = history.node_name(node)
        told = [
            Line(
                us,
                f"{_offset_stamp(history.clock_us(node, us), zone)} {name} kernel: {text}\n",
                None,
            )
            for us, text in sorted(lines)
        ]
        if told:
            yield LogFile(f"kernel/{name}.log", told, "kernel")


def _kernel_lines(history: History, story: Story, incident: Incident) -> list[tuple[int, str]]:
    fields = {"pci": history.pci_address(incident.gpu or 0), "pid": 40171 + (incident.gpu or 0),
              "local_rank": (incident.gpu or 0)}  # fmt: skip
    lines = [(incident.onset_us + 18 * i, text.format_map(fields))
             for i, text in enumerate(story.kernel)]  # fmt: skip
    if incident.ended_us is not None:
        lines += [(incident.ended_us, text.format_map(fields)) for text in story.kernel_end]
    return lines


def _offset_stamp(us: int, zone: ZoneInfo) -> str:
    """`2026-02-03T12:00:01.318211+01:00`."""
    text = printed(us, zone, "%Y-%m-%dT%H:%M:%S.%f%z")
    return f"{text[:-2]}:{text[-2:]}"
