"""Examples in docstrings run, and say what they say."""

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest
import torch

import diskoop

MODULES = [name for _, name, _ in pkgutil.walk_packages(diskoop.__path__, "diskoop.") if not name.endswith("__main__")]
KERNELS = (
    "diskoop.kernels.batch_norm",
    "diskoop.kernels.small_channel_conv",
    "diskoop.kernels.ridge_solver",
)  # need Triton


def examples(name: str) -> list[doctest.DocTest]:
    module = importlib.import_module(name)
    names = {"torch": torch, "diskoop": diskoop}
    found = doctest.DocTestFinder(exclude_empty=True).find(module, extraglobs=names)
    return [each for each in found if each.examples]


WITH_EXAMPLES = [each for name in MODULES if name not in KERNELS for each in examples(name)]


@pytest.mark.parametrize("example", WITH_EXAMPLES, ids=lambda each: str(each.name))
def test_an_example_says_what_it_says(example: doctest.DocTest, tmp_path: Path) -> None:
    torch.manual_seed(0)
    example.globs["folder"] = tmp_path
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    result = runner.run(example)
    assert result.attempted
    assert not result.failed


@pytest.mark.parametrize("name", ["fit_operator", "Spectrum", "Factor", "swap", "spectral_loss", "SnapshotQR"])
def test_what_users_touch_has_one(name: str) -> None:
    assert any(each.name.split(".")[-1] == name for each in WITH_EXAMPLES)
