"""Tables: a file a sequence or all in one, in any order; units kept; every fault is named."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from diskoop import input_files, load, load_data
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
        ("a,b\n1,2\n,\n5,\n", "has no 6 rows in turn without an empty cell; data.drop=COLUMN leaves a column out"),
        ("a,b\n1,inf\n2,4\n", r"holds NaN or infinity .* in frame 0; mend it"),
        ("a,b\n1,2\n", "has 1 frame: dynamics need at least 2"),
        ("t,a\nx,1\ny,2\n", "the time column 't' holds 'x', wanted numbers or dates"),
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
    with pytest.raises(InputError, match=r"column 'b' holds 'oops' in row 3, wanted a number; .*data\.drop=b leaves"):
        load_data(tmp_path / "bad.csv")


def test_other_columns_in_one_file_are_named_or_skipped(tmp_path: Path) -> None:
    for name in ("1", "2", "3"):
        write_csv(tmp_path / f"{name}.csv", {"a": RANDOM.normal(size=5), "b": RANDOM.normal(size=5)})
    write_csv(tmp_path / "4.csv", {"a": RANDOM.normal(size=5), "c": RANDOM.normal(size=5)})
    with pytest.raises(InputError, match=r"4\.csv has other columns than the first table: b, c differ; data\.drop=b,c"):
        load_data(tmp_path)
    assert len(load_data(tmp_path, "all", skip_bad=True)) == 3
    assert load_data(tmp_path, "all", drop="b, c").shape == (4, 5, 1)


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


def hourly(tmp_path: Path, count: int = 4, rows: int = 2000, **more: Any) -> Path:
    """Stations with a table each: row numbers, dates in four columns, two measurements, words, a name; and `more`."""
    moments = np.datetime64("2013-03-01T00") + np.arange(rows)
    parts = [str(moment).replace("T", "-").split("-") for moment in moments]
    for number in range(count):
        columns: dict[str, Any] = {"No": range(1, rows + 1)}
        columns |= {name: [int(part[at]) for part in parts] for at, name in enumerate(("year", "month", "day", "hour"))}
        columns |= {"TEMP": np.arange(rows) + 1000 * number, "PRES": RANDOM.normal(size=rows)}
        columns |= {"wd": np.array(["N", "E", "SW"])[np.arange(rows) % 3], "station": [f"s{number}"] * rows}
        write_csv(tmp_path / f"{number}.csv", columns | more)
    return tmp_path


def test_each_column_finds_its_role(tmp_path: Path) -> None:
    clips = load_data(hourly(tmp_path), "all")
    assert clips.units.features == ("TEMP", "PRES", "wd=E", "wd=N", "wd=SW")
    assert clips.values == {"station": ("s0", "s1", "s2", "s3")}
    x = clips.read([0])[0]
    assert x[:, 2:].tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1]] * 42 + [[0, 1, 0], [1, 0, 0]]
    assert "time: year, month, day, hour, from 2013-03-01 to 2013-05-23 07:00 in steps of 1 h" in clips.notes
    assert "left out: 'No' (counts the rows)" in clips.notes
    assert "words: 'wd' became 3 features, one for each word (data.words=drop leaves it out)" in clips.notes
    # The variances of the words add up to 1 in the model, that of each number is 1.
    inside = (np.concatenate(clips.split("train").x) - clips.units.offset) / clips.units.scale
    assert np.allclose(inside.var(0)[:2], 1, atol=0.01)
    assert inside.var(0)[2:].sum() == pytest.approx(1, abs=0.01)


def test_columns_are_chosen_or_left_out(tmp_path: Path) -> None:
    folder = hourly(tmp_path)
    assert load_data(folder, "all", columns="PRES, hour").units.features == ("hour", "PRES")
    assert load_data(folder, "all", columns=["wd"]).units.features == ("wd=E", "wd=N", "wd=SW")
    chosen = load_data(folder, "all", columns="PRES", drop="station")
    assert chosen.labels == {}
    assert "left out: 'No', 'TEMP', 'wd' (not in data.columns)" in chosen.notes
    assert "left out: 'station' (data.drop)" in chosen.notes
    numbers = load_data(folder, "all", drop="TEMP", words="drop")
    assert numbers.units.features == ("PRES",)
    assert "left out: 'wd' (words, by data.words)" in numbers.notes
    assert load_data(folder, "all", time="none").units.features[:2] == ("TEMP", "PRES")  # dates are no features
    for option in ("columns", "drop"):
        with pytest.raises(
            InputError, match=rf"data\.{option} = Temp, but .*0\.csv has no such column; did you mean 'TEMP'"
        ):
            load_data(folder, "all", **{option: "PRES,Temp"})
    np.save(tmp_path / "x.npy", np.zeros((5, 4, 3)))
    with pytest.raises(InputError, match=r"data\.columns = a is for tables, not for arrays"):
        load_data(tmp_path / "x.npy", columns="a")


def test_many_words_are_left_out_unless_they_are_asked_for(tmp_path: Path) -> None:
    words = [f"w{n % 21}" for n in range(300)]
    path = write_csv(tmp_path / "a.csv", {"a": RANDOM.normal(size=300), "word": words})
    clips = load_data(path, "all")
    assert clips.units.features == ("a",)
    assert "left out: 'word' (21 different words)" in clips.notes
    assert len(load_data(path, "all", words="categories").units.features) == 22
    assert len(load_data(path, "all", columns="a,word").units.features) == 22
    write_csv(path, {"a": RANDOM.normal(size=300), "word": [f"w{n // 10}" for n in range(300)]})
    assert (
        "left out: 'word' (30 different words; data.id=word if it tells sequences apart)"
        in load_data(path, "all").notes
    )
    write_csv(path, {"a": RANDOM.normal(size=300), "day": [f"{1 + n % 28}.1.2024" for n in range(300)]})
    assert "left out: 'day' (dates are recognised as 2024-01-31)" in load_data(path, "all").notes


def test_whole_numbers_that_tell_tables_apart_are_labels(tmp_path: Path) -> None:
    for number in range(3):
        write_csv(tmp_path / f"{number}.csv", {"a": RANDOM.normal(size=9), "subject": [number] * 9, "one": [7] * 9})
    clips = load_data(tmp_path, "all")
    assert clips.values == {"subject": ("0", "1", "2")}
    assert clips.units.features == ("a", "one")  # what is the same everywhere tells nothing apart


@pytest.mark.parametrize(
    ("columns", "name"),
    [
        ({"when": ["2024-01-01 0:30", "2024-01-01T00:10", "2024/1/1 0:20"]}, "when"),
        ({"when": ["2024-01-01T00:30Z", "2024-01-01T01:10+01:00", "2023-12-31T22:50-01:30"]}, "when"),
        (
            {"Date": ["2024-01-01", "2023-12-31", "2024-01-01"], "Clock": ["0:20", "23:50:00", "00:10:00.5"]},
            "Date, Clock",
        ),
        ({"year": [2024, 2023, 2024], "month": [2, 12, 1]}, "year, month"),
    ],
)
def test_dates_order_the_rows(columns: dict[str, Any], name: str, tmp_path: Path) -> None:
    order = {"when": [1, 2, 0], "Date, Clock": [1, 2, 0], "year, month": [1, 2, 0]}[name]
    path = write_csv(tmp_path / "0.csv", {**columns, "a": [10.5, 11.5, 12.5]})
    for other in ("1", "2"):
        (tmp_path / f"{other}.csv").write_bytes(path.read_bytes())
    clips = load_data(tmp_path, "all")
    assert clips.units.features == ("a",)
    assert clips.read([0])[0][:, 0].tolist() == [[10.5, 11.5, 12.5][at] for at in order]
    assert any(note.startswith(f"time: {name}, from 202") for note in clips.notes)


def test_an_id_that_counts_the_rows_is_none(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", {"id": range(300), "a": RANDOM.normal(size=300)})
    clips = load_data(path, "all")
    assert clips.units.features == ("a",)
    assert clips.notes[0] == "left out: 'id' (counts the rows)"
    assert {clips.clip_name(i) for i in range(len(clips))} == {"a.csv"}


def test_short_gaps_are_filled_and_long_ones_cut(tmp_path: Path) -> None:
    rows = 1000
    a, b = np.arange(rows) * 2.0, RANDOM.normal(size=rows)
    texts = {"a": a.astype(str).tolist(), "b": b.astype(str).tolist()}
    texts["a"][10:13] = ["", "NA", "nan"]  # filled
    texts["b"][400:410] = ["?"] * 10  # cut
    texts["a"][:2] = ["", ""]  # at the end nothing can be interpolated
    path = write_csv(tmp_path / "a.csv", texts)
    clips = load_data(path, "all", window=50, split_by="time")
    assert np.isfinite(clips.x).all()
    spans = [(int(start), int(start + length)) for start, length in zip(clips.starts, clips.lengths, strict=True)]
    assert all(end <= 400 or begin >= 410 for begin, end in spans)
    assert min(spans)[0] == 2
    assert np.concatenate([np.arange(*span) for span in spans]).max() == rows - 1
    (whole,) = clips.stitch(clips.x).values()  # from row 2 on
    assert np.array_equal(np.flatnonzero(np.isnan(whole).any(1)) + 2, np.arange(400, 410))
    assert np.allclose(whole[:398, 0], a[2:400])
    assert "filled: 3 empty cells (a 3) in gaps of up to 6 rows, by linear interpolation (data.max_gap)" in clips.notes
    cut = next(note for note in clips.notes if note.startswith("cut: "))
    assert cut == (
        "cut: 1 sequence into 2 pieces, because gaps of more than 6 rows and those at either end are not filled "
        f"(data.max_gap); 12 of 1000 rows are not used, most in turn rows 401 to 410 of {path}"
    )
    assert not any(note.startswith("cut") for note in load_data(path, "all", drop="a", max_gap=10).notes)
    assert sum("pieces" in note for note in load_data(path, "all", max_gap=0).notes) == 1
    assert not any(note.startswith("filled") for note in load_data(path, "all", max_gap=0).notes)


def test_a_jump_in_time_is_a_gap(tmp_path: Path) -> None:
    times = np.arange(600)
    times[310:] += 7  # seven rows are missing
    path = write_csv(tmp_path / "a.csv", {"time": times, "a": RANDOM.normal(size=600)})
    clips = load_data(path, "all", window=20)
    spans = [(int(start), int(start + length)) for start, length in zip(clips.starts, clips.lengths, strict=True)]
    assert all(end <= 310 or begin >= 310 for begin, end in spans)
    assert "time: time, from 0 to 606 in steps of 1; 1 of 599 steps are longer or shorter" in clips.notes
    assert (
        f"missing: 7 rows in 1 gap between the times of time, the longest from 309 to 317 in {path}; sequences are cut "
        "at gaps of more than 6 rows (data.max_gap), and across shorter ones rows are taken to follow one another"
    ) in clips.notes
    whole = load_data(path, "all", window=20, max_gap=7)
    assert any(start < 310 < start + length for start, length in zip(whole.starts, whole.lengths, strict=True))


def test_missing_dates_are_told(tmp_path: Path) -> None:
    days = [f"2024-01-{day:02d}" for day in range(1, 31) if day not in (7, 8, 20)]
    path = write_csv(tmp_path / "a.csv", {"date": days, "a": RANDOM.normal(size=len(days))})
    (note,) = (note for note in load_data(path, "all").notes if note.startswith("missing"))
    assert note.startswith(
        "missing: 3 rows in 2 gaps between the times of date, the longest from 2024-01-06 to 2024-01-09"
    )
    days = [f"2024-01-{day:02d}" for day in range(1, 31)]
    whole = write_csv(tmp_path / "b.csv", {"date": days, "a": RANDOM.normal(size=30)})
    assert not [note for note in load_data(whole, "all").notes if note.startswith("missing")]


@pytest.mark.parametrize(
    ("header", "times", "extent"),
    [
        ("time", [f"9999-12-{day:02d}" for day in range(1, 31)], "9999-12-01 to 9999-12-30"),
        ("time", [f"9999-12-31T{hour:02d}:00-05:00" for hour in range(24)], "9999-12-31 05:00 to 10000-01-01 04:00"),
        ("time", [f"0001-01-01T{hour:02d}:00+05:00" for hour in range(24)], "0000-12-31 19:00 to 0001-01-01 18:00"),
        ("year,month,day,hour", [f"9999,12,31,{hour}" for hour in range(25)], "9999-12-31 to 10000-01-01"),
    ],
)
def test_dates_at_the_end_of_the_calendar(header: str, times: list[str], extent: str, tmp_path: Path) -> None:
    rows = [f"{time},{row % 7},{row % 5}\n" for row, time in enumerate(times)]
    (tmp_path / "a.csv").write_text("".join([f"{header},a,b\n", *rows]))
    notes = load_data(str(tmp_path / "a.csv"), "all").notes
    assert f"time: {header.replace(',', ', ')}, from {extent} in steps of" in notes[0]


def test_dates_beyond_it_are_text_in_csv_and_dates_in_parquet(tmp_path: Path) -> None:
    x = np.arange(30.0) % 7
    write_csv(tmp_path / "a.csv", {"time": [f"{10_000 + row}-01-01" for row in range(30)], "a": x})
    with pytest.raises(InputError, match="holds '10000-01-01', wanted numbers or dates"):
        load_data(tmp_path / "a.csv", "all")
    for first, told in ((10**15, "33658-09-27 01:46:40 to"), (10**17, "3.169e+06 years after 1970 to")):
        times = pyarrow.array(np.arange(30) * 10**8 + first, pyarrow.timestamp("ms"))
        path = write_parquet(tmp_path / f"{first}.parquet", {"time": times, "a": x})
        assert f"from {told}" in load_data(path, "all").notes[0]


def test_a_few_repeated_times_are_told(tmp_path: Path) -> None:
    times = np.arange(600)
    times[300] = 299
    path = write_csv(tmp_path / "a.csv", {"time": times, "a": np.arange(600) + 0.5})
    clips = load_data(path, "all", window=20)
    assert any(note.endswith("2 of 599 steps are longer or shorter, times repeat in 1 row") for note in clips.notes)
    (whole,) = clips.stitch(clips.x).values()
    assert whole[:, 0].tolist() == (np.arange(600) + 0.5).tolist()


def test_a_column_that_is_mostly_empty_is_left_out(tmp_path: Path) -> None:
    b = ["" if n % 3 else "1.5" for n in range(300)]
    path = write_csv(tmp_path / "a.csv", {"a": RANDOM.normal(size=300), "b": b, "c": [""] * 300})
    clips = load_data(path, "all")
    assert clips.units.features == ("a",)
    assert {"left out: 'b' (67% empty)", "left out: 'c' (100% empty)"} <= set(clips.notes)
    assert load_data(path, "all", columns="a,b").units.features == ("a", "b")


def test_few_long_tables_are_split_in_time(tmp_path: Path) -> None:
    clips = load_data(hourly(tmp_path), "all")
    assert clips.clips is not None
    assert clips.offsets is not None
    ends = clips.offsets + clips.lengths
    for clip in range(4):
        own = [(clips.clips == clip) & (clips.split_codes == code) for code in range(3)]
        spans = [(int(clips.offsets[part].min()), int(ends[part].max())) for part in own]
        assert spans == [(0, 1620), (1620, 1800), (1800, 2000)]
    assert any(note.startswith("split in time: of each clip the first 81% train, the next 9%") for note in clips.notes)
    who = "'station': 4 of 4 values are both trained and tested on; data.group=station keeps each in one split"
    assert who in clips.notes
    for options in ({"split_by": "clip"}, {"group": "station"}, {"group": "none"}):
        apart = load_data(tmp_path, "all", **options)
        parts = [set(apart.split(split).labels["station"].tolist()) for split in ("train", "val", "test")]
        assert [len(part) for part in parts] == [2, 1, 1]
    with pytest.raises(
        InputError, match=r"data\.split_by = time puts a part .* data\.group = station keeps .*; give one"
    ):
        load_data(tmp_path, split_by="time", group="station")


def test_a_parquet_table_that_unpacks_to_far_more_is_read_only_on_demand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = {"a": np.arange(200_000) % 2.0, "b": np.zeros(200_000)}
    path = write_parquet(tmp_path / "a.parquet", columns)
    monkeypatch.setattr(input_files, "LARGE", 2**20)
    with pytest.raises(InputError, match=r"to 3.2 MB, more than 10 times as much") as caught:
        load_data(path, "all", max_expansion=10)
    allowed = int(str(caught.value).split("data.max_expansion=")[1].split()[0])
    assert load_data(path, "all", max_expansion=allowed).clip_count >= 1
    with pytest.raises(InputError, match="unpacks from"):
        load_data(path, "all", max_expansion=allowed - 1)
