"""the puppets as a data set: cached, split by character"""

import numpy as np

from diskoop.data.builtin import puppet_art as art
from diskoop.data.cache import digest, drawn_once
from diskoop.data.sequences import Sequences, split_in_order
from diskoop.errors import InputError
from diskoop.settings import DataSettings

TEST = 296  # of the 1296 characters; none is in two splits


def load(settings: DataSettings) -> Sequences:
    size = settings.size or 64
    if size not in art.SIZES:
        raise InputError(f"puppets are drawn at {' or '.join(map(str, art.SIZES))} pixels, got data.size = {size}")
    labels = art.labels()
    shape = (len(labels["action"]), art.FRAMES, 3, size, size)
    x = drawn_once(f"puppets-{size}", digest(art), shape, lambda out, advance: art.draw(size, out, advance))
    parts = _parts(shape[0], settings.holdout)
    return Sequences.of(x, labels, values=art.FACTORS, name="puppets", parts=parts)


def _parts(count: int, holdout: float) -> np.ndarray:
    actions = len(art.FACTORS["action"])
    characters = np.random.Generator(np.random.PCG64(1296)).permutation(count // actions)
    parts = np.empty(len(characters), np.int8)
    parts[characters] = split_in_order(len(characters), TEST, holdout)
    return np.repeat(parts, actions)
