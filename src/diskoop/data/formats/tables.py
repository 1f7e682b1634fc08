"""reads tables (CSV, Parquet): one for each sequence, or many sequences in one with id and time columns"""

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diskoop.data.cache import progress_bar
from diskoop.data.clips import Blocks, Clip, decoding
from diskoop.data.csv_rows import read_csv
from diskoop.data.formats.columns import (
    Cells,
    Column,
    ColumnSummary,
    Kind,
    Roles,
    TableOptions,
    check_names,
    format_time,
    guess_kind,
    parse_number,
)
from diskoop.data.gaps import Segment, complete_segments, fill_gaps, in_segments
from diskoop.errors import InputError, MissingDependencyError, counted
from diskoop.input_files import check_expansion
from diskoop.storage import cache_folder, write_errors

ID_NAMES = ("id", "sequence", "sequence_id", "series", "series_id")
INDEX_COLUMN = re.compile(r"|Unnamed: \d+|__index_level_\d+__")  # row numbers written by pandas and others
CHUNK_ROWS = 10_000  # read at a time
Columns = dict[str, Cells]  # name -> (row,)
MAX_REPEATED = 0.05  # of the rows of a sequence may have the time of another
MAX_IRREGULAR = 0.2  # of the steps in time, beyond which a long step is no gap


class TableReader:
    """Reads tables into clips, and tells what became of their columns and gaps.

    All rows go through a temporary file as float64: words as codes, dates as microseconds. What a column is can then be
    decided from all rows of all tables, while only ids and the different words stay in memory.
    """

    def __init__(self, root: Path, files: Sequence[Path], options: TableOptions) -> None:
        self.root, self.files, self.options = root, files, options
        self.names: dict[str, None] = {}  # of all columns in all tables
        self.gap_counts = _GapCounts()
        self.time_counts = _TimeCounts()

    def clips(self) -> list[Clip]:
        """A clip for each table, or for each value of the id column in each table, its rows in any order.

        A table that cannot be read becomes a clip that raises its error.
        """
        self.id, self.columns = self._first_layout()
        store = _RowStore()
        errors: dict[Path, InputError] = {}
        with progress_bar("reading tables", len(self.files)) as advance:
            for file in self.files:
                mark = store.mark()
                try:
                    self._store_rows(file, store)
                except MissingDependencyError:
                    raise
                except InputError as error:
                    store.rewind(mark)
                    errors[file] = error
                advance(1)
        if not store.names:
            raise errors[self.files[0]]
        check_names("drop", self.options.drop, self.names, str(self.files[0]))
        rows, rows_of = store.rows(len(self.columns))
        summary = ColumnSummary.of(rows, rows_of)
        self.roles = Roles.of(self.columns, summary, self.options, str(self.files[0]))
        clips = {file: [_unreadable(self._name(file), file, error)] for file, error in errors.items()}
        for at, (name, file, place) in enumerate(zip(store.names, store.files, store.places, strict=True)):
            labels = {self.columns[c].name: self.columns[c].text(summary.firsts[at, c]) for c in self.roles.labels}
            segments: list[Segment] = []
            read = partial(self._read, rows, rows_of[at], place, segments)
            clips.setdefault(file, []).append(Clip(name, place, read, labels, segments=segments))
        return [clip for file in self.files for clip in clips[file]]

    def facts(self) -> tuple[list[str], list[str]]:
        """Names of the features, and notes; known when all clips have been read."""
        roles, notes = self.roles, []
        if roles.time:
            notes += self.time_counts.notes([self.columns[at].name for at in roles.time], self.options.max_gap)
        for at in dict.fromkeys(feature.column for feature in roles.features if feature.code is not None):
            column = self.columns[at]
            notes.append(
                f"words: {column.name!r} became {len(column.codes)} features, one for each word "
                "(data.words=drop leaves it out)"
            )
        reasons: dict[str, list[str]] = {}
        for name, reason in (*roles.left_out, *((name, "data.drop") for name in self.options.drop)):
            reasons.setdefault(reason, []).append(repr(name))
        notes += [f"left out: {', '.join(names)} ({reason})" for reason, names in reasons.items()]
        notes += self.gap_counts.notes(self.options.max_gap)
        return [feature.name for feature in roles.features], notes

    def _first_layout(self) -> tuple[str | None, list[Column]]:
        """The id column and the other columns, by the first rows of the first table that can be read."""
        options, errors = self.options, []
        for file in self.files:
            try:
                chunk = next(
                    read_table(
                        file, lambda name: name == options.id or name.casefold() in ID_NAMES, options.max_expansion
                    )
                )
            except MissingDependencyError:
                raise
            except InputError as error:
                errors.append(error)
                continue
            check_names("columns", options.columns, list(chunk), str(file))
            chunk = {name: cells for name, cells in chunk.items() if name not in options.drop}
            id = self._find_id(file, chunk)
            return id, [Column(name, guess_kind(cells)) for name, cells in chunk.items() if name != id]
        raise errors[0]

    def _find_id(self, file: Path, chunk: Columns) -> str | None:
        given = self.options.id
        if given is not None and (given != "none" or given in chunk):
            check_names("id", [given], list(chunk), str(file))
            return given
        usual = {name.casefold(): name for name in reversed(list(chunk))}
        id = next((usual[name] for name in ID_NAMES if name in usual), None)
        # A column that is different in every row numbers the rows: there is no sequence of two.
        is_id = id is not None and given is None and len(set(chunk[id])) < max(2, len(chunk[id]))
        return id if is_id else None

    def _name(self, file: Path) -> str:
        return file.relative_to(self.root).as_posix()

    def _store_rows(self, file: Path, store: "_RowStore") -> None:
        wanted = {column.name for column in self.columns} | ({self.id} if self.id is not None else set())
        prefix = "" if len(self.files) == 1 else f"{self._name(file)}: "
        done = 0
        for chunk in read_table(file, lambda name: name == self.id, self.options.max_expansion):
            self.names.update(dict.fromkeys(chunk))
            if odd := sorted(wanted ^ (chunk.keys() - set(self.options.drop))):
                verb, them = ("differs", "it") if len(odd) == 1 else ("differ", "them")
                raise InputError(
                    f"{file} has other columns than the first table: {', '.join(odd)} {verb}; "
                    f"data.drop={','.join(odd)} leaves {them} out"
                )
            rows = np.stack([column.encode(file, chunk[column.name], done) for column in self.columns], 1)
            done += len(rows)
            if self.id is None:
                store.add(rows, [self._name(file)] * len(rows), file, lambda name: f"{file}")
                continue
            if "" in chunk[self.id]:
                raise InputError(f"{file}: the id column {self.id!r} is empty in some row; fill it in")
            names = [prefix + id for id in chunk[self.id]]
            store.add(rows, names, file, lambda name: f"{file}, sequence {name.removeprefix(prefix)},")

    def _read(self, rows: NDArray[np.float64], own: NDArray[np.int64], place: str, segments: list[Segment]) -> Blocks:
        """The features of one sequence in the order of time; `segments` receives its pieces if it is cut."""
        cells, breaks = rows[own], np.zeros(0, np.int64)
        if self.roles.time:
            order, breaks = self._time_order(cells, place)
            cells = cells[order]
        x, filled = fill_gaps(
            np.stack([feature.read(cells) for feature in self.roles.features], 1), self.options.max_gap
        )
        complete = np.logical_not(np.isnan(x).any(1))
        # A piece that is shorter than the gaps that are filled says little.
        shortest = 2 if complete.all() else max(2, self.options.max_gap)
        pieces = complete_segments(complete, breaks, shortest)
        if not pieces and not complete.all():
            raise InputError(
                f"{place.rstrip(',')} has no {shortest} rows in turn without an empty cell; data.drop=COLUMN leaves a "
                "column out, data.max_gap fills longer gaps"
            )
        if pieces and pieces != [(0, len(x))]:
            segments.extend(pieces)
            x[~in_segments(pieces, 0, len(x))] = np.nan
        columns = [self.columns[feature.column].name for feature in self.roles.features]
        self.gap_counts.add(dict(zip(columns, filled.tolist(), strict=True)), pieces, len(x), place.rstrip(","))
        yield x

    def _time_order(self, cells: NDArray[np.float64], place: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Indices that sort the rows by time, and the sorted rows before which time is missing."""
        times, kind = self.roles.times(self.columns, cells)
        name = ", ".join(self.columns[at].name for at in self.roles.time)
        place = place.rstrip(",")
        if not np.isfinite(times).all():
            row = int(np.argmin(np.isfinite(times)))
            problem = "is empty" if np.isnan(times[row]) else "holds infinity"
            raise InputError(f"{place}: the time column {name!r} {problem} in row {row + 1}; fill it in")
        order = np.argsort(times, kind="stable")
        steps = np.diff(times[order])
        repeated = np.flatnonzero(steps == 0)
        if len(repeated) > MAX_REPEATED * len(times):
            raise InputError(
                f"{place} has {name} {format_time(times[order][repeated[0]], kind)} twice; if it holds several "
                "sequences, data.id=COLUMN tells them apart (data.time=none keeps the rows as they are)"
            )
        return order, self.time_counts.add(times[order], kind, self.options.max_gap, place)


def _unreadable(name: str, file: Path, error: InputError) -> Clip:
    def read() -> Blocks:
        raise error

    return Clip(name, str(file), read)


class _GapCounts:
    """How many cells were filled, and where series were cut."""

    def __init__(self) -> None:
        self.filled: Counter[str] = Counter()  # by column
        self.cut = self.pieces = self.lost = self.rows = 0
        self.longest = (0, "")  # rows, and where

    def add(self, filled: dict[str, int], pieces: Sequence[Segment], rows: int, place: str) -> None:
        self.filled.update(filled)
        self.rows += rows
        if len(pieces) == 1 and pieces[0] == (0, rows):
            return
        self.cut += 1
        self.pieces += len(pieces)
        self.lost += rows - sum(end - begin for begin, end in pieces)
        for (_, end), (begin, _) in pairwise([(0, 0), *pieces, (rows, rows)]):
            if begin - end > self.longest[0]:
                self.longest = (begin - end, f"rows {end + 1} to {begin} of {place}")

    def notes(self, max_gap: int) -> list[str]:
        notes, longest = [], counted(max_gap, "row")
        if total := self.filled.total():
            by_column = ", ".join(f"{name} {count}" for name, count in self.filled.most_common(4) if count)
            more = ", ..." if sum(count > 0 for count in self.filled.values()) > 4 else ""
            notes.append(
                f"filled: {counted(total, 'empty cell')} ({by_column}{more}) in gaps of up to {longest}, by linear "
                "interpolation (data.max_gap)"
            )
        if self.cut:
            where = f"; {self.lost} of {counted(self.rows, 'row')} are not used, most in turn {self.longest[1]}"
            notes.append(
                f"cut: {counted(self.cut, 'sequence')} into {counted(self.pieces, 'piece')}, because gaps of more than "
                f"{longest} and those at either end are not filled (data.max_gap){where if self.lost else ''}"
            )
        return notes


class _TimeCounts:
    """From when to when the rows are, and how regular their steps."""

    def __init__(self) -> None:
        self.first, self.last = np.inf, -np.inf
        self.kind: Kind = "number"
        self.steps: list[float] = []  # the usual one of each sequence
        self.irregular = self.repeated = self.count = 0
        self.missing = self.gaps = 0  # rows that regular times would have, and in how many places
        self.longest = (0.0, "")  # gap in time, and where

    def add(self, times: NDArray[np.float64], kind: Kind, max_gap: int, place: str) -> NDArray[np.int64]:
        """Count the steps of a sequence, and return the rows that a gap in time of over `max_gap` rows precedes."""
        steps = np.diff(times)
        self.first, self.last, self.kind = min(self.first, times[0]), max(self.last, times[-1]), kind
        usual = float(np.median(steps)) if len(steps) else 0.0
        irregular = np.abs(steps - usual) > 1e-3 * usual
        self.steps.append(usual)
        self.irregular += int(irregular.sum())
        self.repeated += int((steps == 0).sum())
        self.count += len(steps)
        is_regular = usual > 0 and irregular.mean() <= MAX_IRREGULAR
        if is_regular:
            self._add_gaps(times, steps, usual, place)
        return np.flatnonzero(steps > (max_gap + 1.5) * usual) + 1 if is_regular else np.zeros(0, np.int64)

    def _add_gaps(self, times: NDArray[np.float64], steps: NDArray[np.float64], usual: float, place: str) -> None:
        long = steps > 1.5 * usual
        self.missing += int((np.rint(steps[long] / usual) - 1).sum())
        self.gaps += int(long.sum())
        at = int(np.argmax(steps))
        if long.any() and steps[at] > self.longest[0]:
            first, last = (format_time(value, self.kind) for value in times[at : at + 2])
            self.longest = (float(steps[at]), f"from {first} to {last} in {place}")

    def notes(self, names: Sequence[str], max_gap: int) -> list[str]:
        """From when to when, and what is missing in between."""
        if not self.missing:
            return [self._extent(names)]
        what = f"{counted(self.missing, 'row')} in {counted(self.gaps, 'gap')} between the times of {', '.join(names)}"
        return [
            self._extent(names),
            f"missing: {what}, the longest {self.longest[1]}; sequences are cut at gaps of more than "
            f"{counted(max_gap, 'row')} (data.max_gap), and across shorter ones rows are taken to follow one another",
        ]

    def _extent(self, names: Sequence[str]) -> str:
        ends = " to ".join(format_time(value, self.kind) for value in (self.first, self.last))
        usual = format_step(float(np.median(self.steps)), self.kind)
        note = f"time: {', '.join(names)}, from {ends} in steps of {usual}"
        if self.irregular:
            note += f"; {self.irregular} of {self.count} steps are longer or shorter"
        return f"{note}, times repeat in {counted(self.repeated, 'row')}" if self.repeated else note


def format_step(step: float, kind: Kind) -> str:
    """A step in time.

    Example:
        >>> format_step(3.6e9, "date"), format_step(0.5, "number")
        ('1 h', '0.5')
    """
    if kind == "number":
        return f"{step:.4g}"
    for size, unit in ((8.64e10, "d"), (3.6e9, "h"), (6e7, "min"), (1e6, "s"), (1e3, "ms")):
        if step >= size:
            return f"{step / size:.4g} {unit}"
    return f"{step:.4g} us"


class _RowStore:
    """Rows on disk in the order of the tables, and the sequence of each row."""

    def __init__(self) -> None:
        self.names: list[str] = []  # of the sequences
        self.files: list[Path] = []  # that each is in
        self.places: list[str] = []  # for messages
        self.codes: dict[str, int] = {}  # name -> index
        self.owners: list[NDArray[np.int64]] = []  # sequence of each row, by chunk; -1: none
        # Lives as long as the clips that read from it; in the cache folder, where there is space.
        with write_errors(cache_folder()):
            cache_folder().mkdir(parents=True, exist_ok=True)
            self.file = tempfile.TemporaryFile(dir=cache_folder())  # noqa: SIM115

    def add(self, rows: NDArray[np.float64], names: Sequence[str], file: Path, place: Callable[[str], str]) -> None:
        """Append rows (row, column) of the sequences called `names`, (row,)."""
        for name in dict.fromkeys(names):
            if name not in self.codes:
                self.codes[name] = len(self.names)
                self.names.append(name)
                self.files.append(file)
                self.places.append(place(name))
        self.owners.append(np.array([self.codes[name] for name in names]))
        with write_errors(cache_folder()):
            self.file.write(rows.tobytes())

    def mark(self) -> tuple[int, int]:
        return len(self.names), len(self.owners)

    def rewind(self, mark: tuple[int, int]) -> None:
        """Forget the sequences and rows that were added since the mark."""
        sequences, chunks = mark
        for name in self.names[sequences:]:
            del self.codes[name]
        for column in (self.names, self.files, self.places):
            del column[sequences:]
        for owners in self.owners[chunks:]:
            owners[:] = -1

    def rows(self, width: int) -> tuple[NDArray[np.float64], list[NDArray[np.int64]]]:
        """All rows, (row, width), and the indices of each sequence's rows in the order of the tables."""
        with write_errors(cache_folder()):
            self.file.flush()
        owners = np.concatenate(self.owners)
        order = np.argsort(owners, kind="stable")
        edges = np.searchsorted(owners[order], np.arange(len(self.names) + 1))
        rows = np.memmap(self.file, np.float64, "r", shape=(len(owners), width))
        return rows, [order[begin:end] for begin, end in pairwise(edges)]


def read_table(
    path: Path, as_text: Callable[[str], bool] = lambda name: False, max_expansion: int = 100
) -> Iterator[Columns]:
    """Chunks of rows as columns: text of a CSV; of Parquet numbers, times or text.

    Args:
        path: of the table.
        as_text: columns of Parquet that are wanted as text, by name.
        max_expansion: how many times its size a Parquet table may unpack to where that is much.
    """
    empty = True
    for chunk in READERS[path.suffix.lower()](path, as_text, max_expansion):
        empty = False
        yield {name: column for name, column in chunk.items() if not INDEX_COLUMN.fullmatch(name)}
    if empty:
        raise InputError(f"{path} holds no rows, wanted a line of names and a row for each moment")


def _read_csv(path: Path, as_text: Callable[[str], bool], max_expansion: int) -> Iterator[Columns]:
    names, rows = read_csv(path)
    if all(parse_number(name) is not None for name in names):
        raise InputError(f"{path} begins with numbers ({', '.join(names[:3])}), wanted a line of column names")
    while chunk := list(islice(rows, CHUNK_ROWS)):
        yield dict(zip(names, zip(*chunk, strict=True), strict=True))


def _read_parquet(path: Path, as_text: Callable[[str], bool], max_expansion: int) -> Iterator[Columns]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise MissingDependencyError(f"reading {path} needs pyarrow: pip install 'diskoop[parquet]'") from None
    with decoding(path, "Parquet table"), parquet.ParquetFile(path) as file:
        # Rows go to disk as float64; values that repeat may take next to nothing in the file.
        check_expansion(path, file.metadata.num_rows * file.metadata.num_columns * 8, max_expansion)
        for batch in file.iter_batches(CHUNK_ROWS):
            yield {name: _from_arrow(batch.column(name), as_text(name)) for name in batch.schema.names}


# The kinds of tables: what `read_table` reads, by the end of the name, with its other arguments.
READERS: dict[str, Callable[[Path, Callable[[str], bool], int], Iterator[Columns]]] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".parquet": _read_parquet,
}
SUFFIXES = tuple(READERS)


def _from_arrow(column: Any, as_text: bool) -> Cells:
    values = column.to_pylist() if as_text else column.to_numpy(zero_copy_only=False)
    if not as_text and values.dtype.kind in "uifb":
        return np.asarray(values, np.float64)
    if not as_text and values.dtype.kind == "M":
        return np.asarray(values)
    return ["" if value is None else str(value) for value in values]
