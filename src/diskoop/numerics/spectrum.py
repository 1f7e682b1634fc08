"""Operator -> eigenvalues and modes; the one static/dynamic split"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from diskoop.errors import InputError
from diskoop.numerics.operator import widened

NEAR = 1e-3  # eigenvalues this near to 1 are all the same: which of them is nearest is chance
Order = Callable[[Tensor], Tensor]  # eigenvalues -> a key; the smallest keys are the static modes


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
class Spectrum:
    """C = to_modes diag(eigenvalues) from_modes. A conjugate pair stands together, positive imaginary part first.

    A pair of eigenvectors v, conj(v) spans what Re v and Im v span, so a real basis says it all for a quarter
    of the work.
    """

    eigenvalues: Tensor  # (..., k) complex128, in order
    basis: Tensor  # (..., k, k) float64: its columns are eigenvectors of C, or Re v and Im v side by side
    dual: Tensor  # (..., k, k) its inverse

    @classmethod
    def of(cls, C: Tensor, order: Order = by_distance) -> "Spectrum":
        """The spectrum of `C` (..., k, k), in complex128, found on the CPU, where small eigenproblems are fastest."""
        if C.ndim < 2 or C.shape[-1] != C.shape[-2]:
            raise InputError(f"expected a square matrix (..., k, k), got {tuple(C.shape)}")
        if not torch.isfinite(C).all():
            raise InputError("cannot decompose an operator that holds NaN or infinity")
        wide = widened(C.detach())
        home = wide.device
        eigenvalues, vectors = torch.linalg.eig(wide.cpu())
        # LAPACK puts a pair side by side, positive imaginary part first. The second half copies the first one's key:
        # computed twice it may differ in the last bit (vector and scalar code), and the sort would part the pair.
        key = order(eigenvalues)
        key = torch.where(eigenvalues.imag < 0, key.roll(1, dims=-1), key)
        position = torch.argsort(key, dim=-1, stable=True)
        basis = torch.where((eigenvalues.imag < 0).unsqueeze(-2), -vectors.imag, vectors.real)
        basis = _columns(basis, position)
        dual, _ = torch.linalg.inv_ex(basis)  # colliding eigenvalues: see `projector` and the losses
        return cls(*(part.to(home) for part in (eigenvalues.gather(-1, position), basis, dual)))

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
        mirrored = Spectrum(self.eigenvalues, self.dual.mT, self.basis.mT)
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
        if not 0 <= count <= self.k:
            raise InputError(f"expected a static count from 0 to k = {self.k}, got {count}")
        chosen = torch.zeros_like(self.eigenvalues, dtype=torch.bool)
        chosen[..., :count] = True
        if 0 < count < self.k:
            chosen[..., count] = self.eigenvalues[..., count - 1].imag > 0
        return chosen

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
        self.require_basis()
        return self.onto(selection)

    def onto(self, selection: Tensor) -> Tensor:
        """What `projector` gives, unchecked."""
        return (self.basis * selection.unsqueeze(-2)) @ self.dual

    def pull(self, slope: Tensor) -> Tensor:
        """(..., k, k): dL/dC where dL = Re(sum conj(slope) d eigenvalue), `slope` (..., k) in conjugate pairs.

        This is Re(from_modes^T diag(conj(slope)) to_modes^T), written with real matrices.
        """
        rows = self.basis.mT
        across = _columns(self.basis, self._partners).mT
        return self.dual.mT @ (slope.real.unsqueeze(-1) * rows + slope.imag.unsqueeze(-1) * across)

    def require_basis(self) -> None:
        """Refuse to divide latents among modes that are parallel: C is defective and such a basis does not exist."""
        norms = torch.linalg.matrix_norm(self.basis) * torch.linalg.matrix_norm(self.dual)
        condition = float(norms.amax())
        if not condition < 1e12:  # NaN included
            raise InputError(
                f"the operator's modes are not a basis (condition {condition:.0e}): eigenvalues collide and their "
                "eigenvectors are parallel; more varied sequences or a larger ridge help"
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
