"""latents Z -> Operator (matrix, rank, condition, what it was fitted on); roll it forward"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from diskoop.errors import InputError

MAX_SHRINKAGE = 0.1  # of a direction by the ridge; one that shrinks more does not count in the rank


@dataclass(frozen=True, eq=False)
class Operator:
    """The matrix C with Z_past C ~ Z_future. Latents are row vectors: a step is `z @ C`.

    It is float64 whatever the latents are, because static eigenvectors are too ill-conditioned for float32.

    Rank and condition do not depend on the units of a latent: its column in Z_past is first scaled to norm 1. Without
    a ridge the condition is that of Z_past: the largest over the smallest singular value that is kept. With a ridge it
    is that of the Gram matrix plus the ridge, which squares it: up to k / ridge.

    Example:
        >>> rotation = torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)
        >>> z = torch.stack([torch.tensor([[1.0, 0.0]]).double() @ rotation.matrix_power(t) for t in range(4)], 1)
        >>> operator = fit_operator(z)
        >>> int(operator.rank), operator.steps
        (2, 3)
        >>> (operator.rollout(z[:, -1], steps=2) + 0.0).round(decimals=6)
        tensor([[[1., 0.],
                 [0., 1.]]], dtype=torch.float64)
    """

    matrix: Tensor  # (k, k), or (batch, k, k) with one operator per sequence
    rank: Tensor  # () or (batch,): directions of the latents that the fit resolves; below k, some were dropped
    condition: Tensor  # () or (batch,): of the linear system, with the latents scaled to norm 1
    sequences: int  # number of sequences it was fitted on, over all matrices of a batch
    steps: int  # number of pairs of neighbouring frames in them
    fitted_on: str = "a batch"  # which sequences it was fitted on

    def advance(self, z: Tensor, steps: int = 1) -> Tensor:
        """z C^steps: every latent of `z` (..., time, k) moved `steps` ahead."""
        if steps < 0:
            raise InputError(f"expected a number of steps >= 0, got {steps}")
        power: Tensor = torch.linalg.matrix_power(self.matrix, steps)
        return z @ power.to(z)

    def rollout(self, start: Tensor, steps: int) -> Tensor:
        """Rollout from `start` (batch, k): (batch, steps, k) with start C, start C^2, ..."""
        if steps < 1:
            raise InputError(f"expected a number of steps >= 1, got {steps}")
        matrix = self.matrix.to(start)
        z, future = start.unsqueeze(-2), []
        for _ in range(steps):
            z = z @ matrix
            future.append(z)
        return torch.cat(future, dim=-2)

    def prepend_identity(self, count: int) -> "Operator":
        """The operator of latents whose first `count` are constant in time and whose others follow this one.

        Neither part enters the other. Fitted together, a constant would get a small share in the others' next frames,
        from which it could be read again.

        Example:
            >>> fit_operator(torch.randn(8, 5, 2)).prepend_identity(1).matrix[0]
            tensor([1., 0., 0.], dtype=torch.float64)
        """
        if count == 0:
            return self
        matrix = functional.pad(self.matrix, (count, 0, count, 0))
        ones = torch.cat([matrix.new_ones(count), matrix.new_zeros(matrix.shape[-1] - count)])
        return replace(self, matrix=matrix + torch.diag(ones), rank=self.rank + count)


@dataclass(frozen=True, eq=False)
class SnapshotQR:
    """The triangular factor of all snapshot pairs [Z_past, Z_future], for sets that are streamed in batches.

    `SnapshotQR.of(z)` factors one batch, `+` merges two, and `solve` returns the operator that `fit_operator` would
    fit to all of them at once. R keeps the singular values of Z itself, where a Gram matrix would lose every direction
    below 1e-8 of the largest. It carries no gradient.

    Example:
        >>> z = torch.randn(40, 10, 6).cumsum(1)
        >>> streamed = SnapshotQR.of(z[:30]) + SnapshotQR.of(z[30:])
        >>> torch.allclose(streamed.solve().matrix, fit_operator(z).matrix)
        True
    """

    R: Tensor  # (rows <= 2k, 2k) float64, with R^T R = [Z_past, Z_future]^T [Z_past, Z_future]
    eps: float  # relative rounding of the latents: that of their coarsest dtype
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
        """The operator that `fit_operator` fits to all snapshots with this `ridge`."""
        past, future = self.R.chunk(2, -1)
        return _solve(past, future, ridge, self.eps, self.sequences, self.steps)


# A sum over processes that hold other sequences of the same batch, differentiable.
SumOverProcesses = Callable[[Tensor], Tensor]


def fit_operator(
    z: Tensor, mask: Tensor | None = None, ridge: float = 0.0, total: SumOverProcesses | None = None
) -> Operator:
    """Least-squares operator C with z[:, :-1] @ C ~ z[:, 1:], one for all sequences; differentiable in `z`.

    Args:
        z: latents, (batch, time >= 2, k).
        mask: which frames exist, (batch, time); boolean. Padding may hold any values.
        ridge: 0 factors Z itself for the pseudo-inverse solution: of minimum norm, without directions below the
            rounding of z's dtype. A positive ridge, at least 1e-12, solves the Gram system instead, which is faster in
            training. It is relative to each latent's own mean square, so the units of a latent do not matter, but
            directions below sqrt(ridge) are lost: 3e-5 at 1e-9.
        total: sums over processes, where each holds some of the sequences: the operator is that of all of them. This
            takes a ridge, and `sequences` and `steps` of the result count this process's own.

    Returns:
        An Operator with a (k, k) float64 matrix.

    Example:
        >>> z = torch.randn(16, 10, 6).cumsum(1)
        >>> fit_operator(z).matrix.shape
        torch.Size([6, 6])
    """
    _check_latents(z, mask)
    past, future = (rows.flatten(0, 1) for rows in _snapshot_pairs(z, mask))  # (rows, k) each
    return _solve(past, future, ridge, torch.finfo(z.dtype).eps, len(z), _count_pairs(z, mask), total)


def fit_operator_per_sequence(
    z: Tensor, mask: Tensor | None = None, ridge: float = 0.0, total: SumOverProcesses | None = None
) -> Operator:
    """One least-squares operator per sequence, of minimum norm where time <= k; differentiable in `z`.

    Args:
        z: latents, (batch, time >= 2, k).
        mask: which frames exist, (batch, time); boolean.
        ridge: see `fit_operator`.
        total: not used, since a sequence lies in one process.

    Returns:
        An Operator with matrices (batch, k, k) and a rank and a condition for each, (batch,).

    Example:
        >>> fit_operator_per_sequence(torch.randn(16, 10, 6)).matrix.shape
        torch.Size([16, 6, 6])
    """
    _check_latents(z, mask)
    past, future = _snapshot_pairs(z, mask)
    return _solve(past, future, ridge, torch.finfo(z.dtype).eps, len(z), _count_pairs(z, mask))


def _solve(
    past: Tensor,
    future: Tensor,
    ridge: float,
    eps: float,
    sequences: int,
    steps: int,
    total: SumOverProcesses | None = None,
) -> Operator:
    """Fit snapshot pairs, both (..., rows, k) float64; `eps` is their relative rounding."""
    if steps < 1 and total is None:
        raise InputError("an operator needs at least one pair of neighbouring frames, got none")
    require_ridge(ridge)
    if total is None:  # else where all processes find out at the same time
        _require_finite(past, future)
    if ridge > 0:
        matrix, rank, condition = _ridge_least_squares(past, future, ridge, total)
    elif total is not None:
        raise InputError("an operator of several processes needs a ridge > 0 (model.ridge), got 0")
    else:
        missing = max(past.shape[-1] - past.shape[-2], 0)  # pad to a square with zero rows, which change nothing
        past, future = (nn.functional.pad(rows, (0, 0, 0, missing)) for rows in (past, future))
        matrix, rank, condition = _LeastSquares.apply(past, future, eps)  # type: ignore[no-untyped-call]
    if not torch.isfinite(matrix).all():
        norms = _column_norms(past).flatten()
        raise InputError(
            "cannot fit an operator: the matrix between latents of such different size overflows float64, got sizes "
            f"from {float(norms.min()):.0e} to {float(norms.max()):.0e}; scale them to similar sizes first"
        )
    return Operator(matrix, rank, condition, sequences, steps)


class _LeastSquares(torch.autograd.Function):
    """C = pinv(past) @ future from a singular value decomposition of `past`, and its gradient in closed form.

    Autograd through the decomposition divides by differences of singular values, which may be zero; the derivative of
    the pseudo-inverse does not. With rank r and columns scaled to norm 1, past = left[:, :r] diag(s) V_r^T diag(norms).
    `unscale` is the pseudo-inverse of V_r^T diag(norms), so that pinv(past) = unscale s^-1 left^T.
    """

    @staticmethod
    def forward(ctx: Any, past: Tensor, future: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
        """Rows (..., n >= k, k) -> matrix (..., k, k), rank and condition (...)."""
        k = past.shape[-1]
        norms = _column_norms(past)  # (..., 1, k)
        Q, R = torch.linalg.qr(past / norms)  # first, because there are many more rows than columns
        left, s, right = torch.linalg.svd(R)
        left = Q @ left  # (..., n, k)
        # Directions no larger than the latents' rounding are noise: dividing by their singular values would give a
        # huge C that fits it.
        kept = s > s[..., :1] * k * eps
        inverse = torch.where(kept, 1 / s, 0.0).unsqueeze(-1)
        unscale, null = _unscaling(right, kept, norms)
        # A latent that is always zero gets a row of exact zeros, so that its eigenvalue is exactly 0 as well.
        unscale = torch.where((past == 0).all(-2).unsqueeze(-1), 0.0, unscale)
        projected = left.mT @ future
        matrix = unscale @ (inverse * projected)
        rank = kept.sum(-1)
        smallest = torch.where(kept, s, torch.inf).amin(-1)
        condition = torch.where(rank > 0, s[..., 0] / smallest, 1.0)
        residual = future - left @ torch.where(kept.unsqueeze(-1), projected, 0.0)
        ctx.save_for_backward(left, inverse, unscale, null, matrix, residual)
        ctx.mark_non_differentiable(rank, condition)
        return matrix, rank, condition

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor, Tensor, None]:
        """Golub and Pereyra (1973): the derivative of a pseudo-inverse where the rank does not change."""
        left, inverse, unscale, null, matrix, residual = ctx.saved_tensors
        grad_matrix = outer[0]
        projected = inverse * (unscale.mT @ grad_matrix)
        grad_future = left @ projected  # pinv(past)^T @ grad_matrix
        grad_past = -grad_future @ matrix.mT
        grad_past += residual @ (inverse * projected).mT @ unscale.mT  # zero where the fit is exact
        grad_past += left @ (inverse * (unscale.mT @ matrix)) @ (grad_matrix.mT @ null) @ null.mT  # zero at full rank
        return grad_past, grad_future, None


def _unscaling(right: Tensor, kept: Tensor, norms: Tensor) -> tuple[Tensor, Tensor]:
    """The pseudo-inverse (..., k, k) of V_r^T diag(norms), and a basis (..., k, k) of its null space.

    Dividing by `norms` is accurate however different they are, and unique at full rank. Below full rank the solution of
    minimum norm has no part in the null space, which is projected out. The more orders of magnitude lie between the
    norms, the less accurate the null space is: what the projection removes from the solution is added back, and where
    rounding dominates there is no projection at all, because the fit matters more than its norm.

    Args:
        right: right singular vectors in rows, (..., k, k), in order of their singular values.
        kept: which of them are kept, the first r, (..., k).
        norms: of the columns, (..., 1, k).
    """
    V, norms = right.mT, norms.mT  # norms: (..., k, 1)
    kept_columns = kept.unsqueeze(-2)
    # The dropped directions go first, because QR spans the first columns; the other columns are zero.
    null = (V * ~kept_columns * (norms.amin(-2, keepdim=True) / norms)).flip(-1)
    null = torch.linalg.qr(null).Q * ~kept_columns.flip(-1)
    plain = V * kept_columns / norms
    projected = plain - null @ (null.mT @ plain)
    scaled = norms * projected  # of order 1 unless rounding dominates
    removed = torch.diag_embed(kept.to(V)) - (V * kept_columns).mT @ scaled
    accurate = scaled.abs().amax((-2, -1), keepdim=True) < 1e5  # false for NaN
    return torch.where(accurate, projected + plain @ removed, plain), null


def _ridge_least_squares(
    past: Tensor, future: Tensor, ridge: float, total: SumOverProcesses | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Matrix, rank and condition from the Gram system of `past`, with columns scaled to norm 1 before squaring.

    A ridge relative to the diagonal is invariant to that scale, so the scale needs no gradient, and with several
    processes the sum of their norms will do.
    """
    norms = _column_norms(past)
    if total is not None:
        norms = total(norms)
    past = past / norms
    gram, cross = past.mT @ past, past.mT @ future
    if total is not None:
        gram, cross = total(torch.stack([gram, cross])).unbind()
        _require_finite(gram, cross)
    matrix = torch.linalg.solve(ridge_system(gram, ridge), cross) / norms.mT
    scaled = gram.detach()
    return matrix, *_rank_and_condition(scaled if total is None else _with_unit_diagonal(scaled), ridge)


def _rank_and_condition(gram: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
    """Rank and condition of the ridge system of a Gram matrix (..., k, k) with unit diagonal.

    Along a direction with eigenvalue e the ridge shrinks the operator by ridge / (e + ridge).
    """
    zero = gram.diagonal(dim1=-2, dim2=-1) == 0
    eigenvalues = torch.linalg.eigvalsh(gram + torch.diag_embed(zero.to(gram)))  # latents that are 0 add eigenvalues 1
    smallest, largest = eigenvalues[..., 0].clamp_min(0), eigenvalues[..., -1]
    rounding = largest * gram.shape[-1] * torch.finfo(gram.dtype).eps
    cutoff = rounding.clamp_min(ridge * (1 - MAX_SHRINKAGE) / MAX_SHRINKAGE)
    rank = (eigenvalues > cutoff.unsqueeze(-1)).sum(-1) - zero.sum(-1)
    return rank, (largest + ridge) / (smallest + ridge)


# --- the Gram system by itself: a captured training step solves it without synchronizing with the device


def pair_sums(z: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Sums of z_t^T z_t and of z_t^T z_{t+1}, both (k, k) in float64, for `z` (batch, time, k)."""
    past, future = (rows.flatten(0, 1) for rows in _snapshot_pairs(z, mask))
    return past.mT @ past, past.mT @ future


def require_solvable(past: Tensor, cross: Tensor, ridge: float) -> None:
    """Raise an InputError where sums of pairs or the ridge give no operator."""
    require_ridge(ridge)
    _require_finite(past, cross)


def require_ridge(ridge: float) -> None:
    """Raise an InputError unless `ridge` is 0 or large enough to matter."""
    if ridge != 0 and not ridge >= 1e-12:
        raise InputError(f"expected a ridge of 0, or at least 1e-12 (less is lost in rounding), got {ridge}")


def ridge_system(past: Tensor, ridge: float) -> Tensor:
    """`past` (..., k, k) with `ridge` times its own diagonal added."""
    diagonal = past.diagonal(dim1=-2, dim2=-1)
    # Any positive number gives a latent that is always zero its zero row in the operator.
    return past + torch.diag_embed(torch.where(diagonal > 0, ridge * diagonal, 1.0))


def ridge_solution(past: Tensor, cross: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
    """The operator of the sums of `pair_sums`, and the inverse of its ridge system; all (k, k)."""
    require_solvable(past, cross, ridge)
    k = len(past)
    eye = torch.eye(k, dtype=past.dtype, device=past.device)
    solution: Tensor = torch.linalg.solve(ridge_system(past, ridge), torch.cat([cross, eye], 1))
    return solution[:, :k], solution[:, k:]


def ridge_gradient(gradient: Tensor, C: Tensor, inverse: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
    """Backward pass of `ridge_solution`.

    Args:
        gradient: dL/dC, (k, k).
        C: the operator, (k, k).
        inverse: of the ridge system, (k, k).
        ridge: as in the forward pass.

    Returns:
        dL/dpast and dL/dcross, (k, k) both.
    """
    cross = inverse @ gradient  # the system is symmetric
    system = -cross @ C.mT
    # Where the diagonal is 0 the system does not use it, but C's row is zero there as well.
    return system + ridge * torch.diag(system.diagonal()), cross


def ridge_rank(past: Tensor, ridge: float) -> Tensor:
    """The rank of a fit with `ridge` to latents whose sums of z_t^T z_t are `past` (..., k, k)."""
    return _rank_and_condition(_with_unit_diagonal(past), ridge)[0]


def _with_unit_diagonal(gram: Tensor) -> Tensor:
    """A Gram matrix (..., k, k) of columns scaled to norm 1; zeros stay."""
    diagonal = gram.diagonal(dim1=-2, dim2=-1)
    norms = torch.where(diagonal > 0, diagonal, 1.0).sqrt().unsqueeze(-1)
    return gram / norms / norms.mT


# --- rows and columns of snapshots


def _snapshot_pairs(z: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Z_past and Z_future, both (batch, time - 1, k) in float64; zeros where one frame of a pair does not exist."""
    past, future = to_float64(z[:, :-1]), to_float64(z[:, 1:])
    if mask is not None:
        # torch.where instead of a product, because padding may hold NaN.
        paired = (mask[:, :-1] & mask[:, 1:]).to(past.device).unsqueeze(-1)
        past, future = torch.where(paired, past, 0.0), torch.where(paired, future, 0.0)
    return past, future


def _count_pairs(z: Tensor, mask: Tensor | None) -> int:
    return len(z) * (z.shape[1] - 1) if mask is None else int((mask[:, :-1] & mask[:, 1:]).sum())


def _column_norms(rows: Tensor) -> Tensor:
    """Norms (..., 1, k) of the columns of (..., n, k), 1 where they are zero; no overflow, no gradient."""
    rows = rows.detach()
    largest = rows.abs().amax(-2, keepdim=True)
    largest = torch.where(largest > 0, largest, 1.0)
    norm = largest * torch.linalg.vector_norm(rows / largest, dim=-2, keepdim=True)
    return torch.where(norm > 0, norm, 1.0)


def _triangular_factor(rows: Tensor) -> Tensor:
    """R (min(n, m), m) of the QR decomposition of `rows` (n, m); LAPACK and CUDA compute it without overflow."""
    R: Tensor = torch.linalg.qr(rows, mode="r").R
    return R


def _require_finite(*tensors: Tensor) -> None:
    if not all(torch.isfinite(tensor).all() for tensor in tensors):
        raise InputError("cannot fit an operator: the latents hold NaN or infinity")


def float64_device(device: torch.device) -> torch.device:
    """`device`, or the CPU where `device` has no float64 (MPS)."""
    return torch.device("cpu") if device.type == "mps" else device


def to_float64(z: Tensor) -> Tensor:
    """`z` in float64, on the CPU where its device has none (MPS)."""
    return z.to(float64_device(z.device)).double()


def _check_latents(z: Tensor, mask: Tensor | None) -> None:
    if z.ndim != 3 or z.shape[1] < 2 or 0 in z.shape:
        raise InputError(f"expected latents (batch, time >= 2, k), got {tuple(z.shape)}")
    if not z.is_floating_point():
        raise InputError(f"expected real latents, got {z.dtype}")
    if mask is not None and (mask.shape != z.shape[:2] or mask.dtype != torch.bool):
        raise InputError(f"expected a boolean mask {tuple(z.shape[:2])}, got {mask.dtype} {tuple(mask.shape)}")


@contextmanager
def single_threaded() -> Iterator[None]:
    """Run PyTorch on one core: several only slow the decomposition of matrices as small as operators."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(num_threads)


def second_moment(z: Tensor, mask: Tensor | None, total: SumOverProcesses | None = None) -> Tensor:
    """The mean of z_t^T z_t over the frames of `z` (batch, time, k) that exist: (k, k) in float64, a constant.

    With `total`, over the frames of all processes.
    """
    z = to_float64(z.detach())
    if total is not None:
        mask = torch.ones(z.shape[:2], dtype=torch.bool, device=z.device) if mask is None else mask
        z = torch.where(mask.to(z.device).unsqueeze(-1), z, 0.0)
        sums: Tensor = total(z.flatten(0, 1).mT @ z.flatten(0, 1))
        return sums / total(mask.sum())
    if mask is None:
        frames = z.flatten(0, 1)
        return frames.mT @ frames / len(frames)
    mask = mask.to(z.device)
    frames = torch.where(mask.unsqueeze(-1), z, 0.0).flatten(0, 1)  # padding may hold NaN
    return frames.mT @ frames / mask.sum()
