"""the paper's tables by one command: data, training, judge, protocols, and the published figures beside ours"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from diskoop.data import open_data, timit
from diskoop.errors import InputError, suggest
from diskoop.evaluation.evaluate import EvalContext
from diskoop.evaluation.layout import chance, tables
from diskoop.evaluation.published import FACES, SPEECH, SPRITES
from diskoop.evaluation.results import Measured, Results, difference, over_seeds
from diskoop.evaluation.verification import who_speaks
from diskoop.figures import ablation, spectra, spectrum_figure, two_factor_swaps
from diskoop.interfaces.commands import draw_factors, open_run
from diskoop.interfaces.scoring import EvalConfig, draw_matrix, measured, with_factors
from diskoop.pictures import save_figure
from diskoop.run import Run
from diskoop.settings import DataSettings, Settings, merged, on_data, read_yaml
from diskoop.training import loop
from diskoop.training.checkpoint import RunFolder, load_settings
from diskoop.training.progress import Reporter

REPEATS = 300  # the paper's
QUICK_REPEATS = 3
QUICK_SEARCHED = 2  # batches
PAIRS = 3  # shown
TESTED = 0.3  # of the speakers, where nobody said who tests


@dataclass(frozen=True)
class Experiment:
    """One of the paper's sets: what stands in for it, the presets, and who else was measured on it."""

    title: str
    stand_in: str  # a set that is made here
    paper: str  # the preset with the paper's settings
    quick: str
    published: Sequence[Measured]
    real: str  # the set that is read from a folder
    few: int  # test sequences that a quick version is measured on: longer ones, or four models, take longer
    change: Mapping[str, Any] = field(default_factory=dict)  # to the quick preset


SETS = {
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
# What is left of the spectral loss in each model of the paper's ablation.
ABLATIONS: dict[str, dict[str, float]] = {
    "full": {},
    "L_stat only": {"dyn": 0.0},
    "L_dyn only": {"stat": 0.0},
    "plain KAE": {"eig": 0.0},
}

# What the models of an ablation are compared by.
COMPARED = {
    "multifactor score": "multifactor/score",
    "kept": "kept/score",
    "modularity": "dci/modularity",
    "compactness": "dci/compactness",
    "explicitness": "dci/explicitness",
}


@dataclass(frozen=True)
class ReproduceConfig:
    """What was asked for on the command line."""

    name: str
    quick: bool
    data: str | None  # a folder with the real set's files
    out: Path
    preset: str | None
    overrides: Mapping[str, Any]
    seed: int
    seeds: int  # how many trainings, from `seed` on
    repeats: int | None
    who: str | None  # of sound: the label that says who speaks
    device: str
    command: str

    def trainings(self, name: str) -> "dict[Path, ReproduceConfig]":
        """A folder for every training of the model `name`, and what is asked of the one with its seed alone."""
        return {
            self.out / (name if seed == self.seed else f"{name}-{seed}"): replace(self, seed=seed, seeds=1)
            for seed in self.all_seeds
        }

    @property
    def all_seeds(self) -> range:
        return range(self.seed, self.seed + self.seeds)

    @property
    def experiment(self) -> Experiment:
        if self.name not in SETS:
            raise InputError(f"unknown table {self.name!r}; {suggest(self.name, SETS)}")
        return SETS[self.name]


def settings_for(options: ReproduceConfig) -> Settings:
    """The preset's settings on the data there are: the real set's where a folder was given, else the stand-in."""
    experiment = options.experiment
    if "seed" in options.overrides.get("train", {}):
        raise InputError(f"train.seed = {options.overrides['train']['seed']}: of reproduce it is asked with --seed")
    preset = read_yaml(options.preset or (experiment.quick if options.quick else experiment.paper))
    if options.quick and options.preset is None:
        preset = merged(preset, dict(experiment.change))
    where: dict[str, Any] = {"name": experiment.stand_in}
    if options.data is not None:
        where = {"name": experiment.real, "path": options.data}
        if options.name == "speech":
            where = _recordings(options.data, options.who)
    values = merged(on_data(preset, where), {"train": {"seed": options.seed, "device": options.device}})
    return Settings.of(merged(values, dict(options.overrides)))


def _recordings(path: str, who: str | None) -> dict[str, Any]:
    """TIMIT, or any folder that says who speaks; nobody is trained on and tested on."""
    if timit.is_corpus(Path(path)):
        return {"name": "timit", "path": path, "test": TESTED}
    everything = open_data(DataSettings(path=path))
    if everything.units.rate is None:
        raise InputError(f"expected recordings in {path!r}, got {everything.name}, which has no sound")
    label = who_speaks(everything, who)
    where: dict[str, Any] = {"path": path, "test": TESTED, "group": label}
    tested = open_data(DataSettings(**where)).part("test").labels[label]
    if len(np.unique(tested)) < 2 or len(np.unique(tested)) == len(tested):
        raise InputError(
            f"speakers are told apart in two test speakers at least, one of them heard twice; {path!r} has "
            f"{len(np.unique(tested))} in {len(tested)} test recordings ({TESTED:.0%} of the speakers test)"
        )
    return where


def plan_for(options: ReproduceConfig, config: EvalConfig) -> EvalConfig:
    """As thorough as the paper, or quick."""
    if options.quick:
        plan = replace(config.plan, repeats=options.repeats or QUICK_REPEATS, searched=QUICK_SEARCHED)
        return replace(config, plan=plan, limit=options.experiment.few)
    return replace(config, plan=replace(config.plan, repeats=options.repeats or REPEATS))


def reproduce(options: ReproduceConfig, config: EvalConfig, reporter: Reporter) -> tuple[Results, list[Path]]:
    """Train, or go on; measure, or go on; write table.md, table.json and pictures to the folder."""
    experiment = options.experiment
    if options.who is not None and options.name != "speech":
        raise InputError(f"--who says who speaks, got it for {options.name}")
    if RunFolder(options.out).settings.exists():
        raise InputError(f"{str(options.out)!r} is a run's own folder; choose another with --out")
    for mine in options.trainings("run").values():  # what is wrong with one of them is said before any is trained
        settings_for(mine)
    stand_in = f"{experiment.stand_in}, which are made here and stand in for the real set"
    which = stand_in if options.data is None else f"the files in {options.data}"
    reporter.say(f"{experiment.title}: {which}")
    config = replace(plan_for(options, config), judged=options.name != "speech")  # the paper judges no speech
    note = f"Data: {which}."
    if options.name == "ablation":
        return _ablation(options, config, note, reporter)
    runs = []
    for path, mine in options.trainings(
        "run"
    ).items():  # all of them first: training is what is most likely interrupted
        runs.append(with_factors(trained(settings_for(mine), path, options.command, reporter), reporter))
    models, context = measured(runs[0], config, reporter)
    # What stands beside depends on the data, not on the training, and is measured once.
    others = [measured(run, replace(config, beside=False), reporter)[0][0] for run in runs[1:]]
    own = over_seeds([models[0], *others])
    results = Results(
        f"The paper's tables: {experiment.title}",
        [*experiment.published, own, *models[1:], chance(context)],
        tables(context.shown, context.moving),
        [note, *_over(options), *context.notes],
    )
    files = [*results.write(options.out / "table"), *_pictures(runs[0], own, context, options.out)]
    return results, files


def _over(options: ReproduceConfig) -> list[str]:
    """What one should know of figures from several trainings."""
    if options.seeds == 1:
        return []
    return [
        f"Figures of our models are means over {options.seeds} trainings with seeds {options.all_seeds[0]} to "
        f"{options.all_seeds[-1]}, ± the standard deviation between trainings. Pictures are of the first."
    ]


def _ablation(
    options: ReproduceConfig, config: EvalConfig, note: str, reporter: Reporter
) -> tuple[Results, list[Path]]:
    """Four models that differ in the spectral loss only."""
    runs: dict[str, list[Run]] = {}
    for name, change in ABLATIONS.items():
        for path, mine in options.trainings(name.replace(" ", "-")).items():
            reporter.say(f"{name}, seed {mine.seed}:")
            changed = settings_for(mine).replaced({"loss": change})
            runs.setdefault(name, []).append(trained(changed, path, options.command, reporter))
    trainings: dict[str, list[Measured]] = {}
    context: EvalContext | None = None
    for name, some in runs.items():
        for run in some:
            (own,), context = measured(run, replace(config, beside=False), reporter)
            trainings.setdefault(name, []).append(replace(own, name=name))
    assert context is not None
    results = Results(
        "The paper's ablation",
        [*map(over_seeds, trainings.values()), chance(context)],
        tables(context.shown, context.moving),
        [note, *_over(options), *differences(trainings), *context.notes],
    )
    shown = {name: some[0] for name, some in runs.items()}
    pictures = {"swaps": ablation(shown, context.clips, *_unlike(context)), "spectra": spectra(shown)}
    drawn = [save_figure(figure, options.out / f"{name}.png") for name, figure in pictures.items()]
    return results, [*results.write(options.out / "table"), *drawn]


def differences(trainings: Mapping[str, Sequence[Measured]]) -> list[str]:
    """What leaving a loss out changes, in a sentence for each model after the first; nothing of single trainings.

    Args:
        trainings: a model's name -> what was measured of each of its trainings, seeds in the same options for all.
    """
    (name, full), *others = trainings.items()
    if len(full) < 2:
        return []
    lines = []
    for other, some in others:
        said = []
        for words, key in COMPARED.items():
            if all(key in each.figures for each in (*full, *some)):
                found = difference(key, some, full)
                said.append(f"{words} {found.by:+.3f} ± {found.error:.3f}" if found.is_sure else f"{words} none")
        lines.append(f"{other} against {name}: {', '.join(said)}.")
    rule = (
        f"Differences: ± is a standard error over {len(full)} seeds; what chance would reach in 5% (Student's t) is "
        "called none."
    )
    return [*lines, rule]


def _unlike(context: EvalContext) -> tuple[int, int]:
    """Two clips that do different things, if any do."""
    order = context.plan.random(9).permutation(len(context.clips))
    done = context.clips.labels.get(context.moving or "", order)
    other = next((i for i in order if done[i] != done[order[0]]), order[-1])
    return int(order[0]), int(other)


def trained(settings: Settings, path: Path, again: str, reporter: Reporter) -> Run:
    """The run in the folder `path`: trained now, gone on with, or found finished."""
    folder = RunFolder(path)
    if not folder.settings.exists():
        loop.train(settings, path, reporter=reporter, again=again)
    elif _anywhere(load_settings(folder)) != _anywhere(settings):
        raise InputError(f"{str(path)!r} holds a run with other settings; choose another folder with --out")
    elif not (folder.model.exists() and folder.operator.exists()):
        loop.resume(path, reporter=reporter, again=again)
    return open_run(path, "cpu" if settings.train.device == "cpu" else "auto")


def _anywhere(settings: Settings) -> Settings:
    """On whatever device; a folder's place in full."""
    return loop.with_absolute_paths(settings).replaced({"train": {"device": "auto"}})


def _pictures(run: Run, model: Measured, context: EvalContext, folder: Path) -> list[Path]:
    """What a person would rather look at: the spectrum, swaps of either part, the factors, the matrix."""
    files = [save_figure(spectrum_figure(run), folder / "spectrum.png"), *draw_matrix(model, context, folder)]
    if len(context.clips) < 2:
        return files
    chosen = context.plan.random(9).permutation(len(context.clips))[: 2 * PAIRS]
    parts = run.decompose(context.clips.select(np.asarray(chosen)))
    pairs = [(i, i + 1) for i in range(0, len(chosen) - 1, 2)]
    files.append(save_figure(two_factor_swaps(parts, pairs), folder / "swaps.png"))
    return files + (draw_factors(run) if run.found is not None else [])
