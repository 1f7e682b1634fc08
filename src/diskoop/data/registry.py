"""the registry of data sets, and the calls that load one by name or path"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from diskoop.data.chunks import hold_sample
from diskoop.data.formats import loader
from diskoop.data.sequences import SPLITS, Sequences, SplitName
from diskoop.data.sets import faces, mug, oscillators, puppets, sprites, timit, voices
from diskoop.errors import InputError, suggest
from diskoop.settings import DataSettings, Settings


class DataSet(NamedTuple):
    """An entry of the registry."""

    load: Callable[[DataSettings], Sequences]  # all sequences, with their split codes
    options: tuple[str, ...]  # the keys of the `data` section it reads, besides `name` and `limit`


DATA_SETS: dict[str, DataSet] = {}


def register_data_set(name: str, load: Callable[[DataSettings], Sequences], options: Sequence[str] = ()) -> None:
    """Make a data set known to `load_data`, to settings and to the command line of this process.

    Args:
        name: for `data.name`.
        load: returns all sequences of the set, with `split_codes`.
        options: the keys of the `data` section that `load` reads; any other that is set is an error.

    Raises:
        InputError: if an option is no key of the `data` section.
        ValueError: if there is a data set of that name.

    Example:
        >>> import numpy as np
        >>> from diskoop.data.sequences import Units
        >>> from diskoop.data.splits import split_in_order
        >>> def load_noise(settings):
        ...     x = np.random.default_rng(0).normal(size=(50, 16, 4))
        ...     split_codes = split_in_order(50, test_count=10, val_fraction=settings.val_fraction)
        ...     return Sequences.of(x, units=Units(dtype="float64"), name="noise", split_codes=split_codes)
        >>> register_data_set("noise", load_noise, options=("val_fraction",))
        >>> load_data("noise", val_fraction=0.25)
        Sequences(noise: 30 x (16, 4) float64)
        >>> _ = DATA_SETS.pop("noise")
    """
    if name in DATA_SETS:
        raise ValueError(f"there is a data set {name!r} already")
    for key in options:
        if key not in DataSettings.model_fields:
            raise InputError(f"data set {name!r} reads data.{key}, which is no setting; {suggest(key, _KEYS)}")
    DATA_SETS[name] = DataSet(load, tuple(options))


_KEYS = tuple(DataSettings.model_fields)
# What decides the shape and meaning of a frame and the length of a sequence.
READING_OPTIONS = ("size", "window", "stride", "every", "strip", "columns", "drop", "words", "max_gap")

register_data_set("puppets", puppets.load, ("size", "val_fraction"))
register_data_set("faces", faces.load, ("size", "val_fraction", "group"))
register_data_set("voices", voices.load, ("window", "stride", "val_fraction"))
register_data_set("sprites", sprites.load, ("path", "size", "val_fraction"))
register_data_set("mug", mug.load, ("path", "size", "val_fraction", "group", "skip_bad"))
register_data_set(
    "timit",
    timit.load,
    ("path", "window", "stride", "val_fraction", "test_fraction", "group", "keep_sa", "skip_bad"),
)
for _name in oscillators.NAMES:
    register_data_set(_name, partial(oscillators.load, _name), ("val_fraction",))


def data_names() -> list[str]:
    """Names of the registered data sets."""
    return sorted(DATA_SETS)


def load_data(source: str | Path, split: SplitName = "train", **options: Any) -> Sequences:
    """One split of a data set.

    Args:
        source: a registered name, or the path of the user's own file or folder.
        split: train, val, test or all.
        options: keys of a run's `data` section, such as size=32, window=16, labels="labels.csv"; `limit` counts for
            the training split only.

    Example:
        >>> load_data("oscillators", split="test")
        Sequences(oscillators: 400 x (24, 8) float64, labels level, mark, slow, fast, fade)
    """
    if split not in SPLITS:
        raise InputError(f"unknown split {split!r}; {suggest(split, SPLITS)}")
    settings = data_settings(source, **options)
    return load_split(settings, split, open_data(settings, whole=True))


def load_split(settings: DataSettings, split: SplitName, dataset: Sequences | None = None) -> Sequences:
    """One split as a run uses it: of the training split only the first `settings.limit` sequences.

    Args:
        settings: a run's `data` section.
        split: train, val, test or all; `limit` does not count for the last three.
        dataset: all sequences, where they are open already; otherwise `open_data(settings)`.
    """
    sequences = (open_data(settings) if dataset is None else dataset).split(split)
    return sequences.select(slice(settings.limit)) if split == "train" and settings.limit is not None else sequences


def data_settings(source: str | Path, **options: Any) -> DataSettings:
    """The `data` section for a registered name, or for a path if there is no such data set."""
    return Settings.of({"data": {**location(source), **options}}).data


def location(source: str | Path) -> dict[str, str]:
    """`data.name` for a registered name, `data.path` for a path if there is no such data set.

    Example:
        >>> location("puppets"), location("clips/")
        ({'name': 'puppets'}, {'path': 'clips/'})
    """
    is_name = str(source) in DATA_SETS or not _looks_like_path(str(source))
    return {"name": str(source)} if is_name else {"path": str(source)}


def settings_like(own: DataSettings, source: str | Path) -> DataSettings:
    """Settings for another data set that is read as `own` is, as far as they apply to it."""
    options = DATA_SETS[str(source)].options if source in DATA_SETS else READING_OPTIONS
    kept = {key: getattr(own, key) for key in READING_OPTIONS if key in options}
    return data_settings(source, **kept)


def without_splits(settings: DataSettings) -> DataSettings:
    """The same data, all of it one set: a single clip is enough."""
    return settings.model_copy(update={"val_fraction": 0.0, "test_fraction": 0.0})


def open_data(settings: DataSettings, whole: bool = False) -> Sequences:
    """All sequences that `settings` describe, with their split codes; `limit` is left to `load_split`.

    Of a set that is read chunk by chunk these are the `settings.sample` sequences of each split that are looked at and
    judged, in memory.

    Args:
        settings: a run's `data` section.
        whole: whether to take such a set whole, as training does; nothing of it is read then.

    Raises:
        InputError: for an unknown name, or a setting that does not apply to the data set.
    """
    dataset = _open_whole(settings)
    return dataset if whole else hold_sample(dataset, settings.sample, settings.limit)


def _open_whole(settings: DataSettings) -> Sequences:
    if settings.name is None and settings.path is not None:
        return loader.load(settings)
    name = settings.name or "puppets"
    if name not in DATA_SETS:
        hint = f"; your own files go to data.path={name}" if _looks_like_path(name) else ""
        missing = "" if hint else " (nor is there such a file or folder)"
        raise InputError(f"unknown data set {name!r}{missing}; {suggest(name, data_names())}{hint}")
    # `stride` is let pass, since presets for a user's own clips set it and whole clips have no windows.
    understood = {"name", "limit", "stride", *DATA_SETS[name].options}
    for key, field in DataSettings.model_fields.items():
        value = getattr(settings, key)
        if key not in understood and value != field.default:
            raise InputError(f"data.{key} = {value} means nothing for {name}")
    return DATA_SETS[name].load(settings)


def _looks_like_path(text: str) -> bool:
    try:
        return Path(text).exists() or any(sign in text for sign in "/\\.")
    except OSError:  # too long for a name
        return False
