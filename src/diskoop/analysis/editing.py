"""swaps in stages: one factor after another, all combinations, growing sets of modes"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations as subsets
from itertools import pairwise
from typing import Any

import torch
from numpy.typing import NDArray

from diskoop.analysis.decomposition import Decomposition
from diskoop.errors import InputError, suggest

PARTS = ("static", "dynamic")  # what the modes of a spectrum are divided into


@dataclass(frozen=True, eq=False)
class Stages:
    """The way from a source to a target: the source itself, the source after each edit, the target itself."""

    captions: tuple[str, ...]
    parts: Decomposition  # a sequence for each caption

    def rows(self) -> list[tuple[str, NDArray[Any]]]:
        """Each stage decoded, without padding, under its caption."""
        return [(caption, x) for caption, (_, x) in zip(self.captions, self.parts.rows(), strict=True)]


def gradual(parts: Decomposition, source: int, target: int, order: Sequence[str]) -> Stages:
    """The factors exchanged one after another, each on top of those before it."""
    _check_names(order)
    pair = parts.select([source, target])
    edits, captions = [pair], []
    for count, name in enumerate(order, 1):
        edits.append(edits[-1].swap(name, {0: 1}))
        captions.append(" + ".join(order[:count]))
    return _staged(pair, captions, edits[1:])


def combinations(parts: Decomposition, source: int, target: int, names: Sequence[str]) -> Stages:
    """Every non-empty set of the factors exchanged, small sets first; those that overlap, one after another."""
    _check_names(names)
    pair = parts.select([source, target])
    chosen = [subset for size in range(1, len(names) + 1) for subset in subsets(names, size)]
    edits = [reduce(lambda edit, name: edit.swap(name, {0: 1}), subset, pair) for subset in chosen]
    return _staged(pair, [" + ".join(subset) for subset in chosen], edits)


def incremental(parts: Decomposition, source: int, target: int, what: str, sizes: Sequence[int | None]) -> Stages:
    """Growing sets of the modes of the "static" or "dynamic" part exchanged; None is all of them.

    Modes are taken in the spectrum's order. A set that would cut a conjugate pair takes in the whole pair, so it may
    have a mode more than was asked for; its caption says how many it has. Two sets that become one are one stage.
    """
    modes = modes_of(parts, what)
    _check_sizes(sizes, len(modes), what)
    steps = {}
    for size in sizes:
        chosen = parts.spectrum.complete(modes[:size])
        share = "all" if len(chosen) == len(modes) else f"{len(chosen)} of"
        steps[f"{share} {len(modes)} {what} modes"] = chosen
    pair = parts.select([source, target])
    return _staged(pair, list(steps), [pair.swap(chosen, {0: 1}) for chosen in steps.values()])


def modes_of(parts: Decomposition, what: str) -> list[int]:
    """Which modes the "static" or "dynamic" part is made of, in the spectrum's order."""
    if what not in PARTS:
        raise InputError(f"expected the modes of 'static' or 'dynamic', got {what!r}; {suggest(what, PARTS)}")
    modes: list[int] = torch.nonzero(parts.static_modes == (what == "static")).flatten().tolist()
    return modes


def _staged(pair: Decomposition, captions: Sequence[str], edits: Sequence[Decomposition]) -> Stages:
    """One sequence for each caption out of a (source, target) and its edits, in which the first member changed."""
    stages = pair.select([0] * (len(edits) + 1) + [1])
    z = torch.stack([pair.z[0], *(edit.z[0] for edit in edits), pair.z[1]])
    masks = [edit.mask[0] for edit in (pair, *edits) if edit.mask is not None]
    mask = None if pair.mask is None else torch.stack([*masks, pair.mask[1]])
    return Stages(("source", *captions, "target"), replace(stages, z=z, mask=mask))


def _check_names(names: Sequence[str]) -> None:
    if isinstance(names, str) or not names or len(set(names)) < len(names):
        raise InputError(f"expected a list of different factors, one at least, got {names!r}")


def _check_sizes(sizes: Sequence[int | None], total: int, what: str) -> None:
    counts = [total if size is None else size for size in sizes]
    if not counts or counts[0] < 1 or counts[-1] > total or any(a >= b for a, b in pairwise(counts)):
        raise InputError(f"expected growing sizes from 1 to {total}, the {what} modes there are, got {list(sizes)}")
