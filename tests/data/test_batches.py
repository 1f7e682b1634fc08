"""Reading ahead changes when things are read, not what."""

import threading
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from diskoop.data import Sequences, Units, batches
from diskoop.data.batches import PREFETCH, prefetch

X = np.arange(20 * 3 * 2, dtype=np.float32).reshape(20, 3, 2)
RANDOM = np.random.Generator(np.random.PCG64(0))
BATCHES = [np.array([n, 19 - n]) for n in range(8)]


class Watched(Sequences):
    """Notes which thread reads what."""

    def read(self, indices: Any) -> NDArray[Any]:
        READ.append((indices.tolist(), threading.current_thread() is threading.main_thread()))
        return super().read(indices)


READ: list[tuple[list[int], bool]] = []


def test_batches_come_in_order_and_the_next_is_on_its_way() -> None:
    READ.clear()
    clips = Sequences.of(X, units=Units())
    watched = Watched(clips.frames, clips.starts, clips.lengths, units=Units())
    for number, ready in enumerate(prefetch(watched, BATCHES, torch.float32)):
        assert np.array_equal(ready.x.numpy(), X[BATCHES[number]])
        assert np.array_equal(ready.indices, BATCHES[number])
        deadline = time.monotonic() + 5
        while len(READ) < min(number + 1 + PREFETCH, 8) and time.monotonic() < deadline:
            time.sleep(0.001)
        assert len(READ) == min(number + 1 + PREFETCH, 8)  # a few ahead, not more
    assert [read for read, _ in READ] == [batch.tolist() for batch in BATCHES]
    assert not any(by_main for _, by_main in READ)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_two_halves_are_a_batch(dtype: torch.dtype) -> None:
    pixels = RANDOM.integers(0, 255, (20, 3, 1, 4, 4), dtype=np.uint8)
    lengths = np.arange(20) % 2 + 2
    for clips in (
        Sequences.of(X, units=Units(scale=(2.0, 3.0), offset=(1.0, 1e7))),
        Sequences.of(pixels, lengths=lengths),
        Sequences.of(pixels / 255, units=Units(dtype="float64")),
    ):
        for ready in prefetch(clips, BATCHES, dtype):
            x, mask = clips.move_batch(ready.x, ready.mask, torch.zeros(1, dtype=dtype))
            expected = (clips.read(ready.indices) - np.array(clips.units.offset)) / np.array(clips.units.scale)
            assert x.dtype == dtype
            assert np.allclose(x.numpy(), expected, rtol=1e-6)
            real = clips.lengths[ready.indices]
            assert (mask is None) == (len(set(real.tolist())) == 1)
            assert mask is None or np.array_equal(mask.sum(1).numpy(), real)


def test_no_batches() -> None:
    assert list(prefetch(Sequences.of(X, units=Units()), [], torch.float32)) == []


def test_a_file_that_cannot_be_read_is_not_swallowed() -> None:
    clips = replace(Sequences.of(X, units=Units()), frames=np.zeros((3, 2)))
    with pytest.raises(ValueError, match="could not broadcast"):
        list(prefetch(clips, BATCHES, torch.float32))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_resident_set_gives_the_batches_that_reading_would(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "CHUNK", 7)  # two whole ones and a rest
    lengths = np.arange(20) % 2 + 2
    lengths[[0, 19]] = 2  # a batch without padding that is shorter than the longest
    for clips in (
        Sequences.of(X, units=Units(scale=(2.0, 3.0), offset=(1.0, 1e7))),
        Sequences.of(X, units=Units(), lengths=lengths),
        Sequences.of(RANDOM.integers(0, 255, (20, 3, 1, 4, 4), dtype=np.uint8), lengths=lengths),
        Sequences.of(RANDOM.integers(0, 65535, (20, 3, 1, 4, 4), dtype=np.uint16), units=Units(dtype="uint16")),
        Sequences.of(RANDOM.random((20, 3, 1, 4, 4)), units=Units(dtype="float64")),
    ):
        resident = batches.DeviceLoader(clips, torch.zeros(1, dtype=dtype))
        for ours, theirs in zip(resident(BATCHES), prefetch(clips, BATCHES, dtype), strict=True):
            assert np.array_equal(ours.indices, theirs.indices)
            assert ours.x.dtype == theirs.x.dtype
            assert np.array_equal(ours.x.numpy(), theirs.x.numpy())
            assert (ours.mask is None) == (theirs.mask is None)
            assert ours.mask is None or torch.equal(ours.mask, theirs.mask)  # type: ignore[arg-type]
