"""factors of a run: find, save, score, draw and map them"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diskoop.analysis import embedding
from diskoop.analysis.discovery import DISCOVERY_METHODS
from diskoop.analysis.discovery.results import COLUMNS, MIN_STRENGTH, DiscoveredFactor, DiscoveryResult, FactorDiscovery
from diskoop.analysis.embedding import ClusterScore, cluster_score, require_label, select_fixed
from diskoop.analysis.sheets import factor_sheet
from diskoop.analysis.verdict import Verdict
from diskoop.data import Sequences, SplitName, open_data
from diskoop.errors import InputError, suggest
from diskoop.evaluation.classifiers import Classifier, is_own_data, load_or_train_classifier
from diskoop.evaluation.protocols.swaps import (
    SwapMatrices,
    describe_matches,
    match_factors,
    strongest_factors,
    swap_matrices,
)
from diskoop.plots.scores import embedding_figure, matrix_figure
from diskoop.plots.sheets import sheet_figure
from diskoop.plots.spectra import gap_figure, spectrum_figure
from diskoop.plots.style import save_figure
from diskoop.run import Run
from diskoop.scores_file import save_scores
from diskoop.storage import atomic_write
from diskoop.workflows.clips import describe_clip, load_clips, parse_factor, random_indices, split_names
from diskoop.workflows.console import Justify, print_lines, print_table, show_progress

SCORED_SPLITS: tuple[SplitName, SplitName] = ("train", "test")  # where factors are matched to labels, and scored
SEARCH_BATCH = 256  # clips that a method with a classifier searches, the paper's
NUM_DONORS = 5  # shown for each factor
MAX_EMBEDDED = 1500  # clips on a map; more take minutes and hide each other


@dataclass(frozen=True)
class DiscoveryConfig:
    """How to find factors: a registered method, and options that it has."""

    method: str = "label-free"
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.method not in DISCOVERY_METHODS:
            raise InputError(f"unknown method {self.method!r}; {suggest(self.method, DISCOVERY_METHODS)}")
        for name in self.options:
            owners = [f"--method {key}" for key, method in DISCOVERY_METHODS.items() if name in option_names(method)]
            if f"--method {self.method}" not in owners:
                raise InputError(f"--{name.replace('_', '-')} means nothing without {' or '.join(owners)}")


def find_factors(run: Run, config: DiscoveryConfig) -> DiscoveryResult:
    """Find factors in the training split; a method with a classifier uses a batch of it, with that batch's operator."""
    method = DISCOVERY_METHODS[config.method]
    options = dict(config.options) | ({"progress": show_progress} if "progress" in option_names(method) else {})
    if "predict" not in option_names(method):
        return run.find_factors(method=method(**options))
    classifier, train = load_classifier(run), run.data("train")
    batch = run.decompose(train.select(np.sort(random_indices(len(train), SEARCH_BATCH, 0))), operator="batch")
    options["labels"] = options.get("labels") or classifier.labels
    if reasons := [
        f"{label}: {classifier.excluded[label]}" for label in options["labels"] if label in classifier.excluded
    ]:
        raise InputError(f"factors cannot be searched for {'; '.join(reasons)}")
    result = method(**options | {"predict": classifier.predict}).find(batch)
    return replace(result, notes=(*result.notes, classifier.describe()))


def option_names(method: type[FactorDiscovery]) -> list[str]:
    """The options of a method of discovery: the fields of its dataclass."""
    return [each.name for each in fields(method)] if is_dataclass(method) else []


def prepare_factors(run: Run, config: DiscoveryConfig, renames: Sequence[str] = ()) -> tuple[Run, list[Path]]:
    """The run with factors: renamed, those it has, or new ones.

    Args:
        run: a run with factors, or one loaded without them, for which they are found.
        config: how to find them.
        renames: OLD=NEW each.

    Returns:
        The run, and the file that keeps the factors that new ones replaced, if there were any.
    """
    if renames:
        return run.rename_factors(dict(map(_parse_rename, renames))), []
    return (run, []) if run.factors is not None else replace_factors(run, find_factors(run, config))


def require_learnt(verdict: Verdict | None, anyway: bool = False) -> None:
    """Raise an InputError if the model has not learnt its clips: factors found in it would mean nothing.

    `anyway` lets such a model pass, unless nothing varies in its clips.
    """
    if verdict is not None and not verdict.varies:
        raise InputError(f"there are no factors to find: {verdict.problems[0]}")
    if verdict is not None and not verdict.has_learnt and not anyway:
        raise InputError(
            f"there are no factors to find: on {verdict.clips} {verdict.problems[0]}; --anyway looks for factors all "
            "the same"
        )


def replace_factors(run: Run, result: DiscoveryResult) -> tuple[Run, list[Path]]:
    """Save factors; the previous ones, which a user may have named, are kept as factors-before.json."""
    backups = []
    if run.folder.factors.exists():
        backups = [run.folder.path / "factors-before.json"]
        with atomic_write(backups[0]) as temporary:
            temporary.write_bytes(run.folder.factors.read_bytes())  # damaged or not
    return run.save_factors(result), backups


def _parse_rename(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not (equals and old and new):
        raise InputError(f"expected --rename OLD=NEW, got {text!r}")
    return old, new


def summarize_factors(run: Run) -> dict[str, Any]:
    """A run's factors as a JSON object."""
    result = run.require_factors()
    return {
        "method": result.method,
        "source": result.found_in,
        "notes": list(result.notes),
        "factors": [factor.as_dict() for factor in result.factors],
        "weak": [factor.name for factor in result.weak],
    }


def shown_factors(result: DiscoveryResult, show_all: bool = False) -> list[DiscoveredFactor]:
    """The factors of tables and pictures: with `show_all` the weak ones too."""
    return [factor for factor in result.factors if show_all or factor not in result.weak]


def weak_text(result: DiscoveryResult) -> str:
    """`and 3 weaker factors below 1%: factor-7, factor-8, rest`, or nothing where there are none."""
    names = [factor.name for factor in result.weak]
    count = "a weaker factor" if len(names) == 1 else f"{len(names)} weaker factors"
    return f"and {count} below {MIN_STRENGTH:.0%}: {', '.join(names)}" if names else ""


def print_factors(run: Run, facts: dict[str, Any], show_all: bool = False) -> None:
    """Print what `summarize_factors`, `score_factors` and `draw_embedding` returned."""
    result = run.require_factors()
    numbers = ("dimensions", "strength", "stability")
    columns: dict[str, Justify] = {name: "right" if name in numbers else "left" for name in COLUMNS}
    shown = shown_factors(result, show_all)
    print_table(f"factors: {result.method}, in {result.found_in}", columns, [factor.row() for factor in shown])
    if len(shown) < len(result.factors):
        print_lines([f"{weak_text(result)}; see --all"])
    print_lines(f"note: {note}" for note in dict.fromkeys(result.notes))
    if "no_score" in facts:
        print_lines([f"no score: {facts['no_score']}"])
    elif "score" in facts:
        _print_score(facts)
    if "clusters" in facts:
        print_lines([f"map: {ClusterScore(**facts['clusters'])}"])


def _print_score(facts: dict[str, Any]) -> None:
    print_lines([facts["classifier"], *describe_matches(facts["matched"])])
    titles = {
        "matrix": "the swapped label, and how often each label then shows the donor's value",
        "kept_matrix": "the swapped label, and how often each label still shows its own value",
    }
    columns: dict[str, Justify] = {"swapped": "left", **dict.fromkeys(facts["matched"], "right")}
    for key, title in titles.items():
        rows = [[label, *_format_fractions(row)] for label, row in zip(facts["matched"], facts[key], strict=True)]
        print_table(title, columns, [*rows, ["chance", *_format_fractions(facts["chance"])]])
    alone = facts["single"]
    print_lines(
        [
            score_text(facts["score"], facts["kept"], facts["floor"]),
            f"with one factor a label: {score_text(alone['score'], alone['kept'])}",
        ]
    )


def _format_fractions(fractions: Iterable[float | None]) -> list[str]:
    return ["" if fraction is None else f"{fraction:.3f}" for fraction in fractions]


def score_text(score: float, kept: float | None, floor: float | None = None) -> str:
    """`score 0.871, kept 0.990, floor 0.578`, without those that are None or NaN."""
    figures = {"score": score, "kept": kept, "floor": floor}
    return ", ".join(
        f"{name} {value:.3f}" for name, value in figures.items() if value is not None and not np.isnan(value)
    )


def load_classifier(run: Run) -> Classifier:
    """The classifier of the run's own data, trained once and kept in the cache; without labels that it cannot tell."""
    device, settings = next(run.model.parameters()).device, run.settings.data
    return load_or_train_classifier(open_data(settings), str(device)).reliable(settings)


def score_factors(run: Run, max_clips: int | None = None) -> tuple[dict[str, Any], list[Path]]:
    """Match factors to labels in the training split, swap each in the test split, and classify the results.

    Args:
        run: with factors.
        max_clips: clips of each split at most, drawn with a fixed seed; None is all.

    Returns:
        The scores as a JSON object, with all factors of a label joined and, as `single`, with one factor a label;
        and the picture of the matrices. Where the data have no classifier that is good enough, only `no_score`, why.
        The scores are kept in the run's folder, too, as `scores.json`.
    """
    try:
        classifier = load_classifier(run)
    except InputError as error:
        return {"no_score": str(error)}, []
    accuracy = classifier.check_accuracy(run.settings.data)
    train, test = (_some(run.data(split), max_clips) for split in SCORED_SPLITS)
    matched = match_factors(run, train, classifier)
    joined, alone = swap_matrices(
        run.decompose(test),
        [matched, strongest_factors(matched)],
        classifier.predict,
        by_frequency=is_own_data(run.settings.data),
    )
    chance = [1 / count for count in joined.classes]
    facts = {
        "classifier": f"{classifier.describe()}; {accuracy}",
        **_matrix_facts(joined),
        "clips": len(test),
        "chance": chance,
        "floor": joined.chance_score,
        "single": _matrix_facts(alone),
    }
    command = f"diskoop factors {shlex.quote(run.folder.name)} --score" if max_clips is None else "diskoop demo"
    folder = run.folder.writable_copy()
    scores = {"command": command, "labels": joined.labels, **facts}
    save_scores(folder, scores, run.model, run.require_factors())
    title = score_text(joined.score, joined.kept, joined.chance_score)
    path = folder.path / "matrix.png"
    return facts, [draw_matrix(path, joined.labels, joined.matrix, joined.kept_matrix, chance, title, classifier)]


def _some(clips: Sequences, max_clips: int | None) -> Sequences:
    return clips if max_clips is None else clips.select(np.sort(random_indices(len(clips), max_clips, 0)))


def _matrix_facts(result: SwapMatrices) -> dict[str, Any]:
    """As JSON, which has no NaN."""
    return {
        "matched": {label: list(names) for label, names in result.matched.items()},
        "matrix": result.matrix.tolist(),
        "kept_matrix": [
            [None if np.isnan(fraction) else fraction for fraction in row] for row in result.kept_matrix.tolist()
        ],
        "score": result.score,
        "kept": None if np.isnan(result.kept) else result.kept,
    }


def draw_matrix(
    path: Path,
    labels: Sequence[str],
    matrix: NDArray[Any],
    kept: NDArray[Any],
    chance: Sequence[float],
    title: str,
    classifier: Classifier,
) -> Path:
    """Draw the two multifactor matrices side by side.

    Args:
        path: the picture.
        labels: of rows (swapped) and columns (classified).
        matrix: fractions that show the donor's value, (labels, labels).
        kept: fractions that still show their own value, (labels, labels).
        chance: fraction that guessing gets right, for each label.
        title: above both.
        classifier: named below them.
    """
    return save_figure(matrix_figure(matrix, labels, labels, title, chance, classifier.describe(), kept), path)


def picture_clips(run: Run) -> tuple[Sequences, NDArray[np.int64]]:
    """The source of the picture of factors, then its donors; and their indices among the test clips."""
    clips = load_clips(run)
    if len(clips) < 2:
        raise InputError(f"a picture of what factors do needs two clips at least, {clips.name} has {len(clips)}")
    drawn = random_indices(len(clips), NUM_DONORS + 1, 0)
    return clips.select(drawn), drawn


def describe_picture(run: Run) -> dict[str, Any]:
    """The clips in the picture of factors as a JSON object."""
    clips, drawn = picture_clips(run)
    source, *donors = (describe_clip(clips, index, int(number)) for index, number in enumerate(drawn))
    return {"source": source, "donors": donors}


def draw_factors(run: Run, show_all: bool = False) -> list[Path]:
    """Draw what each factor does, the spectrum, and the gap that helps to choose spectrum.static.

    Args:
        run: with factors.
        show_all: draw weak factors too.
    """
    result = run.require_factors()
    parts = run.decompose(picture_clips(run)[0])
    shown = shown_factors(result, show_all)
    captions = {each.name: f"{each.dimensions}-dimensional, strength {each.strength:.0%}" for each in shown}
    sheet = factor_sheet(parts, list(captions), 0, list(range(1, len(parts))), captions)
    if len(shown) < len(result.factors):
        sheet = replace(sheet, remark=weak_text(result))
    spectrum, static = run.spectrum()
    figures = {
        "factors": sheet_figure(sheet),
        "spectrum": spectrum_figure(spectrum, static, run.settings.spectrum.radius),
        "gap": gap_figure(spectrum, static),
    }
    return [save_figure(figure, run.folder.path / f"{name}.png") for name, figure in figures.items()]


def draw_embedding(
    run: Run, names: str, color: str | None, fix: str | None, data: str | None = None, split: str | None = None
) -> tuple[dict[str, Any], Path]:
    """Draw a map of clips by some factors.

    Args:
        run: with those factors.
        names: factors, or mode numbers, separated by commas.
        color: the labels that colour faces and edges; None is the first two.
        fix: labels that all clips on the map have in common; clips then come from all splits.
        data: other clips than the run's own.
        split: other clips than the test split.

    Returns:
        How well the map clusters, and the picture.
    """
    clips = load_clips(run, data, split or ("all" if fix else None))
    if fix:
        clips = select_fixed(clips, split_names(fix))
    if not clips.labels:
        raise InputError(f"{clips.name} has no labels to colour a map by")
    clips = clips.select(np.sort(random_indices(len(clips), MAX_EMBEDDED, 0)))
    face, edge = [*split_names(color or ""), *clips.labels, *clips.labels][:2]
    parts, factor = run.decompose(clips), parse_factor(split_names(names))
    codes = [require_label(clips, label) for label in (face, edge)]
    points = embedding.embed(parts.code(factor))
    score = cluster_score(points, *codes)
    figure = embedding_figure(points, clips, face, edge, score, parts.factor(factor).name)
    return asdict(score), save_figure(figure, run.folder.path / "embedding.png")
