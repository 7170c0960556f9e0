"""The failure catalogue: every example of every row, their order, and the loader's refusals."""

from __future__ import annotations

import pytest

from parsers.faults import load_catalogue, pci_address

CATALOGUE = load_catalogue()


def test_first_row_in_order_wins():
    line = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=python3, GPU has fallen off the bus."
    row = CATALOGUE.match(line)
    assert row["signature_id"] == "gpu.xid79_fallen_off_bus"
    assert row["gpu"] == "0000:3b:00"
    assert dict(row["captures"])["xid"] == "79"
    later = [s.id for s in CATALOGUE.signatures[1:] if s.search(line)]
    assert later, "a line that two rows match, else the order is not tested"


XID = "[ 1843.308145] NVRM: Xid "


@pytest.mark.parametrize(
    ("line", "meaning"),
    [
        # the word of severity outranks the code
        (XID + "(PCI:0000:3b:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x02)",
         ("nvlink.xid149_netir", "fail_stop", "root")),
        (XID + "(PCI:0000:3b:00): 149, NETIR_LINK_EVT  Nonfatal XC0 i0 Link 01 (0x02)",
         ("nvlink.xid149_netir", "context", "context")),
        (XID + "(PCI:0000:3b:00): 145, pid=7, name=ray::WorkerDict, RLW_RXPIPE Nonfatal XC0 i0",
         ("nvlink.xid144_150_nvlink5", "context", "context")),
        (XID + "(PCI:0000:3b:00): 145, pid=7, name=ray::WorkerDict, RLW_RXPIPE Fatal XC0 i0",
         ("nvlink.xid144_150_nvlink5", "fail_stop", "either")),
        (XID + "(PCI:0000:3b:00): 145, pid=7, name=ray::WorkerDict, RLW_RXPIPE XC0 i0",
         ("nvlink.xid144_150_nvlink5", "context", "context")),
        # a channel that is cleaned up never is a cause
        (XID + "(PCI:0000:3b:00): 45, pid=7, name=python3, Ch 00000001",
         ("gpu.xid45_preemptive_cleanup", "context", "cascade")),
        (XID + "(PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (Reset)",
         ("gpu.xid154_recovery_action", "context", "context")),
        (XID + "(PCI:0000:3b:00): 154, GPU recovery action changed from 0x1 (Reset) to 0x0 (None)",
         ("gpu.xid154_recovery_action", "context", "recovery")),
        (XID + "(PCI:0000:01:00 GPU-I:05 GPU-CI:01): 94, pid=9, Contained: SM (0x1). RST: No",
         ("gpu.xid94_contained_ecc", "fail_stop", "root")),
        # a flush follows another queue's error; a lost peer may be the cause
        (("n1:1:2 [0] ib.cc:9 NCCL WARN NET/IB : Got completion with error 5, opcode 1, len 9, "
         "vendor err 249"), ("nccl.ib_completion_err", "fail_stop", "cascade")),
        (("n1:1:2 [0] ib.cc:9 NCCL WARN NET/IB : Got completion with error 12, opcode 1, len 9, "
         "vendor err 129"), ("nccl.ib_completion_err", "fail_stop", "either")),
        ("srun: error: node1: tasks 0-7: Terminated",
         ("slurm.task_exit", "fail_stop", "teardown")),
        ("srun: error: node1: task 0: Exited with exit code 1",
         ("slurm.task_exit", "fail_stop", "symptom")),
    ],
)  # fmt: skip
def test_words_of_the_line_decide_its_meaning(line, meaning):
    row = CATALOGUE.match(line)
    assert (row["signature_id"], row["mode"], row["role"]) == meaning


@pytest.mark.parametrize(
    ("head", "captures"),
    [
        ("(PCI:0000:01:00 GPU-I:05 GPU-CI:01): 31, ",
         {"pci": "0000:01:00", "gi": "05", "ci": "01", "xid": "31"}),
        ("(0000:01:00): 13, 0005 00000000", {"pci": "0000:01:00", "xid": "13"}),
        ("(PCI:0001:01:00.0): 31, pid=8, name=nvc:[driver], Ch 8",
         {"pci": "0001:01:00.0", "xid": "31", "pid": "8", "name": "nvc:[driver]"}),
        ("(PCI:0000:01:00): 31, pid='<unknown>', name=<unknown>, Ch 8",
         {"pid": "'<unknown>'", "name": "<unknown>"}),
        ("(PCI:0000:01:00): 46", {"xid": "46"}),
    ],
)  # fmt: skip
def test_head_of_an_xid_has_many_forms(head, captures):
    assert captures.items() <= dict(CATALOGUE.match(f"NVRM: Xid {head}")["captures"]).items()


def test_watchdog_keeps_what_the_onset_needs():
    row = CATALOGUE.match(
        "[rank5]:[E714 11:42:17.208001177 ProcessGroupNCCL.cpp:655] [Rank 5] Watchdog caught "
        "collective operation timeout: WorkNCCL(SeqNum=88213, OpType=ALLREDUCE, NumelIn=1, "
        "NumelOut=1, Timeout(ms)=600000) ran for 600047 milliseconds before timing out."
    )
    captures = dict(row["captures"])
    assert (captures["seq"], captures["op"], captures["ran_ms"]) == ("88213", "ALLREDUCE", "600047")
    assert (row["mode"], row["role"]) == ("hang", "symptom")


def test_text_of_a_cpp_exception_is_no_source_line():
    row = CATALOGUE.match("  what():  CUDA error: an illegal memory access was encountered")
    assert row["signature_id"] == "cuda.illegal_access"


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        ("[E x.cpp:1] [PG 0 (default_pg) Rank 7] watchdog thread terminated with exception: x", 7),
        (("[E x.cpp:1] [PG ID 0 PG GUID 0(default_pg) Rank 9] Received a dump signal due to a "
         "collective timeout from this local rank"), 9),
        ("[E x.cpp:1] [PG 0 Rank 3] watchdog thread terminated with exception: x", 3),
        # a rank inside another group is not the rank of the job
        (("[E x.cpp:1] [PG ID 11 PG GUID 20(tp) Rank 1] watchdog thread terminated with "
         "exception: x"), None),
        (("[E x.cpp:1] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL("
         "OpType=ALLREDUCE, Timeout(ms)=1) ran for 2 milliseconds"), None),
        ("n1:1:2 [4] NCCL INFO comm 0x5 rank 36 nranks 64 cudaDev 4 nvmlDev 4 - Init COMPLETE",
         None),
        (("mpirun noticed that process rank 53 with PID 0 on node node35 exited on signal 9 "
         "(Killed)."), 53),
        ("AssertionError: Rank 21: found NaN in local grad norm in backward pass", 21),
        ("[ERROR] 2025-06-25-10:45:23 (PID:1, Device:0, RankID:-1) ERR00100 PTA call failed", None),
        ("AssertionError: Rank 99999999999: found NaN in local grad norm in backward pass", None),
    ],
)  # fmt: skip
def test_only_a_global_rank_is_the_rank(line, rank):
    assert CATALOGUE.match(line).get("rank") == rank


@pytest.mark.parametrize(
    ("line", "gpu"),
    [
        (("n1:1:2 [0] NCCL INFO comm 0x5 rank 3 nranks 64 cudaDev 4 nvmlDev 4 busId 9b000 commId "
         "0x5a - Init COMPLETE"), "0000:9b:00"),
        (("n1:1:2 [0] NCCL INFO comm 0x5 rank 3 nranks 64 cudaDev 4 nvmlDev 4 busId 1000101c0 "
         "- Init COMPLETE"), "1000:10:1c"),
        ("n1:1:2 [0] NCCL INFO comm 0x5 rank 3 nranks 64 cudaDev 4 nvmlDev 4 - Init COMPLETE",
         None),
        (XID + "(PCI:00000000:9B:00.0): 48, Double Bit ECC Error", "0000:9b:00"),
        # the address of a switch, a port or a NIC is not that of a GPU
        ("nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 24007, Fatal, Link 11 sourcetrack", None),
        ("pcieport 0000:20:01.1: PCIe Bus Error: severity=Uncorrected (Fatal), type=T", None),
        ("(t pid=8) [ERROR] 2025-06-25-10:45:23 (PID:1, Device:6, RankID:8) ERR00100 PTA x", "6"),
    ],
)  # fmt: skip
def test_gpu_is_an_address_or_a_device(line, gpu):
    assert CATALOGUE.match(line)["gpu"] == gpu


@pytest.mark.parametrize(
    ("line", "node"),
    [
        (("node07:984:1257 [4] net_ib.cc:1 NCCL WARN NET/IB: Got completion from peer "
         "10.0.0.3<47000> with status=12 opcode=0 len=0 vendor err 129 (Recv)"), "node07"),
        (("WARNING:torch.distributed.elastic.rendezvous.dynamic_rendezvous:The node "
         "'node01_945987_0' has failed to send a keep-alive heartbeat to 'x'"), "node01"),
        ("[2026-01-10T05:12:01.100] Node node07 unexpectedly rebooted boot_time=x", "node07"),
        # these name another node than the one that failed, or than the one that prints
        (("slurmstepd: error: *** STEP 19.0 ON node17 CANCELLED AT 2023-03-06T03:17:51 DUE TO NODE "
         "FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***"), None),
        (("[c10d] The client socket has timed out after 1000ms while trying to connect to "
         "(node02, 29500)"), None),
    ],
)  # fmt: skip
def test_node_is_where_it_happened(line, node):
    assert CATALOGUE.match(line).get("node") == node


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("EDAC MC0: 2 CE memory read error on CPU_SrcID#1_MC#0_Chan#0_DIMM#1", 2),
        ("message repeated 16 times: [ NVRM: Xid (PCI:0000:3b:00): 13, pid=1, Graphics x]", 16),
        ("(W pid=7) torch.OutOfMemoryError: CUDA out of memory. [repeated 7x across cluster]", 7),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", 1),
    ],
)
def test_count_is_what_the_line_reports(line, count):
    assert CATALOGUE.match(line)["count"] == count


def test_texts_are_bounded():
    row = CATALOGUE.match("CUDA out of memory " + "ä" * 9000)
    assert len(row["message"].encode()) <= 500
    row = CATALOGUE.match("terminate called after throwing an instance of '" + "x" * 9000 + "'")
    assert max(len(v) for _, v in row["captures"]) <= 120


@pytest.mark.parametrize(
    "line",
    [
        "For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
        "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
        "CUDA kernel errors might be asynchronously reported at some other API call",
    ],
)
def test_advice_is_no_fault(line):
    assert CATALOGUE.match(line) is None


@pytest.mark.parametrize(
    "line",
    [
        '    raise RuntimeError("CUDA error: uncorrectable ECC error encountered")',
        '    if bad: raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")',
        '  File "/opt/train.py", line 3, in <module>  # CUDA out of memory',
    ],
)
def test_source_lines_of_a_traceback_are_no_faults(line):
    assert CATALOGUE.match(line) is None


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0000:9B:00", "0000:9b:00"),
        ("00000000:9b:00.0", "0000:9b:00"),
        ("0001:03:00.1", "0001:03:00"),
    ],
)
def test_pci_addresses_have_one_form(text, address):
    assert pci_address(text) == address
