"""Reading ahead changes when things are read, not what."""

import threading
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from diskoop.data import Sequences, Units
from diskoop.training.feeding import AHEAD, read_ahead

X = np.arange(20 * 3 * 2, dtype=np.float32).reshape(20, 3, 2)
BATCHES = [np.array([n, 19 - n]) for n in range(8)]


class Watched(Sequences):
    """Notes which thread reads what."""

    def take(self, indices: Any) -> NDArray[Any]:
        READ.append((indices.tolist(), threading.current_thread() is threading.main_thread()))
        return super().take(indices)


READ: list[tuple[list[int], bool]] = []


def test_batches_come_in_order_and_the_next_is_on_its_way() -> None:
    READ.clear()
    clips = Sequences.of(X, units=Units())
    watched = Watched(clips.frames, clips.starts, clips.lengths, units=Units())
    for number, ready in enumerate(read_ahead(watched, BATCHES)):
        assert np.array_equal(ready.x, X[BATCHES[number]])
        assert np.array_equal(ready.indices, BATCHES[number])
        deadline = time.monotonic() + 5
        while len(READ) < min(number + 1 + AHEAD, 8) and time.monotonic() < deadline:
            time.sleep(0.001)
        assert len(READ) == min(number + 1 + AHEAD, 8)  # a few ahead, not more
    assert [read for read, _ in READ] == [batch.tolist() for batch in BATCHES]
    assert not any(by_main for _, by_main in READ)


def test_no_batches() -> None:
    assert list(read_ahead(Sequences.of(X, units=Units()), [])) == []


def test_a_file_that_cannot_be_read_is_not_swallowed() -> None:
    clips = replace(Sequences.of(X, units=Units()), frames=np.zeros((3, 2)))
    with pytest.raises(ValueError, match="could not broadcast"):
        list(read_ahead(clips, BATCHES))
