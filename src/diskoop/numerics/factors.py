"""Factor: a name and a real projector; swap along it"""

from dataclasses import dataclass

from torch import Tensor

from diskoop.numerics.spectrum import Spectrum

SPECTRAL_PARTS = ("static", "dynamic")  # the two factors that every spectrum has


@dataclass(frozen=True, eq=False)
class Factor:
    """A name and a real projector: `z @ projector` is the part of a latent that belongs to the factor.

    Example:
        >>> spectrum = Spectrum.of(torch.diag(torch.tensor([1.0, 0.5], dtype=torch.float64)))
        >>> who = Factor.from_modes("who", spectrum, spectrum.static(1))
        >>> who.part(torch.tensor([[3.0, 4.0]]))
        tensor([[3., 0.]])
    """

    name: str
    projector: Tensor  # (k, k), or (batch, k, k) with one operator per sequence

    @classmethod
    def from_modes(cls, name: str, spectrum: Spectrum, selection: Tensor) -> "Factor":
        """The factor of a conjugate-closed boolean `selection` (..., k) of modes."""
        return cls(name, spectrum.projector(selection))

    def part(self, z: Tensor) -> Tensor:
        """The part of latents `z` (..., time, k) that belongs to this factor."""
        return z @ self.projector.to(z)


def swap(z: Tensor, donor: Tensor, factor: Factor, amount: float = 1.0) -> Tensor:
    """`z` with `factor` moved towards `donor`; amount 1 replaces it.

    Args:
        z: latents, (..., time, k).
        donor: latents of the same shape, the source of the factor.
        factor: what to replace.
        amount: 0 leaves `z` as it is, more than 1 goes past the donor.

    Example:
        >>> hair = Factor("hair", torch.diag(torch.tensor([1.0, 0.0])))
        >>> swap(torch.tensor([[3.0, 4.0]]), torch.tensor([[7.0, 8.0]]), hair, amount=0.5)
        tensor([[5., 4.]])
    """
    return z + amount * factor.part(donor - z)
