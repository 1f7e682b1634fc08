"""Several processes that work together, as torchrun would start them, and what trainings in them compute."""

import copy
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import zarr
from numpy.typing import NDArray
from safetensors.numpy import save_file
from torch import Tensor

from diskoop.cli import app
from diskoop.data import register_data_set
from diskoop.data.batches import Batch
from diskoop.data.formats import stores
from diskoop.data.sequences import Sequences, Units
from diskoop.data.splits import split_in_order
from diskoop.distributed import join
from diskoop.losses import Errors
from diskoop.models.autoencoder import KoopmanAutoencoder
from diskoop.parallel import apply, start_workers
from diskoop.run import load
from diskoop.run_folder import RunFolder
from diskoop.settings import DataSettings, Settings, parse_overrides
from diskoop.training.cuda_graph import CapturedStep
from diskoop.training.frozen_operator import fit_frozen_operator
from diskoop.training.loop import Trainer, _load_splits, resume, train
from diskoop.training.objective import Objective
from diskoop.training.step import StepOutput
from tests.helpers.training import Quiet

ROOT = Path(__file__).parents[2]
STEPS = 3
DISTURBED = 33  # the step at which `disturb_last` sends a signal

_SMALL = {"model": {"k": 8, "h": 8, "width": 4}, "spectrum": {"static": 3}}
_TRAIN = {"batch_size": 8, "epochs": 1, "precision": "64", "device": "cpu"}
_EVERYTHING = {"loss": {"cycle": 1.0, "contrast": 0.5}}
CASES: dict[str, dict[str, Any]] = {
    "video": {
        **_SMALL, **_EVERYTHING, "data": {"name": "video", "val_fraction": 0.3},
        "model": {**_SMALL["model"], "dropout": 0.2, "noise": 0.005, "dynamic_noise": 0.5},
        "train": {**_TRAIN, "blur": True, "augment": True},
    },
    "video to capture": {
        **_SMALL, **_EVERYTHING, "data": {"name": "video", "val_fraction": 0.3},
        "model": {**_SMALL["model"], "dropout": 0.2, "noise": 0.005, "dynamic_noise": 0.5},
        "train": {**_TRAIN, "blur": True, "grad_clip": 1.0},
    },
    "one validation sequence": {
        **_SMALL, "data": {"name": "masked video", "val_fraction": 0.03}, "train": _TRAIN,
    },
    "masked video": {**_SMALL, **_EVERYTHING, "data": {"name": "masked video", "val_fraction": 0.3}, "train": _TRAIN},
    "masked signals": {
        **_SMALL, **_EVERYTHING, "data": {"name": "masked signals", "val_fraction": 0.3}, "train": _TRAIN,
        "model": {"k": 8, "h": 8, "dropout": 0.2, "dynamic_noise": 0.5},
    },
    "three processes": {
        **_SMALL, **_EVERYTHING, "data": {"name": "masked video", "val_fraction": 0.3},
        "train": {**_TRAIN, "batch_size": 9},
    },
    "beside PCA": {
        "data": {"name": "masked signals", "val_fraction": 0.3}, "train": _TRAIN, "spectrum": {"static": 3},
        "model": {"k": 8, "h": 8, "pca_skip": True, "pooled": 2},
    },
    "an operator for each sequence": {
        "data": {"name": "video", "val_fraction": 0.3}, "train": _TRAIN, "spectrum": {"static": 1},
        "model": {**_SMALL["model"], "operator_scope": "sequence", "ridge": 1e-6},
    },
    "an operator for each sequence, usual ridge": {
        "data": {"name": "video", "val_fraction": 0.3}, "train": _TRAIN, "spectrum": {"static": 1},
        "model": {**_SMALL["model"], "operator_scope": "sequence"},
    },
    "store": {
        **_SMALL, **_EVERYTHING, "data": {"path": "set.zarr", "shuffle_window": 16, "sample": 16}, "train": _TRAIN,
    },
}  # fmt: skip


def _load(name: str, settings: DataSettings) -> Sequences:
    random = np.random.default_rng(0)
    lengths = random.integers(4, 8, size=40) if "masked" in name else np.full(40, 6)
    split_codes = split_in_order(40, 6, settings.val_fraction)
    if "video" in name:
        x: NDArray[Any] = random.integers(0, 256, (40, 8 if "masked" in name else 6, 3, 32, 32), dtype=np.uint8)
        return Sequences.of(x, lengths=lengths, split_codes=split_codes, name=name)
    x = random.normal(size=(40, 8, 5)).cumsum(1)
    return Sequences.of(x, lengths=lengths, split_codes=split_codes, name=name, units=Units(dtype="float64"))


def write_store(folder: Path) -> None:
    """The Zarr store of the case of that name, in chunks of four sequences."""
    x = np.random.default_rng(0).normal(size=(120, 6, 3)).cumsum(1) * [1, 100, 1]
    group = zarr.open_group(str(folder / "set.zarr"), mode="w")
    group.create_array("x", shape=x.shape, chunks=(4, *x.shape[1:]), dtype=x.dtype)[:] = x


def register_sets() -> None:
    """Small random data sets, some with sequences of unequal length."""
    for name in ("video", "masked video", "masked signals"):
        register_data_set(name, partial(_load, name), options=("val_fraction",))


CAPTURED = ("video to capture", "masked signals")  # cases that the stages of a captured step are tried on


def record_captured(case: str, captured: bool = True) -> dict[str, NDArray[Any]]:
    """Losses and weights of a few steps with a validation between them, by stages as on CUDA or by plain steps."""
    trainer = Trainer(Settings.of(CASES[case]), RunFolder(Path("none")), Quiet())
    if captured:
        own = trainer.batch_size // trainer.processes.world_size
        trainer.step = CapturedStep(trainer.objective, trainer.optimizer, trainer.train_set, own)
    outputs: list[StepOutput] = []
    for step in range(STEPS):
        trainer.objective.train()
        for batch in trainer.loader(trainer._batch_indices(step, step + 1)):
            outputs += trainer._train_step(trainer._as_slice(batch))
        outputs += trainer.step.flush()
        trainer._validate()
    found: dict[str, NDArray[Any]] = {}
    for step, each in enumerate(outputs):
        found |= {f"{step} {name}": np.array(value) for name, value in each.terms.items()}
        found[f"{step} norm"] = np.array(each.norm)
    found |= {f"state {name}": tensor.numpy().copy() for name, tensor in trainer.model.state_dict().items()}
    return {name: np.ascontiguousarray(value) for name, value in found.items()}


def record_steps(case: str) -> dict[str, NDArray[Any]]:
    """Losses, gradients and weights of a few steps, a validation, and the frozen operator after them."""
    trainer = Trainer(Settings.of(CASES[case]), RunFolder(Path("none")), Quiet())
    trainer.objective.train()
    found: dict[str, NDArray[Any]] = {}
    for batch in trainer.loader(trainer._batch_indices(0, STEPS)):
        step = trainer.state.step
        for output in trainer._train_step(trainer._as_slice(batch)):
            found |= {f"{step} {name}": np.array(value) for name, value in output.terms.items()}
            found[f"{step} norm"] = np.array(output.norm)
        for name, weight in trainer.model.named_parameters():
            assert weight.grad is not None
            found[f"{step} gradient of {name}"] = weight.grad.numpy().copy()
    found |= {f"state {name}": tensor.numpy().copy() for name, tensor in trainer.model.state_dict().items()}
    found |= {f"validation {name}": np.array(value) for name, value in trainer._validate().items()}
    operator = fit_frozen_operator(trainer.model, trainer.fitting_set, trainer.batch_size, trainer.processes)
    found["operator"] = operator.matrix.numpy()
    found["counts"] = np.array([operator.sequences, operator.steps])
    return {name: np.ascontiguousarray(value) for name, value in found.items()}


class CountedFrames(np.ndarray[Any, np.dtype[Any]]):
    """Frames that tell which of them were read."""

    read: ClassVar[list[int]] = []  # first frames

    def __getitem__(self, key: Any) -> NDArray[Any]:
        self.read.append(int(key.start))
        frames: NDArray[Any] = self.view(np.ndarray)[key]
        return frames


def record_reads() -> dict[str, list[float]]:
    """Which sequences this process reads in each part of a training, and the variance that validations explain."""
    settings = Settings.of(CASES["video"])
    train_set, val_set = (
        replace(part, frames=part.frames.view(CountedFrames)) for part in _load_splits(settings) if part is not None
    )
    found: dict[str, list[float]] = {"explained": []}

    def note(part: str) -> None:
        found[part] = sorted({first // train_set.shape[1] for first in CountedFrames.read})
        CountedFrames.read.clear()

    trainer = Trainer(settings, RunFolder(Path("none")), Quiet(), splits=(train_set, val_set))
    note("begin")
    trainer.estimate_cost()
    note("estimate")
    trainer.objective.train()
    for batch in trainer.loader(trainer._batch_indices(0, trainer.steps_per_epoch)):
        list(trainer._train_step(trainer._as_slice(batch)))
    note("epoch")
    for number in (1, 2):
        found["explained"].append(trainer._validate()["explained"])
        note(f"validation {number}")
    fit_frozen_operator(trainer.model, trainer.fitting_set, trainer.batch_size, trainer.processes)
    note("operator")
    return found


def record_edits(run_path: str) -> dict[str, NDArray[Any]]:
    """Training sequences encoded, swapped and decoded by two models; weights of the second change between its uses."""
    run = load(run_path)
    clips = run.data("train")
    found: dict[str, NDArray[Any]] = {}
    other = replace(run, model=copy.deepcopy(run.model))
    for name, each in {"run": run, "other": other, "changed": other, "again": run}.items():
        if name == "changed":
            with torch.no_grad():
                next(each.model.parameters()).mul_(1.5)
        parts = each.decompose(clips)
        found[f"{name} z"] = parts.z.numpy()
        found[f"{name} swapped"] = parts.swap("static", np.roll(np.arange(len(clips)), 1)).decode()
    return found


def environment(rank: int, count: int, port: int) -> dict[str, str]:
    """The variables that torchrun sets, and one thread for each process."""
    return os.environ | {
        "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1",
    }  # fmt: skip


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


def start_processes(
    *words: str, count: int, cwd: Path | list[Path], last: Sequence[str] = ()
) -> list[subprocess.Popen[str]]:
    """`python -m WORDS` in `count` processes, which find one another, in one folder or one for each.

    The last of them gets the words `last` in addition.
    """
    port = free_port()
    folders = cwd if isinstance(cwd, list) else [cwd] * count
    return [
        subprocess.Popen(
            [sys.executable, "-m", *words, *(last if rank == count - 1 else ())], cwd=folders[rank],
            text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=environment(rank, count, port) | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        )
        for rank in range(count)
    ]  # fmt: skip


def main(words: list[str]) -> None:
    """`train FOLDER SECTION.KEY=VALUE...`, `disturb SIGNAL PLACE` before that, `resume FOLDER`, `edit FOLDER`,
    `break off FOLDER`, `lose RANK` with a command of diskoop, or record every case, or those that are given.
    """
    torch.set_num_threads(1)
    register_sets()
    stores.SMALL_CHUNK = 1  # chunks of a test are small, and are read one by one
    if words[:1] == ["disturb"]:
        disturb_last(int(words[1]), words[2])
        words = words[3:]
    if words[:1] == ["train"]:
        train(Settings.of(parse_overrides(words[2:])), words[1])
    elif words[:1] == ["resume"]:
        resume(words[1])
    elif words[:1] == ["lose"]:
        lose_when_encoding(int(words[1]))
        sys.argv = ["diskoop", *words[2:]]
        app.main()
    elif words[:1] == ["edit"]:
        if start_workers():
            save_file(record_edits(words[1]), "edits.safetensors")
    elif words[:1] == ["break off"]:
        if start_workers():
            break_off(words[1])
    else:
        record_cases(words or list(CASES))


def disturb_last(number: int, place: str) -> None:
    """Have the last process send itself a signal in step DISTURBED: before it, or after its frames are encoded."""
    processes, train_step, errors = join(), Trainer._train_step, Objective.errors
    is_due = False

    def disturb(here: str) -> None:
        if is_due and here == place and processes.rank == processes.world_size - 1:
            os.kill(os.getpid(), number)

    def disturbed(trainer: Trainer, batch: Batch) -> Iterable[StepOutput]:
        nonlocal is_due
        is_due = trainer.state.step == DISTURBED
        disturb("before")
        return train_step(trainer, batch)

    def disturbed_errors(objective: Objective, *arguments: Any, **options: Any) -> Errors:
        disturb("encoded")
        return errors(objective, *arguments, **options)

    Trainer._train_step = disturbed  # type: ignore[assignment, method-assign]
    Objective.errors = disturbed_errors  # type: ignore[assignment, method-assign]


def break_off(run_path: str) -> None:
    """Encode two chunks of four, then all, then fail while the other process encodes."""
    run = load(run_path)
    x, _ = run.data("train").batch(np.arange(4), next(run.model.parameters()))

    def chunks() -> Iterator[list[Tensor]]:
        return ([x[i : i + 1]] for i in range(4))

    first = next(apply(run.model, "encode", chunks()))
    every = torch.cat(list(apply(run.model, "encode", chunks())))
    print(torch.equal(every[:1], first) and torch.allclose(every, run.model.encode(x), atol=1e-6))
    run.model.encode = None  # type: ignore[method-assign, assignment]
    list(apply(run.model, "encode", chunks()))


def lose_when_encoding(rank: int) -> None:
    """Have a process kill itself when it encodes."""
    encode = KoopmanAutoencoder.encode

    def lost(model: KoopmanAutoencoder, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if os.environ["RANK"] == str(rank):
            os.kill(os.getpid(), signal.SIGKILL)
        return encode(model, x, mask)

    KoopmanAutoencoder.encode = lost  # type: ignore[assignment, method-assign]


def record_cases(cases: Sequence[str]) -> None:
    """Record cases in the processes that were started, and write what the main one found."""
    processes = join()
    for case in cases:
        found = record_steps(case)
        if processes.is_main:
            save_file(found, f"{case}.safetensors")
    for case in (case for case in CAPTURED if case in cases):
        found = record_captured(case)
        if processes.is_main:
            save_file(found, f"captured {case}.safetensors")
    if "video" in cases:
        Path(f"reads {processes.rank}.json").write_text(json.dumps(record_reads()))


if __name__ == "__main__":
    main(sys.argv[1:])
