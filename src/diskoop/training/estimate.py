"""time and memory that training will take, measured on a few steps of a copy"""

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Estimate:
    seconds: float  # of all steps
    parameters: int
    bytes: int  # weights, gradients, Adam's moments and the activations that one step saves for its backward pass

    def __str__(self) -> str:
        duration, memory = format_duration(self.seconds), f"{self.bytes / 2**30:.2f} GiB"
        return f"{self.parameters / 1e6:.3f} M parameters, about {duration} and {memory}"


def estimate(network: nn.Module, loss: Callable[[nn.Module], Tensor], steps: float) -> Estimate:
    """Measure a few steps on a copy of a network.

    Args:
        network: is not changed.
        loss: network -> scalar; a step is its forward and backward pass.
        steps: how many steps to estimate.
    """
    trial = copy.deepcopy(network)
    for module in trial.modules():
        if isinstance(module, nn.LSTM):
            module.flatten_parameters()  # a copy's weights are not contiguous, which slows cuDNN
    saved: dict[int, int] = {}  # address -> bytes of what autograd saves

    def record(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(record, lambda tensor: tensor):
        loss(trial).backward()  # type: ignore[no-untyped-call]
    seconds: list[float] = []
    while len(seconds) < 8 and sum(seconds) < 4:
        start = time.perf_counter()
        value = loss(trial)
        value.backward()  # type: ignore[no-untyped-call]
        value.item()  # synchronizes
        seconds.append(time.perf_counter() - start)
    weights = [parameter for parameter in trial.parameters() if parameter.requires_grad]
    state = sum(weight.nbytes for weight in weights) * 4
    addresses = {weight.untyped_storage().data_ptr() for weight in weights}
    activations = sum(size for address, size in saved.items() if address not in addresses)
    typical = sorted(seconds)[len(seconds) // 4]  # the first steps of a process are slower than the rest
    return Estimate(typical * steps, sum(w.numel() for w in weights), state + activations)


def format_duration(seconds: float) -> str:
    """`45 s`, `3 min 20 s`, `2 h 05 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
