"""A scan finds what a naive search of every line finds, wherever blocks and slices are cut."""

from __future__ import annotations

import pickle
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parsers import scan
from parsers.blocks import BlockReader
from parsers.faults import load_catalogue
from parsers.formats import Block
from parsers.scan import Pattern, PatternError, Scanner

Pair = tuple[int, int]
"""(0-based line in the file, pattern id)."""


def block_of(data: bytes) -> Block:
    newlines = [i for i, byte in enumerate(data) if byte == ord("\n")]
    ends = newlines if data.endswith(b"\n") else [*newlines, len(data)]
    starts = [0, *(end + 1 for end in ends[:-1])]
    return Block(memoryview(data), 0, 0, np.array(starts), np.array(ends))


def pairs(data: bytes, patterns: Sequence[Pattern]) -> list[Pair]:
    hits = Scanner(patterns).scan(block_of(data))
    return list(zip(hits.lines.tolist(), hits.patterns.tolist(), strict=True))


def naive(data: bytes, patterns: Sequence[Pattern]) -> list[Pair]:
    return sorted(
        {
            (number, pattern.id)
            for number, line in enumerate(data.split(b"\n"))
            for pattern in patterns
            if re.search(pattern.text if pattern.is_regex else re.escape(pattern.text), line)
        }
    )


WORDS = [b"NCCL WARN", b"NCCL", b"CCL", b"Xid", b"(", b"[.*+?", b"\\", b"\0", b"\xff\xfe", b"\r"]
FEW = [Pattern(i, text) for i, text in enumerate(WORDS)]


def test_each_line_and_pattern_is_reported_once_and_in_order() -> None:
    data = b"nothing\nXid NCCL WARN NCCL Xid\n\nCCL\nXid"
    assert pairs(data, FEW) == [(1, 0), (1, 1), (1, 2), (1, 3), (3, 2), (4, 3)]


@pytest.mark.parametrize("text", WORDS)
def test_literals_of_any_bytes_are_literal(text: bytes) -> None:
    data = b"a\n" + text + b"\nb" + text + b"c\n"
    assert pairs(data, [Pattern(4, text)]) == [(1, 4), (2, 4)]


def test_equal_texts_and_equal_ids_are_all_reported() -> None:
    patterns = [Pattern(7, b"abc"), Pattern(9, b"abc"), Pattern(2, b"x"), Pattern(2, b"y")]
    assert pairs(b"abc\ny\nx y\n", patterns) == [(0, 7), (0, 9), (1, 2), (2, 2)]


def test_large_and_scattered_ids_are_kept() -> None:
    assert pairs(b"b\na\n", [Pattern(10**12, b"a"), Pattern(-3, b"b")]) == [(0, -3), (1, 10**12)]


def test_dense_pattern_says_only_that_it_occurs() -> None:
    patterns = [Pattern(1, b"step", is_dense=True), Pattern(2, b"loss"), Pattern(3, b"step 2")]
    hits = Scanner(patterns).scan(block_of(b"step 1 loss\nstep 2\nstep 3\n"))
    assert hits.dense == {1}
    assert list(zip(hits.lines, hits.patterns, strict=True)) == [(0, 2), (1, 3)]
    assert Scanner(patterns).scan(block_of(b"nothing\n")).dense == frozenset()


def test_regex_borders_are_those_of_lines() -> None:
    patterns = [Pattern(1, rb"^ab", is_regex=True), Pattern(2, rb"b$", is_regex=True)]
    assert pairs(b"xab\nabx\nab\nb", patterns) == [(0, 2), (1, 1), (2, 1), (2, 2), (3, 2)]


def test_regex_that_also_matches_over_lines_finds_each_line_that_it_matches_alone() -> None:
    patterns = [Pattern(1, rb"a\s+b", is_regex=True)]
    assert (2, 1) in pairs(b"a\nb\na b\n", patterns)


def test_patterns_that_cannot_be_compiled_are_all_named() -> None:
    patterns = [
        Pattern(1, b"fine"),
        Pattern(2, rb"(?=look)ahead", is_regex=True),
        Pattern(3, rb"(open", is_regex=True),
        Pattern(4, b""),
    ]
    with pytest.raises(PatternError) as caught:
        Scanner(patterns)
    first, second, third = str(caught.value).split("\n")
    assert first.startswith("cannot look for b'(?=look)ahead': ")
    assert second.startswith("cannot look for b'(open': ")
    assert third.startswith("cannot look for b'': ")


def test_scanner_without_patterns_finds_nothing() -> None:
    assert pairs(b"a\n", []) == []


def test_scanner_cannot_be_pickled() -> None:
    with pytest.raises(TypeError):
        pickle.dumps(Scanner(FEW))


@pytest.mark.parametrize("n_before", range(-20, 3))
def test_match_at_the_border_of_a_slice_is_found(n_before: int) -> None:
    size = scan._SLICE_BYTES + n_before
    data = b"x" * 100 + b"\n" + b"y" * (size - 101) + b"NCCL WARN" + b"z" * 100 + b"\nNCCL\n"
    assert pairs(data, FEW) == [(1, 0), (1, 1), (1, 2), (2, 1), (2, 2)]
    data = b"y" * (size - 1) + b"\nNCCL WARN\n" + b"z" * size + b"\nXid\n"
    assert pairs(data, FEW) == [(1, 0), (1, 1), (1, 2), (3, 3)]


def test_very_many_hits_are_found() -> None:
    data = b"NCCL Xid NCCL\n" * 100_000
    hits = Scanner(FEW).scan(block_of(data))
    assert len(hits.lines) == 300_000
    assert hits.lines.tolist() == np.repeat(np.arange(100_000), 3).tolist()
    assert hits.patterns.tolist() == [1, 2, 3] * 100_000


_PIECES = [*WORDS, b"\n", b"\n", b"a", b"NC", b"N", b" 12 "]
_REGEXES = [
    Pattern(20, rb"N[^\n]{0,3}WARN", is_regex=True),
    Pattern(21, rb"[0-9]{2} .", is_regex=True),
    Pattern(22, rb"^a", is_regex=True),
    Pattern(23, rb"X.d$", is_regex=True),
]
_ALL = Scanner([*FEW, *_REGEXES])


@given(
    data=st.one_of(
        st.lists(st.sampled_from(_PIECES), max_size=60).map(b"".join), st.binary(max_size=300)
    ),
    slice_bytes=st.integers(1, 40),
    block_bytes=st.integers(1, 60),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_file_in_any_blocks_and_slices_equals_a_naive_search(
    tmp_path: Path, data: bytes, slice_bytes: int, block_bytes: int
) -> None:
    path = tmp_path / "log"
    path.write_bytes(data)
    found: list[Pair] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "_SLICE_BYTES", slice_bytes)
        for block in BlockReader(path, block_bytes=block_bytes):
            hits = _ALL.scan(block)
            lines = (hits.lines + block.first_line).tolist()
            found += zip(lines, hits.patterns.tolist(), strict=True)
    assert found == naive(data, [*FEW, *_REGEXES])


def test_catalogue_literals_find_their_own_positive_lines() -> None:
    signatures = load_catalogue().signatures
    texts = sorted({text for s in signatures for text in s.literals})
    scanner = Scanner([Pattern(i, text.encode()) for i, text in enumerate(texts)])
    for signature in signatures:
        for line in signature.positive:
            hits = scanner.scan(block_of(f"before\n{line}\nafter\n".encode()))
            found = {texts[i] for i, at in zip(hits.patterns, hits.lines, strict=True) if at == 1}
            assert found & set(signature.literals), signature.id
