"""the commands train and demo"""

from pathlib import Path
from typing import Annotated, Any

import typer

from diskoop.cli.options import AsJson, SkipBad, print_summary, print_verdict, verdict_facts
from diskoop.errors import InputError
from diskoop.settings import Settings, merged, parse_overrides, presets, read_yaml
from diskoop.storage import unused_path


def demo(
    out: Annotated[Path, typer.Option(help="The run's folder.")] = Path("runs/demo"),
    as_json: AsJson = False,
) -> None:
    """Train on the puppets (minutes), find factors, draw swaps and what each factor does."""
    from diskoop.workflows.clips import judge_run
    from diskoop.workflows.demo import run_demo

    run, pictures = run_demo(out)
    verdict = judge_run(run)
    facts = run.summary() | verdict_facts(verdict)
    print_summary(facts | {"pictures": [str(picture) for picture in pictures]}, as_json)
    if not as_json:
        print(f"see {pictures[0]} (looks and motion swapped) and {pictures[1]} (what each factor does)")
        print_verdict(verdict)


def train(
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[SECTION.KEY=VALUE]...", help="Settings, such as model.k=24.")
    ] = None,
    config: Annotated[
        str | None, typer.Option("--config", "-c", help=f"A YAML file, or a preset: {', '.join(presets())}.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder; by default a new one under runs/.")] = None,
    start: Annotated[
        Path | None, typer.Option("--from", help="Start from the weights and settings of this run.")
    ] = None,
    resume: Annotated[Path | None, typer.Option("--resume", help="Resume the interrupted run in this folder.")] = None,
    skip_bad: SkipBad = False,
    show: Annotated[bool, typer.Option("--settings", help="Print all settings as YAML and stop.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train a model; after Ctrl-C, --resume continues."""
    if resume is not None:
        if overrides or config or out or start or skip_bad:
            raise InputError(
                "--resume goes on with a run as it was set up; --from starts a new one with other settings"
            )
        from diskoop.training import loop

        loop.resume(resume)
        folder = resume
    else:
        settings = _settings(overrides or [], config, start, skip_bad)
        if show:
            print(settings.to_yaml(), end="")
            return
        from diskoop.training import loop

        name = settings.data.name or Path(settings.data.path or "puppets").resolve().stem
        folder = out or unused_path(Path("runs"), name)
        loop.train(settings, folder, start)
    from diskoop.run import load
    from diskoop.workflows.clips import judge_run

    run = load(folder)
    verdict = judge_run(run)
    print_summary(run.summary() | verdict_facts(verdict), as_json)
    if not as_json:
        print_verdict(verdict)


def _settings(overrides: list[str], config: str | None, start: Path | None, skip_bad: bool) -> Settings:
    """The settings of the run `start`, changed by `config`, changed by `overrides`."""
    base: dict[str, Any] = {}
    if start is not None:
        from diskoop.run_folder import RunFolder, load_settings

        base = load_settings(RunFolder(start)).model_dump()
    if config is not None:
        base = merged(base, read_yaml(config))
    settings = Settings.of(merged(base, parse_overrides(overrides)))
    return settings.replaced({"data": {"skip_bad": True}}) if skip_bad else settings
