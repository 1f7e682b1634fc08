"""What all tests share: a cache of their own, small trained runs, known operators."""

import os

# Before torch is loaded: threads that wait sleep soon, see cli/app.py; the processes of one test run share the cores.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")
os.environ.setdefault(
    "OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))))
)

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from diskoop.run import load
from diskoop.settings import Settings
from diskoop.training import loop
from tests.helpers.media import tone, write_sound
from tests.helpers.training import SERIES, Quiet

WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))


# Minutes each: one that began last would keep a single process busy at the end.
LONGEST = (
    "test_the_demo_separates_static_from_dynamic",
    "test_a_trained_run_finds_and_swaps_the_known_factors",
    "test_commands_write_what_one_process_writes",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.name.partition("[")[0] not in LONGEST)


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Nothing is read from or left in the user's cache; child processes inherit it, and workers share it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if WORKERS == 1 else base.parent) / "cache"
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DISKOOP_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session")
def series_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run on oscillators with factors. Whoever writes to it copies it first."""
    path = tmp_path_factory.mktemp("runs") / "series"
    loop.train(Settings.of(SERIES), path, reporter=Quiet())
    load(path).save_factors(load(path).find_factors())
    return path


@pytest.fixture(scope="session")
def video_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four steps on puppets, without factors. Whoever writes to it copies it first."""
    path = tmp_path_factory.mktemp("runs") / "video"
    brief = Settings.load("demo").replaced({"data": {"limit": 128}, "train": {"epochs": 1}})
    loop.train(brief, path, reporter=Quiet())
    return path


@pytest.fixture(scope="session")
def sound_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An epoch on ten tones of unequal length, without factors. Whoever writes to it copies it first."""
    folder = tmp_path_factory.mktemp("sound")
    for number in range(10):
        write_sound(folder / "in" / f"{number}.wav", tone(0.4 + 0.02 * number, 200.0 + 40 * number))
    brief = {"model": {"k": 6, "h": 8}, "spectrum": {"static": 2}, "train": {"epochs": 1, "batch_size": 4}}
    loop.train(Settings.of({"data": {"path": str(folder / "in")}, **brief}), folder / "run", reporter=Quiet())
    return folder / "run"


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
