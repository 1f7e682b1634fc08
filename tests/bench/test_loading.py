"""All batches are loaded, from memory and from disk alike, and rates are compared with a step's."""

from pathlib import Path

import numpy as np
import pytest
import torch

from diskoop.bench.loading import _load_all, _map_from_disk, measure_loading
from diskoop.bench.steps import random_sequences
from diskoop.data.batches import Batch
from tests.helpers.cases import CPU, QUICK, VIDEO


def test_every_batch_is_loaded() -> None:
    loaded: list[int] = []

    def loader(batches: object) -> list[Batch]:
        assert isinstance(batches, list)
        loaded.extend(int(i) for indices in batches for i in indices)
        return [Batch(indices, torch.zeros(len(indices)), None, 0.0) for indices in batches]

    _load_all(lambda batches: iter(loader(batches)), [np.arange(3), np.arange(3, 5)], CPU)
    assert loaded == [0, 1, 2, 3, 4]


def test_the_streamed_set_equals_the_resident_one(tmp_path: Path) -> None:
    data = random_sequences(VIDEO, 6)
    streamed = _map_from_disk(data, tmp_path / "x.npy")
    assert isinstance(streamed.frames, np.memmap)
    assert np.array_equal(streamed.read([4, 1]), data.read([4, 1]))


def test_rates_are_compared_with_a_step() -> None:
    (table,) = measure_loading(QUICK, VIDEO, 16)
    assert [row["source"] for row in table.rows] == ["resident", "streamed", "needed by a step"]
    assert table.rows[-1]["relative to a step"] == pytest.approx(1.0)
    clip = 5 * 3 * 32 * 32 / 1e6
    for row in table.rows:
        assert row["MB/s"] == pytest.approx(row["sequences/s"] * clip)
        assert row["sequences/s"] > 0
