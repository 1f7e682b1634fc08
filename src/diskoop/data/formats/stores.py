"""Zarr stores, local or at an address, read chunk by chunk where they are"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diskoop.data.chunks import reading
from diskoop.data.formats.addresses import Folder
from diskoop.data.formats.arrays import MAX_LABELS, Arrays, find_sequences
from diskoop.data.sequences import Indices
from diskoop.errors import InputError, MissingDependencyError
from diskoop.input_files import is_address
from diskoop.memory import format_bytes

SMALL_CHUNK = 2**20  # bytes, below which several are read at a time
WHOLE_TIME = 2**26  # bytes, up to which all chunks along the time of a few sequences are read together
LARGE_CHUNK = 2**28  # bytes, above which memory would not be bounded by much


@dataclass(frozen=True, eq=False)
class StoreSource:
    """The array of sequences of a Zarr store."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    bounds: Indices
    span: int
    array: Any  # zarr.Array

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def read(self, rows: slice, frames: slice) -> NDArray[Any]:
        """These frames of these sequences, (rows, frames, ...)."""
        return np.asarray(self.array[rows, frames])


def open_store(folder: Folder) -> tuple[StoreSource, Arrays]:
    """The sequences of a store and the small arrays beside them; of the sequences nothing is read."""
    try:
        import zarr
        from zarr.storage import FsspecStore, LocalStore
    except ImportError:
        raise MissingDependencyError(f"reading {folder.address} needs zarr: pip install 'diskoop[zarr]'") from None
    with reading(folder.address, "Zarr store"):
        store = (
            FsspecStore.from_url(folder.address, read_only=True)
            if is_address(folder.address)
            else LocalStore(Path(folder.path), read_only=True)
        )
        root = zarr.open(store, mode="r")
        found = {"x": root} if isinstance(root, zarr.Array) else dict(sorted(root.arrays()))
    for other, array in found.items():
        _check_codecs(f"{other!r} in {folder.address}", array.metadata)
    name = find_sequences(folder.address, {name: array.ndim for name, array in found.items()})
    extra: dict[str, NDArray[Any]] = {}
    skipped: dict[str, str] = {}
    for other, array in found.items():
        if other == name:
            continue
        if array.ndim > 1 or array.size > MAX_LABELS:
            skipped[other] = f"has shape {array.shape}"
        else:
            extra[other] = _read_small(folder, other, array)
    source = _source(folder.address, found[name])
    return source, Arrays(source, extra, skipped)


def _check_codecs(what: str, metadata: Any) -> None:
    """Raise an InputError for an array of format 2 that would be unpickled, which may run anything."""
    codecs = [*(getattr(metadata, "filters", None) or ()), getattr(metadata, "compressor", None)]
    if any(getattr(codec, "codec_id", None) == "pickle" for codec in codecs):
        raise InputError(f"{what} is pickled, which is never read; write it with another codec")


def _read_small(folder: Folder, name: str, array: Any) -> NDArray[Any]:
    with reading(f"{name!r} in {folder.address}"):
        values = np.asarray(array[...])
    return values if values.dtype.kind in "biufSU" else np.array([str(value) for value in values.ravel()])


def _source(name: str, array: Any) -> StoreSource:
    dtype, shape, chunk = np.dtype(array.dtype), tuple(array.shape), tuple(array.chunks)
    if len(shape) < 2 or 0 in shape:  # what is wrong with it is told by arrays.check_sequences
        return StoreSource(name, shape, dtype, np.array([0, max(1, shape[0] if shape else 1)]), 1, array)
    frame = int(np.prod(shape[2:])) * dtype.itemsize
    rows, span = min(chunk[0], shape[0]), min(chunk[1], shape[1])
    if rows * span * frame > LARGE_CHUNK:
        raise InputError(
            f"{name} has chunks of {chunk}, {format_bytes(rows * span * frame)} each, wanted at most "
            f"{format_bytes(LARGE_CHUNK)}; write it with smaller ones"
        )
    if rows * shape[1] * frame <= WHOLE_TIME:
        span = shape[1]
        rows *= max(1, SMALL_CHUNK // (rows * span * frame))
    bounds = np.append(np.arange(0, shape[0], rows), shape[0])
    return StoreSource(name, shape, dtype, bounds, span, array)
