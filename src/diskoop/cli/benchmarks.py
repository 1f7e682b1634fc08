"""the command bench"""

import json
from typing import Annotated

import typer

from diskoop.cli.options import AsJson, Device


def bench(
    sections: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SECTION]...", help="steps, shares, loader, inference; by default all."),
    ] = None,
    device: Device = "auto",
    turns: Annotated[int | None, typer.Option(help="Of each variant; by default 5 on CUDA, 3 elsewhere.")] = None,
    steps: Annotated[
        int | None, typer.Option(help="In a turn; by default as many as take a quarter of a second.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure speed on this machine: training steps and their stages, loading, inference (minutes)."""
    from diskoop.workflows.benchmarks import run_benchmarks

    facts = run_benchmarks(sections or [], device, turns, steps)
    if as_json:
        print(json.dumps(facts))
