"""`diskoop demo`: its picture, its interruption and, marked slow, what it learns."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from diskoop import load
from diskoop.errors import InputError
from diskoop.numerics import Spectrum, by_distance
from diskoop.settings import Settings
from diskoop.workflows import demo
from diskoop.workflows.demo import run_demo
from tests.helpers.cli import diskoop, start, wait_for


def test_a_trained_run_is_taken_apart_judged_drawn_and_reported(
    video_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of the command but the training, which here was of four steps."""
    shutil.copytree(video_run, tmp_path / "run")
    with pytest.raises(InputError, match="holds a run with other settings"):
        run_demo(tmp_path / "run")
    monkeypatch.setattr(demo, "train_or_resume", lambda settings, path, again: load(tmp_path / path))
    monkeypatch.setattr(demo, "JUDGED_CLIPS", 40)
    said = diskoop("demo", "--out", "run", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "wrote run/report.html" in said.stdout
    assert "verdict: poor: " in said.stdout
    assert "a classifier that knows the labels, on 40 test clips: score 0." in said.stdout
    assert said.stdout.splitlines()[-1] == "click on it: diskoop explore run"
    picture = Image.open(tmp_path / "run" / "demo.png").convert("RGB")
    assert picture.width > 1500
    assert np.asarray(picture).std() > 20  # not blank


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_interrupted_it_names_the_command_that_continues(tmp_path: Path) -> None:
    process = start("demo", "--out", "my demo", cwd=tmp_path)
    wait_for((tmp_path / "my demo" / "settings.yaml").exists, process)
    process.send_signal(signal.SIGINT)
    message = process.communicate(timeout=600)[1]
    assert process.returncode == 1
    assert "diskoop demo --out 'my demo' goes on from there" in message


@pytest.mark.slow
def test_the_demo_separates_static_from_dynamic(tmp_path: Path) -> None:
    """As a user runs it. How long it takes depends on the machine; it must end."""
    command = [sys.executable, "-m", "diskoop", "demo", "--json"]
    result = subprocess.run(command, cwd=tmp_path, check=True, stdout=subprocess.PIPE, text=True, timeout=1800)
    summary = json.loads(result.stdout.splitlines()[-1])
    # Ten trainings had static eigenvalues within 0.024 to 0.074 of 1; the others are kept 0.3 away from it.
    assert summary["static_gap"] < 0.1
    assert summary["dynamic_radius"] < Settings.load("demo").spectrum.radius + 0.1
    assert summary["last_epoch"]["val.rec"] < 0.005
    assert [Path(picture).name for picture in summary["pictures"][:2]] == ["demo.png", "factors.png"]
    assert summary["scores"]["score"] > 0.8  # five trainings had 0.93 to 0.95; doing nothing has 0.578
    assert "training a classifier" not in result.stdout
    assert all((tmp_path / picture).exists() for picture in summary["pictures"])
    run = load(tmp_path / "runs" / "demo")
    distances = by_distance(Spectrum.of(run.operator.matrix).eigenvalues)
    static = run.settings.spectrum.static
    assert distances[static] > 2 * distances[static - 1]
    names = run.require_factors().names
    assert "motion" in names
    assert 4 <= len(names) <= 8
    # Asked again it does not train again.
    before = (tmp_path / "runs" / "demo" / "model.safetensors").read_bytes()
    subprocess.run(command, cwd=tmp_path, check=True, stdout=subprocess.PIPE, timeout=600)
    assert (tmp_path / "runs" / "demo" / "model.safetensors").read_bytes() == before
