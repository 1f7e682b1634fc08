"""Time spent waiting for data and memory used while training: `python benchmarks/loader.py`

Trains for some steps on built-in video and audio and on a large `.npy` (a sparse file with blocks of real frames
scattered through it). Prints for each the time of a step, the fraction of it spent waiting for data, and the anonymous
memory that training needed beyond that of the process with its model.
"""

import argparse
import gc
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from diskoop.data import load_data
from diskoop.data.batches import prefetch
from diskoop.memory import anonymous_memory
from diskoop.run_folder import RunFolder
from diskoop.settings import Settings
from diskoop.training.loop import Trainer
from diskoop.training.progress import Reporter


class Cost(NamedTuple):
    """Time and memory of training on a data set."""

    sequences: int
    gigabytes: float  # of the data set
    step: float  # median seconds
    waiting: float  # fraction of all time spent waiting for data
    anonymous: float  # peak MiB of anonymous memory, beyond that before the first step
    touched: float  # fraction of batches that are not all zeros


def measure_training(settings: Settings, steps: int) -> Cost:
    """Train on random batches, as `diskoop train` draws them."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(settings, RunFolder(Path(folder)), Reporter())
    data, size = trainer.train_set, settings.train.batch_size
    order = np.random.Generator(np.random.PCG64(0)).permutation(len(data))
    batches = [order[at : at + size] for at in range(0, len(order) - size + 1, size)]
    batches = [batches[step % len(batches)] for step in range(steps)]
    weight = next(trainer.model.parameters())
    for batch in prefetch(data, batches[:1], weight.dtype):
        trainer._train_step(batch)  # warm-up
    gc.collect()
    before, peak, waited, times, touched = anonymous_memory(), 0.0, 0.0, [], 0
    start = last = time.perf_counter()
    for batch in prefetch(data, batches, weight.dtype):
        waited += batch.waited
        trainer._train_step(batch)
        touched += bool(batch.x.any())
        peak = max(peak, anonymous_memory() - before)
        now = time.perf_counter()
        times.append(now - last)
        last = now
    return Cost(
        len(data), data.frames.nbytes / 1e9, float(np.median(times)), waited / (last - start), peak, touched / steps
    )


def write_sparse_video(path: Path, gigabytes: float, blocks: int = 200) -> Path:
    """A sparse array of 64-pixel video, black but for some blocks of puppets."""
    clips = load_data("puppets", "train", size=32)
    count = int(gigabytes * 1e9 / (8 * 3 * 64 * 64))
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=(count, 8, 3, 64, 64))
    random = np.random.Generator(np.random.PCG64(0))
    for begin in random.integers(0, count - 16, blocks):
        block = clips.read(random.integers(0, len(clips), 16))
        out[begin : begin + 16] = block.repeat(2, -1).repeat(2, -2)
    out.flush()
    del out
    with path.open("rb") as stream:  # drop it from the page cache
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return path


SMALL_NETWORK = {"model": {"k": 8, "h": 8, "width": 4}, "spectrum": {"static": 3}}


def cases(folder: Path, gigabytes: float, steps: int) -> Iterator[tuple[str, Settings, int]]:
    yield "puppets, 32 pixels, the demo's settings", Settings.load("demo"), min(steps, 100)
    paper = Settings.load("paper-sprites").replaced({"data": {"name": "puppets"}})
    yield "puppets, 64 pixels, the paper's settings", paper, min(steps, 10)
    speech = Settings.load("paper-timit").replaced({"data": {"name": "voices"}})
    yield "voices, the paper's settings", speech, min(steps, 20)
    path = write_sparse_video(folder / "large.npy", gigabytes)
    yield f"{gigabytes:g} GB .npy, a tiny network", Settings.of({"data": {"path": str(path)}, **SMALL_NETWORK}), steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=20.0, help="size of the large (sparse) file")
    parser.add_argument("--steps", type=int, default=500, help="training steps on the large file; fewer elsewhere")
    parser.add_argument("--large", action="store_true", help="only the large file")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    options = parser.parse_args()
    costs = {}
    print(f"{'set':42} {'GB':>6} {'steps':>5} {'step':>9} {'waiting':>8} {'anonymous':>10} {'touched':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for name, settings, steps in cases(Path(folder), options.gigabytes, options.steps):
            if options.large and settings.data.path is None:
                continue
            costs[name] = cost = measure_training(settings, steps)
            print(
                f"{name:42} {cost.gigabytes:6.2f} {steps:5} {1000 * cost.step:6.0f} ms {cost.waiting:8.2%} "
                f"{cost.anonymous:6.0f} MiB {cost.touched:8.0%}",
                flush=True,
            )
    if options.json:
        print(json.dumps({name: cost._asdict() for name, cost in costs.items()}))


if __name__ == "__main__":
    main()
