"""Splits in order, by groups that stay together, and as they are given."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from diskoop.data.splits import draw_stratified, split_groups, split_in_order
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


def test_splits_have_the_proportions_of_the_labels() -> None:
    action, who = np.repeat(np.arange(4), 9), np.tile(np.arange(9), 4)
    codes = split_groups(np.arange(36), 0.1, labels=np.stack([action, who], 1))
    assert [int((codes == code).sum()) for code in range(3)] == [29, 3, 4]
    assert sorted(action[codes == 2].tolist()) == [0, 1, 2, 3]  # one of each
    assert len(set(action[codes == 1].tolist())) == 3
    assert len(set(who[codes == 2].tolist())) == 4
    assert np.array_equal(codes, split_groups(np.arange(36), 0.1, labels=np.stack([action, who], 1)))


@given(some.lists(some.integers(0, 3), min_size=20, max_size=60), some.integers(1, 10))
def test_a_stratified_draw_is_off_by_less_than_one(values: list[int], count: int) -> None:
    labels = np.array(values)
    drawn = labels[draw_stratified(labels[:, None], count)]
    assert len(drawn) == count
    wanted = count * np.bincount(labels, minlength=4) / len(labels)
    assert (np.abs(np.bincount(drawn, minlength=4) - wanted) < 1).all()


def test_without_labels_the_draw_is_as_it_ever_was() -> None:
    expected = np.random.Generator(np.random.PCG64(0)).permutation(np.arange(50))[:5]
    assert sorted(np.flatnonzero(split_groups(np.arange(50), 0.1) == 2).tolist()) == sorted(expected.tolist())
