"""sequences as figures of a page: moving pictures with strips to print, spectrograms with players, lines"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from diskoop.data.formats.audio import RATE
from diskoop.data.sequences import Units
from diskoop.plots.sequences import SeriesLine, overlay_figure
from diskoop.plots.style import DYNAMIC_COLOR, STATIC_COLOR, TRUTH_COLOR, figure_svg
from diskoop.web.markup import Html, element, join
from diskoop.web.media import Kind, animation, data_url, kind_of, seconds, spectrogram_picture, speech_wav, strip

# A page holds many sequences: frames of each that are shown, and in a strip.
MAX_FRAMES: dict[Kind, int] = {"video": 24, "sound": 300, "series": 1000}
STRIP_FRAMES = 8
FORECAST_FRAMES = 16  # of a strip that shows a forecast
LOSSLESS_SIDE = 64  # pixels; larger frames are compressed with a loss that nobody sees

Role = Literal["original", "reconstruction", "donor", "donor drawn", "edit"]
# Lines of a series by role; what the model makes of a donor would be one line too many.
LINE_STYLES: dict[Role, dict[str, Any]] = {
    "original": {"color": TRUTH_COLOR, "linewidth": 2.6},
    "reconstruction": {"color": STATIC_COLOR, "linewidth": 1.1},
    "donor": {"color": TRUTH_COLOR, "linewidth": 1.2, "linestyle": "--"},
    "edit": {"color": DYNAMIC_COLOR, "linewidth": 1.4},
}


@dataclass(frozen=True, eq=False)
class Picture:
    """A sequence of a figure."""

    x: NDArray[Any]  # (time, ...) in the data's own units
    units: Units
    role: Role
    caption: str  # what it is, in a few words
    title: str = ""  # which it is: a clip's name and labels
    has_player: bool = True  # of sound

    @property
    def kind(self) -> Kind:
        return kind_of(self.units, self.x.shape[1:])

    @property
    def shown(self) -> NDArray[Any]:
        """The frames that are shown."""
        return self.x[: MAX_FRAMES[self.kind]]

    @cached_property
    def tile(self) -> Html:
        """Video or sound with its caption; computed once, as a receiver stands in many figures."""
        text = [element("strong", self.caption), *([element("span", self.title)] if self.title else [])]
        media = self._moving() if self.kind == "video" else self._spectrogram()
        player = [_player(self.shown)] if self.kind == "sound" and self.has_player else []
        return element("figure", media, element("figcaption", *text), *player, class_=f"tile {self.role.split()[0]}")

    def _moving(self) -> Html:
        lossless = max(self.x.shape[-2:]) <= LOSSLESS_SIDE
        moving = animation(self.shown, self.units, min_side=1, lossless=lossless)
        chosen = np.linspace(0, len(self.shown) - 1, min(len(self.shown), STRIP_FRAMES)).astype(int)
        still = strip(self.shown[chosen], self.units, lossless)
        alt = f"{self.caption} {self.title}".strip()
        return join(
            element("img", class_="moving", src=data_url(moving, "image/webp"), alt=alt),
            element("img", class_="strip", src=data_url(still, "image/webp"), alt=alt),
        )

    def _spectrogram(self) -> Html:
        picture = data_url(spectrogram_picture(self.shown), "image/png")
        return element("img", class_="spectrogram", src=picture, alt=f"{self.caption} {self.title}".strip())


def row_figure(pictures: Sequence[Picture]) -> Html:
    """Sequences beside one another; series over one another, a panel for each feature in its own unit."""
    if pictures[0].kind != "series":
        tiles = [picture.tile for picture in pictures]
        return element("div", *tiles, class_=f"tiles {pictures[0].kind}", style=f"--count: {len(tiles)}")
    drawn = [picture for picture in pictures if picture.role in LINE_STYLES]
    lines = [SeriesLine(picture.caption, picture.shown, LINE_STYLES[picture.role]) for picture in drawn]
    named = [element("p", element("strong", f"{p.caption}: "), p.title, class_="clip") for p in drawn if p.title]
    return element("div", *named, svg_figure(figure_svg(overlay_figure(lines, pictures[0].units))), class_="lines")


def forecast_figure(truth: Picture, forecast: NDArray[Any], observed: int) -> Html:
    """A sequence, and below it its forecast, with a mark where that begins.

    Args:
        truth: the sequence as it was given.
        forecast: (time, ...): its first `observed` frames as the model draws them, then what it expects.
        observed: frames that the forecast starts from.
    """
    title = element("p", element("strong", truth.title), class_="clip")
    if truth.kind == "series":
        lines = [
            SeriesLine("original", truth.shown, LINE_STYLES["original"]),
            SeriesLine("as the model draws it", forecast[:observed], LINE_STYLES["reconstruction"]),
            SeriesLine("forecast", forecast[observed:], LINE_STYLES["edit"], first=observed),
        ]
        return element("div", title, svg_figure(figure_svg(overlay_figure(lines, truth.units, observed - 0.5))))
    rows = [
        _marked(x[: len(forecast)], truth, caption, observed)
        for caption, x in (("original", truth.x), (f"forecast after {observed} frames", forecast))
    ]
    return element("div", title, *rows, class_=f"forecast {truth.kind}")


def _marked(x: NDArray[Any], like: Picture, caption: str, observed: int) -> Html:
    """A strip of frames or a spectrogram of `x` with a line before frame `observed`."""
    if like.kind == "video":
        chosen = np.linspace(0, len(x) - 1, min(len(x), FORECAST_FRAMES)).astype(int)
        picture = data_url(strip(x[chosen], like.units, max(x.shape[-2:]) <= LOSSLESS_SIDE), "image/webp")
        position = float(np.searchsorted(chosen, observed)) / len(chosen)
    else:
        picture, position = data_url(spectrogram_picture(x), "image/png"), observed / len(x)
    mark = element("i", class_="mark", style=f"left: {position:.2%}")
    image = element("img", src=picture, alt=f"{caption}: {like.title}")
    media = [element("div", image, mark, class_="marked"), *([_player(x)] if like.kind == "sound" else [])]
    return element("figure", element("figcaption", caption), *media)


def _player(logs: NDArray[Any]) -> Html:
    """A player of the sound of a log spectrogram (time, bin)."""
    return element("audio", controls=True, preload="none", src=data_url(speech_wav(logs), "audio/wav"))


def axes_text(picture: Picture) -> str:
    """The extent of the spectrograms of a page in words; nothing of other kinds."""
    if picture.kind != "sound":
        return ""
    length = seconds(len(picture.shown))
    return f"Spectrograms show {length:.1f} s from left to right and 0 to {RATE / 2000:g} kHz upwards."


def svg_figure(svg: str) -> Html:
    """An SVG element that shrinks with the page."""
    return element("div", Html(svg), class_="chart")
