"""factors, swap, sample and forecast as commands: which clips, which parts of them, which files"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

from diskoop.analysis.decomposition import Decomposition, What
from diskoop.analysis.discovery import COLUMNS, DiscoveryResult, Guided, LabelFree, ModeSearch, lowest, lowest_alone
from diskoop.analysis.editing import PARTS, combinations, gradual, incremental
from diskoop.analysis.embedding import ClusterScore, fixed_selection
from diskoop.analysis.forecasting import fit_dmd, forecast_errors
from diskoop.analysis.tables import write_table
from diskoop.data import SPLITS, Sequences, Units, open_data, settings_like
from diskoop.data.sound import sound_of, write_wav
from diskoop.errors import InputError, suggest
from diskoop.evaluation.judges import Judge, judge_for
from diskoop.evaluation.multifactor import Multifactor, describe, matched_factors, multifactors, single
from diskoop.figures import (
    all_combinations,
    embedding_figure,
    factor_sheet,
    factorial_swap,
    forecast_figure,
    gap_figure,
    generation,
    incremental_swap,
    matrix_figure,
    spectrum_figure,
)
from diskoop.numerics.weights import over_batch, over_two
from diskoop.pictures import Row, rows_figure, save_animation, save_figure
from diskoop.run import Run, load
from diskoop.storage import atomic_folder, atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BATCH = 256  # the paper's, for its search among modes
DONORS = 5  # shown for each factor
MAPPED = 1500  # clips on a map; more take minutes and hide each other
WIDEST = 9  # moving pictures in a row
WAYS = ("free", "guided", "modes")
WEIGHTS = {"two": over_two, "batch": over_batch}
Pair = tuple[int, int]  # who receives, who gives


def open_run(path: Path, device: str, known: bool = True) -> Run:
    """The run, on the GPU where there is one unless told otherwise."""
    automatic = "cuda" if torch.cuda.is_available() else "cpu"
    return load(path, automatic if device == "auto" else device, factors=known)


def clips_for(run: Run, data: str | None, split: str | None) -> Sequences:
    """What a command works on: a split of the run's own set, or another set or folder, read as the run's own is."""
    if split is not None and split not in SPLITS:
        raise InputError(f"unknown split {split!r}; {suggest(split, SPLITS)}")
    if data is not None:
        return open_data(settings_like(run.settings.data, data)).part(split or "all")
    everything = open_data(run.settings.data)
    if split is None and everything.count("test") < 2:
        text = (
            f"note: {everything.name} has fewer than two test clips; all {len(everything)} are taken, trained on or not"
        )
        Console(stderr=True).print(text, highlight=False, markup=False, soft_wrap=True)
        return everything
    return everything.part(split or "test")


def pairs_in(clips: Sequences, words: Sequence[str], count: int, seed: int) -> list[Pair]:
    """Pairs as `3:17`, by number or name, or `count` random ones."""
    if len(clips) < 2:
        raise InputError(f"a swap needs two clips at least, got {len(clips)}")
    pairs = []
    for word in words:
        receiver, colon, giver = word.rpartition(":")
        if not (colon and receiver and giver):
            raise InputError(f"expected a pair as A:B, such as 3:17, got {word!r}")
        pairs.append((_clip_at(clips, receiver), _clip_at(clips, giver)))
    if not pairs:
        drawn = _drawn(len(clips), 2 * count, seed)
        pairs = [(int(a), int(b)) for a, b in zip(drawn[::2], drawn[1::2], strict=False)]
    return pairs


def _clip_at(clips: Sequences, word: str) -> int:
    """Where a clip is, by its name (a file's also without its ending) or its number; names may be numbers."""
    names = [clips.clip_name(i) for i in range(len(clips))]
    if word not in names and word in (stems := [Path(name).stem for name in names]):
        names = stems
    if names.count(word) > 1:
        first, last = names.index(word), len(names) - 1 - names[::-1].index(word)
        raise InputError(f"{word!r} has {names.count(word)} windows, from {first} to {last}; name one by its number")
    if word in names:
        return names.index(word)
    if not word.isdecimal():
        near = get_close_matches(word, names, 3) or names[:3]
        raise InputError(
            f"unknown clip {word!r}; give a number from 0 to {len(clips) - 1}, or a name like {', '.join(near)}"
        )
    if int(word) >= len(clips):
        raise InputError(f"expected a clip from 0 to {len(clips) - 1}, got {word}")
    return int(word)


def _drawn(total: int, count: int, seed: int) -> NDArray[np.int64]:
    return np.random.Generator(np.random.PCG64(seed)).permutation(total)[:count]


# --- swap


def swap(
    run: Run,
    clips: Sequences,
    pairs: Sequence[Pair],
    what: Sequence[str],
    amount: float,
    operator: str,
    orders: Sequence[str],
    combined: str | None,
    grown: str | None,
    out: Path,
) -> list[Path]:
    """Every kind of swap that was asked for, in the folder `out`; a plain one if none was."""
    _require_new(out)
    members = list(dict.fromkeys(member for pair in pairs for member in pair))
    everyone = run.decompose(clips if operator == "batch" else clips.select(members), operator)
    parts = everyone.select(members) if operator == "batch" else everyone
    placed = [(members.index(a), members.index(b)) for a, b in pairs]
    made: dict[str, EditOutput] = {}
    if orders:
        lists = [_names(order) for order in orders]
        for stem, pair in _stems("gradual", placed):
            runs = [gradual(parts, *pair, order).rows() for order in lists]
            made[stem] = EditOutput(runs, factorial_swap(parts, *pair, lists))
    if combined:
        names = _names(combined)
        for stem, pair in _stems("combinations", placed):
            made[stem] = EditOutput([combinations(parts, *pair, names).rows()], all_combinations(parts, *pair, names))
    if grown:
        part, sizes = _growing(grown)
        runs = [incremental(parts, *pair, part, sizes).rows() for pair in placed]
        made["incremental"] = EditOutput(runs, incremental_swap(parts, placed, part, sizes))
    if what or not made:
        left_over = [] if run.found is None else [each.name for each in run.found.factors if each.kind == "remainder"]
        each_alone: list[What] = [[name] for name in parts.factors if name not in left_over]
        choices = [_what(what)] if what else each_alone
        made["swap"] = EditOutput([_swapped(parts, pair, choices, amount) for pair in placed])
    return _write(out, made, parts)


def _stems(stem: str, pairs: Sequence[Pair]) -> Iterable[tuple[str, Pair]]:
    """A file name for each pair."""
    return [(stem if len(pairs) == 1 else f"{stem}-{number}", pair) for number, pair in enumerate(pairs, 1)]


def _swapped(parts: Decomposition, who: Pair, choices: Sequence[What], amount: float) -> list[Row]:
    """The two as they are, then the receiver with each of `choices` of the giver."""
    pair = parts.select(who)
    (first, a), (second, b) = pair.rows()
    rows = [(f"A, as the model sees it: {first}", a), (f"B, as the model sees it: {second}", b)]
    share = "" if amount == 1 else f", by {amount:g}"
    for choice in choices:
        new = pair.swap(choice, {0: 1}, amount).select([0])
        name = new.factor(choice).name
        rows.append((f"A with B's {name}{' part' if name in PARTS else ''}{share}", new.rows()[0][1]))
    return rows


def _what(words: Sequence[str]) -> What:
    """Names, or mode indices where all words are numbers."""
    return [int(word) for word in words] if all(word.isdecimal() for word in words) else list(words)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _growing(text: str) -> tuple[str, list[int | None]]:
    """`dynamic=4,6,all` -> ("dynamic", [4, 6, None])."""
    part, equals, sizes = text.partition("=")
    words = _names(sizes)
    if not (equals and words and all(word == "all" or word.isdecimal() for word in words)):
        raise InputError(f"expected growing sets of modes such as dynamic=4,6,all, got {text!r}")
    return part, [None if word == "all" else int(word) for word in words]


# --- sample and forecast


def sample(
    run: Run, clips: Sequences, what: Sequence[str], count: int, over: str, operator: str, seed: int, out: Path
) -> list[Path]:
    """New sequences in the folder `out`: `what` of some clips mixed from the set's."""
    _require_new(out)
    if over not in WEIGHTS:
        raise InputError(f"unknown mixture {over!r}; {suggest(over, WEIGHTS)}")
    some = clips.select(_drawn(len(clips), max(count, BATCH), seed))
    parts = run.decompose(some, operator)
    count = min(count, len(parts))
    new = parts.sample(_what(what), torch.Generator().manual_seed(seed), WEIGHTS[over]).select(range(count))
    name = parts.factor(_what(what)).name
    rows = [(f"{text}; {name} sampled", x) for text, x in new.rows()]
    figure = generation(parts, _what(what), torch.Generator().manual_seed(seed), count, WEIGHTS[over])
    return _write(out, {"sample": EditOutput([rows], figure)}, parts)


def forecast(
    run: Run, clips: Sequences, steps: int | None, given: int | None, count: int, seed: int, out: Path
) -> tuple[list[Path], dict[str, Any]]:
    """Clips that go on, in the folder `out`, and the errors at each horizon; half of the clips are long enough."""
    _require_new(out)
    longest, usual = int(clips.lengths.max()), int(np.median(clips.lengths))
    given = max(2, usual // 2) if given is None else given
    if not 2 <= given < longest:
        raise InputError(
            f"expected --given from 2 to {longest - 1}, so that frames are left to compare with, got {given}"
        )
    steps = max(usual - given, 1) if steps is None else steps
    enough = np.flatnonzero(clips.lengths >= given + 1)
    shown = run.decompose(clips.select(enough[_drawn(len(enough), count, seed)]))
    ahead = shown.forecast(steps, given)
    runs = []
    for index, (text, guess) in enumerate(ahead.rows()):
        (seen,) = shown.clips.take([index])
        runs.append([(f"{text}, as it was", seen), (f"its first {given} frames and a forecast", guess)])
    train = run.data("train")
    most = min(int(np.prod(train.shape[2:])), int((train.lengths - 1).sum()))  # what the frames have
    rank = min(run.settings.model.k, most)
    dmd = fit_dmd(train, rank, torch.Generator().manual_seed(0))
    compared = min(steps, max(usual, given + 1) - given)
    errors = forecast_errors(run, clips, compared, given, dmd)
    unit = "log magnitude" if clips.units.rate is not None else "pixel value" if clips.is_video else "the data's units"
    picture = rows_figure([row for run_ in runs for row in run_], clips.units)
    files = _write(out, {"forecast": EditOutput(runs, picture)}, shown, {"errors": forecast_figure(errors, unit)})
    return files, {"sequences": errors.sequences, "left_out": errors.left_out, "errors": errors.table()}


# --- factors


def renaming(word: str) -> tuple[str, str]:
    old, equals, new = word.partition("=")
    if not (equals and old and new):
        raise InputError(f"expected --rename OLD=NEW, got {word!r}")
    return old, new


def find(
    run: Run, way: str, count: int | None, per_value: int, exhaustive: bool, alone: bool, labels: str | None
) -> DiscoveryResult:
    """Factors in the training split; the paper's search takes a batch of it and that batch's own operator."""
    if way not in WAYS:
        raise InputError(f"unknown way {way!r}; {suggest(way, WAYS)}")
    if way == "free":
        return run.find_factors(way=LabelFree(count=count, progress=with_progress))
    if way == "guided":
        return run.find_factors(way=Guided(tuple(_names(labels or "")), per_value))
    judge, train = judge_of(run), run.data("train")
    batch = run.decompose(train.select(np.sort(_drawn(len(train), BATCH, 0))), operator="batch")
    wanted = tuple(_names(labels or "")) or judge.labels
    search = ModeSearch(judge.predict, wanted, lowest_alone if alone else lowest, exhaustive, progress=with_progress)
    found = search.find(batch)
    return replace(found, notes=(*found.notes, judge.describe()))


def with_progress(over: Sequence[Any], what: str) -> Iterable[Any]:
    """A progress bar on a terminal."""
    console = Console(stderr=True)
    return track(over, what, console=console, transient=True, disable=not console.is_terminal)


def keep(run: Run, found: DiscoveryResult) -> tuple[Run, list[Path]]:
    """The run with these factors; those it had, which may have been given names, are put beside them."""
    before = []
    if run.folder.factors.exists():
        before = [run.folder.path / "factors-before.json"]
        with atomic_write(before[0]) as temporary:
            temporary.write_bytes(run.folder.factors.read_bytes())  # damaged or not
    return run.keep(found), before


def facts(run: Run) -> dict[str, Any]:
    """What is known of a run's factors, as JSON would have it."""
    found = run.require_found()
    return {
        "way": found.way,
        "source": found.source,
        "notes": list(found.notes),
        "factors": [each.facts() for each in found.factors],
    }


def show_factors(run: Run, facts: dict[str, Any]) -> None:
    """The same for a person."""
    found, console = run.require_found(), Console(soft_wrap=True)
    table = Table(title=f"factors: {found.way}, in {found.source}", title_justify="left", box=None)
    for name in COLUMNS:
        table.add_column(name, justify="right" if name in ("dimensions", "strength", "stability") else "left")
    for each in found.factors:
        table.add_row(*each.row())
    console.print(table, highlight=False)
    for note in found.notes:
        console.print(f"note: {note}", highlight=False, markup=False)
    if "score" in facts:
        _show_score(console, facts)
    if "clusters" in facts:
        console.print(f"map: {ClusterScore(**facts['clusters'])}", highlight=False, markup=False)


def _show_score(console: Console, facts: dict[str, Any]) -> None:
    console.print(facts["judge"], highlight=False, markup=False)
    for line in describe(facts["matched"]):
        console.print(line, highlight=False, markup=False)
    titles = {
        "matrix": "taken from the donor, and what then shows the donor's value",
        "kept_matrix": "taken from the donor, and what then still shows its own value",
    }
    for key, title in titles.items():
        table = Table(title=title, title_justify="left", box=None)
        table.add_column("taken")
        for label in facts["matched"]:
            table.add_column(label, justify="right")
        for label, row in zip(facts["matched"], facts[key], strict=True):
            table.add_row(label, *("" if share is None else f"{share:.3f}" for share in row))
        table.add_row("chance", *(f"{share:.3f}" for share in facts["chance"]))
        console.print(table, highlight=False)
    alone = facts["single"]
    console.print(score_line(facts["score"], facts["kept"], facts["floor"]), highlight=False)
    console.print(f"with one factor a label: {score_line(alone['score'], alone['kept'])}", highlight=False)


def score_line(score: float, kept: float | None, floor: float | None = None) -> str:
    """What is known of these three, in words; None or NaN is not known."""
    figures = {"score": score, "kept": kept, "floor": floor}
    return ", ".join(
        f"{name} {value:.3f}" for name, value in figures.items() if value is not None and not np.isnan(value)
    )


def judge_of(run: Run) -> Judge:
    """The referee of the run's own data, trained once and kept in the cache."""
    device = next(run.model.parameters()).device
    return judge_for(open_data(run.settings.data), run.settings.data, str(device))


def scored(run: Run, judge: Judge) -> tuple[Multifactor, Multifactor]:
    """Factors that bear the names of labels, the others matched to labels in training, swapped in the test split.

    Once with all that were matched to a label joined, once with one factor a label.
    """
    judge.require(run.settings.data)
    matched = matched_factors(run, run.data("train"), judge)
    joined, alone = multifactors(run.decompose(run.data("test")), [matched, single(matched)], judge.predict)
    return joined, alone


def score_facts(run: Run, joined: Multifactor, alone: Multifactor, judge: Judge) -> dict[str, Any]:
    return {
        "judge": f"{judge.describe()}; {judge.require(run.settings.data)}",
        **_matrix_facts(joined),
        "chance": [1 / count for count in joined.classes],
        "floor": joined.floor,
        "single": _matrix_facts(alone),
    }


def _matrix_facts(result: Multifactor) -> dict[str, Any]:
    """JSON has no NaN."""
    return {
        "matched": {label: list(names) for label, names in result.matched.items()},
        "matrix": result.matrix.tolist(),
        "kept_matrix": [[None if np.isnan(share) else share for share in row] for row in result.kept_matrix.tolist()],
        "score": result.score,
        "kept": None if np.isnan(result.kept) else result.kept,
    }


def draw_factors(run: Run) -> list[Path]:
    """What each factor does, the spectrum, and the gap that helps to choose spectrum.static, in the run's folder."""
    found = run.require_found()
    clips = clips_for(run, None, None)
    if len(clips) < 2:
        raise InputError(f"a picture of what factors do needs two clips at least, {clips.name} has {len(clips)}")
    parts = run.decompose(clips.select(_drawn(len(clips), DONORS + 1, 0)))
    said = {each.name: f"{each.dimensions}-dimensional, strength {each.strength:.0%}" for each in found.factors}
    sheet = factor_sheet(parts, found.names, 0, list(range(1, len(parts))), said)
    pictures = {"factors": sheet, "spectrum": spectrum_figure(run), "gap": gap_figure(run)}
    return [save_figure(figure, run.folder.path / f"{name}.png") for name, figure in pictures.items()]


def draw_matrix(
    folder: Path,
    labels: Sequence[str],
    taken: NDArray[Any],
    kept: NDArray[Any],
    chance: Sequence[float],
    title: str,
    judge: Judge,
) -> Path:
    """The multifactor matrices, (labels, labels) each, side by side as a picture in `folder`."""
    figure = matrix_figure(taken, labels, labels, title, chance, judge.describe(), kept)
    return save_figure(figure, folder / "matrix.png")


def tabulate(run: Run, clips: Sequences, path: Path, frames: bool, operator: str) -> Path:
    return write_table(run.decompose(clips, operator), path, frames)


def embed(
    run: Run, data: str | None, split: str | None, names: str, color: str | None, fix: str | None
) -> tuple[Path, dict[str, Any]]:
    """A map of clips by some factors, drawn in the run's folder, and how it clusters; fixed labels want all clips."""
    clips = clips_for(run, data, split or ("all" if fix else None))
    if fix:
        clips = fixed_selection(clips, _names(fix))
    clips = clips.select(np.sort(_drawn(len(clips), MAPPED, 0)))
    face, edge = [*_names(color or ""), *clips.labels, *clips.labels, "", ""][:2]
    if not clips.labels:
        raise InputError(f"{clips.name} has no labels to colour a map by")
    parts, chosen = run.decompose(clips), _what(_names(names))
    figure, score = embedding_figure(parts, chosen, face, edge)
    return save_figure(figure, run.folder.path / "embedding.png"), asdict(score)


def show_errors(facts: dict[str, Any]) -> None:
    short = f" ({facts['left_out']} are too short)" if facts["left_out"] else ""
    title = f"root mean squared error by horizon, in the data's units, over {facts['sequences']} sequences{short}"
    table = Table(title=title, title_justify="left", box=None)
    for name in facts["errors"][0]:
        table.add_column(name, justify="right")
    for row in facts["errors"]:
        table.add_row(*(f"{value:.4g}" for value in row.values()))
    Console(soft_wrap=True).print(table, highlight=False)


# --- files


@dataclass(frozen=True, eq=False)
class EditOutput:
    """What one kind of edit came to."""

    runs: Sequence[Sequence[Row]]  # a run for each pair or sequence: things to be seen side by side
    figure: "Figure | None" = None  # None: plain rows say enough

    @property
    def rows(self) -> list[Row]:
        return [row for run in self.runs for row in run]

    def picture(self, units: Units) -> "Figure":
        if self.figure is not None:
            return self.figure
        beside = [row for rows in zip(*self.runs, strict=True) for row in rows]  # a column for each run
        return rows_figure(beside, units, columns=len(self.runs))


def _require_new(out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{str(out)!r} exists already; choose another folder with --out")


def _write(
    out: Path, made: Mapping[str, EditOutput], parts: Decomposition, more: Mapping[str, "Figure"] | None = None
) -> list[Path]:
    """All files of a command in a folder that appears whole: pictures, arrays, moving pictures, sound."""
    files: list[Path] = []
    with atomic_folder(out) as folder:
        for stem, each in made.items():
            files.append(save_figure(each.picture(parts.units), folder / f"{stem}.png"))
            files.append(_write_arrays(folder / f"{stem}.npz", each.rows))
            if parts.clips.is_video:
                columns = min(max(map(len, each.runs)), WIDEST)
                files.append(save_animation(each.rows, folder / f"{stem}.webp", parts.units, columns))
            if parts.units.rate is not None:
                files += [write_wav(folder / f"{stem}-{i}.wav", sound_of(x)) for i, (_, x) in enumerate(each.rows)]
        for stem, figure in (more or {}).items():
            files.append(save_figure(figure, folder / f"{stem}.png"))
    return [out / file.name for file in files]


def _write_arrays(path: Path, rows: Sequence[Row]) -> Path:
    """`x` (n, time, ...) in the user's units, zeros behind what is shorter, with `lengths` and `captions` (n,)."""
    lengths = np.array([len(x) for _, x in rows])
    first = rows[0][1]
    x: NDArray[Any] = np.zeros((len(rows), lengths.max(), *first.shape[1:]), first.dtype)
    for place, (_, row) in zip(x, rows, strict=True):
        place[: len(row)] = row
    with atomic_write(path) as temporary:
        np.savez_compressed(temporary, x=x, lengths=lengths, captions=np.array([caption for caption, _ in rows]))
    return path
