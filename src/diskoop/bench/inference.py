"""rate at which clips are decomposed, swapped, decoded and classified"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from diskoop.bench.steps import SPRITES, Case, random_sequences, untrained_model
from diskoop.bench.timing import BenchConfig, BenchTable, Variant, free_memory, time_interleaved
from diskoop.data.sequences import PIXELS, Sequences
from diskoop.evaluation.classifiers import Classifier, ClassifierNetwork
from diskoop.run import Run
from diskoop.run_folder import RunFolder
from diskoop.training.frozen_operator import fit_frozen_operator

NUM_CLIPS = {"cuda": 2048, "cpu": 128}
NUM_CLASSES = {"skin": 6, "pants": 6, "top": 6, "hair": 6, "action": 9}  # of Sprites


def measure_inference(config: BenchConfig, case: Case = SPRITES, count: int | None = None) -> Iterator[BenchTable]:
    """Time the operations of an evaluation."""
    device = config.device
    clips = random_sequences(case, count or NUM_CLIPS[device.type])
    timings = time_interleaved(_operations(case, clips, device), config, "inference")
    rows = [
        {"operation": name, **timing._asdict(), "sequences/s": 1000 * len(clips) / timing.ms}
        for name, timing in timings.items()
    ]
    free_memory(device)
    title = f"{len(clips)} clips of {case.num_frames} frames of {case.frame_shape}, from memory and back"
    yield BenchTable(title, rows)


def _operations(case: Case, clips: Sequences, device: torch.device) -> dict[str, Variant]:
    """With untrained networks, which are as fast as trained ones."""
    model = untrained_model(case, device).eval()
    operator = fit_frozen_operator(model, clips, case.settings.train.batch_size)
    run = Run(case.settings, model, operator, clips.units, RunFolder(Path()))
    classifier = untrained_classifier(case.frame_shape, device)
    donors = np.roll(np.arange(len(clips)), 1)
    parts, frames = run.decompose(clips), clips.x
    return {
        "encode, decompose": lambda: run.decompose(clips),
        "swap, decode": lambda: parts.swap("static", donors).decode(),
        "classify": lambda: classifier.logits(frames),
        "swap, decode, classify, all on the device": lambda: classifier.logits(parts.swap("static", donors).decoded()),
    }


def untrained_classifier(frame_shape: Sequence[int], device: torch.device) -> Classifier:
    """A classifier of Sprites' labels with random weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = ClassifierNetwork(frame_shape, list(NUM_CLASSES.values())).to(device).eval()
    values = {label: tuple(map(str, range(count))) for label, count in NUM_CLASSES.items()}
    return Classifier(network, values, {}, {}, PIXELS, 0)
