"""arrays -> film strips, spectrograms, contact sheets, spectra"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from diskoop.data.sequences import Sequences
from diskoop.data.sound import HOP
from diskoop.errors import InputError
from diskoop.numerics.spectrum import Spectrum
from diskoop.storage import whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PICTURE_FILES = (".png", ".jpg", ".webp", ".svg", ".pdf")
FRAMES_SHOWN = 16  # of a longer clip, evenly spread
INK, PAPER, STATIC, DYNAMIC = "#22223b", "#fbfaf7", "#2563eb", "#e11d48"


def save_figure(figure: "Figure", path: str | Path) -> Path:
    path = Path(path)
    if path.suffix not in PICTURE_FILES:
        raise InputError(f"expected a picture's name ending in {', '.join(PICTURE_FILES)}, got {str(path)!r}")
    with whole_file(path) as temporary:
        figure.savefig(temporary, dpi=150, facecolor=PAPER, format=path.suffix.removeprefix("."))
    return path


def film_strip(video: NDArray[Any], gap: int = 1) -> NDArray[np.uint8]:
    """Frames (time, channel, height, width), uint8 or from 0 to 1, side by side: (height, width of all, 3) uint8."""
    frames = np.moveaxis(video, 1, -1)  # (time, height, width, channel)
    frames = frames if frames.dtype == np.uint8 else (frames * 255).round().astype(np.uint8)
    frames = np.repeat(frames, 3, axis=-1) if frames.shape[-1] == 1 else frames
    padded = np.pad(frames, ((0, 0), (0, 0), (0, gap), (0, 0)), constant_values=255)
    strip: NDArray[np.uint8] = np.concatenate(list(padded), axis=1)[:, :-gap]
    return strip


def draw_strip(axes: "Axes", video: NDArray[Any], title: str = "", color: str = INK) -> None:
    axes.imshow(film_strip(video), interpolation="nearest")
    axes.set_axis_off()
    if title:
        axes.set_title(title, fontsize=8, loc="left", color=color, pad=3, parse_math=False)


def draw_series(axes: "Axes", series: NDArray[Any], title: str = "", features: Sequence[str] = ()) -> None:
    """(time, feature) as lines, with the features' names if they are few."""
    lines = axes.plot(series, linewidth=1)
    if 0 < len(features) <= 8:
        axes.legend(lines, features, fontsize=5, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    axes.set_title(title, fontsize=8, loc="left", color=INK, pad=3, parse_math=False)
    axes.tick_params(labelsize=6)
    axes.spines[["top", "right"]].set_visible(False)


def draw_spectrogram(axes: "Axes", logs: NDArray[Any], rate: int, seconds: float, title: str = "") -> None:
    """A log spectrogram (time, bin) that lasts `seconds`: time across, frequency up."""
    extent = (0.0, seconds, 0.0, rate / 2000)
    axes.imshow(logs.T, origin="lower", aspect="auto", cmap="magma", extent=extent, interpolation="nearest")
    axes.set_title(title, fontsize=8, loc="left", color=INK, pad=3, parse_math=False)
    axes.tick_params(labelsize=6)
    axes.set_xlabel("s", fontsize=6, labelpad=0)
    axes.set_ylabel("kHz", fontsize=6, labelpad=0)


def draw_spectrum(axes: "Axes", spectrum: Spectrum, static: Tensor, radius: float) -> None:
    """Eigenvalues in the complex plane: the unit circle, the ball the dynamics should keep to, who is what."""
    from matplotlib.patches import Circle

    axes.add_patch(Circle((0, 0), 1, fill=False, color=INK, linewidth=0.8, alpha=0.5))
    axes.add_patch(Circle((0, 0), radius, color=DYNAMIC, alpha=0.08, linewidth=0))
    values = spectrum.eigenvalues.cpu()
    furthest, largest = map(float, spectrum.extent(static))
    for chosen, color, name in (
        (static, STATIC, f"{int(static.sum())} static eigenvalues, within {furthest:.2g} of 1: what stays"),
        (~static, DYNAMIC, f"{int((~static).sum())} dynamic ones, up to {largest:.2g}: what moves"),
    ):
        points = values[chosen.cpu()].numpy()
        axes.scatter(points.real, points.imag, s=30, color=color, alpha=0.7, linewidths=0, label=name)
    reach = 1.12 * max(1.0, float(values.abs().max()))
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", facecolor="none")
    axes.axhline(0, color=INK, linewidth=0.4, alpha=0.4)
    axes.axvline(0, color=INK, linewidth=0.4, alpha=0.4)
    axes.tick_params(labelsize=7)
    axes.set_title("eigenvalues of the operator", fontsize=9, loc="left", color=INK)
    axes.set_xlabel("real part", fontsize=8)
    axes.set_ylabel("imaginary part", fontsize=8)
    axes.spines[:].set_visible(False)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), fontsize=8, frameon=False)


def contact_sheet(sequences: Sequences, indices: Sequence[int], columns: int = 2) -> "Figure":
    """Some sequences of a set with their labels."""
    from matplotlib.figure import Figure

    rows = -(-len(indices) // columns)
    height = 0.25 + 6.4 / min(sequences.shape[1], FRAMES_SHOWN) if sequences.is_video else 1.8
    figure = Figure(figsize=(6.4 * columns, height * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for axes, index in zip(grid.flat, indices, strict=False):
        axes.set_axis_on()
        draw_sequence(axes, sequences, index)
    return figure


def draw_sequence(axes: "Axes", sequences: Sequences, index: int) -> None:
    """A sequence as what it is: a film strip, a spectrogram or lines."""
    (x,), units = sequences.take([index]), sequences.units
    title = sequences.label_text(index) or sequences.clip_name(index)
    if sequences.is_video:
        x = x[np.linspace(0, len(x) - 1, min(len(x), FRAMES_SHOWN)).astype(np.int64)]
        draw_strip(axes, units.to_model(torch.from_numpy(x)).numpy() if x.dtype == np.uint16 else x, title)
    elif units.rate is not None:
        draw_spectrogram(axes, x, units.rate, (len(x) - 1) * HOP / units.rate, title)
    else:
        draw_series(axes, x, title, units.features)


def swap_figure(
    spectrum: Spectrum,
    static: Tensor,
    radius: float,
    pairs: Sequence[Sequence[tuple[str, NDArray[Any]]]],
    title: str,
) -> "Figure":
    """A spectrum beside film strips; each pair is a list of (caption, video): A, B, and A with B's parts."""
    from matplotlib.figure import Figure

    heights = [1.0] * len(pairs[0])
    for pair in pairs[1:]:
        heights += [0.12] + [1.0] * len(pair)  # a gap between pairs
    figure = Figure(figsize=(12.5, 0.7 + 0.98 * sum(heights)), layout="constrained")
    figure.suptitle(title, fontsize=13, color=INK, x=0.01, ha="left")
    cells = figure.add_gridspec(len(heights), 2, width_ratios=[1, 1.75], height_ratios=heights)
    draw_spectrum(figure.add_subplot(cells[:, 0]), spectrum, static, radius)
    row = 0
    for pair in pairs:
        for (caption, video), color in zip(pair, [INK, INK, STATIC, DYNAMIC], strict=False):
            draw_strip(figure.add_subplot(cells[row, 1]), video, caption, color)
            row += 1
        row += 1
    return figure
