"""used by the methods: groups of atoms -> factors with names, strengths and warnings"""

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from diskoop.analysis.decomposition import Decomposition
from diskoop.analysis.discovery.atoms import Atoms
from diskoop.analysis.discovery.effects import measure_effects
from diskoop.analysis.discovery.results import DiscoveredFactor, DiscoveryResult, Kind
from diskoop.errors import counted
from diskoop.numerics.components import DEPENDENCE_BOUNDS, average_linkage
from diskoop.numerics.factors import Factor

Array = NDArray[Any]

# Thresholds of warnings
MAX_REMAINDER = 0.05  # strength of the remainder
MAX_KURTOSIS = 2.5  # excess kurtosis; a component that is constant in nearly all sequences has more
MIN_STABILITY = 0.6
MAX_DEPENDENCE = sum(DEPENDENCE_BOUNDS) / 2  # between factors, which may be tied in the data
MIN_COHESION = 0.5  # a factor whose parts depend on each other less might be two


def assemble_factors(
    parts: Decomposition,
    atoms: Atoms,
    groups: Sequence[list[int]],
    stability: Sequence[float | None],
    method: str,
    seed: int,
    names: Sequence[str] = (),
) -> DiscoveryResult:
    """Factors of groups of atoms: named ones first, then by decreasing strength, and the remainder last.

    Args:
        parts: the sequences, for the strengths.
        atoms: of the sequences.
        groups: lists of atoms.
        stability: of each group, or None.
        method: how the groups were found, in a few words.
        seed: of the draw of sequences for the strengths.
        names: of the first groups; the others get default names: motion, factor-1 and so on.
    """
    projectors = [atoms.projector(members) for members in groups]
    ungrouped = set(range(len(atoms))) - {member for members in groups for member in members}
    remainder = atoms.remainder + atoms.projector(ungrouped)
    strengths = measure_effects(parts, [*projectors, remainder], seed)
    order = [*range(len(names)), *sorted(range(len(names), len(groups)), key=lambda g: -strengths[g])]
    groups, projectors = [groups[g] for g in order], [projectors[g] for g in order]
    moving = [any(i >= atoms.num_static for i in members) for members in groups]
    titles = [*names, *(_unused_name(title, names) for title in _default_names(moving[len(names) :]))]
    similarity = atoms.similarity()
    factors = []
    for index, (members, projector) in enumerate(zip(groups, projectors, strict=True)):
        others = [
            (float(similarity[np.ix_(members, other)].mean()), title)
            for number, (other, title) in enumerate(zip(groups, titles, strict=True))
            if number != index
        ]
        dependence, nearest = max(others, default=(0.0, ""))
        kind: Kind = "motion" if moving[index] else "factor"
        factors.append(
            DiscoveredFactor(
                Factor(titles[index], projector),
                round(float(torch.trace(projector))),
                strengths[order[index]],
                stability[order[index]],
                kind,
                (nearest, dependence) if others else None,
            )
        )
    unused = round(float(torch.trace(remainder)))
    if unused:
        factor = Factor(_unused_name("rest", titles), remainder)
        factors.append(DiscoveredFactor(factor, unused, strengths[-1], kind="remainder"))
    members_of = zip(titles, groups, strict=True)
    rare = [title for title, members in members_of if all(_is_rare(atoms.features[i]) for i in members)]
    notes = list(_warnings(factors, rare))
    if not names:  # factors named after labels are not split further
        notes += _cohesion_warning(groups, titles, similarity)
    if unused and strengths[-1] > MAX_REMAINDER:
        notes.append(
            f"{factors[-1].name} ({strengths[-1]:.0%} of what changes) is static by its eigenvalues and yet does not "
            "stay within a clip: a smaller spectrum.static or a longer training may help"
        )
    return DiscoveryResult(tuple(factors), method, describe_source(parts), tuple(notes))


def describe_source(parts: Decomposition) -> str:
    return f"{parts.clips.name}, {counted(len(parts), 'sequence')}"


def _cohesion_warning(groups: Sequence[list[int]], titles: Sequence[str], similarity: Array) -> Iterator[str]:
    """Warn of the factor that might be two: factors tied in all clips look like one of several dimensions."""
    cohesion = {
        title: _cohesion(similarity[np.ix_(g, g)]) for title, g in zip(titles, groups, strict=True) if len(g) > 1
    }
    title = min(cohesion, key=lambda name: cohesion[name], default=None)
    if title is not None and cohesion[title] < MIN_COHESION:
        yield (
            f"the parts of {title} are tied the least ({cohesion[title]:.2f}): if it looks like two factors, they may "
            "go together in these sequences; a larger --count parts them"
        )


def _cohesion(between: Array) -> float:
    """The dependence between the last two groups that average linkage merges."""
    first, second = average_linkage(between, [1] * len(between), count=2)
    return float(between[np.ix_(first, second)].mean())


def _is_rare(features: Array) -> bool:
    standardised = (features - features.mean(0)) / np.maximum(features.std(0), 1e-300)
    return bool(((standardised**4).mean(0) - 3 > MAX_KURTOSIS).all())


def _unused_name(title: str, names: Sequence[str]) -> str:
    """`title`, with a number appended if it is in `names`."""
    numbered = (f"{title}-{number}" for number in count(1))
    return title if title not in names else next(name for name in numbered if name not in names)


def _default_names(moving: Sequence[bool]) -> list[str]:
    names, counts = [], {True: 0, False: 0}
    for is_motion in moving:
        counts[is_motion] += 1
        single = is_motion and sum(moving) == 1
        names.append("motion" if single else f"{'motion' if is_motion else 'factor'}-{counts[is_motion]}")
    return names


def _warnings(factors: Sequence[DiscoveredFactor], rare: Sequence[str]) -> Iterator[str]:
    """Notes on factors that may not be reliable."""
    if rare:
        verbs, it = (("is", "differs"), "it") if len(rare) == 1 else (("are", "differ"), "each")
        yield (
            f"{_listed(rare)} {verbs[0]} the same in most sequences and {verbs[1]} in a few: {it} may be where two "
            "factors come apart that otherwise go together"
        )
    reported = set()
    for factor in factors:
        if factor.nearest is not None and factor.nearest[1] >= MAX_DEPENDENCE:
            pair = tuple(sorted((factor.name, factor.nearest[0])))
            if pair not in reported:
                reported.add(pair)
                yield (
                    f"{pair[0]} and {pair[1]} depend on each other ({factor.nearest[1]:.2f}, where 0 is not at all): "
                    "they may be tied in these sequences, or one may hold some of the other"
                )
    unstable = [
        f"{factor.name} ({factor.stability:.2f})"
        for factor in factors
        if factor.stability is not None and factor.stability < MIN_STABILITY
    ]
    if unstable:
        verb = "is" if len(unstable) == 1 else "are"
        yield f"{_listed(unstable)} {verb} unstable: resampled sequences give other factors"


def _listed(words: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
