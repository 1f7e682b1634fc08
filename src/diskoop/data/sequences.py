"""Sequences, the data set: frames, labels, splits, masks, units"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from diskoop.errors import InputError, suggest

SplitName = Literal["train", "val", "test", "all"]
SPLITS: tuple[SplitName, ...] = ("train", "val", "test", "all")
SPLIT_NAMES = SPLITS[:3]  # the meaning of a code in `Sequences.split_codes`
Array = NDArray[Any]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Units:
    """The linear map between the user's values and the model's: user = model * scale + offset, stored as `dtype`.

    Example:
        >>> PIXELS.to_model(torch.tensor([0, 255], dtype=torch.uint8))
        tensor([0., 1.])
        >>> PIXELS.from_model(torch.tensor([0.5, 2.0]))
        tensor([128, 255], dtype=torch.uint8)
    """

    scale: float | tuple[float, ...] = 1.0  # one for all, or one for each feature of a signal
    offset: float | tuple[float, ...] = 0.0
    dtype: str = "float32"
    features: tuple[str, ...] = ()  # names of the features of a signal, such as a table's columns
    rate: int | None = None  # sample rate of the audio whose log spectrogram this is; None: not audio

    def feature_names(self, count: int) -> tuple[str, ...]:
        """Names of `count` features: `features`, or where they have none `feature 1` and so on."""
        return self.features or tuple(f"feature {number}" for number in range(1, count + 1))

    def to_model(self, x: Tensor) -> Tensor:
        """Frames as the model sees them."""
        if self.offset == 0 and isinstance(self.scale, float | int):
            return x / self.scale  # pixels: bytes become float32 in the same pass
        x = x if x.is_floating_point() else x.float()
        return (x - _as_operand(self.offset, x)) / _as_operand(self.scale, x)

    def from_model(self, x: Tensor) -> Tensor:
        """The way back: what the model decodes, in the data's own units and dtype."""
        dtype: torch.dtype = getattr(torch, self.dtype)
        x = x.double() if dtype == torch.float64 else x  # first, or a large offset eats float32's precision
        x = x * _as_operand(self.scale, x) + _as_operand(self.offset, x)
        if dtype.is_floating_point:
            return x.to(dtype)
        info = torch.iinfo(dtype)
        return x.round_().clamp_(info.min, info.max).to(dtype)


def _as_operand(value: float | tuple[float, ...], x: Tensor) -> float | Tensor:
    """A number as it is; numbers per feature as a tensor of the dtype and on the device of `x`."""
    return value if isinstance(value, float | int) else _to_tensor(value, x.dtype, x.device)


@lru_cache(16)  # every copy to a GPU synchronises with it, so copy once
def _to_tensor(value: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.tensor(value, dtype=dtype, device=device)


PIXELS = Units(scale=255.0, dtype="uint8")


@dataclass(frozen=True, eq=False)
class Sequences:
    """A data set of n sequences of frames: (channel, height, width) of video, (feature,) of a signal.

    The frames of all sequences are concatenated in one array, possibly a memory map. A sequence is a start and a
    length in it, so unequal lengths, windows of long clips and splits need no copy; frames are read when asked for.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(10, 24, 3))  # (n, time, feature)
        >>> data = Sequences.of(x, {"level": np.arange(10) % 2}, units=Units(dtype="float64"), name="series")
        >>> data
        Sequences(series: 10 x (24, 3) float64, labels level)
        >>> data.select([3, 7]).read([0]).shape
        (1, 24, 3)
    """

    frames: Array  # (total, ...)
    starts: Indices  # (n,) index in `frames` of each sequence's first frame
    lengths: Indices  # (n,) number of frames
    labels: Mapping[str, Indices] = field(default_factory=dict)  # name -> (n,) codes
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)  # label or frame label -> meaning of each code
    units: Units = PIXELS
    name: str = "an array"
    split_codes: NDArray[np.int8] | None = None  # (n,) index into SPLIT_NAMES; None: the set is not split
    clips: Indices | None = None  # (n,) the clip that each is a window of; None: each is a clip of its own
    offsets: Indices | None = None  # (n,) first frame inside that clip; None: 0
    clip_names: Sequence[str] = ()
    notes: tuple[str, ...] = ()  # sentences about what was left out or altered while loading
    load_audio: Callable[[str], NDArray[np.float32]] | None = None  # clip name -> waveform, where clips are audio
    frame_labels: Mapping[str, Indices] = field(default_factory=dict)  # name -> (total,) codes; -1: unknown

    @classmethod
    def of(cls, x: Array, labels: Mapping[str, Indices] | None = None, **more: Any) -> "Sequences":
        """A data set from one array.

        Args:
            x: video (n, time, channel, height, width) or a signal (n, time, feature).
            labels: name -> codes, (n,).
            more: other fields of the class, and `lengths` (n,) where sequences are shorter than `time`.

        Example:
            >>> Sequences.of(np.zeros((2, 8, 3, 32, 32), np.uint8)).shape
            (2, 8, 3, 32, 32)
        """
        name = more.get("name", cls.name)
        if x.ndim not in (3, 5):
            raise InputError(
                "expected video (n, time, channel, height, width) or a signal (n, time, feature), "
                f"got shape {x.shape} in {name}"
            )
        count, time = x.shape[:2]
        lengths = more.pop("lengths", np.full(count, time))
        if lengths.shape != (count,) or not ((lengths >= 1) & (lengths <= time)).all():
            raise InputError(f"the lengths of {name}: expected {count} from 1 to {time}, got {lengths}")
        return cls(x.reshape(count * time, *x.shape[2:]), np.arange(count) * time, lengths, labels or {}, **more)

    def __post_init__(self) -> None:
        if len(self) == 0:
            raise InputError(f"{self.name} holds no sequences")
        if self.frames.ndim not in (2, 4):
            raise InputError(
                f"expected frames (channel, height, width) or (feature,), got {self.frames.shape[1:]} in {self.name}"
            )
        if self.lengths.min() < 2:
            first = int(np.argmin(self.lengths))
            raise InputError(
                f"{self.name} has {self.lengths[first]} frame in sequence {first}: dynamics need at least 2"
            )
        if self.units.dtype == "uint8" and self.frames.dtype != np.uint8:
            raise InputError(
                f"{self.name}: expected pixels as uint8 from 0 to 255, or units that say otherwise, "
                f"got {self.frames.dtype}"
            )
        for label, codes in self.labels.items():
            if codes.shape != (len(self),):
                raise InputError(f"label {label!r} of {self.name}: expected {len(self)} codes, got shape {codes.shape}")
        for label, codes in self.frame_labels.items():
            if label in self.labels:
                raise InputError(f"{self.name} has a label and a frame label {label!r}; rename one of them")
            if codes.shape != (total := len(self.frames),):
                raise InputError(
                    f"frame label {label!r} of {self.name}: expected a code for each of {total} frames, "
                    f"got shape {codes.shape}"
                )

    def __repr__(self) -> str:
        labels = f", labels {', '.join(self.labels)}" if self.labels else ""
        frame_labels = f", frame labels {', '.join(self.frame_labels)}" if self.frame_labels else ""
        return (
            f"Sequences({self.name}: {len(self)} x {tuple(self.shape[1:])} {self.frames.dtype}{labels}{frame_labels})"
        )

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, longest length, ...); nothing is read."""
        return (len(self), int(self.lengths.max()), *self.frames.shape[1:])

    @property
    def is_video(self) -> bool:
        """Whether frames are pictures, (channel, height, width)."""
        return self.frames.ndim == 4

    @property
    def clip_count(self) -> int:
        """Number of clips that the sequences are, or are windows of."""
        return len(self) if self.clips is None else len(np.unique(self.clips))

    @property
    def is_series(self) -> bool:
        """Whether frames are features of their own, each perhaps in its own unit: neither video nor sound."""
        return not self.is_video and self.units.rate is None

    @property
    def mask(self) -> NDArray[np.bool_] | None:
        """(n, time), true where a frame exists; None where all sequences are as long as the longest."""
        return length_mask(self.lengths)

    @property
    def x(self) -> Array:
        """All sequences, (n, time, ...), shorter ones padded with zeros; a view where the frames already lie so."""
        time = self.shape[1]
        if np.array_equal(self.starts, self.starts[0] + np.arange(len(self)) * time) and self.mask is None:
            return self.frames[self.starts[0] : self.starts[-1] + time].reshape(self.shape)
        return self.read(np.arange(len(self)))

    def read(self, indices: Indices | Sequence[int]) -> Array:
        """The sequences at `indices`, (len(indices), longest of them, ...), padded with zeros."""
        return self._rows(self.frames, indices, padding=0)

    def frame_label(self, name: str, indices: Indices | Sequence[int]) -> Indices:
        """Codes of a frame label, (len(indices), longest of them), padded with -1."""
        if name not in self.frame_labels:
            known = suggest(name, self.frame_labels) if self.frame_labels else "it has none"
            raise InputError(f"{self.name} has no frame label {name!r}; {known}")
        return self._rows(self.frame_labels[name], indices, padding=-1)

    def _rows(self, column: Array, indices: Indices | Sequence[int], padding: int) -> Array:
        """The rows of `column` (total, ...) that belong to the sequences at `indices`, padded to one length."""
        starts, lengths = self.starts[indices], self.lengths[indices]
        longest = int(lengths.max()) if len(lengths) else 0
        native = column.dtype.newbyteorder("=")  # torch supports no other byte order
        out = np.empty((len(starts), longest, *column.shape[1:]), native)
        for row, start, length in zip(out, starts, lengths, strict=True):
            row[:length] = column[start : start + length]
            row[length:] = padding
        return out

    def batch(self, indices: Indices, weight: Tensor) -> tuple[Tensor, Tensor | None]:
        """Sequences in the model's units and their mask, with the dtype and device of the model's `weight`.

        Returns:
            x (len(indices), time, ...), and the mask (len(indices), time) or None where all have one length.
        """
        return self.move_batch(*self.read_batch(indices, weight.dtype), weight)

    def read_batch(self, indices: Indices, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
        """First half of `batch`, safe in a reader thread: x and mask in host memory, signals already scaled."""
        x, mask = torch.from_numpy(self.read(indices)), length_mask(self.lengths[indices])
        if not self.is_video:  # in double precision: a large offset would eat float32's
            x = self.units.to_model(x.double()).to(dtype)
        elif x.is_floating_point():
            x = x.to(dtype)
        return x, None if mask is None else torch.from_numpy(mask)

    def move_batch(self, x: Tensor, mask: Tensor | None, weight: Tensor) -> tuple[Tensor, Tensor | None]:
        """Second half of `batch`: to the device of `weight`. Pixels travel as bytes and are scaled there."""
        x = to_device(x, weight.device)
        x = self.units.to_model(x).to(weight.dtype) if self.is_video else x
        return x, None if mask is None else to_device(mask, weight.device)

    def select(self, indices: NDArray[Any] | Sequence[int] | slice) -> "Sequences":
        """A subset by indices, a boolean mask or a slice; nothing is read."""
        try:
            if not isinstance(indices, slice):  # a tuple would index dimensions, an empty list has no integer dtype
                indices = np.asarray(indices) if len(indices) else slice(0)
            at = np.arange(len(self))[indices]
        except IndexError as error:
            raise InputError(f"cannot select from {len(self)} sequences: {error}") from None
        return replace(
            self,
            starts=self.starts[at],
            lengths=self.lengths[at],
            labels={name: codes[at] for name, codes in self.labels.items()},
            split_codes=None if self.split_codes is None else self.split_codes[at],
            # Without windows clip i is sequence i, whose index changes here.
            clips=at if self.clips is None else self.clips[at],
            offsets=None if self.offsets is None else self.offsets[at],
        )

    def split_size(self, split: SplitName) -> int:
        """Number of sequences in a split."""
        if split == "all":
            return len(self)
        return 0 if self.split_codes is None else int((self.split_codes == SPLIT_NAMES.index(split)).sum())

    def split(self, split: SplitName) -> "Sequences":
        """The sequences of one split."""
        if split not in SPLITS:
            raise InputError(f"unknown split {split!r}; {suggest(split, SPLITS)}")
        if split == "all":
            return self
        if self.split_codes is None or not self.split_size(split):
            raise InputError(f"{self.name} has no sequences to {_PURPOSES[split]}")
        return self.select(self.split_codes == SPLIT_NAMES.index(split))

    def clip_name(self, index: int) -> str:
        """Name of the clip that the sequence is, or is a window of."""
        clip = index if self.clips is None else int(self.clips[index])
        return self.clip_names[clip] if len(self.clip_names) else f"{self.name} {clip}"

    def stitch(self, x: Array, lengths: Indices | None = None) -> dict[str, Array]:
        """Join windows into whole clips; overlapping windows are averaged.

        A clip of which this set holds only some windows spans its first to its last one. Frames that are missing in the
        user's files (a gap in a table) are NaN.

        Args:
            x: one array for this set's sequences, (n, time, ...), such as their reconstructions.
            lengths: valid frames of each, (n,); this set's own by default.

        Returns:
            Clip name -> (frames, ...).

        Example:
            >>> places = {"clips": np.array([0, 0]), "offsets": np.array([0, 2])}
            >>> data = Sequences.of(np.ones((2, 4, 3)), units=Units(), **places)
            >>> {name: clip.shape for name, clip in data.stitch(data.x).items()}
            {'an array 0': (6, 3)}
        """
        if x.shape[:2] != self.shape[:2]:
            raise InputError(f"expected {self.shape[0]} sequences of {self.shape[1]} frames to stitch, got {x.shape}")
        valid = self.lengths if lengths is None else lengths
        clips = np.arange(len(self)) if self.clips is None else self.clips
        offsets = np.zeros(len(self), np.int64) if self.offsets is None else self.offsets
        whole = {}
        for clip in dict.fromkeys(clips.tolist()):
            members = np.flatnonzero(clips == clip)
            begins = offsets[members] - offsets[members].min()
            total = int((begins + valid[members]).max())
            sums, counts = np.zeros((total, *x.shape[2:])), np.zeros(total)
            for member, begin, length in zip(members, begins, valid[members], strict=True):
                sums[begin : begin + length] += x[member, :length]
                counts[begin : begin + length] += 1
            holes = np.flatnonzero(counts == 0)
            if len(holes) and not self._are_missing(self.starts[members[0]] - begins[0] + holes):
                raise InputError(
                    f"{self.clip_name(int(members[0]))}: no window holds its frame {holes[0]}, "
                    "so it cannot be stitched; select all of a clip's windows, with data.stride <= data.window"
                )
            counts[holes] = np.nan
            mean = sums / counts.reshape(-1, *[1] * (x.ndim - 2))
            whole[self.clip_name(int(members[0]))] = (np.rint(mean) if x.dtype.kind in "ui" else mean).astype(x.dtype)
        return whole

    def _are_missing(self, indices: Indices) -> bool:
        """Whether these frames of a signal are missing in the user's files: NaN, and in no sequence."""
        is_signal = not self.is_video and self.frames.dtype.kind == "f"
        return is_signal and bool(np.isnan(self.frames[indices]).any(1).all())

    def window(self, index: int) -> tuple[int, int] | None:
        """First and last frame inside its clip of a sequence, where sequences are windows."""
        if self.offsets is None or not self.offsets.any():
            return None
        first = int(self.offsets[index])
        return first, first + int(self.lengths[index]) - 1

    def sequence_name(self, index: int) -> str:
        """Name of a sequence's clip, with its first and last frame where it is a window: `walk.mp4 [16-31]`."""
        window = self.window(index)
        return self.clip_name(index) + ("" if window is None else f" [{window[0]}-{window[1]}]")

    def label_values(self, index: int) -> dict[str, str]:
        """The labels of one sequence: name -> value in words."""
        return {name: self.value_name(name, codes[index]) for name, codes in self.labels.items()}

    def value_name(self, label: str, code: int) -> str:
        """A value of a label in words, or its code where values have no names."""
        values = self.values.get(label)
        return str(int(code)) if values is None else str(values[int(code)])

    def label_text(self, index: int) -> str:
        """The labels of one sequence in words, such as `hair bun, action walk left`."""
        return ", ".join(f"{name} {value}" for name, value in self.label_values(index).items())

    def title(self, index: int) -> str:
        """A caption: the name and the labels of a sequence, such as `walk.mp4 [16-31]: action walk`."""
        return ": ".join(filter(None, (self.sequence_name(index), self.label_text(index))))


_PURPOSES = {"train": "train on", "val": "validate with", "test": "test on"}


def to_device(x: Tensor, device: torch.device) -> Tensor:
    """`x` on `device`; to a GPU through pinned memory, without waiting for the copy."""
    if device.type == "cuda" and not x.is_cuda:
        return x.pin_memory().to(device, non_blocking=True)
    return x.to(device)


def bit_view(x: Tensor) -> Tensor:
    """uint16 viewed as int16, since torch neither indexes nor fills uint16; anything else unchanged."""
    return x.view(torch.int16) if x.dtype == torch.uint16 else x


def length_mask(lengths: Indices) -> NDArray[np.bool_] | None:
    """(n, longest), true for the first `lengths` frames of each; None where all are equal.

    Example:
        >>> length_mask(np.array([1, 2]))
        array([[ True, False],
               [ True,  True]])
    """
    longest = lengths.max()
    return None if (lengths == longest).all() else np.arange(longest) < lengths[:, None]
