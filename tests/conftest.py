"""What several test modules share: the folder of real logs, and rewriting of golden files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipeline.cli import main
from tests.lakes import train_log


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-golden", action="store_true", help="write what the parsers say as expected"
    )


@pytest.fixture
def rewrite_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--rewrite-golden"))


@pytest.fixture(scope="session")
def real_logs() -> Path:
    """The folder of third-party logs, which are not part of the project."""
    root = os.environ.get("WALLSPLIT_REAL_LOGS")
    if not root:
        pytest.skip("WALLSPLIT_REAL_LOGS is not set: third-party logs are not part of the project")
    return Path(root)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "train.log"
    path.write_text(train_log())
    return path


@pytest.fixture(scope="session")
def shared_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A split lake of one log, for tests that only read; it stands in a folder of its own."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "train.log").write_text(train_log())
    path = folder / "lake"
    assert main(["ingest", str(folder / "train.log"), "--lake", str(path), "--jobs", "1"]) == 0
    assert main(["split", "--lake", str(path)]) == 0
    return path


@pytest.fixture
def lake_dir(tmp_path: Path, log: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A lake that holds `log`, split."""
    path = tmp_path / "lake"
    assert main(["ingest", str(log), "--lake", str(path), "--jobs", "1"]) == 0
    assert main(["split", "--lake", str(path)]) == 0
    capsys.readouterr()
    return path
