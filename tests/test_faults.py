"""The failure catalogue: every example of every row, their order, and the loader's refusals."""

from __future__ import annotations

import collections
from pathlib import Path

import pytest

from parsers.blocks import BlockReader, read_head
from parsers.faults import CatalogueError, load_catalogue, pci_address, problems_in, read_folder
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


def signature(name: str):
    return next(s for s in CATALOGUE.signatures if s.id == name)


def test_built_in_catalogue_is_sound():
    assert problems_in(CATALOGUE.signatures) == []
    assert len({s.order for s in CATALOGUE.signatures}) == len(CATALOGUE.signatures)


@pytest.mark.parametrize("s", CATALOGUE.signatures, ids=lambda s: s.id)
def test_examples_match_and_near_misses_do_not(s):
    assert s.positive
    for line in s.positive:
        assert s.search(line), line
    for line in s.negative:
        assert not s.search(line), line


def test_first_row_in_order_wins():
    line = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=python3, GPU has fallen off the bus."
    row = CATALOGUE.match(line)
    assert row["signature_id"] == "gpu.xid79_fallen_off_bus"
    assert row["gpu"] == "0000:3b:00"
    assert dict(row["captures"])["xid"] == "79"
    later = [s.id for s in CATALOGUE.signatures[1:] if s.search(line)]
    assert later, "a line that two rows match, else the order is not tested"


def test_watchdog_keeps_what_the_onset_needs():
    row = CATALOGUE.match(
        "[rank5]:[E714 11:42:17.208001177 ProcessGroupNCCL.cpp:655] [Rank 5] Watchdog caught "
        "collective operation timeout: WorkNCCL(SeqNum=88213, OpType=ALLREDUCE, NumelIn=1, "
        "NumelOut=1, Timeout(ms)=600000) ran for 600047 milliseconds before timing out."
    )
    captures = dict(row["captures"])
    assert (captures["seq"], captures["op"], captures["ran_ms"]) == ("88213", "ALLREDUCE", "600047")
    assert (row["mode"], row["role"]) == ("hang", "symptom")


def test_node_of_an_nccl_line_is_its_host():
    row = CATALOGUE.match(
        "node07:984:1257 [4] transport/net_ib.cc:2271 NCCL WARN NET/IB: Got completion from peer "
        "10.0.0.3<47000> with status=12 opcode=0 len=0 vendor err 129 (Recv)"
    )
    assert (row["signature_id"], row["node"]) == ("nccl.ib_completion_err", "node07")


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


ROW = """
[[signature]]
id = "site.pump"
order = 1000
component = "host.other"
mode = "fail_slow"
domain = "infrastructure"
role = "root"
priority = 40
scope = "node"
literals = ["pump failure"]
regex = 'chassis (?P<chassis>\\d+): pump failure'
positive = ["chassis 7: pump failure"]
negative = ["no pump failure"]
"""


def test_user_folder_adds_and_replaces(tmp_path):
    (tmp_path / "site.toml").write_text(ROW)
    catalogue = load_catalogue((str(tmp_path),))
    assert len(catalogue.signatures) == len(CATALOGUE.signatures) + 1
    assert catalogue.match("chassis 7: pump failure")["signature_id"] == "site.pump"
    (tmp_path / "site.toml").write_text(ROW.replace("site.pump", "py.import"))
    load_catalogue.cache_clear()
    assert len(load_catalogue((str(tmp_path),)).signatures) == len(CATALOGUE.signatures)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('mode = "fail_slow"', 'mode = "broken"'), "'broken' is not one of"),
        (('domain = "infrastructure"', 'domain = "us"'), "'us' is not one of"),
        (('role = "root"', 'role = "cause"'), "'cause' is not one of"),
        (('"host.other"', '"Host"'), "family.kind"),
        (('literals = ["pump failure"]', "literals = []"), "no literals"),
        (('["pump failure"]', '["pump broken"]'), "holds none of its literals"),
        (("chassis (", "rack ("), "does not match its example"),
        (('["no pump failure"]', '["chassis 1: pump failure"]'), "matches its near miss"),
        (("\\d+)", "(?:\\d+)+)"), "unbounded repeat"),
        (("chassis (", "(?=x)chassis ("), "look-around"),
        (("(?P<chassis>\\d+)", "(\\d+) \\1"), "back-reference"),
        (('positive = ["chassis 7: pump failure"]', ""), "no positive example"),
        (("priority = 40", ""), "missing or unknown key"),
    ],
)
def test_loader_refuses_and_says_where(tmp_path, change, message):
    assert change[0] in ROW
    (tmp_path / "site.toml").write_text(ROW.replace(*change))
    with pytest.raises(CatalogueError, match=r"site\.toml") as caught:
        load_catalogue((str(tmp_path),))
    assert message in str(caught.value)


def test_equal_ids_in_one_folder_are_refused(tmp_path):
    (tmp_path / "a.toml").write_text(ROW)
    (tmp_path / "b.toml").write_text(ROW)
    assert any("occurs twice" in p for p in problems_in(read_folder(tmp_path)))


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


def captured(rows: list[dict], signature_id: str, *names: str) -> list[tuple]:
    return [
        tuple(dict(r["captures"]).get(n) for n in names)
        for r in rows
        if r["signature_id"] == signature_id
    ]


def test_facts_of_real_nccl_lines(real_logs):
    rows = faults_of(real_logs / "faults" / "nccl_lines.log")
    (rank1, rank36) = captured(rows, "nccl.init_complete", "rank", "n", "dev", "bus", "commid")
    assert rank1[:2] == ("1", "16")
    assert rank36 == ("36", "64", "4", "9b000", "0x5ae77eb5ea4ec1ee")
    assert not any(r["line"] == 29 for r in rows)  # a channel line, near miss of trace_frame


def test_facts_of_real_launcher_lines(real_logs):
    rows = faults_of(real_logs / "faults" / "torchelastic_lines.log")
    assert captured(rows, "elastic.child_failed", "code", "lr", "pid") == [
        ("-9", "3", "812917"), ("1", "3", "33054"), ("-9", "5", "2630"),
    ]  # fmt: skip
    assert [p for (p,) in captured(rows, "elastic.sigterm", "pid")] == [
        "812914", "926997", "33051", "293866", "197", "153929",
    ]  # fmt: skip


def test_facts_of_real_kernel_lines(real_logs):
    rows = faults_of(real_logs / "faults" / "dmesg_T_xid119_gsp.log")
    xids = [r for r in rows if r["signature_id"] == "gpu.xid119_gsp_timeout"]
    assert {r["gpu"] for r in xids} == {"0000:9b:00"}
    base = 1_740_327_858_000_000  # 2025-02-23 16:24:18 as printed
    assert [(r["stamp_us"] - base) // 1_000_000 for r in xids] == [0, 6, 12, 174, 355]
    rows = faults_of(real_logs / "faults" / "dmesg_decode_iso_xid13_43_oom.log")
    first = [r["signature_id"] for r in rows][:17]
    assert first == ["app.xid13_sm_exception"] * 16 + ["gpu.xid43_channel_reset"]
    assert rows[0]["stamp_kind"] == "utc"
    (panic,) = faults_of(real_logs / "faults" / "pstore_dmesg_erst_panic.log")
    assert (panic["stamp_kind"], panic["stamp_us"]) == ("boot", 201_654_822)


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
