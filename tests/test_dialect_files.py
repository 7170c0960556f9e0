"""Dialect files of users: what the loader refuses, and that a file is all that a log needs."""

from __future__ import annotations

import json

import pytest

from parsers.dialect_files import DialectError, load_dialects
from pipeline.cli import main

N_BUILT_IN = len(load_dialects())

FORK = """
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


def refusal(folder, **files: str) -> str:
    """What the loader says of a folder with these files."""
    for name, text in files.items():
        (folder / f"{name}.toml").write_text(text)
    with pytest.raises(DialectError) as caught:
        load_dialects((str(folder),))
    return str(caught.value)


def test_user_dialect_in_a_folder_extends_a_built_in_one(tmp_path):
    (tmp_path / "fork.toml").write_text(FORK)
    dialects = load_dialects((str(tmp_path),))
    fork = next(d for d in dialects if d.name == "fork")
    assert fork.extends == "megatron"
    assert [r.overrides for r in fork.rules] == ["megatron"]
    assert len(dialects) == N_BUILT_IN + 1


STEP = '"step" }\n'
TIME = r"(?P<step_s>[\d.]+)"
KV = 'kv = { sep = "|", assign = ":", map = '
REFUSALS = (
    ('name = "fork"\n', "", "missing key 'name'"),
    ('name = "fork"', 'name = "fork', "not readable as TOML"),
    ('name = "fork"', 'name = ["fork"]', "name: must be a text"),
    ('name = "fork"', 'name = "megatron"', "name: 'megatron' is built in"),
    ('= "megatron"', '= "megatrn"', "extends: 'megatrn' is no dialect of its own; did you mean"),
    ('= "megatron"', '= "megatron_argonne"', "is no dialect of its own"),
    ("[[test]]", "[[tests]]", "unknown key 'tests'; did you mean 'test'?"),
    ("[[rule]]", "[[rules]]", "unknown key 'rules'; did you mean 'rule'?"),
    ("[[rule]]", "[rule]", "rule: must be [[rule]] tables"),
    ("literal =", "literals =", "rule step: unknown key 'literals'; did you mean 'literal'?"),
    ('id = "step"\n', "", "rule 1: missing key 'id'"),
    ("emit = {", "emits = {", "rule step: missing key 'emit'"),
    (STEP, '"step", phse = "end" }\n', "rule step: emit: unknown key 'phse'"),
    (STEP, '"walk" }\n', "rule step: emit.kind: unknown word 'walk'"),
    (STEP, '"step", phase = "endd" }\n', "emit.phase: unknown word 'endd'"),
    (STEP, '"shutdown", detail = "complete" }\n', "did you mean 'completed'?"),
    (STEP, '"resume", detail = "x" }\n', "the kind 'resume' has none"),
    (STEP, STEP + "set = { is_asynch = true }\n", "set: unknown word 'is_asynch'; did you mean"),
    (STEP, STEP + "set = { is_async = 1 }\n", "set.is_async: 1 is no bool"),
    (STEP, STEP + 'set = { file_id = "f" }\n', "set: unknown word 'file_id'"),
    (STEP, STEP + 'transform = ["zero_base"]\n', "transform: unknown word 'zero_base'"),
    (STEP, STEP + 'transform = ["step_from_path"]\n', "step_from_path needs 'ckpt_path'"),
    (STEP, STEP + 'dict = { loss = "loss" }\n', "dict: it and the transform"),
    (STEP, STEP + "is_dense = true\n", "is_dense: only step rules with kv"),
    (STEP, STEP + 'kv = { sep = "|", assign = ":" }\n', "rule step: kv: missing key 'map'"),
    (STEP, STEP + KV + '{ a = "los" } }\n', "kv.map: unknown word 'los'; did you mean 'loss'?"),
    (STEP, STEP + KV + "{} }\n", "kv: it and the regex's group 'rest' need each other"),
    ("(?P<step_s>", "(?P<speed>", "regex: unknown word 'speed'"),
    (TIME, r"(?P<step_s>(?:\d+)+)", "regex: repeats without bound inside"),
    (TIME, r"(?P<step_s>[\d.]+", "regex: does not compile"),
    (TIME, r"(?:(?:\d{1,8}){1,8}z)?(?P<step_s>[\d.]+)", "regex: backtracks too long"),
    ("iteration (?P", "(?<!x)iteration (?P", "regex: uses look-around"),
    ('"iter-time"', '""', "literal: must be a text"),
    ('"iter-time"', '"it"', "literal: 'it' is shorter than 4"),
    ('"iter-time"', '["iter-time", "step-time"]', "literal: 'step-time' is in no [[test]] line"),
    ('"iter-time"', '"took"', "test: 'iteration 7 of 9 iter-time 1.5' gave nothing"),
    ("\nline =", "\nlin =", "test 1: unknown key 'lin'; did you mean 'line'?"),
    ("step_ms = 1500.0", "step_s = 1.5", "test 1: expect: unknown word 'step_s'"),
    ("step_ms = 1500.0", "step_ms = 1.0", "'step_ms': 1500.0}], expected {'kind': 'step', "),
    ('extends = "megatron"', 'near_misses = ["iteration 7 of 9 iter-time 2"]', "near_misses: 'it"),
)


@pytest.mark.parametrize(("old", "new", "message"), REFUSALS)
def test_loader_refuses_and_says_where(tmp_path, old, new, message):
    assert old in FORK
    said = refusal(tmp_path, fork=FORK.replace(old, new))
    assert message in said
    assert all("fork.toml: " in line for line in said.splitlines())


def test_loader_refuses_a_rule_without_an_example(tmp_path):
    other = FORK[FORK.index("[[rule]]") : FORK.index("[[test]]")].replace('id = "step"', 'id = "b"')
    said = refusal(tmp_path, fork=FORK + other.replace("of (?P", "off (?P"))
    assert "rule b: regex: matches no line of a [[test]]" in said


def test_loader_refuses_two_rules_with_one_id(tmp_path):
    said = refusal(tmp_path, fork=FORK + FORK[FORK.index("[[rule]]") : FORK.index("[[test]]")])
    assert said == f"{tmp_path}/fork.toml: rule step: id: another rule has it too"


def test_loader_refuses_two_files_with_one_name_also_of_two_folders(tmp_path):
    assert f"name: 'fork' is also the name of {tmp_path}/a.toml" in refusal(
        tmp_path, a=FORK, b=FORK
    )
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
        (folder / "fork.toml").write_text(FORK)
    with pytest.raises(DialectError, match=r"two/fork.toml: name: 'fork' is also"):
        load_dialects(tuple(map(str, folders)))


def test_a_name_that_is_taken_hides_no_other_mistake(tmp_path):
    said = refusal(tmp_path, fork=FORK.replace('"fork"', '"hf"').replace("1500.0", "1.0"))
    assert "name: 'hf' is built in" in said
    assert "expected {" in said


def test_loader_refuses_an_empty_and_a_missing_folder(tmp_path):
    assert "holds no *.toml file" in refusal(tmp_path)
    with pytest.raises(DialectError, match="no such folder"):
        load_dialects((str(tmp_path / "nowhere"),))


def test_loader_names_every_mistake_of_every_file_at_once(tmp_path):
    broken = FORK.replace("literal =", "literals =").replace('name = "fork"', 'nam = "fork"')
    said = refusal(
        tmp_path,
        a=FORK.replace("1500.0", "1.0"),
        b=broken.replace("[[test]]", "[[tests]]"),
        c=FORK.replace("iter-time", "", 1).replace('"step" }', '"walk" }').replace("fork", "c"),
        d="[[",
    )
    assert [line.partition(": ")[0].rpartition("/")[2] for line in said.splitlines()] == [
        *["d.toml"], *["a.toml"], *["b.toml"] * 6, *["c.toml"],
    ]  # fmt: skip
    for key in ("nam", "name", "tests", "test", "literals", "literal"):
        assert f" key {key!r}" in said


OWN = """
name = "mytrainer"
[[rule]]
id = "step"
literal = ">> update "
regex = '''>> update (?P<step>\\d+) took (?P<step_s>[\\d.]+)s'''
emit = { kind = "step" }
[[test]]
line = "[2026-02-01 00:00:10] >> update 12 took 8.5s"
expect = { step_to = 12, step_ms = 8500.0, at = "2026-02-01 00:00:10" }
"""
LOG = "".join(f"[2026-02-01 00:00:{10 * s:02d}] >> update {s} took 8.5s\n" for s in range(1, 6))


def facts_of(capsys, *args: str) -> list[dict]:
    assert main(["facts", *args, "--table", "train_event"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_ten_lines_of_toml_and_no_python_read_a_log(tmp_path, capsys):
    (tmp_path / "train.log").write_text(LOG)
    dialects = tmp_path / "dialects"
    dialects.mkdir()
    (dialects / "mytrainer.toml").write_text(OWN)
    args = (str(tmp_path / "train.log"), "--dialects", str(dialects))
    assert facts_of(capsys, args[0]) == []
    rows = facts_of(capsys, *args)
    assert [(r["kind"], r["step_to"], r["dialect"]) for r in rows] == [
        ("step", s, "mytrainer") for s in range(1, 6)
    ]
    assert rows[0]["occurred_at"] == "2026-02-01T00:00:10Z"
    assert main(["explain", *args]) == 0
    assert "step lines read as: mytrainer" in capsys.readouterr().out


def test_rules_of_a_fork_go_before_those_that_it_extends(tmp_path, capsys):
    """The fork's step line is also one of its parent, read with less; saves are the parent's."""
    (tmp_path / "train.log").write_text(
        " iteration 5/ 9 | elapsed time per iteration (ms): 8.5 | tokens/chip/s: 70.5 |\n"
        "saving checkpoint at iteration 5 to /ckpt/run\n"
    )
    dialects = tmp_path / "dialects"
    dialects.mkdir()
    (dialects / "fork.toml").write_text("""
name = "chipfork"
extends = "megatron"
[[rule]]
id = "step"
literal = "tokens/chip/s:"
regex = '''iteration (?P<step>\\d+)/ *(?P<total>\\d+) \\|(?P<rest>.*)$'''
emit = { kind = "step" }
kv = { sep = "|", assign = ":", map = { "tokens/chip/s" = "tps" } }
[[test]]
line = " iteration 5/ 9 | tokens/chip/s: 70.5 |"
expect = { step_to = 5, total_steps = 9, tps = 70.5 }
""")
    rows = facts_of(capsys, str(tmp_path / "train.log"), "--dialects", str(dialects))
    assert [(r["kind"], r["dialect"]) for r in rows] == [
        ("step", "chipfork"), ("checkpoint_save", "megatron"),
    ]  # fmt: skip


def test_command_line_says_what_is_wrong_with_a_dialect_and_ends_with_2(tmp_path, capsys):
    (tmp_path / "fork.toml").write_text(FORK.replace("[[test]]", "[[tests]]"))
    (tmp_path / "train.log").write_text(LOG)
    assert main(["facts", str(tmp_path / "train.log"), "--dialects", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "fork.toml: unknown key 'tests'; did you mean 'test'?" in said
    assert "Traceback" not in said
