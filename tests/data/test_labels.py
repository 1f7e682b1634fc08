"""Labels from folders, CSV files and arrays."""

from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diskoop import load_data
from diskoop.data.clips import natural_key
from diskoop.data.labels import encode_labels, folder_labels
from diskoop.errors import InputError
from tests.helpers.media import moving_square, tone, write_csv, write_frames, write_sound


def test_codes_follow_the_natural_order_of_values() -> None:
    labels = encode_labels({"n": ["10", "9", "10"], "w": ["b", "a", "a"], "f": np.array([2.0, 1.0, 2.0])})
    assert labels.values == {"n": ("9", "10"), "w": ("a", "b"), "f": ("1", "2")}
    assert labels.codes["n"].tolist() == [1, 0, 1]
    assert labels.split_codes is None


def test_what_says_nothing_about_kinds_is_no_label() -> None:
    columns = {"name": range(30), "seconds": ["1.5", "2"] * 15, "kind": ["x", "y"] * 15}
    labels = encode_labels(columns)
    assert list(labels.codes) == ["kind"]
    assert labels.notes == (
        "'name' is no label: 30 sequences have 30 different values",
        "'seconds' is no label: it holds measurements such as 1.5",
    )
    assert list(encode_labels(columns, always=("name",)).codes) == ["name", "kind"]
    assert list(encode_labels({"name": ["a", "b", "c"]}).codes) == ["name"]  # three people, a long recording each


def test_codes_do_not_depend_on_the_order_of_sets() -> None:
    """Python's sets of texts have another order in every process; the sort key leaves none of it."""
    texts = ["A", "a", "01", "1", "\u00b2", "\u2460"]
    expected = encode_labels({"w": texts * 9}).values["w"]
    for order in permutations(texts):
        assert tuple(sorted(order, key=natural_key)) == expected


def test_a_split_is_no_label_but_a_split() -> None:
    labels = encode_labels({"Split": ["train", "Test", " dev", "training"]})
    assert labels.split_codes is not None
    assert labels.split_codes.tolist() == [0, 2, 1, 0]
    assert labels.codes == {}
    assert list(encode_labels({"split": ["left", "right", "left"]}).codes) == ["split"]
    with pytest.raises(InputError, match="the split of a sequence is 'extra', wanted train, val or test"):
        encode_labels({"split": ["train", "test", "extra"]})


def test_folders_are_labels() -> None:
    assert folder_labels(["a.wav", "b.wav"]) == ({}, [])
    assert folder_labels(["x/a.wav", "y/a.wav"]) == ({"folder": ["x", "y"]}, [])
    assert folder_labels(["all/x/1/a", "all/y/2/a"])[0] == {"folder": ["x", "y"], "folder2": ["1", "2"]}
    assert folder_labels(["train/x/a", "test/y/a"])[0] == {"split": ["train", "test"], "folder": ["x", "y"]}
    assert folder_labels(["x/Train/a", "y/Test/a"])[0] == {"folder": ["x", "y"], "split": ["Train", "Test"]}
    assert folder_labels(["train/x/a", "val/x/a"])[0] == {"split": ["train", "val"]}
    assert folder_labels(["train/x/a", "test/b"])[0] == {"split": ["train", "test"], "folder": ["x", "unknown"]}
    deeper = folder_labels(["train/s1/x/a", "train/s2/y/a", "test/x/a"])
    assert deeper[0] == {
        "split": ["train", "train", "test"],
        "folder": ["s1", "s2", "unknown"],
        "folder2": ["x", "y", "x"],
    }
    assert deeper[1] == ["folders under test are fewer than elsewhere: what is missing is 'unknown'"]
    assert folder_labels(["x/a", "b"]) == ({}, ["deeper folders are no labels: b lies in none"])
    with pytest.raises(InputError, match=r"beside folders to train and to test .* there is 'extra'"):
        folder_labels(["train/a", "test/a", "extra/a"])


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    for number in range(6):
        write_sound(tmp_path / ("anna" if number < 3 else "bert") / f"{number}.wav", tone(0.2, 200 + 20 * number))
    return tmp_path


@pytest.mark.parametrize("names", ["{who}/{n}.wav", "{who}/{n}", "{n}.wav", "{n}", "{who}\\{n}.wav"])
def test_a_csv_finds_its_clips_by_any_name(names: str, recordings: Path) -> None:
    rows = [names.format(who="anna" if n < 3 else "bert", n=n) for n in (5, 0, 3, 1, 4, 2)]
    write_csv(recordings / "labels.csv", {"file": rows, "parity": [n % 2 for n in (5, 0, 3, 1, 4, 2)]})
    clips = load_data(recordings, "all")
    assert clips.values["parity"] == ("0", "1")
    assert clips.labels["parity"].tolist() == [int(Path(clips.clip_name(i)).stem) % 2 for i in range(6)]
    assert clips.values["folder"] == ("anna", "bert")


def test_a_csv_names_folders_better_and_splits(recordings: Path, tmp_path: Path) -> None:
    columns = {
        "file": [f"{n}.wav" for n in range(6)],
        "speaker": ["anna"] * 3 + ["bert"] * 3,
        "split": ["train", "train", "test"] * 2,
    }
    elsewhere = write_csv(tmp_path / "elsewhere" / "mine.csv", columns)
    clips = load_data(recordings, "all", labels=str(elsewhere))
    assert list(clips.labels) == ["speaker"]
    assert [Path(clips.split("test").clip_name(i)).stem for i in range(2)] == ["2", "5"]
    assert clips.split_size("val") == 1
    assert "ignored: 1 mine.csv, which are no recordings" in load_data(recordings, "all").notes


def test_rows_that_are_missing_or_too_many_are_named_or_skipped(recordings: Path) -> None:
    path = write_csv(recordings / "labels.csv", {"file": [0, 1, 2, 3], "kind": "abab"})
    with pytest.raises(InputError, match=r"labels\.csv has no row for bert/4\.wav, bert/5\.wav; mend it \(--skip-bad"):
        load_data(recordings)
    clips = load_data(recordings, "all", skip_bad=True)
    assert len(clips) == 4
    assert any("has no row for bert/4.wav, bert/5.wav" in note for note in clips.notes)
    write_csv(path, {"file": range(9), "kind": "ababababa"})
    with pytest.raises(InputError, match="has rows for what is no clip, or could be several: 6, 7, 8"):
        load_data(recordings)
    assert len(load_data(recordings, "all", skip_bad=True)) == 6
    write_csv(path, {"file": [0, 1, 2, 3, 4, 5, 5], "kind": "abababa"})
    with pytest.raises(InputError, match=r"has two rows for bert/5\.wav"):
        load_data(recordings)
    write_csv(path, {"file": ["x", "y"], "kind": "ab"})
    with pytest.raises(InputError, match=r"no row names a clip; its first column 'file' begins with 'x', wanted names"):
        load_data(recordings)
    path.write_text("file,kind\n0,a,b\n")
    with pytest.raises(InputError, match="has 3 cells in line 2 where its first line has 2"):
        load_data(recordings)
    path.write_text("file,kind\n")
    with pytest.raises(InputError, match="holds no rows of labels"):
        load_data(recordings)
    path.unlink()
    with pytest.raises(InputError, match=r"there is no file 'gone\.csv' with labels"):
        load_data(recordings, labels="gone.csv")


def test_labels_of_an_array_come_in_its_order(tmp_path: Path) -> None:
    x = np.random.Generator(np.random.PCG64(0)).normal(size=(6, 4, 2))
    np.save(tmp_path / "x.npy", x)
    path = write_csv(tmp_path / "mine.csv", {"kind": list("abcabc")})
    clips = load_data(tmp_path / "x.npy", "all", labels=str(path))
    assert [clips.label_text(i) for i in range(3)] == ["kind a", "kind b", "kind c"]
    write_csv(path, {"index": [5, 4, 3, 2, 1, 0], "kind": list("abcdef")}, ";")
    numbered = load_data(tmp_path / "x.npy", "all", labels=str(path))
    assert [numbered.label_text(i) for i in (0, 5)] == ["index 0, kind f", "index 5, kind a"]
    for rows in (5, 7):
        write_csv(path, {"kind": ["a"] * rows})
        with pytest.raises(InputError, match=rf"mine\.csv has {rows} rows of labels for 6 sequences: one row each"):
            load_data(tmp_path / "x.npy", labels=str(path))


def test_a_folder_split_is_kept_whatever_a_csv_calls_it(tmp_path: Path) -> None:
    for number in range(8):
        write_sound(tmp_path / ("train" if number < 5 else "test") / f"{number}.wav", tone(0.2, 200 + 20 * number))
    write_csv(tmp_path / "Labels.csv", {"file": range(8), "subset": ["train"] * 5 + ["test"] * 3})
    clips = load_data(tmp_path, "all")
    assert [clips.split_size(split) for split in ("train", "val", "test")] == [4, 1, 3]
    assert {clips.split("test").clip_name(i).split("/")[0] for i in range(3)} == {"test"}


def test_exact_names_come_before_stems(tmp_path: Path) -> None:
    for name in ("walk", "walk.1", "run", "run.1"):
        write_frames(tmp_path / name, moving_square(3, 32, 32))
    names = ["walk", "walk.1", "run", "run.1"]
    write_csv(tmp_path / "labels.csv", {"file": names, "kind": list("abcd"), "two": list("xyxy")})
    clips = load_data(tmp_path, "all", size=32)
    assert {clips.clip_name(i): clips.label_text(i)[5] for i in range(4)} == dict(zip(names, "abcd", strict=True))


@pytest.mark.parametrize("name", ["speaker", "Speaker", "speaker_id", "Subject ID"])
def test_whoever_it_is_is_in_one_split_only(name: str, tmp_path: Path) -> None:
    arrays: dict[str, Any] = {"x": np.random.Generator(np.random.PCG64(0)).normal(size=(60, 4, 2))}
    np.savez(tmp_path / "x.npz", **arrays, **{name: np.arange(60) % 12})  # type: ignore[arg-type]
    clips = load_data(tmp_path / "x.npz", "all")
    who = [set(clips.split(split).labels[name].tolist()) for split in ("train", "val", "test")]
    assert sum(map(len, who)) == 12
    assert any("no value is in two splits" in note for note in clips.notes)


def test_a_label_that_says_who_or_where_is_proposed_as_a_group(tmp_path: Path) -> None:
    x = np.random.Generator(np.random.PCG64(0)).normal(size=(36, 4, 2))
    labels = {"performer": np.arange(36) % 9, "camera_id": np.arange(36) // 18, "action": np.arange(36) % 4}
    np.savez(tmp_path / "x.npz", x=x, **labels)  # type: ignore[arg-type]
    clips = load_data(tmp_path / "x.npz", "all")
    proposals = [note for note in clips.notes if "data.group" in note]
    assert len(proposals) == 1  # two cameras cannot be split in three
    assert proposals[0].startswith("'performer': 4 of 9 values are both trained and tested on; data.group=performer")
    apart = load_data(tmp_path / "x.npz", "all", group="performer")
    who = [set(apart.split(split).labels["performer"].tolist()) for split in ("train", "val", "test")]
    assert sum(map(len, who)) == 9
    assert not any("data.group" in note for note in apart.notes)
    assert not any("data.group" in note for note in load_data(tmp_path / "x.npz", "all", group="none").notes)


def test_labels_keep_their_proportions_unless_there_is_a_group(tmp_path: Path) -> None:
    kind = np.repeat([0, 1, 2], [70, 20, 10])
    np.savez(tmp_path / "x.npz", x=np.random.Generator(np.random.PCG64(0)).normal(size=(100, 4, 2)), kind=kind)
    clips = load_data(tmp_path / "x.npz", "all")
    counts = [np.bincount(clips.split(split).labels["kind"]).tolist() for split in ("train", "val", "test")]
    assert counts == [[57, 16, 8], [6, 2, 1], [7, 2, 1]]


def test_numbers_of_any_size_are_labels() -> None:
    for column in (
        np.array([2**64 - 1, 0] * 4, np.uint64),
        np.array([-(2**63), 1] * 4),
        np.array([1e300, 2] * 4),
        ["9" * 400, "1"] * 4,
    ):
        labels = encode_labels({"label": column})
        assert len(labels.values["label"]) == 2
        assert max(map(len, labels.values["label"])) <= 400
    assert encode_labels({"label": np.array([1e300, 2.0])}).values["label"] == ("1e+300", "2")


def test_a_text_that_no_picture_can_show_is_no_label() -> None:
    labels = encode_labels({"label": ["x" * 5000, "y"], "9" * 5000: ["a", "b"], "digits": ["9" * 5000, "1"]})
    assert not labels.codes
    assert labels.notes[0] == "'label' is no label: it holds a text of 5000 characters"
    assert len(labels.notes) == 3


def test_control_characters_are_written_out() -> None:
    labels = encode_labels({"label": ["a\0b", "new\nline", "\ud800", "größe →"]})
    assert set(labels.values["label"]) == {r"a\x00b", r"new\nline", r"\ud800", "größe →"}


def test_numbers_of_thousands_of_digits_have_their_order(tmp_path: Path) -> None:
    large = ["1" + "0" * 5000, "9" * 5000, "0" * 5000 + "7", "8"]
    assert sorted(large, key=natural_key) == [large[2], large[3], large[1], large[0]]
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(4, 5, 2)))
    (tmp_path / "l.csv").write_text("index,label\n" + "".join(f"{number},a\n" for number in large))
    clips = load_data(str(tmp_path / "x.npy"), "all", labels=str(tmp_path / "l.csv"))
    assert list(clips.labels) == ["label"]
