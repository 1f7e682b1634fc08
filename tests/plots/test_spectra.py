"""Spectra show every eigenvalue where it is."""

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from diskoop.data.sets.oscillators import truth
from diskoop.errors import InputError
from diskoop.numerics import Spectrum
from diskoop.plots.spectra import gap_figure, spectra_figure, spectrum_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OSCILLATORS = torch.from_numpy(truth("oscillators").operator)


def titles(figure: "Figure") -> list[str]:
    return [axes.get_title(loc="left") for axes in figure.axes]


def test_the_spectrum_marks_every_eigenvalue(operator: torch.Tensor) -> None:
    spectrum = Spectrum.of(operator)
    figure = spectrum_figure(spectrum, spectrum.static(2), 0.5)
    assert titles(figure) == ["eigenvalues of the operator"]
    (axes,) = figure.axes
    drawn = np.concatenate([np.asarray(points.get_offsets()) for points in axes.collections])
    expected = np.stack([spectrum.eigenvalues.real.numpy(), spectrum.eigenvalues.imag.numpy()], 1)
    assert np.allclose(np.sort(drawn, axis=0), np.sort(expected, axis=0))
    assert [circle.get_radius() for circle in axes.patches] == [1, 0.5]  # type: ignore[attr-defined]
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        "2 static eigenvalues, within 0.1 of 1: what stays",
        "5 dynamic ones, up to 0.78: what moves",
    ]


def test_spectra_are_drawn_at_one_scale() -> None:
    narrow, wide = Spectrum.of(OSCILLATORS), Spectrum.of(2 * OSCILLATORS)
    figure = spectra_figure({"narrow": (narrow, narrow.static(3), 0.9), "wide": (wide, wide.static(3), 0.9)})
    assert titles(figure) == ["narrow", "wide"]
    for axes, scale in zip(figure.axes, (1, 2), strict=True):
        static, dynamic = (np.asarray(dots.get_offsets()) for dots in axes.collections)
        assert (len(static), len(dynamic)) == (3, 5)
        both = np.concatenate([static, dynamic])
        values = scale * torch.linalg.eigvals(OSCILLATORS)
        assert np.allclose(np.sort(both @ [1, 1j]), np.sort(values.numpy()), atol=1e-8)
    assert figure.axes[0].get_xlim() == figure.axes[1].get_xlim()
    FigureCanvasAgg(figure).draw()  # type: ignore[no-untyped-call]
    legends = [axes.get_legend() for axes in figure.axes]
    assert all(legend is not None and legend.get_window_extent().y0 > 0 for legend in legends)
    with pytest.raises(InputError, match="expected spectra by name, got none"):
        spectra_figure({})


def test_the_gap_figure_marks_the_cut_and_the_gap() -> None:
    spectrum = Spectrum.of(OSCILLATORS)
    (axes,) = gap_figure(spectrum, spectrum.static(4)).axes
    static, dynamic = (np.asarray(dots.get_offsets()) for dots in axes.collections)
    assert static[:, 0].tolist() == [1, 2, 3, 4]
    assert np.allclose(static[:, 1], [1e-3, 1e-3, 1e-3, 0.4], atol=1e-9)
    assert dynamic[:, 0].tolist() == [5, 6, 7, 8]
    assert np.allclose(dynamic[:2, 1], abs(0.95 * np.exp(0.5j) - 1), atol=1e-8)
    assert [np.asarray(line.get_xdata())[0] for line in axes.lines] == [4.5, 3.5]
    legend = axes.get_legend()
    assert legend is not None
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts[:2] == ["the cut now: 4 static", "the largest gap, 4e+02 times: 3 static"]
    assert axes.get_yscale() == "log"
