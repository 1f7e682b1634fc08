"""recurrent encoder and decoder of audio features and time series"""

from torch import Tensor, nn

from diskoop.errors import InputError
from diskoop.models.layers import DECODER_MEMORIES, over_time


class SignalEncoder(nn.Module):
    """An LSTM: (batch, time, feature) -> (batch, time, k). Causal, so padding at the end reaches no real frame.

    Args:
        features: of the signal.
        k: latent width.
    """

    def __init__(self, features: int, k: int) -> None:
        super().__init__()
        self.features = features
        self.time = nn.LSTM(features, k, batch_first=True)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """`x` (batch, time, feature) -> latents (batch, time, k); `mask` is not needed."""
        if x.ndim != 3 or x.shape[-1] != self.features:
            raise InputError(f"expected a signal (batch, time, {self.features}), got {tuple(x.shape)}")
        return over_time(self.time, x)


class SignalDecoder(nn.Module):
    """An LSTM and a linear map: (batch, time, k) -> (batch, time, feature).

    Args:
        features: of the signal.
        k: latent width.
        h: width of the LSTM. None is the paper's decoder, an LSTM as wide as the signal and no linear map, whose
            values stay between -1 and 1.
        memory: what stands for the LSTM, a key of `layers.DECODER_MEMORIES`.
    """

    def __init__(self, features: int, k: int, h: int | None, memory: str = "lstm") -> None:
        super().__init__()
        self.time = DECODER_MEMORIES[memory](k, features if h is None else h)
        self.out = nn.Identity() if h is None else nn.Linear(h, features)

    def forward(self, z: Tensor, mask: Tensor | None = None) -> Tensor:
        """Latents (batch, time, k) -> (batch, time, feature); `mask` is not needed."""
        x: Tensor = self.out(over_time(self.time, z))
        return x
