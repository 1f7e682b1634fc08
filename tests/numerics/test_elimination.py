"""One program solves what LAPACK solves."""

import pytest
import torch

from diskoop.numerics.operator import fit_operator, pair_sums, ridge_solution, ridge_system
from tests.kernels import DEVICE, off

from diskoop.numerics.elimination import LARGEST, ridge_solution_there  # isort: skip - after who runs kernels


@pytest.mark.parametrize("k", [1, 2, 7, 16, 40, LARGEST])
@pytest.mark.parametrize("ridge", [1e-9, 1e-3])
def test_it_solves_what_lapack_solves(k: int, ridge: float) -> None:
    z = torch.randn(6 + k // 4, 8, k, generator=torch.Generator().manual_seed(k), dtype=torch.float64)
    past, cross = pair_sums(z @ torch.diag(torch.logspace(-2, 0, k)).double())  # latents of very different size
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


@pytest.mark.parametrize("ridge", [1e-9, 1e-3])
def test_it_finds_the_operator_of_the_latents(ridge: float) -> None:
    """In units that are twelve orders apart, with one latent that is always zero."""
    z = torch.randn(12, 8, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    units = torch.logspace(-6, 6, 9, dtype=torch.float64)
    z[..., 4] = 0
    past, cross = pair_sums(z * units)
    C, inverse = ridge_solution_there(past.to(DEVICE), cross.to(DEVICE), ridge)
    known, system = fit_operator(z, ridge=ridge).matrix, ridge_system(past, ridge)
    assert off(units.unsqueeze(1) * C.cpu() / units, known) < 1e-10
    assert not C[4].any()
    size = system.diagonal().sqrt()
    assert off(inverse.cpu() * size * size.unsqueeze(1), torch.linalg.inv(system / size / size.unsqueeze(1))) < 1e-10
