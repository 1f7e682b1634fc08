"""Every command that takes a run takes `pretrained:NAME`, and leaves the package as it is."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from diskoop import run_folder
from diskoop.examples_file import save_examples
from diskoop.run import load
from diskoop.run_folder import RunFolder
from tests.helpers.cli import answer, diskoop

NAME, COPY = "pretrained:series", Path("runs/pretrained-series")


def contents(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.fixture
def package(series_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of pretrained runs with one, a small one on series; it ends as it was."""
    path = tmp_path / "package" / "series"
    shutil.copytree(series_run, path)
    (path / "checkpoint.safetensors").unlink()
    run = load(path)
    run.verdict(), run.verdict("test")
    save_examples(RunFolder(path), run.data("test").select(range(9)))
    monkeypatch.setattr(run_folder, "PRETRAINED", path.parent)
    before = contents(path.parent)
    yield path.parent
    assert contents(path.parent) == before


def test_edits_use_the_examples_and_go_to_the_copy(package: Path, tmp_path: Path) -> None:
    result = diskoop("swap", NAME, "static", "--pair", "0:8", "--json", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert f"{NAME} is read only and has been copied to {COPY}, which is used from now on" in result.stderr
    assert f"clips are the 9 examples in {COPY}; --split test takes the whole split" in result.stderr
    facts = json.loads(result.stdout)
    assert {Path(file).parent for file in facts["files"]} == {COPY / "swap-1"}
    names = [load(package / "series").examples().clip_name(index) for index in (0, 8)]
    assert [clip["name"] for clip in facts["clips"]] == names
    again = diskoop("sample", NAME, "--count", "2", cwd=tmp_path)
    assert "read only" not in again.stderr
    assert (tmp_path / COPY / "sample-1" / "sample.png").exists()
    whole = answer("swap", NAME, "static", "--pair", "0:300", "--split", "test", cwd=tmp_path)
    assert whole["clips"][1]["clip"] == 300


def test_a_forecast_needs_no_more_than_the_examples(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("diskoop.run.load_split", lambda *_: pytest.fail("the set was loaded"))
        facts = answer("forecast", NAME, "--count", "2", cwd=tmp_path)
    assert set(facts["errors"][0]) == {"horizon", "ours", "last_frame", "reconstruction"}
    assert facts["sequences"] == 9
    assert "dmd" in answer("forecast", NAME, "--split", "test", cwd=tmp_path)["errors"][0]


@pytest.mark.slow
def test_a_new_name_is_kept_in_the_copy(package: Path, tmp_path: Path) -> None:
    old = load(package / "series").require_factors().names[0]
    facts = answer("factors", NAME, "--rename", f"{old}=mine", cwd=tmp_path)
    assert facts["factors"][0]["name"] == "mine"
    assert {Path(file).parent for file in facts["files"]} == {COPY}
    for name in (NAME, str(COPY)):
        assert answer("factors", name, cwd=tmp_path)["factors"][0]["name"] == "mine"
    answer("swap", NAME, "mine", cwd=tmp_path)


def test_factors_are_found_again_and_written_out(package: Path, tmp_path: Path) -> None:
    words = ("factors", NAME, "--refit", "--anyway", "--table", "t.csv")
    facts = answer(*words, cwd=tmp_path)
    assert str(COPY / "factors-before.json") in facts["files"]
    assert len((tmp_path / "t.csv").read_text().splitlines()) == 10  # a heading, and the examples


@pytest.mark.slow
def test_runs_are_measured_and_compared(package: Path, tmp_path: Path, series_run: Path) -> None:
    few = ("--repeats", "1", "--limit", "40")
    facts = answer("evaluate", NAME, "--no-baselines", *few, cwd=tmp_path)
    assert {Path(file).parent for file in facts["files"]} == {COPY}
    compared = answer("compare", NAME, str(series_run), *few, cwd=tmp_path)
    assert [model["name"] for model in compared["models"]] == [str(COPY), str(series_run)]
    twice = diskoop("compare", NAME, str(COPY), cwd=tmp_path)
    assert (twice.returncode, "expected two different runs" in twice.stderr) == (2, True)


def test_training_starts_from_its_weights(package: Path, tmp_path: Path) -> None:
    answer("train", "--from", NAME, "train.epochs=1", "data.limit=64", "--out", "mine", cwd=tmp_path)
    settings = load(tmp_path / "mine").settings
    assert (settings.model.k, settings.train.epochs) == (8, 1)
    assert not (tmp_path / "runs").exists()
    resumed = diskoop("train", "--resume", NAME, cwd=tmp_path)
    assert (resumed.returncode, "--from starts a new run from its weights" in resumed.stderr) == (2, True)


@pytest.mark.parametrize(
    "words", [("swap",), ("factors",), ("sample",), ("forecast",), ("evaluate",), ("train", "--from")]
)
def test_an_unknown_name_is_one_sentence(words: tuple[str, ...], package: Path, tmp_path: Path) -> None:
    result = diskoop(*words, "pretrained:serie", cwd=tmp_path)
    assert result.returncode == 2
    sentence = "unknown pretrained run 'serie' (there are pretrained:series); did you mean 'series'?"
    assert sentence in " ".join(result.stderr.split())
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("name", "factors", "dtype"),
    [
        ("puppets", {"hair", "top", "pants", "skin", "action"}, np.uint8),
        ("faces", {"subject", "expression"}, np.uint8),
        pytest.param("voices", {"voice", "speech"}, np.float32, marks=pytest.mark.slow),
    ],
)
def test_a_run_in_the_package_works_at_once(
    name: str, factors: set[str], dtype: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is drawn or synthesised, nothing is written into the package."""
    monkeypatch.setattr("diskoop.run.load_split", lambda *_: pytest.fail("the set was loaded"))
    before, run = contents(run_folder.PRETRAINED), f"pretrained:{name}"
    facts = answer("factors", run, cwd=tmp_path)
    assert factors <= {factor["name"] for factor in facts["factors"]}
    swapped = answer("swap", run, *sorted(factors)[:2], "--pair", "0:1", cwd=tmp_path)
    arrays = np.load(next(tmp_path / file for file in swapped["files"] if file.endswith(".npz")))
    assert arrays["x"].dtype == dtype
    answer("sample", run, cwd=tmp_path)
    answer("forecast", run, "--count", "1", cwd=tmp_path)
    assert contents(run_folder.PRETRAINED) == before


@pytest.mark.slow
def test_a_factor_that_is_a_whole_part_is_shown_and_heard_under_its_own_name(tmp_path: Path) -> None:
    faces = answer("swap", "pretrained:faces", "--pair", "0:1", cwd=tmp_path)
    assert [Path(file).suffix for file in faces["files"]] == [".png", ".npz", ".webp"]
    captions = json.dumps(faces)
    assert "subject" in captions
    assert "the static part" not in captions
    voices = answer("swap", "pretrained:voices", "--pair", "0:1", cwd=tmp_path)
    sounds = [Path(file).stem for file in voices["files"] if file.endswith(".wav")]
    assert sum("with-voice-of" in stem or "with-speech-of" in stem for stem in sounds) == 2
