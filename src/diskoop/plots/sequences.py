"""sequences -> film strips, spectrograms, lines, contact sheets and animations"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from diskoop.data.formats.audio import HOP
from diskoop.data.sequences import Sequences, Units
from diskoop.errors import InputError
from diskoop.plots.style import BACKGROUND, TEXT_COLOR
from diskoop.storage import atomic_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ANIMATION_SUFFIXES = (".webp", ".gif")
MIN_TILE = 96  # pixels of an animated video's longer side; smaller ones are enlarged
MAX_SCALE_RATIO = 5  # features whose scales or offsets differ more than this are drawn in scaled units
MAX_LEGEND_FEATURES = 8  # with more features a series has no legend
MAX_FRAMES = 16  # of a longer clip, evenly spread

Row = tuple[str, NDArray[Any]]  # a caption and a sequence (time, ...)


def film_strip(video: NDArray[Any], gap: int = 1) -> NDArray[np.uint8]:
    """Frames side by side.

    Args:
        video: (time, channel, height, width) with 1 or 3 channels, uint8 or from 0 to 1.
        gap: white columns between frames.

    Returns:
        (height, width of all frames and gaps, 3) uint8.

    Example:
        >>> film_strip(np.zeros((4, 3, 8, 6), np.uint8)).shape
        (8, 27, 3)
    """
    frames = np.moveaxis(video, 1, -1)  # (time, height, width, channel)
    frames = frames if frames.dtype == np.uint8 else (frames * 255).round().astype(np.uint8)
    frames = np.repeat(frames, 3, axis=-1) if frames.shape[-1] == 1 else frames
    padded = np.pad(frames, ((0, 0), (0, 0), (0, gap), (0, 0)), constant_values=255)
    strip: NDArray[np.uint8] = np.concatenate(list(padded), axis=1)[:, :-gap]
    return strip


def draw_strip(axes: "Axes", video: NDArray[Any], title: str = "", color: str = TEXT_COLOR) -> None:
    """A video (time, channel, height, width) as a film strip."""
    axes.imshow(film_strip(video), interpolation="nearest")
    axes.set_axis_off()
    if title:
        axes.set_title(title, fontsize=8, loc="left", color=color, pad=3, parse_math=False)


def draw_series(
    axes: "Axes", series: NDArray[Any], title: str = "", features: Sequence[str] = (), color: str = TEXT_COLOR
) -> None:
    """A series (time, feature) as lines, with a legend for up to MAX_LEGEND_FEATURES features."""
    lines = axes.plot(series, linewidth=1)
    if 0 < len(features) <= MAX_LEGEND_FEATURES:
        axes.legend(lines, features, fontsize=5, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    axes.set_title(title, fontsize=8, loc="left", color=color, pad=3, parse_math=False)
    axes.tick_params(labelsize=6)
    axes.spines[["top", "right"]].set_visible(False)


def draw_spectrogram(
    axes: "Axes", logs: NDArray[Any], rate: int, seconds: float, title: str = "", color: str = TEXT_COLOR
) -> None:
    """A log spectrogram (time, bin) of sound with `rate` samples a second that lasts `seconds`."""
    extent = (0.0, seconds, 0.0, rate / 2000)
    axes.imshow(logs.T, origin="lower", aspect="auto", cmap="magma", extent=extent, interpolation="nearest")
    axes.set_title(title, fontsize=8, loc="left", color=color, pad=3, parse_math=False)
    axes.tick_params(labelsize=6)
    axes.set_xlabel("s", fontsize=6, labelpad=0)
    axes.set_ylabel("kHz", fontsize=6, labelpad=0)


def draw_sequence(axes: "Axes", x: NDArray[Any], units: Units, title: str = "", color: str = TEXT_COLOR) -> None:
    """Draw a sequence as a film strip, a spectrogram or lines, whichever it is.

    Args:
        axes: where to draw.
        x: (time, channel, height, width), (time, bin) or (time, feature), in the data's own units.
        units: of `x`; a sampling rate marks a spectrogram.
        title: caption, above the plot.
        color: of the caption.
    """
    if x.ndim == 4:
        x = x[np.linspace(0, len(x) - 1, min(len(x), MAX_FRAMES)).astype(np.int64)]
        draw_strip(axes, _pixels(x, units), title, color)
    elif units.rate is not None:
        draw_spectrogram(axes, x, units.rate, (len(x) - 1) * HOP / units.rate, title, color)
    else:
        if _needs_scaling(units):
            x = units.to_model(torch.from_numpy(x.astype(np.float64))).numpy()
            axes.set_ylabel("scaled", fontsize=6, labelpad=0)
        draw_series(axes, x, title, units.features, color)


def contact_sheet_figure(sequences: Sequences, indices: Sequence[int], columns: int = 2) -> "Figure":
    """The sequences at `indices` of a set under their labels, in a grid with `columns` columns."""
    from matplotlib.figure import Figure

    rows = -(-len(indices) // columns)
    height = 0.25 + 6.4 / min(sequences.shape[1], MAX_FRAMES) if sequences.is_video else 1.8
    figure = Figure(figsize=(6.4 * columns, height * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for axes, index in zip(grid.flat, indices, strict=False):
        axes.set_axis_on()
        (x,) = sequences.read([index])
        draw_sequence(axes, x, sequences.units, sequences.title(index))
    return figure


def rows_figure(rows: Sequence[Row], units: Units, title: str = "", columns: int = 1) -> "Figure":
    """Sequences under their captions, on one scale of time.

    Args:
        rows: (caption, sequence (time, ...)), all of one kind; they fill the grid row by row.
        units: of all sequences.
        title: above all.
        columns: of the grid.
    """
    from matplotlib.figure import Figure

    lines = -(-len(rows) // columns)
    longest = max(len(x) for _, x in rows)
    video = rows[0][1].ndim == 4
    height = 0.25 + 7.0 / min(longest, MAX_FRAMES) * rows[0][1].shape[-2] / rows[0][1].shape[-1] if video else 1.7
    figure = Figure(figsize=(7.0 * columns, height * lines + (0.4 if title else 0.05)), layout="constrained")
    if title:
        figure.suptitle(title, fontsize=11, color=TEXT_COLOR, x=0.01, ha="left", parse_math=False)
    grid = figure.subplots(lines, columns, squeeze=False, sharey=not video)
    for axes in grid.flat[len(rows) :]:
        axes.set_axis_off()
    step = max(1, -(-longest // MAX_FRAMES)) if video else 1  # the same frames of every row, one above the other
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
    """Write videos side by side under their captions as an animated WebP or GIF.

    Args:
        rows: (caption, video (time, channel, height, width)); shorter videos repeat their last frame.
        path: a name with one of ANIMATION_SUFFIXES.
        units: of all videos.
        columns: videos in a row.
        milliseconds: that a frame lasts.
    """
    from PIL import Image, ImageDraw

    path = Path(path)
    if path.suffix not in ANIMATION_SUFFIXES:
        raise InputError(f"expected an animation's name ending in {' or '.join(ANIMATION_SUFFIXES)}, got {str(path)!r}")
    columns, longest = min(columns, len(rows)), max(len(x) for _, x in rows)
    height, width = rows[0][1].shape[-2:]
    scale = max(1, -(-MIN_TILE // max(height, width)))
    cell, margin = (width * scale + 8, height * scale + 26), (4, 20)
    frames = []
    for t in range(longest):
        frame = Image.new("RGB", (cell[0] * columns, cell[1] * -(-len(rows) // columns)), BACKGROUND)
        canvas = ImageDraw.Draw(frame)
        for number, (caption, x) in enumerate(rows):
            corner = (number % columns * cell[0] + margin[0], number // columns * cell[1] + margin[1])
            picture = Image.fromarray(film_strip(_pixels(x[min(t, len(x) - 1)][None], units)))
            frame.paste(picture.resize((width * scale, height * scale), Image.Resampling.NEAREST), corner)
            canvas.text((corner[0], corner[1] - 15), _truncated(canvas, caption, width * scale), fill=TEXT_COLOR)
        frames.append(frame)
    with atomic_write(path) as temporary:
        frames[0].save(temporary, save_all=True, append_images=frames[1:], duration=milliseconds, loop=0, lossless=True)
    return path


def _needs_scaling(units: Units) -> bool:
    """Whether features differ so much (degrees and hectopascals) that one axis would show them as flat lines."""
    scales, offsets = np.atleast_1d(units.scale), np.atleast_1d(units.offset)
    return bool(scales.max() > MAX_SCALE_RATIO * scales.min() or np.ptp(offsets) > MAX_SCALE_RATIO * scales.max())


def _truncated(canvas: Any, text: str, width: float) -> str:
    while text and canvas.textlength(text) > width:
        text = text[:-2].rstrip() + "…" if len(text) > 2 else ""
    return text


def _pixels(x: NDArray[Any], units: Units) -> NDArray[Any]:
    """Video as `film_strip` takes it: bytes, or from 0 to 1."""
    return x if x.dtype == np.uint8 else units.to_model(torch.from_numpy(x)).numpy().clip(0, 1)
