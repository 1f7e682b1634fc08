"""latents Z -> Operator (matrix, rank, condition, what it was fitted on); roll it forward"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from diskoop.errors import InputError

ERASED = 0.1  # share of a direction that a ridge may take before the direction no longer counts in the rank


@dataclass(frozen=True, eq=False)
class Operator:
    """The matrix C with Z_past C ~ Z_future. Latents are row vectors: a step is `z @ C`.

    It is float64 whatever the latents are: static eigenvectors are ill-conditioned, and float32 would blur them.

    Rank and condition do not depend on the units of a latent: its column in Z_past is first scaled to norm 1. Without
    a ridge the condition is that of Z_past, the largest over the smallest singular value of those kept. With one it is
    that of the Gram matrix with the ridge added, which squares it: up to k / ridge.
    """

    matrix: Tensor  # (k, k), or (batch, k, k) where every sequence has its own
    rank: Tensor  # () or (batch,): directions of the latents that the fit holds; below k, some were dropped or erased
    condition: Tensor  # () or (batch,): of the system that was solved, latents scaled to norm 1, see below
    sequences: int  # how many sequences it was fitted on, all matrices of a batch together
    steps: int  # how many pairs of neighbouring frames they hold
    source: str = "a batch"  # which sequences those were

    def advance(self, z: Tensor, steps: int = 1) -> Tensor:
        """Every latent of `z` (..., time, k) moved `steps` ahead: z C^steps."""
        if steps < 0:
            raise InputError(f"expected a number of steps >= 0, got {steps}")
        power: Tensor = torch.linalg.matrix_power(self.matrix, steps)
        return z @ power.to(z)

    def roll(self, start: Tensor, steps: int) -> Tensor:
        """The future of `start` (batch, k): (batch, steps, k) holding start C, start C^2, ..."""
        if steps < 1:
            raise InputError(f"expected a number of steps >= 1, got {steps}")
        matrix = self.matrix.to(start)
        z, future = start.unsqueeze(-2), []
        for _ in range(steps):
            z = z @ matrix
            future.append(z)
        return torch.cat(future, dim=-2)


@dataclass(frozen=True, eq=False)
class SnapshotQR:
    """The triangular factor of all snapshot pairs [Z_past, Z_future], for sets that are streamed in batches.

    `SnapshotQR.of(batch)` takes one batch, `+` joins two, and `solve` gives the operator of all that went in: the one
    `fit_operator` finds in everything at once. R keeps the singular values of Z itself. Sums of squares, which are
    smaller to write down, would lose every direction below 1e-8 of the largest. No gradient passes through it.

    Example:
        >>> z = torch.randn(40, 10, 6).cumsum(1)
        >>> streamed = SnapshotQR.of(z[:30]) + SnapshotQR.of(z[30:])
        >>> torch.allclose(streamed.solve().matrix, fit_operator(z).matrix)
        True
    """

    R: Tensor  # (rows <= 2k, 2k) float64, with R^T R = [Z_past, Z_future]^T [Z_past, Z_future]
    eps: float  # relative rounding of the latents: that of the coarsest dtype that went in
    sequences: int
    steps: int  # pairs of neighbouring frames

    @classmethod
    def of(cls, z: Tensor, mask: Tensor | None = None) -> "SnapshotQR":
        """The factor of one batch.

        Args:
            z: latents, (batch, time >= 2, k).
            mask: which frames exist, (batch, time); boolean.
        """
        _check_latents(z, mask)
        past, future = _snapshot_pairs(z.detach(), mask)
        _require_finite(past, future)
        R = _triangular_factor(torch.cat([past, future], -1).flatten(0, 1))
        return cls(R, torch.finfo(z.dtype).eps, len(z), _count_pairs(z, mask))

    def __add__(self, other: "SnapshotQR") -> "SnapshotQR":
        # Each factorisation rounds once more: after hundreds, float64 latents would seem to have one more direction.
        eps = math.hypot(max(self.eps, other.eps), torch.finfo(self.R.dtype).eps)
        return SnapshotQR(
            _triangular_factor(torch.cat([self.R, other.R])),
            eps,
            self.sequences + other.sequences,
            self.steps + other.steps,
        )

    def solve(self, ridge: float = 0.0) -> Operator:
        """What `fit_operator` finds with this `ridge` in all that went in."""
        past, future = self.R.chunk(2, -1)
        return _solve(past, future, ridge, self.eps, self.sequences, self.steps)


def fit_operator(z: Tensor, mask: Tensor | None = None, ridge: float = 0.0) -> Operator:
    """Least-squares operator C with z[:, :-1] @ C ~ z[:, 1:], one for all sequences; differentiable in `z`.

    Args:
        z: latents, (batch, time >= 2, k).
        mask: which frames exist, (batch, time); boolean. What `z` holds elsewhere does not matter.
        ridge: 0 factors Z itself and finds the pseudo-inverse solution: of minimum norm, without directions below
            the rounding of z's dtype. A positive ridge, from 1e-12 on, solves the Gram system instead, which is faster
            in training. It is relative to each latent's own mean square, so the units of a latent do not matter, but
            directions below sqrt(ridge) are lost: 3e-5 at 1e-9.

    Returns:
        An Operator with a (k, k) float64 matrix.

    Example:
        >>> z = torch.randn(16, 10, 6).cumsum(1)
        >>> fit_operator(z).matrix.shape
        torch.Size([6, 6])
    """
    _check_latents(z, mask)
    past, future = (rows.flatten(0, 1) for rows in _snapshot_pairs(z, mask))  # (rows, k) each
    return _solve(past, future, ridge, torch.finfo(z.dtype).eps, len(z), _count_pairs(z, mask))


def fit_operator_per_sequence(z: Tensor, mask: Tensor | None = None, ridge: float = 0.0) -> Operator:
    """One operator for each sequence of `z`, of minimum norm where time <= k; arguments as in `fit_operator`.

    Returns:
        An Operator with matrices (batch, k, k) and a rank and a condition for each, (batch,).

    Example:
        >>> fit_operator_per_sequence(torch.randn(16, 10, 6)).matrix.shape
        torch.Size([16, 6, 6])
    """
    _check_latents(z, mask)
    past, future = _snapshot_pairs(z, mask)
    return _solve(past, future, ridge, torch.finfo(z.dtype).eps, len(z), _count_pairs(z, mask))


def _solve(past: Tensor, future: Tensor, ridge: float, eps: float, sequences: int, steps: int) -> Operator:
    """The operator of snapshot pairs, both (..., rows, k) float64; `eps` is their relative rounding."""
    if steps < 1:
        raise InputError("an operator needs at least one pair of neighbouring frames, got none")
    require_ridge(ridge)
    _require_finite(past, future)
    if ridge > 0:
        matrix, rank, condition = _ridge_least_squares(past, future, ridge)
    else:
        missing = max(past.shape[-1] - past.shape[-2], 0)  # rows of zeros, which change nothing, up to a square
        past, future = (nn.functional.pad(rows, (0, 0, 0, missing)) for rows in (past, future))
        matrix, rank, condition = _LeastSquares.apply(past, future, eps)  # type: ignore[no-untyped-call]
    if not torch.isfinite(matrix).all():
        sizes = _column_sizes(past).flatten()
        raise InputError(
            "cannot fit an operator: the matrix between latents of such different size overflows float64, got sizes "
            f"from {float(sizes.min()):.0e} to {float(sizes.max()):.0e}; scale them alike first"
        )
    return Operator(matrix, rank, condition, sequences, steps)


class _LeastSquares(torch.autograd.Function):
    """C = pinv(past) @ future from a singular value decomposition of `past`, and its gradient in closed form.

    The gradient of the decomposition itself divides by differences of singular values, where two are equal by zero;
    the pseudo-inverse has no such trouble. With rank r, past = left[:, :r] diag(s) V_r^T diag(size) after its columns
    are scaled to norm 1, and `lift` is the pseudo-inverse of V_r^T diag(size), so that pinv(past) = lift s^-1 left^T.
    """

    @staticmethod
    def forward(ctx: Any, past: Tensor, future: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
        """Rows (..., n >= k, k) -> matrix (..., k, k), rank and condition (...)."""
        k = past.shape[-1]
        size = _column_sizes(past)  # (..., 1, k)
        Q, R = torch.linalg.qr(past / size)  # first, as there are many more rows than columns
        left, s, right = torch.linalg.svd(R)
        left = Q @ left  # (..., n, k)
        # Latents hold rounding of about eps of their size. A direction no larger is made of it, and dividing by its
        # singular value would give a huge C that fits noise.
        kept = s > s[..., :1] * k * eps
        inverse = torch.where(kept, 1 / s, 0.0).unsqueeze(-1)
        lift, null = _lift(right, kept, size)
        # A latent that is always zero has a row of zeros, to the last bit: its eigenvalue is then exactly 0 as well.
        lift = torch.where((past == 0).all(-2).unsqueeze(-1), 0.0, lift)
        along = left.mT @ future
        matrix = lift @ (inverse * along)
        rank = kept.sum(-1)
        smallest = torch.where(kept, s, torch.inf).amin(-1)
        condition = torch.where(rank > 0, s[..., 0] / smallest, 1.0)
        residual = future - left @ torch.where(kept.unsqueeze(-1), along, 0.0)
        ctx.save_for_backward(left, inverse, lift, null, matrix, residual)
        ctx.mark_non_differentiable(rank, condition)
        return matrix, rank, condition

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor, Tensor, None]:
        """Golub and Pereyra (1973): the derivative of a pseudo-inverse where the rank does not change."""
        left, inverse, lift, null, matrix, residual = ctx.saved_tensors
        gradient = outer[0]
        along = inverse * (lift.mT @ gradient)
        to_future = left @ along  # pinv(past)^T @ gradient
        to_past = -to_future @ matrix.mT
        to_past += residual @ (inverse * along).mT @ lift.mT  # nothing where the fit is exact
        to_past += left @ (inverse * (lift.mT @ matrix)) @ (gradient.mT @ null) @ null.mT  # nothing at full rank
        return to_past, to_future, None


def _lift(right: Tensor, kept: Tensor, size: Tensor) -> tuple[Tensor, Tensor]:
    """The pseudo-inverse (..., k, k) of V_r^T diag(size), and a basis (..., k, k) of what that maps to zero.

    Dividing by `size` gives a solution that is accurate however different the sizes are, and the only one at full
    rank. Else the one of minimum norm has no part in the null space, which is projected out. The more orders of
    magnitude lie between sizes, the less accurate that null space is: what the projection took from the solution is
    put back, and where it left more rounding than solution it is not made, as the fit matters more than its norm.

    Args:
        right: right singular vectors in rows, (..., k, k), in order of their singular values.
        kept: the first r of them, (..., k).
        size: norms of the columns, (..., 1, k).
    """
    V, size = right.mT, size.mT  # size: (..., k, 1)
    chosen = kept.unsqueeze(-2)
    # The dropped directions come first, as QR makes a basis of the first columns; those of the others are set to zero.
    null = (V * ~chosen * (size.amin(-2, keepdim=True) / size)).flip(-1)
    null = torch.linalg.qr(null).Q * ~chosen.flip(-1)
    plain = V * chosen / size
    lift = plain - null @ (null.mT @ plain)
    scaled = size * lift  # of the order of 1, unless it is rounding
    lost = torch.diag_embed(kept.to(V)) - (V * chosen).mT @ scaled
    sound = scaled.abs().amax((-2, -1), keepdim=True) < 1e5  # NaN is not
    return torch.where(sound, lift + plain @ lost, plain), null


def _ridge_least_squares(past: Tensor, future: Tensor, ridge: float) -> tuple[Tensor, Tensor, Tensor]:
    """Matrix, rank and condition from the Gram system of `past`, its columns scaled to norm 1 before they are squared.

    A ridge relative to the diagonal does not see that scale, so it needs no gradient.
    """
    size = _column_sizes(past)
    past = past / size
    gram, cross = past.mT @ past, past.mT @ future
    matrix = torch.linalg.solve(ridge_system(gram, ridge), cross) / size.mT
    return matrix, *_rank_and_condition(gram.detach(), ridge)


def _rank_and_condition(gram: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
    """Directions that a Gram matrix (..., k, k) of unit diagonal holds beside a ridge, and the system's condition.

    Along a direction with eigenvalue e the operator lacks ridge / (e + ridge) of what it should have.
    """
    silent = gram.diagonal(dim1=-2, dim2=-1) == 0
    excited = torch.linalg.eigvalsh(gram + torch.diag_embed(silent.to(gram)))  # silent latents add eigenvalues of 1
    smallest, largest = excited[..., 0].clamp_min(0), excited[..., -1]
    rounding = largest * gram.shape[-1] * torch.finfo(gram.dtype).eps
    cutoff = rounding.clamp_min(ridge * (1 - ERASED) / ERASED)
    rank = (excited > cutoff.unsqueeze(-1)).sum(-1) - silent.sum(-1)
    return rank, (largest + ridge) / (smallest + ridge)


# --- sums over pairs: what a captured training step solves with, as none of this waits for the device


def pair_sums(z: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Sums of z_t^T z_t and of z_t^T z_{t+1}, both (k, k) in float64, for `z` (batch, time, k)."""
    past, future = (rows.flatten(0, 1) for rows in _snapshot_pairs(z, mask))
    return past.mT @ past, past.mT @ future


def require_solvable(past: Tensor, cross: Tensor, ridge: float) -> None:
    """An InputError about sums of pairs, or a ridge, that give no operator."""
    require_ridge(ridge)
    _require_finite(past, cross)


def require_ridge(ridge: float) -> None:
    """An InputError about a ridge that is neither 0 nor large enough to matter."""
    if ridge != 0 and not ridge >= 1e-12:
        raise InputError(f"expected a ridge of 0, or of 1e-12 and more (less drowns in rounding), got {ridge}")


def ridge_system(past: Tensor, ridge: float) -> Tensor:
    """`past` (..., k, k) with `ridge` times its own diagonal added."""
    diagonal = past.diagonal(dim1=-2, dim2=-1)
    # A latent that is always zero has a zero row in the operator: any positive number in place of the ridge gives it.
    return past + torch.diag_embed(torch.where(diagonal > 0, ridge * diagonal, 1.0))


def ridge_solution(past: Tensor, cross: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
    """The operator of these sums, and the inverse of the system it solves; all (k, k)."""
    require_solvable(past, cross, ridge)
    k = len(past)
    eye = torch.eye(k, dtype=past.dtype, device=past.device)
    both: Tensor = torch.linalg.solve(ridge_system(past, ridge), torch.cat([cross, eye], 1))
    return both[:, :k], both[:, k:]


def ridge_gradient(gradient: Tensor, C: Tensor, inverse: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
    """dL/dpast and dL/dcross of the operator C that solves a ridge system, from dL/dC and the system's `inverse`."""
    cross = inverse @ gradient  # the system is symmetric
    system = -cross @ C.mT
    return system + ridge * torch.diag(system.diagonal()), cross  # C's row is zero where the ridge is not of `past`


def rank_of(past: Tensor, ridge: float) -> Tensor:
    """How many directions a fit with `ridge` holds of latents whose sums of z_t^T z_t are `past` (..., k, k)."""
    diagonal = past.diagonal(dim1=-2, dim2=-1)
    size = torch.where(diagonal > 0, diagonal, 1.0).sqrt().unsqueeze(-1)
    return _rank_and_condition(past / size / size.mT, ridge)[0]


# --- rows and columns of snapshots


def _snapshot_pairs(z: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Z_past and Z_future, both (batch, time - 1, k) in float64; zeros where one frame of a pair does not exist."""
    past, future = to_float64(z[:, :-1]), to_float64(z[:, 1:])
    if mask is not None:
        # Where, not multiply: padding may hold anything, NaN included.
        paired = (mask[:, :-1] & mask[:, 1:]).to(past.device).unsqueeze(-1)
        past, future = torch.where(paired, past, 0.0), torch.where(paired, future, 0.0)
    return past, future


def _count_pairs(z: Tensor, mask: Tensor | None) -> int:
    return len(z) * (z.shape[1] - 1) if mask is None else int((mask[:, :-1] & mask[:, 1:]).sum())


def _column_sizes(rows: Tensor) -> Tensor:
    """Norms (..., 1, k) of the columns of (..., n, k), 1 where they are zero; without overflow, without gradient."""
    rows = rows.detach()
    largest = rows.abs().amax(-2, keepdim=True)
    largest = torch.where(largest > 0, largest, 1.0)
    norm = largest * torch.linalg.vector_norm(rows / largest, dim=-2, keepdim=True)
    return torch.where(norm > 0, norm, 1.0)


def _triangular_factor(rows: Tensor) -> Tensor:
    """R (min(n, m), m) of the QR decomposition of `rows` (n, m), whose norms LAPACK and CUDA take without overflow."""
    R: Tensor = torch.linalg.qr(rows, mode="r").R
    return R


def _require_finite(*numbers: Tensor) -> None:
    if not all(torch.isfinite(each).all() for each in numbers):
        raise InputError("cannot fit an operator: the latents hold NaN or infinity")


def to_float64(z: Tensor) -> Tensor:
    """`z` in float64, on the CPU where its device has none (MPS)."""
    return z.cpu().double() if z.device.type == "mps" else z.double()


def _check_latents(z: Tensor, mask: Tensor | None) -> None:
    if z.ndim != 3 or z.shape[1] < 2 or 0 in z.shape:
        raise InputError(f"expected latents (batch, time >= 2, k), got {tuple(z.shape)}")
    if not z.is_floating_point():
        raise InputError(f"expected real latents, got {z.dtype}")
    if mask is not None and (mask.shape != z.shape[:2] or mask.dtype != torch.bool):
        raise InputError(f"expected a boolean mask {tuple(z.shape[:2])}, got {mask.dtype} {tuple(mask.shape)}")


@contextmanager
def one_thread() -> Iterator[None]:
    """Matrices as small as operators are taken apart more slowly by many cores than by one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
