"""searches: the objective of every trial, what mattered for it, and how it depends on each setting"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from diskoop.plots.style import DYNAMIC_COLOR, FONT_SIZE, STATIC_COLOR, TEXT_COLOR, TRUTH_COLOR

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PER_ROW = 3  # panels of settings
MIN_LOG_RATIO = 30  # between the largest and the smallest value of a setting whose axis is logarithmic
DOT_SIZE = 16


def history_figure(values: Mapping[int, float], others: Mapping[int, str]) -> "Figure":
    """The objective of complete trials in their order, the best so far, and below them those without one.

    Args:
        values: a trial's number -> its objective.
        others: a trial's number -> why it has none, such as "pruned".

    Example:
        >>> figure = history_figure({0: 0.2, 2: 0.5}, {1: "pruned"})
        >>> [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
        ['a trial', 'best so far', 'pruned']
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(7.0, 3.2), layout="constrained")
    axes = figure.subplots()
    numbers = sorted(values)
    heights = [values[number] for number in numbers]
    axes.scatter(numbers, heights, s=DOT_SIZE, color=STATIC_COLOR, label="a trial", zorder=2)
    if numbers:
        best = np.maximum.accumulate(heights)
        axes.step(numbers, best, where="post", color=TEXT_COLOR, linewidth=1.2, label="best so far")
    floor = min(heights, default=0.0)
    for reason, marker in zip(sorted(set(others.values())), "x+1234", strict=False):
        some = [number for number, each in others.items() if each == reason]
        axes.scatter(some, [floor] * len(some), s=DOT_SIZE, color=DYNAMIC_COLOR, marker=marker, label=reason)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _finish(axes, "objective by trial", "trial")
    axes.legend(fontsize=FONT_SIZE, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=5)
    return figure


def importance_figure(importances: Mapping[str, float]) -> "Figure":
    """Bars: the share of the objective's variance that each setting explains, the largest on top."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 0.8 + 0.3 * len(importances)), layout="constrained")
    axes = figure.subplots()
    names = list(importances)[::-1]
    bars = axes.barh(names, [importances[name] for name in names], color=STATIC_COLOR, height=0.6)
    axes.bar_label(bars, fmt="{:.0%}", padding=3, fontsize=FONT_SIZE, color=TEXT_COLOR)
    axes.set_xlim(0, 1.1 * max(importances.values(), default=1.0) or 1.0)
    axes.set_xticks([])
    _finish(axes, "what mattered: share of the objective's variance", "")
    return figure


def settings_figure(settings: Mapping[str, Sequence[Any]], values: Sequence[float]) -> "Figure":
    """A panel for each setting: the objective of complete trials over its values.

    Args:
        settings: a setting's full name -> its value in every complete trial.
        values: their objective.
    """
    from matplotlib.figure import Figure

    columns = min(PER_ROW, len(settings))
    rows = -(-len(settings) // PER_ROW)
    figure = Figure(figsize=(0.6 + 2.8 * columns, 2.4 * rows), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False, sharey=True).flat)
    for axes, (name, given) in zip(panels, settings.items(), strict=False):
        axes.scatter(_places(axes, given), values, s=DOT_SIZE, color=STATIC_COLOR, edgecolor=TRUTH_COLOR, linewidth=0.4)
        _finish(axes, name, "")
    for axes in panels[len(settings) :]:
        axes.set_visible(False)
    return figure


def _places(axes: "Axes", given: Sequence[Any]) -> Sequence[Any]:
    """Where values stand on the x axis: numbers by their size, others side by side."""
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in given):
        names = sorted({str(value) for value in given})
        axes.set_xticks(range(len(names)), names)
        return [names.index(str(value)) for value in given]
    if min(given) > 0 and max(given) > MIN_LOG_RATIO * min(given):
        axes.set_xscale("log")
    return given


def _finish(axes: "Axes", title: str, xlabel: str) -> None:
    axes.set_title(title, fontsize=10, loc="left", color=TEXT_COLOR)
    axes.set_xlabel(xlabel, fontsize=9)
    axes.tick_params(labelsize=FONT_SIZE, which="both")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_facecolor("none")
