"""docs/statistics.md says what the program does: its example, its cautions, its quantities."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipeline.cli import main
from pipeline.distributions import LAWS
from pipeline.selection import Caution

PAGE = Path(__file__).parents[1] / "docs" / "statistics.md"
pytestmark = pytest.mark.checkout  # the pages are not part of the package


def test_example_prints_what_the_page_shows(tmp_path, capsys, monkeypatch):
    text = PAGE.read_text()
    (tmp_path / "gaps.csv").write_text(re.findall(r"```csv\n(.*?)```", text, re.DOTALL)[0])
    command, shown = re.findall(r"```\n\$ wallsplit (.*?)\n(.*?)```", text, re.DOTALL)[0]
    monkeypatch.chdir(tmp_path)
    assert main(command.split()) == 0
    assert capsys.readouterr().out.startswith(shown)


@pytest.mark.parametrize("word", [*Caution, *(law.name for law in LAWS)], ids=str)
def test_every_caution_and_law_is_explained(word):
    assert f"`{word}`" in PAGE.read_text()
