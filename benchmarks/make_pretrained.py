"""Make a pretrained run of the package: `python benchmarks/make_pretrained.py NAME [--run FOLDER]`

Trains it with the settings below, or takes a finished run; rounds its weights to half precision, fits the operator and
finds the factors again with them, names factors after the labels they change in training clips, judges and scores the
result, adds example clips from the test split, and puts the folder into the package if it is small enough. The same run
gives the same files.
"""

import argparse
import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from diskoop.analysis.decomposition import Decomposition
from diskoop.analysis.discovery.atoms import find_atoms
from diskoop.analysis.discovery.factors import assemble_factors
from diskoop.analysis.discovery.results import DiscoveryResult
from diskoop.data import Sequences
from diskoop.errors import InputError
from diskoop.evaluation.protocols.swaps import match_factors
from diskoop.evaluation.registry import EvalConfig
from diskoop.evaluation.results import ModelResults
from diskoop.examples_file import save_examples
from diskoop.run import HeldOut, Run, load
from diskoop.run_folder import (
    PRETRAINED,
    PRETRAINED_PREFIX,
    RunFolder,
    load_model,
    read_metrics,
    save_operator,
    write_metrics,
)
from diskoop.settings import Settings, merged, read_yaml
from diskoop.storage import atomic_folder, write_text
from diskoop.tensor_files import read_tensors, write_tensors
from diskoop.training.frozen_operator import fit_frozen_operator
from diskoop.training.progress import Reporter
from diskoop.workflows.clips import random_indices
from diskoop.workflows.console import print_table
from diskoop.workflows.evaluation import evaluate
from diskoop.workflows.factors import load_classifier, score_factors
from diskoop.workflows.training import train_or_resume

MAX_BYTES = 5_000_000  # of a folder
EXAMPLES = 36  # clips of the test split
EPOCHS = 50  # at most, the last ones, whose metrics are kept
# Name -> preset and changes to it, which train in half an hour at most on two cores. Chosen on validation clips.
TRAININGS: dict[str, tuple[str, dict[str, dict[str, Any]]]] = {
    "puppets": (
        "demo",
        {
            "data": {"name": "puppets", "size": 64},
            "model": {"k": 40, "h": 94, "width": 24},
            "spectrum": {"static": 18},
            "train": {"epochs": 24, "lr": 0.008, "precision": "bf16"},
        },
    ),
    # Noise does no harm to expressions that PCA draws from the start.
    "faces": (
        "quick-faces",
        {
            "data": {"name": "faces"},
            "model": {"dynamic_noise": 0.4},
            "spectrum": {"delta": 0.05},
            "loss": {"pred": 5, "eig": 0.1, "cycle": 0},
            "train": {"steps": 600, "epochs": None, "lr": 0.004, "precision": "bf16"},
        },
    ),
    # Few dynamic latents, noise on them, and a cycle, so that the voice is drawn from the static ones.
    "voices": (
        "sound",
        {
            "data": {"name": "voices"},
            "model": {"k": 26, "dynamic_noise": 0.1},
            "spectrum": {"static": 14},
            "loss": {"rec": 60, "cycle": 3},
            "train": {"steps": 1500, "lr": 0.003, "patience": None},
        },
    ),
}
# Names of the static and of the dynamic part, where each is one factor: nothing says what people are made of, dozens of
# weak factors would be found in them, and a classifier of sex is fooled most by other words.
UNDIVIDED = {"faces": ("subject", "expression"), "voices": ("voice", "speech")}
SPLITS: tuple[HeldOut | None, ...] = (None, "test")  # whose verdicts commands ask for
KEPT = {
    "settings.yaml",
    "model.safetensors",
    "operator.safetensors",
    "factors.json",
    "verdict.json",
    "metrics.jsonl",
    "examples.npz",
}
# What `diskoop factors --score` keeps; of sound, where speakers count, what `diskoop evaluate` keeps.
SCORES, EVALUATION = "scores.json", "evaluation.json"


@dataclass(frozen=True)
class Undivided:
    """Two factors: all static directions that are visible, and all that moves."""

    names: tuple[str, str]

    def find(self, parts: Decomposition) -> DiscoveryResult:
        atoms = find_atoms(parts)
        groups = [[*range(atoms.num_static)], [*range(atoms.num_static, len(atoms))]]
        return assemble_factors(parts, atoms, groups, [None, None], "what stays and what moves", 0, self.names)


@dataclass(frozen=True)
class Made:
    """What came of making a pretrained run."""

    sizes: dict[str, int]  # file -> bytes
    gaps: tuple[float, float]  # largest distance of a static eigenvalue to 1, before and after rounding
    difference: float  # mean absolute difference of static swaps by both runs, in deviations of the data
    factors: list[str]
    scores: dict[str, Any]  # of factors; none of sound

    def rows(self) -> list[list[str]]:
        """What and how much, for a table."""
        found = {name: self.scores[name] for name in ("score", "kept", "floor") if self.scores.get(name) is not None}
        return [
            *([name, f"{size:,} bytes"] for name, size in self.sizes.items()),
            ["all files", f"{sum(self.sizes.values()):,} bytes"],
            ["static eigenvalues, before rounding", f"within {self.gaps[0]:.4f} of 1"],
            ["static eigenvalues, after it", f"within {self.gaps[1]:.4f} of 1"],
            ["swaps before and after it differ by", f"{self.difference:.5f} deviations"],
            ["factors", ", ".join(self.factors)],
            *([name, f"{value:.3f}"] for name, value in found.items()),
        ]


def train(name: str, path: Path) -> None:
    """Train a run with its settings in the folder `path`, go on with it, or find it finished."""
    preset, changes = TRAININGS[name]
    again = f"python benchmarks/make_pretrained.py {name}"
    train_or_resume(Settings.of(merged(read_yaml(preset), changes)), path, again)


def make(name: str, source: Path, out: Path) -> Made:
    """Make the pretrained run `name` of the finished run in `source`; the folder `out` appears whole or not at all."""
    before = load(source)
    if before.settings.data.path is not None:
        raise InputError(f"{source} was trained on files that do not come with the package: its weights stay at home")
    train_set, clips = before.data("train"), before.data("test")
    with atomic_folder(out) as path:
        folder = RunFolder(path)
        shutil.copyfile(before.folder.settings, folder.settings)
        write_metrics(folder, read_metrics(before.folder)[-EPOCHS:])
        round_model(before.folder, folder)
        model = load_model(folder, before.settings)[0]
        save_operator(folder, fit_frozen_operator(model, train_set, before.settings.train.batch_size), model)
        run = find_factors(name, load(path))
        for split in SPLITS:
            run.verdict(split)  # which is kept in the folder
        scores = score(name, run)
        examples = clips.select(np.sort(random_indices(len(clips), EXAMPLES, 0)))
        save_examples(folder, examples)
        kept = KEPT | {SCORES if scores else EVALUATION}
        for left in (file for file in path.iterdir() if file.name not in kept):  # pictures and cached results
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        sizes = file_sizes(name, path)
        gaps = static_gap(before), static_gap(run)
        made = Made(sizes, gaps, difference(before, run, examples), run.require_factors().names, scores)
        if out.exists():
            shutil.rmtree(out)
    return made


def file_sizes(name: str, folder: Path) -> dict[str, int]:
    """The size of each file, in bytes; an InputError where they are more than a package should carry."""
    sizes = {file.name: file.stat().st_size for file in sorted(folder.iterdir())}
    if (total := sum(sizes.values())) > MAX_BYTES:
        raise InputError(f"{name} has {total:,} bytes, allowed are {MAX_BYTES:,}: {sizes}")
    return sizes


def round_model(source: RunFolder, target: RunFolder) -> None:
    """Write a model with its matrices and kernels in half precision; vectors are few, and variances may be tiny."""
    weights, record = read_tensors(source.model, "model")

    def rounded(weight: Tensor) -> Tensor:
        return weight.half() if weight.is_floating_point() and weight.ndim > 1 else weight

    write_tensors(target.model, "model", {name: rounded(weight) for name, weight in weights.items()}, record)


def find_factors(name: str, run: Run) -> Run:
    """The run with factors, which have names."""
    if name in UNDIVIDED:
        return run.save_factors(run.find_factors(method=Undivided(UNDIVIDED[name])))
    return name_factors(run.save_factors(run.find_factors()))


def name_factors(run: Run) -> Run:
    """The run with factors called by the label that they change most in training clips, as `factors --score` matches.

    Where several belong to a label, the one that changes it most has its name, and the others have numbers.
    """
    try:
        classifier = load_classifier(run)
    except InputError:  # nothing can tell
        return run
    matched = match_factors(run, run.data("train"), classifier)
    names = {
        old: label if number == 1 else f"{label}-{number}"
        for label, factors in matched.items()
        for number, old in enumerate(factors, start=1)
    }
    return run.rename_factors(names)


def score(name: str, run: Run) -> dict[str, Any]:
    """Measure the run, and leave the scores in its folder; those of factors are returned.

    What `diskoop factors --score` says of the run; of sound, where speakers count, what `diskoop evaluate` says.
    """
    if run.units.rate is None:
        score_factors(run)
        stored: dict[str, Any] = json.loads(run.folder.scores.read_text(encoding="utf-8"))
        stored["command"] = f"diskoop factors {PRETRAINED_PREFIX}{name} --score"
        write_text(run.folder.scores, json.dumps(stored, indent=1) + "\n")
        return stored
    command = f"diskoop evaluate {PRETRAINED_PREFIX}{name} --no-baselines"
    results = evaluate(run, EvalConfig(limit=1024, baselines=False, command=command), Reporter())[0]
    steady = [without_costs(model) for model in results.models]
    title = f"{PRETRAINED_PREFIX}{name}"  # the folder's own name is a temporary one
    replace(results, title=title, models=steady).write(run.folder.evaluation.with_suffix(""))
    return {}


def without_costs(model: ModelResults) -> ModelResults:
    """Its results less measured seconds and bytes, which are never the same."""
    return replace(model, values={key: value for key, value in model.values.items() if key.metric != "cost"})


def static_gap(run: Run) -> float:
    spectrum, static = run.spectrum()
    return float(spectrum.gap_and_radius(static)[0])


def difference(one: Run, other: Run, clips: Sequences) -> float:
    """Mean absolute difference between static swaps of clips by two runs, in deviations of those clips."""
    donors = np.roll(np.arange(len(clips)), 1)
    first, second = (run.decompose(clips).swap("static", donors).decode().astype(np.float64) for run in (one, other))
    return float(np.abs(first - second).mean() / clips.x.std())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=sorted(TRAININGS))
    parser.add_argument("--run", type=Path, help="a finished run; by default runs/make-NAME, trained if need be")
    parser.add_argument("--out", type=Path, help="the folder; by default that in the package, which is replaced")
    choice = parser.parse_args()
    source = choice.run or Path("runs") / f"make-{choice.name}"
    if choice.run is None:
        train(choice.name, source)
    out = choice.out or PRETRAINED / choice.name
    made = make(choice.name, source, out)
    print_table(f"{choice.name} in {out}", {"what": "left", "how much": "right"}, made.rows())


if __name__ == "__main__":
    main()
