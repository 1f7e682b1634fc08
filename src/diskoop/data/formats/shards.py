"""shards: many .npy or .npz files, local or at an address, that together are one set, read where they are"""

import io
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

from diskoop.data.chunks import reading
from diskoop.data.formats.addresses import Folder
from diskoop.data.formats.arrays import MAX_LABELS, find_sequences, read_header
from diskoop.data.formats.stores import LARGE_CHUNK
from diskoop.data.sequences import Indices
from diskoop.data.splits import text_key
from diskoop.errors import InputError
from diskoop.memory import format_bytes

SUFFIXES = (".npy", ".npz")
READERS = 16  # headers read at a time: each is a journey over the network
PIECE = 2**24  # bytes of a .npy that are read at a time


@dataclass(frozen=True, eq=False)
class Shard:
    """One file of sequences, of which only the header was read."""

    name: str  # relative to the folder
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    begin: int | None  # bytes before the numbers of a .npy; None: a .npz
    member: str = ""  # of a .npz: the array of sequences
    labels: dict[str, NDArray[Any]] = field(default_factory=dict)  # of a .npz: arrays of one value each sequence
    skipped: dict[str, str] = field(default_factory=dict)  # its other arrays, and why they are no labels


@dataclass(frozen=True, eq=False)
class ShardSource:
    """The sequences of all shards, one shard after another."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    bounds: Indices
    span: int
    folder: Folder
    shards: Sequence[Shard]
    firsts: Indices  # (shards + 1,) first sequence of each shard, and n

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def read(self, rows: slice, frames: slice) -> NDArray[Any]:
        """These frames of these sequences, (rows, frames, ...); they lie in one shard, and are whole."""
        at = int(np.searchsorted(self.firsts, rows.start, side="right")) - 1
        shard, first = self.shards[at], int(self.firsts[at])
        place = self.folder.path_of(shard.name)
        with reading(f"{shard.name} in {self.name}"):
            if shard.begin is None:
                with self.folder.system.open(place, "rb") as stream, np.load(stream, allow_pickle=False) as file:
                    x: NDArray[Any] = file[shard.member]
                return x[rows.start - first : rows.stop - first]
            step = int(np.prod(shard.shape[1:])) * shard.dtype.itemsize
            begin, end = (shard.begin + (row - first) * step for row in (rows.start, rows.stop))
            content = self.folder.system.cat_file(place, start=begin, end=end)
            if len(content) != end - begin:
                raise InputError(f"{shard.name} in {self.name} is shorter than it was; write it again")
            return np.frombuffer(content, shard.dtype).reshape(-1, *shard.shape[1:])

    def keys(self) -> NDArray[np.uint64]:
        """What identifies each sequence, (n,): the name of its shard and its place in it."""
        with np.errstate(over="ignore"):
            return np.concatenate(
                [text_key(shard.name) + np.arange(shard.shape[0], dtype=np.uint64) for shard in self.shards]
            )

    def labels(self) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
        """Labels that all shards have, name -> (n,), and why other arrays are none, name -> the first reason."""
        labels, skipped = {}, {}
        for name in sorted({name for shard in self.shards for name in (*shard.labels, *shard.skipped)}):
            lacking = next((shard for shard in self.shards if name not in shard.labels), None)
            if lacking is None:
                labels[name] = np.concatenate([shard.labels[name] for shard in self.shards])
            else:
                skipped[name] = f"{lacking.skipped.get(name, 'is missing')} in {lacking.name}"
        return labels, skipped


def open_shards(folder: Folder, files: Sequence[str]) -> ShardSource:
    """All shards as one set; only their headers and their labels are read."""
    with ThreadPoolExecutor(READERS, "headers") as pool:
        shards = list(pool.map(partial(_open_shard, folder), files))
    one = shards[0]
    for shard in shards:
        if shard.shape[1:] != one.shape[1:] or shard.dtype != one.dtype:
            raise InputError(
                f"{folder.address}: {shard.name} holds {shard.dtype} {shard.shape[1:]} where {one.name} holds "
                f"{one.dtype} {one.shape[1:]}: all must be alike"
            )
    lengths = np.array([shard.shape[0] for shard in shards], np.int64)
    firsts = np.append(0, lengths.cumsum())
    step = int(np.prod(one.shape[1:])) * one.dtype.itemsize
    pieces = [_piece_bounds(folder, shard, int(first), step) for shard, first in zip(shards, firsts, strict=False)]
    bounds = np.append(np.concatenate(pieces), firsts[-1])
    shape = (int(firsts[-1]), *one.shape[1:])
    return ShardSource(folder.address, shape, one.dtype, bounds, one.shape[1], folder, shards, firsts)


def _piece_bounds(folder: Folder, shard: Shard, first: int, step: int) -> Indices:
    """First sequences of the parts of a shard that are read at a time: a .npz cannot be read in parts."""
    rows = shard.shape[0] if shard.begin is None else max(1, PIECE // step)
    if min(rows, shard.shape[0]) * step > LARGE_CHUNK:
        what = f"{shard.name} holds" if shard.begin is None else f"a sequence of {shard.name} takes"
        raise InputError(
            f"{folder.address}: {what} {format_bytes(rows * step)}, wanted at most {format_bytes(LARGE_CHUNK)} that "
            "have to be read at once; write smaller shards, or .npy"
        )
    return first + np.arange(0, shard.shape[0], rows)


def _open_shard(folder: Folder, name: str) -> Shard:
    place = folder.path_of(name)
    with reading(f"{folder.address}: {name}", "array"), folder.system.open(place, "rb") as stream:
        shard = _read_npz(folder, name, stream) if name.lower().endswith(".npz") else _read_npy(name, stream)
        size = stream.seek(0, io.SEEK_END)
    if shard.dtype.hasobject:
        raise InputError(f"{folder.address}: {name} holds Python objects, not numbers; save a plain array")
    if len(shard.shape) not in (3, 5) or 0 in shard.shape:
        raise InputError(
            f"{folder.address}: {name} has shape {shard.shape}, wanted sequences: video (n, time, channel, height, "
            "width) or a signal (n, time, feature)"
        )
    declared = int(np.prod(shard.shape)) * shard.dtype.itemsize
    if shard.begin is not None and size < shard.begin + declared:
        raise InputError(
            f"{folder.address}: {name} is damaged: it declares {format_bytes(declared)} and holds "
            f"{format_bytes(size - shard.begin)}; make it again"
        )
    return shard


def _read_npy(name: str, stream: Any) -> Shard:
    shape, is_fortran, dtype = read_header(stream)
    if is_fortran:
        raise InputError(f"{name} is in Fortran order, in which sequences are not contiguous; save it in C order")
    return Shard(name, shape, dtype, stream.tell())


def _read_npz(folder: Folder, name: str, stream: Any) -> Shard:
    """The header of the sequences, and the labels, of which there is one value for each sequence."""
    with ZipFile(stream) as archive:
        headers = {}
        for member in archive.namelist():
            with archive.open(member) as packed:
                headers[member.removesuffix(".npy")] = read_header(packed)
    chosen = find_sequences(f"{name} in {folder.address}", {key: len(shape) for key, (shape, *_) in headers.items()})
    shape, _, dtype = headers[chosen]
    stream.seek(0)
    labels, skipped = {}, {}
    with np.load(stream, allow_pickle=False) as file:
        for key, (size, _, kind) in headers.items():
            if key == chosen:
                continue
            if reason := _skip_reason(key, size, kind, shape[:1]):
                skipped[key] = reason
            else:
                labels[key] = file[key]
    return Shard(name, shape, dtype, None, chosen, labels, skipped)


def _skip_reason(name: str, shape: tuple[int, ...], dtype: np.dtype[Any], wanted: tuple[int, ...]) -> str | None:
    """Why an array of a shard is no label; None if it is."""
    if dtype.hasobject:
        return "holds Python objects"
    if dtype.kind not in ("uif" if name == "lengths" else "biufSU"):
        return f"holds {dtype}"
    return f"has shape {shape}" if shape != wanted or shape[0] > MAX_LABELS else None
