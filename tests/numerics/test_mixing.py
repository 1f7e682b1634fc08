"""Weights that mix sequences are shares: never negative, and 1 together."""

import pytest
import torch

from diskoop.errors import InputError
from diskoop.numerics import batch_weights, pair_weights


@pytest.mark.parametrize("weights", [batch_weights, pair_weights])
def test_rows_are_convex(weights: object, generator: torch.Generator) -> None:
    assert callable(weights)
    drawn = weights(50, generator)
    assert drawn.shape == (50, 50)
    assert (drawn >= 0).all()
    assert torch.allclose(drawn.sum(1), torch.ones(50, dtype=torch.float64), atol=1e-14)
    assert torch.equal(drawn, weights(50, torch.Generator().manual_seed(20230501)))
    assert not torch.equal(drawn, weights(50, generator))


def test_pair_weights_mix_two_and_batch_weights_all(generator: torch.Generator) -> None:
    assert ((pair_weights(200, generator) > 0).sum(1) == 2).all()
    assert (batch_weights(20, generator) > 0).all()
    both = pair_weights(2, generator)
    assert (both > 0).all()


def test_two_must_be_there(generator: torch.Generator) -> None:
    with pytest.raises(InputError, match="needs two sequences at least, got 1"):
        pair_weights(1, generator)
    assert torch.equal(batch_weights(1, generator), torch.ones(1, 1, dtype=torch.float64))
