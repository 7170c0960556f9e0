"""Slurm's accounting as JSON becomes the same rows as its text, with the place of each object."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from isal import igzip

from parsers import json_objects
from parsers.blocks import BlockReader, detect_compression, read_head
from parsers.formats import ParseContext, recognise
from parsers.json_objects import ObjectScanner
from parsers.slurm_json import SlurmJson
from parsers.tables import MAX_TEXT_BYTES
from pipeline import database, show, timeline
from pipeline.ingest import ingest
from tests import slurm_documents as slurm
from tests.slurm_documents import GENERATIONS, document, job, live_job, step

GOLDEN = Path(__file__).parent / "golden" / "slurm_pair"
JSON = SlurmJson()
T = 1_770_000_000
EVIDENCE = ("file_id", "line", "byte_offset", "seq", "scheduler")


def parse(path, *, block_bytes=4 * 1024 * 1024):
    """(rows, rejects, facts) of a file."""
    compression = detect_compression(path)
    head = read_head(path, compression)
    sniff = JSON.sniff(head, path.name)
    assert sniff.score > 0
    reader = BlockReader(path, compression=compression, block_bytes=block_bytes, in_pieces=True)
    facts = JSON.parse(iter(reader), ParseContext("f", head, sniff))
    assert facts.n_lines == reader.n_lines
    tables = {name: table.to_pylist() for name, table in facts.tables().items()}
    return tables.get("accounting_row", []), tables.get("reject", []), facts


def parse_bytes(tmp_path, data, **options):
    path = tmp_path / "sacct.json"
    path.write_bytes(data)
    return parse(path, **options)


def known(row):
    """What a row says, without its place."""
    return {k: v for k, v in row.items() if v is not None and k not in EVIDENCE}


def story(generation):
    """Jobs that show every part: a requeue, an array, a heterogeneous job, one that waits."""
    return [
        job(generation, 100, T, start=T + 60, end=T + 3660, state="NODE_FAIL", code=1,
            failed_node="node003", steps=[
                step(generation, 100, "batch", T + 60, T + 3660, signal=15, state="CANCELLED"),
                step(generation, 100, "0", T + 70, T + 3661, code=1, state="FAILED",
                     step_name="train"),
            ]),
        job(generation, 100, T + 3665, eligible=T + 3786, start=T + 3800, end=T + 7400,
            restarts=1),
        job(generation, 205, T, start=T + 10, end=T + 20, array_job_id=200, task_id=4,
            throttle=2, n_nodes=1, nodes="node009"),
        job(generation, 200, T, n_nodes=0, nodes="None assigned", state="PENDING",
            array_job_id=200, tasks="5-7%2", throttle=2),
        job(generation, 301, T, start=T + 10, end=T + 20, het_job_id=300, het_offset=1,
            state="CANCELLED", killed_by="root", limit=None),
    ]  # fmt: skip


def us(seconds):
    return seconds * 1_000_000


@pytest.mark.parametrize("generation", GENERATIONS)
def test_every_generation_says_the_same(tmp_path, generation):
    rows, rejects, _ = parse_bytes(tmp_path, document(generation, story(generation), indent=4))
    assert rejects == []
    common = {"cluster": "harbor", "account": "research", "partition": "gpu", "user": "ana",
              "job_name": "pretrain", "work_dir": "/home/ana", "stamp_kind": "utc",
              "suspended_s": 0, "time_limit_s": 86_400}  # fmt: skip
    if generation >= 39:
        common["submit_line"] = "sbatch train.sh"
    four = [f"node{n:03}" for n in range(1, 5)]

    def expected(job_id, native, code=0, signal=0, **own):
        row = (
            common
            | {
                "job_id": job_id,
                "native_id": str(native),
                "exit_code": code,
                "exit_signal": signal,
                "exit_trusted": generation >= 40,
                "never_started": False,
                "nodes": four,
                "n_nodes": 4,
                "n_gpus": 32,
            }
            | own
        )
        if generation < 40:  # every exit is printed as SUCCESS, without a signal
            row["exit_code"] = 0
            del row["exit_signal"]
        if generation >= 41 and "step_id" not in own:
            row["stdout_path"] = f"/home/ana/slurm-{native}.out"
        if generation >= 42 and "step_id" not in own:
            row.setdefault("restart_count", 0)
        else:
            row.pop("restart_count", None)
        if generation >= 45 and "step_id" not in own:
            row["sluid"] = f"s{native}"
        if "step_id" in own:
            for name in ("partition", "user", "work_dir", "time_limit_s", "submit_line"):
                row.pop(name, None)
        if generation < 39:
            row.pop("failed_nodes", None)
        return {k: v for k, v in row.items() if v is not None}  # fmt: skip

    assert [known(row) for row in rows] == [
        expected("100", 100, 1, state="NODE_FAIL", state_base="NODE_FAIL", elapsed_s=3600,
                 submit_us=us(T), eligible_us=us(T), start_us=us(T + 60), end_us=us(T + 3660),
                 failed_nodes=["node003"]),
        expected("100", 100, 0, 15, step_id="batch", job_name="batch", state="CANCELLED",
                 state_base="CANCELLED", elapsed_s=3600, submit_us=us(T + 60),
                 start_us=us(T + 60), end_us=us(T + 3660)),
        expected("100", 100, 1, step_id="0", job_name="train", state="FAILED",
                 state_base="FAILED", elapsed_s=3591, submit_us=us(T + 70), start_us=us(T + 70),
                 end_us=us(T + 3661)),
        expected("100", 100, state="COMPLETED", state_base="COMPLETED", elapsed_s=3600,
                 submit_us=us(T + 3665), eligible_us=us(T + 3786), start_us=us(T + 3800),
                 end_us=us(T + 7400), restart_count=1),
        expected("200_4", 205, state="COMPLETED", state_base="COMPLETED", elapsed_s=10,
                 array_job_id=200, array_task_id=4, array_throttle=2, submit_us=us(T),
                 eligible_us=us(T), start_us=us(T + 10), end_us=us(T + 20), n_nodes=1, n_gpus=8,
                 nodes=["node009"]),
        expected("200_[5-7%2]", 200, state="PENDING", state_base="PENDING", elapsed_s=0,
                 array_job_id=200, array_throttle=2, submit_us=us(T), eligible_us=us(T),
                 n_nodes=0, n_gpus=None, nodes=[], never_started=True),
        expected("300+1", 301, state="CANCELLED by 0", state_base="CANCELLED", elapsed_s=10,
                 het_offset=1, submit_us=us(T), eligible_us=us(T), start_us=us(T + 10),
                 end_us=us(T + 20), time_limit_s=None),
    ]  # fmt: skip


def objects(data):
    """Byte offsets of all job and step objects of a document, found by the standard library."""
    text, found = data.decode(), []
    decoder = json.JSONDecoder()
    at = text.index("[", text.index('"jobs"')) + 1
    while (at := text.index(text[at:].lstrip()[0], at)) is not None and text[at] == "{":
        _, end = decoder.raw_decode(text, at)
        found.append(at)
        inner = text.index("[", text.index('"steps"', at)) + 1
        while text[inner:].lstrip()[0] == "{":
            inner = text.index("{", inner)
            found.append(inner)
            inner = decoder.raw_decode(text, inner)[1]
            inner = inner + 1 if text[inner] == "," else inner
        at = end + 1 if text[end] == "," else end
    return found


@pytest.mark.parametrize("indent", [None, 0, 2, "\t"])
@pytest.mark.parametrize("compression", [None, "gz", "zst"])
def test_evidence_is_the_place_of_each_object(tmp_path, indent, compression):
    data = b"slurm: note\n" + document(42, story(42), indent)
    packed = {None: data, "gz": igzip.compress(data), "zst": zstandard.compress(data)}
    rows, _, facts = parse_bytes(tmp_path, packed[compression])
    places = objects(data)
    assert [row["seq"] for row in rows] == places
    assert [row["byte_offset"] for row in rows] == places
    assert [row["line"] for row in rows] == [data[:at].count(b"\n") for at in places]
    assert facts.claimed_lines == len(places)


@pytest.mark.parametrize("indent", [None, 2])
def test_facts_do_not_depend_on_blocks(tmp_path, indent, monkeypatch):
    data = b"text\n" + document(45, story(45), indent) + b"\n" + document(37, story(37), indent)
    whole = parse_bytes(tmp_path, data)[:2]
    for block_bytes in (1, 7, 100, 1000):
        assert parse(tmp_path / "sacct.json", block_bytes=block_bytes)[:2] == whole
    monkeypatch.setattr(json_objects, "_SLICE_BYTES", 3)
    assert parse(tmp_path / "sacct.json")[:2] == whole
    assert len(whole[0]) == 14


ODD_TEXT = st.text(alphabet=st.sampled_from('\\"{}[],: \n\tjobs"ü'), max_size=12)


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    names=st.lists(ODD_TEXT, min_size=1, max_size=4),
    indent=st.sampled_from([None, 1]),
    block_bytes=st.integers(1, 300),
    is_ascii=st.booleans(),
)
def test_no_text_of_a_job_misleads_the_scan(tmp_path, names, indent, block_bytes, is_ascii):
    jobs = [{"name": name, "job_id": 1, "time": {}, "tres": None} for name in names]
    whole = {"jobs": jobs, "meta": {"slurm": {}}, f"{names[0]}!": [{"a": 1}]}
    data = json.dumps(whole, indent=indent, ensure_ascii=is_ascii).encode()
    rows, rejects, _ = parse_bytes(tmp_path, data, block_bytes=block_bytes)
    assert rejects == []
    assert [row["job_name"] or "" for row in rows] == names


@settings(deadline=None, max_examples=200)
@given(
    data=st.lists(
        st.sampled_from([b"{", b"}", b"[", b"]", b'"', b"\\", b"\n", b",", b'"jobs":', b" x"]),
        max_size=40,
    ).map(b"".join),
    cut=st.integers(1, 9),
)
def test_damage_gives_the_same_objects_in_every_slicing(tmp_path_factory, data, cut):
    path = tmp_path_factory.getbasetemp() / "damaged.json"
    path.write_bytes(b'{"jobs":[{}' + data)

    def found(block_bytes):
        scanner = ObjectScanner("jobs", 0)
        reader = BlockReader(path, block_bytes=block_bytes, in_pieces=True)
        out = [o for block in reader for o in scanner.read(block)]
        return [*out, *scanner.finish()]

    assert found(cut) == found(4096)
    assert found(4096)[0].data == b"{}"


def test_documents_may_follow_each_other(tmp_path):
    jobs = [[job(42, n, T + n, start=T + n, end=T + n + 5)] for n in (1, 2, 3)]
    night = [document(42, found) for found in jobs]
    note = b"sacct: it's \"late\n" + b'{"note": {"jobs": []}}\n'
    data = night[0] + b"\n" + night[1] + note + night[2]
    rows, rejects, _ = parse_bytes(tmp_path, data)
    assert [row["job_id"] for row in rows] == ["1", "2", "3"]
    assert rejects == []


# --- shapes ------------------------------------------------------------------------------------


def read_one(tmp_path, record):
    rows, rejects, _ = parse_bytes(tmp_path, document(42, [record]))
    assert len(rows) + len(rejects) == 1
    return (rows or rejects)[0]


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (1440, 86_400), ({"set": True, "infinite": False, "number": 1440}, 86_400),
        (1440.0, 86_400), ("1440", 86_400), (None, None), ("Infinity", None),
        ({"set": False, "infinite": False, "number": 7}, None),
        ({"set": False, "infinite": True, "number": 0}, None), ({"number": 1440}, 86_400),
        (slurm.NO_VAL, None), (slurm.INFINITE, None), (-2, None), (2**64 - 2, None),
    ],
)  # fmt: skip
def test_a_number_may_have_any_shape(tmp_path, value, seconds):
    record = job(42, 1, T)
    record["time"]["limit"] = value
    assert read_one(tmp_path, record)["time_limit_s"] == seconds


@pytest.mark.parametrize("value", [0, slurm.NO_VAL, slurm.INFINITE, None, {"set": False}])
def test_a_time_that_is_not_yet_is_unknown(tmp_path, value):
    record = job(42, 1, T, start=T + 1, state="RUNNING")
    record["time"]["end"] = value
    row = read_one(tmp_path, record)
    assert (row["start_us"], row["end_us"]) == (us(T + 1), None)


@pytest.mark.parametrize(
    ("current", "state", "base"),
    [
        ("FAILED", "FAILED", "FAILED"), (["TIMEOUT"], "TIMEOUT", "TIMEOUT"),
        (["PENDING", "REQUEUED"], "REQUEUED", "REQUEUED"),
        (["COMPLETED", "COMPLETING"], "COMPLETING", "COMPLETING"),
        (["RUNNING", "SIGNALING", "RESIZING"], "RESIZING", "RESIZING"),
        ([], None, None), (None, None, None), ("?", None, None),
    ],
)  # fmt: skip
def test_a_state_is_the_one_that_the_text_prints(tmp_path, current, state, base):
    record = job(42, 1, T)
    record["state"]["current"] = current
    row = read_one(tmp_path, record)
    if current == "?":
        assert "not a job state" in row["reason"]
    else:
        assert (row["state"], row["state_base"]) == (state, base)


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ({"status": ["ERROR"], "return_code": {"set": True, "number": 3}}, (3, 0, True)),
        ({"status": ["SIGNALED"], "return_code": {"set": False},
          "signal": {"id": {"set": True, "number": 9}}}, (0, 9, True)),
        ({"status": ["SIGNALED"], "return_code": None, "signal": {"id": 125}}, (0, 125, True)),
        ({"status": ["PENDING"], "return_code": {"set": False},
          "signal": {"id": {"set": False}}}, (None, None, True)),
        ({"status": "SUCCESS", "return_code": 0}, (0, None, False)),
        ({"status": "SIGNALED", "return_code": -127, "signal": {"signal_id": 9}}, (None, 9, False)),
        ({"status": "SUCCESS"}, (None, None, False)),
        (None, (None, None, True)),
    ],
)  # fmt: skip
def test_exit_codes_are_trusted_by_their_shape(tmp_path, printed, expected):
    record = job(42, 1, T)
    record["exit_code"] = printed
    row = read_one(tmp_path, record)
    assert (row["exit_code"], row["exit_signal"], row["exit_trusted"]) == expected


@pytest.mark.parametrize(
    ("allocated", "gpus"),
    [
        ([("gpu", 8), ("gpu:a100", 8)], 8), ([("gpu:a100", 4), ("gpu:h100", 2)], 6),
        ([("gpu:p100", 1)], 1), ([("gpu", -2), ("gpu:a100", 3)], 3), ([("gpu", 2**64 - 2)], None),
        ([("nic", 2)], None), ([("gpu", 0)], 0), ([], None),
    ],
)  # fmt: skip
def test_gpus_are_not_counted_twice(tmp_path, allocated, gpus):
    record = job(42, 1, T)
    record["tres"] = {"allocated": [{"type": "gres", "name": n, "count": c} for n, c in allocated]}
    assert read_one(tmp_path, record)["n_gpus"] == gpus


@pytest.mark.parametrize(
    ("key", "step_id"),
    [
        ("123.batch", "batch"), ("123+1.0", "0"), ("123.0+1", "0+1"), ("extern", "extern"),
        (7, "7"), ("8012944_24093.0", "0"), (2**32 - 5, "batch"), (2**32 - 4, "extern"),
        ({"job_id": 1, "step_id": "interactive"}, "interactive"),
        ({"job_id": 1, "step_id": "0", "step_het_component": 2}, "0+2"),
        ({"step_id": 3, "step_het_component": {"set": False}}, "3"),
        ("123.x y", None), (None, None), ("", None),
    ],
)  # fmt: skip
def test_step_ids_of_every_shape(tmp_path, key, step_id):
    record = job(42, 123, T, steps=[step(42, 123, "0", T, T + 1)])
    record["steps"][0]["step"]["id"] = key
    rows, rejects, _ = parse_bytes(tmp_path, document(42, [record]))
    if step_id is None:
        assert len(rows) == 1
        assert "not a step id" in rejects[0]["reason"]
    else:
        assert rows[1]["step_id"] == step_id


def test_host_lists_and_nodes_that_never_were(tmp_path):
    hosts = ["d13n[03,05,07-08]", "None assigned", "", None, "broken[1-", "rack[0-1]n[00-01]"]
    jobs = [job(42, n, T, nodes=text) for n, text in enumerate(hosts, 1)]
    for record in jobs:
        record["allocation_nodes"] = None
        record["tres"] = None
    rows, rejects, _ = parse_bytes(tmp_path, document(42, jobs))
    assert rejects == []
    assert [row["nodes"] for row in rows] == [
        ["d13n03", "d13n05", "d13n07", "d13n08"], [], None, None, None,
        ["rack0n00", "rack0n01", "rack1n00", "rack1n01"],
    ]  # fmt: skip
    assert [row["n_nodes"] for row in rows] == [None, 0, None, None, None, None]


def test_fields_may_be_missing_or_new(tmp_path):
    data = b'{"jobs": [{"job_id": 5, "time": {}, "state": {}, "brand_new": {"x": [1, {}]}}]}'
    rows, rejects, _ = parse_bytes(tmp_path, data)
    assert rejects == []
    assert known(rows[0]) == {
        "job_id": "5", "native_id": "5", "exit_trusted": True, "never_started": True,
    }  # fmt: skip


# --- jobs that the controller knows -------------------------------------------------------------


@pytest.mark.parametrize("generation", GENERATIONS)
def test_open_jobs_have_no_end_and_waiting_ones_no_start(tmp_path, generation):
    live = [
        live_job(generation, 100, T, start=T + 60, end=T + 86_460, restarts=2),
        live_job(generation, 200, T, start=T + 900, end=T + 9000, state="PENDING", nodes="",
                 array_job_id=200, tasks="5-7%2", throttle=2, reason="Resources", tres=""),
        live_job(generation, 301, T, start=T + 60, end=T + 90, state="FAILED", code=3,
                 het_job_id=300, het_offset=1),
        live_job(generation, 401, T, start=T + 60, end=T + 60, state="CANCELLED", nodes="",
                 tres=""),
    ]  # fmt: skip
    rows, rejects, _ = parse_bytes(tmp_path, document(generation, live, indent=2))
    assert rejects == []
    common = {"cluster": "harbor", "account": "research", "partition": "gpu", "user": "ana",
              "job_name": "pretrain", "work_dir": "/home/ana", "stamp_kind": "utc",
              "time_limit_s": 86_400, "submit_us": us(T), "eligible_us": us(T)}  # fmt: skip

    def expected(job_id, native, name, **own):
        return common | {
            "job_id": job_id, "native_id": str(native), "state": name, "state_base": name,
            "stdout_path": f"/home/ana/slurm-{native}.out", "exit_trusted": True,
            "restart_count": 0, "never_started": False,
        } | own  # fmt: skip

    four = [f"node{n:03}" for n in range(1, 5)]
    assert [known(row) for row in rows] == [
        expected("100", 100, "RUNNING", start_us=us(T + 60), restart_count=2, n_nodes=4,
                 n_gpus=32, nodes=four),
        expected("200_[5-7%2]", 200, "PENDING", array_job_id=200, array_throttle=2,
                 reason="Resources", n_nodes=0, never_started=True),
        expected("300+1", 301, "FAILED", start_us=us(T + 60), end_us=us(T + 90), exit_code=3,
                 exit_signal=0, het_offset=1, n_nodes=4, n_gpus=32, nodes=four),
        expected("401", 401, "CANCELLED", start_us=us(T + 60), end_us=us(T + 60), exit_code=0,
                 exit_signal=0, n_nodes=4, never_started=True),
    ]  # fmt: skip


def test_an_open_job_gives_way_to_its_end(tmp_path):
    record = live_job(45, 100, T, start=T + 60, end=T + 86_460)
    (tmp_path / "squeue.json").write_bytes(document(45, [record]))
    lake_dir = tmp_path / "lake"
    question = "select count(*), any_value(is_open), any_value(epoch(end_at)) from attempt"
    found = []
    for name in ("squeue.json", "sacct.json"):
        ingest([str(tmp_path / name)], lake_dir)
        timeline.rebuild(lake_dir)
        found.append(database.connect(lake_dir).sql(question).fetchall()[0])
        ended = job(45, 100, T, start=T + 60, end=T + 500, state="FAILED")
        (tmp_path / "sacct.json").write_bytes(document(45, [ended]))
    assert found == [(1, True, None), (1, False, T + 500)]


# --- damage ------------------------------------------------------------------------------------


@pytest.mark.parametrize("indent", [None, 2])
def test_complete_jobs_of_a_truncated_document_are_facts(tmp_path, indent):
    data = document(42, story(42), indent)
    places = objects(data)
    job_places = [places[0], *places[3:]]
    whole = parse_bytes(tmp_path, data)[0]
    for n_whole in range(1, 5):
        cut = data[: job_places[n_whole] + 30]
        rows, rejects, _ = parse_bytes(tmp_path, cut)
        assert rows == [row for row in whole if row["seq"] < job_places[n_whole]]
        assert [(r["byte_offset"], r["line"]) for r in rejects] == [
            (job_places[n_whole], data[: job_places[n_whole]].count(b"\n"))
        ]
        assert "the file ends inside this object" in rejects[0]["reason"]
    between = data[: data.rindex(b"]", 0, data.index(b'"meta"'))]
    rows, rejects, _ = parse_bytes(tmp_path, between)
    assert rows == whole
    assert [r["reason"] for r in rejects] == [
        "the file ends inside the document: objects may be missing"
    ]
    assert rejects[0]["seq"] == len(between) - 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"job_id": None}, "no job_id"), ({"job_id": "x"}, "no whole number"),
        ({"job_id": 1.5}, "no whole number"), ({"job_id": 10**30}, "beyond 64 bits"),
        ({"job_id": [1]}, "Expected"), ({"group": None}, "group is null"),
        ({"allocation_nodes": 2**31}, "too large"), ({"nodes": {"a": 1}}, "Expected"),
        ({"steps": {}}, "Expected"), ({"state": 7}, "Expected"),
        ({"time": {"start": 10**15}}, "no time in seconds"), ({"restart_cnt": 10**12}, "too large"),
    ],
)  # fmt: skip
def test_jobs_that_cannot_be_are_rejects(tmp_path, change, reason):
    jobs = [job(42, 1, T), job(42, 2, T) | change, job(42, 3, T)]
    rows, rejects, _ = parse_bytes(tmp_path, document(42, jobs, indent=1))
    assert [row["job_id"] for row in rows] == ["1", "3"]
    assert len(rejects) == 1
    assert reason in rejects[0]["reason"]
    assert rejects[0]["raw"].startswith("{")
    assert len(rejects[0]["raw"]) <= MAX_TEXT_BYTES


@pytest.mark.parametrize(
    "damaged",
    [
        b'{"job_id": 1e999}', b'{"job_id": ' + b"9" * 9000 + b"}", b'{"name": "\\ud800"}', b"[1]",
        b'{"x": ' + b"[" * 5000 + b"]" * 5000 + b"}", b'{"job_id" 1}', b'{"job_id": nul}', b"{,}",
        b'{"steps": [{"a": 1]}}', b'{"name": "\\x"}',
    ],
)  # fmt: skip
def test_damaged_objects_are_rejects(tmp_path, damaged):
    good = document(42, [job(42, 1, T)])
    data = good.replace(b'"jobs": [', b'"jobs": [' + damaged + b", ")
    rows, rejects, _ = parse_bytes(tmp_path, data)
    assert [row["job_id"] for row in rows] == ["1"]
    assert [r["byte_offset"] for r in rejects] == [data.index(damaged)]


def test_a_lost_quote_costs_one_job_of_a_printed_document(tmp_path):
    data = document(42, [job(42, n, T) for n in (1, 2, 3)], indent=2)
    at = data.index(b'"name": "pretrain"', data.index(b'"job_id": 2'))
    data = data[:at] + b'"name": "pretrain,\n' + data[at + len(b'"name": "pretrain",\n') :]
    rows, rejects, _ = parse_bytes(tmp_path, data)
    assert [row["job_id"] for row in rows] == ["1", "3"]
    assert len(rejects) == 1


def test_bad_bytes_and_bare_infinity_do_not_hurt(tmp_path):
    record = job(42, 1, T, steps=[step(42, 1, "0", T, T + 1, step_name="NAME: NaN,")])
    record["name"] = "NAME"
    record["time"]["limit"] = "LIMIT"
    data = document(42, [record]).replace(b"NAME", b"\xfforted: Infinity")
    data = data.replace(b'"LIMIT"', b"Infinity")
    rows, rejects, _ = parse_bytes(tmp_path, data)
    assert rejects == []
    assert rows[0]["job_name"] == "\ufffdorted: Infinity"
    assert rows[1]["job_name"] == "\ufffdorted: Infinity: NaN,"
    assert rows[0]["time_limit_s"] is None
    assert [data[row["seq"] : row["seq"] + 10] for row in rows] == [
        b'{"account"', b'{"time": {',
    ]  # fmt: skip


def test_huge_objects_are_given_up_and_texts_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(json_objects, "MAX_OBJECT_BYTES", 20_000)
    large = job(42, 2, T) | {"script": "x" * 30_000}
    jobs = [job(42, 1, T) | {"submit_line": "ü" * 3000}, large, job(42, 3, T)]
    data = document(42, jobs)
    for block_bytes in (1000, 4096, 1_000_000):
        rows, rejects, _ = parse_bytes(tmp_path, data, block_bytes=block_bytes)
        assert [row["job_id"] for row in rows] == ["1", "3"]
        n_bytes = data.index(b', {"account"', data.index(b"xxx")) - rejects[0]["seq"]
        assert [r["reason"] for r in rejects] == [f"an object of {n_bytes} bytes: more than 20000"]
        assert len(rejects[0]["raw"]) == MAX_TEXT_BYTES
    assert len(rows[0]["submit_line"].encode()) == MAX_TEXT_BYTES


# --- recognition -------------------------------------------------------------------------------


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("indent", [None, 4])
def test_documents_are_claimed_by_their_structure(generation, indent):
    data = document(generation, story(generation), indent)
    assert recognise(data, "x")[0].format == "slurm_json"
    assert recognise(b"slurm: it's \"text\n" + data, "x")[0].format == "slurm_json"
    without_meta = json.loads(data)
    del without_meta["meta"]
    assert recognise(json.dumps(without_meta).encode(), "x")[0].format == "slurm_json"
    empty = document(generation, [], indent)
    assert recognise(empty, "x")[0].format == "slurm_json"
    assert recognise(data[:3000], "x")[0].format == "slurm_json"


@pytest.mark.parametrize(
    "head",
    [
        b"", b"{}", b'{"jobs": []}', b'{"jobs": [{"job_id": 12}]}', b'{"jobs": {"job_id": 1}}',
        b'{"nodes": [{"name": "jobs"}], "meta": {"slurm": {}}}',
        b'{"jobs": [{"id": 4, "time": 3, "state": "ok"}]}',
        b'{"a": {"jobs": [{"job_id": 1, "time": {}, "state": {}}]}, "meta": {"slurm": {}}}',
        b'{"x": "\\"jobs\\": [{\\"job_id\\": 1, \\"time\\": 2, \\"state\\": 3}]"}',
        b'{"step": 4, "jobs": 3}\n' * 20, b"}]" * 10 + b'"jobs"',
    ],
)  # fmt: skip
def test_other_json_is_not_claimed(head):
    assert JSON.sniff(head, "x.json").score == 0


def test_a_long_line_behind_a_banner_is_still_seen(tmp_path):
    path = tmp_path / "jobs.json"
    path.write_bytes(b"banner\n" + document(42, story(42) * 30))
    assert path.stat().st_size > 2 * 64 * 1024
    summary = ingest([str(path)], tmp_path / "lake")
    assert summary.n_rows == {"accounting_row": 7 * 30}


# --- with the pipeline -------------------------------------------------------------------------


def attempts(tmp_path, path):
    lake_dir = tmp_path / f"lake-{path.name}"
    ingest([str(path)], lake_dir)
    timeline.rebuild(lake_dir)
    con = database.connect(lake_dir)
    questions = [
        "from (select * exclude (file_id, line, byte_offset) from attempt) order by all",
        "from (select * exclude (file_id, line, byte_offset) from attempt_step) order by all",
        # of steps sacct prints other cells than JSON has
        """
        from (select * exclude (file_id, line, byte_offset, seq, batch) from raw_accounting_row)
        where step_id is null order by all
        """,
    ]
    return [con.sql(question).fetchall() for question in questions]


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json")), ids=lambda path: path.stem)
def test_text_and_json_of_the_same_jobs_give_equal_attempts(tmp_path, path):
    from_json, from_text = attempts(tmp_path, path), attempts(tmp_path, path.with_suffix(".txt"))
    assert from_json == from_text
    assert len(from_text[0]) >= 5
    assert len(from_text[1]) >= 2


def test_large_one_line_document_is_read_whole_and_grows(tmp_path):
    path = tmp_path / "sacct.json"
    jobs = [job(42, n, T + n, start=T + n, end=T + n + 9) for n in range(1, 400)]
    data = document(42, jobs)
    path.write_bytes(data[: len(data) // 2])
    lake_dir = tmp_path / "lake"
    first = ingest([str(path)], lake_dir, chunk_bytes=10_000)
    assert first.n_rejects == 1
    assert first.n_lines == 1
    path.write_bytes(data)
    second = ingest([str(path)], lake_dir, chunk_bytes=10_000)
    assert second.n_rows == {"accounting_row": 399}
    timeline.rebuild(lake_dir)
    con = database.connect(lake_dir)
    assert con.sql("select count(*), min(line), max(line) from attempt").fetchall() == [(399, 1, 1)]
    assert con.sql("select n_lines, n_claimed_lines, n_rejects from file").fetchall() == [
        (1, 399, 0)
    ]
    assert ingest([str(path)], lake_dir).n_unchanged == 1


@pytest.mark.parametrize("indent", [None, 2])
def test_shown_evidence_is_the_object(tmp_path, indent):
    path = tmp_path / "sacct.json"
    path.write_bytes(document(42, story(42), indent))
    lake_dir = tmp_path / "lake"
    ingest([str(path)], lake_dir)
    timeline.rebuild(lake_dir)
    con = database.connect(lake_dir)
    (file_id, line), *_ = con.sql("select file_id, line from attempt where job_id = '200_4'"
                                  ).fetchall()  # fmt: skip
    shown = show.show(f"fact:attempt:{file_id}:{line}", lake_dir)
    assert len(shown) == (1 if indent else 5)
    texts = [found.text.replace(" ", "") for found in shown]
    assert all(text.startswith('{"account":"research","comment"') for text in texts)
    assert sum('"job_id":205' in text for text in texts) >= 1


# --- real files --------------------------------------------------------------------------------


def test_real_document_of_21_08(real_logs):
    path = real_logs / "slurm/sarc/slurm_21_8_8.json"
    rows, rejects, _ = parse(path)
    assert (len(rows), rejects) == (1, [])
    row = rows[0]
    assert (row["job_id"], row["step_id"], row["state"], row["state_base"]) == (
        "55978384", None, "REQUEUED", "REQUEUED",
    )  # fmt: skip
    assert row["elapsed_s"] == 86_301
    assert row["end_us"] - row["start_us"] == us(94_363)
    assert (row["suspended_s"], row["time_limit_s"]) == (0, 1440 * 60)
    assert (row["n_gpus"], row["n_nodes"], row["nodes"]) == (1, 1, ["cdr896"])
    assert (row["array_job_id"], row["array_task_id"], row["array_throttle"]) == (None,) * 3
    assert (row["exit_code"], row["exit_trusted"]) == (0, False)
    assert row["submit_us"] == row["eligible_us"] == row["start_us"] == us(1_673_275_023)
    assert (row["stamp_kind"], row["cluster"]) == ("utc", "cedar")
    data = path.read_bytes()
    assert data[row["seq"] :].startswith(b'{\n            "account": "rrg-labname-ad_gpu"')


def test_real_document_of_23_02(tmp_path, real_logs):
    path = real_logs / "slurm/sarc/slurm_23_2_6.json"
    rows, rejects, _ = parse(path)
    assert (len(rows), rejects) == (1, [])
    row = rows[0]
    assert (row["job_id"], row["state"], row["end_us"]) == ("4", "RUNNING", None)
    assert (row["elapsed_s"], row["time_limit_s"]) == (83_853_331, 7200 * 60)
    assert (row["n_gpus"], row["nodes"], row["exit_trusted"]) == (2, ["mila02"], False)
    lake_dir = tmp_path / "lake"
    ingest([str(path)], lake_dir)
    timeline.rebuild(lake_dir)
    con = database.connect(lake_dir)
    assert con.sql("select job_id, is_open, is_runaway from attempt").fetchall() == [
        ("4", True, True)
    ]
    assert con.sql("select count(*) from attempt_step").fetchall() == [(0,)]
