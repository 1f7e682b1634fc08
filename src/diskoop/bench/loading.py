"""rate at which batches reach the device, compared with what a step needs"""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from diskoop.bench.steps import SPRITES, Case, default_step, random_sequences, step_variant
from diskoop.bench.timing import BenchConfig, BenchTable, Variant, default_precision, time_interleaved
from diskoop.data.batches import BatchLoader, DeviceLoader, prefetch
from diskoop.data.sequences import Sequences

NUM_SEQUENCES = {"cuda": 4096, "cpu": 512}


def measure_loading(config: BenchConfig, case: Case = SPRITES, count: int | None = None) -> Iterator[BenchTable]:
    """Time batches from the device's own memory and from a file, and a training step for comparison."""
    device, batch_size = config.device, case.settings.train.batch_size
    case = case.on(device, default_precision(device)[1])
    data = random_sequences(case, count or NUM_SEQUENCES[device.type])
    order = np.random.Generator(np.random.PCG64(0)).permutation(len(data))
    batches = [order[at : at + batch_size] for at in range(0, len(order) - batch_size + 1, batch_size)]
    weight = torch.zeros(1, device=device)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # Windows cannot delete a mapped file
        streamed = _map_from_disk(data, Path(folder) / "noise.npy")
        pinned = device.type == "cuda"
        loaders: dict[str, BatchLoader] = {
            "resident": DeviceLoader(data, weight),
            "streamed": partial(prefetch, streamed, dtype=weight.dtype, pinned=pinned),
        }
        variants: dict[str, Variant] = {
            name: partial(_load_all, loader, batches, device) for name, loader in loaders.items()
        }
        timings = time_interleaved(variants, config, "loading")
    batch = data.select(np.arange(batch_size))
    variant = step_variant(default_step(case, batch, device), case, batch, device)
    (step,) = time_interleaved({"step": variant}, config, "a step").values()
    rates = {name: 1000 * len(batches) * batch_size / timing.ms for name, timing in timings.items()}
    rates["needed by a step"] = 1000 * batch_size / step.ms
    size = data.frames[0].nbytes * case.num_frames / 1e6
    rows = [
        {
            "source": name,
            "sequences/s": rate,
            "MB/s": rate * size,
            "relative to a step": rate * step.ms / 1000 / batch_size,
        }
        for name, rate in rates.items()
    ]
    title = (
        f"batches of {batch_size} out of {len(data)} sequences: on the device, or prefetched from a file in the "
        "system's page cache"
    )
    yield BenchTable(title, rows)


def _load_all(loader: BatchLoader, batches: Sequence[Any], device: torch.device) -> None:
    for batch in loader(batches):
        batch.x.to(device, non_blocking=True)


def _map_from_disk(data: Sequences, path: Path) -> Sequences:
    """The same sequences, memory-mapped from the file `path`."""
    np.save(path, data.frames)
    return replace(data, frames=np.load(path, mmap_mode="r"))
