"""Operator -> eigenvalues and modes; the one static/dynamic split"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from diskoop.errors import InputError
from diskoop.numerics.operator import to_float64

NEAR = 1e-3  # eigenvalues this near to 1 are all the same: which of them is nearest is chance
# How much larger than latents their parts may be. A cut through eigenvalues whose eigenvectors are parallel gives 1e7
# and more, the inverse of the root of float64's precision.
LARGEST_PART = 1e6
SOUND = 1e4  # condition of eigenvectors up to which they are used instead of a Schur form
ModeOrder = Callable[[Tensor], Tensor]  # eigenvalues -> a key; the smallest keys are the static modes


def by_distance(eigenvalues: Tensor) -> Tensor:
    """Nearest to 1 first."""
    return (eigenvalues - 1).abs()


def from_one(eigenvalues: Tensor) -> Tensor:
    """Distances to 1, for ratios: none is smaller than NEAR."""
    return by_distance(eigenvalues).clamp(min=NEAR)


def by_modulus(eigenvalues: Tensor) -> Tensor:
    """Largest modulus first, as the paper's text on training has it."""
    return -eigenvalues.abs()


@dataclass(frozen=True, eq=False)
class Split:
    """Latents divided between a set of eigenvalues and the others: z = z @ projector + z @ reading @ writing.

    Example:
        >>> C = torch.diag(torch.tensor([1.0, 0.5], dtype=torch.float64))
        >>> Split.of(C, static=1).projector
        tensor([[1., 0.],
                [0., 0.]], dtype=torch.float64)
    """

    projector: Tensor  # (k, k) float64: onto the invariant subspace of the chosen eigenvalues, along that of the others
    reading: Tensor  # (k, others): coordinates of what is left, z @ reading
    writing: Tensor  # (others, k): orthonormal rows that those coordinates belong to

    @classmethod
    def of(cls, C: Tensor, static: int, order: ModeOrder = by_distance) -> "Split":
        """The static part of `C` (k, k), `static` eigenvalues and the other half of a pair that would cut; the rest."""
        schur = _Schur.of(C)
        position = _sorted(schur.eigenvalues, order)
        chosen = torch.zeros(len(position), dtype=torch.bool)
        chosen[position[_first(schur.eigenvalues[position], static)]] = True
        return schur.split(chosen)

    def noise_root(self, moment: Tensor) -> Tensor:
        """The symmetric N (k, k) for which rows G @ N, with G (n, k) normal, have the covariance of what is left.

        It is unique, whatever basis the Schur form came in, so that equal draws give equal noise.

        Args:
            moment: the latents' mean of z^T z, (k, k).
        """
        sizes, directions = torch.linalg.eigh(self.reading.mT @ moment @ self.reading)
        root = (directions * sizes.clamp_min(0).sqrt()) @ directions.mT
        noise: Tensor = self.writing.mT @ root @ self.writing
        return noise


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The eigenvalues of C in order, a conjugate pair side by side, positive imaginary part first.

    C = to_modes diag(eigenvalues) from_modes, where `condition` tells how far eigenvectors are from parallel. Where
    they are nearly so, the part that belongs to a set of eigenvalues comes from an ordered Schur form, see `Split`.
    A pair of eigenvectors v, conj(v) spans what Re v and Im v span, so they are held as a real basis.

    Example:
        >>> C = torch.tensor([[0.0, 0.5, 0.0], [-0.5, 0.0, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
        >>> spectrum = Spectrum.of(C)
        >>> spectrum.eigenvalues.abs().tolist()  # a real one, then a pair
        [1.0, 0.5..., 0.5...]
        >>> spectrum.static(1).tolist(), spectrum.static(2).tolist()  # two would cut the pair
        ([True, False, False], [True, True, True])
    """

    eigenvalues: Tensor  # (..., k) complex128, in order
    basis: Tensor  # (..., k, k) float64: its columns are eigenvectors of C, or Re v and Im v side by side
    dual: Tensor  # (..., k, k) its inverse
    matrix: Tensor  # (..., k, k) float64: C itself

    @classmethod
    def of(cls, C: Tensor, order: ModeOrder = by_distance) -> "Spectrum":
        """The spectrum of `C` (..., k, k), in complex128, found on the CPU, where small eigenproblems are fastest."""
        if C.ndim < 2 or C.shape[-1] != C.shape[-2]:
            raise InputError(f"expected a square matrix (..., k, k), got {tuple(C.shape)}")
        if not torch.isfinite(C).all():
            raise InputError("cannot decompose an operator that holds NaN or infinity")
        wide = to_float64(C.detach())
        home = wide.device
        here = wide.cpu()
        eigenvalues, vectors = torch.linalg.eig(here)
        position = _sorted(eigenvalues, order)
        basis = torch.where((eigenvalues.imag < 0).unsqueeze(-2), -vectors.imag, vectors.real)
        basis = _columns(basis, position)
        dual, _ = torch.linalg.inv_ex(basis)  # colliding eigenvalues: see `condition` and the losses
        parts = (eigenvalues.gather(-1, position), basis, dual, here)
        eigenvalues, basis, dual, matrix = (part.to(home) for part in parts)
        return cls(eigenvalues, basis, dual, matrix)

    @cached_property
    def to_modes(self) -> Tensor:
        """(..., k, k) complex: columns are eigenvectors of C."""
        place, turn = torch.arange(self.k, device=self.basis.device), torch.sign(self.eigenvalues.imag)
        real, imaginary = (place + step.long() for step in (turn.clamp(max=0), turn.clamp(min=0)))
        return torch.complex(_columns(self.basis, real), turn.unsqueeze(-2) * _columns(self.basis, imaginary))

    @cached_property
    def from_modes(self) -> Tensor:
        """(..., k, k) complex: the inverse of `to_modes`."""
        # Twice the inverse of [Re v, Im v] in terms of v and conj(v).
        share = torch.where(self.eigenvalues.imag == 0, 1.0, 0.5).unsqueeze(-1)
        mirrored = Spectrum(self.eigenvalues, self.dual.mT, self.basis.mT, self.matrix.mT)
        return mirrored.to_modes.mH * share

    @property
    def k(self) -> int:
        return self.eigenvalues.shape[-1]

    def project(self, z: Tensor) -> Tensor:
        """Latents (..., time, k) -> complex coefficients of the modes."""
        self.require_basis()
        return z.to(self.to_modes) @ self.to_modes

    def lift(self, coefficients: Tensor) -> Tensor:
        """Coefficients -> real latents, float64; inverse of `project`."""
        partners = self._partners if self._partners.ndim == 1 else self._partners.unsqueeze(-2)  # one for all frames
        mirrored = coefficients.gather(-1, partners.expand(coefficients.shape)).conj()
        sizes = coefficients.abs().flatten(0, -2).amax(0)  # of each mode, over all frames
        if ((coefficients - mirrored).abs().flatten(0, -2).amax(0) > 1e-6 * sizes).any():
            raise InputError(
                "these coefficients give complex latents: both halves of a conjugate pair must be changed together"
            )
        return (coefficients @ self.from_modes).real

    def static(self, count: int) -> Tensor:
        """Which modes are static: (..., k) boolean, the first `count` and the other half of a pair that would cut."""
        return _first(self.eigenvalues, count)

    def largest_gap(self) -> int:
        """How many eigenvalues lie before the largest step, in ratio, of their distances to 1; no pair is cut."""
        values = self.eigenvalues.cpu()
        values = values[values.imag >= 0]  # one of each pair, so that no step leads from one half to the other
        distances, order = from_one(values).sort()
        if len(distances) == 1:
            return self.k
        sizes = 1 + (values.imag > 0).long()[order]
        return int(sizes.cumsum(0)[(distances[1:] / distances[:-1]).argmax()])

    def dynamic(self, count: int) -> Tensor:
        """Every mode that `static(count)` leaves."""
        return ~self.static(count)

    def extent(self, static: Tensor) -> tuple[Tensor, Tensor]:
        """How far the furthest `static` eigenvalue is from 1, and the largest modulus among the others; 0 for none."""
        gap = torch.where(static, (self.eigenvalues - 1).abs(), 0.0).amax()
        return gap, torch.where(static, 0.0, self.eigenvalues.abs()).amax()

    def complete(self, indices: Iterable[int]) -> list[int]:
        """`indices` with the missing halves of conjugate pairs added."""
        chosen = self._checked(indices)
        return sorted({*chosen, *self._partners[chosen].tolist()})

    def select(self, indices: Iterable[int]) -> Tensor:
        """A (k,) boolean selection of whole conjugate pairs; one that cuts a pair is refused."""
        chosen = self._checked(indices)
        whole = self.complete(chosen)
        if missing := [index for index in whole if index not in chosen]:
            raise InputError(
                f"modes {chosen} cut a conjugate pair: {missing} must come along, so ask for {whole} "
                "(Spectrum.complete does that)"
            )
        selection = torch.zeros(self.k, dtype=torch.bool, device=self.eigenvalues.device)
        selection[chosen] = True
        return selection

    def units(self, selection: Tensor) -> list[list[int]]:
        """The modes of a conjugate-closed boolean `selection` (k,), in order, both halves of a pair together."""
        units: list[list[int]] = []
        for mode in torch.nonzero(selection).flatten().tolist():
            if self.eigenvalues[mode].imag < 0:
                units[-1].append(mode)
            else:
                units.append([mode])
        return units

    def projector(self, selection: Tensor) -> Tensor:
        """The real (..., k, k) projector on the modes of a conjugate-closed boolean `selection` (..., k)."""
        if selection.dtype != torch.bool or selection.shape != self.eigenvalues.shape:
            wanted, got = tuple(self.eigenvalues.shape), f"{selection.dtype} {tuple(selection.shape)}"
            raise InputError(f"expected a boolean selection {wanted}, got {got}")
        if (selection != selection.gather(-1, self._partners)).any():
            raise InputError("this selection of modes cuts a conjugate pair: both halves belong to it, or none")
        if self.condition < SOUND:  # the same to rounding, and it parts even eigenvalues that coincide
            return (self.basis * selection.unsqueeze(-2)) @ self.dual
        k = self.k
        each = zip(
            self.matrix.reshape(-1, k, k), self.eigenvalues.reshape(-1, k), selection.reshape(-1, k), strict=True
        )
        parts = [_Schur.of(matrix).split_like(values, chosen).projector for matrix, values, chosen in each]
        return torch.stack(parts).reshape(self.matrix.shape)

    def pull(self, slope: Tensor) -> Tensor:
        """(..., k, k): dL/dC where dL = Re(sum conj(slope) d eigenvalue), `slope` (..., k) in conjugate pairs.

        This is Re(from_modes^T diag(conj(slope)) to_modes^T), written with real matrices.
        """
        rows = self.basis.mT
        across = _columns(self.basis, self._partners).mT
        return self.dual.mT @ (slope.real.unsqueeze(-1) * rows + slope.imag.unsqueeze(-1) * across)

    @property
    def condition(self) -> float:
        """Of the eigenvectors as a basis: 1 where they are orthogonal, infinite where some are parallel."""
        norms = torch.linalg.matrix_norm(self.basis) * torch.linalg.matrix_norm(self.dual)
        condition = float(norms.amax()) / self.k
        return condition if condition == condition else float("inf")

    def require_basis(self) -> None:
        """Refuse to divide latents among modes that are parallel: C is defective and such a basis does not exist."""
        if not self.condition < 1e11:
            raise InputError(
                f"the operator's modes are not a basis (condition {self.condition:.0e}): eigenvalues collide and their "
                "eigenvectors are parallel; take the static or the dynamic part as a whole, or more varied sequences"
            )

    @property
    def _partners(self) -> Tensor:
        """(..., k): where each mode's conjugate stands; a real mode is its own."""
        place = torch.arange(self.k, device=self.eigenvalues.device)
        return place + torch.sign(self.eigenvalues.imag).long()

    def _checked(self, indices: Iterable[int]) -> list[int]:
        if self.eigenvalues.ndim != 1:
            raise InputError("mode indices differ between sequences that have an operator each; use static or dynamic")
        chosen = sorted({int(index) for index in indices})
        if outside := [index for index in chosen if not 0 <= index < self.k]:
            raise InputError(f"expected mode indices from 0 to {self.k - 1}, got {outside}")
        return chosen


def _columns(matrix: Tensor, places: Tensor) -> Tensor:
    """The columns of `matrix` (..., k, k) that stand at `places` (..., k)."""
    return matrix.gather(-1, places.unsqueeze(-2).expand_as(matrix))


def _sorted(eigenvalues: Tensor, order: ModeOrder) -> Tensor:
    """(..., k): where each eigenvalue of LAPACK's stands in order, whole conjugate pairs side by side."""
    # LAPACK puts a pair side by side, positive imaginary part first. The second half copies the first one's key:
    # computed twice it may differ in the last bit (vector and scalar code), and the sort would part the pair.
    key = order(eigenvalues)
    key = torch.where(eigenvalues.imag < 0, key.roll(1, dims=-1), key)
    return torch.argsort(key, dim=-1, stable=True)


def _no_sort(real: float, imaginary: float) -> None:
    """The Schur form in LAPACK's own order; which eigenvalues come first is decided when all are known."""


def _first(eigenvalues: Tensor, count: int) -> Tensor:
    """(..., k) boolean: the first `count` of `eigenvalues` in order, and the other half of a pair that would cut."""
    k = eigenvalues.shape[-1]
    if not 0 <= count <= k:
        raise InputError(f"expected a static count from 0 to k = {k}, got {count}")
    chosen = torch.zeros_like(eigenvalues, dtype=torch.bool)
    chosen[..., :count] = True
    if 0 < count < k:
        chosen[..., count] = eigenvalues[..., count - 1].imag > 0
    return chosen


@dataclass(frozen=True, eq=False)
class _Schur:
    """C = Q T Q^T with Q orthogonal and T block triangular: what there is of every operator, eigenvectors or not."""

    T: NDArray[np.float64]
    Q: NDArray[np.float64]
    eigenvalues: Tensor  # (k,) complex128, as they stand in T
    home: torch.device

    @classmethod
    def of(cls, C: Tensor) -> "_Schur":
        here = to_float64(C.detach()).cpu()
        T, _, real, imaginary, Q, _, info = lapack.dgees(_no_sort, here.numpy())
        if info != 0 or not np.isfinite(T).all():
            raise InputError("cannot decompose an operator that holds NaN or infinity")
        return cls(T, Q, torch.complex(torch.from_numpy(real), torch.from_numpy(imaginary)), C.device)

    def split_like(self, eigenvalues: Tensor, selection: Tensor) -> Split:
        """`split` by a selection (k,) of the same `eigenvalues` (k,) as another algorithm found them.

        Each is taken for the nearest one here. Their places in an order would not do: where two are equally far from
        1, rounding decides which comes first.
        """
        here, there = self.eigenvalues.numpy(), eigenvalues.cpu().numpy()
        mine, theirs = linear_sum_assignment(np.abs(here[:, None] - there[None, :]))
        chosen = torch.zeros(len(here), dtype=torch.bool)
        chosen[mine] = selection.cpu()[theirs]
        return self.split(chosen)

    def split(self, selection: Tensor) -> Split:
        """Divide latents between the eigenvalues of a conjugate-closed boolean `selection` (k,) and the others.

        T is reordered to [[A, B], [0, D]], with the chosen eigenvalues in A. With the solution Y of the Sylvester
        equation A Y - Y D = B the projector is Q [[I, Y], [0, 0]] Q^T. It is exact where eigenvectors are parallel, as
        long as they are not on both sides of the cut.
        """
        T, Q, k = self.T, self.Q, len(self.T)
        count = int(selection.sum())
        Y = np.zeros((count, k - count))
        if 0 < count < k:
            T, Q, _, _, moved, _, _, failed = lapack.dtrsen(selection.numpy().astype(np.int32), T, Q, job="N")
            failed = failed or moved != count  # two that collide were a pair here, and not where they were chosen
            Y, scale, _ = lapack.dtrsyl(T[:count, :count], T[count:, count:], T[:count, count:], isgn=-1)
            Y = np.full_like(Y, np.inf) if failed or not scale else Y / scale
        if not np.abs(Y).max(initial=0) < LARGEST_PART:
            raise InputError(
                f"{count} of the operator's {k} eigenvalues cannot be told from the others (their part would be "
                f"{np.abs(Y).max():.0e} times as large as the latents): eigenvalues of both sets collide; another "
                "spectrum.static or more varied sequences help"
            )
        chosen, writing = Q[:, :count], Q[:, count:].T
        parts = chosen @ (chosen.T + Y @ writing), writing.T - chosen @ Y, writing
        return Split(*(torch.from_numpy(np.ascontiguousarray(part)).to(self.home) for part in parts))
