"""Several processes take the steps that one would take."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from typer.testing import CliRunner

from diskoop.cli.app import app
from diskoop.data.registry import DATA_SETS
from diskoop.distributed import Processes
from diskoop.errors import InputError
from diskoop.launch import relaunched
from diskoop.tensor_files import read_tensors
from diskoop.training import loop
from tests.helpers.processes import (
    CAPTURED,
    CASES,
    DISTURBED,
    ROOT,
    record_captured,
    record_steps,
    register_sets,
    start_processes,
)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What two processes compute in every case."""
    folder = tmp_path_factory.mktemp("recorded")
    known = dict(DATA_SETS)
    register_sets()
    started = start_processes("tests.helpers.processes", count=2, cwd=folder)
    for process in started:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
    yield folder
    DATA_SETS.clear()
    DATA_SETS.update(known)


@pytest.mark.parametrize("case", CASES)
def test_two_processes_equal_one(case: str, recorded: Path) -> None:
    """Losses, gradients, weights, statistics of batch norm, validation and the frozen operator, in float64."""
    two, one = load_file(recorded / f"{list(CASES).index(case)}.safetensors"), record_steps(case)
    assert two.keys() == one.keys()
    for name, value in one.items():
        assert np.allclose(two[name], value, rtol=1e-7, atol=1e-9 * max(1.0, np.abs(value).max())), name


@pytest.mark.parametrize("case", CAPTURED)
def test_stages_of_two_processes_take_the_plain_steps_of_one(case: str, recorded: Path) -> None:
    """The stages that CUDA captures, uncaptured on the CPU, with sums over processes inside them."""
    two, one = load_file(recorded / f"captured {case}.safetensors"), record_captured(case, captured=False)
    assert two.keys() == one.keys()
    for name, value in one.items():
        assert np.allclose(two[name], value, rtol=1e-6, atol=1e-9 * max(1.0, np.abs(value).max())), name


SERIES = [
    "data.name=oscillators", "data.limit=100", "model.k=8", "model.h=8", "spectrum.static=3", "train.epochs=20",
    "train.batch_size=20", "train.device=cpu", "train.precision=64",
]  # fmt: skip
ENDLESS = [*SERIES, "train.epochs=null", "train.steps=100000"]  # 2500 steps from one validation to the next
PROCESSES = "tests.helpers.processes"


def end(started: list[subprocess.Popen[str]]) -> list[tuple[int, str]]:
    """Exit code of every process, and what it has said."""
    errors = [process.communicate(timeout=120)[1] for process in started]
    return [(process.returncode, said) for process, said in zip(started, errors, strict=True)]


@pytest.mark.parametrize("lost", [1, pytest.param(0, marks=pytest.mark.slow)])
def test_a_killed_process_ends_all_with_a_sentence_and_a_checkpoint(lost: int, tmp_path: Path) -> None:
    started = start_processes("diskoop", "train", *ENDLESS, "--out", "run", count=2, cwd=tmp_path)
    assert started[0].stderr is not None
    assert any(" to go: " in line for line in started[0].stderr)
    time.sleep(2)  # it trains
    started[lost].kill()
    codes = end(started)
    assert codes[lost][0] == -signal.SIGKILL
    code, said = codes[1 - lost]
    assert code == 1
    sentence = said.splitlines()[-1]
    assert sentence.startswith("diskoop: another process has ended or cannot be reached")
    assert "torchrun --nproc-per-node 2 -m diskoop train --resume run goes on from there" in sentence
    assert "Traceback" not in said
    _, record = read_tensors(tmp_path / "run" / "checkpoint.safetensors", "checkpoint")
    assert f"saved at step {record['step']} of 100000" in sentence
    assert 0 < record["step"] < 100000
    assert record["processes"] == 2


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two folders, one for each process to train in, and an empty list of what the second one wrote."""
    folder = tmp_path_factory.mktemp("undisturbed")
    folders = [folder / "main", folder / "other"]
    for each in folders:
        each.mkdir()
    ended = end(start_processes(PROCESSES, "train", "run", *SERIES, count=2, cwd=folders))
    assert [code for code, _ in ended] == [0, 0]
    assert "2 processes" in ended[0][1]
    assert ended[1][1] == ""
    return folder


@pytest.mark.slow
def test_the_main_process_alone_writes(undisturbed: Path) -> None:
    written = {file.name for file in (undisturbed / "main" / "run").iterdir()}
    assert {"settings.yaml", "model.safetensors", "operator.safetensors", "metrics.jsonl"} <= written
    assert not list((undisturbed / "other").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 1])
def test_resuming_is_exact_with_as_many_processes_and_told_with_others(
    count: int, undisturbed: Path, tmp_path: Path
) -> None:
    """The second process is killed, or gets a signal that asks all to end."""
    number = signal.SIGKILL if count == 2 else signal.SIGTERM
    words = ["disturb", str(int(number)), "train", "run", *SERIES]
    first, second = end(start_processes(PROCESSES, *words, count=2, cwd=tmp_path))
    assert first[0] == 1
    assert second[0] == (-signal.SIGKILL if count == 2 else 1)
    assert f"saved at step {DISTURBED + (number == signal.SIGTERM)} of 100" in first[1]
    assert not (tmp_path / "run" / "model.safetensors").exists()
    resumed = end(start_processes(PROCESSES, "resume", "run", count=count, cwd=tmp_path))
    assert [code for code, _ in resumed] == [0] * count
    assert ("number of processes: 2 so far and 1 from here" in resumed[0][1]) == (count == 1)
    for name in ("model", "operator"):
        ours, theirs = (
            read_tensors(run / f"{name}.safetensors", name)[0]
            for run in (tmp_path / "run", undisturbed / "main" / "run")
        )
        for key, value in theirs.items():
            assert torch.equal(ours[key], value) if count == 2 else torch.allclose(ours[key], value, rtol=1e-6), key


@pytest.mark.slow
def test_torchrun_starts_it(tmp_path: Path) -> None:
    words = ["torch.distributed.run", "--nproc-per-node", "2", "-m", "diskoop", "train", *SERIES, "--out", "run"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=tmp_path, text=True, capture_output=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert ", 2 processes" in done.stderr
    assert done.stdout.count("verdict:") == 1
    assert (tmp_path / "run" / "report.html").exists()


def test_batches_have_equal_parts() -> None:
    with pytest.raises(InputError, match="2 processes cannot have equal parts of batches of 5 sequences"):
        loop._require_equal_parts(5, Processes(0, 2))


def test_other_commands_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    result = CliRunner().invoke(app, ["explore", "run"])
    assert isinstance(result.exception, InputError)
    assert "torchrun starts train, factors, swap, " in str(result.exception)
    assert "got `diskoop explore`; start that without it" in str(result.exception)


def test_the_command_that_starts_as_many_processes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"WORLD_SIZE": "8", "RANK": "3", "LOCAL_WORLD_SIZE": "4"}.items():
        monkeypatch.setenv(name, value)
    wanted = "torchrun --nnodes 2 --rdzv-backend c10d --rdzv-endpoint HOST:PORT --nproc-per-node 4 -m diskoop train"
    assert relaunched("diskoop train") == wanted
