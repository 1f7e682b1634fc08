"""the command line: all commands, exit codes, signals"""

import io
import os
import signal
import sys
from contextlib import redirect_stdout, suppress
from contextvars import copy_context
from pathlib import Path
from typing import Annotated, Any, TextIO, cast

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
from diskoop.cli.search import search
from diskoop.cli.training import demo, train
from diskoop.errors import InputError, ResourceError, Stopped
from diskoop.input_files import require_text
from diskoop.launch import is_launched, is_main
from diskoop.memory import is_exhausted, lacks_memory, memory_sentence
from diskoop.stop_signals import stop_signals

# Commands import torch and whatever needs it when they run, so that `diskoop --help` answers at once.
COMMANDS = (
    demo, data, train, factors, swap, sample, forecast, explore, report, evaluate, compare, reproduce, search,
    export, bench, cache,
)  # fmt: skip

# Commands whose encoding and decoding several processes share; they share every batch of `train`.
SHARED = ("factors", "swap", "sample", "forecast", "evaluate", "compare", "report")

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
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    if not is_launched() or context.invoked_subcommand == "train":
        return
    if context.invoked_subcommand not in SHARED:
        raise InputError(
            f"torchrun starts {', '.join(('train', *SHARED))}, got `diskoop {context.invoked_subcommand}`; start that "
            "without it"
        )
    from diskoop.parallel import start_workers

    if not start_workers():
        raise typer.Exit


def main() -> None:
    """Run the command line: bad input is one sentence and exit code 2, an interruption or a lack of memory 1.

    Where output goes is the caller's choice, as input is: a standard output that takes no more is 2 as well.
    """
    with suppress(ValueError):  # not in the main thread
        for number in stop_signals():  # like Ctrl-C, so that temporary files are removed
            signal.signal(number, signal.default_int_handler)
    _prepare_output()
    try:
        for word in sys.argv[1:]:
            require_text(word)
        with redirect_stdout(cast(TextIO, _Output(sys.stdout))):
            try:
                copy_context().run(app)  # what a command remembers, such as the notes it printed, ends with it
            finally:
                sys.stdout.flush()
    except _OutputFailed as error:
        _end_output(error.__cause__)
    except KeyboardInterrupt:  # before or after typer, which takes it for the end of a command
        _stopped()
    except InputError as error:
        _fail(str(error), 2)
    except (Stopped, ResourceError) as error:
        _fail(str(error), 1)
    except Exception as error:
        if lacks_memory(error) or (getattr(error, "errno", None) is None and is_exhausted()):
            _fail(memory_sentence(error), 1)
        if not isinstance(error, OSError):  # a disk that fails, too many open files, a network that is gone
            raise
        _fail(" ".join(str(error).split()), 1)
    except SystemExit as end:
        if end.code == 130:  # typer's code for Ctrl-C
            _stopped()
        _end_at_signals()
        raise


class _OutputFailed(Exception):  # noqa: N818 - said in the past
    """Stdout is full or closed; no OSError, which commands take for one of a file of theirs."""


class _Output:
    """A stream that raises _OutputFailed."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            raise _OutputFailed from error

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            raise _OutputFailed from error


def _prepare_output() -> None:
    """Make stdout and stderr take every character; those that are closed, too."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - until the process ends
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _end_output(error: BaseException | None) -> None:
    """End with a sentence where stdout is full, and quietly where no one reads it any more."""
    with suppress(OSError):  # what is left in a buffer would fail once more when the process ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        sys.exit(1)
    _fail(f"cannot write to the standard output: {getattr(error, 'strerror', None) or error}", 2)


def _stopped() -> None:
    """End after Ctrl-C; of several processes one says so."""
    if not is_main():
        sys.exit(1)
    _fail("stopped", 1)


def _fail(sentence: str, code: int) -> None:
    with suppress(OSError):  # a full stderr
        print(f"diskoop: {sentence}", file=sys.stderr)
    _end_at_signals()
    sys.exit(code)


def _end_at_signals() -> None:
    """From here on a signal ends the process at once: all is said, and what still cleans up cannot be interrupted."""
    with suppress(ValueError):  # not in the main thread
        for number in stop_signals():
            signal.signal(number, lambda *_: os._exit(1))
