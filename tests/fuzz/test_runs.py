"""The files of a run and of the cache, damaged."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from diskoop.data import data_settings, open_data
from diskoop.examples_file import save_examples
from diskoop.run import load
from diskoop.run_folder import RunFolder, read_metrics
from diskoop.scores_file import load_scores, save_scores
from diskoop.training import loop
from diskoop.verdict_file import load_verdicts
from tests.fuzz.inputs import COUNTS, changed_json, damaged, fuzz
from tests.helpers.training import Quiet


@pytest.fixture(scope="module")
def whole_run(series_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with every file that it can have."""
    path = tmp_path_factory.mktemp("fuzz") / "run"
    shutil.copytree(series_run, path)
    run = load(path)
    run.verdict()
    save_examples(run.folder, run.data("test").select(np.arange(4)))
    save_scores(run.folder, {"score": 0.5, "kept": 0.9}, run.model, run.require_factors())
    return path


def load_and_use(path: Path) -> None:
    run = load(path)
    run.decompose(np.zeros((2, 6, 8))).swap("static", donor=[1, 0]).decode()


def read_examples(path: Path) -> None:
    run = load(path)
    run.decompose(run.examples().select([0, 1])).decode()


def read_verdicts(path: Path) -> None:
    for verdict in load_verdicts(RunFolder(path), load(path).model).values():
        assert verdict.sentences()


def read_scores(path: Path) -> None:
    run = load(path)
    load_scores(run.folder, run.model, run.require_factors())


FILES: dict[str, Callable[[Path], object]] = {
    "settings.yaml": load_and_use,
    "model.safetensors": load_and_use,
    "operator.safetensors": load_and_use,
    "checkpoint.safetensors": lambda path: loop.resume(path, reporter=Quiet()),
    "factors.json": load_and_use,
    "verdict.json": read_verdicts,
    "scores.json": read_scores,
    "metrics.jsonl": lambda path: read_metrics(RunFolder(path)),
    "examples.npz": read_examples,
}


def fuzz_file(
    file: Path, inputs: st.SearchStrategy[bytes], use: Callable[[], object], count: int, folder: Path
) -> None:
    """Use a file that holds one input after another."""

    def replace_and_use(content: Any) -> None:
        file.write_bytes(content)
        use()

    fuzz(count, inputs, replace_and_use, folder)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", FILES)
def test_damaged_files_of_a_run(name: str, count: int, whole_run: Path, tmp_path: Path) -> None:
    path = tmp_path / "run"
    shutil.copytree(whole_run, path)
    fuzz_file(path / name, damaged((path / name).read_bytes()), lambda: FILES[name](path), count, tmp_path)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", ["factors.json", "verdict.json", "scores.json"])
def test_changed_pages_of_a_run(name: str, count: int, whole_run: Path, tmp_path: Path) -> None:
    path = tmp_path / "run"
    shutil.copytree(whole_run, path)
    fuzz_file(path / name, changed_json((path / name).read_bytes()), lambda: FILES[name](path), count, tmp_path)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", ["frames.npy", "facts.json", "facts.json, changed"])
def test_damaged_entries_of_the_cache(name: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own").mkdir()
    for clip in range(6):
        np.save(tmp_path / "own" / f"{clip}.npy", np.random.default_rng(clip).standard_normal((8, 3)))
    monkeypatch.setenv("DISKOOP_CACHE", str(tmp_path / "cache"))

    def read() -> None:
        x = open_data(data_settings(str(tmp_path / "own"))).read(np.arange(2))
        assert x.shape[0] == 2

    read()
    (entry,) = (tmp_path / "cache").iterdir()
    file = entry / name.removesuffix(", changed")
    inputs = (changed_json if "changed" in name else damaged)(file.read_bytes())
    fuzz_file(file, inputs, read, count, tmp_path)
