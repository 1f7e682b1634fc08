"""benchmarks by section: tables on the terminal and one JSON object"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from diskoop.bench.inference import measure_inference
from diskoop.bench.loading import measure_loading
from diskoop.bench.steps import measure_shares, measure_steps
from diskoop.bench.timing import BenchConfig, BenchTable, describe_device
from diskoop.errors import InputError, suggest
from diskoop.training.estimate import format_duration
from diskoop.workflows.console import Justify, print_lines, print_table, show_progress

TURNS = {"cuda": 5, "cpu": 3}


class Section(NamedTuple):
    description: str
    measure: Callable[[BenchConfig], Iterator[BenchTable]]


SECTIONS = {
    "steps": Section(
        "one training step at the paper's settings: as the paper reads, plain, and the one that trains here",
        measure_steps,
    ),
    "shares": Section("the stages of a captured step", measure_shares),
    "loader": Section("how fast batches reach the device, compared with a step", measure_loading),
    "inference": Section("how fast clips are decomposed, swapped, decoded and classified", measure_inference),
}


def run_benchmarks(
    names: Sequence[str],
    device: str = "auto",
    turns: int | None = None,
    steps: int | None = None,
    sections: Mapping[str, Section] = SECTIONS,
) -> dict[str, Any]:
    """Measure sections and print each table as soon as it is measured.

    Args:
        names: of the sections; none means all.
        device: auto, cpu or cuda.
        turns: of each variant; None is 5 on CUDA and 3 elsewhere.
        steps: repetitions in a turn; None is as many as take a quarter of a second.
        sections: those to choose from.

    Returns:
        The device and all tables as a JSON object.
    """
    for name in names:
        if name not in sections:
            raise InputError(f"unknown section {name!r}; {suggest(name, sections)}")
    config = _bench_config(device, turns, steps)
    facts = describe_device(config.device) | {"turns": config.turns, "steps": config.steps}
    print_lines(
        [
            f"{facts['device']} ({facts['kind']}), torch {facts['torch']}, {facts['threads']} threads; "
            f"medians of {config.turns} turns"
        ]
    )
    tables: dict[str, list[dict[str, Any]]] = {}
    for name, section in sections.items():
        if names and name not in names:
            continue
        print_lines(["", f"{name}: {section.description}"])
        tables[name] = []
        for table in section.measure(config):
            print_bench_table(table)
            tables[name].append(table._asdict())
    return {**facts, "sections": tables}


def _bench_config(device: str, turns: int | None, steps: int | None) -> BenchConfig:
    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    if device != "auto" and device not in devices:
        raise InputError(
            f"expected --device to be auto or one that this machine has ({', '.join(devices)}), got {device!r}"
        )
    kind = devices[-1] if device == "auto" else device
    for option, value in (("--turns", turns), ("--steps", steps)):
        if value is not None and value < 1:
            raise InputError(f"expected {option} of 1 or more, got {value}")
    return BenchConfig(torch.device(kind), turns or TURNS[kind], steps, show_progress)


def print_bench_table(table: BenchTable) -> None:
    columns: dict[str, Justify] = {}
    for row in table.rows:
        for column, value in row.items():
            columns[column] = "left" if isinstance(value, str) else columns.get(column, "right")
    print_lines([""])
    rows = [[_format_cell(column, row.get(column)) for column in columns] for row in table.rows]
    print_table(table.title, columns, rows)


def _format_cell(column: str, value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, float):
        return str(value)
    if column == "whole training":
        return format_duration(value)
    if column == "share":
        return f"{value:.0%}"
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}" if value < 1 else f"{value:.2f}"
