"""The documentation says what the program does: pages made from code, and examples that run."""

from __future__ import annotations

import dataclasses
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from parsers import dialect_files, training
from parsers.dialect_files import load_dialects
from parsers.sacct_columns import USED_COLUMNS
from parsers.sacct_layout import KNOWN_COLUMNS
from pipeline import database, timeline
from pipeline.catalog import IngestOptions
from pipeline.cli import build_parser, main
from pipeline.config import load
from pipeline.ingest import ingest
from pipeline.report import words
from tests import make_docs
from tests.histories import one

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")]
pytestmark = pytest.mark.checkout  # the pages are not part of the package


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


@pytest.mark.parametrize("name", sorted(make_docs.pages()))
def test_generated_page_is_current(name):
    assert (ROOT / "docs" / name).read_text() == make_docs.pages()[name], "make docs"


def test_dialect_of_the_page_reads_its_log(tmp_path):
    folder = tmp_path / "dialects"
    folder.mkdir()
    (folder / "mytrainer.toml").write_text(blocks("docs/dialects.md", "toml")[0])
    log = tmp_path / "train.log"
    log.write_text(
        "".join(
            f"[2026-02-01 00:{s // 6:02d}:{s % 6}0] >> update {s} of 30 took 10.00s, loss 2.1\n"
            for s in range(1, 31)
        )
        + "[2026-02-01 00:05:10] wrote /ckpt/u30\n"
    )
    lake = tmp_path / "lake"
    ingest([str(log)], lake, IngestOptions(dialect_dirs=(str(folder),)))
    timeline.rebuild(lake)
    con = database.connect(lake)
    assert one(con, "select steps_kept, reference_step_s from run") == (30, 10.0)
    assert one(con, "select count(*) from train_event where kind = 'checkpoint_save'") == (1,)


def test_fork_of_the_page_is_accepted(tmp_path):
    (tmp_path / "chipfork.toml").write_text(blocks("docs/dialects.md", "toml")[1])
    assert "chipfork" in {d.name for d in load_dialects((str(tmp_path),))}


def words_of_table(page: str, header: str, column: int = 0) -> set[str]:
    """The words in backticks of one column of the table with this header."""
    lines = page.splitlines()
    rows = lines[lines.index(header) + 2 :]
    cells = [row.replace(r"\|", "").split("|")[column + 1] for row in rows[: rows.index("")]]
    return {word for cell in cells for word in re.findall(r"`(\w+)`", cell)}


def test_page_names_every_key_and_word_of_a_dialect_and_no_other():
    page = (ROOT / "docs/dialects.md").read_text()
    details = {word for words in training.DETAILS.values() for word in words}
    file_keys, rule_keys = page.split("## Keys of a file")[1].split("## Keys of a rule")
    assert words_of_table(file_keys, "| key | meaning |") >= set(dialect_files.DIALECT_KEYS)
    assert words_of_table(file_keys, "| key | meaning |") <= {
        *dialect_files.DIALECT_KEYS, *dialect_files.TEST_KEYS, "explain",
    }  # fmt: skip
    assert words_of_table(rule_keys, "| key | meaning |") == set(dialect_files.RULE_KEYS)
    assert words_of_table(page, "| key of `kv` | meaning |") == set(dialect_files.KV_KEYS)
    assert words_of_table(page, "| kind | what the line says |") == training.KINDS
    assert words_of_table(page, "| kind | details |") == set(training.DETAILS)
    assert words_of_table(page, "| kind | details |", 1) == details
    assert words_of_table(page, "| name | meaning |") == training.VOCABULARY
    assert words_of_table(page, "| transform | does |") == training.TRANSFORMS
    for word in (*training.PHASES, *dialect_files.EMIT_KEYS, *dialect_files.TEST_KEYS):
        assert f"`{word}`" in page, word


def test_settings_of_the_page_are_all_and_are_accepted(tmp_path):
    page = (ROOT / "docs/configuration.md").read_text()
    (text,) = blocks("docs/configuration.md", "toml")
    path = tmp_path / "wallsplit.toml"
    path.write_text(text)
    settings = {f.name for f in dataclasses.fields(load(path))}
    assert settings == set(tomllib.loads(text))
    assert settings == set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))


def commands_of_pages():
    """(page, command line) of every example, schedules, pipes and remarks cut off."""
    for page in PAGES:
        text = page.read_text()
        fenced = re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        indented = re.findall(r"^    (\S.*)$", text, re.MULTILINE)
        for line in [*"".join(fenced).splitlines(), *indented]:
            if found := re.match(r"(?:[\d *]+ )?(?:/\S*/)?wallsplit ([a-z]+ .*)", line):
                yield page.name, re.split(r" \| | # |   ", found[1])[0]


def test_examples_of_commands_are_accepted():
    examples = list(commands_of_pages())
    assert len(examples) >= 14
    for page, line in examples:
        try:
            build_parser().parse_args(shlex.split(line))
        except SystemExit as error:
            raise AssertionError(f"{page}: wallsplit {line}") from error


def test_roles_of_lines_are_explained_as_they_are_shown():
    page = (ROOT / "docs/evidence.md").read_text()
    for role in re.findall(r"\w+", "either symptom cascade teardown context accounting root"):
        assert f"| `{role}` | {words.role(role, is_root=False, confidence='likely')} |" in page
    root, hint = (words.role("root", is_root=True, confidence=c) for c in ("weak", "unattributed"))
    assert f"| `is_root` | {root}; {hint} |" in page


def test_collection_command_keeps_every_column_that_is_used():
    page = (ROOT / "docs/collect.md").read_text()
    found = re.search(r"sacct -a -D -P .*?-o (\S+)", page, re.DOTALL)
    columns = found[1].lower().split(",")
    assert KNOWN_COLUMNS.issuperset(columns)
    # other names or older forms of what is asked for
    assert USED_COLUMNS - set(columns) == {"allocgres", "elapsed", "timelimit", "uid"}


def test_lines_of_the_collection_page_are_read(tmp_path):
    lines = blocks("docs/collect.md", "text")[0]
    (tmp_path / "kernel.log").write_text(lines)
    summary = ingest([str(tmp_path / "kernel.log")], tmp_path / "lake")
    timeline.rebuild(tmp_path / "lake")
    con = database.connect(tmp_path / "lake")
    rows = con.sql("select line, occurred_at is null, gpu from fault_event order by 1").fetchall()
    assert rows == [(n, False, "0000:4e:00") for n in range(1, summary.n_lines + 1)]


def test_every_link_between_pages_leads_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_word_of_the_split_is_explained():
    text = (ROOT / "docs/how-a-second-is-counted.md").read_text()
    words = re.findall(r"'(\w+)'", (ROOT / "sql/checks/words_are_known.sql").read_text())
    for category in words[:8]:
        assert f"`{category}`" in text, category


def test_readme_shows_what_the_demo_prints(tmp_path, capsys):
    assert main(["demo", "--out", str(tmp_path / "demo")]) == 0
    printed = capsys.readouterr().out.replace(f"{tmp_path}/", "").strip()
    assert printed in (ROOT / "README.md").read_text()


def commands_of(page: str) -> list[tuple[str, list[str]]]:
    """Every `$ wallsplit ...` of a page with the lines below it."""
    found: list[tuple[str, list[str]]] = []
    for block in blocks(page, "console"):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line.removeprefix("$ "), []))
            else:
                found[-1][1].append(line)
    return found


@pytest.mark.parametrize(
    ("command", "shown"),
    commands_of("docs/tor.md") if (ROOT / "docs").exists() else [],
)
def test_commands_of_the_page_print_what_it_shows(command, shown, capsys):
    program, *args = shlex.split(command)
    assert program == "wallsplit"
    assert main(args) == 0
    printed = capsys.readouterr().out.rstrip("\n")
    # a line of dots stands for any lines
    parts = "\n".join(shown).split("\n...")
    pattern = r"(\n[^\0]*)?".join(re.escape(part) for part in parts)
    assert re.fullmatch(pattern, printed), printed


def test_readme_shows_the_first_lines_of_a_prediction(capsys):
    text = (ROOT / "README.md").read_text()
    pattern = r"\$ wallsplit (predict [^\n]*)\n(.*?)\n```"
    command, shown = re.search(pattern, text, re.DOTALL).groups()
    assert main(shlex.split(command)) == 0
    assert capsys.readouterr().out.startswith(shown)


def test_readme_names_every_command():
    text = (ROOT / "README.md").read_text() + (ROOT / "docs" / "commands.md").read_text()
    for line in make_docs.commands().splitlines():
        if line.startswith("## wallsplit "):
            assert line.removeprefix("## ") in text
