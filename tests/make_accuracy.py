"""Write docs/accuracy.md: how far the product's answers are from the truth of simulated logs.

python -m tests.make_accuracy                 all stories (half an hour of one core)
python -m tests.make_accuracy --only NAME     print one story's differences, seed by seed
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from pipeline.simulate import dirt, output
from pipeline.simulate.dirt import Knob
from pipeline.simulate.engine import simulate
from pipeline.simulate.scenario import Scenario, load, resized
from tests.roundtrip import Difference, differences, read_back
from tests.simulated_cases import CASES, scenario_of

PAGE = Path(__file__).parents[1] / "docs" / "accuracy.md"
SEEDS = 10
MANY_SEEDS = 40
"""For the story without any trouble but crashes, and for the preset with most of them."""
# (preset, days, seeds): days cut where a whole story takes long to read back
PRESETS = (("demo", 1.5, MANY_SEEDS), ("bloom", 28, SEEDS), ("retry-chains", 10, SEEDS),
           ("llama3", 3, SEEDS), ("hundred-k", 0.25, 4))  # fmt: skip

HEAD = """\
# Accuracy

How far wallsplit's answers are from the truth, measured on [simulated logs](simulate.md) with
different seeds. `make accuracy` makes this page. The truth counts what happened, so a row also
holds what its logs cannot show.

- **TOR off by**: found minus true, as median and largest of the absolute values.
- **wrong stretch**: the longest stretch of wall clock in a wrong category, as median and largest
  over the runs; whole seconds of accounting alone make up to one second.
- **wrong time**: the largest share of a run's wall clock in a wrong category.
- **steps**, **incidents**, **one run**: share of the runs whose kept steps, whose failures (number
  and types, in order), and whose attempts as one run were found exactly.
- **flagged**: of the runs whose TOR is off by more than 0.001, those whose report says so, by an
  interval or by no TOR at all.
- **checks**: lakes in which `wallsplit check` finds a broken invariant.
"""

COLUMNS = (
    "story", "runs", "TOR off by", "wrong stretch", "wrong time", "steps", "incidents", "one run",
    "flagged", "checks",
)  # fmt: skip


@dataclass(frozen=True)
class Story:
    """One row: how to make its logs."""

    section: str
    name: str
    scenario: Callable[[], Scenario]
    knobs: tuple[Knob, ...] = ()
    n_seeds: int = SEEDS


def stories() -> list[Story]:
    """All rows in the order of the page."""
    rows = [
        Story("Clean logs", name, _Case(name), (), MANY_SEEDS if name == "crashes" else SEEDS)
        for name in CASES
    ]
    for base in ("crashes", "torchtitan"):
        rows += [
            Story(f"Dirt, {'Megatron' if base == 'crashes' else base}", knob, _Case(base), (knob,))
            for knob in Knob
        ]
    rows += [Story("Presets", name, _Preset(name, days), (), n) for name, days, n in PRESETS]
    return rows


@dataclass(frozen=True)
class _Case:
    name: str

    def __call__(self) -> Scenario:
        return scenario_of(self.name)


@dataclass(frozen=True)
class _Preset:
    name: str
    days: float

    def __call__(self) -> Scenario:
        return resized(load(self.name), None, self.days)


def measure(story: Story, seed: int) -> tuple[list[Difference], list[str]]:
    """(differences of one seed of a story, one per true run; invariants that its lake breaks)."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        scenario = dirt.prepared(story.scenario(), story.knobs)
        output.write(simulate(scenario, seed), out, story.knobs)
        broken = read_back(out, out / "lake")
        return differences(out, out / "lake"), broken


def row(story: Story, results: list[tuple[list[Difference], list[str]]]) -> str:
    """The story's line of the table."""
    found = [d for seed_found, _ in results for d in seed_found]
    errors = [abs(d.tor_error) for d in found if not math.isnan(d.tor_error)]
    wrong = [d for d in found if math.isnan(d.tor_error) or abs(d.tor_error) > 1e-3]
    flagged = [d for d in wrong if math.isnan(d.tor_error) or d.is_interval]
    stretches = [d.worst_s for d in found]
    cells = (
        story.name,
        str(len(found)),
        f"{_two(statistics.median(errors))} / {_two(max(errors))}" if errors else "no TOR",
        f"{statistics.median(stretches):.1f} s / {max(stretches):.1f} s",
        f"{max(d.wrong_share for d in found):.2%}",
        _share(d.steps_kept[0] == d.steps_kept[1] for d in found),
        _share(d.types[0] == d.types[1] for d in found),
        _share(d.n_runs == 1 for d in found),
        f"{len(flagged)} of {len(wrong)}" if wrong else "-",
        str(sum(bool(broken) for _, broken in results)),
    )
    return f"| {' | '.join(cells)} |"


def _two(value: float) -> str:
    return f"{value:.1e}" if value else "0"


def _share(hits: Iterable[bool]) -> str:
    found = list(hits)
    return f"{sum(found) / len(found):.0%}"


def page(jobs: int) -> str:
    """The whole page."""
    lines = [HEAD]
    section = ""
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for story in stories():
            if story.section != section:
                section = story.section
                lines += ["", f"## {section}", "", f"| {' | '.join(COLUMNS)} |"]
                lines.append("|---" * len(COLUMNS) + "|")
            seeds = range(story.n_seeds)
            lines.append(row(story, list(pool.map(measure, [story] * len(seeds), seeds))))
            print(lines[-1], file=sys.stderr, flush=True)  # noqa: T201
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


def main() -> None:
    """Write the page, or show one story."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", metavar="NAME", help="a story or a knob")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="at most so many with --only")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    if args.only is None:
        PAGE.write_text(page(args.jobs))
        return
    for story in (s for s in stories() if s.name == args.only):
        for seed in range(min(args.seeds, story.n_seeds)):
            found, broken = measure(story, seed)
            print(seed, *found, *broken, sep="\n  ")  # noqa: T201


if __name__ == "__main__":
    main()
