from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from diskoop.data.sets import face_art as faces

SIZE = 32
COUNT = 52 * 6 * 11
FEW_PEOPLE, TAKES = 20, 2  # what most tests draw


class Drawn(NamedTuple):
    """Two takes of every expression of some people."""

    people: int
    clips: np.ndarray  # (n, frame, channel, row, column)
    subject: np.ndarray  # (n,)
    expression: np.ndarray  # (n,)
    take: np.ndarray  # (n,)


@pytest.fixture(scope="module", params=[FEW_PEOPLE, pytest.param(52, marks=pytest.mark.long)])
def drawn(request: pytest.FixtureRequest) -> Drawn:
    people = int(request.param)
    grid = product(range(people), range(6), range(TAKES))
    clips = np.stack([faces.draw_clip(subject, expression, take, SIZE) for subject, expression, take in grid])
    return Drawn(people, clips, *np.indices((people, 6, TAKES)).reshape(3, -1))


@pytest.fixture(scope="module")
def clips(drawn: Drawn) -> np.ndarray:
    return drawn.clips


@pytest.fixture(scope="module")
def takes() -> list[faces.Take]:
    return [faces.Take(*which) for which in product(range(52), range(6), range(11))]


def coarse(frames: np.ndarray) -> np.ndarray:
    """(n, channel, 32, 32) -> (n, 768) in [0, 1]"""
    blocks = frames.reshape(len(frames), 3, 16, 2, 16, 2).mean((-1, -3))
    return np.asarray(blocks.reshape(len(frames), -1) / 255)


def accuracy(x: np.ndarray, labels: np.ndarray, train: np.ndarray) -> float:
    """Of a linear classifier, on what it was not trained on."""
    classifier = LogisticRegression(max_iter=2000).fit(x[train], labels[train])
    return float(classifier.score(x[~train], labels[~train]))


def test_labels_follow_the_index() -> None:
    assert faces.FACTORS["subject"][::51] == ("s01", "s52")
    assert faces.FACTORS["expression"] == ("anger", "disgust", "fear", "happiness", "sadness", "surprise")
    labels = faces.labels()
    assert list(labels) == ["subject", "expression", "take"]
    assert all(values.shape == (COUNT,) and values.dtype == np.int64 for values in labels.values())
    index = (labels["subject"] * 6 + labels["expression"]) * 11 + labels["take"]
    np.testing.assert_array_equal(index, np.arange(COUNT))


def test_draw_goes_through_the_clips_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faces, "draw_clip", lambda *which: which)
    out, reports = np.zeros((COUNT, 4), np.uint8), list[int]()
    faces.draw(64, out, reports.append)
    np.testing.assert_array_equal(out[:, :3].T, list(faces.labels().values()))
    assert (out[:, 3] == 64).all()
    assert sum(reports) == COUNT
    assert len(reports) > 1


def test_other_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="32 or 64"):
        faces.draw(48, np.empty((COUNT, 15, 3, 48, 48), np.uint8))


def test_a_clip_is_the_same_whatever_was_drawn_before(drawn: Drawn) -> None:
    assert drawn.clips.shape == (len(drawn.subject), faces.FRAMES, 3, SIZE, SIZE)
    assert drawn.clips.dtype == np.uint8
    for index in (len(drawn.clips) - 1, 0, len(drawn.clips) // 2, 1):
        faces.portrait.cache_clear()
        subject, expression, take = (int(codes[index]) for codes in (drawn.subject, drawn.expression, drawn.take))
        np.testing.assert_array_equal(faces.draw_clip(subject, expression, take, SIZE), drawn.clips[index])


def test_takes_differ(clips: np.ndarray) -> None:
    assert len(np.unique(clips.reshape(len(clips), -1), axis=0)) == len(clips)


def test_the_small_picture_is_the_large_one_shrunk(clips: np.ndarray) -> None:
    large = faces.draw_clip(0, 0, 0, 64)
    assert large.shape == (15, 3, 64, 64)
    shrunk = large.reshape(15, 3, 32, 2, 32, 2).mean((-1, -3))
    assert np.abs(shrunk - clips[0]).max() < 6
    assert np.abs(shrunk - clips[0]).mean() < 1


def test_neutral_takes_of_one_person_are_nearer_than_other_people(drawn: Drawn) -> None:
    first = coarse(drawn.clips[:, 0])
    known, new = drawn.take == 0, drawn.take == 1
    people = np.stack([first[known & (subject == drawn.subject)].mean(0) for subject in range(drawn.people)])
    distance = np.linalg.norm(first[new][:, None] - people, axis=-1)  # (clip, person)
    np.testing.assert_array_equal(distance.argmin(1), drawn.subject[new])
    own = np.take_along_axis(distance, drawn.subject[new][:, None], 1)
    others = np.sort(distance, 1)[:, 1]
    assert np.median(others) > 2 * np.median(own)
    assert np.linalg.norm(people[:, None] - people, axis=-1)[~np.eye(drawn.people, dtype=bool)].min() > np.median(own)


def test_the_expression_is_recognised_in_new_takes_and_new_people(drawn: Drawn) -> None:
    change = coarse(drawn.clips[:, 8]) - coarse(drawn.clips[:, 0])
    assert accuracy(change, drawn.expression, drawn.take == 0) > 0.9
    assert accuracy(change, drawn.expression, drawn.subject < drawn.people * 9 // 13) > 0.9


@pytest.mark.slow
def test_neither_the_first_frame_nor_the_last_tells_the_expression(drawn: Drawn) -> None:
    first, last = coarse(drawn.clips[:, 0]), coarse(drawn.clips[:, -1])
    assert accuracy(first, drawn.expression, drawn.subject < drawn.people * 9 // 13) < 0.27
    assert accuracy(last - first, drawn.expression, drawn.take == 0) < 0.27


def test_every_clip_moves_to_its_apex_and_back(clips: np.ndarray) -> None:
    away = np.abs(coarse(clips.reshape(-1, 3, SIZE, SIZE)).reshape(len(clips), 15, -1) - coarse(clips[:, 0])[:, None])
    moved = away.max(-1)  # (clip, frame)
    assert moved[:, 8].min() > 0.05
    assert moved[:, 8].mean() > 5 * moved[:, -1].mean()


def test_an_expression_rises_from_nothing_and_falls(takes: list[faces.Take]) -> None:
    amounts = np.stack([take.amounts for take in takes])  # (clip, frame, muscle)
    assert not amounts[:, 0].any()
    assert amounts[:, 8].min() >= 0.75
    assert amounts.max() <= 1
    assert (np.diff(amounts[:, :9], axis=1) >= 0).all()
    assert (np.diff(amounts[:, 8:], axis=1) <= 0).all()
    assert amounts[:, -1].max() < 0.1
    speed = np.diff(amounts, axis=1).max((1, 2))
    assert speed.max() > 1.5 * speed.min()


def test_nothing_in_a_take_depends_on_the_expression_or_the_person(takes: list[faces.Take]) -> None:
    rows = [
        (t.shift.real, t.shift.imag, t.tilt, t.zoom, t.gain, *t.slopes, t.blinks.max(), t.amounts.sum()) for t in takes
    ]
    table = np.array(rows)
    table = (table - table.mean(0)) / table.std(0)
    for labels in (faces.labels()["expression"], faces.labels()["subject"]):
        groups = np.stack([table[labels == value] for value in np.unique(labels)])  # (value, clip, column)
        apart = (groups.mean(1) ** 2).mean(0) * groups.shape[1]  # 1 on average, chi-squared
        assert apart.max() < 1 + 5 * np.sqrt(2 / len(groups))


def test_eyes_blink_now_and_then(takes: list[faces.Take]) -> None:
    blinks = np.stack([take.blinks for take in takes])
    assert 0.2 < (blinks.max(1) > 0.5).mean() < 0.4
    assert not blinks[:, 0].any()
    assert (blinks > 0).sum(1).max() <= 3


def test_cameras_see_nothing_beyond_the_painting(takes: list[faces.Take]) -> None:
    for take in takes:
        start, step = faces.camera(take)
        for corner in (0, faces.SHOT, 1j * faces.SHOT, (1 + 1j) * faces.SHOT):
            seen = start + corner * step
            assert 1 < seen.real < faces.SIDE - 1
            assert 1 < seen.imag < faces.SIDE - 1


def test_what_is_no_face_stays_as_it_is(clips: np.ndarray) -> None:
    """The wall beside the head, the crown of the head and the shoulders."""
    for still in (clips[..., :3, :], clips[..., -2:, :3], clips[..., -2:, -3:]):
        np.testing.assert_array_equal(still, np.broadcast_to(still[:, :1], still.shape))


@pytest.mark.long
def test_all_clips_differ() -> None:
    out = np.zeros((COUNT, 15, 3, SIZE, SIZE), np.uint8)
    faces.draw(SIZE, out)
    assert out.any((1, 2, 3, 4)).all()
    assert len({clip.tobytes() for clip in out}) == COUNT
