"""networks beside a fixed PCA: training starts from PCA with DMD and learns what that leaves

The principal components of the training frames are computed once and stay. Their latents are mixed by a matrix that
starts as the identity, and the networks' outputs are multiplied by gates that start at zero. Some latents may be pooled
over the clip (`models.pooling`); then the start is the best linear model of frames beside those.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from diskoop.data.sequences import Sequences
from diskoop.errors import InputError
from diskoop.models.framewise import FramewiseNetwork
from diskoop.models.layers import full_precision
from diskoop.models.linear import OVERSAMPLING, fit_principal_components, frame_moments, principal_components
from diskoop.models.pooling import StatisticsPooling, fit_pooling, mean_over_real


class ResidualEncoder(nn.Module):
    """Principal components of each frame plus a network's latents: (batch, time, ...) -> (batch, time, k).

    With `pooled` latents, those come first and are the same in all frames of a clip, so that an operator has eigenvalue
    1 on them and they are its static part. The others are of the frames less what the pooled ones tell of them, and
    what the network adds to them has mean zero over the clip. So latents know a little of frames to come: 1 / time of
    each.

    Args:
        network: (batch, time, ...), mask -> (batch, time, k).
        frame: shape of a frame.
        k: latent width.
        pooled: how many of the latents are pooled over the clip.
    """

    mean: Tensor  # a frame
    directions: Tensor  # (features, k - pooled)

    def __init__(self, network: nn.Module, frame: Sequence[int], k: int, pooled: int = 0) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("mean", torch.zeros(*frame))
        self.register_buffer("directions", torch.zeros(math.prod(frame), k - pooled))
        self.mix = nn.Parameter(torch.eye(k - pooled))
        self.gate = nn.Parameter(torch.ones(k - pooled))
        self.pooling = StatisticsPooling(frame, pooled) if pooled else None

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """`x` (batch, time, ...), `mask` (batch, time) -> latents (batch, time, k)."""
        if x.shape[2:] != self.mean.shape:
            raise InputError(f"expected (batch, time, {', '.join(map(str, self.mean.shape))}), got {tuple(x.shape)}")
        more: Tensor = self.network(x) if mask is None else self.network(x, mask)
        with full_precision(x):
            centered = (x.to(self.mean) - self.mean).flatten(2)
            if self.pooling is None:
                return self._per_frame(centered, more)
            pooled = self.pooling(x.to(self.mean), mask).unsqueeze(1)  # (batch, 1, pooled)
            # Less its mean over the clip: what stays is for the pooled latents to tell.
            more = more[..., pooled.shape[-1] :].to(pooled)
            more = more - mean_over_real(more, mask).unsqueeze(1)
            per_frame = self._per_frame(centered - pooled @ self.pooling.frames, more)
            return torch.cat([pooled.expand(-1, x.shape[1], -1), per_frame], -1)

    def _per_frame(self, centered: Tensor, more: Tensor) -> Tensor:
        """Latents of frames less a mean (batch, time, features), and the network's, (batch, time, k - pooled)."""
        components = centered @ self.directions
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

    With pooled latents it becomes the linear model of smallest error whose first latents are those. Latents beyond the
    directions that frames have are the network's own from the start; the decoder does not see them.

    Args:
        model: an autoencoder with a `ResidualEncoder` and a `ResidualDecoder`.
        data: the training set.
        seed: of the sample that the directions are drawn from.
    """
    encoder, decoder = model.encoder, model.decoder
    if encoder.pooling is None:
        linear_encoder, linear_decoder = fit_principal_components(data, len(encoder.gate), seed)
        mean, directions = linear_encoder.mean.data, linear_encoder.directions.data
        frames = linear_decoder.frames.data
    else:
        mean, directions, frames = _fit_beside_pooling(encoder.pooling, data, len(decoder.mix), seed)
    encoder.mean.copy_(mean)
    encoder.directions.copy_(directions)
    decoder.mean.copy_(mean)
    decoder.frames.copy_(frames)
    own = (directions == 0).all(0)  # latents that are the network's alone
    if isinstance(encoder.network, FramewiseNetwork):
        # A last layer of zeros learns from the first step on; behind a gate of zero it would wait for the gate.
        encoder.network.out.weight[-len(own) :][~own] = 0.0
        encoder.network.out.bias[-len(own) :][~own] = 0.0
    else:
        encoder.gate.copy_(own)
    if isinstance(decoder.network, FramewiseNetwork):
        decoder.network.out.weight.zero_()
        decoder.network.out.bias.zero_()
    else:
        decoder.gate.zero_()


def _fit_beside_pooling(
    pooling: StatisticsPooling, data: Sequences, k: int, seed: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Fit `pooling` in place and principal components to what it leaves of frames.

    Returns:
        The mean frame, directions (features, k - pooled) of frames less the regression on pooled latents, each of
        variance 1, and the regression of frames on all latents, (k, features).
    """
    moments = frame_moments(data, OVERSAMPLING * k, seed)
    pooled = fit_pooling(pooling, data, moments)
    along = pooled.frames @ moments.basis  # (pooled, q)
    # What a regression leaves is uncorrelated with the regressors, so second moments subtract.
    left = replace(
        moments,
        covariance=moments.covariance - along.T @ pooled.covariance @ along,
        cross_covariance=moments.cross_covariance - along.T @ pooled.covariance @ pooled.frames,
    )
    chosen = principal_components(left, k - len(pooled.frames))
    chosen = nn.functional.pad(chosen, (0, k - len(pooled.frames) - chosen.shape[1]))
    frames = torch.cat([pooled.frames, chosen.T @ left.cross_covariance])
    return moments.mean.reshape(data.shape[2:]), moments.basis @ chosen, frames
