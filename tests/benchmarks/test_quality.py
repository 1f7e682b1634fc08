"""The table of qualities: which ways there are, and whole trainings in them."""

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
    small = {"data": {"limit": 16}, "train": {"epochs": 2, "batch": 8, "device": "cpu"}, "model": {"width": 4}}
    row = quality.trained(Settings.load("demo").replaced(small), True, tmp_path / "run")
    assert list(row) == ["epoch 1", "epoch 2", "validation"]
    assert min(row.values()) > 0
    assert (tmp_path / "run" / "operator.safetensors").exists()


def test_a_summary_is_the_mean_and_the_span() -> None:
    rows = [{"score": 0.5}, {"score": 1.0}, {"score": 0.9}]
    assert quality.summary(rows) == {"score": {"mean": pytest.approx(0.8), "low": 0.5, "high": 1.0}}
