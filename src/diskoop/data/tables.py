"""CSV and Parquet tables: one for each sequence, or all in one with id and time columns"""

import csv
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diskoop.data.clips import Blocks, Clip, decoding
from diskoop.errors import InputError, suggest

SUFFIXES = (".csv", ".tsv", ".parquet")
IDS = ("id", "sequence", "sequence_id", "series", "series_id")
TIMES = ("time", "t", "timestamp", "step", "frame")
ROWS = 50_000  # read together
Columns = dict[str, NDArray[Any]]  # name -> float64 numbers, or text


@dataclass(frozen=True)
class Layout:
    """What the columns of a table are."""

    features: tuple[str, ...]
    words: tuple[str, ...]  # columns of text: labels, one value a sequence
    time: str | None
    id: str | None


def layout(path: Path, id: str | None, time: str | None) -> Layout:
    """The columns' roles, by the first rows and by the names the user gives (or usual ones)."""
    chunk = next(read_table(path))
    names = list(chunk)
    for role, given in (("id", id), ("time", time)):
        if given is not None and given not in names:
            raise InputError(f"data.{role} = {given}, but {path} has no such column; {suggest(given, names)}")
    usual = {name.lower(): name for name in reversed(names)}
    id = id or next((usual[name] for name in IDS if name in usual), None)
    time = time or next((usual[name] for name in TIMES if name in usual), None)
    rest = [name for name in names if name not in (id, time)]
    features = tuple(name for name in rest if chunk[name].dtype.kind == "f")
    if not features:
        raise InputError(f"{path} has no column of numbers to learn from, got {', '.join(names)}")
    return Layout(features, tuple(name for name in rest if name not in features), time, id)


def table_clips(root: Path, files: Sequence[Path], roles: Layout) -> list[Clip]:
    """A clip for each table."""
    clips = []
    for file in files:
        labels: dict[str, str] = {}  # known once the table has been read
        read = lambda file=file, labels=labels: _one_sequence(file, roles, labels)  # noqa: E731
        clips.append(Clip(file.relative_to(root).as_posix(), read, labels))
    return clips


def _one_sequence(file: Path, roles: Layout, labels: dict[str, str]) -> Blocks:
    chunks = list(read_table(file))
    wanted = {*roles.features, *roles.words, *([roles.time] if roles.time else [])}
    given = set(chunks[0])
    if given - {roles.id} != wanted:
        odd = sorted(given ^ wanted)
        raise InputError(f"{file} has other columns than the first table: {', '.join(odd)} {_differ(odd)}")
    columns = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in wanted}
    for name in roles.words:
        if len(set(columns[name].tolist())) > 1:
            raise InputError(f"{file}: the words in column {name!r} change within the sequence; leave the column out")
        labels[name] = str(columns[name][0])
    features = np.stack([_numbers(file, name, columns[name]) for name in roles.features], axis=1)
    if roles.time is not None:
        features = features[np.argsort(_moments(file, roles.time, columns[roles.time]), kind="stable")]
    yield features


def _differ(names: list[str]) -> str:
    return "differs" if len(names) == 1 else "differ"


def long_table_clips(path: Path, roles: Layout) -> tuple[list[Clip], tuple[str, ...]]:
    """A clip for each value of the id column, and the names of its features.

    The rows may come in any order. Their numbers go to a temporary file first; only ids and times stay in memory.
    """
    assert roles.id is not None
    codes: dict[str, int] = {}
    words: list[dict[str, str]] = []
    ids, times = [], []
    spill = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the clips that read from it
    for chunk in read_table(path):
        keys = [_id_text(key) for key in chunk[roles.id]]
        for row, key in enumerate(keys):
            if key not in codes:
                codes[key] = len(codes)
                words.append({name: str(chunk[name][row]) for name in roles.words})
        of_row = np.array([codes[key] for key in keys])
        for name in roles.words:
            expected = np.array([words[code][name] for code in of_row])
            if (changed := np.flatnonzero(chunk[name] != expected)).size:
                raise InputError(
                    f"{path}: the words in column {name!r} change within sequence {keys[changed[0]]}; leave it out"
                )
        ids.append(of_row)
        if roles.time is not None:
            times.append(_moments(path, roles.time, chunk[roles.time]))
        numbers = np.stack([_numbers(path, name, chunk[name]) for name in roles.features], axis=1)
        spill.write(numbers.tobytes())
    spill.flush()
    every = np.concatenate(ids)
    rows = np.memmap(spill, np.float64, "r", shape=(len(every), len(roles.features)))
    order = np.lexsort((np.concatenate(times) if times else np.arange(len(every)), every))
    edges = np.searchsorted(every[order], np.arange(len(codes) + 1))
    places = [order[begin:end] for begin, end in pairwise(edges)]
    steady = _steady(rows, places)
    kept = np.flatnonzero(~steady)
    if not len(kept):
        raise InputError(f"{path}: no column of numbers changes within a sequence, so there is nothing to learn from")
    clips = []
    for key, code in codes.items():
        first = rows[places[code][0]]
        said = {name: _id_text(first[at]) for at, name in enumerate(roles.features) if steady[at]}
        read = lambda place=places[code]: iter([rows[place][:, kept]])  # noqa: E731
        clips.append(Clip(key, read, words[code] | said))
    return clips, tuple(roles.features[at] for at in kept)


def _steady(rows: NDArray[np.float64], places: list[NDArray[np.int64]]) -> NDArray[np.bool_]:
    """Columns of whole numbers that never change within a sequence but do between them: labels, not features."""
    steady = np.ones(rows.shape[1], bool)
    firsts = []
    for place in places:
        values = rows[place]
        steady &= (values == values[0]).all(0) & (values[0] == np.rint(values[0]))
        firsts.append(values[0])
    differ: NDArray[np.bool_] = np.ptp(np.array(firsts), axis=0) > 0
    return steady & differ


def read_table(path: Path) -> Iterator[Columns]:
    """Some rows at a time, as columns: numbers where the first rows are numbers, text elsewhere."""
    chunks = _parquet(path) if path.suffix.lower() == ".parquet" else _csv(path)
    empty = True
    for chunk in chunks:
        empty = False
        yield chunk
    if empty:
        raise InputError(f"{path} holds no rows, wanted a line of names and a row for each moment")


def _csv(path: Path) -> Iterator[Columns]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            head = stream.readline()
            delimiter = max("\t;,", key=head.count)  # the last of equals: a comma, also where there is one column
            names = next(csv.reader([head], delimiter=delimiter), [])
            if len(set(names)) < len(names):
                raise InputError(f"{path} names a column twice in its first line: {', '.join(names)}")
            if names and all(_number(name) is not None for name in names):
                raise InputError(f"{path} begins with numbers ({', '.join(names[:3])}), wanted a line of column names")
            rows = (row for row in csv.reader(stream, delimiter=delimiter) if row)
            done, kinds = 0, None
            while some := list(islice(rows, ROWS)):
                for number, row in enumerate(some, done + 1):
                    if len(row) != len(names):
                        raise InputError(
                            f"{path} has {len(row)} cells in row {number} where its first line names {len(names)}"
                        )
                columns = dict(zip(names, zip(*some, strict=True), strict=True))
                kinds = kinds or {name: all(map(_may_be_number, column)) for name, column in columns.items()}
                yield {name: _typed(path, name, column, kinds[name], done) for name, column in columns.items()}
                done += len(some)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot read {path}: {error}") from None


def _parquet(path: Path) -> Iterator[Columns]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise InputError(f"reading {path} takes pyarrow: pip install 'diskoop[parquet]'") from None
    with decoding(path, "Parquet table"), parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(ROWS):
            yield {name: _from_arrow(batch.column(name)) for name in batch.schema.names}


def _from_arrow(column: Any) -> NDArray[Any]:
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind in "uifb":
        return np.asarray(values, np.float64)
    if values.dtype.kind == "M":
        return np.asarray(values)
    return np.array([str(value) for value in values])


def _typed(path: Path, name: str, column: Sequence[str], is_number: bool, done: int) -> NDArray[Any]:
    if not is_number:
        return np.array(column)
    numbers = [_number(cell) for cell in column]
    if None in numbers:
        row = numbers.index(None)
        raise InputError(f"{path}: column {name!r} holds {column[row]!r} in row {done + row + 1}, wanted a number")
    return np.array(numbers, np.float64)


def _may_be_number(cell: str) -> bool:
    return _number(cell) is not None


def _number(cell: str) -> float | None:
    """A cell's number, NaN where it is empty, None where it is a word."""
    if not cell.strip() or cell.strip().lower() in ("na", "null", "none"):
        return float("nan")
    try:
        return float(cell)
    except ValueError:
        return None


def _numbers(path: Path, name: str, column: NDArray[Any]) -> NDArray[np.float64]:
    if column.dtype.kind != "f":
        raise InputError(f"{path}: column {name!r} holds words such as {str(column[0])!r}, wanted numbers")
    return column


def _moments(path: Path, name: str, column: NDArray[Any]) -> NDArray[np.float64]:
    """Times as numbers, also where they are dates."""
    if column.dtype.kind == "f":
        return column
    try:
        return column.astype("datetime64[us]").astype(np.int64).astype(np.float64)
    except ValueError:
        raise InputError(
            f"{path}: the time column {name!r} holds {str(column[0])!r}, wanted numbers or dates such as "
            "2024-01-31T12:00"
        ) from None


def _id_text(key: Any) -> str:
    return str(int(key)) if isinstance(key, float | np.floating) and float(key).is_integer() else str(key)
