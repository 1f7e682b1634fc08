"""forecast errors by horizon, with holding the last frame and plain DMD as baselines"""

from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from diskoop.analysis.decomposition import Decomposition, chunks
from diskoop.data.scaling import frame_deviations
from diskoop.data.sequences import Indices, Sequences, Units
from diskoop.errors import InputError, counted
from diskoop.numerics.operator import Operator, SnapshotQR

MAX_SAMPLE = 1000  # frames whose singular vectors are DMD's basis, so that its cost does not grow with the set

Curve = NDArray[np.float64]  # (steps,)


class Decomposer(Protocol):
    """Decomposes sequences, like `Run`."""

    def decompose(self, clips: Sequences, /) -> Decomposition: ...


@dataclass(frozen=True, eq=False)
class DMDForecaster:
    """Dynamic mode decomposition of the frames themselves: principal directions, and an operator on them."""

    basis: Tensor  # (features of a frame, rank) float64, orthonormal columns
    operator: Operator  # (rank, rank): a step in coordinates of the basis
    frame: tuple[int, ...]  # shape of a frame
    units: Units

    @property
    def rank(self) -> int:
        return self.basis.shape[1]

    def forecast(self, x: NDArray[Any], steps: int) -> NDArray[Any]:
        """Frames (n, observed, ...) -> the next `steps` frames, (n, steps, ...), both in the units of the data."""
        if x.ndim < 2 or x.shape[2:] != self.frame or not x.shape[1]:
            raise InputError(f"expected frames (n, observed, {', '.join(map(str, self.frame))}), got {x.shape}")
        last = _to_features(x[:, -1], self.units) @ self.basis  # (n, rank): DMD depends on the last frame only
        future = self.operator.rollout(last, steps) @ self.basis.T  # (n, steps, features)
        frames: NDArray[Any] = self.units.from_model(future.reshape(len(x), steps, *self.frame)).numpy()
        return frames


def fit_dmd(clips: Sequences, rank: int, generator: torch.Generator) -> DMDForecaster:
    """Fit plain DMD to all sequences, in the model's units, without centring.

    Args:
        clips: the sequences.
        rank: number of directions.
        generator: draws the frames whose directions are used, where there are more than MAX_SAMPLE.

    Example:
        >>> clips = diskoop.load_data("oscillators", "train")
        >>> dmd = fit_dmd(clips, rank=8, generator=torch.Generator().manual_seed(0))
        >>> np.allclose(dmd.forecast(clips.x[:, :4], steps=5), clips.x[:, 4:9], atol=1e-4)  # the set is linear
        True
    """
    sample = _to_features(_sample_past_frames(clips, generator), clips.units)  # (frames, features)
    if not 1 <= rank <= min(sample.shape):
        raise InputError(
            f"expected a rank from 1 to {min(sample.shape)}, as {clips.name} has {sample.shape[1]} features per frame "
            f"and {sample.shape[0]} frames are used, got {rank}"
        )
    if not torch.isfinite(sample).all():
        raise InputError(f"cannot fit DMD: the frames of {clips.name} hold NaN or infinity")
    basis = torch.linalg.svd(sample, full_matrices=False)[2][:rank].T.contiguous()
    snapshots = reduce(SnapshotQR.__add__, (_snapshots(clips, indices, basis) for indices in chunks(len(clips))))
    operator = replace(snapshots.solve(), fitted_on=f"{clips.name}, {counted(len(clips), 'sequence')}")
    return DMDForecaster(basis, operator, clips.frames.shape[1:], clips.units)


def _sample_past_frames(clips: Sequences, generator: torch.Generator) -> NDArray[Any]:
    """Frames (count, ...) with a successor, drawn uniformly; all of them up to MAX_SAMPLE."""
    pairs = clips.lengths - 1
    ends = np.cumsum(pairs)
    total = int(ends[-1])
    drawn = np.arange(total)
    if total > MAX_SAMPLE:
        drawn = np.unique(torch.randint(total, (MAX_SAMPLE,), generator=generator).numpy())
    sequence = np.searchsorted(ends, drawn, side="right")
    frame = clips.starts[sequence] + drawn - (ends - pairs)[sequence]
    return np.asarray(clips.frames[frame], clips.frames.dtype.newbyteorder("="))


def _to_features(frames: NDArray[Any], units: Units) -> Tensor:
    """Frames (n, ...) -> (n, features) float64, in the model's units."""
    return units.to_model(torch.from_numpy(np.array(frames, np.float64))).flatten(1)


def _snapshots(clips: Sequences, indices: Indices, basis: Tensor) -> SnapshotQR:
    x, mask = clips.batch(indices, basis)
    return SnapshotQR.of(x.flatten(2) @ basis, mask)


# What is compared: our forecast; the last observed frame, repeated; DMD; encoding and decoding the future frames
# themselves, a lower bound for our forecast.
METHODS = ("ours", "last_frame", "dmd", "reconstruction")


@dataclass(frozen=True, eq=False)
class ForecastErrors:
    """Errors of METHODS, with or without DMD, by horizon from 1 on; `features` are the numbers of a frame."""

    observed: int  # frames that a forecast starts from
    squares: dict[str, NDArray[np.float64]]  # method -> (steps, features): mean squared errors, in the data's units
    deviations: NDArray[np.float64]  # (features,): standard deviations of the same sequences
    clips: Sequences  # the sequences that are long enough
    left_out: int  # number of sequences that are too short
    rank: int | None  # of the DMD; None: not compared

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(name for name in METHODS if name in self.squares)

    @property
    def sequences(self) -> int:
        return len(self.clips)

    def curve(self, method: str) -> Curve:
        """(steps,): root mean squared errors relative to the deviation of the data, 1 for predicting the mean frame.

        Both are taken in the model's units, in which all features of a series have the same scale.
        """
        scale = np.square(np.broadcast_to(self.clips.units.scale, self.clips.shape[2:])).reshape(-1)
        spread = (np.square(self.deviations) / scale).mean()
        curve: Curve = np.sqrt((self.squares[method] / scale).mean(1) / (spread or 1.0))
        return curve

    def table(self) -> list[dict[str, int | float]]:
        """One row per horizon, with the relative error of each method."""
        curves = np.stack([self.curve(method) for method in self.methods], 1)  # (steps, methods)
        return [
            {"horizon": horizon, **dict(zip(self.methods, row, strict=True))}
            for horizon, row in enumerate(curves.tolist(), start=1)
        ]

    def feature_table(self) -> list[dict[str, str | float]]:
        """Root mean squared errors over all horizons in the data's units: a row for each feature of a series, else one.

        Beside them stands the standard deviation, in the same unit.
        """
        groups = {"deviation": np.square(self.deviations)[None], **{name: self.squares[name] for name in self.methods}}
        if self.clips.is_series:
            names = self.clips.units.feature_names(len(self.deviations))
        else:
            names = ("pixel value",) if self.clips.is_video else ("log magnitude",)
            groups = {name: squares.mean(1, keepdims=True) for name, squares in groups.items()}
        columns = {name: np.sqrt(squares.mean(0)) for name, squares in groups.items()}
        return [
            {"feature": feature, **{name: float(column[index]) for name, column in columns.items()}}
            for index, feature in enumerate(names)
        ]


def compute_forecasts(
    run: Decomposer, clips: Sequences, steps: int, observed: int, dmd: DMDForecaster | None
) -> dict[str, NDArray[Any]]:
    """Forecasts by the run, by repeating the last frame and, if it is given, by DMD, (n, steps, ...) each.

    Frames after the first `observed` are not read, so that none can leak into a forecast.
    """
    past = _truncate(clips, observed)
    x = past.x
    forecasts = {
        "ours": run.decompose(past).forecast(steps).decode()[:, observed:],
        "last_frame": np.repeat(x[:, -1:], steps, axis=1),
    }
    return forecasts if dmd is None else forecasts | {"dmd": dmd.forecast(x, steps)}


def forecast_errors(
    run: Decomposer, clips: Sequences, steps: int, observed: int, dmd: DMDForecaster | None
) -> ForecastErrors:
    """Errors of the forecasts of a run and of its baselines.

    Args:
        run: decomposes the sequences.
        clips: those with at least observed + steps frames are used.
        steps: largest horizon.
        observed: number of frames that a forecast starts from, at least 2.
        dmd: the DMD baseline; None leaves it out.
    """
    long_enough = _long_enough(clips, steps, observed)
    methods = [name for name in METHODS if name != "dmd" or dmd is not None]
    sums = dict.fromkeys(methods, np.zeros((steps, int(np.prod(clips.shape[2:])))))
    for indices in chunks(len(long_enough)):
        chunk = long_enough.select(indices)
        whole = _truncate(chunk, observed + steps)
        truth = whole.x[:, observed:].astype(np.float64)
        predicted = compute_forecasts(run, chunk, steps, observed, dmd)
        seen = run.decompose(whole)
        predicted["reconstruction"] = seen.decode()[:, observed:]
        sums = {name: sums[name] + _squared_errors(predicted[name], truth) for name in methods}
    squares = {name: total / len(long_enough) for name, total in sums.items()}
    compared = replace(long_enough, units=seen.units)  # the model's, which need not be those of the clips
    deviations = frame_deviations(compared).reshape(-1)
    rank = None if dmd is None else dmd.rank
    return ForecastErrors(observed, squares, deviations, compared, len(clips) - len(compared), rank)


def _truncate(clips: Sequences, time: int) -> Sequences:
    """The first `time` frames of each sequence."""
    return replace(clips, lengths=np.full(len(clips), time))


def _long_enough(clips: Sequences, steps: int, observed: int) -> Sequences:
    if steps < 1 or observed < 2:
        raise InputError(f"expected at least 1 step from at least 2 observed frames, got {steps} and {observed}")
    indices = np.flatnonzero(clips.lengths >= observed + steps)
    if not indices.size:
        shortest, longest = int(clips.lengths.min()), int(clips.lengths.max())
        raise InputError(
            f"a forecast of {steps} frames from {observed} observed ones needs sequences of at least "
            f"{observed + steps} frames, got {len(clips)} of {shortest} to {longest} frames in {clips.name}"
        )
    return clips.select(indices)


def _squared_errors(predicted: NDArray[Any], truth: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n, steps, ...) -> (steps, features): squared errors summed over sequences."""
    sums: NDArray[np.float64] = np.square(predicted - truth).sum(0).reshape(truth.shape[1], -1)
    return sums
