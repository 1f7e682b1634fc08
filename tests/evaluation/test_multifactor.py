"""The matrices, their scores and their floor on sequences whose labels can be read off."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from diskoop.analysis.decomposition import Decomposition, Donors, What
from diskoop.analysis.discovery import Verdict
from diskoop.data.builtin.oscillators import truth
from diskoop.data.sequences import Sequences
from diskoop.errors import InputError
from diskoop.evaluation.multifactor import (
    describe,
    floor,
    match,
    matched_factors,
    multifactor,
    multifactors,
    score,
    shows_donor,
    single,
)
from diskoop.numerics import Factor, swap
from tests.analysis.known import behind_identity
from tests.evaluation.known import ACTION_HALVES, POINTS, PROJECTORS, found_of, linear_set, plain_run, reads

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
    assert result.kept == 1


def test_two_factors_may_stand_for_one_label(parts: Decomposition, verdict: Any) -> None:
    half = torch.from_numpy(KNOWN["mark"])
    first = torch.outer(half[:, 0], half[0]) / (half[0] @ half[:, 0])  # a projector inside mark's space
    parts.factors.update({"one": Factor("one", first), "two": Factor("two", half - first)})
    matched = match(parts, ["one", "level", "two"], verdict)
    assert matched["mark"] == ["two", "one"]  # the one that hands over more first
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


# --- what is kept


@dataclass(frozen=True, eq=False)
class Redrawing(Decomposition):
    """A model that takes what it should from the donor, and every other label from whoever comes."""

    def swap(self, what: What, donor: Donors, amount: float = 1.0) -> Decomposition:
        new = super().swap(what, donor, amount)
        names = [name for name in PROJECTORS if name not in cast(tuple[str, ...], what)]
        random = np.random.Generator(np.random.PCG64(9))
        for name in names:
            anyone = torch.from_numpy(random.permutation(len(self)))
            new = replace(new, z=swap(new.z, self.z[anyone], self.factors[name]))
        return new


@dataclass(frozen=True, eq=False)
class Weak(Decomposition):
    """A model that takes what it should in one of `every` sequences, and nothing in the others."""

    every: int = 8

    def swap(self, what: What, donor: Donors, amount: float = 1.0) -> Decomposition:
        new = super().swap(what, donor, amount)
        takes = torch.arange(len(self)) % self.every == 0
        return replace(new, z=torch.where(takes[:, None, None], new.z, self.z))


NAMED = {name: [name] for name in PROJECTORS}
CHANCE = np.mean([1 / len(points) for points in POINTS.values()])


def named_parts(kind: type[Decomposition] = Decomposition) -> Decomposition:
    """480 sequences with factors that bear the names of the labels they stand for."""
    train = linear_set(10, seed=0)
    found = found_of({**PROJECTORS, "one": ACTION_HALVES[0], "two": ACTION_HALVES[1]})
    return kind(**vars(plain_run(train, 2, found).decompose(train)))


def test_a_perfect_model_keeps_everything_but_what_is_taken() -> None:
    result = multifactor(named_parts(), NAMED, reads().predict)
    others = ~np.eye(3, dtype=bool)
    assert np.array_equal(result.kept_matrix[others], np.ones(6))
    assert np.isnan(np.diag(result.kept_matrix)).all()
    assert result.kept == 1
    assert result.score > 0.98


def test_a_model_that_redraws_the_other_labels_has_a_perfect_score_and_keeps_chance() -> None:
    result = multifactor(named_parts(Redrawing), NAMED, reads().predict)
    assert result.score > 0.98  # the published score cannot see it
    assert result.kept == pytest.approx(CHANCE, abs=0.03)


def test_doing_nothing_keeps_everything_and_swapping_everything_what_donors_share() -> None:
    parts = named_parts()
    nothing, everything = multifactors(
        parts, [{name: [] for name in PROJECTORS}, {name: list(PROJECTORS) for name in PROJECTORS}], reads().predict
    )
    assert nothing.kept == 1
    assert everything.kept == pytest.approx(CHANCE, abs=0.03)
    assert nothing.score == pytest.approx(nothing.floor, abs=0.03)
    assert everything.score == pytest.approx(everything.floor)
    # A donor of the same value leaves a sequence its own: that counts as kept.
    assert np.allclose(everything.kept_matrix[0, 1:], nothing.matrix[0, 1:])


def test_rows_and_columns_of_what_is_kept() -> None:
    """Two factors that are mixed up: the level is taken with the tint's, and alone damages nothing."""
    result = multifactor(named_parts(), {"level": ["level"], "tint": ["tint", "level"]}, reads().predict)
    assert result.kept_matrix[0, 1] == 1
    assert result.kept_matrix[1, 0] == pytest.approx(1 / 4, abs=0.06)
    assert result.kept == np.mean([1, result.kept_matrix[1, 0]])


def test_of_one_label_nothing_is_kept() -> None:
    result = multifactor(named_parts(), {"level": ["level"]}, reads().predict)
    assert result.score == 1
    assert np.isnan(result.kept)


# --- one factor a label, and several joined


def test_each_swap_is_decoded_and_judged_once() -> None:
    """Both matrices, and both matchings, from the same frames."""
    calls: list[int] = []

    def counting(x: Iterator[torch.Tensor], lengths: NDArray[Any]) -> Mapping[str, NDArray[Any]]:
        calls.append(len(lengths))
        return reads().predict(x, lengths)

    matched = {"level": ["level"], "tint": [], "action": ["one", "two"]}
    joined, alone = multifactors(named_parts(), [matched, single(matched)], counting)
    assert len(calls) == 4  # level, nothing, both halves of the action, one of them
    assert alone.matched == {"level": ["level"], "tint": [], "action": ["one"]}
    assert np.array_equal(joined.matrix[:2], alone.matrix[:2])
    assert joined.matrix[2, 2] == 1
    assert 0.3 < alone.matrix[2, 2] < 0.7
    assert alone.score < joined.score
    again = multifactor(named_parts(), alone.matched, reads().predict)
    assert np.array_equal(again.matrix, alone.matrix)


def test_one_factor_a_label_is_the_same_where_there_is_one() -> None:
    joined, alone = multifactors(named_parts(), [NAMED, single(NAMED)], reads().predict)
    assert np.array_equal(joined.matrix, alone.matrix)
    assert (joined.score, joined.kept) == (alone.score, alone.kept)


def test_it_is_said_which_factors_are_joined() -> None:
    matched = {"hair": ["factor-2", "factor-1", "factor-5"], "top": ["factor-3"], "skin": []}
    assert describe(matched) == [
        "hair: factor-2, joined with factor-1 and factor-5",
        "top: factor-3",
        "skin: no factor changes it",
    ]


# --- what drawing errors hand over


def mistaken(share: float, changing: bool) -> Verdict:
    """A judge that sees an arbitrary level in a share of sequences: each time in others, or always the same."""
    draws = count()

    def judge(x: Iterator[torch.Tensor], lengths: NDArray[Any]) -> Mapping[str, NDArray[Any]]:
        seen = reads().predict(x, lengths)
        random = np.random.Generator(np.random.PCG64(next(draws) if changing else 0))
        wrong = random.random(len(lengths)) < share
        return seen | {"level": np.where(wrong, random.integers(4, size=len(lengths)), seen["level"])}

    return judge


@pytest.mark.parametrize("changing", [False, True])
def test_a_factor_that_drawing_errors_seem_to_hand_over_is_not_matched(changing: bool) -> None:
    parts, verdict = named_parts(), mistaken(0.6, changing)
    donors = np.random.Generator(np.random.PCG64(0)).permutation(len(parts))
    other = parts.clips.labels["level"] != parts.clips.labels["level"][donors]
    assert shows_donor(parts, [], verdict, donors)["level"][other].mean() > 0.1
    parts.factors["nothing"] = Factor("nothing", torch.zeros(4, 4, dtype=torch.float64))
    assert match(parts, ["nothing", "tint"], verdict) == {"level": [], "tint": ["tint"], "action": []}
    assert match(parts, ["level"], verdict)["level"] == ["level"]


def test_a_weak_factor_is_matched_and_one_that_is_hardly_there_is_not() -> None:
    parts = named_parts(Weak)
    assert match(parts, ["tint", "level"], mistaken(0.1, changing=False)) == {
        "level": ["level"],
        "tint": ["tint"],
        "action": [],
    }
    # In one of 17; counted over all sequences, also those whose donor has their own level, it would be one of 23.
    weaker = Weak(**vars(parts) | {"every": 17})
    assert match(weaker, ["level"], reads().predict)["level"] == ["level"]
    hardly = Weak(**vars(parts) | {"every": 25})
    assert match(hardly, ["level", "tint"], reads().predict) == {name: [] for name in PROJECTORS}


@pytest.mark.parametrize(("few", "wanted"), [(9, []), (40, ["level"])])
def test_a_few_sequences_prove_nothing(few: int, wanted: list[str]) -> None:
    assert match(named_parts().select(range(few)), ["level"], reads().predict)["level"] == wanted


@pytest.mark.parametrize("names", [["one", "action"], ["action", "one"]])
def test_the_factor_that_hands_over_most_comes_first(names: list[str]) -> None:
    """Of the action and one of its two directions."""
    assert match(named_parts(), names, reads().predict)["action"] == ["action", "one"]


def test_what_is_compared_are_the_same_frames() -> None:
    """A swap leaves what both have; so does that of nothing, before which nothing was handed over."""
    train = linear_set(2, seed=0)
    lengths = np.where(np.arange(len(train)) % 3 == 0, 4, 8)
    cut = Sequences.of(train.x, train.labels, lengths=lengths, units=train.units)
    seen: list[list[int]] = []

    def judge(x: Iterator[torch.Tensor], lengths: NDArray[Any]) -> Mapping[str, NDArray[Any]]:
        seen.append(lengths.tolist())
        return reads().predict(x, lengths)

    match(plain_run(train, 2, found_of(PROJECTORS)).decompose(cut), ["level"], judge)
    assert len(seen) == 2  # unswapped, swapped
    assert seen[0] == seen[1]
    assert seen[0] != lengths.tolist()


# --- what is left over


def test_what_is_left_over_is_matched_to_nothing_whatever_its_name() -> None:
    train = linear_set(6, seed=0)
    for name in ("rest", "unused", "level"):
        found = found_of({"level": PROJECTORS["level"]}, names={"level": name}, left_over=["level"])
        assert matched_factors(plain_run(train, 2, found), train, reads())["level"] == []
    kept = found_of({"level": PROJECTORS["level"]}, names={"level": "rest"})
    assert matched_factors(plain_run(train, 2, kept), train, reads())["level"] == ["rest"]
