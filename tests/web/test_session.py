"""Edits, clips, names and maps of an explorer's session, against the same made by hand from Python."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from diskoop.errors import InputError
from diskoop.run import load
from diskoop.settings import Settings
from diskoop.storage import TEMPORARY
from diskoop.training import loop
from diskoop.web.edits import EditRequest
from diskoop.web.library import UPLOADS, ClipId
from diskoop.web.session import Session
from tests.helpers.media import moving_square, tone, write_csv, write_film, write_sound
from tests.helpers.training import SMALL, Quiet

HUGE_HEADER = b"{'descr': '<f4', 'fortran_order': False, 'shape': (100000, 100000, 100000), }".ljust(117) + b"\n"


@pytest.fixture(scope="module")
def series(series_run: Path) -> Iterator[Session]:
    session = Session(series_run)
    yield session
    session.close()


@pytest.fixture(scope="module")
def video(video_run: Path) -> Iterator[Session]:
    session = Session(video_run)
    yield session
    session.close()


def edit(kind: str, receiver: str = "test/3", **more: object) -> EditRequest:
    return EditRequest.model_validate({"kind": kind, "receiver": receiver, **more})


# --- edits


def test_a_swap_is_the_run_s_own(series: Session, series_run: Path) -> None:
    run = load(series_run)
    clips = run.data("test").select([3, 7])
    name = run.require_factors().names[0]
    expected = run.decompose(clips).swap([name], donor={0: 1}, amount=0.6).decode()[0]
    made = series.editor.apply(edit("swap", donor="test/7", factors=[name], amount=0.6))
    np.testing.assert_allclose(made.x, expected, rtol=1e-6)
    receiver, donor = (clips.sequence_name(index) for index in (0, 1))
    assert made.caption == f"{receiver} with {name} of {donor} by 0.6"


def test_nothing_taken_is_the_reconstruction_and_everything_is_the_donor_s(video: Session) -> None:
    reconstruction = video.editor.apply(edit("reconstruction")).x
    np.testing.assert_array_equal(
        video.editor.apply(edit("swap", donor="test/8", factors=["static"], amount=0)).x, reconstruction
    )
    donor = video.editor.apply(edit("reconstruction", "test/8")).x
    everything = video.editor.apply(edit("swap", donor="test/8", modes=range(32))).x
    assert np.abs(everything.astype(int) - donor).max() <= 1


def test_half_a_pair_brings_the_other_half(video: Session) -> None:
    mode = next(mode for mode in video.facts()["modes"] if len(mode["pair"]) == 2)
    halves = [video.editor.apply(edit("swap", donor="test/8", modes=[index])) for index in mode["pair"]]
    np.testing.assert_array_equal(halves[0].x, halves[1].x)
    assert halves[0].caption == halves[1].caption


def test_originals_are_as_they_were_given(video: Session, video_run: Path) -> None:
    np.testing.assert_array_equal(video.editor.apply(edit("original")).x, load(video_run).data("test").x[3])


def test_samples_follow_their_seed(video: Session) -> None:
    first, again, other = (video.editor.apply(edit("sample", factors=["static"], seed=seed)) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first.x, again.x)
    assert first.caption != other.caption
    assert (first.x != other.x).any()


def test_forecasts_see_nothing_of_what_they_forecast(series: Session) -> None:
    clips, index = series.library.find(ClipId("test", 3))
    made = series.editor.apply(edit("forecast", observed=10, steps=5))
    assert (len(made.x), made.forecast_from) == (15, 10)
    by_hand = series.run.decompose(clips.read([index])[:, :10]).forecast(5).decode()[0]
    np.testing.assert_allclose(made.x, by_hand, rtol=1e-6)
    assert len(series.editor.apply(edit("forecast")).x) == clips.lengths[index]  # by default to the clip's end


def test_stages_grow_from_nothing_to_the_amount(video: Session) -> None:
    swap = edit("swap", donor="test/8", factors=["static"], amount=2)
    stages = video.editor.stages(swap, 3)
    np.testing.assert_array_equal(stages[0].x, video.editor.apply(edit("reconstruction")).x)
    np.testing.assert_array_equal(stages[2].x, video.editor.apply(swap).x)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"factors": ["hare"]}, "unknown factor 'hare'"),
        ({"factors": ["static"], "modes": [1]}, "expected factors or modes"),
        ({}, "expected factors or modes"),
        ({"factors": ["static"], "donor": None}, "a swap needs a donor"),
        ({"factors": ["static"], "donor": "test/99999"}, "expected a clip of test from 0 to 2663, got 99999"),
        ({"factors": ["static"], "donor": "tset/0"}, "unknown split 'tset'; did you mean 'test'"),
        ({"factors": ["static"], "donor": "../secret"}, "expected a clip such as test/12, got '../secret'"),
        ({"modes": [99]}, "expected mode indices from 0 to 31"),
    ],
)
def test_mistakes_are_told(video: Session, change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        video.editor.apply(edit("swap", **{"donor": "test/8", **change}))


@pytest.mark.parametrize("kind", ["original", "reconstruction", "swap", "sample", "forecast"])
def test_the_lines_of_python_make_it_again(series: Session, kind: str) -> None:
    more: dict[str, dict[str, Any]] = {
        "swap": {"donor": "test/7", "modes": [0], "amount": 1.5},
        "sample": {"factors": ["static"], "seed": 2},
    }
    made = series.editor.apply(edit(kind, **more.get(kind, {})))
    names: dict[str, Any] = {}
    exec(made.python, names)
    np.testing.assert_allclose(names["x"], made.x, rtol=1e-5, atol=1e-6)


def test_the_shell_command_makes_it_again(series: Session, tmp_path: Path) -> None:
    made = series.editor.apply(edit("swap", donor="test/7", modes=[0], amount=1.5))
    words = made.shell.split()
    assert words[0] == "diskoop"
    subprocess.run([sys.executable, "-m", *words, "--out", str(tmp_path / "out")], check=True, capture_output=True)
    stored = np.load(tmp_path / "out" / "swap.npz")
    np.testing.assert_allclose(stored["x"][-1], made.x, rtol=1e-5, atol=1e-6)


# --- facts


def test_shares_of_a_mode_in_all_factors_sum_to_one(series: Session) -> None:
    for mode in series.facts()["modes"]:
        total = sum(mode["factors"].values())
        assert total == pytest.approx(1, abs=0.16)  # shares below 5% are left out


def test_modes_tell_how_they_turn_and_fade(series: Session) -> None:
    for mode in series.facts()["modes"]:
        value = complex(mode["re"], mode["im"])
        if mode["half_life"] is not None:
            assert abs(value) ** mode["half_life"] == pytest.approx(0.5)
        if mode["period"] is not None:
            turned = (value / abs(value)) ** mode["period"]
            assert turned == pytest.approx(1, abs=1e-6)


def test_clips_are_filtered_by_label_and_name(video: Session) -> None:
    hair = video.library.label_values("test")["hair"][0]
    page = video.library.listing("test", first=2, count=3, labels={"hair": hair})
    assert len(page["clips"]) == 3
    assert {clip["labels"]["hair"] for clip in page["clips"]} == {hair}
    assert 3 < page["total"] < 2664
    assert video.library.listing("test", text="PUPPETS 1")["total"] < 2664
    assert video.library.listing("test", labels={"hair": "none such"})["total"] == 0
    with pytest.raises(InputError, match="unknown label 'hare'; did you mean 'hair'"):
        video.library.listing("test", labels={"hare": hair})


def test_maps_place_every_clip_once(series: Session) -> None:
    found = series.map("test", "static")
    assert len({point["id"] for point in found["points"]}) == len(found["points"]) == 400
    coordinates = np.array([[point["x"], point["y"]] for point in found["points"]])
    assert coordinates.min() == 0
    assert coordinates.max() == 1
    assert series.map("test", "static") is found  # once


# --- names


def test_names_are_saved_and_taken_back(series_run: Path, tmp_path: Path) -> None:
    run = shutil.copytree(series_run, tmp_path / "run")
    session = Session(run)
    old = load(run).require_factors().names[0]
    facts = session.rename({old: "tempo"})
    assert "tempo" in [factor["name"] for factor in facts["factors"]]
    assert load(run).require_factors().names[0] == "tempo"
    assert session.editor.apply(edit("swap", donor="test/7", factors=["tempo"])).caption.count("tempo") == 1
    with pytest.raises(InputError, match="a factor's name begins with a letter"):
        session.rename({"tempo": "<b>"})
    assert session.undo()["can_undo"] is False
    assert load(run).require_factors().names[0] == old
    with pytest.raises(InputError, match="nothing was renamed"):
        session.undo()
    session.close()


# --- files that visitors bring


def test_a_film_is_taken_apart(video: Session, tmp_path: Path) -> None:
    film = write_film(tmp_path / "walk.gif", moving_square(8))
    (clip,) = video.library.upload("C:\\films\\walk.gif", film.read_bytes())
    assert video.library.describe(ClipId.parse(clip))["name"] == "walk.gif"
    made = video.editor.apply(edit("swap", clip, donor="test/3", factors=["dynamic"]))
    assert made.x.shape == (8, 3, 32, 32)
    assert made.shell == ""
    assert video.library.splits()[UPLOADS] == 1
    assert "walk.gif" in made.python


def test_a_table_and_a_recording_are_taken_apart(series_run: Path, sound_run: Path, tmp_path: Path) -> None:
    series, sound = Session(series_run), Session(sound_run)
    table = write_csv(tmp_path / "mine.csv", {f"f{i}": np.random.default_rng(i).normal(size=24) for i in range(8)})
    (clip,) = series.library.upload("mine.csv", table.read_bytes())
    assert series.editor.apply(edit("reconstruction", clip)).x.shape == (24, 8)
    recording = write_sound(tmp_path / "mine.wav", tone(0.5))
    (clip,) = sound.library.upload("mine.wav", recording.read_bytes())
    assert sound.editor.apply(edit("swap", clip, donor="test/0", factors=["static"])).x.shape[1] == 201
    series.close()
    sound.close()


def test_the_lines_of_python_read_a_file_as_it_was_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def table(seed: int) -> dict[str, NDArray[np.float64]]:
        return {name: np.random.default_rng([seed, at]).normal(size=30) for at, name in enumerate("abcd")}

    for number in range(8):
        write_csv(tmp_path / "in" / f"{number}.csv", table(number))
    data = {"path": str(tmp_path / "in"), "window": 10, "stride": 5, "columns": "a,c"}
    brief = {"model": {"k": 4, "h": 4}, "spectrum": {"static": 2}, "train": {"epochs": 1, "batch_size": 4}}
    loop.train(Settings.of({"data": data, **brief}), tmp_path / "run", reporter=Quiet())
    mine = write_csv(tmp_path / "mine.csv", table(9))
    session = Session(tmp_path / "run")
    clips = session.library.upload("mine.csv", mine.read_bytes())
    assert len(clips) == 5
    made = session.editor.apply(edit("swap", clips[3], donor=clips[1], factors=["static"]))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(made.python, names)
    np.testing.assert_allclose(names["x"], made.x, rtol=1e-5, atol=1e-6)
    session.close()


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("notes.txt", b"hello", "notes.txt holds 1 .txt, wanted"),
        ("broken.gif", b"GIF89a nothing", "broken.gif"),
        ("../../evil.npy", b"no array", "evil.npy"),
        ("..", b"", "expected the name of a file such as walk.mp4, got '..'"),
        ("line\nbreak.gif", b"", "expected the name of a file"),
        ("wide.npy", b"", "wide.npy"),
        ("bomb.npy", b"\x93NUMPY\x01\x00\x76\x00" + HUGE_HEADER, "bomb.npy is damaged: it declares an array of shape"),
        ("a\0b.npy", b"", "expected the name of a file"),
        ("\udcff.npy", b"", "expected the name of a file"),
    ],
)
def test_files_that_cannot_be_read_are_refused_and_forgotten(
    video: Session, name: str, content: bytes, sentence: str
) -> None:
    before = video.library.splits()
    with pytest.raises(InputError, match=sentence) as caught:
        video.library.upload(name, content)
    assert TEMPORARY not in str(caught.value)  # where it was kept is nobody's business
    assert video.library.splits() == before


def test_frames_of_another_shape_are_refused(video: Session, tmp_path: Path) -> None:
    np.save(tmp_path / "signals.npy", np.zeros((2, 8, 5)))
    with pytest.raises(InputError, match=r"has frames of shape \(5,\), and this run was trained on \(3, 32, 32\)"):
        video.library.upload("signals.npy", (tmp_path / "signals.npy").read_bytes())


def test_fractions_become_the_run_s_bytes(video: Session, tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (1, 8, 3, 32, 32))
    np.save(tmp_path / "mine.npy", (pixels / 255).astype(np.float32))
    (clip,) = video.library.upload("mine.npy", (tmp_path / "mine.npy").read_bytes())
    np.testing.assert_array_equal(video.editor.apply(edit("original", clip)).x, pixels[0])
    assert video.editor.apply(edit("swap", "test/3", donor=clip, factors=["static"])).x.dtype == np.uint8


def test_windows_of_clips_called_by_numbers_are_swapped(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for name in ("0", "1", "2", "3"):
        write_csv(tmp_path / "in" / f"{name}.csv", {"a": random.normal(size=60), "b": random.normal(size=60)})
    brief = {"model": {"k": 4, "h": 4}, "spectrum": {"static": 1}, "train": {"epochs": 1, "batch_size": 4}}
    data = {"path": str(tmp_path / "in"), "window": 10, "split_by": "clip"}
    loop.train(Settings.of({"data": data, **brief}), tmp_path / "run", reporter=Quiet())
    session = Session(tmp_path / "run")
    split = next(iter(session.library.splits()))
    made = session.editor.apply(edit("swap", f"{split}/1", donor=f"{split}/2", factors=["static"]))
    assert made.x.shape == (10, 2)
    session.close()


def test_uploads_are_deleted_at_the_end(video_run: Path, tmp_path: Path, cache: Path) -> None:
    before = {file.name for file in cache.iterdir()}
    session = Session(video_run)
    film = write_film(tmp_path / "walk.gif", moving_square(8))
    session.library.upload("walk.gif", film.read_bytes())
    kept = session.library._folder
    assert any(kept.iterdir())
    session.close()
    assert not kept.exists()
    assert {file.name for file in cache.iterdir()} == before  # nor is anything decoded left behind


# --- data that are gone, and trainings that go on


def test_without_its_data_a_run_still_takes_files_apart(sound_run: Path, tmp_path: Path) -> None:
    run = shutil.copytree(sound_run, tmp_path / "run")
    away = Path(load(run).settings.data.path or "")
    hidden = away.rename(away.with_name("hidden"))
    try:
        session = Session(run)
        assert session.library.splits() == {}
        assert "there is no file or folder" in str(session.library.problem)
        recording = write_sound(tmp_path / "mine.wav", tone(0.5))
        (clip,) = session.library.upload("mine.wav", recording.read_bytes())
        assert len(session.editor.apply(edit("reconstruction", clip)).x) > 10
        session.close()
    finally:
        hidden.rename(away)


def test_a_training_is_followed_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "run"
    settings = SMALL.replaced({"loss": {"cycle": 0}})
    with pytest.raises(MemoryError):
        loop.train(settings, path, reporter=Quiet(crash_at=17))
    session = Session(path)
    facts = session.facts()
    assert not facts["is_finished"]
    assert "at the last checkpoint" in facts["fitted_on"]
    before = session.editor.apply(edit("swap", donor="test/7", factors=["static"])).x
    version = session.training()["version"]
    assert session.training()["version"] == version  # nothing new
    loop.resume(path, reporter=Quiet())
    followed = session.training()
    assert followed["is_finished"]
    assert followed["version"] > version
    assert len(followed["rows"]) == 3
    after = session.editor.apply(edit("swap", donor="test/7", factors=["static"])).x
    assert (before != after).any()
    finished = load(path)
    expected = finished.decompose(finished.data("test").select([3, 7])).swap("static", donor={0: 1}).decode()[0]
    np.testing.assert_allclose(after, expected, rtol=1e-6)
    session.close()


@pytest.mark.parametrize("changes", [{}, {"train": {"epochs": 6}}], ids=["ended", "longer"])
def test_a_run_that_goes_on_again_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    monkeypatch.setattr(loop, "MAX_SAVE_FRACTION", 1e9)  # a checkpoint whenever one is due
    path = tmp_path / "run"
    settings = SMALL.replaced({"loss": {"cycle": 0}})
    if changes:
        loop.train(settings, path, reporter=Quiet())
    else:
        with pytest.raises(MemoryError):
            loop.train(settings, path, reporter=Quiet(crash_at=17))
        loop.end(path, reporter=Quiet())
    session = Session(path)
    before = session.training()
    assert before["is_finished"]
    with pytest.raises(MemoryError):
        loop.resume(path, reporter=Quiet(crash_at=52 if changes else 25), changes=changes)
    going_on = session.training()
    assert not going_on["is_finished"]
    assert going_on["version"] > before["version"]
    assert len(going_on["rows"]) > len(before["rows"])
    assert "at the last checkpoint" in session.facts()["fitted_on"]
    fresh = Session(path)
    assert not fresh.facts()["is_finished"]
    fresh.close()
    loop.resume(path, reporter=Quiet())
    assert session.training()["is_finished"]
    assert "at the last checkpoint" not in session.facts()["fitted_on"]
    session.close()


# --- runs that come with the package


def test_a_pretrained_run_needs_neither_its_set_nor_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DISKOOP_CACHE", str(tmp_path / "cache"))
    session = Session("pretrained:puppets")
    assert list(session.library.splits()) == ["examples"]
    assert session.facts()["name"] == "pretrained:puppets"
    assert "verdict: good" in session.verdict()["sentences"][-1]
    swap = {"donor": "examples/9", "factors": ["hair"]}
    made = session.editor.apply(edit("swap", "examples/3", **swap))
    assert made.shell == "diskoop swap pretrained:puppets hair --pair 3:9"
    names: dict[str, Any] = {}
    exec(made.python, names)
    np.testing.assert_array_equal(names["x"], made.x)
    assert list(tmp_path.iterdir()) == []  # nothing was drawn or copied
    session.rename({"hair": "haircut"})
    assert session.facts()["path"] == "runs/pretrained-puppets"
    assert "haircut" in load("pretrained:puppets").require_factors().names  # the copy, from now on
    assert session.editor.apply(edit("swap", "examples/3", **(swap | {"factors": ["haircut"]}))).shell.startswith(
        "diskoop swap runs/pretrained-puppets haircut"
    )
    session.undo()
    assert "hair" in load("runs/pretrained-puppets").require_factors().names
    session.close()
