"""what commands print: progress bars, notes and tables"""

from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Literal

from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table

TABLE_WIDTH = 160  # columns, where the output is a file

_printed_notes: ContextVar[frozenset[str]] = ContextVar("printed_notes", default=frozenset())

Justify = Literal["left", "right"]


def output_console() -> Console:
    """The console on stdout, wide enough for any table where it is no terminal.

    Without markup: names of features and files may hold brackets, as `pressure [hPa]` does.
    """
    console = Console(soft_wrap=True, markup=False)
    return console if console.is_terminal else Console(soft_wrap=True, markup=False, width=TABLE_WIDTH)


def show_progress(items: Sequence[Any], description: str) -> Iterable[Any]:
    """Iterate over `items` with a progress bar on stderr, if that is a terminal."""
    console = Console(stderr=True)
    return track(items, escape(description), console=console, transient=True, disable=not console.is_terminal)


def print_lines(lines: Iterable[str]) -> None:
    console = output_console()
    for line in lines:
        console.print(line, highlight=False, markup=False)


def print_note(text: str) -> None:
    """Print a note on stderr, so that stdout holds results alone; a command prints the same note once."""
    if text in _printed_notes.get():
        return
    _printed_notes.set(_printed_notes.get() | {text})
    Console(stderr=True).print(f"note: {text}", highlight=False, markup=False, soft_wrap=True)


def print_table(title: str, columns: Mapping[str, Justify], rows: Iterable[Sequence[str]]) -> None:
    """Print rows of text below a title.

    Args:
        title: printed above the table.
        columns: heading -> how its cells are aligned.
        rows: a text for each column.
    """
    table = Table(title=title, title_justify="left", title_style="bold", box=None)
    for heading, justify in columns.items():
        table.add_column(heading, justify=justify, no_wrap=justify == "right")
    for row in rows:
        table.add_row(*row)
    output_console().print(table, highlight=False)
