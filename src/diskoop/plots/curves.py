"""training curves: the loss, its terms and the spectrum at every validation of a run"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from diskoop.plots.style import DYNAMIC_COLOR, STATIC_COLOR, TEXT_COLOR

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DIAGNOSTICS = {"static_gap": "static: distance to 1", "dynamic_radius": "dynamic: modulus"}
SPLITS = {"train": "training", "val": "validation"}  # prefix of a figure's name in a row -> in words
NOT_TERMS = {"total", "rank", "explained", *DIAGNOSTICS}  # a share of the variance would flatten small terms
MIN_LOG_RATIO = 10  # between the largest and the smallest value of an axis that is logarithmic


def curves_figure(history: Sequence[Mapping[str, Any]]) -> "Figure":
    """Three panels over the steps of a training: the loss, its terms on held-out clips, the extremes of the spectrum.

    Args:
        history: a row for each validation, as in metrics.jsonl: `step`, and `train.NAME` and perhaps `val.NAME` of the
            total, each loss term, `static_gap` and `dynamic_radius`.

    Example:
        >>> rows = [{"step": 1, "train.total": 2.0, "train.rec": 1.5, "train.static_gap": 0.1}]
        >>> [axes.get_title("left") for axes in curves_figure(rows).axes]
        ['loss', 'its terms, training', 'eigenvalues furthest out, training']
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    splits = [split for split in SPLITS if f"{split}.total" in history[-1]]
    judged = splits[-1]  # validation, where there is any
    figure = Figure(figsize=(10.4, 3.1), layout="constrained")
    loss, terms, spectrum = figure.subplots(1, 3)
    for split, color in zip(splits, (TEXT_COLOR, DYNAMIC_COLOR), strict=False):
        _draw_curve(loss, history, f"{split}.total", SPLITS[split], color=color)
    names = [key.partition(".")[2] for key in history[-1] if key.startswith(f"{judged}.")]
    for name in names:  # a term that always is 0 has no weight
        if name not in NOT_TERMS and any(row.get(f"{judged}.{name}") for row in history):
            _draw_curve(terms, history, f"{judged}.{name}", name)
    for name, color in zip(DIAGNOSTICS, (STATIC_COLOR, DYNAMIC_COLOR), strict=True):
        if name in names:
            _draw_curve(spectrum, history, f"{judged}.{name}", DIAGNOSTICS[name], color=color)
    spectrum.set_ylim(bottom=0)
    titles = ("loss", f"its terms, {SPLITS[judged]}", f"eigenvalues furthest out, {SPLITS[judged]}")
    for axes, title in zip((loss, terms, spectrum), titles, strict=True):
        axes.set_title(title, fontsize=10, loc="left", color=TEXT_COLOR)
        axes.set_xlabel("step", fontsize=9)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.tick_params(labelsize=8, which="both")
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_facecolor("none")
        if axes.get_lines():
            axes.legend(fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=3)
    for axes in (loss, terms):
        values = np.concatenate(
            [np.asarray(line.get_ydata(), np.float64) for line in axes.get_lines()] or [np.zeros(1)]
        )
        if values.min() > 0 and values.max() > MIN_LOG_RATIO * values.min():
            axes.set_yscale("log")
    return figure


def _draw_curve(axes: "Axes", history: Sequence[Mapping[str, Any]], key: str, label: str, **style: Any) -> None:
    """One figure over the steps of the rows that have it; a dot for each where there are few."""
    points = np.array([(row["step"], row[key]) for row in history if key in row], np.float64)
    axes.plot(*points.T, linewidth=1.4, marker="." if len(points) <= 12 else "", label=label, **style)
