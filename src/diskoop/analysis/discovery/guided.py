"""method: factors guided by a few labelled sequences"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diskoop.analysis.decomposition import Decomposition
from diskoop.analysis.discovery.atoms import find_atoms
from diskoop.analysis.discovery.factors import assemble_factors
from diskoop.analysis.discovery.results import DiscoveryResult, discovery_method, require_labels
from diskoop.numerics.components import DEPENDENCE_BOUNDS

Array = NDArray[Any]

MIN_EXPLAINED = 0.15  # fraction of an atom's variance that a label must explain


@discovery_method("guided")
@dataclass(frozen=True)
class Guided:
    """Assigns each atom to the label that explains it best on a few labelled sequences.

    Labels of other sequences are not used. An atom that no label explains joins the label whose atoms it depends on.

    Args:
        labels: to find factors of; none: all.
        per_value: labelled sequences to draw for each value of a label.
        labelled: indices of the labelled sequences, instead of drawing them.
        seed: of the draw and of the independent component analysis.

    Example:
        >>> brief = {"model": {"k": 6, "h": 8}, "spectrum": {"static": 2}, "train": {"epochs": 1}}
        >>> run = diskoop.train("oscillators", folder / "run", **brief)
        >>> Guided(labels=("level", "mark")).find(run.decompose(run.data("val"))).method
        'guided by ... labelled sequences'
    """

    labels: tuple[str, ...] = ()
    per_value: int = 5
    labelled: tuple[int, ...] | None = None
    seed: int = 0

    def find(self, parts: Decomposition) -> DiscoveryResult:
        """Factors of the sequences in `parts`, named after their labels."""
        names = require_labels(parts, self.labels)
        codes = {name: parts.clips.labels[name] for name in names}
        random = np.random.Generator(np.random.PCG64(self.seed))
        labelled = draw_labelled(codes, self.per_value, random) if self.labelled is None else np.array(self.labelled)
        atoms = find_atoms(parts, self.seed)
        explained = np.array(
            [
                [explained_variance(features[labelled], codes[name][labelled]) for name in names]
                for features in atoms.features
            ]
        )  # (atoms, labels)
        assigned = np.where(explained.max(1) >= MIN_EXPLAINED, explained.argmax(1), -1)
        similarity = atoms.similarity()
        for atom in np.flatnonzero(assigned < 0):
            dependence = [
                similarity[atom, assigned == label].mean() if (assigned == label).any() else 0.0
                for label in range(len(names))
            ]
            assigned[atom] = int(np.argmax(dependence)) if max(dependence) >= np.mean(DEPENDENCE_BOUNDS) else -1
        members = {name: np.flatnonzero(assigned == label).tolist() for label, name in enumerate(names)}
        named = {name: group for name, group in members.items() if group}
        groups = [*named.values(), *([atom] for atom in np.flatnonzero(assigned < 0).tolist())]
        method = f"guided by {len(labelled)} labelled sequences"
        result = assemble_factors(parts, atoms, groups, [None] * len(groups), method, self.seed, list(named))
        missing = [name for name in names if name not in named]
        notes = tuple(f"no component depends on {name} in {len(labelled)} labelled sequences" for name in missing)
        return replace(result, notes=result.notes + notes)


def draw_labelled(codes: Mapping[str, Array], per_value: int, random: np.random.Generator) -> Array:
    """Draw sequences among which every value of every label occurs `per_value` times, if there are as many.

    Args:
        codes: label -> (n,) codes.
        per_value: sequences of each value.
        random: of the draw.

    Returns:
        Sorted indices of sequences.
    """
    order = random.permutation(len(next(iter(codes.values()))))
    drawn: list[int] = []
    for values in codes.values():
        for value in np.unique(values):
            count = sum(values[i] == value for i in drawn)
            candidates = [int(i) for i in order if values[i] == value and i not in drawn]
            drawn += candidates[: max(per_value - count, 0)]
    return np.array(sorted(drawn))


def explained_variance(features: Array, codes: Array) -> float:
    """The fraction of variance that a label explains, corrected for chance; the mean over features.

    Args:
        features: (n, f).
        codes: of the label, (n,).
    """
    one_hot = codes[:, None] == np.unique(codes)  # (n, values)
    count, values = one_hot.shape
    if count <= values:
        return 0.0
    means = (one_hot.T @ features) / one_hot.sum(0)[:, None]
    within = np.square(features - means[one_hot.argmax(1)]).sum(0) / (count - values)
    total = np.square(features - features.mean(0)).sum(0) / (count - 1)
    return float((1 - within / np.maximum(total, 1e-300)).mean())
