"""What all tests share: small threads, a cache of their own, known operators."""

import os

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # before torch is loaded; see interfaces/cli.py

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Nothing is read from or left in the user's cache; child processes inherit it."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DISKOOP_CACHE", str(folder))
        yield folder


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(20230501)


@pytest.fixture
def operator(generator: torch.Generator) -> Tensor:
    """A (7, 7) matrix with known eigenvalues: 1, 0.9, two turning pairs and a small one."""
    return matrix_with([1.0, 0.9, 0.6 + 0.5j, 0.2 + 0.3j, -0.1], generator)


def matrix_with(eigenvalues: list[complex], generator: torch.Generator) -> Tensor:
    """A random float64 matrix with these eigenvalues; each complex one brings its conjugate along."""
    blocks = []
    for value in map(complex, eigenvalues):
        if value.imag:
            blocks.append(torch.tensor([[value.real, value.imag], [-value.imag, value.real]], dtype=torch.float64))
        else:
            blocks.append(torch.tensor([[value.real]], dtype=torch.float64))
    diagonal: Tensor = torch.block_diag(*blocks)  # type: ignore[no-untyped-call]
    basis = torch.randn(diagonal.shape, generator=generator, dtype=torch.float64) + 2 * torch.eye(len(diagonal))
    matrix: Tensor = torch.linalg.solve(basis, diagonal) @ basis
    return matrix


def trajectories(C: Tensor, batch: int, time: int, generator: torch.Generator) -> Tensor:
    """(batch, time, k) sequences that follow z_{t+1} = z_t C exactly."""
    z = [torch.randn(batch, len(C), generator=generator, dtype=C.dtype)]
    for _ in range(time - 1):
        z.append(z[-1] @ C)
    return torch.stack(z, 1)


def real_data(folder: str) -> Path:
    """A folder of real recordings or pictures that nobody may ship; the test is skipped where it is not there."""
    where = os.environ.get("DISKOOP_DATA")
    if where is None or not (Path(where) / folder).is_dir():
        pytest.skip(f"DISKOOP_DATA names no folder that holds {folder}/")
    return Path(where) / folder
