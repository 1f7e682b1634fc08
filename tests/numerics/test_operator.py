"""A known operator is recovered; degenerate latents get a finite answer or a sentence."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydmd import DMD
from torch import Tensor

from diskoop.errors import InputError
from diskoop.numerics import Moments, fit_operator, fit_operator_per_sequence
from diskoop.numerics.operator import pair_sums, rank_of, ridge_gradient, ridge_system
from tests.conftest import trajectories


def test_a_known_operator_is_recovered_without_ridge(operator: Tensor, generator: torch.Generator) -> None:
    z = trajectories(operator, batch=20, time=6, generator=generator)
    fitted = fit_operator(z, ridge=0)
    assert torch.allclose(fitted.matrix, operator, rtol=0, atol=1e-10)
    assert (int(fitted.rank), fitted.sequences, fitted.steps) == (7, 20, 100)


def test_it_is_the_pseudo_inverse_solution_when_the_fit_is_not_exact(generator: torch.Generator) -> None:
    z = torch.randn(9, 5, 6, generator=generator, dtype=torch.float64)
    past, future = z[:, :-1].reshape(-1, 6), z[:, 1:].reshape(-1, 6)
    assert torch.allclose(fit_operator(z, ridge=0).matrix, torch.linalg.pinv(past) @ future, atol=1e-11)


def test_it_agrees_with_pydmd_on_one_trajectory(operator: Tensor, generator: torch.Generator) -> None:
    z = trajectories(operator, batch=1, time=12, generator=generator)
    theirs = DMD(svd_rank=-1).fit(z[0].T.numpy()).eigs
    ours = np.linalg.eigvals(fit_operator(z, ridge=0).matrix.numpy())
    for eigenvalue in theirs:
        assert np.abs(ours - eigenvalue).min() < 1e-6


@pytest.mark.parametrize("ridge", [1e-9, 1e-6, 1e-3])
def test_the_bias_of_the_ridge_is_bounded(ridge: float, operator: Tensor, generator: torch.Generator) -> None:
    """With exact dynamics the error is -r (G + r)^-1 C, at most r / (smallest eigenvalue of G + r) of C's norm."""
    z = trajectories(operator, batch=20, time=6, generator=generator)
    gram = Moments.of(z).past
    added = ridge * gram.diagonal().mean()
    bound = added / (torch.linalg.eigvalsh(gram)[0] + added) * torch.linalg.matrix_norm(operator, 2)
    error = torch.linalg.matrix_norm(fit_operator(z, ridge=ridge).matrix - operator, 2)
    assert 0 < error <= bound * (1 + 1e-6)


def test_condition_is_that_of_the_solved_system(generator: torch.Generator) -> None:
    z = torch.randn(30, 4, 3, generator=generator, dtype=torch.float64) * torch.tensor([1.0, 10.0, 100.0]).double()
    assert torch.allclose(fit_operator(z, ridge=0).condition, torch.linalg.cond(Moments.of(z).past), rtol=1e-8)


def test_streamed_moments_equal_those_of_the_whole(generator: torch.Generator) -> None:
    z = torch.randn(50, 6, 5, generator=generator, dtype=torch.float64)
    streamed = Moments.of(z[:7])
    for part in (z[7:8], z[8:30], z[30:]):
        streamed = streamed + Moments.of(part)
    whole, fitted = fit_operator(z), streamed.solve()
    assert torch.allclose(fitted.matrix, whole.matrix, atol=1e-12)
    assert (fitted.sequences, fitted.steps) == (whole.sequences, whole.steps)


def test_a_mask_leaves_out_padding_whatever_it_holds(operator: Tensor, generator: torch.Generator) -> None:
    z = trajectories(operator, batch=12, time=9, generator=generator)
    lengths = torch.tensor([2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 5, 1])
    mask = torch.arange(9) < lengths[:, None]
    z[~mask] = torch.nan
    fitted = fit_operator(z, mask, ridge=0)
    assert torch.allclose(fitted.matrix, operator, atol=1e-9)
    assert fitted.steps == int((lengths - 1).sum())


def test_a_frame_missing_in_the_middle_breaks_both_of_its_pairs(operator: Tensor, generator: torch.Generator) -> None:
    z = trajectories(operator, batch=12, time=9, generator=generator)
    mask = torch.ones(12, 9, dtype=torch.bool)
    mask[:, 4] = False
    z[~mask] = 1e3
    fitted = fit_operator(z, mask, ridge=0)
    assert torch.allclose(fitted.matrix, operator, atol=1e-9)
    assert fitted.steps == 12 * 6


def test_each_sequence_alone_follows_its_own_operator(operator: Tensor, generator: torch.Generator) -> None:
    z = trajectories(operator, batch=5, time=4, generator=generator)  # 3 steps in 7 dimensions: minimum norm
    fitted = fit_operator_per_sequence(z, ridge=0)
    assert fitted.matrix.shape == (5, 7, 7)
    assert fitted.rank.tolist() == [3] * 5
    assert torch.allclose(z[:, :-1] @ fitted.matrix, z[:, 1:], atol=1e-9)
    alone = torch.linalg.pinv(z[2, :-1]) @ z[2, 1:]
    assert torch.allclose(fitted.matrix[2], alone, atol=1e-8)


def test_advance_and_roll_are_powers(operator: Tensor, generator: torch.Generator) -> None:
    z = trajectories(operator, batch=4, time=10, generator=generator)
    fitted = fit_operator(trajectories(operator, 20, 6, generator), ridge=0)
    assert torch.allclose(fitted.roll(z[:, 0], steps=9), z[:, 1:], atol=1e-8)
    assert torch.allclose(fitted.advance(z[:, :7], steps=3), z[:, 3:], atol=1e-8)
    assert torch.equal(fitted.advance(z, steps=0), z)


def test_the_fit_is_differentiable(operator: Tensor, generator: torch.Generator) -> None:
    z = torch.randn(6, 4, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: fit_operator(z, ridge=1e-6).matrix, (z,))
    assert torch.autograd.gradcheck(lambda z: fit_operator_per_sequence(z, ridge=1e-2).matrix, (z,))


def test_float32_latents_are_solved_in_float64(operator: Tensor, generator: torch.Generator) -> None:
    z = trajectories(operator, batch=40, time=4, generator=generator).float()
    assert fit_operator(z, ridge=0).matrix.dtype == torch.float64
    assert torch.allclose(fit_operator(z, ridge=0).matrix, operator, atol=1e-5)


@pytest.mark.parametrize("ridge", [0.0, 1e-9])
@settings(max_examples=60, deadline=None)
@given(
    batch=st.integers(1, 4),
    time=st.integers(2, 5),
    k=st.integers(1, 9),
    kind=st.sampled_from(["zero", "equal", "one line", "tiny", "huge", "random"]),
    seed=st.integers(0, 2**20),
)
def test_degenerate_latents_give_a_finite_operator(
    ridge: float, batch: int, time: int, k: int, kind: str, seed: int
) -> None:
    random = torch.Generator().manual_seed(seed)
    noise = torch.randn(batch, time, k, generator=random, dtype=torch.float64)
    z = {
        "zero": torch.zeros_like(noise),
        "equal": torch.ones_like(noise) * noise[0, 0],
        "one line": noise[..., :1] * noise[0, 0],
        "tiny": noise * 1e-120,
        "huge": noise * 1e120,
        "random": noise,
    }[kind]
    for fit in (fit_operator, fit_operator_per_sequence):
        fitted = fit(z, ridge=ridge)
        assert torch.isfinite(fitted.matrix).all()
        assert torch.isfinite(fitted.condition).all()
        assert (fitted.rank <= min(k, batch * (time - 1))).all()
    if kind == "equal" and ridge == 0:
        assert torch.allclose(z @ fit_operator(z, ridge=0).matrix, z)


@pytest.mark.parametrize(
    ("z", "sentence"),
    [
        (torch.zeros(3, 64), r"expected latents \(batch, time >= 2, k\), got \(3, 64\)"),
        (torch.zeros(3, 1, 4), r"got \(3, 1, 4\)"),
        (torch.zeros(0, 5, 4), r"got \(0, 5, 4\)"),
        (torch.zeros(2, 5, 4, dtype=torch.int64), "real latents, got torch.int64"),
        (torch.full((2, 5, 4), torch.nan), "NaN or infinity"),
    ],
)
def test_impossible_latents_are_named(z: Tensor, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        fit_operator(z)


def test_impossible_masks_and_numbers_are_named(operator: Tensor) -> None:
    z = torch.ones(2, 5, 4)
    with pytest.raises(InputError, match=r"boolean mask \(2, 5\), got torch.bool \(2, 4\)"):
        fit_operator(z, torch.ones(2, 4, dtype=torch.bool))
    with pytest.raises(InputError, match="at least one pair"):
        fit_operator(z, torch.zeros(2, 5, dtype=torch.bool))
    for ridge in (-1.0, 1e-17, float("nan")):
        with pytest.raises(InputError, match=f"a ridge of 0, or of 1e-12 and more .*got {ridge}"):
            fit_operator(z, ridge=ridge)
    with pytest.raises(InputError, match="steps >= 1, got 0"):
        fit_operator(z).roll(z[:, 0], 0)


@pytest.mark.parametrize("ridge", [1e-6, 0.3])
def test_the_ridge_systems_gradient_is_autograds(ridge: float) -> None:
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(4, 6, 5, generator=generator, dtype=torch.float64)
    past, cross = (sums.requires_grad_() for sums in pair_sums(z))
    system, added = ridge_system(past, ridge)
    C = torch.linalg.solve(system, cross)
    pull = torch.randn(5, 5, generator=generator, dtype=torch.float64)
    expected = torch.autograd.grad((C * pull).sum(), (past, cross))
    ours = ridge_gradient(pull, C.detach(), torch.linalg.inv(system.detach()), ridge)
    assert all(torch.allclose(one, other, rtol=1e-10) for one, other in zip(ours, expected, strict=True))
    assert float(added.detach()) == pytest.approx(ridge * float(past.detach().diagonal().mean()))
    assert torch.allclose(C, fit_operator(z, ridge=ridge).matrix, rtol=1e-12)


def test_the_rank_is_that_of_the_operator() -> None:
    z = torch.randn(4, 6, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    flat = torch.cat([z, z[..., :2] - z[..., 1:]], dim=-1)  # five directions, three of their own
    assert int(rank_of(pair_sums(flat)[0])) == int(fit_operator(flat).rank) == 3
    assert int(rank_of(torch.zeros(5, 5, dtype=torch.float64))) == 0
