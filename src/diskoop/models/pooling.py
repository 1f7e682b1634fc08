"""statistics pooling: what a whole clip is like, as latents that are constant in time

A clip's mean, deviation and speed of change along the principal components of frames say who or what it shows, and
nothing of when. They are what networks for speaker verification pool (x-vectors); here their principal components are
latents as they are: to learn them by telling recordings apart makes speakers harder to tell (docs/your-data.md).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from diskoop.data.sequences import Sequences
from diskoop.models.linear import FrameMoments, principal_components, read_frames

COMPONENTS = 40  # principal components of frames whose statistics are taken, at most
STATISTICS = 3  # of each: mean, deviation, deviation of differences
FLOOR = 1e-3  # of a component's deviation within a clip, where 1 is that over all frames


class StatisticsPooling(nn.Module):
    """Statistics of a clip along k directions: (batch, time, ...) -> (batch, k).

    All buffers are zero until `fit_pooling` sets them.

    Args:
        frame: shape of a frame.
        k: number of pooled latents.
    """

    mean: Tensor  # (features,)
    components: Tensor  # (features, q): principal components of frames, each with variance 1
    center: Tensor  # (3 q,): the statistics' mean
    directions: Tensor  # (3 q, k): their principal directions, orthonormal
    frames: Tensor  # (k, features): regression of frames on the latents

    def __init__(self, frame: Sequence[int], k: int) -> None:
        super().__init__()
        features = math.prod(frame)
        total = statistics_count(features)
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("components", torch.zeros(features, total // STATISTICS))
        self.register_buffer("center", torch.zeros(total))
        self.register_buffer("directions", torch.zeros(total, k))
        self.register_buffer("frames", torch.zeros(k, features))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Frames `x` (batch, time, ...), `mask` (batch, time) -> (batch, k)."""
        return (self.statistics(x, mask) - self.center) @ self.directions

    def statistics(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Frames (batch, time, ...) -> (batch, 3 q): mean, log deviation and log deviation of differences."""
        y = (x.flatten(2) - self.mean) @ self.components  # (batch, time, q)
        mean = mean_over_real(y, mask)
        spread = mean_over_real((y - mean.unsqueeze(1)).square(), mask)
        pairs = None if mask is None else mask[:, 1:] & mask[:, :-1]
        speed = mean_over_real((y[:, 1:] - y[:, :-1]).square(), pairs)
        # The logarithm makes a deviation twice as large differ as much as one half as large.
        return torch.cat([mean, *((square + FLOOR**2).log() / 2 for square in (spread, speed))], -1)


def statistics_count(features: int) -> int:
    """How many statistics clips of frames with so many features have: no more latents can be pooled."""
    return STATISTICS * min(COMPONENTS, features)


def mean_over_real(y: Tensor, mask: Tensor | None) -> Tensor:
    """(batch, time, q) -> (batch, q): the mean over the frames that exist, 0 where none does.

    Args:
        y: padding may hold any values.
        mask: which frames exist, (batch, time); None: all.
    """
    if mask is None:
        return y.sum(1) / max(y.shape[1], 1)
    return torch.where(mask.unsqueeze(-1), y, 0.0).sum(1) / mask.sum(1, keepdim=True).clamp_min(1)


@dataclass(frozen=True, eq=False)
class PooledMoments:
    """What pooled latents explain of frames; float64."""

    covariance: Tensor  # (k, k) of the pooled latents, each frame counted
    frames: Tensor  # (k, features): regression of frames on them


@torch.no_grad()
def fit_pooling(pooling: StatisticsPooling, data: Sequences, moments: FrameMoments) -> PooledMoments:
    """Set the buffers of `pooling` in place: principal components of the statistics of the clips of `data`.

    They keep their variances: whitened, directions in which clips hardly differ would count as much as the others.

    Args:
        pooling: in any dtype; the fit itself is in float64.
        data: the training set.
        moments: of its frames.
    """
    count, k = pooling.components.shape[1], pooling.directions.shape[1]
    fitted = StatisticsPooling((len(moments.mean),), k).double()
    fitted.mean.copy_(moments.mean)
    white = principal_components(moments, count)
    fitted.components[:, : white.shape[1]] = moments.basis @ white
    frames, total, gram = 0, torch.zeros_like(fitted.center), torch.zeros(2 * fitted.center.shape, dtype=torch.float64)
    cross = torch.zeros(len(total), len(moments.mean), dtype=torch.float64)
    for x, real in read_frames(data, moments.basis):
        statistics, lengths = fitted.statistics(x, real), real.sum(1, keepdim=True)
        means = mean_over_real(x.flatten(2) - moments.mean, real)
        frames += int(lengths.sum())
        total += (lengths * statistics).sum(0)
        gram += (lengths * statistics).T @ statistics
        cross += (lengths * statistics).T @ means
    fitted.center.copy_(total / frames)
    variances, directions = torch.linalg.eigh(gram / frames - torch.outer(fitted.center, fitted.center))
    fitted.directions.copy_(directions.flip(1)[:, :k])
    variances = variances.flip(0)[:k]
    # The latents are uncorrelated and have mean 0, as have frames less their mean: a regression for each alone.
    frames_on = fitted.directions.T @ (cross / frames)
    used = variances > variances[:1] * 1e-12
    fitted.frames.copy_(torch.where(used.unsqueeze(1), frames_on / variances.unsqueeze(1), 0.0))
    pooling.load_state_dict(fitted.state_dict())
    return PooledMoments(torch.diag(variances), fitted.frames)
