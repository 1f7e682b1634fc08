"""A set of 200 GB is trained on in a little memory; `python benchmarks/large_store.py` prints what it takes."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks.large_store import CLIPS, Drawing, values

from diskoop.data import load_data

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "large_store.py"


@pytest.mark.slow
def test_what_is_drawn_on_demand_are_the_puppets(tmp_path: Path) -> None:
    drawing, puppets = Drawing(tmp_path), load_data("puppets", "all", size=32)
    for index in (0, 1, 1234, 11663):
        codes = values(np.array([index]))[:, 0]
        same = np.all([puppets.labels[name] == code for name, code in zip(puppets.values, codes, strict=True)], 0)
        (number,) = np.flatnonzero(same)
        drawn = np.roll(drawing.clip(index), 8, -1).reshape(8, 3, 32, 2, 32, 2).mean((3, 5))
        differences = np.abs(drawn - puppets.read([int(number), int(number) - 1]).astype(float)).mean((1, 2, 3, 4))
        assert differences[0] < 2  # shrunk before layers are laid on each other, or after
        assert differences[1] > 4
    assert not np.array_equal(drawing.clip(0), drawing.clip(CLIPS))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell anonymous memory apart")
def test_two_hundred_gigabytes_are_trained_on_in_a_little_memory(tmp_path: Path) -> None:
    words = [sys.executable, str(SCRIPT), "--steps", "20", "--sample", "64", "--json"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=1200, check=True)
    cost = json.loads(done.stdout.splitlines()[-1])
    assert cost["gigabytes"] == pytest.approx(200, rel=0.01)
    assert cost["chunks"] > 30000
    assert 20 < cost["drawn"] < 1000
    assert "64 training sequences of 1647737" in cost["operator"]
    assert 100 < cost["anonymous"] < 2048
