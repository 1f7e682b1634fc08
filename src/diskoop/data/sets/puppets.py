"""the puppets as a data set: cached, split by character"""

import numpy as np

from diskoop.data.cache import cached_array, digest
from diskoop.data.sequences import Sequences
from diskoop.data.sets import puppet_art as art
from diskoop.data.splits import split_in_order
from diskoop.errors import InputError
from diskoop.settings import DataSettings

TEST_CHARACTERS = 296  # of 1296; no character is in two splits


def load(settings: DataSettings) -> Sequences:
    """All 11,664 clips: every character in every action."""
    size = settings.size or 64
    if size not in art.SIZES:
        raise InputError(f"puppets are drawn at {' or '.join(map(str, art.SIZES))} pixels, got data.size = {size}")
    labels = art.labels()
    shape = (len(labels["action"]), art.FRAMES, 3, size, size)
    x = cached_array(f"puppets-{size}", digest(art), shape, lambda out, advance: art.draw(size, out, advance))
    split_codes = _split_characters(shape[0], settings.val_fraction)
    return Sequences.of(x, labels, values=art.FACTORS, name="puppets", split_codes=split_codes)


def _split_characters(count: int, val_fraction: float) -> np.ndarray:
    actions = len(art.FACTORS["action"])
    characters = np.random.Generator(np.random.PCG64(1296)).permutation(count // actions)
    split_codes = np.empty(len(characters), np.int8)
    split_codes[characters] = split_in_order(len(characters), TEST_CHARACTERS, val_fraction)
    return np.repeat(split_codes, actions)
