"""Examples come back with their labels, names and windows."""

from pathlib import Path

import numpy as np
import pytest

from diskoop import input_files
from diskoop.data.sequences import PIXELS, Sequences, Units
from diskoop.errors import InputError
from diskoop.examples_file import load_examples, save_examples
from diskoop.run import load
from diskoop.run_folder import RunFolder


def test_video_comes_back_bit_by_bit(tmp_path: Path) -> None:
    x = np.random.default_rng(0).integers(0, 256, (6, 4, 3, 8, 8), dtype=np.uint8)
    labels = {"hair": np.array([0, 1, 2, 0, 1, 2]), "action": np.arange(6)}
    clips = Sequences.of(x, labels, values={"hair": ("bun", "bob", "mohawk")}, name="heads").select([4, 1, 5])
    save_examples(RunFolder(tmp_path), clips)
    back = load_examples(RunFolder(tmp_path), PIXELS)
    assert np.array_equal(back.x, x[[4, 1, 5]])
    assert [back.title(i) for i in range(3)] == [clips.title(i) for i in range(3)]
    assert back.title(0) == "heads 4: hair bob, action 4"
    assert [file.name for file in tmp_path.iterdir()] == ["examples.npz"]


def test_windows_of_signals_come_back_in_half_precision(tmp_path: Path) -> None:
    frames = np.random.default_rng(0).normal(size=(20, 5))
    clips = Sequences(
        frames,
        starts=np.array([0, 4, 12]),
        lengths=np.array([6, 6, 8]),
        units=Units(2.0, 1.0),
        name="sentences",
        clips=np.array([0, 0, 1]),
        offsets=np.array([0, 4, 2]),
        clip_names=["anna/1", "ben/1"],
        frame_labels={"phone": np.arange(20)},
    )
    save_examples(RunFolder(tmp_path), clips)
    back = load_examples(RunFolder(tmp_path), clips.units)
    assert back.frames.dtype == np.float32
    assert np.allclose(back.x, clips.x, atol=2e-3)
    assert [back.sequence_name(i) for i in range(3)] == ["anna/1 [0-5]", "anna/1 [4-9]", "ben/1 [2-9]"]
    assert np.array_equal(back.frame_label("phone", [1, 2]), clips.frame_label("phone", [1, 2]))
    assert back.clip_count == 2
    assert back.units == clips.units


def test_the_same_clips_give_the_same_file(tmp_path: Path) -> None:
    clips = Sequences.of(np.ones((2, 4, 3)), units=Units())
    for name in ("a", "b"):
        save_examples(RunFolder(tmp_path / name), clips)
    assert (tmp_path / "a" / "examples.npz").read_bytes() == (tmp_path / "b" / "examples.npz").read_bytes()


def test_what_cannot_be_read_is_named(tmp_path: Path, series_run: Path) -> None:
    folder = RunFolder(tmp_path)
    with pytest.raises(InputError, match=r"examples\.npz is missing"):
        load_examples(folder, PIXELS)
    with pytest.raises(InputError, match=r"has no examples; its data are run\.data\('test'\)"):
        load(series_run).examples()
    save_examples(folder, Sequences.of(np.zeros((2, 4, 3, 8, 8), np.uint8)))
    content = folder.examples.read_bytes()
    for damaged in (b"", b"nothing", content[:-40], content.replace(b"PK", b"KP", 1)):
        folder.examples.write_bytes(damaged)
        with pytest.raises(InputError, match=r"examples\.npz is damaged"):
            load_examples(folder, PIXELS)
    np.savez(folder.examples, record=np.array({}, dtype=object))
    with pytest.raises(InputError, match=r"examples\.npz is damaged"):  # never unpickled
        load_examples(folder, PIXELS)


def test_examples_that_unpack_to_far_more_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_examples(RunFolder(tmp_path), Sequences.of(np.zeros((6, 10, 3, 64, 64), np.uint8)))
    assert len(load_examples(RunFolder(tmp_path), PIXELS)) == 6  # small, whatever it has shrunk to
    monkeypatch.setattr(input_files, "LARGE", 2**19)
    with pytest.raises(InputError, match=r"unpacks from .* to .*, more than 100 times as much; make it again"):
        load_examples(RunFolder(tmp_path), PIXELS)
