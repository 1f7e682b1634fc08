"""the commands train and demo"""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from diskoop.cli.options import AsJson, SkipBad, print_files, print_summary, print_verdict, verdict_facts, write_reports
from diskoop.errors import InputError
from diskoop.launch import is_main
from diskoop.settings import Settings, is_own, merged, parse_overrides, presets, read_yaml
from diskoop.storage import unused_path


def demo(
    out: Annotated[Path, typer.Option(help="The run's folder.")] = Path("runs/demo"),
    as_json: AsJson = False,
) -> None:
    """Train on the puppets (minutes), find factors, judge and draw them, write a report."""
    from diskoop.workflows.clips import judge_run
    from diskoop.workflows.demo import run_demo
    from diskoop.workflows.factors import score_text

    run, scores, pictures = run_demo(out)
    verdict = judge_run(run)
    reports = write_reports(out)
    facts = run.summary() | verdict_facts(verdict) | {"scores": scores, "files": [str(file) for file in reports]}
    print_summary(facts | {"pictures": [str(picture) for picture in pictures]}, as_json)
    if not as_json:
        print_files(reports, {}, as_json)
        print(f"see {pictures[0]} (looks and motion swapped) and {pictures[1]} (what each factor does)")
        print_verdict(verdict)
        if "score" in scores:
            figures = score_text(scores["score"], scores["kept"], scores["floor"])
            print(f"a classifier that knows the labels, on {scores['clips']} test clips: {figures}; 1 is perfect")
        print(f"click on it: diskoop explore {shlex.quote(str(out))}")


def train(
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[SECTION.KEY=VALUE]...", help="Settings, such as model.k=24.")
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(
            "--config",
            "-c",
            help=f"A YAML file, or a preset: {', '.join(presets())}. Your own files have one by their kind.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder; by default a new one under runs/.")] = None,
    start: Annotated[
        Path | None,
        typer.Option("--from", help="Start from the weights and settings of this run or pretrained:NAME."),
    ] = None,
    resume: Annotated[
        Path | None, typer.Option("--resume", help="Go on with the interrupted run in this folder.")
    ] = None,
    end: Annotated[
        Path | None, typer.Option("--end", help="Make the interrupted run in this folder usable as it is.")
    ] = None,
    skip_bad: SkipBad = False,
    show: Annotated[bool, typer.Option("--settings", help="Print all settings as YAML and stop.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train a model; after Ctrl-C, --resume goes on and --end makes do with what there is."""
    if resume is not None or end is not None:
        if config or out or start or skip_bad or (end and (resume or overrides)):
            raise InputError(
                "--resume takes settings of train, loss and spectrum beside it, --end none; --from starts a new run "
                "with other settings"
            )
        from diskoop.run_folder import RunFolder
        from diskoop.training import loop

        folder = resume or end or Path()
        if end is not None:
            loop.end(folder)
        else:
            has_trained = loop.resume(folder, changes=parse_overrides(overrides or []))
            if not (has_trained or as_json) and RunFolder.of(folder).report.exists():
                return  # its results were told when it was trained
    else:
        settings = _settings(overrides or [], config, start, skip_bad)
        if show:
            if is_main():
                print(settings.to_yaml(), end="")
            return
        from diskoop.training import loop

        name = settings.data.name or Path(settings.data.path or "puppets").resolve().stem
        folder = out or unused_path(Path("runs"), name)
        loop.train(settings, folder, start)
    if not is_main():
        return  # of several processes, one judges and reports
    from diskoop.run import load
    from diskoop.workflows.clips import judge_run

    run = load(folder)
    verdict = judge_run(run)
    reports = write_reports(folder)
    print_summary(run.summary() | verdict_facts(verdict) | {"files": [str(file) for file in reports]}, as_json)
    if not as_json:
        print_files(reports, {}, as_json)
        print_verdict(verdict)


def _settings(overrides: list[str], config: str | None, start: Path | None, skip_bad: bool) -> Settings:
    """The settings of the run `start`, changed by `config`, changed by `overrides`."""
    base: dict[str, Any] = {}
    if start is not None:
        from diskoop.run_folder import RunFolder, load_settings

        base = load_settings(RunFolder.of(start)).model_dump()
    changes = parse_overrides(overrides)
    if config is None and start is None and is_own(changes.get("data", {})):
        from diskoop.data.presets import preset_for

        config = preset_for(Settings.of({"data": changes["data"] | {"skip_bad": skip_bad}}).data)
        if is_main():
            print(f"settings of the preset {config}; -c chooses others", file=sys.stderr)
    if config is not None:
        base = merged(base, read_yaml(config))
    settings = Settings.of(merged(base, changes))
    return settings.replaced({"data": {"skip_bad": True}}) if skip_bad else settings
