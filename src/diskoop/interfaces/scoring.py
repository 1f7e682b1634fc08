"""evaluate and compare as commands: measure, write down, show"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table as Grid

from diskoop.data.cache import digest
from diskoop.errors import InputError, Stopped
from diskoop.evaluation.evaluate import EvalContext, ResultCache, about, eval_context, measure, measure_beside
from diskoop.evaluation.layout import chance, tables
from diskoop.evaluation.protocols import ProtocolConfig
from diskoop.evaluation.results import Measured, Results
from diskoop.interfaces import commands
from diskoop.run import Run
from diskoop.training.progress import Reporter

OURS = "ours"
WIDE = 160  # columns of a table that goes to a file


@dataclass(frozen=True)
class EvalConfig:
    """What the command line asks of an evaluation."""

    plan: ProtocolConfig
    limit: int | None = None  # test sequences
    moving: str | None = None  # the label that says what is done
    who: str | None = None  # the label that says who speaks
    beside: bool = True  # measure baselines too
    judged: bool = True  # what takes a judge
    command: str = "from Python"


def evaluate(run: Run, config: EvalConfig, reporter: Reporter) -> tuple[Results, list[Path]]:
    """Everything that can be measured of a run, beside baselines; in its folder evaluation.md and evaluation.json."""
    models, context = measured(run, config, reporter)
    title = f"{run.folder.path.name}: {context.clips.name}"
    results = Results(title, [*models, chance(context)], tables(context.shown, context.moving), context.notes)
    files = results.write(run.folder.path / "evaluation")
    return results, [*files, *draw_matrix(models[0], context, run.folder.path)]


def measured(run: Run, config: EvalConfig, reporter: Reporter) -> tuple[list[Measured], EvalContext]:
    """The run, and if wished what stands beside it; what was measured before just so is not measured again."""
    context = eval_context(run, config.plan, config.limit, config.moving, config.who, config.judged, reporter)
    run = with_factors(run, reporter)
    facts = about(run, context)
    results_cache = ResultCache(
        run.folder.path / "results" / f"{digest(facts)}.json", facts
    )  # one for each way to measure it
    if results_cache.entries:
        reporter.say(f"{len(results_cache.entries)} parts of this evaluation are in {results_cache.path} already")
    try:
        own = measure(OURS, run, context, results_cache, config.command, reporter.say)
        beside = measure_beside(run, context, results_cache, config.command, reporter.say) if config.beside else []
    except KeyboardInterrupt:
        raise Stopped(
            f"stopped with {len(results_cache.entries)} parts measured; the same command goes on from there"
        ) from None
    return [own, *beside], context


def with_factors(run: Run, reporter: Reporter) -> Run:
    """The run with factors; where there are none yet, they are found without labels and kept."""
    if run.found is not None:
        return run
    reporter.say("finding factors without labels")
    try:
        return run.keep(run.find_factors())
    except InputError as error:
        reporter.say(f"no factors: {error}")
        return run


def draw_matrix(model: Measured, context: EvalContext, folder: Path) -> list[Path]:
    """The multifactor matrices as a picture, if there are any."""
    labels = [label for label in context.labels if f"multifactor/{label}/{label}" in model.figures]
    if context.judge is None or not labels:
        return []

    def mean(key: str) -> float:
        return model.figures[key].mean if key in model.figures else float("nan")

    taken, kept = (
        np.array([[mean(f"{what}/{a}/{b}") for b in labels] for a in labels]) for what in ("multifactor", "kept")
    )
    guess = [chance(context).figures[f"multifactor/{label}/{label}"].mean for label in labels]
    title = commands.score_line(mean("multifactor/score"), mean("kept/score"), mean("multifactor/floor"))
    return [commands.draw_matrix(folder, labels, taken, kept, guess, title, context.judge)]


def compare(runs: Sequence[Run], config: EvalConfig, reporter: Reporter) -> Results:
    """Runs side by side, without baselines."""
    models: list[Measured] = []
    notes: list[str] = []
    labels: dict[str, None] = {}
    moving: str | None = None
    sets: dict[str, str] = {}
    for run in runs:
        name = str(run.folder.path)
        (own,), context = measured(run, replace(config, beside=False), reporter)
        models.append(replace(own, name=name))
        labels |= dict.fromkeys(context.shown)
        moving = moving or context.moving
        notes += [f"{name}: {note}" for note in context.notes]
        sets[name] = context.clips.name
    if len(set(sets.values())) > 1:
        said = ", ".join(f"{name} on {what}" for name, what in sets.items())
        notes.insert(0, f"these runs were trained on different sets, so the same figure means different things: {said}")
    return Results("Runs side by side", models, tables(list(labels), moving), notes)


def show(results: Results, console: Console | None = None) -> None:
    """The tables for a terminal."""
    console = console or Console(soft_wrap=True)
    console = console if console.is_terminal else Console(soft_wrap=True, width=WIDE)
    for note in results.notes:
        console.print(note, highlight=False, markup=False)
    for table, rows in results.grids():
        grid = Grid(title=table.title, title_justify="left", box=None, title_style="bold")
        grid.add_column("", no_wrap=True)
        for head in table.heads():
            grid.add_column(head, justify="right")
        for _, name, cells in rows:
            grid.add_row(name, *cells)
        console.print()
        console.print(grid, highlight=False, markup=False)
    for model in results.models:
        for note in model.notes:
            console.print(f"{model.name}: {note}", highlight=False, markup=False)
