"""sheets of sequences: grids of cells with captions and headings, alone or next to a spectrum"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from diskoop.analysis.sheets import Cell, Sheet
from diskoop.numerics.spectrum import Spectrum
from diskoop.plots.sequences import LEGEND_SIZE, MAX_FRAMES, draw_sequence, legend_texts
from diskoop.plots.spectra import draw_spectrum
from diskoop.plots.style import (
    DYNAMIC_COLOR,
    FONT_SIZE,
    STATIC_COLOR,
    TEXT_COLOR,
    TITLE_SIZE,
    text_width,
    wrap_text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Lengths are in inches.
SINGLE_FRAME_WIDTH = 1.15  # where every cell is a single frame of video
MIN_FRAME_WIDTH, MAX_FRAME_WIDTH = 0.42, 0.7  # of a frame in a strip
MIN_PLOT_WIDTH, MAX_PLOT_WIDTH, PLOT_HEIGHT = 1.7, 4.6, 1.1  # of a signal's plot
SHEET_WIDTH = 11.0  # of all columns together, unless their cells would become too narrow
ROW_HEADING_WIDTH = 1.8
GAP, LINE_HEIGHT, TITLE_HEIGHT = 0.1, 0.15, 0.4
SIGNAL_GAP = 0.25  # between signals side by side: the last number below one is as near as the first below the next
TICK_SPACE = 0.36  # for the numbers left of and below signals
PART_COLORS = {None: TEXT_COLOR, "static": STATIC_COLOR, "dynamic": DYNAMIC_COLOR}


def sheet_figure(sheet: Sheet) -> "Figure":
    """Draw a sheet: each cell as a film strip, a spectrogram or lines, with its captions and headings.

    Example:
        >>> import numpy as np
        >>> clip = Cell(np.zeros((4, 3, 8, 8), np.uint8), "black")
        >>> figure = sheet_figure(Sheet([[clip, clip]], diskoop.data.Units(255.0, dtype="uint8"), "two clips"))
        >>> len(figure.axes)
        2
    """
    units, columns = sheet.units, max(map(len, sheet.rows))
    video = sheet.cells[0].x.ndim == 4
    width, height = _cell_size(sheet.cells, columns)
    step, ticks = (width + GAP, 0.0) if video else (width + SIGNAL_GAP, TICK_SPACE)
    column_headings = [wrap_text(text, width) for text in sheet.column_headings]
    row_headings = [wrap_text(text, ROW_HEADING_WIDTH) for text in sheet.row_headings]
    captions = [[wrap_text(cell.caption, width) if cell else "" for cell in row] for row in sheet.rows]
    depths = [height + GAP + LINE_HEIGHT * _line_count(texts) if texts else GAP for texts in captions]
    left = GAP + max([0.0, *(text_width(text) + GAP for text in row_headings)]) + ticks
    longest = max(len(cell.x) for cell in sheet.cells)
    right = left + columns * step + _legend_width(sheet)
    top = (TITLE_HEIGHT if sheet.title else GAP) + LINE_HEIGHT * _line_count(column_headings)
    page_width = max(right, text_width(sheet.title, TITLE_SIZE) + 2 * GAP)
    remark = wrap_text(sheet.remark, page_width - 2 * GAP)
    page_height = top + sum(depths) + ticks + LINE_HEIGHT * _line_count([remark])
    page = _Page.titled(sheet.title, page_width, page_height)
    for column, text in enumerate(column_headings):
        page.write(left + column * step, top - GAP / 3, text, va="bottom")
    bottom = top
    placed = []
    for number, (row, texts, depth) in enumerate(zip(sheet.rows, captions, depths, strict=True)):
        bottom += depth
        for column, (cell, text) in enumerate(zip(row, texts, strict=True)):
            if cell:
                axes = page.add_axes(left + column * step, bottom - GAP, width, height)
                draw_sequence(axes, cell.x, units, text, PART_COLORS[cell.part], cell.forecast_from, longest)
                placed.append((axes, number, column))
        if row_headings and row_headings[number]:
            page.write(left - ticks - GAP, bottom - GAP - height / 2, row_headings[number], va="center", ha="right")
    if remark:
        page.write(GAP, page_height - GAP / 2, remark, va="bottom")
    if video:
        for axes, _, _ in placed:
            axes.set_anchor("W")  # a shorter strip begins where the others do
    else:
        _share_scales(placed, sheet.cells)
    return page.figure


def spectrum_sheet_figure(sheet: Sheet, spectrum: Spectrum, static: Tensor, radius: float) -> "Figure":
    """A spectrum, and to its right a sheet of one column.

    Args:
        sheet: its headings are not drawn.
        spectrum: k eigenvalues.
        static: which of them are static, (k,) boolean.
        radius: of the ball that the spectral loss keeps the dynamic eigenvalues in.
    """
    from matplotlib.figure import Figure

    heights = [1.0 if row else 0.12 for row in sheet.rows]
    figure = Figure(figsize=(12.5, 0.7 + 0.98 * sum(heights)), layout="constrained")
    figure.suptitle(sheet.title, fontsize=13, color=TEXT_COLOR, x=0.01, ha="left")
    grid = figure.add_gridspec(len(heights), 2, width_ratios=[1, 1.75], height_ratios=heights)
    draw_spectrum(figure.add_subplot(grid[:, 0]), spectrum, static, radius)
    for number, row in enumerate(sheet.rows):
        for cell in row:
            if cell:
                axes = figure.add_subplot(grid[number, 1])
                draw_sequence(axes, cell.x, sheet.units, cell.caption, PART_COLORS[cell.part])
    return figure


@dataclass(frozen=True, eq=False)
class _Page:
    """A figure whose contents are placed in inches from its upper left corner."""

    figure: "Figure"
    width: float
    height: float

    @classmethod
    def titled(cls, title: str, width: float, height: float) -> "_Page":
        from matplotlib.figure import Figure

        page = cls(Figure(figsize=(width, height)), width, height)
        x, y = page._position(GAP, GAP)
        style = {"fontsize": TITLE_SIZE, "color": TEXT_COLOR, "parse_math": False}
        page.figure.suptitle(title, x=x, y=y, ha="left", va="top", **style)
        return page

    def add_axes(self, left: float, bottom: float, width: float, height: float) -> "Axes":
        return self.figure.add_axes((*self._position(left, bottom), width / self.width, height / self.height))

    def write(self, x: float, y: float, text: str, **alignment: Any) -> None:
        self.figure.text(
            *self._position(x, y), text, fontsize=FONT_SIZE, color=TEXT_COLOR, parse_math=False, **alignment
        )

    def _position(self, x: float, y: float) -> tuple[float, float]:
        return x / self.width, 1 - y / self.height


def _cell_size(cells: Sequence[Cell], columns: int) -> tuple[float, float]:
    """Width and height of the largest cell."""
    available = SHEET_WIDTH / columns
    shape = cells[0].x.shape
    if len(shape) < 4:
        return min(max(available, MIN_PLOT_WIDTH), MAX_PLOT_WIDTH), PLOT_HEIGHT
    frames = min(max(len(cell.x) for cell in cells), MAX_FRAMES)
    frame = min(max(available / frames, MIN_FRAME_WIDTH), SINGLE_FRAME_WIDTH if frames == 1 else MAX_FRAME_WIDTH)
    height, width = shape[-2:]
    return frame * frames, frame * height / width


def _share_scales(placed: Sequence[tuple["Axes", int, int]], cells: Sequence[Cell]) -> None:
    """Put signals at (axes, row, column) on one scale, with tick labels at the left and at the bottom only."""
    low, high = min(float(cell.x.min()) for cell in cells), max(float(cell.x.max()) for cell in cells)
    if not placed[0][0].images:  # lines, which may have been scaled
        low = min(float(axes.dataLim.y0) for axes, _, _ in placed)
        high = max(float(axes.dataLim.y1) for axes, _, _ in placed)
    margin = 0.05 * (high - low or 1.0)
    longest = max((axes.get_xlim() for axes, _, _ in placed), key=lambda limits: limits[1])
    first = {row: min(c for _, r, c in placed if r == row) for _, row, _ in placed}
    last = {column: max(r for _, r, c in placed if c == column) for _, _, column in placed}
    corner = min((r, c) for _, r, c in placed if c == max(last))  # where there is room for a legend
    for axes, row, column in placed:
        axes.set_xlim(longest)
        if axes.images:
            axes.images[0].set_clim(low, high)
        else:
            axes.set(ylim=(low - margin, high + margin), facecolor="none")
        if column != first[row]:
            axes.tick_params(labelleft=False)
            axes.set_ylabel("")
        if row != last[column]:
            axes.tick_params(labelbottom=False)
            axes.set_xlabel("")
        legend = axes.get_legend()
        if legend is not None and (row, column) != corner:
            legend.remove()


def _legend_width(sheet: Sheet) -> float:
    """Width of a series' legend, which stands at its right; 0 for video and sound, which have none."""
    x = sheet.cells[0].x
    if x.ndim == 4 or sheet.units.rate is not None:
        return 0.0
    return max(text_width(text, LEGEND_SIZE) + 4 * GAP for text in legend_texts(sheet.units, x.shape[1]))


def _line_count(texts: Sequence[str]) -> int:
    return max([0, *(len(text.splitlines()) for text in texts)])
