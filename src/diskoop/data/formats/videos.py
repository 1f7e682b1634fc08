"""videos and folders of images -> square RGB frames"""

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, ImageSequence

from diskoop.data.clips import Blocks, Clip, decoding, file_clips
from diskoop.errors import InputError, MissingDependencyError
from diskoop.settings import FRAME_SIZES

VIDEO_SUFFIXES = (".mp4", ".avi", ".webm", ".mov", ".mkv", ".m4v", ".gif")
CONTAINERS = "mov,avi,matroska,gif"  # whatever a file is called: playlists (concat, hls) would open other files
IMAGE_FORMATS = ("PNG", "JPEG", "BMP", "TIFF", "WEBP", "PPM", "GIF")  # EPS would start a program
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp", ".pgm", ".ppm")
BLOCK_FRAMES = 64  # decoded at a time
MIN_LOST = 0.02  # of a picture outside its middle square, from which on it is told
MIN_STRIP = 3  # squares in a row from which an image looks like a strip of frames


class SquareFrames:
    """Every `every`-th picture as a square frame of `size` pixels; the smallest and the most oblong one that came."""

    def __init__(self, size: int, every: int) -> None:
        self.size, self.every = size, every
        self.smallest = size  # the shorter side, in pixels
        self.most_oblong = (1, 1)  # width and height

    def blocks(self, images: Iterator[Image.Image]) -> Blocks:
        """Frames (count, channel, size, size), BLOCK_FRAMES at a time."""
        block: list[NDArray[np.uint8]] = []
        for number, image in enumerate(images):
            if number % self.every:
                continue
            self.smallest = min(self.smallest, *image.size)
            self.most_oblong = max(self.most_oblong, image.size, key=_oblongness)
            block.append(np.moveaxis(np.asarray(crop_square(image, self.size)), -1, 0))
            if len(block) == BLOCK_FRAMES:
                yield np.stack(block)
                block = []
        if block:
            yield np.stack(block)

    def facts(self) -> tuple[list[str], list[str]]:
        """No names of features, and notes where pictures were cropped or enlarged."""
        notes = crop_notes(*self.most_oblong)
        if self.smallest == self.size:
            return [], notes
        smaller = [size for size in FRAME_SIZES if size <= self.smallest]
        verb = "keeps" if self.smallest in smaller else "reduces"
        hint = f" (data.size={smaller[-1]} {verb} them)" if smaller else ""
        return [], [*notes, f"enlarged: frames of {self.smallest} pixels to {self.size}{hint}"]


def _oblongness(size: tuple[int, int]) -> float:
    return max(size) / min(size)


def crop_notes(width: int, height: int) -> list[str]:
    """A note where the middle square of a picture is far from all of it.

    Example:
        >>> crop_notes(64, 64)
        []
        >>> crop_notes(1280, 720)
        ['cropped: of 1280 x 720 pixels the middle 720 x 720 are seen, 44% at the left and right are not']
    """
    side, ends = min(width, height), "left and right" if width > height else "top and bottom"
    lost = 1 - side / max(width, height)
    if lost < MIN_LOST:
        return []
    seen = f"of {width} x {height} pixels the middle {side} x {side} are seen"
    return [f"cropped: {seen}, {lost:.0%} at the {ends} are not"]


def video_clips(root: Path, files: Sequence[Path], frames: SquareFrames) -> list[Clip]:
    """A clip for each video file."""
    return file_clips(root, files, lambda file: frames.blocks(_decode(file)))


def image_clips(root: Path, files: Sequence[Path], frames: SquareFrames, strip: str | None) -> list[Clip]:
    """A clip for each folder of images in natural order, or for each image that is a strip of frames.

    Args:
        root: of the data set.
        files: the images.
        frames: makes frames of pictures.
        strip: the number of frames in each image, or "auto" for as many squares as it holds; "none" takes images for
            single frames, whatever their shape; None does so too, but refuses one that looks like a strip.
    """
    if strip not in (None, "none"):
        return file_clips(root, files, lambda file: frames.blocks(_cut_strip(file, strip)))
    folders: dict[Path, list[Path]] = {}
    for file in files:
        folders.setdefault(file.parent, []).append(file)
    if strip is None:
        for images in folders.values():
            _refuse_strip(images[0])
    return [
        Clip(
            root.resolve().name if list(folders) == [root] else folder.relative_to(root).as_posix(),
            str(folder),
            lambda images=images: frames.blocks(map(read_image, images)),  # type: ignore[misc]
        )
        for folder, images in folders.items()
    ]


def _squares(width: int, height: int) -> int:
    """How many squares side by side, or one above the other, fill an image, if they are at least MIN_STRIP; else 0."""
    short, long = sorted((width, height))
    return long // short if long % short == 0 and long >= MIN_STRIP * short else 0


def _refuse_strip(file: Path) -> None:
    width = height = 1
    with suppress(Exception), _open_image(file) as image:  # what is wrong with it is said when it is read
        width, height = image.size
    if count := _squares(width, height):
        raise InputError(
            f"{file} of {width} x {height} pixels looks like a strip of {count} frames: data.strip=auto reads each "
            "image as a clip, data.strip=none as one frame, of which the middle square is kept"
        )


def _cut_strip(file: Path, strip: str) -> Iterator[Image.Image]:
    """The frames of a strip from left to right, or from top to bottom where it is higher than wide."""
    image = read_image(file)
    width, height = image.size
    count = int(strip) if strip != "auto" else _squares(width, height)
    long = max(width, height)
    if not count or long % count:
        wanted = f"a multiple of {count} along its longer side" if count else f"{MIN_STRIP} squares at least in a row"
        raise InputError(f"{file} has {width} x {height} pixels, wanted {wanted} (data.strip={strip})")
    step = long // count
    for begin in range(0, long, step):
        yield image.crop((begin, 0, begin + step, height) if width >= height else (0, begin, width, begin + step))


def crop_square(image: Image.Image, size: int) -> Image.Image:
    """The largest centred square of an image, at `size` x `size` pixels."""
    return image if image.size == (size, size) else ImageOps.fit(image, (size, size), Image.Resampling.LANCZOS)


def read_image(file: Path) -> Image.Image:
    """An image of 8 or 16 bits, or of floats from 0 to 1, as 8-bit RGB, turned as its EXIF data say."""
    with decoding(file, "picture"), _open_image(file) as image:
        if (count := getattr(image, "n_frames", 1)) > 1:
            raise InputError(f"{file} holds {count} pictures; unpack it into a file for each")
        image.load()
        return ImageOps.exif_transpose(_to_rgb(file, image))


def _open_image(file: Path) -> Image.Image:
    """An image whose pixels are not yet decoded; an InputError where they are too many."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # large, but it can be decoded
            return Image.open(file, formats=IMAGE_FORMATS)
    except Image.DecompressionBombError:
        limit = 2 * (Image.MAX_IMAGE_PIXELS or 0) // 10**6
        raise InputError(f"{file} has more than {limit} million pixels; make it smaller") from None


def _to_rgb(file: Path, image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):
        values = np.asarray(image)
        # Pillow holds the 16 bits of these formats in 32; elsewhere the value of white is unknown.
        if image.mode == "I" and file.suffix.lower() not in (".png", ".pgm", ".ppm"):
            raise InputError(f"{file} has 32-bit values from {values.min()} to {values.max()}; save 8 or 16 bits")
        return _with_exif(image, (values // 257).astype(np.uint8))
    if image.mode == "F":
        values = np.asarray(image)
        if not (values.min() >= 0 and values.max() <= 1):  # nor NaN
            raise InputError(f"{file} has fractions from {values.min():.4g} to {values.max():.4g}, wanted 0 to 1")
        return _with_exif(image, np.rint(values * 255).astype(np.uint8))
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        rgba = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "black"), rgba).convert("RGB")
    return image.convert("RGB")


def _with_exif(image: Image.Image, gray: NDArray[np.uint8]) -> Image.Image:
    converted = Image.fromarray(gray).convert("RGB")
    converted.info.update(image.info)
    return converted


def _decode(file: Path) -> Iterator[Image.Image]:
    return _decode_gif(file) if file.suffix.lower() == ".gif" else _decode_video(file)


def _decode_gif(file: Path) -> Iterator[Image.Image]:
    with decoding(file, "picture"), _open_image(file) as image:
        for frame in ImageSequence.Iterator(image):
            yield _to_rgb(file, frame)


def _decode_video(file: Path) -> Iterator[Image.Image]:
    try:
        import av
    except ImportError:
        raise MissingDependencyError(f"reading {file} needs PyAV: pip install 'diskoop[video]'") from None
    packets, seconds, frames = 0, 0.0, 0
    with decoding(file, "video"), av.open(str(file), options={"format_whitelist": CONTAINERS}) as container:
        if not container.streams.video:
            raise InputError(f"{file} holds no moving picture; leave it out or make it again")
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        declared, duration = stream.frames, _duration(container, stream)
        for packet in container.demux(stream):
            packets += bool(packet.size)
            for frame in packet.decode():
                frames += 1
                seconds = frame.time or 0.0
                image: Image.Image = frame.to_image()  # type: ignore[no-untyped-call]
                yield image.rotate(frame.rotation, expand=True) if frame.rotation else image
    # Packets, not frames: a trimmed video has some that are not shown. A file without a count is checked by its time.
    tail = 2 * seconds / max(frames - 1, 1)
    if packets < declared - 1 or (not declared and frames > 1 and seconds + tail < 0.9 * duration):
        actual = f"{packets} of {declared} frames" if declared else f"{seconds:.1f} of {duration:.1f} s"
        raise InputError(f"{file} is cut off: it ends after {actual}; make it again")


def _duration(container: Any, stream: Any) -> float:
    """Declared duration of the picture in seconds, 0 if unknown: the container's own may be that of its audio."""
    if stream.duration:
        return float(stream.duration * stream.time_base)
    if match := re.fullmatch(r"(\d+):(\d+):([\d.]+)", stream.metadata.get("DURATION", "")):
        return int(match[1]) * 3600 + int(match[2]) * 60 + float(match[3])
    return float(container.duration or 0) / 1e6 if len(container.streams) == 1 else 0.0
