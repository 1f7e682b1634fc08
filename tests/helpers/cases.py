"""Benchmark cases that take milliseconds."""

import torch

from diskoop.bench.steps import Case
from diskoop.bench.timing import BenchConfig
from diskoop.settings import Settings

CPU = torch.device("cpu")
QUICK = BenchConfig(CPU, turns=2, steps=1)
VIDEO = Case(
    Settings.of(
        {
            "model": {"k": 6, "h": 7, "width": 4, "dropout": 0.0, "ridge": 1e-12},
            "spectrum": {"static": 2, "radius": 0.01},
            "train": {"batch_size": 4},
        }
    ),
    (3, 32, 32),
    5,
)
SIGNAL = VIDEO._replace(frame_shape=(9,), num_frames=12)
CYCLE = VIDEO._replace(settings=VIDEO.settings.replaced({"loss": {"cycle": 1.0}, "train": {"blur": True}}))
SMALL = {"video": VIDEO, "cycle": CYCLE, "signal": SIGNAL}
