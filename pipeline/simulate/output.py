"""Write a history to a folder: `logs/`, `truth/` and the settings to read them with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import WallsplitError
from pipeline.simulate import truth_tables
from pipeline.simulate.emit_accounting import accounting_log
from pipeline.simulate.emit_faults import kernel_logs
from pipeline.simulate.emit_training import training_logs
from pipeline.simulate.laws import US_PER_S

if TYPE_CHECKING:
    from pipeline.simulate.history import History


def write(history: History, out: Path) -> list[Path]:
    """The log files written below `out/logs`; `out` must be empty or absent.

    A file's modification time is that of its last line, so that a second run gives equal files.
    """
    if out.exists() and any(out.iterdir()):
        raise WallsplitError(f"{out} is not empty; name a new folder with --out")
    logs, truth = out / "logs", out / "truth"
    logs.mkdir(parents=True)
    truth.mkdir()
    truth_tables.write(history, truth)
    cluster = history.scenario.cluster
    settings = f'cluster = "{cluster.name}"\ntimezone = "{cluster.timezone}"\n'
    (out / "wallsplit.toml").write_text(settings)
    written = []
    for log in (accounting_log(history), *kernel_logs(history), *training_logs(history)):
        path = logs / log.name
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(line.text for line in log.lines))
        modified_s = max(line.us for line in log.lines) // US_PER_S
        os.utime(path, (modified_s, modified_s))
        written.append(path)
    return written
