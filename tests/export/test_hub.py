"""A folder for a hub is a run, and its card says what was measured."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from diskoop.evaluation.results import Key, read_results
from diskoop.export.hub import model_card
from diskoop.run import load
from diskoop.run_folder import PRETRAINED
from tests.helpers.cli import diskoop


def test_a_hub_folder_is_a_run_with_a_card(series_run: Path, tmp_path: Path) -> None:
    result = diskoop("export", str(series_run), "--format", "hub", "--out", "out", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    folder = tmp_path / "out" / "hub"
    assert "checkpoint.safetensors" not in {file.name for file in folder.iterdir()}
    before, after = load(series_run), load(folder)
    clips = before.data("test").select([0, 1])
    one, other = (run.decompose(clips).swap("static", [1, 0]).decode() for run in (before, after))
    assert np.array_equal(one, other)
    assert after.require_factors().names == before.require_factors().names
    config = json.loads((folder / "config.json").read_text())
    assert (config["architecture"], config["model"]["k"], config["frame"]) == ("KoopmanAutoencoder", 8, [8])
    card = (folder / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: diskoop\n")
    assert "Trained without labels on oscillators" in card
    assert before.verdict().conclusion in card
    assert (folder / "verdict.json").exists()
    again = diskoop("export", str(series_run), "--format", "hub", "--out", "out", cwd=tmp_path)
    assert (again.returncode, "'out' exists already" in again.stderr) == (2, True)


def front(card: str) -> dict[str, Any]:
    """What a card says to programs."""
    found: dict[str, Any] = yaml.safe_load(card.split("---\n")[1])
    return found


def test_a_card_has_the_scores_of_factors() -> None:
    card = model_card(load("pretrained:puppets"))
    stored = json.loads((PRETRAINED / "puppets" / "scores.json").read_text())
    for name in ("score", "kept", "floor"):
        assert f"\n| {name} | {stored[name]:.3f} | " in card
    assert f"On {stored['clips']} test clips; {stored['classifier']}." in card
    assert "### Evaluation" not in card


def test_a_card_has_the_tables_of_an_evaluation(tmp_path: Path) -> None:
    run = load("pretrained:voices")
    card, results = model_card(run), read_results(PRETRAINED / "voices" / "evaluation.json")
    for table, lines in results.filled_tables():
        assert f"\n### {table.title}\n" in card
        for line in lines:
            assert f"\n| {' | '.join([line.name, *line.cells])} |\n" in card
    assert f" {results.models[0].values[Key('multifactor', 'score')].mean:.4g} " in card
    assert f"- ours: {results.models[0].origin}\n" in card
    assert [line for line in card.splitlines() if line.startswith(("# ", "## "))] == [
        "# A structured Koopman autoencoder for sound", "## How good it is", "## Use it",
    ]  # fmt: skip
    shutil.copytree(PRETRAINED / "voices", tmp_path / "run")
    (tmp_path / "run" / "evaluation.json").write_text("{")
    assert "evaluation.json holds no results" in model_card(load(tmp_path / "run"))


@pytest.mark.parametrize(("trained_on", "license"), [(False, "mit"), (True, "other")])
def test_the_package_licenses_its_own_weights_alone(
    trained_on: bool, license: str, series_run: Path, tmp_path: Path
) -> None:
    run = load(shutil.copytree(series_run if trained_on else PRETRAINED / "puppets", tmp_path / "run"))
    assert front(model_card(run))["license"] == license
