"""epochs, validation, history, resume"""

import math
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from diskoop.data import open_data
from diskoop.data.sequences import Sequences
from diskoop.errors import InputError, Stopped
from diskoop.models.autoencoder import KoopmanAutoencoder, build_model
from diskoop.numerics.operator import Operator, SnapshotQR
from diskoop.settings import Settings, TrainSettings
from diskoop.storage import atomic_folder
from diskoop.training.batches import Batch, Feed, batch_source
from diskoop.training.captured import CapturedStep, why_not_captured
from diskoop.training.checkpoint import (
    RunFolder,
    State,
    load_checkpoint,
    load_settings,
    load_weights,
    read_tensors,
    save_checkpoint,
    save_model,
    save_operator,
    write_metrics,
)
from diskoop.training.estimate import Estimate, clock, estimate
from diskoop.training.objective import Objective, Terms
from diskoop.training.precision import autocast, device_for, precision_for, weights_dtype
from diskoop.training.progress import Bar, Reporter
from diskoop.training.step import PlainStep, Step, StepOutput, adam

SAVING_SHARE = 0.01  # of the time may go into checkpoints: on a GPU an epoch may take less than ten of them
LONGEST_UNSAVED = 600  # seconds: a disk that once was slow does not put the next checkpoint off for ever
VALIDATED = 4  # training batches in one of validation
NUMBERS = {"bf16": "bf16", "64": "float64"}  # worth telling


def train(
    settings: Settings,
    path: str | Path,
    start: str | Path | None = None,
    reporter: Reporter | None = None,
    again: str | None = None,
) -> None:
    """A new run in the folder `path`, from scratch or from the weights of the run `start`.

    `again` is the command that goes on when it is interrupted, if that is not `diskoop train --resume`.
    """
    folder = RunFolder(Path(path))
    settings = with_absolute_paths(settings)
    if folder.checkpoint.exists():
        raise InputError(f"{str(path)!r} holds a run already; choose another folder, or go on: {folder.resume_command}")
    if folder.path.exists() and not (folder.path.is_dir() and not any(folder.path.iterdir())):
        raise InputError(f"{str(path)!r} exists already; choose another folder")
    training = Training(settings, folder, reporter or Reporter(), again)
    if start is not None:
        source = RunFolder(Path(start))
        source.require_finished()
        load_weights(training.model, read_tensors(source.model, "model")[0], source.model)
    with _stop_requests() as asked:
        with atomic_folder(path) as temporary:  # a run that exists can be resumed, whenever it was interrupted
            settings.save(RunFolder(temporary).settings)
            training.save(RunFolder(temporary))
        training.run(asked)


def resume(path: str | Path, reporter: Reporter | None = None, again: str | None = None) -> None:
    """Go on with the run in the folder `path`; it ends as if it had never stopped."""
    folder = RunFolder(Path(path))
    training = Training(load_settings(folder), folder, reporter or Reporter(), again)
    training.restore()
    if training.state.step == training.total:
        training.reporter.say(
            f"{folder.path} is trained already; diskoop train --from {folder.path} would start from it"
        )
    with _stop_requests() as asked:
        training.run(asked)


class Training:
    """One run on its way: what it has, how far it is."""

    def __init__(self, settings: Settings, folder: RunFolder, reporter: Reporter, again: str | None = None) -> None:
        self.settings, self.folder, self.reporter = settings, folder, reporter
        self.again = again or folder.resume_command
        self.train_set, self.val_set = _sets(settings)
        self.device = device_for(settings.train)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.train.seed)
            self.model = build_model(settings.model, self.train_set.shape[2:])
        self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # convolutions like it
        self.model.to(self.device, weights_dtype(settings.train))
        self.objective = Objective(self.model, settings)
        self.batch = min(settings.train.batch, len(self.train_set))
        self.per_epoch = len(self.train_set) // self.batch
        self.optimizer = adam(self.model, settings.train.lr, self.device)
        self.step = self._stepper()
        self.noted = 0
        self.saved_at, self.saving = -math.inf, 0.0  # when a checkpoint was last written, and how long that took
        self.state = State(step=0, seconds=0.0, waited=0.0, sums={}, history=[])
        self.board = tensorboard(folder) if settings.train.tensorboard else lambda row: None
        self.total = self.per_epoch * settings.train.epochs
        # What a checkpoint must share with this run for resuming to be exact.
        self.origin: dict[str, Any] = {
            "settings": settings.model_dump(),
            "data": [fingerprint(part) for part in (self.train_set, self.val_set) if part is not None],
            "device": self.device.type,
            "precision": precision_for(settings.train, self.device.type),
        }

    @cached_property
    def feed(self) -> Feed:
        """Opened by the first epoch, when all else that the device must hold is there."""
        return batch_source(self.train_set, next(self.model.parameters()))

    def save(self, folder: RunFolder | None = None) -> None:
        began = time.perf_counter()
        save_checkpoint(folder or self.folder, self.model, self.optimizer, self.state, self.origin)
        self.saved_at = time.perf_counter()
        self.saving = self.saved_at - began

    @property
    def save_is_due(self) -> bool:
        """At the end, and before it as often as saving takes no more than a small share of the time."""
        patience = min(self.saving / SAVING_SHARE, LONGEST_UNSAVED)
        return self.state.step == self.total or time.perf_counter() - self.saved_at >= patience

    def restore(self) -> None:
        self.state = load_checkpoint(self.folder, self.model, self.optimizer, self.origin)
        self.noted = self.state.step

    def run(self, asked: list[int]) -> None:
        """Train to the end, or until `asked` holds something."""
        say, options = self.reporter.say, self.settings.train
        shape = tuple(self.train_set.shape[1:])
        numbers = "" if self.origin["precision"] == "32" else f" in {NUMBERS[self.origin['precision']]}"
        where = f"on {self.device}{numbers}"
        say(f"{self.train_set.name}: {len(self.train_set)} sequences of shape {shape} {where}")
        for note in self.train_set.notes:
            say(note)
        if self.device.type == "cuda" and (why := why_not_captured(self.settings, self.train_set)):
            say(f"steps are not captured, which is slower: {why}")
        if self.state.step < self.total:
            say(f"{self.total - self.state.step} steps to go: {self.cost()}")
        with self.reporter.open(self.total, self.state.step, options.epochs) as bar:
            while self.state.step < self.total:
                self._epoch(bar, asked)
        operator = frozen_operator(self.model, self.train_set, options.batch)
        save_operator(self.folder, operator, self.model)
        save_model(self.folder, self.model, self.settings, self.train_set.shape[2:], self.train_set.units)
        took, waited = (sum(row[what] for row in self.state.history) for what in ("seconds", "waited"))
        say(f"trained in {clock(took)}, {waited / took:.1%} of it waiting for data; the run is in {self.folder.path}")

    def cost(self) -> Estimate:
        """Time and memory for the steps that are left, and the validation between them."""
        steps = self.total - self.state.step
        # A forward pass alone is about a third of a step.
        validated = 0 if self.val_set is None else len(self.val_set)
        validations = validated / self.batch * steps / self.per_epoch / 3
        weight = next(self.model.parameters())
        some = self.train_set.fetch(np.arange(self.batch), weight.dtype)
        self.objective.train()
        if isinstance(self.step, CapturedStep):
            return self.step.rehearse(*some, steps + validations)

        def loss(objective: nn.Module) -> Tensor:
            with autocast(self.settings.train, self.device):
                total: Tensor = objective(*self.train_set.deliver(*some, weight), self._generator(0)).total
            return total

        return estimate(self.objective, loss, steps + validations)

    def _stepper(self) -> Step:
        """Captured where that can be done, plain elsewhere."""
        if self.device.type == "cuda" and why_not_captured(self.settings, self.train_set) is None:
            return CapturedStep(self.objective, self.optimizer, self.train_set, self.batch)
        return PlainStep(self.objective, self.optimizer, self.train_set)

    def _epoch(self, bar: Bar, asked: list[int]) -> None:
        """From the current step to the end of its epoch."""
        options, state = self.settings.train, self.state
        began = time.perf_counter() - state.seconds
        epoch = state.step // self.per_epoch
        order = np.random.Generator(np.random.PCG64([options.seed, epoch])).permutation(len(self.train_set))
        begins = range(state.step % self.per_epoch * options.batch, self.per_epoch * options.batch, options.batch)
        self.objective.train()

        def pause() -> None:
            """Everything that was begun has ended and is written down."""
            self._note(self.step.flush(), bar)
            state.seconds = time.perf_counter() - began

        for batch in self.feed(order[at : at + options.batch] for at in begins):
            if asked:
                pause()
                self.save()
                raise self._interrupted()
            state.waited += batch.waited
            self._note(self._take(batch), bar)
            if state.step % options.save_every == 0 and state.step % self.per_epoch and self.save_is_due:
                pause()
                self.save()
        pause()
        rate = learning_rate(options, state.step - 1, self.total)
        row: dict[str, Any] = {"epoch": epoch + 1, "step": state.step, "lr": rate}
        row |= {f"train.{name}": value / self.per_epoch for name, value in state.sums.items()}
        row |= {f"val.{name}": value for name, value in self._validate().items()}
        row["seconds"], row["waited"] = time.perf_counter() - began, state.waited
        state.history.append(row)
        state.sums, state.seconds, state.waited = {}, 0.0, 0.0
        if self.save_is_due:
            self.save()
        else:
            write_metrics(self.folder, state.history)
        self.board(row)
        bar.epoch(row)

    def _interrupted(self) -> Stopped:
        at = f"saved at step {self.state.step} of {self.total}"
        return Stopped(f"{at}; {self.again} goes on from there")

    def _take(self, batch: Batch) -> Iterable[StepOutput]:
        rate = learning_rate(self.settings.train, self.state.step, self.total)
        try:
            ended = self.step.take(batch.x, batch.mask, rate, self._generator(self.state.step))
        # The data was sound when the run began, so it is the weights that are not.
        except (InputError, torch.linalg.LinAlgError) as error:  # type: ignore[attr-defined]
            raise self._diverged(self.state.step + 1, str(error)) from None
        self.state.step += 1
        return ended

    def _note(self, ended: Iterable[StepOutput], bar: Bar) -> None:
        state = self.state
        for terms, norm in ended:
            self.noted += 1
            if not math.isfinite(terms["total"] + norm):
                raise self._diverged(self.noted, f"the loss is {terms['total']}, its gradient's norm {norm}")
            state.sums = {name: state.sums.get(name, 0.0) + value for name, value in terms.items()}
            bar.step((self.noted - 1) // self.per_epoch, self.noted, terms)

    def _diverged(self, step: int, reason: str) -> Stopped:
        return Stopped(
            f"training went astray at step {step}: {reason}; a smaller train.lr, train.clip=1 "
            "or a larger model.ridge usually helps"
        )

    @torch.no_grad()
    def _validate(self) -> dict[str, float]:
        """Mean terms over the validation frames: no dropout, blur or noise, and batch norm as in use."""
        if self.val_set is None:
            return {}
        self.objective.eval()
        sums: dict[str, float] = {}
        for indices in self._validation_batches():
            batch = self.val_set.batch(indices, next(self.model.parameters()))
            with autocast(self.settings.train, self.device):
                terms: Terms = self.objective(*batch, self._generator(0))
            frames = int(self.val_set.lengths[indices].sum())
            for name, value in terms._asdict().items():
                sums[name] = sums.get(name, 0.0) + float(value) * frames
        return {name: value / int(self.val_set.lengths.sum()) for name, value in sums.items()}

    def _validation_batches(self) -> list[NDArray[np.int64]]:
        """Validation batches in a fixed shuffled order: neighbours in a set are alike and excite few static modes.

        They are larger than those of training, for a GPU takes hardly longer for a large one.
        """
        if self.val_set is None:
            return []
        count = len(self.val_set)
        order = np.random.Generator(np.random.PCG64(0)).permutation(count)
        return np.array_split(order, math.ceil(count / (VALIDATED * self.settings.train.batch)))

    def _generator(self, step: int) -> torch.Generator:
        """The source of all that is random in one step: a function of seed and step, so resuming needs no memory."""
        seed = np.random.SeedSequence([self.settings.train.seed, step]).generate_state(1, np.uint64)[0]
        return torch.Generator(self.device).manual_seed(int(seed >> np.uint64(1)))


@torch.no_grad()
def frozen_operator(model: KoopmanAutoencoder, data: Sequences, batch: int) -> Operator:
    """One operator for the whole set, in one streaming pass of the model as it is used, not as it is trained.

    It factors the latents themselves. The ridge is for training, where speed counts; here it would only erase.
    """
    model.eval()
    snapshots = None
    for indices in np.array_split(np.arange(len(data)), math.ceil(len(data) / batch)):
        x, mask = data.batch(indices, next(model.parameters()))
        part = SnapshotQR.of(model.encode(x, mask), mask)
        snapshots = part if snapshots is None else snapshots + part
    assert snapshots is not None  # a set is never empty
    return replace(snapshots.solve(), source=f"{data.name}, {len(data)} training sequences")


def fingerprint(data: Sequences) -> str:
    """Name, size and a digest of a few sequences: enough to notice that a set has changed."""
    few = data.take(np.linspace(0, len(data) - 1, 8).astype(np.int64))
    return f"{data.name} {data.shape} {sha256(few.tobytes()).hexdigest()[:16]}"


def learning_rate(options: TrainSettings, step: int, total: int) -> float:
    """A function of the step alone."""
    warm = min(1.0, (step + 1) / options.warmup) if options.warmup else 1.0
    if options.schedule == "cosine":
        return options.lr * warm * 0.5 * (1 + math.cos(math.pi * step / total))
    return options.lr * warm


def with_absolute_paths(settings: Settings) -> Settings:
    """Paths made absolute: a run may be resumed from another folder."""
    paths = {"path": settings.data.path, "labels": settings.data.labels}
    known = {key: str(Path(path).expanduser().resolve()) for key, path in paths.items() if path is not None}
    return settings.replaced({"data": known})


def _sets(settings: Settings) -> tuple[Sequences, Sequences | None]:
    """What to train on, and what to validate with unless all is trained on."""
    everything = open_data(settings.data)
    train_set = everything.part("train")
    val_set = everything.part("val") if everything.count("val") else None
    if (limit := settings.data.limit) is not None:
        train_set = train_set.select(np.arange(min(limit, len(train_set))))
    if settings.train.blur and not train_set.is_video:
        raise InputError(f"train.blur = true is for video, but {train_set.name} is a signal")
    return train_set, val_set


def tensorboard(folder: RunFolder) -> Callable[[Mapping[str, Any]], None]:
    """A function that shows a row of metrics in TensorBoard; rows that an interrupted run had shown beyond it go."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError("train.tensorboard = true needs TensorBoard: pip install 'diskoop[track]'") from None
    writers: list[Any] = []  # opened by the first row: a run that cannot start leaves no folder

    def show(row: Mapping[str, Any]) -> None:
        if not writers:
            writers.append(SummaryWriter(str(folder.path / "tensorboard"), purge_step=row["step"]))
        for name, value in row.items():
            writers[0].add_scalar(name.replace(".", "/"), value, row["step"])
        writers[0].flush()

    return show


@contextmanager
def _stop_requests() -> Iterator[list[int]]:
    """A list that fills when Ctrl-C or a polite kill arrives; the second one is not waited for."""
    asked: list[int] = []

    def note(number: int, _: object) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    try:
        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread: whoever runs that decides
        before = {}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
