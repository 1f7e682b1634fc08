"""One program solves what LAPACK solves."""

import pytest
import torch

from diskoop.numerics.operator import fit_operator, pair_sums, ridge_solution, ridge_system
from tests.helpers.kernels import DEVICE, relative_error

from diskoop.kernels.ridge_solver import MAX_K, solve_ridge  # isort: skip - after the helper chose the interpreter


@pytest.mark.parametrize("k", [1, 2, 7, 16, 40, MAX_K])
@pytest.mark.parametrize("ridge", [1e-9, 1e-3])
def test_it_solves_what_lapack_solves(k: int, ridge: float) -> None:
    z = torch.randn(6 + k // 4, 8, k, generator=torch.Generator().manual_seed(k), dtype=torch.float64)
    past, cross = pair_sums(z @ torch.diag(torch.logspace(-2, 0, k)).double())  # latents of very different size
    C, inverse = solve_ridge(past.to(DEVICE), cross.to(DEVICE), ridge)
    known, known_inverse = ridge_solution(past, cross, ridge)
    assert relative_error(C.cpu(), known) < 1e-10
    assert relative_error(inverse.cpu(), known_inverse) < 1e-10


def test_fewer_latents_than_directions() -> None:
    """Only the ridge makes it solvable; every solver loses ten digits."""
    past, cross = pair_sums(torch.randn(1, 6, 20, generator=torch.Generator().manual_seed(0)))
    C, _ = solve_ridge(past.to(DEVICE), cross.to(DEVICE), 1e-9)
    assert relative_error(C.cpu(), ridge_solution(past, cross, 1e-9)[0]) < 1e-5


def test_latents_that_are_zero_have_the_zero_operator() -> None:
    nothing = torch.zeros(5, 5, dtype=torch.float64, device=DEVICE)
    C, inverse = solve_ridge(nothing, nothing, 1e-9)
    assert not C.any()
    assert torch.equal(inverse, torch.eye(5, dtype=torch.float64, device=DEVICE))


@pytest.mark.parametrize("ridge", [1e-9, 1e-3])
def test_it_finds_the_operator_of_the_latents(ridge: float) -> None:
    """In units that are twelve orders apart, with one latent that is always zero."""
    z = torch.randn(12, 8, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    units = torch.logspace(-6, 6, 9, dtype=torch.float64)
    z[..., 4] = 0
    past, cross = pair_sums(z * units)
    C, inverse = solve_ridge(past.to(DEVICE), cross.to(DEVICE), ridge)
    known, system = fit_operator(z, ridge=ridge).matrix, ridge_system(past, ridge)
    assert relative_error(units.unsqueeze(1) * C.cpu() / units, known) < 1e-10
    assert not C[4].any()
    size = system.diagonal().sqrt()
    assert (
        relative_error(inverse.cpu() * size * size.unsqueeze(1), torch.linalg.inv(system / size / size.unsqueeze(1)))
        < 1e-10
    )
