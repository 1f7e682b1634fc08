"""videos and folders of frames -> square RGB frames"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, ImageSequence

from diskoop.data.clips import Blocks, Clip, decoding
from diskoop.errors import InputError

VIDEO_SUFFIXES = (".mp4", ".avi", ".webm", ".mov", ".mkv", ".m4v", ".gif")
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp", ".pgm", ".ppm")
AT_ONCE = 64  # frames


def video_clips(root: Path, files: Sequence[Path], size: int, every: int) -> list[Clip]:
    """A clip for each file."""
    return [
        Clip(file.relative_to(root).as_posix(), lambda file=file: _blocks(_video(file), size, every))  # type: ignore[misc]
        for file in files
    ]


def frame_folder_clips(root: Path, files: Sequence[Path], size: int, every: int) -> list[Clip]:
    """A clip for each folder with images, which come in natural order."""
    folders: dict[Path, list[Path]] = {}
    for file in files:
        folders.setdefault(file.parent, []).append(file)
    return [
        Clip(
            root.name if folder == root else folder.relative_to(root).as_posix(),
            lambda images=images: _blocks(map(read_image, images), size, every),  # type: ignore[misc]
        )
        for folder, images in folders.items()
    ]


def _blocks(images: Iterator[Image.Image], size: int, every: int) -> Blocks:
    some: list[NDArray[np.uint8]] = []
    for number, image in enumerate(images):
        if number % every:
            continue
        some.append(np.moveaxis(np.asarray(square(image, size)), -1, 0))
        if len(some) == AT_ONCE:
            yield np.stack(some)
            some = []
    if some:
        yield np.stack(some)


def square(image: Image.Image, size: int) -> Image.Image:
    """The middle of an RGB image, as large as fits, at `size` x `size` pixels."""
    return image if image.size == (size, size) else ImageOps.fit(image, (size, size), Image.Resampling.LANCZOS)


def read_image(file: Path) -> Image.Image:
    """An image of 8 or 16 bits, or of fractions from 0 to 1, as 8-bit RGB."""
    with decoding(file, "picture"), Image.open(file) as image:
        image.load()
        return _rgb(file, image)


def _rgb(file: Path, image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):  # 16 bits, which Pillow may hold in 32
        values = np.asarray(image)
        if values.min() < 0 or values.max() > 65535:
            raise InputError(f"{file} has values from {values.min()} to {values.max()}, wanted 8 or 16 bits")
        return Image.fromarray((values // 257).astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        values = np.asarray(image)
        if not (values.min() >= 0 and values.max() <= 1):  # nor NaN
            raise InputError(f"{file} has fractions from {values.min():.4g} to {values.max():.4g}, wanted 0 to 1")
        return Image.fromarray(np.rint(values * 255).astype(np.uint8)).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        see_through = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "black"), see_through).convert("RGB")
    return image.convert("RGB")


def _video(file: Path) -> Iterator[Image.Image]:
    return _animation(file) if file.suffix.lower() == ".gif" else _film(file)


def _animation(file: Path) -> Iterator[Image.Image]:
    with decoding(file, "picture"), Image.open(file) as image:
        for frame in ImageSequence.Iterator(image):
            yield _rgb(file, frame)


def _film(file: Path) -> Iterator[Image.Image]:
    try:
        import av
    except ImportError:
        raise InputError(f"reading {file} takes PyAV: pip install 'diskoop[video]'") from None
    count, seconds = 0, 0.0
    with decoding(file, "video"), av.open(str(file)) as container:
        if not container.streams.video:
            raise InputError(f"{file} holds no moving picture; leave it out or make it again")
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        promised = stream.frames
        duration = float(container.duration or 0) / av.time_base
        for frame in container.decode(stream):
            count += 1
            seconds = frame.time or 0.0
            yield frame.to_image()  # type: ignore[no-untyped-call]
    # One frame less than promised is common; a file without a count is measured by its time.
    if count < promised - 1 or (not promised and count > 1 and (seconds + 2 * seconds / (count - 1)) < 0.9 * duration):
        there = f"{count} of {promised} frames" if promised else f"{seconds:.1f} of {duration:.1f} s"
        raise InputError(f"{file} is cut off: it ends after {there}; make it again")
