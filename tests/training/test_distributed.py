"""Several processes take the steps that one would take."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from diskoop.data.registry import DATA_SETS
from tests.helpers.processes import CASES, record_steps, register_sets, start_processes


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What two processes compute in every case."""
    folder = tmp_path_factory.mktemp("recorded")
    known = dict(DATA_SETS)
    register_sets()
    started = start_processes("tests.helpers.processes", count=2, cwd=folder)
    for process in started:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
    yield folder
    DATA_SETS.clear()
    DATA_SETS.update(known)


@pytest.mark.parametrize("case", CASES)
def test_two_processes_equal_one(case: str, recorded: Path) -> None:
    """Losses, gradients, weights, statistics of batch norm, validation and the frozen operator, in float64."""
    two, one = load_file(recorded / f"{list(CASES).index(case)}.safetensors"), record_steps(case)
    assert two.keys() == one.keys()
    for name, value in one.items():
        assert np.allclose(two[name], value, rtol=1e-7, atol=1e-9 * max(1.0, np.abs(value).max())), name
