"""The user's own files, damaged and invented."""

import io
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st
from PIL import Image

from diskoop.data import data_settings, open_data
from diskoop.workflows.describe import describe_data
from tests.fuzz.inputs import COUNTS, damaged, fuzz
from tests.helpers.media import moving_square, tone, write_csv, write_film, write_frames, write_sound

WALKS = np.random.default_rng(0).standard_normal((8, 10, 3)).cumsum(1).astype(np.float32)
COLUMNS: dict[str, Any] = {
    "id": np.repeat(np.arange(8), 10),
    "time": np.tile(np.arange(10), 8),
    "word": ["up", "down"] * 40,
    **{name: WALKS[..., n].reshape(-1).round(3) for n, name in enumerate("abc")},
}


def write_clips(write: Callable[[Path, int], object], suffix: str) -> Callable[[Path], Path]:
    """A function that fills a folder with clips 0 to 5 and returns the file that is to be damaged."""

    def fill(folder: Path) -> Path:
        for clip in range(6):
            write(folder / f"{clip}{suffix}", clip)
        return folder / f"3{suffix}"

    return fill


def sound(path: Path, clip: int) -> None:
    write_sound(path, tone(0.1, 200 + 40 * clip))


def film(path: Path, clip: int) -> None:
    write_film(path, moving_square(6, 32, 32, clip % 3))


def frames(suffix: str) -> Callable[[Path], Path]:
    def fill(folder: Path) -> Path:
        for clip in range(4):
            write_frames(folder / f"clip-{clip}", moving_square(4, 32, 32, clip % 3), suffix)
        return folder / "clip-2" / f"1{suffix}"

    return fill


def strip(path: Path, clip: int) -> None:
    Image.fromarray(np.concatenate(moving_square(4, 32, 32, clip % 3), 1)).save(path)


def arrays(folder: Path) -> Path:
    np.savez(folder / "x.npz", x=WALKS, who=np.arange(8) % 2)
    return folder / "x.npz"


def hdf5(folder: Path) -> Path:
    with h5py.File(folder / "x.h5", "w") as file:
        file["x"], file["who"] = WALKS, np.arange(8) % 2
    return folder / "x.h5"


def parquet(folder: Path) -> Path:
    pq.write_table(pa.table(COLUMNS), folder / "x.parquet")
    return folder / "x.parquet"


def labels(folder: Path) -> Path:
    write_clips(lambda path, clip: np.save(path, WALKS[clip]), ".npy")(folder)
    return write_csv(folder / "labels.csv", {"file": [f"{n}.npy" for n in range(6)], "who": ["a", "b"] * 3})


# Kind -> fills a folder and says which file is damaged; whether then the folder is read, or that file.
KINDS: dict[str, tuple[Callable[[Path], Path], bool]] = {
    "npy": (write_clips(lambda path, clip: np.save(path, WALKS[clip]), ".npy"), True),
    "npz": (arrays, False),
    "hdf5": (hdf5, False),
    "png": (frames(".png"), True),
    "jpeg": (frames(".jpg"), True),
    "strip": (write_clips(strip, ".png"), True),
    "gif": (write_clips(film, ".gif"), True),
    "mp4": (write_clips(film, ".mp4"), True),
    "wav": (write_clips(sound, ".wav"), True),
    "flac": (write_clips(sound, ".flac"), True),
    "ogg": (write_clips(sound, ".ogg"), True),
    "csv": (lambda folder: write_csv(folder / "x.csv", COLUMNS), False),
    "parquet": (parquet, False),
    "labels": (labels, True),
}
DTYPES = st.sampled_from(
    ["<f4", "<f8", "|u1", "<i8", ">i2", "<c8", "|b1", "<U4", "|O", "|S3", "<M8[s]", "|V4", "f", "", "<f99"]
)
SHAPES = (
    st.lists(st.integers(-2, 9) | st.sampled_from([2**31, 2**62, 0]), max_size=5).map(tuple) | st.none() | st.integers()
)
CELLS = st.sampled_from(
    ["1", "-2.5", "nan", "", "inf", "1e999", "2020-01-01", "yes", '"', "a,b", " ", "1,5", "\ufeff", "0x1"]
)
TABLES = st.tuples(
    st.sampled_from([",", ";", "\t", "|", " "]),
    st.lists(st.lists(CELLS | st.text(max_size=5), max_size=5), max_size=12),
)


@st.composite
def npy_file(draw: st.DrawFn) -> bytes:
    """A `.npy` file with any header before some bytes."""
    header = {"descr": draw(DTYPES), "fortran_order": draw(st.booleans() | st.none()), "shape": draw(SHAPES)}
    text = draw(st.sampled_from([repr(header), repr(header)[:-1], f"{header!r} and", ""])).encode() + b"\n"
    version = draw(st.sampled_from([b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x00"]))
    size = len(text).to_bytes(2 if version[0] == 1 else 4, "little")
    return b"\x93NUMPY" + version + size + text + bytes(draw(st.sampled_from([0, 7, 64, 960])))


def read(path: Path, cache: Path) -> None:
    """What `diskoop data PATH data.strip=auto` reads, with nothing in the cache."""
    strip = "auto" if path.is_dir() and list(path.glob("*.png")) else None
    try:
        describe_data(open_data(data_settings(str(path), strip=strip)))
    finally:
        shutil.rmtree(cache, ignore_errors=True)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files(kind: str, count: int, tmp_path: Path) -> None:
    fill, whole_folder = KINDS[kind]
    (tmp_path / "own").mkdir()
    file = fill(tmp_path / "own")
    original = file.read_bytes()
    read(tmp_path / "own" if whole_folder else file, tmp_path / "cache")  # undamaged it can be read

    def use(content: bytes) -> None:
        file.write_bytes(content)
        read(tmp_path / "own" if whole_folder else file, tmp_path / "cache")

    fuzz(count, damaged(original), use, tmp_path)


@pytest.mark.parametrize("count", COUNTS)
def test_invented_arrays(count: int, tmp_path: Path) -> None:
    def use(content: bytes) -> None:
        (tmp_path / "x.npy").write_bytes(content)
        read(tmp_path / "x.npy", tmp_path / "cache")

    fuzz(count, npy_file(), use, tmp_path)


@pytest.mark.parametrize("count", COUNTS)
def test_invented_tables(count: int, tmp_path: Path) -> None:
    def use(table: tuple[str, list[list[str]]]) -> None:
        delimiter, rows = table
        text = io.StringIO("\n".join(delimiter.join(row) for row in rows)).getvalue()
        (tmp_path / "x.csv").write_bytes(text.encode(errors="replace"))
        read(tmp_path / "x.csv", tmp_path / "cache")

    fuzz(count, TABLES, use, tmp_path)
