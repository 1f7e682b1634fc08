"""the command report"""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from diskoop.cli.options import AsJson, Device, RunPath, print_files, verdict_facts


def report(
    path: RunPath,
    out: Annotated[
        Path | None, typer.Option(help="The file, or a folder for it; by default report.html in the run's folder.")
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Write a page on a run: verdict, curves, factors and swaps that move or sound, forecasts, scores."""
    from diskoop.web.report import write_report
    from diskoop.workflows.clips import judge_run, open_run

    run = open_run(path, device)
    file = write_report(run, out / "report.html" if out is not None and out.is_dir() else out)
    facts = verdict_facts(judge_run(run)) | {"factors": [] if run.factors is None else run.factors.names}
    print_files([file], facts | {"bytes": file.stat().st_size}, as_json)
    if show:
        webbrowser.open(file.resolve().as_uri())
