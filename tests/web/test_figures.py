"""Figures of a page show the sequences they are given, and not too much of them."""

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from diskoop.data.sequences import PIXELS, Units
from diskoop.plots.sequences import SeriesLine, overlay_figure
from diskoop.web import figures
from diskoop.web.figures import MAX_FRAMES, STRIP_FRAMES, Picture, forecast_figure, row_figure

SOUND = Units(rate=16_000)


def pictures_in(html: str) -> list[Image.Image]:
    encoded = re.findall(r'src="data:image/\w+;base64,([^"]+)"', html)
    return [Image.open(io.BytesIO(base64.b64decode(each))) for each in encoded]


@pytest.mark.parametrize(("side", "exact"), [(16, True), (128, False)])
def test_a_video_is_shown_in_its_own_pixels_and_cut(side: int, exact: bool) -> None:
    film = np.repeat(np.arange(40, dtype=np.uint8)[:, None, None, None] * 6, side * side * 3, 1)
    film = film.reshape(40, 3, side, side)
    moving, still = pictures_in(row_figure([Picture(film, PIXELS, "original", "receiver")]))
    assert (getattr(moving, "n_frames", 1), moving.size) == (MAX_FRAMES["video"], (side, side))
    assert still.size == (STRIP_FRAMES * side, side)
    shades = np.asarray(still.convert("L"))[0, side // 2 :: side].astype(int)
    wanted = 6 * np.linspace(0, MAX_FRAMES["video"] - 1, STRIP_FRAMES).astype(int)
    assert np.abs(shades - wanted).max() <= (0 if exact else 3)


def test_series_are_drawn_each_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[SeriesLine] = []

    def spy(lines: list[SeriesLine], units: Units, mark: float | None = None) -> object:
        drawn.extend(lines)
        return overlay_figure(lines, units, mark)

    monkeypatch.setattr(figures, "overlay_figure", spy)
    x = np.arange(12.0).reshape(6, 2)
    roles: list[figures.Role] = ["original", "reconstruction", "donor", "donor drawn", "edit"]
    row_figure([Picture(x + number, Units(), role, role) for number, role in enumerate(roles)])
    assert [(line.label, line.x[0, 0]) for line in drawn] == [
        ("original", 0), ("reconstruction", 1), ("donor", 2), ("edit", 4),
    ]  # fmt: skip
    drawn.clear()
    forecast_figure(Picture(x, Units(), "original", "original", "a clip"), x + 1, observed=4)
    assert [(line.label, line.first, len(line.x)) for line in drawn] == [
        ("original", 0, 6), ("as the model draws it", 0, 4), ("forecast", 4, 2),
    ]  # fmt: skip


def test_sound_has_a_player_where_it_is_asked_for() -> None:
    logs = np.random.Generator(np.random.PCG64(0)).normal(size=(20, 201)).astype(np.float32)
    silent, heard = (row_figure([Picture(logs, SOUND, "edit", "a", has_player=has)]) for has in (False, True))
    assert ("<audio" in silent, "<audio" in heard) == (False, True)
    (picture,) = pictures_in(heard)
    assert picture.size == (20, 201)
    marked = forecast_figure(Picture(logs, SOUND, "original", "original", "a.wav"), logs, observed=5)
    assert marked.count('style="left: 25.00%"') == marked.count("<audio") == 2
