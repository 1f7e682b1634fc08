"""networks of signals without memory: two hidden layers for every frame"""

from torch import Tensor, nn

from diskoop.errors import InputError


class FramewiseNetwork(nn.Module):
    """Two hidden layers for each frame alone: (batch, time, inputs) -> (batch, time, outputs).

    An LSTM computes frame after frame, this one all at once: on two cores it sees several times as many clips.

    Args:
        inputs: width of its input.
        hidden: width of the hidden layers.
        outputs: width of its output.
    """

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.inputs = inputs
        self.hidden = nn.Sequential(nn.Linear(inputs, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU())
        self.out = nn.Linear(hidden, outputs)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """`x` (batch, time, inputs) -> (batch, time, outputs); `mask` is not needed."""
        if x.ndim != 3 or x.shape[-1] != self.inputs:
            raise InputError(f"expected (batch, time, {self.inputs}), got {tuple(x.shape)}")
        y: Tensor = self.out(self.hidden(x))
        return y
