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

from diskoop.data.sequences import Indices, Sequences, bits, mask_of, sent

SHARE = 0.5  # of the device's free memory that a set may take
CHUNK = 256  # sequences on the way there at a time
AHEAD = 4  # batches: a disk is slow now and then, seldom on the whole


class Batch(NamedTuple):
    """A batch in memory."""

    indices: Indices
    x: Tensor
    mask: Tensor | None
    waited: float  # seconds that passed before it was there


Feed = Callable[[Iterable[Indices]], Iterator[Batch]]


def batch_source(data: Sequences, weight: Tensor) -> Feed:
    """What hands out the batches of `data` for a model with such a `weight`: its device itself, if all of it fits."""
    if weight.device.type == "cuda":
        one, _ = data.fetch(np.arange(1), weight.dtype)
        if np.prod(data.shape) * one.element_size() < SHARE * torch.cuda.mem_get_info(weight.device)[0]:
            return DeviceBatches(data, weight)
    return partial(read_ahead, data, dtype=weight.dtype, pinned=weight.device.type == "cuda")


class DeviceBatches:
    """A set that lies on the device whole; its batches are those that `read_ahead` would give."""

    def __init__(self, data: Sequences, weight: Tensor) -> None:
        one, _ = data.fetch(np.arange(1), weight.dtype)
        self.lengths = data.lengths
        self.x = torch.zeros(data.shape, dtype=one.dtype, device=weight.device)
        for begin in range(0, len(data), CHUNK):
            some, _ = data.fetch(np.arange(begin, min(begin + CHUNK, len(data))), weight.dtype)
            self.x[begin : begin + len(some), : some.shape[1]] = some.to(weight.device)

    def __call__(self, batches: Iterable[Indices]) -> Iterator[Batch]:
        for indices in batches:
            lengths = self.lengths[indices]
            chosen, mask = sent(torch.from_numpy(indices), self.x.device), mask_of(lengths)
            x = bits(self.x)[chosen, : int(lengths.max())].view(self.x.dtype)
            yield Batch(indices, x, None if mask is None else sent(torch.from_numpy(mask), self.x.device), 0.0)


def read_ahead(
    data: Sequences, batches: Iterable[Indices], dtype: torch.dtype, pinned: bool = False
) -> Iterator[Batch]:
    """The sequences of each batch in turn, for a model of type `dtype`; the next few are read while one is used.

    In `pinned` memory they travel to the device while it works.
    """

    def fetch(indices: Indices) -> tuple[Tensor, Tensor | None]:
        x, mask = data.fetch(indices, dtype)
        if pinned:
            x, mask = x.pin_memory(), None if mask is None else mask.pin_memory()
        return x, mask

    with ThreadPoolExecutor(1, "reader") as reader:
        coming = ((indices, reader.submit(fetch, indices)) for indices in batches)
        ahead = deque(islice(coming, AHEAD))
        while ahead:
            indices, reading = ahead.popleft()
            began = time.perf_counter()
            x, mask = reading.result()
            waited = time.perf_counter() - began
            ahead.extend(islice(coming, 1))
            yield Batch(indices, x, mask, waited)
