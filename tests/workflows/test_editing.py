"""`diskoop swap`, `sample` and `forecast` on small trained runs of video, sound and series."""

import wave
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from diskoop import load
from diskoop.settings import Settings
from diskoop.training import loop
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
    assert captions[0] == f"A, as the model sees it: {clips.label_text(0)}"
    assert captions[2] == "A with B's static part"
    assert np.array_equal(x[:2], parts.decode())
    assert np.array_equal(x[2], parts.swap("static", {0: 1}).decode()[0])
    animation = Image.open(tmp_path / "new" / "swap.webp")
    assert getattr(animation, "n_frames", 1) == 8
    told = diskoop("swap", str(video_run), "static", "--out", "told", cwd=tmp_path)
    assert told.stdout.startswith("verdict: poor: the model explains ")  # and goes on
    assert "wrote told/swap.png" in told.stdout
    again = diskoop("swap", str(video_run), "--out", "new", cwd=tmp_path)
    assert again.returncode == 2
    assert "'new' exists already" in again.stderr


def test_swaps_in_stages(series_run: Path, tmp_path: Path) -> None:
    facts = answer(
        "swap", str(series_run), "--pair", "0:9", "--gradual", "static,dynamic", "--gradual", "dynamic,static",
        "--combinations", "static,dynamic", "--incremental", "dynamic=1,all", "--out", "stages", cwd=tmp_path,
    )  # fmt: skip
    assert facts["files"] == [
        f"stages/{stem}.{kind}" for stem in ("gradual", "combinations", "incremental") for kind in ("png", "npz")
    ]
    with np.load(tmp_path / "stages" / "combinations.npz") as arrays:
        assert arrays["captions"].tolist() == ["source", "static", "dynamic", "static + dynamic", "target"]
    with np.load(tmp_path / "stages" / "gradual.npz") as arrays:
        assert len(arrays["x"]) == 8
        assert np.allclose(arrays["x"][2], arrays["x"][6], atol=1e-5)  # both orders end alike


def test_the_papers_operator_of_a_batch(series_run: Path, tmp_path: Path) -> None:
    answer("swap", str(series_run), "static", "--pair", "0:9", "--operator", "batch", "--out", "own", cwd=tmp_path)
    run = load(series_run)
    with np.load(tmp_path / "own" / "swap.npz") as arrays:
        expected = run.decompose(run.data("test"), operator="batch").swap("static", {0: 9}).decode()[0]
        assert np.allclose(arrays["x"][2], expected, atol=1e-5)


def test_a_swap_of_sound_is_audio_too(sound_run: Path, tmp_path: Path) -> None:
    """Recordings of unequal length, the run's own folder given again: every clip by its name."""
    own = str(sound_run.parent / "in")
    facts = answer("swap", str(sound_run), "static", "--data", own, "--pair", "0.wav:9.wav", "--out", "o", cwd=tmp_path)
    assert facts["files"] == ["o/swap.png", "o/swap.npz", "o/swap-0.wav", "o/swap-1.wav", "o/swap-2.wav"]
    with wave.open(str(tmp_path / "o" / "swap-2.wav")) as audio, np.load(tmp_path / "o" / "swap.npz") as arrays:
        assert audio.getframerate() == 16000
        assert arrays["lengths"].tolist() == [41, 59, 41]
        assert audio.getnframes() == 40 * 160


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
    assert one.shape == (3, 24, 8)
    assert np.array_equal(one, sample("static", "--count", "3"))
    assert not np.array_equal(one, sample("static", "--count", "3", "--seed", "1"))
    batch = sample("static", "--count", "3", "--mix", "batch")
    assert batch.std(0).mean() < one.std(0).mean()  # nearer to the average


def test_a_forecast_is_compared(series_run: Path, tmp_path: Path) -> None:
    words = ("forecast", str(series_run), "--observed", "10", "--steps", "20", "--count", "2", "--out")
    facts = answer(*words, "f", cwd=tmp_path)
    assert facts["files"] == ["f/forecast.png", "f/forecast.npz", "f/errors.png"]
    errors = facts["errors"]
    assert [row["horizon"] for row in errors] == list(range(1, 15))  # as far as there are frames to compare with
    assert errors[5]["dmd"] < 1e-3  # the set is linear
    assert errors[5]["ours"] > 0
    with np.load(tmp_path / "f" / "forecast.npz") as arrays:
        assert arrays["lengths"].tolist() == [24, 30, 24, 30]
    shown = diskoop(*words, "g", cwd=tmp_path).stdout
    assert "over 400 sequences" in shown
    assert f"{errors[5]['ours']:.4g}" in shown


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
