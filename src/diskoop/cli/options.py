"""what commands share: option types, checks of options, names of new files, the last lines they print"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from diskoop.errors import InputError, ResourceError, counted

if TYPE_CHECKING:
    from diskoop.analysis.verdict import Verdict

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave out files that cannot be read, and list them.")]
RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="The run's folder, or pretrained:NAME.")]
Data = Annotated[
    str | None, typer.Option(help="Other clips: a set's name, a file or a folder; by default the run's own set.")
]
Split = Annotated[
    str | None,
    typer.Option("--split", help="train, val, test or all; by default test or the run's examples, and all of --data."),
]
Operator = Annotated[str, typer.Option("--operator", help="frozen, or batch: fitted on these clips, as in the paper.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all random draws.")]
Out = Annotated[Path | None, typer.Option(help="A folder for the files; by default a new one in the run's.")]


def require_option(condition: bool, needed: str, given: dict[str, Any]) -> None:
    """Reject options that would have no effect.

    Args:
        condition: whether the option that they depend on was given.
        needed: that option, for the message.
        given: option -> its value; those that are false or None were not given.
    """
    for option, value in given.items():
        if value and not condition:
            raise InputError(f"{option} means nothing without {needed}")


def print_files(files: list[Path], facts: dict[str, Any], as_json: bool) -> None:
    """Print the files that a command wrote, or with --json all facts and the files as one object."""
    if as_json:
        print(json.dumps({**facts, "files": [str(file) for file in files]}))
        return
    for file in files:
        print(f"wrote {file}")


def verdict_facts(verdict: "Verdict | None") -> dict[str, Any]:
    """A verdict as an entry of the object that --json prints."""
    return {"verdict": None if verdict is None else verdict.as_dict()}


def print_verdict(verdict: "Verdict | None") -> None:
    """Print the figures of a verdict, and the verdict in the last line."""
    for sentence in [] if verdict is None else verdict.sentences():
        print(sentence)


def write_reports(*folders: Path, device: str = "auto") -> list[Path]:
    """The reports on runs, at the end of a command that has done its work: a failure is a note, not an error."""
    from diskoop.web.report import write_report
    from diskoop.workflows.clips import open_run
    from diskoop.workflows.console import print_note

    files = []
    for folder in folders:
        try:
            files.append(write_report(open_run(folder, device)))
        except (InputError, ResourceError, OSError, RuntimeError) as error:  # data that are gone, a full disk
            print_note(f"no report on {folder} was written: {str(error) or type(error).__name__}")
    return files


def print_summary(summary: dict[str, Any], as_json: bool) -> None:
    """Print the spectrum of a trained run, or with --json its whole summary."""
    if as_json:
        print(json.dumps(summary))
        return
    gap, radius = summary["static_gap"], summary["dynamic_radius"]
    print(f"operator fitted on {summary['fitted_on']}:")
    print(f"{counted(summary['static'], 'static eigenvalue')} within {gap:.3f} of 1, the others up to {radius:.3f}")
