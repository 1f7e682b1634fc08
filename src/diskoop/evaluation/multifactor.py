"""one factor swapped at a time: what is taken and what is kept, the scores and their floor"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diskoop.analysis.decomposition import Decomposition, What
from diskoop.analysis.discovery import Verdict
from diskoop.data.sequences import Sequences
from diskoop.errors import InputError
from diskoop.evaluation.judges import Judge
from diskoop.run import Run

Array = NDArray[Any]
Matched = Mapping[str, Sequence[str]]  # label -> the factors that stand for it, the one that changes it most first

MATCHED_ON = 512  # training sequences on which factors are matched to labels
# A factor is matched to a label that it hands over more often than drawing errors do: in more than one of twenty
# sequences, since what is handed over less often than that would not be missed, and in more than chance explains. A
# swap that hands nothing over gains a donor's value as often as it loses one, so where m sequences differ before and
# after, the difference of gained and lost has a standard deviation of sqrt(m) (McNemar's test). Three of them are
# exceeded by chance once in 740 times, and five labels with six factors make 30 trials. Ten sequences that gain the
# donor's value are the fewest that suffice.
LEAST_GAIN = 0.05
LEAST_DEVIATIONS = 3.0


@dataclass(frozen=True, eq=False)
class Multifactor:
    """What a judge sees after the factors of one label at a time came from a donor.

    Row of either matrix: the label that was taken. Column: the label that is looked at.
    """

    labels: tuple[str, ...]
    classes: tuple[int, ...]
    matrix: Array  # (labels, labels): the share that now shows the donor's value
    kept_matrix: Array  # (labels, labels): the share that still shows its own value, whatever the donor's; diagonal NaN
    matched: Matched

    @property
    def score(self) -> float:
        """Of what was taken; it cannot see whether what was not taken is still there."""
        return score(self.matrix, self.classes)

    @property
    def kept(self) -> float:
        """The mean share that still shows its own value of a label that was not taken; NaN where there is no other."""
        others = self.kept_matrix[~np.eye(len(self.labels), dtype=bool)]
        return float(others.mean()) if len(others) else float("nan")

    @property
    def floor(self) -> float:
        return floor(self.classes)


def score(matrix: Array, classes: Sequence[int]) -> float:
    """1 - (on + off) / 2: on the diagonal the mean distance to 1, elsewhere the mean distance to chance."""
    own = np.eye(len(classes), dtype=bool)
    chance = np.broadcast_to(1 / np.asarray(classes, float), matrix.shape)
    on = np.abs(matrix[own] - 1).mean()
    off = np.abs(matrix - chance)[~own].mean() if len(classes) > 1 else 0.0
    return float(1 - (on + off) / 2)


def floor(classes: Sequence[int]) -> float:
    """What doing nothing scores, and swapping everything as well."""
    chance = np.broadcast_to(1 / np.asarray(classes, float), (len(classes), len(classes)))
    return score(chance, classes)


def seen_after(parts: Decomposition, what: What, verdict: Verdict, donors: Array) -> dict[str, Array]:
    """After a swap of `what`: the (n,) values that the judge sees of each label that the sequences have."""
    new = parts.swap(what, donors)
    seen = verdict(new.decoded(), new.lengths)
    return {label: codes for label, codes in seen.items() if label in parts.clips.labels}


def shows_donor(parts: Decomposition, what: What, verdict: Verdict, donors: Array) -> dict[str, Array]:
    """After a swap of `what`: for each label (n,) whether a sequence shows its donor's true value."""
    labels = parts.clips.labels
    return {label: codes == labels[label][donors] for label, codes in seen_after(parts, what, verdict, donors).items()}


def match(parts: Decomposition, names: Sequence[str], verdict: Verdict, seed: int = 0) -> dict[str, list[str]]:
    """Each factor to the label it changes most, if it changes any; score them on other sequences.

    What a factor hands over is the share that shows the donor's value after a swap, less the share that shows it
    without one: a model that draws a label wrongly hits some donors' values by chance. Only sequences whose donor has
    another value count.

    Args:
        parts: sequences with labels.
        names: factors of `parts`.
        verdict: a judge.
        seed: of the donors.

    Returns:
        Label -> its factors, the one that hands over most first; a label that none changes has an empty list.
    """
    donors = _donors(len(parts), seed)
    before = shows_donor(parts, [], verdict, donors)  # a swap of nothing: the same frames of the same sequences
    if not (names and before):
        raise InputError("there is nothing to match: no factors, or no labels that the judge knows")
    matched: dict[str, list[tuple[float, str]]] = {label: [] for label in before}
    for name in names:
        after = shows_donor(parts, [name], verdict, donors)
        gains = {}
        for label, codes in ((label, parts.clips.labels[label]) for label in before):
            other = codes != codes[donors]  # a donor of the same value shows nothing
            gains[label] = _gain(before[label][other], after[label][other])
        best = max(gains, key=lambda label: gains[label])
        if gains[best] > 0:
            matched[best].append((gains[best], name))
    return {label: [name for _, name in sorted(some, key=lambda each: -each[0])] for label, some in matched.items()}


def _gain(before: Array, after: Array) -> float:
    """How much more often donors' values show after a swap than before, (n,) flags each; 0 unless it is sure."""
    if not len(before):
        return 0.0
    gained, lost = int((after & ~before).sum()), int((before & ~after).sum())
    gain = (gained - lost) / len(before)
    is_sure = gained - lost > LEAST_DEVIATIONS * np.sqrt(gained + lost)
    return gain if gain > LEAST_GAIN and is_sure else 0.0


def multifactor(parts: Decomposition, matched: Matched, verdict: Verdict, seed: int = 0) -> Multifactor:
    """Both matrices over `parts`, sequences that neither training nor matching has seen."""
    (result,) = multifactors(parts, [matched], verdict, seed)
    return result


def multifactors(
    parts: Decomposition, matchings: Sequence[Matched], verdict: Verdict, seed: int = 0
) -> list[Multifactor]:
    """The same for several matchings, with the same donors; a swap that they share is decoded and judged once."""
    donors, truth = _donors(len(parts), seed), parts.clips.labels
    swaps = dict.fromkeys(tuple(names) for matched in matchings for names in matched.values())
    seen = {names: seen_after(parts, names, verdict, donors) for names in swaps}
    results = []
    for matched in matchings:
        labels = tuple(matched)
        rows = [seen[tuple(matched[label])] for label in labels]
        taken = np.array([[(row[label] == truth[label][donors]).mean() for label in labels] for row in rows])
        kept = np.array([[(row[label] == truth[label]).mean() for label in labels] for row in rows])
        np.fill_diagonal(kept, np.nan)
        classes = tuple(value_count(parts.clips, label) for label in labels)
        results.append(Multifactor(labels, classes, taken, kept, matched))
    return results


def single(matched: Matched) -> dict[str, list[str]]:
    """Only the factor that changes a label most, for each label."""
    return {label: list(names[:1]) for label, names in matched.items()}


def describe(matched: Matched) -> list[str]:
    """For each label a line that says what stands for it, and whether several factors had to be joined."""
    lines = []
    for label, names in matched.items():
        first, *others = names or ["no factor changes it"]
        joined = f", joined with {' and '.join(others)}" if others else ""
        lines.append(f"{label}: {first}{joined}")
    return lines


def matched_factors(run: Run, train: Sequences, judge: Judge) -> dict[str, list[str]]:
    """Label -> its factors: those that bear its name, and the others by what they change in some training sequences."""
    names = [each.name for each in run.require_found().without_remainder]
    matched = {label: [label] for label in judge.labels if label in names}
    if anonymous := [name for name in names if name not in matched]:
        some = train.select(np.random.Generator(np.random.PCG64(1)).permutation(len(train))[:MATCHED_ON])
        matched = match(run.decompose(some), anonymous, judge.predict) | matched
    return {label: matched.get(label, []) for label in judge.labels if label in train.labels}


def _donors(count: int, seed: int) -> Array:
    return np.random.Generator(np.random.PCG64(seed)).permutation(count)


def value_count(clips: Sequences, label: str) -> int:
    """How many values a label has."""
    words = clips.values.get(label)
    return int(clips.labels[label].max()) + 1 if words is None else len(words)
