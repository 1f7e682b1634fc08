"""Two-factor sampling of a linear set with identity networks and a classifier that is never wrong."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from diskoop.analysis import decomposition
from diskoop.data.sequences import PIXELS, Sequences
from diskoop.errors import InputError
from diskoop.evaluation.baselines import untrained_network
from diskoop.evaluation.classifiers import Classifier, ClassifierNetwork
from diskoop.evaluation.metrics import (
    conditional_entropy,
    diversity,
    inception_score,
    marginal_entropy,
    probabilities,
)
from diskoop.evaluation.protocols.sampling import SAMPLING_MODES, measure_factor_sampling, measure_sampling
from diskoop.evaluation.registry import EvalConfig, EvalContext
from diskoop.evaluation.results import Key, Values
from diskoop.models.autoencoder import build_model
from diskoop.numerics.mixing import pair_weights
from diskoop.run import Run
from diskoop.run_folder import RunFolder
from diskoop.settings import Settings
from tests.helpers.known_models import (
    MOTION,
    POINTS,
    PROJECTORS,
    known_classifier,
    known_factors,
    linear_set,
    mistaken,
    operator_of,
    plain_run,
)

ON_CUDA = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA here"))
CHANCE = {label: 1 / len(points) for label, points in POINTS.items()}
CONFIG = EvalConfig(repeats=3, batch_size=200)
NAMES = {"level": "one", "tint": "two", "action": "three"}  # names that say nothing


@pytest.fixture(scope="module")
def train() -> Sequences:
    return linear_set(6, seed=0)


@pytest.fixture(scope="module")
def clips() -> Sequences:
    return linear_set(10, seed=1)


@pytest.fixture(scope="module")
def run(train: Sequences) -> Run:
    return plain_run(train, 2, known_factors(PROJECTORS, [MOTION], NAMES))


def sample(run: Run, clips: Sequences, classifier: Classifier, motion: str | None, config: EvalConfig) -> Values:
    return measure_sampling(run, EvalContext(clips, clips, classifier, config, motion_label=motion)).values


def sample_factors(run: Run, clips: Sequences) -> Values:
    return measure_factor_sampling(
        run, EvalContext(clips, clips, known_classifier(), CONFIG, motion_label=MOTION)
    ).values


@pytest.fixture(scope="module")
def sampled(run: Run, clips: Sequences) -> Values:
    return sample(run, clips, known_classifier(), MOTION, CONFIG)


@pytest.mark.parametrize("mode", ["paper", "two"])
def test_what_is_not_sampled_is_kept_and_the_rest_falls_to_chance(sampled: Values, mode: str) -> None:
    for label in POINTS:
        kept = {part: sampled[Key(f"{part}_sampled", label, mode)].mean for part in ("static", "dynamic")}
        own, other = ("dynamic", "static") if label == MOTION else ("static", "dynamic")
        assert kept[other] == 1
        assert kept[own] == pytest.approx(CHANCE[label], abs=0.07)


@pytest.mark.parametrize("mode", ["paper", "two"])
def test_the_papers_figures_are_those_of_the_classifiers_probabilities(run: Run, clips: Sequences, mode: str) -> None:
    """The static part is not what shows the action, so the beliefs are those about the clips as they are."""
    classifier = known_classifier(sharpness=2.0)  # in two minds
    values = sample(run, clips, classifier, MOTION, EvalConfig(repeats=2, batch_size=200))
    p = probabilities(classifier.logits(clips.x)[MOTION])
    assert 0.1 < conditional_entropy(p) < marginal_entropy(p)
    assert values[Key("sampling", "is", mode)].mean == pytest.approx(inception_score(p))
    assert values[Key("sampling", "hyx", mode)].mean == pytest.approx(conditional_entropy(p))
    assert values[Key("sampling", "hy", mode)].mean == pytest.approx(marginal_entropy(p))
    assert values[Key("sampling", "acc", mode)] == values[Key("static_sampled", MOTION, mode)]
    assert len([key for key in values if key.column == "acc"]) == 2  # of the static part alone


def test_acc_is_that_of_the_moving_label(run: Run, clips: Sequences) -> None:
    values = sample(run, clips, known_classifier(), "level", CONFIG)
    assert values[Key("sampling", "acc", "two")] == values[Key("static_sampled", "level", "two")]
    assert values[Key("sampling", "acc", "two")].mean < 0.4
    unnamed = sample(run, clips, known_classifier(), None, CONFIG)
    assert Key("sampling", "acc", "two") not in unnamed
    assert unnamed[Key("static_sampled", "level", "two")] == values[Key("static_sampled", "level", "two")]


def test_mixtures_of_the_whole_batch_are_the_same_person_again_and_again(sampled: Values) -> None:
    for part in ("static", "dynamic"):
        whole, two = (sampled[Key("sampling", f"{part}_diversity", mode)].mean for mode in ("paper", "two"))
        assert whole < 0.9 * two
        assert two < 1


@pytest.mark.parametrize(("number", "part"), [(0, "static"), (1, "dynamic")])
def test_diversity_is_that_of_the_first_batch(run: Run, clips: Sequences, number: int, part: str) -> None:
    config = EvalConfig(repeats=1, batch_size=200)
    values = sample(run, clips, known_classifier(), MOTION, config)
    parts = run.decompose(clips.select(config.batches(len(clips))[0]))
    generator = torch.Generator().manual_seed(int(config.generator(2, number).integers(2**31)))
    expected = diversity(parts.sample(part, generator, pair_weights).decode(), parts.decode())
    assert values[Key("sampling", f"{part}_diversity", "two")].mean == pytest.approx(expected)


def test_diversity_is_that_of_frames_which_all_sequences_have(run: Run, clips: Sequences) -> None:
    """What is behind the end of the shortest would count as different in every pair, or as the same."""
    lengths = np.where(np.arange(len(clips)) % 3 == 0, 4, 8)
    cut = Sequences.of(clips.x, clips.labels, lengths=lengths, units=clips.units)
    short = Sequences.of(clips.x[:, :4], clips.labels, units=clips.units)
    config = EvalConfig(repeats=1, batch_size=1000)
    both = (sample(run, some, known_classifier(), MOTION, config) for some in (cut, short))
    found, wanted = (
        [values[Key("sampling", f"{part}_diversity", "two")].mean for part in ("static", "dynamic")] for values in both
    )
    assert found == pytest.approx(wanted)
    whole = sample(run, clips, known_classifier(), MOTION, config)[Key("sampling", "static_diversity", "two")].mean
    assert abs(whole - found[0]) > 1e-4


def test_the_papers_way_has_each_batchs_operator_and_the_other_the_frozen_one(
    run: Run, clips: Sequences, sampled: Values
) -> None:
    values = sample(mistaken(run), clips, known_classifier(), MOTION, CONFIG)
    for key, value in sampled.items():
        if key.row == "paper":
            assert values[key].mean == pytest.approx(value.mean)
    assert values[Key("sampling", "acc", "two")].mean == pytest.approx(CHANCE[MOTION], abs=0.07)
    assert values[Key("static_sampled", "level", "two")].mean == 1


def test_labels_that_only_the_classifier_knows_are_not_counted(run: Run, clips: Sequences) -> None:
    fewer = replace(clips, labels={name: clips.labels[name] for name in ("level", MOTION)})
    values = sample(run, fewer, known_classifier(), MOTION, EvalConfig(repeats=1))
    assert {key.column for key in values if key.metric.endswith("_sampled")} == {"level", MOTION}


def test_factors_as_found_stand_for_the_parts_they_make_up(run: Run, clips: Sequences, sampled: Values) -> None:
    """Level and tint are all that stays: the same draws give the same values. What is left over is in neither."""
    rest = known_factors({"unused": PROJECTORS["level"]}, remainder=["unused"]).factors
    assert run.factors is not None
    found = replace(run.factors, factors=(*run.factors.factors, *rest))
    values = sample_factors(replace(run, factors=found), clips)
    assert len(values) == len(sampled) // 2
    for key, value in values.items():
        assert value.mean == pytest.approx(sampled[key._replace(row="two")].mean)


@pytest.mark.parametrize(("moves", "word"), [(tuple(POINTS), "all"), ((), "none")])
def test_factors_of_one_kind_have_no_other_part(run: Run, clips: Sequences, moves: tuple[str, ...], word: str) -> None:
    alike = replace(run, factors=known_factors(PROJECTORS, moves))
    with pytest.raises(InputError, match=f"of the factors level, tint, action {word} move"):
        sample_factors(alike, clips)
    with pytest.raises(InputError, match="no factors yet"):
        sample_factors(replace(run, factors=None), clips)


def test_a_seed_decides(run: Run, clips: Sequences, sampled: Values) -> None:
    assert sample(run, clips, known_classifier(), MOTION, CONFIG) == sampled
    other = sample(run, clips, known_classifier(), MOTION, replace(CONFIG, seed=1))
    for key in (
        Key("sampling", "static_diversity", "paper"),
        Key("static_sampled", "level", "two"),
        Key("sampling", "dynamic_diversity", "two"),
    ):
        assert other[key].mean != sampled[key].mean


def test_only_repetitions_have_a_deviation_and_an_interval(run: Run, clips: Sequences, sampled: Values) -> None:
    once = sample(run, clips, known_classifier(), MOTION, replace(CONFIG, repeats=1))
    for value in once.values():
        assert (value.std, value.low, value.high, value.count) == (None, None, None, 1)
    several = sampled[Key("static_sampled", "level", "two")]
    assert several.count == 3
    assert several.std is not None
    assert several.low is not None
    assert several.high is not None
    assert several.std > 0
    assert several.low <= several.mean <= several.high
    assert several.low < several.high


@pytest.mark.parametrize("device", ["cpu", ON_CUDA])
def test_chunks_are_classified_as_whole_arrays_would_be(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The config spelt out: every batch decoded whole, brought to numpy, classified by itself."""
    monkeypatch.setattr(decomposition, "CHUNK", 5)
    clips = film()
    run, classifier = untrained_pair(clips, device)
    config = EvalConfig(repeats=2, batch_size=12)
    values = sample(run, clips, classifier, "action", config)
    for mode, choice in SAMPLING_MODES.items():
        parts = [run.decompose(clips.select(batch), choice.operator) for batch in config.batches(len(clips))]
        for number, half in enumerate(("static", "dynamic")):
            generator = torch.Generator().manual_seed(int(config.generator(2, number).integers(2**31)))
            kept, scores, spreads = [], [], []
            for _ in range(2):
                new = [each.sample(half, generator, choice.weights) for each in parts]
                said = [classifier.logits(each.decode(), each.lengths)["action"] for each in new]
                truth = np.concatenate([each.clips.labels["action"] for each in parts])
                kept.append((np.concatenate(said).argmax(1) == truth).mean())
                scores.append(inception_score(probabilities(np.concatenate(said))))
                least = new[0].lengths.min()
                spreads.append(diversity(new[0].decode()[:, :least], parts[0].decode()[:, :least]))
            assert values[Key(f"{half}_sampled", "action", mode)].mean == pytest.approx(np.mean(kept))
            assert values[Key("sampling", f"{half}_diversity", mode)].mean == pytest.approx(np.mean(spreads), rel=1e-9)
            if half == "static":
                assert values[Key("sampling", "is", mode)].mean == pytest.approx(np.mean(scores), rel=1e-6)


def film() -> Sequences:
    """Video of unequal length."""
    random = np.random.Generator(np.random.PCG64(0))
    x = random.integers(0, 256, (37, 5, 3, 32, 32), np.uint8)
    return Sequences.of(x, {"action": random.integers(4, size=37)}, lengths=random.integers(3, 6, 37))


def untrained_pair(clips: Sequences, device: str) -> tuple[Run, Classifier]:
    """A run and a classifier in float64 that have learnt nothing."""
    torch.manual_seed(0)
    settings = Settings.of({"model": {"k": 6, "h": 6, "width": 4}, "spectrum": {"static": 2}})
    model = build_model(settings.model, clips.shape[2:]).double().to(device)
    bare = Run(settings, model, operator_of(np.eye(6)), PIXELS, RunFolder(Path("nowhere")))
    network = ClassifierNetwork(clips.shape[2:], [4]).double().to(device).eval()
    return untrained_network(bare, clips), Classifier(network, {"action": tuple("abcd")}, {}, {}, PIXELS, 0)
