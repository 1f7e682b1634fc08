"""Data sets by name: a registry that users add to, and `data.limit` for the training split alone."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from diskoop import data, load
from diskoop.data import DATA_SETS, Sequences, Units, load_data, load_split, open_data, register_data_set
from diskoop.data.splits import split_in_order
from diskoop.errors import InputError
from diskoop.settings import DataSettings, Settings
from diskoop.training import loop
from tests.helpers.training import SERIES, Quiet

X = np.random.default_rng(0).normal(size=(20, 8, 3))


def load_noise(settings: DataSettings) -> Sequences:
    split_codes = split_in_order(len(X), 4, settings.val_fraction)
    return Sequences.of(X, units=Units(dtype="float64"), name="noise", split_codes=split_codes)


@pytest.fixture
def noise() -> Iterator[None]:
    register_data_set("noise", load_noise, options=("val_fraction",))
    yield
    del DATA_SETS["noise"]


def test_a_registered_set_is_loaded_by_name(noise: None) -> None:
    assert "noise" in data.data_names()
    assert data.location("noise") == {"name": "noise"}
    assert np.array_equal(load_data("noise", "test").x, X[16:])
    assert len(load_data("noise", val_fraction=0.5)) == 8
    assert data.settings_like(DataSettings(size=32, window=4), "noise") == DataSettings(name="noise")
    own = DataSettings(path="a.csv", window=4, drop="b", max_gap=2, group="c")
    assert data.settings_like(own, "other.csv") == DataSettings(path="other.csv", window=4, drop="b", max_gap=2)
    with pytest.raises(InputError, match=r"data\.window = 4 means nothing for noise"):
        load_data("noise", window=4)


def test_options_that_are_no_settings_are_named() -> None:
    with pytest.raises(InputError, match=r"'noise' reads data\.windows, which is no setting; did you mean 'window'\?"):
        register_data_set("noise", load_noise, options=("windows",))
    assert "noise" not in DATA_SETS


def test_a_name_is_registered_once(noise: None) -> None:
    with pytest.raises(ValueError, match="there is a data set 'noise' already"):
        register_data_set("noise", load_noise)
    assert DATA_SETS["noise"].options == ("val_fraction",)


@pytest.mark.parametrize(("limit", "count"), [(None, 12), (5, 5), (12, 12), (100, 12)])
def test_a_limit_counts_for_the_training_split_alone(noise: None, limit: int | None, count: int) -> None:
    settings = DataSettings(name="noise", limit=limit, val_fraction=0.25)
    assert np.array_equal(load_split(settings, "train").x, X[:count])
    assert np.array_equal(load_split(settings, "val").x, X[12:16])
    assert np.array_equal(load_split(settings, "test").x, X[16:])
    assert len(load_split(settings, "all")) == len(open_data(settings)) == 20
    opened = open_data(settings).select(slice(2, None))
    assert np.array_equal(load_split(settings, "train", opened).x, X[2:12][:limit])
    assert np.array_equal(load_data("noise", limit=limit, val_fraction=0.25).x, X[:count])


def test_a_run_has_the_training_split_it_was_trained_on(tmp_path: Path) -> None:
    settings = Settings.of(SERIES).replaced({"data": {"limit": 70}, "train": {"epochs": 1}})
    loop.train(settings, tmp_path / "run", reporter=Quiet())
    run = load(tmp_path / "run")
    assert run.operator.sequences == len(run.data("train")) == 70
    assert np.array_equal(run.data("train").x, load_data("oscillators", "train").x[:70])
    assert [len(run.data(split)) for split in ("val", "test", "all")] == [180, 400, 2200]
