"""Encoding and decoding shared out over processes: the same bits as in one."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from diskoop.models.autoencoder import KoopmanAutoencoder
from diskoop.parallel import apply
from tests.helpers.processes import ROOT, record_edits, start_processes

PROCESSES = "tests.helpers.processes"


def end(started: list[subprocess.Popen[str]]) -> list[tuple[int, str, str]]:
    """Exit code, output and errors of every process."""
    said = [process.communicate(timeout=300) for process in started]
    return [(process.returncode, *texts) for process, texts in zip(started, said, strict=True)]


def test_two_processes_compute_what_one_does(series_run: Path, tmp_path: Path) -> None:
    ended = end(start_processes(PROCESSES, "edit", str(series_run), count=2, cwd=tmp_path))
    assert [code for code, *_ in ended] == [0, 0], ended
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        one = record_edits(str(series_run))
    finally:
        torch.set_num_threads(threads)
    two = load_file(tmp_path / "edits.safetensors")
    assert two.keys() == one.keys()
    assert len(one["run z"]) > 3 * 64  # chunks for both processes, and one left over for neither
    for name, value in one.items():
        assert np.array_equal(two[name], value), name
    assert not np.array_equal(one["run z"], one["changed z"])


def test_gradients_are_as_they_were_between_chunks() -> None:
    model = KoopmanAutoencoder.for_shape((4,), k=6, h=8).eval()
    for z in apply(model, "encode", [[torch.randn(1, 3, 4)]] * 2):
        assert torch.is_grad_enabled()
        assert not z.requires_grad


@pytest.mark.slow
def test_chunks_that_nobody_takes_and_errors_between_them_end_the_work(series_run: Path, tmp_path: Path) -> None:
    """The main process stops taking chunks, works on, and fails while the other still has one of its own."""
    main, other = end(start_processes(PROCESSES, "break off", str(series_run), count=2, cwd=tmp_path))
    assert main[1] == "True\n", main
    assert "TypeError: 'NoneType' object is not callable" in main[2]
    assert "LostProcessError" in other[2]
    assert main[0] == other[0] == 1


@pytest.mark.parametrize("lost", [0, 1])
@pytest.mark.slow
def test_a_lost_process_ends_all_with_a_sentence(lost: int, series_run: Path, tmp_path: Path) -> None:
    shutil.copytree(series_run, tmp_path / "run")
    words = [PROCESSES, "lose", str(lost), "factors", "run"]
    ended = end(start_processes(*words, count=2, cwd=tmp_path))
    assert ended[lost][0] == -signal.SIGKILL
    code, _, said = ended[1 - lost]
    assert code == 1
    assert said.splitlines()[-1].startswith("diskoop: another process has ended or cannot be reached")
    assert "Traceback" not in said


@pytest.mark.slow
def test_commands_write_what_one_process_writes(video_run: Path, tmp_path: Path) -> None:
    words = [
        ["factors", "run", "--anyway"],
        ["swap", "run", "static", "--json"],
        ["evaluate", "run", "--limit", "70", "--repeats", "2", "--no-baselines", "--json"],
    ]
    outputs: dict[int, list[str]] = {}
    for count in (1, 2):
        folder = tmp_path / str(count)
        shutil.copytree(video_run, folder / "run")
        for command in words:
            ended = end(start_processes("diskoop", *command, count=count, cwd=folder))
            assert [code for code, *_ in ended] == [0] * count, ended
            outputs.setdefault(count, []).append(ended[0][1])
            assert all(output == "" for _, output, _ in ended[1:])
    one, two = ((tmp_path / str(count) / "run" / "factors.json").read_bytes() for count in (1, 2))
    assert one == two
    values = [json.loads(outputs[count][2].splitlines()[-1])["models"][0]["values"] for count in (1, 2)]
    one_scores, two_scores = ([value for value in each if value["metric"] != "cost"] for each in values)
    assert len(one_scores) > 10
    assert one_scores == two_scores


@pytest.mark.slow
def test_torchrun_starts_a_command(series_run: Path, tmp_path: Path) -> None:
    run = shutil.copytree(series_run, tmp_path / "run")
    words = ["torch.distributed.run", "--nproc-per-node", "2", "-m", "diskoop", "forecast", str(run), "--json"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=tmp_path, text=True, capture_output=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len([line for line in done.stdout.splitlines() if line.startswith("{")]) == 1
