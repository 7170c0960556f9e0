"""The bulk path gives exactly the rows that the rule gives line by line."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parsers.dense import read_dense
from parsers.dialect_files import load_dialects
from parsers.faults import load_catalogue
from parsers.formats import Block, Facts
from parsers.text_log import _Reader

DIALECTS = load_dialects()
RULE = next(r for d in DIALECTS if d.name == "megatron" for r in d.rules if r.id == "step")
BULK = _Reader(DIALECTS, load_catalogue(), clock=False)
LITERAL = "elapsed time per iteration"


def block_of(data: bytes, byte_offset: int = 1000, first_line: int = 7) -> Block:
    ends = [i for i, b in enumerate(data) if b == ord("\n")]
    if not data.endswith(b"\n"):
        ends.append(len(data))
    starts = [0, *[e + 1 for e in ends[:-1]]]
    return Block(
        memoryview(bytearray(data)), byte_offset, first_line,
        np.array(starts, np.int64), np.array(ends, np.int64),
    )  # fmt: skip


@pytest.fixture(scope="module")
def singly() -> _Reader:
    """A reader of the same dialects, told to read their step lines one by one."""
    assert RULE.is_dense
    dialects = [
        replace(d, rules=tuple(replace(r, is_dense=False) for r in d.rules)) for d in DIALECTS
    ]
    return _Reader(dialects, load_catalogue(), clock=False)


def parse(block: Block, reader: _Reader = BULK) -> list[dict]:
    facts = Facts()
    reader.read(block, "f", facts)
    return rows(facts)


def rows(facts: Facts) -> list[dict]:
    found = []
    for name, table in facts.tables().items():
        for row in table.to_pylist():
            nan = {k: "nan" for k, v in row.items() if isinstance(v, float) and math.isnan(v)}
            found.append({"table": name, **row, **nan})
    return sorted(found, key=lambda r: (r["seq"], r["table"]))


def step_line(step: int, prefix: str = "", stamp: str = "[2026-02-01 00:00:10.123456] ") -> str:
    return (
        f"{prefix} {stamp}iteration {step:8d}/  500000 | consumed samples: {step * 1024:12d} | "
        f"elapsed time per iteration (ms): {9990.0 + step % 20:.1f} | learning rate: 1.5E-04 | "
        f"global batch size:  1024 | lm loss: {2 + step / 7:.6E} | loss scale: 1.0 | "
        "number of skipped iterations:   0 | number of nan iterations:   0 |"
    )


PLAIN = "".join(f"{step_line(s)}\n" for s in range(1, 101))


@pytest.mark.parametrize(
    ("name", "text", "n_bulk"),
    [
        ("plain", PLAIN, 100),
        ("without times", PLAIN.replace("[2026-02-01 00:00:10.123456] ", ""), 100),
        ("whole seconds", PLAIN.replace("10.123456", "10"), 100),
        ("windows line ends", PLAIN.replace("\n", "\r\n"), 100),
        ("no final newline", PLAIN.rstrip("\n"), 100),
        ("noise between", PLAIN.replace("\n", "\nNCCL INFO Channel 00 | x\n"), 100),
        ("two ranks", "".join(f"{step_line(s, f'{s % 2}:')}\n" for s in range(1, 101)), 100),
        ("launcher labels", "".join(f"{step_line(s, '[default7]:')}\n" for s in range(1, 9)), 8),
        ("non-ascii noise", PLAIN.replace("\n", "\n\N{SNOWMAN} \N{SNOWMAN}\n"), 100),
        ("carrier times", "".join(
            f"2026-02-01T00:00:{s % 60:02d}Z stdout F {step_line(s, stamp='')}\n"
            for s in range(1, 9)), 0),
    ],
)  # fmt: skip
def test_bulk_is_used_and_equal(name, text, n_bulk, singly):
    block = block_of(text.encode())
    dense = read_dense(block, RULE, LITERAL, "f")
    assert sum(part.num_rows for part in dense.rows) == n_bulk
    assert len(parse(block)) == text.count(LITERAL)
    assert parse(block) == parse(block, singly)


DIRT = st.sampled_from([
    ("elapsed time per iteration (ms): 9", "elapsed time per iteration (s): 9"),
    ("lm loss:", "lm-loss:"), ("| loss scale: 1.0 ", ""), ("lm loss: 2", "lm loss: nan #"),
    ("/  500000", "/"), ("iteration  ", "iteration="), ("500000 |", "500,000 |"),
    ("2026-02-01", "2026-02-31"), ("00:00:10", "25:00:10"), (" | consumed", " consumed"),
    ("1024 |", "1024k |"), ("global", "glo\x1b[31mbal"), ("batch", "batch\r"), ("|", "||"),
    ("nan iterations:   0 |", "nan iterations:   0"), ("nan iterations:   0 |", "nan iter"),
    ("skipped iterations:   0", "skipped iterations:   -1"), ("(ms): 9", "(ms): -9"),
    ("iteration ", "iteration 99999999999999999999"), ("global batch size", "\x00size"),
    ("learning", "[default3]: learning"), ("[2026", "7: [2026"), ("1.5E-04", "inf"),
])  # fmt: skip


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 10**7), st.sampled_from(["", "7:", "[default7]:"]),
            st.lists(DIRT, max_size=2), st.booleans(),
        ),
        min_size=1, max_size=12,
    ),
    st.booleans(),
)  # fmt: skip
def test_dirty_lines_give_the_same_rows_both_ways(singly, lines, has_end):
    text = []
    for step, prefix, changes, is_stamped in lines:
        line = step_line(step, prefix, "[2026-02-01 00:00:10.123456] " if is_stamped else "")
        for old, new in changes:
            line = line.replace(old, new, 1)
        text.append(line)
    data = "\n".join(text).encode() + (b"\n" if has_end else b"")
    block = block_of(data)
    assert parse(block) == parse(block, singly)


def test_cut_lines_give_the_same_rows_both_ways(singly):
    line = step_line(5).encode()
    for cut in range(len(line)):
        block = block_of(PLAIN.encode()[:600] + b"\n" + line[:cut])
        assert parse(block) == parse(block, singly), cut
