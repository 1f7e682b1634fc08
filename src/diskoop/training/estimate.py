"""the time and memory a run will take, measured on a few steps of a copy"""

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Estimate:
    seconds: float  # for all the steps asked about
    parameters: int
    bytes: int  # weights, gradients, Adam's moments and what one step keeps for its backward pass

    def __str__(self) -> str:
        return f"{self.parameters / 1e6:.3f} M parameters, about {clock(self.seconds)} and {self.bytes / 2**30:.2f} GiB"


def estimate(network: nn.Module, loss: Callable[[nn.Module], Tensor], steps: float) -> Estimate:
    """What `steps` of `loss` and its backward pass will cost. They work on a copy: `network` is not touched."""
    trial = copy.deepcopy(network)
    for module in trial.modules():
        if isinstance(module, nn.LSTM):
            module.flatten_parameters()  # a copy's weights lie scattered, which cuDNN does not like
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss(trial).backward()  # type: ignore[no-untyped-call]
    seconds: list[float] = []
    while len(seconds) < 8 and sum(seconds) < 4:
        start = time.perf_counter()
        value = loss(trial)
        value.backward()  # type: ignore[no-untyped-call]
        value.item()  # waits for the device
        seconds.append(time.perf_counter() - start)
    weights = [parameter for parameter in trial.parameters() if parameter.requires_grad]
    state = sum(weight.nbytes for weight in weights) * 4
    own = {weight.untyped_storage().data_ptr() for weight in weights}
    activations = sum(size for at, size in kept.items() if at not in own)
    typical = sorted(seconds)[len(seconds) // 4]  # the first steps of a process are slower than the many that follow
    return Estimate(typical * steps, sum(w.numel() for w in weights), state + activations)


def clock(seconds: float) -> str:
    """`45 s`, `3 min 20 s`, `2 h 05 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
