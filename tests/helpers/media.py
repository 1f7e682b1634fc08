"""Small films, recordings and tables for the tests to read."""

from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray
from PIL import Image

CODECS = {".mp4": "libx264", ".avi": "mpeg4", ".webm": "libvpx", ".mov": "libx264", ".mkv": "libx264"}


def moving_square(frames: int, height: int = 48, width: int = 64, color: int = 0) -> NDArray[np.uint8]:
    """(frames, height, width, 3): a bright square that crosses a dark picture."""
    film = np.full((frames, height, width, 3), 20, np.uint8)
    for t in range(frames):
        left = (4 * t) % (width - 12)
        film[t, 18:30, left : left + 12, color] = 230
    return film


def write_film(path: Path, film: NDArray[np.uint8]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".gif":
        first, *rest = [Image.fromarray(frame) for frame in film]
        first.save(path, save_all=True, append_images=rest, duration=40, loop=0)
        return path
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(CODECS[path.suffix], rate=25)
        stream.height, stream.width, stream.pix_fmt = film.shape[1], film.shape[2], "yuv420p"
        for frame in film:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode(None))
    return path


def write_frames(folder: Path, film: NDArray[np.uint8], suffix: str = ".png") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number, frame in enumerate(film):  # no leading zeros: 10 comes after 9
        Image.fromarray(frame).save(folder / f"{number}{suffix}")
    return folder


def tone(seconds: float, pitch: float = 220.0, rate: int = 16_000) -> NDArray[np.float32]:
    t = np.arange(int(seconds * rate)) / rate
    return (0.4 * np.sin(2 * np.pi * pitch * t) + 0.1 * np.sin(2 * np.pi * 3 * pitch * t)).astype(np.float32)


def write_sound(path: Path, sound: NDArray[np.float32], rate: int = 16_000, **options: Any) -> Path:
    import soundfile

    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, sound, rate, **options)
    return path


def write_csv(path: Path, columns: dict[str, Any], delimiter: str = ",") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = zip(*columns.values(), strict=True)
    lines = [delimiter.join(columns), *(delimiter.join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path
