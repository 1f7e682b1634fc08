"""Pictures hold what they should; looking at them is for people."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from diskoop import load_data
from diskoop.data.sequences import PIXELS, Units
from diskoop.errors import InputError
from diskoop.plots.sequences import contact_sheet_figure, film_strip, rows_figure, save_animation
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
        assert titles[1] == load_data(name, "test", size=size).label_text(5)


@pytest.mark.parametrize("suffix", [".webp", ".gif"])
def test_an_animation_shows_every_frame_of_every_video(suffix: str, tmp_path: Path) -> None:
    """Videos of one plain colour a frame: the shorter one waits at its last."""
    shades = [[10, 90, 170, 250], [60, 200]]
    rows = [(f"video {i}", np.full((len(s), 3, 8, 8), 0, np.uint8)) for i, s in enumerate(shades)]
    for (_, x), of in zip(rows, shades, strict=True):
        x[:] = np.array(of, np.uint8)[:, None, None, None]
    path = save_animation(rows, tmp_path / f"moving{suffix}", PIXELS, columns=2)
    with Image.open(path) as moving:
        assert getattr(moving, "n_frames", 1) == 4
        for t in range(4):
            moving.seek(t)
            frame = np.asarray(moving.convert("RGB"))
            assert abs(int(frame[70, 50, 0]) - shades[0][t]) < 4
            assert abs(int(frame[70, 154, 0]) - shades[1][min(t, 1)]) < 4
    assert not [file for file in tmp_path.iterdir() if file != path]


def test_an_animation_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"ending in .webp or .gif, got '.*film.avi'"):
        save_animation([("a", np.zeros((2, 3, 8, 8), np.uint8))], tmp_path / "film.avi", PIXELS)


def test_rows_are_drawn_as_what_they_are() -> None:
    video = rows_figure(
        [("a clip", np.zeros((4, 3, 8, 8), np.uint8)), ("another", np.zeros((3, 3, 8, 8), np.uint8))], PIXELS
    )
    assert [axes.get_title(loc="left") for axes in video.axes] == ["a clip", "another"]
    assert all(len(axes.images) == 1 for axes in video.axes)
    lines = rows_figure([("lines", np.zeros((9, 3)))] * 3, Units(features=("a", "b", "c")), columns=2)
    assert [len(axes.lines) for axes in lines.axes] == [3, 3, 3, 0]
    film = np.zeros((40, 3, 8, 8), np.uint8)
    uneven = rows_figure([("long", film), ("short", film[:20])], PIXELS)
    widths = [axes.images[0].get_array().shape[1] for axes in uneven.axes]  # type: ignore[union-attr]
    assert widths == [14 * 9 - 1, 7 * 9 - 1]  # every third frame of both
    assert len({axes.get_xlim() for axes in uneven.axes}) == 1  # so that they stand one above the other
    loud = rows_figure([("loud", np.full((9, 201), 3.0)), ("soft", np.zeros((5, 201)))], Units(rate=16000))
    assert {axes.images[0].get_clim() for axes in loud.axes} == {(0.0, 3.0)}
    mixed = Units(scale=(1.0, 2.0), offset=(20.0, 1000.0), features=("degrees", "hectopascals"))
    scaled = rows_figure([("weather", np.array([[20.0, 1000.0], [21.0, 1004.0]]))], mixed)
    assert [line.get_ydata().tolist() for line in scaled.axes[0].lines] == [[0, 1], [0, 2]]  # type: ignore[union-attr]
    assert scaled.axes[0].get_ylabel() == "scaled"
    sound = rows_figure([("tone", np.zeros((11, 201)))], Units(rate=16000))
    assert tuple(sound.axes[0].images[0].get_extent()) == (0.0, 0.1, 0.0, 8.0)
