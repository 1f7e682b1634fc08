"""Scores, errors and maps are drawn as given."""

import numpy as np
import pytest
from numpy.typing import NDArray

from diskoop import load_data
from diskoop.analysis.embedding import ClusterScore
from diskoop.analysis.forecasting import METHODS, ForecastErrors
from diskoop.data.sequences import Sequences, Units
from diskoop.errors import InputError
from diskoop.plots.scores import FACE_COLORS, _palette, embedding_figure, forecast_figure, matrix_figure


def test_a_matrix_says_what_is_ideal() -> None:
    matrix = np.array([[0.97, 0.17, 0.5], [0.21, 0.88, 0.0]])
    figure = matrix_figure(matrix, ["skin", "hair"], ["skin", "hair", "action"], "swapped", [1 / 6, 1 / 6, 1 / 9])
    (axes,) = figure.axes
    assert np.array_equal(np.asarray(axes.images[0].get_array()), matrix)
    assert [text.get_text() for text in axes.texts] == ["97%", "17%", "50%", "21%", "88%", "0%"]
    framed = [(patch.get_center()) for patch in axes.patches]  # type: ignore[attr-defined]
    assert np.allclose(framed, [(0, 0), (1, 1)])
    ticks = [label.get_text() for label in axes.get_xticklabels()]
    assert ticks == ["skin\nchance 17%", "hair\nchance 17%", "action\nchance 11%"]
    assert figure.get_suptitle() == "swapped"
    with pytest.raises(
        InputError, match=r"expected a matrix \(2, 1\) for rows skin, hair and columns top, got \(2, 3\)"
    ):
        matrix_figure(matrix, ["skin", "hair"], ["top"], "")
    with pytest.raises(InputError, match="expected a chance for each of skin, hair, action, got 1"):
        matrix_figure(matrix, ["skin", "hair"], ["skin", "hair", "action"], "", [0.5])


def test_what_is_kept_stands_beside_what_is_taken() -> None:
    taken, kept = np.array([[0.97, 0.17], [0.21, 0.88]]), np.array([[np.nan, 0.99], [0.6, np.nan]])
    labels = ["skin", "hair"]
    figure = matrix_figure(taken, labels, labels, "both", [1 / 6, 1 / 6], kept=kept)
    first, second = figure.axes
    assert np.array_equal(np.asarray(first.images[0].get_array()), taken)
    assert [text.get_text() for text in first.texts] == ["97%", "17%", "21%", "88%"]
    assert [text.get_text() for text in second.texts] == ["99%", "60%"]  # nothing on the diagonal
    assert [text.get_position() for text in second.texts] == [(1, 0), (0, 1)]
    assert len(first.patches) == 2
    assert not second.patches
    assert [axes.get_title() for axes in figure.axes] == ["shows the donor's value", "still shows its own value"]
    assert second.get_xlabel() == "ideal: 100%"
    with pytest.raises(InputError, match=r"expected a matrix \(2, 2\) .*, got \(1, 2\)"):
        matrix_figure(taken, labels, labels, "both", kept=kept[:1])


@pytest.mark.parametrize("steps", [1, 4])
def test_the_forecasts_are_drawn_as_curves(steps: int) -> None:
    curves: NDArray[np.float64] = np.arange(4.0 * steps).reshape(4, steps)
    ours, held, dmd, floor = curves
    clips = Sequences.of(np.zeros((7, 9, 3)), units=Units())
    squares = {name: np.repeat(np.square(curve)[:, None], 3, 1) for name, curve in zip(METHODS, curves, strict=True)}
    figure = forecast_figure(ForecastErrors(3, squares, np.full(3, 2.0), clips, left_out=0, rank=2))
    (axes,) = figure.axes
    drawn = {str(line.get_label()): np.asarray(line.get_xydata()) for line in axes.lines}
    assert list(drawn) == [
        "holding the last frame",
        "plain DMD, rank 2",
        "our forecast",
        "our reconstruction of the same frames",
        "predicting the mean frame",
    ]
    for points, curve in zip(list(drawn.values())[:4], (held, dmd, ours, floor), strict=True):
        assert np.allclose(points, np.stack([np.arange(1, steps + 1), curve / 2], 1))  # of a deviation of 2
    assert axes.get_title(loc="left") == "7 sequences, forecast from the first 3 frames"
    assert axes.get_ylim()[0] == 0


def test_the_embedding_is_coloured_by_its_labels() -> None:
    clips = load_data("oscillators", "test").select(range(40))
    points = np.random.Generator(np.random.PCG64(0)).normal(size=(40, 2))
    score = ClusterScore(12, 0.9, 0.8, 0.7)
    figure = embedding_figure(points, clips, "level", "mark", score, "level + mark")
    (axes,) = figure.axes
    (dots,) = axes.collections
    assert np.array_equal(np.asarray(dots.get_offsets()), points)
    for colors, label in ((dots.get_facecolor(), "level"), (dots.get_edgecolor(), "mark")):
        codes = clips.labels[label]
        pairs = {(tuple(color), code) for color, code in zip(np.asarray(colors).tolist(), codes.tolist(), strict=True)}
        assert len(pairs) == len({color for color, _ in pairs}) == len(np.unique(codes))
    assert axes.get_title(loc="left") == f"level + mark, by t-SNE\n{score}"
    titles = [legend.get_title().get_text() for legend in figure.legends]
    assert titles == ["face: level", "edge: mark"]
    values = [[text.get_text() for text in legend.get_texts()] for legend in figure.legends]
    assert values == [["lowest", "low", "high", "highest"], ["red", "green", "blue"]]
    with pytest.raises(InputError, match=r"unknown label 'levels' of oscillators; did you mean 'level'\?"):
        embedding_figure(points, clips, "levels", "mark", score, "static")


def test_colours_never_run_out() -> None:
    for count in (3, 10, 11, 60):
        colors = _palette(np.arange(count).repeat(2).tolist(), FACE_COLORS, 0.95)
        assert len({tuple(np.ravel(color)) for color in colors.values()}) == count
