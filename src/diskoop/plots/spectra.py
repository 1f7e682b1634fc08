"""eigenvalues of operators in the complex plane, and their distances to 1"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from diskoop.errors import InputError, counted
from diskoop.numerics.spectrum import MIN_DISTANCE, Spectrum, clamped_distance
from diskoop.plots.style import DYNAMIC_COLOR, STATIC_COLOR, TEXT_COLOR

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SpectrumParts = tuple[Spectrum, Tensor, float]  # a spectrum, which of its modes are static (k,), the dynamic radius


def draw_spectrum(axes: "Axes", spectrum: Spectrum, static: Tensor, radius: float) -> None:
    """Draw eigenvalues in the complex plane with the unit circle and the disc that the dynamic ones should stay in.

    Args:
        axes: where to draw.
        spectrum: k eigenvalues.
        static: which of them are static, (k,) boolean.
        radius: of the disc that the spectral loss keeps the dynamic eigenvalues in.
    """
    from matplotlib.patches import Circle

    axes.add_patch(Circle((0, 0), 1, fill=False, color=TEXT_COLOR, linewidth=0.8, alpha=0.5))
    axes.add_patch(Circle((0, 0), radius, color=DYNAMIC_COLOR, alpha=0.08, linewidth=0))
    values = spectrum.eigenvalues.cpu()
    furthest, largest = map(float, spectrum.gap_and_radius(static))
    for mask, color, name in (
        (
            static,
            STATIC_COLOR,
            f"{counted(int(static.sum()), 'static eigenvalue')}, within {furthest:.2g} of 1: what stays",
        ),
        (~static, DYNAMIC_COLOR, f"{counted(int((~static).sum()), 'dynamic one')}, up to {largest:.2g}: what moves"),
    ):
        points = values[mask.cpu()].numpy()
        axes.scatter(points.real, points.imag, s=30, color=color, alpha=0.7, linewidths=0, label=name)
    limit = 1.12 * max(1.0, float(values.abs().max()))
    axes.set(xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal", facecolor="none")
    axes.axhline(0, color=TEXT_COLOR, linewidth=0.4, alpha=0.4)
    axes.axvline(0, color=TEXT_COLOR, linewidth=0.4, alpha=0.4)
    axes.tick_params(labelsize=7)
    axes.set_title("eigenvalues of the operator", fontsize=9, loc="left", color=TEXT_COLOR)
    axes.set_xlabel("real part", fontsize=8)
    axes.set_ylabel("imaginary part", fontsize=8)
    axes.spines[:].set_visible(False)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), fontsize=8, frameon=False)


def draw_gap(axes: "Axes", spectrum: Spectrum, static: Tensor) -> None:
    """Draw the distance of every eigenvalue to 1, nearest first, with the present cut and the largest gap.

    Args:
        axes: where to draw.
        spectrum: k eigenvalues.
        static: which of them are static, (k,) boolean.
    """
    distances, order = clamped_distance(spectrum.eigenvalues.cpu()).sort()
    is_static, rank = static.cpu()[order], torch.arange(1, spectrum.k + 1)
    count, largest = int(static.sum()), spectrum.count_before_largest_gap()
    ratio = "" if largest == spectrum.k else f", {float(distances[largest] / distances[largest - 1]):.2g} times"
    axes.axvline(count + 0.5, color=STATIC_COLOR, linewidth=6, alpha=0.25, label=f"the cut now: {count} static")
    text = f"the largest gap{ratio}: {largest} static"
    axes.axvline(largest + 0.5, color=TEXT_COLOR, linewidth=1, linestyle="--", label=text)
    for mask, color, name in ((is_static, STATIC_COLOR, "static now"), (~is_static, DYNAMIC_COLOR, "dynamic now")):
        points = rank[mask].numpy(), distances[mask].numpy()
        axes.scatter(*points, s=26, color=color, linewidths=0, zorder=3, label=name)
    axes.set_yscale("log")
    axes.set(xlim=(0.3, spectrum.k + 0.7), facecolor="none")
    axes.locator_params(axis="x", integer=True)
    axes.set_title("where static ends", fontsize=9, loc="left", color=TEXT_COLOR)
    axes.set_xlabel("eigenvalues, nearest to 1 first", fontsize=8)
    axes.set_ylabel(f"distance to 1, at least {MIN_DISTANCE:g}", fontsize=8)
    axes.tick_params(labelsize=7, which="both")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)


def spectrum_figure(spectrum: Spectrum, static: Tensor, radius: float) -> "Figure":
    """One spectrum; arguments as in `draw_spectrum`.

    Example:
        >>> spectrum = Spectrum.of(torch.diag(torch.tensor([1.0, 0.5, 0.2])))
        >>> figure = spectrum_figure(spectrum, spectrum.static(1), radius=0.5)
    """
    return spectra_figure({"eigenvalues of the operator": (spectrum, static, radius)})


def spectra_figure(spectra: Mapping[str, SpectrumParts]) -> "Figure":
    """Several spectra side by side at one scale, under their names, as in the paper's ablation."""
    from matplotlib.figure import Figure

    if not spectra:
        raise InputError("expected spectra by name, got none")
    figure = Figure(figsize=(4.2 * len(spectra), 5.2), layout="constrained")
    grid = figure.subplots(1, len(spectra), squeeze=False)
    for axes, (name, parts) in zip(grid.flat, spectra.items(), strict=True):
        draw_spectrum(axes, *parts)
        axes.set_title(name, fontsize=10, loc="left", color=TEXT_COLOR, parse_math=False)
    limit = max(axes.get_xlim()[1] for axes in grid.flat)
    for axes in grid.flat:
        axes.set(xlim=(-limit, limit), ylim=(-limit, limit), anchor="N")  # leaves the space below to the legends
    for axes in grid.flat[1:]:
        axes.set_ylabel("")
    return figure


def gap_figure(spectrum: Spectrum, static: Tensor) -> "Figure":
    """How far each eigenvalue is from 1, which helps to choose `spectrum.static`; arguments as in `draw_gap`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    draw_gap(figure.subplots(), spectrum, static)
    return figure
