"""A set knows its shape, reads only what is asked for, and refuses what it cannot be."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

from diskoop.data import PIXELS, Sequences, Units
from diskoop.data.assembly import window_starts
from diskoop.data.sequences import length_mask
from diskoop.errors import InputError

X = np.arange(6 * 4 * 2, dtype=np.float32).reshape(6, 4, 2)


@pytest.fixture
def clips() -> Sequences:
    kinds = {"kind": np.array([0, 1, 0, 1, 0, 1])}
    return Sequences.of(X, kinds, values={"kind": ("calm", "wild")}, units=Units())


def ragged(lengths: list[int]) -> Sequences:
    frames = np.arange(sum(lengths) * 2, dtype=np.float64).reshape(-1, 2) + 1
    sizes = np.array(lengths, np.int64)
    return Sequences(frames, sizes.cumsum() - sizes, np.array(lengths), units=Units(dtype="float64"), name="ragged")


def with_beats(lengths: list[int]) -> Sequences:
    """Frames whose code is their number."""
    return replace(ragged(lengths), frame_labels={"beat": np.arange(sum(lengths))}, values={"beat": list("abcdefghij")})


def cut(clips: Sequences, window: int, stride: int) -> Sequences:
    """Windows of whole clips."""
    begins = [window_starts(int(length), window, stride) for length in clips.lengths]
    clip, begin = np.repeat(np.arange(len(clips)), [len(some) for some in begins]), np.concatenate(begins)
    sizes = np.minimum(clips.lengths[clip], window)
    return replace(clips, starts=clips.starts[clip] + begin, lengths=sizes, clips=clip, offsets=begin)


def test_selecting_twice_picks_from_the_first_pick(clips: Sequences) -> None:
    few = clips.select([5, 3, 1]).select([2, 0])
    assert few.shape == (2, 4, 2)
    assert np.array_equal(few.x, X[[1, 5]])
    assert np.array_equal(few.read([1]), X[[5]])
    assert few.labels["kind"].tolist() == [1, 1]
    assert few.label_text(0) == "kind wild"
    assert [few.clip_name(index) for index in (0, 1)] == ["an array 1", "an array 5"]


def test_any_way_of_indexing_selects_the_same(clips: Sequences) -> None:
    wild = clips.select(clips.labels["kind"] == 1)
    assert wild.shape == (3, 4, 2)
    assert np.array_equal(wild.x, X[[1, 3, 5]])
    assert np.array_equal(wild.read([-1]), X[[5]])
    assert np.array_equal(clips.select(slice(1, None, 2)).x, wild.x)
    assert np.array_equal(clips.select((1, 3, 5)).x, wild.x)
    with pytest.raises(InputError, match="holds no sequences"):
        clips.select([])
    with pytest.raises(InputError, match="cannot select from 6 sequences: index 9 is out of bounds"):
        clips.select([9])


def test_it_says_what_it_is(clips: Sequences) -> None:
    assert repr(clips) == "Sequences(an array: 6 x (4, 2) float32, labels kind)"
    assert repr(with_beats([2, 3])) == "Sequences(ragged: 2 x (3, 2) float64, frame labels beat)"


def test_batches_come_in_the_models_type_and_units() -> None:
    pixels = Sequences.of(np.full((2, 3, 1, 4, 4), 51, dtype=np.uint8))
    for dtype in (torch.float32, torch.float64):
        x, mask = pixels.batch(np.array([1]), torch.zeros(1, dtype=dtype))
        assert x.dtype == dtype
        assert mask is None
        assert torch.allclose(x, torch.tensor(0.2, dtype=dtype))
    exact = np.random.Generator(np.random.PCG64(0)).normal(size=(2, 3, 4))
    x, _ = Sequences.of(exact, units=Units(dtype="float64")).batch(np.arange(2), torch.zeros(1, dtype=torch.float64))
    assert np.array_equal(x.numpy(), exact)


def test_a_large_offset_does_not_eat_the_signal() -> None:
    """Seconds since 1970 with a wobble: in float32 the wobble would be gone."""
    wobble = np.random.Generator(np.random.PCG64(0)).normal(size=(2, 3, 1))
    clips = Sequences.of(wobble + 1.7e9, units=Units(offset=1.7e9, dtype="float64"))
    x, _ = clips.batch(np.arange(2), torch.zeros(1))
    assert x.dtype == torch.float32
    assert np.allclose(x.numpy(), wobble, atol=1e-6)
    assert np.allclose(clips.units.from_model(x).numpy() - 1.7e9, wobble, atol=1e-6)


def test_a_split_shares_the_frames(clips: Sequences) -> None:
    assert clips.select([0, 1]).frames is clips.frames
    assert np.shares_memory(clips.x, X)


def test_padding_is_as_long_as_the_batch_needs_and_masked() -> None:
    clips = ragged([2, 5, 3])
    assert clips.shape == (3, 5, 2)
    assert clips.mask is not None
    assert clips.mask.sum(1).tolist() == [2, 5, 3]
    x, mask = clips.batch(np.array([0, 2]), torch.zeros(1, dtype=torch.float64))
    assert x.shape == (2, 3, 2)
    assert mask is not None
    assert mask.tolist() == [[True, True, False], [True, True, True]]
    assert x[0, :2].tolist() == clips.frames[:2].tolist()
    assert x[0, 2].tolist() == [0, 0]
    assert clips.batch(np.array([1]), torch.zeros(1))[1] is None
    assert clips.select([2, 0]).lengths.tolist() == [3, 2]
    assert clips.x.shape == (3, 5, 2)


def test_a_frame_label_has_a_code_for_every_frame() -> None:
    clips = with_beats([2, 5, 3])
    assert clips.frame_label("beat", [0, 2]).tolist() == [[0, 1, -1], [7, 8, 9]]
    assert clips.frame_label("beat", np.array([1])).tolist() == [[2, 3, 4, 5, 6]]
    assert clips.frame_label("beat", []).shape == (0, 0)
    fewer = clips.select([2, 0]).select([1])
    assert fewer.frame_label("beat", [0]).tolist() == [[0, 1]]
    assert fewer.frame_labels is clips.frame_labels
    assert replace(clips, split_codes=np.array([0, 2, 1], np.int8)).split("test").frame_label("beat", [0]).tolist() == [
        [2, 3, 4, 5, 6]
    ]


@given(some.lists(some.integers(2, 30), min_size=1, max_size=4), some.integers(2, 12), some.integers(1, 12))
def test_a_windows_frame_label_is_its_clips_from_its_offset_on(lengths: list[int], window: int, stride: int) -> None:
    clips = with_beats(lengths)
    pieces = cut(clips, window, min(stride, window))
    assert pieces.clips is not None
    assert pieces.offsets is not None
    for index, (clip, begin) in enumerate(zip(pieces.clips, pieces.offsets, strict=True)):
        assert np.array_equal(
            pieces.frame_label("beat", [index])[0], clips.frame_label("beat", [clip])[0][begin : begin + window]
        )
    codes = pieces.frame_label("beat", np.arange(len(pieces)))
    x = pieces.x  # a frame holds twice its number, and one
    assert np.array_equal(codes >= 0, x[..., 0] > 0)
    assert np.array_equal(2.0 * codes[codes >= 0] + 1, x[codes >= 0, 0])


def test_frame_labels_do_not_read_frames() -> None:
    class Shut(np.ndarray):
        def __getitem__(self, at: Any) -> Any:
            raise AssertionError("read")

    clips = with_beats([2, 5, 3])
    shut = replace(clips, frames=clips.frames.view(Shut))
    with pytest.raises(AssertionError, match="read"):
        shut.read([0])
    assert shut.select([1, 2]).frame_label("beat", [1]).tolist() == [[7, 8, 9]]


def test_frame_labels_that_do_not_fit_are_named() -> None:
    clips = with_beats([2, 3])
    with pytest.raises(
        InputError, match=r"frame label 'beat' of ragged: expected a code for each of 5 frames, got.*\(4,\)"
    ):
        replace(clips, frame_labels={"beat": np.arange(4)})
    with pytest.raises(InputError, match=r"expected a code for each of 5 frames, got shape \(5, 1\)"):
        replace(clips, frame_labels={"beat": np.zeros((5, 1), int)})
    with pytest.raises(InputError, match="ragged has a label and a frame label 'beat'; rename one of them"):
        replace(clips, labels={"beat": np.zeros(2, int)})
    with pytest.raises(InputError, match="ragged has no frame label 'beats'; did you mean 'beat'"):
        clips.frame_label("beats", [0])
    with pytest.raises(InputError, match="ragged has no frame label 'beat'; it has none"):
        ragged([2, 3]).frame_label("beat", [0])


def test_length_mask() -> None:
    assert length_mask(np.array([3, 3])) is None
    mask = length_mask(np.array([1, 2]))
    assert mask is not None
    assert mask.tolist() == [[True, False], [True, True]]


@given(
    some.lists(some.integers(2, 30), min_size=1, max_size=4), some.integers(2, 12), some.integers(1, 12), some.data()
)
def test_stitched_windows_are_the_clips(lengths: list[int], window: int, stride: int, data: some.DataObject) -> None:
    clips = ragged(lengths)
    cut = [
        (i, int(at), min(window, length))
        for i, length in enumerate(lengths)
        for at in window_starts(length, window, min(stride, window))
    ]
    order = data.draw(some.permutations(cut))
    clip, begin, size = (np.array(column) for column in zip(*order, strict=True))
    pieces = replace(
        clips,
        starts=clips.starts[clip] + begin,
        lengths=size,
        clips=clip,
        offsets=begin,
        clip_names=[f"clip {i}" for i in range(len(lengths))],
    )
    whole = pieces.stitch(pieces.x)
    assert len(whole) == len(lengths)
    for i in range(len(lengths)):
        assert np.allclose(whole[f"clip {i}"], clips.read([i])[0], rtol=1e-15)


def test_overlapping_windows_meet_in_the_middle() -> None:
    clips = replace(ragged([6]), starts=np.array([0, 2]), lengths=np.array([4, 4]))
    clips = replace(clips, clips=np.array([0, 0]), offsets=np.array([0, 2]))
    altered = clips.x + np.array([0.0, 10.0])[:, None, None]
    (whole,) = clips.stitch(altered).values()
    assert np.array_equal(whole - clips.frames, np.array([[0], [0], [5], [5], [10], [10]]) + np.zeros((6, 2)))
    pixels = Sequences.of(np.zeros((1, 2, 1, 4, 4), np.uint8))
    assert pixels.stitch(pixels.x)["an array 0"].dtype == np.uint8


def test_what_was_masked_is_not_stitched() -> None:
    clips = ragged([6, 4])
    whole = clips.stitch(clips.x, np.array([2, 3]))
    assert [len(clip) for clip in whole.values()] == [2, 3]


def test_whole_numbers_keep_their_differences() -> None:
    counts = 10**9 + np.arange(24).reshape(2, 6, 2)
    clips = Sequences.of(counts, units=Units(offset=1e9, dtype="float64"))
    assert np.array_equal(clips.batch(np.arange(2), torch.zeros(1))[0].numpy(), counts - 10**9)


def test_a_gap_between_windows_is_named() -> None:
    clips = replace(ragged([9]), starts=np.array([0, 6]), lengths=np.array([3, 3]))
    clips = replace(clips, clips=np.array([0, 0]), offsets=np.array([0, 6]))
    with pytest.raises(InputError, match="no window holds its frame 3, so it cannot be stitched"):
        clips.stitch(clips.x)
    with pytest.raises(InputError, match="expected 2 sequences of 3 frames to stitch"):
        clips.stitch(clips.x[:1])


def test_splits_are_selected_by_their_codes(clips: Sequences) -> None:
    with pytest.raises(InputError, match="an array has no sequences to test on"):
        clips.split("test")
    halves = replace(clips, split_codes=np.array([0, 0, 2, 1, 0, 2], np.int8))
    assert [halves.split_size(split) for split in ("train", "val", "test", "all")] == [3, 1, 2, 6]
    assert np.array_equal(halves.split("test").x, X[[2, 5]])
    assert halves.split("all") is halves
    assert halves.split("test").split_size("test") == 2


@pytest.mark.parametrize(
    ("shape", "sentence"),
    [
        ((3, 64, 64, 3), r"got shape \(3, 64, 64, 3\)"),
        ((3, 64), r"got shape \(3, 64\)"),
        ((3, 1, 5), "1 frame in sequence 0: dynamics need at least 2"),
    ],
)
def test_shapes_that_are_no_sequences_are_named(shape: tuple[int, ...], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Sequences.of(np.zeros(shape))


def test_labels_and_lengths_that_do_not_fit_are_named() -> None:
    with pytest.raises(InputError, match=r"label 'kind'.*expected 3 codes, got shape \(2,\)"):
        Sequences.of(np.zeros((3, 4, 5)), {"kind": np.zeros(2, dtype=np.int64)}, units=Units())
    with pytest.raises(InputError, match=r"expected 3 from 1 to 4, got \[2 5 3\]"):
        Sequences.of(np.zeros((3, 4, 5)), lengths=np.array([2, 5, 3]), units=Units())


def test_pixels_that_are_no_bytes_are_named() -> None:
    with pytest.raises(InputError, match=r"expected pixels as uint8 from 0 to 255.*, got float64"):
        Sequences.of(np.zeros((2, 3, 1, 4, 4)))


def test_units_there_and_back() -> None:
    pixels = torch.arange(256, dtype=torch.uint8)
    assert float(PIXELS.to_model(pixels).min()) == 0
    assert float(PIXELS.to_model(pixels).max()) == 1
    assert torch.equal(PIXELS.from_model(PIXELS.to_model(pixels)), pixels)
    assert PIXELS.from_model(torch.tensor([-0.2, 1.7])).tolist() == [0, 255]
    deep = Units(scale=4095.0, dtype="uint16")
    assert deep.from_model(torch.tensor([-1.0, 0.5, 1.0])).tolist() == [0, 2048, 4095]
    per_feature = Units(scale=(2.0, 5.0), offset=(1.0, -1.0), dtype="float64")
    x = torch.tensor([[3.0, 4.0]], dtype=torch.float64)
    assert per_feature.to_model(x).tolist() == [[1.0, 1.0]]
    assert torch.equal(per_feature.from_model(per_feature.to_model(x)), x)


def test_titles_have_the_name_the_window_and_the_labels() -> None:
    places = {"clips": np.array([0, 0, 1]), "offsets": np.array([0, 4, 0]), "clip_names": ["walk.mp4", "run.mp4"]}
    labels = {"action": np.array([0, 0, 1]), "take": np.array([7, 8, 9])}
    data = Sequences.of(np.zeros((3, 4, 2)), labels, values={"action": ["walk", "run"]}, units=Units(), **places)
    assert data.title(1) == "walk.mp4 [4-7]: action walk, take 8"
    assert data.label_values(2) == {"action": "run", "take": "9"}
    assert (data.window(2), data.sequence_name(2)) == ((0, 3), "run.mp4 [0-3]")
    whole = replace(data, offsets=np.zeros(3, np.int64), labels={})
    assert (whole.window(0), whole.title(2)) == (None, "run.mp4")


def test_features_without_names_have_numbers() -> None:
    assert Units().feature_names(2) == ("feature 1", "feature 2")
    assert Units(features=("hPa", "degrees")).feature_names(2) == ("hPa", "degrees")
