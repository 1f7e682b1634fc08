"""the command export"""

from typing import Annotated

import typer

from diskoop.cli.options import AsJson, Data, Out, RunPath, Split, print_files
from diskoop.storage import unused_path


def export(
    path: RunPath,
    formats: Annotated[
        list[str] | None,
        typer.Option("--format", help="onnx, torch (torch.export) or hub (a folder for model hubs); repeatable."),
    ] = None,
    swaps: Annotated[
        list[str] | None,
        typer.Option("--swap", metavar="FACTOR", help="A graph that swaps it (or F,F together); repeatable."),
    ] = None,
    frames: Annotated[
        int | None, typer.Option(min=2, help="Frames that the graphs take; by default those of a clip.")
    ] = None,
    data: Data = None,
    split: Split = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Write a run for other programs: encoder, decoder and swaps as ONNX or torch.export graphs, a hub folder."""
    from diskoop.export.files import export_run
    from diskoop.workflows.clips import load_clips, open_run, parse_factor, split_names
    from diskoop.workflows.console import print_table

    run = open_run(path, "cpu")
    clips = None if formats == ["hub"] else load_clips(run, data, split)
    target = out or unused_path(run.folder.path, "export")
    chosen = {text: parse_factor(split_names(text)) for text in swaps or []}
    files, facts = export_run(run, clips, target, formats or ["onnx"], chosen, frames)
    if not as_json and facts["graphs"]:
        columns = {"graph": "left", "inputs": "left", "output": "left", "off by (deviations)": "right"}
        rows = [
            [
                graph["file"],
                ", ".join(f"{name}: {kind}" for name, kind in graph["inputs"].items()),
                ", ".join(f"{name}: {kind}" for name, kind in graph["outputs"].items()),
                f"{graph['difference']:.1e}",
            ]
            for graph in facts["graphs"]
        ]
        print_table("graphs, compared with the model on example clips", columns, rows)  # type: ignore[arg-type]
    print_files(files, facts, as_json)
