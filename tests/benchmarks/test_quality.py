"""The table of qualities: which ways there are, and whole trainings in them."""

import json
from pathlib import Path

import pytest

from benchmarks import quality
from diskoop.settings import Settings


def test_ways_of_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quality, "computes_in_bf16", lambda device: True)
    assert quality.ways("cpu") == {"plain, float32": ("32", True), "plain, bf16": ("bf16", False)}
    assert list(quality.ways("cuda")) == ["plain, float32", "captured, float32", "captured, bf16"]
    monkeypatch.setattr(quality, "computes_in_bf16", lambda device: False)
    assert list(quality.ways("cpu")) == ["plain, float32"]


def test_a_whole_training_leaves_a_run_and_its_losses(tmp_path: Path) -> None:
    small = {"data": {"limit": 16}, "train": {"epochs": 2, "batch_size": 8, "device": "cpu"}, "model": {"width": 4}}
    row = quality.trained(Settings.load("demo").replaced(small), True, tmp_path / "run")
    assert list(row) == ["epoch 1", "epoch 2", "validation"]
    assert min(row.values()) > 0
    assert (tmp_path / "run" / "operator.safetensors").exists()


def test_a_summary_is_the_mean_and_the_span() -> None:
    rows = [{"score": 0.5}, {"score": 1.0}, {"score": 0.9}]
    assert quality.summary(rows) == {"score": {"mean": pytest.approx(0.8), "low": 0.5, "high": 1.0}}


def test_a_run_is_told_by_its_end() -> None:
    row = {"epoch 1": 0.5, "epoch 2": 0.25, "validation": 0.125, "score": 0.8}
    assert quality.told(row) == "epoch 2 0.2500, validation 0.1250, score 0.8000"


def test_seeds_are_asked_for_by_number(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[int] = []

    def trained(settings: Settings, plain: bool, path: Path) -> quality.Row:
        asked.append(settings.train.seed)
        return {"epoch 1": 1.0, "validation": 2.0}

    monkeypatch.setattr(quality, "trained", trained)
    monkeypatch.setattr(quality, "score", lambda *_: 0.5 + asked[-1])
    monkeypatch.setattr(quality, "ways", lambda device: {"plain": ("32", True), "other": ("bf16", False)})
    words = ["quality.py", "--first", "3", "--seeds", "2", "--device", "cpu", "--json"]
    monkeypatch.setattr("sys.argv", [*words, "--only", "other"])
    quality.main()
    assert asked == [3, 4]
    assert list(json.loads(capsys.readouterr().out.splitlines()[-1])["rows"]) == ["other"]
    monkeypatch.setattr("sys.argv", words)
    quality.main()
    assert asked[2:] == [3, 3, 4, 4]
    printed = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert printed["summary"]["other"]["score"] == {"mean": 4.0, "low": 3.5, "high": 4.5}
    assert printed["rows"]["plain"][0] == {"epoch 1": 1.0, "validation": 2.0, "score": 3.5}


def test_an_unknown_way_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["quality.py", "--only", "captive", "--device", "cpu"])
    with pytest.raises(SystemExit) as ended:
        quality.main()
    assert ended.value.code == 2
    assert "one of plain, float32" in capsys.readouterr().err
