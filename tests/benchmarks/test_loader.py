"""Memory does not grow with the data set; `python benchmarks/loader.py` prints the speed too."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "loader.py"


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell anonymous memory apart")
def test_twenty_gigabytes_are_trained_on_in_a_little_memory(tmp_path: Path) -> None:
    words = [sys.executable, str(SCRIPT), "--large", "--gigabytes", "20", "--steps", "200", "--json"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=1200, check=True)
    (cost,) = json.loads(done.stdout.splitlines()[-1]).values()
    assert cost["gigabytes"] == pytest.approx(20, rel=0.01)
    assert cost["touched"] > 0.2  # batches come from all over the file, blocks of frames among them
    assert cost["anonymous"] < 2048
