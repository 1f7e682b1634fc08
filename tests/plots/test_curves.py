"""Curves show what metrics.jsonl holds."""

import numpy as np
import pytest

from diskoop.plots.curves import curves_figure

ROWS = [
    {"step": step, "train.total": 100.0 / step, "train.rec": 50.0 / step, "train.cycle": 0.0, "train.rank": 6.0,
     "val.total": 110.0 / step, "val.rec": 60.0 / step, "val.cycle": 0.0, "val.rank": 6.0, "val.static_gap": 0.1,
     "val.dynamic_radius": 0.9}
    for step in (10, 20, 200)
]  # fmt: skip


def test_loss_terms_and_spectrum_over_the_steps() -> None:
    loss, terms, spectrum = curves_figure(ROWS).axes
    assert [line.get_label() for line in loss.get_lines()] == ["training", "validation"]
    validation = loss.get_lines()[1]
    assert np.array_equal(np.asarray(validation.get_xydata()), [(10, 11), (20, 5.5), (200, 0.55)])
    assert [line.get_label() for line in terms.get_lines()] == ["rec"]  # neither terms without weight, nor the rank
    assert [float(np.asarray(line.get_ydata())[-1]) for line in spectrum.get_lines()] == [0.1, 0.9]
    assert (loss.get_yscale(), spectrum.get_yscale()) == ("log", "linear")


@pytest.mark.parametrize("count", [1, 2])
def test_a_short_training_without_validation(count: int) -> None:
    rows = [{key: value for key, value in row.items() if not key.startswith("val.")} for row in ROWS[:count]]
    loss, terms, _ = curves_figure(rows).axes
    assert [line.get_label() for line in loss.get_lines()] == ["training"]
    assert terms.get_title(loc="left") == "its terms, training"
    assert loss.get_yscale() == "linear"  # a decade is needed for the other


def test_the_share_explained_is_no_loss_term() -> None:
    rows = [{"step": t, "val.total": 1.0, "val.rec": 0.01 / t, "val.explained": 0.9} for t in (1, 2)]
    _, terms, _ = curves_figure(rows).axes
    assert [line.get_label() for line in terms.get_lines()] == ["rec"]
