"""Do the plain and the captured step learn alike? `python benchmarks/curves.py`

The demo's training, its first steps, with the plain step, the captured one and the captured one in bf16, from several
seeds each. Printed is the mean loss of every fifth of the way, averaged over the seeds, with its span over them.
"""

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
import torch

from diskoop.settings import Settings
from diskoop.training.checkpoint import RunFolder
from diskoop.training.fast import FastStep
from diskoop.training.loop import Training
from diskoop.training.progress import Reporter
from diskoop.training.step import PlainStep, Taken

PARTS = 5


def losses(settings: Settings, captured: bool, steps: int) -> list[float]:
    """The loss of each of the first `steps` steps."""
    with tempfile.TemporaryDirectory() as folder:
        training = Training(settings, RunFolder(Path(folder)), Reporter())
    data, batch = training.train_set, settings.train.batch
    if captured:
        training.step = FastStep(training.objective, training.optimizer.optimizer, data, batch)
    else:
        training.step = PlainStep(training.fabric, training.network, training.optimizer, data, settings.train.clip)
    training.network.train()
    order = np.random.Generator(np.random.PCG64(settings.train.seed)).permutation(steps * batch) % len(data)
    taken: list[Taken] = []
    for ready in training.feed(order[at : at + batch] for at in range(0, steps * batch, batch)):
        taken += training._take(ready)
    return [terms["total"] for terms, _ in [*taken, *training.step.rest()]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    choice = parser.parse_args()
    demo = Settings.load("demo")
    rounded = demo.replaced({"train": {"precision": "bf16"}})
    ways = {"plain": (demo, False), "captured": (demo, True), "captured, bf16": (rounded, True)}
    print(f"torch {torch.__version__} on {torch.cuda.get_device_name() if torch.cuda.is_available() else 'the CPU'}")
    each = choice.steps // PARTS
    print(f"{'steps':16}" + "".join(f"{f'{i * each + 1} to {(i + 1) * each}':>26}" for i in range(PARTS)))
    found = {}
    for name, (settings, captured) in ways.items():
        seeded = [settings.replaced({"train": {"seed": seed}}) for seed in range(choice.seeds)]
        runs = np.array([losses(one, captured, PARTS * each) for one in seeded])
        parts = runs.reshape(choice.seeds, PARTS, each).mean(-1)
        found[name] = parts.tolist()
        cells = (f"{part.mean():.4f} ({part.min():.4f} to {part.max():.4f})" for part in parts.T)
        print(f"{name:16}" + "".join(f"{cell:>26}" for cell in cells), flush=True)
    if choice.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
