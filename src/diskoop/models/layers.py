"""layers that the networks share: recurrence over time, one network for every frame, full precision where it matters"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


def full_precision(x: Tensor) -> torch.autocast:
    """A context without autocast on the device of `x`, for operators, projectors and what lies next to latents."""
    return torch.autocast(x.device.type, enabled=False)


def in_full_precision(module: nn.Module, x: Tensor, *more: Any) -> Any:
    """`module(x, *more)` in the precision of its weights, even inside autocast."""
    with full_precision(x):
        return module(x.to(next(module.parameters()).dtype), *more)


class InitializedLSTM(nn.LSTM):
    """An LSTM whose first state is a linear function of the first frame; a plain one starts from zeros.

    Args:
        inputs: width of its input.
        outputs: width of its output.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, batch_first=True)
        self.start = nn.Linear(inputs, 2 * outputs)

    def forward(self, x: Tensor) -> Any:  # type: ignore[override]
        """(batch, time, inputs) -> (batch, time, outputs), and the last state."""
        hidden, cell = self.start(x[:, 0]).unsqueeze(0).chunk(2, -1)
        return super().forward(x, (hidden.tanh().contiguous(), cell.contiguous()))


class FramewiseLinear(nn.Linear):
    """A linear layer with tanh in place of an LSTM: no memory, so motion must be in the latents themselves."""

    def forward(self, x: Tensor) -> Any:
        """(batch, time, inputs) -> (batch, time, outputs), and no state."""
        return super().forward(x).tanh(), None


# model.decoder_memory -> a layer (inputs, outputs) that returns (output, state), as nn.LSTM does
DECODER_MEMORIES: dict[str, Callable[[int, int], nn.Module]] = {
    "lstm": lambda inputs, outputs: nn.LSTM(inputs, outputs, batch_first=True),
    "lstm_init": InitializedLSTM,
    "none": FramewiseLinear,
}


def over_time(layer: nn.Module, x: Tensor) -> Tensor:
    """Outputs (batch, time, outputs) of a recurrent layer for `x` (batch, time, inputs), in full precision.

    On CUDA autocast would run an LSTM in float16, whose range gradients leave.
    """
    outputs: Tensor = in_full_precision(layer, x)[0]
    return outputs


def per_frame(network: Callable[[Tensor], Tensor], x: Tensor, mask: Tensor | None) -> Tensor:
    """`network` applied to every frame.

    Args:
        network: frames (n, ...) -> (n, ...).
        x: (batch, time, ...).
        mask: which frames exist, (batch, time). Padding does not go through the network, so batch norm never sees it.

    Returns:
        (batch, time, ...), zero where there is no frame.
    """
    if mask is None:
        y = network(x.flatten(0, 1))
        return y.reshape(*x.shape[:2], *y.shape[1:])
    y = network(x[mask])
    out = y.new_zeros(*x.shape[:2], *y.shape[1:])
    out[mask] = y
    return out
