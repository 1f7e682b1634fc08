"""the commands evaluate, compare and reproduce"""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from diskoop.cli.options import AsJson, Device, RunPath, Seed, print_files, verdict_facts, write_reports
from diskoop.errors import InputError
from diskoop.settings import parse_overrides

if TYPE_CHECKING:
    from diskoop.evaluation.registry import EvalConfig

Repeats = Annotated[int | None, typer.Option(min=1, help="Repetitions of what is random; the paper has 300.")]
MotionLabel = Annotated[
    str | None, typer.Option("--motion-label", metavar="LABEL", help="The label of the motion, such as action.")
]
SpeakerLabel = Annotated[
    str | None, typer.Option("--speaker-label", metavar="LABEL", help="Of sound: the label of the speaker.")
]
Limit = Annotated[int, typer.Option(min=0, help="Measure on so many test sequences; 0 takes all.")]


def evaluate(
    path: RunPath,
    repeats: Repeats = None,
    limit: Limit = 1024,
    motion_label: MotionLabel = None,
    speaker_label: SpeakerLabel = None,
    baselines: Annotated[bool, typer.Option(help="Measure baselines too.")] = True,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Measure all that a run's data allow: swaps, samples, codes, speakers, errors. Repeat it to continue."""
    from diskoop.training.progress import Reporter
    from diskoop.workflows import evaluation
    from diskoop.workflows.clips import judge_run, open_run

    config = _eval_config(seed, repeats, limit, motion_label, speaker_label, baselines)
    run = open_run(path, device)
    results, files = evaluation.evaluate(run, config, Reporter())
    files += write_reports(path, device=device)
    if not as_json:
        evaluation.print_results(results)
    print_files(files, results.as_json() | verdict_facts(judge_run(run, "test")), as_json)


def compare(
    paths: Annotated[list[Path], typer.Argument(metavar="RUN RUN...", help="The runs' folders, or pretrained:NAME.")],
    repeats: Repeats = None,
    limit: Limit = 1024,
    motion_label: MotionLabel = None,
    speaker_label: SpeakerLabel = None,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Write the tables to OUT.md and OUT.json.")] = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Compare runs by the same measurements."""
    from diskoop.run_folder import RunFolder
    from diskoop.training.progress import Reporter
    from diskoop.workflows import evaluation
    from diskoop.workflows.clips import open_run

    if len({RunFolder.of(path).path.resolve() for path in paths}) < max(2, len(paths)):
        raise InputError(f"expected two different runs at least, got {', '.join(map(str, paths))}")
    config = _eval_config(seed, repeats, limit, motion_label, speaker_label)
    results = evaluation.compare([open_run(path, device) for path in paths], config, Reporter())
    if not as_json:
        evaluation.print_results(results)
    print_files([] if out is None else results.write(out), results.as_json(), as_json)


def reproduce(
    name: Annotated[str, typer.Argument(metavar="TABLE", help="sprites, faces, speech or ablation.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[SECTION.KEY=VALUE]...", help="Changes to the preset.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small version: minutes on two cores.")] = False,
    data: Annotated[
        str | None,
        typer.Option(help="The real set's folder; for speech also any recordings in a folder for each speaker."),
    ] = None,
    preset: Annotated[str | None, typer.Option(help="Another preset than the paper's or that of --quick.")] = None,
    out: Annotated[Path | None, typer.Option(help="The folder; by default one under reproduced/.")] = None,
    repeats: Repeats = None,
    speaker_label: SpeakerLabel = None,
    seed: Seed = 0,
    seeds: Annotated[
        int, typer.Option(min=1, help="How many trainings, from --seed on; figures are then means over them.")
    ] = 1,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Make the paper's tables: train, measure, compare with published figures. Repeat it to continue."""
    from diskoop.training.progress import Reporter
    from diskoop.workflows import evaluation
    from diskoop.workflows import reproduce as work

    folder = out or Path("reproduced") / f"{name}{'-quick' if quick else ''}"
    config = _eval_config(seed, speaker_label=speaker_label)
    changes = parse_overrides(overrides or [])
    options = work.ReproduceConfig(
        name, quick, data, folder, preset, changes, seed, seeds, repeats, speaker_label, device, config.command
    )
    results, files = work.reproduce(options, config, Reporter())
    files += write_reports(*work.first_runs(options), device=device)
    if not as_json:
        evaluation.print_results(results)
    print_files(files, results.as_json(), as_json)


def _eval_config(
    seed: int,
    repeats: int | None = None,
    limit: int = 0,
    motion_label: str | None = None,
    speaker_label: str | None = None,
    baselines: bool = True,
) -> "EvalConfig":
    from diskoop.evaluation.registry import EvalConfig
    from diskoop.workflows.console import show_progress

    return EvalConfig(
        repeats=repeats or EvalConfig.repeats,
        seed=seed,
        limit=limit or None,
        motion_label=motion_label,
        speaker_label=speaker_label,
        baselines=baselines,
        command=shlex.join(["diskoop", *sys.argv[1:]]),
        progress=show_progress,
    )
