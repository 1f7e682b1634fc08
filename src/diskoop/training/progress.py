"""progress of training on the terminal"""

import io
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TextIO, cast

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from diskoop.losses import LOSS_TERMS

LINES = 10  # about so many of a whole training where there is no terminal


class Reporter:
    """A live progress bar on a terminal, about LINES lines in all elsewhere.

    Example:
        >>> import sys
        >>> Reporter(Console(file=sys.stdout)).log("800 steps to go")
        800 steps to go
    """

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(file=cast(TextIO, _OptionalOutput(sys.stderr)))

    def open(self, total: int, done: int, epochs: int | None) -> "ProgressBar":
        """A progress bar over `total` steps, of which `done` are done; `epochs` is None for a budget in steps."""
        return ProgressBar(self.console, total, done, epochs)

    def log(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)


class _OptionalOutput:
    """A stream whose failures do not matter: training goes on, or saves, when its terminal is gone."""

    def __init__(self, stream: TextIO | None) -> None:
        self.stream = stream or io.StringIO()  # a service may have none

    def write(self, text: str) -> int:
        with suppress(OSError):
            self.stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self.stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class ProgressBar:
    """A line with epoch, steps and time left, and one with the loss terms and the spectrum."""

    def __init__(self, console: Console, total: int, done: int, epochs: int | None) -> None:
        self.total, self.epochs = total, epochs
        self.told = -1  # the tenth of the training in which the last line was printed
        self.console = console
        self.progress = _TermsProgress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            expand=True,
            disable=not console.is_terminal,
        )
        self.task = self.progress.add_task(f"epoch 1/{epochs}" if epochs else "step", total=total, completed=done)

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def step(self, epoch: int, done: int, terms: Mapping[str, float]) -> None:
        self.progress.terms = describe(terms)
        description = f"epoch {epoch + 1}/{self.epochs}" if self.epochs else "step"
        self.progress.update(self.task, completed=done, description=description)

    def epoch(self, row: Mapping[str, Any]) -> None:
        """Print what an epoch came to; without a terminal only the first one of every tenth of the training."""
        tenth = LINES * int(row["step"]) // max(self.total, 1)
        if tenth == self.told and not self.console.is_terminal:
            return
        self.told = tenth
        prefix = "val." if "val.total" in row else "train."  # no validation set
        means = {name.removeprefix(prefix): value for name, value in row.items() if name.startswith(prefix)}
        place = f"epoch {row['epoch']}/{self.epochs}" if self.epochs else f"step {row['step']}/{self.total}"
        text = f"{place}: {describe(means)} ({row['seconds']:.0f} s)"
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)


class _TermsProgress(Progress):
    """A progress bar with a line of text below it."""

    terms = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        yield Text(self.terms, no_wrap=True, overflow="ellipsis")


def describe(terms: Mapping[str, float]) -> str:
    """`loss 0.412 rec 0.0121 pred 0.0134 | static 1±0.02 dynamic<0.55 | explains 87%`, the last of validation only."""
    names = {"total": "loss", **{term.name: term.display_name for term in LOSS_TERMS.values() if term.display_name}}
    parts = [f"{label} {terms[name]:.3g}" for name, label in names.items() if terms.get(name)]
    quality = f" | explains {terms['explained']:.0%}" if "explained" in terms else ""
    return f"{' '.join(parts)} | static 1±{terms['static_gap']:.2g} dynamic<{terms['dynamic_radius']:.2g}{quality}"
