"""sequences by name"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from diskoop.data import files, mug, sprites, timit
from diskoop.data.builtin import faces, oscillators, puppets, voices
from diskoop.data.sequences import PIXELS, SPLITS, Sequences, Split, Units
from diskoop.errors import InputError, suggest
from diskoop.settings import DataSettings, Settings

__all__ = ["PIXELS", "SPLITS", "Sequences", "Split", "Units", "data_names", "load_data", "open_data"]


class _Set(NamedTuple):
    """A set that has a name."""

    load: Callable[[DataSettings], Sequences]
    options: tuple[str, ...]  # the settings it understands, beside `limit`


# A new set is one file that draws or reads it, and one line here.
_SETS: dict[str, _Set] = {
    "puppets": _Set(puppets.load, ("size", "holdout")),
    "faces": _Set(faces.load, ("size", "holdout", "group")),
    "voices": _Set(voices.load, ("window", "stride", "holdout")),
    "sprites": _Set(sprites.load, ("path", "size", "holdout")),
    "mug": _Set(mug.load, ("path", "size", "holdout", "group", "skip_bad")),
    "timit": _Set(timit.load, ("path", "window", "stride", "holdout", "test", "group", "sa", "skip_bad")),
    **{name: _Set(partial(oscillators.load, name), ("holdout",)) for name in oscillators.NAMES},
}


def data_names() -> list[str]:
    return sorted(_SETS)


def load_data(what: str | Path, split: Split = "train", **options: Any) -> Sequences:
    """One split of a set by its name, or of the user's own by the path of a file or folder.

    `options` are the keys of a run's `data` section: size=32, window=16, labels="labels.csv", ...
    """
    if split not in SPLITS:
        raise InputError(f"unknown split {split!r}; {suggest(split, SPLITS)}")
    return open_data(data_settings(what, **options)).part(split)


def data_settings(what: str | Path, **options: Any) -> DataSettings:
    """Settings for a set's name, or for a path if there is no such set."""
    return Settings.of({"data": {**location(what), **options}}).data


def location(what: str | Path) -> dict[str, str]:
    """`data.name` for a set's name, `data.path` for a path if there is no such set."""
    known = str(what) in _SETS or not _looks_like_path(str(what))
    return {"name": str(what)} if known else {"path": str(what)}


def settings_like(own: DataSettings, what: str | Path) -> DataSettings:
    """Settings for another set or folder, read as a run's own: size, windows and steps, as far as it knows them."""
    options = _SETS[str(what)].options if what in _SETS else ("size", "window", "stride", "every")
    kept = {key: getattr(own, key) for key in ("size", "window", "stride", "every") if key in options}
    return data_settings(what, **kept)


def open_data(settings: DataSettings) -> Sequences:
    """All sequences that `settings` describe, each knowing its split."""
    if settings.name is None and settings.path is not None:
        return files.load(settings)
    name = settings.name or "puppets"
    if name not in _SETS:
        own = f"; your own files go to data.path={name}" if _looks_like_path(name) else ""
        nor = "" if own else " (nor is there such a file or folder)"
        raise InputError(f"unknown data set {name!r}{nor}; {suggest(name, data_names())}{own}")
    understood = {"name", "limit", *_SETS[name].options}
    for key, field in DataSettings.model_fields.items():
        given = getattr(settings, key)
        if key not in understood and given != field.default:
            raise InputError(f"data.{key} = {given} means nothing for {name}")
    return _SETS[name].load(settings)


def _looks_like_path(text: str) -> bool:
    try:
        return Path(text).exists() or any(sign in text for sign in "/\\.")
    except OSError:  # too long for a name
        return False
