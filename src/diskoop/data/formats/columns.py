"""columns of a table: what their cells hold, and which are features, labels, times or of no use"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from diskoop.data.clips import natural_key
from diskoop.errors import InputError, suggest
from diskoop.settings import DataSettings

TIME_NAMES = ("time", "t", "timestamp", "step", "frame")
DATE_PARTS = ("year", "month", "day", "hour", "minute", "second")
DATE_PART_RANGES = ((1, 9999), (1, 12), (1, 31), (0, 24), (0, 59), (0, 60))
ROW_NUMBER_NAME = re.compile(  # of a column that may count the rows, in lower case, without other signs than letters
    "no|nr|n|num|number|index|idx|row|rowid|rowno|rownum|rownumber|id|sno|serial|obs|observation|record|recno|"
)
MISSING_NUMBERS = ("", "na", "n/a", "#n/a", "null", "none", "<na>", "nan", "?", "-", "--", ".")
MISSING_WORDS = ("", "na", "n/a", "#n/a", "null", "<na>", "nan", "?")
MICROSECONDS_A_YEAR = 3.15576e13
MOST = 0.9  # of the cells in a column that are numbers: the others are mistakes
MAX_MISSING = 0.5  # of the cells in a feature
FEW_WORDS = 20  # different ones up to which a column of words becomes features
MAX_WORDS = 1000

Kind = Literal["number", "date", "clock", "words"]
Cells = NDArray[Any] | Sequence[str]  # float64, datetime64, or text

_EPOCH = datetime(1970, 1, 1)
_DATE = re.compile(
    r"(\d{4})[-/](\d\d?)(?:[-/](\d\d?))?(?:[T ]+(\d\d?)(?::(\d\d)(?::(\d\d)(\.\d+)?)?)?)? *(Z|[+-]\d\d:?\d\d)?"
)
_CLOCK = re.compile(r"(\d\d?):(\d\d)(?::(\d\d)(\.\d+)?)?")
_OTHER_DATE = re.compile(r"\d\d?([./-])\d\d?\1\d{2,4}\b.*")
_COMMA_NUMBER = re.compile(r"-?\d+,\d+")


@dataclass(frozen=True)
class TableOptions:
    """What the user says about the columns of tables."""

    id: str | None = None  # the column that tells sequences apart; None looks for a usual name, "none" is no column
    time: str | None = None  # the column that orders rows; None looks for times and dates, "none" is no column
    columns: tuple[str, ...] = ()  # the features; () takes all that can be
    drop: tuple[str, ...] = ()  # columns that are not read
    words: Literal["auto", "categories", "drop"] = "auto"  # what becomes of words that change within a sequence
    max_gap: int = 6  # rows to interpolate across
    max_expansion: int = 100  # times its size that a Parquet table may unpack to

    @classmethod
    def of(cls, settings: DataSettings) -> "TableOptions":
        columns, drop = (_split_names(text) for text in (settings.columns, settings.drop))
        return cls(settings.id, settings.time, columns, drop, settings.words, settings.max_gap, settings.max_expansion)


def _split_names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


@dataclass
class Column:
    """A column of which all cells are held as float64, NaN where they are empty."""

    name: str
    kind: Kind
    codes: dict[str, int] = field(default_factory=dict)  # of words

    def encode(self, path: Path, cells: Cells, done: int) -> NDArray[np.float64]:
        """Numbers as they are, dates and clock times in microseconds, words by their codes.

        Args:
            path: of the table, for messages.
            cells: (row,).
            done: rows above these, for messages.
        """
        if isinstance(cells, np.ndarray) and cells.dtype.kind == "M":
            return _microseconds(cells)
        if isinstance(cells, np.ndarray) and self.kind == "number":
            return cells.astype(np.float64)
        texts = [to_text(cell) for cell in cells]
        if self.kind == "words":
            words = (text if text.casefold() not in MISSING_WORDS else None for text in texts)
            return np.array(
                [np.nan if word is None else self.codes.setdefault(word, len(self.codes)) for word in words]
            )
        parse = {"number": parse_number, "date": parse_date, "clock": parse_clock}[self.kind]
        numbers = [parse(text) for text in texts]
        if None in numbers:
            row = numbers.index(None)
            wanted = {"number": "a number", "date": "a date such as 2024-01-31", "clock": "a time such as 12:30"}
            raise InputError(
                f"{path}: column {self.name!r} holds {texts[row]!r} in row {done + row + 1}, wanted "
                f"{wanted[self.kind]}; mend it, or data.drop={self.name} leaves the column out"
            )
        return np.array(numbers, np.float64)

    def text(self, value: float) -> str:
        """A cell's value in words."""
        if np.isnan(value):
            return ""
        if self.kind == "words":
            return list(self.codes)[int(value)]
        return format_time(value, self.kind)

    @property
    def words(self) -> list[str]:
        """All words, in natural order."""
        return sorted(self.codes, key=natural_key)


def _microseconds(cells: NDArray[Any]) -> NDArray[np.float64]:
    """Dates as microseconds since 1970; those that no 64 bits of microseconds hold too, less exactly."""
    far = cells.astype(np.int64) * (np.ones((), cells.dtype.str.replace("M", "m")) / np.timedelta64(1, "us"))
    is_near = np.abs(far) < 2**63
    near = np.where(is_near, cells, np.zeros((), cells.dtype)).astype("datetime64[us]").astype(np.int64)
    return np.where(np.isnat(cells), np.nan, np.where(is_near, near.astype(np.float64), far))


def guess_kind(cells: Cells) -> Kind:
    """What a column holds, from its first rows."""
    if isinstance(cells, np.ndarray):
        return "date" if cells.dtype.kind == "M" else "number"
    known = [cell for cell in cells if cell.casefold() not in MISSING_NUMBERS]
    if sum(parse_number(cell) is not None for cell in known) >= MOST * len(known):
        return "number"
    for kind, parse in (("date", parse_date), ("clock", parse_clock)):
        if all(parse(cell) is not None for cell in known):
            return kind  # type: ignore[return-value]
    return "words"


def parse_number(cell: str) -> float | None:
    """The number in a cell, NaN where it is empty, None where it is text."""
    if cell.casefold() in MISSING_NUMBERS:
        return float("nan")
    if "_" in cell:  # Python reads 1_000 as a thousand
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def parse_date(cell: str) -> float | None:
    """Microseconds since 1970 of a date with the year first, in UTC where it names a zone; None for anything else.

    Example:
        >>> parse_date("1970-01-02"), parse_date("1970/1/1 0:30+01:00"), parse_date("31.1.1970")
        (86400000000.0, -1800000000.0, None)
    """
    if cell.casefold() in MISSING_NUMBERS:
        return float("nan")
    if (match := _DATE.fullmatch(cell)) is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    try:
        days = datetime(year, month, day if match[3] else 1) - _EPOCH
    except ValueError:
        return None
    clock = 3600 * hour + 60 * minute + second + float(match[7] or 0)
    return 1e6 * (86_400 * days.days + clock - _zone_seconds(match[8])) if hour <= 24 else None


def _zone_seconds(text: str | None) -> int:
    """How far a zone such as +01:00 is ahead of UTC."""
    if text is None or text == "Z":
        return 0
    seconds = 3600 * int(text[1:3]) + 60 * int(text[-2:])
    return -seconds if text[0] == "-" else seconds


def parse_clock(cell: str) -> float | None:
    """Microseconds since midnight of a time such as 12:30; None for anything else."""
    if cell.casefold() in MISSING_NUMBERS:
        return float("nan")
    if (match := _CLOCK.fullmatch(cell)) is None:
        return None
    return int(match[1]) * 3.6e9 + int(match[2]) * 6e7 + int(match[3] or 0) * 1e6 + float(match[4] or 0) * 1e6


def format_time(value: float, kind: Kind) -> str:
    """A number, a date or a clock time as text.

    Example:
        >>> format_time(3.0, "number"), format_time(0.0, "date"), format_time(1.8e9, "clock")
        ('3', '1970-01-01', '00:30')
    """
    if kind == "number":
        return to_text(value)
    if not -(2**63) < value < 2**63:  # 300,000 years away: a column in seconds may hold it
        return f"{value / MICROSECONDS_A_YEAR:.4g} years after 1970"
    day, _, clock = str(np.datetime64(int(value), "us")).partition("T")  # beyond the years 1 to 9999, too
    clock = clock.removesuffix(".000000").removesuffix(":00")
    if kind == "clock":
        return clock
    return day if clock == "00:00" else f"{day} {clock}"


def to_text(value: Any) -> str:
    """A cell as text; 3.0 is 3."""
    is_whole = isinstance(value, float | np.floating) and float(value).is_integer() and abs(float(value)) < 2**53
    return str(int(value)) if is_whole else str(value)


@dataclass(frozen=True, eq=False)
class ColumnSummary:
    """What can be said of each column from all rows, (column,) each unless noted; missing cells do not count."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    changes: NDArray[np.bool_]  # within some sequence
    runs: NDArray[np.int64]  # stretches of rows in which the value stays, over all sequences
    counting: NDArray[np.bool_]  # goes up by one from row to row, in every sequence
    whole: NDArray[np.bool_]  # holds whole numbers only
    missing: NDArray[np.float64]  # fraction of the cells
    longest: int  # rows of the longest sequence
    firsts: NDArray[np.float64]  # (sequence, column) the lowest value, which is the only one where nothing changes

    @classmethod
    def of(cls, rows: NDArray[np.float64], rows_of: Sequence[NDArray[np.int64]]) -> "ColumnSummary":
        """
        Args:
            rows: (row, column), NaN for a missing cell.
            rows_of: the rows of each sequence.
        """
        count = rows.shape[1]
        changes, counting, whole = np.zeros(count, bool), np.ones(count, bool), np.ones(count, bool)
        missing, runs = np.zeros(count), np.zeros(count, np.int64)
        lows, highs = [], []
        for own in rows_of:
            values = rows[own]
            known = ~np.isnan(values)
            lows.append(np.fmin.reduce(values))
            highs.append(np.fmax.reduce(values))
            changes |= lows[-1] < highs[-1]
            with np.errstate(invalid="ignore"):  # between infinities; they are refused when they are read
                steps = np.diff(values, axis=0)
            counting &= (steps == 1).all(0) & (len(own) > 1)
            runs += 1 + (steps != 0).sum(0)
            whole &= ((values == np.rint(values)) | ~known).all(0)
            missing += (~known).sum(0)
        firsts = np.array(lows)
        total = max(1, sum(map(len, rows_of)))
        low, high = np.fmin.reduce(firsts), np.fmax.reduce(np.array(highs))
        return cls(low, high, changes, runs, counting, whole, missing / total, max(map(len, rows_of)), firsts)


class Feature(NamedTuple):
    """One feature of the sequences."""

    name: str
    column: int
    code: int | None = None  # of the word for which it is 1; None: the column's numbers themselves

    def read(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Its values in rows (time, column), (time,)."""
        values = rows[:, self.column]
        return values if self.code is None else np.where(np.isnan(values), np.nan, values == self.code)


@dataclass(frozen=True)
class Roles:
    """What becomes of each column."""

    features: tuple[Feature, ...]
    labels: tuple[int, ...]  # columns with one value a sequence
    time: tuple[int, ...]  # columns that order the rows: one, a date and a clock time, or the parts of a date
    left_out: tuple[tuple[str, str], ...]  # name of a column, and why

    @classmethod
    def of(cls, columns: Sequence[Column], summary: ColumnSummary, options: TableOptions, place: str) -> "Roles":
        """Decide by the columns' names and contents and by what the user says.

        Args:
            columns: all but the id column.
            summary: of these columns.
            options: the user's.
            place: of the tables, for messages.
        """
        parts = _date_parts(columns, summary)
        time = _time_columns(columns, summary, parts, options, place)
        features: list[Feature] = []
        labels: list[int] = []
        left_out: list[tuple[str, str]] = []
        for at, column in enumerate(columns):
            chosen = column.name in options.columns
            reason: str | None = None
            if at in time and not chosen:
                continue
            if column.kind != "number" and not summary.changes[at]:
                labels.append(at)
                continue
            differs = len(np.unique(summary.firsts[:, at])) > 1
            if column.kind == "number" and not chosen and summary.whole[at] and differs and not summary.changes[at]:
                labels.append(at)
                continue
            if options.columns and not chosen:
                reason = "not in data.columns"
            elif column.kind in ("date", "clock"):
                reason = "a second time" if time else "a time of day without a date"
            elif column.kind == "words":
                reason = _words_reason(column, summary.runs[at], len(summary.firsts), chosen, options)
            elif not chosen and at in parts:
                reason = "part of a date"
            elif not chosen and summary.counting[at] and ROW_NUMBER_NAME.fullmatch(_letters(column.name)):
                reason = "counts the rows"
            elif not chosen and summary.missing[at] > MAX_MISSING:
                reason = f"{100 * summary.missing[at]:.0f}% empty"
            if reason is not None:
                left_out.append((column.name, reason))
            elif column.kind == "words":
                features += [Feature(f"{column.name}={word}", at, column.codes[word]) for word in column.words]
            else:
                features.append(Feature(column.name, at))
        if not features or (summary.longest > 1 and not any(summary.changes[feature.column] for feature in features)):
            raise _nothing_to_learn(columns, left_out, place)
        labels.sort(key=lambda at: columns[at].kind == "number")  # words first
        return cls(tuple(features), tuple(labels), time, tuple(left_out))

    def times(self, columns: Sequence[Column], rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], Kind]:
        """The time of each row (time, column), (time,), as numbers or microseconds, and which of them."""
        values = rows[:, list(self.time)]
        kinds = [columns[at].kind for at in self.time]
        if len(kinds) == 1 or "number" not in kinds:
            return values.sum(1), max(kinds)  # a date is more than a clock time, also in the alphabet
        parts = np.tile(np.array([1970, 1, 1, 0, 0, 0]), (len(values), 1))
        parts[:, : values.shape[1]] = np.nan_to_num(values)
        year, month, day, hour, minute, second = parts.T
        months = (year - 1970).astype("datetime64[Y]").astype("datetime64[M]") + (month - 1)
        days = months.astype("datetime64[D]") + (day - 1)
        micros = days.astype("datetime64[us]").astype(np.int64) + 1_000_000 * (3600 * hour + 60 * minute + second)
        return np.where(np.isnan(values).any(1), np.nan, micros), "date"


def check_names(option: str, given: Iterable[str], known: Collection[str], place: str) -> None:
    """Raise an InputError that suggests the nearest column where a name is no column."""
    for name in given:
        if name not in known:
            raise InputError(f"data.{option} = {name}, but {place} has no such column; {suggest(name, known)}")


def _letters(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.casefold())


def _date_parts(columns: Sequence[Column], summary: ColumnSummary) -> tuple[int, ...]:
    """Columns year, month, and as far as there are any day, hour, minute and second, if they hold such numbers."""
    places = {column.name.casefold(): at for at, column in reversed(list(enumerate(columns)))}
    parts: list[int] = []
    for name, (low, high) in zip(DATE_PARTS, DATE_PART_RANGES, strict=True):
        at = places.get(name)
        if at is None or columns[at].kind != "number" or not summary.whole[at]:
            break
        if not low <= summary.low[at] <= summary.high[at] <= high:
            break
        parts.append(at)
    return tuple(parts) if len(parts) >= 2 and summary.changes[parts].any() else ()


def _time_columns(
    columns: Sequence[Column], summary: ColumnSummary, parts: tuple[int, ...], options: TableOptions, place: str
) -> tuple[int, ...]:
    """The columns that order the rows: data.time, a usual name, the parts of a date, or dates that change."""
    names = [column.name for column in columns]
    if options.time is not None:
        if options.time == "none" and "none" not in names:
            return ()
        check_names("time", [options.time], names, place)
    dates, clocks = (
        tuple(at for at, column in enumerate(columns) if column.kind == kind and summary.changes[at])[:1]
        for kind in ("date", "clock")
    )
    usual = {name.casefold(): at for at, name in reversed(list(enumerate(names)))}
    named = names.index(options.time) if options.time else next((usual[n] for n in TIME_NAMES if n in usual), None)
    if named is None:
        return parts or (dates and dates + clocks)
    column = columns[named]
    if column.kind == "words":
        raise InputError(
            f"{place}: the time column {column.name!r} holds {column.words[0]!r}, wanted numbers or dates such as "
            "2024-01-31T12:00"
        )
    return (*dates, named) if column.kind == "clock" else (named,)


def _words_reason(column: Column, runs: int, sequences: int, chosen: bool, options: TableOptions) -> str | None:
    """Why words that change within a sequence are no features; None if they are."""
    count = len(column.codes)
    if all(_COMMA_NUMBER.fullmatch(word) for word in column.codes):
        word = next(iter(column.codes))
        return f"write {word} as {word.replace(',', '.')}"
    if all(_OTHER_DATE.fullmatch(word) for word in column.codes):
        return "dates are recognised as 2024-01-31"
    if options.words == "drop" and not chosen:
        return "words, by data.words"
    take = chosen or options.words == "categories"
    if take and count > MAX_WORDS:
        raise InputError(
            f"column {column.name!r} holds {count} different words, wanted at most {MAX_WORDS} to make a feature of "
            f"each; data.drop={column.name} leaves it out"
        )
    if take or count <= FEW_WORDS:
        return None
    hint = f"; data.id={column.name} if it tells sequences apart" if sequences < count == runs else ""
    return f"{count} different words{hint}"


def _nothing_to_learn(columns: Sequence[Column], left_out: Sequence[tuple[str, str]], place: str) -> InputError:
    if any(column.kind == "number" for column in columns):
        return InputError(f"{place}: no column of numbers changes within a sequence, so there is nothing to learn from")
    fix = next((f"; {reason}" for _, reason in left_out if reason.startswith("write ")), "")
    names = ", ".join(column.name for column in columns)
    return InputError(f"{place} has no column of numbers to learn from, got {names}{fix}")
