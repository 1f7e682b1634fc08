"""one verb per command, no maths"""

import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

import diskoop
from diskoop.errors import InputError, Stopped
from diskoop.settings import Settings, merged, parse_overrides, presets, read_yaml

# Everything heavier is imported by the command that needs it: `diskoop --help` answers at once.

# Threads that wait should soon sleep: beside another busy program a step that spins takes ten times as long.
# GNU's OpenMP reads this when torch loads it.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

app = typer.Typer(
    help=diskoop.__doc__,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        print(diskoop.__version__)
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave out what cannot be read, and list it.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")]


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The run's folder.")] = Path("runs/demo"),
    as_json: AsJson = False,
) -> None:
    """Train on the puppets (minutes), draw a spectrum and swaps."""
    from diskoop.interfaces.demo import run_demo

    run, picture = run_demo(out)
    _conclude(run.summary() | {"picture": str(picture)}, as_json)
    if not as_json:
        print(f"look at {picture}")


@app.command()
def data(
    what: Annotated[
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
    """Say what a data set holds, before anyone trains on it; draw a contact sheet."""
    from diskoop.data import data_names, data_settings, open_data
    from diskoop.interfaces.describe import describe_data, preview

    if what is None:
        print(json.dumps(data_names()) if as_json else "\n".join(data_names()))
        return
    sections = parse_overrides(overrides or [])
    for section in sections.keys() - {"data"}:
        raise InputError(f"{section}.{next(iter(sections[section]))} is no setting of data; give data.KEY=VALUE")
    options = sections.get("data", {})
    if sheets is not None and what != "sprites":
        raise InputError(f"--sheets names the layer sheets of sprites, got it for {what!r}")
    given = {"size": size, "path": sheets, "labels": labels, "skip_bad": skip_bad}
    options |= {key: str(value) if isinstance(value, Path) else value for key, value in given.items() if value}
    settings = data_settings(what, **options)
    everything = open_data(settings)
    facts = describe_data(everything)
    files = preview(
        everything, count, out or _unused(_beside(settings.path), Path(everything.name).stem, ".png", ".wav")
    )
    if as_json:
        print(json.dumps({**facts, "preview": [str(file) for file in files]}))
        return
    for key, value in facts.items():
        for line in _lines(key, value):
            print(line)
    print(f"preview: {' and '.join(map(str, files))}")


@app.command()
def train(
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[SECTION.KEY=VALUE]...", help="Settings, such as model.k=24.")
    ] = None,
    config: Annotated[
        str | None, typer.Option("--config", "-c", help=f"A YAML file, or a preset: {', '.join(presets())}.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder; by default a new one under runs/.")] = None,
    start: Annotated[
        Path | None, typer.Option("--from", help="Start from the weights and settings of this run.")
    ] = None,
    go_on: Annotated[
        Path | None, typer.Option("--resume", help="Go on with the interrupted run in this folder.")
    ] = None,
    skip_bad: SkipBad = False,
    show: Annotated[bool, typer.Option("--settings", help="Print all settings as YAML and stop.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train a model; after Ctrl-C, --resume goes on."""
    if go_on is not None:
        if overrides or config or out or start or skip_bad:
            raise InputError(
                "--resume goes on with a run as it was set up; --from starts a new one with other settings"
            )
        from diskoop.training import loop

        loop.resume(go_on)
        folder = go_on
    else:
        base: dict[str, Any] = {}
        if start is not None:
            from diskoop.training.checkpoint import RunFolder, load_settings

            base = load_settings(RunFolder(start)).model_dump()
        if config is not None:
            base = merged(base, read_yaml(config))
        settings = Settings.of(merged(base, parse_overrides(overrides or [])))
        settings = settings.replaced({"data": {"skip_bad": True}}) if skip_bad else settings
        if show:
            print(settings.to_yaml(), end="")
            return
        title = settings.data.name or Path(settings.data.path or "puppets").resolve().stem
        folder = out or _unused(Path("runs"), title)
        from diskoop.training import loop

        loop.train(settings, folder, start)
    from diskoop.run import load

    _conclude(load(folder).summary(), as_json)


def main() -> None:
    """Run the command line; bad input is one sentence and exit code 2."""
    with suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # a polite kill is a Ctrl-C: files are tidied up
    try:
        app()
    except InputError as error:
        _fail(str(error), 2)
    except Stopped as error:
        _fail(str(error), 1)
    except SystemExit as end:
        if end.code == 130:  # how typer ends on Ctrl-C
            _fail("stopped", 1)
        raise


def _conclude(summary: dict[str, Any], as_json: bool) -> None:
    """What training came to."""
    if as_json:
        print(json.dumps(summary))
        return
    gap, radius = summary["static_gap"], summary["dynamic_radius"]
    print(f"operator fitted on {summary['fitted_on']}:")
    print(f"{summary['static']} static eigenvalues within {gap:.3f} of 1, the others up to {radius:.3f}")


def _fail(sentence: str, code: int) -> None:
    print(f"diskoop: {sentence}", file=sys.stderr)
    sys.exit(code)


def _plain(value: Any) -> str:
    if isinstance(value, list):
        more = f" and {len(value) - 12} more" if len(value) > 12 else ""
        return ", ".join(map(_plain, value[:12])) + more
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _lines(key: str, value: Any) -> list[str]:
    """A fact for a person to read."""
    if key == "notes":
        return [f"note: {note}" for note in value]
    if key == "labels":
        lines = [f"  {name}: {_plain(_counted(of))}" for name, of in value.items()]
        return ["labels (training + validation + test):", *lines] if lines else []
    if isinstance(value, dict):
        return [f"{key}:", *(f"  {inner}: {_plain(text)}" for inner, text in value.items())]
    return [f"{key.replace('_', ' ')}: {_plain(value)}"]


def _counted(values: dict[str, list[int]]) -> list[str]:
    return [f"{value} ({' + '.join(map(str, counts))})" for value, counts in values.items()]


def _unused(folder: Path, name: str, *suffixes: str) -> Path:
    """NAME-1, NAME-2, ... in `folder`, with the first suffix: the first that is not there with any of them."""
    number = 1
    while any((folder / f"{name}-{number}{suffix}").exists() for suffix in suffixes or [""]):
        number += 1
    return folder / f"{name}-{number}{suffixes[0] if suffixes else ''}"


def _beside(data: str | None) -> Path:
    """Here, unless here is inside the data, which a preview must not become part of."""
    here = Path.cwd()
    there = None if data is None else Path(data).expanduser().resolve()
    return there.parent if there is not None and there.is_dir() and here.is_relative_to(there) else Path()
