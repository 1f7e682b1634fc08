"""Swaps of a linear set with identity networks: matrices and their scores, matching, factorial swaps, single frames."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from diskoop.analysis.decomposition import Decomposition, Donors, FactorLike
from diskoop.analysis.discovery.results import Predict
from diskoop.data.sequences import Sequences
from diskoop.data.sets.oscillators import truth
from diskoop.errors import InputError
from diskoop.evaluation import registry
from diskoop.evaluation.classifiers import Classifier
from diskoop.evaluation.protocols import swaps
from diskoop.evaluation.protocols.sampling import measure_factor_sampling, measure_sampling
from diskoop.evaluation.protocols.swaps import (
    SwapMatrices,
    chance_score,
    describe_matches,
    match_by_swaps,
    match_factors,
    measure_consistency,
    measure_factorial,
    measure_swaps,
    shows_donor,
    strongest_factors,
    swap_matrices,
    swap_score,
)
from diskoop.evaluation.registry import EvalConfig, EvalContext, Outcome
from diskoop.evaluation.results import Key, Values
from diskoop.numerics import Factor, swap
from diskoop.run import Run
from tests.helpers.decompositions import behind_identity
from tests.helpers.known_models import (
    ACTION_HALVES,
    MOTION,
    POINTS,
    PROJECTORS,
    concatenate,
    cut,
    known_classifier,
    known_factors,
    linear_set,
    mistaken,
    plain_run,
)

Array = NDArray[Any]
LABELS = ("level", "mark")
KNOWN = truth("oscillators").projectors
ALWAYS = {  # with three repetitions, batches of 200 and seed 0
    Key("static_sampled", "level", "paper"): 0.2513888888888889,
    Key("sampling", "static_diversity", "paper"): 0.5580111363472402,
    Key("sampling", "is", "paper"): 3.3312206107673976,
    Key("sampling", "hyx", "paper"): 0.18295518308316314,
    Key("sampling", "hy", "paper"): 1.386293969692556,
    Key("dynamic_sampled", "action", "paper"): 0.2673611111111111,
    Key("sampling", "dynamic_diversity", "paper"): 0.7476500018531044,
    Key("static_sampled", "tint", "two"): 0.3298611111111111,
    Key("sampling", "static_diversity", "two"): 0.8709572606855929,
    Key("dynamic_sampled", "action", "two"): 0.24513888888888888,
    Key("sampling", "static_diversity", "factors"): 0.8709572606855929,
    Key("sampling", "dynamic_diversity", "factors"): 0.9217807333510205,
    Key("factorial", "tint", "level"): 0.32708333333333334,
    Key("factorial_alone", "action", "tint"): 0.26319444444444445,
    Key("multifactor", "score"): 0.991550925925926,
}
CHANCE = {label: 1 / len(points) for label, points in POINTS.items()}
CONFIG = EvalConfig(repeats=3, batch_size=200)
NAMES = {"level": "one", "tint": "two", "action": "three"}  # names that say nothing
STATIC = ("level", "tint")
NOTE = "factors: known, in a linear set"


@pytest.fixture(scope="module")
def parts() -> Decomposition:
    parts = behind_identity("oscillators", "test")
    parts.factors.update({name: Factor(name, torch.from_numpy(p)) for name, p in KNOWN.items()})
    return parts


@pytest.fixture(scope="module")
def predict(parts: Decomposition) -> Any:
    """KnownClassifier both labels off the first frame, by the nearest corner."""
    corners = {}
    for name in LABELS:
        own, codes = parts.z[:, 0].numpy() @ KNOWN[name], parts.clips.labels[name]
        corners[name] = np.stack([own[codes == value].mean(0) for value in np.unique(codes)])

    def classifier(x: Iterator[torch.Tensor], lengths: NDArray[Any]) -> dict[str, NDArray[Any]]:
        start = torch.cat([some[:, 0] for some in x]).numpy()
        assert lengths.tolist() == [24] * len(start)
        return {
            name: np.linalg.norm((start @ KNOWN[name])[:, None] - points, axis=-1).argmin(1)
            for name, points in corners.items()
        }

    return classifier


@pytest.fixture(scope="module")
def train() -> Sequences:
    return linear_set(6, seed=0)


@pytest.fixture(scope="module")
def clips() -> Sequences:
    return linear_set(10, seed=1)


@pytest.fixture(scope="module")
def run(train: Sequences) -> Run:
    return plain_run(train, 2, known_factors(PROJECTORS, [MOTION], NAMES))


def matrices(parts: Decomposition, matched: Mapping[str, Any], predict: Predict, seed: int = 0) -> SwapMatrices:
    (result,) = swap_matrices(parts, [matched], predict, seed)
    return result


def factorial(run: Run, clips: Sequences, classifier: Classifier, motion: str | None, config: EvalConfig) -> Values:
    return measure_factorial(run, EvalContext(clips, clips, classifier, config, motion_label=motion)).values


def swap_factors(run: Run, train: Sequences, clips: Sequences, classifier: Classifier, config: EvalConfig) -> Outcome:
    return measure_swaps(run, EvalContext(train, clips, classifier, config))


def consistency(run: Run, clips: Sequences, classifier: Any, motion: str | None, config: EvalConfig) -> Values:
    context = EvalContext(clips, clips, None, config, classifier, motion)
    return measure_consistency(run, context).values


# --- matrices and matching


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
    assert swap_score(matrix, (6, 6, 6, 6, 9)) == pytest.approx(0.976, abs=5e-4)


def test_the_floor_is_what_doing_nothing_and_swapping_all_score() -> None:
    classes = (6, 6, 6, 6, 9)
    assert chance_score(classes) == pytest.approx(0.578, abs=5e-4)
    everything = np.ones((5, 5))
    assert swap_score(everything, classes) == pytest.approx(chance_score(classes))
    perfect = np.broadcast_to(1 / np.array(classes), (5, 5)).copy()
    np.fill_diagonal(perfect, 1)
    assert swap_score(perfect, classes) == 1
    assert swap_score(np.ones((1, 1)), (4,)) == 1


def test_known_factors_are_matched_and_score(parts: Decomposition, predict: Any) -> None:
    matched = match_by_swaps(parts, ["mark", "slow", "level"], predict)
    assert matched == {"level": ["level"], "mark": ["mark"]}
    result = matrices(parts, matched, predict)
    assert result.labels == LABELS
    assert list(result.classes) == [4, 3]
    assert np.array_equal(np.diag(result.matrix), [1, 1])
    assert abs(result.matrix[0, 1] - 1 / 3) < 0.08
    assert abs(result.matrix[1, 0] - 1 / 4) < 0.08
    assert result.score > 0.95 > result.chance_score
    assert result.kept == 1


def test_of_unequal_frequencies_chance_is_that_two_sequences_agree(parts: Decomposition, predict: Any) -> None:
    """Doing nothing and swapping everything both score the floor, which 1 / values does not tell."""
    codes = parts.clips.labels["mark"]
    rare = np.flatnonzero(codes == 0)[:20]
    some = parts.select(np.concatenate([np.flatnonzero(codes == 1), rare]))
    share = np.array([(some.clips.labels["mark"] == value).mean() for value in (0, 1)])
    nothing: dict[str, list[str]] = {"level": [], "mark": []}
    everything = {label: ["static", "dynamic"] for label in nothing}
    same, gone = swap_matrices(some, [nothing, everything], predict, by_frequency=True)
    assert same.classes[1] == pytest.approx(1 / np.square(share).sum())
    assert same.classes[1] < 2 < swap_matrices(some, [nothing], predict)[0].classes[1] == 3
    assert same.matrix[0, 1] == pytest.approx(np.square(share).sum(), abs=0.03)
    assert gone.kept_matrix[0, 1] == pytest.approx(np.square(share).sum(), abs=0.03)
    assert same.score == pytest.approx(same.chance_score, abs=0.02)
    assert gone.score == pytest.approx(gone.chance_score, abs=0.02)


def test_two_factors_may_stand_for_one_label(parts: Decomposition, predict: Any) -> None:
    half = torch.from_numpy(KNOWN["mark"])
    first = torch.outer(half[:, 0], half[0]) / (half[0] @ half[:, 0])  # a projector inside mark's space
    parts.factors.update({"one": Factor("one", first), "two": Factor("two", half - first)})
    matched = match_by_swaps(parts, ["one", "level", "two"], predict)
    assert matched["mark"] == ["two", "one"]  # the one that hands over more first
    assert matrices(parts, matched, predict).matrix[1, 1] == 1


def test_a_factor_that_changes_nothing_matches_nothing(parts: Decomposition, predict: Any) -> None:
    matched = match_by_swaps(parts, ["slow", "fast"], predict)
    assert matched == {"level": [], "mark": []}
    result = matrices(parts, matched, predict)
    assert result.score == pytest.approx(result.chance_score, abs=0.03)


def test_donors_of_the_same_value_prove_nothing(parts: Decomposition, predict: Any) -> None:
    """Among clips of one level every donor has that level; no factor is credited with handing it over."""
    same = parts.select(np.flatnonzero(parts.clips.labels["level"] == 2))
    assert match_by_swaps(same, ["slow", "mark"], predict) == {"level": [], "mark": ["mark"]}


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        ({"level": "level"}, {"level": ["level"], "tint": [], "action": []}),
        ({"tint": "one"}, {"level": [], "tint": ["one"], "action": []}),
        ({"tint": "one", "level": "level"}, {"level": ["level"], "tint": ["one"], "action": []}),
        ({"action": "action", "tint": "tint", "level": "level"}, {name: [name] for name in PROJECTORS}),
    ],
)
def test_every_classified_label_of_the_set_has_a_row(names: dict[str, str], wanted: dict[str, list[str]]) -> None:
    train = linear_set(6, seed=0)
    run = plain_run(train, 2, known_factors({name: PROJECTORS[name] for name in names}, names=names))
    matched = match_factors(run, train, known_classifier())
    assert matched == wanted
    assert list(matched) == ["level", "tint", "action"]  # as the classifier has them
    fewer = replace(train, labels={name: train.labels[name] for name in ("action", "level")})
    assert match_factors(run, fewer, known_classifier()) == {name: wanted[name] for name in ("level", "action")}
    assert list(match_factors(run, train, known_classifier(["tint", "level"]))) == ["tint", "level"]


def test_nothing_to_match_is_said(parts: Decomposition, predict: Any) -> None:
    with pytest.raises(InputError, match="nothing to match"):
        match_by_swaps(parts, [], predict)


# --- what is kept


@dataclass(frozen=True, eq=False)
class Redrawing(Decomposition):
    """A model that takes what it should from the donor, and every other label from whoever comes."""

    def swap(self, what: FactorLike, donor: Donors, amount: float = 1.0) -> Decomposition:
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

    def swap(self, what: FactorLike, donor: Donors, amount: float = 1.0) -> Decomposition:
        new = super().swap(what, donor, amount)
        takes = torch.arange(len(self)) % self.every == 0
        return replace(new, z=torch.where(takes[:, None, None], new.z, self.z))


NAMED = {name: [name] for name in PROJECTORS}
MEAN_CHANCE = np.mean([1 / len(points) for points in POINTS.values()])


def named_parts(kind: type[Decomposition] = Decomposition) -> Decomposition:
    """480 sequences with factors that bear the names of the labels they stand for."""
    train = linear_set(10, seed=0)
    found = known_factors({**PROJECTORS, "one": ACTION_HALVES[0], "two": ACTION_HALVES[1]})
    return kind(**vars(plain_run(train, 2, found).decompose(train)))


def test_a_perfect_model_keeps_everything_but_what_is_taken() -> None:
    result = matrices(named_parts(), NAMED, known_classifier().predict)
    others = ~np.eye(3, dtype=bool)
    assert np.array_equal(result.kept_matrix[others], np.ones(6))
    assert np.isnan(np.diag(result.kept_matrix)).all()
    assert result.kept == 1
    assert result.score > 0.98


def test_a_model_that_redraws_the_other_labels_has_a_perfect_score_and_keeps_chance() -> None:
    result = matrices(named_parts(Redrawing), NAMED, known_classifier().predict)
    assert result.score > 0.98  # the published score cannot see it
    assert result.kept == pytest.approx(MEAN_CHANCE, abs=0.03)


def test_doing_nothing_keeps_everything_and_swapping_everything_what_donors_share() -> None:
    parts = named_parts()
    nothing, everything = swap_matrices(
        parts,
        [{name: [] for name in PROJECTORS}, {name: list(PROJECTORS) for name in PROJECTORS}],
        known_classifier().predict,
    )
    assert nothing.kept == 1
    assert everything.kept == pytest.approx(MEAN_CHANCE, abs=0.03)
    assert nothing.score == pytest.approx(nothing.chance_score, abs=0.03)
    assert everything.score == pytest.approx(everything.chance_score)
    # A donor of the same value leaves a sequence its own: that counts as kept.
    assert np.allclose(everything.kept_matrix[0, 1:], nothing.matrix[0, 1:])


def test_rows_and_columns_of_what_is_kept() -> None:
    """Two factors that are mixed up: the level is taken with the tint's, and alone damages nothing."""
    result = matrices(named_parts(), {"level": ["level"], "tint": ["tint", "level"]}, known_classifier().predict)
    assert result.kept_matrix[0, 1] == 1
    assert result.kept_matrix[1, 0] == pytest.approx(1 / 4, abs=0.06)
    assert result.kept == np.mean([1, result.kept_matrix[1, 0]])


def test_of_one_label_nothing_is_kept() -> None:
    result = matrices(named_parts(), {"level": ["level"]}, known_classifier().predict)
    assert result.score == 1
    assert np.isnan(result.kept)


# --- one factor a label, and several joined


def test_each_swap_is_decoded_and_classified_once() -> None:
    """Both matrices, and both matchings, from the same frames."""
    calls: list[int] = []

    def counting(x: Iterator[torch.Tensor], lengths: NDArray[Any]) -> Mapping[str, NDArray[Any]]:
        calls.append(len(lengths))
        return known_classifier().predict(x, lengths)

    matched = {"level": ["level"], "tint": [], "action": ["one", "two"]}
    joined, alone = swap_matrices(named_parts(), [matched, strongest_factors(matched)], counting)
    assert len(calls) == 4  # level, nothing, both halves of the action, one of them
    assert alone.matched == {"level": ["level"], "tint": [], "action": ["one"]}
    assert np.array_equal(joined.matrix[:2], alone.matrix[:2])
    assert joined.matrix[2, 2] == 1
    assert 0.3 < alone.matrix[2, 2] < 0.7
    assert alone.score < joined.score
    again = matrices(named_parts(), alone.matched, known_classifier().predict)
    assert np.array_equal(again.matrix, alone.matrix)


def test_one_factor_a_label_is_the_same_where_there_is_one() -> None:
    joined, alone = swap_matrices(named_parts(), [NAMED, strongest_factors(NAMED)], known_classifier().predict)
    assert np.array_equal(joined.matrix, alone.matrix)
    assert (joined.score, joined.kept) == (alone.score, alone.kept)


def test_it_is_said_which_factors_are_joined() -> None:
    matched = {"hair": ["factor-2", "factor-1", "factor-5"], "top": ["factor-3"], "skin": []}
    assert describe_matches(matched) == [
        "hair: factor-2, joined with factor-1 and factor-5",
        "top: factor-3",
        "skin: no factor changes it",
    ]


# --- what drawing errors hand over


def misdrawing(share: float, changing: bool) -> Predict:
    """A classifier that sees an arbitrary level in a share of sequences: each time in others, or always the same."""
    draws = count()

    def classifier(x: Iterator[torch.Tensor], lengths: NDArray[Any]) -> Mapping[str, NDArray[Any]]:
        seen = known_classifier().predict(x, lengths)
        random = np.random.Generator(np.random.PCG64(next(draws) if changing else 0))
        wrong = random.random(len(lengths)) < share
        return seen | {"level": np.where(wrong, random.integers(4, size=len(lengths)), seen["level"])}

    return classifier


@pytest.mark.parametrize("changing", [False, True])
def test_a_factor_that_drawing_errors_seem_to_hand_over_is_not_matched(changing: bool) -> None:
    parts, predict = named_parts(), misdrawing(0.6, changing)
    donors = np.random.Generator(np.random.PCG64(0)).permutation(len(parts))
    other = parts.clips.labels["level"] != parts.clips.labels["level"][donors]
    assert shows_donor(parts, [], predict, donors)["level"][other].mean() > 0.1
    parts.factors["nothing"] = Factor("nothing", torch.zeros(4, 4, dtype=torch.float64))
    assert match_by_swaps(parts, ["nothing", "tint"], predict) == {"level": [], "tint": ["tint"], "action": []}
    assert match_by_swaps(parts, ["level"], predict)["level"] == ["level"]


def test_a_weak_factor_is_matched_and_one_that_is_hardly_there_is_not() -> None:
    parts = named_parts(Weak)
    assert match_by_swaps(parts, ["tint", "level"], misdrawing(0.1, changing=False)) == {
        "level": ["level"],
        "tint": ["tint"],
        "action": [],
    }
    # In one of 17; counted over all sequences, also those whose donor has their own level, it would be one of 23.
    weaker = Weak(**vars(parts) | {"every": 17})
    assert match_by_swaps(weaker, ["level"], known_classifier().predict)["level"] == ["level"]
    hardly = Weak(**vars(parts) | {"every": 25})
    assert match_by_swaps(hardly, ["level", "tint"], known_classifier().predict) == {name: [] for name in PROJECTORS}


@pytest.mark.parametrize(("few", "wanted"), [(9, []), (40, ["level"])])
def test_a_few_sequences_prove_nothing(few: int, wanted: list[str]) -> None:
    assert match_by_swaps(named_parts().select(range(few)), ["level"], known_classifier().predict)["level"] == wanted


@pytest.mark.parametrize("names", [["one", "action"], ["action", "one"]])
def test_the_factor_that_hands_over_most_comes_first(names: list[str]) -> None:
    """Of the action and one of its two directions."""
    assert match_by_swaps(named_parts(), names, known_classifier().predict)["action"] == ["action", "one"]


def test_what_is_compared_are_the_same_frames() -> None:
    """A swap leaves what both have; so does that of nothing, before which nothing was handed over."""
    train = linear_set(2, seed=0)
    lengths = np.where(np.arange(len(train)) % 3 == 0, 4, 8)
    cut = Sequences.of(train.x, train.labels, lengths=lengths, units=train.units)
    seen: list[list[int]] = []

    def classifier(x: Iterator[torch.Tensor], lengths: NDArray[Any]) -> Mapping[str, NDArray[Any]]:
        seen.append(lengths.tolist())
        return known_classifier().predict(x, lengths)

    match_by_swaps(plain_run(train, 2, known_factors(PROJECTORS)).decompose(cut), ["level"], classifier)
    assert len(seen) == 2  # unswapped, swapped
    assert seen[0] == seen[1]
    assert seen[0] != lengths.tolist()


# --- what is left over


def test_what_is_left_over_is_matched_to_nothing_whatever_its_name() -> None:
    train = linear_set(6, seed=0)
    for name in ("rest", "unused", "level"):
        found = known_factors({"level": PROJECTORS["level"]}, names={"level": name}, remainder=["level"])
        assert match_factors(plain_run(train, 2, found), train, known_classifier())["level"] == []
    kept = known_factors({"level": PROJECTORS["level"]}, names={"level": "rest"})
    assert match_factors(plain_run(train, 2, kept), train, known_classifier())["level"] == ["rest"]


# --- factorial swaps


def test_the_known_modes_are_found_and_hand_over_what_they_stand_for(run: Run, clips: Sequences) -> None:
    values = factorial(run, clips, known_classifier(), MOTION, CONFIG)
    assert set(values) == {
        Key(name, shown, taken) for name in ("factorial", "factorial_alone") for taken in STATIC for shown in POINTS
    }
    for taken in STATIC:
        for shown in POINTS:
            wanted = 1 if shown == taken else CHANCE[shown]
            assert values[Key("factorial", shown, taken)].mean == pytest.approx(wanted, abs=0.05)
            assert values[Key("factorial_alone", shown, taken)] == values[Key("factorial", shown, taken)]
        assert values[Key("factorial", taken, taken)].mean == 1
    again = values[Key("factorial", "tint", "level")].std
    assert again is not None
    assert again > 0  # donors are drawn anew


def test_alone_asks_that_nothing_else_changes(run: Run, clips: Sequences) -> None:
    """A label that both modes make, and one that the first makes by itself.

    The fewest recognise the one when both modes are swapped; the other is left alone when only the second is.
    """

    class Two:
        labels = ("both", "half", MOTION)

        def predict(self, x: Iterator[torch.Tensor], lengths: np.ndarray) -> dict[str, np.ndarray]:
            return seen_as(known_classifier().predict(x, lengths))

    def seen_as(codes: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        half = codes["level"] // 2
        return {"both": 3 * half + codes["tint"], "half": half, MOTION: codes[MOTION]}

    clips = replace(clips, labels=seen_as(clips.labels))
    values = factorial(run, clips, Two(), MOTION, EvalConfig(repeats=2, batch_size=1000))  # type: ignore[arg-type]
    assert values[Key("factorial", "both", "both")].mean == 1
    assert values[Key("factorial", "half", "both")].mean == 1
    assert values[Key("factorial_alone", "half", "both")].mean == pytest.approx(1 / 2, abs=0.05)
    assert values[Key("factorial_alone", "both", "both")].mean == values[Key("factorial_alone", "half", "both")].mean


def test_factorial_swaps_take_each_batchs_operator(run: Run, clips: Sequences) -> None:
    right, wrong = (factorial(each, clips, known_classifier(), MOTION, CONFIG) for each in (run, mistaken(run)))
    assert right == wrong


def test_modes_are_searched_for_in_some_batches_only(run: Run, clips: Sequences) -> None:
    """The others are not scored either, so what is left gives the same as if it were all there is."""
    config = EvalConfig(repeats=2, batch_size=200)
    first = clips.select(config.batches(len(clips))[0])
    seen: list[int] = []

    class Counting:
        labels = tuple(POINTS)

        def predict(self, x: Iterator[torch.Tensor], lengths: np.ndarray) -> dict[str, np.ndarray]:
            seen.append(len(lengths))
            return known_classifier().predict(x, lengths)

    factorial(run, clips, Counting(), MOTION, replace(config, search_batches=1))  # type: ignore[arg-type]
    assert set(seen) == {len(first)}
    assert len(seen) == 3 + 2 * 4  # sets of two modes; both criteria for both labels, twice


def test_every_batch_and_repetition_has_other_donors(
    run: Run, clips: Sequences, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[tuple[int, ...]] = []

    def watching(parts: Any, what: Any, predict: Any, donors: Any) -> Any:
        drawn.append(tuple(donors.tolist()))
        return shows_donor(parts, what, predict, donors)

    monkeypatch.setattr(swaps, "shows_donor", watching)
    config = EvalConfig(repeats=3, batch_size=240)
    assert [len(batch) for batch in config.batches(len(clips))] == [240, 240]
    factorial(run, clips, known_classifier(), MOTION, config)
    assert len(drawn) == 3 * 2 * 4  # repetitions, batches, both criteria for both labels
    assert all(sorted(donors) == list(range(240)) for donors in drawn)
    assert len(set(drawn)) == 3 * 2  # the same for all that is swapped in one batch


def test_only_the_moving_label_is_nothing_to_swap(run: Run, clips: Sequences) -> None:
    with pytest.raises(InputError, match="there is no label but action to swap"):
        factorial(run, clips, known_classifier([MOTION]), MOTION, CONFIG)
    alone = replace(clips, labels={MOTION: clips.labels[MOTION]})
    with pytest.raises(InputError, match="there is no label but action to swap"):
        factorial(run, alone, known_classifier(), MOTION, CONFIG)


# --- one factor at a time


def test_known_factors_score_nearly_one(run: Run, train: Sequences, clips: Sequences) -> None:
    values, notes = swap_factors(run, train, clips, known_classifier(), CONFIG)
    assert notes == [NOTE, "level: one", "tint: two", "action: three"]
    assert values[Key("multifactor", "score")].mean > 0.98
    assert values[Key("multifactor", "chance_score")].mean == chance_score((4, 3, 4))
    assert values[Key("multifactor", "chance_score")].std is None
    for taken in POINTS:
        for shown in POINTS:
            wanted = 1 if taken == shown else pytest.approx(CHANCE[shown], abs=0.06)
            assert values[Key("swap", shown, taken)].mean == wanted
            assert (Key("swap_kept", shown, taken) in values) == (taken != shown)
    kept = [value.mean for key, value in values.items() if key.metric == "swap_kept" or "kept" in key.column]
    assert kept == [1] * (3 * 2 + 2)  # every label but the one taken, and the score of both matchings
    assert (
        values[Key("multifactor", "single_score")] == values[Key("multifactor", "score")]
    )  # one factor for each label


def test_factors_that_are_joined_are_named_and_scored_alone_too(run: Run, train: Sequences, clips: Sequences) -> None:
    """The two directions of the action: which quarter it is, one of them tells at most half of the time."""
    first, second = ACTION_HALVES
    halves = {"level": PROJECTORS["level"], "tint": PROJECTORS["tint"], "one": first, "two": second}
    values, notes = swap_factors(replace(run, factors=known_factors(halves)), train, clips, known_classifier(), CONFIG)
    assert notes[1:3] == ["level: level", "tint: tint"]
    assert notes[3] in ("action: one, joined with two", "action: two, joined with one")
    assert values[Key("multifactor", "score")].mean > 0.98
    alone = values[Key("multifactor", "single_score")].mean
    assert values[Key("multifactor", "score")].mean - alone == pytest.approx((1 - 0.5) / 3 / 2, abs=0.08)
    assert values[Key("multifactor", "kept")].mean == values[Key("multifactor", "single_kept")].mean == 1


def test_what_is_kept_sees_damage_that_the_score_does_not(run: Run, train: Sequences, clips: Sequences) -> None:
    """The factor of level spoils the tint: seen as it is where nothing was swapped, else drawn at random."""

    class Spoilt:
        labels = tuple(POINTS)

        def predict(self, x: Iterator[torch.Tensor], lengths: np.ndarray) -> dict[str, np.ndarray]:
            seen = known_classifier().predict(x, lengths)
            changed = (seen["level"] != clips.labels["level"]).any()
            random = np.random.Generator(np.random.PCG64(0))
            return seen | ({"tint": random.integers(3, size=len(lengths))} if changed else {})

    named = replace(run, factors=known_factors(PROJECTORS))
    values, _ = swap_factors(named, train, clips, cast(Classifier, Spoilt()), CONFIG)
    assert values[Key("multifactor", "score")].mean > 0.98
    assert values[Key("swap_kept", "tint", "level")].mean == pytest.approx(1 / 3, abs=0.06)
    assert values[Key("swap_kept", "action", "level")].mean == 1
    assert values[Key("multifactor", "kept")].mean == pytest.approx((5 + 1 / 3) / 6, abs=0.02)


def test_of_a_single_label_nothing_else_can_be_kept(run: Run, train: Sequences, clips: Sequences) -> None:
    values, _ = swap_factors(run, train, clips, known_classifier(["level"]), CONFIG)
    columns = ("score", "chance_score", "single_score")
    assert set(values) == {Key("swap", "level", "level"), *(Key("multifactor", column) for column in columns)}


def test_repetitions_have_seeds_of_their_own(run: Run, train: Sequences, clips: Sequences) -> None:
    config = EvalConfig(repeats=2, seed=5)
    values, _ = swap_factors(run, train, clips, known_classifier(), config)
    matched = {"level": ["one"], "tint": ["two"], "action": ["three"]}
    seeds = [int(config.generator(10, number).integers(2**31)) for number in range(2)]
    each = [matrices(run.decompose(clips), matched, known_classifier().predict, seed=seed) for seed in seeds]
    assert not np.array_equal(each[0].matrix, each[1].matrix)
    matrix = (each[0].matrix + each[1].matrix) / 2
    assert values[Key("swap", "level", "tint")].mean == pytest.approx(matrix[1, 0])
    assert values[Key("swap", "tint", "level")].mean == pytest.approx(matrix[0, 1])
    assert values[Key("swap_kept", "level", "tint")].mean == pytest.approx(
        (each[0].kept_matrix + each[1].kept_matrix)[1, 0] / 2
    )
    assert values[Key("multifactor", "kept")].mean == pytest.approx((each[0].kept + each[1].kept) / 2)
    assert values[Key("multifactor", "score")].mean == pytest.approx((each[0].score + each[1].score) / 2)


def test_swaps_are_repeated_often_enough_and_no_more(
    run: Run, train: Sequences, clips: Sequences, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "MAX_SWAP_REPEATS", 2)
    config = EvalConfig(repeats=4)
    assert swap_factors(run, train, clips, known_classifier(), config)[0][Key("multifactor", "score")].count == 2
    sampled = measure_sampling(run, EvalContext(clips, clips, known_classifier(), config)).values
    assert {value.count for value in sampled.values()} == {4}


def test_two_seeds_share_no_draws(
    run: Run, train: Sequences, clips: Sequences, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or what is measured again with the next seed would be the same but for one repetition."""
    used: list[int] = []
    known = matrices(run.decompose(clips.select(range(9))), {"level": ["one"]}, known_classifier().predict)

    def seeded(parts: Any, matchings: Any, predict: Any, seed: int, by_frequency: bool) -> Any:
        used.append(seed)
        return [known] * len(matchings)

    monkeypatch.setattr(swaps, "swap_matrices", seeded)
    for seed in (0, 1):
        swap_factors(run, train, clips, known_classifier(), EvalConfig(repeats=30, seed=seed))
    assert len(set(used)) == 60


def test_a_single_named_factor_is_no_perfect_run(run: Run, train: Sequences, clips: Sequences) -> None:
    """What no factor stands for is a row all the same, in which nothing is handed over."""
    alone = replace(run, factors=known_factors({"level": PROJECTORS["level"]}))
    values, notes = swap_factors(alone, train, clips, known_classifier(), CONFIG)
    assert notes == [NOTE, "level: level", "tint: no factor changes it", "action: no factor changes it"]
    assert values[Key("swap", "level", "level")].mean == 1
    for label in ("tint", MOTION):
        assert values[Key("swap", label, label)].mean == pytest.approx(CHANCE[label], abs=0.06)
    lost = (1 - CHANCE["tint"] + 1 - CHANCE[MOTION]) / 3 / 2  # of two of three labels
    assert values[Key("multifactor", "score")].mean == pytest.approx(1 - lost, abs=0.03)
    assert values[Key("multifactor", "chance_score")].mean == chance_score((4, 3, 4))


def test_factors_are_matched_in_training_sequences_and_scored_in_others(
    run: Run, train: Sequences, clips: Sequences
) -> None:
    def shuffled(some: Sequences) -> Sequences:
        order = np.random.Generator(np.random.PCG64(8)).permutation(len(some))
        return replace(some, labels={name: codes[order] for name, codes in some.labels.items()})

    lowest = chance_score((4, 3, 4))
    values, notes = swap_factors(run, train, shuffled(clips), known_classifier(), CONFIG)
    assert notes == [NOTE, "level: one", "tint: two", "action: three"]  # whatever the test labels say
    assert values[Key("multifactor", "score")].mean == pytest.approx(lowest, abs=0.05)
    four = shuffled(train.select(train.labels["level"] == 3))  # one level: nothing to learn of it
    values, notes = swap_factors(run, four, clips, known_classifier(), CONFIG)
    assert notes[:2] == [NOTE, "level: no factor changes it"]
    assert values[Key("swap", "level", "level")].mean == pytest.approx(1 / 4, abs=0.06)


def test_a_factor_that_bears_a_labels_name_needs_no_matching(run: Run, clips: Sequences) -> None:
    """And is held to it: here the one called level is the tint."""
    crossed = {"level": PROJECTORS["tint"], "tint": PROJECTORS["level"], "action": PROJECTORS["action"]}
    values, notes = swap_factors(replace(run, factors=known_factors(crossed)), clips, clips, known_classifier(), CONFIG)
    assert notes == [NOTE, "level: level", "tint: tint", "action: action"]
    assert values[Key("swap", "tint", "level")].mean == 1
    assert values[Key("swap", "level", "level")].mean < 0.5


def test_figures_are_what_they_have_always_been(run: Run, train: Sequences, clips: Sequences) -> None:
    """A seed's values are printed and compared: whoever changes how they come about must not change them."""
    classifier = known_classifier(sharpness=2.0)
    run = replace(run, factors=known_factors(PROJECTORS, [MOTION]))
    context = EvalContext(train, clips, classifier, CONFIG, motion_label=MOTION)
    values: Values = {}
    for measure in (measure_sampling, measure_factor_sampling, measure_factorial, measure_swaps):
        values |= measure(run, context).values
    assert {key: values[key].mean for key in ALWAYS} == pytest.approx(ALWAYS, rel=1e-9)


# --- frames


def test_frames_of_one_sequence_agree_as_far_as_they_show_one_value(run: Run, clips: Sequences) -> None:
    """A level stays. A blinking light is on in every other frame: no two neighbours agree, and half with most."""
    classifier = known_classifier()

    class Blinking:
        labels = ("level", "light", MOTION)

        def predict_frames(self, x: Iterator[Tensor], lengths: Array) -> dict[str, Array]:
            assert (lengths == 8).all()
            codes = classifier.predict_frames(x, lengths)
            return {"level": codes["level"], "light": np.tile([0, 1], (len(lengths), 4)), MOTION: codes[MOTION]}

    values = consistency(run, clips, Blinking(), MOTION, CONFIG)
    assert {key: value.mean for key, value in values.items()} == {
        Key("consistency", "level", "global"): 1,
        Key("consistency", "level", "local"): 1,
        Key("consistency", "light", "global"): 0.5,
        Key("consistency", "light", "local"): 0,
    }


def test_after_a_swap_of_unequal_sequences_only_what_is_left_is_asked_for(run: Run, clips: Sequences) -> None:
    values = consistency(run, cut(clips), known_classifier(), None, CONFIG)
    assert values[Key("consistency", "level", "global")].mean == 1
    assert values[Key("consistency", "level", "local")].mean == 1
    assert values[Key("consistency", MOTION, "local")].mean < 1  # it turns


def test_it_is_the_static_part_that_is_swapped(clips: Sequences) -> None:
    seen: list[Array] = []

    class Looking:
        def predict_frames(self, x: Iterator[Tensor], lengths: Array) -> dict[str, Array]:
            seen.append(concatenate(x))
            return {"level": np.zeros(seen[-1].shape[:2], np.int64)}

    run = plain_run(clips, 2)
    consistency(run, clips, Looking(), None, CONFIG)
    moving = PROJECTORS[MOTION]
    some = clips.x
    assert np.allclose(seen[0] @ moving, some @ moving)
    apart = np.abs((seen[0] - some) @ (PROJECTORS["level"] + PROJECTORS["tint"]))
    assert apart.max() > 0.5
    codes = (seen[0] @ PROJECTORS["level"])[:, 0]
    own = (some @ PROJECTORS["level"])[:, 0]
    assert np.allclose(np.sort(codes, 0), np.sort(own, 0))  # everybody's, in another order


def test_a_plan_says_what_it_loops_over(run: Run, train: Sequences, clips: Sequences) -> None:
    said: list[tuple[int, str]] = []

    def progress(over: object, what: str) -> object:
        said.append((len(over), what))  # type: ignore[arg-type]
        return over

    config = EvalConfig(repeats=2, batch_size=200, search_batches=1, progress=progress)  # type: ignore[arg-type]
    factorial(run, clips, known_classifier(), MOTION, config)
    swap_factors(run, train, clips, known_classifier(), config)
    assert said == [(1, "searching modes"), (2, "factorial swaps"), (2, "one factor at a time")]
