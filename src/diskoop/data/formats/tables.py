"""CSV and Parquet tables: one for each sequence, or many sequences in one with id and time columns"""

import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diskoop.data.clips import Blocks, Clip, decoding
from diskoop.data.csv_rows import read_csv
from diskoop.errors import InputError, Unavailable, suggest
from diskoop.storage import cache_folder

SUFFIXES = (".csv", ".tsv", ".parquet")
ID_NAMES = ("id", "sequence", "sequence_id", "series", "series_id")
TIME_NAMES = ("time", "t", "timestamp", "step", "frame")
INDEX_COLUMN = re.compile(r"|Unnamed: \d+|__index_level_\d+__")  # row numbers written by pandas and others
CHUNK_ROWS = 10_000  # read at a time
Columns = dict[str, NDArray[Any]]  # name -> numbers (float64), times (datetime64) or text


@dataclass(frozen=True)
class Layout:
    """The roles of a table's columns."""

    features: tuple[str, ...]
    labels: tuple[str, ...]  # columns of text, with one value a sequence
    time: str | None
    id: str | None


def infer_layout(path: Path, id: str | None, time: str | None) -> Layout:
    """The roles of the columns, from the first rows.

    Args:
        path: of the table.
        id: the column that tells sequences apart; None looks for a usual name, "none" is no column.
        time: the column that orders rows; None looks for a usual name.
    """
    chunk = next(read_table(path))
    names = list(chunk)
    no_id = id == "none" and id not in names
    id = None if no_id else id
    for role, given in (("id", id), ("time", time)):
        if given is not None and given not in names:
            raise InputError(f"data.{role} = {given}, but {path} has no such column; {suggest(given, names)}")
    usual = {name.lower(): name for name in reversed(names)}
    id = None if no_id else id or next((usual[name] for name in ID_NAMES if name in usual), None)
    time = time or next((usual[name] for name in TIME_NAMES if name in usual), None)
    rest = [name for name in names if name not in (id, time)]
    features = tuple(name for name in rest if chunk[name].dtype.kind == "f")
    if not features:
        texts = chain.from_iterable(column[:3].tolist() for column in chunk.values() if column.dtype.kind == "U")
        comma = next((text for text in texts if re.fullmatch(r"-?\d+,\d+", text)), None)
        fix = f"; write {comma} as {comma.replace(',', '.')}" if comma else ""
        raise InputError(f"{path} has no column of numbers to learn from, got {', '.join(names)}{fix}")
    return Layout(features, tuple(name for name in rest if name not in features), time, id)


def table_clips(root: Path, files: Sequence[Path], layout: Layout) -> list[Clip]:
    """A clip for each table."""
    clips = []
    for file in files:
        labels: dict[str, str] = {}  # filled while the table is read
        read = lambda file=file, labels=labels: _read_sequence(file, layout, labels)  # noqa: E731
        clips.append(Clip(file.relative_to(root).as_posix(), str(file), read, labels))
    return clips


def _read_sequence(file: Path, layout: Layout, labels: dict[str, str]) -> Blocks:
    chunks = list(_chunks(file, layout))
    times = [_parse_times(file, layout.time, chunk[layout.time]) for chunk in chunks] if layout.time else []
    for name in layout.labels:
        unique = list(dict.fromkeys(text for chunk in chunks for text in chunk[name].astype(str)))
        if len(unique) > 1:
            raise _changing_label(f"{file}", name)
        labels[name] = unique[0]
    features = np.concatenate([_features(file, layout, chunk) for chunk in chunks])
    yield features[_time_order(f"{file}", np.concatenate(times), layout)] if times else features


def long_table_clips(root: Path, files: Sequence[Path], layout: Layout) -> list[Clip]:
    """A clip for each value of the id column in each table, its rows in any order.

    Features go through a temporary file; only ids and times stay in memory.
    """
    store = _RowStore(layout)
    for file in files:
        prefix = "" if len(files) == 1 else f"{file.relative_to(root).as_posix()}: "
        for chunk in _chunks(file, layout):
            store.add(file, prefix, chunk)
    return store.clips()


class _RowStore:
    """Rows on disk in the order of the tables, and the sequence of each row."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.codes: dict[str, int] = {}  # clip name -> its index
        self.places: list[str] = []  # where each clip is, for messages
        self.labels: list[dict[str, str]] = []  # of each clip
        self.owners: list[NDArray[np.int64]] = []  # clip index of each row, by chunk
        self.times: list[NDArray[Any]] = []
        cache_folder().mkdir(parents=True, exist_ok=True)
        # Lives as long as the clips that read from it; in the cache folder, where there is space.
        self.file = tempfile.TemporaryFile(dir=cache_folder())  # noqa: SIM115

    def add(self, path: Path, prefix: str, chunk: Columns) -> None:
        layout = self.layout
        assert layout.id is not None
        ids = [str(id) for id in chunk[layout.id].tolist()]
        if "" in ids:
            raise InputError(f"{path}: the id column {layout.id!r} is empty in some row; fill it in")
        texts = {name: chunk[name].astype(str) for name in layout.labels}
        for row, id in enumerate(ids):
            if prefix + id not in self.codes:
                self.codes[prefix + id] = len(self.codes)
                self.places.append(f"{path}, sequence {id},")
                self.labels.append({name: str(column[row]) for name, column in texts.items()})
        owners = np.array([self.codes[prefix + id] for id in ids])
        for name, column in texts.items():
            changed = np.flatnonzero(column != np.array([self.labels[owner][name] for owner in owners]))
            if changed.size:
                raise _changing_label(f"{path}, sequence {ids[changed[0]]}", name)
        self.owners.append(owners)
        if layout.time is not None:
            self.times.append(_parse_times(path, layout.time, chunk[layout.time]))
        self.file.write(_features(path, layout, chunk).tobytes())

    def clips(self) -> list[Clip]:
        self.file.flush()
        owners, features = np.concatenate(self.owners), self.layout.features
        rows = np.memmap(self.file, np.float64, "r", shape=(len(owners), len(features)))
        order = np.argsort(owners, kind="stable")
        edges = np.searchsorted(owners[order], np.arange(len(self.codes) + 1))
        rows_of = [order[begin:end] for begin, end in pairwise(edges)]
        if self.times:
            times = np.concatenate(self.times)
            unordered = zip(self.places, rows_of, strict=True)
            rows_of = [own[_time_order(place.rstrip(","), times[own], self.layout)] for place, own in unordered]
        constant = _constant_columns(rows, rows_of)
        varying = np.flatnonzero(~constant)
        if not len(varying):
            raise InputError(
                f"{self.places[0].split(', sequence')[0]}: no column of numbers changes within a sequence, so there is "
                "nothing to learn from"
            )
        clips = []
        for name, number in self.codes.items():
            first = rows[rows_of[number][0]]
            labels = {feature: _to_text(first[at]) for at, feature in enumerate(features) if constant[at]}
            read = lambda own=rows_of[number]: iter([rows[own][:, varying]])  # noqa: E731
            clips.append(Clip(name, self.places[number], read, self.labels[number] | labels))
        return clips


def _constant_columns(rows: NDArray[np.float64], rows_of: list[NDArray[np.int64]]) -> NDArray[np.bool_]:
    """Columns of integers that change between sequences but not within them: labels, not features."""
    constant = np.ones(rows.shape[1], bool)
    firsts = []
    for own in rows_of:
        values = rows[own]
        constant &= (values == values[0]).all(0) & (values[0] == np.rint(values[0]))
        firsts.append(values[0])
    differ: NDArray[np.bool_] = np.ptp(np.array(firsts), axis=0) > 0
    return constant & differ


def _time_order(place: str, times: NDArray[Any], layout: Layout) -> NDArray[np.int64]:
    """Indices that sort rows by time; a time that occurs twice is an error."""
    order = np.argsort(times, kind="stable")
    repeated = np.flatnonzero(times[order][1:] == times[order][:-1])
    if repeated.size:
        raise InputError(
            f"{place} has {layout.time} {_to_text(times[order][repeated[0]])} twice; if it holds several sequences, "
            "data.id=COLUMN tells them apart"
        )
    return order


def _chunks(path: Path, layout: Layout) -> Iterator[Columns]:
    """Chunks of rows, with the columns of `layout`; ids are text."""
    wanted = {*layout.features, *layout.labels} | {name for name in (layout.id, layout.time) if name is not None}
    for chunk in read_table(path, as_text=layout.id):
        if (odd := sorted(chunk.keys() ^ wanted)) != []:
            verb = "differs" if len(odd) == 1 else "differ"
            raise InputError(f"{path} has other columns than the first table: {', '.join(odd)} {verb}")
        yield chunk


def read_table(path: Path, as_text: str | None = None) -> Iterator[Columns]:
    """Chunks of rows as columns: numbers where the first rows are numbers, text elsewhere and in `as_text`."""
    chunks = _read_parquet(path, as_text) if path.suffix.lower() == ".parquet" else _read_csv(path, as_text)
    empty = True
    for chunk in chunks:
        empty = False
        yield {name: column for name, column in chunk.items() if not INDEX_COLUMN.fullmatch(name)}
    if empty:
        raise InputError(f"{path} holds no rows, wanted a line of names and a row for each moment")


def _read_csv(path: Path, as_text: str | None) -> Iterator[Columns]:
    names, rows = read_csv(path)
    if all(_number(name) is not None for name in names):
        raise InputError(f"{path} begins with numbers ({', '.join(names[:3])}), wanted a line of column names")
    done, kinds = 0, None
    while chunk := list(islice(rows, CHUNK_ROWS)):
        columns = dict(zip(names, zip(*chunk, strict=True), strict=True))
        if kinds is None:
            kinds = {name: name != as_text and all(map(_may_be_number, column)) for name, column in columns.items()}
        yield {name: _typed(path, name, column, kinds[name], done) for name, column in columns.items()}
        done += len(chunk)


def _read_parquet(path: Path, as_text: str | None) -> Iterator[Columns]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise Unavailable(f"reading {path} needs pyarrow: pip install 'diskoop[parquet]'") from None
    with decoding(path, "Parquet table"), parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(CHUNK_ROWS):
            yield {name: _from_arrow(batch.column(name), name == as_text) for name in batch.schema.names}


def _from_arrow(column: Any, as_text: bool) -> NDArray[Any]:
    if as_text:
        return np.array(["" if value is None else str(value) for value in column.to_pylist()])
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind in "uifb":
        return np.asarray(values, np.float64)
    return np.asarray(values) if values.dtype.kind == "M" else np.array([str(value) for value in values])


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
    """The number in a cell, NaN where it is empty, None where it is text."""
    if not cell or cell.lower() in ("na", "n/a", "#n/a", "null", "none"):
        return float("nan")
    if "_" in cell:  # Python reads 1_000 as a thousand
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def _features(path: Path, layout: Layout, chunk: Columns) -> NDArray[np.float64]:
    """Features of a chunk, (row, feature)."""
    for name in layout.features:
        if chunk[name].dtype.kind != "f":
            raise InputError(f"{path}: column {name!r} holds words such as {str(chunk[name][0])!r}, wanted numbers")
    return np.stack([chunk[name] for name in layout.features], axis=1)


def _parse_times(path: Path, name: str, column: NDArray[Any]) -> NDArray[Any]:
    """Times as numbers or datetime64, none missing."""
    if column.dtype.kind not in "fM":
        try:
            column = column.astype("datetime64[us]")
        except ValueError:
            raise InputError(
                f"{path}: the time column {name!r} holds {str(column[0])!r}, wanted numbers or dates such as "
                "2024-01-31T12:00"
            ) from None
    missing = np.isnat(column) if column.dtype.kind == "M" else np.isnan(column)
    if missing.any():
        raise InputError(f"{path}: the time column {name!r} is empty in row {int(np.argmax(missing)) + 1}; fill it in")
    return column


def _changing_label(where: str, name: str) -> InputError:
    return InputError(
        f"{where}: the words in column {name!r} change; leave the column out, or if it tells sequences apart, say "
        f"data.id={name}"
    )


def _to_text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float | np.floating) and float(value).is_integer() else str(value)


def first_layout(files: Iterable[Path], id: str | None, time: str | None, skip_bad: bool) -> Layout:
    """The layout of the first table, or of the first that can be read."""
    last: InputError | None = None
    for file in files:
        try:
            return infer_layout(file, id, time)
        except InputError as error:
            if not skip_bad:
                raise
            last = last or error
    assert last is not None
    raise last
