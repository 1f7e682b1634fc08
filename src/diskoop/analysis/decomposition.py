"""sequences -> spectrum, coefficients, static and dynamic parts"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from diskoop.data.sequences import Units
from diskoop.errors import InputError, suggest
from diskoop.models.autoencoder import KoopmanAutoencoder
from diskoop.numerics.factors import Factor, swap
from diskoop.numerics.operator import Operator
from diskoop.numerics.spectrum import Order, Spectrum

CHUNK = 64  # sequences that go through a network at once, so that memory does not grow with the set


@dataclass(frozen=True, eq=False)
class Decomposition:
    """Latents beside the modes they are made of. Edits return a new one; `decode` brings it back to frames."""

    model: KoopmanAutoencoder
    operator: Operator
    spectrum: Spectrum
    z: Tensor  # (n, time, k)
    factors: dict[str, Factor]  # "static" and "dynamic", and those that were found
    units: Units
    mask: Tensor | None = None  # (n, time), true where a frame exists; None: everywhere

    def __repr__(self) -> str:
        count, time, k = self.z.shape
        return f"Decomposition({count} sequences of {time} frames, k={k}, factors {', '.join(self.factors)})"

    @classmethod
    def of(
        cls,
        model: KoopmanAutoencoder,
        operator: Operator,
        z: Tensor,
        static: int,
        order: Order,
        units: Units,
        mask: Tensor | None = None,
    ) -> "Decomposition":
        spectrum = Spectrum.of(operator.matrix, order)
        chosen = spectrum.static(static)
        factors = {
            "static": Factor.from_modes("static", spectrum, chosen),
            "dynamic": Factor.from_modes("dynamic", spectrum, ~chosen),
        }
        return cls(model, operator, spectrum, z, factors, units, mask)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(n,): how many frames each sequence has; what a set's `stitch` wants to know after a swap."""
        count, time = self.z.shape[:2]
        lengths: NDArray[np.int64] = np.full(count, time) if self.mask is None else self.mask.sum(1).cpu().numpy()
        return lengths

    @cached_property
    def coefficients(self) -> Tensor:
        """(n, time, k) complex: how much of each mode is in each frame."""
        return self.spectrum.project(self.z)

    @property
    def static(self) -> Tensor:
        """(n, time, k): the part of the latents that stays."""
        return self.factors["static"].part(self.z)

    @property
    def dynamic(self) -> Tensor:
        """(n, time, k): the part that moves."""
        return self.factors["dynamic"].part(self.z)

    def factor(self, what: str | Sequence[str] | Sequence[int]) -> Factor:
        """A factor by name, the sum of several, or that of explicit mode indices."""
        words: list[Any] = [what] if isinstance(what, str) else [_plain(word) for word in what]
        indices = [word for word in words if isinstance(word, int)]
        names = [word for word in words if isinstance(word, str)]
        if len(indices) + len(names) < len(words) or (indices and names):
            raise InputError(f"expected factor names or mode indices, got {words}")
        if indices:
            return Factor.from_modes(f"modes {indices}", self.spectrum, self.spectrum.select(indices))
        for name in names:
            if name not in self.factors:
                raise InputError(f"unknown factor {name!r}; {suggest(name, self.factors)}")
        nothing = torch.zeros_like(self.factors["static"].projector)
        joined = sum((self.factors[name].projector for name in dict.fromkeys(names)), start=nothing)
        if not torch.allclose(joined @ joined, joined, atol=1e-6 * float(joined.abs().amax()) ** 2):
            raise InputError(f"the factors {', '.join(names)} overlap; swap them one after another")
        return Factor(" + ".join(names), joined)

    def swap(
        self, what: str | Sequence[str] | Sequence[int], donor: Sequence[int] | NDArray[Any], amount: float = 1.0
    ) -> "Decomposition":
        """Each sequence with `what` moved towards sequence `donor[i]` of this set; amount 1 replaces it.

        Where they differ in length, what both have is left.
        """
        givers = torch.as_tensor(np.asarray(donor), device=self.z.device)
        whole = not givers.is_floating_point() and givers.dtype != torch.bool
        if not whole or givers.shape != (len(self.z),) or not ((givers >= 0) & (givers < len(self.z))).all():
            wanted = f"{len(self.z)} donors from 0 to {len(self.z) - 1}, one for each sequence"
            raise InputError(f"expected {wanted}, got {np.asarray(donor)}")
        mask = None if self.mask is None else self.mask & self.mask[givers]
        return replace(self, z=swap(self.z, self.z[givers], self.factor(what), amount), mask=mask)

    @torch.no_grad()
    def decode(self) -> NDArray[Any]:
        """(n, time, ...) in the units the sequences came in, zero where there is no frame."""
        self.model.eval()
        frames = [self.units.from_model(self.model.decode(some)).cpu() for some in self.z.split(CHUNK)]  # type: ignore[no-untyped-call]
        x = torch.cat(frames).numpy()
        if self.mask is not None:
            x[~self.mask.cpu().numpy()] = 0
        return x


def _plain(word: Any) -> Any:
    """A number out of an array is a number."""
    return word.item() if isinstance(word, np.generic | Tensor) else word
