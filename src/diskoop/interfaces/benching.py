"""bench as a command: which sections, on which device, as tables and as one JSON object"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from rich.console import Console
from rich.table import Table as Grid

from diskoop.bench import pieces, steps
from diskoop.bench.timing import Setup, Table, machine
from diskoop.errors import InputError, suggest
from diskoop.interfaces.commands import with_progress
from diskoop.interfaces.scoring import WIDE
from diskoop.training.estimate import clock

TURNS = {"cuda": 5, "cpu": 3}


class Section(NamedTuple):
    promise: str  # what it is about to do
    measure: Callable[[Setup], Iterator[Table]]


SECTIONS = {
    "steps": Section(
        "one training step at the paper's settings: as the paper reads, plain, and the one that trains here",
        steps.steps,
    ),
    "shares": Section("what each stage of a captured step takes", steps.shares),
    "solvers": Section("operators and spectra with their gradients, as k grows from 20 to 320", pieces.solvers),
    "growth": Section("our step as k, the batch, the frames and their size grow", steps.growth),
    "loader": Section("how fast batches reach the device, against what a step takes", pieces.loader),
    "inference": Section("how fast clips are taken apart, put together and judged", pieces.inference),
}


def bench(
    names: Sequence[str],
    device: str,
    turns: int | None,
    count: int | None,
    sections: Mapping[str, Section] = SECTIONS,
) -> dict[str, Any]:
    """Measure the sections called `names`, or all, and print each table when it is there; all numbers."""
    chosen = _chosen(names, sections)
    setup = setup_for(device, turns, count)
    facts = machine(setup.device) | {"turns": setup.turns, "steps": setup.steps}
    console = Console(soft_wrap=True)
    console = console if console.is_terminal else Console(soft_wrap=True, width=WIDE)
    console.print(
        f"{facts['device']} ({facts['kind']}), torch {facts['torch']}, {facts['threads']} threads; "
        f"medians of {setup.turns} turns",
        highlight=False,
        markup=False,
    )
    found: dict[str, list[dict[str, Any]]] = {}
    for name in chosen:
        section = sections[name]
        console.print(f"\n{name}: {section.promise}", highlight=False, markup=False)
        found[name] = [_shown(table, console) for table in section.measure(setup)]
    return {**facts, "sections": found}


def setup_for(device: str, turns: int | None, count: int | None) -> Setup:
    """Where to measure, and how often; an InputError for what cannot be."""
    there = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    if device != "auto" and device not in there:
        raise InputError(
            f"expected --device to be auto or one that this machine has ({', '.join(there)}), got {device!r}"
        )
    kind = there[-1] if device == "auto" else device
    for option, value in (("--turns", turns), ("--steps", count)):
        if value is not None and value < 1:
            raise InputError(f"expected {option} of 1 or more, got {value}")
    return Setup(torch.device(kind), turns or TURNS[kind], count, with_progress)


def _chosen(names: Iterable[str], sections: Mapping[str, Section]) -> list[str]:
    """In the order in which they are listed, whatever the order they are asked for in."""
    asked = list(names)
    for name in asked:
        if name not in sections:
            raise InputError(f"unknown section {name!r}; {suggest(name, sections)}")
    return [name for name in sections if not asked or name in asked]


def _shown(table: Table, console: Console) -> dict[str, Any]:
    """The table, printed."""
    grid = Grid(title=table.title, title_justify="left", box=None, title_style="bold")
    columns = list(dict.fromkeys(column for row in table.rows for column in row))
    for column in columns:
        is_text = any(isinstance(row.get(column), str) for row in table.rows)
        grid.add_column(column, justify="left" if is_text else "right", no_wrap=True)
    for row in table.rows:
        grid.add_row(*(_cell(column, row.get(column)) for column in columns))
    console.print()
    console.print(grid, highlight=False, markup=False)
    if table.note:
        console.print(table.note, highlight=False, markup=False)
    return {key: value for key, value in table._asdict().items() if value}


def _cell(column: str, value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, float):
        return str(value)
    if column == "whole training":
        return clock(value)
    if column == "share":
        return f"{value:.0%}"
    if column == "off by":
        return f"{value:.0e}"
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}" if value < 1 else f"{value:.2f}"
