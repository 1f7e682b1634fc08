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
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="A built-in data set, or a .npy or .npz file; none lists the sets."),
    ] = None,
    size: Annotated[int | None, typer.Option(help="Pixels, for video.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where to draw a preview; by default NAME-1.png here.")] = None,
    count: Annotated[int, typer.Option(min=1, max=200, help="How many sequences the preview shows.")] = 16,
    as_json: AsJson = False,
) -> None:
    """Say what a data set holds; draw a contact sheet."""
    from diskoop.data import data_names
    from diskoop.interfaces.describe import describe_data, preview

    if name is None:
        print(json.dumps(data_names()) if as_json else "\n".join(data_names()))
        return
    facts = describe_data(name, size)
    picture = preview(name, size, count, out or _unused(Path(), Path(name).stem, ".png"))
    if as_json:
        print(json.dumps({**facts, "preview": str(picture)}))
        return
    for key, value in facts.items():
        if value == {}:
            continue
        if isinstance(value, dict):
            print(f"{key.replace('_', ' ')}:")
            for inner, text in value.items():
                print(f"  {inner}: {_plain(text)}")
        else:
            print(f"{key}: {_plain(value)}")
    print(f"preview: {picture}")


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
    show: Annotated[bool, typer.Option("--settings", help="Print all settings as YAML and stop.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train a model; after Ctrl-C, --resume goes on."""
    if go_on is not None:
        if overrides or config or out or start:
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
        if show:
            print(settings.to_yaml(), end="")
            return
        folder = out or _unused(Path("runs"), Path(settings.data.name).stem)
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
        return ", ".join(map(_plain, value)) or "one value"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _unused(folder: Path, name: str, suffix: str = "") -> Path:
    """NAME-1, NAME-2, ... in `folder`: the first that is not there."""
    number = 1
    while (path := folder / f"{name}-{number}{suffix}").exists():
        number += 1
    return path
