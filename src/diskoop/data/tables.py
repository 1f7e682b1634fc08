"""CSV and Parquet tables: one for each sequence, or many in one with id and time columns"""

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
from diskoop.data.rows import csv_rows
from diskoop.errors import InputError, Unavailable, suggest
from diskoop.storage import cache_folder

SUFFIXES = (".csv", ".tsv", ".parquet")
IDS = ("id", "sequence", "sequence_id", "series", "series_id")
TIMES = ("time", "t", "timestamp", "step", "frame")
NUMBERING = re.compile(r"|Unnamed: \d+|__index_level_\d+__")  # columns that programs add of their own accord
ROWS = 10_000  # read together
Columns = dict[str, NDArray[Any]]  # name -> numbers (float64), moments (datetime64) or text


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
    no_id = id == "none" and id not in names
    id = None if no_id else id
    for role, given in (("id", id), ("time", time)):
        if given is not None and given not in names:
            raise InputError(f"data.{role} = {given}, but {path} has no such column; {suggest(given, names)}")
    usual = {name.lower(): name for name in reversed(names)}
    id = None if no_id else id or next((usual[name] for name in IDS if name in usual), None)
    time = time or next((usual[name] for name in TIMES if name in usual), None)
    rest = [name for name in names if name not in (id, time)]
    features = tuple(name for name in rest if chunk[name].dtype.kind == "f")
    if not features:
        words = chain.from_iterable(column[:3].tolist() for column in chunk.values() if column.dtype.kind == "U")
        comma = next((word for word in words if re.fullmatch(r"-?\d+,\d+", word)), None)
        fix = f"; write {comma} as {comma.replace(',', '.')}" if comma else ""
        raise InputError(f"{path} has no column of numbers to learn from, got {', '.join(names)}{fix}")
    return Layout(features, tuple(name for name in rest if name not in features), time, id)


def table_clips(root: Path, files: Sequence[Path], roles: Layout) -> list[Clip]:
    """A clip for each table."""
    clips = []
    for file in files:
        labels: dict[str, str] = {}  # known once the table has been read
        read = lambda file=file, labels=labels: _one_sequence(file, roles, labels)  # noqa: E731
        clips.append(Clip(file.relative_to(root).as_posix(), str(file), read, labels))
    return clips


def _one_sequence(file: Path, roles: Layout, labels: dict[str, str]) -> Blocks:
    chunks = list(_chunks(file, roles))
    moments = [_moments(file, roles.time, chunk[roles.time]) for chunk in chunks] if roles.time else []
    for name in roles.words:
        different = list(dict.fromkeys(word for chunk in chunks for word in chunk[name].astype(str)))
        if len(different) > 1:
            raise _changing(f"{file}", name)
        labels[name] = different[0]
    features = np.concatenate([_features(file, roles, chunk) for chunk in chunks])
    yield features[_in_order(f"{file}", np.concatenate(moments), roles)] if moments else features


def long_table_clips(root: Path, files: Sequence[Path], roles: Layout) -> list[Clip]:
    """A clip for each value of the id column in each table, whatever the order of its rows.

    The numbers go to a temporary file first; only ids and times stay in memory.
    """
    spill = _Spill(roles)
    for file in files:
        prefix = "" if len(files) == 1 else f"{file.relative_to(root).as_posix()}: "
        for chunk in _chunks(file, roles):
            spill.add(file, prefix, chunk)
    return spill.clips()


class _Spill:
    """Rows on disk in the order they came, and where each sequence's rows are."""

    def __init__(self, roles: Layout) -> None:
        self.roles = roles
        self.codes: dict[str, int] = {}  # clip -> its number
        self.places: list[str] = []  # what messages call it
        self.words: list[dict[str, str]] = []
        self.owners: list[NDArray[np.int64]] = []
        self.times: list[NDArray[Any]] = []
        cache_folder().mkdir(parents=True, exist_ok=True)
        # Lives as long as the clips that read from it; beside the cache, where there is room.
        self.file = tempfile.TemporaryFile(dir=cache_folder())  # noqa: SIM115

    def add(self, path: Path, prefix: str, chunk: Columns) -> None:
        roles = self.roles
        assert roles.id is not None
        ids = [str(id) for id in chunk[roles.id].tolist()]
        if "" in ids:
            raise InputError(f"{path}: the id column {roles.id!r} is empty in some row; fill it in")
        words = {name: chunk[name].astype(str) for name in roles.words}
        for row, id in enumerate(ids):
            if prefix + id not in self.codes:
                self.codes[prefix + id] = len(self.codes)
                self.places.append(f"{path}, sequence {id},")
                self.words.append({name: str(column[row]) for name, column in words.items()})
        owners = np.array([self.codes[prefix + id] for id in ids])
        for name, column in words.items():
            changed = np.flatnonzero(column != np.array([self.words[owner][name] for owner in owners]))
            if changed.size:
                raise _changing(f"{path}, sequence {ids[changed[0]]}", name)
        self.owners.append(owners)
        if roles.time is not None:
            self.times.append(_moments(path, roles.time, chunk[roles.time]))
        self.file.write(_features(path, roles, chunk).tobytes())

    def clips(self) -> list[Clip]:
        self.file.flush()
        owners, features = np.concatenate(self.owners), self.roles.features
        rows = np.memmap(self.file, np.float64, "r", shape=(len(owners), len(features)))
        order = np.argsort(owners, kind="stable")
        edges = np.searchsorted(owners[order], np.arange(len(self.codes) + 1))
        mine = [order[begin:end] for begin, end in pairwise(edges)]
        if self.times:
            times = np.concatenate(self.times)
            at = zip(self.places, mine, strict=True)
            mine = [place[_in_order(where.rstrip(","), times[place], self.roles)] for where, place in at]
        steady = _steady(rows, mine)
        moving = np.flatnonzero(~steady)
        if not len(moving):
            raise InputError(
                f"{self.places[0].split(', sequence')[0]}: no column of numbers changes within a sequence, so there is "
                "nothing to learn from"
            )
        clips = []
        for name, number in self.codes.items():
            first = rows[mine[number][0]]
            said = {feature: _whole(first[at]) for at, feature in enumerate(features) if steady[at]}
            read = lambda place=mine[number]: iter([rows[place][:, moving]])  # noqa: E731
            clips.append(Clip(name, self.places[number], read, self.words[number] | said))
        return clips


def _steady(rows: NDArray[np.float64], sequences: list[NDArray[np.int64]]) -> NDArray[np.bool_]:
    """Columns of whole numbers that never change within a sequence but do between them: labels, not features."""
    steady = np.ones(rows.shape[1], bool)
    firsts = []
    for place in sequences:
        values = rows[place]
        steady &= (values == values[0]).all(0) & (values[0] == np.rint(values[0]))
        firsts.append(values[0])
    differ: NDArray[np.bool_] = np.ptp(np.array(firsts), axis=0) > 0
    return steady & differ


def _in_order(where: str, times: NDArray[Any], roles: Layout) -> NDArray[np.int64]:
    """The order of rows in time; two at one moment are rows of two sequences."""
    order = np.argsort(times, kind="stable")
    twice = np.flatnonzero(times[order][1:] == times[order][:-1])
    if twice.size:
        raise InputError(
            f"{where} has {roles.time} {_whole(times[order][twice[0]])} twice; if it holds several sequences, "
            "data.id=COLUMN tells them apart"
        )
    return order


def _chunks(path: Path, roles: Layout) -> Iterator[Columns]:
    """Some rows at a time, if the columns are those of `roles`; ids as they are written."""
    wanted = {*roles.features, *roles.words} | {name for name in (roles.id, roles.time) if name is not None}
    for chunk in read_table(path, as_text=roles.id):
        if (odd := sorted(chunk.keys() ^ wanted)) != []:
            verb = "differs" if len(odd) == 1 else "differ"
            raise InputError(f"{path} has other columns than the first table: {', '.join(odd)} {verb}")
        yield chunk


def read_table(path: Path, as_text: str | None = None) -> Iterator[Columns]:
    """Some rows at a time, as columns: numbers where the first rows are numbers, text elsewhere and for `as_text`."""
    chunks = _parquet(path, as_text) if path.suffix.lower() == ".parquet" else _csv(path, as_text)
    empty = True
    for chunk in chunks:
        empty = False
        yield {name: column for name, column in chunk.items() if not NUMBERING.fullmatch(name)}
    if empty:
        raise InputError(f"{path} holds no rows, wanted a line of names and a row for each moment")


def _csv(path: Path, as_text: str | None) -> Iterator[Columns]:
    names, rows = csv_rows(path)
    if all(_number(name) is not None for name in names):
        raise InputError(f"{path} begins with numbers ({', '.join(names[:3])}), wanted a line of column names")
    done, kinds = 0, None
    while some := list(islice(rows, ROWS)):
        columns = dict(zip(names, zip(*some, strict=True), strict=True))
        if kinds is None:
            kinds = {name: name != as_text and all(map(_may_be_number, column)) for name, column in columns.items()}
        yield {name: _typed(path, name, column, kinds[name], done) for name, column in columns.items()}
        done += len(some)


def _parquet(path: Path, as_text: str | None) -> Iterator[Columns]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise Unavailable(f"reading {path} takes pyarrow: pip install 'diskoop[parquet]'") from None
    with decoding(path, "Parquet table"), parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(ROWS):
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
    """A cell's number, NaN where it is empty, None where it is a word."""
    if not cell or cell.lower() in ("na", "n/a", "#n/a", "null", "none"):
        return float("nan")
    if "_" in cell:  # Python takes 1_000 for a thousand
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def _features(path: Path, roles: Layout, chunk: Columns) -> NDArray[np.float64]:
    """(rows, feature)."""
    for name in roles.features:
        if chunk[name].dtype.kind != "f":
            raise InputError(f"{path}: column {name!r} holds words such as {str(chunk[name][0])!r}, wanted numbers")
    return np.stack([chunk[name] for name in roles.features], axis=1)


def _moments(path: Path, name: str, column: NDArray[Any]) -> NDArray[Any]:
    """Times as numbers or dates, none missing."""
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


def _changing(where: str, name: str) -> InputError:
    return InputError(
        f"{where}: the words in column {name!r} change; leave the column out, or if it tells sequences apart, say "
        f"data.id={name}"
    )


def _whole(value: Any) -> str:
    return str(int(value)) if isinstance(value, float | np.floating) and float(value).is_integer() else str(value)


def first_layout(files: Iterable[Path], id: str | None, time: str | None, skip_bad: bool) -> Layout:
    """The layout of the first table, or of the first that can be read."""
    last: InputError | None = None
    for file in files:
        try:
            return layout(file, id, time)
        except InputError as error:
            if not skip_bad:
                raise
            last = last or error
    assert last is not None
    raise last
