"""scores.json: kept with the model and the factors that were scored."""

import shutil
from pathlib import Path

import pytest

from diskoop.run import load
from diskoop.scores_file import load_scores, save_scores


def test_scores_come_back_with_what_they_are_of(series_run: Path, tmp_path: Path) -> None:
    run = load(shutil.copytree(series_run, tmp_path / "run"))
    factors = run.require_factors()
    save_scores(run.folder, {"score": 0.9}, run.model, factors)
    found = load_scores(run.folder, run.model, factors)
    assert found is not None
    assert found["score"] == 0.9
    assert load_scores(run.folder, run.model, factors.rename({factors.names[0]: "tempo"})) is None
    next(run.model.parameters()).data += 1
    assert load_scores(run.folder, run.model, factors) is None
    run.folder.scores.unlink()
    assert load_scores(run.folder, run.model, factors) is None


@pytest.mark.parametrize(("name", "score"), [("puppets", 0.99), ("faces", 0.8)])
def test_those_of_pretrained_runs_belong_to_them(name: str, score: float) -> None:
    run = load(f"pretrained:{name}")
    found = load_scores(run.folder, run.model, run.require_factors())
    assert found is not None
    assert found["score"] > score
