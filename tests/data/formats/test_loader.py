"""A user's own: found as it is, scaled back to its units, every mistake named in one sentence."""

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from diskoop import input_files, load, load_data
from diskoop.data import Sequences
from diskoop.data.formats import arrays as array_files
from diskoop.data.formats.loader import load as load_files
from diskoop.errors import InputError
from diskoop.settings import DataSettings, Settings, parse_overrides
from diskoop.training import loop
from diskoop.workflows.describe import describe_data
from tests.helpers.cli import at_most, diskoop
from tests.helpers.media import moving_square, tone, write_csv, write_film, write_frames, write_sound
from tests.helpers.training import Quiet

RANDOM = np.random.Generator(np.random.PCG64(3))
SERIES = RANDOM.normal(size=(40, 6, 3)) * [1, 100, 0] + [0, -50, 7]  # the last feature never changes
VIDEO = RANDOM.integers(0, 255, (20, 4, 1, 32, 32), dtype=np.uint8)


def saved(tmp_path: Path, x: NDArray[Any], **labels: Any) -> str:
    path = tmp_path / ("mine.npz" if labels else "mine.npy")
    if labels:
        np.savez(path, x=x, **labels)
    else:
        np.save(path, x)
    return str(path)


@pytest.mark.parametrize("x", [SERIES, VIDEO])
def test_splits_are_disjoint_and_whole(x: NDArray[Any], tmp_path: Path) -> None:
    path = saved(tmp_path, x)
    parts = [load_data(path, split) for split in ("train", "val", "test")]
    tenth = len(x) // 10
    assert [len(part) for part in parts] == [len(x) - tenth - round(0.9 * tenth), round(0.9 * tenth), tenth]
    starts = np.concatenate([part.starts for part in parts])
    assert sorted(starts.tolist()) == list(range(0, len(x) * x.shape[1], x.shape[1]))
    assert np.array_equal(load_data(path, "all").x, x)
    assert isinstance(parts[0].frames, np.memmap)


def test_shares_and_groups_are_the_users_to_choose(tmp_path: Path) -> None:
    path = saved(tmp_path, SERIES, subject=np.arange(40) // 4, day=np.arange(40) % 2)
    clips = load_data(path, "all", test_fraction=0.3, val_fraction=0)
    assert [clips.split_size(split) for split in ("train", "val", "test")] == [28, 0, 12]
    owners = [set(clips.split(split).labels["subject"].tolist()) for split in ("train", "test")]
    assert not owners[0] & owners[1]  # there are enough subjects, so nobody is in two splits
    by_clip = load_data(path, "all", group="none")
    assert {len(set(by_clip.split("train").labels["subject"].tolist())), 10} == {10}
    with pytest.raises(InputError, match=r"data\.group = person, but the labels are subject, day"):
        load_data(path, group="person")
    with pytest.raises(InputError, match=r"mine\.npz: nothing is left to train on: of 40 sequences in 2 groups"):
        load_data(path, group="day")


def test_signals_are_scaled_over_the_training_sequences_and_come_back(tmp_path: Path) -> None:
    train = load_data(saved(tmp_path, SERIES), "train")
    x, _ = train.batch(np.arange(len(train)), torch.zeros(1, dtype=torch.float64))
    assert torch.allclose(x.mean((0, 1)), torch.zeros(3, dtype=torch.float64), atol=1e-12)
    assert torch.allclose(x.std((0, 1), correction=0), torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64), atol=1e-12)
    assert np.allclose(train.units.from_model(x).numpy(), train.x)


def test_frames_are_pixels_or_fractions_of_any_depth(tmp_path: Path) -> None:
    assert load_data(saved(tmp_path, VIDEO)).units.scale == 255
    fractions = load_data(saved(tmp_path, (VIDEO / 255).astype(np.float32)))
    assert fractions.units.scale == 1
    assert fractions.batch(np.arange(2), torch.zeros(1))[0].max() <= 1
    black_and_white = load_data(saved(tmp_path, (VIDEO > 127).astype(np.int64)))
    assert black_and_white.units.from_model(torch.tensor(0.4)) == pytest.approx(0.4)  # not cut to a whole number
    for bits in (12, 16):
        deep = (VIDEO.astype(np.uint16) << (bits - 8)) + 5
        clips = load_data(saved(tmp_path, deep))
        assert clips.units.scale == 2**bits - 1
        x, _ = clips.batch(np.arange(3), torch.zeros(1, dtype=torch.float64))
        assert np.array_equal(clips.units.from_model(x).numpy(), clips.read([0, 1, 2]))


def test_labels_stand_beside_the_sequences(tmp_path: Path) -> None:
    who, what = np.arange(40) % 5 + 10, np.array(["walk", "run"])[np.arange(40) % 2]
    clips = load_data(saved(tmp_path, SERIES, who=who, what=what), "test")
    assert clips.clips is not None
    for index, row in enumerate(clips.clips):
        assert clips.label_text(index) == f"who {who[row]}, what {what[row]}"


def test_what_is_no_label_is_named_or_put_to_use(tmp_path: Path) -> None:
    names = {"channels": np.array(["a", "b", "c"]), "who_names": np.array(["-", "anna", "bert"]), "hz": np.array(50)}
    clips = load_data(saved(tmp_path, SERIES, who=np.arange(40) % 2 + 1, **names), "all")
    assert clips.values == {"who": ("anna", "bert")}
    assert clips.units.features == ("a", "b", "c")
    assert clips.notes == ("'hz' is no label: it has shape (), one value for each of 40 sequences is wanted",)
    facts = describe_data(clips)
    assert facts["labels"] == {"who": {"anna": [16, 2, 2], "bert": [16, 2, 2]}}
    assert facts["features"] == ["a", "b", "c"]


def test_lengths_make_a_mask(tmp_path: Path) -> None:
    lengths = np.arange(40) % 5 + 2
    padded = SERIES.copy()
    padded[np.arange(6) >= lengths[:, None]] = np.nan  # what is not there may hold anything
    clips = load_data(saved(tmp_path, padded, lengths=lengths), "all")
    assert np.array_equal(clips.lengths, lengths)
    assert np.isfinite(clips.units.scale).all()
    with pytest.raises(InputError, match=r"the lengths should be whole numbers from 2 to 6, got 1$"):
        load_data(saved(tmp_path, SERIES, lengths=lengths - 1))


@pytest.mark.parametrize("options", [{}, {"compression": "gzip"}, {"chunks": (3, 2, 1)}])
def test_hdf5(options: dict[str, Any], tmp_path: Path) -> None:
    with h5py.File(tmp_path / "mine.h5", "w") as file:
        file.create_dataset("inner/series", data=SERIES.astype(">f8" if options else "<f8"), **options)
        file["who"] = np.arange(40) % 4
        file["mood"] = ["calm" if n % 3 else "wild" for n in range(40)]
    clips = load_data(tmp_path / "mine.h5", "all")
    assert np.array_equal(clips.x, SERIES)
    assert isinstance(clips.frames, np.memmap)
    assert clips.values == {"mood": ("calm", "wild"), "who": ("0", "1", "2", "3")}
    assert torch.isfinite(clips.batch(np.arange(3), torch.zeros(1))[0]).all()


@pytest.mark.parametrize("name", ["x", "who"])
@pytest.mark.parametrize("way", ["external", "virtual"])
def test_hdf5_opens_no_other_file(way: str, name: str, tmp_path: Path) -> None:
    """A dataset may name any file: an upload would show it to whoever sent it."""
    secret = SERIES if name == "x" else SERIES[:, 0, 0]
    (tmp_path / "secret.bin").write_bytes(secret.tobytes())
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["secret"] = secret
    with h5py.File(tmp_path / "mine.h5", "w") as file:
        if name == "who":
            file["x"] = SERIES
        if way == "external":
            file.create_dataset(name, secret.shape, float, external=[(str(tmp_path / "secret.bin"), 0, secret.nbytes)])
        else:
            layout = h5py.VirtualLayout(secret.shape, float)
            layout[:] = h5py.VirtualSource(str(tmp_path / "secret.h5"), "secret", secret.shape)
            file.create_virtual_dataset(name, layout)
    with pytest.raises(InputError, match=rf"mine\.h5 keeps '{name}' in other files, which are not read; write its"):
        load_data(tmp_path / "mine.h5")


def test_hdf5_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bad.h5").write_bytes(b"\x89HDF nothing")
    with pytest.raises(InputError, match=r"bad\.h5 is damaged or no array"):
        load_data(tmp_path / "bad.h5")
    with h5py.File(tmp_path / "two.h5", "w") as file:
        file["a"], file["b"] = SERIES, SERIES
    with pytest.raises(InputError, match=r"two\.h5 should hold its sequences as 'x', got a, b"):
        load_data(tmp_path / "two.h5")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(InputError, match=r"needs h5py: pip install 'diskoop\[hdf5\]'"):
        load_data(tmp_path / "two.h5")


def test_a_large_npz_is_unpacked_on_disk_and_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_files, "MAX_IN_MEMORY", 1000)
    path = saved(tmp_path, SERIES, who=np.arange(40) % 4)
    clips = load_data(path, "all")
    assert isinstance(clips.frames, np.memmap)
    assert np.array_equal(clips.x, SERIES)


def test_an_array_in_fortran_order_is_the_same_array(tmp_path: Path) -> None:
    clips = load_data(saved(tmp_path, np.asfortranarray(SERIES)), "all")
    assert np.array_equal(clips.x, SERIES)
    assert clips.frames.flags.c_contiguous


def test_video_of_another_size_is_resized_on_request(tmp_path: Path) -> None:
    digits = np.zeros((10, 4, 1, 28, 28), np.uint8)
    digits[:, :, :, 7:21, 7:21] = 255
    clips = load_data(saved(tmp_path, digits), "all", size=32)
    assert clips.shape == (10, 4, 1, 32, 32)
    assert clips.x[..., 16, 16].min() == 255
    assert clips.x[..., 2, 2].max() == 0
    assert load_data(saved(tmp_path, SERIES), "all", size=32).shape == SERIES.shape  # no pictures, no pixels
    wide = load_data(saved(tmp_path, np.zeros((5, 4, 3, 32, 64), np.uint8)), "all", size=64)
    assert wide.shape == (5, 4, 3, 64, 64)
    with pytest.raises(InputError, match=r"data\.size = 32 resizes uint8 video"):
        load_data(saved(tmp_path, np.zeros((5, 4, 1, 28, 28))), size=32)


def test_a_folder_of_arrays(tmp_path: Path) -> None:
    for number in range(5):
        np.save(tmp_path / f"{number}.npy", SERIES[number, : 3 + number % 3])
    clips = load_data(tmp_path, "all")
    assert clips.lengths.tolist() == [3, 4, 5, 3, 4]
    assert np.array_equal(clips.read([2])[0], SERIES[2, :5])
    np.save(tmp_path / "odd.npy", np.zeros((5, 4)))
    with pytest.raises(
        InputError, match=r"odd\.npy has frames of shape \(4,\) where .*0\.npy has \(3,\): all must have one shape"
    ):
        load_data(tmp_path)
    assert len(load_data(tmp_path, "all", skip_bad=True)) == 5
    np.save(tmp_path / "odd.npy", np.zeros((5, 4, 3)))
    with pytest.raises(InputError, match=r"odd\.npy has shape \(5, 4, 3\): in a folder of arrays each is one sequence"):
        load_data(tmp_path)


def test_a_run_on_them_gives_back_their_units(tmp_path: Path) -> None:
    path = saved(tmp_path, SERIES.astype(np.float32))
    settings = Settings.of(
        {
            "data": {"path": path},
            "model": {"k": 4, "h": 5},
            "spectrum": {"static": 2},
            "train": {"epochs": 1, "batch_size": 8},
        }
    )
    loop.train(settings.replaced({"train": {"epochs": 40, "lr": 0.02}}), tmp_path / "run", reporter=Quiet())
    run, clips = load(tmp_path / "run"), load_data(path, "train")
    decoded = run.decompose(clips).decode()
    assert decoded.dtype == np.float32
    errors = np.abs(decoded.mean((0, 1)) - clips.x.mean((0, 1)))
    assert (errors < [0.3, 20, 0.3]).all()  # feature by feature, around 0, -50 and 7 with deviations 1, 100 and 0
    assert np.allclose(run.decompose(clips.x).decode(), decoded)
    # Another set has another scale of its own; the run knows only the one it was trained with.
    (tmp_path / "other").mkdir()
    other = load_data(saved(tmp_path / "other", 3 + SERIES.astype(np.float32) / 7), "all")
    assert other.units != run.units
    assert np.array_equal(run.decompose(other).decode(), run.decompose(other.x).decode())


def test_a_file_that_changed_is_another_run(tmp_path: Path) -> None:
    settings = Settings.of({"data": {"path": saved(tmp_path, SERIES)}, "model": {"k": 4}, "spectrum": {"static": 2}})
    brief = settings.replaced({"train": {"epochs": 1, "batch_size": 8}})
    loop.train(brief, tmp_path / "run", reporter=Quiet())
    saved(tmp_path, SERIES + 1)
    with pytest.raises(InputError, match="belongs to another run; what differs: data"):
        loop.resume(tmp_path / "run", reporter=Quiet())


@pytest.mark.parametrize(
    ("x", "sentence"),
    [
        (np.zeros((5, 4, 32, 32)), r"grey frames need x\[:, :, None\]"),
        (np.zeros((5, 32, 32), dtype=np.uint8), r"looks like images.*one grey clip needs x\[None, :, None\]"),
        (np.zeros((5, 4, 32, 32, 3), dtype=np.uint8), r"save np\.moveaxis\(x, -1, 2\)"),
        (np.zeros((5, 4)), r"has shape \(5, 4\), wanted video"),
        (np.zeros((5, 1, 3)), "dynamics need at least 2"),
        (np.zeros((2, 4, 3)), "holds 2 clips of 4, 4 frames, too little"),
        (np.zeros((0, 4, 3)), "holds nothing"),
        (np.full((5, 4, 1, 32, 32), 7.0), "frames from 7 to 7, wanted uint8, uint16, or 0 to 1"),
        (np.full((5, 4, 1, 32, 32), 7), "holds int64 frames up to 7, wanted uint8"),
        (np.array([[["a"] * 3] * 4] * 5), "wanted numbers"),
        (np.zeros((5, 4, 3), dtype=complex), "holds complex128, wanted numbers"),
        (np.array([{}, []], dtype=object), "holds Python objects, not numbers"),
    ],
)
def test_arrays_that_are_no_sequences_are_named(x: NDArray[Any], sentence: str, tmp_path: Path) -> None:
    np.save(tmp_path / "mine.npy", x, allow_pickle=True)
    with pytest.raises(InputError, match=sentence) as error:
        load_data(str(tmp_path / "mine.npy"))
    assert "mine.npy" in str(error.value)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none_are_named_with_their_sequence(value: float, tmp_path: Path) -> None:
    broken = RANDOM.normal(size=(300, 4, 3))
    broken[280, 2, 1] = value
    with pytest.raises(InputError, match=r"mine\.npy: sequence 280 holds NaN or infinity.*; mend it \(--skip-bad"):
        load_data(saved(tmp_path, broken))
    clips = load_data(saved(tmp_path, broken, kind=np.arange(300) % 3), "all", skip_bad=True)
    assert len(clips) == 299
    assert np.isfinite(clips.units.scale).all()
    assert clips.labels["kind"][279:282].tolist() == [0, 2, 0]  # 279, 281, 282
    assert clips.notes == ("left out: 1 sequence with NaN or infinity (or a number beyond 1e100), the first 280",)


def test_files_that_are_no_arrays_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no file or folder '.*none\.npy'"):
        load_data(str(tmp_path / "none.npy"))
    whole = Path(saved(tmp_path, SERIES)).read_bytes()
    for name, content in (
        ("cut.npy", whole[:500]),
        ("text.npy", b"hello"),
        ("empty.npz", b""),
        ("odd.npz", b"PK\x03\x04"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=name):
            load_data(str(tmp_path / name))
    np.savez(tmp_path / "other.npz", y=SERIES, z=SERIES)
    with pytest.raises(InputError, match="should hold its sequences as 'x', got y, z"):
        load_data(str(tmp_path / "other.npz"))


def test_folders_that_cannot_be_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds nothing, wanted videos \(.mp4 .*\), images .*, recordings"):
        load_data(tmp_path)
    (tmp_path / ".hidden.wav").write_text("")
    with pytest.raises(InputError, match="holds nothing, wanted"):
        load_data(tmp_path)
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(InputError, match=r"holds 1 \.txt, wanted"):
        load_data(tmp_path)
    write_frames(tmp_path / "frames", moving_square(3))
    write_sound(tmp_path / "a.wav", tone(0.2))
    with pytest.raises(
        InputError, match=r"holds 1 recordings and 3 images; point data\.path at a folder that holds one"
    ):
        load_data(tmp_path)
    with pytest.raises(InputError, match=r"data\.every = 2 is for videos and images, not for recordings"):
        load_data(tmp_path / "a.wav", every=2)
    with pytest.raises(InputError, match=r"data\.stride = 9 exceeds the window of 4 frames"):
        load_data(saved(tmp_path, SERIES), window=4, stride=9)


def test_a_bad_file_among_good_ones_is_left_out_on_request(tmp_path: Path) -> None:
    for number in range(4):
        write_sound(tmp_path / f"{number}.wav", tone(0.3, 200 + number))
    (tmp_path / "notes.txt").write_text("ignored")
    (tmp_path / "bad.mp3").write_text("not sound")
    with pytest.raises(InputError, match=r"bad\.mp3 is no recording: it begins with .*\(--skip-bad leaves it out\)"):
        load_data(tmp_path)
    for _ in range(2):  # the second time from the cache
        clips = load_data(tmp_path, "all", skip_bad=True)
        assert len(clips) == 4
        assert clips.notes[0] == "ignored: 1 .txt, which are no recordings"
        assert clips.notes[1].startswith(f"left out: {tmp_path / 'bad.mp3'} is no recording")
    for file in tmp_path.glob("?.wav"):
        file.write_text("not sound either")
    with pytest.raises(InputError, match=r"none of the 5 clips in .* can be used; the first: left out: "):
        load_data(tmp_path, skip_bad=True)


def test_what_changed_is_read_again(tmp_path: Path) -> None:
    for number in range(3):
        write_csv(tmp_path / f"{number}.csv", {"a": RANDOM.normal(size=5)})
    first = load_data(tmp_path, "all").x.copy()
    assert np.array_equal(load_data(tmp_path, "all").x, first)
    write_csv(tmp_path / "1.csv", {"a": RANDOM.normal(size=6)})
    assert load_data(tmp_path, "all").lengths.tolist() == [5, 6, 5]
    text = (tmp_path / "2.csv").read_text()
    swapped = text.splitlines()[:1] + text.splitlines()[:0:-1]  # other content of the same size
    (tmp_path / "2.csv").write_text("\n".join(swapped) + "\n")
    os.utime(tmp_path / "2.csv", (2e9, 2e9))
    assert np.array_equal(load_data(tmp_path, "all").read([2])[0], first[2, ::-1])


def test_two_folders_of_one_name_are_two_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Same names, same sizes, same times, as archives give them; read by a relative path."""
    for place, value in (("a", 1.0), ("b", 2.0)):
        for number in range(3):
            (tmp_path / place / "clips").mkdir(parents=True, exist_ok=True)
            np.save(tmp_path / place / "clips" / f"{number}.npy", np.full((4, 2), value + number))
            os.utime(tmp_path / place / "clips" / f"{number}.npy", (1e9, 1e9))
    for place, value in (("a", 1.0), ("b", 2.0)):
        monkeypatch.chdir(tmp_path / place)
        assert load_data("clips/", "all").x[0, 0, 0] == value


def test_linked_folders_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "set").mkdir()
    for number in range(3):
        np.save(tmp_path / "store" / f"{number}.npy", SERIES[number])
    (tmp_path / "set" / "linked").symlink_to(tmp_path / "store")
    (tmp_path / "store" / "round").symlink_to(tmp_path / "set")
    assert len(load_data(tmp_path / "set", "all")) == 3


def test_two_processes_may_read_one_folder_at_once(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    for number in range(200):
        np.save(tmp_path / "set" / f"{number}.npy", SERIES[number % 40])
    code = "import sys, diskoop; print(len(diskoop.load_data(sys.argv[1], 'all')))"
    words = [sys.executable, "-c", code, str(tmp_path / "set")]
    children = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    answers = [child.communicate(timeout=600) for child in children]
    assert [out.strip() for out, _ in answers] == ["200"] * 2, answers


def test_an_array_that_is_one_long_sequence_is_cut(tmp_path: Path) -> None:
    clips = load_data(saved(tmp_path, RANDOM.normal(size=(1, 6000, 2))), "all")
    assert clips.shape[1] == 128
    (whole,) = clips.stitch(clips.x).values()
    assert len(whole) == 6000


def test_frames_that_no_network_takes_are_named(tmp_path: Path) -> None:
    for shape in ((6, 4, 3, 48, 48), (6, 4, 3, 64, 32), (6, 4, 2, 64, 64)):
        with pytest.raises(InputError, match=r"wanted 1 or 3 channels of 32, 64, 128 pixels square"):
            load_data(saved(tmp_path, np.zeros(shape, np.uint8)))
    for number in range(3):
        np.save(tmp_path / f"{number}.npy", np.zeros((4, 3, 48, 48), np.uint8))
    (tmp_path / "mine.npy").unlink()
    with pytest.raises(InputError, match=r"0\.npy has frames of shape \(3, 48, 48\)"):
        load_data(tmp_path)
    for number in range(3):
        np.save(tmp_path / f"{number}.npy", np.zeros((4, 3, 32, 32), np.uint8))
    with pytest.raises(InputError, match=r"data\.size = 64, but a folder of arrays is read as it is: \(3, 32, 32\)"):
        load_data(tmp_path, size=64)


def test_what_lies_beside_is_not_read_if_it_is_large_or_an_object(tmp_path: Path) -> None:
    path = saved(tmp_path, SERIES, other=SERIES, things=np.array([{}] * 40, dtype=object), who=np.arange(40) % 4)
    clips = load_data(path, "all")
    assert list(clips.labels) == ["who"]
    assert clips.notes == (
        "'other' is no label: it has shape (40, 6, 3), one value for each of 40 sequences is wanted",
        "'things' is no label: it holds Python objects, one value for each of 40 sequences is wanted",
    )


@pytest.mark.parametrize("name", ["x" * 300, "x" * 300 + ".npy", "clips #1", "2024-01-31", "null.npy"])
def test_odd_names_are_names(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no file or folder|unknown data set"):
        load_data(name)
    assert parse_overrides([f"data.path={name}"]) == {"data": {"path": name}}


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    """A limit on the size of files stands for a disk without room."""
    code = (
        "import resource, signal, sys, diskoop\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "for source, options in ((sys.argv[1], {'skip_bad': True}), ('puppets', {})):\n"
        "    try: diskoop.load_data(source, **options)\n"
        "    except diskoop.ResourceError as error: print(error)\n"
    )
    for number in range(3):
        write_csv(tmp_path / "set" / f"{number}.csv", {"a": RANDOM.normal(size=9000)})
    environment = {**os.environ, "DISKOOP_CACHE": str(tmp_path / "cache")}
    words = [sys.executable, "-c", code, str(tmp_path / "set")]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.stdout.count("cannot write '") == 2, done.stderr
    assert done.stdout.count(": file too large; it takes ") == 2
    assert done.stdout.count("DISKOOP_CACHE moves it") == 2
    assert "--skip-bad" not in done.stdout  # it is not the file that is bad
    assert [path.name for path in (tmp_path / "cache").iterdir() if path.stat().st_size] == []


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    x=arrays.arrays(
        some.sampled_from(["f2", "f4", "f8", "u1", "i4", "u2", "?", "c8", "U3"]),
        arrays.array_shapes(min_dims=0, max_dims=6, min_side=0, max_side=6),
    )
)
def test_any_array_is_read_or_refused_in_a_sentence(x: NDArray[Any], tmp_path: Path) -> None:
    clips = read_or_refused(Path(saved(tmp_path, x)))
    if clips is not None:
        assert np.array_equal(clips.x, x)
        inside, _ = clips.batch(np.arange(len(clips)), torch.zeros(1, dtype=torch.float64))
        assert torch.isfinite(inside).all()
        span = np.abs(x.astype(np.float64)).max()
        assert np.allclose(clips.units.from_model(inside).double().numpy(), x, rtol=1e-5, atol=1e-6 * span)


def read_or_refused(path: Path, **options: Any) -> Sequences | None:
    """The sequences in a file; None if it was refused in one sentence that names it."""
    try:
        return load_data(path, "all", **options)
    except InputError as error:
        refusal = str(error)
    assert path.name in refusal
    assert "\n" not in refusal
    return None


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a sound file of every kind."""
    folder = tmp_path_factory.mktemp("samples")
    write_film(folder / "a.mp4", moving_square(40))
    write_film(folder / "a.gif", moving_square(40))
    write_sound(folder / "a.wav", tone(0.8))
    write_sound(folder / "a.flac", tone(0.8))
    write_csv(folder / "a.csv", {"a": RANDOM.normal(size=40), "b": RANDOM.normal(size=40)})
    np.save(folder / "a.npy", SERIES)
    np.savez_compressed(folder / "a.npz", x=SERIES, who=np.arange(40) % 3)
    with h5py.File(folder / "a.h5", "w") as file:
        file["x"] = SERIES
    return folder


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=some.data())
def test_any_damage_is_read_or_refused_in_a_sentence(samples: Path, data: some.DataObject, tmp_path: Path) -> None:
    """WindowRule off, or with a few bytes changed: never a traceback, never a number that is none."""
    sample = data.draw(some.sampled_from(sorted(samples.iterdir())))
    content = bytearray(sample.read_bytes())
    if data.draw(some.booleans()):
        content = content[: data.draw(some.integers(0, len(content) - 1))]
    for _ in range(data.draw(some.integers(0, 4)) if content else 0):
        content[data.draw(some.integers(0, len(content) - 1))] = data.draw(some.integers(0, 255))
    path = tmp_path / f"damaged{sample.suffix}"
    path.write_bytes(content)
    clips = read_or_refused(path, skip_bad=data.draw(some.booleans()), window=4)
    assert clips is None or np.isfinite(clips.x).all()


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    """A pickled array that would leave a mark if it were read."""
    code = (
        "import os, sys, numpy as np\n"
        "class Trap:\n"
        "    def __reduce__(self): return (os.mkdir, (sys.argv[1] + '/sprung',))\n"
        "np.save(sys.argv[1] + '/trap.npy', np.array([Trap()], dtype=object), allow_pickle=True)\n"
        "np.savez(sys.argv[1] + '/trap.npz', x=np.array([Trap()], dtype=object))\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    for name in ("trap.npy", "trap.npz"):
        with pytest.raises(InputError, match=rf"{name} holds Python objects, not numbers; save a plain array"):
            load_data(tmp_path / name)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    ("lengths", "sentence"),
    [
        (np.array(["long"] * 40), "got <U4 such as 'long'"),
        (np.full(40, 2.5), "got 2.5"),
        (np.full(40, np.nan), "got nan"),
        (np.full(40, np.inf), "got inf"),
        (np.full(40, -3), "got -3"),
        (np.full(40, 2**64 - 1, np.uint64), "got 18446744073709551615"),
        (np.ones(40, bool), "got bool such as True"),
        (np.full(40, "2001-01-01", "M8[D]"), "got datetime64"),
        (np.full(3, 4), r"'lengths' has shape \(3,\), wanted a whole number for each of 40 sequences"),
        (np.array([{}] * 40), "'lengths' holds Python objects, wanted a whole number"),
    ],
)
def test_lengths_that_are_no_counts_of_frames_are_named(
    lengths: NDArray[Any], sentence: str, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    with pytest.raises(InputError, match=sentence):
        load_data(saved(tmp_path, SERIES, lengths=lengths), "all")
    assert not recwarn.list
    whole = np.full(40, 4.0)  # fractions that are none are counts
    assert load_data(saved(tmp_path, SERIES, lengths=whole), "all").lengths.max() == 4


def header(shape: tuple[int, ...]) -> bytes:
    """The beginning of a `.npy` file of this shape."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return stream.getvalue()


@pytest.mark.parametrize("shape", [(10**5, 10**5, 10**5), (2**40, 2**40, 3), (-1, 4, 3), (10**30, 2, 3)])
def test_a_header_that_declares_more_than_there_is_is_named(
    shape: tuple[int, ...], tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    content = header(shape) + bytes(100)
    (tmp_path / "x.npy").write_bytes(content)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x.npy").write_bytes(header(shape[:2]) + bytes(100))
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", content)
    for path in ("x.npy", "x.npz", "folder"):
        with pytest.raises(InputError, match=r"is damaged: it declares an array of shape .* and holds 228 bytes"):
            load_data(str(tmp_path / path), "all")
    assert not recwarn.list


def test_a_file_that_unpacks_to_far_more_is_read_only_on_demand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zeros = np.zeros((50, 40, 100))
    np.savez_compressed(tmp_path / "x.npz", x=zeros)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=zeros, compression="gzip", chunks=(50, 40, 100))
    for name in ("x.npz", "x.h5"):
        path = str(tmp_path / name)
        assert load_data(path, "all").x.shape == zeros.shape  # small, whatever it has shrunk to
        with monkeypatch.context() as patch:
            patch.setattr(input_files, "LARGE", 2**20)
            with pytest.raises(InputError, match=r"to 1.6 MB, more than 100 times as much") as caught:
                load_data(path, "all")
            allowed = int(str(caught.value).split("data.max_expansion=")[1].split()[0])
            assert len(load_data(path, "all", max_expansion=allowed)) == 50
            with pytest.raises(InputError, match="unpacks from"):
                load_data(path, "all", max_expansion=allowed - 1)


def test_datasets_that_nobody_has_written_are_named(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", (10**5, 10**5, 10**4), "f4", chunks=(1, 64, 64))
    with pytest.raises(InputError, match=r"declares 400\.0 TB and holds none of it"):
        load_data(str(tmp_path / "x.h5"), "all")
    with h5py.File(tmp_path / "labels.h5", "w") as file:
        file["x"] = SERIES
        file.create_dataset("name", (10**12,), h5py.string_dtype(), chunks=(1000,))
    assert any("'name' is no label" in note for note in load_data(str(tmp_path / "labels.h5"), "all").notes)


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.csv", "x.wav", "x.mp4", "x.png"])
def test_a_pipe_is_refused_and_nobody_waits_for_it(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "clips"
    folder.mkdir()
    os.mkfifo(folder / name)
    with at_most(seconds=10):
        for path in (folder / name, folder):
            result = diskoop("data", str(path), cwd=tmp_path)
            assert (result.returncode, result.stdout) == (2, "")
            assert result.stderr == f"diskoop: {str(folder / name)!r} is a named pipe, wanted a file\n"


def test_pipes_and_devices_are_no_labels_and_no_settings(tmp_path: Path) -> None:
    path = saved(tmp_path, SERIES)
    os.mkfifo(tmp_path / "pipe")
    with at_most(seconds=10):
        for odd, kind in (
            (str(tmp_path / "pipe"), "a named pipe"),
            ("/dev/zero", "a device"),
            ("/dev/full", "a device"),
        ):
            for words in (["data", path, "--labels", odd], ["data", odd], ["train", "-c", odd]):
                result = diskoop(*words, cwd=tmp_path)
                assert (result.returncode, result.stderr) == (2, f"diskoop: '{odd}' is {kind}, wanted a file\n")


def test_links_to_nothing_and_names_that_are_no_text_are_named(tmp_path: Path) -> None:
    for number in range(4):
        np.save(tmp_path / f"{number}.npy", SERIES[number])
    (tmp_path / "4.npy").symlink_to(tmp_path / "missing.npy")
    with pytest.raises(InputError, match=r"4.npy is a link to a file that is not there"):
        load_data(str(tmp_path), "all")
    (tmp_path / "4.npy").unlink()
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.npy")
    np.save(odd, SERIES[4])
    for path in (str(tmp_path), odd):
        with pytest.raises(InputError, match=r"holds bytes that are no UTF-8, wanted text; rename it"):
            load_data(path, "all")
    for missing in ("a\0b", "x" * 5000):
        with pytest.raises(InputError, match="no file or folder"):
            load_files(DataSettings(path=missing))
        with pytest.raises(InputError, match="nor is there such a file or folder"):
            load_data(missing)


def test_names_with_markup_are_shown_as_they_are(tmp_path: Path) -> None:
    for number in range(12):
        odd = ["[bold]", "new\nline", "[red]größe"][number % 3]
        write_csv(tmp_path / "[set]" / odd / f"[b]{number}.csv", {"[bold]v": SERIES[number, :, 0], "w <i>": range(6)})
    result = diskoop("data", "[set]", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    for text in ("name: [set]", "[bold] (", "[red]größe (", r"new\nline (", "  [bold]v: "):
        assert text in result.stdout
