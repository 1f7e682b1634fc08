"""swaps in stages: factors one after another, all combinations, growing sets of modes"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations, pairwise
from typing import Any

import torch
from numpy.typing import NDArray

from diskoop.analysis.decomposition import Decomposition
from diskoop.errors import InputError, suggest
from diskoop.numerics.factors import SPECTRAL_PARTS


@dataclass(frozen=True, eq=False)
class StagedSwap:
    """A receiver sequence, the same after each swap, and the donor sequence."""

    captions: tuple[str, ...]
    parts: Decomposition  # a sequence for each caption

    def rows(self) -> list[tuple[str, NDArray[Any]]]:
        """(caption, frames) of each stage, decoded, without padding."""
        return [(caption, x) for caption, (_, x) in zip(self.captions, self.parts.rows(), strict=True)]


def swap_cumulatively(parts: Decomposition, receiver: int, donor: int, order: Sequence[str]) -> StagedSwap:
    """Swap factors one after another, each on top of the ones before.

    Args:
        parts: with the factors.
        receiver: index of the sequence to change.
        donor: index of the donor.
        order: names of factors.
    """
    _check_names(order)
    pair = parts.select([receiver, donor])
    edits, captions = [pair], []
    for count, name in enumerate(order, 1):
        edits.append(edits[-1].swap(name, {0: 1}))
        captions.append(" + ".join(order[:count]))
    return _collect(pair, captions, edits[1:])


def swap_combinations(parts: Decomposition, receiver: int, donor: int, names: Sequence[str]) -> StagedSwap:
    """Swap every non-empty subset of factors, small subsets first; factors that overlap, one after another.

    Args:
        parts: with the factors.
        receiver: index of the sequence to change.
        donor: index of the donor.
        names: of factors.
    """
    _check_names(names)
    pair = parts.select([receiver, donor])
    subsets = [subset for size in range(1, len(names) + 1) for subset in combinations(names, size)]
    edits = [reduce(lambda edit, name: edit.swap(name, {0: 1}), subset, pair) for subset in subsets]
    return _collect(pair, [" + ".join(subset) for subset in subsets], edits)


def swap_incrementally(
    parts: Decomposition, receiver: int, donor: int, part: str, sizes: Sequence[int | None]
) -> StagedSwap:
    """Swap growing sets of the modes of one part, in the order of the spectrum.

    A set that would cut a conjugate pair includes the whole pair, so it may have one mode more than its size; captions
    give the actual number. Equal sets are one stage.

    Args:
        parts: the sequences.
        receiver: index of the sequence to change.
        donor: index of the donor.
        part: "static" or "dynamic".
        sizes: of the sets, growing; None is all modes.
    """
    modes = part_modes(parts, part)
    _check_sizes(sizes, len(modes), part)
    mode_sets = {}
    for size in sizes:
        selected = parts.spectrum.complete(modes[:size])
        count = "all" if len(selected) == len(modes) else f"{len(selected)} of"
        mode_sets[f"{count} {len(modes)} {part} modes"] = selected
    pair = parts.select([receiver, donor])
    return _collect(pair, list(mode_sets), [pair.swap(selected, {0: 1}) for selected in mode_sets.values()])


def part_modes(parts: Decomposition, part: str) -> list[int]:
    """The modes of the "static" or "dynamic" part, in the order of the spectrum."""
    if part not in SPECTRAL_PARTS:
        raise InputError(f"expected the modes of 'static' or 'dynamic', got {part!r}; {suggest(part, SPECTRAL_PARTS)}")
    modes: list[int] = torch.nonzero(parts.static_modes == (part == "static")).flatten().tolist()
    return modes


def _collect(pair: Decomposition, captions: Sequence[str], edits: Sequence[Decomposition]) -> StagedSwap:
    """One sequence per caption, from the decomposition of (receiver, donor) and its edits, which change the first."""
    stages = pair.select([0] * (len(edits) + 1) + [1])
    z = torch.stack([pair.z[0], *(edit.z[0] for edit in edits), pair.z[1]])
    masks = [edit.mask[0] for edit in (pair, *edits) if edit.mask is not None]
    mask = None if pair.mask is None else torch.stack([*masks, pair.mask[1]])
    return StagedSwap(("receiver", *captions, "donor"), replace(stages, z=z, mask=mask))


def _check_names(names: Sequence[str]) -> None:
    if isinstance(names, str) or not names or len(set(names)) < len(names):
        raise InputError(f"expected a list of different factors, at least one, got {names!r}")


def _check_sizes(sizes: Sequence[int | None], total: int, part: str) -> None:
    counts = [total if size is None else size for size in sizes]
    if not counts or counts[0] < 1 or counts[-1] > total or any(a >= b for a, b in pairwise(counts)):
        raise InputError(f"expected growing sizes from 1 to {total}, the number of {part} modes, got {list(sizes)}")
