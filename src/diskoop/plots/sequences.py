"""sequences -> film strips, spectrograms, lines, contact sheets and animations"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from diskoop.data.formats.audio import HOP
from diskoop.data.sequences import Sequences, Units
from diskoop.errors import InputError
from diskoop.plots.style import (
    BACKGROUND,
    DYNAMIC_COLOR,
    FONT_SIZE,
    STATIC_COLOR,
    TEXT_COLOR,
    TITLE_SIZE,
    TRUTH_COLOR,
    wrap_text,
)
from diskoop.storage import atomic_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ANIMATION_SUFFIXES = (".webp", ".gif")
MIN_TILE = 128  # pixels of an animated video's longer side; smaller ones are enlarged
CAPTION_LINE, MAX_CAPTION_LINES = 13, 5  # pixels of a line above an animated video, and how many there are
MAX_SCALE_RATIO = 5  # features whose scales or offsets differ more than this are drawn in scaled units
MAX_LEGEND_FEATURES = 8  # in a legend
LEGEND_SIZE = 6  # points
MAX_FRAMES = 16  # of a longer clip, evenly spread
OVERLAY_COLUMNS = 4  # features side by side

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
    strip: NDArray[np.uint8] = np.concatenate(list(padded), axis=1)
    return strip[:, : strip.shape[1] - gap]


def draw_strip(axes: "Axes", video: NDArray[Any], title: str = "", color: str = TEXT_COLOR) -> None:
    """A video (time, channel, height, width) as a film strip."""
    axes.imshow(film_strip(video), interpolation="nearest")
    axes.set_axis_off()
    _set_title(axes, title, color)


def draw_series(
    axes: "Axes", series: NDArray[Any], title: str = "", legend: Sequence[str] = (), color: str = TEXT_COLOR
) -> None:
    """A series (time, feature) as lines over the frames, with a legend as `legend_texts` gives it."""
    from matplotlib.lines import Line2D

    lines = axes.plot(series, linewidth=1)
    if legend:
        handles = [*lines[:MAX_LEGEND_FEATURES], Line2D([], [], linestyle="none")][: len(legend)]
        axes.legend(handles, legend, fontsize=LEGEND_SIZE, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    _set_title(axes, title, color)
    axes.tick_params(labelsize=6)
    axes.set_xlabel("frame", fontsize=6, labelpad=0)
    axes.spines[["top", "right"]].set_visible(False)


def draw_spectrogram(
    axes: "Axes", logs: NDArray[Any], rate: int, seconds: float, title: str = "", color: str = TEXT_COLOR
) -> None:
    """A log spectrogram (time, bin) of sound with `rate` samples a second that lasts `seconds`."""
    extent = (0.0, seconds, 0.0, rate / 2000)
    axes.imshow(logs.T, origin="lower", aspect="auto", cmap="magma", extent=extent, interpolation="nearest")
    _set_title(axes, title, color)
    axes.tick_params(labelsize=6)
    axes.set_xlabel("s", fontsize=6, labelpad=0)
    axes.set_ylabel("kHz", fontsize=6, labelpad=2)
    axes.set_facecolor("none")


def draw_sequence(
    axes: "Axes",
    x: NDArray[Any],
    units: Units,
    title: str = "",
    color: str = TEXT_COLOR,
    forecast_from: int | None = None,
    longest: int | None = None,
) -> None:
    """Draw a sequence as a film strip, a spectrogram or lines, whichever it is.

    Args:
        axes: where to draw.
        x: (time, channel, height, width), (time, bin) or (time, feature), in the data's own units.
        units: of `x`; a sampling rate marks a spectrogram.
        title: caption, above the plot.
        color: of the caption.
        forecast_from: the first frame of a forecast, where a line is drawn.
        longest: frames of the longest video beside this one; of all of them the same frames are shown.
    """
    mark: float | None = forecast_from
    if x.ndim == 4:
        shown = _shown_frames(longest or len(x))
        shown = shown[shown < len(x)]
        draw_strip(axes, to_pixels(x[shown], units), title, color)
        if forecast_from is not None:  # in the gap before that frame, which is one pixel wide
            mark = int(np.searchsorted(shown, forecast_from)) * (x.shape[-1] + 1) - 1
    elif units.rate is not None:
        seconds_per_frame = HOP / units.rate
        draw_spectrogram(axes, x, units.rate, (len(x) - 1) * seconds_per_frame, title, color)
        mark = None if forecast_from is None else forecast_from * seconds_per_frame
    else:
        legend = legend_texts(units, x.shape[1])
        if _needs_scaling(units):
            x = units.to_model(torch.from_numpy(x.astype(np.float64))).numpy()
            axes.set_ylabel("standard deviations", fontsize=6, labelpad=0)
        draw_series(axes, x, title, legend, color)
    if mark is not None:
        color = DYNAMIC_COLOR if x.ndim == 4 or units.rate is None else BACKGROUND  # bright, on a spectrogram
        axes.axvline(mark, color=color, linewidth=1.2, linestyle="-" if x.ndim == 4 else "--")


def legend_texts(units: Units, count: int) -> list[str]:
    """Names of the first of `count` features, with mean and deviation where they are drawn in deviations.

    A feature NAME=WORD has its word's share instead: what it is divided by is the deviation of the whole column.
    """
    names = list(units.feature_names(count))
    if _needs_scaling(units):
        means, deviations = (np.broadcast_to(value, count) for value in (units.offset, units.scale))
        names = [_legend_text(*feature) for feature in zip(names, means, deviations, strict=True)]
    more = count - MAX_LEGEND_FEATURES
    return names if more <= 0 else [*names[:MAX_LEGEND_FEATURES], f"and {more} more"]


def _legend_text(name: str, mean: float, deviation: float) -> str:
    is_word = "=" in name and 0 <= mean <= 1
    return f"{name}: {mean:.0%}" if is_word else f"{name}: {mean:.4g} ± {deviation:.2g}"


def contact_sheet_figure(sequences: Sequences, indices: Sequence[int], columns: int = 2) -> "Figure":
    """The sequences at `indices` of a set under their names and labels, in a grid with `columns` columns."""
    from matplotlib.figure import Figure

    rows = -(-len(indices) // columns)
    titles = [wrap_text(sequences.title(index), 6.2) for index in indices]
    height = 6.4 / min(sequences.shape[1], MAX_FRAMES) if sequences.is_video else 1.6
    height += 0.12 + 0.14 * max(title.count("\n") + 1 for title in titles)
    figure = Figure(figsize=(6.4 * columns, height * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for axes, index, title in zip(grid.flat, indices, titles, strict=False):
        axes.set_axis_on()
        (x,) = sequences.read([index])
        draw_sequence(axes, x, sequences.units, title)
    for number, axes in enumerate(grid.flat):
        legend = axes.get_legend()
        if legend is not None and number != min(columns, len(indices)) - 1:
            legend.remove()  # one is enough, at the upper right
    return figure


@dataclass(frozen=True, eq=False)
class ForecastRow:
    """A series and its forecast, in the data's own units."""

    caption: str
    truth: NDArray[Any]  # (time, feature)
    forecast: NDArray[Any]  # (observed + steps, feature): observed frames as the model draws them, then the forecast


def forecast_series_figure(rows: Sequence[ForecastRow], observed: int, units: Units, title: str) -> "Figure":
    """Forecasts of series in front of the truth: a row for each series, a column for each feature, in its own unit.

    Args:
        rows: the series.
        observed: frames that forecasts start from; a line marks where they begin.
        units: names of the features, of which the first MAX_LEGEND_FEATURES are drawn.
        title: above all.
    """
    from matplotlib.figure import Figure

    count = rows[0].truth.shape[1]
    names = units.feature_names(count)[:MAX_LEGEND_FEATURES]
    if len(names) < count:
        title += f"; the first {len(names)} of {count} features"
    figure = Figure(figsize=(max(1.75 * len(names), 6.5) + 0.3, 1.35 * len(rows) + 0.9), layout="constrained")
    figure.suptitle(title, fontsize=TITLE_SIZE, color=TEXT_COLOR, x=0.01, ha="left", parse_math=False)
    bands = figure.subfigures(len(rows), 1, squeeze=False)[:, 0]
    grids = []
    for number, (row, band) in enumerate(zip(rows, bands, strict=True)):
        band.suptitle(row.caption, fontsize=FONT_SIZE, color=TEXT_COLOR, x=0.01, ha="left", parse_math=False)
        grids.append(band.subplots(1, len(names), squeeze=False)[0])
        for feature, (axes, name) in enumerate(zip(grids[-1], names, strict=True)):
            axes.plot(row.truth[:, feature], color=TRUTH_COLOR, linewidth=1.8, label="truth")
            past, future = np.arange(observed), np.arange(observed, len(row.forecast))
            axes.plot(past, row.forecast[past, feature], color=STATIC_COLOR, linewidth=1, label="as the model draws it")
            axes.plot(future, row.forecast[future, feature], color=DYNAMIC_COLOR, linewidth=1, label="forecast")
            axes.axvline(observed - 0.5, color=DYNAMIC_COLOR, linewidth=0.8, linestyle="--")
            axes.tick_params(labelsize=6)
            axes.spines[["top", "right"]].set_visible(False)
            axes.set_facecolor("none")
            axes.set_ylabel(name, fontsize=7, labelpad=1, parse_math=False)
            if number == len(rows) - 1:
                axes.set_xlabel("frame", fontsize=6, labelpad=0)
    for feature in range(len(names)):  # one scale for each feature
        column = [grid[feature] for grid in grids]
        low, high = (f(axes.get_ylim()[end] for axes in column) for f, end in ((min, 0), (max, 1)))
        for axes in column:
            axes.set_ylim(low, high)
    handles = grids[0][0].get_lines()[:3]
    figure.legend(handles=handles, loc="outside lower left", ncols=3, fontsize=FONT_SIZE, frameon=False)
    return figure


@dataclass(frozen=True, eq=False)
class SeriesLine:
    """A series that is drawn over others."""

    label: str
    x: NDArray[Any]  # (time, feature) in the data's own units
    style: Mapping[str, Any]  # of its lines, as matplotlib calls it
    first: int = 0  # the frame at which it begins


def overlay_figure(lines: Sequence[SeriesLine], units: Units, mark: float | None = None) -> "Figure":
    """Series over one another: a panel for each feature in its own unit, OVERLAY_COLUMNS side by side.

    Args:
        lines: the series, the first of them behind the others.
        units: names of the features, of which the first MAX_LEGEND_FEATURES are drawn.
        mark: a frame at which all panels have a vertical line.

    Example:
        >>> line = SeriesLine("truth", np.zeros((5, 2)), {"color": TRUTH_COLOR})
        >>> [axes.get_title("left") for axes in overlay_figure([line], Units(features=("heat", "wind"))).axes]
        ['heat', 'wind']
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    names = units.feature_names(lines[0].x.shape[1])[:MAX_LEGEND_FEATURES]
    columns = min(len(names), OVERLAY_COLUMNS)
    rows = -(-len(names) // columns)
    # Placed by hand: a page has many of these, and a layout that is solved for takes ten times as long.
    width, height, legend = max(2.6 * columns, 5.2), 1.65 * rows + 0.5, 0.5
    figure = Figure(figsize=(width, height))
    place = {
        "left": 0.45 / width,
        "right": 1 - 0.1 / width,
        "bottom": (legend + 0.3) / height,
        "top": 1 - 0.25 / height,
    }
    grid = figure.subplots(rows, columns, squeeze=False, gridspec_kw={**place, "wspace": 0.3, "hspace": 0.5})
    for axes in grid.flat[len(names) :]:
        axes.remove()
    for feature, (axes, name) in enumerate(zip(grid.flat, names, strict=False)):
        for line in lines:
            axes.plot(np.arange(len(line.x)) + line.first, line.x[:, feature], label=line.label, **line.style)
        if mark is not None:
            axes.axvline(mark, color=DYNAMIC_COLOR, linewidth=1, linestyle="--")
        axes.set_title(name, fontsize=9, loc="left", color=TEXT_COLOR, parse_math=False)
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes.tick_params(labelsize=7)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_facecolor("none")
        if feature >= len(names) - columns:  # nothing stands below it
            axes.set_xlabel("frame", fontsize=8, labelpad=1)
    handles = grid[0, 0].get_lines()[: len(lines)]
    figure.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 0), ncols=columns, fontsize=8, frameon=False)
    return figure


def save_animation(
    groups: Sequence[Sequence[Row]], path: str | Path, units: Units, columns: int = 4, milliseconds: int = 150
) -> Path:
    """Write videos side by side under their captions as an animated WebP or GIF.

    Args:
        groups: of (caption, video (time, channel, height, width)), each group in rows of its own; shorter videos repeat
            their last frame.
        path: a name with one of ANIMATION_SUFFIXES.
        units: of all videos.
        columns: videos in a row.
        milliseconds: that a frame lasts.
    """
    from PIL import Image, ImageDraw

    path = Path(path)
    if path.suffix not in ANIMATION_SUFFIXES:
        raise InputError(f"expected an animation's name ending in {' or '.join(ANIMATION_SUFFIXES)}, got {str(path)!r}")
    columns = min(columns, max(map(len, groups)))
    padding = [[None] * (-len(group) % columns) for group in groups]
    tiles = [row for group, rest in zip(groups, padding, strict=True) for row in (*group, *rest)]
    rows = [row for row in tiles if row is not None]
    longest = max(len(x) for _, x in rows)
    height, width = rows[0][1].shape[-2:]
    scale = max(1, -(-MIN_TILE // max(height, width)))
    canvas = ImageDraw.Draw(Image.new("RGB", (1, 1)))
    captions = {caption: _wrapped(canvas, caption, width * scale) for caption, _ in rows}
    margin = (4, 8 + CAPTION_LINE * max(map(len, captions.values())))
    cell = (width * scale + 8, height * scale + margin[1] + 6)
    frames = []
    for t in range(longest):
        frame = Image.new("RGB", (cell[0] * columns, cell[1] * (len(tiles) // columns)), BACKGROUND)
        canvas = ImageDraw.Draw(frame)
        for number, tile in enumerate(tiles):
            if tile is None:
                continue
            lines, x = captions[tile[0]], tile[1]
            corner = (number % columns * cell[0] + margin[0], number // columns * cell[1] + margin[1])
            picture = Image.fromarray(film_strip(to_pixels(x[min(t, len(x) - 1)][None], units)))
            frame.paste(picture.resize((width * scale, height * scale), Image.Resampling.NEAREST), corner)
            top = corner[1] - 3 - CAPTION_LINE * len(lines)
            canvas.multiline_text((corner[0], top), "\n".join(lines), fill=TEXT_COLOR, spacing=CAPTION_LINE - 11)
        frames.append(frame)
    with atomic_write(path) as temporary:
        frames[0].save(temporary, save_all=True, append_images=frames[1:], duration=milliseconds, loop=0, lossless=True)
    return path


def _needs_scaling(units: Units) -> bool:
    """Whether features differ so much (degrees and hectopascals) that one axis would show them as flat lines."""
    scales, offsets = np.atleast_1d(units.scale), np.atleast_1d(units.offset)
    return bool(scales.max() > MAX_SCALE_RATIO * scales.min() or np.ptp(offsets) > MAX_SCALE_RATIO * scales.max())


def _shown_frames(count: int) -> NDArray[np.int64]:
    """Indices of the frames of a video that are drawn: all of them, or MAX_FRAMES that are evenly spread."""
    return np.linspace(0, count - 1, min(count, MAX_FRAMES)).astype(np.int64)


def _set_title(axes: "Axes", title: str, color: str) -> None:
    if title:
        axes.set_title(title, fontsize=FONT_SIZE, loc="left", color=color, pad=3, parse_math=False)


def _wrapped(canvas: Any, text: str, width: float) -> list[str]:
    """Lines of `text` that fit into `width` pixels, MAX_CAPTION_LINES at most; what does not fit is cut off."""
    lines: list[str] = []
    for word in text.split():
        joined = f"{lines[-1]} {word}" if lines else word
        if lines and canvas.textlength(joined) <= width:
            lines[-1] = joined
        else:
            lines.append(word)
    if len(lines) > MAX_CAPTION_LINES:
        lines = [*lines[: MAX_CAPTION_LINES - 1], lines[MAX_CAPTION_LINES - 1] + " …"]
    return [_truncated(canvas, line, width) for line in lines]


def _truncated(canvas: Any, text: str, width: float) -> str:
    while text and canvas.textlength(text) > width:
        text = text[:-2].rstrip() + "…" if len(text) > 2 else ""
    return text


def to_pixels(x: NDArray[Any], units: Units) -> NDArray[Any]:
    """Video as `film_strip` takes it: bytes, or from 0 to 1."""
    return x if x.dtype == np.uint8 else units.to_model(torch.from_numpy(x)).numpy().clip(0, 1)
