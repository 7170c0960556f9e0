"""`wallsplit predict`: predicted TOR with interval, loss budget, best checkpoint interval."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pipeline.errors import ParameterError

if TYPE_CHECKING:
    from pipeline.parameters import ObservedSize, Parameters
    from pipeline.what_if import Answer, Options, Sweep

HELP = "predicted TOR: interval, loss budget, best checkpoint interval, strategies"

_UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_MOST_REPLICAS = 1_000_000
_VALUE = re.compile(r"(.*?)\s*(ms|s|min|h|d)?")
_SECONDS, _NUMBER, _COUNT = "S", "X", "N"
_WANTED = {
    _SECONDS: "seconds, or a number with ms, s, min, h or d",
    _NUMBER: "a number",
    _COUNT: "a whole number",
}
_POSSIBLE = {_SECONDS: 0.5, _NUMBER: 0.5, _COUNT: 2}
"""Stands for an unreadable value, so that the others can be checked too."""

# option, what its value is, help; the field of Parameters bears the option's name
_PARAMETERS = (
    ("mtbf", _SECONDS, "mean time between failures that stop the job; see --clock"),
    (
        "failures",
        _COUNT,
        "instead of --mtbf: failures counted during --exposure; gives an interval",
    ),
    ("exposure", _SECONDS, "time in which --failures were counted; see --clock"),
    ("node-rate", _NUMBER, "failures per 1000 node-days, for --nodes"),
    ("nodes", _COUNT, "nodes of the job"),
    ("uptime-shape", _NUMBER, "up times are Weibull with this shape (default: exponential)"),
    ("burst-share", _NUMBER, "share of failures that bring another one"),
    ("burst-gap", _SECONDS, "mean up time to that one"),
    ("checkpoint-interval", _SECONDS, "useful work between two saves (default: the best one)"),
    ("checkpoint-cost", _SECONDS, "training stands still for each save"),
    ("checkpoint-latency", _SECONDS, "from there until the checkpoint is durable"),
    ("checkpoint-bytes", _NUMBER, "size of a checkpoint"),
    ("storage-bandwidth", _NUMBER, "bytes per second that the job can write"),
    ("memory-interval", _SECONDS, "useful work between copies in memory, beside durable saves"),
    ("memory-cost", _SECONDS, "training stands still for each copy"),
    ("memory-survives", _NUMBER, "share of failures that a copy in memory survives"),
    ("detect", _SECONDS, "from a failure to its detection"),
    ("restart", _SECONDS, "from detection to productive again"),
    ("slow-mtbe", _SECONDS, "mean healthy time between fail-slow onsets"),
    ("slow-duration", _SECONDS, "mean time in the degraded state"),
    ("slow-ratio", _NUMBER, "speed there as a share of full speed"),
    ("mitigation-pause", _SECONDS, "stand-still that ends a degraded state"),
    ("mitigation-loss", _SECONDS, "work redone after it"),
    ("spares", _COUNT, "spare nodes; each failure breaks one node"),
    ("repair", _SECONDS, "mean time until a broken node is back"),
    ("max-missing", _COUNT, "nodes without which the job goes on (default: 0)"),
    ("step-time", _SECONDS, "duration of a step, for strategies that count in steps"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    for name, metavar, text in _PARAMETERS:
        parser.add_argument(f"--{name}", metavar=metavar, help=text)
    parser.add_argument("--clock", choices=("up", "wall"), default="up",
                        help="what --mtbf and --exposure count: up time, or wall-clock time with "
                        "the time that failures take (default: %(default)s)")  # fmt: skip
    parser.add_argument("--observed", action="append", default=[], metavar="NODES:FAILURES:S",
                        help="failures counted on jobs of one size during S seconds; several give "
                        "the rate at --nodes")  # fmt: skip
    parser.add_argument("--failure-type", default="failure", metavar="TYPE",
                        help="component or kind of the failures, for strategies")  # fmt: skip
    parser.add_argument("--restart-part", action="append", default=[], metavar="NAME=S",
                        help="part of --restart, for strategies: load, schedule, ...")  # fmt: skip
    parser.add_argument("--strategy", action="append", default=[], metavar="ID",
                        help="apply a published strategy; see docs/strategies.md")  # fmt: skip
    parser.add_argument("--method", choices=("closed", "simulate"),
                        help="closed form or simulation (default: simulation where closed forms "
                        "disagree or do not hold)")  # fmt: skip
    parser.add_argument("--replicas", default="1000", metavar="N",
                        help="jobs simulated side by side (default: %(default)s)")  # fmt: skip
    parser.add_argument("--seed", default="0", metavar="N",
                        help="seed of simulation and intervals (default: %(default)s)")  # fmt: skip
    parser.add_argument("--sweep", metavar="PARAM=A:B:N",
                        help="answers for N values of one parameter, from A to B")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Print one prediction, or a sweep of them."""
    from pipeline.report import predicted
    from pipeline.rows import to_json
    from pipeline.what_if import answer, sweep

    given, options = _asked(args)
    found: Answer | Sweep
    if args.sweep is None:
        found = answer(given, options)
        page = predicted.as_json(given, found) if args.json else predicted.as_text(given, found)
    else:
        found = sweep(given, options, args.sweep)
        page = predicted.sweep_json(found) if args.json else predicted.sweep_text(found)
    print(page if isinstance(page, str) else to_json(page, indent=1))
    return 0


def _asked(args: argparse.Namespace) -> tuple[Parameters, Options]:
    """What the command line asks for; ParameterError that names every mistake in it."""
    from pipeline import strategies
    from pipeline.parameters import Parameters, problems_in
    from pipeline.what_if import Options, at_first_value, sweep_problems

    problems: list[str] = []
    values: dict[str, float] = {}
    for name, metavar, _ in _PARAMETERS:
        text = getattr(args, name.replace("-", "_"))
        if text is not None:
            field = name.replace("-", "_") + ("_s" if metavar == _SECONDS else "")
            values[field] = _number(f"--{name}", text, metavar, problems)
    given = Parameters(
        clock=args.clock, failure_type=args.failure_type,
        restart_parts=_parts(args.restart_part, problems),
        observed_sizes=tuple(_sizes(args.observed, problems)), **values,  # type: ignore[arg-type]  # names come from one table
    )  # fmt: skip
    seed = _number("--seed", args.seed, _COUNT, problems)
    n_replicas = _number("--replicas", args.replicas, _COUNT, problems)
    if seed < 0:
        problems.append(f"--seed {args.seed}: expected 0 or more")
    if not 2 <= n_replicas <= _MOST_REPLICAS:
        problems.append(f"--replicas {args.replicas}: expected 2 to {_MOST_REPLICAS}")
    first = given
    if args.sweep is not None:
        wrong = sweep_problems(args.sweep)
        problems += wrong
        first = given if wrong else at_first_value(given, args.sweep)
    problems += [*problems_in(first), *strategies.problems_in(args.strategy)]
    if problems:
        raise ParameterError(problems)
    return given, Options(args.method, tuple(args.strategy), int(seed), int(n_replicas))


def _parts(items: list[str], problems: list[str]) -> dict[str, float]:
    parts = {}
    for item in items:
        part, equals, text = item.partition("=")
        if not (part and equals):
            problems.append(f"--restart-part {item!r}: expected NAME=S, e.g. load=120")
        else:
            parts[part] = _number(f"--restart-part {part}", text, _SECONDS, problems)
    return parts


def _sizes(items: list[str], problems: list[str]) -> Iterator[ObservedSize]:
    from pipeline.parameters import ObservedSize

    for item in items:
        found: list[str] = []
        kinds = (_COUNT, _COUNT, _SECONDS)
        texts = item.split(":")
        values = [_number("", text, kind, found)
                  for text, kind in zip(texts, kinds, strict=False)]  # fmt: skip
        is_good = len(texts) == 3 and not found and values[0] > 0 <= values[1] and values[2] > 0
        if is_good and math.isfinite(values[2]):
            yield ObservedSize(values[0], int(values[1]), values[2])
        else:
            problems.append(f"--observed {item!r}: expected NODES:FAILURES:S, e.g. 128:40:30d")


def _number(name: str, text: str, metavar: str, problems: list[str]) -> float:
    """The value of an option; what is wrong with it goes to `problems`."""
    match = _VALUE.fullmatch(text)
    number, unit = match.groups() if match else (text, None)
    try:
        if metavar == _COUNT:
            return int(text)
        return float(number) * _UNITS[unit or "s"] if metavar == _SECONDS else float(text)
    except ValueError:
        problems.append(f"{name} {text!r}: expected {_WANTED[metavar]}")
        return _POSSIBLE[metavar]
