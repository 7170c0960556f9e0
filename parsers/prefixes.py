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
_PROGRAM = r"[\w./@-]+(?:\[\d+\])?"

# Labels carry `rank`, `local_rank` or `node`; a carrier's time is read from the group `ts`.
_LAYERS: Final = tuple(
    re.compile(layer)
    for layer in (
        r"(?P<ts>\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)) std(?:out|err) [FP](?::\w+)? ?",  # CRI
        r"\[pod/[^\]\s]+\] ",  # kubectl logs --prefix
        r"\[default(?P<local_rank>\d{1,6})\]: ?",  # torchrun --tee
        r"\[rank(?P<rank>\d{1,6})\]: ?",  # torch, global rank
        r"\[\d+,(?P<rank>\d{1,6})\]<std(?:out|err)>: ?",  # mpirun --tag-output
        r" {0,5}(?P<rank>\d{1,6}): (?= {0,3}\S)",  # srun --label
        r"(?P<node>worker-\d+|\d{1,3}(?:\.\d{1,3}){3}): ",  # pdsh
        r"\([\w.:-]+(?: [\w-]+)? pid=\d+(?:, ip=[\w.:]+)?\) ",  # Ray
        r"i\.[\w.-]+/(?P<rank>\d{1,6}) ",  # nemo-run
        r"std(?:err|out): ",
        r"\[titan\] ",  # torchtitan names itself before the time
        r"\[(?:INFO|WARNING|ERROR|DEBUG)\|[\w./]+:\d+\] (?=20\d\d-)",  # transformers 4.x
        # syslog and journald: time, host, program
        rf"(?P<ts>[A-Z][a-z]{{2}} [ \d]\d [\d:.]{{8,15}}|{_ISO}) (?P<node>[\w.-]+) {_PROGRAM}: ",
        rf"(?:kern|user|daemon|syslog|auth) *:\w+ *: (?P<ts>{_ISO}) ",  # dmesg --decode
        r"\d{1,3},\d+,(?P<boot_us>\d+),[^;]{1,32};",  # /dev/kmsg
        r"<\d{1,3}>",  # pstore
        r"(?P<ts>\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d [\d:]{8} \d{4}\]) ",  # dmesg -T
        r"(?P<ts>\[ *\d{1,10}\.\d{6}\]) (?:\[ *[TC]\d+\] )?",  # dmesg
    )
)
_MAY_BE_STAMP = re.compile(r"\[?[12]\d")
_LABEL_BEHIND_STAMP = re.compile(r" *(?:\[default\d+\]|\[rank\d+\]|\[\d+,\d+\]<std|\[pod/)")


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
    """The payload of a line or of a frame of it; what the frame lacks is inherited from `above`."""
    if "\x1b" in text or "\0" in text:
        text = _CONTROL.sub("", text)
    rank = local_rank = node = stamp = None
    for _ in range(MAX_LAYERS):
        if text.startswith(_DOCKER_JSON) and (line := _docker(text)):
            text = line.log.rstrip("\n")
            stamp = stamp or (line.time and _stamp_of(line.time)) or None
            continue
        found = find_stamp(text) if _MAY_BE_STAMP.match(text) else None
        if found and _LABEL_BEHIND_STAMP.match(text, found[1]):
            stamp = stamp or found[0]
            text = text[found[1] :].lstrip(" ")
            continue
        match = _first_layer(text)
        if match is None:
            break
        g = match.groupdict()
        if g.get("rank") is not None:
            rank = int(g["rank"])
        if g.get("local_rank") is not None:
            local_rank = int(g["local_rank"])
        node = node or g.get("node")
        if stamp is None and g.get("ts"):
            stamp = _stamp_of(g["ts"])
        elif stamp is None and g.get("boot_us") and int(g["boot_us"]) < _EPOCH_SAFE:
            stamp = Stamp(int(g["boot_us"]), StampKind.BOOT, 1e-6)
        text = text[match.end() :]
    own = find_stamp(text) if text else None
    if above is not None:
        rank = above.rank if rank is None else rank
        local_rank = above.local_rank if local_rank is None else local_rank
        node = node or above.node
        stamp = stamp or above.stamp or above.line_stamp
    return Peeled(text, rank, local_rank, node, stamp, own[0] if own else None)


def _first_layer(text: str) -> re.Match[str] | None:
    for layer in _LAYERS:
        match = layer.match(text)
        if match:
            return match
    return None


def _stamp_of(text: str) -> Stamp | None:
    found = find_stamp(text)
    return found[0] if found else None


def _docker(text: str) -> _DockerLine | None:
    try:
        return msgspec.json.decode(text.encode(), type=_DockerLine)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
