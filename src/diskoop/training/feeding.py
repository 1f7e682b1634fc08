"""batches read from disk while the step before them is computed"""

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from diskoop.data.sequences import Array, Indices, Sequences


class Ready(NamedTuple):
    """A batch as it is stored."""

    indices: Indices
    x: Array
    waited: float  # seconds that passed before it was there


def read_ahead(data: Sequences, batches: Iterable[Indices]) -> Iterator[Ready]:
    """The sequences of each batch in turn; the next one is read while this one is used."""
    with ThreadPoolExecutor(1, "reader") as reader:
        coming = ((indices, reader.submit(data.take, indices)) for indices in batches)
        ahead = next(coming, None)
        while ahead is not None:
            (indices, reading), began = ahead, time.perf_counter()
            x = reading.result()
            waited = time.perf_counter() - began
            ahead = next(coming, None)
            yield Ready(indices, x, waited)
