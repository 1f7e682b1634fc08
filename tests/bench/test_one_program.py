"""What is timed as the solve in one program is that solve."""

import torch

from diskoop.bench.pieces import by_gram, by_gram_in_one_program, latents
from tests.kernels import DEVICE, off


def test_one_program_solves_alike_and_so_does_its_gradient() -> None:
    z = latents(20, DEVICE).double().requires_grad_()
    pull = torch.randn(20, 20, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).to(DEVICE)
    (C, gradient), (known, wanted) = (
        (found, *torch.autograd.grad(found, z, pull))
        for found in (solve(z) for solve in (by_gram_in_one_program, by_gram))
    )
    assert off(C, known) < 1e-12
    assert off(gradient, wanted) < 1e-10
