"""Kill `wallsplit run` at random moments, or start several at once: the lake must not care.

`python -m tests.bench.stress_runs --rounds 100`. Each round takes a lake of one night, lets the
logs grow and rotate, and disturbs the run of the second night: killed with SIGKILL (with its
workers or without), beside a second run, or both. A run after that must give the tables of an
undisturbed one, and leave nothing behind. Prints a line per round; exit code 1 where it differs.
"""

from __future__ import annotations

# ruff: noqa: T201 - a script that prints its result
import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pipeline import database, timeline
from pipeline.schema import ALL_TABLES
from tests.lakes import BANNER, sacct, step_line

ROOT = Path(__file__).parents[2]
KINDS = ("killed with its workers", "killed alone", "two at once", "two at once, one killed")
Tables = dict[str, list[str]]


def main() -> None:
    """Run the rounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    dice = random.Random(args.seed)
    with tempfile.TemporaryDirectory(prefix="wallsplit-stress-") as folder:
        base = Path(folder)
        logs = base / "logs"
        write_night(logs, 1)
        finish(start(logs, base / "first"))
        write_night(logs, 2)
        shutil.copytree(base / "first", base / "calm", symlinks=True)
        began = time.monotonic()
        finish(start(logs, base / "calm"))
        duration_s = time.monotonic() - began
        wanted = tables(base / "calm")
        for number in range(args.rounds):
            lake = base / "lake"
            shutil.copytree(base / "first", lake, symlinks=True)
            kind = KINDS[number % len(KINDS)]
            at_s = dice.uniform(0, duration_s)
            disturb(logs, lake, kind, at_s)
            left = hidden(lake)
            finish(start(logs, lake))
            wrong = [name for name, rows in tables(lake).items() if rows != wanted[name]]
            rest = [name for name in hidden(lake) if ".staging" in name or ".spill" in name]
            print(
                f"{number:4} {kind:24} after {at_s:5.2f} s; it left {', '.join(left) or 'nothing'}"
            )
            if wrong or rest or len(hidden(lake)) > 3:
                sys.exit(f"different: {wrong}; left behind: {hidden(lake)}")
            shutil.rmtree(lake)
    print(f"{args.rounds} rounds, all like the undisturbed run of {duration_s:.1f} s")


def write_night(logs: Path, night: int) -> None:
    """Logs of jobs that grow, one that is rotated, and accounting that is overwritten."""
    logs.mkdir(exist_ok=True)
    for job in range(100, 108):
        text = BANNER.replace("arguments", f"job {job}") + "".join(
            step_line(s, s // 60 % 60) for s in range(1, 1500 * night + job))  # fmt: skip
        (logs / f"slurm-{job}.out").write_text(text)
    rotated = logs / "x.out"
    if night == 2:
        rotated.rename(logs / "x.out.1")
    rotated.write_text("".join(step_line(s) for s in range(1 + 500 * (night - 1), 500 * night)))
    (logs / "sacct.txt").write_text(sacct(20 * night))


def start(logs: Path, lake: Path) -> subprocess.Popen[str]:
    """A nightly run in a process group of its own."""
    command = ["run", str(logs), "--lake", str(lake), "--jobs", "2"]
    return subprocess.Popen(
        [sys.executable, "-m", "pipeline.cli", *command],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        start_new_session=True,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> None:
    """Wait for a run that must go well."""
    _, errors = process.communicate(timeout=600)
    if process.returncode:
        sys.exit(f"run failed with {process.returncode}: {errors}")


def disturb(logs: Path, lake: Path, kind: str, at_s: float) -> None:
    """One run, or two, of which one is killed."""
    runs = [start(logs, lake) for _ in range(1 + kind.startswith("two"))]
    if "kill" in kind:
        time.sleep(at_s)
        if "alone" in kind:
            runs[0].kill()
        elif runs[0].poll() is None:
            os.killpg(runs[0].pid, signal.SIGKILL)
        runs[0].communicate()
        runs = runs[1:]
    for run in runs:
        finish(run)


def tables(lake: Path) -> Tables:
    """Every table of a lake as sorted rows."""
    if broken := timeline.check(lake):
        sys.exit(f"broken: {broken}")
    con = database.connect(lake)
    return {
        t.name: sorted(map(repr, con.table(t.name).select(*t.schema.names).fetchall()))
        for t in ALL_TABLES
    }


def hidden(lake: Path) -> list[str]:
    """What a lake hides."""
    return sorted(p.name for folder in (lake, lake / "facts") if folder.exists()
                  for p in folder.iterdir() if p.name.startswith("."))  # fmt: skip


if __name__ == "__main__":
    main()
