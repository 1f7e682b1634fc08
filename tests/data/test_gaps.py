"""Gaps in series: filled where they are short, avoided where they are long."""

import numpy as np
import pytest

from diskoop.data.gaps import complete_segments, fill_gaps, in_segments


@pytest.mark.parametrize("max_gap", [0, 1, 2, 3])
def test_short_gaps_of_a_line_are_the_line(max_gap: int) -> None:
    line = np.stack([np.arange(12.0), 5 - 3 * np.arange(12.0)], 1)
    holed = line.copy()
    holed[2, 0] = holed[4:6, 0] = holed[7:10, 1] = np.nan
    filled, counts = fill_gaps(holed, max_gap)
    assert counts.tolist() == [{0: 0, 1: 1, 2: 3, 3: 3}[max_gap], 3 if max_gap == 3 else 0]
    known = ~np.isnan(filled)
    assert np.array_equal(filled[known], line[known])
    assert np.isnan(holed).sum() - counts.sum() == (~known).sum()
    assert np.isnan(holed[2, 0])  # the given series is left as it is


def test_ends_and_empty_features_stay_missing() -> None:
    x = np.array([[np.nan, np.nan], [1.0, np.nan], [np.nan, np.nan]])
    filled, counts = fill_gaps(x, 9)
    assert np.array_equal(filled, x, equal_nan=True)
    assert counts.tolist() == [0, 0]


def test_segments_are_what_is_between_gaps() -> None:
    complete = np.array([0, 1, 1, 1, 0, 1, 0, 1, 1], bool)
    assert complete_segments(complete, np.zeros(0, int)) == [(1, 4), (7, 9)]
    assert complete_segments(complete, np.zeros(0, int), shortest=3) == [(1, 4)]
    assert complete_segments(np.ones(6, bool), np.array([2, 6])) == [(0, 2), (2, 6)]
    assert complete_segments(np.zeros(3, bool), np.zeros(0, int)) == []
    inside = np.concatenate([in_segments([(1, 4), (7, 9)], begin, 3) for begin in (0, 3, 6)])
    assert np.flatnonzero(inside).tolist() == [1, 2, 3, 7, 8]
