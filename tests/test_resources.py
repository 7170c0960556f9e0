"""Data files are found in a checkout and in a package, and every folder of them is packaged."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from pipeline import resources

ROOT = Path(__file__).parents[1]


@pytest.fixture
def install(tmp_path, monkeypatch):
    """The folder of an empty `pipeline` package that the resolver believes to stand in."""
    here = tmp_path / "pipeline"
    here.mkdir()
    monkeypatch.setattr(resources, "_HERE", here)
    return here


def test_folder_inside_the_package_goes_first(install):
    for inside in ("sql", "samples"):
        (install / inside).mkdir()
    (install.parent / "sql").mkdir()
    (install.parent / "data" / "samples").mkdir(parents=True)
    assert resources.sql_dir() == install / "sql"
    assert resources.samples_dir() == install / "samples"


def test_folder_beside_the_package_serves_a_checkout(install):
    assert resources.sql_dir() == install.parent / "sql"
    assert resources.samples_dir() == install.parent / "data" / "samples"


def test_stages_checks_and_samples_are_there():
    assert list(resources.sql_dir().glob("*.sql"))
    assert list((resources.sql_dir() / "checks").glob("*.sql"))
    assert (resources.samples_dir() / "logs" / "sacct.txt").is_file()


@pytest.mark.checkout
@pytest.mark.parametrize(
    ("package", "folder"), [("pipeline.sql", "sql"), ("pipeline.samples", "data/samples")]
)
def test_every_folder_of_data_is_a_package_with_its_files(package, folder):
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    top = ROOT / folder
    for path in (p for p in top.rglob("*") if p.is_file() and "__pycache__" not in p.parts):
        name = ".".join((package, *path.parent.relative_to(top).parts))
        assert name in setup["packages"], f"{path.name}: {name} is not packaged"
        assert any(path.match(pattern) for pattern in setup["package-data"][name]), path.name
