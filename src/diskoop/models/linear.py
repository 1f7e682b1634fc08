"""linear features of frames, fitted in one streaming pass: principal components, slow features

Both are encoders and decoders of their own, the baselines of every run, and the start of networks that learn what is
left (`models.residual`).
"""

from collections.abc import Callable, Iterator
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


LinearNetworks = tuple[LinearEncoder, LinearDecoder]  # in float64


def fit_principal_components(train: Sequences, k: int, seed: int = 0) -> LinearNetworks:
    """PCA: an encoder of frames by their k principal components, each with variance 1, and their decoder.

    Args:
        train: the sequences whose frames it is fitted to, around their mean frame and in the model's units.
        k: number of components; where frames have fewer directions the other latents are zero.
        seed: of the sample of frames that the directions are found in.

    Example:
        >>> encoder, decoder = fit_principal_components(diskoop.load_data("oscillators"), k=8)
        >>> x = torch.randn(2, 24, 8, dtype=torch.float64)
        >>> torch.allclose(decoder(encoder(x)), x)  # as many components as features
        True
    """
    return _fit(train, k, seed, principal_components)


def fit_slow_features(train: Sequences, k: int, seed: int = 0) -> LinearNetworks:
    """The same with the k uncorrelated features that change least from one frame to the next."""
    return _fit(train, k, seed, slowest_features)


def _fit(train: Sequences, k: int, seed: int, choose: FeatureChoice) -> LinearNetworks:
    moments = frame_moments(train, OVERSAMPLING * k, seed)
    chosen = choose(moments, k)
    chosen = nn.functional.pad(chosen, (0, k - chosen.shape[1]))
    mean = moments.mean.reshape(train.shape[2:])
    # The features are white, so regression on them is their covariance with the frames.
    decoder = LinearDecoder(mean.clone(), chosen.T @ moments.cross_covariance)
    return LinearEncoder(mean, moments.basis @ chosen), decoder


def frame_moments(data: Sequences, width: int, seed: int) -> FrameMoments:
    """The principal directions of some frames, `width` at most, and one pass over all frames along them."""
    sample = _sample_frames(data, seed)
    about = sample.mean(0)  # near the mean, so that subtracting costs little precision
    basis = _principal_directions(sample - about, min(width, len(about)), seed)
    frames = pairs = 0
    total, cross = torch.zeros_like(about), torch.zeros_like(basis.T)
    covariance, differences = torch.zeros(2, len(cross), len(cross), dtype=torch.float64)
    for x, real in read_frames(data, basis):
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


def read_frames(data: Sequences, like: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """All sequences, CHUNK at a time: frames (n, time, ...) in the model's units and which are real, (n, time).

    Args:
        data: the sequences.
        like: its dtype and device are those of the frames.
    """
    for start in range(0, len(data), CHUNK):
        x, mask = data.batch(np.arange(start, min(start + CHUNK, len(data))), like)
        yield x, torch.ones(x.shape[:2], dtype=torch.bool) if mask is None else mask


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
