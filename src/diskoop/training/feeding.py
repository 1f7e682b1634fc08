"""batches read from disk while the steps before them are computed"""

import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor

from diskoop.data.sequences import Indices, Sequences

AHEAD = 4  # batches: a disk is slow now and then, seldom on the whole


class Ready(NamedTuple):
    """A batch in memory."""

    indices: Indices
    x: Tensor
    mask: Tensor | None
    waited: float  # seconds that passed before it was there


def read_ahead(data: Sequences, batches: Iterable[Indices], dtype: torch.dtype) -> Iterator[Ready]:
    """The sequences of each batch in turn, for a model of type `dtype`; the next few are read while one is used."""
    with ThreadPoolExecutor(1, "reader") as reader:
        coming = ((indices, reader.submit(data.fetch, indices, dtype)) for indices in batches)
        ahead = deque(islice(coming, AHEAD))
        while ahead:
            indices, reading = ahead.popleft()
            began = time.perf_counter()
            x, mask = reading.result()
            waited = time.perf_counter() - began
            ahead.extend(islice(coming, 1))
            yield Ready(indices, x, mask, waited)
