"""sequences by name"""

from collections.abc import Callable
from functools import partial

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
    """The sequences of a built-in set; `size` is the pixel size of a video, None its own."""
    if split not in SPLITS:
        raise InputError(f"unknown split {split!r}; {suggest(split, SPLITS)}")
    if name not in _LOADERS:
        raise InputError(f"unknown data set {name!r}; {suggest(name, data_names())}")
    return _LOADERS[name](split, size)
