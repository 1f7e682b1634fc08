"""labels from folders, CSV files and arrays -> codes and what they mean"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diskoop.data.clips import natural
from diskoop.data.sequences import Indices
from diskoop.errors import InputError

LABEL_FILES = ("labels.csv", "manifest.csv", "metadata.csv")  # taken for labels when they lie in the folder itself
PART_WORDS = {"train": 0, "training": 0, "val": 1, "valid": 1, "validation": 1, "dev": 1, "test": 2, "testing": 2}


@dataclass(frozen=True, eq=False)
class Labels:
    """What is known of each clip."""

    codes: dict[str, Indices]  # name -> (n,)
    values: dict[str, tuple[str, ...]]  # name -> what each code means
    parts: NDArray[np.int8] | None  # (n,), where the user says who trains and who tests
    notes: tuple[str, ...]  # columns that are no labels, and why


def code(columns: Mapping[str, Sequence[Any] | NDArray[Any]]) -> Labels:
    """Columns, one entry a clip -> labels. A column called `split` that says train or test is one no more."""
    codes, values, notes, parts = {}, {}, [], None
    for name, column in columns.items():
        entries = [_text(entry) for entry in column]
        if name == "split" and {entry.lower() for entry in entries} <= PART_WORDS.keys():
            parts = np.array([PART_WORDS[entry.lower()] for entry in entries], np.int8)
            continue
        different = sorted(set(entries), key=natural)
        if len(different) == len(entries) > 1 or len(different) > len(entries) / 2 > 10:
            notes.append(f"{name!r} is no label: {len(entries)} sequences have {len(different)} different values")
        elif any(_is_fraction(entry) for entry in different):
            notes.append(f"{name!r} is no label: it holds measurements such as {different[0]}")
        else:
            place = {entry: at for at, entry in enumerate(different)}
            codes[name] = np.array([place[entry] for entry in entries], np.int64)
            values[name] = tuple(different)
    return Labels(codes, values, parts, tuple(notes))


def from_folders(names: Sequence[str]) -> dict[str, list[str]]:
    """`train/anna/1.wav` -> split train, folder anna: a column for each level that all names have and that differs."""
    ways = [PurePosixPath(name).parts[:-1] for name in names]
    levels = [[way[depth] for way in ways] for depth in range(min(map(len, ways)))]
    columns: dict[str, list[str]] = {}
    for level in levels:
        if len(set(level)) < 2:
            continue
        is_split = not columns and {word.lower() for word in level} <= PART_WORDS.keys()
        number = len([name for name in columns if name != "split"]) + 1
        columns["split" if is_split else "folder" if number == 1 else f"folder{number}"] = level
    return columns


def from_csv(path: Path, names: Sequence[str], skip_bad: bool) -> tuple[dict[str, list[str]], list[int], list[str]]:
    """A CSV's columns in the order of `names`, which of the names have a row, and notes about those that do not.

    A row is found by its first column: a clip's path, with or without its ending, or its bare name.
    """
    header, rows = read_rows(path)
    known = _by_any_name(names)
    found: dict[int, list[str]] = {}
    extra = []
    for row in rows:
        at = known.get(PurePosixPath(row[0].replace("\\", "/")).as_posix())
        if at is None:
            extra.append(row[0])
        elif at in found:
            raise InputError(f"{path} has two rows for {names[at]}; leave one of them out")
        else:
            found[at] = row
    missing = [name for at, name in enumerate(names) if at not in found]
    notes = []
    if not found:
        raise InputError(
            f"{path}: no row names a clip; its first column {header[0]!r} begins with {rows[0][0]!r}, wanted names "
            f"such as {names[0]!r}"
        )
    for some, what in ((missing, "has no row for"), (extra, "has rows for clips that are not there:")):
        if some:
            sentence = f"{path} {what} {_few(some)}"
            if not skip_bad:
                raise InputError(f"{sentence}; mend it (--skip-bad goes on without)")
            notes.append(f"left out: {sentence}")
    kept = sorted(found)
    columns = {name: [found[at][place] for at in kept] for place, name in enumerate(header) if place}
    return columns, kept, notes


def from_csv_in_order(path: Path, count: int) -> dict[str, list[str]]:
    """A CSV's columns where its rows stand for the sequences of an array, in order."""
    header, rows = read_rows(path)
    if len(rows) != count:
        raise InputError(
            f"{path} has {len(rows)} rows of labels for {count} sequences: one row each is wanted, in their order, "
            "below a line of names"
        )
    return {name: [row[place] for row in rows] for place, name in enumerate(header)}


def read_rows(path: Path) -> tuple[list[str], list[list[str]]]:
    """A small CSV as text: its line of names and its rows, all of one length."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            header, *rows = [row for row in csv.reader(stream) if row] or [[]]
    except FileNotFoundError:
        raise InputError(f"there is no file {str(path)!r} with labels") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot read labels from {path}: {error}") from None
    if not rows:
        raise InputError(f"{path} holds no rows of labels, wanted a line of names and a row for each sequence")
    for number, row in enumerate(rows, 2):
        if len(row) != len(header):
            raise InputError(f"{path} has {len(row)} cells in line {number} where its first line names {len(header)}")
    return header, rows


def _by_any_name(names: Sequence[str]) -> dict[str, int]:
    """Each clip's place by its path, its path without ending, its bare name and stem, as far as those are unique."""
    places: dict[str, list[int]] = {}
    for at, name in enumerate(names):
        path = PurePosixPath(name)
        for way in dict.fromkeys((name, str(path.with_suffix("")), path.name, path.stem)):
            places.setdefault(way, []).append(at)
    return {way: at[0] for way, at in places.items() if len(at) == 1 or names[at[0]] == way}


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(map(str, names[:3])) + more


def _text(entry: Any) -> str:
    """3.0 and 3 are one label."""
    if isinstance(entry, bytes):
        return entry.decode("utf-8", "replace")
    if isinstance(entry, float | np.floating) and float(entry).is_integer():
        return str(int(entry))
    return str(entry)


def _is_fraction(entry: str) -> bool:
    try:
        return not float(entry).is_integer()
    except (ValueError, OverflowError):
        return False
