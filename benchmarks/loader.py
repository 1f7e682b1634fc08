"""Does reading data ever hold up training, and does memory grow with the set? `python benchmarks/loader.py`

Trains for some steps on built-in video and sound and on a large `.npy` (a sparse file with blocks of real frames
scattered through it) and prints, for each, the time of a step, the share of it spent waiting for data, and how much
anonymous memory training took beyond what the process held when the model was ready.
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
from diskoop.settings import Settings
from diskoop.training.batches import read_ahead
from diskoop.training.checkpoint import RunFolder
from diskoop.training.loop import Training
from diskoop.training.progress import Reporter


class Cost(NamedTuple):
    """What training on a set took."""

    sequences: int
    gigabytes: float  # of the set
    step: float  # seconds, the median
    waiting: float  # share of all time that was spent waiting for data
    anonymous: float  # MiB of anonymous memory at most, beyond what there was before the first step
    touched: float  # share of batches with something other than zeros in them


def train_some(settings: Settings, steps: int) -> Cost:
    """Random batches from all over the set, as training draws them."""
    with tempfile.TemporaryDirectory() as folder:
        training = Training(settings, RunFolder(Path(folder)), Reporter())
    data, batch = training.train_set, settings.train.batch
    order = np.random.Generator(np.random.PCG64(0)).permutation(len(data))
    batches = [order[at : at + batch] for at in range(0, len(order) - batch + 1, batch)]
    batches = [batches[step % len(batches)] for step in range(steps)]
    weight = next(training.model.parameters())
    for ready in read_ahead(data, batches[:1], weight.dtype):
        training._take(ready)  # the first one sets things up
    gc.collect()
    before, most, waited, times, touched = anonymous(), 0.0, 0.0, [], 0
    began = last = time.perf_counter()
    for ready in read_ahead(data, batches, weight.dtype):
        waited += ready.waited
        training._take(ready)
        touched += bool(ready.x.any())
        most = max(most, anonymous() - before)
        now = time.perf_counter()
        times.append(now - last)
        last = now
    return Cost(
        len(data), data.frames.nbytes / 1e9, float(np.median(times)), waited / (last - began), most, touched / steps
    )


def anonymous() -> float:
    """MiB that belong to this process alone: mapped files do not count, the system takes them back when it likes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))


def scattered(path: Path, gigabytes: float, blocks: int = 200) -> Path:
    """A sparse array of 64-pixel video, black but for blocks of puppets here and there."""
    clips = load_data("puppets", "train", size=32)
    count = int(gigabytes * 1e9 / (8 * 3 * 64 * 64))
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=(count, 8, 3, 64, 64))
    random = np.random.Generator(np.random.PCG64(0))
    for begin in random.integers(0, count - 16, blocks):
        some = clips.take(random.integers(0, len(clips), 16))
        out[begin : begin + 16] = some.repeat(2, -1).repeat(2, -2)
    out.flush()
    del out
    with path.open("rb") as stream:  # so that reading starts from the disk
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return path


SMALL_NETWORK = {"model": {"k": 8, "h": 8, "width": 4}, "spectrum": {"static": 3}}


def cases(folder: Path, gigabytes: float, steps: int) -> Iterator[tuple[str, Settings, int]]:
    yield "puppets, 32 pixels, the demo's settings", Settings.load("demo"), min(steps, 100)
    paper = Settings.load("paper-sprites").replaced({"data": {"name": "puppets"}})
    yield "puppets, 64 pixels, the paper's settings", paper, min(steps, 10)
    speech = Settings.load("paper-timit").replaced({"data": {"name": "voices"}})
    yield "voices, the paper's settings", speech, min(steps, 20)
    path = scattered(folder / "large.npy", gigabytes)
    yield f"{gigabytes:g} GB .npy, a tiny network", Settings.of({"data": {"path": str(path)}, **SMALL_NETWORK}), steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=20.0, help="size of the large (sparse) file")
    parser.add_argument("--steps", type=int, default=500, help="training steps on the large file; fewer elsewhere")
    parser.add_argument("--large", action="store_true", help="only the large file")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    choice = parser.parse_args()
    costs = {}
    print(f"{'set':42} {'GB':>6} {'steps':>5} {'step':>9} {'waiting':>8} {'anonymous':>10} {'touched':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for name, settings, steps in cases(Path(folder), choice.gigabytes, choice.steps):
            if choice.large and settings.data.path is None:
                continue
            costs[name] = cost = train_some(settings, steps)
            print(
                f"{name:42} {cost.gigabytes:6.2f} {steps:5} {1000 * cost.step:6.0f} ms {cost.waiting:8.2%} "
                f"{cost.anonymous:6.0f} MiB {cost.touched:8.0%}",
                flush=True,
            )
    if choice.json:
        print(json.dumps({name: cost._asdict() for name, cost in costs.items()}))


if __name__ == "__main__":
    main()
