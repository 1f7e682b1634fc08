"""sequences by name"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from diskoop.data import files
from diskoop.data.builtin import oscillators, puppets
from diskoop.data.sequences import PIXELS, SPLITS, Sequences, Split, Units
from diskoop.errors import InputError, suggest

__all__ = ["PIXELS", "SPLITS", "Sequences", "Split", "Units", "data_names", "load_data"]

# A new set is one file that draws or reads it, and one line here.
_LOADERS: dict[str, Callable[[Split, int | None], Sequences]] = {
    "puppets": puppets.load,
    **{name: partial(oscillators.load, name) for name in oscillators.NAMES},
}


def data_names() -> list[str]:
    return sorted(_LOADERS)


def load_data(name: str, split: Split = "train", size: int | None = None) -> Sequences:
    """A built-in set by name, or the user's own by the path of a `.npy` or `.npz` file.

    `size` is the pixel size that a built-in video is drawn at, None its own.
    """
    if split not in SPLITS:
        raise InputError(f"unknown split {split!r}; {suggest(split, SPLITS)}")
    if Path(name).suffix in files.SUFFIXES:
        if size is not None:
            raise InputError(f"data.size = {size} is for built-in video; {name} is taken as it is")
        return files.load(Path(name), split)
    if name not in _LOADERS:
        raise InputError(f"unknown data set {name!r}; {suggest(name, data_names())} (or a .npy or .npz file)")
    return _LOADERS[name](split, size)
