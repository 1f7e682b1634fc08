"""colours of all plots, text that fits, and figures as files"""

import io
import re
import textwrap
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from diskoop.errors import InputError
from diskoop.storage import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEXT_COLOR, BACKGROUND, STATIC_COLOR, DYNAMIC_COLOR = "#22223b", "#fbfaf7", "#2563eb", "#e11d48"
TRUTH_COLOR = "#b4b4c0"  # of what forecasts are compared with, behind them
FONT_SIZE, TITLE_SIZE = 8, 12  # points
FIGURE_SUFFIXES = (".png", ".jpg", ".webp", ".svg", ".pdf")
# A colour of a figure -> what an HTML page has in its place, so that a dark page draws light lines.
PAGE_COLORS = {
    "#000000": "currentColor",
    TEXT_COLOR: "currentColor",
    STATIC_COLOR: "var(--static)",
    DYNAMIC_COLOR: "var(--dynamic)",
    TRUTH_COLOR: "var(--truth)",
}


def save_figure(figure: "Figure", path: str | Path) -> Path:
    """Write a figure to `path`, in the format that its suffix names (one of FIGURE_SUFFIXES)."""
    path = Path(path)
    if path.suffix not in FIGURE_SUFFIXES:
        raise InputError(f"expected a picture's name ending in {', '.join(FIGURE_SUFFIXES)}, got {str(path)!r}")
    with atomic_write(path) as temporary:
        figure.savefig(temporary, dpi=150, facecolor=BACKGROUND, format=path.suffix.removeprefix("."))
    return path


def figure_bytes(figure: "Figure") -> bytes:
    """A figure as PNG, for notebooks."""
    stream = io.BytesIO()
    figure.savefig(stream, dpi=110, facecolor=BACKGROUND, format="png")
    return stream.getvalue()


def figure_svg(figure: "Figure", is_cropped: bool = False) -> str:
    """A figure as an SVG element of an HTML page, with the page's font and colours, see PAGE_COLORS.

    Args:
        figure: what to draw.
        is_cropped: whether empty margins are cut off.

    Example:
        >>> from matplotlib.figure import Figure
        >>> figure_svg(Figure(figsize=(2, 1))).split(" viewBox")[0]
        '<svg width="144pt" height="72pt"'
    """
    from matplotlib import rc_context

    stream = io.StringIO()
    unsigned = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "diskoop"}):  # text as text; the same bytes every time
        box = "tight" if is_cropped else None
        figure.savefig(stream, format="svg", transparent=True, metadata=unsigned, bbox_inches=box)
    element = stream.getvalue().partition("<svg")[2]
    # Namespaces are a page's own; ids of groups would occur in every figure of a page, and nothing refers to them.
    element = re.sub(r' xmlns(:\w+)?="[^"]*"| version="1.1"|(?<=<g) id="[^"]*"', "", element)
    colors = re.compile(rf"((?:fill|stroke): )({'|'.join(PAGE_COLORS)})")
    return f"<svg{colors.sub(lambda match: match[1] + PAGE_COLORS[match[2]], element).rstrip()}"


def text_width(text: str, size: float = FONT_SIZE) -> float:
    """Width of the longest line in inches, with a small margin because screen and print metrics differ."""
    return max([0.0, *(_line_width(line, size) / 70 for line in text.splitlines() if line.strip())])


@lru_cache(4096)  # captions of a sheet repeat, and are measured once to wrap them and once to place them
def _line_width(line: str, size: float) -> float:
    """Width in points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    return float(text_to_path.get_text_width_height_descent(line, FontProperties(size=size), ismath=False)[0])


def wrap_text(text: str, inches: float) -> str:
    """Break lines that are wider than `inches` at FONT_SIZE."""
    lines = []
    for line in text.splitlines():
        width = text_width(line)
        lines += [line] if width <= inches else textwrap.wrap(line, max(int(len(line) * inches / width) - 1, 6))
    return "\n".join(lines)
