"""linear encoders and decoders of frames: principal components, slow features"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from diskoop.analysis.decomposition import chunks
from diskoop.data.sequences import Sequences
from diskoop.errors import InputError

SAMPLE_FRAMES = 2000  # whose principal directions span the survey: a covariance of all pixels is too large
OVERSAMPLING = 3  # times k: the number of those directions
POWER_ITERATIONS = 4  # of subspace iteration
MIN_VARIANCE = 1e-10  # of a frame's mean square: less is rounding error in float32


class LinearEncoder(nn.Module):
    """(batch, time, ...) -> (batch, time, k): the frame less the mean, along k directions."""

    def __init__(self, mean: Tensor, directions: Tensor) -> None:
        super().__init__()
        self.mean = nn.Parameter(mean)  # shaped as a frame
        self.directions = nn.Parameter(directions)  # (features, k)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if x.shape[2:] != self.mean.shape:
            raise InputError(f"expected (batch, time, {', '.join(map(str, self.mean.shape))}), got {tuple(x.shape)}")
        return (x - self.mean).flatten(2) @ self.directions


class LinearDecoder(nn.Module):
    """(batch, time, k) -> (batch, time, ...): the mean frame plus a linear combination of k frames."""

    def __init__(self, mean: Tensor, frames: Tensor) -> None:
        super().__init__()
        self.mean = nn.Parameter(mean)  # shaped as a frame
        self.frames = nn.Parameter(frames)  # (k, features)

    def forward(self, z: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.mean + (z @ self.frames).reshape(*z.shape[:2], *self.mean.shape)


LinearNetworks = tuple[LinearEncoder, LinearDecoder]  # in float64


@dataclass(frozen=True, eq=False)
class _Survey:
    """Moments of all training frames along q directions; float64."""

    mean: Tensor  # (features,)
    basis: Tensor  # (features, q)
    spread: Tensor  # (q, q): the covariance of y, the frames along the basis
    change: Tensor  # (q, q): the mean square of y's differences from frame to frame
    cross: Tensor  # (q, features): the covariance of y and the frames
    size: float  # a frame's mean square, its features summed


# A survey and k -> (q, k at most): features of y that are uncorrelated and have variance 1, so that discovery treats
# all alike.
_Choice = Callable[[_Survey, int], Tensor]


def _choose_principal(survey: _Survey, k: int) -> Tensor:
    variances, directions = torch.linalg.eigh(survey.spread)
    used = variances > MIN_VARIANCE * survey.size
    white: Tensor = directions[:, used] / variances[used].sqrt()
    return white.flip(1)[:, :k]


def _choose_slowest(survey: _Survey, k: int) -> Tensor:
    white = _choose_principal(survey, len(survey.spread))
    slow: Tensor = torch.linalg.eigh(white.T @ survey.change @ white)[1]
    return white @ slow[:, :k]


def fit_principal_components(train: Sequences, k: int, seed: int = 0) -> LinearNetworks:
    """PCA: an encoder of frames by their k principal components, each with variance 1, and their decoder.

    Args:
        train: the sequences whose frames it is fitted to; around their mean frame, in the model's units.
        k: number of components; where frames have fewer directions the other latents are zero.
        seed: of the draw of frames.

    Example:
        >>> encoder, decoder = fit_principal_components(diskoop.load_data("oscillators"), k=8)
        >>> x = torch.randn(2, 24, 8, dtype=torch.float64)
        >>> torch.allclose(decoder(encoder(x)), x)  # as many components as features
        True
    """
    return _fit(train, k, seed, _choose_principal)


def fit_slow_features(train: Sequences, k: int, seed: int = 0) -> LinearNetworks:
    """The same with the k uncorrelated features that change least from one frame to the next."""
    return _fit(train, k, seed, _choose_slowest)


def _fit(train: Sequences, k: int, seed: int, choose: _Choice) -> LinearNetworks:
    """k features that `choose` takes from a survey, decoded by least squares."""
    survey = _survey_frames(train, OVERSAMPLING * k, seed)
    chosen = choose(survey, k)
    # Where frames do not have k directions the other latents are zero, and so are their eigenvalues.
    chosen = nn.functional.pad(chosen, (0, k - chosen.shape[1]))
    mean = survey.mean.reshape(train.shape[2:])
    # The decoder is a regression on whitened features.
    return LinearEncoder(mean, survey.basis @ chosen), LinearDecoder(mean.clone(), chosen.T @ survey.cross)


def _survey_frames(train: Sequences, width: int, seed: int) -> _Survey:
    """The principal directions of some frames, `width` at most, and one pass over all frames along them."""
    sample = _sample_frames(train, seed)
    about = sample.mean(0)  # near the mean, so that subtracting costs little precision
    basis = _principal_directions(sample - about, min(width, len(about)), seed)
    frames = pairs = 0
    total, cross = torch.zeros_like(about), torch.zeros_like(basis.T)
    spread, change = torch.zeros(2, len(cross), len(cross), dtype=torch.float64)
    for indices in chunks(len(train)):
        x, mask = train.batch(indices, basis)
        real = torch.ones(x.shape[:2], dtype=torch.bool) if mask is None else mask
        x = x.flatten(2) - about
        y = x @ basis  # (n, time, q)
        steps = (y[:, 1:] - y[:, :-1])[real[:, 1:]]
        x, y = x[real], y[real]
        frames, pairs = frames + len(y), pairs + len(steps)
        total += x.sum(0)
        cross += y.T @ x
        spread += y.T @ y
        change += steps.T @ steps
    moved = total / frames  # from `about` to the mean
    along = moved @ basis
    return _Survey(
        mean=about + moved,
        basis=basis,
        spread=spread / frames - torch.outer(along, along),
        change=change / pairs,
        cross=cross / frames - torch.outer(along, moved),
        size=float(sample.square().sum(1).mean()),
    )


def _sample_frames(train: Sequences, seed: int) -> Tensor:
    """(frames, features) float64 in the model's units: a frame each of sequences that are drawn uniformly."""
    random = np.random.Generator(np.random.PCG64(seed))
    owners = random.integers(len(train), size=SAMPLE_FRAMES)
    places = np.unique(train.starts[owners] + random.integers(train.lengths[owners]))
    return train.units.to_model(torch.from_numpy(np.array(train.frames[places], np.float64))).flatten(1)


def _principal_directions(x: Tensor, width: int, seed: int) -> Tensor:
    """(features, width): orthonormal columns that span the principal directions of `x` (frames, features).

    Subspace iteration is exact where `x` has no more directions than that, and close where the others are weaker.
    """
    generator = torch.Generator().manual_seed(seed)
    basis = torch.randn(x.shape[1], width, generator=generator, dtype=x.dtype)
    for _ in range(POWER_ITERATIONS):
        basis = torch.linalg.qr(x.T @ (x @ basis))[0]
    return basis
