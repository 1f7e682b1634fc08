"""the command line: all commands, exit codes, signals"""

import os
import signal
import sys
from contextlib import suppress
from contextvars import copy_context
from typing import Annotated

import typer

import diskoop
from diskoop.cli.benchmarks import bench
from diskoop.cli.cache import cache
from diskoop.cli.data import data
from diskoop.cli.editing import forecast, sample, swap
from diskoop.cli.evaluation import compare, evaluate, reproduce
from diskoop.cli.explore import explore
from diskoop.cli.export import export
from diskoop.cli.factors import factors
from diskoop.cli.report import report
from diskoop.cli.training import demo, train
from diskoop.errors import InputError, ResourceError, Stopped
from diskoop.signals import stop_signals

# Commands import torch and whatever needs it when they run, so that `diskoop --help` answers at once.
COMMANDS = (
    demo, data, train, factors, swap, sample, forecast, explore, report, evaluate, compare, reproduce, export, bench,
    cache,
)  # fmt: skip

# Waiting OpenMP threads should sleep soon: next to another busy program, a step that spins takes ten times as long.
# GNU's OpenMP reads this when torch loads it.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

app = typer.Typer(
    help=diskoop.__doc__,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for command in COMMANDS:
    app.command()(command)


def _print_version(requested: bool) -> None:
    if requested:
        print(diskoop.__version__)
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line: bad input is one sentence and exit code 2, an interruption exit code 1."""
    with suppress(ValueError):  # not in the main thread
        for number in stop_signals():  # like Ctrl-C, so that temporary files are removed
            signal.signal(number, signal.default_int_handler)
    try:
        copy_context().run(app)  # what a command remembers, such as the notes it printed, ends with it
    except InputError as error:
        _fail(str(error), 2)
    except (Stopped, ResourceError) as error:
        _fail(str(error), 1)
    except OSError as error:  # a disk that fails, too many open files, a network that is gone
        _fail(" ".join(str(error).split()), 1)
    except SystemExit as end:
        if end.code == 130:  # typer's code for Ctrl-C
            _fail("stopped", 1)
        raise


def _fail(sentence: str, code: int) -> None:
    print(f"diskoop: {sentence}", file=sys.stderr)
    sys.exit(code)
