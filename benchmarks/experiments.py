"""Whole trainings of several settings and seeds, scored alike: `python benchmarks/experiments.py FILE.yaml FOLDER`

FILE.yaml names a preset (or none), settings that all runs share, and what each run changes:

    base: demo
    settings: {train: {epochs: 12}}
    runs:
      as it is: {}
      no cycle: {loss: {cycle: 0}}
    seeds: [0, 1, 2]
    split: val

Every run is trained in a folder of its own inside FOLDER; one that was cut short goes on, one that has ended is not
trained again. Settings after FOLDER, such as data.path=sheets/, are for all of them. Factors are found without labels
on training sequences and scored on the test split, or on the one that the plan or `--split` names: settings are chosen
by `val`. Several runs share a device with `--jobs`. A line is printed as each ends, a table of means and worst cases at
the end.
"""

import argparse
import json
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from diskoop.analysis.forecasting import fit_dmd, forecast_errors
from diskoop.data import open_data
from diskoop.data.sequences import SPLITS, Sequences, SplitName
from diskoop.evaluation.classifiers import Classifier, load_or_train_classifier
from diskoop.evaluation.protocols.swaps import measure_swaps
from diskoop.evaluation.registry import EvalConfig, EvalContext
from diskoop.evaluation.results import Key, to_records
from diskoop.run import Run, load
from diskoop.run_folder import RunFolder, read_metrics
from diskoop.settings import Settings, merged, parse_overrides
from diskoop.storage import write_text
from diskoop.training.progress import Reporter
from diskoop.workflows.training import train_or_resume

Row = dict[str, Any]
SHOWN = {
    "score": Key("multifactor", "score"),
    "kept": Key("multifactor", "kept"),
    "single": Key("multifactor", "single_score"),
    "kept single": Key("multifactor", "single_kept"),
}


def beside(path: Path, ending: str) -> Path:
    """A file beside the run's folder, of the same name; names may hold dots."""
    return path.parent / f"{path.name}.{ending}"


def folder_of(out: Path, name: str, seed: int) -> Path:
    return out / f"{re.sub(r'[ ,]+', '-', name)}-{seed}"


def settings_of(protocol: dict[str, Any], name: str, seed: int, device: str) -> Settings:
    changes = merged(protocol.get("settings") or {}, protocol["runs"][name] or {})
    base = Settings.load(protocol["base"]) if "base" in protocol else Settings()
    return base.replaced(merged(changes, {"train": {"seed": seed, "device": device}}))


def read_plan(file: Path, overrides: list[str]) -> dict[str, Any]:
    """The protocol in a YAML file, with settings such as data.path=sheets/ for all its runs laid over it."""
    protocol: dict[str, Any] = {"split": "test"} | yaml.safe_load(file.read_text(encoding="utf-8"))
    return protocol | {"settings": merged(protocol.get("settings") or {}, parse_overrides(overrides))}


def scored(path: Path, device: str, split: SplitName) -> Row:
    """What became of the run in `path`: its cost, its losses, its factors and their scores."""
    run = load(path, device, factors=False)
    history = run.summary()["last_epoch"]
    rows = read_metrics(RunFolder(path))
    everything = open_data(run.settings.data)
    classifier = load_or_train_classifier(everything, device)
    began = time.perf_counter()
    run = run.save_factors(run.find_factors())
    found = time.perf_counter() - began
    context = EvalContext(everything.split("train"), everything.split(split), classifier, EvalConfig(repeats=1))
    values, notes = measure_swaps(run, context)
    return {
        "steps": history["step"],
        "training seconds": sum(row["seconds"] for row in rows),
        "discovery seconds": found,
        "parameters": sum(weight.numel() for weight in run.model.parameters()),
        "loss": history["train.total"],
        "rec": history["train.rec"],
        **{name: values[key].mean for name, key in SHOWN.items() if key in values},
        "factors": [each.row() for each in run.require_factors().factors],
        "count": len(run.require_factors().without_remainder),
        "fading": fading(run),
        "beyond": ahead(run, everything, classifier),
        "values": to_records(values),
        "notes": notes,
    }


def ahead(run: Run, everything: Sequences, classifier: Classifier) -> Row:
    """How well the run forecasts: walks past their end, the second half of signals; of other video nothing is asked."""
    if not everything.is_video:
        return second_half(run, everything)
    return beyond(run, classifier) if "walk" in " ".join(everything.values.get("action", ())) else {}


def second_half(run: Run, everything: Sequences) -> Row:
    """Root mean squared errors over the second half of validation signals, forecast from the first.

    Beside them those of reconstructing the same frames, and of reconstructing the first frame, which a decoder that
    has to find out first what a signal is about draws near zero. A deviation is the signals' own.
    """
    clips, features = everything.split("val"), int(np.prod(everything.shape[2:]))
    given = clips.shape[1] // 2
    dmd = fit_dmd(everything.split("train"), min(run.settings.model.k, features), torch.Generator().manual_seed(0))
    errors = forecast_errors(run, clips, clips.shape[1] - given, given, dmd)
    names = {"forecast": "ours", "holding": "last_frame", "DMD": "dmd", "seen": "reconstruction"}
    off = run.decompose(clips).decode()[:, 0] - clips.x[:, 0]
    return {name: float(np.sqrt(errors.squares[method].mean())) for name, method in names.items()} | {
        "first frame": float(np.sqrt(np.square(off).mean())),
        "deviation": float(clips.x.std()),
    }


def beyond(run: Run, classifier: Classifier) -> Row:
    """How walking clips of the validation split go on for as many frames as they have: a walk begins again.

    Mean squared errors of forecasts, of holding the last frame and of DMD, and the share in which the action is seen.
    """
    everything = open_data(run.settings.data)
    clips = everything.split("val")
    walks = [code for code, word in enumerate(clips.values["action"]) if word.startswith("walk")]
    clips = clips.select(np.flatnonzero(np.isin(clips.labels["action"], walks))[:256])
    truth, frames = clips.x / 255, clips.shape[1]
    future = run.decompose(clips).forecast(frames).decode()[:, frames:]
    dmd = fit_dmd(everything.split("train"), run.settings.model.k, torch.Generator().manual_seed(0))
    guesses = {"forecast": future, "holding": clips.x[:, -1:], "DMD": dmd.forecast(clips.x, frames)}
    errors = {name: float(np.square(guess / 255 - truth).mean()) for name, guess in guesses.items()}
    seen = classifier.predict(torch.from_numpy(future), np.full(len(clips), frames))
    return errors | {label: float((seen[label] == clips.labels[label]).mean()) for label in seen}


def fading(run: Run) -> list[float]:
    """The mean square of the dynamic part in each frame, of what all latents have in the first."""
    parts = run.decompose(run.data("test").select(np.arange(256)))
    whole = parts.z.square().sum(-1).mean(0)[0]
    return [round(float(share), 4) for share in parts.dynamic.square().sum(-1).mean(0) / whole]


def one(protocol: dict[str, Any], name: str, seed: int, out: Path, device: str) -> None:
    """Train and score one run; its row is written beside its folder."""
    path, split = folder_of(out, name, seed), protocol["split"]
    train_or_resume(settings_of(protocol, name, seed, device), path, "the same command", Reporter())
    row = {"run": name, "seed": seed, "split": split} | scored(path, device, split)
    write_text(beside(path, f"{split}.json"), json.dumps(row))


def line(row: Row) -> str:
    shares = ", ".join(f"{key} {row[key]:.3f}" for key in SHOWN if key in row)
    pace = 1000 * row["training seconds"] / row["steps"]
    return (
        f"{row['run']}, seed {row['seed']}: {shares}, {row['count']} factors, loss {row['loss']:.4f}, "
        f"{row['steps']} steps in {row['training seconds']:.0f} s ({pace:.2f} ms), "
        f"discovery {row['discovery seconds']:.0f} s"
        + "".join(f", {name} {value:.4f}" for name, value in row["beyond"].items())
    )


def table(rows: list[Row]) -> str:
    """Markdown: for every run the mean and the worst of each score, and how many factors each seed has."""
    lines = ["| run | " + " | ".join(SHOWN) + " | factors | seconds |", "|" + "---|" * (len(SHOWN) + 3)]
    for name in dict.fromkeys(row["run"] for row in rows):
        mine = [row for row in rows if row["run"] == name]
        cells = [[row[key] for row in mine if key in row] for key in SHOWN]
        figures = [f"{np.mean(cell):.3f} ({min(cell):.3f})" if cell else "" for cell in cells]
        counts = " ".join(str(row["count"]) for row in mine)
        seconds = f"{np.mean([row['training seconds'] for row in mine]):.0f}"
        lines.append(f"| {name} | {' | '.join(figures)} | {counts} | {seconds} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("overrides", nargs="*", help="settings of all runs, such as data.path=sheets/")
    parser.add_argument("--device", default="auto", help="cpu or cuda")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--split", choices=SPLITS, help="score on this one, whatever the protocol says")
    parser.add_argument("--one", nargs=2, metavar=("RUN", "SEED"), help="this run only, in this process")
    choice = parser.parse_args()
    protocol = read_plan(choice.file, choice.overrides)
    protocol["split"] = choice.split or protocol["split"]
    choice.folder.mkdir(parents=True, exist_ok=True)
    if choice.device == "auto":
        choice.device = "cuda" if torch.cuda.is_available() else "cpu"
    if choice.one:
        one(protocol, choice.one[0], int(choice.one[1]), choice.folder, choice.device)
        return
    # Each in a process of its own, after what all need has been made once.
    first = settings_of(protocol, next(iter(protocol["runs"])), 0, choice.device)
    load_or_train_classifier(open_data(first.data), choice.device)

    def worked(pair: tuple[int, str]) -> Row | None:
        seed, name = pair
        path = folder_of(choice.folder, name, seed)
        command = [sys.executable, __file__, str(choice.file), str(choice.folder), *choice.overrides]
        command += ["--device", choice.device, "--split", protocol["split"]]
        with beside(path, "log").open("ab") as log:
            ended = subprocess.run([*command, "--one", name, str(seed)], stdout=log, stderr=log, check=False)
        if ended.returncode:
            print(f"{name}, seed {seed}: failed, see {beside(path, 'log')}", flush=True)
            return None
        row: Row = json.loads(beside(path, f"{protocol['split']}.json").read_text())
        print(line(row), flush=True)
        return row

    pairs = [(seed, name) for seed in protocol.get("seeds") or [0] for name in protocol["runs"]]
    with ThreadPoolExecutor(choice.jobs) as pool:
        rows = [row for row in pool.map(worked, pairs) if row is not None]
    print(table(rows))


if __name__ == "__main__":
    main()
