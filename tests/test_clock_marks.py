"""Marks that are read in bulk are those that the peeler would give."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from parsers.clock_marks import read_marks
from parsers.formats import Block
from parsers.prefixes import peel


def marks_of(lines: list[str]) -> tuple[dict[int, dict[str, object]], list[int]]:
    """Rows by line, and the lines that are left."""
    data = [line.encode() for line in lines]
    lengths = np.array([len(line) for line in data], dtype=np.int64)
    ends = np.cumsum(lengths + 1) - 1
    starts = ends - lengths
    block = Block(memoryview(b"\n".join(data) + b"\n"), 1000, 7, starts, ends)
    marks = read_marks(block, np.arange(len(lines)), "f")
    rows = marks.rows.to_pylist() if marks.rows is not None else []
    return {int(r["line"]) - 7: r for r in rows}, marks.leftover.tolist()


def test_common_forms_are_read_in_bulk() -> None:
    rows, left = marks_of(
        [
            "[2026-11-30 21:28:07,519] [WARNING] [real_accelerator.py:213] hello",
            "2026-11-30T21:28:07.123456 worker starts",
            "2026-11-30 21:28:07 | worker starts its work",
            "2026-11-30 21:28:07 worker starts its work",
        ]
    )
    assert left == [2]
    assert [(i, r["byte_offset"], r["stamp_resolution_s"]) for i, r in rows.items()] == [
        (0, 1000, 1e-3),
        (1, 1068, 1e-6),
        (3, 1154, 1.0),
    ]


def test_zones_labels_and_impossible_dates_are_left() -> None:
    lines = [
        "2026-11-30 21:28:07 UTC worker starts",
        "2026-11-30 21:28:07 +01:00 worker starts",
        "2026-11-30T21:28:07Z worker starts its work",
        "[2026-11-30 21:28:07] [default0]: worker starts",
        "[2026-11-30 21:28:07] [1,12]<stdout>: worker",
        "[2026-11-30 21:28:07] \x1b[32m[rank1]: worker",
        "2026-02-30 21:28:07 worker starts its work",
        "2026-11-30 21:28:60 worker starts its work",
        "2026-11-30 21:28:07 a",
    ]
    assert marks_of(lines) == ({}, list(range(len(lines))))
    assert marks_of([]) == ({}, [])


PIECES = st.sampled_from(
    ["[", "]", " ", ":", "2026-02-01", "2024-02-29", "2023-02-29", "00:00:10", "23:59:60", "T", "Z",
     ",123", ".123456", ".5", "+01:00", " [rank3]: ", "[default0]:", " [INFO] ", "word", "UTC",
     "\x1b[0m", "\0", "7: ", "é"]
)  # fmt: skip
LINES = st.one_of(
    st.lists(PIECES, max_size=8).map("".join),
    st.tuples(
        st.sampled_from(["", "[", " "]), st.dates().map(str), st.sampled_from(["T", " ", "-"]),
        st.times().map(lambda t: t.isoformat("seconds")), PIECES, PIECES, PIECES,
    ).map("".join),
)  # fmt: skip


@given(st.lists(LINES, min_size=1, max_size=8))
def test_bulk_marks_are_what_the_peeler_says(heads: list[str]) -> None:
    lines = [f"{head} word of a long enough line" for head in heads]
    rows, left = marks_of(lines)
    assert sorted([*rows, *left]) == list(range(len(lines)))
    for index, row in rows.items():
        peeled = peel(lines[index])
        stamp = peeled.line_stamp
        assert stamp is not None
        assert (row["stamp_us"], row["stamp_resolution_s"]) == (stamp.us, stamp.resolution_s)
        assert (row["stamp_kind"], row["stamp_source"]) == (stamp.kind, "inline")
        assert (peeled.stamp, peeled.rank, peeled.node) == (None, None, None)
