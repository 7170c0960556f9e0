"""`wallsplit demo`: the main job on the packaged sample logs."""

from __future__ import annotations

import argparse
from pathlib import Path

from pipeline.commands import run as run_command

HELP = "the main job on the packaged sample logs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("--out", type=Path, default=Path("wallsplit-demo"), metavar="DIR",
                        help="folder for lake and reports (default: %(default)s)")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Run `run` on the samples; its exit code."""
    from pipeline.resources import samples_dir

    namespace = argparse.Namespace(
        paths=[str(samples_dir() / "logs")], lake=args.out / "lake", out=args.out / "reports",
        config=samples_dir() / "wallsplit.toml", cluster=None, timezone=None, format=None,
        dialects=[], jobs=1, json=False,
    )  # fmt: skip
    return run_command.run(namespace)
