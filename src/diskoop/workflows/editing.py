"""swaps, samples and forecasts as files: pictures, arrays, animations and sound"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from diskoop.analysis.decomposition import Decomposition, FactorLike
from diskoop.analysis.editing import StagedSwap, swap_combinations, swap_cumulatively, swap_incrementally
from diskoop.analysis.forecasting import DMDForecaster, fit_dmd, forecast_errors
from diskoop.analysis.sheets import (
    MAX_NAMED_DONORS,
    RECONSTRUCTED,
    Cell,
    Sheet,
    all_combinations,
    factor_text,
    factorial_swap,
    generation,
    incremental_swap,
)
from diskoop.data import Sequences, Units
from diskoop.data.formats.audio import SUFFIXES, spectrogram_to_audio, write_wav
from diskoop.errors import InputError, counted, suggest
from diskoop.numerics.factors import SPECTRAL_PARTS
from diskoop.numerics.mixing import batch_weights, pair_weights
from diskoop.plots.scores import forecast_figure
from diskoop.plots.sequences import ForecastRow, forecast_series_figure, save_animation
from diskoop.plots.sheets import sheet_figure
from diskoop.plots.style import save_figure
from diskoop.run import Run
from diskoop.storage import atomic_folder, atomic_write
from diskoop.workflows.clips import Pair, describe_clip, parse_factor, random_indices, split_names
from diskoop.workflows.console import print_note, print_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MIXTURES = {"two": pair_weights, "batch": batch_weights}
MIN_MIXED = 256  # sequences that samples are mixed from, where there are so many
MAX_COLUMNS = 9  # of an animation
MAX_NAME_BYTES = 160  # of a sound file's name
MAX_HORIZONS = 12  # printed; the JSON has all of them

Facts = dict[str, Any]  # a JSON object


@dataclass(frozen=True, eq=False)
class Entry:
    """A sequence that a command shows and writes, and what it is."""

    x: NDArray[Any]  # (time, ...) in the data's own units
    caption: str
    kind: Literal["original", "reconstruction", "swap", "sample", "forecast"]
    clip: int  # index of the sequence that was given, or changed
    donors: Mapping[int, float] | None = None  # index of a donor -> its share; of many, as in a whole batch, none
    factors: Sequence[str] = ()  # what was taken from the donors
    forecast_from: int | None = None  # the first frame of a forecast
    has_sound: bool = False  # whether sound is written, where sequences are sound

    def cell(self) -> Cell:
        (name,) = self.factors if len(self.factors) == 1 else ("",)
        part: Any = name if name in SPECTRAL_PARTS else None
        return Cell(self.x, self.caption, part, self.forecast_from)


@dataclass(frozen=True, eq=False)
class EditOutput:
    """The sequences of one kind of edit, and their picture."""

    groups: Sequence[Sequence[Entry]]  # entries that belong together: those of a pair, or of a sequence
    figure: "Figure | None" = None  # None: a column for each group

    @property
    def entries(self) -> list[Entry]:
        return [entry for group in self.groups for entry in group]

    def picture(self, units: Units) -> "Figure":
        if self.figure is not None:
            return self.figure
        rows = [[entry.cell() for entry in entries] for entries in zip(*self.groups, strict=True)]
        return sheet_figure(Sheet(rows, units, "Clips with factors of other clips"))


def _given(parts: Decomposition, index: int, has_sound: bool = False) -> list[Entry]:
    """A sequence as it was given, and as the model draws it."""
    x, name = parts.original(index), parts.clips.sequence_name(index)
    decoded = parts.select([index]).rows()[0][1]
    caption = f"{name}, original{_labels(parts.clips, index)}"
    return [
        Entry(x.astype(decoded.dtype), caption, "original", index),
        Entry(decoded, f"{name}, {RECONSTRUCTED}", "reconstruction", index, has_sound=has_sound),
    ]


def _labels(clips: Sequences, index: int) -> str:
    text = clips.label_text(index)
    return f": {text}" if text else ""


# --- swap


@dataclass(frozen=True)
class SwapConfig:
    """Which swaps to make; without any of the four kinds, each factor is swapped alone."""

    factors: Sequence[str] = ()  # swapped together: names, or mode numbers
    gradual: Sequence[str] = ()  # one factor after another, an order such as "hair,skin" each
    combinations: str | None = None  # all combinations of factors, such as "hair,skin"
    incremental: str | None = None  # growing sets of modes, such as "dynamic=4,6,all"
    amount: float = 1.0  # of plain swaps: 0 changes nothing, 1 replaces
    operator: str = "frozen"  # or "batch"


def swap(run: Run, clips: Sequences, pairs: Sequence[Pair], config: SwapConfig, out: Path) -> tuple[list[Path], Facts]:
    """Swap factors between clips.

    Args:
        run: with the factors.
        clips: with `operator="batch"`, the operator is fitted on all of them.
        pairs: (receiver, donor) as indices into `clips`.
        config: which swaps.
        out: a new folder for the files.

    Returns:
        The files, and what is in them as a JSON object.
    """
    _require_new(out)
    members = list(dict.fromkeys(member for pair in pairs for member in pair))
    if config.operator == "batch":
        parts = run.decompose(clips, config.operator).select(members)
    else:
        parts = run.decompose(clips.select(members), config.operator)
    placed = [(members.index(receiver), members.index(donor)) for receiver, donor in pairs]
    files, facts = _write(out, _swap_outputs(run, parts, placed, config), parts, members)
    return files, {"pairs": pairs, **facts}


def _swap_outputs(run: Run, parts: Decomposition, pairs: Sequence[Pair], config: SwapConfig) -> dict[str, EditOutput]:
    """File stem -> edits."""
    outputs: dict[str, EditOutput] = {}
    if config.gradual:
        orders = [split_names(order) for order in config.gradual]
        for stem, pair in _numbered("gradual", pairs):
            groups = [_stages(parts, pair, swap_cumulatively(parts, *pair, order)) for order in orders]
            outputs[stem] = EditOutput(groups, sheet_figure(factorial_swap(parts, *pair, orders)))
    if config.combinations:
        names = split_names(config.combinations)
        for stem, pair in _numbered("combinations", pairs):
            figure = sheet_figure(all_combinations(parts, *pair, names))
            outputs[stem] = EditOutput([_stages(parts, pair, swap_combinations(parts, *pair, names))], figure)
    if config.incremental:
        part, sizes = _parse_incremental(config.incremental)
        groups = [_stages(parts, pair, swap_incrementally(parts, *pair, part, sizes)) for pair in pairs]
        outputs["incremental"] = EditOutput(groups, sheet_figure(incremental_swap(parts, pairs, part, sizes)))
    if config.factors or not outputs:
        part_names = _part_names(run, parts)
        factors = [parse_factor(config.factors)] if config.factors else _single_factors(run, parts, part_names)
        # A sound for each of many factors would be too many files.
        heard = None if config.factors else list(part_names.values())
        outputs["swap"] = EditOutput([_swap_pair(parts, pair, factors, config.amount, heard) for pair in pairs])
    return outputs


def _numbered(stem: str, pairs: Sequence[Pair]) -> Iterator[tuple[str, Pair]]:
    """A file stem for each pair."""
    for number, pair in enumerate(pairs, 1):
        yield stem if len(pairs) == 1 else f"{stem}-{number}", pair


def _part_names(run: Run, parts: Decomposition) -> dict[str, str]:
    """The static and the dynamic part -> the factor that is the whole of it, as in faces, or the part itself."""
    named = {} if run.factors is None else {each.name: each.factor.projector for each in run.factors.factors}
    whole = {part: parts.factors[part].projector.cpu() for part in SPECTRAL_PARTS}
    return {
        part: next((name for name, one in named.items() if torch.allclose(one, whole[part])), part) for part in whole
    }


def _single_factors(run: Run, parts: Decomposition, part_names: Mapping[str, str]) -> list[FactorLike]:
    """Each factor alone, but for the remainder, for weak ones, and for parts that a factor is another name of."""
    left_out = []
    if run.factors is not None:
        left_out = [each.name for each in run.factors.factors if each.kind == "remainder" or each in run.factors.weak]
    if left_out:
        print_note(f"not swapped alone, being weak or left over: {', '.join(left_out)}; name one to swap it")
    left_out += [part for part, name in part_names.items() if name != part]
    return [[name] for name in parts.factors if name not in left_out]


def _swap_pair(
    parts: Decomposition,
    pair: Pair,
    factors: Sequence[FactorLike],
    amount: float,
    heard: Sequence[str] | None,
) -> list[Entry]:
    """Receiver and donor as given and as the model draws them, then the receiver with each of the donor's `factors`.

    `heard` are the factors whose swaps are written as sound; None: all.
    """
    entries = [*_given(parts, pair[0], has_sound=True), *_given(parts, pair[1], has_sound=True)]
    both = parts.select(pair)
    for factor in factors:
        new = both.swap(factor, {0: 1}, amount).rows()[0][1]
        name = both.factor(factor).name
        entries.append(_swapped(parts, pair, new, name, amount, has_sound=heard is None or name in heard))
    return entries


def _stages(parts: Decomposition, pair: Pair, staged: StagedSwap) -> list[Entry]:
    """Every stage of a swap, between receiver and donor as given and as the model draws them."""
    receiver, donor = (_given(parts, index, has_sound=True) for index in pair)
    stages = staged.rows()[1:-1]
    return [*receiver, *(_swapped(parts, pair, x, caption) for caption, x in stages), *reversed(donor)]


def _swapped(
    parts: Decomposition, pair: Pair, x: NDArray[Any], name: str, amount: float = 1.0, has_sound: bool = True
) -> Entry:
    """The receiver with the factors called `name`, or `a + b` where they are several, of the donor."""
    receiver, donor = (parts.clips.sequence_name(index) for index in pair)
    suffix = "" if amount == 1 else f", by {amount:g}"
    caption = f"{receiver} with {factor_text(name)} of {donor}{suffix}"
    return Entry(x, caption, "swap", pair[0], {pair[1]: amount}, name.split(" + "), has_sound=has_sound)


def _parse_incremental(text: str) -> tuple[str, list[int | None]]:
    """`dynamic=4,6,all` -> ("dynamic", [4, 6, None])."""
    part, equals, sizes = text.partition("=")
    words = split_names(sizes)
    if not (equals and words and all(word == "all" or word.isdecimal() for word in words)):
        raise InputError(f"expected growing sets of modes such as dynamic=4,6,all, got {text!r}")
    return part, [None if word == "all" else int(word) for word in words]


# --- sample


def sample(
    run: Run,
    clips: Sequences,
    factors: Sequence[str],
    count: int,
    mix: str,
    operator: str,
    seed: int,
    out: Path,
) -> tuple[list[Path], Facts]:
    """Make new sequences: some factors mixed from other clips, the rest kept.

    Args:
        run: with the factors.
        clips: where random ones come from.
        factors: names, or mode numbers, sampled together.
        count: how many new sequences.
        mix: `two` mixes two clips at a time, `batch` all of them.
        operator: `frozen` or `batch`.
        seed: of the draw of clips and of weights.
        out: a new folder for the files.

    Returns:
        The files, and what is in them as a JSON object.
    """
    _require_new(out)
    if mix not in MIXTURES:
        raise InputError(f"unknown mixture {mix!r}; {suggest(mix, MIXTURES)}")
    drawn = random_indices(len(clips), max(count, MIN_MIXED), seed)
    parts, weights = run.decompose(clips.select(drawn), operator), MIXTURES[mix]
    count, factor = min(count, len(parts)), parse_factor(factors)
    sheet = generation(parts, factor, torch.Generator().manual_seed(seed), count, weights)
    mixture = weights(len(parts), torch.Generator().manual_seed(seed))
    names = parts.factor(factor).name.split(" + ")
    groups = []
    for index, (*_, new) in enumerate(sheet.rows):
        assert new is not None
        donors = {int(donor): float(mixture[index, donor]) for donor in mixture[index].nonzero().flatten()}
        donors = donors if len(donors) <= MAX_NAMED_DONORS else {}
        sampled = Entry(new.x, new.caption, "sample", index, donors, names, has_sound=True)
        groups.append([*_given(parts, index), sampled])
    files, facts = _write(out, {"sample": EditOutput(groups, sheet_figure(sheet))}, parts, drawn.tolist())
    return files, {"seed": seed, "mix": mix, **facts}


# --- forecast


def forecast(
    run: Run,
    clips: Sequences,
    steps: int | None,
    observed: int | None,
    count: int,
    seed: int,
    out: Path,
    dmd: bool = True,
) -> tuple[list[Path], Facts]:
    """Forecast clips, and compare with holding the last frame and with plain DMD.

    Args:
        run: with the operator.
        clips: those that are long enough are compared.
        steps: frames ahead; None is as many as half of the clips have.
        observed: frames to forecast from; None is half of the median length.
        count: how many clips to draw.
        seed: of that draw.
        out: a new folder for the files.
        dmd: whether to compare with plain DMD, which is fitted to the run's training split.

    Returns:
        The files, and as a JSON object what is in them and the errors, at each horizon and of each feature.
    """
    _require_new(out)
    longest, usual = int(clips.lengths.max()), int(np.median(clips.lengths))
    observed = max(2, usual // 2) if observed is None else observed
    if not 2 <= observed < longest:
        raise InputError(
            f"expected --observed from 2 to {longest - 1}, so that frames are left to compare with, got {observed}"
        )
    steps = max(usual - observed, 1) if steps is None else steps
    long_enough = np.flatnonzero(clips.lengths >= observed + 1)
    drawn = long_enough[random_indices(len(long_enough), count, seed)]
    parts = run.decompose(clips.select(drawn))
    # Decomposed by themselves: an encoder must not see what it forecasts.
    past = run.decompose(replace(parts.clips, lengths=np.full(len(parts), observed)))
    groups = []
    for index, (_, x) in enumerate(past.forecast(steps).rows()):
        caption = f"{parts.clips.sequence_name(index)}, forecast after {counted(observed, 'frame')}"
        forecast = Entry(x, caption, "forecast", index, forecast_from=observed, has_sound=True)
        groups.append([*_given(parts, index), forecast])
    baseline = _fit_baseline(run) if dmd else None
    errors = forecast_errors(run, clips, min(steps, max(usual, observed + 1) - observed), observed, baseline)
    picture = _forecast_picture(parts.clips, groups, observed)
    figures = {"errors": forecast_figure(errors)}
    files, facts = _write(out, {"forecast": EditOutput(groups, picture)}, parts, drawn.tolist(), figures)
    return files, {
        "observed": observed,
        "sequences": errors.sequences,
        "left_out": errors.left_out,
        "errors": errors.table(),
        "features": errors.feature_table(),
        **facts,
    }


def _fit_baseline(run: Run) -> DMDForecaster:
    """Plain DMD of the run's training sequences, of the rank that the run's operator has."""
    train = run.data("train")
    max_rank = min(int(np.prod(train.shape[2:])), int((train.lengths - 1).sum()))  # of the snapshots
    return fit_dmd(train, min(run.settings.model.k, max_rank), torch.Generator().manual_seed(0))


def _forecast_picture(clips: Sequences, groups: Sequence[Sequence[Entry]], observed: int) -> "Figure":
    """Forecasts: of series in front of the truth, of video below it, of sound beside it."""
    title = f"Forecasts after {counted(observed, 'frame')}"
    if clips.is_series:
        rows = [ForecastRow(clips.title(i), truth.x, x.x) for i, (truth, _, x) in enumerate(groups)]
        return forecast_series_figure(rows, observed, clips.units, title)
    if clips.is_video:
        return sheet_figure(Sheet([[entry.cell()] for group in groups for entry in group], clips.units, title))
    return sheet_figure(Sheet([[entry.cell() for entry in group] for group in groups], clips.units, title))


def print_forecast_errors(facts: Facts) -> None:
    """Print the second of what `forecast` returns."""
    short = f" ({facts['left_out']} are too short)" if facts["left_out"] else ""
    errors, features = facts["errors"], facts["features"]
    clips = f"{counted(facts['sequences'], 'sequence')}{short}"
    title = f"error by horizon, in deviations of the data (1: the mean frame), over {clips}"
    shown = [errors[i] for i in np.unique(np.linspace(0, len(errors) - 1, MAX_HORIZONS).astype(int))]
    rows = [[str(row["horizon"]), *(f"{row[name]:.3f}" for name in list(row)[1:])] for row in shown]
    print_table(title, dict.fromkeys(errors[0], "right"), rows)
    title = f"root mean squared error over all {len(errors)} horizons, in the units of the data"
    rows = [[row["feature"], *(f"{row[name]:.4g}" for name in list(row)[1:])] for row in features]
    print_table(title, {name: "left" if name == "feature" else "right" for name in features[0]}, rows)


# --- files


def _require_new(out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{str(out)!r} exists already; choose another folder with --out")


def _write(
    out: Path,
    outputs: Mapping[str, EditOutput],
    parts: Decomposition,
    indices: Sequence[int],
    figures: Mapping[str, "Figure"] | None = None,
) -> tuple[list[Path], Facts]:
    """Write all files of a command to a folder that appears complete or not at all.

    Args:
        out: the folder.
        outputs: file stem -> edits.
        parts: gives the kind of data, their units, names and labels.
        indices: what its sequences are among the command's clips.
        figures: file stem -> pictures of something else.

    Returns:
        The files; and as JSON the `clips` that were used and the `rows` of the arrays, with clip, donors and factors.
    """
    files: list[Path] = []
    rows: list[Facts] = []
    used: dict[int, None] = {}  # in order
    with atomic_folder(out) as folder:
        sounds = _SoundFiles(folder)
        for stem, output in outputs.items():
            files.append(save_figure(output.picture(parts.units), folder / f"{stem}.png"))
            files.append(_write_arrays(folder / f"{stem}.npz", output.entries))
            if parts.clips.is_video:
                groups = [[(entry.caption, entry.x) for entry in group] for group in output.groups]
                files.append(save_animation(groups, folder / f"{stem}.webp", parts.units, MAX_COLUMNS))
            for number, entry in enumerate(output.entries):
                record = _describe_entry(entry, parts.clips, indices)
                used |= dict.fromkeys([entry.clip, *(entry.donors or {})])
                if parts.units.rate is not None and entry.has_sound:
                    record["sound"] = str(out / sounds.write(entry).name)
                rows.append({"file": str(out / f"{stem}.npz"), "row": number, **record})
        files += sounds.written.values()
        for stem, figure in (figures or {}).items():
            files.append(save_figure(figure, folder / f"{stem}.png"))
    clips = [describe_clip(parts.clips, index, indices[index]) for index in used]
    return [out / file.name for file in files], {"clips": clips, "rows": rows}


def _describe_entry(entry: Entry, clips: Sequences, indices: Sequence[int]) -> Facts:
    """As JSON; clips by their indices, `indices` of the sequences in `clips`."""
    record: Facts = {"kind": entry.kind, "caption": entry.caption, "clip": indices[entry.clip]}
    if entry.donors is not None:
        record["factors"] = list(entry.factors)
        record["donors"] = [
            {"clip": indices[donor], "name": clips.sequence_name(donor), "share": share}
            for donor, share in entry.donors.items()
        ]
    return record


class _SoundFiles:
    """Sound files in a folder, called by what they are; each sequence once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.written: dict[str, Path] = {}  # caption -> file

    def write(self, entry: Entry) -> Path:
        if entry.caption not in self.written:
            stem = file_stem(entry.caption)
            taken = {file.stem for file in self.written.values()}
            number = next(n for n in range(1, len(taken) + 2) if (stem if n == 1 else f"{stem}-{n}") not in taken)
            path = self.folder / f"{stem if number == 1 else f'{stem}-{number}'}.wav"
            self.written[entry.caption] = write_wav(path, spectrogram_to_audio(entry.x))
        return self.written[entry.caption]


def file_stem(caption: str) -> str:
    """A caption as the name of a file, without suffixes of audio files and with hyphens for all but letters and digits.

    Example:
        >>> file_stem("anna/01.wav with the static part of ben/07.wav")
        'anna-01-with-the-static-part-of-ben-07'
    """
    suffixes = "|".join(re.escape(suffix) for suffix in SUFFIXES)
    words = re.sub(rf"({suffixes})(?!\w)| \(\d+%\)", "", caption, flags=re.IGNORECASE)  # nor shares of donors
    stem = re.sub(r"[^\w.]+", "-", words).strip("-.")
    return stem.encode()[:MAX_NAME_BYTES].decode(errors="ignore").strip("-.") or "sound"


def _write_arrays(path: Path, entries: Sequence[Entry]) -> Path:
    """`x` (n, time, ...) in the data's units, padded with zeros, with `lengths`, `captions` and `kinds` (n,)."""
    lengths = np.array([len(entry.x) for entry in entries])
    first = entries[0].x
    padded: NDArray[Any] = np.zeros((len(entries), lengths.max(), *first.shape[1:]), first.dtype)
    for place, entry in zip(padded, entries, strict=True):
        place[: len(entry.x)] = entry.x
    captions, kinds = (np.array([getattr(entry, name) for entry in entries]) for name in ("caption", "kind"))
    with atomic_write(path) as temporary:
        np.savez_compressed(temporary, x=padded, lengths=lengths, captions=captions, kinds=kinds)
    return path
