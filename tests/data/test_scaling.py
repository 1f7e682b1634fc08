"""One pass over chunks gives what numpy gives over the whole."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from diskoop.data import scaling
from diskoop.data.scaling import compute_statistics, frame_deviations, signal_units
from diskoop.data.sequences import Sequences, Units


@given(
    some.lists(some.integers(1, 9), min_size=1, max_size=8),
    some.integers(0, 2**32 - 1),
    some.sampled_from([1e-3, 1.0, 1e6]),
    some.integers(1, 400),
)
def test_mean_and_deviation_are_numpys(lengths: list[int], seed: int, offset: float, chunk: int) -> None:
    random = np.random.Generator(np.random.PCG64(seed))
    frames = random.normal(size=(sum(lengths) + 4, 3)) * [1, 50, 0] + offset
    sizes = np.array(lengths, np.int64)
    starts = sizes.cumsum() - sizes + int(random.integers(0, 2)) * 2  # with or without a gap before
    starts[len(starts) // 2 :] += 2  # and one in the middle
    train = random.integers(0, 2, len(lengths)).astype(bool)
    train[0] = True
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scaling, "CHUNK_BYTES", chunk)
        statistics = compute_statistics(frames, starts, sizes, train)
    every = [frames[start : start + length] for start, length in zip(starts, lengths, strict=True)]
    some_frames = np.concatenate([clip for clip, wanted in zip(every, train, strict=True) if wanted])
    deviation = some_frames.std(0)
    assert np.allclose(statistics.mean, some_frames.mean(0), rtol=1e-12)
    assert np.allclose(statistics.std[:2], np.where(deviation[:2] > 0, deviation[:2], 1), rtol=1e-6, atol=1e-9 * offset)
    assert statistics.std[2] == 1
    assert statistics.low == np.concatenate(every).min()
    assert statistics.high == np.concatenate(every).max()
    assert len(statistics.non_finite) == 0


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_named(value: float) -> None:
    frames = np.zeros((20, 2))
    frames[[9, 13], 1] = value
    statistics = compute_statistics(frames, np.arange(5) * 4, np.full(5, 4), np.ones(5, bool))
    assert statistics.non_finite.tolist() == [2, 3]


def test_units_keep_the_precision_of_the_data() -> None:
    statistics = compute_statistics(np.arange(8.0).reshape(4, 2), np.array([0]), np.array([4]), np.ones(1, bool))
    for given_type, kept in (("f2", "float32"), ("f4", "float32"), ("f8", "float64"), ("i2", "float32")):
        assert signal_units(statistics, np.dtype(given_type)).dtype == kept
    units = signal_units(statistics, np.dtype("f8"), features=("a", "b"), rate=16_000)
    assert units.offset == (3.0, 4.0)
    assert (units.features, units.rate) == (("a", "b"), 16_000)


def test_deviations_are_those_of_real_frames() -> None:
    x = np.random.Generator(np.random.PCG64(0)).normal(3, 2, (6, 9, 4))
    lengths = np.arange(6) + 4
    clips = Sequences.of(
        np.where(np.arange(9)[:, None] < lengths[:, None, None], x, 1e6), lengths=lengths, units=Units()
    )
    real = np.concatenate([each[:length] for each, length in zip(x, lengths, strict=True)])
    assert np.allclose(frame_deviations(clips), real.std(0))
    assert np.allclose(frame_deviations(clips.select([1, 4])), np.concatenate([x[1, :5], x[4, :8]]).std(0))
    pixels = np.random.Generator(np.random.PCG64(0)).integers(0, 256, (3, 5, 1, 2, 2), dtype=np.uint8)
    assert np.allclose(frame_deviations(Sequences.of(pixels)), pixels.std((0, 1)))
