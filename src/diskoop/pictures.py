"""arrays -> film strips, animations, spectrograms, plots, spectra"""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from diskoop.data.sequences import Sequences, Units
from diskoop.data.sound import HOP
from diskoop.errors import InputError
from diskoop.numerics.spectrum import NEAR, Spectrum, from_one
from diskoop.storage import atomic_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PICTURE_FILES = (".png", ".jpg", ".webp", ".svg", ".pdf")
MOVING_FILES = (".webp", ".gif")
TILE = 96  # pixels that a moving picture takes at least, each way
APART = 5  # deviations that differ this many times, or means this many deviations apart, are drawn scaled
FEATURES_NAMED = 8  # beside lines; more would not be read
FRAMES_SHOWN = 16  # of a longer clip, evenly spread
INK, PAPER, STATIC, DYNAMIC = "#22223b", "#fbfaf7", "#2563eb", "#e11d48"


def save_figure(figure: "Figure", path: str | Path) -> Path:
    path = Path(path)
    if path.suffix not in PICTURE_FILES:
        raise InputError(f"expected a picture's name ending in {', '.join(PICTURE_FILES)}, got {str(path)!r}")
    with atomic_write(path) as temporary:
        figure.savefig(temporary, dpi=150, facecolor=PAPER, format=path.suffix.removeprefix("."))
    return path


def figure_bytes(figure: "Figure") -> bytes:
    """A figure as PNG, for notebooks."""
    stream = io.BytesIO()
    figure.savefig(stream, dpi=110, facecolor=PAPER, format="png")
    return stream.getvalue()


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


def draw_series(
    axes: "Axes", series: NDArray[Any], title: str = "", features: Sequence[str] = (), color: str = INK
) -> None:
    """(time, feature) as lines, with the features' names if they are few."""
    lines = axes.plot(series, linewidth=1)
    if 0 < len(features) <= FEATURES_NAMED:
        axes.legend(lines, features, fontsize=5, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    axes.set_title(title, fontsize=8, loc="left", color=color, pad=3, parse_math=False)
    axes.tick_params(labelsize=6)
    axes.spines[["top", "right"]].set_visible(False)


def draw_spectrogram(
    axes: "Axes", logs: NDArray[Any], rate: int, seconds: float, title: str = "", color: str = INK
) -> None:
    """A log spectrogram (time, bin) that lasts `seconds`: time across, frequency up."""
    extent = (0.0, seconds, 0.0, rate / 2000)
    axes.imshow(logs.T, origin="lower", aspect="auto", cmap="magma", extent=extent, interpolation="nearest")
    axes.set_title(title, fontsize=8, loc="left", color=color, pad=3, parse_math=False)
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
        (x,) = sequences.take([index])
        draw_sequence(axes, x, sequences.units, sequences.title(index))
    return figure


def draw_sequence(axes: "Axes", x: NDArray[Any], units: Units, title: str = "", color: str = INK) -> None:
    """A sequence (time, ...) as what it is: a film strip, a spectrogram or lines."""
    if x.ndim == 4:
        x = x[np.linspace(0, len(x) - 1, min(len(x), FRAMES_SHOWN)).astype(np.int64)]
        draw_strip(axes, _pixels(x, units), title, color)
    elif units.rate is not None:
        draw_spectrogram(axes, x, units.rate, (len(x) - 1) * HOP / units.rate, title, color)
    else:
        if _far_apart(units):
            x = units.to_model(torch.from_numpy(x.astype(np.float64))).numpy()
            axes.set_ylabel("scaled", fontsize=6, labelpad=0)
        draw_series(axes, x, title, units.features, color)


def _far_apart(units: Units) -> bool:
    """Whether one axis for all features would show none of them: degrees beside hectopascals."""
    scales, offsets = np.atleast_1d(units.scale), np.atleast_1d(units.offset)
    return bool(scales.max() > APART * scales.min() or np.ptp(offsets) > APART * scales.max())


Row = tuple[str, NDArray[Any]]  # a caption and a sequence (time, ...)


def rows_figure(rows: Sequence[Row], units: Units, title: str = "", columns: int = 1) -> "Figure":
    """Sequences under their captions, row by row, each drawn as what it is."""
    from matplotlib.figure import Figure

    lines = -(-len(rows) // columns)
    longest = max(len(x) for _, x in rows)
    video = rows[0][1].ndim == 4
    height = 0.25 + 7.0 / min(longest, FRAMES_SHOWN) * rows[0][1].shape[-2] / rows[0][1].shape[-1] if video else 1.7
    figure = Figure(figsize=(7.0 * columns, height * lines + (0.4 if title else 0.05)), layout="constrained")
    if title:
        figure.suptitle(title, fontsize=11, color=INK, x=0.01, ha="left", parse_math=False)
    grid = figure.subplots(lines, columns, squeeze=False, sharey=not video)
    for axes in grid.flat[len(rows) :]:
        axes.set_axis_off()
    step = max(1, -(-longest // FRAMES_SHOWN)) if video else 1  # the same frames of every row, one above the other
    for axes, (caption, x) in zip(grid.flat, rows, strict=False):
        draw_sequence(axes, x[::step], units, caption)
    drawn = list(grid.flat[: len(rows)])
    right = max(axes.get_xlim()[1] for axes in drawn)
    for axes in drawn:
        axes.set_xlim(right=right)  # one scale of time
        axes.set_anchor("W")
    if units.rate is not None and not video:
        low, high = min(float(x.min()) for _, x in rows), max(float(x.max()) for _, x in rows)
        for axes in drawn:
            axes.images[0].set_clim(low, high)  # one scale of loudness
    return figure


def save_animation(
    rows: Sequence[Row], path: str | Path, units: Units, columns: int = 4, milliseconds: int = 150
) -> Path:
    """Videos side by side under their captions, moving, as WebP or GIF; shorter ones wait at their last frame."""
    from PIL import Image, ImageDraw

    path = Path(path)
    if path.suffix not in MOVING_FILES:
        raise InputError(f"expected an animation's name ending in {' or '.join(MOVING_FILES)}, got {str(path)!r}")
    columns, longest = min(columns, len(rows)), max(len(x) for _, x in rows)
    tall, wide = rows[0][1].shape[-2:]
    scale = max(1, -(-TILE // max(tall, wide)))
    cell, margin = (wide * scale + 8, tall * scale + 26), (4, 20)
    frames = []
    for t in range(longest):
        sheet = Image.new("RGB", (cell[0] * columns, cell[1] * -(-len(rows) // columns)), PAPER)
        pen = ImageDraw.Draw(sheet)
        for number, (caption, x) in enumerate(rows):
            corner = (number % columns * cell[0] + margin[0], number // columns * cell[1] + margin[1])
            picture = Image.fromarray(film_strip(_pixels(x[min(t, len(x) - 1)][None], units)))
            sheet.paste(picture.resize((wide * scale, tall * scale), Image.Resampling.NEAREST), corner)
            pen.text((corner[0], corner[1] - 15), _shortened(pen, caption, wide * scale), fill=INK)
        frames.append(sheet)
    with atomic_write(path) as temporary:
        frames[0].save(temporary, save_all=True, append_images=frames[1:], duration=milliseconds, loop=0, lossless=True)
    return path


def _shortened(pen: Any, text: str, width: float) -> str:
    """As much of a caption as fits."""
    while text and pen.textlength(text) > width:
        text = text[:-2].rstrip() + "…" if len(text) > 2 else ""
    return text


def _pixels(x: NDArray[Any], units: Units) -> NDArray[Any]:
    """Video as `film_strip` takes it: bytes, or from 0 to 1."""
    return x if x.dtype == np.uint8 else units.to_model(torch.from_numpy(x)).numpy().clip(0, 1)


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


def draw_gap(axes: "Axes", spectrum: Spectrum, static: Tensor) -> None:
    """Every eigenvalue's distance to 1, nearest first: which are static, how many that makes, where the gap is."""
    distances, order = from_one(spectrum.eigenvalues.cpu()).sort()
    chosen, rank = static.cpu()[order], torch.arange(1, spectrum.k + 1)
    count, found = int(static.sum()), spectrum.largest_gap()
    step = "" if found == spectrum.k else f", {float(distances[found] / distances[found - 1]):.2g} times"
    axes.axvline(count + 0.5, color=STATIC, linewidth=6, alpha=0.25, label=f"the cut now: {count} static")
    axes.axvline(found + 0.5, color=INK, linewidth=1, linestyle="--", label=f"the largest gap{step}: {found} static")
    for which, color, name in ((chosen, STATIC, "static now"), (~chosen, DYNAMIC, "dynamic now")):
        points = rank[which].numpy(), distances[which].numpy()
        axes.scatter(*points, s=26, color=color, linewidths=0, zorder=3, label=name)
    axes.set_yscale("log")
    axes.set(xlim=(0.3, spectrum.k + 0.7), facecolor="none")
    axes.locator_params(axis="x", integer=True)
    axes.set_title("where static ends", fontsize=9, loc="left", color=INK)
    axes.set_xlabel("eigenvalues, nearest to 1 first", fontsize=8)
    axes.set_ylabel(f"distance to 1, at least {NEAR:g}", fontsize=8)
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
