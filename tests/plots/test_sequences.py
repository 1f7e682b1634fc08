"""Pictures hold what they should; looking at them is for people."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from diskoop import load_data
from diskoop.data.sequences import PIXELS, Units
from diskoop.errors import InputError
from diskoop.plots.sequences import (
    ForecastRow,
    SeriesLine,
    contact_sheet_figure,
    film_strip,
    forecast_series_figure,
    legend_texts,
    overlay_figure,
    save_animation,
)
from diskoop.plots.style import save_figure


def test_a_film_strip_is_the_frames_side_by_side() -> None:
    video = np.random.Generator(np.random.PCG64(0)).integers(0, 255, (4, 3, 8, 6), dtype=np.uint8)
    strip = film_strip(video, gap=2)
    assert strip.shape == (8, 4 * 6 + 3 * 2, 3)
    for t in range(4):
        assert np.array_equal(strip[:, t * 8 : t * 8 + 6], np.moveaxis(video[t], 0, -1))
    assert np.array_equal(film_strip((video / 255).astype(np.float32), gap=2), strip)
    grey = film_strip(video[:, :1])
    assert np.array_equal(grey[..., 0], grey[..., 2])


def test_contact_sheets_of_video_and_signals(tmp_path: Path) -> None:
    for name, size in (("puppets", 32), ("oscillators", None)):
        sheet = contact_sheet_figure(load_data(name, "test", size=size), [0, 5, 9])
        path = save_figure(sheet, tmp_path / f"{name}.png")
        assert np.asarray(Image.open(path).convert("L")).std() > 10
        titles = [axes.get_title(loc="left") for axes in sheet.axes]
        assert titles[1].replace("\n", " ") == load_data(name, "test", size=size).title(5)


@pytest.mark.parametrize("suffix", [".webp", ".gif"])
def test_an_animation_shows_every_frame_of_every_video(suffix: str, tmp_path: Path) -> None:
    """Videos of one plain colour a frame: the shorter one waits at its last."""
    shades = [[10, 90, 170, 250], [60, 200]]
    rows = [(f"video {i}", np.full((len(s), 3, 8, 8), 0, np.uint8)) for i, s in enumerate(shades)]
    for (_, x), of in zip(rows, shades, strict=True):
        x[:] = np.array(of, np.uint8)[:, None, None, None]
    path = save_animation([rows], tmp_path / f"moving{suffix}", PIXELS, columns=2)
    with Image.open(path) as moving:
        assert getattr(moving, "n_frames", 1) == 4
        for t in range(4):
            moving.seek(t)
            frame = np.asarray(moving.convert("RGB"))
            assert abs(int(frame[90, 60, 0]) - shades[0][t]) < 4
            assert abs(int(frame[90, 196, 0]) - shades[1][min(t, 1)]) < 4
    assert not [file for file in tmp_path.iterdir() if file != path]


def test_an_animation_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"ending in .webp or .gif, got '.*film.avi'"):
        save_animation([[("a", np.zeros((2, 3, 8, 8), np.uint8))]], tmp_path / "film.avi", PIXELS)


def test_each_group_of_an_animation_begins_a_row(tmp_path: Path) -> None:
    """Three videos and two more, two in a row: black, but for a caption of several words above each."""
    black = np.zeros((2, 3, 8, 8), np.uint8)
    groups = [[(f"clip {i} with a long caption of its own", black) for i in range(count)] for count in (3, 2)]
    with Image.open(save_animation(groups, tmp_path / "moving.webp", PIXELS, columns=2)) as moving:
        frame = np.asarray(moving.convert("L"))
    height, width = frame.shape[0] // 3, frame.shape[1] // 2
    middles = [[bool(frame[(r + 1) * height - 40, c * width + width // 2] < 40) for c in (0, 1)] for r in (0, 1, 2)]
    assert middles == [[True, True], [True, False], [True, True]]
    captions = frame[:height, :width][: height - 128 - 6]
    assert (captions < 128).any(1).sum() > 2 * 7  # not cut off after a line


def test_a_legend_names_features_and_their_units() -> None:
    assert legend_texts(Units(), 2) == ["feature 1", "feature 2"]
    assert legend_texts(Units(features=tuple("abcdefghijk")), 11) == [*"abcdefgh", "and 3 more"]
    weather = Units(scale=(9.0, 2.0), offset=(20.0, 1000.0), features=("degrees", "hPa"))
    assert legend_texts(weather, 2) == ["degrees: 20 ± 9", "hPa: 1000 ± 2"]  # drawn in deviations from the mean
    moods = Units((9.0, 0.7, 0.7), (20.0, 0.4, 0.6), features=("degrees", "mood=happy", "mood=sad"))
    assert legend_texts(moods, 3) == ["degrees: 20 ± 9", "mood=happy: 40%", "mood=sad: 60%"]  # shares of the frames


def test_forecasts_of_series_are_drawn_before_the_truth() -> None:
    random = np.random.Generator(np.random.PCG64(0))
    rows = [ForecastRow(f"clip {i}", random.normal(size=(9, 2)), random.normal(size=(6, 2)) + 50 * i) for i in (0, 1)]
    figure = forecast_series_figure(rows, 4, Units(features=("degrees", "hPa")), "Forecasts")
    assert figure.get_suptitle() == "Forecasts"
    assert [band.get_suptitle() for band in figure.subfigs] == ["clip 0", "clip 1"]
    for band, row in zip(figure.subfigs, rows, strict=True):
        for feature, (axes, name) in enumerate(zip(band.axes, ("degrees", "hPa"), strict=True)):
            truth, past, future, mark = (np.asarray(line.get_xydata()) for line in axes.lines)
            assert np.array_equal(truth, np.stack([np.arange(9), row.truth[:, feature]], 1))
            assert np.array_equal(past, np.stack([np.arange(4), row.forecast[:4, feature]], 1))
            assert np.array_equal(future, np.stack([[4, 5], row.forecast[4:, feature]], 1))
            assert mark[:, 0].tolist() == [3.5, 3.5]
            assert axes.get_ylabel() == name
    first, second = (band.axes for band in figure.subfigs)
    assert first[0].get_ylim() == second[0].get_ylim()  # one scale for each feature
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["truth", "as the model draws it", "forecast"]
    many = [ForecastRow("clip", np.zeros((9, 12)), np.zeros((6, 12)))]
    figure = forecast_series_figure(many, 4, Units(), "Forecasts")
    assert figure.get_suptitle() == "Forecasts; the first 8 of 12 features"
    assert len(figure.axes) == 8


def test_series_lie_over_one_another_in_their_own_units() -> None:
    x = np.stack([np.arange(6.0), 1000 + np.arange(6.0), np.zeros(6), np.ones(6), np.ones(6)], 1)
    lines = [SeriesLine("truth", x, {"color": "black"}), SeriesLine("forecast", x[4:] + 1, {"color": "red"}, first=4)]
    figure = overlay_figure(lines, Units(features=("temp", "<pressure>", "c", "d", "e")), mark=3.5)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["temp", "<pressure>", "c", "d", "e"]
    truth, forecast, mark = figure.axes[1].get_lines()
    assert np.array_equal(np.asarray(truth.get_ydata()), x[:, 1])
    assert np.array_equal(np.asarray(forecast.get_xydata()), [(4, 1005), (5, 1006)])
    assert np.asarray(mark.get_xdata()).tolist() == [3.5, 3.5]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["truth", "forecast"]
