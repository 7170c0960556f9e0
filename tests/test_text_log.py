"""Log text of any carrier, launcher and cleanliness gives the same facts at exact places."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from parsers.blocks import BlockReader
from parsers.clock import parse_stamp
from parsers.formats import HEAD_BYTES, Facts, ParseContext, Row, Sniff
from parsers.tables import MAX_TEXT_BYTES
from parsers.text_log import MAX_RECORD_CHARS, TextLog

TEXT = TextLog()
STEP = (
    " iteration {0:8d}/    1000 | consumed samples: {0:12d} | elapsed time per iteration (ms): "
    "1000.0 | learning rate: 3.000E-04 | global batch size:    64 | lm loss: 2.500000E+00 |"
)
STAMPED_STEP = " [2026-02-01 00:00:{0:02d}.000000]" + STEP
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
XID = "NVRM: Xid (PCI:0000:9b:00): 79, pid=1234, name=python, GPU has fallen off the bus."
BAR = " 33%|###3      | {0}/120 [00:06<00:11,  6.89it/s]"


@pytest.fixture
def read(tmp_path: Path):
    """A function from bytes to the facts of a file of these bytes."""

    def read_bytes(data: bytes | str, *, clock: bool = False, **range_: int) -> Facts:
        path = tmp_path / "log"
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        sniff = Sniff("text", 0.5, {"clock": str(int(clock))})
        return TEXT.parse(iter(BlockReader(path, **range_)), ParseContext("f", b"", sniff))

    return read_bytes


def rows(facts: Facts, table: str) -> list[Row]:
    tables = facts.tables()
    return tables[table].to_pylist() if table in tables else []


def brief(facts: Facts, table: str, *names: str) -> list[tuple[object, ...]]:
    return [tuple(row[n] for n in names) for row in rows(facts, table)]


# sniffing


def detail(head: str | bytes) -> dict[str, str]:
    return dict(TEXT.sniff(head if isinstance(head, bytes) else head.encode(), "x.log").detail)


def test_anchors_of_a_dialect_raise_the_score() -> None:
    step = STAMPED_STEP.format(1) + "\n"
    plain, megatron = (TEXT.sniff(t.encode(), "x") for t in ("hello\nworld\n", step * 3))
    assert 0 < plain.score < megatron.score
    assert megatron.detail == {"dialect:megatron": "3", "clock": "0"}


@pytest.mark.parametrize(
    ("lines", "clock"),
    [
        (["2026-02-01 00:00:01 a", "", "b", "", ""], "0"),
        (["2026-02-01 00:00:01 a", "b", "c"], "1"),
        (["[rank0]:[E602 11:17:52.185053341 x.cpp:1] a", "Feb 14 05:03:41 n kernel: b", "c"], "0"),
        (["took until 2026-02-01 00:00:01"], "1"),
        ([""], "1"),
    ],
)
def test_clock_is_wanted_where_fewer_than_half_of_the_lines_have_a_time(
    lines: list[str], clock: str
) -> None:
    assert detail("\n".join(lines))["clock"] == clock


@pytest.mark.parametrize(
    "head",
    [
        bytes(range(256)) * 20,
        b"\x1f\x8b\x08\0\0\0\0\0" * 9,
        b"PK\x03\x04\x14\0\0\0\x08\0" * 9,
        "utf-16 log line\n".encode("utf-16-le") * 9,
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x02",
    ],
    ids=["bytes", "gz", "zip", "utf16", "png"],
)
def test_binary_data_is_not_text(head: bytes) -> None:
    assert TEXT.sniff(head, "x").score == 0


@pytest.mark.parametrize(
    "head",
    [
        b"\0" * 4096 + b"training starts\n",
        b"training starts\n" + b"\0" * 4096,
        b"\xff\xfe broken utf-8 \xe2\x96\n" * 9,
        b"\x1b[32mcolour\x1b[0m\tand\rframes\r\n" * 9,
        b"",
    ],
    ids=["copytruncate", "crash", "utf8", "ansi", "empty"],
)
def test_dirty_text_is_text(head: bytes) -> None:
    assert TEXT.sniff(head, "x").score > 0


def test_own_report_is_not_read_back() -> None:
    head = f"<!-- wallsplit report -->\n{OOM}\n"
    assert TEXT.sniff(head.encode(), "report.html").score == 0
    assert TEXT.sniff(f"{OOM}\n<!-- wallsplit report -->\n".encode(), "x").score > 0


# places


def test_facts_stand_where_their_bytes_stand(read) -> None:
    data = f"first\n\n[rank3]: {OOM}\nünïcödé\n{STAMPED_STEP.format(7)}\n"
    facts = read(data)
    fault, step = rows(facts, "fault_event")[0], rows(facts, "train_event")[0]
    assert (fault["line"], fault["byte_offset"], fault["rank"]) == (2, 7, 3)
    assert data.encode()[step["byte_offset"] :].startswith(b" [2026-02-01")
    assert (step["line"], step["seq"], step["step_to"]) == (4, step["byte_offset"], 7)
    assert (facts.n_lines, facts.claimed_lines) == (5, 2)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r\r\n"])
def test_line_ends_change_nothing_but_offsets(read, end: str) -> None:
    lines = [STAMPED_STEP.format(1), OOM, "", STAMPED_STEP.format(2), XID]
    facts = read(end.join(lines) + end)
    assert brief(facts, "train_event", "line", "step_to") == [(0, 1), (3, 2)]
    assert brief(facts, "fault_event", "line", "message") == [(1, OOM), (4, XID)]
    assert facts.n_lines == 5


def test_last_line_without_newline_is_read(read) -> None:
    assert len(rows(read(OOM), "fault_event")) == 1
    assert read("").n_lines == 0


def test_facts_do_not_depend_on_where_chunks_are_cut(read) -> None:
    frames = "\r".join(BAR.format(n) for n in range(1, 9))
    lines = [
        f"[rank1]: {OOM}",
        STAMPED_STEP.format(1),
        "2026-02-01 00:00:09,123 worker says hello",
        "3: 2026-02-01 00:00:10 worker says hello",
        frames + "[rank5]: " + XID,
        "2: " + frames,
    ]
    data = "\n".join(lines * 3).encode()
    whole = read(data, clock=True)
    expected = {t: sorted(brief(whole, t, "byte_offset", "seq", "rank")) for t in whole.tables()}
    for cut in range(0, len(data), 97):
        parts = [read(data, clock=True, end=cut), read(data, clock=True, start=cut)]
        for table, places in expected.items():
            found = [p for f in parts for p in brief(f, table, "byte_offset", "seq", "rank")]
            assert sorted(found) == places
        assert sum(f.claimed_lines for f in parts) == whole.claimed_lines


# frames


def test_frames_of_a_bar_are_records_of_their_own(read) -> None:
    data = "noise\n" + "\r".join(["", BAR.format(1), BAR.format(2), BAR.format(2), ""]) + "\n"
    facts = read(data)
    found = brief(facts, "train_event", "line", "byte_offset", "seq", "step_to", "elapsed_s")
    at = [data.index(BAR.format(n)) for n in (1, 2)]
    assert found == [(1, 6, at[0], 1, 6.0), (1, 6, at[1], 2, 6.0)]


def test_messages_glued_behind_a_bar_are_found(read) -> None:
    loss = "{'loss': '6.153', 'grad_norm': '0.6797', 'learning_rate': '0.001', 'epoch': '0.01'}"
    saving = "[transformers] Saving model checkpoint to out/checkpoint-40"
    data = f"\r{BAR.format(40)}{loss}\n\r{BAR.format(40)}\x1b[A{saving}\n"
    facts = read(data)
    assert brief(facts, "train_event", "line", "seq", "kind", "step_to", "loss") == [
        (0, 1, "step", 40, None),
        (0, data.index("{'loss"), "metric", None, 6.153),
        (1, data.index("\n") + 2, "step", 40, None),
        (1, data.index("\x1b"), "checkpoint_save", 40, None),
    ]


def test_line_of_another_rank_glued_behind_a_bar_is_of_that_rank(read) -> None:
    glued = f"{BAR.format(24)}[rank5]:[E602 11:17:52.185053341 x.cpp:1] {OOM}\n"
    fault = rows(read(f"0: \r{glued}"), "fault_event")[0]
    assert fault["rank"] == 5
    assert fault["stamp_us"] == parse_stamp("E602 11:17:52.185053341").us
    step = rows(read(f"0: \r{glued}"), "train_event")[0]
    assert (step["rank"], step["stamp_us"]) == (0, None)


def test_frames_inherit_label_and_time_of_their_line(read) -> None:
    frames = "\r".join([BAR.format(1), BAR.format(2)])
    line = f"2026-02-01T00:00:01.5Z stdout F [rank4]: \r{frames}"
    found = brief(read(line), "train_event", "rank", "stamp_us", "stamp_source", "stamp_kind")
    assert found == [(4, parse_stamp("2026-02-01T00:00:01.5Z").us, "prefix", "utc")] * 2


def test_equal_frames_of_two_ranks_are_two_rows(read) -> None:
    frames = f"[rank0]: {BAR.format(3)}\r[rank1]: {BAR.format(3)}\r[rank0]: {BAR.format(3)}"
    assert brief(read(frames), "train_event", "rank") == [(0,), (1,)]


def test_rows_of_one_line_have_places_of_their_own(read) -> None:
    line = STAMPED_STEP.format(5) + BAR.format(1) + BAR.format(2) + " " + BAR.format(3)
    for data in (line, f"{line}\n{STAMPED_STEP.format(6)}\n"):
        places = [seq for (seq,) in brief(read(data), "train_event", "seq")]
        assert len(places) == len(set(places))


# launchers and carriers


def test_interleaved_ranks_are_told_apart(read) -> None:
    lines = [f"{rank:2d}: {STAMPED_STEP.format(step)}" for step in (1, 2) for rank in (0, 1, 10)]
    found = brief(read("\n".join(lines)), "train_event", "step_to", "rank", "line")
    assert found == [(1, 0, 0), (1, 1, 1), (1, 10, 2), (2, 0, 3), (2, 1, 4), (2, 10, 5)]


def test_time_of_the_record_beats_that_of_its_carrier(read) -> None:
    facts = read(f"2026-02-01T08:00:09Z stdout F {STAMPED_STEP.format(1)}\n")
    row = rows(facts, "train_event")[0]
    assert row["stamp_us"] == parse_stamp("2026-02-01 00:00:01").us
    assert (row["stamp_source"], row["stamp_kind"]) == ("inline", "local")


def test_carrier_with_a_date_beats_a_record_without(read) -> None:
    facts = read(f"2026-06-02T11:18:00Z stderr F [E602 11:17:52.185053341 x.cpp:1] {OOM}\n")
    row = rows(facts, "fault_event")[0]
    assert row["stamp_us"] == parse_stamp("2026-06-02T11:18:00Z").us
    assert (row["stamp_source"], row["stamp_kind"]) == ("prefix", "utc")


@pytest.mark.parametrize(
    ("prefix", "node", "kind"),
    [
        ("[Sun Feb 23 16:24:18 2025] ", None, "local"),
        ("Feb 14 05:03:41 node01 kernel: [155044.078590] ", "node01", "local_no_year"),
        ("2025-02-14T05:03:41.123456+00:00 node01 kernel: ", "node01", "utc"),
        ("kern  :warn  : 2025-01-21T04:41:44,285060+00:00 ", None, "utc"),
        ("[155044.078590] ", None, "boot"),
        ("6,3964,206764307,-;", None, "boot"),
        ("", None, None),
    ],
)
def test_kernel_lines_of_all_carriers(
    read, prefix: str, node: str | None, kind: str | None
) -> None:
    row = rows(read(prefix + XID + "\n"), "fault_event")[0]
    assert (row["message"], row["node"], row["stamp_kind"]) == (XID, node, kind)
    assert dict(row["captures"])["xid"] == "79" or row["gpu"] == "0000:9b:00"


def test_docker_line_is_read(read) -> None:
    line = {"log": f"[rank3]: {OOM}\n", "stream": "stderr", "time": "2026-02-01T00:00:01Z"}
    row = rows(read(json.dumps(line, separators=(",", ":")) + "\n"), "fault_event")[0]
    assert (row["message"], row["rank"], row["stamp_kind"]) == (OOM, 3, "utc")


# faults that are none


@pytest.mark.parametrize(
    "line",
    [
        '    raise RuntimeError("CUDA error: out of memory")',
        '  File "/opt/x.py", line 3, in f: torch.OutOfMemoryError: CUDA out of memory',
        '[rank0]:     raise torch.OutOfMemoryError("CUDA out of memory")',
        '3:     raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate")',
        "For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
        "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
    ],
)
def test_source_lines_and_advice_are_no_faults(read, line: str) -> None:
    assert rows(read(line + "\n"), "fault_event") == []


# clock marks


def test_lines_that_only_tell_the_time_are_marks(read) -> None:
    lines = [
        "[2026-02-01 00:00:01,250] [INFO] [x.py:1] hello",
        "no time",
        "[rank2]:[W602 11:17:52.185053341 x.cpp:1] hello",
        "I1130 21:30:26.493000 1234 api.py:1] hello",
        "01/17/2024 14:07:46 [INFO|DP=0]: hello",
        "took until 2026-02-01 00:00:01",
        f"{BAR.format(1)}[2026-02-01 00:00:09] hello",
    ]
    facts = read("\n".join(lines), clock=True)
    found = brief(facts, "clock_mark", "line", "stamp_kind", "stamp_resolution_s", "rank")
    assert found == [
        (0, "local", 1e-3, None),
        (2, "local_no_year", 1.0, 2),
        (3, "local_no_year", 1e-3, None),
        (4, "local", 1.0, None),
        (6, "local", 1.0, None),
    ]
    assert facts.claimed_lines == 1
    assert rows(read("\n".join(lines)), "clock_mark") == []


def test_line_with_a_row_that_has_its_time_is_no_mark(read) -> None:
    lines = [
        STAMPED_STEP.format(1),
        f"[2026-02-01 00:00:02] {OOM}",
        "[2026-02-01 00:00:03] iteration 4/ elapsed time per iteration (ms): 10",
        STAMPED_STEP.format(4),
    ]
    facts = read("\n".join(lines) + "\n", clock=True)
    assert brief(facts, "train_event", "line") == [(0,), (3,)]
    assert brief(facts, "fault_event", "line") == [(1,)]
    # a reject has no time of its own
    assert brief(facts, "reject", "line") == brief(facts, "clock_mark", "line") == [(2,)]
    assert facts.claimed_lines == 4


def test_bulk_and_single_reading_agree_on_everything(read) -> None:
    lines = [f"{p}{STAMPED_STEP.format(n)}" for n in range(1, 30) for p in ("", "1: ", "[rank2]: ")]
    whole = read("\n".join([*lines, STEP.format(31), f"\r{STAMPED_STEP.format(32)}"]), clock=True)
    names = ("step_to", "stamp_us", "stamp_source", "rank", "loss", "step_ms", "global_batch")
    singly = [row for line in lines for row in brief(read(line + "\r\r\n"), "train_event", *names)]
    assert brief(whole, "train_event", *names)[: len(lines)] == singly
    assert rows(whole, "clock_mark") == []
    assert whole.claimed_lines == len(lines) + 2


# damage


def test_cut_step_line_is_a_reject(read) -> None:
    cut = " [2026-02-01 00:00:03] iteration        3/ elapsed time per iteration (ms): 1000.0 |"
    row = rows(read(f"ok\n{cut}\n"), "reject")[0]
    assert (row["line"], row["format"], row["raw"]) == (1, "megatron", cut)


def test_bad_bytes_and_nuls_do_not_move_anything(read) -> None:
    data = (
        b"\xff\xfe\n" + b"\0" * 5000 + f"[rank3]: {OOM} \u00e9".encode() + b"\xff\n" + b"\xe2\x96"
    )
    row = rows(read(data), "fault_event")[0]
    assert (row["line"], row["byte_offset"], row["rank"]) == (1, 3, 3)
    assert row["message"] == f"{OOM} \u00e9\ufffd"


def test_message_is_bounded_in_bytes(read) -> None:
    row = rows(read(f"{OOM} {'é' * 5000}\n"), "fault_event")[0]
    assert MAX_TEXT_BYTES - 2 < len(row["message"].encode()) <= MAX_TEXT_BYTES


def test_very_long_line_is_read_in_pieces(read) -> None:
    long = "x" * (10 * 1024 * 1024)
    facts = read(f"{OOM}\n[rank3]: {long} {OOM}\n{STAMPED_STEP.format(1)}\n")
    assert brief(facts, "fault_event", "line", "rank") == [(0, None), (1, 3)]
    assert brief(facts, "train_event", "line") == [(2,)]
    assert len(f"{long} {OOM}") > 100 * MAX_RECORD_CHARS


# real logs


def test_generated_run_gives_what_its_driver_did(read, real_logs: Path) -> None:
    data = (real_logs / "generated/hf_single/train.log").read_bytes()
    assert TEXT.sniff(data[:HEAD_BYTES], "train.log").detail["clock"] == "1"
    facts = read(data, clock=True)
    kinds = Counter(kind for (kind,) in brief(facts, "train_event", "kind"))
    assert (kinds["metric"], kinds["checkpoint_save"], kinds["resume"]) == (27, 6, 2)
    assert sum(p == "end" for (p,) in brief(facts, "train_event", "phase")) == 3
    resumes = [r["step_to"] for r in rows(facts, "train_event") if r["kind"] == "resume"]
    assert resumes == [40, 60]
    assert len(rows(facts, "clock_mark")) == 3  # one DeepSpeed line in each attempt


@pytest.mark.parametrize(
    ("name", "expected", "kinds"),
    [
        ("nccl_lines", {"nccl.ib_async_fatal": 5, "nccl.trace_frame": 5, "nccl.socket_fail": 1},
         {"utc": 5, "local": 1, None: 25}),
        ("torchelastic_lines", {"elastic.sigterm": 6, "elastic.child_failed": 3},
         {"local_no_year": 6, "local": 1, "time_of_day": 1, None: 9}),
        ("dmesg_T_xid119_gsp", {"gpu.xid119_gsp_timeout": 5, "gpu.uuid_map": 1}, {"local": 7}),
        ("dmesg_decode_iso_xid13_43_oom", {"app.xid13_sm_exception": 16}, {"utc": 24}),
        ("pstore_dmesg_erst_panic", {"host.kernel_panic": 1}, {"boot": 1}),
        ("ascend_hccl_lines", {"hccl.inner": 3, "hccl.pta_err": 2}, {"local": 7}),
    ],
)  # fmt: skip
def test_real_fault_lines_have_their_signature_and_time(
    read, real_logs: Path, name: str, expected: dict[str, int], kinds: dict[str | None, int]
) -> None:
    facts = read((real_logs / f"faults/{name}.log").read_bytes())
    found = Counter(s for (s,) in brief(facts, "fault_event", "signature_id"))
    assert {s: found[s] for s in expected} == expected
    assert Counter(k for (k,) in brief(facts, "fault_event", "stamp_kind")) == kinds
