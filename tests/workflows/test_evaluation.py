"""Evaluate and compare, on small trained runs with and without labels."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from diskoop import load
from diskoop.evaluation.registry import METRICS, EvalContext, Outcome
from diskoop.evaluation.results import Key, from_records, read_results
from diskoop.provenance import commit
from diskoop.run import Run
from diskoop.settings import Settings
from diskoop.training import loop
from diskoop.workflows.evaluation import ensure_factors
from tests.helpers.cli import diskoop
from tests.helpers.media import tone, write_sound
from tests.helpers.training import SERIES, Quiet

BRIEFLY = ("--repeats", "2", "--limit", "64")


@pytest.fixture(scope="module")
def series(series_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run without factors."""
    path = tmp_path_factory.mktemp("runs") / "series"
    return Path(shutil.copytree(series_run, path, ignore=shutil.ignore_patterns("factors.json")))


@pytest.fixture(scope="module")
def evaluated(series: Path) -> dict[str, Any]:
    """What `diskoop evaluate --json` says of the run in `series`."""
    said = diskoop("evaluate", str(series), *BRIEFLY, "--json", cwd=series.parent)
    assert said.returncode == 0, said.stderr
    facts: dict[str, Any] = json.loads(said.stdout.splitlines()[-1])
    return facts


def test_every_figure_carries_its_origin(series: Path, evaluated: dict[str, Any]) -> None:
    models = {model["name"]: model for model in evaluated["models"]}
    baselines = {"PCA + DMD", "slow features", "untrained network", "leaks on purpose"}
    assert models.keys() == {"ours", *baselines, "chance"}
    command = f"diskoop evaluate {series} --repeats 2 --limit 64 --json"
    for name in ("ours", *baselines):
        origin = models[name]["origin"]
        assert origin["command"] == command
        assert origin["commit"] == commit()
        assert origin["seed"] == 0
        assert origin["preset"].startswith("defaults, data.name=oscillators")
    values = from_records(models["ours"]["values"])
    score = values[Key("multifactor", "score")]
    assert (score.count, score.std is None) == (2, False)
    assert {Key("multifactor", column) for column in ("kept", "single_score", "single_kept")} <= values.keys()
    assert Key("swap_kept", "mark", "level") in values
    assert Key("swap_kept", "level", "level") not in values
    assert "required accuracy: none for this set" in " ".join(evaluated["notes"])
    assert evaluated["notes"][0].startswith("on 256 test clips of oscillators the model explains ")
    assert evaluated["verdict"]["clips"] == "256 test clips of oscillators"


def test_an_evaluation_is_written_for_people_and_programs(series: Path, evaluated: dict[str, Any]) -> None:
    names = ("evaluation.md", "evaluation.json", "matrix.png", "report.html")
    assert evaluated["files"] == [str(series / name) for name in names]
    assert "trained with seed 0" in (series / "report.html").read_text(encoding="utf-8")  # the scores and their origin
    results = read_results(series / "evaluation.json")
    assert results.models[0].values == from_records(evaluated["models"][0]["values"])
    text = (series / "evaluation.md").read_text(encoding="utf-8")
    assert text == results.markdown()
    for title in (
        "One factor at a time",
        "One factor at a time: what is kept",
        "Static part sampled",
        "What a linear probe reads",
        "Without labels",
    ):
        assert f"## {title}" in text
    assert load(series).factors is not None  # found on the way, and saved


def test_what_was_measured_is_not_measured_again(series: Path, evaluated: dict[str, Any]) -> None:
    again = diskoop("evaluate", str(series), *BRIEFLY, cwd=series.parent)
    assert "parts of this evaluation are in" in again.stderr
    assert "ours: errors" not in again.stderr
    assert "multifactor" in again.stdout
    other = diskoop("evaluate", str(series), *BRIEFLY, "--seed", "1", "--no-baselines", "--json", cwd=series.parent)
    assert "ours: errors" in other.stderr
    facts = json.loads(other.stdout.splitlines()[-1])
    assert [model["name"] for model in facts["models"]] == ["ours", "chance"]


def test_an_interrupted_evaluation_goes_on(series: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(series, tmp_path / "run", ignore=shutil.ignore_patterns("results"))

    def interrupt(run: Run, context: EvalContext) -> Outcome:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setitem(METRICS, "factor swaps", replace(METRICS["factor swaps"], measure=interrupt))
        stopped = diskoop("evaluate", "run", *BRIEFLY, cwd=tmp_path)
    assert stopped.returncode == 1
    assert "stopped with 3 parts measured; the same command goes on from there" in stopped.stderr
    again = diskoop("evaluate", "run", *BRIEFLY, "--no-baselines", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "3 parts of this evaluation are in" in again.stderr
    assert "ours: sampling\n" not in again.stderr
    assert "ours: factor swaps\n" in again.stderr


@pytest.mark.slow
def test_factors_of_a_model_that_learnt_nothing_are_measured_and_not_saved(video_run: Path, tmp_path: Path) -> None:
    shutil.copytree(video_run, tmp_path / "run")
    reporter = Quiet()
    run = ensure_factors(load(tmp_path / "run"), reporter)
    assert run.factors is not None
    assert not run.folder.factors.exists()
    assert "its factors are measured and not saved: the model explains " in reporter.messages[-1]


def test_runs_side_by_side(series: Path, tmp_path: Path) -> None:
    shutil.copytree(series, tmp_path / "one")
    loop.train(Settings.of(SERIES).replaced({"train": {"seed": 1}}), tmp_path / "two", reporter=Quiet())
    said = diskoop("compare", "one", "two", *BRIEFLY, "--out", "both", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    results = read_results(tmp_path / "both.json")
    assert [model.name for model in results.models] == ["one", "two"]
    scores = [model.values[Key("multifactor", "score")].mean for model in results.models]
    assert scores[0] != scores[1]
    text = (tmp_path / "both.md").read_text(encoding="utf-8")
    assert all(f"{name}: on 256 test clips of oscillators the model explains" in text for name in ("one", "two"))
    assert "## One factor at a time: what is kept" in text
    assert all(0 < model.values[Key("multifactor", "kept")].mean <= 1 for model in results.models)
    for words, sentence in (
        (["one"], "expected two different runs at least, got one"),
        (["one", "./one"], "expected two different runs at least"),
        (["one", "three"], "no run at 'three'"),
    ):
        refused = diskoop("compare", *words, cwd=tmp_path)
        assert refused.returncode == 2
        assert sentence in refused.stderr


def test_without_labels_there_are_errors_and_spectra(tmp_path: Path) -> None:
    for number in range(12):
        write_sound(tmp_path / "in" / f"{number}.wav", tone(0.4 + 0.02 * number, 200.0 + 40 * number))
    brief = {"model": {"k": 6, "h": 8}, "spectrum": {"static": 2}, "train": {"epochs": 1, "batch_size": 4}}
    loop.train(
        Settings.of({"data": {"path": str(tmp_path / "in"), "test_fraction": 0.3}, **brief}),
        tmp_path / "run",
        reporter=Quiet(),
    )
    said = diskoop("evaluate", "run", *BRIEFLY, "--json", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    facts = json.loads(said.stdout.splitlines()[-1])
    metrics = {each["metric"] for each in facts["models"][0]["values"]}
    assert metrics - {"factors"} == {"reconstruction", "prediction", "spectrum", "cycle", "cost"}
    assert any("no classifier" in note for note in facts["notes"])
    asked = diskoop("evaluate", "run", "--speaker-label", "speaker", cwd=tmp_path)
    assert asked.returncode == 2
    assert "unknown label 'speaker'" in asked.stderr
