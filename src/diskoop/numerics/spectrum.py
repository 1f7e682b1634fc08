"""Operator -> eigenvalues and modes: their orders (settings.py names them too), and which of them are static"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import lapack
from torch import Tensor

from diskoop.errors import InputError
from diskoop.numerics.operator import to_float64

MIN_DISTANCE = 1e-3  # distances to 1 below this are not distinguished: their order is rounding
# Largest gain of a projector's off-diagonal block. Splitting eigenvalues whose eigenvectors are parallel gives 1e7 and
# more, the inverse root of float64's precision.
MAX_SPLIT_GAIN = 1e6
MAX_CONDITION = 1e4  # of the eigenvectors, up to which they are used instead of a Schur form
ModeOrder = Callable[[Tensor], Tensor]  # eigenvalues -> a key; the smallest keys are the static modes


def by_distance(eigenvalues: Tensor) -> Tensor:
    """Nearest to 1 first."""
    return (eigenvalues - 1).abs()


def clamped_distance(eigenvalues: Tensor) -> Tensor:
    """Distances to 1, at least MIN_DISTANCE, so that their ratios mean something."""
    return by_distance(eigenvalues).clamp(min=MIN_DISTANCE)


def by_modulus(eigenvalues: Tensor) -> Tensor:
    """Largest modulus first, as in the paper's text on training."""
    return -eigenvalues.abs()


MODE_ORDERS: dict[str, ModeOrder] = {"distance": by_distance, "modulus": by_modulus}  # spectrum.order -> sort key


@dataclass(frozen=True, eq=False)
class SpectralSplit:
    """Latents split between the static eigenvalues and the others.

    z = z @ projector + z @ to_coordinates @ from_coordinates.

    Example:
        >>> C = torch.diag(torch.tensor([1.0, 0.5], dtype=torch.float64))
        >>> SpectralSplit.of(C, static=1).projector
        tensor([[1., 0.],
                [0., 0.]], dtype=torch.float64)
    """

    projector: Tensor  # (k, k) float64: onto the invariant subspace of the static eigenvalues, along the other one
    to_coordinates: Tensor  # (k, d): z @ to_coordinates are coordinates of the dynamic part
    from_coordinates: Tensor  # (d, k): orthonormal rows, the basis of those coordinates

    @classmethod
    def of(cls, C: Tensor, static: int, order: ModeOrder = by_distance) -> "SpectralSplit":
        """Split by an operator.

        Args:
            C: (k, k).
            static: number of static eigenvalues; a conjugate pair is never cut, so there may be one more.
            order: eigenvalues -> sort key; the smallest are static.
        """
        schur = _Schur.of(C)
        position = _sort(schur.eigenvalues, order)
        selection = torch.zeros(len(position), dtype=torch.bool)
        selection[position[_select_first(schur.eigenvalues[position], static)]] = True
        return schur.split(selection)

    def noise_root(self, moment: Tensor) -> Tensor:
        """The symmetric N (k, k) for which rows G @ N, with G (n, k) normal, have the dynamic part's second moment.

        It does not depend on the basis of the Schur form, so that equal draws give equal noise.

        Args:
            moment: the latents' mean of z^T z, (k, k).
        """
        variances, directions = torch.linalg.eigh(self.to_coordinates.mT @ moment @ self.to_coordinates)
        root = (directions * variances.clamp_min(0).sqrt()) @ directions.mT
        noise: Tensor = self.from_coordinates.mT @ root @ self.from_coordinates
        return noise


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The sorted eigenvalues of C and its modes: C = to_modes diag(eigenvalues) from_modes.

    Conjugate pairs are neighbours, positive imaginary part first. `condition` is that of the eigenvectors; where they
    are nearly parallel, projectors come from an ordered Schur form instead. A pair v, conj(v) is stored as the real
    basis Re v, Im v of the same subspace.

    Example:
        >>> C = torch.tensor([[0.0, 0.5, 0.0], [-0.5, 0.0, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
        >>> spectrum = Spectrum.of(C)
        >>> spectrum.eigenvalues.abs().tolist()  # a real eigenvalue, then a pair
        [1.0, 0.5..., 0.5...]
        >>> spectrum.static(1).tolist(), spectrum.static(2).tolist()  # two would cut the pair
        ([True, False, False], [True, True, True])
    """

    eigenvalues: Tensor  # (..., k) complex128, sorted
    basis: Tensor  # (..., k, k) float64: columns are real eigenvectors of C, or Re v and Im v of a pair
    dual: Tensor  # (..., k, k) the inverse of `basis`
    matrix: Tensor  # (..., k, k) float64: C itself

    @classmethod
    def of(cls, C: Tensor, order: ModeOrder = by_distance) -> "Spectrum":
        """Decompose an operator, in float64 and on the CPU, where small eigenproblems are fastest.

        Args:
            C: (..., k, k).
            order: eigenvalues -> sort key, ascending.
        """
        if C.ndim < 2 or C.shape[-1] != C.shape[-2]:
            raise InputError(f"expected a square matrix (..., k, k), got {tuple(C.shape)}")
        if not torch.isfinite(C).all():
            raise InputError("cannot decompose an operator that holds NaN or infinity")
        C = to_float64(C.detach())
        matrix = C.cpu()
        eigenvalues, vectors = torch.linalg.eig(matrix)
        position = _sort(eigenvalues, order)
        basis = torch.where((eigenvalues.imag < 0).unsqueeze(-2), -vectors.imag, vectors.real)
        basis = _take_columns(basis, position)
        dual, _ = torch.linalg.inv_ex(basis)  # not finite where eigenvalues collide; `condition` is infinite then
        eigenvalues = eigenvalues.gather(-1, position)
        return cls(*(tensor.to(C.device) for tensor in (eigenvalues, basis, dual, matrix)))

    @cached_property
    def to_modes(self) -> Tensor:
        """(..., k, k) complex: columns are eigenvectors of C."""
        index, sign = torch.arange(self.k, device=self.basis.device), torch.sign(self.eigenvalues.imag)
        real, imaginary = (index + step.long() for step in (sign.clamp(max=0), sign.clamp(min=0)))
        return torch.complex(_take_columns(self.basis, real), sign.unsqueeze(-2) * _take_columns(self.basis, imaginary))

    @cached_property
    def from_modes(self) -> Tensor:
        """(..., k, k) complex: the inverse of `to_modes`."""
        # In terms of v and conj(v), the inverse of [Re v, Im v] is twice that of [v, conj(v)].
        scale = torch.where(self.eigenvalues.imag == 0, 1.0, 0.5).unsqueeze(-1)
        transposed = Spectrum(self.eigenvalues, self.dual.mT, self.basis.mT, self.matrix.mT)
        return transposed.to_modes.mH * scale

    @property
    def k(self) -> int:
        """Number of eigenvalues."""
        return self.eigenvalues.shape[-1]

    def project(self, z: Tensor) -> Tensor:
        """Latents (..., time, k) -> complex coefficients of the modes, (..., time, k).

        Example:
            >>> spectrum = Spectrum.of(torch.tensor([[0.0, 0.5], [-0.5, 0.0]], dtype=torch.float64))
            >>> z = torch.randn(3, 4, 2, dtype=torch.float64)
            >>> step = spectrum.lift(spectrum.project(z) * spectrum.eigenvalues)
            >>> torch.allclose(step, z @ spectrum.matrix)
            True
        """
        self.require_basis()
        return z.to(self.to_modes) @ self.to_modes

    def lift(self, coefficients: Tensor) -> Tensor:
        """Coefficients -> real latents, float64; inverse of `project`."""
        conjugates = self._conjugates if self._conjugates.ndim == 1 else self._conjugates.unsqueeze(-2)  # all frames
        expected = coefficients.gather(-1, conjugates.expand(coefficients.shape)).conj()
        largest = coefficients.abs().flatten(0, -2).amax(0)  # of each mode, over all frames
        if ((coefficients - expected).abs().flatten(0, -2).amax(0) > 1e-6 * largest).any():
            raise InputError(
                "these coefficients give complex latents: both halves of a conjugate pair must be changed together"
            )
        return (coefficients @ self.from_modes).real

    def static(self, count: int) -> Tensor:
        """Which modes are static: (..., k) boolean, the first `count`, plus one where that would cut a pair."""
        return _select_first(self.eigenvalues, count)

    def count_before_largest_gap(self) -> int:
        """The number of eigenvalues before the largest ratio between successive distances to 1; no pair is cut.

        Example:
            >>> Spectrum.of(torch.diag(torch.tensor([1.0, 0.99, 0.3, 0.1]))).count_before_largest_gap()
            2
        """
        values = self.eigenvalues.cpu()
        values = values[values.imag >= 0]  # one of each pair, so that no gap lies inside a pair
        distances, order = clamped_distance(values).sort()
        if len(distances) == 1:
            return self.k
        sizes = 1 + (values.imag > 0).long()[order]
        return int(sizes.cumsum(0)[(distances[1:] / distances[:-1]).argmax()])

    def dynamic(self, count: int) -> Tensor:
        """Which modes are dynamic: the complement of `static(count)`."""
        return ~self.static(count)

    def gap_and_radius(self, static: Tensor) -> tuple[Tensor, Tensor]:
        """The largest distance of a `static` eigenvalue to 1, and the largest modulus of the others; 0 if none."""
        gap = torch.where(static, (self.eigenvalues - 1).abs(), 0.0).amax()
        return gap, torch.where(static, 0.0, self.eigenvalues.abs()).amax()

    def complete(self, indices: Iterable[int]) -> list[int]:
        """`indices` with the missing halves of conjugate pairs added."""
        modes = self._check_indices(indices)
        return sorted({*modes, *self._conjugates[modes].tolist()})

    def select(self, indices: Iterable[int]) -> Tensor:
        """Mode indices as a (k,) boolean selection.

        Raises:
            InputError: they cut a conjugate pair.
        """
        modes = self._check_indices(indices)
        completed = self.complete(modes)
        if missing := [index for index in completed if index not in modes]:
            raise InputError(
                f"modes {modes} cut a conjugate pair: {missing} must come along, so ask for {completed} "
                "(Spectrum.complete does that)"
            )
        selection = torch.zeros(self.k, dtype=torch.bool, device=self.eigenvalues.device)
        selection[modes] = True
        return selection

    def conjugate_groups(self, selection: Tensor) -> list[list[int]]:
        """The modes of a conjugate-closed boolean `selection` (k,), in order: [i] if real, [i, i + 1] for a pair."""
        groups: list[list[int]] = []
        for mode in torch.nonzero(selection).flatten().tolist():
            if self.eigenvalues[mode].imag < 0:
                groups[-1].append(mode)
            else:
                groups.append([mode])
        return groups

    def projector(self, selection: Tensor) -> Tensor:
        """The real (..., k, k) projector on the modes of a conjugate-closed boolean `selection` (..., k)."""
        if selection.dtype != torch.bool or selection.shape != self.eigenvalues.shape:
            wanted, got = tuple(self.eigenvalues.shape), f"{selection.dtype} {tuple(selection.shape)}"
            raise InputError(f"expected a boolean selection {wanted}, got {got}")
        if (selection != selection.gather(-1, self._conjugates)).any():
            raise InputError("this selection of modes cuts a conjugate pair: both halves belong to it, or none")
        if self.condition < MAX_CONDITION:  # equal up to rounding, and separates even eigenvalues that coincide
            return (self.basis * selection.unsqueeze(-2)) @ self.dual
        k = self.k
        batch = zip(
            self.matrix.reshape(-1, k, k), self.eigenvalues.reshape(-1, k), selection.reshape(-1, k), strict=True
        )
        projectors = [_Schur.of(C).split_nearest(values, selected).projector for C, values, selected in batch]
        return torch.stack(projectors).reshape(self.matrix.shape)

    def gradient(self, eigenvalue_gradient: Tensor) -> Tensor:
        """dL/dC (..., k, k) of a function of the eigenvalues: Re(from_modes^T diag(conj(g)) to_modes^T).

        Args:
            eigenvalue_gradient: g (..., k) complex with dL = Re(sum conj(g) d eigenvalue), in conjugate pairs.
        """
        g, basis = eigenvalue_gradient.unsqueeze(-1), self.basis.mT
        conjugate = _take_columns(self.basis, self._conjugates).mT
        return self.dual.mT @ (g.real * basis + g.imag * conjugate)

    @property
    def condition(self) -> float:
        """The condition of the eigenvectors: 1 where they are orthogonal, infinite where some are parallel."""
        norms = torch.linalg.matrix_norm(self.basis) * torch.linalg.matrix_norm(self.dual)
        condition = float(norms.amax()) / self.k
        return condition if condition == condition else float("inf")

    def require_basis(self) -> None:
        """Raise an InputError where eigenvectors are parallel: C is defective and its modes are no basis."""
        if not self.condition < 1e11:
            raise InputError(
                f"the operator's modes are not a basis (condition {self.condition:.0e}): eigenvalues collide and their "
                "eigenvectors are parallel; take the static or the dynamic part as a whole, or more varied sequences"
            )

    @property
    def _conjugates(self) -> Tensor:
        """(..., k): the index of each mode's conjugate; a real mode is its own."""
        index = torch.arange(self.k, device=self.eigenvalues.device)
        return index + torch.sign(self.eigenvalues.imag).long()

    def _check_indices(self, indices: Iterable[int]) -> list[int]:
        if self.eigenvalues.ndim != 1:
            raise InputError("mode indices differ between sequences that have an operator each; use static or dynamic")
        modes = sorted({int(index) for index in indices})
        if outside := [mode for mode in modes if not 0 <= mode < self.k]:
            raise InputError(f"expected mode indices from 0 to {self.k - 1}, got {outside}")
        return modes


def _take_columns(matrix: Tensor, indices: Tensor) -> Tensor:
    """The columns `indices` (..., k) of `matrix` (..., k, k)."""
    return matrix.gather(-1, indices.unsqueeze(-2).expand_as(matrix))


def _sort(eigenvalues: Tensor, order: ModeOrder) -> Tensor:
    """Indices (..., k) that sort LAPACK's `eigenvalues`, conjugate pairs as neighbours."""
    # LAPACK puts pairs next to each other, positive imaginary part first. The second half copies the first one's key:
    # computed twice it may differ in the last bit (vector and scalar code), and the sort would separate the pair.
    key = order(eigenvalues)
    key = torch.where(eigenvalues.imag < 0, key.roll(1, dims=-1), key)
    return torch.argsort(key, dim=-1, stable=True)


def _no_sort(real: float, imaginary: float) -> None:
    """The Schur form in LAPACK's own order; it is reordered once all eigenvalues are known."""


def _select_first(eigenvalues: Tensor, count: int) -> Tensor:
    """(..., k) boolean: the first `count` of sorted `eigenvalues`, plus one where that would cut a pair."""
    k = eigenvalues.shape[-1]
    if not 0 <= count <= k:
        raise InputError(f"expected a static count from 0 to k = {k}, got {count}")
    selection = torch.zeros_like(eigenvalues, dtype=torch.bool)
    selection[..., :count] = True
    if 0 < count < k:
        selection[..., count] = eigenvalues[..., count - 1].imag > 0
    return selection


@dataclass(frozen=True, eq=False)
class _Schur:
    """C = Q T Q^T with Q orthogonal and T block triangular, which exists for defective operators too."""

    T: NDArray[np.float64]
    Q: NDArray[np.float64]
    eigenvalues: Tensor  # (k,) complex128, in the order of T
    device: torch.device  # of C

    @classmethod
    def of(cls, C: Tensor) -> "_Schur":
        T, _, real, imaginary, Q, _, info = lapack.dgees(_no_sort, to_float64(C.detach()).cpu().numpy())
        if info != 0 or not np.isfinite(T).all():
            raise InputError("cannot decompose an operator that holds NaN or infinity")
        return cls(T, Q, torch.complex(torch.from_numpy(real), torch.from_numpy(imaginary)), C.device)

    def split_nearest(self, eigenvalues: Tensor, selection: Tensor) -> SpectralSplit:
        """`split` by a selection (k,) of the same `eigenvalues` (k,) from another algorithm, matched by distance.

        Matching by rank would fail where two are equally far from 1 and rounding decides which comes first.
        """
        from scipy.optimize import linear_sum_assignment  # slow to import

        values, others = self.eigenvalues.numpy(), eigenvalues.cpu().numpy()
        rows, columns = linear_sum_assignment(np.abs(values[:, None] - others[None, :]))
        matched = torch.zeros(len(values), dtype=torch.bool)
        matched[rows] = selection.cpu()[columns]
        return self.split(matched)

    def split(self, selection: Tensor) -> SpectralSplit:
        """Split latents between the eigenvalues of a conjugate-closed boolean `selection` (k,) and the others.

        T is reordered to [[A, B], [0, D]], with the selected eigenvalues in A. With the solution Y of the Sylvester
        equation A Y - Y D = B the projector is Q [[I, Y], [0, 0]] Q^T. It is exact where eigenvectors are parallel, as
        long as these are on one side of the split.
        """
        T, Q, k = self.T, self.Q, len(self.T)
        count = int(selection.sum())
        Y = np.zeros((count, k - count))
        if 0 < count < k:
            T, Q, _, _, moved, _, _, failed = lapack.dtrsen(selection.numpy().astype(np.int32), T, Q, job="N")
            failed = failed or moved != count  # a pair in T that was two real eigenvalues in the selection
            Y, scale, _ = lapack.dtrsyl(T[:count, :count], T[count:, count:], T[:count, count:], isgn=-1)
            Y = np.full_like(Y, np.inf) if failed or not scale else Y / scale
        if not np.abs(Y).max(initial=0) < MAX_SPLIT_GAIN:
            raise InputError(
                f"{count} of the operator's {k} eigenvalues cannot be separated from the others (their part would be "
                f"{np.abs(Y).max():.0e} times as large as the latents): eigenvalues of both sets collide; another "
                "spectrum.static or more varied sequences help"
            )
        static, dynamic = Q[:, :count], Q[:, count:].T
        matrices = static @ (static.T + Y @ dynamic), dynamic.T - static @ Y, dynamic
        return SpectralSplit(*(torch.from_numpy(np.ascontiguousarray(matrix)).to(self.device) for matrix in matrices))
