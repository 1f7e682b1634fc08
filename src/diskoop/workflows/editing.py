"""swaps, samples and forecasts as files: pictures, arrays, animations and sound"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from diskoop.analysis.decomposition import Decomposition, FactorLike
from diskoop.analysis.editing import swap_combinations, swap_cumulatively, swap_incrementally
from diskoop.analysis.forecasting import fit_dmd, forecast_errors
from diskoop.analysis.sheets import all_combinations, factorial_swap, generation, incremental_swap
from diskoop.data import Sequences, Units
from diskoop.data.formats.audio import spectrogram_to_audio, write_wav
from diskoop.errors import InputError, suggest
from diskoop.numerics.factors import SPECTRAL_PARTS
from diskoop.numerics.mixing import over_batch, over_two
from diskoop.plots.scores import forecast_figure
from diskoop.plots.sequences import Row, rows_figure, save_animation
from diskoop.plots.sheets import sheet_figure
from diskoop.plots.style import save_figure
from diskoop.run import Run
from diskoop.storage import atomic_folder, atomic_write
from diskoop.workflows.clips import Pair, draw_indices, parse_factor, split_names
from diskoop.workflows.console import print_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MIXTURES = {"two": over_two, "batch": over_batch}
MIN_MIXED = 256  # sequences that samples are mixed from, where there are so many
MAX_COLUMNS = 9  # of an animation


@dataclass(frozen=True, eq=False)
class EditOutput:
    """The sequences of one kind of edit, and their picture."""

    groups: Sequence[Sequence[Row]]  # rows that belong together: those of a pair, or of a sequence
    figure: "Figure | None" = None  # None: a column for each group

    @property
    def rows(self) -> list[Row]:
        return [row for group in self.groups for row in group]

    def picture(self, units: Units) -> "Figure":
        if self.figure is not None:
            return self.figure
        side_by_side = [row for rows in zip(*self.groups, strict=True) for row in rows]
        return rows_figure(side_by_side, units, columns=len(self.groups))


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


def swap(run: Run, clips: Sequences, pairs: Sequence[Pair], config: SwapConfig, out: Path) -> list[Path]:
    """Swap factors between clips.

    Args:
        run: with the factors.
        clips: with `operator="batch"`, the operator is fitted on all of them.
        pairs: (receiver, donor) as indices into `clips`.
        config: which swaps.
        out: a new folder for the files.

    Returns:
        The files.
    """
    _require_new(out)
    members = list(dict.fromkeys(member for pair in pairs for member in pair))
    if config.operator == "batch":
        parts = run.decompose(clips, config.operator).select(members)
    else:
        parts = run.decompose(clips.select(members), config.operator)
    placed = [(members.index(receiver), members.index(donor)) for receiver, donor in pairs]
    return _write(out, _swap_outputs(run, parts, placed, config), parts)


def _swap_outputs(run: Run, parts: Decomposition, pairs: Sequence[Pair], config: SwapConfig) -> dict[str, EditOutput]:
    """File stem -> edits."""
    outputs: dict[str, EditOutput] = {}
    if config.gradual:
        orders = [split_names(order) for order in config.gradual]
        for stem, pair in _numbered("gradual", pairs):
            groups = [swap_cumulatively(parts, *pair, order).rows() for order in orders]
            outputs[stem] = EditOutput(groups, sheet_figure(factorial_swap(parts, *pair, orders)))
    if config.combinations:
        names = split_names(config.combinations)
        for stem, pair in _numbered("combinations", pairs):
            figure = sheet_figure(all_combinations(parts, *pair, names))
            outputs[stem] = EditOutput([swap_combinations(parts, *pair, names).rows()], figure)
    if config.incremental:
        part, sizes = _parse_incremental(config.incremental)
        groups = [swap_incrementally(parts, *pair, part, sizes).rows() for pair in pairs]
        outputs["incremental"] = EditOutput(groups, sheet_figure(incremental_swap(parts, pairs, part, sizes)))
    if config.factors or not outputs:
        factors = [parse_factor(config.factors)] if config.factors else _single_factors(run, parts)
        outputs["swap"] = EditOutput([_swap_pair(parts, pair, factors, config.amount) for pair in pairs])
    return outputs


def _numbered(stem: str, pairs: Sequence[Pair]) -> Iterator[tuple[str, Pair]]:
    """A file stem for each pair."""
    for number, pair in enumerate(pairs, 1):
        yield stem if len(pairs) == 1 else f"{stem}-{number}", pair


def _single_factors(run: Run, parts: Decomposition) -> list[FactorLike]:
    """Each factor alone, but for the remainder."""
    discovered = () if run.factors is None else run.factors.factors
    remainder = [factor.name for factor in discovered if factor.kind == "remainder"]
    return [[name] for name in parts.factors if name not in remainder]


def _swap_pair(parts: Decomposition, pair: Pair, factors: Sequence[FactorLike], amount: float) -> list[Row]:
    """The receiver A and the donor B, both reconstructed, then A with each of `factors` of B."""
    both = parts.select(pair)
    (receiver, a), (donor, b) = both.rows()
    rows = [(f"A, as the model sees it: {receiver}", a), (f"B, as the model sees it: {donor}", b)]
    suffix = "" if amount == 1 else f", by {amount:g}"
    for factor in factors:
        new = both.swap(factor, {0: 1}, amount).select([0])
        name = new.factor(factor).name
        rows.append((f"A with B's {name}{' part' if name in SPECTRAL_PARTS else ''}{suffix}", new.rows()[0][1]))
    return rows


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
) -> list[Path]:
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
        The files.
    """
    _require_new(out)
    if mix not in MIXTURES:
        raise InputError(f"unknown mixture {mix!r}; {suggest(mix, MIXTURES)}")
    parts = run.decompose(clips.select(draw_indices(len(clips), max(count, MIN_MIXED), seed)), operator)
    count, factor, weights = min(count, len(parts)), parse_factor(factors), MIXTURES[mix]
    new = parts.sample(factor, torch.Generator().manual_seed(seed), weights).select(range(count))
    name = parts.factor(factor).name
    rows = [(f"{caption}; {name} sampled", x) for caption, x in new.rows()]
    sheet = generation(parts, factor, torch.Generator().manual_seed(seed), count, weights)
    return _write(out, {"sample": EditOutput([rows], sheet_figure(sheet))}, parts)


# --- forecast


def forecast(
    run: Run, clips: Sequences, steps: int | None, observed: int | None, count: int, seed: int, out: Path
) -> tuple[list[Path], dict[str, Any]]:
    """Forecast clips, and compare with holding the last frame and with plain DMD.

    Args:
        run: with the operator.
        clips: those that are long enough are compared.
        steps: frames ahead; None is as many as half of the clips have.
        observed: frames to forecast from; None is half of the median length.
        count: how many clips to draw.
        seed: of that draw.
        out: a new folder for the files.

    Returns:
        The files, and the errors at each horizon as a JSON object.
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
    parts = run.decompose(clips.select(long_enough[draw_indices(len(long_enough), count, seed)]))
    groups = []
    for index, (caption, predicted) in enumerate(parts.forecast(steps, observed).rows()):
        (x,) = parts.clips.read([index])
        groups.append([(f"{caption}, as it was", x), (f"its first {observed} frames and a forecast", predicted)])
    train = run.data("train")
    max_rank = min(int(np.prod(train.shape[2:])), int((train.lengths - 1).sum()))  # of the snapshots
    dmd = fit_dmd(train, min(run.settings.model.k, max_rank), torch.Generator().manual_seed(0))
    errors = forecast_errors(run, clips, min(steps, max(usual, observed + 1) - observed), observed, dmd)
    unit = "log magnitude" if clips.units.rate is not None else "pixel value" if clips.is_video else "the data's units"
    picture = rows_figure([row for group in groups for row in group], clips.units)
    files = _write(out, {"forecast": EditOutput(groups, picture)}, parts, {"errors": forecast_figure(errors, unit)})
    return files, {"sequences": errors.sequences, "left_out": errors.left_out, "errors": errors.table()}


def print_forecast_errors(facts: dict[str, Any]) -> None:
    """Print the second of what `forecast` returns."""
    short = f" ({facts['left_out']} are too short)" if facts["left_out"] else ""
    title = f"root mean squared error by horizon, in the data's units, over {facts['sequences']} sequences{short}"
    rows = [[f"{value:.4g}" for value in row.values()] for row in facts["errors"]]
    print_table(title, dict.fromkeys(facts["errors"][0], "right"), rows)


# --- files


def _require_new(out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{str(out)!r} exists already; choose another folder with --out")


def _write(
    out: Path,
    outputs: Mapping[str, EditOutput],
    parts: Decomposition,
    figures: Mapping[str, "Figure"] | None = None,
) -> list[Path]:
    """Write all files of a command to a folder that appears complete or not at all.

    Args:
        out: the folder.
        outputs: file stem -> edits.
        parts: gives the kind of data and their units.
        figures: file stem -> pictures of something else.
    """
    files: list[Path] = []
    with atomic_folder(out) as folder:
        for stem, output in outputs.items():
            files.append(save_figure(output.picture(parts.units), folder / f"{stem}.png"))
            files.append(_write_arrays(folder / f"{stem}.npz", output.rows))
            if parts.clips.is_video:
                columns = min(max(map(len, output.groups)), MAX_COLUMNS)
                files.append(save_animation(output.rows, folder / f"{stem}.webp", parts.units, columns))
            if parts.units.rate is not None:
                for number, (_, x) in enumerate(output.rows):
                    files.append(write_wav(folder / f"{stem}-{number}.wav", spectrogram_to_audio(x)))
        for stem, figure in (figures or {}).items():
            files.append(save_figure(figure, folder / f"{stem}.png"))
    return [out / file.name for file in files]


def _write_arrays(path: Path, rows: Sequence[Row]) -> Path:
    """`x` (n, time, ...) in the data's units, padded with zeros, with `lengths` and `captions` (n,)."""
    lengths = np.array([len(x) for _, x in rows])
    first = rows[0][1]
    padded: NDArray[Any] = np.zeros((len(rows), lengths.max(), *first.shape[1:]), first.dtype)
    for place, (_, x) in zip(padded, rows, strict=True):
        place[: len(x)] = x
    with atomic_write(path) as temporary:
        np.savez_compressed(temporary, x=padded, lengths=lengths, captions=np.array([caption for caption, _ in rows]))
    return path
