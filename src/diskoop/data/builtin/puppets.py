"""the puppets as a data set: cached, split by character"""

import numpy as np

from diskoop.data.builtin import puppet_art as art
from diskoop.data.builtin.cache import drawn_once
from diskoop.data.sequences import Sequences, Split, split_rows
from diskoop.errors import InputError

CHARACTERS = {"train": 900, "val": 100, "test": 296}  # no character in two splits


def load(split: Split, size: int | None = None) -> Sequences:
    size = 64 if size is None else size
    if size not in art.SIZES:
        raise InputError(f"puppets are drawn at {' or '.join(map(str, art.SIZES))} pixels, got data.size = {size}")
    labels = art.labels()
    count = len(labels["action"])
    shape = (count, art.FRAMES, 3, size, size)
    x = drawn_once("puppets", art, size, shape, lambda out, advance: art.draw(size, out, advance))
    everything = Sequences(x, labels, art.FACTORS, name="puppets")
    return everything.select(_rows(split, count))


def _rows(split: Split, count: int) -> np.ndarray:
    actions = len(art.FACTORS["action"])
    shuffled = np.random.Generator(np.random.PCG64(1296)).permutation(count // actions)
    characters = np.sort(shuffled[split_rows(CHARACTERS, split)])
    return (characters[:, None] * actions + np.arange(actions)).ravel()
