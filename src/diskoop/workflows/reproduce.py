"""the paper's tables by one command: data, training, evaluation, published results"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from diskoop.analysis.sheets import ablation, two_factor_swaps
from diskoop.data import open_data
from diskoop.data.sets import timit
from diskoop.errors import InputError, suggest
from diskoop.evaluation.evaluate import chance_results
from diskoop.evaluation.protocols.speech import find_speaker_label
from diskoop.evaluation.published import FACES, SPEECH, SPRITES
from diskoop.evaluation.registry import EvalConfig, EvalContext, all_tables
from diskoop.evaluation.results import Key, ModelResults, Results, difference, over_seeds
from diskoop.plots.sheets import sheet_figure
from diskoop.plots.spectra import spectra_figure, spectrum_figure
from diskoop.plots.style import save_figure
from diskoop.run import Run
from diskoop.run_folder import RunFolder
from diskoop.settings import DataSettings, Settings, merged, on_data, read_yaml
from diskoop.training.progress import Reporter
from diskoop.workflows.evaluation import draw_matrix, ensure_factors, measure_models
from diskoop.workflows.factors import draw_factors
from diskoop.workflows.training import train_or_resume

REPEATS = 300  # the paper's
QUICK_REPEATS = 3
QUICK_SEARCH_BATCHES, QUICK_SEARCH_BLOCKS = 2, 12
NUM_PAIRS = 3  # in the picture of swaps
TEST_FRACTION = 0.3  # of the speakers, in a folder without a test part


@dataclass(frozen=True)
class Experiment:
    """One of the paper's tables."""

    title: str
    stand_in: str  # the built-in set that replaces the paper's
    paper: str  # the preset with the paper's settings
    quick: str  # the preset of the quick version
    published: Sequence[ModelResults]
    real: str  # the paper's set, read from a folder
    quick_limit: int  # test sequences of the quick version: fewer where they are long, or for four models
    quick_changes: Mapping[str, Any] = field(default_factory=dict)  # to the quick preset


EXPERIMENTS = {
    "sprites": Experiment(
        "Sprites", "puppets", "paper-sprites", "quick-sprites", SPRITES, "sprites", 1024, {"train": {"epochs": 8}}
    ),
    "faces": Experiment("MUG faces", "faces", "paper-mug", "quick-faces", FACES, "mug", 512),
    "speech": Experiment("TIMIT speech", "voices", "paper-timit", "quick-speech", SPEECH, "timit", 1024),
    # The paper's losses alone, and half the time: four models are trained.
    "ablation": Experiment(
        "Ablation",
        "puppets",
        "paper-sprites",
        "quick-sprites",
        (),
        "sprites",
        512,
        {"train": {"epochs": 3}, "loss": {"cycle": 0}},
    ),
}
# Changes to the loss weights in each model of the paper's ablation.
ABLATIONS: dict[str, dict[str, float]] = {
    "full": {},
    "L_stat only": {"dyn": 0.0},
    "L_dyn only": {"stat": 0.0},
    "plain KAE": {"eig": 0.0},
}
# What the models of an ablation are compared by.
COMPARED = {
    "multifactor score": Key("multifactor", "score"),
    "kept": Key("multifactor", "kept"),
    "modularity": Key("dci", "modularity"),
    "compactness": Key("dci", "compactness"),
    "explicitness": Key("dci", "explicitness"),
}


@dataclass(frozen=True)
class ReproduceConfig:
    """What to reproduce.

    Args:
        name: one of EXPERIMENTS.
        quick: a small version instead of the paper's settings.
        data: a folder with the real set's files; None takes the stand-in.
        out: the folder for tables, pictures and runs.
        preset: instead of the experiment's.
        overrides: settings that change the preset's.
        seed: of the first training and of the evaluation.
        num_seeds: how many trainings, from `seed` on.
        repeats: of sampling; None: as in the paper, or few for a quick version.
        speaker_label: of sound, the label that says who speaks.
        device: to train on.
        command: what is written down as the origin of results.
    """

    name: str
    quick: bool
    data: str | None
    out: Path
    preset: str | None
    overrides: Mapping[str, Any]
    seed: int
    num_seeds: int
    repeats: int | None
    speaker_label: str | None
    device: str
    command: str

    def trainings(self, name: str) -> "dict[Path, ReproduceConfig]":
        """The folder of every training of the model `name` -> the config with that seed alone."""
        return {
            self.out / (name if seed == self.seed else f"{name}-{seed}"): replace(self, seed=seed, num_seeds=1)
            for seed in self.seeds
        }

    @property
    def seeds(self) -> range:
        return range(self.seed, self.seed + self.num_seeds)

    @property
    def experiment(self) -> Experiment:
        if self.name not in EXPERIMENTS:
            raise InputError(f"unknown table {self.name!r}; {suggest(self.name, EXPERIMENTS)}")
        return EXPERIMENTS[self.name]


def build_settings(config: ReproduceConfig) -> Settings:
    """The preset's settings with the data: the real set's folder if there is one, else the stand-in."""
    experiment = config.experiment
    if "seed" in config.overrides.get("train", {}):
        raise InputError(f"train.seed = {config.overrides['train']['seed']}: of reproduce it is asked with --seed")
    preset = read_yaml(config.preset or (experiment.quick if config.quick else experiment.paper))
    if config.quick and config.preset is None:
        preset = merged(preset, dict(experiment.quick_changes))
    data: dict[str, Any] = {"name": experiment.stand_in}
    if config.data is not None:
        data = {"name": experiment.real, "path": config.data}
        if config.name == "speech":
            data = _speech_data(config.data, config.speaker_label)
    values = merged(on_data(preset, data), {"train": {"seed": config.seed, "device": config.device}})
    return Settings.of(merged(values, dict(config.overrides)))


def _speech_data(path: str, label: str | None) -> dict[str, Any]:
    """Settings of TIMIT, or of any folder that says who speaks, with disjoint speakers in the splits."""
    if timit.is_corpus(Path(path)):
        return {"name": "timit", "path": path, "test_fraction": TEST_FRACTION}
    everything = open_data(DataSettings(path=path))
    if everything.units.rate is None:
        raise InputError(f"expected recordings in {path!r}, got {everything.name}, which has no sound")
    label = find_speaker_label(everything, label)
    data: dict[str, Any] = {"path": path, "test_fraction": TEST_FRACTION, "group": label}
    speakers = open_data(DataSettings(**data)).split("test").labels[label]
    if len(np.unique(speakers)) < 2 or len(np.unique(speakers)) == len(speakers):
        raise InputError(
            f"verification needs two test speakers at least, one of them with two recordings; {path!r} has "
            f"{len(np.unique(speakers))} in {len(speakers)} test recordings ({TEST_FRACTION:.0%} of the speakers test)"
        )
    return data


def build_eval_config(config: ReproduceConfig, base: EvalConfig) -> EvalConfig:
    """`base` with the repetitions of the paper, or of a quick version; speech has no classifier in the paper."""
    base = replace(base, use_classifier=config.name != "speech")
    if not config.quick:
        return replace(base, repeats=config.repeats or REPEATS)
    return replace(
        base,
        repeats=config.repeats or QUICK_REPEATS,
        search_batches=QUICK_SEARCH_BATCHES,
        search_blocks=QUICK_SEARCH_BLOCKS,
        limit=config.experiment.quick_limit,
    )


def reproduce(config: ReproduceConfig, base: EvalConfig, reporter: Reporter) -> tuple[Results, list[Path]]:
    """Train and evaluate, or continue either; write table.md, table.json and pictures to the folder.

    Args:
        config: what to reproduce.
        base: how to evaluate; `build_eval_config` changes it.
        reporter: shows progress.

    Returns:
        The results and the files.
    """
    experiment = config.experiment
    if config.speaker_label is not None and config.name != "speech":
        raise InputError(f"--speaker-label says who speaks, got it for {config.name}")
    if RunFolder(config.out).settings.exists():
        raise InputError(f"{str(config.out)!r} is a run's own folder; choose another with --out")
    trainings = config.trainings("run")
    all_settings = [build_settings(each) for each in trainings.values()]  # bad ones fail before any training
    stand_in = f"{experiment.stand_in}, which are made here and stand in for the real set"
    data = stand_in if config.data is None else f"the files in {config.data}"
    reporter.log(f"{experiment.title}: {data}")
    eval_config = build_eval_config(config, base)
    note = f"Data: {data}."
    if config.name == "ablation":
        return _reproduce_ablation(config, eval_config, note, reporter)
    runs = [  # all trainings first: they take longest
        ensure_factors(train_or_resume(settings, path, config.command, reporter), reporter)
        for settings, path in zip(all_settings, trainings, strict=True)
    ]
    models, context = measure_models(runs[0], eval_config, reporter)
    # Baselines depend on the data, not on the training, and are measured once.
    others = [measure_models(run, replace(eval_config, baselines=False), reporter)[0][0] for run in runs[1:]]
    own = over_seeds([models[0], *others])
    results = Results(
        f"The paper's tables: {experiment.title}",
        [*experiment.published, own, *models[1:], chance_results(context)],
        all_tables(context.table_labels, context.motion_label),
        [note, *_seed_notes(config), *context.notes],
    )
    files = [*results.write(config.out / "table"), *_draw_pictures(runs[0], own, context, config.out)]
    return results, files


def first_runs(config: ReproduceConfig) -> list[Path]:
    """The folder of every model that was trained, with the first seed."""
    names = [name.replace(" ", "-") for name in ABLATIONS] if config.name == "ablation" else ["run"]
    return [next(iter(config.trainings(name))) for name in names]


def _seed_notes(config: ReproduceConfig) -> list[str]:
    if config.num_seeds == 1:
        return []
    return [
        f"Values of our models are means over {config.num_seeds} trainings with seeds {config.seeds[0]} to "
        f"{config.seeds[-1]}, ± the standard deviation between trainings. Pictures are of the first."
    ]


def _reproduce_ablation(
    config: ReproduceConfig, eval_config: EvalConfig, note: str, reporter: Reporter
) -> tuple[Results, list[Path]]:
    """Four models that differ in the spectral loss only."""
    runs: dict[str, list[Run]] = {}
    for name, change in ABLATIONS.items():
        for path, each in config.trainings(name.replace(" ", "-")).items():
            reporter.log(f"{name}, seed {each.seed}:")
            settings = build_settings(each).replaced({"loss": change})
            runs.setdefault(name, []).append(train_or_resume(settings, path, config.command, reporter))
    models: dict[str, list[ModelResults]] = {}
    context: EvalContext | None = None
    for name, some in runs.items():
        for run in some:
            (own,), context = measure_models(run, replace(eval_config, baselines=False), reporter)
            models.setdefault(name, []).append(replace(own, name=name))
    assert context is not None
    results = Results(
        "The paper's ablation",
        [*map(over_seeds, models.values()), chance_results(context)],
        all_tables(context.table_labels, context.motion_label),
        [note, *_seed_notes(config), *describe_differences(models), *context.notes],
    )
    first = {name: some[0] for name, some in runs.items()}
    pair = context.clips.select(_find_unlike_pair(context))
    sheet = ablation({name: run.decompose(pair) for name, run in first.items()}, 0, 1)
    spectra = {name: (*run.spectrum(), run.settings.spectrum.radius) for name, run in first.items()}
    figures = {"swaps": sheet_figure(sheet), "spectra": spectra_figure(spectra)}
    pictures = [save_figure(figure, config.out / f"{name}.png") for name, figure in figures.items()]
    return results, [*results.write(config.out / "table"), *pictures]


def describe_differences(models: Mapping[str, Sequence[ModelResults]]) -> list[str]:
    """A sentence for each model after the first on how it differs from that; none for single trainings.

    Args:
        models: a model's name -> the results of its trainings, the seeds in the same order for all.
    """
    (name, full), *others = models.items()
    if len(full) < 2:
        return []
    lines = []
    for other, some in others:
        parts = []
        for text, key in COMPARED.items():
            if all(key in each.values for each in (*full, *some)):
                delta = difference(key, some, full)
                is_sure = delta.is_significant
                parts.append(f"{text} {delta.mean:+.3f} ± {delta.error:.3f}" if is_sure else f"{text} none")
        lines.append(f"{other} against {name}: {', '.join(parts)}.")
    rule = (
        f"Differences: ± is a standard error over {len(full)} seeds; what chance would reach in 5% (Student's t) is "
        "called none."
    )
    return [*lines, rule]


def _find_unlike_pair(context: EvalContext) -> tuple[int, int]:
    """Two clips with different motion, if there are any."""
    order = context.config.generator(9).permutation(len(context.clips))
    motion = context.clips.labels.get(context.motion_label or "", order)
    other = next((i for i in order if motion[i] != motion[order[0]]), order[-1])
    return int(order[0]), int(other)


def _draw_pictures(run: Run, model: ModelResults, context: EvalContext, folder: Path) -> list[Path]:
    """The spectrum, the swap matrices, swaps of either part, the factors."""
    spectrum = spectrum_figure(*run.spectrum(), run.settings.spectrum.radius)
    files = [save_figure(spectrum, folder / "spectrum.png"), *draw_matrix(model, context, folder)]
    if len(context.clips) < 2:
        return files
    chosen = context.config.generator(9).permutation(len(context.clips))[: 2 * NUM_PAIRS]
    parts = run.decompose(context.clips.select(np.asarray(chosen)))
    pairs = [(i, i + 1) for i in range(0, len(chosen) - 1, 2)]
    files.append(save_figure(sheet_figure(two_factor_swaps(parts, pairs)), folder / "swaps.png"))
    return files + (draw_factors(run) if run.factors is not None else [])
