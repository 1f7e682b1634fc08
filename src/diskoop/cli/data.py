"""the command data"""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from diskoop.cli.options import AsJson, SkipBad
from diskoop.errors import InputError
from diskoop.input_files import is_address
from diskoop.settings import parse_overrides
from diskoop.storage import unused_path

MAX_LISTED = 12  # values of a fact
MAX_FEATURES = 24  # with a line each


def data(
    source: Annotated[
        str | None,
        typer.Argument(metavar="[NAME|PATH]", help="A set's name, or your own file or folder; nothing lists the sets."),
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[data.KEY=VALUE]...", help="Settings, such as data.window=16.")
    ] = None,
    size: Annotated[int | None, typer.Option(help="Pixels, for video.")] = None,
    sheets: Annotated[Path | None, typer.Option(help="For sprites: the folder with the layer sheets.")] = None,
    labels: Annotated[Path | None, typer.Option(help="A CSV with a row for each sequence.")] = None,
    skip_bad: SkipBad = False,
    out: Annotated[Path | None, typer.Option(help="Where to draw a preview; by default NAME-1.png here.")] = None,
    count: Annotated[int, typer.Option(min=1, max=200, help="How many sequences the preview shows.")] = 16,
    as_json: AsJson = False,
) -> None:
    """Describe a data set and draw a contact sheet, before you train on it."""
    from diskoop.data import data_names, data_settings, open_data
    from diskoop.workflows.describe import describe_data, preview

    if source is None:
        print(json.dumps(data_names()) if as_json else "\n".join(data_names()))
        return
    if sheets is not None and source != "sprites":
        raise InputError(f"--sheets names the layer sheets of sprites, got it for {source!r}")
    options = {"size": size, "path": sheets, "labels": labels, "skip_bad": skip_bad}
    given = {key: str(value) if isinstance(value, Path) else value for key, value in options.items() if value}
    settings = data_settings(source, **_data_overrides(overrides or []) | given)
    everything = open_data(settings, whole=True)
    facts = describe_data(everything)
    name = Path(everything.name).stem
    files = preview(everything, count, out or unused_path(_preview_folder(settings.path), name, ".png", ".wav"))
    if as_json:
        print(json.dumps({**facts, "preview": [str(file) for file in files]}))
        return
    for key, value in facts.items():
        if key not in (("range", "features") if "feature_ranges" in facts else ()):  # the ranges say both
            for line in _fact_lines(key, value):
                print(line)
    print(f"preview: {' and '.join(map(str, files))}")


def _data_overrides(overrides: list[str]) -> dict[str, Any]:
    sections = parse_overrides(overrides)
    for section in sections.keys() - {"data"}:
        raise InputError(f"{section}.{next(iter(sections[section]))} is no setting of data; give data.KEY=VALUE")
    return dict(sections.get("data", {}))


def _preview_folder(path: str | None) -> Path:
    """The current folder, unless that lies inside the data, which a preview must not become part of."""
    here = Path.cwd()
    folder = None if path is None or is_address(path) else Path(path).expanduser().resolve()
    return folder.parent if folder is not None and folder.is_dir() and here.is_relative_to(folder) else Path()


def _fact_lines(key: str, value: Any) -> list[str]:
    """A fact of `describe_data` as lines of text."""
    if key == "notes":
        return [f"note: {note}" for note in value]
    if key == "labels":
        lines = [f"  {name}: {_format(_format_counts(values))}" for name, values in value.items()]
        return ["labels (training + validation + test):", *lines] if lines else []
    if key == "feature_ranges":
        return _feature_lines(value)
    if isinstance(value, dict):
        return [f"{key}:", *(f"  {inner}: {_format(text)}" for inner, text in value.items())]
    return [f"{key.replace('_', ' ')}: {_format(value)}"]


def _feature_lines(ranges: dict[str, list[float]]) -> list[str]:
    """Each feature and its range; those of a column of words in one line."""
    columns: dict[str, list[str]] = {}
    for name in ranges:
        column, is_word, word = name.rpartition("=")
        columns.setdefault(column if is_word else name, []).extend([word] if is_word else [])
    if len(columns) > MAX_FEATURES:
        return [f"features: {_format(list(ranges))}"]
    texts = {
        column: f"one of {len(words)} words: {_format(words)}" if words else " to ".join(map(_format, ranges[column]))
        for column, words in columns.items()
    }
    return [f"features ({len(ranges)}):", *(f"  {column}: {text}" for column, text in texts.items())]


def _format(value: Any) -> str:
    if isinstance(value, list):
        more = f" and {len(value) - MAX_LISTED} more" if len(value) > MAX_LISTED else ""
        return ", ".join(map(_format, value[:MAX_LISTED])) + more
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _format_counts(values: dict[str, list[int]]) -> list[str]:
    return [f"{value} ({' + '.join(map(str, counts))})" for value, counts in values.items()]
