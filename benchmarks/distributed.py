"""The time of a training step, and of its sums, in two processes and in one that take turns (docs/scaling.md).

Every process has as many threads as it would have if all cores were shared out, and the batch is the same.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from diskoop import distributed
from diskoop.data import Sequences
from diskoop.distributed import join
from diskoop.models.autoencoder import build_model
from diskoop.models.synchronized import synchronize_batch_norm
from diskoop.settings import Settings
from diskoop.training.objective import Objective
from diskoop.training.step import PlainStep, adam

SHAPE = (8, 3, 32, 32)  # of a clip
WARM_UP = 2  # steps that are not measured
REPEATS = 20  # of each sum by itself


@contextmanager
def recorded_sums() -> Iterator[list[tuple[Tensor, float]]]:
    """Every tensor that is summed over processes in this block, and the seconds of its sum, waiting included."""
    reduced, sums = distributed._reduced, list[tuple[Tensor, float]]()

    def recorded(x: Tensor, operation: Any = dist.ReduceOp.SUM) -> Tensor:
        start = time.perf_counter()
        total = reduced(x, operation)
        sums.append((x.detach(), time.perf_counter() - start))
        return total

    distributed._reduced = recorded
    try:
        yield sums
    finally:
        distributed._reduced = reduced


def measure(threads: int, steps: int) -> None:
    """Time steps and sums in this process and those started with it; the main one prints them as JSON."""
    processes = join()
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    settings = Settings.load("demo")
    shape = (settings.train.batch_size, *SHAPE)
    data = Sequences.of(np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8))
    model = build_model(settings.model, data.shape[2:])
    if processes.world_size > 1:
        synchronize_batch_norm(model, processes)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    processes.broadcast(list(model.state_dict().values()))
    step = PlainStep(Objective(model, settings, processes).train(), adam(model, 1e-3, torch.device("cpu")), data)
    batch = settings.train.batch_size
    x, mask = data.read_batch(np.arange(batch)[processes.own_slice(batch)], torch.float32)
    seconds, summing = [], []
    for number in range(WARM_UP + steps):
        with recorded_sums() as sums:
            start = time.perf_counter()
            step.take(x, mask, 1e-3, torch.Generator().manual_seed(number))
            seconds.append(time.perf_counter() - start)
        summing.append(sum(each for _, each in sums))
    alone = []
    for tensor, _ in sums:
        with recorded_sums() as again:
            for _ in range(REPEATS):  # one right after another: all processes come at the same time
                processes.sum(tensor)
        alone.append(statistics.median(each for _, each in again))
    if processes.is_main:
        found = {"seconds": seconds, "summing": summing}
        medians: dict[str, Any] = {name: statistics.median(values[WARM_UP:]) for name, values in found.items()}
        sizes = [tensor.nbytes for tensor, _ in sums]
        facts = {"weights": sum(weight.numel() for weight in model.parameters()), "k": settings.model.k}
        print(json.dumps({**medians, **facts, "bytes": sizes, "alone": sorted(alone)}))


def run(count: int, threads: int, steps: int) -> dict[str, Any]:
    """`measure` in `count` processes."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    command = [sys.executable, __file__, "--measure", "--threads", str(threads), "--steps", str(steps)]
    shared = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    shared |= {"OMP_NUM_THREADS": str(threads), "GOMP_SPINCOUNT": "1000"}  # waiting threads sleep soon
    started = [
        subprocess.Popen(
            command, env=os.environ | shared | {"RANK": str(rank)},
            stdout=subprocess.PIPE, text=True,
        )
        for rank in range(count)
    ]  # fmt: skip
    printed = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        sys.exit(f"a process ended with {[process.returncode for process in started]}")
    found: dict[str, Any] = json.loads(printed[0])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often the variants take turns")
    parser.add_argument("--steps", type=int, default=10, help="measured in each turn, after a few that are not")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.threads, options.steps)
        return
    cores = os.cpu_count() or 1
    variants = {
        "one process, 1 thread": (1, 1),
        f"one process, {cores} threads": (1, cores),
        "two processes": (2, max(1, cores // 2)),
    }
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    found: dict[str, Any] = {}
    for _ in range(options.rounds):
        for name, (count, threads) in variants.items():
            found = run(count, threads, options.steps)
            seconds[name].append(found["seconds"])
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    base = medians["one process, 1 thread"]
    print(f"demo: {found['weights']:.0f} weights, k = {found['k']:.0f}; {cores} cores, load {os.getloadavg()[0]:.1f}")
    for name, value in medians.items():
        print(f"  {name:24} {value * 1e3:7.0f} ms a step {value / base:8.2f} of one process, 1 thread")
    alone, sizes = [each * 1e3 for each in found["alone"]], found["bytes"]  # of two processes, which came last
    print(
        f"a step of two processes has {len(sizes)} sums of {min(sizes):,} to {max(sizes):,} bytes: "
        f"{found['summing'] * 1e3:.0f} ms with waiting; {alone[0]:.2f} to {alone[-1]:.2f} ms each, "
        f"{sum(alone):.0f} ms in all, where both arrive together"
    )


if __name__ == "__main__":
    main()
