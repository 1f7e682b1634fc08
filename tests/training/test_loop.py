"""Training learns, stops, goes on, and ends the same to the bit."""

import json
import math
import shutil
import threading
from collections.abc import Iterable, Iterator
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from diskoop import load, load_data
from diskoop.data import Sequences, batches
from diskoop.data.batches import Batch, prefetch
from diskoop.data.sets import oscillators
from diskoop.errors import InputError, Stopped, counted
from diskoop.models.residual import start_from_pca
from diskoop.numerics import Spectrum, fit_operator
from diskoop.numerics.operator import SnapshotQR
from diskoop.run_folder import RunFolder
from diskoop.settings import Settings
from diskoop.tensor_files import read_tensors
from diskoop.training import loop
from diskoop.training.checkpoint import save_checkpoint
from diskoop.training.cuda_graph import CapturedStep
from diskoop.training.frozen_operator import fit_frozen_operator
from diskoop.training.objective import Objective, ObjectiveOutput
from diskoop.training.precision import device_for
from diskoop.training.step import StepOutput
from tests.helpers.training import SMALL, Quiet


def rows(folder: Path) -> list[dict[str, Any]]:
    """What metrics.jsonl says, less the wall format_duration."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [
        {name: value for name, value in json.loads(line).items() if name not in ("seconds", "waited")} for line in lines
    ]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "undisturbed"
    loop.train(SMALL, folder, reporter=Quiet())
    return folder


def test_a_run_folder_holds_what_it_should(undisturbed: Path) -> None:
    names = {file.name for file in undisturbed.iterdir()}
    assert names == {
        "settings.yaml", "checkpoint.safetensors", "metrics.jsonl", "model.safetensors", "operator.safetensors"
    }  # fmt: skip
    assert Settings.load(undisturbed / "settings.yaml") == SMALL
    history = rows(undisturbed)
    assert [row["epoch"] for row in history] == [1, 2, 3]
    assert [row["step"] for row in history] == [10, 20, 30]
    assert history[-1]["val.total"] < history[0]["val.total"]


@pytest.mark.parametrize("crash_at", [1, 4, 10, 17, 30])
def test_a_crash_anywhere_and_a_resume_end_bit_equal(undisturbed: Path, tmp_path: Path, crash_at: int) -> None:
    with pytest.raises(MemoryError):
        loop.train(SMALL, tmp_path / "run", reporter=Quiet(crash_at))
    assert not (tmp_path / "run" / "model.safetensors").exists()
    loop.resume(tmp_path / "run", reporter=Quiet())
    for name in ("model.safetensors", "operator.safetensors"):
        assert (tmp_path / "run" / name).read_bytes() == (undisturbed / name).read_bytes()
    assert rows(tmp_path / "run") == rows(undisturbed)
    ours, theirs = (
        read_tensors(folder / "checkpoint.safetensors", "checkpoint")[0] for folder in (tmp_path / "run", undisturbed)
    )
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_another_seed_is_another_run(undisturbed: Path, tmp_path: Path) -> None:
    loop.train(SMALL.replaced({"train": {"seed": 1}}), tmp_path / "run", reporter=Quiet())
    assert (tmp_path / "run" / "model.safetensors").read_bytes() != (undisturbed / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_video_resumes_bit_equal_too(tmp_path: Path) -> None:
    loop.train(VIDEO, tmp_path / "a", reporter=Quiet())
    with pytest.raises(MemoryError):
        loop.train(VIDEO, tmp_path / "b", reporter=Quiet(crash_at=7))
    loop.resume(tmp_path / "b", reporter=Quiet())
    assert (tmp_path / "a" / "model.safetensors").read_bytes() == (tmp_path / "b" / "model.safetensors").read_bytes()


@pytest.fixture
def lagging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps as on CUDA, which are told of one step later; there they are captured too."""

    def stepper(self: loop.Trainer) -> CapturedStep:
        return CapturedStep(self.objective, self.optimizer, self.train_set, self.batch_size)

    monkeypatch.setattr(loop.Trainer, "_make_step", stepper)


@pytest.mark.usefixtures("lagging")
@pytest.mark.slow
def test_steps_that_lag_are_counted_and_resumed_alike(undisturbed: Path, tmp_path: Path) -> None:
    loop.train(SMALL, tmp_path / "whole", reporter=Quiet())
    wanted = rows(undisturbed)
    for row, other in zip(rows(tmp_path / "whole"), wanted, strict=True):
        assert row == pytest.approx(other, rel=1e-3)  # float32, rounded in another order
    for crash_at in (1, 4, 17, 29):
        run = tmp_path / f"crashed at {crash_at}"
        with pytest.raises(MemoryError):
            loop.train(SMALL, run, reporter=Quiet(crash_at))
        loop.resume(run, reporter=Quiet())
        assert rows(run) == rows(tmp_path / "whole")
        assert (run / "model.safetensors").read_bytes() == (tmp_path / "whole" / "model.safetensors").read_bytes()


@pytest.mark.usefixtures("lagging")
def test_a_polite_stop_waits_for_the_step_that_lags(tmp_path: Path) -> None:
    training = loop.Trainer(SMALL, RunFolder(tmp_path), Quiet())
    asked: list[int] = []
    taking, outputs = training._train_step, []

    def noting(batch: Batch) -> Iterable[StepOutput]:
        outputs.append(taking(batch))
        asked.extend([2] if len(outputs) == 4 else [])
        return outputs[-1]

    training._train_step = noting  # type: ignore[method-assign]
    with pytest.raises(Stopped, match="saved at step 4 of 30"):
        training._train_interval(Quiet().open(30, 0, 3), asked)
    assert training.num_recorded == 4
    record = read_tensors(tmp_path / "checkpoint.safetensors", "checkpoint")[1]
    assert record["step"] == 4
    recorded = [one.terms["total"] for ended in outputs for one in ended]
    assert len(recorded) == 2  # the third came with a save, the fourth with the stop
    assert record["sums"]["total"] > sum(recorded) + 1.5 * min(recorded)


@pytest.mark.parametrize(("share", "written"), [(math.inf, 11), (1e-9, 2)])
def test_checkpoints_take_a_small_share_of_the_time(
    share: float, written: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first step and after the last there is always one; ten steps in between if they are cheap enough."""
    monkeypatch.setattr(loop, "MAX_SAVE_FRACTION", share)
    saved = []

    def counting(*arguments: Any) -> None:
        saved.append(1)
        save_checkpoint(*arguments)

    monkeypatch.setattr(loop, "save_checkpoint", counting)
    loop.train(SMALL.replaced({"train": {"save_every": 1, "epochs": 1}}), tmp_path / "run", reporter=Quiet())
    assert len(saved) == written


@pytest.mark.usefixtures("lagging")
def test_going_astray_names_the_step_that_did_and_saves_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "MAX_SAVE_FRACTION", math.inf)  # whatever it takes
    training = loop.Trainer(SMALL.replaced({"train": {"save_every": 1}}), RunFolder(tmp_path), Quiet())
    fast = training.step
    assert isinstance(fast, CapturedStep)
    update, outputs = fast.stages["update"], []

    def breaking() -> None:
        update()
        outputs.append(1)
        if len(outputs) == 4:
            fast.losses.device[-1] = torch.nan

    fast.stages["update"] = breaking
    with pytest.raises(Stopped, match=r"diverged at step 4: the loss is .*, its gradient's norm nan"):
        training._train_interval(Quiet().open(30, 0, 3), [])
    assert read_tensors(tmp_path / "checkpoint.safetensors", "checkpoint")[1]["step"] == 3


def test_the_frozen_operator_is_that_of_the_whole_training_set(undisturbed: Path) -> None:
    run = load(undisturbed)
    x = torch.from_numpy(load_data("oscillators", "train").x[:200]).float()
    with torch.no_grad():
        expected = fit_operator(run.model.encode(x))
    assert torch.allclose(run.operator.matrix, expected.matrix, atol=1e-9)
    assert (run.operator.sequences, run.operator.steps) == (200, 200 * 23)
    assert run.operator.fitted_on == "oscillators, 200 training sequences"


def test_another_thread_count_is_told(tmp_path: Path) -> None:
    """Sums over other numbers of threads differ in their last bits, so what follows may."""
    with pytest.raises(MemoryError):
        loop.train(SMALL, tmp_path / "run", reporter=Quiet(crash_at=8))
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    threads = torch.get_num_threads()
    told = f"trained with {counted(threads, 'thread')} so far and with {threads + 1} from here"
    loud = Quiet(crash_at=9)
    try:
        torch.set_num_threads(threads + 1)
        with pytest.raises(MemoryError):
            loop.resume(tmp_path / "run", reporter=loud)
    finally:
        torch.set_num_threads(threads)
    assert [message for message in loud.messages if told in message and f"OMP_NUM_THREADS={threads}" in message]
    quiet = Quiet()
    loop.resume(tmp_path / "copy", reporter=quiet)
    assert not [message for message in quiet.messages if "so far and with" in message]


def test_a_finished_run_resumes_to_itself(undisturbed: Path) -> None:
    before = (undisturbed / "model.safetensors").read_bytes()
    quiet = Quiet()
    assert not loop.resume(undisturbed, reporter=quiet)
    assert (undisturbed / "model.safetensors").read_bytes() == before
    told = "is finished, at step 30 of 30, so nothing was trained; diskoop train --resume"
    assert len(quiet.messages) == 1
    assert told in quiet.messages[0]
    assert "train.epochs=6 trains on" in quiet.messages[0]


def test_a_run_that_was_ended_early_and_lost_its_last_files_gets_them(undisturbed: Path, tmp_path: Path) -> None:
    """The model in the folder is an earlier one, as after --end, --resume and a crash before the last files."""
    shutil.copytree(undisturbed, tmp_path / "run")
    loop.train(SMALL.replaced({"train": {"epochs": 1}}), tmp_path / "early", reporter=Quiet())
    shutil.copy(tmp_path / "early" / "model.safetensors", tmp_path / "run")
    assert loop.resume(tmp_path / "run", reporter=Quiet())
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (undisturbed / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_a_model_beside_pca_resumes_bit_equal_without_another_pca(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = SMALL.replaced({"model": {"pca_skip": True}})
    starts: list[Any] = []

    def counting(model: Any, data: Sequences) -> None:
        starts.append(model)
        start_from_pca(model, data)

    monkeypatch.setattr(loop, "start_from_pca", counting)
    loop.train(settings, tmp_path / "whole", reporter=Quiet())
    with pytest.raises(MemoryError):
        loop.train(settings, tmp_path / "run", reporter=Quiet(17))
    loop.resume(tmp_path / "run", reporter=Quiet())
    assert len(starts) == 2  # of the two that began anew
    loop.train(settings, tmp_path / "tuned", start=tmp_path / "run", reporter=Quiet())
    assert len(starts) == 2
    for name in ("model.safetensors", "operator.safetensors"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.parametrize("reduction", ["element", "frame"])
def test_the_variance_explained_in_validation_is_that_of_the_verdict(tmp_path: Path, reduction: str) -> None:
    loop.train(SMALL.replaced({"loss": {"reduction": reduction}}), tmp_path / "run", reporter=Quiet())
    assert rows(tmp_path / "run")[-1]["val.explained"] == pytest.approx(
        load(tmp_path / "run").verdict().explained, 1e-4
    )


def test_damaged_and_foreign_checkpoints_are_errors(undisturbed: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    with pytest.raises(InputError, match=r"settings\.yaml is missing"):
        loop.resume(run)
    SMALL.save(run / "settings.yaml")
    with pytest.raises(InputError, match=r"checkpoint\.safetensors is missing"):
        loop.resume(run)
    content = bytearray((undisturbed / "checkpoint.safetensors").read_bytes())
    content[-5] ^= 1
    (run / "checkpoint.safetensors").write_bytes(content)
    with pytest.raises(InputError, match="does not match its checksum"):
        loop.resume(run)
    content[-5] ^= 1
    (run / "checkpoint.safetensors").write_bytes(content)
    SMALL.replaced({"train": {"lr": 0.02}}).save(run / "settings.yaml")
    with pytest.raises(InputError, match="belongs to another run; what differs: settings"):
        loop.resume(run)


def test_a_folder_in_use_is_left_alone(undisturbed: Path) -> None:
    before = {file.name: file.read_bytes() for file in undisturbed.iterdir()}
    with pytest.raises(InputError, match="holds a run already"):
        loop.train(SMALL, undisturbed, reporter=Quiet())
    assert {file.name: file.read_bytes() for file in undisturbed.iterdir()} == before


def test_fine_tuning_starts_from_the_weights(undisturbed: Path, tmp_path: Path) -> None:
    gentle = SMALL.replaced({"train": {"epochs": 1, "lr": 1e-9}})
    loop.train(gentle, tmp_path / "tuned", start=undisturbed, reporter=Quiet())
    ours, theirs = (
        read_tensors(folder / "model.safetensors", "model")[0] for folder in (tmp_path / "tuned", undisturbed)
    )
    assert all(torch.allclose(ours[name], theirs[name], atol=1e-6) for name in theirs)
    wider = gentle.replaced({"model": {"k": 11}})
    with pytest.raises(InputError, match=r"does not fit this model.*wanted"):
        loop.train(wider, tmp_path / "wider", start=undisturbed, reporter=Quiet())
    assert not (tmp_path / "wider").exists()


def test_a_gradient_that_is_no_number_stops_before_it_reaches_the_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An infinite gradient at step 4: the message says so, and the checkpoint of step 3 is what it was."""
    monkeypatch.setattr(loop, "MAX_SAVE_FRACTION", math.inf)  # whatever it takes
    forward = Objective.forward
    steps: list[int] = []

    def breaking(self: Objective, *batch: Any) -> ObjectiveOutput:
        terms = forward(self, *batch)
        steps.append(1)
        # The square root of something that is zero: a finite loss, an infinite slope.
        return terms._replace(total=terms.total + (terms.total - terms.total).sqrt()) if len(steps) > limit else terms

    limit = 10**9
    monkeypatch.setattr(Objective, "forward", breaking)
    training = loop.Trainer(SMALL.replaced({"train": {"save_every": 1}}), RunFolder(tmp_path), Quiet())
    training.estimate_cost()
    limit = len(steps) + 3
    with pytest.raises(Stopped, match=r"diverged at step 4: the loss is .*, its gradient's norm nan"):
        training._train_interval(Quiet().open(30, 0, 3), [])
    assert all(torch.isfinite(weight).all() for weight in training.model.parameters())
    tensors, record = read_tensors(tmp_path / "checkpoint.safetensors", "checkpoint")
    assert record["step"] == 3
    assert all(torch.isfinite(tensor).all() for tensor in tensors.values())


def step(training: loop.Trainer, indices: NDArray[np.int64]) -> StepOutput:
    """One step on the training sequences at `indices`."""
    (outputs,) = training._train_step(Batch(indices, *training.train_set.read_batch(indices, torch.float32), 0.0))
    return outputs


def test_weights_that_are_no_numbers_stop_training_with_exit_code_1_not_2(tmp_path: Path) -> None:
    wild = SMALL.replaced({"train": {"lr": 100, "schedule": "constant", "warmup": 0, "grad_clip": None}})
    training = loop.Trainer(wild, RunFolder(tmp_path), Quiet())
    with torch.no_grad():
        next(training.model.parameters()).fill_(torch.nan)
    with pytest.raises(Stopped, match=r"diverged at step 1: .*NaN or infinity"):
        step(training, np.arange(20))


@pytest.mark.slow
def test_training_pulls_the_spectrum_apart(tmp_path: Path) -> None:
    """Known answer: three static dimensions and five that fade; a minute's training finds as many."""
    settings = SMALL.replaced(
        {"data": {"limit": None}, "model": {"k": 10, "noise": 0.0}, "loss": {"eig": 2.0}, "train": {"epochs": 4}}
    )
    loop.train(settings, tmp_path / "run", reporter=Quiet())
    spectrum = Spectrum.of(load(tmp_path / "run").operator.matrix)
    static = spectrum.static(3)
    assert (spectrum.eigenvalues[static] - 1).abs().max() < 0.1
    assert spectrum.eigenvalues[~static].abs().max() < 1.0


@pytest.mark.parametrize("precision", ["bf16", "64"])
def test_other_precisions(precision: str, tmp_path: Path) -> None:
    settings = SMALL.replaced({"train": {"precision": precision, "epochs": 1}})
    loop.train(settings, tmp_path / "run", reporter=Quiet())
    tensors, _ = read_tensors(tmp_path / "run" / "model.safetensors", "model")
    wanted = torch.float64 if precision == "64" else torch.float32
    assert {tensor.dtype for tensor in tensors.values()} == {wanted}
    assert load(tmp_path / "run").decompose(load_data("oscillators", "test").select([0, 1])).decode().shape == (
        2,
        24,
        8,
    )


VIDEO = Settings.of(
    {
        "data": {"name": "puppets", "size": 32, "limit": 16},
        "model": {"k": 8, "h": 8, "width": 4},
        "spectrum": {"static": 3},
        "loss": {"cycle": 1.0},
        "train": {"epochs": 2, "batch_size": 4, "blur": True, "save_every": 2, "precision": "32"},
    }
)


def test_evaluation_uses_and_keeps_the_statistics_of_training(tmp_path: Path) -> None:
    """Batch norm in validation and in the frozen operator is that of use: nothing of the batch, nothing left behind."""
    training = loop.Trainer(VIDEO, RunFolder(tmp_path), Quiet())
    assert training.val_set is not None
    training.val_set = training.val_set.select(np.arange(8))
    for start in (0, 4, 8, 12):
        step(training, np.arange(start, start + 4))
    before = {name: tensor.clone() for name, tensor in training.model.state_dict().items()}
    validated = training._validate()
    frozen = fit_frozen_operator(training.model.train(), training.train_set, batch_size=4)
    assert all(torch.equal(before[name], tensor) for name, tensor in training.model.state_dict().items())

    training.model.eval()
    x, _ = training.val_set.batch(np.arange(8), next(training.model.parameters()))
    with torch.no_grad():
        rec = (training.model(x) - x).square().mean()
        z = training.model.encode(training.train_set.batch(np.arange(16), x)[0])
    assert validated["rec"] == pytest.approx(float(rec), rel=1e-5)
    assert torch.allclose(frozen.matrix, fit_operator(z).matrix, atol=1e-4)


@pytest.fixture
def ragged_films(tmp_path: Path) -> Path:
    for number in range(12):
        np.save(tmp_path / f"{number}.npy", load_data("puppets", "train", size=32).read([number])[0][: 4 + number % 5])
    return tmp_path


def test_video_of_unequal_length_is_trained_on(ragged_films: Path, tmp_path: Path) -> None:
    settings = VIDEO.replaced({"data": {"name": None, "path": str(ragged_films), "size": None}})
    loop.train(settings, tmp_path / "run", reporter=Quiet())
    clips = load_data(ragged_films, "all")
    run = load(tmp_path / "run")
    parts = run.decompose(clips)
    assert parts.mask is not None
    assert parts.mask.sum(1).tolist() == clips.lengths.tolist()
    assert (parts.z[~parts.mask] == 0).all()
    train = clips.split("train")
    alone = [run.decompose(train.select([index])).z[0] for index in range(len(train))]
    snapshots = reduce(add, [SnapshotQR.of(z[None]) for z in alone])  # of real frames only
    assert torch.allclose(run.operator.matrix, snapshots.solve().matrix, atol=1e-4)
    whole = clips.stitch(parts.decode())
    for index in range(12):
        alone = run.decompose(clips.select([index])).decode()[0]
        assert np.abs(whole[clips.clip_name(index)].astype(int) - alone[: clips.lengths[index]]).max() <= 1


def test_validation_averages_over_frames(ragged_films: Path, tmp_path: Path) -> None:
    data = {
        "name": None,
        "path": str(ragged_films),
        "size": None,
        "limit": None,
        "val_fraction": 0.4,
        "test_fraction": 0.1,
    }
    one, many = (
        loop.Trainer(
            VIDEO.replaced({"data": data, "train": {"batch_size": batch}, "loss": {"pred": 0, "eig": 0, "cycle": 0}}),
            RunFolder(tmp_path),
            Quiet(),
        )._validate()
        for batch in (100, 1)
    )
    assert one["rec"] == pytest.approx(many["rec"], rel=1e-5)


def test_all_can_be_trained_on(tmp_path: Path) -> None:
    loop.train(SMALL.replaced({"data": {"val_fraction": 0.0}}), tmp_path / "run", reporter=Quiet())
    assert not any(name.startswith("val.") for row in rows(tmp_path / "run") for name in row)
    everything = loop.Trainer(
        SMALL.replaced({"data": {"val_fraction": 0.0, "limit": None}}), RunFolder(tmp_path), Quiet()
    )
    assert len(everything.train_set) == 1800
    assert "static_gap" in load(tmp_path / "run").summary()


def test_one_operator_a_sequence(tmp_path: Path) -> None:
    settings = SMALL.replaced(
        {"model": {"operator_scope": "sequence"}, "spectrum": {"static": 1}, "loss": {"cycle": 0}}
    )
    training = loop.Trainer(settings, RunFolder(tmp_path), Quiet())
    z = training.model.encode(training.train_set.batch(np.arange(5), torch.zeros(1))[0])
    assert training.model.fit_operator(z).matrix.shape == (5, 10, 10)
    assert np.isfinite(step(training, np.arange(20)).terms["total"])
    assert fit_frozen_operator(training.model, training.train_set, 20).matrix.shape == (10, 10)


def test_an_interrupted_write_of_metrics_is_mended(undisturbed: Path, tmp_path: Path) -> None:
    shutil.copytree(undisturbed, tmp_path / "run")
    (tmp_path / "run" / "metrics.jsonl").write_text("")
    loop.resume(tmp_path / "run", reporter=Quiet())
    assert rows(tmp_path / "run") == rows(undisturbed)


def test_a_new_run_appears_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted before its first checkpoint there is no folder, so the same command can be given again."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(loop, "save_checkpoint", stop)
        with pytest.raises(KeyboardInterrupt):
            loop.train(SMALL, tmp_path / "run", reporter=Quiet())
    assert list(tmp_path.iterdir()) == []


def test_other_data_is_another_run(undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(undisturbed, tmp_path / "run")
    mixing = oscillators._mixing
    monkeypatch.setattr(oscillators, "_mixing", lambda name: 2 * mixing(name))
    with pytest.raises(InputError, match="belongs to another run; what differs: data"):
        loop.resume(tmp_path / "run", reporter=Quiet())


def test_other_rounding_of_computed_data_is_the_same_run(
    undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processors differ in the last bits of what they compute."""
    shutil.copytree(undisturbed, tmp_path / "run")
    mixing = oscillators._mixing
    monkeypatch.setattr(oscillators, "_mixing", lambda name: (1 + 1e-13) * mixing(name))
    assert not loop.resume(tmp_path / "run", reporter=Quiet())  # it is recognised, and finished


def test_an_operator_of_another_model_is_refused(undisturbed: Path, tmp_path: Path) -> None:
    shutil.copytree(undisturbed, tmp_path / "run")
    loop.train(SMALL.replaced({"train": {"seed": 1, "epochs": 1}}), tmp_path / "other", reporter=Quiet())
    shutil.copy(tmp_path / "other" / "operator.safetensors", tmp_path / "run")
    with pytest.raises(InputError, match="belongs to another model"):
        load(tmp_path / "run")


def test_settings_that_have_changed_since_are_refused(undisturbed: Path, tmp_path: Path) -> None:
    """A settings file cut short is valid YAML with other values; loading it would split the spectrum elsewhere."""
    shutil.copytree(undisturbed, tmp_path / "run")
    text = (tmp_path / "run" / "settings.yaml").read_text()
    (tmp_path / "run" / "settings.yaml").write_text(text[: text.index("spectrum:")])
    with pytest.raises(InputError, match=r"settings\.yaml has changed"):
        load(tmp_path / "run")


def test_impossible_data_for_these_settings_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"train\.blur = true is for video, but oscillators is a signal"):
        loop.train(SMALL.replaced({"train": {"blur": True}}), tmp_path / "run", reporter=Quiet())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"data": {"limit": 1}},
        {"train": {"batch_size": 500}},
        {"model": {"k": 1}, "spectrum": {"static": 1}, "loss": {"cycle": 0}},
        {"spectrum": {"static": 0}, "loss": {"cycle": 0}},
        {"loss": {"eig": 0, "cycle": 0}},
        {"data": {"name": "pendulum"}, "spectrum": {"dynamic_penalty": "ball", "radius": 1.0}},
        {"data": {"name": "growth"}, "spectrum": {"dynamic_penalty": "ball", "radius": 1.1, "static": 1}},
        {"model": {"h": None}},
        {"model": {"ridge": 0}},
    ],
)
def test_corners_train(changes: dict[str, Any], tmp_path: Path) -> None:
    settings = SMALL.replaced({"train": {"epochs": 1}}).replaced(changes)
    loop.train(settings, tmp_path / "run", reporter=Quiet())
    summary = load(tmp_path / "run").summary()
    assert np.isfinite(summary["last_epoch"]["val.total"])
    assert summary["static"] >= settings.spectrum.static


def test_tensorboard_has_the_same_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.setattr(loop, "MAX_SAVE_FRACTION", 1e-9)  # the crash leaves no checkpoint, and two epochs are run again
    with pytest.raises(MemoryError):
        loop.train(SMALL.replaced({"train": {"tensorboard": True}}), tmp_path / "run", reporter=Quiet(crash_at=25))
    assert [row["epoch"] for row in rows(tmp_path / "run")] == [1, 2]  # known all the same
    loop.resume(tmp_path / "run", reporter=Quiet())
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    shown = [event.value for event in events.Scalars("val/rec")]
    assert shown == pytest.approx([row["val.rec"] for row in rows(tmp_path / "run")])
    assert len(shown) == 3


def test_learning_rates() -> None:
    options = SMALL.train.model_copy(update={"lr": 2.0, "warmup": 4, "schedule": "constant"})
    assert [loop.learning_rate(options, step, 100) for step in (0, 1, 3, 50)] == [0.5, 1.0, 2.0, 2.0]
    cosine = options.model_copy(update={"warmup": 0, "schedule": "cosine"})
    assert loop.learning_rate(cosine, 0, 100) == 2.0
    assert loop.learning_rate(cosine, 50, 100) == pytest.approx(1.0)
    assert loop.learning_rate(cosine, 100, 100) == pytest.approx(0.0)


def test_missing_devices_are_named() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(InputError, match=r"train.device = cuda, but this machine has cpu"):
        device_for(SMALL.train.model_copy(update={"device": "cuda"}))


def test_training_works_in_a_thread(tmp_path: Path) -> None:
    """Signals can be caught in the main thread only; a server trains elsewhere."""
    thread = threading.Thread(
        target=loop.train, args=(SMALL.replaced({"train": {"epochs": 1}}), tmp_path / "run", None, Quiet())
    )
    thread.start()
    thread.join()
    assert (tmp_path / "run" / "model.safetensors").exists()


def test_batches_visit_every_sequence_once_an_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    visited: list[int] = []

    def noting(data: Sequences, batches: Iterable[Any], **options: Any) -> Iterator[Batch]:
        for ready in prefetch(data, batches, **options):
            assert torch.equal(ready.x, data.batch(ready.indices, torch.zeros(1))[0])
            visited.extend(ready.indices.tolist())
            yield ready

    monkeypatch.setattr(batches, "prefetch", noting)
    loop.train(SMALL.replaced({"train": {"epochs": 2}}), tmp_path / "run", reporter=Quiet())
    first, second = visited[:200], visited[200:]
    assert sorted(first) == sorted(second) == list(range(200))
    assert first != second
    assert not np.array_equal(first, np.arange(200))


# --- budgets, early stopping, going on with other settings, ending early


def in_steps(**changes: Any) -> Settings:
    return SMALL.replaced({"train": {"steps": 25, "save_every": 3} | changes})


def test_a_budget_in_steps_is_kept_whatever_the_size_of_the_set(tmp_path: Path) -> None:
    loop.train(in_steps(), tmp_path / "run", reporter=Quiet())
    history = rows(tmp_path / "run")
    assert [row["step"] for row in history] == list(range(1, 26))  # at most 40 validations, so each step has one here
    assert history[9]["epoch"] == 1.0  # ten steps are a pass over 200 sequences
    assert load(tmp_path / "run").settings.train.epochs is None


def test_the_first_steps_of_a_budget_in_steps_are_those_of_epochs(undisturbed: Path, tmp_path: Path) -> None:
    """The same batches in the same order: every pass is a permutation, however often it is validated."""
    loop.train(in_steps(steps=30), tmp_path / "run", reporter=Quiet())
    assert (tmp_path / "run" / "operator.safetensors").stat().st_size > 0
    ours, theirs = (read_tensors(each / "model.safetensors", "model")[0] for each in (tmp_path / "run", undisturbed))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training that soon gets worse: its learning rate is far too large."""
    folder = tmp_path_factory.mktemp("runs") / "impatient"
    loop.train(in_steps(lr=0.5, patience=4, steps=60, schedule="constant"), folder, reporter=Quiet())
    return folder


def test_patience_ends_training_and_the_best_weights_are_taken(impatient: Path) -> None:
    history = rows(impatient)
    losses = [row["val.total"] for row in history]
    best = int(np.argmin(losses))
    assert len(losses) == best + 1 + 4 < 30
    checkpoint = read_tensors(impatient / "checkpoint.safetensors", "checkpoint")[0]
    model = read_tensors(impatient / "model.safetensors", "model")[0]
    assert all(torch.equal(tensor, checkpoint[f"best.{name}"]) for name, tensor in model.items())
    assert not all(torch.equal(tensor, checkpoint[f"model.{name}"]) for name, tensor in model.items())


@pytest.mark.parametrize("crash_at", [2, pytest.param(7, marks=pytest.mark.slow)])
def test_a_crash_does_not_lose_the_best_weights(impatient: Path, tmp_path: Path, crash_at: int) -> None:
    settings = Settings.load(impatient / "settings.yaml")
    with pytest.raises(MemoryError):
        loop.train(settings, tmp_path / "run", reporter=Quiet(crash_at))
    loop.resume(tmp_path / "run", reporter=Quiet())
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (impatient / "model.safetensors").read_bytes()


def test_an_interrupted_run_can_be_ended_as_it_is_and_still_goes_on(
    undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "MAX_SAVE_FRACTION", math.inf)  # a checkpoint at every chance
    run = tmp_path / "run"
    with pytest.raises(MemoryError):
        loop.train(SMALL, run, reporter=Quiet(17))
    with pytest.raises(InputError, match=r"--end .* makes do with what there is"):
        load(run)
    loop.end(run, reporter=Quiet())
    assert load(run).decompose(load_data("oscillators", "test").select([0, 1])).decode().shape == (2, 24, 8)
    loop.resume(run, reporter=Quiet())
    assert (run / "model.safetensors").read_bytes() == (undisturbed / "model.safetensors").read_bytes()


def test_a_run_without_a_validation_yet_cannot_be_ended(tmp_path: Path) -> None:
    with pytest.raises(MemoryError):
        loop.train(SMALL, tmp_path / "run", reporter=Quiet(2))
    with pytest.raises(InputError, match="has not come to its first validation yet"):
        loop.end(tmp_path / "run", reporter=Quiet())


def test_a_run_goes_on_with_other_settings(undisturbed: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(undisturbed, run)
    loop.resume(run, reporter=Quiet(), changes={"train": {"epochs": 5, "lr": 0.002}, "loss": {"eig": 2.0}})
    assert [row["step"] for row in rows(run)] == [10, 20, 30, 40, 50]
    settings = load(run).settings
    assert (settings.train.epochs, settings.train.lr, settings.loss.eig) == (5, 0.002, 2.0)
    assert rows(run)[:3] == rows(undisturbed)
    with pytest.raises(InputError, match="other settings of train, loss, spectrum, got model"):
        loop.resume(run, reporter=Quiet(), changes={"model": {"k": 4}})


def test_a_budget_that_is_spent_already_changes_nothing(undisturbed: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(undisturbed, run)
    with pytest.raises(InputError, match="has 30 steps behind it already, got a budget of 20"):
        loop.resume(run, reporter=Quiet(), changes={"train": {"steps": 20}})
    assert Settings.load(run / "settings.yaml") == SMALL


def test_a_change_that_was_cut_off_can_be_made_again(undisturbed: Path, tmp_path: Path) -> None:
    """A crash after the new settings were written, before the checkpoint was."""
    run = tmp_path / "run"
    shutil.copytree(undisturbed, run)
    SMALL.replaced({"train": {"epochs": 4}}).save(run / "settings.yaml")
    loop.resume(run, reporter=Quiet(), changes={"train": {"epochs": 4}})
    assert len(rows(run)) == 4


def test_few_clips_get_few_latents_and_are_shifted_about() -> None:
    film = Sequences.of(np.zeros((20, 8, 3, 32, 32), np.uint8))
    wide = Settings.of({"model": {"pca_skip": True, "k": 40}, "spectrum": {"static": 20}, "train": {"augment": "auto"}})
    few, notes = loop.fit_to_data(wide, film)
    assert (few.model.k, few.spectrum.static, few.train.augment) == (5, 2, True)
    assert notes == ["only 20 windows without overlap: model.k = 5 instead of 40, spectrum.static = 2"]
    many, none = loop.fit_to_data(wide, Sequences.of(np.zeros((1000, 8, 3, 32, 32), np.uint8)))
    assert (many.model.k, many.train.augment, none) == (40, False, [])
    plain = Settings.of({"model": {"k": 40}})
    assert loop.fit_to_data(plain, film) == (plain, [])
