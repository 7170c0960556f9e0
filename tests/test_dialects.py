"""Built-in training-log dialects: every example and near miss of the files, and odd lines."""

from __future__ import annotations

import random
import re
import tomllib
from itertools import islice

import pytest

from parsers.dialect_files import BUILT_IN, check, load_dialects
from parsers.prefixes import peel
from parsers.training import Rejected, Rule, step_in_path, step_of_epoch
from tests.bench.generate_logs import failure_lines

DIALECTS = load_dialects()
EXTENDED = {d.name: d.extends for d in DIALECTS}


def rows_of(name: str, line: str):
    dialect = next(d for d in DIALECTS if d.name == name)
    return dialect.read(line)


@pytest.mark.parametrize("path", sorted(BUILT_IN.glob("*.toml")), ids=lambda p: p.stem)
def test_built_in_file_is_sound_and_shows_what_it_is_not(path):
    table = tomllib.loads(path.read_text())
    assert check(table, EXTENDED).problems == []
    assert table["name"] == path.stem
    assert table["title"]
    assert table["versions"]
    assert table["anchors"]
    assert table["near_misses"]


def foreign(dialect):
    """The dialects that share no rules with this one."""
    family = {dialect.name, dialect.extends}
    return [d for d in DIALECTS if d.name not in family and d.extends != dialect.name]


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda d: d.name)
def test_no_dialect_claims_the_lines_of_another(dialect):
    """All are active on every log. Metrics may be read twice: no second is counted by them."""
    lines = [line for line, _ in dialect.tests]
    lines += [line for line in dialect.near_misses if not dialect.extends]
    claims = [
        (other.name, line, row)
        for line in lines
        for other in foreign(dialect)
        for row in other.read(peel(line).payload)
        if isinstance(row, Rejected) or row["kind"] != "metric"
    ]
    assert claims == []


def test_literals_are_in_no_ordinary_line():
    """Each hit costs as much as scanning a thousand lines without one."""
    literals = {x for d in DIALECTS for rule in d.rules for x in rule.literals}
    text = "".join(islice(failure_lines(random.Random(0), [], every=10**12), 5_000))
    assert [x for x in sorted(literals) if x in text] == []


@pytest.mark.parametrize(
    ("step", "values", "whole"),
    [
        (7, {"epoch": "0", "epoch_steps": "600"}, 7),
        (7, {"epoch": "0"}, 7),
        (7, {"epoch": "3", "epoch_steps": "600"}, 1807),
        (7, {"epoch": "3"}, None),
        (7, {"epoch": "99999999999999", "epoch_steps": "600"}, None),
        (7, {"epoch": "x", "epoch_steps": "600"}, None),
        (None, {"epoch": "0"}, None),
    ],
)
def test_step_of_epoch(step, values, whole):
    assert step_of_epoch(step, values) == whole


@pytest.mark.parametrize("step", [1, 99, 2**53 - 1])
def test_steps_are_read_exactly(step):
    (row,) = rows_of("megatron", f" iteration {step}/ 9 | elapsed time per iteration (ms): 1.0 |")
    assert row["step_to"] == step


@pytest.mark.parametrize(
    ("name", "line", "reason"),
    [
        ("megatron", f" iteration {10**17}/ 9 | elapsed time per iteration (ms): 1.0 |", "count"),
        ("megatron", " iteration 5/ 9 | elapsed time per iteration (ms): -1.0 |", "duration"),
        ("megatron", " iteration 5/ 9 | elapsed time per iteration (ms): 1e300 |", "duration"),
        ("megatron", " iteration      12 elapsed time per iteration", "not complete"),
        ("torchtitan", "- step: 12  loss:  2.1  mem", "not complete"),
    ],
)
def test_claimed_line_that_cannot_be_read_says_why(name, line, reason):
    (rejected,) = rows_of(name, line)
    assert isinstance(rejected, Rejected)
    assert reason in rejected.reason


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("wall=1:02:03", 3723.0), ("wall=54", 54.0), ("wall=9.5", 9.5),
        ("wall=soon", None), ("wall=-3", None), ("wall=1:x", None),
    ],
)  # fmt: skip
def test_clock_of_a_process_is_read_or_rejected(text, found):
    rule = Rule("mine", "step", ("wall",), re.compile(r"wall=(?P<elapsed>\S+)"), {"kind": "step"})
    (row,) = rule.apply(text)
    if found is None:
        assert isinstance(row, Rejected)
        assert "not h:mm:ss or seconds" in row.reason
    else:
        assert row["elapsed_s"] == found


def test_rank_that_cannot_be_one_is_rejected():
    rule = Rule("mine", "step", ("rank",), re.compile(r"rank=(?P<rank>\d+)"), {"kind": "step"})
    assert rule.apply("rank=2147483647")[0]["rank"] == 2**31 - 1
    assert isinstance(rule.apply("rank=2147483648")[0], Rejected)


@pytest.mark.parametrize(
    "text",
    [
        "{'loss': 6.1, 'grad_norm': nan}", '{"loss": "6.1", "skipped": null}',
        '{"loss": 6.1, "is_last": true}', "{'loss': '6.1'}",
    ],
)  # fmt: skip
def test_dict_of_any_make_gives_its_numbers(text):
    rule = Rule(
        "mine", "metrics", ("loss",), re.compile(r"(?P<dict>\{.*\})"), {"kind": "metric"},
        dict_map={"loss": "loss"}, transforms=("literal_dict",),
    )  # fmt: skip
    assert rule.apply(text)[0]["loss"] == 6.1


def test_value_cut_at_the_end_of_the_line_is_no_value():
    (row,) = rows_of(
        "megatron", " iteration 5/ 9 | consumed samples: 64 | elapsed time per iteration (ms): 10"
    )
    assert row["step_to"] == 5
    assert row["consumed_samples"] == 64
    assert "step_ms" not in row


def test_missing_and_odd_losses_are_facts_too():
    line = " iteration 5/ 9 | elapsed time per iteration (ms): 1.0 | lm loss: nan |"
    (row,) = rows_of("megatron", line)
    assert row["loss"] != row["loss"]
    (row,) = rows_of("megatron", line.replace(" lm loss: nan |", ""))
    assert "loss" not in row


def test_glued_frames_give_every_event():
    line = " 33%|###3      | 40/120 [00:06<00:11,  6.89it/s]{'loss': '6.1', 'epoch': '0.1'}"
    kinds = [row["kind"] for row in rows_of("hf", line)]
    assert sorted(kinds) == ["metric", "step"]
    several = " 25%|# | 1/4 [03:46<11:18, 226.26s/it] 50%|## | 2/4 [07:15<07:21, 220.73s/it]"
    assert [row["step_to"] for row in rows_of("hf", several)] == [1, 2]


@pytest.mark.parametrize(
    ("path", "step"),
    [
        ("out/checkpoint-40", 40), ("outputs/checkpoint/step-500", 500),
        ("/ckpt/iter_0000350", 350), ("/ckpt/global_step20/mp_rank_00", 20),
        ("/ckpt/run", None), ("", None), ("/runs/step2_sft/20240101/last", None),
        ("megatron_gpt--val_loss=3.10-step=19400-consumed_samples=4966400.0.ckpt", 19_400),
    ],
)  # fmt: skip
def test_step_in_path(path, step):
    assert step_in_path(path) == step
