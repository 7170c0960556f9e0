"""sacct text becomes accounting rows with exact evidence; what cannot be read says why."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parsers import slurm_accounting
from parsers.blocks import BlockReader, read_head
from parsers.formats import ParseContext, recognise
from parsers.hostlist import expand
from parsers.sacct_columns import USED_COLUMNS, typed_rows
from parsers.sacct_layout import KNOWN_COLUMNS, read_header
from parsers.slurm_accounting import SlurmAccounting
from parsers.slurm_nodes import MAX_STEP_NODES
from parsers.tables import ACCOUNTING_ROW, MAX_TEXT_BYTES

GOLDEN = Path(__file__).parent / "golden" / "sacct"
SACCT = SlurmAccounting()
HEADER = "JobID|JobIDRaw|JobName|State|ExitCode|Submit|Start|End|NodeList|SubmitLine|User"


def row(job="1", *, name="train", state="COMPLETED", nodes="n1", line="sbatch x", user="ana"):
    times = "2026-03-01T10:00:00|2026-03-01T10:02:01|2026-03-01T12:00:00"
    return f"{job}|{job}|{name}|{state}|0:0|{times}|{nodes}|{line}|{user}"


def parse(path, *, block_bytes=4 * 1024 * 1024, borders=()):
    """(rows, rejects, claimed lines, lines) of a file read in chunks that end at `borders`."""
    head = read_head(path)
    sniff = SACCT.sniff(head, path.name)
    assert sniff.score > 0
    context = ParseContext("f", head, sniff)
    facts: dict[str, list] = {"accounting_row": [], "reject": []}
    claimed = n_lines = 0
    ends = [*borders, None]
    for start, end in zip([0, *borders], ends, strict=True):
        reader = BlockReader(
            path, start, end, block_bytes=block_bytes,
            is_record_start=lambda line: SACCT.is_record_start(line, sniff),
        )  # fmt: skip
        chunk = SACCT.parse(iter(reader), context)
        assert chunk.n_lines == reader.n_lines
        for name, table in chunk.tables().items():
            for fact in table.to_pylist():
                facts[name].append(fact | {"line": fact["line"] + n_lines})
        claimed += chunk.claimed_lines
        n_lines += chunk.n_lines
    return facts["accounting_row"], facts["reject"], claimed, n_lines


def parse_text(tmp_path, *lines, **options):
    path = tmp_path / "sacct.txt"
    data = "\n".join(lines) + "\n"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return parse(path, **options)


def every_line(block, data):
    """Takes all lines for odd, so that each is read by itself."""
    return np.ones(len(block.starts), np.bool_)


def as_golden(path):
    rows, rejects, claimed, n_lines = parse(path)
    known = [{k: v for k, v in fact.items() if v is not None} for fact in rows]
    for fact in known:
        for column in ("file_id", "seq", "scheduler", "exit_trusted"):
            del fact[column]
        for column in ("nodes", "failed_nodes"):
            if len(fact.get(column, ())) > 40:
                fact[column] = f"{len(fact[column])} names"
    bad = [{k: r[k] for k in ("line", "byte_offset", "reason", "raw")} for r in rejects]
    return {"n_lines": n_lines, "claimed_lines": claimed, "rows": known, "rejects": bad}


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.txt")), ids=lambda path: path.stem)
def test_golden(path, rewrite_golden):
    got = json.dumps(as_golden(path), indent=1, ensure_ascii=False) + "\n"
    expected = path.with_suffix(".json")
    if rewrite_golden:
        expected.write_text(got)
    assert got == expected.read_text()


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.txt")), ids=lambda path: path.stem)
def test_every_fact_points_to_its_line(path):
    data = path.read_bytes()
    rows, rejects, _, _ = parse(path)
    for fact in rows + rejects:
        assert fact["seq"] == fact["byte_offset"]
        assert data[: fact["byte_offset"]].count(b"\n") == fact["line"]
        assert fact["byte_offset"] == 0 or data[fact["byte_offset"] - 1] == ord("\n")


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.txt")), ids=lambda path: path.stem)
def test_facts_do_not_depend_on_where_a_file_is_cut(path):
    whole = parse(path)
    size = path.stat().st_size
    for step in (1, 150):
        assert parse(path, block_bytes=step) == whole
        assert parse(path, borders=tuple(range(step, size, max(step, 50)))) == whole
    for border in range(1, size, max(size // 20, 1)):
        assert parse(path, borders=(border,)) == whole


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.txt")), ids=lambda path: path.stem)
def test_rows_read_one_by_one_equal_rows_read_in_bulk(path, monkeypatch):
    whole = parse(path)
    monkeypatch.setattr(slurm_accounting, "_odd_lines", every_line)
    assert parse(path) == whole


CELL = st.one_of(
    st.sampled_from([
        "", "None", "Unknown", "0", "7", "1:0", "0x10", "+5", "-1", " 3", "12.0", "n[1-3]",
        "None assigned", "2026-03-01T10:00:00", "2026-03-01T10:00:00+0100", "UNLIMITED",
        "1-02:03:04", "COMPLETED", "CANCELLED by 0", "gres/gpu=8,gres/gpu:a=8", "123_4.0", "ü",
        "\ufeff1", "a\rb", '"quoted', "\\", "'", "#", "99999999999999999999",
    ]),
    st.text(alphabet=st.characters(exclude_characters="\n|", codec="utf-8"), max_size=12),
)  # fmt: skip


@settings(
    deadline=None, max_examples=100,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(
    columns=st.lists(
        st.sampled_from(sorted(USED_COLUMNS - {"jobid"})), min_size=1, max_size=8, unique=True
    ),
    data=st.data(),
)
def test_any_cells_read_the_same_one_by_one_and_in_bulk(tmp_path, monkeypatch, columns, data):
    columns = ["JobID", *columns]
    cells = st.lists(CELL, min_size=len(columns), max_size=len(columns))
    rows = data.draw(st.lists(cells, min_size=1, max_size=8))
    lines = ["|".join(columns), *["|".join(cells) for cells in rows]]
    whole = parse_text(tmp_path, *lines)
    with monkeypatch.context() as patch:
        patch.setattr(slurm_accounting, "_odd_lines", every_line)
        assert parse(tmp_path / "sacct.txt") == whole
    assert parse(tmp_path / "sacct.txt", block_bytes=1) == whole


@settings(
    deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    lines=st.lists(
        st.one_of(
            st.builds(row, st.integers(1, 9).map(str)),
            st.sampled_from([
                HEADER, "", "|", "text", "a|b", row()[:40], row()[40:], "5|5|x", "||||||||",
                row() + "|", "JobID|State", row(line="two\nlines"), row(name="x\ny", line="\n\n"),
                row(line="\n".join(["many"] * 9)),
            ]),
        ),
        max_size=12,
    ),
    border=st.integers(1, 500),
    is_open_ended=st.booleans(),
)  # fmt: skip
def test_torn_rows_do_not_depend_on_blocks_or_chunks(tmp_path, lines, border, is_open_ended):
    header = HEADER.removesuffix("|User") if is_open_ended else HEADER
    whole = parse_text(tmp_path, header, *lines)
    assert parse(tmp_path / "sacct.txt", block_bytes=64) == whole
    assert parse(tmp_path / "sacct.txt", borders=(border, border + 90)) == whole


def test_head_with_a_header_is_claimed_by_this_format_first():
    sniffs = recognise(f"{HEADER}\n{row()}\n".encode(), "dump.csv")
    assert sniffs[0].format == "sacct"
    assert sniffs[0].detail["delimiter"] == "|"
    assert sniffs[0].detail["columns"].split("\x1f")[:2] == ["jobid", "jobidraw"]


@pytest.mark.parametrize(
    "head",
    [
        "", row(), f"{row()}\n{row('2')}", "slurm_load_jobs error\n", "JobID\n1\n",
        "the JobID of a job, its State and so on\n", "JobID State Start\nno dashes below\n",
        "JOBID PARTITION NAME USER ST TIME NODES NODELIST(REASON)\n----- -----\n",
        "JobId=12 JobName=train UserId=ana(1000)\n", '{"jobs": [{"job_id": 12}]}\n',
        "ts,JobID,loss,step,lr\n", "iteration 5 | jobid 7 | loss 2.0\n",
    ],
)  # fmt: skip
def test_other_text_and_text_without_header_is_not_claimed(head):
    assert SACCT.sniff(head.encode(), "x.txt").score == 0


def test_header_behind_a_long_banner_is_found():
    banner = "notice\n" * 300
    sniff = SACCT.sniff((banner + HEADER + "\n").encode(), "x")
    assert sniff.detail["header_offset"] == str(len(banner))


def test_most_columns_must_be_known_but_new_ones_are_accepted():
    assert read_header("JobID|State|Start|End|BrandNew") is not None
    assert read_header("BrandNew|JobID|State|Start|End") is not None
    assert read_header("JobID|New1|New2|New3") is None


def test_only_whole_rows_with_a_job_id_start_a_record():
    sniff = SACCT.sniff(HEADER.encode() + b"\n", "x")

    def starts(text):
        return SACCT.is_record_start(text.encode(), sniff)

    assert starts(row("12_[1-5,7%2]"))
    assert starts(row("12+1.batch") + "\r")
    assert not starts(row("12")[:60])
    assert not starts(row("train"))
    assert not starts(HEADER)
    assert not starts("")


def test_row_that_never_ends_is_given_up(tmp_path):
    begun = row("1", line="sbatch x").rsplit("|", 1)[0]
    rows, rejects, _, _ = parse_text(tmp_path, HEADER, begun, *["endless"] * 20_000, row("2"))
    assert [fact["job_id"] for fact in rows] == ["2"]
    assert [fact["reason"] for fact in rejects] == ["a row goes on over too many lines"]


def test_raw_text_and_cells_are_bounded(tmp_path):
    rows, rejects, _, _ = parse_text(
        tmp_path, HEADER, row("1", line="ü" * 3000, user="u" * 3000), row("2", state="9" * 3000)
    )
    assert len(rows[0]["submit_line"].encode()) == MAX_TEXT_BYTES
    assert len(rows[0]["user"]) == MAX_TEXT_BYTES
    assert len(rejects[0]["raw"]) == MAX_TEXT_BYTES
    assert len(rejects[0]["reason"]) < 100


def test_long_lists_of_steps_keep_only_their_count(tmp_path):
    many = f"n[1-{MAX_STEP_NODES + 1}]"
    rows, _, _, _ = parse_text(tmp_path, HEADER, row("1", nodes=many), row("1.0", nodes=many))
    assert len(rows[0]["nodes"]) == MAX_STEP_NODES + 1
    assert rows[1]["nodes"] is None


def test_used_columns_are_known_ones():
    assert USED_COLUMNS < KNOWN_COLUMNS


def test_columns_fill_their_types():
    cells = pa.table({"jobid": pa.array(["1.0", None]), "start": pa.array([None, "Unknown"])})
    table, problems = typed_rows(cells)
    assert problems == {1: "no jobid"}
    assert all(f.type == ACCOUNTING_ROW.schema.field(f.name).type for f in table.schema)


# --- real files --------------------------------------------------------------------------------


def test_real_identical_rows_of_a_step_without_job(real_logs):
    rows, rejects, _, _ = parse(real_logs / "slurm/gcm/sample-sacct-output.txt")
    assert (len(rows), rejects) == (68, [])
    facts = {json.dumps({k: v for k, v in r.items() if k not in ("line", "byte_offset", "seq")})
             for r in rows}  # fmt: skip
    assert len(facts) == 1
    step = rows[0]
    assert (step["job_id"], step["step_id"], step["native_id"]) == (
        "8012944_24093", "0", "8084960",
    )  # fmt: skip
    assert (step["array_job_id"], step["array_task_id"]) == (8012944, 24093)
    assert (step["state"], step["exit_code"], step["exit_signal"]) == ("COMPLETED", 0, 0)
    assert (step["elapsed_s"], step["n_nodes"], step["n_gpus"]) == (48, 1, None)
    assert step["end_us"] - step["start_us"] == 48_000_000
    assert step["stamp_kind"] == "local"


def test_real_newline_in_a_submit_line(real_logs):
    path = real_logs / "slurm/gcm/sample-sacct-one-multiline.txt"
    layout = read_header(path.read_bytes().split(b"\n")[0].decode())
    assert layout is not None
    assert (layout.delimiter, len(layout.columns)) == ("|#", 110)
    rows, rejects, claimed, n_lines = parse(path)
    assert (rejects, claimed, n_lines) == ([], 6, 6)
    got = [
        (r["job_id"], r["step_id"], r["state"], r["exit_code"], r["exit_signal"], r["n_nodes"],
         r["n_gpus"], r["elapsed_s"]) for r in rows
    ]  # fmt: skip
    assert got[:3] == [
        ("200131", "0", "CANCELLED", 0, 9, 256, 2048, 35_317),
        ("201729", None, "FAILED", 6, 0, 128, 1024, 79_396),
        ("201844", None, "REQUEUED", 0, 0, 32, 256, 87_356),
    ]
    assert got[3][:5] == ("201729", "batch", "FAILED", 6, 0)
    assert rows[1]["reason"] == "Dependency"
    assert rows[1]["start_us"] - rows[1]["submit_us"] == (4 * 3600 + 32 * 60 + 36) * 10**6
    assert "\n" in rows[2]["submit_line"]
    assert [len(r["nodes"]) for r in rows[:3]] == [256, 128, 32]


def test_real_newline_written_as_two_characters(real_logs):
    torn, _, _, _ = parse(real_logs / "slurm/gcm/sample-sacct-one-multiline.txt")
    flat, _, _, _ = parse(real_logs / "slurm/gcm/sample-sacct-one-multiline-expected.txt")
    evidence = ("line", "byte_offset", "seq")
    for a, b in zip(torn, flat, strict=True):
        assert {k: v for k, v in a.items() if k not in (*evidence, "submit_line")} == {
            k: v for k, v in b.items() if k not in (*evidence, "submit_line")
        }
    assert torn[2]["submit_line"].replace("\n", "\\n")[:400] == flat[2]["submit_line"][:400]


def test_real_byte_that_is_no_utf8(real_logs):
    path = real_logs / "slurm/gcm/sample-sacct-output-invalid-utf8.txt"
    rows, rejects, _, _ = parse(path)
    assert (len(rows), rejects) == (11, [])
    assert Counter(r["state"] for r in rows) == {
        "COMPLETED": 6, "FAILED": 2, "TIMEOUT": 1, "CANCELLED": 1, "CANCELLED by 1185200069": 1,
    }  # fmt: skip
    assert {r["native_id"] for r in rows} == {"3557891", "3557892", "3557893"}
    ids = Counter((r["job_id"], r["step_id"]) for r in rows)
    assert (len(ids), ids["3557893", "1"]) == (10, 2)
    twins = [r["job_name"] for r in rows if (r["job_id"], r["step_id"]) == ("3557893", "1")]
    assert twins == ["orted", "\ufffdorted"]
    by_id = {(r["job_id"], r["step_id"]): r for r in rows}
    assert by_id["3557891", "0"]["state_base"] == "CANCELLED"
    limit = by_id["3557892", None]
    assert (limit["state"], limit["exit_code"], limit["elapsed_s"], limit["time_limit_s"]) == (
        "TIMEOUT", 0, 7_212, 7_200,
    )  # fmt: skip
    assert by_id["3557892", "0"]["end_us"] - limit["end_us"] == 1_000_000
    late = by_id["3557893", "0"]
    assert (late["state"], late["exit_signal"]) == ("CANCELLED", 15)
    assert late["end_us"] - by_id["3557893", "extern"]["end_us"] == 41_000_000
    assert ("3557893", None) not in by_id
    bad = path.read_bytes().index(b"\xff")
    start = path.read_bytes().rindex(b"\n", 0, bad) + 1
    assert [r["byte_offset"] for r in rows if r["job_name"] == "\ufffdorted"] == [start]


def test_real_dump_without_elapsed_raw(real_logs):
    path = real_logs / "slurm/slurm2sql/test-data1.csv"
    rows, rejects, _, _ = parse(path)
    assert (len(rows), rejects) == (5, [])
    by_id = {(r["job_id"], r["step_id"]): r for r in rows}
    job, batch = by_id["43974388", None], by_id["43974388", "batch"]
    assert (job["state_base"], job["exit_code"], job["exit_signal"]) == ("CANCELLED", 0, 0)
    assert (job["time_limit_s"], job["elapsed_s"]) == (5 * 86_400, 3 * 3600 + 33 * 60 + 25)
    assert batch["exit_signal"] == 9
    assert batch["end_us"] - job["end_us"] == 31_000_000
    second, batch = by_id["43977780", None], by_id["43977780", "batch"]
    assert (second["state_base"], second["end_us"], second["elapsed_s"]) == ("CANCELLED", None, 17)
    assert (batch["state"], batch["start_us"], batch["never_started"]) == ("COMPLETED", None, False)
    assert json.loads(batch["comment"])["ngpu"] == 1


@pytest.mark.parametrize("path", ["gcm/sample-sinfo-output.txt", "gcm/sample-scontrol-output.txt",
                                  "gcm/sample-scontrol-show-config-output.txt",
                                  "sarc/slurm_21_8_8.json"])  # fmt: skip
def test_real_output_of_other_commands_is_not_claimed(real_logs, path):
    file = real_logs / "slurm" / path
    assert SACCT.sniff(read_head(file), file.name).score == 0


def test_real_partition_lists_have_the_stated_number_of_nodes(real_logs):
    text = (real_logs / "slurm/gcm/sample-scontrol-output.txt").read_text()
    for line in text.splitlines():
        words = dict(word.split("=", 1) for word in line.split() if "=" in word)
        assert len(expand(words["Nodes"])) == int(words["TotalNodes"])
