"""what a set of sequences is: array, labels, splits, masks, units"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from diskoop.errors import InputError

Split = Literal["train", "val", "test", "all"]
SPLITS: tuple[Split, ...] = ("train", "val", "test", "all")


@dataclass(frozen=True)
class Units:
    """The user's numbers and the model's: user = model * scale + offset, in `dtype`."""

    scale: float | tuple[float, ...] = 1.0  # one for all, or one for each feature of a signal
    offset: float | tuple[float, ...] = 0.0
    dtype: str = "float32"

    def to_model(self, x: Tensor) -> Tensor:
        x = x if x.is_floating_point() else x.float()
        return (x - x.new_tensor(self.offset)) / x.new_tensor(self.scale)

    def from_model(self, x: Tensor) -> Tensor:
        x = x * x.new_tensor(self.scale) + x.new_tensor(self.offset)
        if self.dtype == "uint8":
            return x.round().clamp(0, 255).to(torch.uint8)
        return x.to(getattr(torch, self.dtype))


PIXELS = Units(scale=255.0, dtype="uint8")


@dataclass(frozen=True, eq=False)
class Sequences:
    """Sequences of one shape. Video is (n, time, channel, height, width) uint8, a signal (n, time, feature)."""

    source: NDArray[Any]  # (N, time, ...), possibly a memory map that a split reads only part of
    labels: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)  # name -> (n,) codes
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)  # name -> what each code means
    rows: NDArray[np.int64] | None = None  # (n,) which rows of `source`; None is all of them
    mask: NDArray[np.bool_] | None = None  # (n, time), true where a frame exists; None: everywhere
    units: Units = PIXELS
    name: str = "an array"

    def __post_init__(self) -> None:
        if self.source.ndim not in (3, 5):
            raise InputError(
                "expected video (n, time, channel, height, width) or a signal (n, time, feature), "
                f"got shape {self.source.shape} in {self.name}"
            )
        if self.source.shape[1] < 2:
            raise InputError(
                f"{self.name} has {self.source.shape[1]} frame a sequence: dynamics need at least 2, "
                f"got shape {self.source.shape}"
            )
        if len(self) == 0:
            raise InputError(f"{self.name} holds no sequences")
        if self.units.dtype == "uint8" and self.source.dtype != np.uint8:
            raise InputError(
                f"{self.name}: expected pixels as uint8 from 0 to 255, or units that say otherwise, "
                f"got {self.source.dtype}"
            )
        for label, codes in self.labels.items():
            if codes.shape != (len(self),):
                raise InputError(f"label {label!r} of {self.name}: expected {len(self)} codes, got shape {codes.shape}")
        if self.mask is not None and self.mask.shape != (len(self), self.source.shape[1]):
            expected = (len(self), self.source.shape[1])
            raise InputError(f"the mask of {self.name}: expected shape {expected}, got {self.mask.shape}")

    def __repr__(self) -> str:
        labels = f", labels {', '.join(self.labels)}" if self.labels else ""
        return f"Sequences({self.name}: {len(self)} x {tuple(self.shape[1:])} {self.source.dtype}{labels})"

    def __len__(self) -> int:
        return len(self.source) if self.rows is None else len(self.rows)

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, time, ...), without reading anything."""
        return (len(self), *self.source.shape[1:])

    @property
    def is_video(self) -> bool:
        return self.source.ndim == 5

    @cached_property
    def x(self) -> NDArray[Any]:
        """All of it, in memory where `rows` picks from a larger array; `take` reads a few sequences."""
        return self.source if self.rows is None else self.source[self.rows]

    def take(self, indices: NDArray[np.int64] | Sequence[int]) -> NDArray[Any]:
        """The sequences at `indices`, read when asked for."""
        return np.asarray(self.source[self._rows[indices]])

    def batch(self, indices: NDArray[np.int64], weight: Tensor) -> tuple[Tensor, Tensor | None]:
        """Those sequences in the model's units, and their mask, in the type and on the device of its `weight`."""
        x = torch.from_numpy(self.take(indices))
        x = x.to(weight.dtype) if x.is_floating_point() else x  # before it moves: MPS has no float64
        mask = None if self.mask is None else torch.from_numpy(self.mask[indices]).to(weight.device)
        return self.units.to_model(x.to(weight.device)).to(weight.dtype), mask

    def select(self, indices: NDArray[Any] | Sequence[int] | slice) -> "Sequences":
        """A smaller set, by indices, a mask or a slice; nothing is read."""
        everyone = np.arange(len(self))
        try:
            at = everyone[indices if isinstance(indices, slice) or len(indices) else slice(0)]
        except IndexError as error:
            raise InputError(f"cannot select from {len(self)} sequences: {error}") from None
        return replace(
            self,
            rows=self._rows[at],
            labels={name: codes[at] for name, codes in self.labels.items()},
            mask=None if self.mask is None else self.mask[at],
        )

    def label_text(self, index: int) -> str:
        """`hair bun, action walk left`: what is known of one sequence."""
        known = {name: (self.values.get(name), int(codes[index])) for name, codes in self.labels.items()}
        return ", ".join(f"{name} {code if words is None else words[code]}" for name, (words, code) in known.items())

    @cached_property
    def _rows(self) -> NDArray[np.int64]:
        return np.arange(len(self.source)) if self.rows is None else self.rows


def split_rows(counts: Mapping[str, int], split: Split) -> NDArray[np.int64]:
    """Which of the sequences (or characters) 0, 1, ... belong to `split`, when each takes so many in turn."""
    if split == "all":
        return np.arange(sum(counts.values()))
    before = list(counts)[: list(counts).index(split)]
    start = sum(counts[name] for name in before)
    return np.arange(start, start + counts[split])
