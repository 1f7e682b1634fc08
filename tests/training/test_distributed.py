"""Several processes take the steps that one would take."""

import contextlib
import json
import os
import re
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
from diskoop.data.formats import stores
from diskoop.data.registry import DATA_SETS
from diskoop.distributed import LostProcessError, Processes, join, lost_processes
from diskoop.errors import InputError
from diskoop.launch import relaunched
from diskoop.run_folder import RunFolder
from diskoop.settings import Settings, parse_overrides
from diskoop.tensor_files import read_tensors
from diskoop.training import loop
from tests.helpers.cli import diskoop
from tests.helpers.processes import (
    CAPTURED,
    CASES,
    DISTURBED,
    ROOT,
    free_port,
    record_captured,
    record_steps,
    register_sets,
    start_processes,
    write_store,
)
from tests.helpers.training import Quiet


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder that the cases are computed in, with the store of one of them; the others' sets are registered."""
    folder = tmp_path_factory.mktemp("recorded")
    known = dict(DATA_SETS)
    register_sets()
    write_store(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stores, "SMALL_CHUNK", 1)
        yield folder
    DATA_SETS.clear()
    DATA_SETS.update(known)


@pytest.fixture(scope="module")
def recorded(sets: Path) -> Path:
    """What two processes compute in every case."""
    cases = [case for case in CASES if case != "three processes"]
    ended = end(start_processes(PROCESSES, *cases, count=2, cwd=sets))
    assert [code for code, _ in ended] == [0, 0], ended
    return sets


@pytest.mark.parametrize("case", [case for case in CASES if case != "three processes"])
def test_two_processes_equal_one(case: str, recorded: Path) -> None:
    """Losses, gradients, weights, statistics of batch norm, validation and the frozen operator, in float64."""
    assert_equal_one(case, recorded)


@pytest.mark.slow
def test_three_processes_equal_one(sets: Path) -> None:
    """Where the neighbours in a ring are two others."""
    ended = end(start_processes(PROCESSES, "three processes", count=3, cwd=sets))
    assert [code for code, _ in ended] == [0, 0, 0], ended
    assert_equal_one("three processes", sets)


def assert_equal_one(case: str, recorded: Path) -> None:
    with contextlib.chdir(recorded):  # where the store is
        several, one = load_file(f"{case}.safetensors"), record_steps(case)
    assert several.keys() == one.keys()
    for name, value in one.items():
        largest = np.abs(value).max()
        if "usual ridge" in case:  # which magnifies rounding
            assert np.abs(several[name] - value).max() <= 1e-5 * largest, name
        else:
            assert np.allclose(several[name], value, rtol=1e-7, atol=1e-9 * max(1.0, largest)), name


def test_each_process_reads_its_own_share(recorded: Path) -> None:
    main, other = (json.loads((recorded / f"reads {rank}.json").read_text()) for rank in (0, 1))
    train, val = (
        sorted(part.starts // part.shape[1]) for part in loop._load_splits(Settings.of(CASES["video"])) if part
    )
    assert main["begin"] == other["begin"]
    assert len(main["begin"]) == 16  # of each split eight, by which a checkpoint knows its data
    assert main["validation 1"] == val  # the main process measures their variance
    assert other["validation 1"] == other["validation 2"]
    assert main.pop("explained") == other.pop("explained")  # and tells the other
    for part, rows in {"estimate": train[:8], "epoch": train, "validation 2": val, "operator": train}.items():
        assert sorted(main[part] + other[part]) == rows
        assert len(main[part]) == len(other[part])


@pytest.mark.parametrize("case", CAPTURED)
def test_stages_of_two_processes_take_the_plain_steps_of_one(case: str, recorded: Path) -> None:
    """The stages that CUDA captures, uncaptured on the CPU, with sums over processes inside them."""
    two, one = load_file(recorded / f"captured {case}.safetensors"), record_captured(case, captured=False)
    assert two.keys() == one.keys()
    for name, value in one.items():
        assert np.allclose(two[name], value, rtol=1e-6, atol=1e-9 * max(1.0, np.abs(value).max())), name


VIDEO = [
    "data.name=video", "data.val_fraction=0.1", "model.k=8", "model.h=8", "model.width=4", "spectrum.static=3",
    "train.epochs=5", "train.batch_size=4", "train.device=cpu",
]  # fmt: skip
SERIES = [
    "data.name=oscillators", "data.limit=100", "model.k=8", "model.h=8", "spectrum.static=3", "train.epochs=20",
    "train.batch_size=20", "train.device=cpu", "train.precision=64",
]  # fmt: skip
ENDLESS = [*SERIES, "train.epochs=null", "train.steps=100000"]  # 2500 steps from one validation to the next
PROCESSES = "tests.helpers.processes"


def end(started: list[subprocess.Popen[str]]) -> list[tuple[int, str]]:
    """Exit code of every process, and what it has said."""
    errors = [process.communicate(timeout=600)[1] for process in started]
    return [(process.returncode, said) for process, said in zip(started, errors, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("lost", [1, 0])
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
    words = ["disturb", str(int(number)), "before", "train", "run", *SERIES]
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
def test_a_loss_in_the_middle_of_a_step_leaves_the_checkpoint_of_the_step_before(tmp_path: Path) -> None:
    """Batch norm has tracked the step that was lost, and must forget it."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    for folder in (whole, broken):
        folder.mkdir()
    assert [code for code, _ in end(start_processes(PROCESSES, "train", "run", *VIDEO, count=2, cwd=whole))] == [0, 0]
    words = ["disturb", str(int(signal.SIGKILL)), "encoded", "train", "run", *VIDEO]
    main, _ = end(start_processes(PROCESSES, *words, count=2, cwd=broken))
    assert f"saved at step {DISTURBED} of " in main[1]
    assert [code for code, _ in end(start_processes(PROCESSES, "resume", "run", count=2, cwd=broken))] == [0, 0]
    ours, theirs = (read_tensors(each / "run" / "model.safetensors", "model")[0] for each in (broken, whole))
    assert any("running_mean" in name for name in ours)
    for name, value in theirs.items():
        assert torch.equal(ours[name], value), name


def start_torchrun(*words: str, cwd: Path) -> subprocess.Popen[str]:
    """torchrun with these words."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", *words], cwd=cwd, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env=environment, start_new_session=True,
    )  # fmt: skip


def wait_until_it_trains(torchrun: subprocess.Popen[str]) -> list[int]:
    """The ids of the processes that torchrun has started, by their rank."""
    assert torchrun.stderr is not None
    assert any(" to go: " in line for line in torchrun.stderr)
    time.sleep(1)
    children = Path(f"/proc/{torchrun.pid}/task/{torchrun.pid}/children").read_text().split()
    ranks = {pid: re.search(r"\0RANK=(\d+)\0", Path(f"/proc/{pid}/environ").read_text()) for pid in children}
    return [int(pid) for pid in sorted(children, key=lambda pid: int((ranks[pid] or [0, -1])[1]))]


@pytest.mark.slow
@pytest.mark.parametrize("first", ["the terminal", "one process"])
def test_stopping_torchrun_saves(first: str, tmp_path: Path) -> None:
    """Ctrl-C reaches all processes twice, from the terminal and from torchrun; SIGTERM may reach one alone."""
    torchrun = start_torchrun("--nproc-per-node", "2", "-m", "diskoop", "train", *ENDLESS, "--out", "run", cwd=tmp_path)
    children = wait_until_it_trains(torchrun)
    if first == "the terminal":
        os.killpg(torchrun.pid, signal.SIGINT)
    else:
        os.kill(children[0], signal.SIGTERM)
    said = torchrun.communicate(timeout=600)[1]
    _, record = read_tensors(tmp_path / "run" / "checkpoint.safetensors", "checkpoint")
    assert f"saved at step {record['step']} of 100000" in said
    assert record["step"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("lost", [0, 1])
def test_a_process_of_torchrun_that_is_killed_ends_all(lost: int, tmp_path: Path) -> None:
    """torchrun sends SIGTERM to the other one, which saves, says its sentence, and ends without a traceback."""
    torchrun = start_torchrun("--nproc-per-node", "2", "-m", "diskoop", "train", *ENDLESS, "--out", "run", cwd=tmp_path)
    os.kill(wait_until_it_trains(torchrun)[lost], signal.SIGKILL)
    said = torchrun.communicate(timeout=600)[1]
    assert torchrun.returncode == 1
    _, record = read_tensors(tmp_path / "run" / "checkpoint.safetensors", "checkpoint")
    sentence = next(line for line in said.splitlines() if line.startswith("diskoop: "))
    assert "another process has ended or cannot be reached" in sentence
    assert f"saved at step {record['step']} of 100000; torchrun --nproc-per-node 2 -m diskoop train --re" in sentence
    assert said.count("Traceback (most recent call last)") == 1, said  # torchrun's own
    assert "KeyboardInterrupt" not in said
    resumed = diskoop("train", "--resume", "run", f"train.steps={record['step'] + 3}", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert "3 steps to go" in resumed.stderr


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [1, 2])
def test_torchrun_starts_what_equals_one_process(nodes: int, tmp_path: Path) -> None:
    """Two processes, or two agents that find each other as they do on two machines, with a process each."""
    words = ["--nproc-per-node", str(2 // nodes)]
    if nodes == 2:
        words += ["--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{free_port()}"]
    words += ["-m", "diskoop", "train", *SERIES, "--out", "run"]
    agents = [start_torchrun(*words, cwd=tmp_path) for _ in range(nodes)]
    said = [agent.communicate(timeout=600) for agent in agents]
    assert [agent.returncode for agent in agents] == [0] * nodes, said
    assert sum(", 2 processes" in errors for _, errors in said) == 1
    assert sum(output.count("verdict:") for output, _ in said) == 1
    assert (tmp_path / "run" / "report.html").exists()
    loop.train(Settings.of(parse_overrides(SERIES)), tmp_path / "one", reporter=Quiet())
    for name in ("model", "operator"):
        two, one = (read_tensors(tmp_path / run / f"{name}.safetensors", name)[0] for run in ("run", "one"))
        for key, value in one.items():
            assert torch.allclose(two[key], value, rtol=1e-6, atol=1e-9), key


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"train": {"batch_size": 5}}, "2 processes cannot have equal parts of batches of 5 sequences"),
        ({"model": {"ridge": 0}}, r"the batches of 2 processes needs model.ridge > 0, got 0"),
    ],
)
def test_what_processes_cannot_share_is_refused(
    changes: dict[str, dict[str, float]], sentence: str, tmp_path: Path
) -> None:
    settings = Settings.of(parse_overrides(SERIES)).replaced(changes)
    trainer = loop.Trainer(settings, RunFolder(tmp_path / "run"), Quiet())
    trainer.processes = Processes(0, 2)
    with pytest.raises(InputError, match=sentence):
        trainer._require_shareable()


@pytest.mark.slow
def test_processes_with_other_settings_are_refused(tmp_path: Path) -> None:
    ended = end(start_processes(PROCESSES, "train", "run", *SERIES, count=2, cwd=tmp_path, last=["train.lr=0.5"]))
    for code, said in ended:
        assert code == 1
        assert "InputError: 2 processes need the same settings and data, got others in one than in another" in said
    assert not (tmp_path / "run").exists()


def test_a_mistake_is_no_lost_process() -> None:
    with pytest.raises(RuntimeError, match="expected scalar type") as raised, lost_processes():
        raise RuntimeError("expected scalar type Float but found Half")
    assert not isinstance(raised.value, LostProcessError)


def test_a_machine_with_fewer_gpus_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"WORLD_SIZE": "100", "RANK": "99", "LOCAL_RANK": "99", "LOCAL_WORLD_SIZE": "100"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=r"torchrun started 100 processes on a machine with \d+ GPUs?; start one for"):
        join(on_cuda=True)


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
