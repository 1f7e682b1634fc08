"""The time of a training step in two processes and in one, taking turns on this machine (docs/scaling.md).

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

import numpy as np
import torch

from diskoop.data import Sequences
from diskoop.distributed import join
from diskoop.models.autoencoder import build_model
from diskoop.models.synchronized import synchronize_batch_norm
from diskoop.settings import Settings
from diskoop.training.objective import Objective
from diskoop.training.step import PlainStep, adam

SHAPE = (8, 3, 32, 32)  # of a clip


def measure(threads: int, steps: int) -> None:
    """Time steps in this process and those started with it; the main one prints seconds per step as JSON."""
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
    seconds = []
    for number in range(steps + 2):
        start = time.perf_counter()
        step.take(x, mask, 1e-3, torch.Generator().manual_seed(number))
        seconds.append(time.perf_counter() - start)
    if processes.is_main:
        weights = sum(weight.numel() for weight in model.parameters())
        print(json.dumps({"seconds": statistics.median(seconds[2:]), "weights": weights, "k": settings.model.k}))


def run(count: int, threads: int, steps: int) -> dict[str, float]:
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
    found: dict[str, float] = json.loads(printed[0])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often the variants take turns")
    parser.add_argument("--steps", type=int, default=10, help="measured in each turn, after two that are not")
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
    found: dict[str, float] = {}
    for _ in range(options.rounds):
        for name, (count, threads) in variants.items():
            found = run(count, threads, options.steps)
            seconds[name].append(found["seconds"])
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    base = medians["one process, 1 thread"]
    print(f"demo: {found['weights']:.0f} weights, k = {found['k']:.0f}; {cores} cores, load {os.getloadavg()[0]:.1f}")
    for name, value in medians.items():
        print(f"  {name:24} {value * 1e3:7.0f} ms a step {value / base:8.2f} of one process, 1 thread")


if __name__ == "__main__":
    main()
