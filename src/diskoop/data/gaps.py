"""missing values of a series: interpolated across short gaps, and the pieces between long ones"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Segment = tuple[int, int]  # first frame, and the one after the last


def fill_gaps(x: NDArray[np.float64], max_gap: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Interpolate linearly across gaps of at most `max_gap` frames; gaps at either end stay.

    Args:
        x: a series, (time, feature), NaN where a value is missing.
        max_gap: frames.

    Returns:
        The series, and how many values were filled in each feature, (feature,).

    Example:
        >>> filled, counts = fill_gaps(np.array([[0.0], [np.nan], [2.0], [np.nan]]), max_gap=3)
        >>> filled[:, 0].tolist(), counts.tolist()
        ([0.0, 1.0, 2.0, nan], [1])
    """
    x, counts = x.copy(), np.zeros(x.shape[1], np.int64)
    for feature in np.flatnonzero(np.isnan(x).any(0)):
        column = x[:, feature]
        known = np.flatnonzero(~np.isnan(column))
        if len(known) < 2:
            continue
        gaps = np.diff(known) - 1  # between one known value and the next
        missing = np.setdiff1d(np.arange(known[0], known[-1]), known)
        filled = missing[np.repeat(gaps <= max_gap, gaps)]
        column[filled] = np.interp(filled, known, column[known])
        counts[feature] = len(filled)
    return x, counts


def in_segments(segments: Sequence[Segment], begin: int, count: int) -> NDArray[np.bool_]:
    """Which of the `count` frames from `begin` on are in a segment, (count,).

    Example:
        >>> in_segments([(0, 2), (3, 9)], begin=1, count=4).tolist()
        [True, False, True, True]
    """
    inside = np.zeros(count, bool)
    for first, end in segments:
        inside[max(first - begin, 0) : max(end - begin, 0)] = True
    return inside


def complete_segments(complete: NDArray[np.bool_], breaks: NDArray[np.int64], shortest: int = 2) -> list[Segment]:
    """Runs of at least `shortest` frames without a missing value.

    Args:
        complete: whether a frame has all its values, (time,).
        breaks: frames that do not follow the one before them.
        shortest: frames, at least 2.

    Example:
        >>> complete_segments(np.array([1, 1, 0, 1, 1, 1, 1], bool), breaks=np.array([5]))
        [(0, 2), (3, 5), (5, 7)]
    """
    edges = np.flatnonzero(np.diff(complete.astype(np.int8), prepend=0, append=0))  # begin, end, begin, end, ...
    segments: list[Segment] = []
    for begin, end in edges.reshape(-1, 2).tolist():
        inner = breaks[(breaks > begin) & (breaks < end)].tolist()
        segments += zip([begin, *inner], [*inner, end], strict=True)
    return [(begin, end) for begin, end in segments if end - begin >= shortest]
