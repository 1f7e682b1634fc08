"""epochs, validation, history, resume"""

import math
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from diskoop.data import load_data
from diskoop.data.sequences import Sequences
from diskoop.errors import InputError, Stopped
from diskoop.models.autoencoder import KoopmanAutoencoder
from diskoop.numerics.operator import Moments, Operator
from diskoop.settings import Settings, TrainSettings
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
)
from diskoop.training.estimate import Estimate, clock, estimate
from diskoop.training.objective import Objective, Terms
from diskoop.training.progress import Bar, Reporter

if TYPE_CHECKING:
    from lightning_fabric import Fabric

PRECISIONS = {"32": "32-true", "bf16": "bf16-mixed", "64": "64-true"}


def train(
    settings: Settings, path: str | Path, start: str | Path | None = None, reporter: Reporter | None = None
) -> None:
    """A new run in the folder `path`, from scratch or from the weights of the run `start`."""
    folder = RunFolder(Path(path))
    if folder.path.exists() and (not folder.path.is_dir() or any(folder.path.iterdir())):
        raise InputError(
            f"{str(folder.path)!r} exists already; choose another folder, "
            f"or go on with diskoop train --resume {folder.path}"
        )
    training = Training(settings, folder, reporter or Reporter())
    if start is not None:
        source = RunFolder(Path(start))
        source.require_finished()
        load_weights(training.model, read_tensors(source.model)[0], source.model)
    settings.save(folder.settings)
    training.save()
    training.run()


def resume(path: str | Path, reporter: Reporter | None = None) -> None:
    """Go on with the run in the folder `path`; it ends as if it had never stopped."""
    folder = RunFolder(Path(path))
    training = Training(load_settings(folder), folder, reporter or Reporter())
    training.restore()
    training.run()


class Training:
    """One run on its way: what it has, how far it is."""

    def __init__(self, settings: Settings, folder: RunFolder, reporter: Reporter) -> None:
        self.settings, self.folder, self.reporter = settings, folder, reporter
        self.train_set, self.val_set = _sets(settings)
        self.fabric = start_fabric(settings.train)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.train.seed)
            self.model = build_model(settings, self.train_set.shape[2:])
        self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # convolutions like it
        self.objective = Objective(self.model, settings)
        optimizer = torch.optim.Adam(self.model.parameters(), lr=settings.train.lr)
        self.network, self.optimizer = self.fabric.setup(self.objective, optimizer)
        self.state = State(step=0, sums={}, history=[])
        self.board = tensorboard(folder) if settings.train.tensorboard else lambda row: None
        self.per_epoch = max(1, len(self.train_set) // settings.train.batch)
        self.total = self.per_epoch * settings.train.epochs

    @property
    def origin(self) -> dict[str, Any]:
        """What a checkpoint must share with this run for resuming to be exact."""
        return {
            "settings": self.settings.model_dump(),
            "data": [self.train_set.name, list(self.train_set.shape), len(self.val_set)],
        }

    def save(self) -> None:
        save_checkpoint(self.folder, self.model, self.optimizer, self.state, self.origin)

    def restore(self) -> None:
        self.state = load_checkpoint(self.folder, self.model, self.optimizer, self.origin)

    def run(self) -> None:
        say = self.reporter.say
        device = self.fabric.device
        say(f"{self.train_set.name}: {len(self.train_set)} sequences of shape {self.train_set.shape[1:]} on {device}")
        if self.state.step < self.total:
            say(f"{self.total - self.state.step} steps to go: {self.cost()}")
        epochs = self.settings.train.epochs
        with _stop_requests() as asked, self.reporter.open(self.total, self.state.step, epochs) as bar:
            while self.state.step < self.total:
                self._epoch(bar, asked)
        operator = frozen_operator(self.model, self.train_set, self.settings.train.batch, self.fabric.device)
        save_operator(self.folder, operator)
        save_model(self.folder, self.model, self.train_set.shape[2:], self.train_set.units)
        say(f"trained in {clock(sum(row['seconds'] for row in self.state.history))}; the run is in {self.folder.path}")

    def cost(self) -> Estimate:
        """Time and memory for the steps that are left."""
        indices = np.arange(min(self.settings.train.batch, len(self.train_set)))
        batch = self._batch(self.train_set, indices)

        def loss(network: nn.Module) -> Tensor:
            total: Tensor = network(*batch, self._generator(0)).total
            return total

        self.network.train()
        return estimate(self.network, loss, self.fabric.backward, self.total - self.state.step)

    def _epoch(self, bar: Bar, asked: list[int]) -> None:
        """From the current step to the end of its epoch."""
        options, state = self.settings.train, self.state
        began = time.perf_counter()
        epoch = state.step // self.per_epoch
        order = np.random.Generator(np.random.PCG64([options.seed, epoch])).permutation(len(self.train_set))
        self.network.train()
        while state.step < (epoch + 1) * self.per_epoch:
            at = state.step % self.per_epoch * options.batch
            values = self._step(order[at : at + options.batch])
            state.step += 1
            state.sums = {name: state.sums.get(name, 0.0) + value for name, value in values.items()}
            bar.step(epoch, state.step, values)
            at_end = state.step % self.per_epoch == 0
            if not at_end and (asked or state.step % options.save_every == 0):
                self.save()
            if asked and not at_end:
                raise self._interrupted()
        rate = learning_rate(options, state.step - 1, self.total)
        row: dict[str, Any] = {"epoch": epoch + 1, "step": state.step, "lr": rate}
        row |= {f"train.{name}": value / self.per_epoch for name, value in state.sums.items()}
        row |= {f"val.{name}": value for name, value in self._validate().items()}
        row["seconds"] = time.perf_counter() - began
        state.history.append(row)
        state.sums = {}
        self.save()
        self.board(row)
        bar.epoch(row)
        if asked:
            raise self._interrupted()

    def _interrupted(self) -> Stopped:
        at = f"saved at step {self.state.step} of {self.total}"
        return Stopped(f"{at}; diskoop train --resume {self.folder.path} goes on from there")

    def _step(self, indices: NDArray[np.int64]) -> dict[str, float]:
        options = self.settings.train
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(options, self.state.step, self.total)
        terms: Terms = self.network(*self._batch(self.train_set, indices), self._generator(self.state.step))
        self.optimizer.zero_grad()
        self.fabric.backward(terms.total)
        if options.clip is not None:
            self.fabric.clip_gradients(self.network, self.optimizer, max_norm=options.clip, error_if_nonfinite=False)
        values = {name: value.item() for name, value in terms._asdict().items()}
        if not math.isfinite(values["total"]):
            raise Stopped(
                f"the loss became {values['total']} at step {self.state.step + 1}; {self.folder.checkpoint} holds the "
                "last sound state. A smaller train.lr, train.clip=1 or a larger model.ridge usually helps."
            )
        self.optimizer.step()
        return values

    @torch.no_grad()
    def _validate(self) -> dict[str, float]:
        """Mean terms over the validation set: no dropout, blur, noise or batch statistics."""
        self.network.eval()
        count = len(self.val_set)
        # Mixed, though always alike: neighbours in a set are often of one kind, and do not excite every static mode.
        order = np.random.Generator(np.random.PCG64(0)).permutation(count)
        sums: dict[str, float] = {}
        for indices in np.array_split(order, math.ceil(count / self.settings.train.batch)):
            terms: Terms = self.network(*self._batch(self.val_set, indices), self._generator(0))
            for name, value in terms._asdict().items():
                sums[name] = sums.get(name, 0.0) + float(value) * len(indices)
        return {name: value / count for name, value in sums.items()}

    def _batch(self, data: Sequences, indices: NDArray[np.int64]) -> tuple[Tensor, Tensor | None]:
        return read_batch(data, indices, self.fabric.device)

    def _generator(self, step: int) -> torch.Generator:
        """The source of all that is random in one step: a function of seed and step, so resuming needs no memory."""
        seed = np.random.SeedSequence([self.settings.train.seed, step]).generate_state(1, np.uint64)[0]
        return torch.Generator(self.fabric.device).manual_seed(int(seed >> np.uint64(1)))


def build_model(settings: Settings, frame: tuple[int, ...]) -> KoopmanAutoencoder:
    """The network that `settings` describe for frames of shape `frame`."""
    m = settings.model
    return KoopmanAutoencoder.for_shape(frame, m.k, m.h, m.width, m.latent, m.ridge, m.scope)


def read_batch(data: Sequences, indices: NDArray[np.int64], device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Some sequences in the model's units, and their mask."""
    x = torch.from_numpy(data.take(indices)).to(device)
    if x.dtype == torch.float64:
        x = x.float()
    mask = None if data.mask is None else torch.from_numpy(data.mask[indices]).to(device)
    return data.units.to_model(x), mask


@torch.no_grad()
def frozen_operator(model: KoopmanAutoencoder, data: Sequences, batch: int, device: torch.device) -> Operator:
    """One operator for the whole set, in one streaming pass of the model as it is used, not as it is trained."""
    model.eval()
    moments = None
    for indices in np.array_split(np.arange(len(data)), math.ceil(len(data) / batch)):
        x, mask = read_batch(data, indices, device)
        part = Moments.of(model.encode(x.to(next(model.parameters()))), mask)
        moments = part if moments is None else moments + part
    assert moments is not None  # a set is never empty
    return replace(moments.solve(model.ridge), source=f"{data.name}, {len(data)} training sequences")


def learning_rate(options: TrainSettings, step: int, total: int) -> float:
    """A function of the step alone."""
    warm = min(1.0, (step + 1) / options.warmup) if options.warmup else 1.0
    if options.schedule == "cosine":
        return options.lr * warm * 0.5 * (1 + math.cos(math.pi * step / total))
    return options.lr * warm


def start_fabric(options: TrainSettings) -> "Fabric":
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if options.device != "auto" and not available[options.device]:
        there = " and ".join(device for device in available if available[device])
        raise InputError(f"train.device = {options.device}, but this machine has {there} only")
    if options.precision == "64" and (options.device == "mps" or (options.device == "auto" and available["mps"])):
        raise InputError("train.precision = 64, but mps has no float64; take train.device=cpu")
    from lightning_fabric import Fabric

    return Fabric(accelerator=options.device, devices=1, precision=PRECISIONS[options.precision])  # type: ignore[arg-type]


def _sets(settings: Settings) -> tuple[Sequences, Sequences]:
    data = settings.data
    train_set, val_set = (load_data(data.name, split, data.size) for split in ("train", "val"))
    if data.limit is not None:
        train_set = train_set.select(np.arange(min(data.limit, len(train_set))))
    return train_set, val_set


def tensorboard(folder: RunFolder) -> Callable[[Mapping[str, Any]], None]:
    """A function that shows a row of metrics in TensorBoard."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError("train.tensorboard = true needs TensorBoard: pip install 'diskoop[track]'") from None
    writers: list[Any] = []  # opened by the first row: a run that cannot start leaves no folder

    def show(row: Mapping[str, Any]) -> None:
        writers.extend([] if writers else [SummaryWriter(str(folder.path / "tensorboard"))])
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
