"""Pictures of a search show every trial, once, where it belongs."""

from typing import Any

import numpy as np
import pytest

from diskoop.plots.search import history_figure, importance_figure, settings_figure


def test_history_has_every_trial_and_the_best_so_far() -> None:
    axes = history_figure({0: 0.2, 1: 0.6, 4: 0.4}, {2: "pruned", 3: "failed"}).axes[0]
    complete, failed, pruned = (np.asarray(each.get_offsets()) for each in axes.collections)
    assert complete.tolist() == [[0, 0.2], [1, 0.6], [4, 0.4]]
    assert (failed.tolist(), pruned.tolist()) == ([[3, 0.2]], [[2, 0.2]])
    assert np.asarray(axes.get_lines()[0].get_ydata()).tolist() == [0.2, 0.6, 0.6]


def test_history_of_a_search_without_a_complete_trial() -> None:
    assert not history_figure({}, {0: "failed"}).axes[0].get_lines()


def test_importances_are_bars_with_the_largest_on_top() -> None:
    axes = importance_figure({"loss.eig": 0.75, "model.k": 0.25}).axes[0]
    widths = [float(bar.get_width()) for bar in axes.patches]  # type: ignore[attr-defined]
    assert widths == [0.25, 0.75]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["model.k", "loss.eig"]
    assert [text.get_text() for text in axes.texts] == ["25%", "75%"]


def test_a_panel_for_each_setting() -> None:
    settings: dict[str, list[Any]] = {
        "model.k": [8, 12],
        "loss.eig": [0.1, 10.0],
        "train.blur": [True, False],
        "data.name": ["b", "a"],
    }
    panels = settings_figure(settings, [0.3, 0.5]).axes
    shown = [axes for axes in panels if axes.get_visible()]
    assert [axes.get_title("left") for axes in shown] == list(settings)
    assert [axes.get_xscale() for axes in shown] == ["linear", "log", "linear", "linear"]
    assert np.asarray(shown[3].collections[0].get_offsets()).tolist() == [[1, 0.3], [0, 0.5]]
    assert [text.get_text() for text in shown[2].get_xticklabels()] == ["False", "True"]


@pytest.mark.parametrize("count", [1, 3, 4])
def test_panels_that_are_not_needed_are_hidden(count: int) -> None:
    panels = settings_figure({f"model.{number}": [1, 2] for number in range(count)}, [0.3, 0.5]).axes
    assert sum(axes.get_visible() for axes in panels) == count
