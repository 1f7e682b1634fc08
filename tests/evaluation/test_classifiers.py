"""A classifier is right, looks at nothing it should not, and remembers what it learnt."""

import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from diskoop import load_data
from diskoop.analysis.decomposition import CHUNK
from diskoop.data import open_data
from diskoop.data.sequences import Sequences, Units
from diskoop.data.splits import split_in_order
from diskoop.errors import InputError
from diskoop.evaluation import classifiers
from diskoop.evaluation.classifiers import Classifier, load_or_train_classifier, train_classifier
from diskoop.settings import DataSettings, Settings
from diskoop.training.progress import Reporter

SETTINGS = DataSettings(name="oscillators")
ON_CUDA = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA here"))


class Quiet(Reporter):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def log(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture(scope="module")
def series() -> Sequences:
    return load_data("oscillators", "all")


@pytest.fixture(scope="module")
def classifier(series: Sequences) -> Classifier:
    return train_classifier(series, steps=300, reporter=Quiet())


def squares(count: int = 160, seed: int = 0) -> Sequences:
    """Video of unequal length: a square in one of two colours that stays on the left or moves to the right."""
    random = np.random.default_rng(seed)
    colour, motion = random.integers(2, size=(2, count))
    lengths = random.integers(3, 7, size=count)
    x = random.integers(0, 40, (count, 6, 3, 32, 32), np.uint8)
    for clip, paint, moves in zip(x, colour, motion, strict=True):
        for time, frame in enumerate(clip):
            left = 4 + 4 * time * moves
            frame[2 * paint, 10:20, left : left + 8] = 200
    labels = {"colour": colour, "motion": motion}
    values = {"colour": ("red", "blue"), "motion": ("stays", "moves")}
    parts = split_in_order(count, 48, 0.0)
    return Sequences.of(x, labels, values=values, lengths=lengths, split_codes=parts, name="squares")


@pytest.fixture(scope="module")
def video() -> Sequences:
    return squares()


@pytest.fixture(scope="module")
def onlooker(video: Sequences) -> Classifier:
    return train_classifier(video, steps=40, reporter=Quiet())


def weights(classifier: Classifier) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in classifier.network.state_dict().items()}


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def close(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(np.allclose(one[name], other[name], atol=1e-4) for name in one)


# --- it is right


def test_it_learns_oscillators(classifier: Classifier, series: Sequences) -> None:
    assert classifier.labels == ("level", "mark", "slow", "fast", "fade")
    assert classifier.values == dict(series.values)
    assert min(classifier.accuracy.values()) >= 0.97
    assert classifier.excluded == {}


def test_its_accuracy_is_that_of_its_verdicts_on_the_test_split(series: Sequences) -> None:
    test = series.split("test")
    classifier = train_classifier(series, steps=10, reporter=Quiet())  # one that errs
    verdicts = classifier.predict(test.x)
    assert classifier.accuracy == {label: (verdicts[label] == test.labels[label]).mean() for label in classifier.labels}
    assert classifier.accuracy["slow"] < 1
    assert classifier.test_count == len(test)


def test_it_learns_video_of_unequal_length(onlooker: Classifier) -> None:
    assert min(onlooker.accuracy.values()) >= 0.97


def test_verdicts_are_the_largest_logits(classifier: Classifier, series: Sequences) -> None:
    x = series.read([0, 5, 9])
    logits, codes = classifier.logits(x), classifier.predict(x)
    for label, names in series.values.items():
        assert logits[label].dtype == np.float32
        assert logits[label].shape == (3, len(names))
        assert codes[label].dtype == np.int64
        assert np.array_equal(codes[label], logits[label].argmax(1))
        assert np.abs(logits[label].sum(1) - 1).min() > 0.1  # no shares, which would sum to 1


@pytest.mark.long
@pytest.mark.parametrize("size", [32, 64])
def test_it_hardly_errs_on_puppets(size: int) -> None:
    assert min(train_classifier(load_data("puppets", "all", size=size), reporter=Quiet()).accuracy.values()) >= 0.99


# --- it looks at nothing it should not


def test_a_seed_decides_everything(video: Sequences, series: Sequences) -> None:
    for data in (video, series):
        trained = []
        for seed in (0, 0, 1):
            torch.rand(3)  # whatever else is drawn in between
            trained.append(train_classifier(data, seed, steps=5, reporter=Quiet()))
        one, again, other = trained
        assert same(weights(one), weights(again))
        assert not same(weights(one), weights(other))


def test_training_leaves_the_global_generator_alone(video: Sequences) -> None:
    torch.manual_seed(3)
    wanted = torch.rand(4)
    torch.manual_seed(3)
    train_classifier(video, steps=2, reporter=Quiet())
    assert torch.equal(torch.rand(4), wanted)


def test_only_the_training_split_is_learnt_from(series: Sequences) -> None:
    elsewhere = series.split_codes != 0
    labels = {label: np.where(elsewhere, codes[::-1], codes) for label, codes in series.labels.items()}
    frames = np.where(np.repeat(elsewhere, series.shape[1])[:, None], 7.0, series.frames)
    one = train_classifier(series, steps=5, reporter=Quiet())
    other = train_classifier(replace(series, labels=labels, frames=frames), steps=5, reporter=Quiet())
    assert same(weights(one), weights(other))
    assert one.accuracy != other.accuracy


@pytest.mark.parametrize("filler", [0, 255])
def test_padding_of_video_has_no_influence(onlooker: Classifier, video: Sequences, filler: int) -> None:
    some = video.select(np.flatnonzero(video.lengths < 6)[:20])
    x = np.full((20, 9, *video.shape[2:]), filler, np.uint8)
    for row, clip, length in zip(x, some.x, some.lengths, strict=True):
        row[:length] = clip[:length]
    alone = [onlooker.logits(x[[i], :length]) for i, length in enumerate(some.lengths)]
    together = {label: np.concatenate([one[label] for one in alone]) for label in onlooker.labels}
    assert close(onlooker.logits(x, some.lengths), together)


def test_padding_of_signals_has_no_influence(classifier: Classifier, series: Sequences) -> None:
    x = series.read([3, 4])
    padded = np.concatenate([x, np.full_like(x, np.nan)], 1)
    assert close(classifier.logits(padded, [24, 24]), classifier.logits(x))
    shorter = classifier.logits(padded, [24, 10])
    assert close({label: logits[1:] for label, logits in shorter.items()}, classifier.logits(x[1:, :10]))
    assert not close({label: logits[1:] for label, logits in shorter.items()}, classifier.logits(x[1:]))


def test_training_does_not_see_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    small = squares(30 + 48)  # one batch holds all that is trained on
    forward, real = classifiers.ClassifierNetwork.forward, []

    def watched(
        network: classifiers.ClassifierNetwork, x: torch.Tensor, mask: torch.Tensor | None = None
    ) -> list[torch.Tensor]:
        real.append(x.shape[0] * x.shape[1] if mask is None else int(mask.sum()))
        return forward(network, x, mask)

    monkeypatch.setattr(classifiers.ClassifierNetwork, "forward", watched)
    train_classifier(small, steps=1, reporter=Quiet())
    assert real[0] == small.split("train").lengths.sum() < 30 * small.shape[1]


def test_company_has_no_influence(onlooker: Classifier, video: Sequences) -> None:
    everyone = onlooker.logits(video.x, video.lengths)  # more than go through at once
    assert len(video) > CHUNK
    for i in (0, 70, 159):
        alone = onlooker.logits(video.read([i]), video.lengths[[i]])
        assert close(alone, {label: logits[[i]] for label, logits in everyone.items()})


def test_how_often_a_value_occurs_is_no_evidence() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(600, 4, 2))
    rare = (np.arange(600) % 10 == 0).astype(np.int64)  # nothing in x tells
    data = Sequences.of(x, {"rare": rare}, units=Units(dtype="float64"), split_codes=split_in_order(600, 100, 0.0))
    logits = train_classifier(data, steps=60, reporter=Quiet()).logits(x[500:])["rare"]
    belief = torch.from_numpy(logits).softmax(-1)[:, 1].mean()
    assert 0.35 < belief < 0.65  # one in ten, if it went by what is common


def test_training_clips_are_augmented_each_by_a_strength_of_its_own() -> None:
    x = torch.zeros(2, 1, 1, 32, 32)
    x[..., 16, 16] = 1.0
    sigma = torch.tensor([0.0, 1.5]).view(2, 1, 1, 1, 1)
    sharp, soft = classifiers._blur(x, sigma)
    assert torch.allclose(sharp, x[0])
    assert torch.allclose(classifiers._blur(torch.ones_like(x), sigma), torch.ones_like(x))
    at = torch.arange(32.0)
    assert float((soft[0, 0].sum(0) * (at - 16) ** 2).sum()) == pytest.approx(1.5**2, rel=1e-3)
    generator = torch.Generator().manual_seed(0)
    one, other = classifiers._random_strengths(x, generator).flatten().tolist()
    assert one != other
    points = x.repeat(8, 1, 1, 1, 1)
    worn = classifiers._augment(points, generator)
    assert worn.shape == points.shape
    assert worn.flatten(1).amax(1).min() < 0.9  # a point is no point any more


# --- what it is given


def test_it_takes_the_users_units(series: Sequences) -> None:
    scaled = replace(series, frames=series.frames * 3.0 + 1e6, units=Units(scale=3.0, offset=1e6, dtype="float64"))
    one, other = (train_classifier(data, steps=20, reporter=Quiet()) for data in (series, scaled))
    assert close(one.logits(series.x), other.logits(scaled.x))


def test_it_takes_bytes_however_they_lie(onlooker: Classifier, video: Sequences) -> None:
    x = video.read([0, 1])
    assert x.dtype == np.uint8
    assert close(onlooker.logits(torch.from_numpy(x)), onlooker.logits(x))
    assert close(onlooker.logits(np.asfortranarray(x)), onlooker.logits(x))


def test_other_byte_orders_and_precisions_are_the_same_numbers(classifier: Classifier, series: Sequences) -> None:
    x = series.read([0, 1])
    for given in (x.astype(">f8"), x.astype(np.float32), x.tolist()):
        assert close(classifier.logits(given), classifier.logits(x))


def test_one_frame_and_none_at_all(classifier: Classifier, series: Sequences) -> None:
    assert classifier.predict(series.read([0])[:, :1])["level"].shape == (1,)
    assert classifier.logits(series.x[:0])["mark"].shape == (0, 3)


@pytest.mark.parametrize(
    ("x", "wanted"),
    [
        (np.zeros((2, 6, 3, 16, 16), np.uint8), r"\(n, time, 3, 32, 32\) to classify, got \(2, 6, 3, 16, 16\)"),
        (np.zeros((6, 3, 32, 32), np.uint8), r"got \(6, 3, 32, 32\)"),
        (np.zeros((2, 0, 3, 32, 32), np.uint8), r"got \(2, 0, 3, 32, 32\)"),
        (np.zeros((2, 6, 3, 32, 32)), "expected values as uint8 to classify, got float64"),
    ],
)
def test_what_it_cannot_look_at_is_refused(onlooker: Classifier, x: np.ndarray, wanted: str) -> None:
    with pytest.raises(InputError, match=wanted):
        onlooker.logits(x)


@pytest.mark.parametrize("lengths", [[24], [24, 0], [24, 25], [2.5, 3.0]])
def test_lengths_that_cannot_be_are_refused(classifier: Classifier, series: Sequences, lengths: list[float]) -> None:
    with pytest.raises(InputError, match="expected 2 lengths from 1 to 24, got"):
        classifier.logits(series.read([0, 1]), lengths)


def test_values_that_are_no_numbers_are_refused(classifier: Classifier, series: Sequences) -> None:
    x = series.read([0, 1])
    x[1, 5, 2] = np.nan
    with pytest.raises(InputError, match="expected finite values"):
        classifier.logits(x)


# --- chunk by chunk


def pieces(x: torch.Tensor, sizes: list[int]) -> Iterator[torch.Tensor]:
    return iter(torch.split(x, sizes))


def on(classifier: Classifier, device: str) -> Classifier:
    """In float64: convolutions on CUDA round float32 to fewer bits."""
    return replace(classifier, network=deepcopy(classifier.network).double().to(device))


@pytest.mark.parametrize("device", ["cpu", ON_CUDA])
@pytest.mark.parametrize("unequal", [False, True])
def test_tensors_and_chunks_are_classified_like_arrays(
    onlooker: Classifier, classifier: Classifier, video: Sequences, series: Sequences, unequal: bool, device: str
) -> None:
    for who, data in ((onlooker, video), (classifier, series)):
        x = data.x[:150]
        lengths = np.random.default_rng(0).integers(2, x.shape[1] + 1, 150) if unequal else None
        wanted = who.logits(x, lengths)
        tensor = torch.from_numpy(x).to(device)
        assert close(on(who, device).logits(tensor, lengths), wanted)
        assert close(on(who, device).logits(x, lengths), wanted)
        assert close(on(who, device).logits(pieces(tensor, [70, 1, 79]), lengths), wanted)
        frames = on(who, device).predict_frames(pieces(tensor, [70, 1, 79]), lengths)
        agree = [(frames[label] == codes).mean() for label, codes in who.predict_frames(x, lengths).items()]
        assert min(agree) > 0.99
        if device == "cpu":  # the same chunks, so the same numbers
            assert same(who.logits(tensor, lengths), wanted)
            assert same(who.logits(pieces(tensor, [64, 64, 22]), lengths), wanted)


def test_a_chunk_is_looked_at_before_the_next_is_made(onlooker: Classifier, video: Sequences) -> None:
    """So that there is never more than one of them in memory."""
    events: list[str] = []
    look = onlooker.network.forward

    def watching(x: torch.Tensor, mask: torch.Tensor | None = None) -> list[torch.Tensor]:
        events.append("seen")
        return look(x, mask)

    def chunks() -> Iterator[torch.Tensor]:
        for begin in (0, 3):
            events.append("made")
            yield torch.from_numpy(video.read(range(begin, begin + 3)))

    watched = replace(onlooker, network=deepcopy(onlooker.network))
    watched.network.forward = watching  # type: ignore[method-assign]
    watched.logits(chunks())
    assert events == ["made", "seen"] * 2


def test_nothing_comes_of_no_chunks(onlooker: Classifier) -> None:
    assert onlooker.logits(iter([]))["colour"].shape == (0, 2)


@pytest.mark.parametrize(
    ("chunks", "lengths", "wanted"),
    [
        (
            [torch.zeros(2, 6, 3, 16, 16, dtype=torch.uint8)],
            None,
            r"\(n, time, 3, 32, 32\) to classify, got \(2, 6, 3, 16, 16\)",
        ),
        ([torch.zeros(2, 6, 3, 32, 32)], None, "expected values as uint8 to classify, got float32"),
        ([torch.zeros(2, 6, 3, 32, 32, dtype=torch.bool)], None, "expected values as uint8 to classify, got bool"),
        (
            [torch.zeros(2, 6, 3, 32, 32, dtype=torch.uint8)] * 2,
            [6, 6, 6],
            r"expected 2 lengths from 1 to 6, got \[6\]",
        ),
        ([torch.zeros(2, 6, 3, 32, 32, dtype=torch.uint8)] * 2, [6] * 5, "expected 4 lengths, got 5"),
        ([torch.zeros(2, 6, 3, 32, 32, dtype=torch.uint8)], [6, 7], r"expected 2 lengths from 1 to 6, got \[6 7\]"),
    ],
)
def test_chunks_that_it_cannot_look_at_are_refused(
    onlooker: Classifier, chunks: list[torch.Tensor], lengths: list[int] | None, wanted: str
) -> None:
    with pytest.raises(InputError, match=wanted):
        onlooker.logits(iter(chunks), lengths)


@pytest.mark.parametrize("device", ["cpu", ON_CUDA])
def test_one_chunk_that_is_no_numbers_is_enough(classifier: Classifier, series: Sequences, device: str) -> None:
    good = torch.from_numpy(series.read(range(6))).to(device)
    bad = good.clone()
    bad[4, 20, 1] = torch.inf
    looks = on(classifier, device)
    for order in ([good, bad], [bad, good]):
        with pytest.raises(InputError, match="expected finite values"):
            looks.logits(iter(order))
    assert close(
        looks.logits(iter([bad]), [24] * 4 + [20, 24]), looks.logits(good, [24] * 4 + [20, 24])
    )  # behind the end


def test_whole_numbers_are_classified_as_such(classifier: Classifier, series: Sequences) -> None:
    x = np.rint(100 * series.x[:5])
    assert close(classifier.logits(x.astype(np.int32)), classifier.logits(x))


# --- single frames


@pytest.fixture(scope="module")
def glance(video: Sequences) -> Classifier:
    """A classifier of frames; of a single one the colour can be told, the motion only once a square has moved."""
    return train_classifier(video, steps=40, reporter=Quiet(), single_frames=True)


def test_single_frames_tell_the_colour(glance: Classifier, video: Sequences) -> None:
    assert glance.single_frames
    assert glance.accuracy["colour"] >= 0.97
    assert glance.accuracy["motion"] < 0.97  # all squares start on the left
    test = video.split("test")
    assert glance.test_count == test.lengths.sum() > len(test)
    assert glance.describe().endswith(f"on {test.lengths.sum()} clean test frames")


def test_its_accuracy_is_that_of_its_verdicts_on_the_frames_of_the_test_split(
    glance: Classifier, video: Sequences
) -> None:
    test = video.split("test")
    inside = np.arange(6) < test.lengths[:, None]
    verdicts = glance.predict_frames(test.x, test.lengths)
    for label in glance.labels:
        right = (verdicts[label] == test.labels[label][:, None])[inside]
        assert glance.accuracy[label] == pytest.approx(right.mean())


def test_behind_the_last_frame_there_is_no_verdict(glance: Classifier, video: Sequences) -> None:
    some = video.select(range(30))
    inside = np.arange(6) < some.lengths[:, None]
    assert not inside.all()
    for label, codes in glance.predict_frames(some.x, some.lengths).items():
        assert codes.shape == (30, 6)
        assert codes.dtype == np.int64
        assert (codes[~inside] == -1).all()
        assert np.isin(codes[inside], range(len(glance.values[label]))).all()


def test_without_lengths_every_frame_has_a_verdict(glance: Classifier, video: Sequences) -> None:
    x = video.read(range(5))
    every = glance.predict_frames(x)
    assert all((codes >= 0).all() for codes in every.values())
    assert close(every, glance.predict_frames(x, [x.shape[1]] * 5))


def test_a_frame_is_seen_alone(classifier: Classifier, series: Sequences) -> None:
    """Whoever gives the predict: a classifier of sequences sees sequences of one frame."""
    x = series.read(range(40))
    before = classifier.predict_frames(x)
    others = x[::-1].copy()
    others[:, 9] = x[:, 9]
    after = classifier.predict_frames(others)
    assert all(np.array_equal(after[label][:, 9], before[label][:, 9]) for label in classifier.labels)
    assert any((after[label] != before[label]).any() for label in classifier.labels)
    alone = classifier.predict(x[:, 9:10])
    assert all(np.array_equal(alone[label], before[label][:, 9]) for label in classifier.labels)


def test_no_frames_and_those_it_cannot_look_at(glance: Classifier, video: Sequences) -> None:
    assert glance.predict_frames(video.x[:0])["colour"].shape == (0, 6)
    with pytest.raises(InputError, match=r"\(n, time, 3, 32, 32\) to classify, got \(2, 6, 3, 16, 16\)"):
        glance.predict_frames(np.zeros((2, 6, 3, 16, 16), np.uint8))
    with pytest.raises(InputError, match=r"\(n, time, 3, 32, 32\) to classify, got \(6,\)"):
        glance.predict_frames(np.zeros(6, np.uint8))
    with pytest.raises(InputError, match="expected 2 lengths from 1 to 6, got"):
        glance.predict_frames(video.x[:2], [7, 0])


def test_frames_keep_their_places(glance: Classifier, video: Sequences) -> None:
    """Colours that change in the middle of a clip are seen to change there."""
    red, blue = (video.read([np.flatnonzero(video.labels["colour"] == code)[0]])[0] for code in (0, 1))
    clips = np.stack([[red[0], blue[0], blue[1], red[1]], [blue[0], red[0], blue[1], red[1]]])
    assert glance.predict_frames(clips, [4, 3])["colour"].tolist() == [[0, 1, 1, 0], [1, 0, 1, -1]]


def test_it_is_shown_single_frames_that_exist(monkeypatch: pytest.MonkeyPatch, video: Sequences) -> None:
    forward, shapes = classifiers.ClassifierNetwork.forward, []

    def watched(
        network: classifiers.ClassifierNetwork, x: torch.Tensor, mask: torch.Tensor | None = None
    ) -> list[torch.Tensor]:
        shapes.append((*x.shape[:2], mask))
        return forward(network, x, mask)

    monkeypatch.setattr(classifiers.ClassifierNetwork, "forward", watched)
    train_classifier(video, steps=1, reporter=Quiet(), single_frames=True)
    assert shapes[0] == (classifiers.OPTIMIZER.batch_size * classifiers.FRAMES_PER_CLIP, 1, None)
    x = torch.arange(12.0).reshape(3, 4, 1)  # a frame is its number
    mask = torch.tensor([[True] * 4, [True] * 3 + [False], [True] + [False] * 3])
    seen: list[set[int]] = [set(), set(), set()]
    for seed in range(40):
        generator = torch.Generator().manual_seed(seed)
        frames, none, whose = classifiers._sample_single_frames(x, mask, torch.tensor([7, 8, 9]), generator)
        assert none is None
        assert frames.shape == (3 * classifiers.FRAMES_PER_CLIP, 1, 1)
        for frame, who in zip(frames.flatten().int().tolist(), whose.tolist(), strict=True):
            seen[who - 7].add(frame)
    assert seen == [{0, 1, 2, 3}, {4, 5, 6}, {8}]
    every, _, _ = classifiers._sample_single_frames(
        x.repeat(99, 1, 1), None, torch.zeros(297), torch.Generator().manual_seed(0)
    )
    assert set(every.flatten().int().tolist()) == set(range(12))


def test_what_is_said_when_frames_are_learnt(video: Sequences) -> None:
    reporter = Quiet()
    train_classifier(video, steps=1, reporter=reporter, single_frames=True)
    assert reporter.said == ["training a classifier of colour, motion on single frames of 112 sequences of squares"]


# --- how good it must be


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (DataSettings(), "puppets"),
        (DataSettings(name="puppets"), "puppets"),
        (DataSettings(name="sprites", path="/mnt/sprites"), "sprites"),
    ],
)
def test_where_there_is_a_floor_it_is_reached_or_refused(
    classifier: Classifier, settings: DataSettings, name: str
) -> None:
    good = replace(classifier, accuracy={"skin": 0.99, "hair": 1.0}, test_count=1234)
    assert good.check_accuracy(settings) == f"required accuracy: 99% on {name}, reached"
    for single_frames, looks_at in ((False, "sequences"), (True, "frames")):
        poor = replace(good, accuracy={"skin": 0.985, "hair": 0.99, "top": 0.5}, single_frames=single_frames)
        with pytest.raises(InputError) as refused:
            poor.check_accuracy(settings)
        assert str(refused.value) == (
            f"the classifier is too poor to score anything: on 1234 clean test {looks_at} of {name} "
            "expected an accuracy of 99% on every label, got skin 98.50%, top 50.00%"
        )
    with pytest.raises(InputError, match=r"too poor .* got skin 98\.99%$"):  # not 99.0%
        replace(good, accuracy={"skin": 0.9899}).check_accuracy(settings)


@pytest.mark.parametrize("settings", [DataSettings(path="/mnt/mine"), DataSettings(name="voices"), SETTINGS])
def test_where_there_is_none_it_says_what_to_doubt(classifier: Classifier, settings: DataSettings) -> None:
    good = replace(classifier, accuracy={"who": 0.99})
    assert good.check_accuracy(settings) == "required accuracy: none for this set"
    poor = replace(classifier, accuracy={"who": 0.985, "mood": 0.995, "place": 0.25})
    wanted = (
        "required accuracy: none for this set; below 99%, so interpret these labels with care: who 98.50%, place 25.00%"
    )
    assert poor.check_accuracy(settings) == wanted
    assert poor.check_accuracy(settings, ("place",)) == wanted.removesuffix(", place 25.00%")
    assert poor.check_accuracy(settings, ("place", "who")) == "required accuracy: none for this set"


@pytest.mark.parametrize(
    ("accuracy", "chance", "clips", "reason"),
    [
        (0.76, 0.5, 100, None),  # half way is 75%
        (0.75, 0.5, 100, None),
        (0.74, 0.5, 100, "its accuracy is 74.0% on 100 clean test sequences, and half way .* are 75.0%"),
        (0.85, 0.8, 100, "half way from guessing .80.0%. to being always right are 90.0%"),  # above a poor guess
        (14 / 21, 1 / 3, 21, None),  # half way but for rounding
        (14 / 21, 1 / 3, 4, r"which guessing \(33.3%\) may reach by luck on 4 clips"),  # windows of four clips
        (1.0, 0.5, 4, "may reach by luck on 4 clips"),
        (1.0, 0.5, 5, None),
        (1.0, 1.0, 50, "may reach by luck"),  # the test split shows one value only
    ],
)
def test_nothing_is_scored_by_a_label_that_it_cannot_tell(
    classifier: Classifier, series: Sequences, accuracy: float, chance: float, clips: int, reason: str | None
) -> None:
    others = dict.fromkeys(series.labels, 1.0)
    measured = replace(
        classifier,
        accuracy=others | {"mark": accuracy},
        chance=dict.fromkeys(others, 0.25) | {"mark": chance},
        test_count=100,
        clip_count=clips,
    )
    checked = measured.reliable(DataSettings(path="/mnt/mine"))
    x = series.x[:3]
    assert checked.predict(x).keys() == checked.logits(x).keys() == set(checked.labels)
    if reason is None:
        assert checked.labels == classifier.labels
    else:
        assert checked.labels == tuple(label for label in classifier.labels if label != "mark")
        assert re.search(reason, checked.excluded["mark"])
        assert "mark is left out: its accuracy is" in checked.describe()
        assert "mark" not in checked.check_accuracy(SETTINGS)
        assert measured.reliable(SETTINGS, ("mark",)).labels == classifier.labels  # nobody asks for it
    assert measured.reliable(DataSettings(name="puppets")).labels == classifier.labels  # where there is a floor
    assert np.array_equal(checked.predict(x)["fade"], classifier.predict(x)["fade"])


def test_a_classifier_that_can_tell_no_label_is_refused(classifier: Classifier) -> None:
    blind = replace(classifier, accuracy=dict.fromkeys(classifier.labels, 0.4))
    with pytest.raises(InputError, match=r"too poor to score anything: level: its accuracy is 40\.0%.*; mark: its"):
        blind.reliable(SETTINGS)
    assert blind.reliable(SETTINGS, classifier.labels).labels == classifier.labels


def test_chance_is_the_most_frequent_value_of_the_test_split(
    series: Sequences, cache: Path, classifier: Classifier
) -> None:
    """Of the test split alone, measured anew when a classifier comes from the cache."""
    test = series.split("test")
    expected = {label: max(np.bincount(codes)) / len(test) for label, codes in test.labels.items()}
    assert classifier.chance == pytest.approx(expected)
    assert classifier.clip_count == len(test)


def test_labels_that_nobody_asks_it_for_may_be_poor(classifier: Classifier) -> None:
    poor = replace(classifier, accuracy={"skin": 0.985, "hair": 1.0, "action": 0.3})
    with pytest.raises(InputError, match=r"got skin 98\.50%$"):
        poor.check_accuracy(DataSettings(), ("action",))
    assert poor.check_accuracy(DataSettings(), ("action", "skin")) == "required accuracy: 99% on puppets, reached"
    with pytest.raises(InputError, match=r"got skin 98\.50%, action 30\.00%$"):
        poor.check_accuracy(DataSettings(), ("hair", "never heard of"))


# --- what cannot be classified


def odd(series: Sequences) -> Sequences:
    """Beside the level a label that never changes and one whose values change with the split."""
    people = np.where(series.split_codes == 2, 1 + np.arange(len(series)) % 5, np.arange(len(series)) % 2 * 6)
    labels = {"level": series.labels["level"], "place": np.zeros(len(series), np.int64), "who": people}
    names = ("ann", "bob", "cid", "dan", "eve", "fay", "gus")
    return replace(series, labels=labels, values={"level": series.values["level"], "place": ("here",), "who": names})


def test_labels_that_cannot_be_classified_are_excluded_with_a_sentence(series: Sequences) -> None:
    classifier = train_classifier(odd(series), steps=2, reporter=Quiet())
    assert classifier.labels == ("level",)
    assert classifier.excluded == {
        "place": "all training sequences show here",
        "who": "the test sequences show bob, cid, dan and 2 more, which no training sequence does",
    }
    for label, why in classifier.excluded.items():
        assert f"{label} is left out: {why}" in classifier.describe()


def test_it_describes_itself_in_one_line(classifier: Classifier) -> None:
    known = replace(classifier, accuracy={"level": 0.998, "mark": 1.0})
    assert known.describe() == "classifier: level 99.8%, mark 100.0% on 400 clean test sequences"


def test_codes_without_names_stand_for_themselves(series: Sequences) -> None:
    classifier = train_classifier(replace(series, values={}), steps=2, reporter=Quiet())
    assert classifier.values["mark"] == ("0", "1", "2")


def test_nothing_to_classify_is_said(series: Sequences) -> None:
    with pytest.raises(InputError, match="nothing in oscillators can be classified: it has no labels"):
        train_classifier(replace(series, labels={}))
    with pytest.raises(InputError, match="place: all training sequences show here"):
        train_classifier(replace(odd(series), labels={"place": odd(series).labels["place"]}))
    with pytest.raises(InputError, match="no sequences to test on"):
        train_classifier(series.split("train"))


def test_any_name_will_do_for_a_label(series: Sequences) -> None:
    labels = {"a.b": series.labels["level"], "training": series.labels["mark"]}
    assert train_classifier(replace(series, labels=labels, values={}), steps=2, reporter=Quiet()).labels == tuple(
        labels
    )


# --- it remembers


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache of its own, and little training."""
    monkeypatch.setenv("DISKOOP_CACHE", str(tmp_path))
    monkeypatch.setattr(classifiers, "train_classifier", partial(train_classifier, steps=3))
    return tmp_path


def classified(data: Sequences) -> tuple[Classifier, bool]:
    """The classifier for a set, and whether it was trained now."""
    reporter = Quiet()
    return load_or_train_classifier(data, reporter=reporter), bool(reporter.said)


def test_the_second_call_reads_what_the_first_one_learnt(brief: Path, series: Sequences) -> None:
    data = odd(series)
    (one, trained), (other, again) = classified(data), classified(data)
    assert (trained, again) == (True, False)
    assert same(weights(one), weights(other))
    assert close(one.logits(data.read([0, 1])), other.logits(data.read([0, 1])))
    assert one.describe() == other.describe()
    assert (one.labels, one.accuracy, one.excluded) == (other.labels, other.accuracy, other.excluded)


def test_a_damaged_file_is_trained_anew(brief: Path, series: Sequences) -> None:
    first, _ = classified(series)
    (path,) = brief.glob("classifier-*")
    whole = path.read_bytes()
    for damaged in (b"", whole[:-100], whole[:-1] + bytes([whole[-1] ^ 1])):
        path.write_bytes(damaged)
        second, trained = classified(series)
        assert trained
        assert same(weights(first), weights(second))
        assert path.read_bytes() == whole
        path.write_bytes(damaged)
        reporter = Quiet()
        load_or_train_classifier(series, reporter=reporter)
        assert f"note: the classifier of {series.name} is trained again: {path} " in str(reporter.said[0])
    assert [file.name for file in brief.iterdir()] == [path.name]  # nothing half written is left behind


def test_whoever_is_second_leaves_a_whole_file_too(
    brief: Path, series: Sequences, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn = classifiers.train_classifier

    def overtaken(*given: Any, **more: Any) -> Classifier:
        monkeypatch.setattr(classifiers, "train_classifier", learn)
        assert classified(series)[1]  # another one starts later and is done sooner
        return learn(*given, **more)

    monkeypatch.setattr(classifiers, "train_classifier", overtaken)
    first, _ = classified(series)
    second, trained = classified(series)
    assert not trained
    assert same(weights(first), weights(second))
    assert len(list(brief.iterdir())) == 1


def test_only_what_matters_makes_another_classifier(
    brief: Path, series: Sequences, monkeypatch: pytest.MonkeyPatch
) -> None:
    classified(series)
    frames = series.frames.copy()
    frames[series.starts[7] + 12] += 1
    swapped = {**series.labels, "level": series.labels["level"][::-1]}
    assert classified(replace(series, frames=frames))[1]
    assert classified(replace(series, labels=swapped))[1]
    assert classified(replace(series, units=Units(scale=2.0, dtype="float64")))[1]
    assert classified(load_data("oscillators", "all", val_fraction=0.2))[1]
    monkeypatch.setattr(classifiers, "CLASSIFIER_VERSION", classifiers.CLASSIFIER_VERSION + 1)
    assert classified(series)[1]


def test_a_classifier_of_frames_is_remembered_as_one(brief: Path, series: Sequences) -> None:
    sequences, _ = classified(series)
    reporter = Quiet()
    one = load_or_train_classifier(series, reporter=reporter, single_frames=True)
    assert len(reporter.said) == 1  # what is kept for sequences does not serve
    other = load_or_train_classifier(series, reporter=reporter, single_frames=True)
    assert len(reporter.said) == 1
    assert one.single_frames
    assert other.single_frames
    assert same(weights(one), weights(other))
    assert not same(weights(one), weights(sequences))
    assert one.describe() == other.describe()
    again, trained = classified(series)
    assert not trained
    assert not again.single_frames
    assert same(weights(again), weights(sequences))
    assert len(list(brief.iterdir())) == 2


# --- what a person sees


@pytest.mark.parametrize("terminal", [True, False])
def test_a_bar_on_a_terminal_and_one_line_elsewhere(series: Sequences, terminal: bool) -> None:
    console = Console(record=True, force_terminal=terminal, width=80, file=StringIO())
    train_classifier(series, steps=2, reporter=Reporter(console))
    text = console.export_text()
    line = "training a classifier of level, mark, slow, fast, fade on 1620 sequences of oscillators\n"
    assert ("100%" in text) if terminal else (text == line)
    assert text.startswith(line)


def test_the_demo_s_classifier_is_shipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DISKOOP_CACHE", str(tmp_path))  # where nothing is
    everything = open_data(Settings.load("demo").data)
    assert (classifiers.SHIPPED / classifiers.classifier_file(everything)).exists()
    classifier, trained = classified(everything)
    assert not trained
    clips = everything.split("test").select(slice(0, None, 20))
    predicted = classifier.predict(clips.x)
    for label, codes in clips.labels.items():
        assert (predicted[label] == codes).mean() > 0.98
