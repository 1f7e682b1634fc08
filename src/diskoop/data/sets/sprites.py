"""the paper's Sprites: composed from the published layer sheets, or read from the published arrays"""

import sys
from hashlib import sha256
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from diskoop.data.cache import Advance, cached_array, digest, find_cached, load_mmap
from diskoop.data.clips import decoding
from diskoop.data.sequences import Sequences
from diskoop.data.splits import split_groups
from diskoop.errors import InputError
from diskoop.settings import DataSettings
from diskoop.storage import cache_folder, write_text

SOURCE = (
    "the sheets are those of the Liberated Pixel Cup (lpc.opengameart.org), published for Sprites at "
    "github.com/YingzhenLi/Sprites under CC-BY-SA 3.0 or GPL 3.0"
)
KINDS = 6  # of each layer, files 0 to 5
LAYERS = {"skin": "body", "pants": "bottomwear", "top": "topwear", "hair": "hair"}  # label -> folder, bottom first
SHOES = Path("shoes") / "1.png"  # the same for all, above the other layers
CELL, COLUMNS, FRAMES = 64, 13, 8
MOTIONS = {  # name -> order of frames, first cell by direction
    "walk": ((7, 0, 1, 2, 3, 4, 5, 6), {"front": 131, "left": 118, "right": 144}),
    "spellcard": ((0, 1, 2, 3, 4, 5, 4, 6), {"front": 26, "left": 13, "right": 39}),
    "slash": ((0, 1, 2, 3, 4, 5, 4, 0), {"front": 182, "left": 169, "right": 195}),
}
ACTIONS = tuple(f"{motion} {direction}" for motion, (_, cells) in MOTIONS.items() for direction in cells)
CHARACTERS, TRAIN = KINDS ** len(LAYERS), 1000
SHAPE = (CHARACTERS * len(ACTIONS), FRAMES, 3, CELL, CELL)

Pixels = NDArray[np.uint8]


def load(settings: DataSettings) -> Sequences:
    """All 11,664 clips, character by character (skin the slowest, then pants, top, hair), nine actions of each.

    The published split: 1000 characters to train on, of which `data.val_fraction` validates, and 296 to test.
    """
    if settings.size not in (None, CELL, CELL // 2):
        raise InputError(f"sprites have {CELL} pixels, or {CELL // 2}, got data.size = {settings.size}")
    x = _load_frames(settings.path)
    if settings.size == CELL // 2:
        x = _downsample(x)
    character = np.arange(CHARACTERS).repeat(len(ACTIONS))
    digits = np.unravel_index(character, (KINDS,) * len(LAYERS))
    labels = dict(zip(LAYERS, digits, strict=True)) | {"action": np.tile(np.arange(len(ACTIONS)), CHARACTERS)}
    values = {label: tuple(map(str, range(KINDS))) for label in LAYERS} | {"action": ACTIONS}
    published = np.where(np.isin(character, _published_order()[:TRAIN]), 0, 2).astype(np.int8)
    split_codes = split_groups(character, settings.val_fraction, given=published)
    return Sequences.of(x, labels, values=values, name="sprites", split_codes=split_codes)


def _published_order() -> NDArray[np.int64]:
    return np.random.RandomState(423).permutation(CHARACTERS)


def _load_frames(path: str | None) -> Pixels:
    """The clips from the folder `path`, or without one, as they were last composed."""
    last = cache_folder() / "sprites.txt"  # the key of what was composed last, so that the folder is given once only
    if path is None:
        composed = find_cached("sprites", last.read_text(encoding="utf-8")) if last.exists() else None
        if composed is None:
            raise InputError(
                f"sprites are made from their layer sheets: diskoop data sprites --sheets FOLDER, or data.path=FOLDER; "
                f"{SOURCE}"
            )
        return composed[0]
    folder = Path(path).expanduser()
    if not folder.is_dir():
        raise InputError(f"there is no folder {path!r} with the sheets of sprites; {SOURCE}")
    arrays = folder / "npy" if (folder / "npy").is_dir() else folder
    if any(arrays.glob("*_frames_train.npy")):
        files = sorted(arrays.glob("*.npy"))
        key = digest(
            sys.modules[__name__],
            [(str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in files],
        )
        x = cached_array("sprites", key, SHAPE, lambda out, advance: _copy_arrays(arrays, out, advance))
    else:
        sheets = _read_sheets(folder)
        key = digest(
            sys.modules[__name__], [sha256(sheet.tobytes()).hexdigest() for layer in sheets for sheet in layer]
        )
        x = cached_array("sprites", key, SHAPE, lambda out, advance: _compose(sheets, out, advance))
    write_text(last, key)
    return x


def _downsample(x: Pixels) -> Pixels:
    """Half the size, by the mean of 2 x 2 pixels."""
    composed = Path(x.filename).parent.name  # type: ignore[attr-defined]  # a memory map knows its file
    key = composed.removeprefix("sprites-")

    def halve(out: Pixels, advance: Advance) -> None:
        for begin in range(0, len(x), 256):
            block = x[begin : begin + 256].astype(np.uint16)
            sums = block[..., 0::2, 0::2] + block[..., 0::2, 1::2] + block[..., 1::2, 0::2] + block[..., 1::2, 1::2]
            out[begin : begin + 256] = (sums + 2) // 4
            advance(len(block))

    return cached_array(f"sprites-{CELL // 2}", key, (*x.shape[:3], CELL // 2, CELL // 2), halve)


def _read_sheets(folder: Path) -> list[list[Pixels]]:
    """The sheets of each layer, (height, width, 4), the shoes last."""
    wanted = [[folder / layer / f"{kind}.png" for kind in range(KINDS)] for layer in LAYERS.values()]
    return [[_read_sheet(path) for path in layer] for layer in [*wanted, [folder / SHOES]]]


def _read_sheet(path: Path) -> Pixels:
    if not path.exists():
        raise InputError(f"{path} is missing from the sheets of sprites; {SOURCE}")
    with decoding(path, "picture"), Image.open(path) as image:
        sheet = np.asarray(image.convert("RGBA"))
    last = 1 + max(first + max(order) for order, cells in MOTIONS.values() for first in cells.values())
    rows = -(-last // COLUMNS)
    if sheet.shape[0] < rows * CELL or sheet.shape[1] < COLUMNS * CELL:
        raise InputError(
            f"{path} has {sheet.shape[1]} x {sheet.shape[0]} pixels, wanted a sheet of {COLUMNS} columns and at least "
            f"{rows} rows of {CELL} x {CELL} cells"
        )
    return sheet


def _compose(sheets: list[list[Pixels]], out: Pixels, advance: Advance) -> None:
    """Composite every combination of layers over black, one frame of one action at a time."""
    clips = out.reshape(CHARACTERS, len(ACTIONS), *SHAPE[1:])
    cells = [first + step for order, begins in MOTIONS.values() for first in begins.values() for step in order]
    for frame, cell in enumerate(cells):
        top, left = CELL * (cell // COLUMNS), CELL * (cell % COLUMNS)
        picture = np.zeros((1, 3, CELL, CELL), np.uint8)
        for layer in sheets:
            tiles = np.stack([sheet[top : top + CELL, left : left + CELL] for sheet in layer])
            picture = _composite(picture, np.moveaxis(tiles, -1, 1))
        clips[:, frame // FRAMES, frame % FRAMES] = picture
        advance(CHARACTERS // FRAMES)


def _composite(below: Pixels, tiles: Pixels) -> Pixels:
    """Each of `tiles` (m, 4, size, size) over each of `below` (n, 3, size, size): (n * m, 3, size, size)."""
    color, alpha = tiles[:, :3], tiles[:, 3:]
    picture = np.where(alpha == 255, color, below[:, None])  # (n, m, 3, size, size)
    rows, columns = np.nonzero(
        ((alpha > 0) & (alpha < 255)).any((0, 1))
    )  # the few translucent pixels, blended with rounding
    weight = alpha[..., rows, columns].astype(np.int64)
    blended = weight * color[..., rows, columns] + (255 - weight) * below[:, None][..., rows, columns]
    picture[..., rows, columns] = (blended + 127) // 255
    return picture.reshape(-1, 3, *picture.shape[3:])


def _copy_arrays(folder: Path, out: Pixels, advance: Advance) -> None:
    """The published `{motion}_{direction}_frames_{split}.npy` (n, 8, 64, 64, 3), in the order of their attributes."""
    clips = out.reshape(CHARACTERS, len(ACTIONS), *SHAPE[1:])
    for (action, name), split in product(enumerate(ACTIONS), ("train", "test")):
        prefix = name.replace(" ", "_")
        path = folder / f"{prefix}_frames_{split}.npy"
        frames = _load_published(path)
        if frames.shape[1:] != (FRAMES, CELL, CELL, 3):
            raise InputError(f"{path} has shape {frames.shape}, wanted (n, {FRAMES}, {CELL}, {CELL}, 3)")
        characters = _characters(folder / f"{prefix}_attributes_{split}.npy", len(frames))
        if not np.array_equal(np.sort(characters), np.sort(_split_characters(split))):
            raise InputError(f"{path} does not hold the {len(_split_characters(split))} characters of its split")
        for character, clip in zip(characters, frames, strict=True):
            pixels = clip if clip.dtype == np.uint8 else np.rint(255 * np.clip(clip, 0, 1))
            clips[character, action] = np.moveaxis(pixels, -1, 1)
        advance(len(frames))


def _split_characters(split: str) -> NDArray[np.int64]:
    return _published_order()[:TRAIN] if split == "train" else _published_order()[TRAIN:]


def _characters(path: Path, count: int) -> NDArray[np.int64]:
    """One-hot attributes (n, 4, 6), or the same for every frame (n, 8, 4, 6) -> the index of each character."""
    attributes = _load_published(path)
    attributes = attributes[:, 0] if attributes.ndim == 4 else attributes
    if attributes.shape != (count, len(LAYERS), KINDS) or not (np.sum(attributes, -1) == 1).all():
        raise InputError(f"{path} has shape {attributes.shape}, wanted one-hot ({count}, {len(LAYERS)}, {KINDS})")
    characters: NDArray[np.int64] = np.ravel_multi_index(tuple(attributes.argmax(-1).T), (KINDS,) * len(LAYERS))
    return characters


def _load_published(path: Path) -> NDArray[np.generic]:
    if not path.exists():
        raise InputError(f"{path} is missing from the published arrays of sprites")
    with decoding(path, "array"):
        return load_mmap(path)
