"""convex weights to mix sequences with: over all of them, or over two"""

from collections.abc import Callable

import torch
from torch import Tensor

from diskoop.errors import InputError

Weights = Callable[[int, torch.Generator], Tensor]  # how many, and where draws come from -> shares, rows sum to 1


def over_batch(count: int, generator: torch.Generator) -> Tensor:
    """(count, count) float64: each row a mixture of everyone, which tends to the average in a large batch."""
    weights = torch.rand(count, count, generator=generator, dtype=torch.float64, device=generator.device)
    return weights / weights.sum(1, keepdim=True)


def over_two(count: int, generator: torch.Generator) -> Tensor:
    """(count, count) float64: each row a mixture of two different sequences."""
    if count < 2:
        raise InputError(f"a mixture of two needs two sequences at least, got {count}")
    home = generator.device
    first = torch.randint(count, (count,), generator=generator, device=home)
    second = (first + torch.randint(1, count, (count,), generator=generator, device=home)) % count
    drawn = torch.rand(2, count, generator=generator, dtype=torch.float64, device=home)
    share = drawn[0] / drawn.sum(0)
    weights = torch.zeros(count, count, dtype=torch.float64, device=home)
    rows = torch.arange(count, device=home)
    weights[rows, first], weights[rows, second] = share, 1 - share
    return weights
