"""Training learns, stops, goes on, and ends the same to the bit."""

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from diskoop import load, load_data
from diskoop.errors import InputError, Stopped
from diskoop.numerics import Spectrum, fit_operator
from diskoop.settings import Settings
from diskoop.training import loop
from diskoop.training.checkpoint import RunFolder, load_operator, read_tensors
from diskoop.training.progress import Bar, Reporter

SMALL = Settings.of(
    {
        "data": {"name": "oscillators", "limit": 200},
        "model": {"k": 10, "h": 12, "noise": 0.001},
        "spectrum": {"static": 3, "radius": 0.9},
        "loss": {"cycle": 0.5},
        "train": {
            "epochs": 3,
            "batch": 20,
            "lr": 0.01,
            "schedule": "cosine",
            "warmup": 5,
            "clip": 1.0,
            "save_every": 3,
        },
    }
)


class Quiet(Reporter):
    """Says nothing; stops training at a step if asked to, as a crash (not a polite request) would."""

    def __init__(self, crash_at: int | None = None) -> None:
        super().__init__()
        self.crash_at = crash_at
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def open(self, total: int, done: int, epochs: int) -> Bar:
        crash_at = self.crash_at

        class Crashing(Bar):
            def step(self, epoch: int, done: int, terms: Mapping[str, float]) -> None:
                if done == crash_at:
                    raise MemoryError("the lights went out")

            def epoch(self, row: Mapping[str, Any]) -> None:
                pass

        return Crashing(self.console, total, done, epochs)


def rows(folder: Path) -> list[dict[str, Any]]:
    """What metrics.jsonl says, less the wall clock."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{name: value for name, value in json.loads(line).items() if name != "seconds"} for line in lines]


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
    ours, theirs = (read_tensors(folder / "checkpoint.safetensors")[0] for folder in (tmp_path / "run", undisturbed))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_another_seed_is_another_run(undisturbed: Path, tmp_path: Path) -> None:
    loop.train(SMALL.replaced({"train": {"seed": 1}}), tmp_path / "run", reporter=Quiet())
    assert (tmp_path / "run" / "model.safetensors").read_bytes() != (undisturbed / "model.safetensors").read_bytes()


def test_video_resumes_bit_equal_too(tmp_path: Path) -> None:
    settings = Settings.of(
        {
            "data": {"name": "puppets", "size": 32, "limit": 16},
            "model": {"k": 8, "h": 8, "width": 4},
            "spectrum": {"static": 3},
            "loss": {"cycle": 1.0},
            "train": {"epochs": 2, "batch": 4, "blur": True, "save_every": 2},
        }
    )
    loop.train(settings, tmp_path / "a", reporter=Quiet())
    with pytest.raises(MemoryError):
        loop.train(settings, tmp_path / "b", reporter=Quiet(crash_at=7))
    loop.resume(tmp_path / "b", reporter=Quiet())
    assert (tmp_path / "a" / "model.safetensors").read_bytes() == (tmp_path / "b" / "model.safetensors").read_bytes()


def test_the_frozen_operator_is_that_of_the_whole_training_set(undisturbed: Path) -> None:
    run = load(undisturbed)
    x = torch.from_numpy(load_data("oscillators", "train").x[:200]).float()
    with torch.no_grad():
        expected = fit_operator(run.model.encode(x))
    assert torch.allclose(run.operator.matrix, expected.matrix, atol=1e-9)
    assert (run.operator.sequences, run.operator.steps) == (200, 200 * 23)
    assert run.operator.source == "oscillators, 200 training sequences"


def test_a_finished_run_resumes_to_itself(undisturbed: Path) -> None:
    before = (undisturbed / "model.safetensors").read_bytes()
    loop.resume(undisturbed, reporter=Quiet())
    assert (undisturbed / "model.safetensors").read_bytes() == before


def test_damaged_and_foreign_checkpoints_are_errors(undisturbed: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    with pytest.raises(InputError, match="expected settings"):
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
    with pytest.raises(InputError, match="belongs to another run: settings differ"):
        loop.resume(run)


def test_a_folder_in_use_is_left_alone(undisturbed: Path) -> None:
    before = {file.name: file.read_bytes() for file in undisturbed.iterdir()}
    with pytest.raises(InputError, match="exists already"):
        loop.train(SMALL, undisturbed, reporter=Quiet())
    assert {file.name: file.read_bytes() for file in undisturbed.iterdir()} == before


def test_fine_tuning_starts_from_the_weights(undisturbed: Path, tmp_path: Path) -> None:
    gentle = SMALL.replaced({"train": {"epochs": 1, "lr": 1e-9}})
    loop.train(gentle, tmp_path / "tuned", start=undisturbed, reporter=Quiet())
    ours, theirs = (read_tensors(folder / "model.safetensors")[0] for folder in (tmp_path / "tuned", undisturbed))
    assert all(torch.allclose(ours[name], theirs[name], atol=1e-6) for name in theirs)
    wider = gentle.replaced({"model": {"k": 11}})
    with pytest.raises(InputError, match=r"does not fit this model.*wanted"):
        loop.train(wider, tmp_path / "wider", start=undisturbed, reporter=Quiet())
    assert not (tmp_path / "wider").exists()


def test_a_loss_that_is_no_number_stops_with_a_sound_checkpoint(tmp_path: Path) -> None:
    wild = SMALL.replaced({"train": {"lr": 1e30, "schedule": "constant", "warmup": 0, "clip": None, "save_every": 1}})
    with pytest.raises((Stopped, InputError), match=r"the loss became|NaN or infinity"):
        loop.train(wild, tmp_path / "run", reporter=Quiet())
    tensors, _ = read_tensors(tmp_path / "run" / "checkpoint.safetensors")
    assert tensors


def test_training_pulls_the_spectrum_apart(tmp_path: Path) -> None:
    """Known answer: three static dimensions and five that fade; a minute's training finds as many."""
    settings = SMALL.replaced(
        {"data": {"limit": None}, "model": {"k": 10, "noise": 0.0}, "loss": {"eig": 2.0}, "train": {"epochs": 4}}
    )
    loop.train(settings, tmp_path / "run", reporter=Quiet())
    spectrum = Spectrum.of(load_operator(RunFolder(tmp_path / "run")).matrix)
    static = spectrum.static(3)
    assert (spectrum.eigenvalues[static] - 1).abs().max() < 0.1
    assert spectrum.eigenvalues[~static].abs().max() < 1.0


@pytest.mark.parametrize("precision", ["bf16", "64"])
def test_other_precisions(precision: str, tmp_path: Path) -> None:
    settings = SMALL.replaced({"train": {"precision": precision, "epochs": 1}})
    loop.train(settings, tmp_path / "run", reporter=Quiet())
    tensors, _ = read_tensors(tmp_path / "run" / "model.safetensors")
    wanted = torch.float64 if precision == "64" else torch.float32
    assert {tensor.dtype for tensor in tensors.values()} == {wanted}
    assert load(tmp_path / "run").decompose(load_data("oscillators", "test").select([0, 1])).decode().shape == (
        2,
        24,
        8,
    )


def test_one_operator_a_sequence(tmp_path: Path) -> None:
    settings = SMALL.replaced(
        {"model": {"scope": "sequence"}, "spectrum": {"static": 1}, "loss": {"cycle": 0}, "train": {"epochs": 1}}
    )
    loop.train(settings, tmp_path / "run", reporter=Quiet())
    assert load_operator(RunFolder(tmp_path / "run")).matrix.shape == (10, 10)


def test_tensorboard_has_the_same_figures(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    loop.train(SMALL.replaced({"train": {"tensorboard": True}}), tmp_path / "run", reporter=Quiet())
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    shown = [event.value for event in events.Scalars("val/rec")]
    assert shown == pytest.approx([row["val.rec"] for row in rows(tmp_path / "run")])


def test_learning_rates() -> None:
    options = SMALL.train.model_copy(update={"lr": 2.0, "warmup": 4, "schedule": "constant"})
    assert [loop.learning_rate(options, step, 100) for step in (0, 1, 3, 50)] == [0.5, 1.0, 2.0, 2.0]
    cosine = options.model_copy(update={"warmup": 0, "schedule": "cosine"})
    assert loop.learning_rate(cosine, 0, 100) == 2.0
    assert loop.learning_rate(cosine, 50, 100) == pytest.approx(1.0)
    assert loop.learning_rate(cosine, 100, 100) == pytest.approx(0.0)


def test_estimates_leave_the_run_alone_and_count_its_parameters(tmp_path: Path) -> None:
    training = loop.Training(SMALL, RunFolder(tmp_path), Quiet())
    before = {name: tensor.clone() for name, tensor in training.model.state_dict().items()}
    cost = training.cost()
    assert all(torch.equal(before[name], tensor) for name, tensor in training.model.state_dict().items())
    assert all(parameter.grad is None for parameter in training.model.parameters())
    assert cost.parameters == sum(p.numel() for p in training.model.parameters())
    assert cost.seconds > 0
    doubled = loop.Training(SMALL.replaced({"train": {"batch": 40}}), RunFolder(tmp_path), Quiet()).cost()
    weights = 16 * cost.parameters
    assert 1.8 < (doubled.bytes - weights) / (cost.bytes - weights) < 2.2  # activations grow with the batch


def test_missing_devices_are_named() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(InputError, match=r"train.device = cuda, but this machine has cpu"):
        loop.start_fabric(SMALL.train.model_copy(update={"device": "cuda"}))


def test_training_works_in_a_thread(tmp_path: Path) -> None:
    """Signals can be caught in the main thread only; a server trains elsewhere."""
    thread = threading.Thread(
        target=loop.train, args=(SMALL.replaced({"train": {"epochs": 1}}), tmp_path / "run", None, Quiet())
    )
    thread.start()
    thread.join()
    assert (tmp_path / "run" / "model.safetensors").exists()


def test_batches_visit_every_sequence_once_an_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    step = loop.Training._step

    def noting(self: loop.Training, indices: Any) -> dict[str, float]:
        seen.extend(indices.tolist())
        return step(self, indices)

    monkeypatch.setattr(loop.Training, "_step", noting)
    loop.train(SMALL.replaced({"train": {"epochs": 2}}), tmp_path / "run", reporter=Quiet())
    first, second = seen[:200], seen[200:]
    assert sorted(first) == sorted(second) == list(range(200))
    assert first != second
    assert not np.array_equal(first, np.arange(200))
