"""An estimate leaves the run alone and counts what it should."""

from pathlib import Path

import pytest
import torch

from diskoop.run_folder import RunFolder
from diskoop.training import loop
from diskoop.training.estimate import Estimate, format_duration
from tests.helpers.training import SMALL, Quiet


def test_estimates_leave_the_run_alone_and_count_its_parameters(tmp_path: Path) -> None:
    training = loop.Trainer(SMALL, RunFolder(tmp_path), Quiet())
    before = {name: tensor.clone() for name, tensor in training.model.state_dict().items()}
    cost = training.estimate_cost()
    assert all(torch.equal(before[name], tensor) for name, tensor in training.model.state_dict().items())
    assert all(parameter.grad is None for parameter in training.model.parameters())
    assert cost.parameters == sum(p.numel() for p in training.model.parameters())
    assert cost.seconds > 0
    doubled = loop.Trainer(SMALL.replaced({"train": {"batch_size": 40}}), RunFolder(tmp_path), Quiet()).estimate_cost()
    weights = 16 * cost.parameters
    assert 1.8 < (doubled.bytes - weights) / (cost.bytes - weights) < 2.2  # activations grow with the batch


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.4, "59 s"), (200, "3 min 20 s"), (3599.6, "1 h 00 min"), (7500, "2 h 05 min")],
)
def test_clock(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_an_estimate_reads_well() -> None:
    text = str(Estimate(seconds=200, parameters=1_735_251, bytes=3 * 2**29))
    assert text == "1.735 M parameters, about 3 min 20 s and 1.50 GiB"
