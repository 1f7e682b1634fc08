"""sequences as bytes for web pages: frames in one picture, animations, spectrograms, sound, arrays and tables"""

import base64
import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from diskoop.data.formats.audio import HOP, RATE, spectrogram_to_audio, wav_bytes
from diskoop.data.sequences import Units
from diskoop.errors import InputError
from diskoop.plots.sequences import film_strip, to_pixels

SHEET_COLUMNS = 32  # frames side by side in a sheet: pictures stay below what browsers can draw
MIN_SIDE = 256  # pixels of a downloaded animation; smaller frames are enlarged
FRAME_MILLISECONDS = 150  # of an animation
LOUDNESS_RANGE = 12.0  # of a spectrogram, in natural logarithms below the loudest bin
KINDS: dict[str, str] = {  # suffix of a download -> its media type
    "webp": "image/webp",
    "mp4": "video/mp4",
    "wav": "audio/wav",
    "npz": "application/octet-stream",
    "csv": "text/csv; charset=utf-8",
}

Kind = Literal["video", "sound", "series"]


def kind_of(units: Units, frame: Sequence[int]) -> Kind:
    """What sequences with these units and frames of this shape are."""
    return "video" if len(frame) == 3 else "series" if units.rate is None else "sound"


@dataclass(frozen=True)
class FrameSheet:
    """The frames of a video in one PNG, in rows of `columns`."""

    png: bytes
    columns: int
    frames: int
    width: int  # of a frame, in pixels
    height: int


def frame_sheet(video: NDArray[Any], units: Units) -> FrameSheet:
    """All frames of a video (time, channel, height, width) in one picture, so that a page can play and scrub them.

    Example:
        >>> sheet = frame_sheet(np.zeros((40, 3, 8, 6), np.uint8), Units(scale=255.0, dtype="uint8"))
        >>> sheet.columns, sheet.frames, sheet.width, sheet.height
        (32, 40, 6, 8)
    """
    from PIL import Image

    count, _, height, width = video.shape
    columns = min(count, SHEET_COLUMNS)
    rows = math.ceil(count / columns)
    pixels = film_strip(to_pixels(video, units), gap=0).reshape(height, count, width, 3)
    sheet = np.zeros((rows, height, columns, width, 3), np.uint8)
    for index in range(count):
        sheet[index // columns, :, index % columns] = pixels[:, index]
    picture = Image.fromarray(sheet.reshape(rows * height, columns * width, 3))
    stream = io.BytesIO()
    picture.save(stream, "PNG", compress_level=1)  # speed before size: pages are local
    return FrameSheet(stream.getvalue(), columns, count, width, height)


def animation(
    video: NDArray[Any],
    units: Units,
    milliseconds: int = FRAME_MILLISECONDS,
    min_side: int = MIN_SIDE,
    lossless: bool = True,
) -> bytes:
    """A video as an animated WebP that repeats.

    Args:
        video: (time, channel, height, width).
        units: of the video.
        milliseconds: that a frame lasts.
        min_side: pixels of the longer side; smaller frames are enlarged.
        lossless: False makes large frames several times smaller.
    """
    stream = io.BytesIO()
    first, *others = _enlarged(video, units, min_side)
    first.save(stream, "WEBP", save_all=True, append_images=others, duration=milliseconds, loop=0, lossless=lossless)
    return stream.getvalue()


def strip(video: NDArray[Any], units: Units, lossless: bool = True) -> bytes:
    """The frames of a video (time, channel, height, width) side by side as a WebP picture, without gaps."""
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(film_strip(to_pixels(video, units), gap=0)).save(stream, "WEBP", lossless=lossless)
    return stream.getvalue()


def mp4_bytes(video: NDArray[Any], units: Units, milliseconds: int = FRAME_MILLISECONDS) -> bytes:
    """A video (time, channel, height, width) as an mp4 file; this needs PyAV."""
    try:
        import av
    except ImportError:
        raise InputError("mp4 files need PyAV: pip install 'diskoop[video]'") from None
    from fractions import Fraction

    stream = io.BytesIO()
    with av.open(stream, "w", format="mp4") as container:
        frames = _enlarged(video, units)
        track = container.add_stream("mpeg4", rate=Fraction(1000, milliseconds))
        track.width, track.height = (side + side % 2 for side in frames[0].size)  # the codec takes even sides only
        track.bit_rate = 4_000_000
        for frame in frames:
            picture = frame.resize((track.width, track.height))
            container.mux(track.encode(av.VideoFrame.from_image(picture)))  # type: ignore[no-untyped-call]
        container.mux(track.encode(None))
    return stream.getvalue()


def _enlarged(video: NDArray[Any], units: Units, min_side: int = MIN_SIDE) -> list[Any]:
    """Frames as pictures whose longer side has `min_side` pixels at least."""
    from PIL import Image

    scale = max(1, math.ceil(min_side / max(video.shape[-2:])))
    size = (video.shape[-1] * scale, video.shape[-2] * scale)
    pixels = to_pixels(video, units)
    pictures = (Image.fromarray(film_strip(pixels[i : i + 1], gap=0)) for i in range(len(pixels)))
    return [picture.resize(size, Image.Resampling.NEAREST) for picture in pictures]


def spectrogram_picture(logs: NDArray[Any]) -> bytes:
    """A log spectrogram (time, bin) as PNG, low frequencies below, a pixel for each value."""
    from matplotlib import colormaps
    from PIL import Image

    loudest = float(logs.max())
    level = np.clip((logs.T[::-1] - loudest) / LOUDNESS_RANGE + 1, 0, 1)
    colors = (colormaps["magma"](level)[..., :3] * 255).round().astype(np.uint8)
    stream = io.BytesIO()
    Image.fromarray(colors).save(stream, "PNG", compress_level=1)
    return stream.getvalue()


def speech_wav(logs: NDArray[Any]) -> bytes:
    """A log spectrogram (time, bin) as a WAV file; its phase is estimated."""
    return wav_bytes(spectrogram_to_audio(logs))


def npz_bytes(**arrays: NDArray[Any]) -> bytes:
    """Arrays as an .npz file."""
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]
    return stream.getvalue()


def csv_bytes(series: NDArray[Any], units: Units) -> bytes:
    """A series (time, feature) as CSV, with the number of each frame.

    Example:
        >>> csv_bytes(np.array([[1.0, 2.5]]), Units(features=("a", "b"))).decode().splitlines()
        ['frame,a,b', '0,1.0,2.5']
    """
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["frame", *units.feature_names(series.shape[1])])
    writer.writerows([index, *row] for index, row in enumerate(series.tolist()))
    return stream.getvalue().encode()


def seconds(frames: int) -> float:
    """Length of sound whose spectrogram has so many frames."""
    return (frames - 1) * HOP / RATE


def data_url(content: bytes, media_type: str) -> str:
    """Bytes as an address that a page can use in place of a file."""
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


def to_payload(x: NDArray[Any], units: Units) -> dict[str, Any]:
    """A sequence (time, ...) in the data's own units as the JSON object that pages draw.

    Returns:
        kind "video": `image` (all frames in one picture), its `columns`, `frames`, `width` and `height`;
        "sound": `image` (a spectrogram), `frames`, `seconds`, `khz`; "series": `values` (time, feature).
    """
    kind = kind_of(units, x.shape[1:])
    if kind == "video":
        sheet = frame_sheet(x, units)
        facts = {name: getattr(sheet, name) for name in ("columns", "frames", "width", "height")}
        return {"kind": kind, "image": data_url(sheet.png, "image/png"), **facts}
    if kind == "sound":
        picture = data_url(spectrogram_picture(x), "image/png")
        return {"kind": kind, "image": picture, "frames": len(x), "seconds": seconds(len(x)), "khz": RATE / 2000}
    values = [[value if math.isfinite(value) else None for value in row] for row in x.astype(np.float64).tolist()]
    return {"kind": kind, "values": values, "frames": len(x)}


def download(x: NDArray[Any], units: Units, suffix: str) -> bytes:
    """A sequence (time, ...) as a file of the kind that `suffix`, one of KINDS, names."""
    kind = kind_of(units, x.shape[1:])
    makers = {
        "video": {"webp": lambda: animation(x, units), "mp4": lambda: mp4_bytes(x, units)},
        "sound": {"wav": lambda: speech_wav(x)},
        "series": {"csv": lambda: csv_bytes(x, units)},
    }[kind] | {"npz": lambda: npz_bytes(x=x)}
    if suffix not in makers:
        raise InputError(f"expected {kind} as {', '.join(makers)}, got {suffix!r}")
    return makers[suffix]()
