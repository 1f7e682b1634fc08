"""a signal's range, mean and deviation, in one streaming pass"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diskoop.data.sequences import Indices, Units

CHUNK_BYTES = 2**24


@dataclass(frozen=True, eq=False)
class Scale:
    """What the numbers of some sequences are like."""

    low: float
    high: float
    mean: NDArray[np.float64]  # (feature,), over the sequences to train on
    spread: NDArray[np.float64]  # standard deviation, 1 where a feature never changes
    bad: Indices  # sequences that hold NaN or infinity; the rest of this is then of no use


def measure(frames: NDArray[Any], starts: Indices, lengths: Indices, train: NDArray[np.bool_]) -> Scale:
    """Range and soundness of all sequences; mean and deviation of those to `train` (n,) on, where they are signals."""
    features = frames.shape[1] if frames.ndim == 2 else 1
    number, mean, squares = 0, np.zeros(features), np.zeros(features)
    least, most = np.full(features, np.inf), np.full(features, -np.inf)
    low, high, bad = np.inf, -np.inf, []
    for owners, block in _blocks(frames, starts, lengths):
        sound = are_numbers(block)
        if not sound.all():
            bad.extend(np.unique(owners[~sound]).tolist())
            continue
        low, high = min(low, float(block.min())), max(high, float(block.max()))
        counted = block[train[owners]]
        if frames.ndim == 2 and len(counted):
            # Two samples' means and sums of squares joined: no second pass, no cancellation.
            its_mean = counted.mean(0, dtype=np.float64)
            share = len(counted) / (number + len(counted))
            squares += np.square(counted - its_mean).sum(0) + np.square(its_mean - mean) * number * share
            mean += (its_mean - mean) * share
            number += len(counted)
            least, most = np.minimum(least, counted.min(0)), np.maximum(most, counted.max(0))
    # Rounding gives a feature that never changes a deviation too, of 1e-19 or so.
    spread = np.where(least < most, np.sqrt(squares / max(number, 1)), 1.0)
    return Scale(low, high, mean, spread, np.unique(np.array(bad, np.int64)))


NOT_NUMBERS = "NaN or infinity (or a number beyond 1e100)"


def are_numbers(frames: NDArray[Any]) -> NDArray[np.bool_]:
    """Which frames of (n, ...) can be computed with: squares of their numbers must be numbers too."""
    if frames.dtype.kind != "f":
        return np.ones(len(frames), bool)
    sound = np.isfinite(frames) & (True if frames.dtype.itemsize < 8 else np.abs(frames) <= 1e100)
    each: NDArray[np.bool_] = sound.reshape(len(frames), -1).all(1)
    return each


def signal_units(scale: Scale, dtype: np.dtype[Any], **more: Any) -> Units:
    """Mean 0 and deviation 1 inside the model, the user's numbers outside; whole numbers come back as fractions."""
    kept = "float64" if dtype.itemsize > (4 if dtype.kind == "f" else 2) else "float32"
    return Units(tuple(scale.spread.tolist()), tuple(scale.mean.tolist()), kept, **more)


def _blocks(frames: NDArray[Any], starts: Indices, lengths: Indices) -> Iterator[tuple[Indices, NDArray[Any]]]:
    """Some frames, and which sequence each belongs to: many short sequences, or a piece of a long one."""
    at_once = max(1, CHUNK_BYTES // max(1, int(np.prod(frames.shape[1:])) * frames.dtype.itemsize))
    ends = starts + lengths
    first = 0
    while first < len(starts):
        # As many as follow one another without a gap and fit, but one at least.
        last = min(first + 1 + at_once, len(starts))
        follows = starts[first + 1 : last] == ends[first : last - 1]
        fits = ends[first + 1 : last] - starts[first] <= at_once
        last = first + 1 + int(np.argmin(np.append(follows & fits, False)))
        owners = np.repeat(np.arange(first, last), lengths[first:last])
        for begin in range(0, len(owners), at_once):
            some = owners[begin : begin + at_once]
            yield some, np.asarray(frames[starts[first] + begin : starts[first] + begin + len(some)])
        first = last
