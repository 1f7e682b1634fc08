"""The benchmark ties what it is asked to tie, and says what is found."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from diskoop.settings import Settings
from diskoop.training import loop
from tests.helpers.training import SERIES, Quiet

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "factors.py"


@pytest.mark.slow
def test_it_says_what_is_found_in_tied_clips(tmp_path: Path) -> None:
    loop.train(Settings.of(SERIES), tmp_path / "run", reporter=Quiet())
    words = [sys.executable, str(SCRIPT), "run", "--tie", "level,mark", "--shares", "0.5"]
    done = subprocess.run([*words, "--json"], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=True)
    plain, half = json.loads(done.stdout.splitlines()[-1])
    assert plain["sequences"] == 1620
    assert half["clips"] == "level and mark tied in 50%"
    assert half["sequences"] < 1620
    assert all(result["find_s"] > 0 and result["factors"] for result in (plain, half))
    read = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=True).stdout
    assert "level and mark tied in 50%" in read
    assert "stability" in read
    words = [sys.executable, str(SCRIPT), "run", "--draws", "2"]
    drawn = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=True).stdout
    assert drawn.startswith("2 discoveries: ")
    assert "one for each label" in drawn
