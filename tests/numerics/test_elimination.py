"""One program solves what LAPACK solves."""

import pytest
import torch

from diskoop.numerics.operator import pair_sums, ridge_solution
from tests.kernels import DEVICE, off

from diskoop.numerics.elimination import LARGEST, ridge_solution_there  # isort: skip - after who runs kernels


@pytest.mark.parametrize("k", [1, 2, 7, 16, 40, LARGEST])
@pytest.mark.parametrize("ridge", [1e-9, 1e-3])
def test_it_solves_what_lapack_solves(k: int, ridge: float) -> None:
    z = torch.randn(6 + k // 4, 8, k, generator=torch.Generator().manual_seed(k))
    past, cross = pair_sums(z @ torch.diag(torch.logspace(-2, 0, k)))  # directions of very different size
    C, inverse = ridge_solution_there(past.to(DEVICE), cross.to(DEVICE), ridge)
    known, known_inverse = ridge_solution(past, cross, ridge)
    assert off(C.cpu(), known) < 1e-10
    assert off(inverse.cpu(), known_inverse) < 1e-10


def test_fewer_latents_than_directions() -> None:
    """Only the ridge makes it solvable; ten digits are gone, whoever solves."""
    past, cross = pair_sums(torch.randn(1, 6, 20, generator=torch.Generator().manual_seed(0)))
    C, _ = ridge_solution_there(past.to(DEVICE), cross.to(DEVICE), 1e-9)
    assert off(C.cpu(), ridge_solution(past, cross, 1e-9)[0]) < 1e-5


def test_latents_that_are_zero_have_the_zero_operator() -> None:
    nothing = torch.zeros(5, 5, dtype=torch.float64, device=DEVICE)
    C, inverse = ridge_solution_there(nothing, nothing, 1e-9)
    assert not C.any()
    assert torch.equal(inverse, torch.eye(5, dtype=torch.float64, device=DEVICE))
