"""audio and time-series encoder and decoder"""

from collections.abc import Sequence

from torch import Tensor, nn

from diskoop.errors import InputError
from diskoop.models.frames import MEMORIES, of_each, through_time


class SignalEncoder(nn.Module):
    """(batch, time, feature) -> (batch, time, k). One-directional: padding at the end cannot reach a real frame."""

    def __init__(self, features: int, k: int) -> None:
        super().__init__()
        self.features = features
        self.time = nn.LSTM(features, k, batch_first=True)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if x.ndim != 3 or x.shape[-1] != self.features:
            raise InputError(f"expected a signal (batch, time, {self.features}), got {tuple(x.shape)}")
        return through_time(self.time, x)


class SignalDecoder(nn.Module):
    """(batch, time, k) -> (batch, time, feature).

    With `h` None it is the paper's, an LSTM as wide as the signal, whose values stay between -1 and 1;
    with a number, an LSTM of width h and a linear map, which reaches every value.
    """

    def __init__(self, features: int, k: int, h: int | None, memory: str = "lstm") -> None:
        super().__init__()
        self.time = MEMORIES[memory](k, features if h is None else h)
        self.out = nn.Identity() if h is None else nn.Linear(h, features)

    def forward(self, z: Tensor, mask: Tensor | None = None) -> Tensor:
        x: Tensor = self.out(through_time(self.time, z))
        return x

    def together(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """What `forward` makes of each of `parts`, in one pass through time."""
        return [self.out(part) for part in of_each(self.time, parts)]
