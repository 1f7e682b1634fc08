"""KoopmanAutoencoder: encode, fit, predict, decode"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from diskoop.errors import InputError
from diskoop.models.frames import FrameDecoder, FrameEncoder
from diskoop.models.signals import SignalDecoder, SignalEncoder
from diskoop.numerics.operator import Operator, fit_operator, fit_operator_per_sequence
from diskoop.settings import ModelSettings

SCOPES: dict[str, Callable[[Tensor, Tensor | None, float], Operator]] = {
    "batch": fit_operator,
    "sequence": fit_operator_per_sequence,
}


def full_precision(z: Tensor) -> torch.autocast:
    """A block in which operators and projectors act unrounded, whatever precision the networks train in."""
    return torch.autocast(z.device.type, enabled=False)


class KoopmanAutoencoder(nn.Module):
    """Two networks around a linear operator that is solved for, not learned."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module, ridge: float = 1e-9, scope: str = "batch") -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.ridge = ridge
        self.scope = scope

    @classmethod
    def for_shape(
        cls,
        frame: Sequence[int],
        k: int,
        h: int | None,
        width: int = 32,
        latent: str = "tanh",
        ridge: float = 1e-9,
        scope: str = "batch",
        memory: str = "lstm",
    ) -> "KoopmanAutoencoder":
        """The paper's networks for frames (channel, size, size) or (feature,)."""
        if len(frame) == 1:
            return cls(SignalEncoder(frame[0], k), SignalDecoder(frame[0], k, h, memory), ridge, scope)
        if len(frame) != 3 or frame[0] not in (1, 3) or frame[1] != frame[2]:
            raise InputError(f"expected square frames of 1 or 3 channels (channel, size, size), got {tuple(frame)}")
        if h is None:
            raise InputError("model.h = null is for signals; a frame decoder needs the width of its LSTM")
        encoder = FrameEncoder(frame[0], frame[1], k, width, latent)
        return cls(encoder, FrameDecoder(frame[0], frame[1], k, h, width, memory), ridge, scope)

    def encode(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Frames (batch, time, ...) in the model's units -> latents (batch, time, k); `mask`: which exist."""
        z: Tensor = self.encoder(x) if mask is None else self.encoder(x, mask)
        return z.float() if z.dtype in (torch.bfloat16, torch.float16) else z

    def fit(self, z: Tensor, mask: Tensor | None = None) -> Operator:
        """The operator that carries each latent of `z` to the next."""
        with full_precision(z):
            return SCOPES[self.scope](z, mask, self.ridge)

    def predict(self, z: Tensor, operator: Operator) -> Tensor:
        """Latents (batch, time, k) -> the operator's word on frames 2 to time, (batch, time - 1, k)."""
        with full_precision(z):
            return operator.advance(z[:, :-1])

    def decode(self, z: Tensor, mask: Tensor | None = None) -> Tensor:
        """Latents (batch, time, k) -> frames (batch, time, ...) in the model's units."""
        x: Tensor = self.decoder(z) if mask is None else self.decoder(z, mask)
        return x

    def decode_together(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """Signals of several latents (batch, time, k), each as if it were alone, in one pass; none is padded."""
        frames: list[Tensor] = self.decoder.together(parts)  # type: ignore[operator]
        return frames

    def square_sums(self, parts: Sequence[Tensor], targets: Sequence[Tensor]) -> list[Tensor]:
        """Of video: summed squares of what `decode` makes of each of `parts` less its target, in one pass."""
        sums: list[Tensor] = self.decoder.square_sums(parts, targets)  # type: ignore[operator]
        return sums

    def forward(self, x: Tensor) -> Tensor:
        return self.decode(self.encode(x))


def build_model(settings: ModelSettings, frame: Sequence[int]) -> KoopmanAutoencoder:
    """The network that `settings` describe for frames of shape `frame`."""
    m = settings
    return KoopmanAutoencoder.for_shape(frame, m.k, m.h, m.width, m.latent, m.ridge, m.scope, m.decoder_memory)
