"""arrays computed or decoded once, then memory-mapped from the cache folder"""

import inspect
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from diskoop.errors import InputError, Unavailable
from diskoop.storage import atomic_folder, atomic_write, cache_folder, write_text

Advance = Callable[[int], None]  # reports how many more items are done


def cached_array(
    name: str,
    key: str,
    shape: tuple[int, ...],
    fill: Callable[[NDArray[Any], Advance], None],
    dtype: Any = np.uint8,
) -> NDArray[Any]:
    """A read-only array of known shape, computed on the first call.

    Args:
        name: of the file and the progress bar.
        key: digest of all that the array depends on.
        shape: of the array.
        fill: writes into the array it is given, and reports items done along the first axis.
        dtype: of the array.
    """
    path = cache_folder() / f"{_file_stem(name)}-{key}.npy"
    if not path.exists():
        with atomic_write(path) as temporary, progress_bar(f"drawing {name}", shape[0]) as advance:
            out = _allocate(temporary, shape, dtype)
            fill(out, advance)
            out.flush()
            del out
    return load_mmap(path)


def cached_frames(
    name: str, key: str, write: Callable[["FrameWriter"], dict[str, Any]]
) -> tuple[NDArray[Any], dict[str, Any]]:
    """Read-only frames of unknown number and their metadata, computed on the first call.

    Args:
        name: of the folder.
        key: digest of all that the frames depend on.
        write: appends the frames to a FrameWriter and returns the metadata, plain JSON.
    """
    folder = cache_folder() / f"{_file_stem(name)}-{key}"
    if not folder.exists():
        try:
            with atomic_folder(folder) as temporary:
                with (temporary / "frames.npy").open("wb+") as stream:
                    writer = FrameWriter(stream)
                    metadata = write(writer)
                    writer.finish()
                write_text(temporary / "facts.json", json.dumps(metadata))
        except InputError:
            if not folder.exists():  # another process may have been faster
                raise
    return load_mmap(folder / "frames.npy"), json.loads((folder / "facts.json").read_text(encoding="utf-8"))


class FrameWriter:
    """A `.npy` file that grows; the number of frames enters its header at the end."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.count = 0
        self.frame: tuple[tuple[int, ...], np.dtype[Any]] | None = None  # shape and type, from the first block
        self.begin = 0

    def append(self, block: NDArray[Any]) -> None:
        """Add frames (count, ...) of the first block's shape and type."""
        if self.frame is None:
            self.frame = block.shape[1:], block.dtype
            self._write_header()
            self.begin = self.stream.tell()
        assert (block.shape[1:], block.dtype) == self.frame
        try:
            self.stream.write(np.ascontiguousarray(block).data)
        except OSError as error:
            raise cannot_write(error) from None
        self.count += len(block)

    def truncate(self, count: int) -> None:
        """Drop all but the first `count` frames."""
        if self.frame is None:
            return
        shape, dtype = self.frame
        self.count = count
        self.stream.seek(self.begin + count * int(np.prod(shape)) * dtype.itemsize)
        self.stream.truncate()
        if count == 0:  # the next block may have another shape or type
            self.frame = None
            self.stream.seek(0)

    def finish(self) -> None:
        """Write the header with the final number of frames."""
        assert self.frame is not None
        self.stream.seek(0)
        self._write_header()
        assert self.stream.tell() == self.begin  # numpy leaves room for the count to grow

    def _write_header(self) -> None:
        assert self.frame is not None
        shape, dtype = self.frame
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (self.count, *shape)}
        np.lib.format.write_array_header_1_0(self.stream, header)


def _allocate(path: Path, shape: tuple[int, ...], dtype: Any) -> np.memmap[Any, Any]:
    """A new array on disk with all of its space reserved: a full disk under a memory map would kill the process."""
    try:
        out: np.memmap[Any, Any] = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
        if hasattr(os, "posix_fallocate"):
            with path.open("rb+") as stream:
                os.posix_fallocate(stream.fileno(), 0, path.stat().st_size)
    except OSError as error:
        raise cannot_write(error) from None
    return out


def cannot_write(error: OSError) -> Unavailable:
    """The error of a disk that is full or read-only."""
    return Unavailable(f"cannot write to {cache_folder()}: {error.strerror or error}; DISKOOP_CACHE moves it")


def _file_stem(name: str) -> str:
    return re.sub(r"[^\w-]+", "-", name).strip("-")[:40] or "data"


def load_mmap(path: Path) -> NDArray[Any]:
    array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def digest(*parts: Any) -> str:
    """A short key for what a cached array depends on: plain JSON, or modules, which count by their source."""
    texts = [inspect.getsource(part) if isinstance(part, ModuleType) else json.dumps(part) for part in parts]
    return sha256("\n".join(texts).encode()).hexdigest()[:12]


@contextmanager
def progress_bar(title: str, total: int) -> Iterator[Advance]:
    """A progress bar on stderr."""
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(escape(title), total=total)
        yield lambda count: progress.advance(task, count)
