"""What does a swap cost beside the networks it goes through? `python benchmarks/editing.py`

Times, on the CPU, encoding and decoding a batch of video, and taking the same batch apart, swapping and decoding it,
one after the other so that whatever else the machine does hits both; then a swap of two sequences as someone who tries
things out waits for it. The networks have the paper's size; their weights are random, which speed does not depend on.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from diskoop.data.sequences import PIXELS, Sequences
from diskoop.models.autoencoder import build_model
from diskoop.numerics.operator import Operator
from diskoop.run import Run
from diskoop.run_folder import RunFolder
from diskoop.settings import Settings

RATIO, WAIT = 1.2, 0.1  # what we hold ourselves to: a swap beside its networks, and seconds for two sequences
CLIP = (8, 3)  # frames and channels


class Cost(NamedTuple):
    """Seconds, each the median."""

    networks: float  # a batch encoded and decoded
    swap: float  # the same batch taken apart, swapped and decoded
    ratio: float  # of the second to the first
    two: float  # two sequences taken apart, swapped and decoded


def untrained(size: int) -> Run:
    """A run that has learnt nothing, with networks of the paper's size."""
    torch.manual_seed(0)
    settings = Settings.of({"model": {"k": 40, "h": 40, "width": 32}, "spectrum": {"static": 8}})
    k = settings.model.k
    operator = Operator(torch.randn(k, k).double() / k**0.5, torch.tensor(k), torch.ones(()), 1, 1, "nothing")
    model = build_model(settings.model, (CLIP[1], size, size)).eval()
    return Run(settings, model, operator, PIXELS, RunFolder(Path("nowhere")))


def some_video(count: int, size: int) -> Sequences:
    random = np.random.Generator(np.random.PCG64(0))
    return Sequences.of(random.integers(0, 256, (count, *CLIP, size, size), dtype=np.uint8))


def swapped(run: Run, clips: Sequences) -> None:
    run.decompose(clips).swap("static", donor=np.roll(np.arange(len(clips)), 1)).decode()


def measure(batch: int, size: int, repetitions: int) -> Cost:
    run, clips = untrained(size), some_video(batch, size)
    pair = clips.select([0, 1])
    x, _ = clips.batch(np.arange(batch), next(run.model.parameters()))
    with torch.no_grad():
        seconds = interleaved(
            [lambda: run.model(x), lambda: swapped(run, clips), lambda: swapped(run, pair)], repetitions
        )
    networks, swap, two = np.median(seconds, axis=0).tolist()
    return Cost(networks, swap, swap / networks, two)


def interleaved(works: list[Callable[[], object]], repetitions: int) -> list[list[float]]:
    """A row of seconds for each repetition, in which everything comes once; before that once unmeasured, to warm up."""
    for work in works:
        work()
    return [[seconds_of(work) for work in works] for _ in range(repetitions)]


def seconds_of(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=32, help="sequences in a batch, at least 2")
    parser.add_argument("--size", type=int, default=64, help="pixels across")
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    choice = parser.parse_args()
    cost = measure(choice.batch, choice.size, choice.repetitions)
    shape = " x ".join(map(str, (*CLIP, choice.size, choice.size)))
    print(f"medians of {choice.repetitions}, {torch.get_num_threads()} threads, sequences of {shape}")
    for what, figure in (
        (f"{choice.batch} encoded and decoded", f"{1000 * cost.networks:.1f} ms"),
        (f"{choice.batch} taken apart, swapped and decoded", f"{1000 * cost.swap:.1f} ms"),
        (f"ratio, wanted below {RATIO:g}", f"{cost.ratio:.3f}"),
        (f"2 taken apart, swapped and decoded, wanted below {1000 * WAIT:.0f} ms", f"{1000 * cost.two:.1f} ms"),
    ):
        print(f"{what:55} {figure:>12}")
    if choice.json:
        print(json.dumps(cost._asdict()))


if __name__ == "__main__":
    main()
