"""how far ahead a forecast holds, beside holding the last frame and plain DMD"""

from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from diskoop.analysis.decomposition import Decomposition, chunks
from diskoop.data.sequences import Indices, Sequences, Units
from diskoop.errors import InputError
from diskoop.numerics.operator import Operator, SnapshotQR

SAMPLE = 1000  # frames at most whose singular vectors are DMD's basis, so that a large set costs what a small one does

Curve = NDArray[np.float64]  # (steps,)


class Decomposer(Protocol):
    """What takes sequences apart: a run, of which no more is needed here."""

    def decompose(self, clips: Sequences, /) -> Decomposition: ...


@dataclass(frozen=True, eq=False)
class Dmd:
    """Dynamic mode decomposition of the frames themselves: their largest directions, and one operator between them."""

    basis: Tensor  # (features of a frame, rank) float64, orthonormal columns
    operator: Operator  # (rank, rank): carries a frame, seen in the basis, to the next
    frame: tuple[int, ...]  # the shape of one
    units: Units

    @property
    def rank(self) -> int:
        return self.basis.shape[1]

    def forecast(self, x: NDArray[Any], steps: int) -> NDArray[Any]:
        """Frames (n, given, ...) -> the `steps` after the last of them, (n, steps, ...), both in the user's units."""
        if x.ndim < 2 or x.shape[2:] != self.frame or not x.shape[1]:
            raise InputError(f"expected frames (n, given, {', '.join(map(str, self.frame))}), got {x.shape}")
        last = _in_model_units(x[:, -1], self.units) @ self.basis  # (n, rank): DMD knows no past but this
        future = self.operator.roll(last, steps) @ self.basis.T  # (n, steps, features)
        frames: NDArray[Any] = self.units.from_model(future.reshape(len(x), steps, *self.frame)).numpy()
        return frames


def fit_dmd(clips: Sequences, rank: int, generator: torch.Generator) -> Dmd:
    """Plain DMD with `rank` directions over all sequences, in the model's units; no mean is taken off.

    The directions are those of at most SAMPLE frames, drawn with `generator` where there are more.
    """
    sample = _in_model_units(_some_pasts(clips, generator), clips.units)  # (frames, features)
    if not 1 <= rank <= min(sample.shape):
        raise InputError(
            f"expected a rank from 1 to {min(sample.shape)}, as {clips.name} has {sample.shape[1]} numbers a frame and "
            f"{sample.shape[0]} frames are looked at, got {rank}"
        )
    if not torch.isfinite(sample).all():
        raise InputError(f"cannot fit DMD: the frames of {clips.name} hold NaN or infinity")
    basis = torch.linalg.svd(sample, full_matrices=False)[2][:rank].T.contiguous()
    snapshots = reduce(SnapshotQR.__add__, (_snapshots(clips, indices, basis) for indices in chunks(len(clips))))
    operator = replace(snapshots.solve(), source=f"{clips.name}, {len(clips)} sequences")
    return Dmd(basis, operator, clips.frames.shape[1:], clips.units)


def _some_pasts(clips: Sequences, generator: torch.Generator) -> NDArray[Any]:
    """Frames (some, ...) out of all that have a successor, each as likely as any other; all if they are few."""
    pairs = clips.lengths - 1
    ends = np.cumsum(pairs)
    total = int(ends[-1])
    drawn = np.arange(total)
    if total > SAMPLE:
        drawn = np.unique(torch.randint(total, (SAMPLE,), generator=generator).numpy())
    owner = np.searchsorted(ends, drawn, side="right")
    place = clips.starts[owner] + drawn - (ends - pairs)[owner]
    return np.asarray(clips.frames[place], clips.frames.dtype.newbyteorder("="))


def _in_model_units(frames: NDArray[Any], units: Units) -> Tensor:
    """(n, ...) -> (n, features) float64."""
    return units.to_model(torch.from_numpy(np.array(frames, np.float64))).flatten(1)


def _snapshots(clips: Sequences, indices: Indices, basis: Tensor) -> SnapshotQR:
    x, mask = clips.batch(indices, basis)
    return SnapshotQR.of(x.flatten(2) @ basis, mask)


@dataclass(frozen=True, eq=False)
class ForecastErrors:
    """Root mean squared errors in the user's units, one for each horizon from 1 on, over all sequences."""

    given: int  # frames that a forecast starts from
    ours: Curve
    last_frame: Curve  # of holding the last given frame
    dmd: Curve
    reconstruction: Curve  # of decoding those same frames once they were seen: what our networks lose, forecast or not
    sequences: int  # that were long enough
    left_out: int  # that were not
    rank: int  # of the DMD

    def table(self) -> list[dict[str, int | float]]:
        """A row for each horizon."""
        return [
            {
                "horizon": horizon,
                "ours": float(ours),
                "last_frame": float(held),
                "dmd": float(dmd),
                "reconstruction": float(floor),
            }
            for horizon, (ours, held, dmd, floor) in enumerate(
                zip(self.ours, self.last_frame, self.dmd, self.reconstruction, strict=True), start=1
            )
        ]


def forecasts(run: Decomposer, clips: Sequences, steps: int, given: int, dmd: Dmd) -> dict[str, NDArray[Any]]:
    """What we, the last frame and DMD say of the `steps` frames after the first `given`: (n, steps, ...) each.

    The frames after those are not even read, so that nothing in them can have a say.
    """
    known = _cut(clips, given)
    x = known.x
    return {
        "ours": run.decompose(known).forecast(steps).decode()[:, given:],
        "last_frame": np.repeat(x[:, -1:], steps, axis=1),
        "dmd": dmd.forecast(x, steps),
    }


def forecast_errors(run: Decomposer, clips: Sequences, steps: int, given: int, dmd: Dmd) -> ForecastErrors:
    """How wrong the three forecasts of `steps` frames from the first `given` are, over all clips that have as many."""
    long_enough = _long_enough(clips, steps, given)
    sums, numbers = dict.fromkeys(_CURVES, np.zeros(steps)), 0
    for indices in chunks(len(long_enough)):
        some = long_enough.select(indices)
        whole = _cut(some, given + steps)
        truth = whole.x[:, given:].astype(np.float64)
        said = forecasts(run, some, steps, given, dmd)
        said["reconstruction"] = run.decompose(whole).decode()[:, given:]
        sums = {name: sums[name] + _squares(said[name], truth) for name in _CURVES}
        numbers += truth[:, 0].size
    errors = {name: np.sqrt(total / numbers) for name, total in sums.items()}
    left_out = len(clips) - len(long_enough)
    return ForecastErrors(given, **errors, sequences=len(long_enough), left_out=left_out, rank=dmd.rank)


_CURVES = ("ours", "last_frame", "dmd", "reconstruction")


def _cut(clips: Sequences, time: int) -> Sequences:
    """The first `time` frames of each."""
    return replace(clips, lengths=np.full(len(clips), time))


def _long_enough(clips: Sequences, steps: int, given: int) -> Sequences:
    if steps < 1 or given < 2:
        raise InputError(f"expected at least 1 step from at least 2 given frames, got steps {steps} and given {given}")
    chosen = np.flatnonzero(clips.lengths >= given + steps)
    if not chosen.size:
        shortest, longest = int(clips.lengths.min()), int(clips.lengths.max())
        raise InputError(
            f"a forecast of {steps} frames from {given} given ones is checked on sequences of at least "
            f"{given + steps}, got {len(clips)} of {shortest} to {longest} frames in {clips.name}"
        )
    return clips.select(chosen)


def _squares(said: NDArray[Any], truth: NDArray[np.float64]) -> Curve:
    """(steps,): squared errors summed over sequences and whatever is in a frame."""
    squares: Curve = np.square(said - truth).sum(axis=(0, *range(2, truth.ndim)))
    return squares
