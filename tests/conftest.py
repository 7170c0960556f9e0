"""What several test modules share: the folder of real logs, and rewriting of golden files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


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
