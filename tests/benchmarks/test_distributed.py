"""The sums of a step are counted and timed in processes that make them."""

import pytest
import torch
from torch import nn

from benchmarks import distributed
from diskoop.distributed import ALONE
from diskoop.models.autoencoder import build_model
from diskoop.settings import Settings


@pytest.mark.slow
def test_the_sums_of_a_step_are_those_of_two_processes() -> None:
    found = distributed.run(2, threads=1, steps=1)
    model = build_model(Settings.load("demo").model, distributed.SHAPE[1:])
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    assert found["weights"] == sum(weight.numel() for weight in model.parameters())
    assert found["bytes"].count(4 * found["weights"]) == 1  # the gradients, in one message
    for norm in norms:  # counts, means and variances, and their gradients
        for values in (1 + norm.num_features, norm.num_features):
            assert found["bytes"].count(4 * values) >= 2
    assert len(found["alone"]) == len(found["bytes"]) > 4 * len(norms)
    assert sum(found["alone"]) > 0
    assert 0 < found["summing"] < found["seconds"]


def test_one_process_sums_nothing() -> None:
    with distributed.recorded_sums() as sums:
        assert ALONE.sum(torch.ones(2)).tolist() == [1, 1]
    assert sums == []


def test_the_line_on_sums(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    facts = {"seconds": 0.1, "weights": 9, "k": 3, "bytes": [8, 4000], "alone": [0.0002, 0.0007], "summing": 0.05}
    monkeypatch.setattr(distributed, "run", lambda count, *_: facts if count == 2 else facts | {"alone": []})
    monkeypatch.setattr("sys.argv", ["distributed.py", "--rounds", "1"])
    distributed.main()
    assert capsys.readouterr().out.splitlines()[-1] == (
        "a step of two processes has 2 sums of 8 to 4,000 bytes: 50 ms with waiting; 0.20 to 0.70 ms each, 1 ms in "
        "all, where both arrive together"
    )
