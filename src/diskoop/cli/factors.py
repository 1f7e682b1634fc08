"""the command factors"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from diskoop.cli.options import (
    AsJson,
    Data,
    Device,
    Operator,
    RunPath,
    Split,
    print_files,
    print_verdict,
    require_option,
    verdict_facts,
)
from diskoop.errors import InputError

if TYPE_CHECKING:
    from diskoop.workflows.factors import DiscoveryConfig


def factors(
    path: RunPath,
    method: Annotated[
        str | None,
        typer.Option(
            help="label-free; guided: by a few labelled clips; modes: the paper's search with a classifier; or another "
            "that is registered."
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="With --method label-free: how many factors, if you know.")
    ] = None,
    per_value: Annotated[
        int | None, typer.Option(min=1, help="With --method guided: labelled clips for each value; by default 5.")
    ] = None,
    exhaustive: Annotated[
        bool, typer.Option(help="With --method modes: try every set of modes, not only neighbours.")
    ] = False,
    alone: Annotated[bool, typer.Option(help="With --method modes: penalise changes of every other label.")] = False,
    labels: Annotated[
        str | None, typer.Option(metavar="L,L", help="With --method guided or modes: only these labels.")
    ] = None,
    show_all: Annotated[
        bool, typer.Option("--all", help="Show weak factors too, in the table and the picture.")
    ] = False,
    refit: Annotated[bool, typer.Option("--refit", help="Find factors even if the run has some.")] = False,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Find factors even if the model has not learnt its clips.")
    ] = False,
    rename: Annotated[list[str] | None, typer.Option(metavar="OLD=NEW", help="Rename a factor; repeatable.")] = None,
    score: Annotated[
        bool,
        typer.Option("--score", help="Match factors to labels, swap each in the test split, classify."),
    ] = False,
    table: Annotated[
        Path | None, typer.Option(help="Write strengths and coefficients of every clip to this .csv or .parquet file.")
    ] = None,
    frames: Annotated[bool, typer.Option("--frames", help="With --table: a row for each frame.")] = False,
    operator: Operator = "frozen",
    embed: Annotated[
        str | None, typer.Option(metavar="F,F", help="Draw a map of clips by these factors (t-SNE).")
    ] = None,
    color: Annotated[
        str | None, typer.Option(metavar="LABEL,LABEL", help="With --embed: labels that colour faces and edges.")
    ] = None,
    fix: Annotated[
        str | None, typer.Option(metavar="LABEL,LABEL", help="With --embed: only clips that agree in these labels.")
    ] = None,
    data: Data = None,
    split: Split = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Find factors, name them, draw what each does; --table writes them out for every clip."""
    from diskoop.analysis.table_export import table_writer, write_table
    from diskoop.workflows import factors as work
    from diskoop.workflows.clips import judge_run, load_clips, open_run

    config = _discovery_config(method, count, per_value, exhaustive, alone, labels)
    require_option(table is not None, "--table", {"--frames": frames, "--operator": operator != "frozen"})
    require_option(embed is not None, "--embed", {"--color": color, "--fix": fix})
    require_option(table is not None or embed is not None, "--table or --embed", {"--data": data, "--split": split})
    refit = refit or method is not None or count is not None
    if rename and refit:
        raise InputError("--rename names factors that are there; find them first, then rename them")
    if table is not None:
        table_writer(table)  # rejects a bad suffix before any work is done
    run = open_run(path, device, factors=not refit)
    verdict = judge_run(run)
    if run.factors is None:
        work.require_learnt(verdict, anyway)
    run, files = work.prepare_factors(run, config, rename or [])
    facts: dict[str, Any] = verdict_facts(verdict) | work.summarize_factors(run)
    facts["picture"] = work.describe_picture(run)
    files += work.draw_factors(run, show_all)
    if score:
        scores, pictures = work.score_factors(run)
        facts |= scores
        files += pictures
    if table is not None:
        files.append(write_table(run.decompose(load_clips(run, data, split), operator), table, frames))
    if embed is not None:
        facts["clusters"], picture = work.draw_embedding(run, embed, color, fix, data, split)
        files.append(picture)
    if not as_json:
        print_verdict(verdict)
        work.print_factors(run, facts, show_all)
    print_files(files, facts, as_json)


def _discovery_config(
    method: str | None, count: int | None, per_value: int | None, exhaustive: bool, alone: bool, labels: str | None
) -> "DiscoveryConfig":
    """How to find factors."""
    from diskoop.workflows.clips import split_names
    from diskoop.workflows.factors import DiscoveryConfig

    options = {
        "count": count,
        "per_value": per_value,
        "exhaustive": exhaustive,
        "alone": alone,
        "labels": tuple(split_names(labels or "")),
    }
    return DiscoveryConfig(method or "label-free", {name: value for name, value in options.items() if value})
