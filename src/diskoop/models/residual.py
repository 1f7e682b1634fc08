"""networks beside a fixed PCA: training starts from PCA with DMD and learns what that leaves

The principal components of the training frames are computed once and stay. Their latents are mixed by a matrix that
starts as the identity, and the networks' outputs are multiplied by gates that start at zero.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from diskoop.data.sequences import Sequences
from diskoop.errors import InputError
from diskoop.models.layers import full_precision
from diskoop.models.linear import fit_principal_components


class ResidualEncoder(nn.Module):
    """Principal components of each frame plus a network's latents: (batch, time, ...) -> (batch, time, k).

    Args:
        network: (batch, time, ...), mask -> (batch, time, k).
        frame: shape of a frame.
        k: latent width.
    """

    mean: Tensor  # a frame
    directions: Tensor  # (features, k)

    def __init__(self, network: nn.Module, frame: Sequence[int], k: int) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("mean", torch.zeros(*frame))
        self.register_buffer("directions", torch.zeros(math.prod(frame), k))
        self.mix = nn.Parameter(torch.eye(k))
        self.gate = nn.Parameter(torch.ones(k))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """`x` (batch, time, ...), `mask` (batch, time) -> latents (batch, time, k)."""
        if x.shape[2:] != self.mean.shape:
            raise InputError(f"expected (batch, time, {', '.join(map(str, self.mean.shape))}), got {tuple(x.shape)}")
        more: Tensor = self.network(x) if mask is None else self.network(x, mask)
        with full_precision(x):
            components = (x.to(self.mean) - self.mean).flatten(2) @ self.directions
            return components @ self.mix + self.gate * more.to(components)


class ResidualDecoder(nn.Module):
    """The frame that principal components give plus a network's: (batch, time, k) -> (batch, time, ...).

    Args:
        network: (batch, time, k), mask -> (batch, time, ...), of any sign.
        frame: shape of a frame.
        k: latent width.
    """

    mean: Tensor  # a frame
    frames: Tensor  # (k, features)

    def __init__(self, network: nn.Module, frame: Sequence[int], k: int) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("mean", torch.zeros(*frame))
        self.register_buffer("frames", torch.zeros(k, math.prod(frame)))
        self.mix = nn.Parameter(torch.eye(k))
        self.gate = nn.Parameter(torch.ones(()))

    def forward(self, z: Tensor, mask: Tensor | None = None) -> Tensor:
        """Latents (batch, time, k), `mask` (batch, time) -> frames (batch, time, ...)."""
        more: Tensor = self.network(z) if mask is None else self.network(z, mask)
        with full_precision(z):
            linear = (z.to(self.mix) @ self.mix @ self.frames).reshape(*z.shape[:2], *self.mean.shape)
            return self.mean + linear + self.gate * more.to(linear)


@torch.no_grad()
def start_from_pca(model: Any, data: Sequences, seed: int = 0) -> None:
    """Make a model with residual networks equal to PCA with DMD of the frames of `data`, in place.

    Latents beyond the directions that frames have are the network's own from the start; the decoder does not see them.

    Args:
        model: an autoencoder with a `ResidualEncoder` and a `ResidualDecoder`.
        data: the training set.
        seed: of the sample that the directions are drawn from.
    """
    encoder, decoder = model.encoder, model.decoder
    linear_encoder, linear_decoder = fit_principal_components(data, len(encoder.gate), seed)
    encoder.mean.copy_(linear_encoder.mean)
    encoder.directions.copy_(linear_encoder.directions)
    encoder.gate.copy_((linear_encoder.directions == 0).all(0))
    decoder.mean.copy_(linear_decoder.mean)
    decoder.frames.copy_(linear_decoder.frames)
    decoder.gate.zero_()
