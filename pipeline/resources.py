"""Where the data files stand: beside the code in a wheel, at the top in a checkout."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).parent


def sql_dir() -> Path:
    """The folder with the SQL stages and their `checks/`."""
    return _packaged_or_beside("sql", "sql")


def samples_dir() -> Path:
    """The folder with the sample logs of the demo."""
    return _packaged_or_beside("samples", "data/samples")


def _packaged_or_beside(packaged: str, beside: str) -> Path:
    inside = _HERE / packaged
    return inside if inside.is_dir() else _HERE.parent / beside
