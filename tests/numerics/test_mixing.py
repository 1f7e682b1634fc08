"""Weights that mix sequences are shares: never negative, and 1 together."""

import pytest
import torch

from diskoop.errors import InputError
from diskoop.numerics import over_batch, over_two


@pytest.mark.parametrize("weights", [over_batch, over_two])
def test_rows_are_convex(weights: object, generator: torch.Generator) -> None:
    assert callable(weights)
    drawn = weights(50, generator)
    assert drawn.shape == (50, 50)
    assert (drawn >= 0).all()
    assert torch.allclose(drawn.sum(1), torch.ones(50, dtype=torch.float64), atol=1e-14)
    assert torch.equal(drawn, weights(50, torch.Generator().manual_seed(20230501)))
    assert not torch.equal(drawn, weights(50, generator))


def test_over_two_mixes_two_and_over_batch_all(generator: torch.Generator) -> None:
    assert ((over_two(200, generator) > 0).sum(1) == 2).all()
    assert (over_batch(20, generator) > 0).all()
    both = over_two(2, generator)
    assert (both > 0).all()


def test_two_must_be_there(generator: torch.Generator) -> None:
    with pytest.raises(InputError, match="needs two sequences at least, got 1"):
        over_two(1, generator)
    assert torch.equal(over_batch(1, generator), torch.ones(1, 1, dtype=torch.float64))
