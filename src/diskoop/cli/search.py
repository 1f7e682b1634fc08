"""the command search"""

from pathlib import Path
from typing import Annotated

import typer

from diskoop.cli.options import AsJson, print_files


def search(
    config: Annotated[
        str, typer.Option("--config", "-c", help="The plan: a YAML file, or one that comes with the package.")
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SECTION.KEY=VALUE]...", help="Settings of all trials, such as data.path=clips/."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The search's folder; by default searches/ and the plan's name.")
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option(help="What workers share: sqlite:///FILE, journal:FILE or postgresql://USER@HOST/DATABASE."),
    ] = None,
    sampler: Annotated[str | None, typer.Option(help="tpe, random or grid, in place of the plan's.")] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="How many trials, in place of the plan's.")] = None,
    as_json: AsJson = False,
) -> None:
    """Search for settings by a plan. The same command goes on, or works beside others that share its storage."""
    from diskoop.search.plan import SearchPlan
    from diskoop.settings import merged, parse_overrides
    from diskoop.training.progress import Reporter
    from diskoop.workflows.search import Search, print_results

    given = SearchPlan.load(config, {"storage": storage, "sampler": sampler, "trials": trials})
    settings = merged(given.settings, parse_overrides(overrides or []))
    plan = SearchPlan.of(given.model_dump() | {"settings": settings})
    name = plan.name or Path(config).stem
    folder = out or Path("searches") / name
    results, files = Search(name, plan, folder, Reporter()).run()
    if not as_json:
        print_results(results)
    print_files(files, {"folder": str(folder), **results.as_json()}, as_json)
