"""latents Z -> Operator (matrix, rank, condition, what it was fitted on); roll it forward"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from diskoop.errors import InputError


@dataclass(frozen=True, eq=False)
class Operator:
    """The matrix C with Z_past C ~ Z_future. Latents are row vectors: a step is `z @ C`.

    It is float64 whatever the latents are: static eigenvectors are ill-conditioned, and float32 would blur them.
    """

    matrix: Tensor  # (k, k), or (batch, k, k) where every sequence has its own
    rank: Tensor  # () or (batch,): directions the latents excite
    condition: Tensor  # () or (batch,): of the linear system that was solved, ridge included
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
class Moments:
    """Sums over snapshot pairs, all that a least-squares fit needs; those of two sets add up.

    They are float64, so that a set larger than memory can be streamed through them without drift.
    """

    past: Tensor  # (..., k, k) sum of z_t^T z_t
    cross: Tensor  # (..., k, k) sum of z_t^T z_{t+1}
    sequences: int
    steps: int

    @classmethod
    def of(cls, z: Tensor, mask: Tensor | None = None, per_sequence: bool = False) -> "Moments":
        """Moments of `z` (batch, time, k); `mask` (batch, time) is true where a frame exists."""
        _check_latents(z, mask)
        steps = len(z) * (z.shape[1] - 1) if mask is None else int((mask[:, :-1] & mask[:, 1:]).sum())
        return cls(*pair_sums(z, mask, per_sequence), len(z), steps)

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(
            self.past + other.past,
            self.cross + other.cross,
            self.sequences + other.sequences,
            self.steps + other.steps,
        )

    def solve(self, ridge: float = 1e-9) -> Operator:
        """Least squares with `ridge` times the mean diagonal added; minimum norm when `ridge` is 0."""
        if self.steps < 1:
            raise InputError("an operator needs at least one pair of neighbouring frames, got none")
        require_solvable(self.past, self.cross, ridge)
        k = self.past.shape[-1]
        excited = torch.linalg.eigvalsh(self.past.detach()).clamp_min(0)
        largest, cutoff = excited.amax(-1), _cutoff(excited)
        rank = _above(excited, cutoff)
        if ridge > 0:
            system, added = ridge_system(self.past, ridge)
            matrix = torch.linalg.solve(system, self.cross)
            smallest, largest = excited.amin(-1) + added.detach(), largest + added.detach()
        else:
            rcond = k * torch.finfo(self.past.dtype).eps
            matrix = torch.linalg.pinv(self.past, hermitian=True, rtol=rcond) @ self.cross
            kept = torch.where(excited > cutoff.unsqueeze(-1), excited, torch.inf).amin(-1)
            smallest = torch.where(rank > 0, kept, largest)
        condition = torch.where(largest > 0, largest / smallest, torch.ones_like(largest))
        return Operator(matrix, rank, condition, self.sequences, self.steps)


def pair_sums(z: Tensor, mask: Tensor | None = None, per_sequence: bool = False) -> tuple[Tensor, Tensor]:
    """Sums of z_t^T z_t and of z_t^T z_{t+1}, both (..., k, k) in float64; nothing here waits for the device."""
    past, future = widened(z[:, :-1]), widened(z[:, 1:])
    if mask is not None:
        # Where, not multiply: padding may hold anything, NaN included.
        paired = (mask[:, :-1] & mask[:, 1:]).to(past.device).unsqueeze(-1)
        past, future = torch.where(paired, past, 0.0), torch.where(paired, future, 0.0)
    if not per_sequence:
        past, future = past.flatten(0, 1), future.flatten(0, 1)
    return past.mT @ past, past.mT @ future


def require_solvable(past: Tensor, cross: Tensor, ridge: float) -> None:
    """An InputError about sums of pairs, or a ridge, that give no operator."""
    require_ridge(ridge)
    if not (torch.isfinite(past).all() and torch.isfinite(cross).all()):
        raise InputError("cannot fit an operator: the latents hold NaN or infinity")


def require_ridge(ridge: float) -> None:
    if ridge != 0 and not ridge >= 1e-12:
        raise InputError(f"expected a ridge of 0, or of 1e-12 and more (less drowns in rounding), got {ridge}")


def ridge_system(past: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
    """`past` (..., k, k) with `ridge` times its mean diagonal added, and how much that was."""
    # Latents that are all zero have the zero operator: any positive number in place of the ridge gives it.
    mean_diagonal = past.diagonal(dim1=-2, dim2=-1).mean(-1)
    added = torch.where(mean_diagonal > 0, ridge * mean_diagonal, torch.ones_like(mean_diagonal))
    return past + added[..., None, None] * torch.eye(past.shape[-1], dtype=past.dtype, device=past.device), added


def ridge_solution(past: Tensor, cross: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
    """The operator of these sums, and the inverse of the system it solves; both (k, k)."""
    require_solvable(past, cross, ridge)
    system, _ = ridge_system(past, ridge)
    k = len(past)
    both: Tensor = torch.linalg.solve(system, torch.cat([cross, torch.eye(k, dtype=past.dtype)], 1))
    return both[:, :k], both[:, k:]


def ridge_gradient(gradient: Tensor, C: Tensor, inverse: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
    """dL/dpast and dL/dcross of the operator C that solves a ridge system, from dL/dC and the system's `inverse`."""
    cross = inverse @ gradient  # the system is symmetric
    system = -cross @ C.mT
    return system + ridge * torch.diag(system.diagonal().mean().expand(len(C))), cross


def rank_of(past: Tensor) -> Tensor:
    """How many directions the latents excite whose sums of z_t^T z_t are `past` (..., k, k)."""
    excited = torch.linalg.eigvalsh(past)
    return _above(excited, _cutoff(excited))


def _above(excited: Tensor, cutoff: Tensor) -> Tensor:
    return (excited > cutoff.unsqueeze(-1)).sum(-1)


def _cutoff(excited: Tensor) -> Tensor:
    """Eigenvalues up to this size are rounding; a sum of squares has none below zero."""
    return excited.amax(-1).clamp_min(0) * excited.shape[-1] * torch.finfo(excited.dtype).eps


def fit_operator(z: Tensor, mask: Tensor | None = None, ridge: float = 1e-9) -> Operator:
    """One operator for all sequences of `z` (batch, time, k), time >= 2; differentiable in `z`."""
    return Moments.of(z, mask).solve(ridge)


def fit_operator_per_sequence(z: Tensor, mask: Tensor | None = None, ridge: float = 1e-9) -> Operator:
    """One operator for each sequence of `z` (batch, time, k), of minimum norm where time < k."""
    return Moments.of(z, mask, per_sequence=True).solve(ridge)


def widened(z: Tensor) -> Tensor:
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
