"""rows of a CSV file, whatever its delimiter"""

import csv
from collections.abc import Iterator
from pathlib import Path

from diskoop.data.clips import decoding
from diskoop.errors import InputError, quoted
from diskoop.input_files import escape_controls, require_regular

MAX_NAME = 500  # characters of a column's name


def read_csv(path: Path) -> tuple[list[str], Iterator[list[str]]]:
    """The column names in the first line, and the rows below it with as many cells each; blank rows are left out."""
    rows = _read_rows(path)
    names = next(rows, None)
    if names is None:
        raise InputError(f"{path} is empty, wanted a line of column names and rows below it")
    names = [escape_controls(name) for name in names]
    for name in names:
        if len(name) > MAX_NAME:
            raise InputError(f"{path} names a column {quoted(name, 40)} with {len(name)} characters, wanted {MAX_NAME}")
        if name and names.count(name) > 1:
            raise InputError(f"{path} names the column {name!r} twice in its first line")
    return names, rows


def _read_rows(path: Path) -> Iterator[list[str]]:
    require_regular(path)
    with decoding(path, "table"), path.open(newline="", encoding="utf-8-sig") as stream:
        try:
            first_line = stream.readline()
            stream.seek(0)
            delimiter = max("\t;,", key=first_line.count)
            width = None
            reader = csv.reader(stream, delimiter=delimiter)
            for row in reader:
                cells = [cell.strip() for cell in row]
                if not any(cells):
                    continue
                width = len(cells) if width is None else width
                if len(cells) != width:
                    raise InputError(
                        f"{path} has {len(cells)} cells in line {reader.line_num} where its first line has {width}"
                    )
                yield cells
        except UnicodeDecodeError:
            raise InputError(f"{path} is not UTF-8 text; save it as UTF-8") from None
        except csv.Error as error:
            raise InputError(f"cannot read {path}: {error}") from None
