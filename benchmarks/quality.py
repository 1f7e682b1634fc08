"""Is what trains faster trained as well? `python benchmarks/quality.py`

Whole trainings of a preset from several seeds: with the plain step in float32, with the captured one on CUDA, and in
bf16 where the device computes in it. Each run's factors are found without labels and scored on test sequences by the
multifactor matrix. A run's last losses and its score are printed as soon as it is there; at the end, for every way, the
mean loss of each epoch, the loss of validation at the end and the score: averaged over the seeds, with their span.
"""

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
import torch

from diskoop.data import open_data
from diskoop.evaluation.classifiers import load_or_train_classifier
from diskoop.evaluation.protocols.swaps import measure_swaps
from diskoop.evaluation.registry import EvalConfig, EvalContext
from diskoop.evaluation.results import Key
from diskoop.run import load
from diskoop.run_folder import RunFolder
from diskoop.settings import Settings
from diskoop.training.loop import Trainer
from diskoop.training.precision import computes_in_bf16
from diskoop.training.progress import Reporter
from diskoop.training.step import PlainStep

Row = dict[str, float]


def trained(settings: Settings, plain: bool, path: Path) -> Row:
    """A run in the folder `path`: the mean loss of each epoch, and the last one of validation."""
    folder = RunFolder(path)
    training = Trainer(settings, folder, Reporter())
    if plain:
        training.step = PlainStep(training.objective, training.optimizer, training.train_set)
    path.mkdir()
    settings.save(folder.settings)
    training.save()
    training.run([])
    history = training.state.history
    losses = {f"epoch {row['epoch']}": row["train.total"] for row in history}
    return losses | {"validation": history[-1]["val.total"]}


def score(path: Path, device: str) -> float:
    """How well each factor of the run in `path` changes one label and no other."""
    run = load(path, device)
    everything = open_data(run.settings.data)
    classifier = load_or_train_classifier(everything, device)
    run = run.save_factors(run.find_factors())
    context = EvalContext(everything.split("train"), everything.split("test"), classifier, EvalConfig(repeats=1))
    return measure_swaps(run, context).values[Key("multifactor", "score")].mean


def ways(device: str) -> dict[str, tuple[str, bool]]:
    """A name for people -> `train.precision`, and whether the plain step is to be taken."""
    chosen = {"plain, float32": ("32", True)}
    if device == "cuda":
        chosen["captured, float32"] = ("32", False)
    if computes_in_bf16(device):
        chosen[f"{'captured' if device == 'cuda' else 'plain'}, bf16"] = ("bf16", False)
    return chosen


def summary(rows: list[Row]) -> dict[str, dict[str, float]]:
    table = {name: [row[name] for row in rows] for name in rows[0]}
    return {name: {"mean": float(np.mean(v)), "low": min(v), "high": max(v)} for name, v in table.items()}


def told(row: Row) -> str:
    """The end of a training, in a line."""
    *_, last = (name for name in row if name.startswith("epoch"))
    return ", ".join(f"{name} {row[name]:.4f}" for name in (last, "validation", "score"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="demo")
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--only", default="", help="ways with this in their name, such as captured or bf16")
    parser.add_argument("--epochs", type=int, default=None, help="instead of the preset's")
    parser.add_argument("--limit", type=int, default=None, help="train on the first sequences only")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    choice = parser.parse_args()
    if choice.seeds < 1:
        parser.error(f"expected --seeds of 1 or more, got {choice.seeds}")
    known = ways(choice.device)
    chosen = {name: way for name, way in known.items() if choice.only in name}
    if not chosen:
        parser.error(f"expected --only with a part of one of {'; '.join(known)}, got {choice.only!r}")
    base = Settings.load(choice.preset).replaced({"train": {"device": choice.device}, "data": {"limit": choice.limit}})
    if choice.epochs is not None:
        base = base.replaced({"train": {"epochs": choice.epochs}})
    seeds = range(choice.first, choice.first + choice.seeds)
    where = f"torch {torch.__version__} on {choice.device}"
    print(f"{where}, {choice.preset}, seeds {seeds[0]} to {seeds[-1]}", flush=True)
    rows: dict[str, list[Row]] = {way: [] for way in chosen}
    for seed in seeds:  # all ways of a seed before the next, so that a run cut short compares equals
        for way, (precision, plain) in chosen.items():
            settings = base.replaced({"train": {"seed": seed, "precision": precision}})
            with tempfile.TemporaryDirectory() as folder:
                row = trained(settings, plain, Path(folder) / "run")
                rows[way].append(row | {"score": score(Path(folder) / "run", choice.device)})
            print(f"{way}, seed {seed}: " + told(rows[way][-1]), flush=True)
    found = {way: summary(some) for way, some in rows.items()}
    for way, spans in found.items():
        print(f"\n{way}")
        for what, span in spans.items():
            print(f"  {what:12} {span['mean']:.4f} ({span['low']:.4f} to {span['high']:.4f})", flush=True)
    if choice.json:
        print(json.dumps({"rows": rows, "summary": found}))


if __name__ == "__main__":
    main()
