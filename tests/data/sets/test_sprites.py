"""Sprites from sheets made here, from the real ones where they are, and from arrays as they are published."""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from diskoop import load_data
from diskoop.data.sets import sprites
from diskoop.data.sets.sprites import _composite
from diskoop.errors import InputError
from tests.conftest import real_data

FACTORS = ("skin", "pants", "top", "hair")


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISKOOP_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def drawn_sheets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sheets whose pixels say what they are: each layer has a square of its own; its kind and cell are the colour."""
    root = tmp_path_factory.mktemp("sprites")
    cells = np.arange(21 * 13).reshape(21, 13)
    for layer, folder in enumerate([*sprites.LAYERS.values(), "shoes"]):
        (root / folder).mkdir(parents=True)
        for kind in range(6):
            sheet = np.zeros((21, 64, 13, 64, 4), np.uint8)
            square = sheet[:, 8 * layer : 8 * layer + 8]
            square[..., 0], square[..., 2], square[..., 3] = 10 * kind + 5, 100 + layer, 255
            square[..., 1] = (cells % 256)[:, None, :, None]
            Image.fromarray(sheet.reshape(21 * 64, 13 * 64, 4)).save(root / folder / f"{kind}.png", compress_level=1)
    return root


@pytest.fixture
def sheets(drawn_sheets: Path, tmp_path: Path) -> Path:
    """A copy of them, to be spoilt."""
    return shutil.copytree(drawn_sheets, tmp_path / "sheets")


@pytest.fixture(params=[2, pytest.param(6, marks=pytest.mark.long)])
def kinds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many kinds there are of each layer; all six make more than a gigabyte."""
    count = int(request.param)
    monkeypatch.setattr(sprites, "KINDS", count)
    monkeypatch.setattr(sprites, "CHARACTERS", count**4)
    monkeypatch.setattr(sprites, "SHAPE", (count**4 * 9, 8, 3, 64, 64))
    if count < 6:
        monkeypatch.setattr(sprites, "TRAIN", 12)
    return count


def test_each_clip_is_composed_of_its_layers_in_the_published_order(
    drawn_sheets: Path, own_cache: None, kinds: int
) -> None:
    clips = load_data("sprites", "all", path=str(drawn_sheets))
    assert clips.shape == (9 * kinds**4, 8, 3, 64, 64)
    random = np.random.Generator(np.random.PCG64(0))
    for index in random.integers(0, len(clips), 40):
        x = clips.read([int(index)])[0]
        for layer, factor in enumerate(FACTORS):
            assert (x[:, 0, 8 * layer : 8 * layer + 8] == 10 * clips.labels[factor][index] + 5).all()
        assert (x[:, 0, 32:40] == 15).all()  # everyone wears shoes 1
        assert (x[:, :, 40:] == 0).all()  # over black
        motion, direction = clips.values["action"][clips.labels["action"][index]].split()
        order, begins = sprites.MOTIONS[motion]
        assert x[:, 1, 0, 0].tolist() == [(begins[direction] + step) % 256 for step in order]
    assert isinstance(clips.frames, np.memmap)
    again = load_data("sprites", "test")  # the folder need not be named twice
    assert len(again) == (2664 if kinds == 6 else 4 * 9)
    half = load_data("sprites", "all", size=32)
    assert half.shape == (9 * kinds**4, 8, 3, 32, 32)
    assert np.array_equal(half.read([77])[0], clips.read([77])[0][..., ::2, ::2])  # even squares stay what they are


def test_the_published_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sprites, "_load_frames", lambda path: np.empty(sprites.SHAPE, np.uint8))  # never touched
    dataset = load_data("sprites", "all")
    assert dataset.shape == (11664, 8, 3, 64, 64)
    assert [dataset.split_size(split) for split in ("train", "val", "test")] == [8100, 900, 2664]
    paper = load_data("sprites", "all", val_fraction=0)
    assert [paper.split_size(split) for split in ("train", "val", "test")] == [9000, 0, 2664]
    order = np.random.RandomState(423).permutation(1296)
    expected = {tuple(np.unravel_index(character, (6, 6, 6, 6))) for character in order[:1000]}
    labels = paper.split("train").labels
    actual = {tuple(int(labels[factor][at]) for factor in FACTORS) for at in range(0, 9000, 9)}
    assert {tuple(map(int, character)) for character in expected} == actual
    who = {split: _characters(dataset.split(split).labels) for split in ("train", "val", "test")}
    assert not who["train"] & who["val"]
    assert not (who["train"] | who["val"]) & who["test"]
    actions = [np.bincount(dataset.split(split).labels["action"]) for split in ("train", "val", "test")]
    assert [part.tolist() for part in actions] == [[900] * 9, [100] * 9, [296] * 9]


def _characters(labels: Mapping[str, NDArray[np.int64]]) -> set[int]:
    return set(np.ravel_multi_index(tuple(labels[factor] for factor in FACTORS), (6, 6, 6, 6)).tolist())


def test_soft_pixels_are_mixed() -> None:
    random = np.random.Generator(np.random.PCG64(1))
    below = random.integers(0, 256, (3, 3, 64, 64), dtype=np.uint8)
    pieces = random.integers(0, 256, (2, 4, 64, 64), dtype=np.uint8)
    pieces[:, 3] = random.choice([0, 83, 230, 255], (2, 64, 64))
    laid = _composite(below, pieces).astype(float)
    for at in range(6):
        share = pieces[at % 2, 3] / 255
        exact = share * pieces[at % 2, :3] + (1 - share) * below[at // 2]
        assert np.abs(laid[at] - exact).max() <= 0.5 + 1e-9


def test_published_arrays_are_the_same_clips(drawn_sheets: Path, own_cache: None, tmp_path: Path, kinds: int) -> None:
    clips = load_data("sprites", "all", path=str(drawn_sheets), val_fraction=0)
    characters, train = sprites.CHARACTERS, sprites.TRAIN
    composed = np.asarray(clips.frames).reshape(characters, 9, 8, 3, 64, 64)
    (tmp_path / "published" / "npy").mkdir(parents=True)
    order = np.random.RandomState(423).permutation(characters)
    for action, name in enumerate(sprites.ACTIONS):
        for split, members in (("train", order[:train]), ("test", order[train:])):
            prefix = tmp_path / "published" / "npy" / name.replace(" ", "_")
            frames = np.moveaxis(composed[members, action], 2, -1)
            if action == 0:  # fractions in one, bytes in the others, so that the test stays small
                frames = frames.astype(np.float32) / 255
            np.save(f"{prefix}_frames_{split}.npy", frames)
            one_hot = np.eye(kinds)[np.stack(np.unravel_index(members, (kinds,) * 4), 1)]
            one_hot = np.repeat(one_hot[:, None], 8, 1) if action % 2 else one_hot
            np.save(f"{prefix}_attributes_{split}.npy", one_hot)
    read = load_data("sprites", "all", path=str(tmp_path / "published"), val_fraction=0)
    for begin in range(0, len(read.frames), 8 * 972):
        assert np.array_equal(read.frames[begin : begin + 8 * 972], clips.frames[begin : begin + 8 * 972])
    assert np.array_equal(read.split_codes, clips.split_codes)  # type: ignore[arg-type]
    count = characters - train
    broken = tmp_path / "published" / "npy" / "walk_left_frames_test.npy"
    np.save(broken, np.zeros((count, 7, 64, 64, 3), np.uint8))
    with pytest.raises(InputError, match=rf"_test\.npy has shape \({count}, 7, 64, 64, 3\), wanted \(n, 8, 64"):
        load_data("sprites", path=str(tmp_path / "published"))
    broken.unlink()
    with pytest.raises(InputError, match=r"walk_left_frames_test\.npy is missing"):
        load_data("sprites", path=str(tmp_path / "published"))


def test_what_is_missing_is_named_with_its_source(sheets: Path, own_cache: None, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--sheets FOLDER.*Liberated Pixel Cup.*CC-BY-SA 3\.0 or GPL 3\.0"):
        load_data("sprites")
    with pytest.raises(InputError, match=r"there is no folder 'nowhere' with the sheets.*Liberated Pixel Cup"):
        load_data("sprites", path="nowhere")
    (sheets / "hair" / "3.png").write_bytes(b"no picture")
    with pytest.raises(InputError, match=r"hair/3\.png is damaged or no picture"):
        load_data("sprites", path=str(sheets))
    Image.new("RGBA", (832, 640)).save(sheets / "hair" / "3.png")
    with pytest.raises(InputError, match=r"3\.png has 832 x 640 pixels, wanted a sheet of 13 columns"):
        load_data("sprites", path=str(sheets))
    (sheets / "hair" / "3.png").unlink()
    with pytest.raises(InputError, match=r"hair/3\.png is missing"):
        load_data("sprites", path=str(sheets))
    with pytest.raises(InputError, match=r"sprites have 64 pixels, or 32, got data\.size = 128"):
        load_data("sprites", path=str(sheets), size=128)
    assert not list((tmp_path / "cache").glob("*")) if (tmp_path / "cache").exists() else True


def test_the_real_sheets(own_cache: None, tmp_path: Path) -> None:
    """The command line, as a person would use it; composed pixels agree with Pillow's own compositing."""
    folder = real_data("sprites")
    command = [sys.executable, "-m", "diskoop", "data", "sprites", "--sheets", str(folder), "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True)
    assert '"sequences": {"train": 8100, "val": 900, "test": 2664, "all": 11664}' in done.stdout
    clips = load_data("sprites", "test")
    for index in (0, 1000, 2663):
        motion, direction = clips.values["action"][clips.labels["action"][index]].split()
        order, begins = sprites.MOTIONS[motion]
        cell = begins[direction] + order[5]
        box = (64 * (cell % 13), 64 * (cell // 13), 64 * (cell % 13) + 64, 64 * (cell // 13) + 64)
        files = [folder / sprites.LAYERS[f] / f"{clips.labels[f][index]}.png" for f in FACTORS]
        picture = Image.new("RGBA", (64, 64), "black")
        for file in [*files, folder / "shoes" / "1.png"]:
            picture = Image.alpha_composite(picture, Image.open(file).convert("RGBA").crop(box))
        difference = np.moveaxis(clips.read([index])[0][5], 0, -1).astype(int) - np.asarray(picture)[..., :3]
        assert np.abs(difference).max() <= 1
