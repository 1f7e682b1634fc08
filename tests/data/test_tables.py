"""Tables: a file a sequence or all in one, in any order; units kept; every fault is named."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from diskoop import load, load_data
from diskoop.data import tables
from diskoop.errors import InputError
from diskoop.settings import Settings
from diskoop.training import loop
from tests.data.media import write_csv
from tests.training.test_loop import Quiet

RANDOM = np.random.Generator(np.random.PCG64(8))


def long_columns(lengths: list[int]) -> dict[str, Any]:
    """Sequences of these lengths in a long table, its rows shuffled."""
    ids = np.repeat(np.arange(len(lengths)), lengths)
    times = np.concatenate([np.arange(length) for length in lengths])
    values = RANDOM.normal(size=(len(ids), 2)) * [1, 40] + [0, 1000]
    order = RANDOM.permutation(len(ids))
    columns = {"id": ids, "time": times, "speed": values[:, 0], "height": values[:, 1], "who": ids % 4}
    columns["mood"] = np.array(["calm", "wild"])[ids % 2]
    return {name: column[order] for name, column in columns.items()}


def expected(columns: dict[str, Any], id: int) -> np.ndarray:
    mine = np.flatnonzero(columns["id"] == id)
    mine = mine[np.argsort(columns["time"][mine])]
    return np.stack([columns["speed"][mine], columns["height"][mine]], 1)


def write_parquet(path: Path, columns: dict[str, Any]) -> Path:
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
@pytest.mark.parametrize("rows", [7, 50_000])
def test_a_long_table_in_any_order(suffix: str, rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "ROWS", rows)
    columns = long_columns([5, 9, 7, 5, 6, 8])
    path = tmp_path / f"all{suffix}"
    if suffix == ".parquet":
        write_parquet(path, columns)
    else:
        write_csv(path, columns, "\t" if suffix == ".tsv" else ",")
    clips = load_data(path, "all")
    assert clips.units.features == ("speed", "height")
    assert clips.values == {"mood": ("calm", "wild"), "who": ("0", "1", "2", "3")}
    for index in range(6):
        id = int(clips.clip_name(index))
        assert np.array_equal(clips.take([index])[0][: clips.lengths[index]], expected(columns, id))
        assert clips.label_text(index) == f"mood {['calm', 'wild'][id % 2]}, who {id % 4}"
    assert load_data(path, "all").units.features == ("speed", "height")  # also from the cache


def test_columns_by_other_names_and_dates(tmp_path: Path) -> None:
    columns = long_columns([4, 4, 4, 4])
    dates = [f"2024-01-{1 + day:02d}T12:00" for day in columns["time"]]
    named = {"patient": columns["id"], "day": dates, "speed": columns["speed"], "height": columns["height"]}
    clips = load_data(write_csv(tmp_path / "all.csv", named, ";"), "all", id="patient", time="day")
    first = int(clips.clip_name(0))
    assert np.array_equal(clips.take([0])[0], expected(columns, first))
    with pytest.raises(
        InputError, match=r"data\.id = patiant, but .*all\.csv has no such column; did you mean 'patient'"
    ):
        load_data(tmp_path / "all.csv", id="patiant")


def test_a_folder_of_tables_and_a_run_in_the_users_units(tmp_path: Path) -> None:
    for number in range(12):
        x = RANDOM.normal(size=(30 + number, 2)).cumsum(0) * [1e-3, 20] + [5, -300]
        group = ["calm", "wild"][number % 2]
        write_csv(tmp_path / "in" / group / f"{number}.csv", {"t": np.arange(len(x)), "a": x[:, 0], "b": x[:, 1]})
    clips = load_data(tmp_path / "in", "all")
    assert clips.shape == (12, 41, 2)
    assert clips.mask is not None
    assert clips.values == {"folder": ("calm", "wild")}
    assert clips.units.features == ("a", "b")
    train = clips.part("train")
    frames = np.concatenate([train.take([i])[0][: train.lengths[i]] for i in range(len(train))])
    assert np.allclose(clips.units.offset, frames.mean(0))
    assert np.allclose(clips.units.scale, frames.std(0))
    settings = Settings.of(
        {
            "data": {"path": str(tmp_path / "in")},
            "model": {"k": 6, "h": 12},
            "spectrum": {"static": 2},
            "train": {"epochs": 30, "batch": 5, "lr": 0.01},
        }
    )
    loop.train(settings, tmp_path / "run", reporter=Quiet())
    run, test = load(tmp_path / "run"), clips.part("test")
    assert run.units == clips.units
    decoded = run.decompose(test).decode()
    mask = test.mask if test.mask is not None else np.ones(test.shape[:2], bool)
    assert np.allclose(decoded[mask].mean(0), [5, -300], rtol=0.3)
    assert (decoded[~mask] == 0).all()


def test_a_single_table_is_one_long_clip(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "plant.csv", {"time": np.arange(2000), "a": RANDOM.normal(size=2000)})
    clips = load_data(path, "all", window=50)
    assert [clips.count(split) for split in ("train", "val", "test")] == [33, 4, 4]
    (whole,) = clips.stitch(clips.x).values()
    assert whole.shape == (2000, 1)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "holds no rows"),
        ("a,b\n", "holds no rows"),
        ("1,2\n3,4\n", "begins with numbers"),
        ("a,b\n1,2\n3\n", "has 1 cells in row 2 where its first line names 2"),
        ("a,a\n1,2\n", "names a column twice"),
        ("mood,name\nx,y\nx,y\n", "has no column of numbers to learn from, got mood, name"),
        ("a,b\n1,2\n,4\n5,6\n", r"holds NaN or infinity .* in frame 1; mend it"),
        ("a,b\n1,inf\n2,4\n", r"holds NaN or infinity .* in frame 0; mend it"),
        ("a,b\n1,2\n", "has 1 frame: dynamics need at least 2"),
        ("a,mood\n1,x\n2,y\n", "the words in column 'mood' change within the sequence; leave the column out"),
        ("t,a\nx,1\ny,2\n", "the time column 't' holds 'x', wanted numbers or dates"),
        ("id,a,mood\n1,1,x\n1,2,y\n", "the words in column 'mood' change within sequence 1; leave it out"),
        ("id,a\n1,3\n1,3\n2,4\n2,4\n", "no column of numbers changes within a sequence"),
    ],
)
def test_faults_are_named(text: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text(text)
    with pytest.raises(InputError, match=sentence) as error:
        load_data(tmp_path / "bad.csv")
    assert "bad.csv" in str(error.value)


def test_a_word_among_later_numbers_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "ROWS", 2)
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n3,4\n5,oops\n")
    with pytest.raises(InputError, match="column 'b' holds 'oops' in row 3, wanted a number"):
        load_data(tmp_path / "bad.csv")


def test_other_columns_in_one_file_are_named_or_skipped(tmp_path: Path) -> None:
    for name in ("1", "2", "3"):
        write_csv(tmp_path / f"{name}.csv", {"a": RANDOM.normal(size=5), "b": RANDOM.normal(size=5)})
    write_csv(tmp_path / "4.csv", {"a": RANDOM.normal(size=5), "c": RANDOM.normal(size=5)})
    with pytest.raises(InputError, match=r"4\.csv has other columns than the first table: b, c differ \(--skip-bad"):
        load_data(tmp_path)
    assert len(load_data(tmp_path, "all", skip_bad=True)) == 3


def test_parquet_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(InputError, match=r"bad\.parquet is damaged or no Parquet table"):
        load_data(tmp_path / "bad.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"takes pyarrow: pip install 'diskoop\[parquet\]'"):
        load_data(tmp_path / "bad.parquet")
