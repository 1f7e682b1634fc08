"""a run as a folder for model hubs: its files, config.json and a model card with its verdict and scores"""

import filecmp
import json
import re
import shutil
from pathlib import Path
from typing import Any

import yaml

import diskoop
from diskoop.errors import InputError
from diskoop.evaluation.results import read_results
from diskoop.factors_file import save_factors
from diskoop.run import Run
from diskoop.run_folder import PRETRAINED, RunFolder, pretrained_names
from diskoop.scores_file import load_scores
from diskoop.storage import write_text

CONFIG_FORMAT = "diskoop hub 1"
SCORES = {
    "score": "a label shows the donor's value where its factors are swapped, chance elsewhere; 1 is perfect",
    "kept": "how often a label keeps its value while the factors of another are swapped",
    "floor": "the score of changing nothing",
}


def write_hub_folder(run: Run, folder: Path) -> list[Path]:
    """Write a finished run's files, without those that only resuming needs, a `config.json` and a model card.

    `diskoop.load` reads the folder like any run. A run on files of the user's own names them in `settings.yaml`, which
    belongs to the weights and stays as it is.

    Args:
        run: the run.
        folder: an existing folder.

    Returns:
        The files.
    """
    target = RunFolder(folder)
    card = model_card(run)  # first, for it may judge the run and write that down
    kept = [(run.folder.settings, target.settings), (run.folder.model, target.model)]
    kept += [(run.folder.operator, target.operator), (run.folder.metrics, target.metrics)]
    kept += [(run.folder.verdict, target.verdict), (run.folder.scores, target.scores)]
    kept += [(run.folder.examples, target.examples), (run.folder.evaluation, target.evaluation)]
    for source, copy in kept:
        if source.exists():
            shutil.copyfile(source, copy)
    if run.factors is not None:
        save_factors(target, run.factors, run.model)
    write_text(folder / "config.json", json.dumps(config(run), indent=2) + "\n")
    write_text(folder / "README.md", card)
    return sorted(folder.iterdir())


def config(run: Run) -> dict[str, Any]:
    """What the model is, for programs: architecture, shapes, units, factors."""
    return {
        "format": CONFIG_FORMAT,
        "library_name": "diskoop",
        "diskoop_version": diskoop.__version__,
        "architecture": "KoopmanAutoencoder",
        "model": run.settings.model.model_dump(),
        "spectrum": run.settings.spectrum.model_dump(),
        "frame": list(run.frame_shape),
        "units": vars(run.units),
        "parameters": sum(weight.numel() for weight in run.model.parameters()),
        "factors": [] if run.factors is None else run.factors.names,
    }


def model_card(run: Run) -> str:
    """README.md of a hub: what the model is, what it was trained on, how good it is, how to use it."""
    data = run.settings.data
    trained_on = data.name or "files of its author's own"
    kind = "video" if len(run.frame_shape) == 3 else "sound" if run.units.rate is not None else "series"
    front = {
        "library_name": "diskoop",
        "license": _license(run),
        "tags": ["disentanglement", "koopman", kind, "unsupervised"],
        "datasets": [] if data.name is None else [f"diskoop:{data.name}"],
    }
    summary = run.summary()
    lines = [
        "---",
        yaml.safe_dump(front, sort_keys=False).strip(),
        "---",
        "",
        f"# A structured Koopman autoencoder for {kind}",
        "",
        f"Trained without labels on {trained_on} with diskoop {diskoop.__version__}. It takes a sequence apart into "
        "what lasts and what moves, and into factors that can be exchanged between sequences.",
        "",
        f"- frames of shape {run.frame_shape}, {run.settings.model.k} latents, "
        f"{sum(weight.numel() for weight in run.model.parameters()):,} parameters",
        f"- operator fitted on {run.operator.fitted_on}: {summary['static']} static eigenvalues within "
        f"{summary['static_gap']:.3f} of 1, the others up to {summary['dynamic_radius']:.3f}",
        *_factor_lines(run),
        "",
        "## How good it is",
        "",
        *_verdict_lines(run),
        *_score_lines(run),
        "",
        "## Use it",
        "",
        "```python",
        "import diskoop",
        "",
        'run = diskoop.load("FOLDER")  # where these files are',
        "parts = run.decompose(clips)  # an array (n, time, ...) in the units of the training data",
        'new = parts.swap("static", donor=[1, 0]).decode()',
        "```",
        "",
        "`diskoop explore FOLDER` opens it in a browser.",
        "",
    ]
    return "\n".join(lines)


def _factor_lines(run: Run) -> list[str]:
    if run.factors is None:
        return []
    listed = ", ".join(f"{each.name} ({each.strength:.0%})" for each in run.factors.factors)
    return [f"- factors ({run.factors.method}), with the share of frames' change that each makes: {listed}"]


def _verdict_lines(run: Run) -> list[str]:
    try:
        return list(run.verdict().sentences())
    except InputError as error:  # nothing was held out, or the data are not here
        return [f"No verdict: {error}."]


def _license(run: Run) -> str:
    """The package's own for weights that come with it; what a user has trained is the user's to license."""
    shipped = (PRETRAINED / name / run.folder.model.name for name in pretrained_names())
    return "mit" if any(filecmp.cmp(run.folder.model, model, shallow=False) for model in shipped) else "other"


def _score_lines(run: Run) -> list[str]:
    """What `factors --score` and `evaluate` have measured, where they have."""
    lines = []
    scores = None if run.factors is None else load_scores(run.folder, run.model, run.factors)
    if scores is not None and scores.get("score") is not None:
        names = [name for name in SCORES if scores.get(name) is not None]
        lines += ["", "### Factors and labels", "", "| score | value | |", "|---|---:|---|"]
        lines += [f"| {name} | {scores[name]:.3f} | {SCORES[name]} |" for name in names]
        lines += ["", f"On {scores['clips']} test clips; {scores['classifier']}."]
    if run.folder.evaluation.exists():
        lines += ["", "### Evaluation"]
        try:
            _, text = read_results(run.folder.evaluation).markdown().split("\n", 1)  # without its title
            lines += re.sub("^#", "##", text, flags=re.MULTILINE).splitlines()
        except InputError as error:
            lines += ["", f"No tables: {error}."]
    return lines
