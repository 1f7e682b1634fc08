from itertools import combinations

import numpy as np
import pytest

from diskoop import load_data
from diskoop.data.sets import puppet_art as puppets

SIZE = 32
NAMES = ("skin", "pants", "top", "hair")
COUNT = 11664


@pytest.fixture(scope="module")
def sequences(cache: object) -> np.ndarray:
    """(11664, frame, channel, row, column), drawn once for all tests of the session."""
    return load_data("puppets", "all", size=SIZE).x


@pytest.fixture(scope="module")
def grid(sequences: np.ndarray) -> np.ndarray:
    """(skin, pants, top, hair, action, frame, channel, row, column)"""
    return sequences.reshape(6, 6, 6, 6, 9, *sequences.shape[1:])


def twins(grid: np.ndarray, factor: str, seed: int) -> np.ndarray:
    """The six values of a factor on an otherwise random character: (value, action, frame, channel, row, column)."""
    character: list[int | slice] = [int(value) for value in np.random.default_rng(seed).integers(0, 6, 4)]
    character[NAMES.index(factor)] = slice(None)
    return np.asarray(grid[tuple(character)], np.int16)


def changed(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.asarray((one != other).any(axis=-3))


def test_factors_have_six_values_each_and_nine_actions() -> None:
    assert list(puppets.FACTORS) == [*NAMES, "action"]
    assert [len(set(values)) for values in puppets.FACTORS.values()] == [6, 6, 6, 6, 9]
    assert puppets.FACTORS["action"][:4] == ("walk front", "walk left", "walk right", "cheer front")
    assert puppets.FRAMES == 8
    assert puppets.SIZES == (32, 64)


def test_labels_follow_the_index() -> None:
    labels = puppets.labels()
    assert list(labels) == list(puppets.FACTORS)
    assert all(values.shape == (COUNT,) and values.dtype == np.int64 for values in labels.values())
    character = ((labels["skin"] * 6 + labels["pants"]) * 6 + labels["top"]) * 6 + labels["hair"]
    np.testing.assert_array_equal(character * 9 + labels["action"], np.arange(COUNT))


@pytest.mark.slow
def test_draws_the_same_bytes_again_and_reports_every_sequence(sequences: np.ndarray) -> None:
    again, reports = np.full(sequences.shape, 77, np.uint8), list[int]()
    puppets.draw(SIZE, again, reports.append)
    assert np.array_equal(sequences, again)
    assert sum(reports) == COUNT
    assert len(reports) > 1


def test_other_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="32 or 64"):
        puppets.draw(48, np.empty((COUNT, 8, 3, 48, 48), np.uint8))


def test_background_is_plain_and_the_same_in_all(sequences: np.ndarray) -> None:
    corners = sequences[..., [0, 0, -1, -1], [0, -1, 0, -1]]
    np.testing.assert_array_equal(corners, np.broadcast_to(np.array(puppets.NIGHT)[:, None], corners.shape))


@pytest.mark.parametrize(("factor", "apart"), [("skin", 55), ("pants", 70), ("top", 75), ("hair", 100)])
def test_every_value_shows_in_every_frame(grid: np.ndarray, factor: str, apart: float) -> None:
    for seed in range(4):
        for one, other in combinations(twins(grid, factor, seed), 2):
            pixels = changed(one, other)
            assert pixels.sum((-1, -2)).min() >= 12
            distance = np.abs(one - other).sum(-3)
            assert min(distance[action][pixels[action]].mean() for action in range(9)) > apart


def test_factors_change_only_their_own_pixels(grid: np.ndarray) -> None:
    for seed in range(4):
        own = {}
        for factor in NAMES:
            first, *others = twins(grid, factor, seed)
            own[factor] = np.any([changed(first, other) for other in others], axis=0)
        assert not (own["hair"] & own["pants"]).any()
        shared = np.sum(list(own.values()), axis=0) > 1  # along edges, and where some hair covers a cheek
        for pixels in own.values():
            assert (pixels & ~shared).sum((-1, -2)).min() >= 12


def test_what_a_factor_changes_is_where_its_own_layers_are(grid: np.ndarray) -> None:
    """Where no hair is drawn, all hairs agree; the same for the other factors."""
    stacks = puppets.BEFORE + puppets.BODY + puppets.BEHIND
    for verb, act in enumerate((puppets.walk, puppets.cheer, puppets.slash)):
        for factor in NAMES:
            layers = [layer for layer in stacks if layer[0] == factor]
            values = twins(grid, factor, seed=verb)[:, 3 * verb + 2]
            for frame in range(puppets.FRAMES):
                alpha = puppets.merge(SIZE, act(frame / puppets.FRAMES, True), tuple(layers))[..., 3, :, :]
                bare = alpha.reshape(-1, SIZE, SIZE).max(0) == 0
                assert not changed(values[:1, frame], values[1:, frame])[:, bare].any()


def test_left_mirrors_right_and_both_differ_from_the_front(grid: np.ndarray) -> None:
    views = grid[::2, 1, ::2, :].reshape(-1, 3, 3, *grid.shape[5:]).astype(np.int16)  # character, verb, direction
    front, left, right = views[:, :, 0], views[:, :, 1], views[:, :, 2]
    np.testing.assert_array_equal(left, right[..., ::-1])
    for one, other in ((left, right), (front, left), (front, right)):
        assert changed(one, other).mean((-1, -2)).min() > 0.15


def test_every_action_moves_from_frame_to_frame(grid: np.ndarray) -> None:
    some = grid[::2, ::3, ::3, :].astype(np.int16)
    moved = (np.abs(np.diff(some, axis=5)).sum(-3) > 60).mean((-1, -2))
    assert moved.min() > 0.015


def test_actions_differ_whatever_the_character(grid: np.ndarray) -> None:
    some = grid[::2, ::3, ::3, :].astype(np.int16)
    for one, other in combinations(range(9), 2):
        apart = (np.abs(some[..., one, :, :, :, :] - some[..., other, :, :, :, :]).sum(-3) > 60).mean((-1, -2))
        assert apart.max(-1).min() > 0.1
