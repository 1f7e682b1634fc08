"""The set: its size, its splits, its cache."""

from pathlib import Path

import numpy as np
import pytest

from diskoop import load_data
from diskoop.data.sequences import SplitName
from diskoop.data.sets import puppet_art
from diskoop.errors import InputError

FACTORS = ("skin", "pants", "top", "hair")


def characters(split: SplitName) -> set[tuple[int, ...]]:
    labels = load_data("puppets", split, size=32).labels
    return set(zip(*(labels[factor].tolist() for factor in FACTORS), strict=True))


def test_every_character_is_in_one_split_with_all_its_actions() -> None:
    counts = {split: len(load_data("puppets", split, size=32)) for split in ("train", "val", "test", "all")}
    assert counts == {"train": 8100, "val": 900, "test": 2664, "all": 11664}
    train, val, test = (characters(split) for split in ("train", "val", "test"))
    assert (len(train), len(val), len(test)) == (900, 100, 296)
    assert not train & val
    assert not train & test
    assert not val & test
    assert np.bincount(load_data("puppets", "val", size=32).labels["action"]).tolist() == [100] * 9


def test_labels_go_with_pictures() -> None:
    """The same character and action, found through two splits' indices, is the same picture."""
    dataset, test = load_data("puppets", "all", size=32), load_data("puppets", "test", size=32)
    for index in (0, 1000, 2663):
        at = np.ravel_multi_index([test.labels[name][index] for name in (*FACTORS, "action")], (6, 6, 6, 6, 9))
        assert np.array_equal(test.read([index]), dataset.read([int(at)]))


def test_it_is_drawn_once_and_read_back_mapped(cache: Path) -> None:
    first = load_data("puppets", "train", size=32)
    files = list(cache.glob("puppets-32-*/frames.npy"))
    assert len(files) == 1
    drawn = files[0].stat().st_mtime_ns
    again = load_data("puppets", "train", size=32)
    assert files[0].stat().st_mtime_ns == drawn
    assert isinstance(again.frames, np.memmap)
    assert not again.frames.flags.writeable
    assert np.array_equal(first.read([7]), again.read([7]))


def test_an_interrupted_drawing_leaves_nothing(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISKOOP_CACHE", str(tmp_path))

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(puppet_art, "draw", stop)
    with pytest.raises(KeyboardInterrupt):
        load_data("puppets", "train", size=32)
    assert list(tmp_path.iterdir()) == []


def test_impossible_requests_are_named() -> None:
    with pytest.raises(InputError, match=r"32 or 64 pixels, got data.size = 128"):
        load_data("puppets", "train", size=128)
    with pytest.raises(InputError, match=r"data\.size should be 32, 64 or 128, got 48"):
        load_data("puppets", "train", size=48)
    with pytest.raises(InputError, match=r"unknown split 'tset'; did you mean 'test'\?"):
        load_data("puppets", "tset")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"unknown data set 'pupets' .*; did you mean 'puppets'\?"):
        load_data("pupets")
