"""Factor: a name and a real projector; swap along it"""

from dataclasses import dataclass

from torch import Tensor

from diskoop.numerics.spectrum import Spectrum


@dataclass(frozen=True, eq=False)
class Factor:
    """A direction of change, whatever found it: `z @ projector` is the part of a latent that belongs to it."""

    name: str
    projector: Tensor  # (k, k), or (batch, k, k) where every sequence has its own operator

    @classmethod
    def from_modes(cls, name: str, spectrum: Spectrum, selection: Tensor) -> "Factor":
        """The factor of a conjugate-closed boolean `selection` (..., k) of modes."""
        return cls(name, spectrum.projector(selection))

    def part(self, z: Tensor) -> Tensor:
        """What of `z` (..., time, k) belongs to this factor."""
        return z @ self.projector.to(z)


def swap(z: Tensor, donor: Tensor, factor: Factor, amount: float = 1.0) -> Tensor:
    """`z` with `factor` moved towards `donor`; amount 1 replaces it."""
    return z + amount * factor.part(donor - z)
