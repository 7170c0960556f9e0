"""`wallsplit simulate`: logs of a made-up cluster, and the truth about them."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "logs of a made-up cluster in real dialects, and the truth about them"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("preset", metavar="PRESET",
                        help="name of a preset, or a TOML file with a scenario")  # fmt: skip
    parser.add_argument("--out", type=Path, required=True, metavar="DIR",
                        help="new folder for logs/, truth/ and wallsplit.toml")  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="of all chance (default: %(default)s)")
    parser.add_argument("--nodes", type=int, metavar="N",
                        help="nodes of the cluster; runs grow or shrink with it")  # fmt: skip
    parser.add_argument("--days", type=float, metavar="D", help="length of the story")
    parser.add_argument("--dirt", nargs="+", default=[], metavar="KNOB",
                        help="troubles of real logs; docs/simulate.md lists them")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Simulate, write, and say what was written; 0."""
    from pipeline.errors import UsageError
    from pipeline.simulate import dirt, output
    from pipeline.simulate.engine import simulate
    from pipeline.simulate.scenario import load, resized
    from pipeline.simulate.truth import truth_of

    if args.seed < 0:
        raise UsageError(f"--seed: {args.seed} is below 0")
    knobs = dirt.knobs_named(args.dirt)
    scenario = dirt.prepared(resized(load(args.preset), args.nodes, args.days), knobs)
    history = simulate(scenario, args.seed)
    logs = output.write(history, args.out, knobs)
    for truth in truth_of(history):
        wall_h = (truth.end_us - truth.start_us) / 3.6e9
        print(
            f"{truth.history.spec.name}: TOR {truth.tor:.4f}, {wall_h:.1f} h, "
            f"{len(truth.history.attempts)} attempts, {len(truth.history.incidents)} incidents"
        )
    print(f"{len(logs)} log files in {args.out / 'logs'}, truth in {args.out / 'truth'}")
    return 0
