"""Plans of experiments: their settings, their rows, and one that runs."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from benchmarks import experiments
from diskoop.errors import InputError
from diskoop.run_folder import RunFolder
from diskoop.settings import Settings
from diskoop.training.loop import with_absolute_paths
from diskoop.training.progress import Reporter
from diskoop.workflows.training import train_or_resume

PLANS = sorted((Path(experiments.__file__).parent / "plans").glob("*.yaml"))


@pytest.mark.parametrize("file", PLANS, ids=lambda file: str(file.stem))
def test_every_plan_can_be_carried_out(file: Path) -> None:
    plan = experiments.read_plan(file, ["data.limit=64"])
    folders = set()
    for name in plan["runs"]:
        settings = experiments.settings_of(plan, name, 3, "cpu")
        assert (settings.train.seed, settings.train.device, settings.data.limit) == (3, "cpu", 64)
        folders.add(experiments.folder_of(Path("out"), name, 3))
    assert len(folders) == len(plan["runs"])


def test_names_with_dots_stay_apart() -> None:
    paths = [experiments.folder_of(Path("out"), name, 0) for name in ("lr .01", "lr .016")]
    assert [experiments.beside(path, "val.json").name for path in paths] == ["lr-.01-0.val.json", "lr-.016-0.val.json"]


def test_a_run_is_known_again_whose_data_lie_at_a_relative_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = Settings.load("demo").replaced({"data": {"path": "sheets"}})
    folder = RunFolder(tmp_path / "run")
    with_absolute_paths(settings).save(folder.settings)
    for file in (folder.model, folder.operator):
        file.touch()  # trained, so it is not trained but opened
    with pytest.raises(InputError, match=r"model.safetensors is damaged"):
        train_or_resume(settings, folder.path, "", Reporter())


def test_a_run_of_other_settings_is_not_taken_for_the_plans(tmp_path: Path) -> None:
    settings = Settings.load("demo")
    settings.save(RunFolder(tmp_path).settings)
    with pytest.raises(InputError, match="holds a run with other settings"):
        train_or_resume(settings.replaced({"loss": {"rec": 1.0}}), tmp_path, "", Reporter())


def test_a_table_has_the_mean_and_the_worst() -> None:
    rows = [
        {"run": "one", "score": 0.9, "kept": 1.0, "count": 5, "training seconds": 10.0},
        {"run": "one", "score": 1.0, "kept": 0.5, "count": 6, "training seconds": 20.0},
    ]
    assert experiments.table(rows).splitlines()[-1] == "| one | 0.950 (0.900) | 0.750 (0.500) |  |  | 5 6 | 15 |"


@pytest.mark.slow
def test_a_plan_is_trained_scored_and_not_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Brief, so scores are poor; what they are made of is there, and a second call finds everything done."""
    file = tmp_path / "plan.yaml"
    brief = {"data": {"limit": 320}, "train": {"epochs": 1}, "model": {"width": 4}}
    file.write_text(yaml.safe_dump({"base": "demo", "settings": brief, "runs": {"as it is": None}, "split": "val"}))
    monkeypatch.setattr("sys.argv", ["experiments.py", str(file), str(tmp_path / "runs"), "--device", "cpu"])
    experiments.main()
    (row,) = [json.loads(path.read_text()) for path in (tmp_path / "runs").glob("*.json")]
    assert (row["run"], row["seed"], row["split"], row["steps"]) == ("as it is", 0, "val", 10)
    assert len(row["fading"]) == 8
    assert {"forecast", "holding", "DMD", "action"} <= set(row["beyond"])
    assert 0 < row["beyond"]["holding"] < 1
    assert np.isfinite(row["score"])
    before = (tmp_path / "runs" / "as-it-is-0" / "model.safetensors").stat().st_mtime_ns
    experiments.main()
    assert (tmp_path / "runs" / "as-it-is-0" / "model.safetensors").stat().st_mtime_ns == before
    assert capsys.readouterr().out.count("as it is, seed 0: score") == 2
