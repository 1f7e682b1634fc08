"""method: the paper's search for the set of static modes whose swap lowers a classifier's accuracy on a label"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np

from diskoop.analysis.decomposition import Decomposition
from diskoop.analysis.discovery.effects import measure_effects
from diskoop.analysis.discovery.factors import describe_source
from diskoop.analysis.discovery.results import (
    DiscoveredFactor,
    DiscoveryResult,
    Predict,
    Progress,
    discovery_method,
    no_progress,
    require_labels,
)
from diskoop.errors import InputError
from diskoop.numerics.factors import Factor

MAX_EXHAUSTIVE = 16  # modes, a pair counting once: 65,535 sets

# (accuracy of each label after a swap, the label of the search) -> a score to minimise
Criterion = Callable[[Mapping[str, float], str], float]


def label_accuracy(accuracies: Mapping[str, float], label: str) -> float:
    """The paper's criterion: the accuracy on the label."""
    return accuracies[label]


def accuracy_difference(accuracies: Mapping[str, float], label: str) -> float:
    """The accuracy on the label less the mean accuracy on all others, which a swap should leave as they are."""
    others = [accuracy for name, accuracy in accuracies.items() if name != label]
    return accuracies[label] - float(np.mean(others)) if others else accuracies[label]


@discovery_method("modes")
@dataclass(frozen=True)
class ModeSearch:
    """The paper's search: for each label, the set of static modes whose swap minimises a classifier's accuracy.

    Conjugate pairs are not cut. Of equally good sets the smallest is used. It is meant for a batch decomposed with its
    own operator.

    Args:
        predict: the classifier, (decoded chunks, lengths) -> label -> (n,) codes.
        labels: to search modes for; none: all.
        alone: penalise changes of every other label, which a swap should leave as they are.
        exhaustive: search all sets of modes instead of runs of neighbouring ones.
        max_blocks: of neighbouring modes that are swapped together where there are more; None: all.
        seed: of the donors.
        progress: wraps the loop over sets.

    Example:
        >>> brief = {"model": {"k": 6, "h": 8}, "spectrum": {"static": 2}, "train": {"epochs": 1}}
        >>> run = diskoop.train("oscillators", folder / "run", **brief)
        >>> parts = run.decompose(run.data("val").select(range(16)), "batch")
        >>> def predict(chunks, lengths):  # a toy classifier
        ...     return {"level": (torch.cat(list(chunks)).flatten(1).mean(1) > 0).long().numpy()}
        >>> ModeSearch(predict, labels=("level",)).find(parts).names
        ['level']
    """

    predict: Predict
    labels: tuple[str, ...] = ()
    alone: bool = False
    exhaustive: bool = False
    max_blocks: int | None = None
    seed: int = 0
    progress: Progress = no_progress

    def find(self, parts: Decomposition) -> DiscoveryResult:
        """One factor per label, named after it."""
        result = self.evaluate(parts)
        criterion = accuracy_difference if self.alone else label_accuracy
        factors = []
        for name in require_labels(parts, self.labels):
            modes = result.best(name, criterion)
            factor = Factor(name, parts.factor(modes).projector.cpu())
            (strength,) = measure_effects(parts, [factor.projector], self.seed)
            factors.append(DiscoveredFactor(factor, len(modes), strength))
        method = f"searched {len(result.candidates)} sets of modes"
        return DiscoveryResult(tuple(factors), method, describe_source(parts))

    def evaluate(self, parts: Decomposition) -> "ModeSearchResult":
        """The classifier's accuracies after a swap of each set of modes."""
        names = require_labels(parts, self.labels)
        donors = np.random.Generator(np.random.PCG64(self.seed)).permutation(len(parts))
        candidates = mode_sets(parts, self.exhaustive, self.max_blocks)
        if not candidates:
            raise InputError("there are no static modes to search; spectrum.static is 0")
        accuracies = []
        for modes in self.progress(candidates, "sets of modes"):
            swapped = parts.swap(modes, donors)
            predicted = self.predict(swapped.decoded(), swapped.lengths)
            if unknown := [name for name in names if name not in predicted]:
                raise InputError(f"the classifier predicts {', '.join(predicted)}, but not {', '.join(unknown)}")
            accuracies.append(
                {
                    name: float((predicted[name] == parts.clips.labels[name]).mean())
                    for name in predicted
                    if name in parts.clips.labels
                }
            )
        return ModeSearchResult(candidates, accuracies)


@dataclass(frozen=True)
class ModeSearchResult:
    """Sets of modes, and the classifier's accuracy on each label after swapping them."""

    candidates: list[list[int]]
    accuracies: list[dict[str, float]]

    def best(self, label: str, criterion: Criterion) -> list[int]:
        """The set that minimises `criterion` for a label; of equally good sets the smallest."""
        pairs = zip(self.accuracies, self.candidates, strict=True)
        return min(pairs, key=lambda pair: (criterion(pair[0], label), len(pair[1])))[1]


def mode_sets(parts: Decomposition, exhaustive: bool, max_blocks: int | None = None) -> list[list[int]]:
    """Sets of static modes that cut no conjugate pair: runs of neighbouring modes, or all subsets if `exhaustive`.

    The number of runs grows with the square of the number of modes; with `max_blocks` neighbours that are more than so
    many go together, in blocks of nearly equal size.
    """
    groups = parts.spectrum.conjugate_groups(parts.static_modes)
    if max_blocks is not None and len(groups) > max_blocks:
        ends = np.linspace(0, len(groups), max_blocks + 1).round().astype(int)
        groups = [[mode for each in groups[a:b] for mode in each] for a, b in pairwise(ends)]
    total = len(groups)
    if exhaustive and total > MAX_EXHAUSTIVE:
        raise InputError(
            f"{total} static modes (a pair counts as one) have {2**total - 1} sets, too many to try; "
            f"{MAX_EXHAUSTIVE} modes are the most that can be searched exhaustively"
        )
    runs: Iterator[Sequence[int]]
    if exhaustive:
        runs = (subset for size in range(1, total + 1) for subset in combinations(range(total), size))
    else:
        runs = (range(start, start + size) for size in range(1, total + 1) for start in range(total - size + 1))
    return [[mode for i in run for mode in groups[i]] for run in runs]
