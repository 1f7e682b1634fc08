"""how much of what is seen changes when parts of the latents come from another sequence"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from diskoop.analysis.decomposition import Decomposition
from diskoop.numerics.factors import Factor, swap

TRIED = 128  # sequences on which it is tried


@torch.no_grad()
def effects(parts: Decomposition, projectors: Sequence[Tensor], seed: int, count: int = TRIED) -> list[float]:
    """How much the decoded frames change with each part, as a share of what they change with all of the latents.

    Args:
        parts: the sequences; `count` of them, drawn with `seed`, are tried.
        projectors: a matrix (k, k) for each part.

    Returns:
        A mean squared change for each, divided by that of exchanging everything.
    """
    random = np.random.Generator(np.random.PCG64(seed))
    # Shuffled: neighbours in a set are often alike, and a donor that is alike changes nothing.
    some = parts.select(random.permutation(len(parts))[:count])
    donor = some.z.roll(1, 0)
    mask = None if some.mask is None else some.mask & some.mask.roll(1, 0)
    before = _decoded(some, some.z)

    def changed(z: Tensor) -> float:
        squares = (_decoded(some, z) - before).square().flatten(2).mean(-1)
        return float((squares if mask is None else squares[mask]).mean())

    whole = max(changed(donor), 1e-300)
    return [changed(swap(some.z, donor, Factor("", projector))) / whole for projector in projectors]


def _decoded(parts: Decomposition, z: Tensor) -> Tensor:
    return torch.cat(list(replace(parts, z=z).outputs()))
