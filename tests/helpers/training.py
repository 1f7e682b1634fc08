"""Settings that train in a second, and a silent reporter."""

from collections.abc import Mapping
from typing import Any

from diskoop.settings import Settings
from diskoop.training.progress import ProgressBar, Reporter

SMALL = Settings.of(
    {
        "data": {"name": "oscillators", "limit": 200},
        "model": {"k": 10, "h": 12, "noise": 0.001},
        "spectrum": {"static": 3, "radius": 0.9},
        "loss": {"cycle": 0.5},
        "train": {
            "epochs": 3,
            "batch_size": 20,
            "lr": 0.01,
            "schedule": "cosine",
            "warmup": 5,
            "grad_clip": 1.0,
            "save_every": 3,
            "precision": "32",
        },
    }
)

SERIES = {
    "data": {"name": "oscillators"},
    "model": {"k": 8, "h": 16, "dropout": 0.0},
    "spectrum": {"static": 3, "radius": 0.96, "dynamic_penalty": "hinge"},
    "train": {"epochs": 2, "lr": 0.01},
}


class Quiet(Reporter):
    """Prints nothing, collects messages, and can crash at a step."""

    def __init__(self, crash_at: int | None = None) -> None:
        super().__init__()
        self.crash_at = crash_at
        self.messages: list[str] = []

    def log(self, text: str) -> None:
        self.messages.append(text)

    def open(self, total: int, done: int, epochs: int | None) -> ProgressBar:
        crash_at = self.crash_at

        class Crashing(ProgressBar):
            def step(self, epoch: int, done: int, terms: Mapping[str, float]) -> None:
                if done == crash_at:
                    raise MemoryError("crashed as asked")

            def epoch(self, row: Mapping[str, Any]) -> None:
                pass

        return Crashing(self.console, total, done, epochs)
