"""range, mean and standard deviation of a signal in one streaming pass, and the units they give"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diskoop.data.sequences import Indices, Sequences, Units

CHUNK_BYTES = 2**24
NON_FINITE = "NaN or infinity (or a number beyond 1e100)"


@dataclass(frozen=True, eq=False)
class Statistics:
    """Statistics of some sequences; of no use but for `non_finite` where that is not empty."""

    low: float
    high: float
    mean: NDArray[np.float64]  # (feature,), over the training sequences
    std: NDArray[np.float64]  # (feature,), 1 where a feature is constant
    constant: NDArray[np.bool_]  # (feature,)
    non_finite: Indices  # sequences that hold NaN or infinity


def compute_statistics(frames: NDArray[Any], starts: Indices, lengths: Indices, train: NDArray[np.bool_]) -> Statistics:
    """Range of all sequences, and of signals the mean and standard deviation of the training ones.

    Args:
        frames: (total, ...), read in blocks.
        starts: first frame of each sequence, (n,).
        lengths: frames of each sequence, (n,).
        train: which sequences count for mean and standard deviation, (n,).
    """
    features = frames.shape[1] if frames.ndim == 2 else 1
    count, mean, squares = 0, np.zeros(features), np.zeros(features)
    least, most = np.full(features, np.inf), np.full(features, -np.inf)
    low, high, non_finite = np.inf, -np.inf, []
    for owners, block in _blocks(frames, starts, lengths):
        finite = are_finite(block)
        if not finite.all():
            non_finite.extend(np.unique(owners[~finite]).tolist())
            continue
        low, high = min(low, float(block.min())), max(high, float(block.max()))
        part = block[train[owners]]
        if frames.ndim == 2 and len(part):
            # Means and sums of squares of two samples joined (Chan et al.): no second pass, no cancellation.
            part_mean = part.mean(0, dtype=np.float64)
            fraction = len(part) / (count + len(part))
            squares += np.square(part - part_mean).sum(0) + np.square(part_mean - mean) * count * fraction
            mean += (part_mean - mean) * fraction
            count += len(part)
            least, most = np.minimum(least, part.min(0)), np.maximum(most, part.max(0))
    # Rounding gives a constant feature a deviation too, of 1e-19 or so.
    std = np.where(least < most, np.sqrt(squares / max(count, 1)), 1.0)
    return Statistics(low, high, mean, std, ~(least < most), np.unique(np.array(non_finite, np.int64)))


def are_finite(frames: NDArray[Any]) -> NDArray[np.bool_]:
    """Which frames of (n, ...) hold finite numbers whose squares are finite too, (n,)."""
    if frames.dtype.kind != "f":
        return np.ones(len(frames), bool)
    finite = np.isfinite(frames) & (True if frames.dtype.itemsize < 8 else np.abs(frames) <= 1e100)
    per_frame: NDArray[np.bool_] = finite.reshape(len(frames), -1).all(1)
    return per_frame


def signal_units(statistics: Statistics, dtype: np.dtype[Any], **more: Any) -> Units:
    """Units with mean 0 and standard deviation 1 in the model; integers come back as floats.

    The features NAME=WORD of a column of words share one scale, by which their variances add up to 1: a column of many
    words weighs no more than one of numbers.
    """
    kept = "float64" if dtype.itemsize > (4 if dtype.kind == "f" else 2) else "float32"
    std = statistics.std.copy()
    columns = np.array([name.rpartition("=")[0] for name in more.get("features", ())])
    for column in set(columns.tolist()) - {""}:
        of_words = columns == column
        std[of_words] = np.sqrt(np.square(std[of_words & ~statistics.constant]).sum()) or 1.0
    return Units(tuple(std.tolist()), tuple(statistics.mean.tolist()), kept, **more)


def frame_deviations(clips: Sequences) -> NDArray[np.float64]:
    """The standard deviation of every number of a frame over all frames: (feature,), or (channel, height, width).

    Example:
        >>> series = np.stack([np.arange(8.0), 1000 * np.arange(8.0)], 1)  # (time, feature)
        >>> frame_deviations(Sequences.of(series[None], units=Units(dtype="float64"))).round(1).tolist()
        [2.3, 2291.3]
    """

    def blocks() -> Iterator[NDArray[Any]]:
        for start, length in zip(clips.starts, clips.lengths, strict=True):
            yield clips.frames[start : start + length]

    zero, count = np.zeros(clips.frames.shape[1:]), clips.lengths.sum()
    mean = sum((block.sum(0, dtype=np.float64) for block in blocks()), zero) / count
    deviations: NDArray[np.float64] = np.sqrt(sum((np.square(block - mean).sum(0) for block in blocks()), zero) / count)
    return deviations


def _blocks(frames: NDArray[Any], starts: Indices, lengths: Indices) -> Iterator[tuple[Indices, NDArray[Any]]]:
    """Blocks of frames and the sequence of each frame: many short sequences, or a piece of a long one."""
    block_size = max(1, CHUNK_BYTES // max(1, int(np.prod(frames.shape[1:])) * frames.dtype.itemsize))
    ends = starts + lengths
    first = 0
    while first < len(starts):
        # As many sequences as follow one another without a gap and fit, but at least one.
        last = min(first + 1 + block_size, len(starts))
        follows = starts[first + 1 : last] == ends[first : last - 1]
        fits = ends[first + 1 : last] - starts[first] <= block_size
        last = first + 1 + int(np.argmin(np.append(follows & fits, False)))
        owners = np.repeat(np.arange(first, last), lengths[first:last])
        for begin in range(0, len(owners), block_size):
            block_owners = owners[begin : begin + block_size]
            frame = starts[first] + begin
            yield block_owners, np.asarray(frames[frame : frame + len(block_owners)])
        first = last
