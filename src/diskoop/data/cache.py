"""arrays computed or decoded once, then memory-mapped from the cache folder"""

import inspect
import json
import math
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from diskoop.errors import InputError, ResourceError
from diskoop.input_files import parse_json
from diskoop.storage import TEMPORARY, atomic_folder, bytes_of, cache_folder, discard, write_text

Advance = Callable[[int], None]  # reports how many more items are done

FORMAT = "diskoop cache 1"
TRIES = 3
# The files of an entry, which is a folder: an array, its metadata with a checksum of both, and the sizes and times that
# these two had when they were last compared with the checksum.
FRAMES, FACTS, VERIFIED = "frames.npy", "facts.json", "verified.json"
# Names in the cache folder: folders of entries, classifiers, arrays of earlier versions and what these left when they
# were killed. The last two have a letter in their key, for a file of somebody else may end in a date.
ENTRY = re.compile(r"[\w-]+-[0-9a-f]{12}")
CLASSIFIER = re.compile(r"(frame-)?classifier-[0-9a-f]{12}\.safetensors")
OLD_ENTRY = re.compile(r"\.?[\w-]+-(?=\d*[a-f])[0-9a-f]{12}(-\w{8})?(\.npy)?")


def cached_array(
    name: str,
    key: str,
    shape: tuple[int, ...],
    fill: Callable[[NDArray[Any], Advance], None],
    dtype: Any = np.uint8,
) -> NDArray[Any]:
    """A read-only array of known shape, computed on the first call.

    Args:
        name: of the entry and the progress bar.
        key: digest of all that the array depends on.
        shape: of the array.
        fill: writes into the array it is given, and reports items done along the first axis.
        dtype: of the array.
    """

    def write(path: Path) -> dict[str, Any]:
        with progress_bar(f"drawing {name}", shape[0]) as advance:
            out = _allocate(path, shape, dtype)
            fill(out, advance)
            out.flush()
        return {}

    return cached_file(name, key, write, math.prod(shape) * np.dtype(dtype).itemsize)[0]


def cached_frames(
    name: str, key: str, write: Callable[["FrameWriter"], dict[str, Any]]
) -> tuple[NDArray[Any], dict[str, Any]]:
    """Read-only frames of unknown number and their metadata, computed on the first call.

    Args:
        name: of the entry.
        key: digest of all that the frames depend on.
        write: appends the frames to a FrameWriter and returns the metadata, plain JSON.
    """

    def write_frames(path: Path) -> dict[str, Any]:
        with path.open("wb+") as stream:
            writer = FrameWriter(stream)
            metadata = write(writer)
            writer.finish()
        return metadata

    return cached_file(name, key, write_frames)


def cached_file(
    name: str, key: str, write: Callable[[Path], dict[str, Any]], size: int | None = None
) -> tuple[NDArray[Any], dict[str, Any]]:
    """A read-only array and its metadata, written on the first call, and again if the entry is damaged.

    Args:
        name: of the entry.
        key: digest of all that the array depends on.
        write: writes a `.npy` file and returns the metadata, plain JSON.
        size: the array's bytes, where they are known beforehand.
    """
    folder = entry_folder(name, key)
    for _ in range(TRIES):  # another process may clear the cache in between
        if (found := find_cached(name, key)) is None:
            _make_entry(folder, write, size)
            found = find_cached(name, key)
        if found is not None:
            return found
    raise ResourceError(f"{folder} was removed as soon as it was made, {TRIES} times")


def _make_entry(folder: Path, write: Callable[[Path], dict[str, Any]], size: int | None) -> None:
    """Write an entry, unless another process is faster."""
    try:
        with atomic_folder(folder, size) as temporary:
            metadata = write(temporary / FRAMES)
            page = {"format": FORMAT, "checksum": _checksum(temporary / FRAMES, metadata), "metadata": metadata}
            write_text(temporary / FACTS, json.dumps(page))
    except InputError:
        if not folder.exists():
            raise
    else:
        with suppress(FileNotFoundError):  # cleared just now
            _mark_verified(folder, _state(folder))


def find_cached(name: str, key: str) -> tuple[NDArray[Any], dict[str, Any]] | None:
    """The array and the metadata of an entry; None if there is none. A damaged one is removed, and a note says so."""
    folder = entry_folder(name, key)
    if not folder.exists():
        return None
    try:
        page = parse_json((folder / FACTS).read_text(encoding="utf-8"))
        if page["format"] != FORMAT:
            raise ValueError(f"expected the format {FORMAT!r}, got {page['format']!r}")
        if not _is_verified(folder):
            state = _state(folder)
            if _checksum(folder / FRAMES, page["metadata"]) != page["checksum"]:
                raise ValueError("its content does not match its checksum")
            _mark_verified(folder, state)
        return load_mmap(folder / FRAMES), page["metadata"]
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, ValueError, KeyError, TypeError) as error:
        text = f"note: {folder} is damaged ({error or type(error).__name__}) and is made again"
        Console(stderr=True).print(text, highlight=False, markup=False, soft_wrap=True)
        discard(folder)
        return None


def entry_folder(name: str, key: str) -> Path:
    """Where an entry is, or would be."""
    return cache_folder() / f"{_file_stem(name)}-{key}"


def _checksum(frames: Path, metadata: dict[str, Any]) -> str:
    """SHA-256 of an array's file and its metadata."""
    content = sha256(json.dumps(metadata).encode())
    with frames.open("rb") as stream:
        while block := stream.read(1 << 22):
            content.update(block)
    return content.hexdigest()


def _state(folder: Path) -> list[list[int]]:
    """What changes whenever somebody writes to the files of an entry."""
    stats = [(folder / name).stat() for name in (FRAMES, FACTS)]
    return [[stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino] for stat in stats]


def _is_verified(folder: Path) -> bool:
    """Whether the files are those that were last compared with the checksum: large ones are not read every time."""
    try:
        return bool(parse_json((folder / VERIFIED).read_text(encoding="utf-8")) == _state(folder))
    except (OSError, ValueError):
        return False


def _mark_verified(folder: Path, state: list[list[int]]) -> None:
    with suppress(InputError, ResourceError):  # a cache that is read only is verified every time
        write_text(folder / VERIFIED, json.dumps(state))


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
        self.stream.write(np.ascontiguousarray(block).data)
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
    out: np.memmap[Any, Any] = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    if hasattr(os, "posix_fallocate"):
        with path.open("rb+") as stream:
            os.posix_fallocate(stream.fileno(), 0, path.stat().st_size)
    return out


def _file_stem(name: str) -> str:
    return re.sub(r"[^\w-]+", "-", name).strip("-")[:40] or "data"


def load_mmap(path: Path) -> NDArray[Any]:
    array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


@dataclass(frozen=True)
class CacheEntry:
    """A file or folder in the cache folder that this package has made."""

    path: Path
    bytes: int
    modified: float  # seconds since 1970
    is_temporary: bool  # it is being written, or was when its process was killed


def cache_entries() -> list[CacheEntry]:
    """What is in the cache folder, the largest first; files that this package has not made are not listed."""
    entries = []
    for path in cache_folder().glob("*"):
        is_temporary = path.name.startswith(TEMPORARY)
        with suppress(FileNotFoundError):  # removed just now
            if is_temporary or _is_ours(path):
                entries.append(CacheEntry(path, bytes_of(path), path.stat().st_mtime, is_temporary))
    return sorted(entries, key=lambda entry: -entry.bytes)


def _is_ours(path: Path) -> bool:
    """Whether this package has made a file or folder of the cache folder."""
    if path.is_dir():
        has_name = ENTRY.fullmatch(path.name) or OLD_ENTRY.fullmatch(path.name)
        return has_name is not None and {inside.name for inside in path.iterdir()} <= {FRAMES, FACTS, VERIFIED}
    is_old = OLD_ENTRY.fullmatch(path.name) is not None and path.suffix == ".npy"
    return is_old or path.name == "sprites.txt" or CLASSIFIER.fullmatch(path.name) is not None


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
