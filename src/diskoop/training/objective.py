"""the weighted sum the paper minimises, and the cycle term"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

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
from diskoop.numerics.spectrum import Order, by_distance, by_modulus
from diskoop.settings import Settings, SpectrumSettings

# Where a step's random numbers come from: a shape, and a tensor whose type and device to take -> between 0 and 1.
Uniform = Callable[[Sequence[int], Tensor], Tensor]
Weighable = TypeVar("Weighable", Tensor, float)

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
        uniform = partial(_uniform, generator)
        z = self.latents(x, mask, uniform)
        operator = self.model.fit(z, mask)
        spectral = self.spectral(operator.matrix)
        rec, pred_z, pred_x = self.errors(z, self.model.predict(z, operator), x, mask, uniform)
        cycle = torch.zeros_like(rec)
        if self.settings.loss.cycle:
            cycle = self.cycle(z, Factor.from_modes("static", spectral.spectrum, spectral.chosen), mask)
        stat, dyn = spectral.static.to(rec), spectral.dynamic.to(rec)
        total = self.weighed(rec, pred_z, pred_x, stat, dyn, cycle)
        gap, radius = spectral.spectrum.extent(spectral.chosen)
        return Terms(total, rec, pred_z, pred_x, stat, dyn, cycle, gap, radius, operator.rank.double().mean())

    def latents(self, x: Tensor, mask: Tensor | None, uniform: Uniform) -> Tensor:
        """What the operator is fitted on and everything is decoded from, (batch, time, k)."""
        z = self.model.encode(self._blurred(x, uniform), mask)
        amount = self.settings.model.noise
        return z + amount * uniform(z.shape, z) if self.training and amount else z

    def errors(
        self, z: Tensor, ahead: Tensor, x: Tensor, mask: Tensor | None, uniform: Uniform, together: bool = False
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Of what is decoded; of `ahead`, the operator's word on frames 2 to time, as latents and as frames.

        Decoded `together` it is the same in one pass, which takes more memory and no masks for video.
        """
        later = None if mask is None else mask[:, :-1] & mask[:, 1:]
        dropped = self._dropped(z, uniform)
        if together and x.ndim == 5:
            targets = x, x[:, 1:]
            sums = self.model.square_sums([dropped, ahead], targets)
            rec, pred_x = (total / self._over(target) for total, target in zip(sums, targets, strict=True))
            return rec, self._distance(ahead, z[:, 1:], None), pred_x
        if together:
            now, then = self.model.decode_together([dropped, ahead])
        else:
            now, then = self.model.decode(dropped, mask), self.model.decode(ahead, later)
        return (
            self._distance(now, x, mask),
            self._distance(ahead, z[:, 1:], later),
            self._distance(then, x[:, 1:], later),
        )

    def spectral(self, C: Tensor) -> SpectralTerms:
        return spectral_terms(C, self.settings.spectrum.static, *self.penalties, self.order)

    @property
    def penalties(self) -> tuple[Penalty, Penalty]:
        """Of static eigenvalues, and of the others."""
        choice = self.settings.spectrum
        return STATIC_PENALTIES[choice.static_penalty], dynamic_penalty(choice)

    @property
    def order(self) -> Order:
        return ORDERS[self.settings.spectrum.order]

    def cycle(self, z: Tensor, static: Factor, mask: Tensor | None) -> Tensor:
        """Each sequence gets its neighbour's static part; decoded and encoded again, it should still have it."""
        with full_precision(z):
            swapped = swap(z, z.roll(1, dims=0), static)
        both = None if mask is None else mask & mask.roll(1, dims=0)
        again = self.model.encode(self.model.decode(swapped, both), both)
        return self._distance(again, swapped.detach(), both)

    def weighed(
        self, rec: Weighable, pred_z: Weighable, pred_x: Weighable, stat: Weighable, dyn: Weighable, cycle: Weighable
    ) -> Weighable:
        """What is minimised."""
        loss = self.settings.loss
        return (
            loss.rec * rec
            + loss.pred * (pred_z + pred_x)
            + loss.eig * (loss.stat * stat + loss.dyn * dyn)
            + loss.cycle * cycle
        )

    def _distance(self, a: Tensor, b: Tensor, mask: Tensor | None) -> Tensor:
        """Squared distance over the frames that exist: a mean over elements, or the text's sum over features."""
        squares = (a.float() - b.float() if a.dtype == torch.bfloat16 else a - b).square()
        if mask is None:
            return squares.sum() / self._over(a)
        return torch.where(mask, squares.flatten(2).sum(-1), 0.0).sum() / (mask.sum() * self._over(a[:1, :1]))

    def _over(self, x: Tensor) -> int:
        """What a sum of squares over all of `x` is divided by to be the distance."""
        return x.numel() if self.settings.loss.reduction == "element" else x.shape[0] * x.shape[1]

    def _blurred(self, x: Tensor, uniform: Uniform) -> Tensor:
        if not (self.training and self.settings.train.blur):
            return x
        low, high = 0.1, 3.0
        return gaussian_blur(x, low + (high - low) * uniform((), x), (5, 9))

    def _dropped(self, z: Tensor, uniform: Uniform) -> Tensor:
        share = self.settings.model.dropout
        if not (self.training and share):
            return z
        # Not nn.Dropout: it draws from the global state, and every draw here belongs to the step's own generator.
        return z * (uniform(z.shape, z) >= share) / (1 - share)


def gaussian_blur(x: Tensor, sigma: Tensor, taps: tuple[int, int]) -> Tensor:
    """Video (batch, time, channel, height, width) blurred with an odd number of `taps` (across, down).

    As two products with a band matrix: a convolution of single channels is what libraries do worst.
    """
    across, down = (_bell(size, count, sigma) for size, count in zip((x.shape[-1], x.shape[-2]), taps, strict=True))
    return down @ (x @ across.mT)


def _bell(size: int, count: int, sigma: Tensor) -> Tensor:
    """(size, size): each row a Gaussian of `count` taps around its own place, reflected where it leaves."""
    exponents, bands = _bands(size, count, sigma.dtype, sigma.device)
    with full_precision(sigma):
        return (torch.softmax(exponents / sigma.square(), 0) @ bands).reshape(size, size)


@cache  # for all steps, and for good: a captured one reads them where they lie
def _bands(size: int, count: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """(count,) the exponent of each tap for a sigma of 1; (count, size * size) where it falls in each row, as ones."""
    with torch.inference_mode(False):  # whoever asks first: others may need gradients through them
        offsets = torch.arange(count) - count // 2
        place = torch.arange(size)
        reached = (place + offsets[:, None]).abs()  # (count, size)
        reached = torch.where(reached < size, reached, 2 * (size - 1) - reached)
        bands = (reached.unsqueeze(-1) == place).flatten(1)
        return (-0.5 * offsets.square()).to(device, dtype), bands.to(device, dtype)


def _uniform(generator: torch.Generator, shape: Sequence[int], like: Tensor) -> Tensor:
    return torch.rand(shape, generator=generator, device=like.device, dtype=like.dtype)
