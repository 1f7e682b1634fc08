"""sequences -> spectrum, coefficients, static and dynamic parts; swap, sample, forecast"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from diskoop.data.sequences import Sequences, Units, bits, sent
from diskoop.errors import InputError, suggest
from diskoop.models.autoencoder import KoopmanAutoencoder
from diskoop.numerics.factors import Factor, swap
from diskoop.numerics.operator import Operator
from diskoop.numerics.spectrum import ModeOrder, Spectrum
from diskoop.numerics.weights import Weights, over_two
from diskoop.pictures import figure_bytes, rows_figure

CHUNK = 64  # sequences that go through a network at once, so that memory does not grow with the set
NUMBERS = 2**25  # of frames that do so on a GPU, which idles between small pieces of work; 1 to 2 GiB within a network
MOST = 4096  # sequences there: short signals have few numbers, and many more inside
SHOWN = 4  # sequences that a notebook shows

What = str | Sequence[str] | Sequence[int] | Factor  # a factor's name, several names, mode indices, or a factor
Donors = Sequence[int] | NDArray[Any] | Mapping[int, int]


@dataclass(frozen=True, eq=False)
class Decomposition:
    """Latents beside the modes they are made of. Edits return a new one; `decode` brings it back to frames."""

    model: KoopmanAutoencoder
    operator: Operator
    spectrum: Spectrum
    static_modes: Tensor  # (k,) boolean: which modes of the spectrum stand for what stays
    z: Tensor  # (n, time, k)
    factors: dict[str, Factor]  # "static" and "dynamic", and those that were found
    clips: Sequences  # what was taken apart: names, labels and units; edits do not change it
    mask: Tensor | None = None  # (n, time), true where a frame exists; None: everywhere

    def __repr__(self) -> str:
        count, time, k = self.z.shape
        return f"Decomposition({count} sequences of {time} frames, k={k}, factors {', '.join(self.factors)})"

    def _repr_png_(self) -> bytes:
        """The first sequences, decoded, for notebooks."""
        some = self.select(range(min(len(self.z), SHOWN)))
        return figure_bytes(rows_figure(some.rows(), self.units))

    @classmethod
    def of(
        cls,
        model: KoopmanAutoencoder,
        operator: Operator,
        clips: Sequences,
        z: Tensor,
        static: int,
        order: ModeOrder,
        mask: Tensor | None = None,
        found: Mapping[str, Factor] | None = None,
    ) -> "Decomposition":
        spectrum = Spectrum.of(operator.matrix, order)
        chosen = spectrum.static(static)
        onto = spectrum.projector(chosen)
        factors = {
            "static": Factor("static", onto),
            "dynamic": Factor("dynamic", torch.eye(len(onto)).to(onto) - onto),
            **(found or {}),
        }
        # All where the latents are: those that were found come from a file.
        home = factors["static"].projector.to(z.device)
        factors = {name: replace(factor, projector=factor.projector.to(home)) for name, factor in factors.items()}
        return cls(model, operator, spectrum, chosen, z, factors, clips, mask)

    def __len__(self) -> int:
        return len(self.z)

    @property
    def units(self) -> Units:
        return self.clips.units

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

    def code(self, what: What) -> Tensor:
        """(n, k) float64: the part of the latents that belongs to `what`, averaged over each sequence's frames."""
        return mean_over_frames(self.factor(what).part(self.z.double()), self.mask)

    def factor(self, what: What) -> Factor:
        """A factor by name, the sum of several, or that of explicit mode indices; whoever needs it often keeps it."""
        if isinstance(what, Factor):
            return what
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
        if len(set(names)) == 1:
            return self.factors[names[0]]
        nothing = torch.zeros_like(self.factors["static"].projector)
        joined = sum((self.factors[name].projector.to(nothing) for name in dict.fromkeys(names)), start=nothing)
        if not torch.allclose(joined @ joined, joined, atol=1e-6 * float(joined.abs().amax()) ** 2):
            raise InputError(f"the factors {', '.join(names)} overlap; swap them one after another")
        return Factor(" + ".join(names), joined)

    def select(self, indices: Sequence[int] | NDArray[Any]) -> "Decomposition":
        """Some of the sequences, by indices or a mask, in this order; one may come several times."""
        try:
            chosen = np.arange(len(self))[np.asarray(indices) if len(indices) else slice(0)]
        except IndexError:
            wanted = f"sequences from 0 to {len(self) - 1}, or a mask of {len(self)}"
            raise InputError(f"expected {wanted}, got {list(indices)}") from None
        at = torch.from_numpy(chosen).to(self.z.device)
        mask = None if self.mask is None else self.mask[at]
        return replace(self, z=self.z[at], clips=self.clips.select(chosen), mask=mask)

    def swap(self, what: What, donor: Donors, amount: float = 1.0) -> "Decomposition":
        """Each sequence with `what` moved towards that of its donor; amount 1 replaces it.

        `donor` has a sequence of this set for each, or is a mapping {who receives: who gives}; nobody else changes.
        Where they differ in length, what both have is left.
        """
        if not math.isfinite(amount):
            raise InputError(f"expected a finite amount, got {amount}")
        givers = self._givers(donor)
        mask = None if self.mask is None else self.mask & self.mask[givers]
        return replace(self, z=swap(self.z, self.z[givers], self.factor(what), amount), mask=mask)

    def exchange(self, what: What, pairs: Sequence[tuple[int, int]], amount: float = 1.0) -> "Decomposition":
        """Both members of each pair with `what` moved towards the other's."""
        members = [member for pair in pairs for member in pair]
        if len(set(members)) < len(members):
            raise InputError(f"expected pairs that share nobody, got {list(pairs)}")
        return self.swap(what, {a: b for pair in pairs for a, b in (pair, pair[::-1])}, amount)

    def sample(
        self,
        what: What,
        generator: torch.Generator,
        weights: Weights = over_two,
    ) -> "Decomposition":
        """Each sequence with `what` replaced by a random convex combination over the set, see `numerics.weights`.

        Where they differ in length, what all that are mixed have is left.
        """
        mixture = sent(weights(len(self), generator).to(self.z.dtype), self.z.device)  # (n, n), rows sum to 1
        mixed = torch.einsum("ij,jtk->itk", mixture, self.z)
        mask = self.mask
        if mask is not None:
            missing = torch.einsum("ij,jt->it", mixture, (~mask).to(self.z)) > 0
            mask = mask & ~missing
        return replace(self, z=swap(self.z, mixed, self.factor(what)), mask=mask)

    def forecast(self, steps: int, given: int | None = None) -> "Decomposition":
        """The sequences (or only their first `given` frames) and what the operator says of the `steps` frames after."""
        lengths = torch.from_numpy(self.lengths).to(self.z.device)
        if given is not None:
            if not 1 <= given <= int(lengths.min()):
                raise InputError(f"expected given from 1 to {int(lengths.min())}, the shortest sequence, got {given}")
            lengths = torch.full_like(lengths, given)
        rows, time = torch.arange(len(self), device=self.z.device), int(lengths.max())
        future = self.operator.roll(self.z[rows, lengths - 1], steps)
        z = torch.cat([self.z[:, :time], torch.zeros_like(future)], 1)
        place = lengths.unsqueeze(1) + torch.arange(steps, device=self.z.device)
        z[rows.unsqueeze(1), place] = future
        inside = torch.arange(time + steps, device=self.z.device) < (lengths + steps).unsqueeze(1)
        mask = None if inside.all() else inside
        return replace(self, z=z if mask is None else torch.where(mask.unsqueeze(-1), z, 0.0), mask=mask)

    def decode(self) -> NDArray[Any]:
        """(n, time, ...) in the units the sequences came in, zero where there is no frame."""
        return torch.cat([some.cpu() for some in self.decoded()]).numpy()

    def decoded(self) -> Iterator[Tensor]:
        """What `decode` gives, a chunk (some, time, ...) after another, and on the device of the model."""
        at = 0
        for some in self.outputs():
            x = self.units.from_model(some)
            if self.mask is not None:
                missing = ~self.mask[at : at + len(x)]
                x = bits(x).masked_fill(missing.reshape(*missing.shape, *[1] * (x.ndim - 2)), 0).view(x.dtype)
            at += len(x)
            yield x

    @torch.no_grad()
    def outputs(self) -> Iterator[Tensor]:
        """Chunks of frames (some, time, ...) in the model's units, padding and all."""
        self.model.eval()
        shape = (self.z.shape[1], *self.clips.shape[2:])
        for some in self.z.split(at_once(self.z.device, shape)):  # type: ignore[no-untyped-call]
            yield self.model.decode(some)

    def rows(self) -> list[tuple[str, NDArray[Any]]]:
        """Each sequence decoded, without padding, under what is known of it."""
        both = zip(self.decode(), self.lengths, strict=True)
        return [(self.clips.title(i), x[:length]) for i, (x, length) in enumerate(both)]

    def _givers(self, donor: Donors) -> Tensor:
        """(n,) the donor of each sequence; an InputError unless they are sequences of this set."""
        last = len(self) - 1
        if isinstance(donor, Mapping):
            everyone = {*donor, *donor.values()}
            if not all(isinstance(_plain(who), int) and 0 <= who <= last for who in everyone):
                raise InputError(f"expected sequences from 0 to {last}, got {dict(donor)}")
            donor = [donor.get(i, i) for i in range(len(self))]
        givers = np.asarray(donor)
        if givers.dtype.kind not in "ui" or givers.shape != (len(self),) or ((givers < 0) | (givers > last)).any():
            wanted = f"{len(self)} donors from 0 to {last}, one for each sequence"
            raise InputError(f"expected {wanted}, got {givers}")
        return sent(torch.from_numpy(givers.astype(np.int64)), self.z.device)


def at_once(device: torch.device, shape: Sequence[int]) -> int:
    """How many sequences of `shape` (time, ...) go through a network at once on `device`."""
    return CHUNK if device.type == "cpu" else min(MOST, max(1, NUMBERS // math.prod(shape)))


def chunks(count: int, size: int | None = None) -> list[NDArray[np.int64]]:
    """The numbers below `count`, CHUNK at a time or `size`."""
    size = size or CHUNK
    return np.split(np.arange(count), range(size, count, size))


def mean_over_frames(z: Tensor, mask: Tensor | None) -> Tensor:
    """(n, time, k) -> (n, k): the mean over the frames that exist."""
    if mask is None:
        return z.mean(1)
    inside = mask.unsqueeze(-1)
    return torch.where(inside, z, 0.0).sum(1) / inside.sum(1)


def _plain(word: Any) -> Any:
    """A number out of an array is a number."""
    return word.item() if isinstance(word, np.generic | Tensor) else word
