"""arrays in .npy, .npz and HDF5 files, mapped where they lie or streamed into the cache"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from diskoop.data.cache import digest, drawn_once, mapped
from diskoop.data.clips import Blocks, Clip, decoding, file_clips
from diskoop.data.scaling import Scale
from diskoop.data.sequences import PIXELS, Units
from diskoop.data.videos import square
from diskoop.errors import InputError, Unavailable
from diskoop.settings import FRAME_SIZES
from diskoop.storage import atomic_write, cache_folder

HDF5 = (".h5", ".hdf5", ".hdf")
SUFFIXES = (".npy", ".npz", *HDF5)
SMALL = 2**28  # bytes of a .npz that are simply read
LIKELY_PIXELS = (16, 28, 32, 48, 64, 96, 128, 224, 256)


@dataclass(frozen=True, eq=False)
class Arrays:
    """What one file holds."""

    x: NDArray[Any]  # the sequences, perhaps a memory map
    beside: dict[str, NDArray[Any]]  # small arrays: labels, names, lengths
    unread: dict[str, str]  # other arrays, and why they were not read


def read(path: Path) -> Arrays:
    """Sequences and what lies beside them, from one file; nothing is unpickled."""
    beside: dict[str, NDArray[Any]]
    unread: dict[str, str]
    with _opening(path):
        if path.suffix.lower() == ".npy":
            x, beside, unread = np.load(path, mmap_mode="r", allow_pickle=False), {}, {}
        elif path.suffix.lower() == ".npz":
            x, beside, unread = _from_npz(path)
        else:
            x, beside, unread = _from_hdf5(path)
    check(path, x)
    # Sequences in Fortran order do not lie in one piece each.
    return Arrays(x if x.flags.c_contiguous else _streamed(path, x), beside, unread)


def array_clips(root: Path, files: list[Path]) -> list[Clip]:
    """A clip for each `.npy` file: (time, feature) or (time, channel, height, width)."""
    return file_clips(root, files, _clip)


def _clip(file: Path) -> Blocks:
    if file.suffix.lower() != ".npy":
        raise InputError(f"{file}: in a folder of arrays each sequence is a .npy file; give the path of this one alone")
    with _opening(file):
        x = np.load(file, mmap_mode="r", allow_pickle=False)
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
    at_once = max(1, 2**24 // max(1, int(np.prod(x.shape[1:]))))
    for begin in range(0, len(x), at_once):
        block = np.asarray(x[begin : begin + at_once])
        yield block if x.ndim == 4 else block.astype(np.float64)


NAMES_OF_FEATURES = ("channels", "features", "columns")


def label_columns(found: Arrays) -> dict[str, NDArray[Any]]:
    """Arrays with one entry a sequence, in the words of `NAME_names` where there are some."""
    columns = {name: given for name, given in found.beside.items() if given.shape == (len(found.x),)}
    for name, codes in columns.items():
        words = found.beside.get(f"{name}_names")
        if (
            words is not None
            and words.ndim == 1
            and codes.dtype.kind in "ui"
            and codes.min() >= 0
            and codes.max() < len(words)
        ):
            columns[name] = words[codes]
    return columns


def feature_names(found: Arrays) -> tuple[str, ...]:
    """What the features are called, if the file says so."""
    given = [found.beside[name] for name in NAMES_OF_FEATURES if is_naming(found, name)]
    return tuple(map(str, given[0])) if given else ()


def is_naming(found: Arrays, name: str) -> bool:
    """Whether an array beside the sequences names features, or the values of a label."""
    given = found.beside.get(name)
    names_features = name in NAMES_OF_FEATURES and given is not None and given.shape == found.x.shape[2:]
    return names_features or (name.endswith("_names") and name.removesuffix("_names") in found.beside)


def resized(path: Path, x: NDArray[Any], size: int) -> NDArray[Any]:
    """Video (n, time, channel, height, width) of bytes at another size, in the cache."""
    if x.ndim != 5 or x.dtype != np.uint8 or x.shape[2] not in (1, 3):
        raise InputError(f"data.size = {size} resizes uint8 video of 1 or 3 channels, {path} has {x.dtype} {x.shape}")

    def resize(out: NDArray[Any], advance: Any) -> None:
        for clip, small in zip(x, out, strict=True):
            for frame, place in zip(np.moveaxis(clip, 1, -1), small, strict=True):
                image = square(Image.fromarray(frame.squeeze(-1) if frame.shape[-1] == 1 else frame), size)
                place[:] = np.moveaxis(np.asarray(image).reshape(size, size, -1), -1, 0)
            advance(1)

    return drawn_once(path.stem, _key(path, size), (*x.shape[:3], size, size), resize)


def pixel_units(path: Path, x: NDArray[Any], scale: Scale | None) -> Units:
    """What white is: 255, the largest number of so many bits, or 1."""
    if scale is None:
        return PIXELS
    if x.dtype.kind == "f" or scale.high <= 1:
        if scale.low < 0 or scale.high > 1:
            raise InputError(
                f"{path} holds {x.dtype} frames from {scale.low:.4g} to {scale.high:.4g}, wanted uint8, uint16, or "
                "0 to 1"
            )
        return Units(dtype="float64" if x.dtype == np.float64 else "float32")
    if x.dtype != np.uint16:
        raise InputError(f"{path} holds {x.dtype} frames up to {scale.high:.4g}, wanted uint8, uint16, or 0 to 1")
    white = 2 ** max(8, int(scale.high).bit_length()) - 1  # 10, 12 and 14 bits come in uint16 too
    return Units(scale=float(white), dtype="uint16")


def _key(path: Path, *more: Any) -> str:
    facts = path.stat()
    return digest(str(path.resolve()), facts.st_size, facts.st_mtime_ns, *more)


def check(path: Path, x: NDArray[Any]) -> None:
    """An InputError unless these are sequences."""
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


def check_frame(path: Path, frame: Sequence[int], fix: str = "") -> None:
    """An InputError unless the networks for video take such frames (channel, height, width)."""
    if frame[0] not in (1, 3) or frame[1] != frame[2] or frame[1] not in FRAME_SIZES:
        raise InputError(
            f"{path} has frames of shape {tuple(frame)}, wanted 1 or 3 channels of {', '.join(map(str, FRAME_SIZES))} "
            f"pixels square{fix}"
        )


def _check_numbers(path: Path, x: NDArray[Any]) -> None:
    if x.dtype.kind not in "uif" or x.dtype.itemsize > 8:
        raise InputError(f"{path} holds {x.dtype}, wanted numbers")


Contents = tuple[NDArray[Any], dict[str, NDArray[Any]], dict[str, str]]
LARGE = 2**24  # numbers in an array that is no label, name or length, and need not be read


def _from_npz(path: Path) -> Contents:
    with ZipFile(path) as archive, np.load(path, allow_pickle=False) as file:
        heads = {name: _head(archive, f"{name}.npy") for name in file.files}
        name = _name_of_sequences(path, {name: len(shape) for name, (shape, _) in heads.items()})
        unread = {other: reason for other, head in heads.items() if other != name and (reason := _unfit(*head))}
        beside = {other: file[other] for other in heads if other != name and other not in unread}
        if heads[name][1].hasobject or archive.getinfo(f"{name}.npy").file_size <= SMALL:
            return file[name], beside, unread  # which refuses objects
        # Unpacked on disk and mapped: it may be larger than memory.
        unpacked = cache_folder() / f"{path.stem[:40]}-{_key(path, name)}.npy"
        if not unpacked.exists():
            with atomic_write(unpacked) as out, archive.open(f"{name}.npy") as packed, out.open("wb") as stream:
                shutil.copyfileobj(packed, stream, 2**20)
        return mapped(unpacked), beside, unread


def _head(archive: ZipFile, member: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of an array in a .npz, without reading it."""
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(stream)
    return shape, dtype


def _unfit(shape: tuple[int, ...], dtype: np.dtype[Any]) -> str | None:
    """Why an array beside the sequences is not read."""
    if dtype.hasobject:
        return "holds Python objects"
    return f"has shape {shape}" if len(shape) > 1 or int(np.prod(shape)) > LARGE else None


def _from_hdf5(path: Path) -> Contents:
    try:
        import h5py
    except ImportError:
        raise Unavailable(f"reading {path} takes h5py: pip install 'diskoop[hdf5]'") from None
    found: dict[str, Any] = {}
    with h5py.File(path, "r") as file:
        file.visititems(lambda name, item: found.update({name: item} if isinstance(item, h5py.Dataset) else {}))
        name = _name_of_sequences(path, {name: item.ndim for name, item in found.items()})
        source = found.pop(name)
        words = {other for other, item in found.items() if h5py.check_string_dtype(item.dtype) and item.ndim == 1}
        unread = {o: why for o, item in found.items() if o not in words and (why := _unfit(item.shape, item.dtype))}
        beside = {o: np.asarray(item.asstr() if o in words else item) for o, item in found.items() if o not in unread}
        check(path, source)
        if source.id.get_offset() is not None:  # one piece, not compressed
            return np.memmap(path, source.dtype, "r", source.id.get_offset(), source.shape), beside, unread
        return _streamed(path, source), beside, unread


def _streamed(path: Path, source: Any) -> NDArray[Any]:
    """A copy in the cache, a few sequences at a time."""
    at_once = max(1, 2**26 // max(1, int(np.prod(source.shape[1:])) * source.dtype.itemsize))

    def copy(out: NDArray[Any], advance: Any) -> None:
        for begin in range(0, len(out), at_once):
            out[begin : begin + at_once] = source[begin : begin + at_once]
            advance(at_once)

    return drawn_once(path.stem, _key(path, str(source.dtype)), source.shape, copy, source.dtype)


def _name_of_sequences(path: Path, ranks: dict[str, int]) -> str:
    """`x`, or the only array there is, or the only one with as many axes as sequences have."""
    if "x" in ranks:
        return "x"
    likely = [name for name, rank in ranks.items() if rank >= 3]
    for few in (list(ranks), likely):
        if len(few) == 1:
            return few[0]
    raise InputError(f"{path} should hold its sequences as 'x', got {', '.join(ranks) or 'nothing'}")


@contextmanager
def _opening(path: Path) -> Iterator[None]:
    with decoding(path, "array"):
        with path.open("rb") as stream:
            is_text = path.suffix.lower() == ".npy" and stream.read(6)[:1] not in (b"\x93", b"\x80")
        if is_text:  # numpy would take it for a pickle
            raise InputError(f"{path} is no .npy file; save it with numpy.save")
        try:
            yield
        except ValueError as error:
            if "allow_pickle" not in str(error) and "Python objects" not in str(error):
                raise
            raise InputError(f"{path} holds Python objects, not numbers; save a plain array with one dtype") from None
