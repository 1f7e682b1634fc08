"""one step of training: forward, backward, Adam"""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from diskoop.data.sequences import Sequences
from diskoop.training.objective import Objective, Terms
from diskoop.training.precision import autocast


class StepOutput(NamedTuple):
    """What became of a step."""

    terms: dict[str, float]
    norm: float  # of the gradient, before it was clipped


class Step(Protocol):
    """Something that takes steps, and may still be busy with the last one when it is asked for the next."""

    def take(self, x: Tensor, mask: Tensor | None, rate: float, generator: torch.Generator) -> Iterable[StepOutput]:
        """One more step, with sequences as they lie in memory; the steps that have ended since."""

    def flush(self) -> Iterable[StepOutput]:
        """Wait for the steps that have not ended."""


def adam(model: nn.Module, rate: float, device: torch.device) -> torch.optim.Adam:
    """The optimiser; on CUDA one that can be captured, whose learning rate lies on the device."""
    if device.type != "cuda":
        return torch.optim.Adam(model.parameters(), lr=rate)
    return torch.optim.Adam(model.parameters(), lr=torch.tensor(rate, device=device), fused=True, capturable=True)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


class PlainStep:
    """Everything in its turn."""

    def __init__(self, objective: Objective, optimizer: torch.optim.Optimizer, data: Sequences) -> None:
        self.objective, self.optimizer, self.data = objective, optimizer, data
        self.weights = list(objective.parameters())

    def take(self, x: Tensor, mask: Tensor | None, rate: float, generator: torch.Generator) -> list[StepOutput]:
        set_rate(self.optimizer, rate)
        options = self.objective.settings.train
        with autocast(options, self.weights[0].device):
            terms: Terms = self.objective(*self.data.deliver(x, mask, self.weights[0]), generator)
        self.optimizer.zero_grad()
        terms.total.backward()  # type: ignore[no-untyped-call]
        norm = clip_gradients(self.weights, options.clip)
        if torch.isfinite(norm + terms.total):  # else the weights stay what they were, for whoever looks into it
            self.optimizer.step()
        return [StepOutput({name: value.item() for name, value in terms._asdict().items()}, norm.item())]

    def flush(self) -> list[StepOutput]:
        return []


def clip_gradients(weights: Iterable[Tensor], clip: float | None) -> Tensor:
    """Make all gradients together no longer than `clip`; how long they were."""
    weights = [weight for weight in weights if weight.grad is not None]
    norm = torch.nn.utils.get_total_norm([weight.grad for weight in weights])  # type: ignore[misc]
    if clip is not None:
        torch.nn.utils.clip_grads_with_norm_(weights, clip, norm)
    return norm
