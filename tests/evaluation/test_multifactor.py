"""The matrix, its score and its floor on sequences whose labels can be read off."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from diskoop.analysis.decomposition import Decomposition
from diskoop.data.builtin.oscillators import truth
from diskoop.errors import InputError
from diskoop.evaluation.multifactor import floor, match, matched_factors, multifactor, score
from diskoop.numerics import Factor
from tests.analysis.known import behind_identity
from tests.evaluation.known import PROJECTORS, found_of, linear_set, plain_run, reads

LABELS = ("level", "mark")
KNOWN = truth("oscillators").projectors


@pytest.fixture(scope="module")
def parts() -> Decomposition:
    parts = behind_identity("oscillators", "test")
    parts.factors.update({name: Factor(name, torch.from_numpy(p)) for name, p in KNOWN.items()})
    return parts


@pytest.fixture(scope="module")
def verdict(parts: Decomposition) -> Any:
    """Reads both labels off the first frame, by the nearest corner."""
    corners = {}
    for name in LABELS:
        own, codes = parts.z[:, 0].numpy() @ KNOWN[name], parts.clips.labels[name]
        corners[name] = np.stack([own[codes == value].mean(0) for value in np.unique(codes)])

    def judge(x: Iterator[torch.Tensor], lengths: NDArray[Any]) -> dict[str, NDArray[Any]]:
        start = torch.cat([some[:, 0] for some in x]).numpy()
        assert lengths.tolist() == [24] * len(start)
        return {
            name: np.linalg.norm((start @ KNOWN[name])[:, None] - points, axis=-1).argmin(1)
            for name, points in corners.items()
        }

    return judge


def test_the_published_matrix_has_the_published_score() -> None:
    matrix = np.array(
        [
            [0.843, 0.177, 0.183, 0.174, 0.129],
            [0.189, 0.985, 0.175, 0.166, 0.116],
            [0.176, 0.169, 0.992, 0.166, 0.115],
            [0.186, 0.167, 0.171, 0.985, 0.116],
            [0.187, 0.169, 0.172, 0.177, 0.995],
        ]
    )
    assert score(matrix, (6, 6, 6, 6, 9)) == pytest.approx(0.976, abs=5e-4)


def test_the_floor_is_what_doing_nothing_and_swapping_all_score() -> None:
    classes = (6, 6, 6, 6, 9)
    assert floor(classes) == pytest.approx(0.578, abs=5e-4)
    everything = np.ones((5, 5))
    assert score(everything, classes) == pytest.approx(floor(classes))
    perfect = np.broadcast_to(1 / np.array(classes), (5, 5)).copy()
    np.fill_diagonal(perfect, 1)
    assert score(perfect, classes) == 1
    assert score(np.ones((1, 1)), (4,)) == 1


def test_known_factors_are_matched_and_score(parts: Decomposition, verdict: Any) -> None:
    matched = match(parts, ["mark", "slow", "level"], verdict)
    assert matched == {"level": ["level"], "mark": ["mark"]}
    result = multifactor(parts, matched, verdict)
    assert result.labels == LABELS
    assert result.classes == (4, 3)
    assert np.array_equal(np.diag(result.matrix), [1, 1])
    assert abs(result.matrix[0, 1] - 1 / 3) < 0.08
    assert abs(result.matrix[1, 0] - 1 / 4) < 0.08
    assert result.score > 0.95 > result.floor


def test_two_factors_may_stand_for_one_label(parts: Decomposition, verdict: Any) -> None:
    half = torch.from_numpy(KNOWN["mark"])
    first = torch.outer(half[:, 0], half[0]) / (half[0] @ half[:, 0])  # a projector inside mark's space
    parts.factors.update({"one": Factor("one", first), "two": Factor("two", half - first)})
    matched = match(parts, ["one", "level", "two"], verdict)
    assert matched["mark"] == ["one", "two"]
    assert multifactor(parts, matched, verdict).matrix[1, 1] == 1


def test_a_factor_that_changes_nothing_matches_nothing(parts: Decomposition, verdict: Any) -> None:
    matched = match(parts, ["slow", "fast"], verdict)
    assert matched == {"level": [], "mark": []}
    result = multifactor(parts, matched, verdict)
    assert result.score == pytest.approx(result.floor, abs=0.03)


def test_donors_of_the_same_value_prove_nothing(parts: Decomposition, verdict: Any) -> None:
    """Among clips of one level every donor has that level; no factor is credited with handing it over."""
    same = parts.select(np.flatnonzero(parts.clips.labels["level"] == 2))
    assert match(same, ["slow", "mark"], verdict) == {"level": [], "mark": ["mark"]}


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        ({"level": "level"}, {"level": ["level"], "tint": [], "action": []}),
        ({"tint": "one"}, {"level": [], "tint": ["one"], "action": []}),
        ({"tint": "one", "level": "level"}, {"level": ["level"], "tint": ["one"], "action": []}),
        ({"action": "action", "tint": "tint", "level": "level"}, {name: [name] for name in PROJECTORS}),
    ],
)
def test_every_judged_label_of_the_set_has_a_row(names: dict[str, str], wanted: dict[str, list[str]]) -> None:
    train = linear_set(6, seed=0)
    run = plain_run(train, 2, found_of({name: PROJECTORS[name] for name in names}, names=names))
    matched = matched_factors(run, train, reads())
    assert matched == wanted
    assert list(matched) == ["level", "tint", "action"]  # as the judge has them
    fewer = replace(train, labels={name: train.labels[name] for name in ("action", "level")})
    assert matched_factors(run, fewer, reads()) == {name: wanted[name] for name in ("level", "action")}
    assert list(matched_factors(run, train, reads(["tint", "level"]))) == ["tint", "level"]


def test_nothing_to_match_is_said(parts: Decomposition, verdict: Any) -> None:
    with pytest.raises(InputError, match="nothing to match"):
        match(parts, [], verdict)
