"""The benchmark runs. Speed is for people to look at: `python benchmarks/editing.py`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "editing.py"


def test_a_swap_is_timed_beside_its_networks(tmp_path: Path) -> None:
    words = [sys.executable, str(SCRIPT), "--batch", "3", "--size", "32", "--repetitions", "2", "--json"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=True)
    assert "medians of 2" in done.stdout
    assert "sequences of 8 x 3 x 32 x 32" in done.stdout
    cost = json.loads(done.stdout.splitlines()[-1])
    assert cost["ratio"] == pytest.approx(cost["swap"] / cost["networks"])
    assert cost["two"] > 0
    assert list(tmp_path.iterdir()) == []
