"""The paper's experiments on a linear set behind identity networks, judged without a mistake."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from diskoop.analysis import decomposition
from diskoop.data.sequences import PIXELS, Sequences
from diskoop.errors import InputError
from diskoop.evaluation import protocols
from diskoop.evaluation.baselines import untrained
from diskoop.evaluation.judges import Judge, Network
from diskoop.evaluation.metrics import (
    conditional_entropy,
    diversity,
    inception_score,
    marginal_entropy,
    probabilities,
)
from diskoop.evaluation.multifactor import floor, multifactor, shows_donor
from diskoop.evaluation.protocols import (
    ProtocolConfig,
    factorial,
    moving_label,
    one_at_a_time,
    two_factors,
    two_factors_as_found,
)
from diskoop.evaluation.results import Figures
from diskoop.models.autoencoder import build_model
from diskoop.numerics.weights import over_two
from diskoop.run import Run
from diskoop.settings import Settings
from diskoop.training.checkpoint import RunFolder
from tests.evaluation.known import (
    ACTION_HALVES,
    MOVING,
    POINTS,
    PROJECTORS,
    found_of,
    linear_set,
    operator_of,
    plain_run,
    reads,
)

ALWAYS = {  # with three repetitions, batches of 200 and seed 0
    "two/paper/static/kept/level": 0.2513888888888889,
    "two/paper/static/diversity": 0.5580111363472402,
    "two/paper/static/is": 3.3312206107673976,
    "two/paper/static/hyx": 0.18295518308316314,
    "two/paper/static/hy": 1.386293969692556,
    "two/paper/dynamic/kept/action": 0.2673611111111111,
    "two/paper/dynamic/diversity": 0.7476500018531044,
    "two/two/static/kept/tint": 0.3298611111111111,
    "two/two/static/diversity": 0.8709572606855929,
    "two/two/dynamic/kept/action": 0.24513888888888888,
    "two/found/static/diversity": 0.8709572606855929,
    "two/found/dynamic/diversity": 0.9217807333510205,
    "factorial/level/tint": 0.32708333333333334,
    "factorial-alone/tint/action": 0.26319444444444445,
    "multifactor/score": 0.991550925925926,
}
ON_CUDA = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA here"))
CHANCE = {label: 1 / len(points) for label, points in POINTS.items()}
STILL = ("level", "tint")
PLAN = ProtocolConfig(repeats=3, batch=200)
KNOWN = "factors: known, in a linear set"
LOOKS = {"level": "one", "tint": "two", "action": "three"}  # names that say nothing


@pytest.fixture(scope="module")
def train() -> Sequences:
    return linear_set(6, seed=0)


@pytest.fixture(scope="module")
def clips() -> Sequences:
    return linear_set(10, seed=1)


@pytest.fixture(scope="module")
def run(train: Sequences) -> Run:
    return plain_run(train, 2, found_of(PROJECTORS, [MOVING], LOOKS))


@pytest.fixture(scope="module")
def sampled(run: Run, clips: Sequences) -> Figures:
    return two_factors(run, clips, reads(), MOVING, PLAN)


def mistaken(run: Run) -> Run:
    """The run with a frozen operator that takes what moves for what stays."""
    wrong = PROJECTORS["action"] + 0.3 * PROJECTORS["level"] + 0.2 * PROJECTORS["tint"]
    return replace(run, operator=replace(run.operator, matrix=torch.from_numpy(wrong)))


# --- two factors


@pytest.mark.parametrize("way", ["paper", "two"])
def test_what_is_not_sampled_is_kept_and_the_rest_falls_to_chance(sampled: Figures, way: str) -> None:
    for label in POINTS:
        kept = {part: sampled[f"two/{way}/{part}/kept/{label}"].mean for part in ("static", "dynamic")}
        own, other = ("dynamic", "static") if label == MOVING else ("static", "dynamic")
        assert kept[other] == 1
        assert kept[own] == pytest.approx(CHANCE[label], abs=0.07)


@pytest.mark.parametrize("way", ["paper", "two"])
def test_the_papers_figures_are_those_of_the_judges_beliefs(run: Run, clips: Sequences, way: str) -> None:
    """The static part is not what shows the action, so the beliefs are those about the clips as they are."""
    judge = reads(sharpness=2.0)  # in two minds
    figures = two_factors(run, clips, judge, MOVING, ProtocolConfig(repeats=2, batch=200))
    p = probabilities(judge.logits(clips.x)[MOVING])
    assert 0.1 < conditional_entropy(p) < marginal_entropy(p)
    begin = f"two/{way}/static"
    assert figures[f"{begin}/is"].mean == pytest.approx(inception_score(p))
    assert figures[f"{begin}/hyx"].mean == pytest.approx(conditional_entropy(p))
    assert figures[f"{begin}/hy"].mean == pytest.approx(marginal_entropy(p))
    assert figures[f"{begin}/acc"] == figures[f"{begin}/kept/{MOVING}"]
    assert not {f"two/{way}/dynamic/{key}" for key in ("acc", "is", "hyx", "hy")} & set(figures)


def test_acc_is_that_of_the_moving_label(run: Run, clips: Sequences) -> None:
    figures = two_factors(run, clips, reads(), "level", PLAN)
    assert figures["two/two/static/acc"] == figures["two/two/static/kept/level"]
    assert figures["two/two/static/acc"].mean < 0.4
    unnamed = two_factors(run, clips, reads(), None, PLAN)
    assert "two/two/static/acc" not in unnamed
    assert unnamed["two/two/static/kept/level"] == figures["two/two/static/kept/level"]


def test_mixtures_of_the_whole_batch_are_the_same_person_again_and_again(sampled: Figures) -> None:
    for part in ("static", "dynamic"):
        whole, two = (sampled[f"two/{way}/{part}/diversity"].mean for way in ("paper", "two"))
        assert whole < 0.9 * two
        assert two < 1


@pytest.mark.parametrize(("number", "part"), [(0, "static"), (1, "dynamic")])
def test_diversity_is_that_of_the_first_batch(run: Run, clips: Sequences, number: int, part: str) -> None:
    plan = ProtocolConfig(repeats=1, batch=200)
    figures = two_factors(run, clips, reads(), MOVING, plan)
    parts = run.decompose(clips.select(plan.batches(len(clips))[0]))
    generator = torch.Generator().manual_seed(int(plan.random(2, number).integers(2**31)))
    expected = diversity(parts.sample(part, generator, over_two).decode(), parts.decode())
    assert figures[f"two/two/{part}/diversity"].mean == pytest.approx(expected)


def test_diversity_is_that_of_frames_which_all_sequences_have(run: Run, clips: Sequences) -> None:
    """What is behind the end of the shortest would count as different in every pair, or as the same."""
    lengths = np.where(np.arange(len(clips)) % 3 == 0, 4, 8)
    cut = Sequences.of(clips.x, clips.labels, lengths=lengths, units=clips.units)
    short = Sequences.of(clips.x[:, :4], clips.labels, units=clips.units)
    plan = ProtocolConfig(repeats=1, batch=1000)
    both = (two_factors(run, some, reads(), MOVING, plan) for some in (cut, short))
    found, wanted = ([figures[f"two/two/{part}/diversity"].mean for part in ("static", "dynamic")] for figures in both)
    assert found == pytest.approx(wanted)
    whole = two_factors(run, clips, reads(), MOVING, plan)["two/two/static/diversity"].mean
    assert abs(whole - found[0]) > 1e-4


def test_the_papers_way_has_each_batchs_operator_and_the_other_the_frozen_one(
    run: Run, clips: Sequences, sampled: Figures
) -> None:
    figures = two_factors(mistaken(run), clips, reads(), MOVING, PLAN)
    for key, value in sampled.items():
        if key.startswith("two/paper/"):
            assert figures[key].mean == pytest.approx(value.mean)
    assert figures["two/two/static/acc"].mean == pytest.approx(CHANCE[MOVING], abs=0.07)
    assert figures["two/two/static/kept/level"].mean == 1


def test_labels_that_only_the_judge_knows_are_not_counted(run: Run, clips: Sequences) -> None:
    fewer = replace(clips, labels={name: clips.labels[name] for name in ("level", MOVING)})
    figures = two_factors(run, fewer, reads(), MOVING, ProtocolConfig(repeats=1))
    assert {key.rsplit("/", 1)[1] for key in figures if "/kept/" in key} == {"level", MOVING}


def test_factors_as_found_stand_for_the_parts_they_make_up(run: Run, clips: Sequences, sampled: Figures) -> None:
    """Level and tint are all that stays: the same draws give the same figures. What is left over is in neither."""
    rest = found_of({"unused": PROJECTORS["level"]}, left_over=["unused"]).factors
    assert run.found is not None
    found = replace(run.found, factors=(*run.found.factors, *rest))
    figures = two_factors_as_found(replace(run, found=found), clips, reads(), MOVING, PLAN)
    assert len(figures) == len(sampled) // 2
    for key, value in figures.items():
        assert value.mean == pytest.approx(sampled[key.replace("two/found/", "two/two/")].mean)


@pytest.mark.parametrize(("moves", "word"), [(tuple(POINTS), "all"), ((), "none")])
def test_factors_of_one_kind_have_no_other_part(run: Run, clips: Sequences, moves: tuple[str, ...], word: str) -> None:
    alike = replace(run, found=found_of(PROJECTORS, moves))
    with pytest.raises(InputError, match=f"of the factors level, tint, action {word} move"):
        two_factors_as_found(alike, clips, reads(), MOVING, PLAN)
    with pytest.raises(InputError, match="no factors yet"):
        two_factors_as_found(replace(run, found=None), clips, reads(), MOVING, PLAN)


# --- plans


@pytest.mark.parametrize(("count", "sizes"), [(100, [100]), (600, [300, 300]), (1000, [250] * 4), (5, [5])])
def test_everyone_is_in_one_batch_of_nearly_the_size_wished(count: int, sizes: list[int]) -> None:
    batches = ProtocolConfig(batch=256).batches(count)
    assert [len(each) for each in batches] == sizes
    everyone = np.concatenate(batches)
    assert sorted(everyone) == list(range(count))
    assert list(everyone) != list(range(count))
    assert np.array_equal(everyone, np.concatenate(ProtocolConfig(batch=256).batches(count)))
    assert not np.array_equal(everyone, np.concatenate(ProtocolConfig(batch=256, seed=1).batches(count)))


def test_a_seed_decides(run: Run, clips: Sequences, sampled: Figures) -> None:
    assert two_factors(run, clips, reads(), MOVING, PLAN) == sampled
    other = two_factors(run, clips, reads(), MOVING, replace(PLAN, seed=1))
    for key in ("two/paper/static/diversity", "two/two/static/kept/level", "two/two/dynamic/diversity"):
        assert other[key].mean != sampled[key].mean


def test_only_repetitions_have_a_deviation_and_an_interval(run: Run, clips: Sequences, sampled: Figures) -> None:
    once = two_factors(run, clips, reads(), MOVING, replace(PLAN, repeats=1))
    for value in once.values():
        assert (value.std, value.low, value.high, value.count) == (None, None, None, 1)
    several = sampled["two/two/static/kept/level"]
    assert several.count == 3
    assert several.std is not None
    assert several.low is not None
    assert several.high is not None
    assert several.std > 0
    assert several.low <= several.mean <= several.high
    assert several.low < several.high


def test_every_purpose_has_draws_of_its_own() -> None:
    purposes = [(2,), (2, 0), (2, 0, 0), (2, 1), (0,), (0, 0), (), (3, 0, 1), (3, 1, 0), (3, 1)]
    draws = {ProtocolConfig(seed=seed).random(*purpose).integers(2**62) for seed in (0, 1) for purpose in purposes}
    assert len(draws) == 2 * len(purposes)
    assert ProtocolConfig(seed=4).random(2, 0).integers(2**62) == ProtocolConfig(seed=4).random(2, 0).integers(2**62)


def test_a_plan_says_what_it_loops_over(run: Run, train: Sequences, clips: Sequences) -> None:
    said: list[tuple[int, str]] = []

    def progress(over: object, what: str) -> object:
        said.append((len(over), what))  # type: ignore[arg-type]
        return over

    plan = ProtocolConfig(repeats=2, batch=200, searched=1, progress=progress)  # type: ignore[arg-type]
    factorial(run, clips, reads(), MOVING, plan)
    one_at_a_time(run, train, clips, reads(), plan)
    assert said == [(1, "searching modes"), (2, "factorial swaps"), (2, "one factor at a time")]


def test_the_label_that_moves_is_known_by_its_name() -> None:
    assert moving_label(["hair", "action"]) == "action"
    assert moving_label(["level", "mark"]) is None


@pytest.mark.parametrize("device", ["cpu", ON_CUDA])
def test_chunks_are_judged_as_whole_arrays_would_be(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The protocol spelt out: every batch decoded whole, brought to numpy, judged by itself."""
    monkeypatch.setattr(decomposition, "CHUNK", 5)
    clips = film()
    run, judge = untrained_pair(clips, device)
    plan = ProtocolConfig(repeats=2, batch=12)
    figures = two_factors(run, clips, judge, "action", plan)
    for way, choice in protocols.WAYS.items():
        parts = [run.decompose(clips.select(batch), choice.operator) for batch in plan.batches(len(clips))]
        for number, half in enumerate(("static", "dynamic")):
            generator = torch.Generator().manual_seed(int(plan.random(2, number).integers(2**31)))
            kept, scores, spreads = [], [], []
            for _ in range(2):
                new = [each.sample(half, generator, choice.weights) for each in parts]
                said = [judge.logits(each.decode(), each.lengths)["action"] for each in new]
                truth = np.concatenate([each.clips.labels["action"] for each in parts])
                kept.append((np.concatenate(said).argmax(1) == truth).mean())
                scores.append(inception_score(probabilities(np.concatenate(said))))
                least = new[0].lengths.min()
                spreads.append(diversity(new[0].decode()[:, :least], parts[0].decode()[:, :least]))
            begin = f"two/{way}/{half}"
            assert figures[f"{begin}/kept/action"].mean == pytest.approx(np.mean(kept))
            assert figures[f"{begin}/diversity"].mean == pytest.approx(np.mean(spreads), rel=1e-9)
            if half == "static":
                assert figures[f"{begin}/is"].mean == pytest.approx(np.mean(scores), rel=1e-6)


def film() -> Sequences:
    """Video of unequal length."""
    random = np.random.Generator(np.random.PCG64(0))
    x = random.integers(0, 256, (37, 5, 3, 32, 32), np.uint8)
    return Sequences.of(x, {"action": random.integers(4, size=37)}, lengths=random.integers(3, 6, 37))


def untrained_pair(clips: Sequences, device: str) -> tuple[Run, Judge]:
    """A run and a judge in float64 that have learnt nothing."""
    torch.manual_seed(0)
    settings = Settings.of({"model": {"k": 6, "h": 6, "width": 4}, "spectrum": {"static": 2}})
    model = build_model(settings.model, clips.shape[2:]).double().to(device)
    bare = Run(settings, model, operator_of(np.eye(6)), PIXELS, RunFolder(Path("nowhere")))
    network = Network(clips.shape[2:], [4]).double().to(device).eval()
    return untrained(bare, clips), Judge(network, {"action": tuple("abcd")}, {}, {}, PIXELS, 0)


def test_figures_are_what_they_have_always_been(run: Run, train: Sequences, clips: Sequences) -> None:
    """A seed's figures are printed and compared: whoever changes how they come about must not change them."""
    judge = reads(sharpness=2.0)
    run = replace(run, found=found_of(PROJECTORS, [MOVING]))
    figures = two_factors(run, clips, judge, MOVING, PLAN) | two_factors_as_found(run, clips, judge, MOVING, PLAN)
    figures |= factorial(run, clips, judge, MOVING, PLAN) | one_at_a_time(run, train, clips, judge, PLAN)[0]
    assert {key: figures[key].mean for key in ALWAYS} == pytest.approx(ALWAYS, rel=1e-9)


# --- factorial swaps


def test_the_known_modes_are_found_and_hand_over_what_they_stand_for(run: Run, clips: Sequences) -> None:
    figures = factorial(run, clips, reads(), MOVING, PLAN)
    assert set(figures) == {
        f"{key}/{taken}/{shown}" for key in ("factorial", "factorial-alone") for taken in STILL for shown in POINTS
    }
    for taken in STILL:
        for shown in POINTS:
            wanted = 1 if shown == taken else CHANCE[shown]
            assert figures[f"factorial/{taken}/{shown}"].mean == pytest.approx(wanted, abs=0.05)
            assert figures[f"factorial-alone/{taken}/{shown}"] == figures[f"factorial/{taken}/{shown}"]
        assert figures[f"factorial/{taken}/{taken}"].mean == 1
    again = figures["factorial/level/tint"].std
    assert again is not None
    assert again > 0  # donors are drawn anew


def test_alone_asks_that_nothing_else_changes(run: Run, clips: Sequences) -> None:
    """A label that both modes make, and one that the first makes by itself.

    The fewest recognise the one when both modes are swapped; the other is left alone when only the second is.
    """

    class Two:
        labels = ("both", "half", MOVING)

        def predict(self, x: Iterator[torch.Tensor], lengths: np.ndarray) -> dict[str, np.ndarray]:
            return seen_as(reads().predict(x, lengths))

    def seen_as(codes: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        half = codes["level"] // 2
        return {"both": 3 * half + codes["tint"], "half": half, MOVING: codes[MOVING]}

    clips = replace(clips, labels=seen_as(clips.labels))
    figures = factorial(run, clips, Two(), MOVING, ProtocolConfig(repeats=2, batch=1000))  # type: ignore[arg-type]
    assert figures["factorial/both/both"].mean == 1
    assert figures["factorial/both/half"].mean == 1
    assert figures["factorial-alone/both/half"].mean == pytest.approx(1 / 2, abs=0.05)
    assert figures["factorial-alone/both/both"].mean == figures["factorial-alone/both/half"].mean


def test_factorial_swaps_take_each_batchs_operator(run: Run, clips: Sequences) -> None:
    right, wrong = (factorial(each, clips, reads(), MOVING, PLAN) for each in (run, mistaken(run)))
    assert right == wrong


def test_modes_are_searched_for_in_some_batches_only(run: Run, clips: Sequences) -> None:
    """The others are not scored either, so what is left gives the same as if it were all there is."""
    plan = ProtocolConfig(repeats=2, batch=200)
    first = clips.select(plan.batches(len(clips))[0])
    seen: list[int] = []

    class Counting:
        labels = tuple(POINTS)

        def predict(self, x: Iterator[torch.Tensor], lengths: np.ndarray) -> dict[str, np.ndarray]:
            seen.append(len(lengths))
            return reads().predict(x, lengths)

    factorial(run, clips, Counting(), MOVING, replace(plan, searched=1))  # type: ignore[arg-type]
    assert set(seen) == {len(first)}
    assert len(seen) == 3 + 2 * 4  # sets of two modes; both criteria for both labels, twice


def test_every_batch_and_repetition_has_other_donors(
    run: Run, clips: Sequences, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[tuple[int, ...]] = []

    def watching(parts: Any, what: Any, verdict: Any, donors: Any) -> Any:
        drawn.append(tuple(donors.tolist()))
        return shows_donor(parts, what, verdict, donors)

    monkeypatch.setattr(protocols, "shows_donor", watching)
    plan = ProtocolConfig(repeats=3, batch=240)
    assert [len(batch) for batch in plan.batches(len(clips))] == [240, 240]
    factorial(run, clips, reads(), MOVING, plan)
    assert len(drawn) == 3 * 2 * 4  # repetitions, batches, both criteria for both labels
    assert all(sorted(donors) == list(range(240)) for donors in drawn)
    assert len(set(drawn)) == 3 * 2  # the same for all that is swapped in one batch


def test_only_the_moving_label_is_nothing_to_swap(run: Run, clips: Sequences) -> None:
    with pytest.raises(InputError, match="there is no label but action to swap"):
        factorial(run, clips, reads([MOVING]), MOVING, PLAN)
    alone = replace(clips, labels={MOVING: clips.labels[MOVING]})
    with pytest.raises(InputError, match="there is no label but action to swap"):
        factorial(run, alone, reads(), MOVING, PLAN)


# --- one factor at a time


def test_known_factors_score_nearly_one(run: Run, train: Sequences, clips: Sequences) -> None:
    figures, notes = one_at_a_time(run, train, clips, reads(), PLAN)
    assert notes == [KNOWN, "level: one", "tint: two", "action: three"]
    assert figures["multifactor/score"].mean > 0.98
    assert figures["multifactor/floor"].mean == floor((4, 3, 4))
    assert figures["multifactor/floor"].std is None
    for taken in POINTS:
        for shown in POINTS:
            wanted = 1 if taken == shown else pytest.approx(CHANCE[shown], abs=0.06)
            assert figures[f"multifactor/{taken}/{shown}"].mean == wanted
            assert (f"kept/{taken}/{shown}" in figures) == (taken != shown)
    kept = [value.mean for key, value in figures.items() if key.startswith("kept")]
    assert kept == [1] * (3 * 2 + 2)  # every label but the one taken, and the score of both matchings
    assert figures["multifactor-single/score"] == figures["multifactor/score"]  # one factor for each label


def test_factors_that_are_joined_are_named_and_scored_alone_too(run: Run, train: Sequences, clips: Sequences) -> None:
    """The two directions of the action: which quarter it is, one of them tells at most half of the time."""
    first, second = ACTION_HALVES
    halves = {"level": PROJECTORS["level"], "tint": PROJECTORS["tint"], "one": first, "two": second}
    figures, notes = one_at_a_time(replace(run, found=found_of(halves)), train, clips, reads(), PLAN)
    assert notes[1:3] == ["level: level", "tint: tint"]
    assert notes[3] in ("action: one, joined with two", "action: two, joined with one")
    assert figures["multifactor/score"].mean > 0.98
    alone = figures["multifactor-single/score"].mean
    assert figures["multifactor/score"].mean - alone == pytest.approx((1 - 0.5) / 3 / 2, abs=0.08)
    assert figures["kept/score"].mean == figures["kept-single/score"].mean == 1


def test_what_is_kept_sees_damage_that_the_score_does_not(run: Run, train: Sequences, clips: Sequences) -> None:
    """The factor of level spoils the tint: seen as it is where nothing was swapped, else drawn at random."""

    class Spoilt:
        labels = tuple(POINTS)

        def predict(self, x: Iterator[torch.Tensor], lengths: np.ndarray) -> dict[str, np.ndarray]:
            seen = reads().predict(x, lengths)
            changed = (seen["level"] != clips.labels["level"]).any()
            random = np.random.Generator(np.random.PCG64(0))
            return seen | ({"tint": random.integers(3, size=len(lengths))} if changed else {})

    named = replace(run, found=found_of(PROJECTORS))
    figures, _ = one_at_a_time(named, train, clips, cast(Judge, Spoilt()), PLAN)
    assert figures["multifactor/score"].mean > 0.98
    assert figures["kept/level/tint"].mean == pytest.approx(1 / 3, abs=0.06)
    assert figures["kept/level/action"].mean == 1
    assert figures["kept/score"].mean == pytest.approx((5 + 1 / 3) / 6, abs=0.02)


def test_of_a_single_label_nothing_else_can_be_kept(run: Run, train: Sequences, clips: Sequences) -> None:
    figures, _ = one_at_a_time(run, train, clips, reads(["level"]), PLAN)
    assert set(figures) == {f"multifactor{key}" for key in ("/level/level", "/score", "/floor", "-single/score")}


def test_repetitions_have_seeds_of_their_own(run: Run, train: Sequences, clips: Sequences) -> None:
    plan = ProtocolConfig(repeats=2, seed=5)
    figures, _ = one_at_a_time(run, train, clips, reads(), plan)
    matched = {"level": ["one"], "tint": ["two"], "action": ["three"]}
    seeds = [int(plan.random(10, number).integers(2**31)) for number in range(2)]
    each = [multifactor(run.decompose(clips), matched, reads().predict, seed=seed) for seed in seeds]
    assert not np.array_equal(each[0].matrix, each[1].matrix)
    matrix = (each[0].matrix + each[1].matrix) / 2
    assert figures["multifactor/tint/level"].mean == pytest.approx(matrix[1, 0])
    assert figures["multifactor/level/tint"].mean == pytest.approx(matrix[0, 1])
    assert figures["kept/tint/level"].mean == pytest.approx((each[0].kept_matrix + each[1].kept_matrix)[1, 0] / 2)
    assert figures["kept/score"].mean == pytest.approx((each[0].kept + each[1].kept) / 2)
    assert figures["multifactor/score"].mean == pytest.approx((each[0].score + each[1].score) / 2)


def test_swaps_are_repeated_often_enough_and_no_more(
    run: Run, train: Sequences, clips: Sequences, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocols, "MOST_REPEATS", 2)
    plan = ProtocolConfig(repeats=4)
    assert one_at_a_time(run, train, clips, reads(), plan)[0]["multifactor/score"].count == 2
    sampled = two_factors(run, clips, reads(), "action", plan)
    assert {figure.count for figure in sampled.values()} == {4}
    assert plan.beside == ProtocolConfig(repeats=2)
    assert ProtocolConfig(repeats=1).beside == ProtocolConfig(repeats=1)


def test_two_seeds_share_no_draws(
    run: Run, train: Sequences, clips: Sequences, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or what is measured again with the next seed would be the same but for one repetition."""
    used: list[int] = []
    known = multifactor(run.decompose(clips.select(range(9))), {"level": ["one"]}, reads().predict)

    def seeded(parts: Any, matchings: Any, verdict: Any, seed: int) -> Any:
        used.append(seed)
        return [known] * len(matchings)

    monkeypatch.setattr(protocols, "multifactors", seeded)
    for seed in (0, 1):
        one_at_a_time(run, train, clips, reads(), ProtocolConfig(repeats=30, seed=seed))
    assert len(set(used)) == 60


def test_a_single_named_factor_is_no_perfect_run(run: Run, train: Sequences, clips: Sequences) -> None:
    """What no factor stands for is a row all the same, in which nothing is handed over."""
    alone = replace(run, found=found_of({"level": PROJECTORS["level"]}))
    figures, notes = one_at_a_time(alone, train, clips, reads(), PLAN)
    assert notes == [KNOWN, "level: level", "tint: no factor changes it", "action: no factor changes it"]
    assert figures["multifactor/level/level"].mean == 1
    for label in ("tint", MOVING):
        assert figures[f"multifactor/{label}/{label}"].mean == pytest.approx(CHANCE[label], abs=0.06)
    lost = (1 - CHANCE["tint"] + 1 - CHANCE[MOVING]) / 3 / 2  # of two of three labels
    assert figures["multifactor/score"].mean == pytest.approx(1 - lost, abs=0.03)
    assert figures["multifactor/floor"].mean == floor((4, 3, 4))


def test_factors_are_matched_in_training_sequences_and_scored_in_others(
    run: Run, train: Sequences, clips: Sequences
) -> None:
    def shuffled(some: Sequences) -> Sequences:
        order = np.random.Generator(np.random.PCG64(8)).permutation(len(some))
        return replace(some, labels={name: codes[order] for name, codes in some.labels.items()})

    lowest = floor((4, 3, 4))
    figures, notes = one_at_a_time(run, train, shuffled(clips), reads(), PLAN)
    assert notes == [KNOWN, "level: one", "tint: two", "action: three"]  # whatever the test labels say
    assert figures["multifactor/score"].mean == pytest.approx(lowest, abs=0.05)
    four = shuffled(train.select(train.labels["level"] == 3))  # one level: nothing to learn of it
    figures, notes = one_at_a_time(run, four, clips, reads(), PLAN)
    assert notes[:2] == [KNOWN, "level: no factor changes it"]
    assert figures["multifactor/level/level"].mean == pytest.approx(1 / 4, abs=0.06)


def test_a_factor_that_bears_a_labels_name_needs_no_matching(run: Run, clips: Sequences) -> None:
    """And is held to it: here the one called level is the tint."""
    crossed = {"level": PROJECTORS["tint"], "tint": PROJECTORS["level"], "action": PROJECTORS["action"]}
    figures, notes = one_at_a_time(replace(run, found=found_of(crossed)), clips, clips, reads(), PLAN)
    assert notes == [KNOWN, "level: level", "tint: tint", "action: action"]
    assert figures["multifactor/level/tint"].mean == 1
    assert figures["multifactor/level/level"].mean < 0.5
