"""Windows cover clips."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as some

from diskoop.data.assembly import window_starts


@given(some.integers(2, 60), some.integers(2, 20), some.integers(1, 20))
def test_windows_cover_every_frame_and_only_those(length: int, window: int, stride: int) -> None:
    starts = window_starts(length, window, min(stride, window))
    covered = np.zeros(length, int)
    size = min(window, length)
    for begin in starts:
        assert 0 <= begin <= length - size
        covered[begin : begin + size] += 1
    assert covered.min() >= 1
    assert len(set(starts.tolist())) == len(starts)
