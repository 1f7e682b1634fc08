"""linear features of frames, fitted in one streaming pass: principal components, slow features

Both are encoders and decoders of their own, the baselines of every run, and the start of networks that learn what is
left (`models.residual`).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from diskoop.data.sequences import Sequences
from diskoop.errors import InputError

SAMPLE_FRAMES = 2000  # whose principal directions span the moments: a covariance of all pixels is too large
OVERSAMPLING = 3  # times k: the number of those directions
POWER_ITERATIONS = 4  # of subspace iteration
MIN_VARIANCE = 1e-10  # of a frame's mean square: less is rounding error in float32
CHUNK = 64  # sequences that are read at a time


class LinearEncoder(nn.Module):
    """(batch, time, ...) -> (batch, time, k): the frame less the mean, along k directions.

    Args:
        mean: a frame.
        directions: (features, k).
    """

    def __init__(self, mean: Tensor, directions: Tensor) -> None:
        super().__init__()
        self.mean = nn.Parameter(mean)
        self.directions = nn.Parameter(directions)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if x.shape[2:] != self.mean.shape:
            raise InputError(f"expected (batch, time, {', '.join(map(str, self.mean.shape))}), got {tuple(x.shape)}")
        return (x - self.mean).flatten(2) @ self.directions


class LinearDecoder(nn.Module):
    """(batch, time, k) -> (batch, time, ...): the mean frame plus a linear combination of k frames.

    Args:
        mean: a frame.
        frames: (k, features).
    """

    def __init__(self, mean: Tensor, frames: Tensor) -> None:
        super().__init__()
        self.mean = nn.Parameter(mean)
        self.frames = nn.Parameter(frames)

    def forward(self, z: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.mean + (z @ self.frames).reshape(*z.shape[:2], *self.mean.shape)


@dataclass(frozen=True, eq=False)
class FrameMoments:
    """Moments of all frames of a set along q directions; float64."""

    mean: Tensor  # (features,)
    basis: Tensor  # (features, q)
    covariance: Tensor  # (q, q) of y, the frames along the basis
    differences: Tensor  # (q, q): the mean square of y's differences from frame to frame
    cross_covariance: Tensor  # (q, features) of y and the frames
    mean_square: float  # of a frame, its features summed


# Moments and k -> (q, k at most): features of y that are uncorrelated and have variance 1, so that discovery treats
# all alike.
FeatureChoice = Callable[[FrameMoments, int], Tensor]


def principal_components(moments: FrameMoments, k: int) -> Tensor:
    """The k directions of largest variance."""
    variances, directions = torch.linalg.eigh(moments.covariance)
    used = variances > MIN_VARIANCE * moments.mean_square
    white: Tensor = directions[:, used] / variances[used].sqrt()
    return white.flip(1)[:, :k]


def slowest_features(moments: FrameMoments, k: int) -> Tensor:
    """The k uncorrelated directions that change least from one frame to the next."""
    white = principal_components(moments, len(moments.covariance))
    slow: Tensor = torch.linalg.eigh(white.T @ moments.differences @ white)[1]
    return white @ slow[:, :k]


def fit_linear(
    data: Sequences, k: int, choose: FeatureChoice = principal_components, seed: int = 0
) -> tuple[LinearEncoder, LinearDecoder]:
    """An encoder of k linear features of variance 1, and the decoder that is their least-squares inverse; float64.

    Args:
        data: sequences whose frames are fitted, in the model's units.
        k: number of features; where frames do not have so many directions, the others are zero.
        choose: which features.
        seed: of the sample that the directions are drawn from.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(20, 10, 2)) @ np.ones((2, 5))  # one direction
        >>> encoder, decoder = fit_linear(Sequences.of(x), k=1)
        >>> frames = torch.from_numpy(x)
        >>> bool((decoder(encoder(frames)) - frames).abs().max() < 1e-9)
        True
    """
    moments = frame_moments(data, OVERSAMPLING * k, seed)
    chosen = choose(moments, k)
    chosen = nn.functional.pad(chosen, (0, k - chosen.shape[1]))
    mean = moments.mean.reshape(data.shape[2:])
    # The features are white, so regression on them is their covariance with the frames.
    return (
        LinearEncoder(mean, moments.basis @ chosen),
        LinearDecoder(mean.clone(), chosen.T @ moments.cross_covariance),
    )


def frame_moments(data: Sequences, width: int, seed: int) -> FrameMoments:
    """The principal directions of some frames, `width` at most, and one pass over all frames along them."""
    sample = _sample_frames(data, seed)
    about = sample.mean(0)  # near the mean, so that subtracting costs little precision
    basis = _principal_directions(sample - about, min(width, len(about)), seed)
    frames = pairs = 0
    total, cross = torch.zeros_like(about), torch.zeros_like(basis.T)
    covariance, differences = torch.zeros(2, len(cross), len(cross), dtype=torch.float64)
    for start in range(0, len(data), CHUNK):
        x, mask = data.batch(np.arange(start, min(start + CHUNK, len(data))), basis)
        real = torch.ones(x.shape[:2], dtype=torch.bool) if mask is None else mask
        x = x.flatten(2) - about
        y = x @ basis  # (n, time, q)
        steps = (y[:, 1:] - y[:, :-1])[real[:, 1:]]
        x, y = x[real], y[real]
        frames, pairs = frames + len(y), pairs + len(steps)
        total += x.sum(0)
        cross += y.T @ x
        covariance += y.T @ y
        differences += steps.T @ steps
    moved = total / frames  # from `about` to the mean
    along = moved @ basis
    return FrameMoments(
        mean=about + moved,
        basis=basis,
        covariance=covariance / frames - torch.outer(along, along),
        differences=differences / pairs,
        cross_covariance=cross / frames - torch.outer(along, moved),
        mean_square=float(sample.square().sum(1).mean()),
    )


def _sample_frames(data: Sequences, seed: int) -> Tensor:
    """(frames, features) float64 in the model's units: a frame each of sequences that are drawn uniformly."""
    random = np.random.Generator(np.random.PCG64(seed))
    owners = random.integers(len(data), size=SAMPLE_FRAMES)
    places = np.unique(data.starts[owners] + random.integers(data.lengths[owners]))
    return data.units.to_model(torch.from_numpy(np.array(data.frames[places], np.float64))).flatten(1)


def _principal_directions(x: Tensor, width: int, seed: int) -> Tensor:
    """(features, width): orthonormal columns that span the principal directions of `x` (frames, features).

    Subspace iteration is exact where `x` has no more directions than that, and close where the others are weaker.
    """
    generator = torch.Generator().manual_seed(seed)
    basis = torch.randn(x.shape[1], width, generator=generator, dtype=x.dtype)
    for _ in range(POWER_ITERATIONS):
        basis = torch.linalg.qr(x.T @ (x @ basis))[0]
    return basis
