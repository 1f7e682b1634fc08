"""Arrays of the user's own: found as they are, scaled back to their units, every mistake named."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from diskoop import load, load_data
from diskoop.errors import InputError
from diskoop.interfaces.describe import describe_data
from diskoop.settings import Settings
from diskoop.training import loop
from tests.training.test_loop import Quiet

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
    assert [len(part) for part in parts] == [len(x) - 2 * (len(x) // 10), len(x) // 10, len(x) // 10]
    rows = np.concatenate([part.rows for part in parts])
    assert sorted(rows.tolist()) == list(range(len(x)))
    assert np.array_equal(load_data(path, "all").x, x)
    assert isinstance(parts[0].source, np.memmap)


def test_signals_are_scaled_over_the_training_sequences_and_come_back(tmp_path: Path) -> None:
    train = load_data(saved(tmp_path, SERIES), "train")
    x, _ = train.batch(np.arange(len(train)), torch.zeros(1, dtype=torch.float64))
    assert torch.allclose(x.mean((0, 1)), torch.zeros(3, dtype=torch.float64), atol=1e-12)
    assert torch.allclose(x.std((0, 1), correction=0), torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64), atol=1e-12)
    assert np.allclose(train.units.from_model(x).numpy(), train.x)


def test_frames_are_pixels_or_fractions(tmp_path: Path) -> None:
    assert load_data(saved(tmp_path, VIDEO)).units.scale == 255
    fractions = load_data(saved(tmp_path, (VIDEO / 255).astype(np.float32)))
    assert fractions.units.scale == 1
    assert fractions.batch(np.arange(2), torch.zeros(1))[0].max() <= 1
    black_and_white = load_data(saved(tmp_path, (VIDEO > 127).astype(np.int64)))
    assert black_and_white.units.from_model(torch.tensor(0.4)) == pytest.approx(0.4)  # not cut to a whole number


def test_labels_stand_beside_the_sequences(tmp_path: Path) -> None:
    who, what = np.arange(40) % 5 + 10, np.array(["walk", "run"])[np.arange(40) % 2]
    clips = load_data(saved(tmp_path, SERIES, who=who, what=what), "test")
    assert clips.rows is not None
    for index, row in enumerate(clips.rows):
        assert clips.label_text(index) == f"who {who[row]}, what {what[row]}"


def test_what_is_no_label_is_left_alone_and_said(tmp_path: Path) -> None:
    path = saved(tmp_path, SERIES, who=np.zeros(40), channels=np.array(["a", "b", "c"]))
    assert list(load_data(path).labels) == ["who"]
    facts = describe_data(path, None)
    assert facts["labels"] == {"who": ["0.0"]}
    assert facts["not_labels"] == {"channels": [3]}


def test_a_run_on_them_gives_back_their_units(tmp_path: Path) -> None:
    path = saved(tmp_path, SERIES.astype(np.float32))
    settings = Settings.of(
        {
            "data": {"name": path},
            "model": {"k": 4, "h": 5},
            "spectrum": {"static": 2},
            "train": {"epochs": 1, "batch": 8},
        }
    )
    loop.train(settings, tmp_path / "run", reporter=Quiet())
    run, clips = load(tmp_path / "run"), load_data(path, "test")
    decoded = run.decompose(clips).decode()
    assert decoded.dtype == np.float32
    assert np.allclose(decoded[..., 2], 7, atol=0.5)
    assert np.allclose(decoded.mean((0, 1)), [0, -50, 7], atol=40)  # untrained, but in the right place and scale
    assert np.allclose(run.decompose(clips.x).decode(), decoded)


def test_a_file_that_changed_is_another_run(tmp_path: Path) -> None:
    settings = Settings.of({"data": {"name": saved(tmp_path, SERIES)}, "model": {"k": 4}, "spectrum": {"static": 2}})
    brief = settings.replaced({"train": {"epochs": 1, "batch": 8}})
    loop.train(brief, tmp_path / "run", reporter=Quiet())
    saved(tmp_path, SERIES + 1)
    with pytest.raises(InputError, match="belongs to another run: data differ"):
        loop.resume(tmp_path / "run", reporter=Quiet())


@pytest.mark.parametrize(
    ("x", "sentence"),
    [
        (np.zeros((5, 4, 32, 32)), r"grey frames need x\[:, :, None\]"),
        (np.zeros((5, 4, 32, 32, 3), dtype=np.uint8), r"save np\.moveaxis\(x, -1, 2\)"),
        (np.zeros((5, 4)), r"got shape \(5, 4\)"),
        (np.zeros((5, 1, 3)), "dynamics need at least 2"),
        (np.zeros((2, 4, 3)), "need 3 sequences at least"),
        (np.zeros((0, 4, 3)), "need 3 sequences at least"),
        (np.full((5, 4, 1, 32, 32), 7.0), "frames from 7 to 7, wanted uint8, or 0 to 1"),
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
    broken = np.zeros((300, 4, 3))
    broken[280, 2, 1] = value
    with pytest.raises(InputError, match=r"mine\.npy: sequence 280 holds NaN or infinity"):
        load_data(saved(tmp_path, broken))


def test_files_that_are_no_arrays_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file"):
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
    np.savez(tmp_path / "other.npz", y=SERIES)
    with pytest.raises(InputError, match="should hold its sequences as 'x', got y"):
        load_data(str(tmp_path / "other.npz"))
    with pytest.raises(InputError, match=r"data\.size = 32 is for built-in video"):
        load_data(saved(tmp_path, SERIES), size=32)
