"""a user's own arrays"""

from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from diskoop.data.sequences import PIXELS, Sequences, Split, Units, split_rows
from diskoop.errors import InputError

SUFFIXES = (".npy", ".npz")
CHUNK = 256  # sequences looked at together, so that a set larger than memory can be checked


def load(path: Path, split: Split) -> Sequences:
    """The sequences in a NumPy file: 8 of 10 to train on, one to validate with, one to test, mixed by a fixed seed.

    A `.npy` is memory-mapped. A `.npz` holds the sequences as `x` and, if it likes, a label a sequence in other arrays.
    """
    arrays = _read(path)
    x = arrays.pop("x")
    count = _check_shape(path, x)
    labels, values = _labels(arrays, count)
    tenth = max(1, count // 10)
    shuffled = np.random.Generator(np.random.PCG64(0)).permutation(count)
    counts = {"train": count - 2 * tenth, "val": tenth, "test": tenth}
    units = _units(path, x, np.sort(shuffled[split_rows(counts, "train")]))
    everything = Sequences(x, labels, values, units=units, name=path.name)
    return everything.select(np.sort(shuffled[split_rows(counts, split)]))


def _read(path: Path) -> dict[str, NDArray[Any]]:
    """Arrays by name; the sequences are `x`."""
    try:
        if path.suffix == ".npy":
            return {"x": np.load(path, mmap_mode="r", allow_pickle=False)}
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise InputError(f"there is no file {str(path)!r}") from None
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        if "allow_pickle" in str(error) or "Python objects" in str(error):
            raise InputError(f"{path} holds Python objects, not numbers; save a plain array with one dtype") from None
        raise InputError(f"cannot read {path}: {error}") from None
    if "x" not in arrays:
        raise InputError(f"{path} should hold its sequences as 'x', got {', '.join(arrays) or 'nothing'}")
    return arrays


def _check_shape(path: Path, x: NDArray[Any]) -> int:
    """How many sequences there are, if they are sequences."""
    if x.dtype.kind not in "uif":
        raise InputError(f"{path} holds {x.dtype}, wanted numbers")
    if x.ndim == 4:
        raise InputError(
            f"{path} has shape {x.shape}: video is (n, time, channel, height, width), so grey frames need x[:, :, None]"
        )
    if x.ndim == 5 and x.shape[2] not in (1, 3) and x.shape[-1] in (1, 3):
        raise InputError(f"{path} has shape {x.shape}: the channel should come third, so save np.moveaxis(x, -1, 2)")
    if len(x) < 3:
        raise InputError(f"{path} has shape {x.shape}: training, validation and test need 3 sequences at least")
    return len(x)


def unused(path: Path) -> dict[str, list[int]]:
    """The shapes of arrays in a `.npz` that are not one label a sequence, for a person to wonder about."""
    arrays = _read(path)
    count = len(arrays.pop("x"))
    return {name: list(given.shape) for name, given in arrays.items() if given.shape != (count,)}


def _labels(arrays: dict[str, NDArray[Any]], count: int) -> tuple[dict[str, NDArray[np.int64]], dict[str, list[str]]]:
    """Numbers or words, one a sequence -> codes and what they mean. Arrays of another length are something else."""
    labels, values = {}, {}
    for name, given in arrays.items():
        if given.shape != (count,):
            continue
        words, codes = np.unique(given, return_inverse=True)
        labels[name], values[name] = codes.astype(np.int64), [str(word) for word in words]
    return labels, values


def _units(path: Path, x: NDArray[Any], train: NDArray[np.int64]) -> Units:
    """Pixels as they are; a signal's features are scaled to mean 0 and deviation 1 over the training sequences."""
    if x.ndim == 5 and x.dtype == np.uint8:
        return PIXELS
    low, high = _range(path, x)
    if x.ndim == 5:
        if low < 0 or high > 1:
            raise InputError(f"{path} holds {x.dtype} frames from {low:.4g} to {high:.4g}, wanted uint8, or 0 to 1")
        return Units(dtype=str(x.dtype) if x.dtype.kind == "f" else "float32")
    if x.ndim != 3:
        return Units()  # Sequences names the shape
    total, squares, frames = np.zeros(x.shape[-1]), np.zeros(x.shape[-1]), len(train) * x.shape[1]
    for start in range(0, len(train), CHUNK):
        total += x[train[start : start + CHUNK]].sum((0, 1), dtype=np.float64)
    mean = total / frames
    for start in range(0, len(train), CHUNK):
        squares += np.square(x[train[start : start + CHUNK]] - mean).sum((0, 1))
    spread = np.sqrt(squares / frames)
    spread[spread == 0] = 1.0  # a feature that never changes
    return Units(tuple(spread.tolist()), tuple(mean.tolist()), "float64" if x.dtype == np.float64 else "float32")


def _range(path: Path, x: NDArray[Any]) -> tuple[float, float]:
    """Smallest and largest value of all; NaN and infinity are named with the sequence they are in."""
    lows, highs = [], []
    for start in range(0, len(x), CHUNK):
        some = np.asarray(x[start : start + CHUNK])
        sound = np.isfinite(some).reshape(len(some), -1).all(1)
        if not sound.all():
            raise InputError(
                f"{path}: sequence {start + int(np.argmin(sound))} holds NaN or infinity; leave it out or mend it"
            )
        lows.append(some.min())
        highs.append(some.max())
    return float(min(lows)), float(max(highs))
