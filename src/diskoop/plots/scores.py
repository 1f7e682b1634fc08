"""score matrices, forecast errors and maps of embedded sequences"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from diskoop.analysis.embedding import ClusterScore, require_label
from diskoop.analysis.forecasting import ForecastErrors
from diskoop.data.sequences import Sequences
from diskoop.errors import InputError, counted
from diskoop.plots.style import (
    BACKGROUND,
    DYNAMIC_COLOR,
    STATIC_COLOR,
    TEXT_COLOR,
    TITLE_SIZE,
    TRUTH_COLOR,
    wrap_text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Faces are light and edges dark, so that the two labels of a point cannot be confused.
FACE_COLORS = (
    *("#aec7e8", "#ffbb78", "#98df8a", "#ff9896", "#c5b0d5"),
    *("#c49c94", "#f7b6d2", "#c7c7c7", "#dbdb8d", "#9edae5"),
)
EDGE_COLORS = ("#1b9e77", "#d95f02", "#5e50b5", "#d6006e", "#4f7d0a", "#b58900", "#6b4a1e", "#333333")
FACE_BRIGHTNESS, EDGE_BRIGHTNESS = 0.95, 0.6  # where a label has more values than there are colours
MAX_LEGEND_VALUES = 12


def matrix_figure(
    matrix: NDArray[Any],
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    chance: Sequence[float] | None = None,
    remark: str = "",
    kept: NDArray[Any] | None = None,
) -> "Figure":
    """Heat maps of fractions from 0 to 1: a row for each swapped factor, a column for each classified label.

    Where a row and a column have the same name the ideal is 100%, and the cell is framed; elsewhere it is `chance`.

    Args:
        matrix: (rows, columns), the fractions that show the donor's value.
        rows: names of the swapped factors.
        columns: names of the classified labels.
        title: above all.
        chance: accuracy of guessing, for each column.
        remark: below all.
        kept: (rows, columns), drawn next to `matrix`: the fractions that still show their own value, ideally 100%;
            NaN is left blank.
    """
    from matplotlib.figure import Figure

    for fractions in (matrix, kept):
        if fractions is not None and fractions.shape != (len(rows), len(columns)):
            wanted = f"({len(rows)}, {len(columns)}) for rows {', '.join(rows)} and columns {', '.join(columns)}"
            raise InputError(f"expected a matrix {wanted}, got {fractions.shape}")
    if chance is not None and len(chance) != len(columns):
        raise InputError(f"expected a chance for each of {', '.join(columns)}, got {len(chance)}")
    panels = 1 if kept is None else 2
    size = (1.2 + panels * (1.0 + 0.95 * len(columns)), (1.5 if kept is None else 1.8) + 0.62 * len(rows))
    figure = Figure(figsize=size, layout="constrained")
    axes, *others = figure.subplots(1, panels, squeeze=False)[0]
    notes = [""] * len(columns) if chance is None else [f"\nchance {fraction:.0%}" for fraction in chance]
    headings = [f"{name}{note}" for name, note in zip(columns, notes, strict=True)]
    framed = [(i, j) for i, row in enumerate(rows) for j, column in enumerate(columns) if row == column]
    _draw_fractions(axes, matrix, rows, headings, framed)
    axes.set_ylabel("taken from the donor", fontsize=8, color=TEXT_COLOR)
    ideal = "" if chance is None else "ideal: 100% where framed, chance elsewhere"
    axes.set_xlabel(ideal, fontsize=8, color=TEXT_COLOR)
    if kept is not None:
        axes.set_title("shows the donor's value", fontsize=9, color=TEXT_COLOR)
        (second,) = others
        _draw_fractions(second, kept, rows, headings)
        second.set_title("still shows its own value", fontsize=9, color=TEXT_COLOR)
        second.set_xlabel("ideal: 100%", fontsize=8, color=TEXT_COLOR)
    figure.supxlabel(wrap_text(remark, 0.9 * figure.get_figwidth()), fontsize=8, color=TEXT_COLOR)
    figure.suptitle(title, fontsize=TITLE_SIZE, color=TEXT_COLOR, x=0.01, ha="left", parse_math=False)
    return figure


def forecast_figure(errors: ForecastErrors) -> "Figure":
    """Forecast errors against the horizon, relative to the deviation of the data."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    curves = {method: errors.curve(method) for method in errors.methods}
    horizons = np.arange(1, len(curves["ours"]) + 1)
    for method, name, style in (
        ("last_frame", "holding the last frame", {"color": STATIC_COLOR}),
        ("dmd", f"plain DMD, rank {errors.rank}", {"color": TEXT_COLOR}),
        ("ours", "our forecast", {"color": DYNAMIC_COLOR, "linewidth": 2}),
        ("reconstruction", "our reconstruction of the same frames", {"color": DYNAMIC_COLOR, "linestyle": ":"}),
    ):
        if method in curves:
            axes.plot(horizons, curves[method], marker=".", label=name, **style)
    axes.axhline(1, color=TRUTH_COLOR, linewidth=1, zorder=0, label="predicting the mean frame")
    # Shaded as well, since a good forecast lies on that line and hides it.
    axes.fill_between(horizons, curves["reconstruction"], color=DYNAMIC_COLOR, alpha=0.08, linewidth=0)
    axes.set_ylim(bottom=0)
    axes.set_xlim(0.5, len(horizons) + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title(
        f"{counted(errors.sequences, 'sequence')}, forecast from the first {counted(errors.observed, 'frame')}",
        fontsize=9,
        loc="left",
        color=TEXT_COLOR,
    )
    axes.set_xlabel("frames ahead", fontsize=8)
    axes.set_ylabel("root mean squared error, in deviations of the data", fontsize=8)
    axes.tick_params(labelsize=7)
    axes.set_facecolor("none")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2, fontsize=8, frameon=False)
    return figure


def embedding_figure(
    points: NDArray[Any], clips: Sequences, face: str, edge: str, score: ClusterScore, name: str
) -> "Figure":
    """A map of sequences, each a dot coloured by two labels.

    Args:
        points: (n, 2), see `analysis.embedding.embed`.
        clips: the n sequences, for their labels.
        face: the label that colours the inside of a dot.
        edge: the label that colours its edge.
        score: how well the points cluster, for the title.
        name: of the embedded factors, for the title.
    """
    from matplotlib.figure import Figure

    face_codes, edge_codes = (require_label(clips, label).tolist() for label in (face, edge))
    face_colors = _palette(face_codes, FACE_COLORS, FACE_BRIGHTNESS)
    edge_colors = _palette(edge_codes, EDGE_COLORS, EDGE_BRIGHTNESS)
    figure = Figure(figsize=(9.0, 6.2), layout="constrained")
    axes = figure.subplots()
    faces, edges = [face_colors[code] for code in face_codes], [edge_colors[code] for code in edge_codes]
    axes.scatter(points[:, 0], points[:, 1], s=64, c=faces, edgecolors=edges, linewidths=2)
    axes.set(xticks=[], yticks=[], facecolor="none")
    axes.spines[:].set_visible(False)
    title = f"{name}, by t-SNE\n{score}"
    axes.set_title(title, fontsize=9, loc="left", color=TEXT_COLOR, linespacing=1.5, parse_math=False)
    _add_legend(figure, clips, face, face_colors, is_edge=False)
    _add_legend(figure, clips, edge, edge_colors, is_edge=True)
    return figure


def _draw_fractions(
    axes: "Axes",
    matrix: NDArray[Any],
    rows: Sequence[str],
    columns: Sequence[str],
    framed: Sequence[tuple[int, int]] = (),
) -> None:
    """A heat map with its fractions in percent, blank where one is NaN; `framed` has cells as (row, column)."""
    from matplotlib.patches import Rectangle

    axes.spines[:].set_visible(False)
    axes.set_facecolor("none")
    axes.tick_params(length=0, labelsize=9)
    axes.imshow(matrix, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for (i, j), fraction in np.ndenumerate(matrix):
        if not np.isnan(fraction):
            color = BACKGROUND if fraction > 0.55 else TEXT_COLOR
            axes.text(j, i, f"{fraction:.0%}", ha="center", va="center", fontsize=10, color=color)
    for i, j in framed:
        axes.add_patch(Rectangle((j - 0.47, i - 0.46), 0.94, 0.92, fill=False, color=DYNAMIC_COLOR, linewidth=1.8))
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)


def _palette(codes: Sequence[int], colors: Sequence[str], brightness: float) -> dict[int, Any]:
    """A colour for each code that occurs: from `colors`, or where there are more codes from the whole colour wheel."""
    from matplotlib.colors import hsv_to_rgb

    present = sorted(set(codes))
    if len(present) <= len(colors):
        return dict(zip(present, colors, strict=False))
    hues = np.arange(len(present)) / len(present)
    return {code: hsv_to_rgb((hue, 1.4 - brightness, brightness)) for code, hue in zip(present, hues, strict=True)}


def _add_legend(figure: "Figure", clips: Sequences, label: str, colors: Mapping[int, Any], is_edge: bool) -> None:
    """A legend of up to MAX_LEGEND_VALUES values of a label: faces at the top, edges at the bottom."""
    from matplotlib.lines import Line2D

    values, dots = clips.values.get(label), []
    for code, color in list(colors.items())[:MAX_LEGEND_VALUES]:
        fill = "none" if is_edge else color
        dots.append(Line2D([], [], ls="none", marker="o", ms=7, mfc=fill, mec=color, mew=2))
        dots[-1].set_label(str(code if values is None else values[code]))
    more = f" ({len(colors) - MAX_LEGEND_VALUES} more)" if len(colors) > MAX_LEGEND_VALUES else ""
    figure.legend(
        handles=dots,
        title=f"{'edge' if is_edge else 'face'}: {label}{more}",
        loc="outside right lower" if is_edge else "outside right upper",
        fontsize=8,
        title_fontsize=8,
        frameon=False,
        alignment="left",
    )
