"""MUG's layout with real faces: one box a take, faces where they should be, every fault named."""

import shutil
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from skimage import data

from diskoop import Sequences, load_data
from diskoop.data.sets.mug import EXPRESSIONS, _load_detector
from diskoop.errors import InputError

FACES = (data.lfw_subset()[:100] * 255).astype(np.uint8)  # type: ignore[no-untyped-call]  # faces, 25 x 25


def scene(face: NDArray[np.uint8], left: int, upper: int) -> Image.Image:
    """A face of 200 pixels somewhere in a larger, plain picture."""
    picture = Image.new("L", (420, 340), 90)
    picture.paste(Image.fromarray(face).resize((200, 200), Image.Resampling.LANCZOS), (left, upper))
    return picture


@pytest.fixture(scope="module")
def people() -> list[NDArray[np.uint8]]:
    """Two faces that the cascade detects."""
    detect = _load_detector()
    return list(islice((face for face in FACES if detect(scene(face, 100, 70).convert("RGB")) is not None), 2))


def write_take(folder: Path, face: NDArray[np.uint8] | None, frames: int = 20, drift: int = 1) -> None:
    folder.mkdir(parents=True)
    for number in range(frames):
        image = scene(face, 100 + drift * (number % 3), 70) if face is not None else Image.new("L", (420, 340), 90)
        image.save(folder / f"img_{number:04d}.jpg", quality=95)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory, people: list[NDArray[np.uint8]]) -> Path:
    """Two people, two expressions, three takes each, below a folder of the published kind; and what else lies there.

    A test that changes some takes copies them first.
    """
    root = tmp_path_factory.mktemp("mug")
    for person in range(2):
        for expression in ("anger", "Happiness"):
            for take in range(3):
                write_take(root / "subjects3" / f"{person + 1:03d}" / expression / f"take{take:03d}", people[person])
    write_take(root / "subjects3" / "001" / "neutral" / "take000", people[0], frames=2)
    (root / "subjects3" / "readme.txt").write_text("hello")
    return root


@pytest.fixture(scope="module")
def clips(tree: Path, cache: Path) -> Sequences:
    return load_data("mug", "all", path=str(tree))


@pytest.fixture
def angry(tree: Path, tmp_path: Path) -> Path:
    """A copy of the second person's three takes of anger."""
    shutil.copytree(tree / "subjects3" / "002" / "anger", tmp_path / "copy" / "subjects3" / "002" / "anger")
    return tmp_path / "copy"


def at(clips: Sequences, take: str) -> int:
    return next(index for index in range(len(clips)) if clips.clip_name(index).endswith(take))


def test_takes_become_fifteen_cropped_frames(clips: Sequences, tree: Path) -> None:
    assert clips.shape == (12, 15, 3, 64, 64)
    assert clips.values == {"subject": ("001", "002"), "expression": ("anger", "happiness")}
    assert [clips.split_size(split) for split in ("train", "val", "test")] == [8, 1, 3]  # of 75 / 25
    paper = load_data("mug", "all", path=str(tree), val_fraction=0)
    assert [paper.split_size(split) for split in ("train", "val", "test")] == [9, 0, 3]
    assert clips.notes == ("ignored: 2 images of neutral, none of the six expressions",)
    faces = clips.x.mean(2).reshape(12, 15, -1)
    for person in range(2):
        mine, other = (faces[clips.labels["subject"] == who].mean((0, 1)) for who in (person, 1 - person))
        for clip in faces[clips.labels["subject"] == person]:
            assert np.corrcoef(clip.mean(0), mine)[0, 1] > np.corrcoef(clip.mean(0), other)[0, 1] + 0.1
    # The box stands still while the face drifts by two pixels of the picture, less than one of the crop.
    assert np.abs(np.diff(clips.x.astype(float), axis=1)).mean() < 12
    assert clips.x[:, :, :, 32, 32].std() > 1


def test_the_draw_of_frames_is_a_takes_own(clips: Sequences, angry: Path) -> None:
    few = load_data("mug", "all", path=str(angry / "subjects3"))
    for index in range(3):  # wherever the takes lie and whichever others there are
        same = at(clips, "/".join(few.clip_name(index).split("/")[-3:]))
        assert np.array_equal(few.read([index]), clips.read([same]))
    assert not np.array_equal(clips.read([0]), clips.read([1]))  # and others draw other frames


def test_one_frame_does_not_move_the_box(clips: Sequences, angry: Path, people: list[NDArray[np.uint8]]) -> None:
    """The face jumps aside in the first frames; the box stays with the others."""
    folder = angry / "subjects3" / "002" / "anger" / "take001"
    for number in range(4):
        scene(people[1], 200, 70).save(folder / f"img_{number:04d}.jpg", quality=95)
    jumping = load_data("mug", "all", path=str(angry))
    (one,), (other,) = (each.read([at(each, "002/anger/take001")]) for each in (jumping, clips))
    difference = np.abs(one.astype(int) - other).mean((1, 2, 3))
    assert (difference > 10).any()  # a frame that jumped is among the fifteen
    assert np.median(difference) < 3


def test_frames_without_a_face_are_reported_and_cropped_like_the_others(angry: Path) -> None:
    folder = angry / "subjects3" / "002" / "anger" / "take001"
    for number in range(0, 20, 2):
        Image.new("L", (420, 340), 90).save(folder / f"img_{number:04d}.jpg")
    clips = load_data("mug", "all", path=str(angry))
    assert len(clips) == 3
    (note,) = [note for note in clips.notes if "no face" in note]
    assert note.startswith("subjects3/002/anger/take001: no face in img_00")
    assert note.endswith("cropped where the others have it")
    missing = note.split(" in ")[1].split(", cropped")[0].split(", ")
    blank = [frame.std() < 1 for frame in clips.read([at(clips, "002/anger/take001")])[0]]
    assert sum(blank) == len(missing)


def test_faults_are_named_or_skipped(angry: Path, tmp_path: Path) -> None:
    write_take(angry / "subjects3" / "002" / "fear" / "take000", None)
    with pytest.raises(InputError, match=r"002/fear/take000: no face in any of 15 frames; look at img_.*\(--skip-bad"):
        load_data("mug", path=str(angry))
    write_take(angry / "subjects3" / "001" / "fear" / "take000", FACES[0], frames=9)
    clips = load_data("mug", "all", path=str(angry), skip_bad=True)
    assert len(clips) == 3
    assert any("001/fear/take000 has 9 frames, wanted 15 at least" in note for note in clips.notes)
    assert any("002/fear/take000: no face" in note for note in clips.notes)
    with pytest.raises(InputError, match=r"data\.path=FOLDER; MUG is given to researchers.*data\.name=faces"):
        load_data("mug")
    with pytest.raises(InputError, match="there is no folder 'nowhere' with the takes of mug"):
        load_data("mug", path="nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=rf"holds no takes of mug, wanted folders such as 001.*{EXPRESSIONS[-1]}"):
        load_data("mug", path=str(tmp_path / "empty"))
    with pytest.raises(InputError, match=r"data\.window = 5 means nothing for mug"):
        load_data("mug", path=str(angry), window=5)
