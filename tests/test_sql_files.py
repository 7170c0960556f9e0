"""How the stages of `sql/` are written: a header that tells the grain and what is read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipeline.resources import sql_dir

STAGES = sorted(p for p in sql_dir().glob("*.sql") if not p.stem.endswith("_macros"))
NAMES = {p.stem.split("_", 1)[1] for p in STAGES}
MADE_ELSEWHERE = {"attempt_component"}


def header(path: Path) -> str:
    lines = path.read_text().splitlines()
    end = next(i for i, line in enumerate(lines) if not line.startswith("--"))
    return " ".join(line.removeprefix("--").strip() for line in lines[:end])


def tables_read(path: Path) -> set[str]:
    text = re.sub(r"--[^\n]*", "", path.read_text())
    ctes = set(re.findall(r"^(?:with )?(\w+) as \($", text, re.MULTILINE))
    named = set(re.findall(r"\b(?:from|join)\s+(\w+)", text))
    named |= set(re.findall(r"\bin_log\('(\w+)'\)", text))
    if "log_fact()" in text:
        named |= {"raw_train_event", "raw_fault_event", "raw_clock_mark"}
    known = NAMES | MADE_ELSEWHERE | {n for n in named if n.startswith("raw_")}
    return (named & known) - ctes


@pytest.mark.parametrize("path", STAGES, ids=lambda p: p.stem)
def test_header_tells_grain_and_tables(path):
    text = header(path)
    assert text.startswith("One row per ")
    said = re.search(r"Reads: ([\w, ]+)\.", text)
    assert said, "no line `-- Reads: table, table.`"
    assert set(said[1].split(", ")) == tables_read(path)


@pytest.mark.parametrize("path", sorted(sql_dir().rglob("*.sql")), ids=lambda p: p.stem)
def test_lines_are_short_and_numbers_are_used_once(path):
    assert all(len(line) <= 100 for line in path.read_text().splitlines())
    numbers = [p.stem.split("_", 1)[0] for p in STAGES]
    assert len(numbers) == len(set(numbers))
