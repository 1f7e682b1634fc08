"""The commands that take apart and put together, on small trained runs of video, sound and series."""

import json
import shutil
import wave
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from diskoop import load
from diskoop.interfaces.commands import score_line
from diskoop.settings import Settings
from diskoop.training import loop
from tests.data.media import tone, write_csv, write_sound
from tests.interfaces.test_cli import diskoop
from tests.training.test_loop import Quiet

SERIES = {
    "data": {"name": "oscillators"},
    "model": {"k": 8, "h": 16, "dropout": 0.0},
    "spectrum": {"static": 3, "radius": 0.96, "dynamic_penalty": "hinge"},
    "train": {"epochs": 2, "lr": 0.01},
}


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "series"
    loop.train(Settings.of(SERIES), path, reporter=Quiet())
    load(path).keep(load(path).find_factors())
    return path


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "video"
    brief = Settings.load("demo").replaced({"data": {"limit": 64}, "train": {"epochs": 1}})
    loop.train(brief, path, reporter=Quiet())
    return path


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    for number in range(10):
        write_sound(folder / "in" / f"{number}.wav", tone(0.4 + 0.02 * number, 200.0 + 40 * number))
    brief = {"model": {"k": 6, "h": 8}, "spectrum": {"static": 2}, "train": {"epochs": 1, "batch": 4}}
    loop.train(Settings.of({"data": {"path": str(folder / "in")}, **brief}), folder / "run", reporter=Quiet())
    return folder / "run"


def answer(*words: str, cwd: Path) -> dict[str, object]:
    said = diskoop(*words, "--json", cwd=cwd)
    assert said.returncode == 0, said.stderr
    facts: dict[str, object] = json.loads(said.stdout.splitlines()[-1])
    return facts


def test_factors_are_found_drawn_and_listed(video: Path, tmp_path: Path) -> None:
    shutil.copytree(video, tmp_path / "run")
    said = diskoop("factors", "run", "--table", "all.csv", "--split", "val", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "label-free, in puppets, 4096 sequences" in said.stdout
    for name in ("factors", "spectrum", "gap"):
        assert f"wrote run/{name}.png" in said.stdout
        assert np.asarray(Image.open(tmp_path / "run" / f"{name}.png").convert("L")).std() > 5
    table = (tmp_path / "all.csv").read_text().splitlines()
    found = load(tmp_path / "run").found
    assert found is not None
    assert all(f"strength.{name}" in table[0] for name in found.names)
    assert len(table) == 901
    renamed = answer("factors", "run", "--rename", f"{found.names[0]}=looks", cwd=tmp_path)
    assert isinstance(renamed["factors"], list)
    assert renamed["factors"][0]["name"] == "looks"
    taken = diskoop("factors", "run", "--rename", "looks=static", cwd=tmp_path)
    assert taken.returncode == 2
    assert "a factor's name begins with a letter" in taken.stderr


def test_a_swap_of_video_is_pictures_and_arrays(video: Path, tmp_path: Path) -> None:
    facts = answer("swap", str(video), "static", "--pair", "3:1000", "--pair", "7:2000", "--out", "new", cwd=tmp_path)
    assert facts["pairs"] == [[3, 1000], [7, 2000]]
    assert facts["files"] == ["new/swap.png", "new/swap.npz", "new/swap.webp"]
    with np.load(tmp_path / "new" / "swap.npz") as arrays:
        x, captions = arrays["x"], arrays["captions"]
    run = load(video)
    clips = run.data("test").select([3, 1000])
    parts = run.decompose(clips)
    assert captions[0] == f"A, as the model sees it: {clips.label_text(0)}"
    assert captions[2] == "A with B's static part"
    assert np.array_equal(x[:2], parts.decode())
    assert np.array_equal(x[2], parts.swap("static", {0: 1}).decode()[0])
    moving = Image.open(tmp_path / "new" / "swap.webp")
    assert getattr(moving, "n_frames", 1) == 8
    again = diskoop("swap", str(video), "--out", "new", cwd=tmp_path)
    assert again.returncode == 2
    assert "'new' exists already" in again.stderr


def test_swaps_in_stages(series: Path, tmp_path: Path) -> None:
    first, second = "static", "dynamic"
    facts = answer(
        "swap", str(series), "--pair", "0:9", "--gradual", f"{first},{second}", "--gradual", f"{second},{first}",
        "--combine", f"{first},{second}", "--grow", "dynamic=1,all", "--out", "stages", cwd=tmp_path,
    )  # fmt: skip
    assert facts["files"] == [
        f"stages/{stem}.{kind}" for stem in ("gradual", "combinations", "incremental") for kind in ("png", "npz")
    ]
    with np.load(tmp_path / "stages" / "combinations.npz") as arrays:
        assert arrays["captions"].tolist() == ["source", first, second, f"{first} + {second}", "target"]
    with np.load(tmp_path / "stages" / "gradual.npz") as arrays:
        assert len(arrays["x"]) == 8
        assert np.allclose(arrays["x"][2], arrays["x"][6], atol=1e-5)  # both orders end alike


def test_the_papers_operator_of_a_batch(series: Path, tmp_path: Path) -> None:
    answer("swap", str(series), "static", "--pair", "0:9", "--operator", "batch", "--out", "own", cwd=tmp_path)
    run = load(series)
    with np.load(tmp_path / "own" / "swap.npz") as arrays:
        expected = run.decompose(run.data("test"), operator="batch").swap("static", {0: 9}).decode()[0]
        assert np.allclose(arrays["x"][2], expected, atol=1e-5)


def test_a_swap_of_sound_can_be_heard(sound: Path, tmp_path: Path) -> None:
    """Recordings of unequal length, the run's own folder given again: every clip by its name."""
    own = str(sound.parent / "in")
    facts = answer("swap", str(sound), "static", "--data", own, "--pair", "0.wav:9.wav", "--out", "o", cwd=tmp_path)
    assert facts["files"] == ["o/swap.png", "o/swap.npz", "o/swap-0.wav", "o/swap-1.wav", "o/swap-2.wav"]
    with wave.open(str(tmp_path / "o" / "swap-2.wav")) as heard, np.load(tmp_path / "o" / "swap.npz") as arrays:
        assert heard.getframerate() == 16000
        assert arrays["lengths"].tolist() == [41, 59, 41]
        assert heard.getnframes() == 40 * 160


def test_clips_are_found_by_name_before_number(tmp_path: Path) -> None:
    """Tables called 5, 6, 7, ...: the name 7 is the third of them."""
    random = np.random.Generator(np.random.PCG64(0))
    for number in range(5, 25):
        write_csv(tmp_path / "in" / f"{number}.csv", {"a": random.normal(size=9), "b": random.normal(size=9)})
    settings = {"model": {"k": 4, "h": 4}, "spectrum": {"static": 1}, "train": {"epochs": 1, "batch": 4}}
    loop.train(Settings.of({"data": {"path": str(tmp_path / "in")}, **settings}), tmp_path / "run", reporter=Quiet())
    facts = answer("swap", "run", "static", "--data", "in", "--pair", "7:12", "--out", "o", cwd=tmp_path)
    names = load(tmp_path / "run").data("all").clip_names
    assert isinstance(facts["pairs"], list)
    assert [[names[a], names[b]] for a, b in facts["pairs"]] == [["7.csv", "12.csv"]]


def test_samples_differ_by_seed_alone(series: Path, tmp_path: Path) -> None:
    def drawn(*words: str) -> np.ndarray:
        answer("sample", str(series), *words, "--out", (out := f"s{len(list(tmp_path.iterdir()))}"), cwd=tmp_path)
        with np.load(tmp_path / out / "sample.npz") as arrays:
            x: np.ndarray = arrays["x"]
            return x

    one = drawn("static", "--count", "3")
    assert one.shape == (3, 24, 8)
    assert np.array_equal(one, drawn("static", "--count", "3"))
    assert not np.array_equal(one, drawn("static", "--count", "3", "--seed", "1"))
    batch = drawn("static", "--count", "3", "--over", "batch")
    assert batch.std(0).mean() < one.std(0).mean()  # nearer to the average


def test_factors_found_anew_leave_the_old_ones_beside_them(series: Path, tmp_path: Path) -> None:
    shutil.copytree(series, tmp_path / "run")
    before = (tmp_path / "run" / "factors.json").read_bytes()
    facts = answer("factors", "run", "--way", "guided", "--labels", "level,mark", cwd=tmp_path)
    assert "run/factors-before.json" in facts["files"]  # type: ignore[operator]
    assert (tmp_path / "run" / "factors-before.json").read_bytes() == before
    assert (tmp_path / "run" / "factors.json").read_bytes() != before
    assert "factors-before" not in str(answer("factors", "run", cwd=tmp_path)["files"])  # read, not found anew


def test_factors_with_labels_names_need_no_matching_and_the_others_get_it(series: Path, tmp_path: Path) -> None:
    shutil.copytree(series, tmp_path / "run")
    run = load(tmp_path / "run")
    first, *others = [each.name for each in run.require_found().without_remainder]
    run.rename({first: "fade"})
    facts = answer("factors", "run", "--score", cwd=tmp_path)
    matched = facts["matched"]
    assert isinstance(matched, dict)
    assert matched["fade"] == ["fade"]
    if others:
        assert list(matched) == ["level", "mark", "slow", "fast", "fade"]
    assert len(facts["matrix"]) == len(matched)  # type: ignore[arg-type]
    assert "100.0%" in str(facts["judge"])


def test_what_is_kept_stands_beside_what_is_taken(series: Path, tmp_path: Path) -> None:
    shutil.copytree(series, tmp_path / "run")
    facts: dict[str, Any] = answer("factors", "run", "--score", cwd=tmp_path)
    for result in (facts, facts["single"]):
        kept = np.array(result["kept_matrix"], float)  # null is NaN
        others = ~np.eye(len(kept), dtype=bool)
        assert np.isnan(np.diag(kept)).all()
        assert result["kept"] == pytest.approx(kept[others].mean())
        assert 0 <= result["kept"] <= 1
    assert facts["single"]["matched"] == {label: names[:1] for label, names in facts["matched"].items()}
    assert "run/matrix.png" in facts["files"]
    said = diskoop("factors", "run", "--score", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "taken from the donor, and what then still shows its own value" in said.stdout
    assert f"score {facts['score']:.3f}, kept {facts['kept']:.3f}, floor {facts['floor']:.3f}" in said.stdout
    alone = facts["single"]
    assert f"with one factor a label: score {alone['score']:.3f}, kept {alone['kept']:.3f}" in said.stdout


def test_what_is_left_over_is_so_under_another_name(series: Path, tmp_path: Path) -> None:
    shutil.copytree(series, tmp_path / "run")
    run = load(tmp_path / "run")
    first, *others = run.require_found().factors
    unused = replace(first.renamed("rest"), kind="remainder")
    run = run.keep(replace(run.require_found(), factors=(unused, first, *others)))
    run.rename({"rest": "level"})
    facts: dict[str, Any] = answer("factors", "run", "--score", cwd=tmp_path)
    assert facts["factors"][0]["kind"] == "remainder"
    assert "level" not in facts["matched"]["level"]
    answer("swap", "run", "--pair", "0:1", "--out", "o", cwd=tmp_path)
    with np.load(tmp_path / "o" / "swap.npz") as arrays:
        captions = " ".join(arrays["captions"])
    assert f"B's {first.name}" in captions
    assert "B's level" not in captions
    named = diskoop("swap", "run", "level", "--out", "p", cwd=tmp_path)
    assert named.returncode == 0, named.stderr


def test_a_line_says_what_is_known() -> None:
    assert score_line(0.8714, 0.99, 0.578) == "score 0.871, kept 0.990, floor 0.578"
    assert score_line(0.8714, float("nan"), 0.578) == "score 0.871, floor 0.578"
    assert score_line(0.8714, None) == "score 0.871"


def test_too_few_test_clips_are_made_up_for_and_it_is_said(sound: Path, tmp_path: Path) -> None:
    assert load(sound).data("all").count("test") == 1
    said = diskoop("swap", str(sound), "static", "--out", "o", cwd=tmp_path)
    assert said.returncode == 0
    assert "has fewer than two test clips; all 10 are taken" in said.stderr


def test_a_map_of_clips_is_scored(series: Path, tmp_path: Path) -> None:
    shutil.copytree(series, tmp_path / "run")
    words = ("factors", "run", "--embed", "static", "--color", "level,mark", "--fix", "slow,fast")
    facts = answer(*words, cwd=tmp_path)
    assert facts["clusters"]["combinations"] == 12  # type: ignore[index]
    assert "run/embedding.png" in facts["files"]  # type: ignore[operator]
    wrong = diskoop(*words[:4], "--color", "levle,mark", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "unknown label 'levle'" in wrong.stderr


def test_a_forecast_is_compared(series: Path, tmp_path: Path) -> None:
    facts = answer(
        "forecast", str(series), "--given", "10", "--steps", "20", "--count", "2", "--out", "f", cwd=tmp_path
    )
    assert facts["files"] == ["f/forecast.png", "f/forecast.npz", "f/errors.png"]
    errors = facts["errors"]
    assert isinstance(errors, list)
    assert [row["horizon"] for row in errors] == list(range(1, 15))  # as far as there are frames to compare with
    assert errors[5]["dmd"] < 1e-3  # the set is linear
    assert errors[5]["ours"] > 0
    with np.load(tmp_path / "f" / "forecast.npz") as arrays:
        assert arrays["lengths"].tolist() == [24, 30, 24, 30]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["swap", "RUN", "statik"], "unknown factor 'statik'; did you mean 'static'?"),
        (["swap", "RUN", "--pair", "3"], "expected a pair as A:B, such as 3:17, got '3'"),
        (["swap", "RUN", "--pair", "3:4000"], "expected a clip from 0 to 399, got 4000"),
        (["swap", "RUN", "--pair", "x:3"], "unknown clip 'x'"),
        (["swap", "RUN", "--grow", "dynamic"], "expected growing sets of modes such as dynamic=4,6,all, got 'dynamic'"),
        (["swap", "RUN", "--operator", "own"], "expected the operator 'frozen' or 'batch', got 'own'"),
        (["swap", "RUN", "--split", "tset"], "unknown split 'tset'; did you mean 'test'?"),
        (["swap", "RUN", "--data", "nowhere/"], "nowhere"),
        (["swap", "RUN", "--data", "pendulum"], "expected a signal (batch, time, 8), got"),
        (["swap", "RUN", "--device", "tpu"], "expected a device that this machine has"),
        (["swap", "nowhere"], "no run at 'nowhere'"),
        (["swap", "RUN", "--amount", "nan"], "expected a finite amount, got nan"),
        (["sample", "RUN", "--over", "three"], "unknown mixture 'three'; choose one of batch, two"),
        (["sample", "RUN", "--count", "0"], "--count"),
        (["forecast", "RUN", "--given", "24"], "expected --given from 2 to 23"),
        (["forecast", "RUN", "--given", "1"], "--given"),
        (["factors", "RUN", "--way", "fre"], "unknown way 'fre'; did you mean 'free'?"),
        (["factors", "RUN", "--rename", "hair"], "expected --rename OLD=NEW, got 'hair'"),
        (["factors", "RUN", "--rename", "a=b", "--anew"], "find them first, then rename them"),
        (["factors", "RUN", "--table", "x.xls"], ".csv"),
        (["factors", "RUN", "--count", "99"], "expected a count of factors from 1 to"),
        (["factors", "RUN", "--per-value", "9"], "--per-value means nothing without --way guided"),
        (["factors", "RUN", "--alone"], "--alone means nothing without --way modes"),
        (["factors", "RUN", "--data", "nowhere/"], "--data means nothing without --table or --embed"),
        (["factors", "RUN", "--way", "guided", "--labels", "levle"], "unknown label 'levle'; did you mean 'level'?"),
        (["swap", "RUN", "--pair", "\u00b2:3"], "unknown clip"),
        (["swap", "RUN", "\u00b2"], "unknown factor"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(
    words: list[str], sentence: str, series: Path, tmp_path: Path
) -> None:
    before = (series / "factors.json").read_bytes()
    said = diskoop(*(str(series) if word == "RUN" else word for word in words), cwd=tmp_path)
    assert said.returncode == 2, said.stderr
    assert sentence in said.stderr
    assert "Traceback" not in said.stderr
    assert not list(tmp_path.iterdir())
    assert (series / "factors.json").read_bytes() == before
    assert not [*series.glob("swap-*"), *series.glob("sample-*"), *series.glob("forecast-*"), *series.glob("*.png")]
