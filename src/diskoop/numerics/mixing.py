"""random convex weights for mixing sequences: over the whole batch, or over two"""

from collections.abc import Callable

import torch
from torch import Tensor

from diskoop.errors import InputError

Weights = Callable[[int, torch.Generator], Tensor]  # (count, generator) -> (count, count), rows sum to 1


def batch_weights(count: int, generator: torch.Generator) -> Tensor:
    """Weights over all sequences, which tend to the average in a large batch: (count, count) float64."""
    weights = torch.rand(count, count, generator=generator, dtype=torch.float64, device=generator.device)
    return weights / weights.sum(1, keepdim=True)


def pair_weights(count: int, generator: torch.Generator) -> Tensor:
    """Weights over two different sequences per row: (count, count) float64.

    Example:
        >>> weights = pair_weights(5, torch.Generator().manual_seed(0))
        >>> (weights > 0).sum(1).tolist(), torch.allclose(weights.sum(1), torch.ones(5).double())
        ([2, 2, 2, 2, 2], True)
    """
    if count < 2:
        raise InputError(f"a mixture of two needs two sequences at least, got {count}")
    device = generator.device
    first = torch.randint(count, (count,), generator=generator, device=device)
    second = (first + torch.randint(1, count, (count,), generator=generator, device=device)) % count
    drawn = torch.rand(2, count, generator=generator, dtype=torch.float64, device=device)
    share = drawn[0] / drawn.sum(0)
    weights = torch.zeros(count, count, dtype=torch.float64, device=device)
    rows = torch.arange(count, device=device)
    weights[rows, first], weights[rows, second] = share, 1 - share
    return weights
