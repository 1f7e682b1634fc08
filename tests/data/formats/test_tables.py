"""Tables: a file a sequence or all in one, in any order; units kept; every fault is named."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from diskoop import load, load_data
from diskoop.data.formats import tables
from diskoop.errors import InputError
from diskoop.settings import Settings
from diskoop.training import loop
from tests.helpers.media import write_csv
from tests.helpers.training import Quiet

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
    monkeypatch.setattr(tables, "CHUNK_ROWS", rows)
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
        assert np.array_equal(clips.read([index])[0][: clips.lengths[index]], expected(columns, id))
        assert clips.label_text(index) == f"mood {['calm', 'wild'][id % 2]}, who {id % 4}"
    assert load_data(path, "all").units.features == ("speed", "height")  # also from the cache


def test_columns_by_other_names_and_dates(tmp_path: Path) -> None:
    columns = long_columns([4, 4, 4, 4])
    dates = [f"2024-01-{1 + day:02d}T12:00" for day in columns["time"]]
    named = {"patient": columns["id"], "day": dates, "speed": columns["speed"], "height": columns["height"]}
    clips = load_data(write_csv(tmp_path / "all.csv", named, ";"), "all", id="patient", time="day")
    first = int(clips.clip_name(0))
    assert np.array_equal(clips.read([0])[0], expected(columns, first))
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
    train = clips.split("train")
    frames = np.concatenate([train.read([i])[0][: train.lengths[i]] for i in range(len(train))])
    assert np.allclose(clips.units.offset, frames.mean(0))
    assert np.allclose(clips.units.scale, frames.std(0))
    settings = Settings.of(
        {
            "data": {"path": str(tmp_path / "in")},
            "model": {"k": 6, "h": 12},
            "spectrum": {"static": 2},
            "train": {"epochs": 30, "batch_size": 5, "lr": 0.01},
        }
    )
    loop.train(settings, tmp_path / "run", reporter=Quiet())
    run, test = load(tmp_path / "run"), clips.split("test")
    assert run.units == clips.units
    decoded = run.decompose(test).decode()
    mask = test.mask if test.mask is not None else np.ones(test.shape[:2], bool)
    assert np.allclose(decoded[mask].mean(0), [5, -300], rtol=0.3)
    assert (decoded[~mask] == 0).all()


def test_a_single_table_is_one_long_clip(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "plant.csv", {"time": np.arange(2000), "a": RANDOM.normal(size=2000)})
    clips = load_data(path, "all", window=50)
    assert [clips.split_size(split) for split in ("train", "val", "test")] == [33, 4, 4]
    (whole,) = clips.stitch(clips.x).values()
    assert whole.shape == (2000, 1)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty"),
        ("a,b\n", "holds no rows"),
        ("1,2\n3,4\n", "begins with numbers"),
        ("a,b\n1,2\n3\n", "has 1 cells in line 3 where its first line has 2"),
        ("a,a\n1,2\n", "names the column 'a' twice"),
        ("mood,name\nx,y\nx,y\n", "has no column of numbers to learn from, got mood, name"),
        ("a,b\n1,2\n,4\n5,6\n", r"holds NaN or infinity .* in frame 1; mend it"),
        ("a,b\n1,inf\n2,4\n", r"holds NaN or infinity .* in frame 0; mend it"),
        ("a,b\n1,2\n", "has 1 frame: dynamics need at least 2"),
        ("a,mood\n1,x\n2,y\n", "the words in column 'mood' change; leave the column out, or .* data.id=mood"),
        ("t,a\nx,1\ny,2\n", "the time column 't' holds 'x', wanted numbers or dates"),
        ("id,a,mood\n1,1,x\n1,2,y\n", "sequence 1: the words in column 'mood' change"),
        ("id,a\n1,3\n1,3\n2,4\n2,4\n", "no column of numbers changes within a sequence"),
        ("id,a\n1,3\n,4\n1,5\n", "the id column 'id' is empty in some row"),
        ("t,a\n0,1\n,2\n2,3\n", "the time column 't' is empty in row 2; fill it in"),
        ("time,a\n2024-01-01,1\n,2\n", "the time column 'time' is empty in row 2; fill it in"),
        ("subject,time,a\n1,0,5\n2,0,6\n1,1,7\n2,1,8\n", r"has time 0 twice; .* data\.id=COLUMN tells them apart"),
        ("id,t,a\n1,0,5\n1,0,6\n1,1,7\n", r"sequence 1 has t 0 twice"),
        ("a;b\n1,5;2,5\n3,5;4,5\n", r"no column of numbers to learn from, got a, b; write 1,5 as 1\.5"),
    ],
)
def test_faults_are_named(text: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text(text)
    with pytest.raises(InputError, match=sentence) as error:
        load_data(tmp_path / "bad.csv")
    assert "bad.csv" in str(error.value)


def test_a_word_among_later_numbers_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "CHUNK_ROWS", 2)
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


def test_ids_are_names_not_numbers(tmp_path: Path) -> None:
    ids = ["1_11", "11_1", "111", "001", "1", "20230101000000001", "20230101000000002"]
    rows = {"id": np.repeat(ids, 3), "time": list(range(3)) * 7, "a": RANDOM.normal(size=21)}
    clips = load_data(write_csv(tmp_path / "all.csv", rows), "all")
    assert [clips.clip_name(i) for i in range(7)] == ids
    large = {
        "id": np.repeat([20230101000000001, 20230101000000002, 3], 3),
        "time": list(range(3)) * 3,
        "a": np.arange(9.0),
    }
    assert len(load_data(write_parquet(tmp_path / "all.parquet", large), "all")) == 3


def test_several_tables_with_ids(tmp_path: Path) -> None:
    for name in ("day1", "day2"):
        write_csv(
            tmp_path / f"{name}.csv", {key: column for key, column in long_columns([5, 6]).items() if key != "who"}
        )
    clips = load_data(tmp_path, "all")
    names = {f"{day}.csv: {id}" for day in ("day1", "day2") for id in (0, 1)}
    assert {clips.clip_name(i) for i in range(4)} == names
    assert sorted(clips.lengths.tolist()) == [5, 5, 6, 6]


def test_columns_that_programs_add_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        ", time , a,b\n" + "".join(f"{n},{9 - n},{n},{n * n},\n"[:-2] + "\n" for n in range(10))
    )
    clips = load_data(tmp_path / "a.csv", "all", test_fraction=0.2, val_fraction=0.3)
    assert clips.units.features == ("a", "b")
    (whole,) = clips.stitch(clips.x).values()
    assert whole[:, 0].tolist() == list(range(9, -1, -1))  # the time column, spaces or not


def test_dates_may_be_labels(tmp_path: Path) -> None:
    days = np.array(["2024-01-01", "2024-01-02"], "datetime64[D]")
    rows = {"id": np.repeat(np.arange(4), 3), "a": np.arange(12.0), "day": days[np.repeat([0, 1, 0, 1], 3)]}
    clips = load_data(write_parquet(tmp_path / "all.parquet", rows), "all")
    assert len(clips.values["day"]) == 2


def test_an_empty_first_table_is_skipped_too(tmp_path: Path) -> None:
    (tmp_path / "0.csv").write_text("")
    for name in ("1", "2", "3"):
        write_csv(tmp_path / f"{name}.csv", {"a": RANDOM.normal(size=5)})
    with pytest.raises(InputError, match=r"0\.csv is empty"):
        load_data(tmp_path)
    assert len(load_data(tmp_path, "all", skip_bad=True)) == 3


def test_parquet_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(InputError, match=r"bad\.parquet is damaged or no Parquet table"):
        load_data(tmp_path / "bad.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"needs pyarrow: pip install 'diskoop\[parquet\]'"):
        load_data(tmp_path / "bad.parquet")
