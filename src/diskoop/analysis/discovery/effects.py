"""how much decoded frames change when parts of the latents are swapped"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from diskoop.analysis.decomposition import Decomposition
from diskoop.numerics.factors import Factor, swap

MAX_SEQUENCES = 128  # on which effects are measured


@torch.no_grad()
def measure_effects(
    parts: Decomposition, projectors: Sequence[Tensor], seed: int, count: int = MAX_SEQUENCES
) -> list[float]:
    """How much decoded frames change when a part of the latents is swapped, relative to swapping all of them.

    Args:
        parts: the sequences.
        projectors: on each part, (k, k).
        seed: of the draw of sequences.
        count: how many sequences to draw.

    Returns:
        The mean squared change of each part, divided by that of swapping everything.
    """
    random = np.random.Generator(np.random.PCG64(seed))
    # Shuffled, because neighbours in a set are often similar, and a similar donor changes nothing.
    drawn = parts.select(random.permutation(len(parts))[:count])
    donor = drawn.z.roll(1, 0)
    mask = None if drawn.mask is None else drawn.mask & drawn.mask.roll(1, 0)
    original = _decode(drawn, drawn.z)

    def change(z: Tensor) -> float:
        squares = (_decode(drawn, z) - original).square().flatten(2).mean(-1)
        return float((squares if mask is None else squares[mask]).mean())

    total = max(change(donor), 1e-300)
    return [change(swap(drawn.z, donor, Factor("", projector))) / total for projector in projectors]


def _decode(parts: Decomposition, z: Tensor) -> Tensor:
    return torch.cat(list(replace(parts, z=z).outputs()))
