"""A known operator is recovered, however weak or small a direction; degenerate latents get an answer or a sentence."""

from functools import reduce
from operator import add

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydmd import DMD
from torch import Tensor

from diskoop.errors import InputError
from diskoop.numerics import Operator, SnapshotQR, fit_operator, fit_operator_per_sequence
from diskoop.numerics.operator import pair_sums, ridge_gradient, ridge_rank, ridge_solution, ridge_system
from tests.conftest import trajectories


def test_a_known_operator_is_recovered_without_ridge(operator: Tensor, generator: torch.Generator) -> None:
    z = trajectories(operator, batch=20, time=6, generator=generator)
    fitted = fit_operator(z)
    assert torch.allclose(fitted.matrix, operator, rtol=0, atol=1e-12)
    assert (int(fitted.rank), fitted.sequences, fitted.steps) == (7, 20, 100)


def test_it_is_the_pseudo_inverse_solution_when_the_fit_is_not_exact(generator: torch.Generator) -> None:
    z = torch.randn(9, 5, 6, generator=generator, dtype=torch.float64)
    past, future = rows(z)
    assert torch.allclose(fit_operator(z).matrix, torch.linalg.pinv(past) @ future, atol=1e-13)
    known = np.linalg.lstsq(past.numpy(), future.numpy(), rcond=None)[0]
    assert np.allclose(fit_operator(z).matrix.numpy(), known, atol=1e-13)


def rows(z: Tensor) -> tuple[Tensor, Tensor]:
    """Snapshots with a successor, and their successors: (batch (time - 1), k) both."""
    return z[:, :-1].flatten(0, 1), z[:, 1:].flatten(0, 1)


def with_a_weak_direction(weak: float, seed: int = 0, time: int = 10) -> Tensor:
    """200 trajectories with eigenvalues 1, 0.9 and 0.5 in a random orthogonal basis, little of the first."""
    generator = torch.Generator().manual_seed(seed)
    basis: Tensor = torch.linalg.qr(torch.randn(3, 3, generator=generator, dtype=torch.float64))[0]
    start = torch.randn(200, 1, 3, generator=generator, dtype=torch.float64) * torch.tensor([weak, 1.0, 1.0])
    powers = torch.tensor([1.0, 0.9, 0.5], dtype=torch.float64) ** torch.arange(time).unsqueeze(1)
    return start * powers @ basis.T


def eigenvalues(matrix: Tensor) -> NDArray[np.complex128]:
    return np.sort_complex(np.linalg.eigvals(matrix.numpy()))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("scale", [1.0, 1e-160, 1e160])
def test_a_weak_direction_is_kept(seed: int, scale: float) -> None:
    z = with_a_weak_direction(1e-5, seed)
    fitted = fit_operator(z * scale)
    assert np.allclose(eigenvalues(fitted.matrix), [0.5, 0.9, 1], rtol=0, atol=1e-9)
    assert int(fitted.rank) == 3
    assert np.allclose(eigenvalues(SnapshotQR.of(z * scale).solve().matrix), [0.5, 0.9, 1], rtol=0, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("scale", [1.0, 1e-160, 1e160])
def test_a_ridge_drops_a_weak_direction_and_its_rank_says_so(seed: int, scale: float) -> None:
    z = with_a_weak_direction(1e-5, seed) * scale
    fitted = fit_operator(z, ridge=1e-9)
    assert np.abs(eigenvalues(fitted.matrix) - 1).min() > 0.09
    assert int(fitted.rank) == 2
    kept = fit_operator(z, ridge=1e-12)
    assert np.abs(eigenvalues(kept.matrix) - 1).min() < 2e-3
    assert int(kept.rank) == 3


def test_a_direction_weaker_than_the_square_root_of_rounding_is_kept() -> None:
    """A Gram matrix would square 1e-9 to 1e-18."""
    fitted = fit_operator(with_a_weak_direction(1e-9))
    assert np.allclose(eigenvalues(fitted.matrix), [0.5, 0.9, 1], rtol=0, atol=1e-6)
    assert int(fitted.rank) == 3


def test_directions_below_rounding_are_dropped() -> None:
    """In float32 the weak direction is rounding: fitting it would give a huge operator that predicts no better."""
    z = with_a_weak_direction(1e-9).float()
    fitted = fit_operator(z)
    assert int(fitted.rank) == 2
    assert float(fitted.matrix.abs().max()) < 2
    past, future = rows(z.double())
    assert torch.allclose(past @ fitted.matrix, future, atol=1e-5)
    assert int(fit_operator(z.double()).rank) == 3


@pytest.mark.parametrize("ridge", [0.0, 1e-9, 1e-2])
def test_units_of_a_latent_do_not_matter(ridge: float, generator: torch.Generator) -> None:
    """Latents z D have the operator D^-1 C D, with the same rank and condition."""
    z = torch.randn(20, 6, 5, generator=generator, dtype=torch.float64).cumsum(1)
    units = torch.tensor([1e-6, 1e-2, 3.0, 1e5, 1e6], dtype=torch.float64)
    for fit in (fit_operator, fit_operator_per_sequence, streamed):
        one, other = fit(z, ridge=ridge), fit(z * units, ridge=ridge)
        assert torch.allclose(units.unsqueeze(1) * other.matrix / units, one.matrix, rtol=1e-7, atol=1e-9)
        assert torch.equal(other.rank, one.rank)
        assert torch.allclose(other.condition, one.condition, rtol=1e-7)


def streamed(z: Tensor, mask: Tensor | None = None, ridge: float = 0.0) -> Operator:
    """One sequence at a time."""
    parts = [SnapshotQR.of(z[at : at + 1], None if mask is None else mask[at : at + 1]) for at in range(len(z))]
    return reduce(add, parts).solve(ridge)


def test_a_matrix_that_overflows_is_named(generator: torch.Generator) -> None:
    z = torch.randn(20, 6, 3, generator=generator, dtype=torch.float64)
    z = z * torch.tensor([1e-160, 1.0, 1e160], dtype=torch.float64)
    for ridge in (0.0, 1e-9):
        for fit in (fit_operator, fit_operator_per_sequence, streamed):
            with pytest.raises(InputError, match=r"overflows float64, got sizes from \de-1\d\d to \de\+16\d"):
                fit(z, ridge=ridge)


def test_it_agrees_with_pydmd_on_one_trajectory(operator: Tensor, generator: torch.Generator) -> None:
    z = trajectories(operator, batch=1, time=12, generator=generator)
    theirs = DMD(svd_rank=-1).fit(z[0].T.numpy()).eigs
    ours = np.linalg.eigvals(fit_operator(z).matrix.numpy())
    for eigenvalue in theirs:
        assert np.abs(ours - eigenvalue).min() < 1e-6


@pytest.mark.parametrize("ridge", [1e-9, 1e-6, 1e-3])
def test_the_bias_of_the_ridge_is_bounded(ridge: float, operator: Tensor, generator: torch.Generator) -> None:
    """With exact dynamics, latents of norm 1: the error is -r (G + r)^-1 C, at most r / (smallest of G + r) of C."""
    z = trajectories(operator, batch=20, time=6, generator=generator)
    size = rows(z)[0].norm(dim=0)
    scaled = size.unsqueeze(1) * operator / size  # of z / size
    gram = pair_sums(z / size)[0]
    bound = ridge / (torch.linalg.eigvalsh(gram)[0] + ridge) * torch.linalg.matrix_norm(scaled, 2)
    error = size.unsqueeze(1) * (fit_operator(z, ridge=ridge).matrix - operator) / size
    assert 0 < torch.linalg.matrix_norm(error, 2) <= bound * (1 + 1e-6)


def test_a_ridge_is_that_many_more_snapshots(generator: torch.Generator) -> None:
    """sqrt(ridge) times each latent's norm, alone, with nothing after it: textbook ridge regression."""
    z = torch.randn(20, 4, 5, generator=generator, dtype=torch.float64) * torch.logspace(-2, 2, 5, dtype=torch.float64)
    past, future = rows(z)
    more = torch.diag(0.1**0.5 * past.norm(dim=0))
    known = torch.linalg.lstsq(torch.cat([past, more]), torch.cat([future, torch.zeros_like(more)])).solution
    assert torch.allclose(fit_operator(z, ridge=0.1).matrix, known, rtol=1e-9)
    assert torch.allclose(streamed(z, ridge=0.1).matrix, known, rtol=1e-9)


def test_condition_is_that_of_the_solved_system(generator: torch.Generator) -> None:
    z = torch.randn(30, 4, 3, generator=generator, dtype=torch.float64) * torch.tensor([1.0, 10.0, 100.0]).double()
    past = rows(z)[0]
    past = past / past.norm(dim=0)
    assert torch.allclose(fit_operator(z).condition, torch.linalg.cond(past), rtol=1e-10)
    system = past.T @ past + 0.1 * torch.eye(3)
    assert torch.allclose(fit_operator(z, ridge=0.1).condition, torch.linalg.cond(system), rtol=1e-10)
    twice = torch.cat([z, z[..., :1]], -1)  # three directions in four latents
    norm = rows(twice)[0].norm(dim=0)
    sizes = torch.linalg.svdvals(rows(twice)[0] / norm)
    assert torch.allclose(fit_operator(twice).condition, sizes[0] / sizes[2], rtol=1e-10)


RAGGED = torch.tensor([2, 3, 4, 5, 6, 6, 1, 6, 3, 2])


@pytest.mark.parametrize("ridge", [0.0, 1e-9, 1e-2])
@pytest.mark.parametrize("cuts", [(7,), (1, 2, 3), (4, 5, 9), tuple(range(1, 10))])
@pytest.mark.parametrize("masked", [False, True])
def test_a_stream_has_the_operator_of_the_whole(
    ridge: float, cuts: tuple[int, ...], masked: bool, generator: torch.Generator
) -> None:
    z = torch.randn(10, 6, 5, generator=generator, dtype=torch.float64).cumsum(1)
    mask = torch.arange(6) < RAGGED[:, None] if masked else torch.ones(10, 6, dtype=torch.bool)
    z[~mask] = torch.nan
    parts = [SnapshotQR.of(*part) for part in zip(z.tensor_split(cuts), mask.tensor_split(cuts), strict=True)]
    fitted, whole = reduce(add, parts).solve(ridge), fit_operator(z, mask, ridge)
    assert reduce(add, parts).R.shape == (10, 10)
    assert torch.allclose(fitted.matrix, whole.matrix, rtol=0, atol=1e-10)
    assert torch.allclose(fitted.condition, whole.condition, rtol=1e-6)
    assert (fitted.rank, fitted.sequences, fitted.steps) == (whole.rank, whole.sequences, whole.steps)


@pytest.mark.parametrize("scale", [1.0, 1e-160, 1e160])
def test_a_stream_of_fewer_snapshots_than_latents(scale: float, generator: torch.Generator) -> None:
    z = torch.randn(2, 3, 7, generator=generator, dtype=torch.float64) * scale
    fitted = streamed(z)
    past, future = (each / scale for each in rows(z))
    assert torch.allclose(fitted.matrix, torch.linalg.pinv(past) @ future, rtol=0, atol=1e-11)
    assert int(fitted.rank) == 4


def test_a_long_stream_has_no_more_directions_than_the_whole() -> None:
    """Four hundred factorisations in a row round more than one."""
    generator = torch.Generator().manual_seed(3)
    for k, rank in ((3, 1), (4, 2), (6, 5)):
        mixed = torch.randn(400, 3, rank, generator=generator, dtype=torch.float64)
        z = mixed @ torch.randn(rank, k, generator=generator, dtype=torch.float64)
        assert int(streamed(z).rank) == int(fit_operator(z).rank) == rank


def test_a_stream_is_as_coarse_as_its_coarsest_part() -> None:
    z = with_a_weak_direction(1e-9)
    fine, coarse = SnapshotQR.of(z[:100]), SnapshotQR.of(z[100:].float())
    assert int((fine + fine).solve().rank) == 3
    assert int((fine + coarse).solve().rank) == int((coarse + fine).solve().rank) == 2


def test_a_stream_is_no_part_of_the_graph(generator: torch.Generator) -> None:
    z = torch.randn(4, 5, 3, generator=generator, requires_grad=True)
    assert not (SnapshotQR.of(z) + SnapshotQR.of(z)).solve().matrix.requires_grad


def test_a_mask_leaves_out_padding_whatever_it_holds(operator: Tensor, generator: torch.Generator) -> None:
    z = trajectories(operator, batch=12, time=9, generator=generator)
    lengths = torch.tensor([2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 5, 1])
    mask = torch.arange(9) < lengths[:, None]
    z[~mask] = torch.nan
    fitted = fit_operator(z, mask)
    assert torch.allclose(fitted.matrix, operator, atol=1e-9)
    assert fitted.steps == int((lengths - 1).sum())


def test_a_frame_missing_in_the_middle_breaks_both_of_its_pairs(operator: Tensor, generator: torch.Generator) -> None:
    z = trajectories(operator, batch=12, time=9, generator=generator)
    mask = torch.ones(12, 9, dtype=torch.bool)
    mask[:, 4] = False
    z[~mask] = 1e3
    fitted = fit_operator(z, mask)
    assert torch.allclose(fitted.matrix, operator, atol=1e-9)
    assert fitted.steps == 12 * 6


def test_each_sequence_alone_follows_its_own_operator(operator: Tensor, generator: torch.Generator) -> None:
    z = trajectories(operator, batch=5, time=4, generator=generator)  # 3 steps in 7 dimensions: minimum norm
    fitted = fit_operator_per_sequence(z)
    assert fitted.matrix.shape == (5, 7, 7)
    assert fitted.rank.tolist() == [3] * 5
    assert torch.allclose(z[:, :-1] @ fitted.matrix, z[:, 1:], atol=1e-12)
    known = torch.linalg.pinv(z[:, :-1]) @ z[:, 1:]
    assert torch.allclose(fitted.matrix, known, atol=1e-10)
    with_ridge = fit_operator_per_sequence(z, ridge=1e-3)
    assert torch.allclose(with_ridge.matrix[2], fit_operator(z[2:3], ridge=1e-3).matrix, atol=1e-10)


def test_sequences_of_unequal_length_and_rank_share_a_batch(generator: torch.Generator) -> None:
    z = torch.randn(4, 9, 5, generator=generator, dtype=torch.float64)
    z[3] = z[3, :, :1] * z[3, :1]
    mask = torch.arange(9) < torch.tensor([9, 3, 1, 9])[:, None]
    z[~mask] = torch.nan
    fitted = fit_operator_per_sequence(z, mask)
    assert fitted.rank.tolist() == [5, 2, 0, 1]
    assert fitted.steps == 18
    for index, length in enumerate([9, 3, 1, 9]):
        known = torch.linalg.pinv(z[index, : length - 1]) @ z[index, 1:length] if length > 1 else torch.zeros(5, 5)
        assert torch.allclose(fitted.matrix[index], known.double(), atol=1e-11)


@pytest.mark.parametrize("orders", [0, 2, 6, 12, 50, 100])
@pytest.mark.parametrize("mix", [[[1, 0], [-1, 1], [0, -1], [0, 0]], [[0, 0], [0, 0], [1, 0], [0, 1]]])
def test_latents_that_repeat_others_fit_as_well_in_any_units(
    mix: list[list[float]], orders: int, generator: torch.Generator
) -> None:
    """Of all that fit alike the smallest is the pseudo-inverse's, as long as that one can be told apart."""
    z = torch.randn(20, 6, 4, generator=generator, dtype=torch.float64)
    z = torch.cat([z, z @ torch.tensor(mix, dtype=torch.float64)], -1)  # six latents, four directions
    units = 10.0 ** (orders * torch.tensor([0.2, -1.0, 1.0, -0.2, 0.6, -0.6], dtype=torch.float64))
    past, future = rows(z)
    best = past @ torch.linalg.pinv(past, rtol=1e-12) @ future
    fitted = fit_operator(z * units)
    assert int(fitted.rank) == 4
    assert torch.allclose(past * units @ fitted.matrix / units, best, atol=1e-9)
    if orders <= 2:
        known = torch.linalg.pinv(past * units, rtol=1e-12) @ (future * units)
        assert torch.allclose(fitted.matrix, known, rtol=1e-9, atol=1e-9)


def test_a_latent_that_is_always_zero_has_no_part(generator: torch.Generator) -> None:
    z = torch.randn(20, 6, 5, generator=generator, dtype=torch.float64)
    z[..., 2] = 0
    others = [0, 1, 3, 4]
    for ridge in (0.0, 1e-2):
        for fit in (fit_operator, fit_operator_per_sequence, streamed):
            fitted, known = fit(z, ridge=ridge), fit(z[..., others], ridge=ridge)
            assert not fitted.matrix[..., 2, :].any()
            assert not fitted.matrix[..., :, 2].any()
            assert torch.allclose(fitted.matrix[..., others, :][..., others], known.matrix, atol=1e-10)
            assert torch.equal(fitted.rank, known.rank)
            assert torch.allclose(fitted.condition, known.condition)


def test_advance_and_roll_are_powers(operator: Tensor, generator: torch.Generator) -> None:
    z = trajectories(operator, batch=4, time=10, generator=generator)
    fitted = fit_operator(trajectories(operator, 20, 6, generator))
    assert torch.allclose(fitted.rollout(z[:, 0], steps=9), z[:, 1:], atol=1e-8)
    assert torch.allclose(fitted.advance(z[:, :7], steps=3), z[:, 3:], atol=1e-8)
    assert torch.equal(fitted.advance(z, steps=0), z)


def test_the_fit_is_differentiable(operator: Tensor, generator: torch.Generator) -> None:
    z = torch.randn(6, 4, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: fit_operator(z, ridge=1e-6).matrix, (z,))
    assert torch.autograd.gradcheck(lambda z: fit_operator_per_sequence(z, ridge=1e-2).matrix, (z,))
    assert torch.autograd.gradcheck(lambda z: fit_operator(z).matrix, (z,))
    assert torch.autograd.gradcheck(lambda z: fit_operator_per_sequence(z).matrix, (z,))
    mask = torch.arange(4) < torch.tensor([4, 4, 2, 3, 1, 4])[:, None]
    assert torch.autograd.gradcheck(lambda z: fit_operator(z, mask).matrix, (z,))
    units = torch.tensor([0.1, 1.0, 10.0], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda z: fit_operator(z * units).matrix, (z,))
    assert torch.autograd.gradcheck(lambda z: fit_operator(z * units, ridge=0.1).matrix, (z,))


def test_the_minimum_norm_is_differentiable(generator: torch.Generator) -> None:
    """Three snapshots in five latents of unequal size: the rank does not change nearby."""
    z = torch.randn(2, 4, 5, generator=generator, dtype=torch.float64) * torch.tensor([0.1, 1, 2, 1, 3.0])
    assert torch.autograd.gradcheck(lambda z: fit_operator_per_sequence(z).matrix, (z.requires_grad_(),))
    past, future = z[:, :-1], z[:, 1:]
    upstream = torch.randn(2, 5, 5, generator=generator, dtype=torch.float64)
    (known,) = torch.autograd.grad(((torch.linalg.pinv(past) @ future) * upstream).sum(), z)
    (ours,) = torch.autograd.grad((fit_operator_per_sequence(z).matrix * upstream).sum(), z)
    assert torch.allclose(ours, known, rtol=1e-9)


@pytest.mark.parametrize("ridge", [0.0, 1e-9])
@pytest.mark.parametrize("kind", ["zero", "equal", "twice", "orthonormal"])
def test_gradients_of_degenerate_latents_are_finite(kind: str, ridge: float) -> None:
    z = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    z = {
        "zero": torch.zeros_like(z),
        "equal": torch.ones_like(z),
        "twice": torch.cat([z[..., :2], z[..., :2]], -1),
        "orthonormal": torch.eye(4, dtype=torch.float64).roll(1, 0)[None, [0, 1, 2, 3, 0]],  # equal singular values
    }[kind].requires_grad_()
    for fit in (fit_operator, fit_operator_per_sequence):
        (gradient,) = torch.autograd.grad(fit(z, ridge=ridge).matrix.square().sum(), z)
        assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("ridge", [0.0, 1e-3])
@pytest.mark.parametrize("scale", [1e-160, 1e160])
def test_gradients_neither_overflow_nor_vanish(scale: float, ridge: float, generator: torch.Generator) -> None:
    z = torch.randn(6, 4, 3, generator=generator, dtype=torch.float64)
    upstream = torch.randn(3, 3, generator=generator, dtype=torch.float64)
    gradients: list[Tensor] = []
    for size in (1.0, scale):
        scaled = (z * size).requires_grad_()
        gradients += torch.autograd.grad((fit_operator(scaled, ridge=ridge).matrix * upstream).sum(), scaled)
    assert torch.allclose(gradients[1] * scale, gradients[0], rtol=1e-9, atol=1e-12)


def test_float32_latents_are_solved_in_float64(operator: Tensor, generator: torch.Generator) -> None:
    z = trajectories(operator, batch=40, time=4, generator=generator).float()
    assert fit_operator(z).matrix.dtype == torch.float64
    assert torch.allclose(fit_operator(z).matrix, operator, atol=1e-5)


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
        "tiny": noise * 1e-160,
        "huge": noise * 1e160,
        "random": noise,
    }[kind]
    for fit in (fit_operator, fit_operator_per_sequence, streamed):
        fitted = fit(z, ridge=ridge)
        assert torch.isfinite(fitted.matrix).all()
        assert torch.isfinite(fitted.condition).all()
        assert (fitted.rank <= min(k, batch * (time - 1))).all()
    if kind == "equal" and ridge == 0:
        assert torch.allclose(z @ fit_operator(z).matrix, z)


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
    for fit in (fit_operator, fit_operator_per_sequence, SnapshotQR.of):
        with pytest.raises(InputError, match=sentence):
            fit(z)


def test_impossible_masks_and_numbers_are_named(operator: Tensor) -> None:
    z = torch.ones(2, 5, 4)
    with pytest.raises(InputError, match=r"boolean mask \(2, 5\), got torch.bool \(2, 4\)"):
        fit_operator(z, torch.ones(2, 4, dtype=torch.bool))
    with pytest.raises(InputError, match="at least one pair"):
        fit_operator(z, torch.zeros(2, 5, dtype=torch.bool))
    with pytest.raises(InputError, match="at least one pair"):
        SnapshotQR.of(z, torch.zeros(2, 5, dtype=torch.bool)).solve()
    for ridge in (-1.0, 1e-17, float("nan")):
        with pytest.raises(InputError, match=f"a ridge of 0, or at least 1e-12 .*got {ridge}"):
            fit_operator(z, ridge=ridge)
    with pytest.raises(InputError, match="steps >= 1, got 0"):
        fit_operator(z).rollout(z[:, 0], 0)


@pytest.mark.parametrize("ridge", [1e-6, 0.3])
@pytest.mark.parametrize("zero", [False, True])
def test_the_ridge_systems_gradient_is_autograds(ridge: float, zero: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(4, 6, 5, generator=generator, dtype=torch.float64) * torch.logspace(-1, 1, 5, dtype=torch.float64)
    if zero:
        z[..., 3] = 0
    past, cross = (sums.requires_grad_() for sums in pair_sums(z))
    system = ridge_system(past, ridge)
    C = torch.linalg.solve(system, cross)
    upstream = torch.randn(5, 5, generator=generator, dtype=torch.float64)
    expected = torch.autograd.grad((C * upstream).sum(), (past, cross))
    ours = ridge_gradient(upstream, C.detach(), torch.linalg.inv(system.detach()), ridge)
    assert all(torch.allclose(one, other, rtol=1e-9) for one, other in zip(ours, expected, strict=True))
    added = torch.diag(system - past).detach()
    known = torch.where(past.diagonal() > 0, ridge * past.diagonal(), 1.0).detach()
    assert torch.allclose(added, known, rtol=1e-9, atol=1e-12)
    assert torch.allclose(C, fit_operator(z, ridge=ridge).matrix, rtol=1e-9)


@pytest.mark.parametrize("ridge", [1e-9, 1e-6, 0.01])
def test_a_captured_step_solves_what_fit_operator_solves(ridge: float) -> None:
    """Solution and gradient by hand, from sums of pairs, beside those of the graph from latents."""
    generator = torch.Generator().manual_seed(1)
    units = torch.logspace(-6, 6, 5, dtype=torch.float64)
    z = (torch.randn(8, 6, 5, generator=generator, dtype=torch.float64) * units).requires_grad_()
    upstream = torch.randn(5, 5, generator=generator, dtype=torch.float64) * units.unsqueeze(1) / units
    past, cross = pair_sums(z)
    C, inverse = ridge_solution(past.detach(), cross.detach(), ridge)
    (ours,) = torch.autograd.grad((past, cross), z, ridge_gradient(upstream, C, inverse, ridge))
    fitted = fit_operator(z, ridge=ridge)
    (known,) = torch.autograd.grad((fitted.matrix * upstream).sum(), z)
    assert torch.allclose(C, fitted.matrix, rtol=1e-8)
    assert torch.allclose(ours * units, known * units, rtol=1e-7, atol=1e-9)
    assert ridge_rank(past.detach(), ridge) == fitted.rank == 5


def test_the_rank_is_that_of_the_operator() -> None:
    z = torch.randn(4, 6, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    flat = torch.cat([z, z[..., :2] - z[..., 1:]], dim=-1)  # five directions, three of their own
    for ridge in (1e-12, 1e-9):
        assert int(ridge_rank(pair_sums(flat)[0], ridge)) == int(fit_operator(flat, ridge=ridge).rank) == 3
    assert int(fit_operator(flat).rank) == 3
    assert int(ridge_rank(torch.zeros(5, 5, dtype=torch.float64), 1e-9)) == 0
    assert int(fit_operator(torch.zeros(4, 6, 5), ridge=1e-9).rank) == 0


def test_a_direction_that_the_ridge_shrinks_by_a_tenth_does_not_count() -> None:
    """Two latents with the correlation c: the Gram matrix of unit diagonal has the eigenvalues 1 - c and 1 + c."""
    past = torch.tensor([[1.0, 0.9], [0.9, 1.0]], dtype=torch.float64) * torch.tensor([[1.0, 1e3], [1e3, 1e6]])
    assert int(ridge_rank(past, 0.0105)) == 2  # 0.1 / 0.1105 of it is left
    assert int(ridge_rank(past, 0.0115)) == 1
    assert int(ridge_rank(past, 0.3)) == 0


def test_constants_are_left_alone_and_leave_others_alone(generator: torch.Generator) -> None:
    z = torch.randn(6, 9, 4, generator=generator, dtype=torch.float64).requires_grad_()
    operator = fit_operator(z)
    beside = operator.prepend_identity(3)
    latents = torch.cat([torch.randn(6, 1, 3, generator=generator, dtype=torch.float64).expand(-1, 9, -1), z], -1)
    moved = beside.advance(latents)
    assert torch.equal(moved[..., :3], latents[..., :3])
    torch.testing.assert_close(moved[..., 3:], operator.advance(z))
    assert int(beside.rank) == 7
    assert operator.prepend_identity(0) is operator
    (gradient,) = torch.autograd.grad(beside.matrix.square().sum(), z, retain_graph=True)
    (expected,) = torch.autograd.grad(operator.matrix.square().sum(), z)
    torch.testing.assert_close(gradient, expected)


def test_one_operator_a_sequence_has_constants_too(generator: torch.Generator) -> None:
    z = torch.randn(3, 9, 2, generator=generator, dtype=torch.float64)
    matrix = fit_operator_per_sequence(z).prepend_identity(1).matrix
    assert matrix.shape == (3, 3, 3)
    torch.testing.assert_close(matrix[:, 0], torch.eye(3, dtype=torch.float64)[:1].expand(3, -1))
