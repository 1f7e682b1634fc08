"""what a person sees while it trains"""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class Reporter:
    """A live bar on a terminal, a line an epoch elsewhere. It only looks: training is the same without it."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)

    def open(self, total: int, done: int, epochs: int) -> "Bar":
        return Bar(self.console, total, done, epochs)

    def say(self, text: str) -> None:
        self.console.print(text, highlight=False, soft_wrap=True)


class Bar:
    def __init__(self, console: Console, total: int, done: int, epochs: int) -> None:
        self.epochs = epochs
        self.console = console
        self.progress = Progress(
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[terms]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.task = self.progress.add_task("", total=total, completed=done, epoch=f"1/{epochs}", terms="")

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def step(self, epoch: int, done: int, terms: Mapping[str, float]) -> None:
        text = f"{epoch + 1}/{self.epochs}"
        self.progress.update(self.task, completed=done, epoch=text, terms=describe(terms))

    def epoch(self, row: Mapping[str, Any]) -> None:
        means = {name[4:]: value for name, value in row.items() if name.startswith("val.")}
        text = f"epoch {row['epoch']}/{self.epochs}: {describe(means)} ({row['seconds']:.0f} s)"
        self.console.print(text, highlight=False, soft_wrap=True)


def describe(terms: Mapping[str, float]) -> str:
    """`loss 0.412 rec 0.0121 ... static 1 ± 0.02 dynamic < 0.55`."""
    names = {"total": "loss", "rec": "rec", "pred_x": "pred", "cycle": "cycle"}
    parts = [f"{shown} {terms[name]:.3g}" for name, shown in names.items() if terms[name]]
    return f"{' '.join(parts)} | static 1 ± {terms['static_gap']:.2g}, dynamic < {terms['dynamic_radius']:.2g}"
