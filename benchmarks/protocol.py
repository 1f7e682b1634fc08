"""How long does the paper's two-factor protocol take? `python benchmarks/protocol.py`

Sequences of random pixels are taken apart in batches, each with an operator of its own. Then one half of every sequence
is sampled, decoded and classified, again and again, and the same is done with the other half. Networks and classifier
have the sizes of the paper's Sprites; their weights are random, which speed does not depend on.
"""

import argparse
import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from diskoop.bench.inference import NUM_CLASSES, untrained_classifier
from diskoop.data.sequences import PIXELS, Sequences
from diskoop.evaluation.baselines import untrained_network
from diskoop.evaluation.protocols.sampling import SAMPLING_MODES, sample_parts
from diskoop.evaluation.registry import EvalConfig, EvalContext
from diskoop.models.autoencoder import build_model
from diskoop.numerics.operator import Operator
from diskoop.run import Run
from diskoop.run_folder import RunFolder
from diskoop.settings import Settings

FRAMES, CHANNELS = 8, 3
SETTLING = 64  # sequences that batch norm sees before the clock starts


def ignorant(device: str, clips: Sequences) -> Run:
    """A run with the paper's networks, which have learnt nothing but how large their inputs are."""
    settings = Settings.load("paper-sprites")
    k = settings.model.k
    # Batches have operators of their own.
    operator = Operator(torch.eye(k).double(), torch.tensor(k), torch.ones(()), 1, 1, "nothing")
    model = build_model(settings.model, clips.shape[2:]).to(device)
    run = Run(settings, model, operator, PIXELS, RunFolder(Path("nowhere")))
    return untrained_network(run, clips.select(slice(SETTLING)))


def some_video(count: int, size: int) -> Sequences:
    random = np.random.Generator(np.random.PCG64(0))
    labels = {label: random.integers(values, size=count) for label, values in NUM_CLASSES.items()}
    return Sequences.of(random.integers(0, 256, (count, FRAMES, CHANNELS, size, size), dtype=np.uint8), labels)


class Clock:
    """Seconds that each loop of a protocol takes, under its title."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def watch(self, over: Sequence[Any], what: str) -> Iterable[Any]:
        began = time.perf_counter()
        yield from over  # every repetition ends with figures on the CPU, so nothing is still under way after the last
        self.seconds[what] = time.perf_counter() - began


def measure(repeats: int, sequences: int, device: str, size: int) -> dict[str, Any]:
    classifier, clips = untrained_classifier((CHANNELS, size, size), torch.device(device)), some_video(sequences, size)
    run = ignorant(device, clips)
    halves = {"static": "static", "dynamic": "dynamic"}

    def protocol(times: int) -> tuple[Clock, float]:
        clock, began = Clock(), time.perf_counter()
        config = EvalConfig(repeats=times, progress=clock.watch)
        context = EvalContext(clips, clips, classifier, config, motion_label="action")
        sample_parts(run, context, "paper", SAMPLING_MODES["paper"], halves)
        return clock, time.perf_counter() - began

    protocol(1)  # to warm up
    clock, total = protocol(repeats)
    return {
        "device": torch.cuda.get_device_name() if device == "cuda" else f"CPU, {torch.get_num_threads()} threads",
        "repeats": repeats,
        "sequences": sequences,
        "seconds": clock.seconds | {"total": total},
        "sequences_per_second": {what: repeats * sequences / seconds for what, seconds in clock.seconds.items()}
        | {"total": 2 * repeats * sequences / total},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=300)
    parser.add_argument("--sequences", type=int, default=2664, help="2 at least")
    parser.add_argument("--size", type=int, default=64, help="pixels across")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    choice = parser.parse_args()
    automatic = "cuda" if torch.cuda.is_available() else "cpu"
    device = automatic if choice.device == "auto" else choice.device
    result = measure(choice.repeats, choice.sequences, device, choice.size)
    shape = " x ".join(map(str, (FRAMES, CHANNELS, choice.size, choice.size)))
    print(f"{result['device']}: {choice.repeats} repetitions, {choice.sequences} sequences of {shape}")
    for what, seconds in result["seconds"].items():
        print(f"{what:16} {seconds:10.2f} s {result['sequences_per_second'][what]:12.0f} sequences/s")
    if choice.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
