"""KoopmanAutoencoder: encode, fit_operator, predict, decode; the registry of networks that model.network names"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from diskoop.errors import InputError, suggest
from diskoop.memory import format_bytes, total_memory
from diskoop.models.frames import FrameDecoder, FrameEncoder, without_sigmoid
from diskoop.models.framewise import FramewiseNetwork
from diskoop.models.layers import full_precision
from diskoop.models.recurrent import SignalDecoder, SignalEncoder
from diskoop.models.residual import ResidualDecoder, ResidualEncoder
from diskoop.numerics.operator import Operator, SumOverProcesses, fit_operator, fit_operator_per_sequence
from diskoop.settings import ModelSettings

# model.operator_scope -> what fits the operator: (latents, mask, ridge, sum over processes) -> Operator
OPERATOR_SCOPES: dict[str, Callable[[Tensor, Tensor | None, float, SumOverProcesses | None], Operator]] = {
    "batch": fit_operator,
    "sequence": fit_operator_per_sequence,
}


class KoopmanAutoencoder(nn.Module):
    """An encoder and a decoder around a linear operator that is solved for, not learned.

    Args:
        encoder: (batch, time, ...) and optionally a mask (batch, time) -> latents (batch, time, k).
        decoder: latents and optionally a mask -> (batch, time, ...).
        ridge: of the operator's least squares, see `fit_operator`.
        scope: "batch" fits one operator to all sequences, "sequence" one to each.
        pooled: how many latents, the first ones, the encoder pools over a clip: the operator leaves them as they are.

    Example:
        >>> model = KoopmanAutoencoder.for_shape((4,), k=6, h=8)
        >>> x = torch.randn(16, 10, 4)
        >>> z = model.encode(x)
        >>> operator = model.fit_operator(z)
        >>> z.shape, operator.matrix.shape, model.predict(z, operator).shape, model.decode(z).shape
        (torch.Size([16, 10, 6]), torch.Size([6, 6]), torch.Size([16, 9, 6]), torch.Size([16, 10, 4]))
    """

    def __init__(
        self, encoder: nn.Module, decoder: nn.Module, ridge: float = 1e-9, scope: str = "batch", pooled: int = 0
    ) -> None:
        super().__init__()
        self.pooled = pooled
        self.encoder = encoder
        self.decoder = decoder
        self.ridge = ridge
        self.scope = scope
        self.architecture: tuple[ModelSettings, tuple[int, ...]] | None = None  # that `build_model` built it from

    @classmethod
    def for_shape(
        cls,
        frame: Sequence[int],
        k: int,
        h: int | None,
        width: int = 32,
        activation: str = "tanh",
        ridge: float = 1e-9,
        scope: str = "batch",
        memory: str = "lstm",
    ) -> "KoopmanAutoencoder":
        """The paper's networks for frames of one shape.

        Args:
            frame: (channel, size, size) with 1 or 3 channels and 32, 64 or 128 pixels, or (feature,).
            k: number of latents.
            h: width of the decoder's LSTM; None, for signals only, makes it as wide as the signal.
            width: channels of the first convolution.
            activation: of latents of video, "tanh" or "leaky_relu".
            ridge: of the operator's least squares, see `fit_operator`.
            scope: "batch" fits one operator to all sequences, "sequence" one to each.
            memory: what decodes over time: "lstm", "lstm_init" (its first state comes from the first latent) or "none"
                (frame by frame).
        """
        settings = ModelSettings.model_validate(
            {"k": k, "h": h, "width": width, "latent_activation": activation, "decoder_memory": memory}
            | {"ridge": ridge, "operator_scope": scope}
        )
        return build_model(settings, frame)

    def encode(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Frames (batch, time, ...) in the model's units -> latents (batch, time, k); `mask`: which exist."""
        z: Tensor = self.encoder(x) if mask is None else self.encoder(x, mask)
        return z.float() if z.dtype in (torch.bfloat16, torch.float16) else z

    def fit_operator(self, z: Tensor, mask: Tensor | None = None, total: SumOverProcesses | None = None) -> Operator:
        """The operator that carries each latent of `z` (batch, time, k) to the next; `total`: see `fit_operator`."""
        with full_precision(z):
            per_frame = z[..., self.pooled :]
            return OPERATOR_SCOPES[self.scope](per_frame, mask, self.ridge, total).prepend_identity(self.pooled)

    def predict(self, z: Tensor, operator: Operator) -> Tensor:
        """One-step prediction of frames 2 to time: latents (batch, time, k) -> (batch, time - 1, k)."""
        with full_precision(z):
            return operator.advance(z[:, :-1])

    def decode(self, z: Tensor, mask: Tensor | None = None) -> Tensor:
        """Latents (batch, time, k) -> frames (batch, time, ...) in the model's units."""
        x: Tensor = self.decoder(z) if mask is None else self.decoder(z, mask)
        return x

    def forward(self, x: Tensor) -> Tensor:
        """The reconstruction of `x`: decode(encode(x))."""
        return self.decode(self.encode(x))


# The shape of a frame and settings -> encoder, decoder.
NetworkBuilder = Callable[[Sequence[int], ModelSettings], tuple[nn.Module, nn.Module]]
LARGE_WIDTH = 1024  # of latents and layers, from which it is worth asking whether they fit
NETWORKS: dict[str, NetworkBuilder] = {}  # model.network -> what builds it


def register_network(name: str) -> Callable[[NetworkBuilder], NetworkBuilder]:
    """Register the function below it as `model.network=<name>`.

    That function is given the shape of a frame, (channel, size, size) or (feature,), and the `model` settings. It
    returns an encoder, called with frames (batch, time, ...), and a decoder, called with latents (batch, time, k).
    Where lengths differ both get a mask (batch, time) as a second argument.

    Args:
        name: for `model.network`, not "auto".

    Example:
        >>> class Linear(torch.nn.Linear):
        ...     def forward(self, x, mask=None):
        ...         return super().forward(x)
        >>> @register_network("linear")
        ... def linear(frame, settings):
        ...     return Linear(frame[0], settings.k), Linear(settings.k, frame[0])
        >>> _ = NETWORKS.pop("linear")  # an example only
    """

    def register(builder: NetworkBuilder) -> NetworkBuilder:
        if name in NETWORKS or name == "auto":
            raise ValueError(f"there is a network {name!r} already")
        NETWORKS[name] = builder
        return builder

    return register


@register_network("frames")
def frame_networks(frame: Sequence[int], settings: ModelSettings) -> tuple[nn.Module, nn.Module]:
    """The paper's networks for video."""
    if len(frame) != 3 or frame[0] not in (1, 3) or frame[1] != frame[2]:
        raise InputError(f"expected square frames of 1 or 3 channels (channel, size, size), got {tuple(frame)}")
    if settings.h is None:
        raise InputError("model.h = null is for signals; a frame decoder needs the width of its LSTM")
    channels, size, _ = frame
    encoder = FrameEncoder(channels, size, settings.k, settings.width, settings.latent_activation)
    return encoder, FrameDecoder(channels, size, settings.k, settings.h, settings.width, settings.decoder_memory)


@register_network("signals")
def signal_networks(frame: Sequence[int], settings: ModelSettings) -> tuple[nn.Module, nn.Module]:
    """The paper's networks for audio features and time series."""
    if len(frame) != 1:
        raise InputError(f"expected frames (feature,) for model.network = signals, got {tuple(frame)}")
    encoder = SignalEncoder(frame[0], settings.k)
    return encoder, SignalDecoder(frame[0], settings.k, settings.h, settings.decoder_memory)


@register_network("framewise")
def framewise_networks(frame: Sequence[int], settings: ModelSettings) -> tuple[nn.Module, nn.Module]:
    """Hidden layers for each frame of a signal alone: `model.h` wide in the decoder, which does most of the work."""
    if len(frame) != 1 or settings.h is None:
        raise InputError(
            f"expected frames (feature,) and a width model.h for model.network = framewise, got {tuple(frame)} and "
            f"{settings.h}"
        )
    encoder = FramewiseNetwork(frame[0], settings.k, settings.k)
    return encoder, FramewiseNetwork(settings.k, settings.h, frame[0])


def build_model(settings: ModelSettings, frame: Sequence[int]) -> KoopmanAutoencoder:
    """The untrained model that `settings` describe, for frames of shape `frame`."""
    encoder, decoder = _builder(settings, frame)(frame, settings)
    if settings.pca_skip:
        encoder = ResidualEncoder(encoder, frame, settings.k, settings.pooled)
        decoder = ResidualDecoder(without_sigmoid(decoder), frame, settings.k)
    model = KoopmanAutoencoder(encoder, decoder, settings.ridge, settings.operator_scope, settings.pooled)
    model.architecture = settings, tuple(frame)
    return model


def _builder(settings: ModelSettings, frame: Sequence[int]) -> NetworkBuilder:
    """What builds the networks that `settings` name."""
    name = settings.network if settings.network != "auto" else "signals" if len(frame) == 1 else "frames"
    if name not in NETWORKS:
        raise InputError(f"unknown model.network {name!r}; {suggest(name, [*NETWORKS, 'auto'])}")
    return NETWORKS[name]


def require_memory(settings: ModelSettings, frame: Sequence[int]) -> None:
    """Raise an InputError where training such networks takes more memory than there is, before any is allocated."""
    total = total_memory()
    if total is None or max(settings.k, settings.h or 1, settings.width) < LARGE_WIDTH:
        return
    needed: float = 3 * 8 * settings.k**2  # an operator, its factors and its inverse in float64
    if needed <= total:
        try:
            with torch.device("meta"):  # shapes without numbers
                networks = _builder(settings, frame)(frame, settings)
            # In float32: weights, gradients and Adam's two moments.
            needed += 4 * 4 * sum(weight.numel() for part in networks for weight in part.parameters())
        except RuntimeError as error:
            if "overflowed" not in str(error):
                return  # networks of one's own may need numbers to be built
            needed = math.inf  # a size beyond 64 bits
    if needed > total:
        raise InputError(
            f"model.k = {settings.k}, model.h = {settings.h} and model.width = {settings.width} need "
            f"{format_bytes(needed)} of memory to train, this machine has {format_bytes(total)}"
        )
