"""batch loaders: from the device's own memory, or prefetched from disk while the steps before are computed"""

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

from diskoop.data.sequences import Indices, Sequences, bit_view, length_mask, to_device

MEMORY_FRACTION = 0.5  # of the device's free memory that a data set may occupy
CHUNK = 256  # sequences copied to the device at a time
PREFETCH = 4  # batches read ahead, to bridge a disk that is slow now and then


class Batch(NamedTuple):
    """One batch, still in the user's units if it is video."""

    indices: Indices  # (batch,)
    x: Tensor  # (batch, time, ...)
    mask: Tensor | None  # (batch, time); None where all sequences have one length
    waited: float  # seconds spent waiting for it

    def padded(self, lengths: Indices, time: int) -> "Batch":
        """The batch with a mask, and padded to `time` frames, as a slice of a batch with longer sequences.

        Args:
            lengths: of all sequences of the set.
            time: frames of the longest sequence of the whole batch.
        """
        x, mask = pad_sequences(self.x, lengths[self.indices], time)
        return self._replace(x=x, mask=mask)


def pad_sequences(x: Tensor, lengths: Indices, time: int) -> tuple[Tensor, Tensor]:
    """Sequences (batch, shorter, ...) padded with zeros to (batch, time, ...), and their mask (batch, time).

    Example:
        >>> x, mask = pad_sequences(torch.ones(2, 3, 5), np.array([3, 2]), time=4)
        >>> x.shape, mask.sum(1)
        (torch.Size([2, 4, 5]), tensor([3, 2]))
    """
    stored = bit_view(x)
    padding = stored.new_zeros(len(x), time - x.shape[1], *x.shape[2:])
    mask = torch.arange(time) < torch.from_numpy(lengths).unsqueeze(1)
    return torch.cat([stored, padding], 1).view(x.dtype), to_device(mask, x.device)


BatchLoader = Callable[[Iterable[Indices]], Iterator[Batch]]  # indices of each batch -> batches


def make_batch_loader(data: Sequences, weight: Tensor) -> BatchLoader:
    """A loader for a model with such a `weight`: resident on its GPU if the set fits there, else prefetching.

    Example:
        >>> data = Sequences.of(np.zeros((6, 8, 3, 32, 32), np.uint8))
        >>> load = make_batch_loader(data, torch.zeros(1))
        >>> [tuple(batch.x.shape) for batch in load([np.array([0, 4]), np.array([5])])]
        [(2, 8, 3, 32, 32), (1, 8, 3, 32, 32)]
    """
    if weight.device.type == "cuda":
        one, _ = data.read_batch(np.arange(1), weight.dtype)
        if np.prod(data.shape) * one.element_size() < MEMORY_FRACTION * torch.cuda.mem_get_info(weight.device)[0]:
            return DeviceLoader(data, weight)
    return partial(prefetch, data, dtype=weight.dtype, pinned=weight.device.type == "cuda")


class DeviceLoader:
    """Batches from a copy of the whole set in device memory, equal to those of `prefetch`."""

    def __init__(self, data: Sequences, weight: Tensor) -> None:
        one, _ = data.read_batch(np.arange(1), weight.dtype)
        self.lengths = data.lengths
        self.x = torch.zeros(data.shape, dtype=one.dtype, device=weight.device)
        for begin in range(0, len(data), CHUNK):
            chunk, _ = data.read_batch(np.arange(begin, min(begin + CHUNK, len(data))), weight.dtype)
            self.x[begin : begin + len(chunk), : chunk.shape[1]] = chunk.to(weight.device)

    def __call__(self, batches: Iterable[Indices]) -> Iterator[Batch]:
        device = self.x.device
        for indices in batches:
            lengths = self.lengths[indices]
            chosen, mask = to_device(torch.from_numpy(indices), device), length_mask(lengths)
            x = bit_view(self.x)[chosen, : int(lengths.max())].view(self.x.dtype)
            yield Batch(indices, x, None if mask is None else to_device(torch.from_numpy(mask), device), 0.0)


def prefetch(data: Sequences, batches: Iterable[Indices], dtype: torch.dtype, pinned: bool = False) -> Iterator[Batch]:
    """The batches in turn, the next ones read in a thread while one is in use.

    Args:
        data: where sequences are read from.
        batches: indices of the sequences of each batch, (batch,).
        dtype: of the model.
        pinned: whether to read into pinned memory, from which a GPU copies while it computes.
    """

    def read(indices: Indices) -> tuple[Tensor, Tensor | None]:
        x, mask = data.read_batch(indices, dtype)
        if pinned:
            x, mask = x.pin_memory(), None if mask is None else mask.pin_memory()
        return x, mask

    with ThreadPoolExecutor(1, "reader") as reader:
        submitted = ((indices, reader.submit(read, indices)) for indices in batches)
        queue = deque(islice(submitted, PREFETCH))
        while queue:
            indices, future = queue.popleft()
            start = time.perf_counter()
            x, mask = future.result()
            waited = time.perf_counter() - start
            queue.extend(islice(submitted, 1))
            yield Batch(indices, x, mask, waited)
