"""the paper's qualitative figures, one call each

Sources and targets are shown as the model decodes them, so that a row differs from its source by the edit alone.
"""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from diskoop.analysis.decomposition import Decomposition, What
from diskoop.analysis.editing import combinations, gradual, incremental
from diskoop.analysis.embedding import ClusterScore, cluster_score, embed, require_label
from diskoop.analysis.forecasting import ForecastErrors
from diskoop.data.sequences import Sequences, Units
from diskoop.errors import InputError
from diskoop.numerics.weights import Weights, over_two
from diskoop.pictures import (
    DYNAMIC,
    FEATURES_NAMED,
    FRAMES_SHOWN,
    INK,
    PAPER,
    STATIC,
    draw_gap,
    draw_sequence,
    draw_spectrum,
)
from diskoop.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[Any]
Pairs = Sequence[tuple[int, int]]  # (source, target)

# Lengths are in inches, sizes of letters in points.
STILL, FRAME, SMALLEST = 1.15, 0.7, 0.42  # how wide a lone frame of video is, and one of a strip at most and at least
PLOT, HEIGHT = (1.7, 4.6), 0.95  # how wide a signal's plot is at least and at most, and how high
WIDTH = 11.0  # of all columns together, unless their cells become too small
BESIDE = 1.8  # for the words beside a row
GAP, LINE, TITLE = 0.1, 0.15, 0.4  # between cells, for a line of a caption, for the title
TICKS = 0.36  # for the numbers beside and below a signal's plots
SIZE, TITLE_SIZE = 8, 12
LIGHT = ("#aec7e8", "#ffbb78", "#98df8a", "#ff9896", "#c5b0d5", "#c49c94", "#f7b6d2", "#c7c7c7", "#dbdb8d", "#9edae5")
DARK = ("#1b9e77", "#d95f02", "#5e50b5", "#d6006e", "#4f7d0a", "#b58900", "#6b4a1e", "#333333")
LEGEND = 12  # values of a label that its legend names


def two_factor_swaps(parts: Decomposition, pairs: Pairs) -> "Figure":
    """For each pair the source and the target, and below them the source with either part of the target."""
    if not pairs:
        raise InputError("expected pairs (source, target), got none")
    rows: Cells = []
    for source, target in pairs:
        pair = parts.select([source, target])
        (mine, x), (other, y) = pair.rows()
        rows += [[_Cell(x, f"source: {mine}"), _Cell(y, f"target: {other}")], _both_swaps(pair), []]
    return _sheet(rows[:-1], parts.units, "What stays and what moves, exchanged")


def factorial_swap(parts: Decomposition, source: int, target: int, orders: Sequence[Sequence[str]]) -> "Figure":
    """A row for each order of factors: the source, what it becomes as one after another is taken, the target."""
    if not orders:
        raise InputError("expected orders of factors, such as [['hair', 'skin']], got none")
    rows = []
    for order in orders:
        captions = ["source", *(f"+ {name}" for name in order), "target"]
        stages = gradual(parts, source, target, order).rows()
        rows.append([_Cell(_still(x), caption) for caption, (_, x) in zip(captions, stages, strict=True)])
    return _sheet(rows, parts.units, "One factor of the target after another")


def all_combinations(parts: Decomposition, source: int, target: int, names: Sequence[str]) -> "Figure":
    """The source with every set of the target's factors, and the two themselves around them."""
    stages = combinations(parts, source, target, names).rows()
    title = "Every combination of the target's factors"
    return _sheet([[_Cell(x)] for _, x in stages], parts.units, title, beside=[caption for caption, _ in stages])


def incremental_swap(parts: Decomposition, pairs: Pairs, what: str, sizes: Sequence[int | None]) -> "Figure":
    """A column for each pair: the source with growing sets of the target's static or dynamic modes."""
    if not pairs:
        raise InputError("expected pairs (source, target), got none")
    columns = [incremental(parts, source, target, what, sizes) for source, target in pairs]
    cells = [[_Cell(x) for _, x in stages.rows()] for stages in columns]
    above = [f"{_name(parts, source)}\n→ {_name(parts, target)}" for source, target in pairs]
    title = f"More and more of the target's {what} modes"
    rows = [list(row) for row in zip(*cells, strict=True)]
    return _sheet(rows, parts.units, title, beside=columns[0].captions, above=above)


def generation(
    parts: Decomposition, what: What, generator: torch.Generator, count: int = 8, weights: Weights = over_two
) -> "Figure":
    """The first `count` sequences, and beside them the same with `what` a mixture of others' in the set."""
    if not 1 <= count <= len(parts):
        raise InputError(f"expected a count from 1 to {len(parts)}, the sequences there are, got {count}")
    sampled = parts.sample(what, generator, weights).select(range(count)).rows()
    rows = [
        [_Cell(x, caption), _Cell(new)]
        for (caption, x), (_, new) in zip(parts.select(range(count)).rows(), sampled, strict=True)
    ]
    name = parts.factor(what).name
    return _sheet(
        rows, parts.units, f"New ones by sampling: {name}", above=["source", f"{name} sampled, the rest kept"]
    )


def factor_sheet(
    parts: Decomposition,
    names: Sequence[str],
    source: int,
    donors: Sequence[int],
    captions: Mapping[str, str] | None = None,
) -> "Figure":
    """What each factor does: a row for each, the source, then the source with this factor of every donor.

    The donors themselves stand on top; `captions` may say more of a factor than its name.
    """
    if not names or not donors:
        raise InputError(f"expected factors and donors, got {list(names)} and {list(donors)}")
    captions, count = captions or {}, len(donors)
    family = parts.select([source] * count + list(donors))
    takers = {i: count + i for i in range(count)}
    shown = [_still(x) for _, x in family.rows()]
    rows: Cells = [[None, *(_Cell(x, "donor") for x in shown[count:])]]
    for name in names:
        swapped = family.swap(name, takers).rows()[:count]
        rows.append([_Cell(shown[0], "source" if name == names[0] else ""), *(_Cell(_still(x)) for _, x in swapped)])
    beside = ["", *(f"{name}\n{captions.get(name, '')}".strip() for name in names)]
    return _sheet(rows, parts.units, "What each factor takes from the donors", beside=beside)


def embedding_figure(
    parts: Decomposition, names: What, face: str, edge: str, seed: int = 0
) -> "tuple[Figure, ClusterScore]":
    """A map of the sequences by their codes of some factors, coloured by two labels, and how well it clusters."""
    from matplotlib.figure import Figure

    inner, outer = (require_label(parts.clips, label) for label in (face, edge))
    points = embed(parts.code(names), seed)
    # Faces are light and edges dark, so that they are never taken for each other.
    inks, rims = _palette(inner, LIGHT, 0.95), _palette(outer, DARK, 0.6)
    figure = Figure(figsize=(9.0, 6.2), layout="constrained")
    axes = figure.subplots()
    faces, borders = [inks[code] for code in inner.tolist()], [rims[code] for code in outer.tolist()]
    axes.scatter(points[:, 0], points[:, 1], s=64, c=faces, edgecolors=borders, linewidths=2)
    axes.set(xticks=[], yticks=[], facecolor="none")
    axes.spines[:].set_visible(False)
    score = cluster_score(points, inner, outer)
    title = f"{parts.factor(names).name}, by t-SNE\n{score}"
    axes.set_title(title, fontsize=9, loc="left", color=INK, linespacing=1.5, parse_math=False)
    _legend(figure, parts.clips, face, inks, of_edges=False)
    _legend(figure, parts.clips, edge, rims, of_edges=True)
    return figure, score


def spectrum_figure(run: Run) -> "Figure":
    """The eigenvalues of a run's operator: which are static, which dynamic, and where they should be."""
    return spectra({"eigenvalues of the operator": run})


def spectra(runs: Mapping[str, Run]) -> "Figure":
    """The eigenvalues of several runs side by side, at one scale, as in the paper's ablation."""
    from matplotlib.figure import Figure

    _require_runs(runs)
    figure = Figure(figsize=(4.2 * len(runs), 5.2), layout="constrained")
    grid = figure.subplots(1, len(runs), squeeze=False)
    for axes, (name, run) in zip(grid.flat, runs.items(), strict=True):
        draw_spectrum(axes, *run.spectrum(), run.settings.spectrum.radius)
        axes.set_title(name, fontsize=10, loc="left", color=INK, parse_math=False)
    reach = max(axes.get_xlim()[1] for axes in grid.flat)
    for axes in grid.flat:
        axes.set(xlim=(-reach, reach), ylim=(-reach, reach), anchor="N")  # what space is left belongs to the legends
    for axes in grid.flat[1:]:
        axes.set_ylabel("")
    return figure


def gap_figure(run: Run) -> "Figure":
    """How far each eigenvalue of a run's operator is from 1: helps to choose `spectrum.static`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    draw_gap(figure.subplots(), *run.spectrum())
    return figure


def forecast_figure(errors: ForecastErrors, unit: str) -> "Figure":
    """Error against horizon; `unit` says in what, such as "grey levels from 0 to 255"."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    horizons = np.arange(1, len(errors.ours) + 1)
    for curve, name, look in (
        (errors.last_frame, "holding the last frame", {"color": STATIC}),
        (errors.dmd, f"plain DMD, rank {errors.rank}", {"color": INK}),
        (errors.ours, "our forecast", {"color": DYNAMIC, "linewidth": 2}),
        (errors.reconstruction, "our reconstruction of the same frames", {"color": DYNAMIC, "linestyle": ":"}),
    ):
        axes.plot(horizons, curve, marker=".", label=name, **look)
    # Shaded as well, since a good forecast lies on that line and hides it.
    axes.fill_between(horizons, errors.reconstruction, color=DYNAMIC, alpha=0.08, linewidth=0)
    axes.set_ylim(bottom=0)
    axes.set_xlim(0.5, len(horizons) + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title(
        f"{errors.sequences} sequences, forecast from their first {errors.given} frames",
        fontsize=9,
        loc="left",
        color=INK,
    )
    axes.set_xlabel("frames ahead", fontsize=8)
    axes.set_ylabel(f"root mean squared error, {unit}", fontsize=8, parse_math=False)
    axes.tick_params(labelsize=7)
    axes.set_facecolor("none")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2, fontsize=8, frameon=False)
    return figure


def ablation(runs: Mapping[str, Run], clips: Sequences, source: int, target: int) -> "Figure":
    """A pair of clips, as they are, and for each run what becomes of the source with either part of the target."""
    _require_runs(runs)
    pair = clips.select([source, target])
    given = [x[:length] for x, length in zip(pair.x, pair.lengths, strict=True)]
    rows: Cells = [[_Cell(x, text) for x, text in zip(given, ("source", "target"), strict=True)], []]
    rows += [_both_swaps(run.decompose(pair)) for run in runs.values()]
    return _sheet(rows, pair.units, "The same exchange by different models", beside=["", "", *runs])


def matrix_figure(
    matrix: Array,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    chance: Sequence[float] | None = None,
    remark: str = "",
    kept: Array | None = None,
) -> "Figure":
    """Shares from 0 to 1 as heat maps: a row for each factor that was exchanged, a column for each that was judged.

    Where a row and a column have one name the ideal is 100%, and the cell is framed; elsewhere it is `chance`.

    Args:
        matrix: (rows, columns), the shares that show the donor's value.
        rows: what was exchanged.
        columns: what was judged.
        title: above all.
        chance: what guessing comes to, for each column.
        remark: below all.
        kept: (rows, columns), drawn beside `matrix`: the shares that still show their own value, 100% at best; NaN is
            left blank.
    """
    from matplotlib.figure import Figure

    for shares in (matrix, kept):
        if shares is not None and shares.shape != (len(rows), len(columns)):
            wanted = f"({len(rows)}, {len(columns)}) for rows {', '.join(rows)} and columns {', '.join(columns)}"
            raise InputError(f"expected a matrix {wanted}, got {shares.shape}")
    if chance is not None and len(chance) != len(columns):
        raise InputError(f"expected a chance for each of {', '.join(columns)}, got {len(chance)}")
    panels = 1 if kept is None else 2
    size = (1.2 + panels * (1.0 + 0.95 * len(columns)), (1.5 if kept is None else 1.8) + 0.62 * len(rows))
    figure = Figure(figsize=size, layout="constrained")
    axes, *others = figure.subplots(1, panels, squeeze=False)[0]
    below = [""] * len(columns) if chance is None else [f"\nchance {share:.0%}" for share in chance]
    words = [f"{name}{text}" for name, text in zip(columns, below, strict=True)]
    framed = [(i, j) for i, row in enumerate(rows) for j, column in enumerate(columns) if row == column]
    _draw_shares(axes, matrix, rows, words, framed)
    axes.set_ylabel("taken from the donor", fontsize=8, color=INK)
    ideal = "" if chance is None else "ideal: 100% where framed, chance elsewhere"
    axes.set_xlabel(ideal, fontsize=8, color=INK)
    if kept is not None:
        axes.set_title("shows the donor's value", fontsize=9, color=INK)
        (beside,) = others
        _draw_shares(beside, kept, rows, words)
        beside.set_title("still shows its own value", fontsize=9, color=INK)
        beside.set_xlabel("ideal: 100%", fontsize=8, color=INK)
    figure.supxlabel(_wrapped(remark, 0.9 * figure.get_figwidth()), fontsize=8, color=INK)
    figure.suptitle(title, fontsize=TITLE_SIZE, color=INK, x=0.01, ha="left", parse_math=False)
    return figure


def _draw_shares(
    axes: "Axes", matrix: Array, rows: Sequence[str], columns: Sequence[str], framed: Sequence[tuple[int, int]] = ()
) -> None:
    """A heat map with its shares in percent, blank where one is NaN; `framed` has cells as (row, column)."""
    from matplotlib.patches import Rectangle

    axes.spines[:].set_visible(False)
    axes.set_facecolor("none")
    axes.tick_params(length=0, labelsize=9)
    axes.imshow(matrix, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for (i, j), share in np.ndenumerate(matrix):
        if not np.isnan(share):
            color = PAPER if share > 0.55 else INK
            axes.text(j, i, f"{share:.0%}", ha="center", va="center", fontsize=10, color=color)
    for i, j in framed:
        axes.add_patch(Rectangle((j - 0.47, i - 0.46), 0.94, 0.92, fill=False, color=DYNAMIC, linewidth=1.8))
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)


@dataclass(frozen=True, eq=False)
class _Cell:
    """A sequence (time, ...) in its place."""

    x: Array
    caption: str = ""
    color: str = INK


Cells = list[list[_Cell | None]]
Grid = Sequence[Sequence[_Cell | None]]  # an empty row is a gap, None an empty place


def _sheet(cells: Grid, units: Units, title: str, beside: Sequence[str] = (), above: Sequence[str] = ()) -> "Figure":
    """Sequences row by row, each drawn as what it is, with words beside the rows and above the columns."""
    present = [cell.x for row in cells for cell in row if cell]
    video, columns = present[0].ndim == 4, max(map(len, cells))
    width, height = _cell_size(present, columns)
    step, ticks = width + GAP, 0.0 if video else TICKS
    heads, beside = [_wrapped(text, width) for text in above], [_wrapped(text, BESIDE) for text in beside]
    captions = [[_wrapped(cell.caption, width) if cell else "" for cell in row] for row in cells]
    depths = [height + GAP + LINE * _lines(texts) if texts else GAP for texts in captions]
    left = GAP + max([0.0, *(_inches(text) + GAP for text in beside)]) + ticks
    right = left + columns * step + (0.0 if video else _legend_width(units))
    top = TITLE + LINE * _lines(heads)
    page = _Page.titled(title, max(right, _inches(title, TITLE_SIZE) + 2 * GAP), top + sum(depths) + ticks)
    for column, text in enumerate(heads):
        page.write(left + column * step, top - GAP / 3, text, va="bottom")
    bottom = top
    plots = []
    for number, (row, texts, depth) in enumerate(zip(cells, captions, depths, strict=True)):
        bottom += depth
        for column, (cell, text) in enumerate(zip(row, texts, strict=True)):
            if cell:
                axes = page.axes(left + column * step, bottom - GAP, width, height)
                draw_sequence(axes, cell.x, units, text, cell.color)
                plots.append((axes, number, column))
        if beside and beside[number]:
            page.write(left - ticks - GAP, bottom - GAP - height / 2, beside[number], va="center", ha="right")
    if video:
        for axes, _, _ in plots:
            axes.set_anchor("W")  # a shorter strip begins where the others do
    else:
        _share_scales(plots, present)
    return page.figure


@dataclass(frozen=True, eq=False)
class _Page:
    """A figure on which things are placed in inches from its upper left corner."""

    figure: "Figure"
    width: float
    height: float

    @classmethod
    def titled(cls, title: str, width: float, height: float) -> "_Page":
        from matplotlib.figure import Figure

        page = cls(Figure(figsize=(width, height)), width, height)
        x, y = page._at(GAP, GAP)
        page.figure.suptitle(title, x=x, y=y, ha="left", va="top", fontsize=TITLE_SIZE, color=INK, parse_math=False)
        return page

    def axes(self, left: float, bottom: float, width: float, height: float) -> "Axes":
        return self.figure.add_axes((*self._at(left, bottom), width / self.width, height / self.height))

    def write(self, x: float, y: float, text: str, **how: Any) -> None:
        self.figure.text(*self._at(x, y), text, fontsize=SIZE, color=INK, parse_math=False, **how)

    def _at(self, x: float, y: float) -> tuple[float, float]:
        return x / self.width, 1 - y / self.height


def _cell_size(present: Sequence[Array], columns: int) -> tuple[float, float]:
    """Width and height of the largest cell."""
    share = WIDTH / columns
    if present[0].ndim < 4:
        return min(max(share, PLOT[0]), PLOT[1]), HEIGHT
    frames = min(max(map(len, present)), FRAMES_SHOWN)
    frame = min(max(share / frames, SMALLEST), STILL if frames == 1 else FRAME)
    tall, wide = present[0].shape[-2:]
    return frame * frames, frame * tall / wide


def _share_scales(plots: Sequence[tuple["Axes", int, int]], signals: Sequence[Array]) -> None:
    """Signals, in their rows and columns, on one scale, so that they can be compared; every number is written once."""
    low, high = min(float(x.min()) for x in signals), max(float(x.max()) for x in signals)
    if not plots[0][0].images:  # lines, which may have been scaled
        low = min(float(axes.dataLim.y0) for axes, _, _ in plots)
        high = max(float(axes.dataLim.y1) for axes, _, _ in plots)
    spread = 0.05 * (high - low or 1.0)
    longest = max((axes.get_xlim() for axes, _, _ in plots), key=lambda ends: ends[1])
    first = {row: min(c for _, r, c in plots if r == row) for _, row, _ in plots}
    last = {column: max(r for _, r, c in plots if c == column) for _, _, column in plots}
    corner = min((r, c) for _, r, c in plots if c == max(last))  # where there is room for a legend
    for axes, row, column in plots:
        axes.set_xlim(longest)
        if axes.images:
            axes.images[0].set_clim(low, high)
        else:
            axes.set(ylim=(low - spread, high + spread), facecolor="none")
        if column != first[row]:
            axes.tick_params(labelleft=False)
            axes.set_ylabel("")
        if row != last[column]:
            axes.tick_params(labelbottom=False)
            axes.set_xlabel("")
        legend = axes.get_legend()
        if legend is not None and (row, column) != corner:
            legend.remove()


def _legend_width(units: Units) -> float:
    """What the legend of a series takes, which stands to its right where the features are few."""
    return max([0.0, *(_inches(name, 5) + 4 * GAP for name in units.features if len(units.features) <= FEATURES_NAMED)])


def _both_swaps(pair: Decomposition) -> list[_Cell | None]:
    """The first of two sequences with either part of the second."""
    static, dynamic = (pair.swap(what, {0: 1}).rows()[0][1] for what in ("static", "dynamic"))
    text = "source with the target's {} part"
    return [_Cell(static, text.format("static"), STATIC), _Cell(dynamic, text.format("dynamic"), DYNAMIC)]


def _still(x: Array) -> Array:
    """The middle frame of a video; a signal as it is."""
    return x[len(x) // 2][None] if x.ndim == 4 else x


def _name(parts: Decomposition, index: int) -> str:
    return parts.clips.title(index)


def _inches(text: str, size: float = SIZE) -> float:
    """How wide a text is, with a little to spare: letters on screen are not where they are on paper."""
    from matplotlib.textpath import TextPath

    # A dollar sign would begin a formula; an S is as wide.
    lines = text.replace("$", "S").splitlines()
    return max(
        [0.0, *(float(TextPath((0, 0), line, size=size).get_extents().width) / 70 for line in lines if line.strip())]
    )


def _wrapped(text: str, inches: float) -> str:
    """A text in lines that are not wider than this."""
    lines = []
    for line in text.splitlines():
        wide = _inches(line)
        lines += [line] if wide <= inches else textwrap.wrap(line, max(int(len(line) * inches / wide) - 1, 6))
    return "\n".join(lines)


def _lines(texts: Sequence[str]) -> int:
    return max([0, *(len(text.splitlines()) for text in texts)])


def _palette(codes: Array, few: Sequence[Any], brightness: float) -> dict[int, Any]:
    """A colour for each code that occurs: the first of `few`, or where these do not suffice all around the wheel."""
    from matplotlib.colors import hsv_to_rgb

    present = np.unique(codes).tolist()
    if len(present) <= len(few):
        return dict(zip(present, few, strict=False))
    hues = np.arange(len(present)) / len(present)
    return {code: hsv_to_rgb((hue, 1.4 - brightness, brightness)) for code, hue in zip(present, hues, strict=True)}


def _legend(figure: "Figure", clips: Sequences, label: str, colors: Mapping[int, Any], of_edges: bool) -> None:
    """What the colours of a label mean, as far as there is room for it: those of faces above, those of edges below."""
    from matplotlib.lines import Line2D

    words, dots = clips.values.get(label), []
    for code, color in list(colors.items())[:LEGEND]:
        fill = "none" if of_edges else color
        dots.append(Line2D([], [], ls="none", marker="o", ms=7, mfc=fill, mec=color, mew=2))
        dots[-1].set_label(str(code if words is None else words[code]))
    more = f" ({len(colors) - LEGEND} more)" if len(colors) > LEGEND else ""
    figure.legend(
        handles=dots,
        title=f"{'edge' if of_edges else 'face'}: {label}{more}",
        loc="outside right lower" if of_edges else "outside right upper",
        fontsize=8,
        title_fontsize=8,
        frameon=False,
        alignment="left",
    )


def _require_runs(runs: Mapping[str, Run]) -> None:
    if not runs:
        raise InputError("expected runs by name, got none")
