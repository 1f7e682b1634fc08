"""the training loop: epochs, validation, checkpoints, resuming"""

import copy
import io
import math
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from torch import Tensor, nn

from diskoop.data import load_split, open_data
from diskoop.data.batches import Batch, BatchLoader, make_batch_loader, pad_sequences
from diskoop.data.chunks import hold_sample, is_chunked, sample_indices, shuffled_order
from diskoop.data.scaling import frame_deviations
from diskoop.data.sequences import Sequences
from diskoop.distributed import ALONE, LostProcessError, Processes, join
from diskoop.errors import Diverged, InputError, ResourceError, Stopped, counted
from diskoop.input_files import absolute
from diskoop.kernels import accelerate
from diskoop.launch import is_launched, relaunched
from diskoop.models.autoencoder import build_model, require_memory
from diskoop.models.pooling import statistics_count
from diskoop.models.residual import start_from_pca
from diskoop.models.synchronized import SynchronizedBatchNorm2d, synchronize_batch_norm
from diskoop.run_folder import RunFolder, load_settings, save_model, save_operator, write_metrics
from diskoop.settings import Settings, TrainSettings
from diskoop.stop_signals import stop_signals
from diskoop.storage import atomic_folder, unused_path
from diskoop.tensor_files import load_weights, read_tensors
from diskoop.training.checkpoint import (
    State,
    checkpoint_settings,
    fingerprint,
    load_checkpoint,
    save_checkpoint,
    sketch,
)
from diskoop.training.cuda_graph import CapturedStep, capture_obstacle
from diskoop.training.estimate import Estimate, estimate, format_duration
from diskoop.training.frozen_operator import fit_frozen_operator
from diskoop.training.objective import Objective, ObjectiveOutput
from diskoop.training.precision import autocast, device_for, precision_for, weights_dtype
from diskoop.training.progress import ProgressBar, Reporter
from diskoop.training.step import PlainStep, Step, StepOutput, adam, average_terms

MAX_SAVE_FRACTION = 0.01  # of the time spent on checkpoints: on a GPU an epoch may take less than ten of them
MAX_SAVE_INTERVAL = 600  # seconds, however slow the last checkpoint was
VALIDATION_FACTOR = 4  # training batches in a validation batch
NUM_VALIDATIONS = 40  # in a training whose budget is in steps
LATENT_WINDOWS = 4  # windows that do not overlap, for every latent of a model that starts from PCA
MIN_LATENTS = 4
AUGMENT_WINDOWS = 1000  # fewer windows than this are shifted about while training, where train.augment is auto
CHANGEABLE = ("train", "loss", "spectrum")  # sections of settings that an interrupted run may go on with others of
PRECISION_NAMES = {"bf16": "bf16", "64": "float64"}  # in messages, where it is not float32


def train(
    settings: Settings,
    path: str | Path,
    start: str | Path | None = None,
    reporter: Reporter | None = None,
    resume_command: str | None = None,
) -> None:
    """Train a new run.

    Args:
        settings: of the run.
        path: its folder, which must not exist or be empty.
        start: a finished run to initialise the weights from, also `pretrained:NAME`; None starts from scratch.
        reporter: receives progress; None prints it on the terminal.
        resume_command: printed after an interruption, if not `diskoop train --resume PATH`.

    Raises:
        Stopped: interrupted, with a checkpoint saved, or diverged.
    """
    folder = RunFolder(Path(path))
    settings = with_absolute_paths(settings)
    if folder.checkpoint.exists():
        raise InputError(f"{str(path)!r} holds a run already; choose another folder, or go on: {folder.resume_command}")
    if folder.path.exists() and not (folder.path.is_dir() and not any(folder.path.iterdir())):
        raise InputError(f"{str(path)!r} exists already; choose another folder")
    processes = _join(settings)
    reporter = _reporter(reporter, processes)
    with processes.main_first():
        splits = _load_splits(settings)
    settings, notes = fit_to_data(settings, splits[0])
    for note in notes:
        reporter.log(note)
    trainer = Trainer(settings, folder, reporter, resume_command, splits, from_scratch=start is None)
    if start is not None:
        source = RunFolder.of(start)
        source.require_finished()
        load_weights(trainer.model, read_tensors(source.model, "model")[0], source.model)
    with _catch_stop_signals() as caught:
        processes.barrier()  # all have seen that the folder is free
        if processes.is_main:
            with atomic_folder(path) as temporary:  # a folder that exists can be resumed
                settings.save(RunFolder(temporary).settings)
                trainer.save(RunFolder(temporary))
        trainer.run(caught)


def resume(
    path: str | Path,
    reporter: Reporter | None = None,
    resume_command: str | None = None,
    changes: Mapping[str, Mapping[str, Any]] | None = None,
) -> bool:
    """Continue the interrupted run in the folder `path`.

    Args:
        path: its folder.
        reporter: receives progress; None prints it on the terminal.
        resume_command: printed after an interruption, if not `diskoop train --resume PATH`.
        changes: settings to go on with, {section: {key: value}}. Without any, the result is bit-equal on the CPU to
            that of an uninterrupted run.

    Returns:
        Whether there was anything left to do.
    """
    if others := [name for name in changes or () if name not in CHANGEABLE]:
        raise InputError(
            f"a run goes on with other settings of {', '.join(CHANGEABLE)}, got {', '.join(others)}; --from starts a "
            "new run from its weights"
        )
    folder = RunFolder.of(path)
    folder.require_checkpoint()
    settings = load_settings(folder)
    reporter = _reporter(reporter, _join(settings))
    if changes:
        trainer = _restore_changed(folder, changes, reporter, resume_command)
    else:
        trainer = Trainer(settings, folder, reporter, resume_command, from_scratch=False)
        trainer.restore()
    if trainer.is_done and trainer.is_written:
        trainer.reporter.log(
            f"{folder.path} is finished, at step {trainer.state.step} of {trainer.total}, so nothing was trained; "
            f"{folder.resume_command} {trainer.longer} trains on, and --from starts a new run from it"
        )
        return False
    with _catch_stop_signals() as caught:
        trainer.run(caught)
    return True


def end(path: str | Path, reporter: Reporter | None = None) -> None:
    """Make the interrupted run in the folder `path` usable as it is; `resume` still goes on with it."""
    folder = RunFolder.of(path)
    folder.require_checkpoint()
    settings = load_settings(folder)
    trainer = Trainer(settings, folder, _reporter(reporter, _join(settings)), from_scratch=False)
    trainer.restore()
    if not trainer.state.history:
        raise InputError(f"{str(path)!r} has not come to its first validation yet; {folder.resume_command} goes on")
    trainer.finish()


def _restore_changed(
    folder: RunFolder, changes: Mapping[str, Mapping[str, Any]], reporter: Reporter, resume_command: str | None
) -> "Trainer":
    """The trainer of an interrupted run with other settings, which are written to its folder."""
    before = checkpoint_settings(folder)  # what it was trained with so far, whatever an interrupted change left behind
    settings = before.replaced({name: dict(part) for name, part in changes.items()})
    trainer = Trainer(settings, folder, reporter, resume_command, from_scratch=False)
    trainer.restore(trainer.identity | {"settings": before.model_dump()})
    if trainer.total < trainer.state.step:
        raise InputError(
            f"{str(folder.path)!r} has {trainer.state.step} steps behind it already, got a budget of {trainer.total}"
        )
    trainer.processes.barrier()  # all have read the checkpoint
    if trainer.processes.is_main:
        trainer.settings.save(folder.settings)
        trainer.save()
    return trainer


class Trainer:
    """Data, model, objective, optimizer, step and state of one run.

    Args:
        settings: of the run.
        folder: its folder.
        reporter: receives progress.
        resume_command: printed after an interruption; None is the folder's own.
        splits: the training set, and the validation set if there is one; None reads them.
        from_scratch: whether the initial weights are used; with False others are loaded in their place.
    """

    def __init__(
        self,
        settings: Settings,
        folder: RunFolder,
        reporter: Reporter,
        resume_command: str | None = None,
        splits: "tuple[Sequences, Sequences | None] | None" = None,
        from_scratch: bool = True,
    ) -> None:
        self.settings, self.folder, self.reporter = settings, folder, reporter
        self.processes = _join(settings)
        self.resume_command = resume_command or relaunched(folder.resume_command)
        if splits is None:
            with self.processes.main_first():
                splits = _load_splits(settings)
        self.train_set, self.val_set = splits
        self.batch_size = min(settings.train.batch_size, len(self.train_set))
        self._require_shareable()
        self.device = device_for(settings.train)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.train.seed)
            require_memory(settings.model, self.train_set.shape[2:])
            self.model = build_model(settings.model, self.train_set.shape[2:])
        if self.processes.world_size == 1:
            self.model = accelerate(self.model)
        else:
            synchronize_batch_norm(self.model, self.processes)
        if settings.model.pca_skip and from_scratch and self.processes.is_main:
            start_from_pca(self.model, self.fitting_set)
        self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # faster convolutions
        self.model.to(self.device, weights_dtype(settings.train))
        self.processes.broadcast(list(self.model.state_dict().values()))
        self.objective = Objective(self.model, settings, self.processes)
        self.steps_per_epoch = len(self.train_set) // self.batch_size
        self.optimizer = adam(self.model, settings.train.lr, self.device)
        self.step = self._make_step()
        self._orders: dict[int, NDArray[np.int64]] = {}  # epoch -> its permutation of the training set
        self.num_recorded = 0  # steps whose losses are known; a captured step lags one behind
        self.saved_at, self.save_seconds = -math.inf, 0.0  # time and duration of the last checkpoint
        self.state = State(0, 0.0, 0.0, {}, [], threads=torch.get_num_threads(), processes=self.processes.world_size)
        self.best_weights: dict[str, Tensor] = {}  # of the smallest validation loss, where settings keep them
        is_logged = settings.train.tensorboard and self.processes.is_main
        self.log_row = tensorboard(folder) if is_logged else lambda row: None
        self.total = settings.train.steps or self.steps_per_epoch * (settings.train.epochs or 1)
        # Steps from one validation to the next.
        self.interval = self.steps_per_epoch if settings.train.epochs else math.ceil(self.total / NUM_VALIDATIONS)
        splits_used = [part for part in (self.train_set, self.val_set) if part is not None]
        # Must be equal in a checkpoint for resuming to be exact.
        self.identity: dict[str, Any] = {
            "settings": settings.model_dump(),
            "data": [fingerprint(part) for part in splits_used],
            "sketch": [sketch(part) for part in splits_used],
            "device": self.device.type,
            "precision": precision_for(settings.train, self.device.type),
        }

    def _require_shareable(self) -> None:
        """Raise an InputError where several processes cannot share this training."""
        count, model = self.processes.world_size, self.settings.model
        if count == 1:
            return
        if self.batch_size % count:
            raise InputError(
                f"{count} processes cannot have equal parts of batches of {self.batch_size} sequences; choose "
                f"train.batch_size as a multiple of {count}"
            )
        if model.ridge == 0 and model.operator_scope == "batch":
            raise InputError(f"one operator for the batches of {count} processes needs model.ridge > 0, got 0")
        sets = [f"{part.name} {part.shape}" for part in (self.train_set, self.val_set) if part is not None]
        if not self.processes.agree(f"{self.settings.model_dump_json()} {sets}"):
            raise InputError(
                f"{count} processes need the same settings and data, got others in one than in another; here "
                f"{' and '.join(sets)}"
            )

    @property
    def fitting_set(self) -> Sequences:
        """What the frozen operator and principal components are fitted to: all that trains, or a sample of chunks."""
        if not is_chunked(self.train_set):
            return self.train_set
        return self.train_set.select(sample_indices(self.train_set, self.settings.data.sample))

    @cached_property
    def loader(self) -> BatchLoader:
        """Created in the first epoch, after everything else has been allocated on the device."""
        return make_batch_loader(self.train_set, next(self.model.parameters()))

    def save(self, folder: RunFolder | None = None) -> None:
        start = time.perf_counter()
        save_checkpoint(folder or self.folder, self.model, self.optimizer, self.state, self.identity, self.best_weights)
        self.saved_at = time.perf_counter()
        self.save_seconds = self.saved_at - start

    @property
    def save_is_due(self) -> bool:
        """At the end, and before it as often as saving stays a small fraction of the time."""
        interval = min(self.save_seconds / MAX_SAVE_FRACTION, MAX_SAVE_INTERVAL)
        return self.is_done or time.perf_counter() - self.saved_at >= interval

    @property
    def is_done(self) -> bool:
        """At the last step, or after `train.patience` validations without a smaller loss."""
        patience, best = self.settings.train.patience, self.state.best
        if patience and best and sum(row["step"] > best["step"] for row in self.state.history) >= patience:
            return True
        return self.state.step >= self.total

    @property
    def is_written(self) -> bool:
        """Whether the folder holds the weights that training came to, and their operator."""
        if not (self.folder.model.exists() and self.folder.operator.exists()):
            return False
        weights = self.best_weights or self.model.state_dict()
        written = read_tensors(self.folder.model, "model")[0]
        return all(name in weights and torch.equal(written[name], weights[name].cpu()) for name in written)

    @property
    def longer(self) -> str:
        """A setting with which a finished run would train on."""
        options = self.settings.train
        if self.state.step < self.total:
            return f"train.patience={2 * (options.patience or 1)}"
        return f"train.epochs={2 * options.epochs}" if options.epochs else f"train.steps={2 * self.total}"

    def restore(self, identity: Mapping[str, Any] | None = None) -> None:
        """Load the checkpoint; `identity` is that of the run that wrote it, if not this one's."""
        self.state, self.best_weights = load_checkpoint(
            self.folder, self.model, self.optimizer, identity or self.identity
        )
        self.num_recorded = self.state.step
        if self.processes.is_main:
            write_metrics(self.folder, self.state.history)  # a crash may have come between writing the two files

    def run(self, caught: list[int]) -> None:
        """Train to the end, or until a signal is `caught`."""
        log, options = self.reporter.log, self.settings.train
        shape = tuple(self.train_set.shape[1:])
        precision = "" if self.identity["precision"] == "32" else f" in {PRECISION_NAMES[self.identity['precision']]}"
        count = counted(len(self.train_set), "sequence")
        shared = "" if self.processes.world_size == 1 else f", {self.processes.world_size} processes"
        log(f"{self.train_set.name}: {count} of shape {shape} on {self.device}{precision}{shared}")
        for note in self.train_set.notes:
            log(note)
        if self.device.type == "cuda" and (obstacle := capture_obstacle(self.settings, self.train_set)):
            log(f"steps are not captured, which is slower: {obstacle}")
        if options.patience and self.val_set is None:
            log("nothing validates, so training runs to its last step whatever train.patience says")
        before, self.state.threads = self.state.threads, torch.get_num_threads()
        others, self.state.processes = self.state.processes, self.processes.world_size
        if not self.is_done:
            differs = "so the result may differ in its last bits from that of an uninterrupted run"
            if before is not None and before != self.state.threads and self.device.type == "cpu":
                log(
                    f"trained with {counted(before, 'thread')} so far and with {self.state.threads} from here, "
                    f"{differs}; OMP_NUM_THREADS={before} goes on exactly"
                )
            if others != self.processes.world_size:
                log(f"number of processes: {others} so far and {self.processes.world_size} from here, {differs}")
            log(f"{counted(self.total - self.state.step, 'step')} to go: {self.estimate_cost()}")
        try:
            with self.reporter.open(self.total, self.state.step, options.epochs) as bar:
                while not self.is_done:
                    self._train_interval(bar, caught)
            self.finish()
        except LostProcessError as error:
            raise self._lost(error) from None
        except ResourceError as error:
            raise ResourceError(f"{error}; {self.resume_command} goes on from the last checkpoint") from None

    def finish(self) -> None:
        """Write the model, with the best weights where they were kept, and the frozen operator."""
        log, best = self.reporter.log, self.state.best
        if best is not None and best["step"] < self.state.step:
            self.model.load_state_dict(self.best_weights)
            log(f"took the weights of step {best['step']} of {self.state.step}, whose validation loss is the smallest")
        if self.processes.is_main and self.folder.factors.exists() and not self.is_written:
            before = unused_path(self.folder.path, "factors-before", ".json")
            self.folder.factors.replace(before)
            log(
                f"the factors of the model before are in {before}; diskoop factors {self.folder.name} finds those of "
                "this one"
            )
        train_set = self.train_set
        operator = fit_frozen_operator(self.model, self.fitting_set, self.settings.train.batch_size, self.processes)
        if len(self.fitting_set) < len(train_set):
            operator = replace(operator, fitted_on=f"{operator.fitted_on} of {len(train_set)}")
        if self.processes.is_main:
            save_operator(self.folder, operator, self.model)
            save_model(self.folder, self.model, self.settings, train_set.shape[2:], train_set.units, self.state.step)
        self.processes.barrier()  # whoever goes on finds the files
        seconds, waited = (sum(row[key] for row in self.state.history) for key in ("seconds", "waited"))
        fraction = f"{waited / seconds:.1%} of it waiting for data"
        log(f"trained in {format_duration(seconds)}, {fraction}; the run is in {self.folder.path}")

    def estimate_cost(self) -> Estimate:
        """Time and memory of the remaining steps and their validation."""
        steps = self.total - self.state.step
        # A forward pass alone is about a third of a step.
        num_val = 0 if self.val_set is None else len(self.val_set)
        validation = num_val / self.batch_size * steps / self.interval / 3
        weight = next(self.model.parameters())
        own = np.arange(self.batch_size)[self.processes.own_slice(self.batch_size)]
        batch = self.train_set.read_batch(own, weight.dtype)
        self.objective.train()
        if isinstance(self.step, CapturedStep):
            return self.step.estimate(*batch, steps + validation)

        def loss(objective: nn.Module) -> Tensor:
            with autocast(self.settings.train, self.device):
                total: Tensor = objective(*self.train_set.move_batch(*batch, weight), self._generator(0)).total
            return total

        return estimate(self._objective_alone(), loss, steps + validation)

    def _objective_alone(self) -> Objective:
        """The objective, or where there are several processes a copy that waits for none of them."""
        if self.processes.world_size == 1:
            return self.objective
        alone = copy.deepcopy(self.objective)
        for module in alone.modules():
            if isinstance(module, Objective | SynchronizedBatchNorm2d):
                module.processes = ALONE
        return alone

    def _make_step(self) -> Step:
        """A captured step on CUDA where possible, else a plain one."""
        if self.device.type == "cuda" and capture_obstacle(self.settings, self.train_set) is None:
            own = self.batch_size // self.processes.world_size
            return CapturedStep(self.objective, self.optimizer, self.train_set, own)
        return PlainStep(self.objective, self.optimizer, self.train_set)

    def _train_interval(self, bar: ProgressBar, caught: list[int]) -> None:
        """Train from the current step to the next validation."""
        options, state = self.settings.train, self.state
        start = time.perf_counter() - state.seconds
        first = state.step // self.interval * self.interval
        last = min(first + self.interval, self.total)
        self.objective.train()

        def finish_steps() -> None:
            """Wait for the steps that are still running and record them."""
            self._record(self.step.flush(), bar)
            state.seconds = time.perf_counter() - start

        for batch in self.loader(self._batch_indices(state.step, last)):
            if self.processes.any(bool(caught)):
                finish_steps()
                self._save_from_main()
                self.processes.barrier()  # torchrun ends all of them when one has ended
                raise self._interrupted()
            state.waited += batch.waited
            batch = self._as_slice(batch)
            self._record(self._train_step(batch), bar)
            if state.step % options.save_every == 0 and state.step < last and self.save_is_due:
                finish_steps()
                self._save_from_main()
        finish_steps()
        rate = learning_rate(options, state.step - 1, self.total)
        passes = state.step / self.steps_per_epoch
        row: dict[str, Any] = {"epoch": int(passes) if options.epochs else round(passes, 2), "step": state.step}
        row["lr"] = rate
        row |= {f"train.{name}": value / (last - first) for name, value in state.sums.items()}
        row |= {f"val.{name}": value for name, value in self._validate().items()}
        row["seconds"], row["waited"] = time.perf_counter() - start, state.waited
        state.history.append(row)
        state.sums, state.seconds, state.waited = {}, 0.0, 0.0
        self._keep_best(row)
        if self.save_is_due:
            self._save_from_main()
        elif self.processes.is_main:
            write_metrics(self.folder, state.history)
        self.log_row(row)
        bar.epoch(row)

    def _batch_indices(self, first: int, last: int) -> Iterator[NDArray[np.int64]]:
        """The sequences of the steps from `first` to before `last` that are this process's own."""
        for step in range(first, last):
            batch = self._whole_batch(step)
            yield batch[self.processes.own_slice(len(batch))]

    def _whole_batch(self, step: int) -> NDArray[np.int64]:
        """The sequences of a step, of all processes; every epoch has an order of its own."""
        epoch, at = divmod(step, self.steps_per_epoch)
        if epoch not in self._orders:
            self._orders = {known: order for known, order in self._orders.items() if known == epoch - 1}
            generator = np.random.Generator(np.random.PCG64([self.settings.train.seed, epoch]))
            self._orders[epoch] = shuffled_order(self.train_set, generator)
        return self._orders[epoch][at * self.batch_size : (at + 1) * self.batch_size]

    def _as_slice(self, batch: Batch) -> Batch:
        """The batch of this step, padded as the whole batch of all processes is."""
        if self.processes.world_size == 1:
            return batch
        lengths = self.train_set.lengths[self._whole_batch(self.state.step)]
        is_padded = (lengths != lengths.max()).any()
        return batch.padded(self.train_set.lengths, int(lengths.max())) if is_padded else batch

    def _keep_best(self, row: Mapping[str, Any]) -> None:
        """Copy the weights if their validation loss is the smallest so far, where `train.patience` asks for it."""
        loss, best = row.get("val.total"), self.state.best
        if self.settings.train.patience and loss is not None and (best is None or loss < best["loss"]):
            self.state.best = {"loss": loss, "step": row["step"]}
            self.best_weights = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}

    def _interrupted(self) -> Stopped:
        return Stopped(
            f"saved at step {self.state.step} of {self.total}; {self.resume_command} goes on from there, "
            f"{self.folder.end_command} makes do with what there is"
        )

    def _save_from_main(self) -> None:
        """A checkpoint, which one process writes for all."""
        if self.processes.is_main:
            self.save()

    def _lost(self, error: LostProcessError) -> Stopped:
        """The end of a training that has lost a process, with a checkpoint of the last step that all have taken."""
        state = self.state
        is_validated = bool(state.history) and state.history[-1]["step"] == state.step
        is_between_validations = state.step % self.interval != 0 and state.step < self.total
        # The main process may be the one that is lost. One during a validation leaves a state that cannot be resumed,
        # and so may CUDA: its sums end in the background, and stages may have been replayed in part. At the end the
        # model may hold the best weights instead of the last, and a checkpoint was written before.
        is_whole = self.device.type == "cpu" and not self.is_done and (is_validated or is_between_validations)
        if is_whole and self.processes.rank < 2:
            self.save()
            return Stopped(f"{error}; {self._interrupted()}")
        return Stopped(f"{error}; {self.resume_command} goes on from the last checkpoint")

    def _train_step(self, batch: Batch) -> Iterable[StepOutput]:
        rate = learning_rate(self.settings.train, self.state.step, self.total)
        try:
            outputs = self.step.take(batch.x, batch.mask, rate, self._generator(self.state.step))
        # The data was checked when it was loaded, so the weights are the cause.
        except (InputError, torch.linalg.LinAlgError) as error:  # type: ignore[attr-defined]
            raise self._diverged(self.state.step + 1, str(error)) from None
        self.state.step += 1
        return outputs

    def _record(self, outputs: Iterable[StepOutput], bar: ProgressBar) -> None:
        state = self.state
        for terms, norm in outputs:
            self.num_recorded += 1
            if not math.isfinite(terms["total"] + norm):
                raise self._diverged(self.num_recorded, f"the loss is {terms['total']}, its gradient's norm {norm}")
            state.sums = {name: state.sums.get(name, 0.0) + value for name, value in terms.items()}
            bar.step((self.num_recorded - 1) // self.steps_per_epoch, self.num_recorded, terms)

    def _diverged(self, step: int, reason: str) -> Diverged:
        return Diverged(
            f"training diverged at step {step}: {reason}; a smaller train.lr, train.grad_clip=1 "
            "or a larger model.ridge usually helps"
        )

    @torch.no_grad()
    def _validate(self) -> dict[str, float]:
        """Mean loss terms over the validation frames, in evaluation mode, and the share of their variance explained."""
        if self.val_set is None:
            return {}
        self.objective.eval()
        sums: dict[str, float] = {}
        for indices in self._validation_batches():
            # What is too small to be shared out, every process computes by itself.
            self.objective.processes = self._sharers(indices)
            with autocast(self.settings.train, self.device):
                output: ObjectiveOutput = self.objective(*self._validation_batch(indices), self._generator(0))
            frames = int(self.val_set.lengths[indices].sum())
            for name, value in average_terms(self.processes, output).items():
                sums[name] = sums.get(name, 0.0) + value * frames
        self.objective.processes = self.processes
        means = {name: value / int(self.val_set.lengths.sum()) for name, value in sums.items()}
        if self.val_variance > 0:
            means["explained"] = 1 - means["rec"] / self.val_variance
        return means

    def _sharers(self, batch: NDArray[np.int64]) -> Processes:
        """The processes that share a validation batch: this one alone where there are more of them than sequences."""
        return self.processes if len(batch) >= self.processes.world_size else ALONE

    def _validation_batch(self, indices: NDArray[np.int64]) -> tuple[Tensor, Tensor | None]:
        """This process's own sequences of a validation batch and their mask, on the device."""
        assert self.val_set is not None
        own, lengths = indices[self._sharers(indices).own_slice(len(indices))], self.val_set.lengths[indices]
        x, mask = self.val_set.batch(own, next(self.model.parameters()))
        if len(own) == len(indices) or (lengths == lengths.max()).all():
            return x, mask
        return pad_sequences(x, self.val_set.lengths[own], int(lengths.max()))

    @cached_property
    def val_variance(self) -> float:
        """Variance of the validation frames in the model's units, averaged as `loss.reduction` averages errors.

        The main process alone reads the whole split for it.
        """
        assert self.val_set is not None
        variance = torch.zeros((), dtype=torch.float64)
        if self.processes.is_main:
            variances = np.square(frame_deviations(self.val_set) / np.asarray(self.val_set.units.scale))
            variance.fill_(variances.mean() if self.settings.loss.reduction == "element" else variances.sum())
        self.processes.broadcast([variance])
        return variance.item()

    def _validation_batches(self) -> list[NDArray[np.int64]]:
        """Validation batches in a fixed shuffled order: neighbours in a set are similar and excite few static modes.

        They are larger than training batches, because a GPU takes hardly longer for a large one.
        """
        if self.val_set is None:
            return []
        count = len(self.val_set)
        order = shuffled_order(self.val_set, np.random.Generator(np.random.PCG64(0)))
        return np.array_split(order, math.ceil(count / (VALIDATION_FACTOR * self.settings.train.batch_size)))

    def _generator(self, step: int) -> torch.Generator:
        """The generator of one step, seeded by seed and step, so that resuming needs no generator state."""
        seed = np.random.SeedSequence([self.settings.train.seed, step]).generate_state(1, np.uint64)[0]
        return torch.Generator(self.device).manual_seed(int(seed >> np.uint64(1)))


def _join(settings: Settings) -> Processes:
    """The processes that train together; each with a GPU of its own where the settings train on GPUs."""
    return join(on_cuda=is_launched() and device_for(settings.train).type == "cuda")


def _reporter(reporter: Reporter | None, processes: Processes) -> Reporter:
    """Where progress goes: of several processes, the main one's."""
    if not processes.is_main:
        return Reporter(Console(file=io.StringIO()))
    return reporter or Reporter()


def learning_rate(options: TrainSettings, step: int, total: int) -> float:
    """The learning rate of a step, counted from 0, of `total`: linear warm-up, then constant or cosine."""
    warm = min(1.0, (step + 1) / options.warmup) if options.warmup else 1.0
    if options.schedule == "cosine":
        return options.lr * warm * 0.5 * (1 + math.cos(math.pi * step / total))
    return options.lr * warm


def with_absolute_paths(settings: Settings) -> Settings:
    """Settings with absolute paths, because a run may be resumed from another folder."""
    paths = {"path": settings.data.path, "labels": settings.data.labels}
    return settings.replaced({"data": {key: absolute(path) for key, path in paths.items() if path is not None}})


def fit_to_data(settings: Settings, train_set: Sequences) -> tuple[Settings, list[str]]:
    """Settings that fit the size of a training set, and a sentence for each that changed.

    Few clips do not determine many latents: models that start from PCA have at most one for every LATENT_WINDOWS
    windows of frames, of those of frames and of pooled ones alike, and no more pooled ones than there are statistics.
    And few clips are shifted about, where `train.augment` is left to the data.
    """
    order = np.argsort(train_set.starts, kind="stable")
    starts, lengths = train_set.starts[order], train_set.lengths[order]
    covered = np.minimum(lengths[:-1], np.diff(starts)).sum() + lengths[-1]  # frames, each counted once
    windows = int(covered // train_set.shape[1])
    changes: dict[str, Any] = {}
    notes = []
    features = math.prod(train_set.shape[2:])
    if (beyond := settings.model.pooled - statistics_count(features)) > 0:
        settings = _with_latents(settings, *(count - beyond for count in _latent_counts(settings)))
        k, static, pooled = _latent_counts(settings)
        notes.append(
            f"frames of {features} features have {pooled} statistics: model.pooled = {pooled}, model.k = {k} and "
            f"spectrum.static = {static}"
        )
    most = max(MIN_LATENTS, windows // LATENT_WINDOWS)
    before, static, pooled = _latent_counts(settings)
    if settings.model.pca_skip and most < max(before - pooled, pooled):
        per_frame, fewer = min(before - pooled, most), min(pooled, most)
        k = per_frame + fewer
        static = fewer + round((static - pooled) * per_frame / (before - pooled))
        settings = _with_latents(settings, k, min(static, k - 1), fewer)
        notes.append(
            f"only {counted(windows, 'window')} without overlap: model.k = {k} instead of {before}, "
            f"spectrum.static = {settings.spectrum.static}"
        )
    if settings.train.augment == "auto":
        changes["train"] = {"augment": train_set.is_video and windows < AUGMENT_WINDOWS}
    return settings.replaced(changes), notes


def _latent_counts(settings: Settings) -> tuple[int, int, int]:
    """How many latents, how many of them are static, and how many are pooled."""
    return settings.model.k, settings.spectrum.static, settings.model.pooled


def _with_latents(settings: Settings, k: int, static: int, pooled: int) -> Settings:
    return settings.replaced({"model": {"k": k, "pooled": pooled}, "spectrum": {"static": static}})


def _load_splits(settings: Settings) -> tuple[Sequences, Sequences | None]:
    """The training set, and the validation set if there is one."""
    dataset = open_data(settings.data, whole=True)
    train_set = load_split(settings.data, "train", dataset)
    val_set = hold_sample(dataset.split("val"), settings.data.sample) if dataset.split_size("val") else None
    for name in ("blur", "augment"):
        if getattr(settings.train, name) is True and not train_set.is_video:
            raise InputError(f"train.{name} = true is for video, but {train_set.name} is a signal")
    return train_set, val_set


def tensorboard(folder: RunFolder) -> Callable[[Mapping[str, Any]], None]:
    """A function that writes a row of metrics to TensorBoard, and purges later rows of an interrupted run."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError("train.tensorboard = true needs TensorBoard: pip install 'diskoop[track]'") from None
    writers: list[Any] = []  # created with the first row, so that a run that cannot start leaves no folder

    def write(row: Mapping[str, Any]) -> None:
        if not writers:
            writers.append(SummaryWriter(str(folder.path / "tensorboard"), purge_step=row["step"]))
        for name, value in row.items():
            writers[0].add_scalar(name.replace(".", "/"), value, row["step"])
        writers[0].flush()

    return write


@contextmanager
def _catch_stop_signals() -> Iterator[list[int]]:
    """A list that collects SIGINT, SIGTERM and SIGHUP; a second signal interrupts at once.

    Not where torchrun passes signals on: it sends a second one after a terminal's own, and has a way to insist.
    """
    caught: list[int] = []

    def catch(number: int, _: object) -> None:
        if caught and not is_launched():
            raise KeyboardInterrupt
        caught.append(number)

    try:
        handlers = {number: signal.signal(number, catch) for number in stop_signals()}
    except ValueError:  # only the main thread handles signals
        handlers = {}
    try:
        yield caught
    finally:
        for number, handler in handlers.items():
            if signal.getsignal(number) is catch:  # SIGTERM is ignored once a process is lost
                signal.signal(number, handler)
