"""Training-log dialects: every example and near miss of the files, and the loader's refusals."""

from __future__ import annotations

import pytest

from parsers.training import DialectError, Rejected, load_dialects, problems_in, step_in_path

DIALECTS = load_dialects()
EXAMPLES = [(d, line, expect) for d in DIALECTS for line, expect in d.tests]
NEAR_MISSES = [(d, line) for d in DIALECTS for line in d.near_misses]


def rows_of(name: str, line: str):
    dialect = next(d for d in DIALECTS if d.name == name)
    return dialect.read(line)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda d: d.name)
def test_dialect_is_sound_and_has_examples_and_near_misses(dialect):
    assert problems_in(dialect) == []
    assert dialect.tests
    assert dialect.near_misses
    tested = {row["kind"] for line, _ in dialect.tests for row in dialect.read(line)}
    assert "step" in tested or dialect.name == "deepspeed"


def test_every_rule_has_an_example():
    """A rule without an example is a guess."""
    silent = {
        f"{d.name}.{rule.id}"
        for d in DIALECTS
        for rule in d.rules
        if not any(rule.apply(line) for line, _ in d.tests)
    }
    assert silent == set()


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
        ("/ckpt/run", None), ("", None),
    ],
)  # fmt: skip
def test_step_in_path(path, step):
    assert step_in_path(path) == step


USER_DIALECT = """
name = "fork"
extends = "megatron"
[[rule]]
id = "step"
literal = "iter-time"
regex = '''iteration (?P<step>\\d+) of (?P<total>\\d+) iter-time (?P<step_s>[\\d.]+)'''
emit = { kind = "step" }
[[test]]
line = "iteration 7 of 9 iter-time 1.5"
expect = { kind = "step", step_to = 7, step_ms = 1500.0 }
"""


def test_user_dialect_in_a_folder_extends_a_built_in_one(tmp_path):
    (tmp_path / "fork.toml").write_text(USER_DIALECT)
    dialects = load_dialects((str(tmp_path),))
    fork = next(d for d in dialects if d.name == "fork")
    assert fork.extends == "megatron"
    assert len(dialects) == len(DIALECTS) + 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('extends = "megatron"', 'extends = "nothing"'), "no dialect of its own"),
        (('literal = "iter-time"', 'literal = ""'), "no literal"),
        (("step_ms = 1500.0", "step_ms = 1.0"), "expected"),
        (("(?P<step_s>", "(?P<speed>"), "unknown name 'speed'"),
        (("(?P<step_s>[\\d.]+)", "(?P<step_s>(?:\\d+)+)"), "unbounded repeat"),
        (("(?P<step_s>[\\d.]+)", "(?P<step_s>[\\d.]+"), "does not compile"),
        (("iteration (?P", "(?<!x)iteration (?P"), "look-around"),
        (('kind = "step" }\n[[test', 'kind = "walk" }\n[[test'), "unknown kind 'walk'"),
        (('name = "fork"', 'name = "fork'), "not readable as TOML"),
    ],
)
def test_loader_refuses_and_says_where(tmp_path, change, message):
    assert change[0] in USER_DIALECT
    (tmp_path / "fork.toml").write_text(USER_DIALECT.replace(*change))
    with pytest.raises(DialectError, match=r"fork\.toml") as caught:
        load_dialects((str(tmp_path),))
    assert message in str(caught.value)


def test_loader_names_every_mistake_at_once(tmp_path):
    (tmp_path / "a.toml").write_text(USER_DIALECT.replace("1500.0", "1.0"))
    (tmp_path / "b.toml").write_text(
        USER_DIALECT.replace('"fork"', '"other"').replace('kind = "step" }\n[[', 'kind = "x" }\n[[')
    )
    with pytest.raises(DialectError) as caught:
        load_dialects((str(tmp_path),))
    assert "a.toml" in str(caught.value)
    assert "b.toml" in str(caught.value)
