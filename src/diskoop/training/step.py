"""one step of training: forward, backward, Adam"""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from diskoop.data.sequences import Sequences
from diskoop.distributed import LostProcessError, Processes, average_gradients
from diskoop.models.synchronized import SynchronizedBatchNorm2d
from diskoop.training.objective import Objective, ObjectiveOutput
from diskoop.training.precision import autocast


class StepOutput(NamedTuple):
    """The losses of a finished step."""

    terms: dict[str, float]
    norm: float  # of the gradient, before it was clipped


class Step(Protocol):
    """Runs training steps, possibly asynchronously."""

    def take(self, x: Tensor, mask: Tensor | None, lr: float, generator: torch.Generator) -> Iterable[StepOutput]:
        """Start a step.

        Args:
            x: a batch (batch, time, ...) as stored, see `Sequences.read_batch`.
            mask: which frames exist, (batch, time); None: all.
            lr: the learning rate.
            generator: of all random numbers of the step.

        Returns:
            The steps that have finished since the last call, in order.
        """

    def flush(self) -> Iterable[StepOutput]:
        """Wait for the steps that are still running, and return them."""


def adam(model: nn.Module, lr: float, device: torch.device) -> torch.optim.Adam:
    """Adam; on CUDA a version that can be captured, with its learning rate on the device."""
    if device.type != "cuda":
        return torch.optim.Adam(model.parameters(), lr=lr)
    return torch.optim.Adam(model.parameters(), lr=torch.tensor(lr, device=device), fused=True, capturable=True)


def set_lr(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Set the learning rate of all parameters, in place where it is a tensor."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(lr)
        else:
            group["lr"] = lr


class PlainStep:
    """Forward pass, backward pass and optimizer step, on any device."""

    def __init__(self, objective: Objective, optimizer: torch.optim.Optimizer, data: Sequences) -> None:
        self.objective, self.optimizer, self.data = objective, optimizer, data
        self.weights = list(objective.parameters())

    def take(self, x: Tensor, mask: Tensor | None, lr: float, generator: torch.Generator) -> list[StepOutput]:
        set_lr(self.optimizer, lr)
        options = self.objective.settings.train
        with _buffers_kept(self.objective):
            with autocast(options, self.weights[0].device):
                output: ObjectiveOutput = self.objective(*self.data.move_batch(x, mask, self.weights[0]), generator)
            self.optimizer.zero_grad()
            output.total.backward()  # type: ignore[no-untyped-call]
            average_gradients(self.objective.processes, self.weights)
            terms = average_terms(self.objective.processes, output)
        norm = clip_gradients(self.weights, options.grad_clip)
        if math.isfinite(norm.item() + terms["total"]):  # else the weights stay as they are, for debugging
            self.optimizer.step()
        return [StepOutput(terms, norm.item())]

    def flush(self) -> list[StepOutput]:
        return []


@contextmanager
def _buffers_kept(objective: Objective) -> Iterator[None]:
    """Undo what a forward pass did to running statistics where another process is lost before the step is done."""
    if objective.processes.world_size == 1:
        yield
        return
    norms = [module for module in objective.modules() if isinstance(module, SynchronizedBatchNorm2d)]
    buffers = [buffer for norm in norms for buffer in norm.buffers()]
    before = [buffer.clone() for buffer in buffers]
    try:
        yield
    except LostProcessError:
        for buffer, value in zip(buffers, before, strict=True):
            buffer.copy_(value)
        raise


def average_terms(processes: Processes, output: ObjectiveOutput) -> dict[str, float]:
    """All values of an objective by name, averaged over processes."""
    values = output.as_dict()
    if processes.world_size == 1:
        return {name: value.item() for name, value in values.items()}
    means = processes.sum(torch.stack([value.detach().double() for value in values.values()])) / processes.world_size
    return dict(zip(values, means.tolist(), strict=True))


def clip_gradients(weights: Iterable[Tensor], clip: float | None) -> Tensor:
    """Clip the total norm of the gradients to `clip`, and return the norm before clipping."""
    weights = [weight for weight in weights if weight.grad is not None]
    norm = torch.nn.utils.get_total_norm([weight.grad for weight in weights])  # type: ignore[misc]
    if clip is not None:
        torch.nn.utils.clip_grads_with_norm_(weights, clip, norm)
    return norm
