"""Stages lead from the receiver to the donor, and each is the algebra its caption says."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from diskoop import load_data
from diskoop.analysis.decomposition import Decomposition
from diskoop.analysis.editing import part_modes, swap_combinations, swap_cumulatively, swap_incrementally
from diskoop.data.sets.oscillators import truth
from diskoop.errors import InputError
from diskoop.models.autoencoder import KoopmanAutoencoder
from diskoop.numerics import Factor, by_distance, fit_operator

KNOWN = truth("oscillators").projectors  # level, mark (static), slow, fast (pairs), fade (real)
A, B = 3, 8


@pytest.fixture
def parts() -> Decomposition:
    """The oscillators behind identity networks, with their true factors."""
    clips = load_data("oscillators", "test").select(range(20))
    x = torch.from_numpy(clips.x)
    model = KoopmanAutoencoder(nn.Identity(), nn.Identity())
    factors = {name: Factor(name, torch.from_numpy(projector)) for name, projector in KNOWN.items()}
    return Decomposition.of(model, fit_operator(x, ridge=0), clips, x, 3, by_distance, factors=factors)


def with_factors(parts: Decomposition, names: tuple[str, ...]) -> NDArray[Any]:
    x = parts.z.numpy()
    projector = sum((KNOWN[name] for name in names), start=np.zeros((8, 8)))
    mixed: NDArray[Any] = x[A] + (x[B] - x[A]) @ projector
    return mixed


def test_gradual_takes_one_factor_after_another(parts: Decomposition) -> None:
    order = ("mark", "level", "fast")
    stages = swap_cumulatively(parts, A, B, order)
    assert stages.captions == ("receiver", "mark", "mark + level", "mark + level + fast", "donor")
    rows = stages.rows()
    assert tuple(caption for caption, _ in rows) == stages.captions
    for count, (_, x) in enumerate(rows[:-1]):
        assert np.allclose(x, with_factors(parts, order[:count]), atol=1e-10)
    assert np.array_equal(rows[0][1], parts.z[A])
    assert np.array_equal(rows[-1][1], parts.z[B])


def test_any_order_of_all_factors_ends_at_the_target(parts: Decomposition) -> None:
    for order in (list(KNOWN), list(KNOWN)[::-1]):
        rows = swap_cumulatively(parts, A, B, order).rows()
        assert np.allclose(rows[-2][1], rows[-1][1], atol=1e-10)


def test_factors_that_overlap_can_still_follow_each_other(parts: Decomposition) -> None:
    rows = swap_cumulatively(parts, A, B, ["static", "mark"]).rows()
    assert np.allclose(rows[1][1], rows[2][1], atol=1e-8)
    rows = swap_combinations(parts, A, B, ["static", "mark"]).rows()
    assert np.allclose(rows[1][1], rows[3][1], atol=1e-8)  # static alone, and static with mark


def test_all_combinations_of_four(parts: Decomposition) -> None:
    names = ("level", "mark", "slow", "fade")
    stages = swap_combinations(parts, A, B, names)
    sizes = [caption.count("+") + 1 for caption in stages.captions[1:-1]]
    assert sizes == [1] * 4 + [2] * 6 + [3] * 4 + [4]
    assert len(set(stages.captions)) == 17
    for caption, x in stages.rows()[1:-1]:
        assert np.allclose(x, with_factors(parts, tuple(caption.split(" + "))), atol=1e-10)


def test_growing_sets_of_modes_are_nested_and_cut_no_pair(parts: Decomposition) -> None:
    stages = swap_incrementally(parts, A, B, "dynamic", (1, 2, None))  # the first is real, the next two a pair
    assert stages.captions[1:-1] == ("1 of 5 dynamic modes", "3 of 5 dynamic modes", "all 5 dynamic modes")
    changed = changed_modes(parts, stages.parts)
    assert changed == [set(), {3}, {3, 4, 5}, {3, 4, 5, 6, 7}, set(range(8))]
    assert all(small < large for small, large in pairwise(changed))
    assert torch.allclose(stages.parts.z[3], parts.swap("dynamic", {A: B}).z[A], atol=1e-10)


def test_static_modes_grow_too(parts: Decomposition) -> None:
    stages = swap_incrementally(parts, A, B, "static", (1, 2, None))
    assert [len(modes) for modes in changed_modes(parts, stages.parts)] == [0, 1, 2, 3, 8]
    assert torch.allclose(stages.parts.z[3], parts.swap("static", {A: B}).z[A], atol=1e-10)


def changed_modes(parts: Decomposition, stages: Decomposition) -> list[set[int]]:
    """Which coefficients of each stage are the donor's; an error unless all others are the receiver's."""
    receiver, donor = parts.coefficients[A], parts.coefficients[B]
    changed = []
    for stage in stages.coefficients:
        new = (stage - receiver).abs().amax(0) > 1e-8
        assert torch.allclose(stage[:, new], donor[:, new], atol=1e-8)
        changed.append(set(torch.nonzero(new).flatten().tolist()))
    return changed


def test_sets_that_become_one_are_one_stage(parts: Decomposition) -> None:
    assert swap_incrementally(parts, A, B, "dynamic", (2, 3, 5)).captions[1:-1] == (
        "3 of 5 dynamic modes",
        "all 5 dynamic modes",
    )


def test_modes_are_those_of_the_split(parts: Decomposition) -> None:
    assert part_modes(parts, "static") == [0, 1, 2]
    assert part_modes(parts, "dynamic") == [3, 4, 5, 6, 7]


def test_of_unequal_lengths_what_both_have_is_left(parts: Decomposition) -> None:
    lengths = torch.full((20,), 24)
    lengths[A], lengths[B] = 15, 11
    masked = replace(parts, mask=torch.arange(24) < lengths[:, None])
    for stages in (
        swap_cumulatively(masked, A, B, ["level", "slow"]),
        swap_combinations(masked, A, B, ["level", "slow"]),
        swap_incrementally(masked, A, B, "dynamic", (1, None)),
    ):
        found = [len(x) for _, x in stages.rows()]
        assert found == [15] + [11] * (len(found) - 2) + [11]
        assert stages.parts.lengths.tolist() == found


def test_the_set_itself_is_not_touched(parts: Decomposition) -> None:
    before = parts.z.clone()
    swap_cumulatively(parts, A, B, ["level"])
    assert torch.equal(parts.z, before)
    assert swap_cumulatively(parts, A, B, ["level"]).parts.clips.labels["level"].tolist() == [
        *parts.clips.labels["level"][[A, A]],
        parts.clips.labels["level"][B],
    ]


def test_impossible_stages_are_named(parts: Decomposition) -> None:
    with pytest.raises(InputError, match=r"unknown factor 'levle'; did you mean 'level'\?"):
        swap_cumulatively(parts, A, B, ["mark", "levle"])
    with pytest.raises(InputError, match="expected a list of different factors, at least one, got 'level'"):
        swap_cumulatively(parts, A, B, "level")
    with pytest.raises(InputError, match="expected a list of different factors"):
        swap_combinations(parts, A, B, ["level", "level"])
    with pytest.raises(InputError, match="expected a list of different factors"):
        swap_combinations(parts, A, B, [])
    with pytest.raises(InputError, match=r"'static' or 'dynamic', got 'dynamics'; did you mean 'dynamic'\?"):
        swap_incrementally(parts, A, B, "dynamics", (1,))
    with pytest.raises(InputError, match="expected sequences from 0 to 19"):
        swap_cumulatively(parts, A, 20, ["level"])
    for sizes in ((), (0, 2), (3, 2), (1, 6), (None, 2)):
        with pytest.raises(InputError, match="expected growing sizes from 1 to 5, the number of dynamic modes, got"):
            swap_incrementally(parts, A, B, "dynamic", sizes)
