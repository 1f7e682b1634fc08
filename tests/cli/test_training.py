"""`diskoop train`: settings, fine-tuning, signals and damaged checkpoints."""

import contextlib
import os
import re
import select
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest
import torch

from diskoop.settings import Settings
from diskoop.storage import TEMPORARY
from diskoop.tensor_files import read_tensors
from tests.helpers.cli import TINY_OVERRIDES, answer, diskoop, start, wait_for

if sys.platform != "win32":
    import pty

EPOCHS = 12  # long enough for a signal to arrive before the end
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")


def test_settings_are_shown_and_can_be_given_back(tmp_path: Path) -> None:
    shown = diskoop("train", "-c", "demo", "model.k=30", "--settings", cwd=tmp_path).stdout
    (tmp_path / "mine.yaml").write_text(shown)
    assert Settings.load(tmp_path / "mine.yaml") == Settings.load("demo").replaced({"model": {"k": 30}})
    assert not (tmp_path / "runs").exists()


def test_train_then_fine_tune(tmp_path: Path) -> None:
    result = diskoop("train", *TINY_OVERRIDES, "train.epochs=1", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "steps to go: 0.00" in result.stderr  # the estimate
    assert "epoch 1/1: loss" in result.stderr
    assert re.search(r"[34] static eigenvalues within \d\.\d+ of 1, the others up to \d\.\d+\n", result.stdout)
    assert result.stdout.splitlines()[-1].startswith("verdict: poor: the model explains ")
    facts = answer("train", "--from", "runs/oscillators-1", "train.lr=1e-4", cwd=tmp_path)
    assert facts["verdict"]["clips"] == "180 validation clips of oscillators"
    assert facts["folder"] == str(Path("runs/oscillators-2"))
    tuned = (tmp_path / "runs" / "oscillators-2" / "settings.yaml").read_text()
    assert "lr: 0.0001" in tuned
    assert "k: 10" in tuned  # the rest is the first run's
    result = diskoop("train", "--from", "runs/oscillators-1", "model.k=12", cwd=tmp_path)
    assert result.returncode == 2
    assert "does not fit this model" in result.stderr


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("uninterrupted")
    result = diskoop("train", *TINY_OVERRIDES, f"train.epochs={EPOCHS}", "--out", "run", cwd=folder)
    assert result.returncode == 0, result.stderr
    return folder / "run"


@POSIX
@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, marks=pytest.mark.slow),
        signal.SIGKILL,
    ],
)
def test_stopped_by_a_signal_and_resumed_it_ends_bit_equal(
    number: signal.Signals, uninterrupted: Path, tmp_path: Path
) -> None:
    process = start("train", *TINY_OVERRIDES, f"train.epochs={EPOCHS}", "--out", "stopped", cwd=tmp_path)
    metrics = tmp_path / "stopped" / "metrics.jsonl"
    wait_for(lambda: metrics.exists() and metrics.read_text().count("\n") >= 2, process)
    os.kill(process.pid, number)
    message = process.communicate(timeout=600)[1]
    assert not (tmp_path / "stopped" / "model.safetensors").exists(), "it ended before the signal came"
    if number == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
    else:
        assert process.returncode == 1
        assert "diskoop train --resume stopped goes on from there" in message
        assert "Traceback" not in message
    resumed = diskoop("train", "--resume", "stopped", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    for name in ("model.safetensors", "operator.safetensors"):
        assert (tmp_path / "stopped" / name).read_bytes() == (uninterrupted / name).read_bytes()


@POSIX
@pytest.mark.slow
def test_a_terminal_that_is_closed_stops_it_with_all_saved(tmp_path: Path, uninterrupted: Path) -> None:
    """Nothing can be printed any more then; under nohup it goes on."""
    for prefix in ([], ["nohup"]):
        folder = tmp_path / ("kept" if prefix else "closed")
        settings = [*TINY_OVERRIDES, "train.save_every=100000", f"train.epochs={EPOCHS}"]
        words = [*prefix, sys.executable, "-m", "diskoop", "train", *settings]
        child, terminal = pty.fork()
        if child == 0:
            signal.signal(signal.SIGHUP, signal.SIG_DFL)  # where this process ignores it, under nohup itself
            os.chdir(tmp_path)  # where nohup writes what is printed
            os.execvp(words[0] if prefix else sys.executable, [*words, "--out", str(folder)])
        metrics = folder / "metrics.jsonl"
        deadline = time.monotonic() + 120
        while not (metrics.exists() and metrics.read_text().count("\n") >= 2):
            with contextlib.suppress(OSError):  # nohup has closed its end
                if select.select([terminal], [], [], 0.02)[0]:
                    os.read(terminal, 65536)
            assert time.monotonic() < deadline
        os.close(terminal)
        os.waitpid(child, 0)
        finished = (folder / "model.safetensors").exists()
        assert finished == bool(prefix)
        if not finished:
            steps = read_tensors(folder / "checkpoint.safetensors", "checkpoint")[1]["step"]
            assert steps >= 20, "nothing was saved when the signal came"
            assert diskoop("train", "--resume", str(folder), cwd=tmp_path).returncode == 0
        ours, theirs = (read_tensors(run / "model.safetensors", "model")[0] for run in (folder, uninterrupted))
        assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@POSIX
@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, *(pytest.param(number, marks=pytest.mark.slow) for number in (signal.SIGTERM, signal.SIGHUP))],
)
def test_stopped_before_training_began_it_leaves_no_files(number: signal.Signals, tmp_path: Path) -> None:
    process = start("train", "data.size=32", "--out", "run", cwd=tmp_path, DISKOOP_CACHE=str(tmp_path / "cache"))
    wait_for(lambda: any((tmp_path / "cache").glob(f"{TEMPORARY}*puppets*")), process)  # while it draws the set
    os.kill(process.pid, number)
    message = process.communicate(timeout=600)[1]
    assert process.returncode == 1
    assert "diskoop: stopped" in message
    assert "Traceback" not in message
    assert not (tmp_path / "run").exists()
    assert list((tmp_path / "cache").iterdir()) == []


@POSIX
@pytest.mark.slow
def test_what_a_killed_drawing_left_is_removed_by_the_next_command(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    process = start("data", "puppets", "--size", "32", cwd=tmp_path, DISKOOP_CACHE=str(cache))
    wait_for(lambda: any(cache.glob(f"{TEMPORARY}*puppets*")), process)
    process.kill()
    process.communicate(timeout=600)
    assert any(cache.glob(f"{TEMPORARY}*"))
    second = start("data", "faces", "--size", "32", cwd=tmp_path, DISKOOP_CACHE=str(cache))
    wait_for(lambda: any(cache.glob(f"{TEMPORARY}*faces*")), second)
    second.terminate()
    second.communicate(timeout=600)
    assert list(cache.iterdir()) == []


def test_factors_of_the_model_before_are_put_aside(uninterrupted: Path, tmp_path: Path) -> None:
    shutil.copytree(uninterrupted, tmp_path / "run")
    assert diskoop("factors", "run", "--anyway", cwd=tmp_path).returncode == 0
    assert diskoop("train", "--resume", "run", cwd=tmp_path).returncode == 0  # finished, so they stay
    assert (tmp_path / "run" / "factors.json").exists()
    result = diskoop("train", "--resume", "run", f"train.epochs={EPOCHS + 1}", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "the factors of the model before are in run/factors-before-1.json" in result.stderr
    assert "wrote run/report.html" in result.stdout
    assert not (tmp_path / "run" / "factors.json").exists()


def test_a_run_that_was_killed_before_its_report_gets_one(uninterrupted: Path, tmp_path: Path) -> None:
    shutil.copytree(uninterrupted, tmp_path / "run")
    for name in ("report.html", "verdict.json"):
        (tmp_path / "run" / name).unlink()
    result = diskoop("train", "--resume", "run", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "so nothing was trained" in result.stderr
    assert "wrote run/report.html" in result.stdout
    assert (tmp_path / "run" / "verdict.json").exists()
    assert diskoop("train", "--resume", "run", cwd=tmp_path).stdout == ""


def test_a_damaged_checkpoint_is_an_error_not_a_restart(tmp_path: Path) -> None:
    assert diskoop("train", *TINY_OVERRIDES, "train.epochs=1", "--out", "run", cwd=tmp_path).returncode == 0
    checkpoint = tmp_path / "run" / "checkpoint.safetensors"
    content = bytearray(checkpoint.read_bytes())
    content[len(content) // 2] ^= 4
    checkpoint.write_bytes(content)
    result = diskoop("train", "--resume", "run", cwd=tmp_path)
    assert result.returncode == 2
    assert "is damaged" in result.stderr
    assert checkpoint.read_bytes() == content


def test_a_finished_run_is_told_to_be_finished_and_how_to_train_on(uninterrupted: Path) -> None:
    words = ("train", "--resume", "run")
    again = diskoop(*words, cwd=uninterrupted.parent)
    assert (again.returncode, again.stdout) == (0, "")
    assert "run is finished, at step 120 of 120, so nothing was trained" in again.stderr
    assert "diskoop train --resume run train.epochs=24 trains on" in again.stderr
    assert "trained in" not in again.stderr
    assert answer(*words, cwd=uninterrupted.parent)["folder"] == "run"
