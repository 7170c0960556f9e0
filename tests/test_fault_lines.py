"""Fault events of files: lines of our own, and those of real logs in the same forms."""

from __future__ import annotations

import collections
import re
from pathlib import Path

import pytest

from parsers.blocks import BlockReader, read_head
from parsers.faults import load_catalogue
from parsers.formats import ParseContext
from parsers.text_log import TextLog

CATALOGUE = load_catalogue()


def faults_of(path: Path) -> list[dict]:
    """Fault rows that the text format finds in a file."""
    parser = TextLog()
    head = read_head(path)
    sniff = parser.sniff(head, path.name)
    facts = parser.parse(iter(BlockReader(path)), ParseContext("f", head, sniff))
    return facts.tables()["fault_event"].to_pylist() if "fault_event" in facts.tables() else []


@pytest.fixture
def faults_in(tmp_path):
    """Fault rows that the text format finds in some lines."""

    def read(*lines: str) -> list[dict]:
        path = tmp_path / "lines.log"
        path.write_text("".join(f"{line}\n" for line in lines))
        return faults_of(path)

    return read


def ids(rows: list[dict]) -> list[str]:
    return [r["signature_id"] for r in rows]


def captured(rows: list[dict], signature_id: str, *names: str) -> list[tuple]:
    return [
        tuple(dict(r["captures"]).get(n) for n in names)
        for r in rows
        if r["signature_id"] == signature_id
    ]


def test_examples_are_found_in_a_file(faults_in):
    wanted = [(line, s.id) for s in CATALOGUE.signatures for line in s.positive]
    found = {r["line"]: r["signature_id"] for r in faults_in(*(line for line, _ in wanted))}
    missed = [(line, name) for n, (line, name) in enumerate(wanted) if found.get(n) != name]
    assert missed == []


REAL_COUNTS = {
    "nccl_lines.log": {
        "nccl.ib_completion_err": 4, "nccl.ib_async_fatal": 5, "nccl.socket_closed": 3,
        "nccl.socket_fail": 1, "nccl.proxy_fail": 3, "nccl.trace_frame": 5,
        "nccl.service_thread_closed": 2, "nccl.init_complete": 2, "nccl.abort_complete": 1,
        "nccl.version_mismatch": 1, "nccl.ibv_modify_qp": 1, "nccl.comm_fatal_ib": 1,
        "nccl.net_plugin": 1, "nccl.topo_p2p": 1,
    },
    "torchelastic_lines.log": {
        "elastic.sigterm": 6, "elastic.child_failed": 3, "elastic.rdzv": 2,
        "elastic.heartbeat_fail": 1, "elastic.rdzv_start": 1, "elastic.agent_death_signal": 1,
        "elastic.restart": 1, "elastic.child_failed_header": 1, "elastic.root_cause": 1,
    },
    "dmesg_T_xid119_gsp.log": {
        "gpu.uuid_map": 1, "gpu.xid119_gsp_timeout": 5, "gpu.gsp_rate_limit": 1,
    },
    "dmesg_decode_iso_xid13_43_oom.log": {
        "app.xid13_sm_exception": 16, "gpu.xid43_channel_reset": 1, "host.oom_kill": 3,
        "host.oom_cgroup_detail": 3, "host.oom_reaper": 1,
    },
    "pstore_dmesg_erst_panic.log": {"host.kernel_panic": 1},
    "ascend_hccl_lines.log": {
        "hccl.pta_err": 2, "hccl.socket": 1, "hccl.notify_timeout": 1, "hccl.inner": 3,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", REAL_COUNTS)
def test_counts_of_real_lines(real_logs, name):
    rows = faults_of(real_logs / "faults" / name)
    assert collections.Counter(r["signature_id"] for r in rows) == REAL_COUNTS[name]


def test_facts_of_real_nccl_lines(real_logs):
    rows = faults_of(real_logs / "faults" / "nccl_lines.log")
    assert captured(rows, "nccl.ib_completion_err", "peer", "st", "verr") == [
        ("192.0.2.11<49189>", "4", "81"), ("192.0.2.12<54862>", "12", "129"),
        ("192.0.2.13<33057>", "9", "138"), ("192.0.2.16<38081>", "4", "83"),
    ]  # fmt: skip
    assert captured(rows, "nccl.ib_async_fatal", "dev", "port", "ev") == [
        (None, None, "local catastrophic error"),
        ("mlx5_0", "1", "local access violation work queue error"),
        (None, None, "port error"),
        ("mlx5_1", "1", "invalid request local work queue error"),
        ("mlx5_ib0", "1", "local access violation work queue error"),
    ]
    assert captured(rows, "nccl.socket_closed", "peer") == [
        (None,), ("hostx05.cluster.example<47861>",), ("hostx07.cluster.example<55693>",),
    ]  # fmt: skip
    assert captured(rows, "nccl.socket_fail", "peer", "why") == [
        ("192.0.2.10<58355>", "Broken pipe")
    ]
    assert captured(rows, "nccl.proxy_fail", "peer_rank") == [(None,), (None,), ("14",)]
    assert captured(rows, "nccl.trace_frame", "code") == [("6",), ("6",), ("3",), ("6",), ("3",)]
    assert captured(rows, "nccl.service_thread_closed", "lr") == [("0",), ("2",)]
    (rank1, rank36) = captured(rows, "nccl.init_complete", "rank", "n", "dev", "bus", "commid")
    assert rank1 == ("1", "16", "1", None, None)
    assert rank36 == ("36", "64", "4", "9b000", "0x5ae77eb5ea4ec1ee")
    inits = [r["gpu"] for r in rows if r["signature_id"] == "nccl.init_complete"]
    assert inits == [None, "0000:9b:00"]
    assert captured(rows, "nccl.abort_complete", "rank", "n") == [("2", "8")]
    assert captured(rows, "nccl.ibv_modify_qp", "call") == [("get_async_event",)]
    assert "around rank 11." in next(r["message"] for r in rows if r["line"] == 1)
    unmatched = set(range(34)) - {r["line"] for r in rows}
    assert unmatched == {29, 31, 32}  # channel, call and version lines
    assert [r["rank"] for r in rows if r["line"] in (3, 4)] == [12, 12]  # the launcher's label
    assert {r["node"] for r in rows if r["line"] in (22, 23, 24)} == {"hostx12"}


def test_facts_of_real_launcher_lines(real_logs):
    rows = faults_of(real_logs / "faults" / "torchelastic_lines.log")
    assert captured(rows, "elastic.child_failed", "code", "lr", "pid") == [
        ("-9", "3", "812917"), ("1", "3", "33054"), ("-9", "5", "2630"),
    ]  # fmt: skip
    assert [p for (p,) in captured(rows, "elastic.sigterm", "pid")] == [
        "812914", "926997", "33051", "293866", "197", "153929",
    ]  # fmt: skip
    assert captured(rows, "elastic.rdzv", "kind") == [("Connection",), ("Connection",)]
    assert captured(rows, "elastic.agent_death_signal", "sig") == [("15",)]
    assert captured(rows, "elastic.restart", "left", "max") == [("3", "3")]
    assert captured(rows, "elastic.root_cause", "code", "pid") == [("-9", "14750")]


def test_facts_of_real_kernel_lines(real_logs):
    rows = faults_of(real_logs / "faults" / "dmesg_T_xid119_gsp.log")
    xids = [r for r in rows if r["signature_id"] == "gpu.xid119_gsp_timeout"]
    assert {r["gpu"] for r in rows} == {"0000:9b:00"}
    base = 1_740_327_858_000_000  # 2025-02-23 16:24:18 as printed
    assert [(r["stamp_us"] - base) // 1_000_000 for r in xids] == [0, 6, 12, 174, 355]
    assert captured(rows, "gpu.xid119_gsp_timeout", "pid") == [
        ("2024380",), ("2024380",), ("2024380",), ("1263500",), ("1240590",),
    ]  # fmt: skip
    functions = [re.search(r"function (\d+)", r["message"])[1] for r in xids]
    assert functions == ["103", "10", "10", "76", "76"]
    assert captured(rows, "gpu.gsp_rate_limit", "n") == [("30",)]
    assert len(rows) == 43 - 36

    rows = faults_of(real_logs / "faults" / "dmesg_decode_iso_xid13_43_oom.log")
    assert ids(rows)[:17] == ["app.xid13_sm_exception"] * 16 + ["gpu.xid43_channel_reset"]
    assert {r["gpu"] for r in rows[:17]} == {"0000:38:00"}
    assert rows[15]["stamp_us"] - rows[0]["stamp_us"] < 4_000
    assert rows[0]["stamp_us"] // 1_000_000 == 1_737_434_504  # 2025-01-21T04:41:44Z
    assert rows[0]["stamp_kind"] == "utc"
    assert captured(rows, "gpu.xid43_channel_reset", "pid", "name") == [
        ("2924364", "pt_main_thread")
    ]
    assert captured(rows, "host.oom_kill", "pid") == [("123",), ("456",), ("123",)]
    assert ("node", "863987") in captured(rows, "host.oom_cgroup_detail", "comm", "pid")
    assert captured(rows, "host.oom_reaper", "pid") == [("345646",)]

    (panic,) = faults_of(real_logs / "faults" / "pstore_dmesg_erst_panic.log")
    assert (panic["stamp_kind"], panic["stamp_us"]) == ("boot", 201_654_822)
    assert "NULL pointer dereference" in panic["message"]


def test_facts_of_real_ascend_lines(real_logs):
    rows = faults_of(real_logs / "faults" / "ascend_hccl_lines.log")
    errors = [r for r in rows if r["signature_id"] == "hccl.pta_err"]
    assert [(r["rank"], r["gpu"]) for r in errors] == [(1, "1"), (8, "0")]
    assert captured(rows, "hccl.socket", "pid") == [("1292363",)]
    assert captured(rows, "hccl.notify_timeout", "pid") == [("13075",)]
    assert captured(rows, "hccl.inner", "code") == [("EI9999",), ("EH9999",), ("EE1002",)]
    (socket,) = (r for r in rows if r["signature_id"] == "hccl.socket")
    assert socket["stamp_us"] % 86_400_000_000 == 65_240_444_436  # 18:07:20.444436


# Lines of our own in the forms of the real files above.


def test_lines_of_nccl(faults_in):
    rows = faults_in(
        "n1:10:11 [0] include/socket.h:385 NCCL WARN Net : Connection closed by remote peer",
        "2024-03-04T05:06:07.089Z: [1,12]<stdout>:n2:8:9 [0] net_ib.cu:80 NCCL WARN NET/IB : Got "
        "async event : port error",
        "n1:10:11 [1] NCCL INFO misc/socket.cc:535 -> 6",
        "[1] n1:10:11 [0] NCCL INFO Channel 00/0 : 2[1] -> 1[0] [receive] via NET/Socket/0",
        "2025-03-04 13:06:07.089 +08:00 [2025-03-04 05:06:07] n3:1:2 [0] net_ib.cc:2451 NCCL WARN "
        "NET/IB: Got completion from peer 10.0.0.6<3> with status=4 opcode=0 len=0 vendor err 81 "
        "(Send) hca mlx5_ib0",
        "n1:9:9 [4] NCCL INFO comm 0x5 rank 3 nranks 8 cudaDev 2 busId 56000 - Abort COMPLETE",
        "[2026-03-04 05:06:07] n-01:1:1 [3] plugin/net.cc:3 NCCL WARN Failed to initialize any NET "
        "plugin",
        "NCCL version 2.29.1+cuda12.9",
    )
    assert [(r["line"], r["signature_id"], r["node"], r["rank"]) for r in rows] == [
        (0, "nccl.socket_closed", "n1", None),
        (1, "nccl.ib_async_fatal", "n2", 12),
        (2, "nccl.trace_frame", "n1", None),
        (4, "nccl.ib_completion_err", "n3", None),
        (5, "nccl.abort_complete", "n1", None),
        (6, "nccl.net_plugin", "n-01", None),
    ]


def test_lines_of_a_launcher(faults_in):
    head = "torch.distributed.elastic.multiprocessing.api:"
    rows = faults_in(
        f"WARNING:{head}Sending process 41 closing signal SIGTERM",
        f"[2024-03-04 05:06:07,089] {head} [WARNING] Sending process 42 closing signal SIGTERM",
        "W0304 05:06:07.089000 3 torch/api.py:900] Closing process 43 via signal SIGTERM",
        "[05:06:07] WARNING  Sending process 44 closing signal SIGTERM                 api.py:699",
        f"stderr: ERROR:{head}failed (exitcode: -9) local_rank: 3 (pid: 45) of binary: /bin/x",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "train.py FAILED",
        "  exitcode  : -9 (pid: 45)",
        "I0304 05:06:08.089000 8 api.py:889] [default] Worker group FAILED. 2/3 attempts left; "
        "will restart worker group",
        "I0304 05:06:08.089000 8 api.py:699] [default] Stopping worker group",
    )
    assert ids(rows) == [
        *["elastic.sigterm"] * 4, "elastic.child_failed", "elastic.child_failed_header",
        "elastic.root_cause", "elastic.restart",
    ]  # fmt: skip
    assert [dict(r["captures"]).get("pid") for r in rows] == [
        "41", "42", "43", "44", "45", None, "45", None,
    ]  # fmt: skip


def test_lines_of_a_kernel(faults_in):
    when = "kern  :warn  : 2025-03-04T05:06:07,2833{}+00:00 "
    rows = faults_in(
        "[Tue Mar  4 05:06:07 2025] NVRM: GPU at PCI:0000:4e:00: "
        "GPU-00000000-1111-2222-3333-444444444444",
        "[Tue Mar  4 05:06:07 2025] NVRM: Xid (PCI:0000:4e:00): 119, pid=7, name=nvidia-smi, "
        "Timeout after 6s of waiting for RPC response from GPU4 GSP! Expected function 103",
        "[Tue Mar  4 05:06:07 2025] NVRM: GPU4 RPC history (CPU -> GSP):",
        when.format("02") + "NVRM: Xid (PCI:0000:1b:00): 13, pid='<unknown>', name=<unknown>, "
        "Graphics SM Global Exception on (GPC 2, TPC 3, SM 0): Multiple Warp Errors",
        when.format("99") + "Memory cgroup out of memory: Killed process 123 (python3) total-vm:1",
        "<6>[  301.100200] Hardware name: x",
        "<1>[  301.100300] BUG: unable to handle kernel NULL pointer dereference at (null)",
    )
    assert [(r["line"], r["signature_id"], r["gpu"], r["stamp_kind"]) for r in rows] == [
        (0, "gpu.uuid_map", "0000:4e:00", "local"),
        (1, "gpu.xid119_gsp_timeout", "0000:4e:00", "local"),
        (3, "app.xid13_sm_exception", "0000:1b:00", "utc"),
        (4, "host.oom_kill", None, "utc"),
        (6, "host.kernel_panic", None, "boot"),
    ]
    assert rows[3]["stamp_us"] - rows[2]["stamp_us"] == 97
    assert rows[4]["stamp_us"] == 301_100_300


def test_lines_of_ascend(faults_in):
    rows = faults_in(
        "(train pid=8) [ERROR] 2025-03-04-05:06:07 (PID:13, Device:0, RankID:8) ERR00100 PTA x",
        "[rank1]: EI0006: [PID: 12] 2025-03-04-05:06:07.089.010 Getting socket times out. x",
        "worker-1: EH9999: 2025-03-04-05:06:08.089.010  wait for compute device to finish failed",
        "[rank1]: RuntimeError: InnerRunOpApi:x.cpp:1 OPS function error: HcclAllreduce",
    )
    assert [(r["signature_id"], r["rank"], r["node"]) for r in rows] == [
        ("hccl.pta_err", 8, None), ("hccl.socket", 1, None), ("hccl.inner", None, "worker-1"),
    ]  # fmt: skip


def test_lines_of_a_clean_run_are_no_faults(faults_in):
    rows = faults_in(
        " iteration       10/  200 | elapsed time per iteration (ms): 812.4 | lm loss: 9.1E+00 |",
        "successfully saved checkpoint at iteration 100 to /ckpt",
        "n1:10:11 [0] NCCL INFO Bootstrap : Using ib0:10.0.0.1<0>",
        "n1:10:11 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal",
        "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2024-03-04T05:06:07 DUE TO TIME LIMIT ***",
    )
    assert ids(rows) == ["slurm.time_limit"]


CLEAN = ("training/megatron/*.out", "training/hf/*.out", "training/mlperf/*.txt")


def test_no_root_in_clean_real_logs_but_the_time_limit(real_logs):
    roots = {
        (path.name, row["signature_id"])
        for pattern in CLEAN
        for path in sorted(real_logs.glob(pattern))
        for row in faults_of(path)
        if row["role"] == "root"
    }
    assert roots == {("bigscience_meg_gpt2_perf_n16-1999618.out", "slurm.time_limit")}
