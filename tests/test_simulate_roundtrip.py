"""What the product says about simulated logs, against the truth."""

from __future__ import annotations

import pytest

from pipeline.simulate import output
from pipeline.simulate.engine import simulate
from pipeline.simulate.scenario import load, resized
from tests.roundtrip import differences, read_back


@pytest.mark.parametrize("seed", range(3))
def test_clean_logs_are_read_back_exactly(seed, tmp_path):
    output.write(simulate(resized(load("tiny"), None, None), seed), tmp_path)
    read_back(tmp_path, tmp_path / "lake")
    (found,) = differences(tmp_path, tmp_path / "lake")
    assert found.worst_s <= 1, found  # accounting prints whole seconds
    assert found.tor_error == pytest.approx(0, abs=1e-4)
    assert found.steps_kept[0] == found.steps_kept[1]
    assert found.steps_lost[0] == found.steps_lost[1]
    assert found.types[0] == found.types[1]
