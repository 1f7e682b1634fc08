"""Pictures hold what they should; looking at them is for people."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image

from diskoop import load_data
from diskoop.numerics import Spectrum
from diskoop.pictures import contact_sheet, film_strip, save_figure, swap_figure


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
        sheet = contact_sheet(load_data(name, "test", size=size), [0, 5, 9])
        path = save_figure(sheet, tmp_path / f"{name}.png")
        assert np.asarray(Image.open(path).convert("L")).std() > 10
        titles = [axes.get_title(loc="left") for axes in sheet.axes]
        assert titles[1] == load_data(name, "test", size=size).label_text(5)


def test_the_spectrum_marks_every_eigenvalue(tmp_path: Path, operator: torch.Tensor) -> None:
    spectrum = Spectrum.of(operator)
    video = np.zeros((3, 3, 8, 8), dtype=np.uint8)
    figure = swap_figure(spectrum, spectrum.static(2), 0.5, [[("one", video), ("two", video)]], "title")
    drawn = np.concatenate([np.asarray(points.get_offsets()) for points in figure.axes[0].collections])
    expected = np.stack([spectrum.eigenvalues.real.numpy(), spectrum.eigenvalues.imag.numpy()], 1)
    assert np.allclose(np.sort(drawn, axis=0), np.sort(expected, axis=0))
    legend = figure.axes[0].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        "2 static eigenvalues, within 0.1 of 1: what stays",
        "5 dynamic ones, up to 0.78: what moves",
    ]
