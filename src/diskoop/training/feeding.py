"""batches on their way to the device: from its own memory, or read while the steps before them are computed"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from diskoop.data.sequences import Indices, Sequences

SHARE = 0.5  # of the device's free memory that a set may take
CHUNK = 256  # sequences on the way there at a time
AHEAD = 4  # batches: a disk is slow now and then, seldom on the whole


class Ready(NamedTuple):
    """A batch in memory."""

    indices: Indices
    x: Tensor
    mask: Tensor | None
    waited: float  # seconds that passed before it was there


Feed = Callable[[Iterable[Indices]], Iterator[Ready]]


def feeder(data: Sequences, weight: Tensor) -> Feed:
    """What hands out the batches of `data` for a model with such a `weight`: its device itself, if all of it fits."""
    if weight.device.type == "cuda":
        size = np.prod(data.shape) * (data.frames.itemsize if data.is_video else weight.itemsize)
        if size < SHARE * torch.cuda.mem_get_info(weight.device)[0]:
            return Resident(data, weight)
    return partial(read_ahead, data, dtype=weight.dtype, pinned=weight.device.type == "cuda")


class Resident:
    """A set that lies on the device whole, as small as it is at rest."""

    def __init__(self, data: Sequences, weight: Tensor) -> None:
        everyone = np.arange(len(data))
        mask = data.mask
        self.mask = None if mask is None else torch.from_numpy(mask).to(weight.device)
        parts = []
        for some in np.array_split(everyone, range(CHUNK, len(data), CHUNK)):
            x, _ = data.fetch(some, weight.dtype)
            padded = x.new_zeros(len(some), data.shape[1], *x.shape[2:])
            padded[:, : x.shape[1]] = x
            parts.append(padded.to(weight.device))
        self.x = torch.cat(parts)

    def __call__(self, batches: Iterable[Indices]) -> Iterator[Ready]:
        for indices in batches:
            chosen = torch.from_numpy(indices).to(self.x.device)
            yield Ready(indices, self.x[chosen], None if self.mask is None else self.mask[chosen], 0.0)


def read_ahead(
    data: Sequences, batches: Iterable[Indices], dtype: torch.dtype, pinned: bool = False
) -> Iterator[Ready]:
    """The sequences of each batch in turn, for a model of type `dtype`; the next few are read while one is used.

    In `pinned` memory they travel to the device while it works.
    """

    def fetch(indices: Indices) -> tuple[Tensor, Tensor | None]:
        x, mask = data.fetch(indices, dtype)
        return x.pin_memory() if pinned else x, mask

    with ThreadPoolExecutor(1, "reader") as reader:
        coming = ((indices, reader.submit(fetch, indices)) for indices in batches)
        ahead = deque(islice(coming, AHEAD))
        while ahead:
            indices, reading = ahead.popleft()
            began = time.perf_counter()
            x, mask = reading.result()
            waited = time.perf_counter() - began
            ahead.extend(islice(coming, 1))
            yield Ready(indices, x, mask, waited)
