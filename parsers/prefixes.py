"""Peel what launchers and collectors put before a line: labels, hosts, times.

Each layer gives what it knows (rank, node, time) and is taken off; layers nest, so peeling goes on
until nothing known stands at the front.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import msgspec

from parsers.clock import Stamp, find_stamp
from parsers.tables import StampKind

MAX_LAYERS = 6

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[()][0-9A-B]|\x00")
_DOCKER_JSON = '{"log":'
_EPOCH_SAFE = 10**15

_ISO = r"\d{4}-\d\d-\d\dT[\d:,.]+(?:Z|[+-]\d\d:?\d\d)"
_LEVEL = r"(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL)\b"
_PROGRAM = r"[\w./@-]+(?:\[\d+\])?"

# Labels carry `rank` (global), `task` (global, unless a local rank follows), `local_rank` or
# `node`; a carrier's time is read from the group `ts`. By the class of the first character.
_LAYERS: Final = {
    first: tuple(re.compile(layer) for layer in layers)
    for first, layers in {
        "[": (
            r"\[default(?P<local_rank>\d{1,6})\]: ?",  # torchrun --tee
            r"\[rank(?P<rank>\d{1,6})\]: ?",  # torch
            r"\[rank: (?P<rank>\d{1,6})\] ",  # Lightning
            r"\[\d+,(?P<task>\d{1,6})\]<std(?:out|err)>: ?",  # mpirun --tag-output
            r"\[pod/[^\]\s]+\] ",  # kubectl logs --prefix
            r"\[titan\] ",  # torchtitan names itself before the time
            rf"\[{_LEVEL}\|[\w./]+:\d+\] (?=20\d\d-)",  # transformers 4.x
            r"(?P<ts>\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d [\d:]{8} \d{4}\]) ",  # dmesg -T
            r"(?P<ts>\[ *\d{1,10}\.\d{6}\]) (?:\[ *[TC]\d+\] )?",  # dmesg
        ),
        "0": (
            r" {0,5}(?P<task>\d{1,6}): (?= *\S|$)",  # srun --label
            rf"(?P<ts>{_ISO}) std(?:out|err) [FP](?::\w+)? ?",  # CRI
            rf"(?P<ts>{_ISO}) (?!{_LEVEL})(?P<node>[\w.-]+) {_PROGRAM}: ",  # rsyslog, journald
            r"(?P<node>\d{1,3}(?:\.\d{1,3}){3}): ",  # pdsh
            r"\d{1,3},\d+,(?P<boot_us>\d+),[^;]{1,32};",  # /dev/kmsg
            rf"1 (?P<ts>{_ISO}) (?P<node>\S+) \S+ \S+ \S+ (?:-|\[[^\]]*\]) ",  # RFC 5424
        ),
        "a": (
            r"std(?:err|out): ",
            r"[\w.-]+ \[std(?:err|out)\] ",  # milabench
            r"(?P<node>worker-\d+): ",  # pdsh
            r"[a-z]\.[\w.-]+/\d{1,6} ",  # nemo-run: the number is of a replica, not of a rank
            # syslog: time, host, program
            rf"(?P<ts>[A-Z][a-z]{{2}} [ \d]\d [\d:.]{{8,15}}) (?P<node>[\w.-]+) {_PROGRAM}: ",
            rf"(?:kern|user|daemon|syslog|auth) *:\w+ *: (?:(?P<ts>{_ISO}) )?",  # dmesg --decode
        ),
        "(": (  # Ray
            r"\([\w.:-]+(?: [\w-]+)? pid=\d+(?:, ip=(?P<node>[\w.:]+))?\) ",
            r"\(raylet(?:, ip=(?P<node>[\w.:]+))?\) ",
        ),
        "<": (r"<\d{1,3}>",),  # pstore
    }.items()
}
_STAMP_BEFORE_LABEL = re.compile(
    r"\[?[12]\d{3}-[\dT:., Z+-]{8,32}\]?:? *(?=\[(?:default\d+\]|rank\d+\]|\d+,\d+\]<std|pod/))"
)
_TAG_BEFORE_STAMP = re.compile(
    rf"\[?{_LEVEL}[\]:|]? ?"  # [INFO] 2021-09-13 22:17:26,653, [INFO|2025-03-01 10:00:00]
    r"|\[NeMo [A-Z] "  # [NeMo W 2025-08-21 00:16:02 nemo_logging:393]
    r"|E[A-Z]\d{4}: (?:\[PID: \d+\] )?"  # EI0006: [PID: 1292363] 2025-04-08-18:07:20.444.436
)


class _DockerLine(msgspec.Struct):
    log: str
    time: str | None = None


@dataclass(frozen=True, slots=True)
class Peeled:
    """A line without its prefixes, and what they told.

    `stamp` is the carrier's time; `line_stamp` the one that the payload itself begins with.
    """

    payload: str
    rank: int | None = None
    local_rank: int | None = None
    node: str | None = None
    stamp: Stamp | None = None
    line_stamp: Stamp | None = None


def peel(text: str, above: Peeled | None = None) -> Peeled:
    """The payload of a line or of a frame of it; what the frame lacks is inherited from `above`.

    A label of the global rank counts more than that of a task; ranks that the message itself
    states, such as `[PG 0 Rank 1]`, are ranks in a process group and no labels.
    """
    text = _printed(text)
    rank = task = local_rank = node = stamp = None
    for _ in range(MAX_LAYERS):
        if text.startswith(_DOCKER_JSON) and (line := _docker(text)):
            text = _printed(line.log.rstrip("\r\n"))
            stamp = stamp or (line.time and _stamp_of(line.time)) or None
            continue
        if label := _STAMP_BEFORE_LABEL.match(text):
            stamp = stamp or _stamp_of(text)
            text = text[label.end() :]
            continue
        match = _first_layer(text)
        if match is None:
            break
        g = match.groupdict()
        if g.get("rank"):
            rank = int(g["rank"])
        elif g.get("task"):
            task = int(g["task"])
        elif g.get("local_rank"):
            # with local ranks a launcher runs below the tasks: they are nodes
            local_rank, task = int(g["local_rank"]), None
        node = node or g.get("node")
        if stamp is None and g.get("ts"):
            stamp = _stamp_of(g["ts"])
        elif stamp is None and g.get("boot_us") and int(g["boot_us"]) < _EPOCH_SAFE:
            stamp = Stamp(int(g["boot_us"]), StampKind.BOOT, 1e-6)
        text = text[match.end() :]
    rank = task if rank is None else rank
    if above is not None:
        rank = above.rank if rank is None else rank
        local_rank = above.local_rank if local_rank is None else local_rank
        node = node or above.node
        stamp = stamp or above.stamp or above.line_stamp
    return Peeled(text, rank, local_rank, node, stamp, _own_stamp(text))


def _printed(text: str) -> str:
    """The text without colours, cursor movements and NULs."""
    return _CONTROL.sub("", text) if "\x1b" in text or "\0" in text else text


def _first_layer(text: str) -> re.Match[str] | None:
    first = text[:1]
    if first.isalpha():
        first = "a"
    elif first == " " or first.isdigit():
        first = "0"
    for layer in _LAYERS.get(first, ()):
        match = layer.match(text)
        if match:
            return match
    return None


def _own_stamp(text: str) -> Stamp | None:
    """The time that a payload begins with, perhaps behind its level or code."""
    tag = _TAG_BEFORE_STAMP.match(text)
    found = find_stamp(text, tag.end() if tag else 0)
    return found[0] if found else None


def _stamp_of(text: str) -> Stamp | None:
    found = find_stamp(text)
    return found[0] if found else None


def _docker(text: str) -> _DockerLine | None:
    try:
        return msgspec.json.decode(text.encode(), type=_DockerLine)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
