"""Splits in order, by groups that stay together, and as they are given."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from diskoop.data.splits import split_groups, split_in_order
from diskoop.errors import InputError


def test_splits_follow_one_another() -> None:
    assert split_in_order(10, 3, 0.3).tolist() == [0] * 5 + [1] * 2 + [2] * 3
    assert split_in_order(10, 3, 0.0).tolist() == [0] * 7 + [2] * 3


@given(some.lists(some.integers(0, 9), min_size=3, max_size=60), some.floats(0, 0.4), some.floats(0, 0.4))
def test_no_group_is_in_two_splits(groups: list[int], val_fraction: float, test_fraction: float) -> None:
    if len(set(groups)) < 3:
        return
    split_codes = split_groups(np.array(groups), val_fraction, test_fraction)
    homes = {group: set(split_codes[np.array(groups) == group].tolist()) for group in groups}
    assert all(len(home) == 1 for home in homes.values())
    assert (split_codes == 0).any()
    assert (split_codes == 1).any() == (val_fraction > 0)
    assert (split_codes == 2).any() == (test_fraction > 0)
    assert np.array_equal(split_codes, split_groups(np.array(groups), val_fraction, test_fraction))


def test_a_split_that_was_given_is_kept() -> None:
    given = np.array([0] * 8 + [2] * 2, np.int8)
    drawn = split_groups(np.arange(10), 0.25, given=given)
    assert ((drawn == 2) == (given == 2)).all()
    assert (drawn == 1).sum() == 2
    # A group that is given in two splits stays in both.
    torn = split_groups(np.arange(10) % 5, 0.9, given=given)
    assert ((torn == 2) == (given == 2)).all()
    complete = np.array([0, 1, 2], np.int8)
    assert np.array_equal(split_groups(np.arange(3), 0.1, given=complete), complete)
    assert split_groups(np.arange(3), 0.0, given=complete).tolist() == [0, 0, 2]


def test_nothing_to_train_on_is_named() -> None:
    with pytest.raises(
        InputError, match="nothing is left to train on: of 2 sequences in 2 groups 1 validate and 1 test"
    ):
        split_groups(np.array([0, 1]), 0.1)
