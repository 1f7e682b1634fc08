"""one verb per command, no maths"""

import json
import os
import shlex
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import diskoop
from diskoop.errors import InputError, Stopped
from diskoop.settings import Settings, merged, parse_overrides, presets, read_yaml

if TYPE_CHECKING:
    from diskoop.interfaces.scoring import EvalConfig

# Everything heavier is imported by the command that needs it: `diskoop --help` answers at once.

# Threads that wait should soon sleep: beside another busy program a step that spins takes ten times as long.
# GNU's OpenMP reads this when torch loads it.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

app = typer.Typer(
    help=diskoop.__doc__,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        print(diskoop.__version__)
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave out what cannot be read, and list it.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")]


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The run's folder.")] = Path("runs/demo"),
    as_json: AsJson = False,
) -> None:
    """Train on the puppets (minutes), find what varies, draw swaps and what each factor does."""
    from diskoop.interfaces.demo import run_demo

    run, pictures = run_demo(out)
    _conclude(run.summary() | {"pictures": [str(picture) for picture in pictures]}, as_json)
    if not as_json:
        print(f"look at {pictures[0]} (looks and actions exchanged) and {pictures[1]} (the factors it found by itself)")


@app.command()
def data(
    what: Annotated[
        str | None,
        typer.Argument(metavar="[NAME|PATH]", help="A set's name, or your own file or folder; nothing lists the sets."),
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[data.KEY=VALUE]...", help="Settings, such as data.window=16.")
    ] = None,
    size: Annotated[int | None, typer.Option(help="Pixels, for video.")] = None,
    sheets: Annotated[Path | None, typer.Option(help="For sprites: the folder with the layer sheets.")] = None,
    labels: Annotated[Path | None, typer.Option(help="A CSV with a row for each sequence.")] = None,
    skip_bad: SkipBad = False,
    out: Annotated[Path | None, typer.Option(help="Where to draw a preview; by default NAME-1.png here.")] = None,
    count: Annotated[int, typer.Option(min=1, max=200, help="How many sequences the preview shows.")] = 16,
    as_json: AsJson = False,
) -> None:
    """Say what a data set holds, before anyone trains on it; draw a contact sheet."""
    from diskoop.data import data_names, data_settings, open_data
    from diskoop.interfaces.describe import describe_data, preview

    if what is None:
        print(json.dumps(data_names()) if as_json else "\n".join(data_names()))
        return
    sections = parse_overrides(overrides or [])
    for section in sections.keys() - {"data"}:
        raise InputError(f"{section}.{next(iter(sections[section]))} is no setting of data; give data.KEY=VALUE")
    options = sections.get("data", {})
    if sheets is not None and what != "sprites":
        raise InputError(f"--sheets names the layer sheets of sprites, got it for {what!r}")
    given = {"size": size, "path": sheets, "labels": labels, "skip_bad": skip_bad}
    options |= {key: str(value) if isinstance(value, Path) else value for key, value in given.items() if value}
    settings = data_settings(what, **options)
    everything = open_data(settings)
    facts = describe_data(everything)
    files = preview(
        everything, count, out or _unused(_beside(settings.path), Path(everything.name).stem, ".png", ".wav")
    )
    if as_json:
        print(json.dumps({**facts, "preview": [str(file) for file in files]}))
        return
    for key, value in facts.items():
        for line in _lines(key, value):
            print(line)
    print(f"preview: {' and '.join(map(str, files))}")


@app.command()
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
    go_on: Annotated[
        Path | None, typer.Option("--resume", help="Go on with the interrupted run in this folder.")
    ] = None,
    skip_bad: SkipBad = False,
    show: Annotated[bool, typer.Option("--settings", help="Print all settings as YAML and stop.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train a model; after Ctrl-C, --resume goes on."""
    if go_on is not None:
        if overrides or config or out or start or skip_bad:
            raise InputError(
                "--resume goes on with a run as it was set up; --from starts a new one with other settings"
            )
        from diskoop.training import loop

        loop.resume(go_on)
        folder = go_on
    else:
        base: dict[str, Any] = {}
        if start is not None:
            from diskoop.training.checkpoint import RunFolder, load_settings

            base = load_settings(RunFolder(start)).model_dump()
        if config is not None:
            base = merged(base, read_yaml(config))
        settings = Settings.of(merged(base, parse_overrides(overrides or [])))
        settings = settings.replaced({"data": {"skip_bad": True}}) if skip_bad else settings
        if show:
            print(settings.to_yaml(), end="")
            return
        title = settings.data.name or Path(settings.data.path or "puppets").resolve().stem
        folder = out or _unused(Path("runs"), title)
        from diskoop.training import loop

        loop.train(settings, folder, start)
    from diskoop.run import load

    _conclude(load(folder).summary(), as_json)


RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="The run's folder.")]
Data = Annotated[
    str | None, typer.Option(help="Other clips: a set's name, or a file or folder; by default the run's own.")
]
Part = Annotated[str | None, typer.Option("--split", help="train, val, test or all; by default test, of --data all.")]
OperatorOf = Annotated[
    str, typer.Option("--operator", help="frozen, or batch: fitted on these clips, as in the paper.")
]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Seed = Annotated[int, typer.Option(min=0, help="Draws that differ have other seeds.")]
Out = Annotated[Path | None, typer.Option(help="A folder for the files; by default a new one in the run's.")]


@app.command()
def factors(
    path: RunPath,
    way: Annotated[
        str | None,
        typer.Option(
            help="free: without labels; guided: by a few labelled clips; modes: the paper's search with a judge."
        ),
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="With --way free: how many factors, if you know.")] = None,
    per_value: Annotated[
        int | None, typer.Option(min=1, help="With --way guided: labelled clips for each value; by default 5.")
    ] = None,
    exhaustive: Annotated[
        bool, typer.Option(help="With --way modes: try every set of modes, not only neighbours.")
    ] = False,
    alone: Annotated[bool, typer.Option(help="With --way modes: punish every other change as well.")] = False,
    labels: Annotated[
        str | None, typer.Option(metavar="L,L", help="With --way guided or modes: only these labels.")
    ] = None,
    anew: Annotated[bool, typer.Option("--anew", help="Find them again even if they are known.")] = False,
    rename: Annotated[list[str] | None, typer.Option(metavar="OLD=NEW", help="Give a factor another name.")] = None,
    score: Annotated[
        bool, typer.Option("--score", help="Match factors to labels, swap each in the test split, judge.")
    ] = False,
    table: Annotated[
        Path | None, typer.Option(help="Write strengths and coefficients of every clip to this .csv or .parquet file.")
    ] = None,
    frames: Annotated[bool, typer.Option("--frames", help="With --table: a row for each frame.")] = False,
    operator: OperatorOf = "frozen",
    embed: Annotated[
        str | None,
        typer.Option(metavar="F,F", help="Draw a map of clips by these factors (t-SNE)."),
    ] = None,
    color: Annotated[
        str | None,
        typer.Option(metavar="LABEL,LABEL", help="With --embed: face and edge colours."),
    ] = None,
    fix: Annotated[
        str | None,
        typer.Option(metavar="LABEL,LABEL", help="With --embed: clips alike in these."),
    ] = None,
    data: Data = None,
    split: Part = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Find what varies, name it, draw what each factor does; --table writes them out for every clip."""
    from diskoop.analysis.tables import writer_of
    from diskoop.interfaces import commands

    _require(way == "guided", "--way guided", {"--per-value": per_value})
    _require(way == "modes", "--way modes", {"--exhaustive": exhaustive, "--alone": alone})
    _require(way in ("guided", "modes"), "--way guided or --way modes", {"--labels": labels})
    _require(way in (None, "free"), "--way free", {"--count": count})
    _require(table is not None, "--table", {"--frames": frames, "--operator": operator != "frozen"})
    _require(embed is not None, "--embed", {"--color": color, "--fix": fix})
    _require(table is not None or embed is not None, "--table or --embed", {"--data": data, "--split": split})
    again = anew or way is not None or count is not None
    if rename and again:
        raise InputError("--rename names factors that are there; find them first, then rename them")
    if table is not None:
        writer_of(table)  # a bad name is said before anything is looked for
    run = commands.open_run(path, device, known=not again)
    before: list[Path] = []
    if rename:
        run = run.rename(dict(commands.renaming(word) for word in rename))
    elif run.found is None:
        run, before = commands.keep(
            run, commands.find(run, way or "free", count, per_value or 5, exhaustive, alone, labels)
        )
    facts: dict[str, Any] = commands.facts(run)
    files = [*before, *commands.draw_factors(run)]
    if score:
        judge = commands.judge_of(run)
        joined, one_each = commands.scored(run, judge)
        facts |= commands.score_facts(run, joined, one_each, judge)
        title = commands.score_line(joined.score, joined.kept, joined.floor)
        shares = joined.matrix, joined.kept_matrix, facts["chance"]
        files.append(commands.draw_matrix(path, joined.labels, *shares, title, judge))
    if table is not None:
        files.append(commands.tabulate(run, commands.clips_for(run, data, split), table, frames, operator))
    if embed is not None:
        picture, facts["clusters"] = commands.embed(run, data, split, embed, color, fix)
        files.append(picture)
    if not as_json:
        commands.show_factors(run, facts)
    _written(files, facts, as_json)


@app.command()
def swap(
    path: RunPath,
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FACTOR]...",
            help="What to take over: factors or mode numbers, together; by default each factor alone.",
        ),
    ] = None,
    pair: Annotated[
        list[str] | None, typer.Option(metavar="A:B", help="Who receives and who gives, by number or name; repeat it.")
    ] = None,
    amount: Annotated[float, typer.Option(help="0 changes nothing, 1 replaces, more exaggerates.")] = 1.0,
    gradual: Annotated[
        list[str] | None, typer.Option(metavar="F,F,F", help="One factor after another in this order; repeat it.")
    ] = None,
    combine: Annotated[str | None, typer.Option(metavar="F,F,F", help="Every combination of these factors.")] = None,
    grow: Annotated[
        str | None,
        typer.Option(metavar="PART=N,N,all", help="Growing sets of modes, as dynamic=4,6,all or static=1,2,all."),
    ] = None,
    operator: OperatorOf = "frozen",
    data: Data = None,
    split: Part = None,
    seed: Seed = 0,
    out: Out = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Give clips the factors of other clips: pictures, animations or sound, and arrays."""
    from diskoop.interfaces import commands

    run = commands.open_run(path, device)
    clips = commands.clips_for(run, data, split)
    pairs = commands.pairs_in(clips, pair or [], 2, seed)
    files = commands.swap(
        run, clips, pairs, what or [], amount, operator, gradual or [], combine, grow, out or _unused(path, "swap")
    )
    if not as_json:
        print(f"pairs: {', '.join(f'{receiver}:{giver}' for receiver, giver in pairs)}")
    _written(files, {"pairs": pairs}, as_json)


@app.command()
def sample(
    path: RunPath,
    what: Annotated[
        list[str] | None, typer.Argument(metavar="[FACTOR]...", help="What to draw anew, together; by default static.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, max=200, help="How many new sequences.")] = 8,
    over: Annotated[str, typer.Option(help="Mix two clips, or the whole batch, which tends to the average.")] = "two",
    operator: OperatorOf = "frozen",
    data: Data = None,
    split: Part = None,
    seed: Seed = 0,
    out: Out = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Make new sequences: some factors mixed from other clips, the rest kept."""
    from diskoop.interfaces import commands

    run = commands.open_run(path, device)
    clips = commands.clips_for(run, data, split)
    files = commands.sample(run, clips, what or ["static"], count, over, operator, seed, out or _unused(path, "sample"))
    _written(files, {"seed": seed}, as_json)


@app.command()
def forecast(
    path: RunPath,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Frames ahead; by default as many as there are to compare.")
    ] = None,
    given: Annotated[
        int | None, typer.Option(min=2, help="Frames to forecast from; by default the first half.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, max=50, help="How many clips to draw.")] = 4,
    data: Data = None,
    split: Part = None,
    seed: Seed = 0,
    out: Out = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Say how clips go on, and how far ahead that holds beside holding the last frame and plain DMD."""
    from diskoop.interfaces import commands

    run = commands.open_run(path, device)
    clips = commands.clips_for(run, data, split)
    files, facts = commands.forecast(run, clips, steps, given, count, seed, out or _unused(path, "forecast"))
    if not as_json:
        commands.show_errors(facts)
    _written(files, facts, as_json)


Repeats = Annotated[int | None, typer.Option(min=1, help="Repetitions of what is random; the paper has 300.")]
Moving = Annotated[str | None, typer.Option("--moves", metavar="LABEL", help="The label that says what is done.")]
Speaker = Annotated[
    str | None, typer.Option("--who", metavar="LABEL", help="Of sound: the label that says who speaks.")
]
Limit = Annotated[int, typer.Option(min=0, help="Measure on so many test sequences; 0 takes all.")]


@app.command()
def evaluate(
    path: RunPath,
    repeats: Repeats = None,
    limit: Limit = 1024,
    moves: Moving = None,
    who: Speaker = None,
    baselines: Annotated[bool, typer.Option(help="Measure what stands beside it too.")] = True,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Measure all that a run's data allow: swaps, samples, codes, speakers, errors; Ctrl-C and again goes on."""
    from diskoop.interfaces import commands, scoring
    from diskoop.training.progress import Reporter

    run = commands.open_run(path, device)
    results, files = scoring.evaluate(run, _eval_config(repeats, limit, moves, who, baselines, seed), Reporter())
    if not as_json:
        scoring.show(results)
    _written(files, results.as_json(), as_json)


@app.command()
def compare(
    paths: Annotated[list[Path], typer.Argument(metavar="RUN RUN...", help="The runs' folders.")],
    repeats: Repeats = None,
    limit: Limit = 1024,
    moves: Moving = None,
    who: Speaker = None,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Write the tables to OUT.md and OUT.json.")] = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Put runs side by side, measured alike."""
    from diskoop.interfaces import commands, scoring
    from diskoop.training.progress import Reporter

    if len({path.resolve() for path in paths}) < max(2, len(paths)):
        raise InputError(f"expected two different runs at least, got {', '.join(map(str, paths))}")
    runs = [commands.open_run(path, device) for path in paths]
    results = scoring.compare(runs, _eval_config(repeats, limit, moves, who, False, seed), Reporter())
    if not as_json:
        scoring.show(results)
    _written([] if out is None else results.write(out), results.as_json(), as_json)


@app.command()
def reproduce(
    name: Annotated[str, typer.Argument(metavar="TABLE", help="sprites, faces, speech or ablation.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[SECTION.KEY=VALUE]...", help="Settings beside the preset's.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small and real: minutes on two cores.")] = False,
    data: Annotated[
        str | None,
        typer.Option(help="The real set's folder; for speech also any recordings in a folder for each speaker."),
    ] = None,
    preset: Annotated[str | None, typer.Option(help="Another preset than the paper's, or --quick's own.")] = None,
    out: Annotated[Path | None, typer.Option(help="The folder; by default one under reproduced/.")] = None,
    repeats: Repeats = None,
    who: Speaker = None,
    seed: Seed = 0,
    seeds: Annotated[
        int, typer.Option(min=1, help="How many trainings, from --seed on; figures are then means over them.")
    ] = 1,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Make the paper's tables: train, judge, measure, published figures beside; the same command goes on."""
    from diskoop.interfaces import scoring
    from diskoop.interfaces.reproduce import ReproduceConfig
    from diskoop.interfaces.reproduce import reproduce as make
    from diskoop.training.progress import Reporter

    folder = out or Path("reproduced") / f"{name}{'-quick' if quick else ''}"
    config = _eval_config(repeats, None, None, who, True, seed)
    changes = parse_overrides(overrides or [])
    options = ReproduceConfig(
        name, quick, data, folder, preset, changes, seed, seeds, repeats, who, device, config.command
    )
    results, files = make(options, config, Reporter())
    if not as_json:
        scoring.show(results)
    _written(files, results.as_json(), as_json)


@app.command()
def bench(
    sections: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SECTION]...", help="steps, shares, solvers, growth, loader, inference; by default all."
        ),
    ] = None,
    device: Device = "auto",
    turns: Annotated[int | None, typer.Option(help="Of every way; by default 5 on CUDA, 3 elsewhere.")] = None,
    steps: Annotated[
        int | None, typer.Option(help="In a turn; by default as many as take a quarter of a second.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure how fast it is here: training steps and their parts, solvers, loading, inference (minutes)."""
    from diskoop.interfaces import benching

    facts = benching.bench(sections or [], device, turns, steps)
    if as_json:
        print(json.dumps(facts))


def _eval_config(
    repeats: int | None, limit: int | None, moves: str | None, who: str | None, beside: bool, seed: int
) -> "EvalConfig":
    """What an evaluation is asked for, and the command that asks."""
    from diskoop.evaluation.protocols import ProtocolConfig
    from diskoop.interfaces.commands import with_progress
    from diskoop.interfaces.scoring import EvalConfig

    command = shlex.join(["diskoop", *sys.argv[1:]])
    return EvalConfig(
        ProtocolConfig(repeats or ProtocolConfig.repeats, seed=seed, progress=with_progress),
        limit or None,
        moves,
        who,
        beside,
        command=command,
    )


def main() -> None:
    """Run the command line; bad input is one sentence and exit code 2."""
    with suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # a polite kill is a Ctrl-C: files are tidied up
    try:
        app()
    except InputError as error:
        _fail(str(error), 2)
    except Stopped as error:
        _fail(str(error), 1)
    except SystemExit as end:
        if end.code == 130:  # how typer ends on Ctrl-C
            _fail("stopped", 1)
        raise


def _conclude(summary: dict[str, Any], as_json: bool) -> None:
    """What training came to."""
    if as_json:
        print(json.dumps(summary))
        return
    gap, radius = summary["static_gap"], summary["dynamic_radius"]
    print(f"operator fitted on {summary['fitted_on']}:")
    print(f"{summary['static']} static eigenvalues within {gap:.3f} of 1, the others up to {radius:.3f}")


def _require(met: bool, what: str, given: dict[str, Any]) -> None:
    """An InputError for options that would have no effect."""
    for option, value in given.items():
        if value and not met:
            raise InputError(f"{option} means nothing without {what}")


def _written(files: list[Path], facts: dict[str, Any], as_json: bool) -> None:
    """Where everything is."""
    if as_json:
        print(json.dumps({**facts, "files": [str(file) for file in files]}))
    else:
        sounds = [file for file in files if file.suffix == ".wav"]
        for file in files:
            if file.suffix != ".wav":
                print(f"wrote {file}")
        if sounds:
            print(f"wrote {sounds[0]} to {sounds[-1].name}, in the order of the picture's rows")


def _fail(sentence: str, code: int) -> None:
    print(f"diskoop: {sentence}", file=sys.stderr)
    sys.exit(code)


def _plain(value: Any) -> str:
    if isinstance(value, list):
        more = f" and {len(value) - 12} more" if len(value) > 12 else ""
        return ", ".join(map(_plain, value[:12])) + more
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _lines(key: str, value: Any) -> list[str]:
    """A fact for a person to read."""
    if key == "notes":
        return [f"note: {note}" for note in value]
    if key == "labels":
        lines = [f"  {name}: {_plain(_counted(of))}" for name, of in value.items()]
        return ["labels (training + validation + test):", *lines] if lines else []
    if isinstance(value, dict):
        return [f"{key}:", *(f"  {inner}: {_plain(text)}" for inner, text in value.items())]
    return [f"{key.replace('_', ' ')}: {_plain(value)}"]


def _counted(values: dict[str, list[int]]) -> list[str]:
    return [f"{value} ({' + '.join(map(str, counts))})" for value, counts in values.items()]


def _unused(folder: Path, name: str, *suffixes: str) -> Path:
    """NAME-1, NAME-2, ... in `folder`, with the first suffix: the first that is not there with any of them."""
    number = 1
    while any((folder / f"{name}-{number}{suffix}").exists() for suffix in suffixes or [""]):
        number += 1
    return folder / f"{name}-{number}{suffixes[0] if suffixes else ''}"


def _beside(data: str | None) -> Path:
    """Here, unless here is inside the data, which a preview must not become part of."""
    here = Path.cwd()
    there = None if data is None else Path(data).expanduser().resolve()
    return there.parent if there is not None and there.is_dir() and here.is_relative_to(there) else Path()
