"""labels from folders, CSV files and arrays -> codes and what they mean"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diskoop.data.clips import natural
from diskoop.data.rows import csv_rows
from diskoop.data.sequences import Indices
from diskoop.errors import InputError

LABEL_FILES = ("labels.csv", "manifest.csv", "metadata.csv")  # taken for labels when they lie in the folder itself
PART_WORDS = {"train": 0, "training": 0, "val": 1, "valid": 1, "validation": 1, "dev": 1, "test": 2, "testing": 2}
NUMBERS_OF_ROWS = ("index", "row", "sequence", "id")  # a first column of this name may say which sequence a row is for
FEW = 20  # sequences among which a value of one's own is no reason to doubt a label


@dataclass(frozen=True, eq=False)
class Labels:
    """What is known of each clip."""

    codes: dict[str, Indices]  # name -> (n,)
    values: dict[str, tuple[str, ...]]  # name -> what each code means
    parts: NDArray[np.int8] | None  # (n,), where the user says who trains and who tests
    notes: tuple[str, ...]  # columns that are no labels, and why


def code(columns: Mapping[str, Sequence[Any] | NDArray[Any]], always: Sequence[str | None] = ()) -> Labels:
    """Columns, one entry a clip -> labels; those in `always` in any case. A column called `split` is the split."""
    codes, values, notes, parts = {}, {}, [], None
    for name, column in columns.items():
        entries = [_text(entry) for entry in column]
        if name.casefold() == "split" and any(entry.casefold() in PART_WORDS for entry in entries):
            parts = _parts(entries)
            continue
        different = sorted(set(entries), key=natural)
        if name not in always and len(different) > max(FEW, len(entries)) / 2 > FEW / 2:
            notes.append(f"{name!r} is no label: {len(entries)} sequences have {len(different)} different values")
        elif name not in always and any(_is_fraction(entry) for entry in different):
            measured = next(entry for entry in different if _is_fraction(entry))
            notes.append(f"{name!r} is no label: it holds measurements such as {measured}")
        else:
            place = {entry: at for at, entry in enumerate(different)}
            codes[name] = np.array([place[entry] for entry in entries], np.int64)
            values[name] = tuple(different)
    return Labels(codes, values, parts, tuple(notes))


def _parts(entries: Sequence[str]) -> NDArray[np.int8]:
    for entry in entries:
        if entry.casefold() not in PART_WORDS:
            raise InputError(f"the split of a sequence is {entry!r}, wanted train, val or test")
    return np.array([PART_WORDS[entry.casefold()] for entry in entries], np.int8)


def from_folders(names: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """`train/anna/1.wav` -> split train, folder anna: a column for each level that differs; and notes."""
    ways = [PurePosixPath(name).parts[:-1] for name in names]
    depth = min(map(len, ways))
    columns: dict[str, list[str]] = {}
    for level in ([way[at] for way in ways] for at in range(depth)):
        words = {word.casefold() for word in level}
        if len(words) < 2:
            continue
        uses = {PART_WORDS[word] for word in words & PART_WORDS.keys()}
        if 0 in uses and len(uses) > 1 and "split" not in columns:
            if odd := sorted(words - PART_WORDS.keys()):
                raise InputError(
                    f"beside folders to train and to test (or validate) on there is {odd[0]!r}; put its clips into one "
                    "of them, or take it away"
                )
            columns["split"] = level
        else:
            number = len(columns.keys() - {"split"}) + 1
            columns["folder" if number == 1 else f"folder{number}"] = level
    stray = next((name for name, way in zip(names, ways, strict=True) if len(way) == depth), "")
    notes = [f"deeper folders are no labels: {stray} lies in none"] if depth < max(map(len, ways)) else []
    return columns, notes


def from_csv(path: Path, names: Sequence[str], skip_bad: bool) -> tuple[dict[str, list[str]], list[int], list[str]]:
    """A CSV's columns in the order of `names`, which of the names have a row, and notes about those that do not.

    A row is found by its first column: a clip's path, with or without its ending, or its bare name.
    """
    header, rows = _read(path)
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
    if not found:
        raise InputError(
            f"{path}: no row names a clip; its first column {header[0]!r} begins with {rows[0][0]!r}, wanted names "
            f"such as {names[0]!r}"
        )
    missing = [name for at, name in enumerate(names) if at not in found]
    notes = []
    for some, what in ((missing, "has no row for"), (extra, "has rows for what is no clip, or could be several:")):
        if some:
            sentence = f"{path} {what} {_few(some)}"
            if not skip_bad:
                raise InputError(f"{sentence}; mend it (--skip-bad goes on without)")
            notes.append(f"left out: {sentence}")
    kept = sorted(found)
    columns = {name: [found[at][place] for at in kept] for place, name in enumerate(header) if place}
    return columns, kept, notes


def from_csv_in_order(path: Path, count: int) -> dict[str, list[str]]:
    """A CSV's columns where its rows stand for the sequences of an array: in order, or numbered from 0 or 1."""
    header, rows = _read(path)
    if len(rows) != count:
        raise InputError(
            f"{path} has {len(rows)} rows of labels for {count} sequences: one row each is wanted, in their order, "
            "below a line of names"
        )
    if header[0].casefold() in NUMBERS_OF_ROWS and all(row[0].isdecimal() for row in rows):
        numbers = sorted(int(row[0]) for row in rows)
        if numbers[0] in (0, 1) and numbers == list(range(numbers[0], numbers[0] + count)):
            rows = sorted(rows, key=lambda row: int(row[0]))
    return {name: [row[place] for row in rows] for place, name in enumerate(header)}


def _read(path: Path) -> tuple[list[str], list[list[str]]]:
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r} with labels")
    header, stream = csv_rows(path)
    if not (rows := list(stream)):
        raise InputError(f"{path} holds no rows of labels, wanted a line of names and a row for each sequence")
    return header, rows


def _by_any_name(names: Sequence[str]) -> dict[str, int]:
    """Each clip's place by its path, and as far as those are unique by its path without ending, bare name and stem."""
    places: dict[str, list[int]] = {}
    for at, name in enumerate(names):
        path = PurePosixPath(name)
        for way in dict.fromkeys((str(path.with_suffix("")), path.name, path.stem)):
            places.setdefault(way, []).append(at)
    exact = {name: at for at, name in enumerate(names)}
    return {way: at[0] for way, at in places.items() if len(at) == 1} | exact


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(map(str, names[:3])) + more


def _text(entry: Any) -> str:
    """3.0 and 3 are one label."""
    if isinstance(entry, bytes):
        return entry.decode("utf-8", "replace")
    if isinstance(entry, float | np.floating) and float(entry).is_integer():
        return str(int(entry))
    return str(entry).strip()


def _is_fraction(entry: str) -> bool:
    try:
        return not float(entry).is_integer()
    except (ValueError, OverflowError):
        return False
