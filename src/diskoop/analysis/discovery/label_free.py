"""method: factors without labels, independent components grouped by mutual dependence"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diskoop.analysis.decomposition import Decomposition
from diskoop.analysis.discovery.atoms import Atoms, effect_threshold, find_atoms
from diskoop.analysis.discovery.effects import measure_effects
from diskoop.analysis.discovery.factors import MIN_STABILITY, assemble_factors
from diskoop.analysis.discovery.results import DiscoveryResult, Progress, discovery_method, no_progress
from diskoop.errors import InputError
from diskoop.numerics.components import DEPENDENCE_BOUNDS, average_linkage

Array = NDArray[Any]


@discovery_method("label-free")
@dataclass(frozen=True)
class LabelFree:
    """Independent static components and blocks of dynamic modes, grouped by mutual dependence.

    It assumes that factors vary independently in the sequences. A static component that encodes the kind of motion
    (walking or waving) depends on the dynamic part, so the two form one factor. Of several fits from random starts, the
    most stable is used: the one whose factors agree best with those of fits to resampled sequences.

    Args:
        count: number of factors; None derives it from the dependence.
        resamples: number of fits to sequences drawn with replacement, for the stability.
        starts: number of random starts of the independent component analysis.
        seed: of starts and draws.
        progress: wraps the loop over resamples.

    Example:
        >>> brief = {"model": {"k": 6, "h": 8}, "spectrum": {"static": 2}, "train": {"epochs": 1}}
        >>> run = diskoop.train("oscillators", folder / "run", **brief)
        >>> result = LabelFree(resamples=2, starts=2).find(run.decompose(run.data("val")))
        >>> isinstance(result, DiscoveryResult), result.method
        (True, 'label-free')
    """

    count: int | None = None
    resamples: int = 10
    starts: int = 10  # three were too few for one model of eleven
    seed: int = 0
    progress: Progress = no_progress

    def find(self, parts: Decomposition) -> DiscoveryResult:
        """Factors of the sequences in `parts`; labels are not used."""
        atoms = find_atoms(parts, self.seed)
        if self.count is not None and not 1 <= self.count <= len(atoms):
            raise InputError(
                f"expected a count of factors from 1 to {len(atoms)}, the number of parts, got {self.count}"
            )
        resamples = [self._resample(atoms, number) for number in self.progress(range(self.resamples), "resampling")]
        fits = [atoms, *(atoms.refit(self.seed + start) for start in range(1, self.starts))]
        best = max((self._group(fit, resamples) for fit in fits), key=lambda fit: fit.mean_stability)
        groups = best.groups
        if self.count is None:
            groups = _visible_groups(parts, best.atoms, _merge_unstable(best), self.seed)
        stability = [_stability(best.atoms, members, resamples) for members in groups]
        return assemble_factors(parts, best.atoms, groups, stability, "label-free", self.seed)

    def _resample(self, atoms: Atoms, number: int) -> "Grouping":
        """Groups of a fit to sequences drawn with replacement."""
        random = np.random.Generator(np.random.PCG64([self.seed, number]))
        subset = random.integers(len(atoms.codes), size=len(atoms.codes))
        return self._group(atoms.refit(self.seed + self.starts + number, subset), subset=subset)

    def _group(self, atoms: Atoms, resamples: Sequence["Grouping"] = (), subset: Array | None = None) -> "Grouping":
        groups = average_linkage(atoms.similarity(subset), atoms.sizes, count=self.count)
        return Grouping(atoms, groups, [_stability(atoms, members, resamples) for members in groups])


@dataclass(frozen=True, eq=False)
class Grouping:
    """Atoms, the groups they form, and the stability of each group."""

    atoms: Atoms
    groups: list[list[int]]
    stability: list[float | None]

    @property
    def mean_stability(self) -> float:
        weighted = [(value, len(g)) for value, g in zip(self.stability, self.groups, strict=True) if value is not None]
        return sum(value * size for value, size in weighted) / max(sum(size for _, size in weighted), 1)


def _merge_unstable(grouping: Grouping) -> list[list[int]]:
    """Merge unstable static groups into the group they depend on most, if they depend on one.

    An unstable group is a piece of a larger factor that each fit splits differently.
    """
    similarity, groups = grouping.atoms.similarity(), list(grouping.groups)
    unstable = [
        (stability, members)
        for members, stability in zip(grouping.groups, grouping.stability, strict=True)
        if stability is not None and stability < MIN_STABILITY and max(members) < grouping.atoms.num_static
    ]
    for _, members in sorted(unstable):
        others = [other for other in groups if other != members]
        if members not in groups or not others:  # merged already
            continue
        dependence = {
            index: similarity[np.ix_(members, other)].mean()
            for index, other in enumerate(others)
            if len(members) == 1 or max(other) < grouping.atoms.num_static  # a single component may belong to a motion
        }
        nearest = max(dependence, key=lambda index: dependence[index], default=None)
        if nearest is not None and dependence[nearest] >= DEPENDENCE_BOUNDS[0]:
            groups = [*others[:nearest], *others[nearest + 1 :], sorted(others[nearest] + members)]
    return sorted(groups)


def _visible_groups(parts: Decomposition, atoms: Atoms, groups: list[list[int]], seed: int) -> list[list[int]]:
    """The groups whose swap is visible in the frames, at least the strongest one."""
    effects = np.array(measure_effects(parts, [atoms.projector(members) for members in groups], seed))
    threshold = min(effect_threshold(effects), effects.max(initial=0))
    return [members for members, effect in zip(groups, effects, strict=True) if effect >= threshold]


def _stability(atoms: Atoms, members: list[int], resamples: Sequence[Grouping]) -> float | None:
    """The mean overlap (Jaccard index) of a group with the most similar group of each resampled fit.

    None for groups of motion alone, because only the static components are refitted.
    """
    if not resamples or all(member >= atoms.num_static for member in members):
        return None
    overlaps = []
    for other in resamples:
        shared = _shared_variance(atoms, other.atoms)[members].sum(0)  # (atoms,): variance of the members in each atom
        common = [shared[group].sum() for group in other.groups]
        overlaps.append(max(c / (len(members) + len(g) - c) for c, g in zip(common, other.groups, strict=True)))
    return float(np.mean(overlaps))


def _shared_variance(atoms: Atoms, other: Atoms) -> Array:
    """(atoms, atoms): the fraction of each atom's variance in each atom of another fit; rows sum to 1."""
    count = atoms.num_static
    fraction = np.eye(len(atoms))
    if count:
        ours, theirs = (np.concatenate(fit.features[:count], 1) for fit in (atoms, other))
        fraction[:count, :count] = np.corrcoef(ours.T, theirs.T)[:count, count:] ** 2
    return fraction
