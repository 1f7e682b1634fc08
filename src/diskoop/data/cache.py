"""frames drawn or read once and kept in the cache folder, memory-mapped"""

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
from rich.progress import Progress

from diskoop.errors import InputError, Unavailable
from diskoop.storage import atomic_folder, atomic_write, cache_folder, write_text

Advance = Callable[[int], None]  # tells how many more are done


def drawn_once(
    name: str,
    key: str,
    shape: tuple[int, ...],
    draw: Callable[[NDArray[Any], Advance], None],
    dtype: Any = np.uint8,
) -> NDArray[Any]:
    """The array of `shape` that `draw` fills, read-only; from the cache if `key` was drawn before."""
    path = cache_folder() / f"{_plain(name)}-{key}.npy"
    if not path.exists():
        with atomic_write(path) as temporary, advancing(f"drawing {name}", shape[0]) as advance:
            out = _with_room(temporary, shape, dtype)
            draw(out, advance)
            out.flush()
            del out
    return mapped(path)


def kept_once(
    name: str, key: str, write: Callable[["FrameFile"], dict[str, Any]]
) -> tuple[NDArray[Any], dict[str, Any]]:
    """The frames that `write` appends and the facts it returns (plain JSON); from the cache if `key` is there."""
    folder = cache_folder() / f"{_plain(name)}-{key}"
    if not folder.exists():
        try:
            with atomic_folder(folder) as temporary:
                with (temporary / "frames.npy").open("wb+") as stream:
                    file = FrameFile(stream)
                    facts = write(file)
                    file.finish()
                write_text(temporary / "facts.json", json.dumps(facts))
        except InputError:
            if not folder.exists():  # it may be that another process was faster
                raise
    return mapped(folder / "frames.npy"), json.loads((folder / "facts.json").read_text(encoding="utf-8"))


class FrameFile:
    """A `.npy` file that grows: its header says how many frames there are only when the last one is in."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.count = 0
        self.frame: tuple[tuple[int, ...], np.dtype[Any]] | None = None  # shape and type, from the first block
        self.begin = 0

    def append(self, block: NDArray[Any]) -> None:
        """Frames (some, ...), of the first block's shape and type."""
        if self.frame is None:
            self.frame = block.shape[1:], block.dtype
            self._header()
            self.begin = self.stream.tell()
        assert (block.shape[1:], block.dtype) == self.frame
        try:
            self.stream.write(np.ascontiguousarray(block).data)
        except OSError as error:
            raise _no_room(error) from None
        self.count += len(block)

    def rewind(self, count: int) -> None:
        """Forget all but the first `count` frames."""
        if self.frame is None:
            return
        shape, dtype = self.frame
        self.count = count
        self.stream.seek(self.begin + count * int(np.prod(shape)) * dtype.itemsize)
        self.stream.truncate()
        if count == 0:  # the next block may be of another kind
            self.frame = None
            self.stream.seek(0)

    def finish(self) -> None:
        assert self.frame is not None
        self.stream.seek(0)
        self._header()
        assert self.stream.tell() == self.begin  # numpy leaves room for the count to grow

    def _header(self) -> None:
        assert self.frame is not None
        shape, dtype = self.frame
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (self.count, *shape)}
        np.lib.format.write_array_header_1_0(self.stream, header)


def _with_room(path: Path, shape: tuple[int, ...], dtype: Any) -> np.memmap[Any, Any]:
    """A new array on disk, all of its room taken now: running out while it is mapped would end the process."""
    try:
        out: np.memmap[Any, Any] = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
        if hasattr(os, "posix_fallocate"):
            with path.open("rb+") as stream:
                os.posix_fallocate(stream.fileno(), 0, path.stat().st_size)
    except OSError as error:
        raise _no_room(error) from None
    return out


def _no_room(error: OSError) -> Unavailable:
    return Unavailable(f"cannot write to {cache_folder()}: {error.strerror or error}; DISKOOP_CACHE moves it")


def _plain(name: str) -> str:
    return re.sub(r"[^\w-]+", "-", name).strip("-")[:40] or "data"


def mapped(path: Path) -> NDArray[Any]:
    array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def digest(*parts: Any) -> str:
    """A short key for what a cached array depends on; a module stands for its source."""
    texts = [inspect.getsource(part) if isinstance(part, ModuleType) else json.dumps(part) for part in parts]
    return sha256("\n".join(texts).encode()).hexdigest()[:12]


@contextmanager
def advancing(what: str, total: int) -> Iterator[Advance]:
    """A progress bar on stderr."""
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda count: progress.advance(task, count)
