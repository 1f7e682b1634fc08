"""`diskoop data`: facts and previews of good data, one sentence about bad data."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.helpers.cli import answer, diskoop
from tests.helpers.media import moving_square, tone, write_csv, write_film, write_frames, write_sound


def test_data_describes_and_draws(tmp_path: Path) -> None:
    facts = answer("data", "oscillators", cwd=tmp_path)
    assert facts["sequences"] == {"train": 1620, "val": 180, "test": 400, "all": 2200}
    assert facts["shape"] == [24, 8]
    assert list(facts["labels"]["mark"]) == ["red", "green", "blue"]
    assert sum(sum(counts) for counts in facts["labels"]["mark"].values()) == 2200
    assert (tmp_path / facts["preview"][0]).read_bytes().startswith(b"\x89PNG")
    text = diskoop("data", "oscillators", "--out", "other.png", "--count", "1", cwd=tmp_path).stdout
    assert re.search(r"  mark: red \(\d+ \+ \d+ \+ \d+\), green \(.*\), blue \(.*\)\n", text)
    assert (tmp_path / "other.png").exists()
    assert answer("data", "oscillators", "--count", "1", cwd=tmp_path)["preview"] != facts["preview"]


@pytest.fixture(scope="module")
def user_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of files as users have them, some of them broken."""
    root = tmp_path_factory.mktemp("files")
    (root / "empty").mkdir()
    for number in range(4):
        write_film(root / "films" / f"{number}.mp4", moving_square(12))
        write_frames(root / "images" / str(number), moving_square(4))
        write_sound(root / "sounds" / f"{number}.wav", tone(0.3))
        write_csv(root / "tables" / f"{number}.csv", {"a": range(9), "b": range(9)})
    noise = np.random.Generator(np.random.PCG64(0)).integers(0, 255, (50, 48, 64, 3), dtype=np.uint8)
    content = write_film(root / "films" / "cut.mp4", noise).read_bytes()
    (root / "films" / "cut.mp4").write_bytes(content[: len(content) // 2])
    (root / "images" / "2" / "1.png").write_bytes(b"\x89PNG and then nothing")
    (root / "sounds" / "song.mp3").write_text("la la la")
    write_csv(root / "tables" / "4.csv", {"a": [1, "inf", 3], "b": range(3)})
    write_frames(root / "still" / "0", moving_square(1))
    write_frames(root / "float" / "0", moving_square(4))
    Image.fromarray(np.full((8, 8), 300.0, np.float32)).save(root / "float" / "0" / "5.tiff")
    (root / "mixed").mkdir()
    np.save(root / "mixed" / "0.npy", np.zeros((5, 3)))
    np.save(root / "mixed" / "1.npy", np.zeros((5, 4)))
    np.save(root / "nan.npy", np.full((5, 4, 3), np.nan))
    np.save(root / "flat.npy", np.zeros((5, 32, 32), np.uint8))
    np.save(root / "pickled.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.save(root / "good.npy", np.random.Generator(np.random.PCG64(0)).normal(size=(20, 6, 3)))
    write_csv(root / "few.csv", {"kind": "ab"})
    write_csv(root / "many.csv", {"kind": "ab" * 20})
    return root


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["empty"], "empty holds nothing, wanted videos"),
        (["."], "point data.path at a folder that holds one kind"),
        (["films"], "cut.mp4 is damaged or no video"),
        (["images"], "images/2/1.png is damaged or no picture"),
        (["sounds"], "song.mp3 is no recording: it begins with b'la la la'"),
        (["tables"], "4.csv holds NaN or infinity"),
        (["still"], "0 has 1 frame: dynamics need at least 2"),
        (["float"], "5.tiff has fractions from 300 to 300, wanted 0 to 1"),
        (["mixed"], "1.npy has frames of shape (4,) where mixed/0.npy has (3,): all must have one shape"),
        (["nan.npy"], "nan.npy: sequence 0 holds NaN or infinity"),
        (["flat.npy"], "which looks like images: video is (n, time, channel, height, width)"),
        (["pickled.npy"], "pickled.npy holds Python objects, not numbers"),
        (["nowhere.npy"], "there is no file or folder"),
        (["nowhere/"], "there is no file or folder"),
        (["good.npy", "--labels", "few.csv"], "few.csv has 2 rows of labels for 20 sequences"),
        (["good.npy", "--labels", "many.csv"], "many.csv has 40 rows of labels for 20 sequences"),
        (["good.npy", "--labels", "none.csv"], "there is no file 'none.csv' with labels"),
        (["good.npy", "data.windw=3"], "unknown setting 'data.windw'; did you mean 'data.window'?"),
        (["good.npy", "model.k=3"], "model.k is no setting of data"),
        (["good.npy", "data.labels="], "data.labels is empty; give it a value, or null"),
        (["puppets", "--sheets", "films"], "--sheets names the layer sheets of sprites, got it for 'puppets'"),
        (["sprites"], "under CC-BY-SA 3.0 or GPL 3.0"),
    ],
)
def test_bad_data_is_one_sentence_for_data_and_for_train(words: list[str], sentence: str, user_files: Path) -> None:
    before = sorted(path.name for path in user_files.iterdir())
    result = diskoop("data", *words, cwd=user_files)
    assert result.returncode == 2, result.stderr
    message = " ".join(result.stderr.split())
    assert sentence in message
    assert message.startswith("diskoop: ")
    assert "Traceback" not in result.stderr
    assert sorted(path.name for path in user_files.iterdir()) == before
    if words in (["films"], ["nan.npy"], ["mixed"], ["nowhere/"]):
        trained = diskoop("train", f"data.path={words[0]}", cwd=user_files)
        assert trained.returncode == 2
        assert sentence in " ".join(trained.stderr.split())


@pytest.mark.parametrize(("name", "count"), [("films", 4), ("images", 3), ("sounds", 4), ("tables", 4)])
def test_bad_files_can_be_left_out(name: str, count: int, user_files: Path, tmp_path: Path) -> None:
    words = ("data", str(user_files / name), "--skip-bad", "--count", "2")
    facts = answer(*words, cwd=tmp_path)
    assert facts["sequences"]["all"] == count
    assert len([note for note in facts["notes"] if note.startswith("left out: ")]) == 1
    assert all((tmp_path / file).exists() for file in facts["preview"])
    assert [Path(file).suffix for file in facts["preview"]] == ([".png", ".wav"] if name == "sounds" else [".png"])
    assert "note: left out: " in diskoop(*words, cwd=tmp_path).stdout


def test_a_preview_overwrites_nothing_and_is_no_part_of_the_data(tmp_path: Path) -> None:
    folder = tmp_path / "takes"
    for name in ("take", "take-1", "take-2", "other"):
        write_sound(folder / f"{name}.wav", tone(0.3 if name == "other" else 3, 200))
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    for source in (".", ".", "take.wav"):  # a single file is previewed in the current folder
        result = diskoop("data", source, "--json", cwd=folder)
        assert result.returncode == 0, result.stderr
        files = [(folder / file).resolve() for file in json.loads(result.stdout.splitlines()[-1])["preview"]]
        assert all(file.exists() for file in files)
        assert all(file.parent == (tmp_path if source == "." else folder) for file in files)
    refused = diskoop("data", "take.wav", "--out", "other.png", cwd=folder)
    assert refused.returncode == 2
    assert "other.wav exists already and might be yours" in refused.stderr
    for name, content in before.items():
        assert (folder / name).read_bytes() == content


def test_train_on_a_folder_without_its_bad_files(user_files: Path, tmp_path: Path) -> None:
    brief = ["model.k=6", "model.h=6", "model.width=4", "spectrum.static=2", "train.epochs=1", "train.batch_size=2"]
    result = diskoop("train", f"data.path={user_files / 'films'}", "--skip-bad", "data.size=32", *brief, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "left out: " in result.stderr
    assert (tmp_path / "runs" / "films-1" / "model.safetensors").exists()
    assert "skip_bad: true" in (tmp_path / "runs" / "films-1" / "settings.yaml").read_text()


def test_data_alone_lists_the_sets(tmp_path: Path) -> None:
    names = ["faces", "growth", "mug", "oscillators", "pendulum", "puppets", "sprites", "timit", "voices"]
    assert diskoop("data", cwd=tmp_path).stdout.split() == names
    assert json.loads(diskoop("data", "--json", cwd=tmp_path).stdout) == names
    assert list(tmp_path.iterdir()) == []
