"""`explain`: what is recognised in files, and what sounds important and is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.cli import main
from pipeline.step_words import SIGNAL, is_step_like
from tests.lakes import sacct


def test_explain_tells_formats_times_and_counts(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = tmp_path / "sacct.txt"
    jobs.write_text(sacct())
    assert main(["explain", str(log), str(jobs), "--json"]) == 0
    accounting, train = json.loads(capsys.readouterr().out)
    assert next(iter(accounting["formats"])) == "sacct"
    assert accounting["counts"]["accounting_row"] == {"job": 20}
    assert train["step_dialect"] == "megatron"
    assert train["first_at"] == "2026-02-01T00:00:01Z"
    assert train["counts"]["train_event"]["step"] == 40
    assert 0 < train["coverage"] <= 1
    assert main(["explain", str(log)]) == 0
    assert "megatron" in capsys.readouterr().out


def test_explain_of_an_unknown_training_log_ends_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "home_made.log"
    log.write_text("".join(f"my step {n} has \x1b[31mloss {n / 7:.3f}\n" for n in range(50)))
    assert main(["explain", str(log)]) == 1
    out = capsys.readouterr().out
    assert "my step 0 has" in out
    assert "\x1b" not in out
    assert len(out.splitlines()) < 60


UPDATES = "".join(
    f"[2026-02-01 00:{n // 6:02d}:{n % 6}0] >> update {n} of 500 took 8.31s, loss {n / 7:.3f}\n"
    for n in range(1, 301)
)


def test_lines_that_differ_only_in_numbers_are_shown_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "train.log"
    log.write_text("starting up\nerror: no licence\n" + UPDATES + "wrote checkpoint /ckpt/u300\n")
    assert main(["explain", str(log)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        str(log),
        "  format: text (0.10); 303 lines, 0.0% understood",
        "  not used: 302 lines that sound important, such as",
        "    3: [2026-02-01 00:00:10] >> update 1 of 500 took 8.31s, loss 0.143 (and 299 like it)",
        "    2: error: no licence",
        "    303: wrote checkpoint /ckpt/u300",
        (
            "  this looks like a training log, but no dialect reads its steps: write one (see "
            "docs/dialects.md) and give it with --dialects"
        ),
    ]
    assert main(["explain", str(log), "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert found["unmatched"][0] == {
        "line": 3, "n_lines": 300,
        "text": "[2026-02-01 00:00:10] >> update 1 of 500 took 8.31s, loss 0.143",
    }  # fmt: skip
    assert (found["n_unmatched"], found["is_unrecognised_training"]) == (302, True)


@pytest.mark.parametrize(
    ("line", "is_step"),
    [
        ("update 12 of 500 took 8.31s, loss 2.104", True),
        ("completed step: 3, seconds: 44.9, Tokens/s/device: 1094.1, loss: 12.038", True),
        ("Iter 7 | ppl 12.3", True),
        ("12/500 [00:01<00:30, 3.2it/s, loss=2.1]", True),
        ("batch 3: grad_norm 0.7, 5200 tok/s", True),
        ("train | \x1b[32mstep 3\x1b[0m \x1b[31mloss 2.1", True),
        ("step 3 of the installation", False),
        ("packet loss 3%, 12 samples/s", False),
        ("footstep 3 gloss 2", False),
    ],
)
def test_a_step_line_has_a_step_number_and_a_measure(line: str, is_step: bool) -> None:
    assert is_step_like(line.encode()) == is_step


@pytest.mark.parametrize(
    "word",
    "update updates iteration step epoch loss checkpoint ckpt resumed restarting error exception "
    "failed timeout aborted killed fatal panic OOM NaN".split(),
)
def test_words_of_high_signal_are_looked_for(word: str) -> None:
    assert SIGNAL.search(f"we {word} here".encode())
    assert SIGNAL.search(f"\x1b[31m{word.upper()}\x1b[0m:".encode())
    assert not SIGNAL.search(f"we x{word}x here".encode())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing", "no such file or folder, and no glob that fits a file"),
        ("*.nothing", "no such file or folder, and no glob that fits a file"),
        ("empty", "no files in "),
    ],
)
def test_a_path_without_files_is_wrong_usage(
    name: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    assert main(["explain", str(tmp_path / name)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err


def test_files_of_which_none_can_be_read_end_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.log"
    broken.symlink_to(tmp_path / "missing")
    assert main(["explain", str(broken)]) == 1
    assert "problem: a symbolic link that leads nowhere" in capsys.readouterr().out
    (tmp_path / "plain.log").write_text("a line\n")
    assert main(["explain", str(tmp_path)]) == 0


@pytest.mark.parametrize(
    ("stamp", "options", "zone"),
    [
        ("2026-02-01T00:00:01", (), "UTC, assumed: no --timezone was given"),
        ("2026-02-01T00:00:01", ("--timezone", "Europe/Paris"), "Europe/Paris, given"),
        ("2026-02-01T00:00:01+00:00", (), "every time carries its offset"),
    ],
)
def test_the_zone_is_named_with_the_reason(
    stamp: str, options: tuple[str, ...], zone: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    log = tmp_path / "kernel.log"
    log.write_text(
        f"{stamp} node1 kernel: NVRM: Xid (PCI:0000:9b:00): 79, pid=1, name=python, GPU has "
        "fallen off the bus.\n"
    )
    assert main(["explain", str(log), *options]) == 0
    assert f"  zone: {zone}" in capsys.readouterr().out.splitlines()
