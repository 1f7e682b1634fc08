"""labels from folders, CSV files and arrays -> codes and their meaning"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diskoop.data.clips import natural_key
from diskoop.data.csv_rows import read_csv
from diskoop.data.sequences import Indices
from diskoop.errors import InputError, quoted
from diskoop.input_files import escape_controls, exists

LABEL_FILES = ("labels.csv", "manifest.csv", "metadata.csv")  # read as labels when directly in the data folder
SPLIT_WORDS = {"train": 0, "training": 0, "val": 1, "valid": 1, "validation": 1, "dev": 1, "test": 2, "testing": 2}
ROW_NUMBER_NAMES = ("index", "row", "sequence", "id")  # names of a first column that may number the sequences
UNKNOWN = "unknown"  # the label of a clip that lies in no folder where others do
MAX_TEXT = 500  # characters of a label's name or value: no picture can show longer ones
FEW = 20  # sequences up to which a column may have a value for each and still be a label


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels of n clips."""

    codes: dict[str, Indices]  # name -> (n,)
    values: dict[str, tuple[str, ...]]  # name -> meaning of each code
    split_codes: NDArray[np.int8] | None  # (n,), where the user gives the split
    notes: tuple[str, ...]  # columns that are no labels, and why


def encode_labels(columns: Mapping[str, Sequence[Any] | NDArray[Any]], always: Sequence[str | None] = ()) -> Labels:
    """Encode the values of columns as integers, in natural order.

    Args:
        columns: name -> one value a clip, (n,). A column called `split` gives the split; columns of measurements, or
            with too many different values, are no labels.
        always: names of columns that are labels in any case.

    Example:
        >>> labels = encode_labels({"take": ["10", "9", "10"]})
        >>> labels.codes["take"].tolist(), labels.values
        ([1, 0, 1], {'take': ('9', '10')})
    """
    codes, values, notes, split_codes = {}, {}, [], None
    for name, column in columns.items():
        entries, entry_of = _distinct_texts(column)
        if name.casefold() == "split" and any(entry.casefold() in SPLIT_WORDS for entry in entries):
            split_codes = _encode_split(entries)[entry_of]
            continue
        count, unique = len(entry_of), sorted(set(entries), key=natural_key)
        if (longest := max(map(len, (name, *unique)))) > MAX_TEXT:
            notes.append(f"{quoted(name, 40)} is no label: it holds a text of {longest} characters")
        elif name not in always and len(unique) > max(FEW, count) / 2 > FEW / 2:
            notes.append(f"{name!r} is no label: {count} sequences have {len(unique)} different values")
        elif name not in always and any(_is_fraction(entry) for entry in unique):
            fraction = next(entry for entry in unique if _is_fraction(entry))
            notes.append(f"{name!r} is no label: it holds measurements such as {fraction}")
        else:
            code = {entry: at for at, entry in enumerate(unique)}
            codes[name] = np.array([code[entry] for entry in entries], np.int64)[entry_of]
            values[name] = tuple(unique)
    return Labels(codes, values, split_codes, tuple(notes))


def _distinct_texts(column: Sequence[Any] | NDArray[Any]) -> tuple[list[str], Indices]:
    """Texts that hold all values of a column, and which of them each row has, (n,): there may be millions of rows."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "biufSU":
        values, rows = np.unique(column, return_inverse=True)
        return [_to_text(value) for value in values], rows
    places: dict[str, int] = {}
    rows = np.array([places.setdefault(_to_text(entry), len(places)) for entry in column], np.int64)
    return list(places), rows


def _encode_split(entries: Sequence[str]) -> NDArray[np.int8]:
    for entry in entries:
        if entry.casefold() not in SPLIT_WORDS:
            raise InputError(f"the split of a sequence is {entry!r}, wanted train, val or test")
    return np.array([SPLIT_WORDS[entry.casefold()] for entry in entries], np.int8)


def folder_labels(names: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """A column for each level of sub-folders that differs between clips, and notes.

    Folders of which some are called train and others test or val are the split. Where those hold folders of unequal
    depth, the innermost ones are compared, and a clip that has fewer is UNKNOWN there.

    Example:
        >>> folder_labels(["train/anna/1.wav", "test/ben/2.wav"])
        ({'split': ['train', 'test'], 'folder': ['anna', 'ben']}, [])
    """
    folders = [list(PurePosixPath(name).parts[:-1]) for name in names]
    columns: dict[str, list[str]] = {}
    notes: list[str] = []
    if (at := _split_level(folders)) is not None:
        columns["split"] = [parts.pop(at) for parts in folders]
        depths = {
            split: {len(parts) for parts, own in zip(folders, columns["split"], strict=True) if own == split}
            for split in set(columns["split"])
        }
        deepest = max(map(max, depths.values()))
        if all(len(depth) == 1 for depth in depths.values()) and any(depth != {deepest} for depth in depths.values()):
            shallow = sorted(split for split, depth in depths.items() if depth != {deepest})
            notes.append(f"folders under {', '.join(shallow)} are fewer than elsewhere: what is missing is {UNKNOWN!r}")
            folders = [[UNKNOWN] * (deepest - len(parts)) + parts for parts in folders]
    depth = min(map(len, folders))
    for at in range(depth):
        level = [parts[at] for parts in folders]
        if len({word.casefold() for word in level}) > 1:
            number = len(columns.keys() - {"split"}) + 1
            columns["folder" if number == 1 else f"folder{number}"] = level
    if depth < max(map(len, folders)):
        stray = next(name for name, parts in zip(names, folders, strict=True) if len(parts) == depth)
        notes.append(f"deeper folders are no labels: {stray} lies in none")
    return columns, notes


def _split_level(folders: Sequence[Sequence[str]]) -> int | None:
    """The first level of folders that says what trains and what tests or validates."""
    for at in range(min(map(len, folders))):
        words = {parts[at].casefold() for parts in folders}
        splits = {SPLIT_WORDS[word] for word in words & SPLIT_WORDS.keys()}
        if 0 in splits and len(splits) > 1:
            if odd := sorted(words - SPLIT_WORDS.keys()):
                raise InputError(
                    f"beside folders to train and to test (or validate) on there is {odd[0]!r}; put its clips into one "
                    "of them, or take it away"
                )
            return at
    return None


def csv_labels(path: Path, names: Sequence[str], skip_bad: bool) -> tuple[dict[str, list[str]], list[int], list[str]]:
    """Columns of a CSV whose first column names clips: by path, with or without its ending, or by bare name.

    Args:
        path: of the CSV.
        names: of the clips, (n,).
        skip_bad: whether clips without a row, and rows without a clip, are left out instead of an InputError.

    Returns:
        Name -> values of the clips that have a row, the indices of those clips, and notes about the rest.
    """
    header, rows = _read(path)
    clip_indices = _index_by_name(names)
    row_of: dict[int, list[str]] = {}
    extra = []
    for row in rows:
        clip = clip_indices.get(PurePosixPath(row[0].replace("\\", "/")).as_posix())
        if clip is None:
            extra.append(row[0])
        elif clip in row_of:
            raise InputError(f"{path} has two rows for {names[clip]}; leave one of them out")
        else:
            row_of[clip] = row
    if not row_of:
        raise InputError(
            f"{path}: no row names a clip; its first column {header[0]!r} begins with {rows[0][0]!r}, wanted names "
            f"such as {names[0]!r}"
        )
    missing = [name for clip, name in enumerate(names) if clip not in row_of]
    notes = []
    for odd, problem in ((missing, "has no row for"), (extra, "has rows for what is no clip, or could be several:")):
        if odd:
            sentence = f"{path} {problem} {_shorten(odd)}"
            if not skip_bad:
                raise InputError(f"{sentence}; mend it (--skip-bad goes on without)")
            notes.append(f"left out: {sentence}")
    kept = sorted(row_of)
    columns = {name: [row_of[clip][place] for clip in kept] for place, name in enumerate(header) if place}
    return columns, kept, notes


def csv_labels_in_order(path: Path, count: int) -> dict[str, list[str]]:
    """Columns of a CSV with a row for each sequence of an array, in order or numbered from 0 or 1."""
    header, rows = _read(path)
    if len(rows) != count:
        raise InputError(
            f"{path} has {len(rows)} rows of labels for {count} sequences: one row each is wanted, in their order, "
            "below a line of names"
        )
    if header[0].casefold() in ROW_NUMBER_NAMES and all(row[0].isdecimal() for row in rows):
        numbers = sorted(int(row[0]) for row in rows if len(row[0]) < 19)  # Python converts no more than 4300 digits
        if numbers and numbers[0] in (0, 1) and numbers == list(range(numbers[0], numbers[0] + count)):
            rows = sorted(rows, key=lambda row: int(row[0]))
    return {name: [row[place] for row in rows] for place, name in enumerate(header)}


def _read(path: Path) -> tuple[list[str], list[list[str]]]:
    if not exists(path):
        raise InputError(f"there is no file {str(path)!r} with labels")
    header, stream = read_csv(path)
    if not (rows := list(stream)):
        raise InputError(f"{path} holds no rows of labels, wanted a line of names and a row for each sequence")
    return header, rows


def _index_by_name(names: Sequence[str]) -> dict[str, int]:
    """Index of each clip by its path, and as far as unique, by its path without ending, bare name and stem."""
    indices: dict[str, list[int]] = {}
    for at, name in enumerate(names):
        path = PurePosixPath(name)
        for alias in dict.fromkeys((str(path.with_suffix("")), path.name, path.stem)):
            indices.setdefault(alias, []).append(at)
    exact = {name: at for at, name in enumerate(names)}
    return {alias: at[0] for alias, at in indices.items() if len(at) == 1} | exact


def _shorten(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(map(str, names[:3])) + more


def _to_text(entry: Any) -> str:
    """A value as text; 3.0 and 3 are the same."""
    if isinstance(entry, bytes):
        return entry.decode("utf-8", "replace")
    if isinstance(entry, float | np.floating) and float(entry).is_integer() and abs(float(entry)) < 2**53:
        return str(int(entry))
    return escape_controls(str(entry).strip())


def _is_fraction(entry: str) -> bool:
    if entry.lstrip("+-").isdecimal():  # also beyond what a float holds
        return False
    try:
        return not float(entry).is_integer()
    except (ValueError, OverflowError):
        return False
