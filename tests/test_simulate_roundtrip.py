"""What the product says about simulated logs, against the truth (more: `make accuracy`)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.simulate.dirt import Knob
from tests.make_accuracy import measure, row, stories
from tests.roundtrip import NOTHING, _wrong_stretches

ROWS = {story.name: story for story in stories() if story.section == "Clean logs"}
HARMLESS = (Knob.DUPLICATE_WRITERS, Knob.INTERLEAVED_RANKS, Knob.RECYCLED_JOB_ID,
            Knob.OUT_OF_ORDER_FILES)  # fmt: skip

# (story, knobs, seed, longest wrong stretch in seconds): whole seconds of accounting make up to one
# second, a progress bar's two; node clocks are up to 30 s off in both directions
EXACT = [
    ("crashes", (), 1, 1),
    ("background saves", (), 2, 1),
    ("restarts inside the job", (), 1, 1),
    ("preemption", (), 1, 1),
    ("hf", (), 2, 2),
    ("torchtitan, background saves", HARMLESS, 1, 1),
    ("crashes", (Knob.CLOCK_SKEW,), 1, 60),
]


@pytest.mark.parametrize(("name", "knobs", "seed", "stretch_s"), EXACT)
def test_logs_are_read_back_within_what_they_print(name, knobs, seed, stretch_s):
    (found,), broken = measure(replace(ROWS[name], knobs=knobs), seed)
    assert broken == []
    assert found.n_runs == 1
    assert found.tor_error == pytest.approx(0, abs=1e-4)
    assert found.worst_s <= stretch_s, found
    assert found.steps_kept[0] == found.steps_kept[1]
    assert found.steps_lost[0] == found.steps_lost[1]
    assert found.types[0] == found.types[1]


def test_a_row_of_the_page_counts_what_is_wrong():
    story = ROWS["no failure"]
    text = row(story, [measure(story, 0)])
    assert text.startswith("| no failure | 1 | ")
    assert text.endswith("% | 100% | 100% | 100% | - | 0 |")


def test_wrong_stretches_join_and_reach_beyond_either_end():
    true = [(0, 10, "a"), (10, 20, "b"), (20, 30, "a")]
    found = [(5, 12, "a"), (12, 25, "b"), (25, 30, "a")]
    assert _wrong_stretches(true, found) == [
        (0, 5, ("a", NOTHING)), (10, 12, ("b", "a")), (20, 25, ("a", "b")),
    ]  # fmt: skip
