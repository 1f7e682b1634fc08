"""sequences -> spectrum, coefficients, static and dynamic parts; swap, sample, forecast"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from diskoop.data.sequences import Sequences, Units, bit_view, to_device
from diskoop.errors import InputError, suggest
from diskoop.models.autoencoder import KoopmanAutoencoder
from diskoop.numerics.factors import Factor, swap
from diskoop.numerics.mixing import Weights, pair_weights
from diskoop.numerics.operator import Operator
from diskoop.numerics.spectrum import ModeOrder, Spectrum
from diskoop.parallel import apply

CHUNK = 64  # sequences that a network processes at once, so that memory does not grow with the set
GPU_ELEMENTS = 2**25  # elements of frames on a GPU, which idles between small chunks
GPU_SEQUENCES = 4096  # at most, because short signals have few elements but many activations

FactorLike = str | Sequence[str] | Sequence[int] | Factor  # a factor's name, several names, mode indices, or a factor
Donors = Sequence[int] | NDArray[Any] | Mapping[int, int]


def unknown_factor(name: str, known: Iterable[str], renamed: Mapping[str, str]) -> InputError:
    """The error for a name that no factor has: what it is called now, or the nearest one.

    Args:
        name: that was given.
        known: names of factors.
        renamed: names that factors had before -> those they have now.

    Example:
        >>> str(unknown_factor("factor-3", ["hair", "factor-4"], {"factor-3": "hair"}))
        "unknown factor 'factor-3'; it is now called 'hair'"
    """
    hint = f"it is now called {renamed[name]!r}" if name in renamed else suggest(name, known)
    return InputError(f"unknown factor {name!r}; {hint}")


@dataclass(frozen=True, eq=False)
class Decomposition:
    """Latents of sequences with the spectrum of an operator and the factors to edit them by.

    Edits (`swap`, `exchange`, `sample`, `forecast`) return a new decomposition; `decode` brings one back to frames.

    Example:
        >>> brief = {"model": {"k": 6, "h": 8}, "spectrum": {"static": 2}, "train": {"epochs": 1}}
        >>> run = diskoop.train("oscillators", folder / "run", **brief)
        >>> parts = run.decompose(run.data("test").select([0, 1]))
        >>> parts.coefficients.shape, list(parts.factors)
        (torch.Size([2, 24, 6]), ['static', 'dynamic'])
        >>> parts.swap("static", donor=[1, 0]).decode().shape
        (2, 24, 8)
    """

    model: KoopmanAutoencoder
    operator: Operator
    spectrum: Spectrum
    static_modes: Tensor  # (k,) boolean: which modes of the spectrum are static
    z: Tensor  # (n, time, k)
    factors: dict[str, Factor]  # "static", "dynamic" and the discovered ones
    clips: Sequences  # the encoded sequences: names, labels and units; edits do not change it
    mask: Tensor | None = None  # (n, time), true where a frame exists; None: everywhere
    renamed: Mapping[str, str] = field(default_factory=dict)  # names that factors had before -> those they have now

    def __repr__(self) -> str:
        count, time, k = self.z.shape
        return f"Decomposition({count} sequences of {time} frames, k={k}, factors {', '.join(self.factors)})"

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
        factors: Mapping[str, Factor] | None = None,
        renamed: Mapping[str, str] | None = None,
    ) -> "Decomposition":
        """The decomposition of latents under an operator.

        Args:
            model: decodes the latents.
            operator: its spectrum divides the latents into modes.
            clips: the sequences that were encoded.
            z: their latents, (n, time, k).
            static: number of static eigenvalues.
            order: eigenvalues -> sort key; the smallest are static.
            mask: which frames exist, (n, time).
            factors: in addition to "static" and "dynamic".
            renamed: names that factors had before -> those they have now, for messages.
        """
        spectrum = Spectrum.of(operator.matrix, order)
        static_modes = spectrum.static(static)
        projector = spectrum.projector(static_modes)
        all_factors = {
            "static": Factor("static", projector),
            "dynamic": Factor("dynamic", torch.eye(len(projector)).to(projector) - projector),
            **(factors or {}),
        }
        # Discovered factors come from a file; all projectors go to the device of the latents.
        like = projector.to(z.device)
        moved = {name: replace(factor, projector=factor.projector.to(like)) for name, factor in all_factors.items()}
        return cls(model, operator, spectrum, static_modes, z, moved, clips, mask, renamed or {})

    def __len__(self) -> int:
        return len(self.z)

    @property
    def units(self) -> Units:
        """Units of the frames that `decode` returns."""
        return self.clips.units

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(n,): number of frames of each sequence."""
        count, time = self.z.shape[:2]
        lengths: NDArray[np.int64] = np.full(count, time) if self.mask is None else self.mask.sum(1).cpu().numpy()
        return lengths

    @cached_property
    def coefficients(self) -> Tensor:
        """(n, time, k) complex: coefficients of the modes."""
        return self.spectrum.project(self.z)

    @property
    def static(self) -> Tensor:
        """(n, time, k): the static part of the latents."""
        return self.factors["static"].part(self.z)

    @property
    def dynamic(self) -> Tensor:
        """(n, time, k): the dynamic part of the latents."""
        return self.factors["dynamic"].part(self.z)

    def code(self, factor: FactorLike) -> Tensor:
        """(n, k) float64: the part of the latents that belongs to `factor`, averaged over time."""
        return mean_over_frames(self.factor(factor).part(self.z.double()), self.mask)

    def factor(self, selection: FactorLike) -> Factor:
        """A factor by name, the sum of several, or that of explicit mode indices."""
        if isinstance(selection, Factor):
            return selection
        items: list[Any] = [selection] if isinstance(selection, str) else [_to_python(item) for item in selection]
        indices = [item for item in items if isinstance(item, int)]
        names = [item for item in items if isinstance(item, str)]
        if len(indices) + len(names) < len(items) or (indices and names):
            raise InputError(f"expected factor names or mode indices, got {items}")
        if indices:
            return Factor.from_modes(f"modes {indices}", self.spectrum, self.spectrum.select(indices))
        for name in names:
            if name not in self.factors:
                raise unknown_factor(name, self.factors, self.renamed)
        if len(set(names)) == 1:
            return self.factors[names[0]]
        zero = torch.zeros_like(self.factors["static"].projector)
        total = sum((self.factors[name].projector.to(zero) for name in dict.fromkeys(names)), start=zero)
        if not torch.allclose(total @ total, total, atol=1e-6 * float(total.abs().amax()) ** 2):
            raise InputError(f"the factors {', '.join(names)} overlap; swap them one after another")
        return Factor(" + ".join(names), total)

    def select(self, indices: Sequence[int] | NDArray[Any]) -> "Decomposition":
        """Some of the sequences, by indices or a mask; indices may repeat."""
        try:
            selected = np.arange(len(self))[np.asarray(indices) if len(indices) else slice(0)]
        except IndexError:
            wanted = f"sequences from 0 to {len(self) - 1}, or a mask of {len(self)}"
            raise InputError(f"expected {wanted}, got {list(indices)}") from None
        rows = torch.from_numpy(selected).to(self.z.device)
        mask = None if self.mask is None else self.mask[rows]
        return replace(self, z=self.z[rows], clips=self.clips.select(selected), mask=mask)

    def swap(self, factor: FactorLike, donor: Donors, amount: float = 1.0) -> "Decomposition":
        """Each sequence with `factor` moved towards that of its donor.

        Args:
            factor: a name, several names, mode indices or a Factor.
            donor: the index of each sequence's donor, or a mapping {receiver: donor}; others do not change.
            amount: 0 changes nothing, 1 replaces, more extrapolates.

        Returns:
            A decomposition with the frames that receiver and donor both have.
        """
        if not math.isfinite(amount):
            raise InputError(f"expected a finite amount, got {amount}")
        donors = self._donor_indices(donor)
        mask = None if self.mask is None else self.mask & self.mask[donors]
        return replace(self, z=swap(self.z, self.z[donors], self.factor(factor), amount), mask=mask)

    def exchange(self, factor: FactorLike, pairs: Sequence[tuple[int, int]], amount: float = 1.0) -> "Decomposition":
        """Both members of each pair with `factor` moved towards the other's."""
        members = [member for pair in pairs for member in pair]
        if len(set(members)) < len(members):
            raise InputError(f"expected pairs that do not share a sequence, got {list(pairs)}")
        return self.swap(factor, {a: b for pair in pairs for a, b in (pair, pair[::-1])}, amount)

    def sample(
        self,
        factor: FactorLike,
        generator: torch.Generator,
        weights: Weights = pair_weights,
    ) -> "Decomposition":
        """Each sequence with `factor` replaced by a random convex combination over the set.

        Args:
            factor: a name, several names, mode indices or a Factor.
            generator: of the weights.
            weights: over two sequences or over all, see `numerics.mixing`.

        Returns:
            A decomposition with the frames that all sequences of a mixture have.
        """
        return self.mix(factor, weights(len(self), generator))

    def mix(self, factor: FactorLike, mixture: Tensor) -> "Decomposition":
        """Each sequence with `factor` replaced by a weighted mean over the set.

        Args:
            factor: a name, several names, mode indices or a Factor.
            mixture: (n, n), the weights of each sequence's donors, which sum to 1.

        Returns:
            A decomposition with the frames that all sequences of a mixture have.
        """
        mixture = to_device(mixture.to(self.z.dtype), self.z.device)
        mixed = torch.einsum("ij,jtk->itk", mixture, self.z)
        mask = self.mask
        if mask is not None:
            missing = torch.einsum("ij,jt->it", mixture, (~mask).to(self.z)) > 0
            mask = mask & ~missing
        return replace(self, z=swap(self.z, mixed, self.factor(factor)), mask=mask)

    def forecast(self, steps: int, observed: int | None = None) -> "Decomposition":
        """The sequences continued by the operator.

        Args:
            steps: frames to add.
            observed: number of frames to start from, the first of each sequence; None: all.
        """
        lengths = torch.from_numpy(self.lengths).to(self.z.device)
        if observed is not None:
            if not 1 <= observed <= (shortest := int(lengths.min())):
                raise InputError(f"expected observed from 1 to {shortest}, the shortest sequence, got {observed}")
            lengths = torch.full_like(lengths, observed)
        rows, time = torch.arange(len(self), device=self.z.device), int(lengths.max())
        future = self.operator.rollout(self.z[rows, lengths - 1], steps)
        z = torch.cat([self.z[:, :time], torch.zeros_like(future)], 1)
        frame = lengths.unsqueeze(1) + torch.arange(steps, device=self.z.device)
        z[rows.unsqueeze(1), frame] = future
        exists = torch.arange(time + steps, device=self.z.device) < (lengths + steps).unsqueeze(1)
        mask = None if exists.all() else exists
        return replace(self, z=z if mask is None else torch.where(mask.unsqueeze(-1), z, 0.0), mask=mask)

    def decode(self) -> NDArray[Any]:
        """Frames (n, time, ...) in the units of the data, zero where there is no frame."""
        return torch.cat([chunk.cpu() for chunk in self.decoded()]).numpy()

    def decoded(self) -> Iterator[Tensor]:
        """`decode` in chunks (count, time, ...), on the device of the latents."""
        start = 0
        for output in self.outputs():
            x = self.units.from_model(output)
            if self.mask is not None:
                missing = ~self.mask[start : start + len(x)]
                x = bit_view(x).masked_fill(missing.reshape(*missing.shape, *[1] * (x.ndim - 2)), 0).view(x.dtype)
            start += len(x)
            yield x

    def outputs(self) -> Iterator[Tensor]:
        """Decoded chunks (count, time, ...) in the model's units, including padding."""
        self.model.eval()
        shape = (self.z.shape[1], *self.clips.shape[2:])
        device = next(self.model.parameters(), self.z).device  # on MPS not that of the latents, which are float64
        chunks = self.z.split(chunk_size(device, shape))  # type: ignore[no-untyped-call]
        for x in apply(self.model, "decode", ([z.to(device)] for z in chunks)):
            yield x.to(self.z.device)

    def original(self, index: int) -> NDArray[Any]:
        """Frames (time, ...) of a sequence as it was given, whatever was edited."""
        x: NDArray[Any] = self.clips.read([index])[0]
        return x

    def rows(self) -> list[tuple[str, NDArray[Any]]]:
        """(title, frames) of each sequence, decoded, without padding."""
        sequences = zip(self.decode(), self.lengths, strict=True)
        return [(self.clips.title(i), x[:length]) for i, (x, length) in enumerate(sequences)]

    def _donor_indices(self, donor: Donors) -> Tensor:
        """(n,) the donor of each sequence."""
        last = len(self) - 1
        if isinstance(donor, Mapping):
            indices = {*donor, *donor.values()}
            if not all(isinstance(_to_python(index), int) and 0 <= index <= last for index in indices):
                raise InputError(f"expected sequences from 0 to {last}, got {dict(donor)}")
            donor = [donor.get(i, i) for i in range(len(self))]
        donors = np.asarray(donor)
        if donors.dtype.kind not in "ui" or donors.shape != (len(self),) or ((donors < 0) | (donors > last)).any():
            wanted = f"{len(self)} donors from 0 to {last}, one for each sequence"
            raise InputError(f"expected {wanted}, got {donors}")
        return to_device(torch.from_numpy(donors.astype(np.int64)), self.z.device)


def chunk_size(device: torch.device, shape: Sequence[int]) -> int:
    """The number of sequences of `shape` (time, ...) that a network on `device` processes at once."""
    return CHUNK if device.type == "cpu" else min(GPU_SEQUENCES, max(1, GPU_ELEMENTS // math.prod(shape)))


def chunks(count: int, size: int | None = None) -> list[NDArray[np.int64]]:
    """The indices below `count` in chunks of `size`, by default CHUNK."""
    size = size or CHUNK
    return np.split(np.arange(count), range(size, count, size))


def mean_over_frames(z: Tensor, mask: Tensor | None) -> Tensor:
    """(n, time, k) -> (n, k): the mean over the frames that exist."""
    if mask is None:
        return z.mean(1)
    exists = mask.unsqueeze(-1)
    return torch.where(exists, z, 0.0).sum(1) / exists.sum(1)


def _to_python(value: Any) -> Any:
    """The Python number of a NumPy or PyTorch scalar."""
    return value.item() if isinstance(value, np.generic | Tensor) else value
