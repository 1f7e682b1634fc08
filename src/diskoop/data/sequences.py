"""what a set of sequences is: frames, labels, splits, masks, units"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from diskoop.errors import InputError, suggest

Split = Literal["train", "val", "test", "all"]
SPLITS: tuple[Split, ...] = ("train", "val", "test", "all")
PARTS = SPLITS[:3]  # what a code in `Sequences.parts` means
Array = NDArray[Any]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Units:
    """The user's numbers and the model's: user = model * scale + offset, in `dtype`."""

    scale: float | tuple[float, ...] = 1.0  # one for all, or one for each feature of a signal
    offset: float | tuple[float, ...] = 0.0
    dtype: str = "float32"
    features: tuple[str, ...] = ()  # what a table calls its columns
    rate: int | None = None  # samples a second of the sound whose log spectrogram this is; None: no sound

    def to_model(self, x: Tensor) -> Tensor:
        if self.offset == 0 and isinstance(self.scale, float | int):
            return x / self.scale  # pixels: bytes become float32 in the same pass
        x = x if x.is_floating_point() else x.float()
        return (x - _alike(self.offset, x)) / _alike(self.scale, x)

    def from_model(self, x: Tensor) -> Tensor:
        dtype: torch.dtype = getattr(torch, self.dtype)
        x = x.double() if dtype == torch.float64 else x  # first, or a large offset eats float32's precision
        x = x * _alike(self.scale, x) + _alike(self.offset, x)
        if dtype.is_floating_point:
            return x.to(dtype)
        span = torch.iinfo(dtype)
        return x.round_().clamp_(span.min, span.max).to(dtype)


def _alike(value: float | tuple[float, ...], x: Tensor) -> float | Tensor:
    """A number for each feature goes to where `x` is; one for all is there already."""
    return value if isinstance(value, float | int) else _laid_out(value, x.dtype, x.device)


@lru_cache(16)  # sent once: a GPU that is sent something stops for it
def _laid_out(value: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.tensor(value, dtype=dtype, device=device)


PIXELS = Units(scale=255.0, dtype="uint8")


@dataclass(frozen=True, eq=False)
class Sequences:
    """Sequences of frames. A frame of video is (channel, height, width), that of a signal (feature,).

    All frames lie end to end in one array, possibly a memory map: sequences of unequal length, windows of long clips
    and a split that reads only its share are then one thing, a start and a length.
    """

    frames: Array  # (total, ...)
    starts: Indices  # (n,) where in `frames` each sequence begins
    lengths: Indices  # (n,) how many frames it has
    labels: Mapping[str, Indices] = field(default_factory=dict)  # name -> (n,) codes
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)  # label or track -> what each code means
    units: Units = PIXELS
    name: str = "an array"
    parts: NDArray[np.int8] | None = None  # (n,) which of PARTS each belongs to; None: nobody said
    clips: Indices | None = None  # (n,) which clip each is a window of; None: each is a clip
    offsets: Indices | None = None  # (n,) at which frame of its clip it begins; None: the first
    clip_names: Sequence[str] = ()
    notes: tuple[str, ...] = ()  # what was left out or altered on the way here, in sentences
    listen: Callable[[str], NDArray[np.float32]] | None = None  # a clip's name -> its sound, where it comes from sound
    tracks: Mapping[str, Indices] = field(default_factory=dict)  # name -> (total,) a code a frame; -1: nobody said

    @classmethod
    def of(cls, x: Array, labels: Mapping[str, Indices] | None = None, **more: Any) -> "Sequences":
        """Sequences that have one length, given as an array (n, time, ...)."""
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
        for track, codes in self.tracks.items():
            if track in self.labels:
                raise InputError(f"{self.name} has a label and a track {track!r}; call one of them something else")
            if codes.shape != (total := len(self.frames),):
                raise InputError(
                    f"track {track!r} of {self.name}: expected a code for each of {total} frames, "
                    f"got shape {codes.shape}"
                )

    def __repr__(self) -> str:
        labels = f", labels {', '.join(self.labels)}" if self.labels else ""
        tracks = f", tracks {', '.join(self.tracks)}" if self.tracks else ""
        return f"Sequences({self.name}: {len(self)} x {tuple(self.shape[1:])} {self.frames.dtype}{labels}{tracks})"

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, time of the longest, ...), without reading anything."""
        return (len(self), int(self.lengths.max()), *self.frames.shape[1:])

    @property
    def is_video(self) -> bool:
        return self.frames.ndim == 4

    @property
    def mask(self) -> NDArray[np.bool_] | None:
        """(n, time), true where a frame exists; None where all sequences are as long as the longest."""
        return mask_of(self.lengths)

    @property
    def x(self) -> Array:
        """All of it, (n, time, ...), zeros behind what is shorter; read now, unless it lies in memory just so."""
        time = self.shape[1]
        if np.array_equal(self.starts, self.starts[0] + np.arange(len(self)) * time) and self.mask is None:
            return self.frames[self.starts[0] : self.starts[-1] + time].reshape(self.shape)
        return self.take(np.arange(len(self)))

    def take(self, indices: Indices | Sequence[int]) -> Array:
        """The sequences at `indices`, read when asked for, zeros behind those that are shorter than the longest."""
        return self._rows(self.frames, indices, behind=0)

    def track(self, name: str, indices: Indices | Sequence[int]) -> Indices:
        """The codes of a track frame by frame, (n, longest of `indices`), -1 behind those that are shorter."""
        if name not in self.tracks:
            known = suggest(name, self.tracks) if self.tracks else "it has none"
            raise InputError(f"{self.name} has no track {name!r}; {known}")
        return self._rows(self.tracks[name], indices, behind=-1)

    def _rows(self, column: Array, indices: Indices | Sequence[int], behind: int) -> Array:
        """What `column` (total, ...) holds for the sequences at `indices`, and `behind` the shorter ones."""
        starts, lengths = self.starts[indices], self.lengths[indices]
        longest = int(lengths.max()) if len(lengths) else 0
        native = column.dtype.newbyteorder("=")  # torch takes no other
        out = np.empty((len(starts), longest, *column.shape[1:]), native)
        for row, start, length in zip(out, starts, lengths, strict=True):
            row[:length] = column[start : start + length]
            row[length:] = behind
        return out

    def batch(self, indices: Indices, weight: Tensor) -> tuple[Tensor, Tensor | None]:
        """Those sequences in the model's units, and their mask, in the type and on the device of its `weight`."""
        return self.deliver(*self.fetch(indices, weight.dtype), weight)

    def fetch(self, indices: Indices, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
        """The first half of `batch`, for another thread to do: sequences and mask in memory, signals scaled."""
        x, mask = torch.from_numpy(self.take(indices)), mask_of(self.lengths[indices])
        if not self.is_video:  # in full precision: a large offset would eat float32's
            x = self.units.to_model(x.double()).to(dtype)
        elif x.is_floating_point():
            x = x.to(dtype)
        return x, None if mask is None else torch.from_numpy(mask)

    def deliver(self, x: Tensor, mask: Tensor | None, weight: Tensor) -> tuple[Tensor, Tensor | None]:
        """The second half: to where the model is. Pixels are scaled there, where it is quick."""
        x = sent(x, weight.device)
        x = self.units.to_model(x).to(weight.dtype) if self.is_video else x
        return x, None if mask is None else sent(mask, weight.device)

    def select(self, indices: NDArray[Any] | Sequence[int] | slice) -> "Sequences":
        """A smaller set, by indices, a mask or a slice; nothing is read."""
        everyone = np.arange(len(self))
        try:
            at = everyone[indices if isinstance(indices, slice) or len(indices) else slice(0)]
        except IndexError as error:
            raise InputError(f"cannot select from {len(self)} sequences: {error}") from None
        return replace(
            self,
            starts=self.starts[at],
            lengths=self.lengths[at],
            labels={name: codes[at] for name, codes in self.labels.items()},
            parts=None if self.parts is None else self.parts[at],
            # Without windows clip i is sequence i, which has a new number from now on.
            clips=at if self.clips is None else self.clips[at],
            offsets=None if self.offsets is None else self.offsets[at],
        )

    def count(self, split: Split) -> int:
        """How many sequences a split has."""
        if split == "all":
            return len(self)
        return 0 if self.parts is None else int((self.parts == PARTS.index(split)).sum())

    def part(self, split: Split) -> "Sequences":
        """The sequences of one split."""
        if split == "all":
            return self
        if self.parts is None or not self.count(split):
            raise InputError(f"{self.name} has no sequences to {_PURPOSES[split]}")
        return self.select(self.parts == PARTS.index(split))

    def clip_name(self, index: int) -> str:
        """What the clip is called that this sequence is, or is a window of."""
        clip = index if self.clips is None else int(self.clips[index])
        return self.clip_names[clip] if len(self.clip_names) else f"{self.name} {clip}"

    def stitch(self, x: Array, lengths: Indices | None = None) -> dict[str, Array]:
        """Sequences (n, time, ...) that stand for this set's -> whole clips by name; where windows overlap, their mean.

        `lengths` (n,) says how many frames of each are real, if not as many as this set's. A clip of which this set
        holds only some windows comes back from its first to its last one.
        """
        if x.shape[:2] != self.shape[:2]:
            raise InputError(f"expected {self.shape[0]} sequences of {self.shape[1]} frames to stitch, got {x.shape}")
        real = self.lengths if lengths is None else lengths
        clips = np.arange(len(self)) if self.clips is None else self.clips
        offsets = np.zeros(len(self), np.int64) if self.offsets is None else self.offsets
        whole = {}
        for clip in dict.fromkeys(clips.tolist()):
            members = np.flatnonzero(clips == clip)
            begins = offsets[members] - offsets[members].min()
            total = int((begins + real[members]).max())
            sums, times = np.zeros((total, *x.shape[2:])), np.zeros(total)
            for member, begin, length in zip(members, begins, real[members], strict=True):
                sums[begin : begin + length] += x[member, :length]
                times[begin : begin + length] += 1
            if not times.all():
                raise InputError(
                    f"{self.clip_name(int(members[0]))}: no window holds its frame {int(np.argmin(times))}, "
                    "so it cannot be stitched; select all of a clip's windows, with data.stride <= data.window"
                )
            mean = sums / times.reshape(-1, *[1] * (x.ndim - 2))
            whole[self.clip_name(int(members[0]))] = (np.rint(mean) if x.dtype.kind in "ui" else mean).astype(x.dtype)
        return whole

    def label_text(self, index: int) -> str:
        """`hair bun, action walk left`: what is known of one sequence."""
        known = {name: (self.values.get(name), int(codes[index])) for name, codes in self.labels.items()}
        return ", ".join(f"{name} {code if words is None else words[code]}" for name, (words, code) in known.items())

    def title(self, index: int) -> str:
        """What to write above a sequence: its labels, or else its name."""
        return self.label_text(index) or self.clip_name(index)


_PURPOSES = {"train": "train on", "val": "validate with", "test": "test on"}


def sent(x: Tensor, device: torch.device) -> Tensor:
    """`x` on `device`. A GPU takes it from pinned memory when it gets there, and nobody waits."""
    if device.type == "cuda" and not x.is_cuda:
        return x.pin_memory().to(device, non_blocking=True)
    return x.to(device)


def bits(x: Tensor) -> Tensor:
    """`x` as what has as many bits, to pick from and to fill: torch knows neither for uint16."""
    return x.view(torch.int16) if x.dtype == torch.uint16 else x


def mask_of(lengths: Indices) -> NDArray[np.bool_] | None:
    """(n, longest), true for the first `lengths` frames of each; None where all are equal."""
    longest = lengths.max()
    return None if (lengths == longest).all() else np.arange(longest) < lengths[:, None]


def windows(length: int, window: int, stride: int) -> Indices:
    """Where the windows begin that cover a clip: the last one ends with it, and a short clip is one window."""
    return np.append(np.arange(0, length - window, stride), max(length - window, 0))


def split_in_order(total: int, test: int, holdout: float) -> NDArray[np.int8]:
    """Which of PARTS each of `total` belongs to: those to train on first, then a share of `holdout`, then `test`."""
    validating = round(holdout * (total - test))
    return np.repeat(np.arange(3, dtype=np.int8), [total - test - validating, validating, test])


def split_groups(
    groups: Indices, holdout: float, test: float = 0.1, said: NDArray[np.int8] | None = None
) -> NDArray[np.int8]:
    """Which of PARTS each sequence belongs to, (n,). Those of one group (a subject, a clip) are never parted.

    A share `test` of the groups is tested on, and of the others a share of `holdout` validates; each share that is not
    0 gets a group at least. Where it is `said` who trains and who tests, only what was not said is drawn.
    """
    random = np.random.Generator(np.random.PCG64(0))
    parts = np.zeros(len(groups), np.int8) if said is None else said.copy()
    if said is None:
        parts[np.isin(groups, _some(groups, test, random))] = PARTS.index("test")
    training = parts == PARTS.index("train")
    if not (parts == PARTS.index("val")).any():
        parts[training & np.isin(groups, _some(groups[training], holdout, random))] = PARTS.index("val")
    elif holdout == 0:
        parts[parts == PARTS.index("val")] = PARTS.index("train")
    if not (parts == PARTS.index("train")).any():
        counts = [int((parts == part).sum()) for part in (1, 2)]
        raise InputError(
            f"nothing is left to train on: of {len(groups)} sequences in {len(np.unique(groups))} groups {counts[0]} "
            f"validate and {counts[1]} test; give more of them, or data.holdout=0 or data.test=0"
        )
    return parts


def _some(groups: Indices, share: float, random: np.random.Generator) -> Indices:
    shuffled: Indices = random.permutation(np.unique(groups))
    return shuffled[: max(1, round(share * len(shuffled))) if share else 0]
