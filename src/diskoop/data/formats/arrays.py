"""arrays in .npy, .npz and HDF5 files, memory-mapped in place or copied to the cache"""

import math
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from diskoop.data.cache import cached_array, cached_file, digest
from diskoop.data.clips import Blocks, Clip, decoding, file_clips
from diskoop.data.formats.videos import crop_square
from diskoop.data.scaling import Statistics
from diskoop.data.sequences import PIXELS, Units
from diskoop.errors import InputError, MissingDependencyError
from diskoop.input_files import check_expansion
from diskoop.memory import format_bytes
from diskoop.settings import FRAME_SIZES

HDF5 = (".h5", ".hdf5", ".hdf")
SUFFIXES = (".npy", ".npz", *HDF5)
MAX_IN_MEMORY = 2**28  # bytes of a .npz that are read instead of unpacked to disk
MAX_LABELS = 2**24  # entries of an array of labels, names or lengths
LIKELY_PIXELS = (16, 28, 32, 48, 64, 96, 128, 224, 256)


@dataclass(frozen=True, eq=False)
class Arrays:
    """Contents of one file."""

    x: Any  # the sequences (n, time, ...): an array, possibly a memory map, or one that is read chunk by chunk
    extra: dict[str, NDArray[Any]]  # small arrays: labels, names, lengths
    skipped: dict[str, str]  # other arrays, and why they were not read


def read_arrays(path: Path, max_expansion: int = 100) -> Arrays:
    """The sequences in one file and the small arrays with them; nothing is unpickled.

    Args:
        path: of the file.
        max_expansion: how many times its size it may unpack to where that is LARGE.
    """
    extra: dict[str, NDArray[Any]]
    skipped: dict[str, str]
    with array_errors(path):
        if path.suffix.lower() == ".npy":
            x, extra, skipped = _map_npy(path), {}, {}
        elif path.suffix.lower() == ".npz":
            x, extra, skipped = _from_npz(path, max_expansion)
        else:
            x, extra, skipped = _from_hdf5(path, max_expansion)
    check_sequences(path, x)
    # In Fortran order the frames of a sequence are not contiguous.
    return Arrays(x if x.flags.c_contiguous else _copy_to_cache(path, x), extra, skipped)


def array_clips(root: Path, files: list[Path]) -> list[Clip]:
    """A clip for each `.npy` file: (time, feature) or (time, channel, height, width)."""
    return file_clips(root, files, _clip)


def _clip(file: Path) -> Blocks:
    if file.suffix.lower() != ".npy":
        raise InputError(f"{file}: in a folder of arrays each sequence is a .npy file; give the path of this one alone")
    with array_errors(file):
        x = _map_npy(file)
    if x.ndim not in (2, 4):
        raise InputError(
            f"{file} has shape {x.shape}: in a folder of arrays each is one sequence, (time, feature) or "
            "(time, channel, height, width)"
        )
    _check_numbers(file, x)
    if x.ndim == 4 and x.dtype != np.uint8:
        raise InputError(f"{file} holds {x.dtype} frames, wanted uint8 from 0 to 255")
    if x.ndim == 4:
        check_frame(file, x.shape[1:])
    chunk_size = max(1, 2**24 // max(1, int(np.prod(x.shape[1:]))))
    for begin in range(0, len(x), chunk_size):
        block = np.asarray(x[begin : begin + chunk_size])
        yield block if x.ndim == 4 else block.astype(np.float64)


FEATURE_NAMES = ("channels", "features", "columns")


def label_columns(arrays: Arrays) -> dict[str, NDArray[Any]]:
    """Arrays with one entry a sequence; codes are replaced by their names where there is an array `NAME_names`."""
    columns = {name: given for name, given in arrays.extra.items() if given.shape == (len(arrays.x),)}
    for name, codes in columns.items():
        values = arrays.extra.get(f"{name}_names")
        if values is None or values.ndim != 1 or codes.dtype.kind not in "ui":
            continue
        if codes.min() >= 0 and codes.max() < len(values):
            columns[name] = values[codes]
    return columns


def feature_names(arrays: Arrays) -> tuple[str, ...]:
    """Names of the features, where the file has them."""
    given = [arrays.extra[name] for name in FEATURE_NAMES if is_naming(arrays, name)]
    return tuple(map(str, given[0])) if given else ()


def is_naming(arrays: Arrays, name: str) -> bool:
    """Whether an extra array names the features, or the values of a label."""
    given = arrays.extra.get(name)
    names_features = name in FEATURE_NAMES and given is not None and given.shape == arrays.x.shape[2:]
    return names_features or (name.endswith("_names") and name.removesuffix("_names") in arrays.extra)


def resize_video(path: Path, x: NDArray[Any], size: int) -> NDArray[Any]:
    """uint8 video (n, time, channel, height, width), cropped and resized in the cache."""
    if x.ndim != 5 or x.dtype != np.uint8 or x.shape[2] not in (1, 3):
        raise InputError(f"data.size = {size} resizes uint8 video of 1 or 3 channels, {path} has {x.dtype} {x.shape}")

    def resize(out: NDArray[Any], advance: Any) -> None:
        for clip, small in zip(x, out, strict=True):
            for frame, place in zip(np.moveaxis(clip, 1, -1), small, strict=True):
                image = crop_square(Image.fromarray(frame.squeeze(-1) if frame.shape[-1] == 1 else frame), size)
                place[:] = np.moveaxis(np.asarray(image).reshape(size, size, -1), -1, 0)
            advance(1)

    return cached_array(path.stem, _key(path, size), (*x.shape[:3], size, size), resize)


def pixel_units(path: Path, x: NDArray[Any], statistics: Statistics | None) -> Units:
    """Units of video: white is 255, the largest number of so many bits, or 1."""
    if statistics is None:
        return PIXELS
    if x.dtype.kind == "f" or statistics.high <= 1:
        if statistics.low < 0 or statistics.high > 1:
            raise InputError(
                f"{path} holds {x.dtype} frames from {statistics.low:.4g} to {statistics.high:.4g}, wanted uint8, "
                "uint16, or 0 to 1"
            )
        return Units(dtype="float64" if x.dtype == np.float64 else "float32")
    if x.dtype != np.uint16:
        raise InputError(f"{path} holds {x.dtype} frames up to {statistics.high:.4g}, wanted uint8, uint16, or 0 to 1")
    white = 2 ** max(8, int(statistics.high).bit_length()) - 1  # 10, 12 and 14 bits come in uint16 too
    return Units(scale=float(white), dtype="uint16")


def _key(path: Path, *more: Any) -> str:
    status = path.stat()
    return digest(str(path.resolve()), status.st_size, status.st_mtime_ns, *more)


def check_sequences(path: str | Path, x: Any) -> None:
    """Raise an InputError unless `x` is an array of sequences."""
    _check_numbers(path, x)
    if x.ndim == 4:
        raise InputError(
            f"{path} has shape {x.shape}: video is (n, time, channel, height, width), so grey frames need "
            "x[:, :, None] and one clip alone x[None]"
        )
    if x.ndim == 3 and x.dtype == np.uint8 and x.shape[1] == x.shape[2] and x.shape[2] in LIKELY_PIXELS:
        raise InputError(
            f"{path} has shape {x.shape} and type uint8, which looks like images: video is (n, time, channel, height, "
            "width), so one grey clip needs x[None, :, None]; a signal is saved as floats"
        )
    if x.ndim not in (3, 5):
        raise InputError(
            f"{path} has shape {x.shape}, wanted video (n, time, channel, height, width) or a signal (n, time, feature)"
        )
    if x.ndim == 5 and x.shape[2] not in (1, 3) and x.shape[-1] in (1, 3):
        raise InputError(f"{path} has shape {x.shape}: the channel should come third, so save np.moveaxis(x, -1, 2)")
    if 0 in x.shape:
        raise InputError(f"{path} has shape {x.shape} and holds nothing")


def check_frame(path: str | Path, frame: Sequence[int], fix: str = "") -> None:
    """Raise an InputError unless the video networks support such frames (channel, height, width)."""
    if frame[0] not in (1, 3) or frame[1] != frame[2] or frame[1] not in FRAME_SIZES:
        raise InputError(
            f"{path} has frames of shape {tuple(frame)}, wanted 1 or 3 channels of {', '.join(map(str, FRAME_SIZES))} "
            f"pixels square{fix}"
        )


def _check_numbers(path: str | Path, x: Any) -> None:
    if x.dtype.kind not in "uif" or x.dtype.itemsize > 8:
        raise InputError(f"{path} holds {x.dtype}, wanted numbers")


Contents = tuple[NDArray[Any], dict[str, NDArray[Any]], dict[str, str]]


def _map_npy(path: Path) -> NDArray[Any]:
    """A `.npy` file, memory-mapped."""
    with path.open("rb") as stream:
        if stream.read(1) == b"\x93":  # what else it may be numpy tells
            stream.seek(0)
            shape, _, dtype = read_header(stream)
            _check_declared(path, shape, dtype, path.stat().st_size)
    array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def _from_npz(path: Path, max_expansion: int) -> Contents:
    with ZipFile(path) as archive, np.load(path, allow_pickle=False) as file:
        check_expansion(path, sum(member.file_size for member in archive.infolist()), max_expansion)
        headers = {}
        for name in file.files:
            member = archive.getinfo(f"{name}.npy")
            with archive.open(member) as packed:
                shape, _, dtype = read_header(packed)
                headers[name] = shape, dtype
            _check_declared(path, *headers[name], member.file_size)
        name = find_sequences(path, {name: len(shape) for name, (shape, _) in headers.items()})
        skipped = {
            other: reason for other, head in headers.items() if other != name and (reason := _skip_reason(*head))
        }
        extra = {other: file[other] for other in headers if other != name and other not in skipped}
        if headers[name][1].hasobject or archive.getinfo(f"{name}.npy").file_size <= MAX_IN_MEMORY:
            return file[name], extra, skipped  # raises for Python objects
        # Unpacked to disk and memory-mapped: it may be larger than memory.

        def unpack(out: Path) -> dict[str, Any]:
            with archive.open(f"{name}.npy") as packed, out.open("wb") as stream:
                shutil.copyfileobj(packed, stream, 2**20)
            return {}

        size = archive.getinfo(f"{name}.npy").file_size
        return cached_file(path.stem, _key(path, name), unpack, size)[0], extra, skipped


def read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether in Fortran order, and type of an array at the beginning of a stream, without reading it."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, is_fortran, dtype = read(stream)
    return shape, is_fortran, dtype


def _check_declared(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], available: int) -> None:
    """Raise an InputError where a header declares more than there are bytes, before anyone allocates it."""
    declared = math.prod(shape) * dtype.itemsize
    if not dtype.hasobject and not 0 <= declared <= available:
        raise InputError(
            f"{path} is damaged: it declares an array of shape {shape}, {format_bytes(declared)}, and holds "
            f"{format_bytes(available)}; make it again"
        )


def _skip_reason(shape: tuple[int, ...], dtype: np.dtype[Any]) -> str | None:
    """Why an extra array is not read; None if it is."""
    if dtype.hasobject:
        return "holds Python objects"
    return f"has shape {shape}" if len(shape) > 1 or math.prod(shape) > MAX_LABELS else None


def _from_hdf5(path: Path, max_expansion: int) -> Contents:
    try:
        import h5py
    except ImportError:
        raise MissingDependencyError(f"reading {path} needs h5py: pip install 'diskoop[hdf5]'") from None
    datasets: dict[str, Any] = {}
    with h5py.File(path, "r") as file:
        file.visititems(lambda name, item: datasets.update({name: item} if isinstance(item, h5py.Dataset) else {}))
        name = find_sequences(path, {name: item.ndim for name, item in datasets.items()})
        # Such datasets may name any file of this machine, and whoever wrote them may not be who reads them.
        for other, item in datasets.items():
            if item.external or item.is_virtual:
                raise InputError(
                    f"{path} keeps {other!r} in other files, which are not read; write its values into the file itself"
                )
        source = datasets.pop(name)
        texts = {
            other
            for other, item in datasets.items()
            if h5py.check_string_dtype(item.dtype) and item.ndim == 1 and item.size <= MAX_LABELS
        }
        skipped = {
            o: why for o, item in datasets.items() if o not in texts and (why := _skip_reason(item.shape, item.dtype))
        }
        extra = {
            o: np.asarray(item.asstr() if o in texts else item) for o, item in datasets.items() if o not in skipped
        }
        check_sequences(path, source)
        check_expansion(path, int(source.nbytes), max_expansion, int(source.id.get_storage_size()))
        if source.id.get_offset() is not None:  # contiguous, not compressed
            return np.memmap(path, source.dtype, "r", source.id.get_offset(), source.shape), extra, skipped
        return _copy_to_cache(path, source), extra, skipped


def _copy_to_cache(path: Path, source: Any) -> NDArray[Any]:
    """A contiguous copy in the cache, written a few sequences at a time."""
    chunk_size = max(1, 2**26 // max(1, int(np.prod(source.shape[1:])) * source.dtype.itemsize))

    def copy(out: NDArray[Any], advance: Any) -> None:
        for begin in range(0, len(out), chunk_size):
            out[begin : begin + chunk_size] = source[begin : begin + chunk_size]
            advance(chunk_size)

    return cached_array(path.stem, _key(path, str(source.dtype)), source.shape, copy, source.dtype)


def find_sequences(path: str | Path, ranks: dict[str, int]) -> str:
    """Name of the array of sequences: `x`, or the only array, or the only one with at least three axes."""
    if "x" in ranks:
        return "x"
    likely = [name for name, rank in ranks.items() if rank >= 3]
    for candidates in (list(ranks), likely):
        if len(candidates) == 1:
            return candidates[0]
    raise InputError(f"{path} should hold its sequences as 'x', got {', '.join(ranks) or 'nothing'}")


@contextmanager
def array_errors(path: Path) -> Iterator[None]:
    """Turn what numpy and h5py raise for a damaged or pickled file into an InputError."""
    with decoding(path, "array"):
        with path.open("rb") as stream:
            is_text = path.suffix.lower() == ".npy" and stream.read(6)[:1] not in (b"\x93", b"\x80")
        if is_text:  # numpy would call it a pickle
            raise InputError(f"{path} is no .npy file; save it with numpy.save")
        try:
            yield
        except ValueError as error:
            if "allow_pickle" not in str(error) and "Python objects" not in str(error):
                raise
            raise InputError(f"{path} holds Python objects, not numbers; save a plain array with one dtype") from None
