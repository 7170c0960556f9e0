"""Write a history to a folder: `logs/`, `truth/` and the settings to read them with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipeline.errors import WallsplitError
from pipeline.simulate import dirt, truth_tables
from pipeline.simulate.dirt import Knob
from pipeline.simulate.emit_accounting import accounting_log
from pipeline.simulate.emit_faults import kernel_logs
from pipeline.simulate.emit_training import training_logs

if TYPE_CHECKING:
    from collections.abc import Collection

    from pipeline.simulate.history import History


def write(history: History, out: Path, knobs: Collection[Knob] = ()) -> list[Path]:
    """The log files written below `out/logs`; `out` must be empty or absent.

    A file's modification time is that of its last line, so that a second run gives equal files.
    The dirt has chance of its own: with or without it the history is the same.
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
    rng = np.random.default_rng([history.seed, 1])
    if Knob.CLOCK_SKEW in knobs:
        dirt.skew_clocks(history, rng)
    manner = dirt.manner(knobs)
    clean = [accounting_log(history, manner.accounting_stamp), *kernel_logs(history),
             *training_logs(history, manner)]  # fmt: skip
    written = []
    for name, data, modified_s in dirt.soiled(
        dirt.soil_lines(history, clean, knobs, rng), knobs, rng
    ):
        path = logs / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(data)
        os.utime(path, (modified_s, modified_s))
        written.append(path)
    return written
