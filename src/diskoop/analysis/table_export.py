"""mode coefficients and factor distances as tables, one row per clip or frame, in CSV or Parquet"""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from diskoop.analysis.decomposition import Decomposition, mean_over_frames
from diskoop.errors import InputError, MissingDependencyError
from diskoop.numerics.factors import Factor
from diskoop.storage import atomic_write

Columns = dict[str, NDArray[Any]]  # name -> text, whole numbers or float64, all of one length
ROWS = 10_000  # written to CSV at once


def table(parts: Decomposition, frames: bool = False) -> Columns:
    """Columns with one row per sequence, or with `frames` one per frame.

    - `clip`, `offset` (the first frame of a window in its clip, if there are windows), `length` (in frames) and, with
      `frames`, `frame`: its index in the sequence.
    - `label.<name>`: the name of the label's value, or its code if values have no names.
    - `distance.<factor>`: the distance of a frame's part that belongs to the factor to the mean of that part over all
      frames of all sequences; for a sequence, its root mean square over the frames.
    - `mode.<i>.real`, `mode.<i>.imag`: the coefficient of mode i, averaged over the sequence's frames; a real mode has
      no `imag`.

    Example:
        >>> brief = {"model": {"k": 4, "h": 8}, "spectrum": {"static": 4}, "train": {"epochs": 1}}
        >>> run = diskoop.train("oscillators", folder / "run", **brief)
        >>> columns = table(run.decompose(run.data("test").select(range(3))))
        >>> columns["distance.static"].shape, columns["label.mark"].shape
        ((3,), (3,))
    """
    mask = _frame_mask(parts)  # (n, time)
    distances = {name: _distances(factor, parts.z, mask) for name, factor in parts.factors.items()}  # (n, time) each
    if not frames:
        means = {name: _root_mean_square(distance, mask) for name, distance in distances.items()}
        coefficients = mean_over_frames(parts.coefficients, mask)
        return {**_sequence_columns(parts), **_distance_columns(means), **_mode_columns(parts, coefficients)}
    sequence, frame = (index.cpu().numpy() for index in mask.nonzero(as_tuple=True))
    return {
        **{name: column[sequence] for name, column in _sequence_columns(parts).items()},
        "frame": frame,
        **_distance_columns({name: distance[mask] for name, distance in distances.items()}),
        **_mode_columns(parts, parts.coefficients[mask]),
    }


def _frame_mask(parts: Decomposition) -> Tensor:
    """(n, time) boolean: which frames exist."""
    return torch.ones(parts.z.shape[:2], dtype=torch.bool, device=parts.z.device) if parts.mask is None else parts.mask


def _distances(factor: Factor, z: Tensor, mask: Tensor) -> Tensor:
    """(n, time) float64: the distance of each frame to the mean frame, in the part that belongs to `factor`."""
    part = factor.part(z.double())
    distances: Tensor = torch.linalg.vector_norm(part - part[mask].mean(0), dim=-1)
    return distances


def _root_mean_square(distances: Tensor, mask: Tensor) -> Tensor:
    """(n, time) -> (n,), over the frames that exist."""
    return mean_over_frames(distances.square().unsqueeze(-1), mask).squeeze(-1).sqrt()


def _sequence_columns(parts: Decomposition) -> Columns:
    clips = parts.clips
    columns: Columns = {"clip": np.array([clips.clip_name(i) for i in range(len(parts))])}
    if clips.offsets is not None:
        columns["offset"] = clips.offsets
    columns["length"] = parts.lengths
    # With a prefix, because a label may be called length.
    for name, codes in clips.labels.items():
        columns[f"label.{name}"] = np.array(clips.values[name])[codes] if name in clips.values else codes
    return columns


def _distance_columns(distances: dict[str, Tensor]) -> Columns:
    return {f"distance.{name}": column.cpu().numpy() for name, column in distances.items()}


def _mode_columns(parts: Decomposition, coefficients: Tensor) -> Columns:
    """(rows, k) complex -> one or two columns per mode."""
    columns: Columns = {}
    for mode, (eigenvalue, column) in enumerate(zip(parts.spectrum.eigenvalues, coefficients.T, strict=True)):
        columns[f"mode.{mode}.real"] = column.real.cpu().numpy()
        if eigenvalue.imag != 0:
            columns[f"mode.{mode}.imag"] = column.imag.cpu().numpy()
    return columns


def write_table(parts: Decomposition, path: str | Path, frames: bool = False) -> Path:
    """Write `table` as CSV or Parquet, by the suffix of `path`; numbers keep every digit."""
    path = Path(path)
    write = table_writer(path)
    columns = table(parts, frames)
    with atomic_write(path) as temporary:
        write(columns, temporary)
    return path


def table_writer(path: Path) -> Callable[[Columns, Path], None]:
    """The function that writes a table of this suffix; an InputError if there is none."""
    write = _WRITERS.get(path.suffix.lower())
    if write is None:
        raise InputError(f"expected a table's name ending in {' or '.join(_WRITERS)}, got {str(path)!r}")
    return write


def _write_csv(columns: Columns, path: Path) -> None:
    count = len(columns["clip"])
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        for begin in range(0, count, ROWS):
            # As Python numbers, which the csv module writes with all digits.
            block = [column[begin : begin + ROWS].tolist() for column in columns.values()]
            writer.writerows(zip(*block, strict=True))


def _write_parquet(columns: Columns, path: Path) -> None:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingDependencyError("writing a Parquet table needs pyarrow: pip install 'diskoop[parquet]'") from None
    parquet.write_table(pyarrow.table(columns), path)


_WRITERS: dict[str, Callable[[Columns, Path], None]] = {".csv": _write_csv, ".parquet": _write_parquet}
