"""scores.json: kept with the model and the factors that were scored."""

import shutil
from pathlib import Path

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


def test_those_of_the_pretrained_puppets_belong_to_them() -> None:
    run = load("pretrained:puppets")
    found = load_scores(run.folder, run.model, run.require_factors())
    assert found is not None
    assert found["score"] > 0.99
