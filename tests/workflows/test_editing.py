"""`diskoop swap`, `sample` and `forecast` on small trained runs of video, sound and series."""

import shutil
import wave
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from diskoop import load
from diskoop.analysis.discovery.results import DiscoveredFactor, DiscoveryResult
from diskoop.data import Sequences, Units
from diskoop.errors import InputError
from diskoop.numerics import Factor
from diskoop.plots.sequences import ForecastRow, forecast_series_figure, legend_texts
from diskoop.settings import Settings
from diskoop.training import loop
from diskoop.workflows.clips import find_clip
from diskoop.workflows.editing import file_stem, print_forecast_errors
from tests.helpers.cli import answer, diskoop
from tests.helpers.media import write_csv
from tests.helpers.training import Quiet


def test_a_swap_of_video_is_pictures_and_arrays(video_run: Path, tmp_path: Path) -> None:
    facts = answer(
        "swap", str(video_run), "static", "--pair", "3:1000", "--pair", "7:2000", "--out", "new", cwd=tmp_path
    )
    assert facts["pairs"] == [[3, 1000], [7, 2000]]
    assert facts["files"] == ["new/swap.png", "new/swap.npz", "new/swap.webp"]
    assert not facts["verdict"]["has_learnt"]
    with np.load(tmp_path / "new" / "swap.npz") as arrays:
        x, captions = arrays["x"], arrays["captions"]
    run = load(video_run)
    clips = run.data("test").select([3, 1000])
    parts = run.decompose(clips)
    receiver, donor = (clips.clip_name(i) for i in (0, 1))
    assert captions[:5].tolist() == [
        f"{receiver}, original: {clips.label_text(0)}",
        f"{receiver}, as the model draws it",
        f"{donor}, original: {clips.label_text(1)}",
        f"{donor}, as the model draws it",
        f"{receiver} with the static part of {donor}",
    ]
    assert np.array_equal(x[[0, 2]], clips.x)
    assert np.array_equal(x[[1, 3]], parts.decode())
    assert np.array_equal(x[4], parts.swap("static", {0: 1}).decode()[0])
    # The JSON tells the same of every row: whose it is, and who gave what.
    assert facts["clips"][1] == {"clip": 1000, "name": donor, "labels": clips.label_values(1)}
    assert [row["kind"] for row in facts["rows"][:5]] == [*["original", "reconstruction"] * 2, "swap"]
    assert facts["rows"][4] == {
        "file": "new/swap.npz",
        "row": 4,
        "kind": "swap",
        "caption": captions[4],
        "clip": 3,
        "factors": ["static"],
        "donors": [{"clip": 1000, "name": donor, "share": 1.0}],
    }
    animation = Image.open(tmp_path / "new" / "swap.webp")
    assert getattr(animation, "n_frames", 1) == 8
    told = diskoop("swap", str(video_run), "static", "--out", "told", cwd=tmp_path)
    assert told.stdout.startswith("verdict: poor: the model explains ")  # and goes on
    assert "wrote told/swap.png" in told.stdout
    again = diskoop("swap", str(video_run), "--out", "new", cwd=tmp_path)
    assert again.returncode == 2
    assert "'new' exists already" in again.stderr


def test_half_a_swap_says_so(series_run: Path, tmp_path: Path) -> None:
    words = ("swap", str(series_run), "static", "--pair", "0:9", "--amount", "0.5", "--out", "half")
    row = answer(*words, cwd=tmp_path)["rows"][4]
    assert row["caption"] == "oscillators 1800 with the static part of oscillators 1809, by 0.5"
    assert row["donors"] == [{"clip": 9, "name": "oscillators 1809", "share": 0.5}]


def test_swaps_in_stages(series_run: Path, tmp_path: Path) -> None:
    facts = answer(
        "swap", str(series_run), "--pair", "0:9", "--gradual", "static,dynamic", "--gradual", "dynamic,static",
        "--combinations", "static,dynamic", "--incremental", "dynamic=1,all", "--out", "stages", cwd=tmp_path,
    )  # fmt: skip
    assert facts["files"] == [
        f"stages/{stem}.{kind}" for stem in ("gradual", "combinations", "incremental") for kind in ("png", "npz")
    ]
    with np.load(tmp_path / "stages" / "combinations.npz") as arrays:
        assert arrays["captions"][2:5].tolist() == [
            f"oscillators 1800 with {what} of oscillators 1809"
            for what in ("the static part", "the dynamic part", "static + dynamic")
        ]
        assert arrays["kinds"].tolist() == [
            *("original", "reconstruction"),
            *["swap"] * 3,
            *("reconstruction", "original"),
        ]
    swaps = [row for row in facts["rows"] if row["file"] == "stages/combinations.npz" and row["kind"] == "swap"]
    assert [row["factors"] for row in swaps] == [["static"], ["dynamic"], ["static", "dynamic"]]
    with np.load(tmp_path / "stages" / "gradual.npz") as arrays:
        assert len(arrays["x"]) == 12
        assert np.allclose(arrays["x"][3], arrays["x"][9], atol=1e-5)  # both orders end alike


def test_the_papers_operator_of_a_batch(series_run: Path, tmp_path: Path) -> None:
    answer("swap", str(series_run), "static", "--pair", "0:9", "--operator", "batch", "--out", "own", cwd=tmp_path)
    run = load(series_run)
    with np.load(tmp_path / "own" / "swap.npz") as arrays:
        expected = run.decompose(run.data("test"), operator="batch").swap("static", {0: 9}).decode()[0]
        assert np.allclose(arrays["x"][4], expected, atol=1e-5)


def test_a_swap_of_sound_is_audio_too(sound_run: Path, tmp_path: Path) -> None:
    """Recordings of unequal length, the run's own folder given again: every clip by its name."""
    own = str(sound_run.parent / "in")
    facts = answer("swap", str(sound_run), "static", "--data", own, "--pair", "0.wav:9.wav", "--out", "o", cwd=tmp_path)
    sounds = ["0-as-the-model-draws-it", "9-as-the-model-draws-it", "0-with-the-static-part-of-9"]
    assert facts["files"] == ["o/swap.png", "o/swap.npz", *(f"o/{sound}.wav" for sound in sounds)]
    assert [row.get("sound") for row in facts["rows"]] == [None, facts["files"][2], None, *facts["files"][3:]]
    with wave.open(str(tmp_path / facts["files"][-1])) as audio, np.load(tmp_path / "o" / "swap.npz") as arrays:
        assert audio.getframerate() == 16000
        assert arrays["lengths"].tolist() == [41, 41, 59, 59, 41]
        assert audio.getnframes() == 40 * 160


def test_sounds_are_few_and_each_is_written_once(sound_run: Path, tmp_path: Path) -> None:
    """Of many factors the two parts are heard; a clip of two pairs is one file."""
    shutil.copytree(sound_run, tmp_path / "run")
    run = load(tmp_path / "run")
    names = [f"factor-{number}" for number in range(1, 4)]
    factors = [Factor(name, torch.eye(6, dtype=torch.float64)) for name in names]
    found = [DiscoveredFactor(factor, 6, strength) for factor, strength in zip(factors, (0.5, 0.4, 0.001), strict=True)]
    run.save_factors(DiscoveryResult(tuple(found), "by hand", "tones"))
    pairs = ("--pair", "0:1", "--pair", "1:2")
    words = ("swap", "run", "--data", str(sound_run.parent / "in"), *pairs)
    facts = answer(*words, "--out", "o", cwd=tmp_path)
    assert [Path(file).stem for file in facts["files"][2:]] == [
        *("0-as-the-model-draws-it", "1-as-the-model-draws-it"),
        *("0-with-the-static-part-of-1", "0-with-the-dynamic-part-of-1"),
        "2-as-the-model-draws-it",
        *("1-with-the-static-part-of-2", "1-with-the-dynamic-part-of-2"),
    ]
    swapped = [row["factors"][0] for row in facts["rows"] if row["kind"] == "swap"]
    assert swapped == ["static", "dynamic", "factor-1", "factor-2"] * 2  # the third changes next to nothing
    told = diskoop(*words, "--out", "p", cwd=tmp_path)
    assert "not swapped alone, being weak or left over: factor-3" in told.stderr
    named = answer(*words, "factor-3", "--out", "q", cwd=tmp_path)
    assert "q/0-with-factor-3-of-1.wav" in named["files"]


def test_sound_files_have_names_that_any_disk_takes() -> None:
    assert file_stem("a/b c.FLAC [0-99], as the model draws it") == "a-b-c-0-99-as-the-model-draws-it"
    assert file_stem("v1.2.wav with x of y.wave (52%)") == "v1.2-with-x-of-y.wave"
    assert len(file_stem("ü" * 300).encode()) <= 160
    assert file_stem("?!") == "sound"


def test_clips_are_found_by_name_before_number(tmp_path: Path) -> None:
    """Tables called 5, 6, 7, ...: the name 7 is the third of them."""
    random = np.random.Generator(np.random.PCG64(0))
    for number in range(5, 25):
        write_csv(tmp_path / "in" / f"{number}.csv", {"a": random.normal(size=9), "b": random.normal(size=9)})
    settings = {"model": {"k": 4, "h": 4}, "spectrum": {"static": 1}, "train": {"epochs": 1, "batch_size": 4}}
    loop.train(Settings.of({"data": {"path": str(tmp_path / "in")}, **settings}), tmp_path / "run", reporter=Quiet())
    facts = answer("swap", "run", "static", "--data", "in", "--pair", "7:12", "--out", "o", cwd=tmp_path)
    names = load(tmp_path / "run").data("all").clip_names
    assert [[names[a], names[b]] for a, b in facts["pairs"]] == [["7.csv", "12.csv"]]


def test_a_number_that_many_files_are_called_is_a_number() -> None:
    names = [f"{who}/{number}.wav" for who in ("ann", "ben") for number in range(3)]
    clips = Sequences.of(np.zeros((6, 4, 2)), units=Units(), clip_names=names)
    assert [find_clip(clips, text) for text in ("4", "ben/0.wav", "1")] == [4, 3, 1]
    with pytest.raises(InputError, match="expected a clip from 0 to 5, got 6"):
        find_clip(clips, "6")


def test_all_clips_are_used_where_few_are_for_testing(sound_run: Path, tmp_path: Path) -> None:
    assert load(sound_run).data("all").split_size("test") == 1
    result = diskoop("swap", str(sound_run), "static", "--out", "o", cwd=tmp_path)
    assert result.returncode == 0
    assert "has fewer than two test clips; all 10 are used" in result.stderr


def test_samples_differ_by_seed_alone(series_run: Path, tmp_path: Path) -> None:
    def sample(*words: str) -> np.ndarray:
        answer("sample", str(series_run), *words, "--out", (out := f"s{len(list(tmp_path.iterdir()))}"), cwd=tmp_path)
        with np.load(tmp_path / out / "sample.npz") as arrays:
            x: np.ndarray = arrays["x"]
            return x

    one = sample("static", "--count", "3")
    assert one.shape == (9, 24, 8)  # each original, as the model draws it, and sampled
    one = one[2::3]
    assert np.array_equal(one, sample("static", "--count", "3")[2::3])
    assert not np.array_equal(one, sample("static", "--count", "3", "--seed", "1")[2::3])
    batch = sample("static", "--count", "3", "--mix", "batch")[2::3]
    assert batch.std(0).mean() < one.std(0).mean()  # nearer to the average


def test_the_donors_of_samples_are_named(series_run: Path, tmp_path: Path) -> None:
    facts = answer("sample", str(series_run), "static", "--count", "3", "--out", "o", cwd=tmp_path)
    run = load(series_run)
    row = facts["rows"][5]
    clips = {clip["clip"]: clip for clip in facts["clips"]}
    assert (row["kind"], row["factors"], row["row"]) == ("sample", ["static"], 5)
    assert sum(donor["share"] for donor in row["donors"]) == pytest.approx(1)
    for donor in row["donors"]:
        assert clips[donor["clip"]]["name"] == donor["name"] == run.data("test").clip_name(donor["clip"])
        assert f"{donor['name']} ({donor['share']:.0%})" in row["caption"]
    chosen = run.data("test").select([row["clip"], *(donor["clip"] for donor in row["donors"])])
    mixture = torch.zeros(3, 3, dtype=torch.float64)
    mixture[0, 1:] = torch.tensor([donor["share"] for donor in row["donors"]])
    with np.load(tmp_path / "o" / "sample.npz") as arrays:
        assert np.allclose(arrays["x"][5], run.decompose(chosen).mix("static", mixture).decode()[0], atol=1e-5)


def test_of_a_batch_no_donor_is_named(series_run: Path, tmp_path: Path) -> None:
    facts = answer("sample", str(series_run), "--count", "2", "--mix", "batch", "--out", "o", cwd=tmp_path)
    assert facts["rows"][2]["donors"] == []
    assert facts["rows"][2]["caption"].endswith(" with the static part of 256 clips")
    assert len(facts["clips"]) == 2


def test_windows_are_told_apart_by_their_frames(tmp_path: Path) -> None:
    """Two tables of 40 rows in windows of 10, features of different units."""
    random = np.random.Generator(np.random.PCG64(0))
    for name in ("north", "south", "west"):
        values = random.normal(size=(40, 2)) * [5, 9] + [20, 1000]
        write_csv(tmp_path / "in" / f"{name}.csv", {"degrees": values[:, 0], "hPa": values[:, 1]})
    settings = {"model": {"k": 4, "h": 6}, "spectrum": {"static": 1}, "train": {"epochs": 1, "batch_size": 4}}
    data = {"path": str(tmp_path / "in"), "window": 10}
    loop.train(Settings.of({"data": data, **settings}), tmp_path / "run", reporter=Quiet())
    words = ("swap", "run", "static", "--split", "all", "--pair", "1:6", "--out")
    facts = answer(*words, "o", cwd=tmp_path)
    assert [(clip["name"], clip["frames"]) for clip in facts["clips"]] == [
        ("north.csv", [10, 19]),
        ("south.csv", [20, 29]),
    ]
    assert facts["rows"][4]["caption"] == "north.csv [10-19] with the static part of south.csv [20-29]"
    assert "pair 1:6: north.csv [10-19]; factors of south.csv [20-29]" in diskoop(*words, "p", cwd=tmp_path).stdout
    forecast = ("forecast", "run", "--split", "all", "--observed", "4", "--count", "1", "--out")
    facts = answer(*forecast, "f", cwd=tmp_path)
    assert [row["feature"] for row in facts["features"]] == ["degrees", "hPa"]
    assert 3 < facts["features"][0]["deviation"] < 7
    shown = diskoop(*forecast, "g", cwd=tmp_path).stdout
    assert f"{facts['features'][1]['ours']:.4g}" in shown


def test_names_with_units_reach_tables_and_axes(tmp_path: Path) -> None:
    names = ["TEMP (degC)", "pressure [hPa]"]
    values = np.random.Generator(np.random.PCG64(0)).normal(size=(40, 12, 2)).cumsum(1) * [5, 9] + [20, 1000]
    np.savez(tmp_path / "weather.npz", x=values, features=names)
    settings = {"model": {"k": 4, "h": 6}, "spectrum": {"static": 1}, "train": {"epochs": 1, "batch_size": 4}}
    loop.train(
        Settings.of({"data": {"path": str(tmp_path / "weather.npz")}, **settings}), tmp_path / "run", None, Quiet()
    )
    words = ("forecast", "run", "--observed", "4", "--count", "1", "--out")
    assert [row["feature"] for row in answer(*words, "f", cwd=tmp_path)["features"]] == names
    shown = diskoop(*words, "g", cwd=tmp_path).stdout
    clips = load(tmp_path / "run").data("test")
    row = ForecastRow("one", clips.x[0], clips.x[0])
    axes = forecast_series_figure([row], 4, clips.units, "Forecasts").axes
    for number, name in enumerate(names):
        assert name in shown
        assert axes[number].get_ylabel() == name
        assert legend_texts(clips.units, 2)[number].startswith(f"{name}: ")


def test_a_forecast_is_compared(series_run: Path, tmp_path: Path) -> None:
    words = ("forecast", str(series_run), "--observed", "10", "--steps", "20", "--count", "2", "--out")
    facts = answer(*words, "f", cwd=tmp_path)
    assert facts["files"] == ["f/forecast.png", "f/forecast.npz", "f/errors.png"]
    errors = facts["errors"]
    assert [row["horizon"] for row in errors] == list(range(1, 15))  # as far as there are frames to compare with
    assert errors[5]["dmd"] < 1e-3  # the set is linear
    assert errors[5]["ours"] > 0
    with np.load(tmp_path / "f" / "forecast.npz") as arrays:
        assert arrays["lengths"].tolist() == [24, 24, 30] * 2
        assert arrays["kinds"].tolist() == ["original", "reconstruction", "forecast"] * 2
        forecast = arrays["x"][2]
    run, (first, _) = load(series_run), facts["clips"]
    clip = run.data("test").select([first["clip"]])
    past = replace(clip, lengths=np.array([10]))  # what comes after was not seen
    assert np.allclose(forecast, run.decompose(past).forecast(20).decode()[0], atol=1e-5)
    shown = diskoop(*words, "g", cwd=tmp_path).stdout
    assert "over 400 sequences" in shown
    assert f"{errors[5]['ours']:.3f}" in shown
    assert len(facts["features"]) == 8


def test_of_many_horizons_some_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"ours": 0.5, "last_frame": 0.5, "dmd": 0.5, "reconstruction": 0.5}
    errors = [{"horizon": horizon, **row} for horizon in range(1, 154)]
    features = [{"feature": "hPa", "deviation": 8.0, **row}]
    print_forecast_errors({"left_out": 0, "sequences": 7, "errors": errors, "features": features})
    printed = [line.split()[0] for line in capsys.readouterr().out.splitlines() if "0.500" in line]
    assert (printed[0], printed[-1], len(printed)) == ("1", "153", 12)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["swap", "RUN", "statik"], "unknown factor 'statik'; did you mean 'static'?"),
        (["swap", "RUN", "--pair", "3"], "expected a pair as A:B, such as 3:17, got '3'"),
        (["swap", "RUN", "--pair", "3:4000"], "expected a clip from 0 to 399, got 4000"),
        (["swap", "RUN", "--pair", "x:3"], "unknown clip 'x'"),
        (["swap", "RUN", "--incremental", "dynamic"], "expected growing sets of modes such as dynamic=4,6,all, got"),
        (["swap", "RUN", "--operator", "own"], "expected the operator 'frozen' or 'batch', got 'own'"),
        (["swap", "RUN", "--split", "tset"], "unknown split 'tset'; did you mean 'test'?"),
        (["swap", "RUN", "--data", "nowhere/"], "nowhere"),
        (["swap", "RUN", "--data", "pendulum"], "expected a signal (batch, time, 8), got"),
        (["swap", "RUN", "--device", "tpu"], "expected a device that this machine has"),
        (["swap", "nowhere"], "no run at 'nowhere'"),
        (["swap", "RUN", "--amount", "nan"], "expected a finite amount, got nan"),
        (["sample", "RUN", "--mix", "three"], "unknown mixture 'three'; choose one of batch, two"),
        (["sample", "RUN", "--count", "0"], "--count"),
        (["forecast", "RUN", "--observed", "24"], "expected --observed from 2 to 23"),
        (["forecast", "RUN", "--observed", "1"], "--observed"),
        (["factors", "RUN", "--method", "label-fre"], "unknown method 'label-fre'; did you mean 'label-free'?"),
        (["factors", "RUN", "--rename", "hair"], "expected --rename OLD=NEW, got 'hair'"),
        (["factors", "RUN", "--rename", "a=b", "--refit"], "find them first, then rename them"),
        (["factors", "RUN", "--table", "x.xls"], ".csv"),
        (["factors", "RUN", "--count", "99"], "expected a count of factors from 1 to"),
        (["factors", "RUN", "--per-value", "9"], "--per-value means nothing without --method guided"),
        (["factors", "RUN", "--alone"], "--alone means nothing without --method modes"),
        (["factors", "RUN", "--data", "nowhere/"], "--data means nothing without --table or --embed"),
        (["factors", "RUN", "--method", "guided", "--labels", "levle"], "unknown label 'levle'; did you mean 'level'?"),
        (["swap", "RUN", "--pair", "\u00b2:3"], "unknown clip"),
        (["swap", "RUN", "\u00b2"], "unknown factor"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(
    words: list[str], sentence: str, series_run: Path, tmp_path: Path
) -> None:
    before = (series_run / "factors.json").read_bytes()
    result = diskoop(*(str(series_run) if word == "RUN" else word for word in words), cwd=tmp_path)
    assert result.returncode == 2, result.stderr
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr
    assert not list(tmp_path.iterdir())
    assert (series_run / "factors.json").read_bytes() == before
    assert not [file for stem in ("swap-*", "sample-*", "forecast-*", "*.png") for file in series_run.glob(stem)]
