"""Prefixes are peeled layer by layer; each gives its rank, node and time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.clock import parse_stamp
from parsers.prefixes import MAX_LAYERS, Peeled, peel

WHO = [
    # line, payload, rank, local rank, node
    ("7: boom", "boom", 7, None, None),
    (" 0:  iteration 1/ 2 |", " iteration 1/ 2 |", 0, None, None),
    ("123456: boom", "boom", 123456, None, None),
    ("12: ", "", 12, None, None),
    ("3:     raise ValueError", "    raise ValueError", 3, None, None),
    ("[default7]:boom", "boom", None, 7, None),
    ("[rank3]: boom", "boom", 3, None, None),
    ("[rank: 3] boom", "boom", 3, None, None),
    ("[default1]:[rank9]: boom", "boom", 9, 1, None),
    ("1: [rank9]: boom", "boom", 9, None, None),
    ("[rank9]: 1: boom", "boom", 9, None, None),
    ("1: [default3]: boom", "boom", None, 3, None),
    ("[1,12]<stdout>:boom", "boom", 12, None, None),
    ("[1,12]<stderr>: boom", "boom", 12, None, None),
    ("worker-1: boom", "boom", None, None, "worker-1"),
    ("192.0.2.81: boom", "boom", None, None, "192.0.2.81"),
    ("(TaskRunner pid=123, ip=192.0.2.5) boom", "boom", None, None, "192.0.2.5"),
    ("(WorkerDict pid=904548) boom", "boom", None, None, None),
    ("(train pid=8464) boom", "boom", None, None, None),
    ("i.pretrain/0 boom", "boom", None, None, None),
    ("llama.D0 [stderr] boom", "boom", None, None, None),
    ("stderr: boom", "boom", None, None, None),
    ("[pod/train-0/pytorch] [rank2]: boom", "boom", 2, None, None),
    ("\x1b[31m[rank3]\x1b[0m: boom\x1b[K", "boom", 3, None, None),
    ("\0\0\0\x00[rank3]: boom", "boom", 3, None, None),
    ("[default0]:\x1b[A[rank1]: boom", "boom", 1, 0, None),
    # ranks in a process group, times, numbers and words that are no labels
    ("[PG 0 Rank 1] boom", "[PG 0 Rank 1] boom", None, None, None),
    ("[rank13]:[PG 0 Rank 1] boom", "[PG 0 Rank 1] boom", 13, None, None),
    ("[Rank 0] time (ms)", "[Rank 0] time (ms)", None, None, None),
    ("1234567: boom", "1234567: boom", None, None, None),
    ("12:30:00 boom", "12:30:00 boom", None, None, None),
    ("(default_pg) boom", "(default_pg) boom", None, None, None),
    ("", "", None, None, None),
]


@pytest.mark.parametrize(("line", "payload", "rank", "local_rank", "node"), WHO)
def test_labels_tell_who_printed(
    line: str, payload: str, rank: int | None, local_rank: int | None, node: str | None
) -> None:
    assert peel(line) == Peeled(payload, rank, local_rank, node)


CARRIERS = [
    # line, payload, the carrier's time, node
    ("2025-03-25T10:34:07.530123456Z stdout F boom", "boom", "2025-03-25T10:34:07.530123Z", None),
    ("2025-03-25T10:34:07+02:00 stderr P ", "", "2025-03-25T08:34:07Z", None),
    ("Feb 14 05:03:41 node01 kernel: boom", "boom", "Feb 14 05:03:41", "node01"),
    ("Feb  4 05:03:41.5 node01 slurmd[12]: boom", "boom", "Feb  4 05:03:41.5", "node01"),
    ("Feb 14 05:03:41 node01 kernel: [155044.07859] b", "[155044.07859] b", "Feb 14 05:03:41",
     "node01"),
    ("Feb 14 05:03:41 node01 kernel: [155044.078590] b", "b", "Feb 14 05:03:41", "node01"),
    ("2025-02-14T05:03:41.123456+00:00 node01 kernel: boom", "boom",
     "2025-02-14T05:03:41.123456Z", "node01"),
    ("2025-02-14T05:03:41+0000 node01 kernel: boom", "boom", "2025-02-14T05:03:41Z", "node01"),
    ("<4>1 2025-02-14T05:03:41Z node01 kernel - - - boom", "boom", "2025-02-14T05:03:41Z",
     "node01"),
    ("[Sun Feb 23 16:24:18 2025] boom", "boom", "2025-02-23 16:24:18", None),
    ("[155044.078590] boom", "boom", "[155044.078590]", None),
    ("[  130.456250] [ T1946] boom", "boom", "[  130.456250]", None),
    ("<6>[  201.650687] boom", "boom", "[  201.650687]", None),
    ("6,3964,206764307,-;boom", "boom", "[  206.764307]", None),
    ("kern  :warn  : 2025-01-21T04:41:44,285060+00:00 boom", "boom",
     "2025-01-21T04:41:44.285060Z", None),
    ("kern  :err   : [Sun Feb 23 16:24:18 2025] boom", "boom", "2025-02-23 16:24:18", None),
    ("2019-06-02T16:13:44.884Z: [1,12]<stdout>:boom", "boom", "2019-06-02T16:13:44.884Z", None),
    ("[2026-02-01 00:00:01] [default0]: boom", "boom", "2026-02-01 00:00:01", None),
]  # fmt: skip


@pytest.mark.parametrize(("line", "payload", "at", "node"), CARRIERS)
def test_carriers_tell_time_and_node(line: str, payload: str, at: str, node: str | None) -> None:
    peeled = peel(line)
    assert (peeled.payload, peeled.stamp, peeled.node) == (payload, parse_stamp(at), node)
    assert peeled.stamp is not None


OWN = [
    ("[2026-02-01 00:00:01.5] iteration 1/ 2 |", "2026-02-01 00:00:01.5"),
    (" [2026-02-01 00:00:01.5] iteration 1/ 2 |", "2026-02-01 00:00:01.5"),
    ("2026-02-01T00:00:10Z INFO trainer: boom", "2026-02-01T00:00:10Z"),
    ("[E602 11:17:52.185053341 ProcessGroupNCCL.cpp:616] boom", "E602 11:17:52.185053341"),
    ("[INFO] 2021-09-13 22:17:26,653 api: boom", "2021-09-13 22:17:26,653"),
    ("[NeMo W 2025-08-21 00:16:02 nemo_logging:393] boom", "2025-08-21 00:16:02"),
    ("EI0006: [PID: 1292363] 2025-04-08-18:07:20.444.436 boom", "2025-04-08 18:07:20.444436"),
    ("EI9999: 2024-10-21-10:42:00.358.410  boom", "2024-10-21 10:42:00.358410"),
    ("[15:58:29] WARNING  boom", "[15:58:29]"),
]


@pytest.mark.parametrize(("line", "at"), OWN)
def test_own_time_stays_in_the_payload(line: str, at: str) -> None:
    assert peel(line) == Peeled(line, line_stamp=parse_stamp(at))
    labelled = peel(f"[rank3]: {line}")
    assert (labelled.payload, labelled.line_stamp) == (line, parse_stamp(at))


def test_time_that_a_message_mentions_is_not_its_own() -> None:
    assert peel("Job started 2024-01-01 10:00:00").line_stamp is None
    assert peel("resumed from run-2024-01-01_10:00:00").line_stamp is None


def test_two_clocks_of_a_line_are_kept_apart() -> None:
    line = "2025-11-09 15:39:31.043 +08:00 [2025-11-09 07:39:30] h:1:2 [0] x.cc:1 NCCL WARN boom"
    assert peel(line).line_stamp == parse_stamp("2025-11-09T07:39:31.043Z")
    both = peel("2026-02-01T00:00:01Z stdout F [2026-02-01 00:00:00.5] iteration 1/ 2 |")
    assert both.stamp == parse_stamp("2026-02-01T00:00:01Z")
    assert both.line_stamp == parse_stamp("2026-02-01 00:00:00.5")


def test_docker_line_gives_its_log_without_end_and_colours() -> None:
    line = {
        "log": "\x1b[32m[rank3]:\x1b[0m b\n",
        "stream": "stderr",
        "time": "2026-02-01T00:00:01Z",
    }
    peeled = peel(json.dumps(line))
    assert peeled == Peeled("b", rank=3, stamp=parse_stamp("2026-02-01T00:00:01Z"))


@pytest.mark.parametrize(
    "line", ['{"log":"cut of', '{"log": 3}', '{"log":"\\ud800"}', '{"log":[]}']
)
def test_json_that_is_no_docker_line_is_text(line: str) -> None:
    assert peel(line).payload == line


def test_frame_inherits_what_it_lacks() -> None:
    above = peel("2026-02-01T00:00:01Z stdout F [default1]:[rank9]: 10%|")
    assert peel(" 20%|", above) == Peeled(" 20%|", 9, 1, None, above.stamp)
    assert peel("[rank5]: boom", above).rank == 5
    own = peel("[2026-02-01 00:00:01] 10%|")
    assert peel(" 20%|", own).stamp == own.line_stamp


def test_peeling_is_bounded() -> None:
    labels = "[rank1]: " * (MAX_LAYERS + 3)
    assert peel(labels + "boom").payload == "[rank1]: " * 3 + "boom"


@given(st.text('[]rank0123: ,;<>PGdefault-.T\x1b\0{"log:}()', max_size=60))
def test_no_text_breaks_the_peeler(text: str) -> None:
    peeled = peel(text)
    assert peel(text, peeled).payload == peeled.payload
    assert len(peeled.payload) <= len(text)


def test_real_carriers_are_peeled(real_logs: Path) -> None:
    lines = (real_logs / "kubernetes/cri_log_lines.txt").read_text().splitlines()
    peeled = [peel(line) for line in lines]
    assert all(p.stamp is not None and p.stamp.kind == "utc" for p in peeled)
    assert peeled[5].stamp == parse_stamp("2019-08-21T07:24:33.260739Z")
    mpirun = peel((real_logs / "faults/nccl_lines.log").read_text().splitlines()[3])
    assert (mpirun.rank, mpirun.stamp) == (12, parse_stamp("2019-06-02T16:13:44.884Z"))
