"""one factor swapped at a time: the matrix of what changes, its score and its floor"""

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

MATCHED_ON = 512  # training sequences on which factors are matched to labels
LEAST_GAIN = 0.1  # a factor that hands over no label more often than this, where donors differ, matches none


@dataclass(frozen=True, eq=False)
class Multifactor:
    """Row: the label whose factors came from a donor. Column: the share that now shows the donor's value."""

    labels: tuple[str, ...]
    classes: tuple[int, ...]
    matrix: Array  # (labels, labels)
    matched: Mapping[str, Sequence[str]]  # label -> the factors that stand for it

    @property
    def score(self) -> float:
        return score(self.matrix, self.classes)

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


def shows_donor(parts: Decomposition, what: What, verdict: Verdict, donors: Array) -> dict[str, Array]:
    """After a swap of `what`: for each label (n,) whether a sequence shows its donor's true value."""
    new = parts.swap(what, donors)
    seen = verdict(new.decoded(), new.lengths)
    labels = parts.clips.labels
    return {label: seen[label] == labels[label][donors] for label in seen if label in labels}


def match(parts: Decomposition, names: Sequence[str], verdict: Verdict, seed: int = 0) -> dict[str, list[str]]:
    """Label -> the factors that change it most, found by swapping each in `parts`; score them on other sequences."""
    donors = _donors(len(parts), seed)
    matched: dict[str, list[str]] = {}
    for name in names:
        gains = {}
        for label, shows in shows_donor(parts, [name], verdict, donors).items():
            matched.setdefault(label, [])
            codes = parts.clips.labels[label]
            other = codes != codes[donors]  # a donor of the same value shows nothing
            gains[label] = float(shows[other].mean()) if other.any() else 0.0
        best = max(gains, key=lambda label: gains[label], default=None)
        if best is not None and gains[best] > LEAST_GAIN:
            matched[best].append(name)
    if not matched:
        raise InputError("there is nothing to match: no factors, or no labels that the judge knows")
    return matched


def multifactor(
    parts: Decomposition, matched: Mapping[str, Sequence[str]], verdict: Verdict, seed: int = 0
) -> Multifactor:
    """The matrix over `parts`, sequences that neither training nor matching has seen."""
    donors, labels = _donors(len(parts), seed), tuple(matched)
    rows = [shows_donor(parts, matched[label], verdict, donors) for label in labels]
    matrix = np.array([[row[label].mean() for label in labels] for row in rows])
    return Multifactor(labels, tuple(value_count(parts.clips, label) for label in labels), matrix, matched)


def matched_factors(run: Run, train: Sequences, judge: Judge) -> dict[str, list[str]]:
    """Label -> its factors: those that bear its name, and the others by what they change in some training sequences."""
    names = [name for name in run.require_found().names if name != "rest"]
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
