"""Sheets are drawn in full: every cell, caption and heading, nothing cut off or overlapping."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from numpy.typing import NDArray

from diskoop.analysis.sheets import (
    Cell,
    Sheet,
    all_combinations,
    factor_sheet,
    factorial_swap,
    generation,
    incremental_swap,
    two_factor_swaps,
)
from diskoop.data.sequences import PIXELS, Units
from diskoop.numerics import Spectrum
from diskoop.plots.sequences import film_strip
from diskoop.plots.sheets import sheet_figure, spectrum_sheet_figure
from diskoop.plots.style import DYNAMIC_COLOR, STATIC_COLOR, TEXT_COLOR
from tests.helpers.decompositions import oscillators_as

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Kind = Literal["series", "video", "spectrogram"]


def drawn(axes: "Axes") -> NDArray[Any]:
    """What an axes shows: lines (time, feature), a spectrogram (time, bin), or the pixels of a strip."""
    if axes.lines:
        return np.stack([np.asarray(line.get_ydata()) for line in axes.lines], 1)
    (image,) = axes.images
    shown = np.asarray(image.get_array())
    return shown if shown.ndim == 3 else shown.T


def captions(figure: "Figure") -> list[str]:
    return [axes.get_title(loc="left").replace("\n", " ") for axes in figure.axes]


def headings(figure: "Figure") -> list[str]:
    return [text.get_text().replace("\n", " ") for text in figure.texts[1:]]  # the first is the title


@pytest.mark.parametrize("kind", get_args(Kind))
def test_every_cell_caption_and_heading_is_drawn(kind: Kind) -> None:
    parts = oscillators_as(kind)
    spread = np.linspace(0, 23, 16).astype(int)  # of a long video
    for sheet in (
        two_factor_swaps(parts, [(0, 1), (5, 2)]),
        factorial_swap(parts, 0, 1, [["level", "mark"], ["mark", "level", "slow"]]),
        all_combinations(parts, 0, 1, ["level", "mark"]),
        incremental_swap(parts, [(0, 1), (2, 3)], "dynamic", (1, None)),
        generation(parts, "static", torch.Generator().manual_seed(1), count=3),
        factor_sheet(parts, ["level", "fast"], 4, [7, 9], {"fast": "a quick turn"}),
    ):
        figure = sheet_figure(sheet)
        assert figure.get_suptitle() == sheet.title
        for axes, cell in zip(figure.axes, sheet.cells, strict=True):
            x = cell.x
            if kind == "video":
                x = film_strip(x[spread] if len(x) == 24 else x)
            assert np.array_equal(drawn(axes), x)
        assert captions(figure) == [cell.caption for cell in sheet.cells]
        texts = [*sheet.column_headings, *filter(None, sheet.row_headings)]
        texts += [sheet.remark] if sheet.remark else []
        assert headings(figure) == [text.replace("\n", " ") for text in texts]


def test_captions_have_the_colour_of_the_swapped_part() -> None:
    figure = sheet_figure(two_factor_swaps(oscillators_as("series"), [(0, 1)]))
    colors = [axes._left_title.get_color() for axes in figure.axes]  # type: ignore[attr-defined]
    assert colors == [*[TEXT_COLOR] * 4, STATIC_COLOR, DYNAMIC_COLOR]


def test_a_line_marks_where_a_forecast_begins() -> None:
    video = Cell(np.zeros((40, 3, 8, 8), np.uint8), forecast_from=20)
    (axes,) = sheet_figure(Sheet([[video]], PIXELS)).axes
    shown = np.linspace(0, 39, 16).astype(int)
    assert axes.lines[0].get_xdata()[0] == 9 * int((shown < 20).sum()) - 1  # type: ignore[index]
    (axes,) = sheet_figure(Sheet([[Cell(np.zeros((40, 201)), forecast_from=20)]], Units(rate=16_000))).axes
    assert axes.lines[0].get_xdata()[0] == pytest.approx(0.2)  # type: ignore[index]
    (axes,) = sheet_figure(Sheet([[Cell(np.zeros((40, 2)), forecast_from=20)]], Units())).axes
    assert axes.lines[-1].get_xdata()[0] == 20  # type: ignore[index]


def test_videos_of_unequal_length_show_the_same_frames() -> None:
    film = np.zeros((40, 3, 8, 8), np.uint8)
    film[:] = np.arange(40, dtype=np.uint8)[:, None, None, None]
    long, short = (drawn(axes) for axes in sheet_figure(Sheet([[Cell(film)], [Cell(film[:20])]], PIXELS)).axes)
    assert len(long[0]) == 16 * 9 - 1
    assert np.array_equal(short, long[:, : short.shape[1]])


def test_features_of_different_scales_are_drawn_in_deviations() -> None:
    units = Units(scale=(1.0, 2.0), offset=(20.0, 1000.0), features=("degrees", "hPa"))
    (axes,) = sheet_figure(Sheet([[Cell(np.array([[20.0, 1000.0], [21.0, 1004.0]]))]], units)).axes
    assert [np.asarray(line.get_ydata()).tolist() for line in axes.lines[:2]] == [[0, 1], [0, 2]]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("frame", "standard deviations")


def test_signals_share_their_scales() -> None:
    plots = sheet_figure(two_factor_swaps(oscillators_as("series"), [(0, 1)])).axes
    assert len({axes.get_ylim() for axes in plots}) == 1
    low, high = plots[0].get_ylim()
    assert all((low < drawn(axes)).all() and (drawn(axes) < high).all() for axes in plots)
    maps = sheet_figure(two_factor_swaps(oscillators_as("spectrogram"), [(0, 1)])).axes
    data = np.stack([drawn(axes) for axes in maps])
    assert {axes.images[0].get_clim() for axes in maps} == {(data.min(), data.max())}
    # Numbers are written at the left and at the bottom only.
    assert [axes.get_ylabel() for axes in maps] == ["kHz", "", "kHz", "", "kHz", ""]
    assert [axes.get_xlabel() for axes in maps] == ["", "", "", "", "s", "s"]


def test_features_are_named_once() -> None:
    sheet = factorial_swap(oscillators_as("series"), 0, 1, [["level"], ["level", "mark"]])
    names = tuple(f"sensor {i}" for i in range(8))
    figure = sheet_figure(replace(sheet, units=replace(sheet.units, features=names)))
    legends = [axes.get_legend() is not None for axes in figure.axes]
    assert legends == [False] * 10 + [True]  # beside the one that has nothing to its right


def test_unequal_lengths_are_drawn_without_padding() -> None:
    lengths = torch.full((40,), 24)
    lengths[1] = 10
    parts = replace(oscillators_as("series"), mask=torch.arange(24) < lengths[:, None])
    figure = sheet_figure(two_factor_swaps(parts, [(0, 1)]))
    assert [len(drawn(axes)) for axes in figure.axes] == [24, 24, 24, 10, 10, 10]  # the originals have no mask here
    assert len({axes.get_xlim() for axes in figure.axes}) == 1


@pytest.mark.parametrize("kind", get_args(Kind))
def test_nothing_is_cut_off_or_written_over(kind: Kind) -> None:
    parts = oscillators_as(kind)
    long = "a name that is much longer than any column is wide and therefore has to be broken into several lines"
    parts = replace(parts, factors={**parts.factors, long: parts.factors["level"]})
    for sheet in (
        two_factor_swaps(parts, [(0, 1), (2, 3)]),
        factorial_swap(parts, 0, 1, [[long, "mark"]]),
        incremental_swap(parts, [(0, 1), (2, 3)], "static", (1, None)),
        factor_sheet(parts, ["level", "mark"], 0, [1, 2], {"level": long}),
        replace(generation(parts, "static", torch.Generator().manual_seed(1), count=3), remark=f"{long}, {long}"),
    ):
        figure = sheet_figure(sheet)
        canvas = FigureCanvasAgg(figure)
        canvas.draw()  # type: ignore[no-untyped-call]
        renderer = canvas.get_renderer()  # type: ignore[no-untyped-call]
        titles = [axes.title if axes.title.get_text() else axes._left_title for axes in figure.axes]  # type: ignore[attr-defined]
        texts = [*figure.texts, *(title for title in titles if title.get_text())]
        boxes = [text.get_window_extent(renderer) for text in texts]
        page = figure.bbox
        row_headings = [
            box for text, box in zip(texts, boxes, strict=True) if text.get_horizontalalignment() == "right"
        ]
        assert all(box.width < 2 * figure.dpi for box in row_headings)
        assert all(page.x0 <= b.x0 and b.x1 <= page.x1 and page.y0 <= b.y0 and b.y1 <= page.y1 for b in boxes)
        assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
        assert not any(box.overlaps(axes.get_window_extent(renderer)) for box in boxes for axes in figure.axes)


def test_a_sheet_is_drawn_next_to_a_spectrum(operator: torch.Tensor) -> None:
    spectrum = Spectrum.of(operator)
    videos = [np.full((3, 3, 8, 8), shade, np.uint8) for shade in (10, 90)]
    rows = [[Cell(videos[0], "one")], [], [Cell(videos[1], "two", "dynamic")]]
    figure = spectrum_sheet_figure(Sheet(rows, PIXELS, "title"), spectrum, spectrum.static(2), 0.5)
    left, *strips = figure.axes
    assert sum(len(np.asarray(points.get_offsets())) for points in left.collections) == 7
    assert all(np.array_equal(drawn(axes), film_strip(x)) for axes, x in zip(strips, videos, strict=True))
    assert captions(figure)[1:] == ["one", "two"]
    assert strips[1]._left_title.get_color() == DYNAMIC_COLOR  # type: ignore[attr-defined]
    assert figure.get_suptitle() == "title"


@pytest.mark.parametrize("frames", [41, 42, 101, 26])  # 0.4 s and a little more, 1 s, 0.25 s
def test_numbers_below_neighbouring_spectrograms_do_not_overlap(frames: int) -> None:
    sound = Cell(np.random.Generator(np.random.PCG64(0)).normal(size=(frames, 201)), "a number at the end")
    figure = sheet_figure(Sheet([[sound] * 7] * 2, Units(rate=16_000)))
    FigureCanvasAgg(figure).draw()  # type: ignore[no-untyped-call]
    labels = [
        label.get_window_extent()
        for axes in figure.axes
        for label in axes.get_xticklabels()
        if label.get_visible() and axes.get_xlim()[0] <= label.get_position()[0] <= axes.get_xlim()[1] + 1e-9
    ]
    assert len(labels) > 14
    assert not any(a.overlaps(b) for number, a in enumerate(labels) for b in labels[:number])
