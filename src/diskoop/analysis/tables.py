"""coefficients and factor strengths, a row a clip or a frame, as CSV or Parquet"""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from diskoop.analysis.decomposition import Decomposition, mean_over_frames
from diskoop.errors import InputError, Unavailable
from diskoop.numerics.factors import Factor
from diskoop.storage import atomic_write

Columns = dict[str, NDArray[Any]]  # name -> text, whole numbers or float64, all of one length
ROWS = 10_000  # turned into text together


def table(parts: Decomposition, frames: bool = False) -> Columns:
    """A row for each sequence, or with `frames` for each frame that exists.

    - `clip`, `offset` (at which frame of its clip a window begins, where there are windows), `length` (in frames) and,
      with `frames`, `frame`: its number from 0 within the sequence.
    - `label.<name>`: the label's text, or its code where nobody said what that means.
    - `strength.<factor>`: how far the sequence is from the average in that factor. At a frame it is the distance
      between the factor's part of the latent and the mean of that part over all frames of all the sequences here;
      of a sequence, the root mean square of that over its frames.
    - `mode.<i>.real`, `mode.<i>.imag`: the coefficient of mode i of the spectrum, averaged over the sequence's frames;
      a real mode has no `imag`.
    """
    real = _existing(parts)  # (n, time)
    distances = {name: _distance(factor, parts.z, real) for name, factor in parts.factors.items()}  # (n, time) each
    if not frames:
        strengths = {name: _root_mean_square(far, real) for name, far in distances.items()}
        return {**_known(parts), **_strengths(strengths), **_modes(parts, mean_over_frames(parts.coefficients, real))}
    owner, frame = (place.cpu().numpy() for place in real.nonzero(as_tuple=True))
    return {
        **{name: column[owner] for name, column in _known(parts).items()},
        "frame": frame,
        **_strengths({name: far[real] for name, far in distances.items()}),
        **_modes(parts, parts.coefficients[real]),
    }


def _existing(parts: Decomposition) -> Tensor:
    """(n, time) boolean."""
    return torch.ones(parts.z.shape[:2], dtype=torch.bool, device=parts.z.device) if parts.mask is None else parts.mask


def _distance(factor: Factor, z: Tensor, real: Tensor) -> Tensor:
    """(n, time) float64: how far each frame is from the mean frame in what belongs to `factor`."""
    part = factor.part(z.double())
    distance: Tensor = torch.linalg.vector_norm(part - part[real].mean(0), dim=-1)
    return distance


def _root_mean_square(distance: Tensor, real: Tensor) -> Tensor:
    """(n, time) -> (n,), over the frames that exist."""
    return mean_over_frames(distance.square().unsqueeze(-1), real).squeeze(-1).sqrt()


def _known(parts: Decomposition) -> Columns:
    """What is known of each sequence before it is taken apart."""
    clips = parts.clips
    columns: Columns = {"clip": np.array([clips.clip_name(i) for i in range(len(parts))])}
    if clips.offsets is not None:
        columns["offset"] = clips.offsets
    columns["length"] = parts.lengths
    # Under a prefix: sets have labels of their own called length.
    for name, codes in clips.labels.items():
        columns[f"label.{name}"] = np.array(clips.values[name])[codes] if name in clips.values else codes
    return columns


def _strengths(strengths: dict[str, Tensor]) -> Columns:
    return {f"strength.{name}": column.cpu().numpy() for name, column in strengths.items()}


def _modes(parts: Decomposition, coefficients: Tensor) -> Columns:
    """(rows, k) complex -> a column or two for each mode."""
    columns: Columns = {}
    for mode, (eigenvalue, column) in enumerate(zip(parts.spectrum.eigenvalues, coefficients.T, strict=True)):
        columns[f"mode.{mode}.real"] = column.real.cpu().numpy()
        if eigenvalue.imag != 0:
            columns[f"mode.{mode}.imag"] = column.imag.cpu().numpy()
    return columns


def write_table(parts: Decomposition, path: str | Path, frames: bool = False) -> Path:
    """`table` as a file, CSV or Parquet by the end of its name; every number reads back as it was."""
    path = Path(path)
    write = writer_of(path)
    columns = table(parts, frames)
    with atomic_write(path) as temporary:
        write(columns, temporary)
    return path


def writer_of(path: Path) -> Callable[[Columns, Path], None]:
    """What writes a table of this name; an InputError unless something does."""
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
            # As Python's own numbers, which the csv module writes with every digit that matters.
            some = [column[begin : begin + ROWS].tolist() for column in columns.values()]
            writer.writerows(zip(*some, strict=True))


def _write_parquet(columns: Columns, path: Path) -> None:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise Unavailable("writing a Parquet table takes pyarrow: pip install 'diskoop[parquet]'") from None
    parquet.write_table(pyarrow.table(columns), path)


_WRITERS: dict[str, Callable[[Columns, Path], None]] = {".csv": _write_csv, ".parquet": _write_parquet}
