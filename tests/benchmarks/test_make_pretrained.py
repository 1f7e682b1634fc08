"""A pretrained run is made of any finished run on built-in data, and what is shipped was made so."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.make_pretrained import EVALUATION, EXAMPLES, KEPT, MAX_BYTES, SCORES, TRAININGS, Made, file_sizes, make

from benchmarks import make_pretrained
from diskoop.errors import InputError
from diskoop.run import Run, load
from diskoop.run_folder import PRETRAINED, pretrained_names, read_metrics
from diskoop.settings import Settings, merged, read_yaml
from diskoop.tensor_files import read_tensors


def file_contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture(scope="module")
def made(series_run: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Made, Path]:
    out = tmp_path_factory.mktemp("made") / "series"
    return make("series", series_run, out), out


def swap_static(run: Run) -> np.ndarray:
    clips = run.data("test").select(range(40))
    return run.decompose(clips).swap("static", np.roll(np.arange(40), 1)).decode()


@pytest.mark.slow
def test_a_folder_has_what_it_needs_and_nothing_else(made: tuple[Made, Path]) -> None:
    facts, folder = made
    assert set(file_contents(folder)) == {*KEPT, SCORES} == set(facts.sizes)
    run = load(folder)
    assert len(run.examples()) == EXAMPLES
    assert set(run.examples().labels) == set(run.data("test").labels)
    assert [len(row) for row in facts.rows()] == [2] * len(facts.rows())
    scores = json.loads((folder / "scores.json").read_text())
    assert scores["command"].startswith("diskoop ")
    assert scores == facts.scores
    assert list(folder.parent.iterdir()) == [folder]


@pytest.mark.slow
def test_rounding_changes_next_to_nothing(made: tuple[Made, Path], series_run: Path) -> None:
    before, run = load(series_run), load(made[1])
    weights, _ = read_tensors(run.folder.model, "model")
    assert {weight.dtype for weight in weights.values() if weight.ndim > 1} == {torch.float16}
    ours, theirs = (each.spectrum() for each in (run, before))
    static = [spectrum.eigenvalues[modes] for spectrum, modes in (ours, theirs)]
    assert torch.allclose(static[0].abs(), static[1].abs(), atol=1e-2)
    assert run.operator.fitted_on == before.operator.fitted_on
    difference = np.abs(swap_static(run) - swap_static(before)).mean() / before.data("test").x.std()
    assert difference < 0.02
    assert made[0].difference < 0.02


@pytest.mark.slow
def test_factors_have_the_names_of_labels(made: tuple[Made, Path]) -> None:
    matched = made[0].scores["matched"]
    for label, names in matched.items():
        assert names in ([], [label])
    assert any(matched.values())


@pytest.mark.slow
def test_parts_that_are_not_divided_are_one_factor_each(
    series_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(make_pretrained.UNDIVIDED, "series", ("looks", "motion"))
    assert make("series", series_run, tmp_path / "out").factors[:2] == ["looks", "motion"]
    run = load(tmp_path / "out")
    parts = run.decompose(run.examples())
    for name, part in (("looks", "static"), ("motion", "dynamic")):
        np.testing.assert_allclose(
            parts.factors[name].projector, parts.factors[part].projector, atol=0.05
        )  # but for static directions that are not visible


@pytest.mark.slow
def test_the_same_run_gives_the_same_files(made: tuple[Made, Path], series_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "again"
    out.mkdir()
    (out / "old").touch()  # what is there is replaced
    make("series", series_run, out)
    assert file_contents(out) == file_contents(made[1])


def test_what_is_of_others_is_not_made(sound_run: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="was trained on files that do not come with the package"):
        make("voices", sound_run, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_what_is_too_large_is_not_made(series_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make_pretrained, "MAX_BYTES", 1000)
    monkeypatch.setattr(make_pretrained, "score", lambda name, run: {})  # which takes seconds and hardly a byte
    with pytest.raises(InputError, match=r"series has .* bytes, allowed are 1,000"):
        make("series", series_run, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_more_than_a_package_should_carry_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.safetensors").write_bytes(bytes(1001))
    assert file_sizes("series", tmp_path) == {"model.safetensors": 1001}
    monkeypatch.setattr(make_pretrained, "MAX_BYTES", 1000)
    with pytest.raises(InputError, match="series has 1,001 bytes, allowed are 1,000"):
        file_sizes("series", tmp_path)


@pytest.mark.parametrize("name", sorted(TRAININGS))
def test_settings_are_on_built_in_data(name: str) -> None:
    preset, changes = TRAININGS[name]
    assert Settings.of(merged(read_yaml(preset), changes)).data.name == name


def test_all_that_can_be_made_are_shipped() -> None:
    assert pretrained_names() == sorted(TRAININGS)


@pytest.mark.parametrize("name", sorted(TRAININGS))
def test_what_is_shipped(name: str) -> None:
    folder = PRETRAINED / name
    assert set(file_contents(folder)) == {*KEPT, EVALUATION if name == "voices" else SCORES}
    assert sum(file.stat().st_size for file in folder.iterdir()) <= MAX_BYTES
    run = load(f"pretrained:{name}")
    weights, _ = read_tensors(run.folder.model, "model")
    assert {weight.dtype for weight in weights.values() if weight.ndim > 1} == {torch.float16}
    preset, changes = TRAININGS[name]
    assert run.settings == Settings.of(merged(read_yaml(preset), changes))
    examples = run.examples()
    assert len(examples) == EXAMPLES
    assert examples.labels
    assert len({examples.title(index) for index in range(EXAMPLES)}) == EXAMPLES
    assert run.verdict().has_learnt
    assert run.verdict("test").has_learnt
    assert read_metrics(run.folder)
    parts = run.decompose(examples)
    assert parts.decode().shape == examples.shape
    for factor in run.require_factors().names:
        assert parts.swap(factor, np.roll(np.arange(EXAMPLES), 1)).decode().shape == examples.shape
