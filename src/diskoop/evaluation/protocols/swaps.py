"""metrics of swaps: what a classifier recognises after factorial swaps, one factor at a time, in frames"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diskoop.analysis.decomposition import Decomposition, FactorLike
from diskoop.analysis.discovery.mode_search import Criterion, ModeSearch, accuracy_difference, label_accuracy
from diskoop.analysis.discovery.results import Predict
from diskoop.data.sequences import Sequences
from diskoop.errors import InputError
from diskoop.evaluation.classifiers import Classifier
from diskoop.evaluation.metrics import global_consistency, local_consistency
from diskoop.evaluation.registry import (
    EvalConfig,
    EvalContext,
    Outcome,
    effective_value_count,
    label_chance,
    label_columns,
    metric,
    value_count,
)
from diskoop.evaluation.results import Column, Key, Table, Values, single_value
from diskoop.numerics.factors import Factor
from diskoop.run import Run

Array = NDArray[Any]
Matched = Mapping[str, Sequence[str]]  # label -> its factors, the one that changes it most first

MATCHING_CLIPS = 512  # training sequences on which factors are matched to labels
CONSISTENCY_CLIPS = 512  # test sequences whose frames are classified
# A factor is matched to a label that it hands over more often than drawing errors do: in more than one of twenty
# sequences, since what is handed over less often than that would not be missed, and in more than chance explains. A
# swap that hands nothing over gains a donor's value as often as it loses one, so where m sequences differ before and
# after, the difference of gained and lost has a standard deviation of sqrt(m) (McNemar's test). Three of them are
# exceeded by chance once in 740 times, and five labels with six factors make 30 trials. Ten sequences that gain the
# donor's value are the fewest that suffice.
MIN_GAIN = 0.05
MIN_DEVIATIONS = 3.0


# --- factorial swaps

MAX_SEARCHED_WHOLLY = 8  # static modes, a pair counting once: 255 sets in every batch
CRITERIA: dict[str, Criterion] = {"factorial": label_accuracy, "factorial_alone": accuracy_difference}


def _factorial_tables(labels: Sequence[str], motion_label: str | None) -> list[Table]:
    rows = {label: f"{label} swap" for label in labels}
    remark = (
        "A label's modes are searched for in each batch and swapped in that same batch, as in the paper: the fraction "
        "that shows the donor's value."
    )
    alone = "The same where the search also asks that no other label changes."
    return [
        Table("Factorial swap", label_columns("factorial", labels), remark, rows),
        Table("Factorial swap, alone", label_columns("factorial_alone", labels), alone, rows),
    ]


def _factorial_chance(context: EvalContext) -> Values:
    labels = context.classified_labels
    return label_chance("factorial", labels, context) | label_chance("factorial_alone", labels, context)


@metric(
    "factorial swaps",
    requires=("classifier", "video"),
    tables=_factorial_tables,
    chance=_factorial_chance,
    baselines=False,  # the search takes long
)
def measure_factorial(run: Run, context: EvalContext) -> Outcome:
    """Each static label's modes searched for in every batch, as the paper does it, then swapped in that batch.

    All sets of up to MAX_SEARCHED_WHOLLY static modes are tried, of more only runs of neighbouring ones.

    Row: the label whose modes are swapped. Column: the label that is classified. Value: the fraction that shows its
    donor's value. Modes are scored on the batch they were searched in; `measure_swaps` scores on other sequences.
    """
    config, clips, predict = context.config, context.clips, context.require_classifier().predict
    swapped = [label for label in context.classified_labels if label != context.motion_label]
    if not swapped:
        raise InputError(f"there is no label but {context.motion_label} to swap")
    batches = config.batches(len(clips))[: config.search_batches]
    chosen: list[tuple[Decomposition, dict[tuple[str, str], Factor]]] = []
    for indices in config.progress(batches, "searching modes"):
        parts = run.decompose(clips.select(indices), "batch")
        search = ModeSearch(
            predict, tuple(swapped), exhaustive=_search_all(parts, config), max_blocks=config.search_blocks
        )
        tried = search.evaluate(parts)
        modes = {(name, label): tried.best(label, pick) for name, pick in CRITERIA.items() for label in swapped}
        chosen.append((parts, {key: parts.factor(some) for key, some in modes.items()}))
    repetitions = []
    for number in config.progress(range(config.swap_repeats), "factorial swaps"):
        flags: dict[Key, list[Array]] = {}
        for place, (parts, factors) in enumerate(chosen):
            donors = config.generator(3, number, place).permutation(len(parts))
            for (name, row), factor in factors.items():
                for label, shown in shows_donor(parts, factor, predict, donors).items():
                    flags.setdefault(Key(name, label, row), []).append(shown)
        repetitions.append({key: float(np.concatenate(some).mean()) for key, some in flags.items()})
    return Outcome(config.summarize(repetitions))


def _search_all(parts: Decomposition, config: EvalConfig) -> bool:
    """Whether to try every set of static modes, as the paper says; where there are many, runs of neighbours must do."""
    count = len(parts.spectrum.conjugate_groups(parts.static_modes))
    return config.search_blocks is None and count <= MAX_SEARCHED_WHOLLY


# --- one factor at a time


@dataclass(frozen=True, eq=False)
class SwapMatrices:
    """What a classifier recognises after the factors of one label at a time were taken from a donor.

    Row of either matrix: the label that was taken. Column: the label that is classified.
    """

    labels: tuple[str, ...]
    classes: tuple[float, ...]  # the number of values of each label, or the effective one; 1 / it is chance
    matrix: Array  # (labels, labels): the fraction that now shows the donor's value
    kept_matrix: Array  # (labels, labels): the fraction that still shows its own value; diagonal NaN
    matched: Matched

    @property
    def score(self) -> float:
        """Of what the swap changes; it does not tell whether the other labels are damaged."""
        return swap_score(self.matrix, self.classes)

    @property
    def kept(self) -> float:
        """The mean fraction that still shows its own value of a label that was not taken; NaN with a single label."""
        others = self.kept_matrix[~np.eye(len(self.labels), dtype=bool)]
        return float(others.mean()) if len(others) else float("nan")

    @property
    def chance_score(self) -> float:
        """The score of doing nothing."""
        return chance_score(self.classes)


def swap_score(matrix: Array, classes: Sequence[float]) -> float:
    """1 - (on + off) / 2: on the diagonal the mean distance to 1, elsewhere the mean distance to chance.

    Args:
        matrix: (labels, labels), as in `SwapMatrices`.
        classes: the number of values of each label; of unequally frequent ones the effective number.

    Example:
        >>> swap_score(np.array([[1.0, 0.5], [0.25, 1.0]]), classes=(4, 2))
        1.0
    """
    own = np.eye(len(classes), dtype=bool)
    chance = np.broadcast_to(1 / np.asarray(classes, float), matrix.shape)
    on = np.abs(matrix[own] - 1).mean()
    off = np.abs(matrix - chance)[~own].mean() if len(classes) > 1 else 0.0
    return float(1 - (on + off) / 2)


def chance_score(classes: Sequence[float]) -> float:
    """The score of doing nothing, and of swapping everything as well."""
    chance = np.broadcast_to(1 / np.asarray(classes, float), (len(classes), len(classes)))
    return swap_score(chance, classes)


def predict_after_swap(parts: Decomposition, what: FactorLike, predict: Predict, donors: Array) -> dict[str, Array]:
    """Label -> (n,) predicted values after a swap of `what`, for each label that the sequences have."""
    swapped = parts.swap(what, donors)
    predicted = predict(swapped.decoded(), swapped.lengths)
    return {label: codes for label, codes in predicted.items() if label in parts.clips.labels}


def shows_donor(parts: Decomposition, what: FactorLike, predict: Predict, donors: Array) -> dict[str, Array]:
    """Label -> (n,) whether a sequence shows its donor's true value after a swap of `what`."""
    labels, predicted = parts.clips.labels, predict_after_swap(parts, what, predict, donors)
    return {label: codes == labels[label][donors] for label, codes in predicted.items()}


def match_by_swaps(parts: Decomposition, names: Sequence[str], predict: Predict, seed: int = 0) -> dict[str, list[str]]:
    """Match each factor to the label it changes most, if it changes any.

    What a factor hands over is the fraction that shows the donor's value after a swap, less the fraction that shows it
    without one: a model that draws a label wrongly hits some donors' values by chance. Only sequences whose donor has
    another value count.

    Args:
        parts: sequences with labels; score the matching on others.
        names: factors of `parts`.
        predict: a classifier's.
        seed: of the donors.

    Returns:
        Label -> its factors, the one that hands over most first; a label that none changes has an empty list.
    """
    donors = _draw_donors(len(parts), seed)
    before = shows_donor(parts, [], predict, donors)  # a swap of nothing: the same frames of the same sequences
    if not (names and before):
        raise InputError("there is nothing to match: no factors, or no labels that the classifier predicts")
    matched: dict[str, list[tuple[float, str]]] = {label: [] for label in before}
    for name in names:
        after = shows_donor(parts, [name], predict, donors)
        gains = {}
        for label, codes in ((label, parts.clips.labels[label]) for label in before):
            other = codes != codes[donors]
            gains[label] = _gain(before[label][other], after[label][other])
        best = max(gains, key=lambda label: gains[label])
        if gains[best] > 0:
            matched[best].append((gains[best], name))
    return {label: [name for _, name in sorted(some, key=lambda each: -each[0])] for label, some in matched.items()}


def _gain(before: Array, after: Array) -> float:
    """How much more often donors' values show after a swap than before, (n,) flags each; 0 if not significant."""
    if not len(before):
        return 0.0
    gained, lost = int((after & ~before).sum()), int((before & ~after).sum())
    gain = (gained - lost) / len(before)
    is_significant = gained - lost > MIN_DEVIATIONS * np.sqrt(gained + lost)
    return gain if gain > MIN_GAIN and is_significant else 0.0


def match_factors(run: Run, train: Sequences, classifier: Classifier) -> dict[str, list[str]]:
    """Label -> its factors: the one with its name, and the others by what they change in some training sequences."""
    names = [each.name for each in run.require_factors().without_remainder]
    matched = {label: [label] for label in classifier.labels if label in names}
    if anonymous := [name for name in names if name not in matched]:
        some = train.select(np.random.Generator(np.random.PCG64(1)).permutation(len(train))[:MATCHING_CLIPS])
        matched = match_by_swaps(run.decompose(some), anonymous, classifier.predict) | matched
    return {label: matched.get(label, []) for label in classifier.labels if label in train.labels}


def strongest_factors(matched: Matched) -> dict[str, list[str]]:
    """Only the factor that changes a label most, for each label."""
    return {label: list(names[:1]) for label, names in matched.items()}


def describe_matches(matched: Matched) -> list[str]:
    """A line for each label: its factors, and whether several are joined."""
    lines = []
    for label, names in matched.items():
        first, *others = names or ["no factor changes it"]
        joined = f", joined with {' and '.join(others)}" if others else ""
        lines.append(f"{label}: {first}{joined}")
    return lines


def swap_matrices(
    parts: Decomposition,
    matchings: Sequence[Matched],
    predict: Predict,
    seed: int = 0,
    by_frequency: bool = False,
) -> list[SwapMatrices]:
    """The matrices of each matching, with the same donors; a swap that they share is decoded and classified once.

    Args:
        parts: sequences that were used neither in training nor in matching.
        matchings: label -> its factors, as from `match_factors`.
        predict: a classifier's.
        seed: of the donors.
        by_frequency: whether chance comes from the frequencies of the labels, as in `EvalContext`.
    """
    count_values = effective_value_count if by_frequency else value_count
    donors, truth = _draw_donors(len(parts), seed), parts.clips.labels
    swaps = dict.fromkeys(tuple(names) for matched in matchings for names in matched.values())
    predicted = {names: predict_after_swap(parts, names, predict, donors) for names in swaps}
    results = []
    for matched in matchings:
        labels = tuple(matched)
        rows = [predicted[tuple(matched[label])] for label in labels]
        matrix = np.array([[(row[label] == truth[label][donors]).mean() for label in labels] for row in rows])
        kept = np.array([[(row[label] == truth[label]).mean() for label in labels] for row in rows])
        np.fill_diagonal(kept, np.nan)
        classes = tuple(count_values(parts.clips, label) for label in labels)
        results.append(SwapMatrices(labels, classes, matrix, kept, matched))
    return results


def _draw_donors(count: int, seed: int) -> Array:
    return np.random.Generator(np.random.PCG64(seed)).permutation(count)


def _swap_tables(labels: Sequence[str], motion_label: str | None) -> list[Table]:
    rows = {label: f"{label} taken" for label in labels}
    remark = (
        "Factors discovered in training sequences (the notes say how), swapped one at a time in test sequences: the "
        "fraction that shows the donor's value."
    )
    kept_remark = (
        "The same swaps: the fraction that still shows its own value of each label that was not taken. Doing nothing "
        "keeps all, swapping everything keeps chance."
    )
    score_remark = (
        "The floor is what doing nothing scores, and what swapping everything does; doing nothing keeps all of the "
        "other labels (1), swapping everything keeps chance. The multifactor score tells what is taken and not whether "
        "the rest is damaged, so it means little where less is kept. Where several factors were matched to a label "
        "(the notes say which), they are taken together; the scores of one factor a label take only the one that "
        "changes it most."
    )
    columns = [
        Column("multifactor", "multifactor", "score", better="↑"),
        Column("its floor", "multifactor", "chance_score"),
        Column("kept", "multifactor", "kept", better="↑"),
        Column("multifactor, one factor a label", "multifactor", "single_score", better="↑"),
        Column("kept, one factor a label", "multifactor", "single_kept", better="↑"),
    ]
    return [
        Table("One factor at a time", label_columns("swap", labels), remark, rows),
        Table("One factor at a time: what is kept", label_columns("swap_kept", labels), kept_remark, rows),
        Table("Scores", columns, score_remark),
    ]


def _swap_chance(context: EvalContext) -> Values:
    labels = context.classified_labels
    values = label_chance("swap", labels, context) | label_chance("swap_kept", labels, context)
    classes = [context.value_count(label) for label in labels]
    if classes:
        lowest_score = single_value(chance_score(classes))
        values |= {Key("multifactor", column): lowest_score for column in ("score", "single_score")}
    if len(classes) > 1:  # every label is kept as often as any other
        kept = single_value(float(np.mean([1 / count for count in classes])))
        values |= {Key("multifactor", column): kept for column in ("kept", "single_kept")}
    return values


@metric("factor swaps", requires=("classifier", "factors"), tables=_swap_tables, chance=_swap_chance)
def measure_swaps(run: Run, context: EvalContext) -> Outcome:
    """The swap matrices of the run's factors over test sequences, and their scores.

    "swap": the fraction that shows its donor's value; "swap_kept": the fraction that still shows its own, of every
    label but the one taken. The scores are given for all factors of a label and for the strongest one of each. Which
    factors belong to which label is decided on training sequences.
    """
    config, classifier = context.config, context.require_classifier()
    matched = match_factors(run, context.train, classifier)
    parts = run.decompose(context.clips)
    matchings = [matched, strongest_factors(matched)]
    seeds = [int(config.generator(10, number).integers(2**31)) for number in range(config.swap_repeats)]
    results = [
        swap_matrices(parts, matchings, classifier.predict, seed, context.by_frequency)
        for seed in config.progress(seeds, "one factor at a time")
    ]
    values = config.summarize([_matrix_values(joined) | _scores(joined, single) for joined, single in results])
    values[Key("multifactor", "chance_score")] = single_value(results[0][0].chance_score)
    factors = run.require_factors()
    return Outcome(values, [f"factors: {factors.method}, in {factors.found_in}", *describe_matches(matched)])


def _matrix_values(result: SwapMatrices) -> dict[Key, float]:
    values = {}
    for i, swapped in enumerate(result.labels):
        for j, label in enumerate(result.labels):
            values[Key("swap", label, swapped)] = float(result.matrix[i, j])
            if i != j:
                values[Key("swap_kept", label, swapped)] = float(result.kept_matrix[i, j])
    return values


def _scores(joined: SwapMatrices, single: SwapMatrices) -> dict[Key, float]:
    """Of a single label nothing else can be kept."""
    columns = {"score": joined.score, "single_score": single.score}
    if len(joined.labels) > 1:
        columns |= {"kept": joined.kept, "single_kept": single.kept}
    return {Key("multifactor", column): value for column, value in columns.items()}


# --- single frames


def _consistency_tables(labels: Sequence[str], motion_label: str | None) -> list[Table]:
    remark = (
        "A classifier of single frames: the fraction that agree with their sequence's most frequent value (global) and "
        "with the frame before (local)."
    )
    columns, rows = label_columns("consistency", labels), {"global": "global", "local": "local"}
    return [Table("Consistency of frames after a static swap", columns, remark, rows)]


@metric("consistency", requires=("frame_classifier",), tables=_consistency_tables, baselines=False)
def measure_consistency(run: Run, context: EvalContext) -> Outcome:
    """After a static swap, whether all frames of a sequence show one value; the motion label is left out."""
    if context.frame_classifier is None:
        raise InputError("expected a classifier of frames, got None")
    config = context.config
    parts = run.decompose(config.subset(context.clips, CONSISTENCY_CLIPS, 6))
    swapped = parts.swap("static", config.generator(8).permutation(len(parts)))
    predicted = context.frame_classifier.predict_frames(swapped.decoded(), swapped.lengths)
    values: Values = {}
    for label, codes in predicted.items():
        if label != context.motion_label:
            values[Key("consistency", label, "global")] = single_value(global_consistency(codes, swapped.lengths))
            values[Key("consistency", label, "local")] = single_value(local_consistency(codes, swapped.lengths))
    return Outcome(values)
