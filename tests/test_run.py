"""A run in one's hands: any company, any size, the units it was trained in."""

import shutil
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from diskoop import load, load_data, train
from diskoop import run as run_module
from diskoop.analysis.decomposition import CHUNK
from diskoop.data import Sequences, Units
from diskoop.errors import InputError
from diskoop.evaluation.baselines import pca_dmd, untrained_network
from diskoop.numerics import fit_operator
from diskoop.numerics.operator import float64_device
from diskoop.settings import Settings, TrainSettings
from diskoop.training import loop
from diskoop.training.precision import device_for
from tests.helpers.known_models import plain_run
from tests.helpers.media import write_csv
from tests.helpers.training import Quiet


@pytest.fixture(scope="module")
def folder(video_run: Path) -> Path:
    return video_run


def test_training_from_python_is_what_the_command_does(folder: Path, tmp_path: Path) -> None:
    run = train("puppets", tmp_path / "mine", "demo", Quiet(), data={"limit": 128}, train={"epochs": 1})
    ours, theirs = run.model.state_dict(), load(folder).model.state_dict()
    assert all(torch.equal(weight, theirs[name]) for name, weight in ours.items())
    assert run.settings.data.size == 32  # the preset's


def test_training_from_python_on_files_of_ones_own(tmp_path: Path) -> None:
    np.save(tmp_path / "mine.npy", np.random.default_rng(0).normal(size=(40, 8, 3)).cumsum(1))
    brief: dict[str, Any] = {
        "model": {"k": 6, "h": 8},
        "spectrum": {"static": 2},
        "train": {"epochs": 1, "batch_size": 8},
    }
    run = train(tmp_path / "mine.npy", tmp_path / "run", reporter=Quiet(), **brief)
    assert (run.settings.model.k, run.settings.data.path) == (6, str(tmp_path / "mine.npy"))
    with pytest.raises(InputError, match=r"unknown setting 'model.kk'; did you mean 'model.k'?"):
        train("puppets", tmp_path / "other", model={"kk": 3})
    with pytest.raises(InputError, match="modle"):
        train("puppets", tmp_path / "other", modle={"k": 3})
    with pytest.raises(InputError, match="holds a run already"):
        train("puppets", tmp_path / "run")


def test_training_from_python_on_an_array(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).normal(size=(40, 8, 3)).cumsum(1)
    brief: dict[str, Any] = {"model": {"k": 6, "h": 8}, "spectrum": {"static": 2}, "train": {"epochs": 1}}
    run = train(x, tmp_path / "run", reporter=Quiet(), **brief)
    assert np.array_equal(np.load(tmp_path / "run.npy"), x)
    assert len(load(tmp_path / "run").data("all")) == 40
    codes = run.transform(x)
    parts = run.decompose(x)
    assert codes.shape == (40, 12)
    assert np.allclose(codes[:, :6] + codes[:, 6:], parts.z.double().mean(1).numpy(), atol=1e-6)
    with pytest.raises(InputError, match=r"run.npy' exists already; choose another folder"):
        train(x, tmp_path / "run", **brief)
    with pytest.raises(InputError, match=r"unknown setting 'model\.kk'"):
        train(x, tmp_path / "other", model={"kk": 3})
    assert not (tmp_path / "other.npy").exists()
    monkeypatch.chdir(tmp_path)
    assert train(x, reporter=Quiet(), **brief).folder.path == Path("runs/array-1")
    assert train(x, reporter=Quiet(), **brief).folder.path == Path("runs/array-2")


def test_a_run_has_the_sequences_it_was_trained_on(folder: Path) -> None:
    run = load(folder)
    assert run.settings.data.limit == len(run.data("train")) == 128
    assert len(run.data("test")) == 2664
    assert "128 training sequences" in run.operator.fitted_on


@pytest.mark.skipif(torch.backends.mps.is_available(), reason="there is MPS here")
def test_devices_that_are_not_there_are_named_alike(folder: Path) -> None:
    with pytest.raises(InputError, match=r"expected a device that this machine has \(.*cpu\), got 'mps'"):
        load(folder, device="mps")
    with pytest.raises(InputError, match=r"train.device = mps, but this machine has .*cpu.* only"):
        device_for(TrainSettings(device="mps"))
    assert float64_device(torch.device("mps")) == torch.device("cpu")  # which has no float64


def test_a_run_takes_a_set_an_array_or_one_sequence_alone(folder: Path) -> None:
    run = load(folder)
    clips = load_data("puppets", "test", size=32).select([3, 500, 1000])
    together = run.decompose(clips)
    assert torch.equal(together.z, run.decompose(clips.x).z)
    alone = run.decompose(clips.select([1]))
    assert torch.allclose(alone.z[0], together.z[1], atol=1e-6)
    assert torch.equal(alone.operator.matrix, together.operator.matrix)
    video = together.decode()
    assert video.shape == clips.shape
    assert video.dtype == np.uint8


def test_a_run_knows_its_data(folder: Path) -> None:
    test = load(folder).data("test")
    assert np.array_equal(test.starts, load_data("puppets", "test", size=32).starts)
    assert test.shape[2:] == (3, 32, 32)
    assert len(load(folder).data()) == 2664


def test_a_run_names_features_of_another_set(tmp_path: Path) -> None:
    random = np.random.Generator(np.random.PCG64(0))
    for number in range(5):
        write_csv(tmp_path / "in" / f"{number}.csv", {"height": random.normal(size=9), "temp": random.normal(size=9)})
    brief = {"model": {"k": 4, "h": 4}, "spectrum": {"static": 1}, "train": {"epochs": 1}}
    loop.train(Settings.of({"data": {"path": str(tmp_path / "in")}, **brief}), tmp_path / "run", reporter=Quiet())
    run = load(tmp_path / "run")
    with pytest.raises(InputError, match="was trained on 2 features height, temp, got 4"):
        run.decompose(np.zeros((1, 9, 4), np.float32))
    with pytest.raises(InputError, match="was trained on 2 features height, temp, got 2 volts, amps"):
        run.decompose(Sequences.of(np.zeros((1, 9, 2)), units=Units(features=("volts", "amps"))))
    assert run.decompose(np.zeros((1, 9, 2), np.float32)).decode().shape == (1, 9, 2)


def test_a_run_names_frames_of_another_shape(folder: Path) -> None:
    with pytest.raises(InputError, match=r"expected video \(batch, time, 3, 32, 32\), got \(1, 8, 3, 64, 64\)"):
        load(folder).decompose(np.zeros((1, 8, 3, 64, 64), dtype=np.uint8))
    with pytest.raises(InputError, match="no such folder"):
        load(folder / "nowhere")


def test_pixels_as_fractions_are_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="expected pixels as uint8"):
        load(folder).decompose(np.zeros((1, 8, 3, 32, 32)))


def test_more_than_a_chunk_is_the_same_as_its_chunks(folder: Path) -> None:
    run, clips = load(folder), load_data("puppets", "test", size=32).select(np.arange(CHUNK + 3))
    parts = run.decompose(clips)
    assert torch.equal(parts.z[:CHUNK], run.decompose(clips.select(np.arange(CHUNK))).z)
    assert parts.decode().shape == clips.shape


def test_a_set_that_lies_on_disk_is_read_chunk_by_chunk(tmp_path: Path) -> None:
    """Of a memory-mapped file no more is held at a time than what is read ahead, whoever hands it over."""
    count = 60 * CHUNK
    frames = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=np.float64, shape=(count, 20, 8))
    frames[:] = np.random.Generator(np.random.PCG64(0)).normal(size=(count, 20, 8))
    frames.flush()
    on_disk = np.load(tmp_path / "x.npy", mmap_mode="r")
    run = plain_run(np.eye(8), 2)
    for clips in (on_disk, Sequences.of(on_disk, units=run.units)):
        tracemalloc.start()
        try:
            parts = run.decompose(clips)
            assert sum(map(len, parts.decoded())) == count
            held = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert held < on_disk.nbytes / 5
        assert np.array_equal(parts.z.numpy(), on_disk)


@pytest.mark.parametrize(("text", "sentence"), [("", "is empty"), ("{", "cannot read")])
def test_metrics_that_were_lost_are_named(text: str, sentence: str, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "run")
    (tmp_path / "run" / "metrics.jsonl").write_text(text)
    with pytest.raises(InputError, match=rf"{sentence}.*diskoop train --resume .* writes it anew"):
        load(tmp_path / "run").summary()


def test_a_batch_may_have_its_own_operator(folder: Path) -> None:
    run, clips = load(folder), load_data("puppets", "test", size=32).select(range(0, 1200, 40))
    own = run.decompose(clips, operator="batch")
    assert torch.equal(own.operator.matrix, fit_operator(own.z).matrix)
    assert own.operator.sequences == 30
    ragged = Sequences.of(clips.x, lengths=np.arange(30) % 5 + 4)
    padded = run.decompose(ragged, operator="batch")
    assert torch.equal(padded.operator.matrix, fit_operator(padded.z, padded.mask).matrix)
    assert torch.equal(own.z, run.decompose(clips).z)
    assert torch.allclose(own.static + own.dynamic, own.z, atol=1e-4)
    with pytest.raises(InputError, match="expected the operator 'frozen' or 'batch', got 'bath'"):
        run.decompose(clips, operator="bath")


def test_factors_are_kept_with_the_run_and_can_be_renamed(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "run")
    run = load(tmp_path / "run")
    assert run.factors is None
    with pytest.raises(InputError, match=r"has no factors yet; diskoop factors .* finds them"):
        run.rename_factors({"a": "b"})
    found = run.find_factors(run.data("train"))
    assert load(tmp_path / "run").factors is None
    run = run.save_factors(found).rename_factors({found.names[0]: "my first"})
    again = load(tmp_path / "run")
    assert again.factors is not None
    assert again.factors.names == ["my first", *found.names[1:]]
    parts = again.decompose(run.data("test").select([0, 2000]))
    whole = torch.stack([parts.factors[name].projector for name in again.factors.names]).sum(0)
    assert torch.allclose(whole, torch.eye(run.settings.model.k, dtype=torch.float64), atol=1e-6)
    assert not torch.equal(parts.swap("my first", [1, 0]).z, parts.z)
    assert load(tmp_path / "run", factors=False).factors is None


def test_a_device_that_is_not_there_is_named(folder: Path) -> None:
    with pytest.raises(InputError, match=r"expected a device that this machine has \(cpu.*\), got 'tpu'"):
        load(folder, device="tpu")


def test_a_notebook_sees_the_spectrum(folder: Path) -> None:
    assert load(folder)._repr_png_().startswith(b"\x89PNG")


def test_the_summary_is_of_the_frozen_operator(folder: Path) -> None:
    run = load(folder)
    summary = run.summary()
    values = torch.linalg.eigvals(run.operator.matrix)
    distance = torch.sort((values - 1).abs())[0]
    assert distance[summary["static"] - 1] == pytest.approx(summary["static_gap"])
    assert summary["fitted_on"] == "puppets, 128 training sequences"
    assert summary["last_epoch"]["epoch"] == 1


# --- the verdict


def test_a_verdict_is_measured_once_on_held_out_clips(
    series_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(series_run, tmp_path / "run", ignore=shutil.ignore_patterns("verdict.json"))
    run = load(tmp_path / "run")
    verdict = run.verdict()
    assert verdict.clips == "180 validation clips of oscillators"
    assert verdict.has_learnt
    assert verdict.pca_explained == pytest.approx(1, abs=1e-6)  # the set is linear
    test = run.verdict("test")
    assert test.clips == "256 test clips of oscillators"
    with monkeypatch.context() as patch:
        patch.setattr(run_module, "judge", lambda *words: pytest.fail("measured again"))
        assert load(tmp_path / "run").verdict() == verdict
        assert run.verdict("test") == test
    run.folder.verdict.write_text("{")
    assert run.verdict() == verdict


def test_pca_judged_as_a_model_is_as_good_as_pca(series_run: Path, tmp_path: Path) -> None:
    shutil.copytree(series_run, tmp_path / "run")
    run = load(tmp_path / "run")
    verdict = pca_dmd(run, run.data("train")).verdict()
    assert verdict.explained == pytest.approx(verdict.pca_explained)
    assert verdict.within == pytest.approx(verdict.pca_within, abs=1e-6)
    assert verdict.problems == []


@pytest.mark.parametrize("kind", ["series_run", "video_run", "sound_run"])
def test_an_untrained_network_has_learnt_nothing(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    shutil.copytree(request.getfixturevalue(kind), tmp_path / "run")
    run = load(tmp_path / "run")
    verdict = untrained_network(run, run.data("train")).verdict()
    assert not verdict.has_learnt
    assert "it has not learnt these clips; train longer" in verdict.conclusion


def test_a_verdict_falls_back_on_test_clips_and_says_where_nothing_was_held_out(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(40, 8, 3)).cumsum(1)
    np.save(tmp_path / "mine.npy", x)
    brief: dict[str, Any] = {"model": {"k": 6, "h": 8}, "spectrum": {"static": 2}, "train": {"epochs": 1}}
    data: dict[str, Any] = {"val_fraction": 0}
    run = train(tmp_path / "mine.npy", tmp_path / "run", reporter=Quiet(), data=data, **brief)
    assert run.verdict().clips == "4 test clips of mine.npy"
    data["test_fraction"] = 0
    run = train(tmp_path / "mine.npy", tmp_path / "all", reporter=Quiet(), data=data, **brief)
    with pytest.raises(InputError, match=r"no clips of mine\.npy were held out; data\.val_fraction=0\.1 would"):
        run.verdict()
    assert not run.folder.verdict.exists()


def test_windows_are_counted_with_their_clips(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for number in range(20):
        write_csv(tmp_path / "in" / f"{number}.csv", {"a": random.normal(size=32), "b": random.normal(size=32)})
    brief: dict[str, Any] = {"model": {"k": 4, "h": 4}, "spectrum": {"static": 1}, "train": {"epochs": 1}}
    run = train(tmp_path / "in", tmp_path / "run", reporter=Quiet(), data={"window": 8}, **brief)
    assert run.verdict().clips == "8 windows of 2 validation clips of in"


def test_an_array_that_cannot_be_trained_on_leaves_nothing_behind(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(12, 10, 3))
    for bad, settings in ((x[0], {}), (np.full_like(x, np.nan), {}), (x, {"data": {"columns": "a"}})):
        with pytest.raises(InputError):
            train(bad, tmp_path / "run", None, Quiet(), **settings)
        assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match=r"expected sections of settings such as model=\{'k': 24\}, got train.steps=5"):
        train(x, tmp_path / "run", None, Quiet(), **{"train.steps": 5})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="unknown split 'tset'; did you mean 'test'"):
        load_data("oscillators", "all").split("tset")  # type: ignore[arg-type]
