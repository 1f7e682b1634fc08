"""the commands swap, sample and forecast"""

from typing import Annotated

import typer

from diskoop.cli.options import AsJson, Data, Device, Operator, Out, RunPath, Seed, Split, print_files, verdict_facts
from diskoop.storage import unused_path

NUM_PAIRS = 2  # drawn where none are given


def swap(
    path: RunPath,
    factors: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FACTOR]...",
            help="What to swap: factors or mode numbers; several are all taken at once, by default each alone.",
        ),
    ] = None,
    pair: Annotated[
        list[str] | None,
        typer.Option(metavar="A:B", help="Receiver and donor, by number or name; repeatable; by default random."),
    ] = None,
    amount: Annotated[float, typer.Option(help="0 changes nothing, 1 replaces, more exaggerates.")] = 1.0,
    gradual: Annotated[
        list[str] | None, typer.Option(metavar="F,F,F", help="One factor after another in this order; repeatable.")
    ] = None,
    combinations: Annotated[
        str | None, typer.Option(metavar="F,F,F", help="Every combination of these factors.")
    ] = None,
    incremental: Annotated[
        str | None,
        typer.Option(metavar="PART=N,N,all", help="Growing sets of modes, as dynamic=4,6,all or static=1,2,all."),
    ] = None,
    operator: Operator = "frozen",
    data: Data = None,
    split: Split = None,
    seed: Seed = 0,
    out: Out = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Give clips the factors of other clips: pictures, animations or sound, and arrays."""
    from diskoop.workflows import editing
    from diskoop.workflows.clips import judge_run, load_clips, open_run, parse_pairs, split_names

    run = open_run(path, device)
    verdict = judge_run(run)
    clips = load_clips(run, data, split)
    named = [*(factors or []), *split_names(",".join([*(gradual or []), combinations or ""]))]
    pairs = parse_pairs(clips, pair or [], NUM_PAIRS, seed, named)
    config = editing.SwapConfig(factors or [], gradual or [], combinations, incremental, amount, operator)
    files, facts = editing.swap(run, clips, pairs, config, out or unused_path(run.folder.path, "swap"))
    if not as_json:
        if verdict is not None and verdict.problems:
            print(verdict.conclusion)
        for receiver, donor in pairs:
            print(f"pair {receiver}:{donor}: {clips.title(receiver)}; factors of {clips.title(donor)}")
        if factors and len(factors) > 1:
            print(f"taken all at once: {', '.join(factors)} (--gradual {','.join(factors)} takes one after another)")
    print_files(files, facts | verdict_facts(verdict), as_json)


def sample(
    path: RunPath,
    factors: Annotated[
        list[str] | None, typer.Argument(metavar="[FACTOR]...", help="What to sample, together; by default static.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, max=200, help="How many new sequences.")] = 8,
    mix: Annotated[str, typer.Option(help="two clips, or the whole batch, which tends to the average.")] = "two",
    operator: Operator = "frozen",
    data: Data = None,
    split: Split = None,
    seed: Seed = 0,
    out: Out = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Make new sequences: some factors mixed from other clips, the rest kept."""
    from diskoop.workflows import editing
    from diskoop.workflows.clips import load_clips, open_run

    run = open_run(path, device)
    clips = load_clips(run, data, split)
    folder = out or unused_path(run.folder.path, "sample")
    files, facts = editing.sample(run, clips, factors or ["static"], count, mix, operator, seed, folder)
    print_files(files, facts, as_json)


def forecast(
    path: RunPath,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Frames ahead; by default as many as there are to compare.")
    ] = None,
    observed: Annotated[
        int | None, typer.Option(min=2, help="Frames to forecast from; by default the first half.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, max=50, help="How many clips to draw.")] = 4,
    data: Data = None,
    split: Split = None,
    seed: Seed = 0,
    out: Out = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Forecast clips; errors by horizon, compared with holding the last frame and plain DMD."""
    from diskoop.workflows import editing
    from diskoop.workflows.clips import load_clips, open_run, uses_examples

    run = open_run(path, device)
    clips = load_clips(run, data, split)
    folder = out or unused_path(run.folder.path, "forecast")
    dmd = not uses_examples(run, data, split)
    files, facts = editing.forecast(run, clips, steps, observed, count, seed, folder, dmd)
    if not as_json:
        editing.print_forecast_errors(facts)
    print_files(files, facts, as_json)
