"""A set knows its shape, reads only what is asked for, and refuses what it cannot be."""

import numpy as np
import pytest
import torch

from diskoop.data import PIXELS, Sequences, Units
from diskoop.data.sequences import split_rows
from diskoop.errors import InputError


@pytest.fixture
def clips() -> Sequences:
    x = np.arange(6 * 4 * 2, dtype=np.float32).reshape(6, 4, 2)
    return Sequences(x, {"kind": np.array([0, 1, 0, 1, 0, 1])}, {"kind": ("calm", "wild")}, units=Units())


def test_selecting_twice_picks_from_the_first_pick(clips: Sequences) -> None:
    few = clips.select([5, 3, 1]).select([2, 0])
    assert few.shape == (2, 4, 2)
    assert np.array_equal(few.x, clips.source[[1, 5]])
    assert np.array_equal(few.take([1]), clips.source[[5]])
    assert few.labels["kind"].tolist() == [1, 1]
    assert few.label_text(0) == "kind wild"


def test_any_way_of_indexing_selects_the_same(clips: Sequences) -> None:
    wild = clips.select(clips.labels["kind"] == 1)
    assert wild.shape == (3, 4, 2)
    assert np.array_equal(wild.x, clips.source[[1, 3, 5]])
    assert np.array_equal(wild.take([-1]), clips.source[[5]])
    assert np.array_equal(clips.select(slice(1, None, 2)).x, wild.x)
    with pytest.raises(InputError, match="holds no sequences"):
        clips.select([])
    with pytest.raises(InputError, match="cannot select from 6 sequences: index 9 is out of bounds"):
        clips.select([9])


def test_it_says_what_it_is(clips: Sequences) -> None:
    assert repr(clips) == "Sequences(an array: 6 x (4, 2) float32, labels kind)"


def test_batches_come_in_the_models_type_and_units() -> None:
    pixels = Sequences(np.full((2, 3, 1, 4, 4), 51, dtype=np.uint8))
    for dtype in (torch.float32, torch.float64):
        x, mask = pixels.batch(np.array([1]), torch.zeros(1, dtype=dtype))
        assert x.dtype == dtype
        assert mask is None
        assert torch.allclose(x, torch.tensor(0.2, dtype=dtype))
    exact = np.random.Generator(np.random.PCG64(0)).normal(size=(2, 3, 4))
    x, _ = Sequences(exact, units=Units(dtype="float64")).batch(np.arange(2), torch.zeros(1, dtype=torch.float64))
    assert np.array_equal(x.numpy(), exact)


def test_splits_take_their_turns() -> None:
    counts = {"train": 5, "val": 2, "test": 3}
    assert split_rows(counts, "val").tolist() == [5, 6]
    assert split_rows(counts, "all").tolist() == list(range(10))


def test_a_split_shares_the_array(clips: Sequences) -> None:
    assert clips.select([0, 1]).source is clips.source


def test_masks_follow_their_sequences(clips: Sequences) -> None:
    mask = np.arange(4) < np.array([[2], [4], [3], [4], [2], [3]])
    assert mask is not None
    masked = Sequences(clips.source, mask=mask, units=Units()).select([4, 2])
    assert masked.mask is not None
    assert masked.mask.sum(1).tolist() == [2, 3]


@pytest.mark.parametrize(
    ("shape", "sentence"),
    [
        ((3, 64, 64, 3), r"got shape \(3, 64, 64, 3\)"),
        ((3, 64), r"got shape \(3, 64\)"),
        ((3, 1, 5), "1 frame a sequence: dynamics need at least 2"),
    ],
)
def test_shapes_that_are_no_sequences_are_named(shape: tuple[int, ...], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Sequences(np.zeros(shape))


def test_labels_and_masks_of_another_length_are_named() -> None:
    with pytest.raises(InputError, match=r"label 'kind'.*expected 3 codes, got shape \(2,\)"):
        Sequences(np.zeros((3, 4, 5)), {"kind": np.zeros(2, dtype=np.int64)}, units=Units())
    with pytest.raises(InputError, match=r"expected shape \(3, 4\), got \(4, 3\)"):
        Sequences(np.zeros((3, 4, 5)), mask=np.ones((4, 3), dtype=bool), units=Units())


def test_pixels_that_are_no_bytes_are_named() -> None:
    with pytest.raises(InputError, match=r"expected pixels as uint8 from 0 to 255.*, got float64"):
        Sequences(np.zeros((2, 3, 1, 4, 4)))


def test_units_there_and_back() -> None:
    pixels = torch.arange(256, dtype=torch.uint8)
    assert float(PIXELS.to_model(pixels).min()) == 0
    assert float(PIXELS.to_model(pixels).max()) == 1
    assert torch.equal(PIXELS.from_model(PIXELS.to_model(pixels)), pixels)
    assert PIXELS.from_model(torch.tensor([-0.2, 1.7])).tolist() == [0, 255]
    per_feature = Units(scale=(2.0, 5.0), offset=(1.0, -1.0), dtype="float64")
    x = torch.tensor([[3.0, 4.0]], dtype=torch.float64)
    assert per_feature.to_model(x).tolist() == [[1.0, 1.0]]
    assert torch.equal(per_feature.from_model(per_feature.to_model(x)), x)
