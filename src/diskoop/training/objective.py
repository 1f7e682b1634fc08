"""the weighted sum the paper minimises, and the cycle term"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from diskoop.models.autoencoder import KoopmanAutoencoder, full_precision
from diskoop.numerics.factors import Factor, swap
from diskoop.numerics.losses import (
    Penalty,
    SpectralTerms,
    ball_around_one,
    distance_to_one,
    hinge_beyond,
    modulus_beyond,
    real_beyond,
    spectral_terms,
    unit_modulus,
)
from diskoop.numerics.operator import Operator
from diskoop.numerics.spectrum import by_distance, by_modulus
from diskoop.settings import Settings, SpectrumSettings

ORDERS = {"distance": by_distance, "modulus": by_modulus}
STATIC_PENALTIES: dict[str, Penalty] = {"distance": distance_to_one, "modulus": unit_modulus}


def dynamic_penalty(settings: SpectrumSettings) -> Penalty:
    choices: dict[str, Callable[..., tuple[Tensor, Tensor]]] = {
        "modulus": modulus_beyond,
        "hinge": hinge_beyond,
        "real": real_beyond,
        "ball": partial(ball_around_one, delta=settings.delta),
    }
    return partial(choices[settings.dynamic_penalty], radius=settings.radius)


class Terms(NamedTuple):
    """What one batch costs (scalars), and the operator it was judged by."""

    total: Tensor
    rec: Tensor
    pred_z: Tensor
    pred_x: Tensor
    stat: Tensor
    dyn: Tensor
    cycle: Tensor
    static_gap: Tensor  # largest |lambda - 1| among the static eigenvalues
    dynamic_radius: Tensor  # largest |lambda| among the others
    rank: Tensor  # of the latents the operator was fitted on


class Objective(nn.Module):
    """`forward` takes a batch through the model once and weighs every term."""

    def __init__(self, model: KoopmanAutoencoder, settings: Settings) -> None:
        super().__init__()
        self.model = model
        self.settings = settings

    def forward(self, x: Tensor, mask: Tensor | None, generator: torch.Generator) -> Terms:
        """`x` (batch, time, ...) in the model's units; `mask` (batch, time) or None; every draw is `generator`'s."""
        model, loss = self.model, self.settings.loss
        z = model.encode(self._blurred(x, generator), mask)
        z = self._noisy(z, generator)
        operator = model.fit(z, mask)
        ahead = model.predict(z, operator)
        spectral = self._spectral(operator)
        later = None if mask is None else mask[:, :-1] & mask[:, 1:]
        rec = self._distance(model.decode(self._dropped(z, generator), mask), x, mask)
        pred_z = self._distance(ahead, z[:, 1:], later)
        pred_x = self._distance(model.decode(ahead, later), x[:, 1:], later)
        cycle = self._cycle(z, spectral, mask) if loss.cycle else torch.zeros_like(rec)
        stat, dyn = spectral.static.to(rec), spectral.dynamic.to(rec)
        total = (
            loss.rec * rec
            + loss.pred * (pred_z + pred_x)
            + loss.eig * (loss.stat * stat + loss.dyn * dyn)
            + loss.cycle * cycle
        )
        gap, radius = spectral.spectrum.extent(spectral.chosen)
        return Terms(total, rec, pred_z, pred_x, stat, dyn, cycle, gap, radius, operator.rank.double().mean())

    def _spectral(self, operator: Operator) -> SpectralTerms:
        choice = self.settings.spectrum
        return spectral_terms(
            operator.matrix,
            choice.static,
            STATIC_PENALTIES[choice.static_penalty],
            dynamic_penalty(choice),
            ORDERS[choice.order],
        )

    def _cycle(self, z: Tensor, spectral: SpectralTerms, mask: Tensor | None) -> Tensor:
        """Each sequence gets its neighbour's static part; decoded and encoded again, it should still have it."""
        with full_precision(z):
            swapped = swap(z, z.roll(1, dims=0), Factor.from_modes("static", spectral.spectrum, spectral.chosen))
        both = None if mask is None else mask & mask.roll(1, dims=0)
        again = self.model.encode(self.model.decode(swapped, both), both)
        return self._distance(again, swapped.detach(), both)

    def _distance(self, a: Tensor, b: Tensor, mask: Tensor | None) -> Tensor:
        """Squared distance over the frames that exist: a mean over elements, or the text's sum over features."""
        squares = (a.float() - b.float() if a.dtype == torch.bfloat16 else a - b).square()
        each = squares.flatten(2).mean(-1) if self.settings.loss.reduction == "element" else squares.flatten(2).sum(-1)
        return each.mean() if mask is None else torch.where(mask, each, 0.0).sum() / mask.sum()

    def _blurred(self, x: Tensor, generator: torch.Generator) -> Tensor:
        if not (self.training and self.settings.train.blur):
            return x
        low, high = 0.1, 3.0
        sigma = low + (high - low) * torch.rand((), generator=generator, device=x.device, dtype=x.dtype)
        return gaussian_blur(x, sigma, (5, 9))

    def _noisy(self, z: Tensor, generator: torch.Generator) -> Tensor:
        amount = self.settings.model.noise
        return z + amount * _uniform(z, generator) if self.training and amount else z

    def _dropped(self, z: Tensor, generator: torch.Generator) -> Tensor:
        share = self.settings.model.dropout
        if not (self.training and share):
            return z
        # Not nn.Dropout: it draws from the global state, and every draw here belongs to the step's own generator.
        return z * (_uniform(z, generator) >= share) / (1 - share)


def gaussian_blur(x: Tensor, sigma: Tensor, taps: tuple[int, int]) -> Tensor:
    """Video (batch, time, channel, height, width) blurred with an odd number of `taps` (across, down)."""
    across, down = (_bell(count, sigma) for count in taps)
    images = x.flatten(0, 2).unsqueeze(1)  # every channel of every frame is an image of its own
    half_across, half_down = taps[0] // 2, taps[1] // 2
    padded = functional.pad(images, (half_across, half_across, half_down, half_down), mode="reflect")
    rows = functional.conv2d(padded, across.view(1, 1, 1, -1))
    return functional.conv2d(rows, down.view(1, 1, -1, 1)).reshape(x.shape)


def _bell(count: int, sigma: Tensor) -> Tensor:
    at = torch.arange(count, device=sigma.device, dtype=sigma.dtype) - count // 2
    weights = torch.exp(-0.5 * (at / sigma).square())
    return weights / weights.sum()


def _uniform(like: Tensor, generator: torch.Generator) -> Tensor:
    return torch.rand(like.shape, generator=generator, device=like.device, dtype=like.dtype)
