"""evaluate and compare as commands: measure, write results, print them"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.table import Table as Grid

from diskoop.data.cache import digest
from diskoop.errors import InputError, Stopped
from diskoop.evaluation.evaluate import (
    ResultCache,
    build_context,
    cache_inputs,
    chance_results,
    measure_baselines,
    measure_run,
)
from diskoop.evaluation.registry import EvalConfig, EvalContext, all_tables
from diskoop.evaluation.results import Key, ModelResults, Results, merge_notes
from diskoop.run import Run
from diskoop.training.progress import Reporter
from diskoop.workflows import factors
from diskoop.workflows.clips import judge_run
from diskoop.workflows.console import output_console, print_lines

OWN_NAME = "ours"


def evaluate(run: Run, config: EvalConfig, reporter: Reporter) -> tuple[Results, list[Path]]:
    """Measure a run and its baselines; write evaluation.md, evaluation.json and matrix.png to its folder.

    Returns:
        The results and the files.
    """
    models, context = measure_models(run, config, reporter)
    title = f"{run.folder.path.name}: {context.clips.name}"
    tables = all_tables(context.table_labels, context.motion_label)
    results = Results(title, [*models, chance_results(context)], tables, [*describe_verdict(run), *context.notes])
    files = results.write(run.folder.path / "evaluation")
    return results, [*files, *draw_matrix(models[0], context, run.folder.path)]


def describe_verdict(run: Run) -> list[str]:
    """The verdict on the run's test clips in sentences; none if there is none."""
    verdict = judge_run(run, "test")
    return [] if verdict is None else verdict.sentences()


def measure_models(run: Run, config: EvalConfig, reporter: Reporter) -> tuple[list[ModelResults], EvalContext]:
    """The results of the run, followed by those of its baselines if `config` asks for them; cached in its folder.

    Raises:
        Stopped: on Ctrl-C; what was measured is in the cache.
    """
    context = build_context(run, config, reporter)
    run = ensure_factors(run, reporter)
    inputs = cache_inputs(run, context)
    cache = ResultCache(run.folder.path / "results" / f"{digest(inputs)}.json", inputs)
    if cache.entries:
        reporter.log(f"{len(cache.entries)} parts of this evaluation are in {cache.path} already")
    try:
        own = measure_run(OWN_NAME, run, context, cache, reporter.log)
        baselines = measure_baselines(run, context, cache, reporter.log) if config.baselines else []
    except KeyboardInterrupt:
        raise Stopped(
            f"stopped with {len(cache.entries)} parts measured; the same command goes on from there"
        ) from None
    return [own, *baselines], context


def ensure_factors(run: Run, reporter: Reporter) -> Run:
    """The run with factors; if it has none, they are discovered without labels.

    They are saved, unless the model has not learnt its clips: then they are measured and not presented as found.
    """
    if run.factors is not None:
        return run
    reporter.log("finding factors without labels")
    try:
        found = run.find_factors()
        verdict = judge_run(run)
        if verdict is not None and not verdict.has_learnt:
            reporter.log(f"its factors are measured and not saved: {verdict.problems[0]}")
            return replace(run, factors=found)
        return run.save_factors(found)
    except InputError as error:
        reporter.log(f"no factors: {error}")
        return run


def draw_matrix(model: ModelResults, context: EvalContext, folder: Path) -> list[Path]:
    """The swap matrices as matrix.png in `folder`, if there are any."""
    labels = [label for label in context.classified_labels if Key("swap", label, label) in model.values]
    if context.classifier is None or not labels:
        return []

    def mean(*key: str) -> float:
        value = model.values.get(Key(*key))
        return float("nan") if value is None else value.mean

    matrix, kept = (np.array([[mean(name, b, a) for b in labels] for a in labels]) for name in ("swap", "swap_kept"))
    chance = chance_results(context).values
    title = factors.score_text(*(mean("multifactor", column) for column in ("score", "kept", "chance_score")))
    guesses = [chance[Key("swap", label, label)].mean for label in labels]
    return [factors.draw_matrix(folder / "matrix.png", labels, matrix, kept, guesses, title, context.classifier)]


def compare(runs: Sequence[Run], config: EvalConfig, reporter: Reporter) -> Results:
    """Measure runs with one config, without baselines."""
    models: list[ModelResults] = []
    notes_of: dict[str, Sequence[str]] = {}
    labels: dict[str, None] = {}
    motion_label: str | None = None
    sets: dict[str, str] = {}
    for run in runs:
        name = str(run.folder.path)
        (own,), context = measure_models(run, replace(config, baselines=False), reporter)
        models.append(replace(own, name=name))
        labels |= dict.fromkeys(context.table_labels)
        motion_label = motion_label or context.motion_label
        notes_of[name] = [*describe_verdict(run), *context.notes]
        sets[name] = context.clips.name
    notes = merge_notes(notes_of)
    if len(set(sets.values())) > 1:
        listed = ", ".join(f"{name} on {data}" for name, data in sets.items())
        notes.insert(0, f"these runs were trained on different sets, so their values are not comparable: {listed}")
    return Results("Runs side by side", models, all_tables(list(labels), motion_label), notes)


def print_results(results: Results) -> None:
    """Print the notes, the tables, and the notes of each model."""
    print_lines(results.notes)
    console = output_console()
    for table, lines in results.filled_tables():
        grid = Grid(title=table.title, title_justify="left", title_style="bold", box=None)
        grid.add_column("", no_wrap=True)
        for heading in table.headings():
            grid.add_column(heading, justify="right")
        for line in lines:
            grid.add_row(line.name, *line.cells)
        console.print()
        console.print(grid, highlight=False, markup=False)
    print_lines(merge_notes({model.name: model.notes for model in results.models}))
