"""The benchmark runs. Speed is for people to look at: `python benchmarks/protocol.py`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "protocol.py"


def test_both_halves_and_the_whole_are_timed(tmp_path: Path) -> None:
    words = ["--repeats", "2", "--sequences", "5", "--size", "32", "--device", "cpu", "--json"]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *words], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=True
    )
    assert "2 repetitions, 5 sequences of 8 x 3 x 32 x 32" in done.stdout
    result = json.loads(done.stdout.splitlines()[-1])
    seconds, rates = result["seconds"], result["sequences_per_second"]
    assert list(seconds) == list(rates) == ["static sampled", "dynamic sampled", "total"]
    assert 0 < seconds["static sampled"] + seconds["dynamic sampled"] < seconds["total"]
    assert rates["static sampled"] == pytest.approx(2 * 5 / seconds["static sampled"])
    assert rates["total"] == pytest.approx(2 * 2 * 5 / seconds["total"])
    assert list(tmp_path.iterdir()) == []
