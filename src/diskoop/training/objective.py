"""the weighted sum the paper minimises, and the cycle term"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor, nn

from diskoop.models.autoencoder import KoopmanAutoencoder, full_precision
from diskoop.numerics.factors import Factor, swap
from diskoop.numerics.losses import (
    Penalty,
    SpectralTerms,
    ball_around_one,
    circle_away_from_one,
    distance_to_one,
    hinge_beyond,
    modulus_beyond,
    real_beyond,
    spectral_terms,
    unit_modulus,
)
from diskoop.numerics.operator import to_float64
from diskoop.numerics.spectrum import ModeOrder, Split, by_distance, by_modulus
from diskoop.settings import Settings, SpectrumSettings

Weighable = TypeVar("Weighable", Tensor, float)

ORDERS = {"distance": by_distance, "modulus": by_modulus}
STATIC_PENALTIES: dict[str, Penalty] = {"distance": distance_to_one, "modulus": unit_modulus}


def dynamic_penalty(settings: SpectrumSettings) -> Penalty:
    choices: dict[str, Callable[..., tuple[Tensor, Tensor]]] = {
        "modulus": modulus_beyond,
        "hinge": hinge_beyond,
        "real": real_beyond,
        "ball": partial(ball_around_one, delta=settings.delta),
        "circle": partial(circle_away_from_one, delta=settings.delta),
    }
    return partial(choices[settings.dynamic_penalty], radius=settings.radius)


class Draws(Protocol):
    """Where a step's random numbers come from: of some shape, with the type and on the device of another tensor."""

    def uniform(self, shape: Sequence[int], like: Tensor) -> Tensor:
        """Between 0 and 1."""

    def normal(self, shape: Sequence[int], like: Tensor) -> Tensor:
        """Of mean 0 and variance 1."""


class GeneratorDraws:
    """Random numbers straight from a generator."""

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator

    def uniform(self, shape: Sequence[int], like: Tensor) -> Tensor:
        return torch.rand(shape, generator=self.generator, device=like.device, dtype=like.dtype)

    def normal(self, shape: Sequence[int], like: Tensor) -> Tensor:
        return torch.randn(shape, generator=self.generator, device=like.device, dtype=like.dtype)


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
        draws = GeneratorDraws(generator)
        z = self.latents(x, mask, draws)
        operator = self.model.fit(z, mask)
        spectral = self.spectral(operator.matrix)
        split = self.split(operator.matrix) if self.divides else None
        root = split.noise_root(second_moment(z, mask)) if split is not None and self.dynamic_noise else None
        rec, pred_z, pred_x = self.errors(z, self.model.predict(z, operator), x, mask, draws, root)
        cycle = torch.zeros_like(rec)
        if split is not None and self.settings.loss.cycle:
            cycle = self.cycle(z, Factor("static", split.projector), mask)
        stat, dyn = spectral.static.to(rec), spectral.dynamic.to(rec)
        total = self.weighed(rec, pred_z, pred_x, stat, dyn, cycle)
        gap, radius = spectral.spectrum.extent(spectral.chosen)
        return Terms(total, rec, pred_z, pred_x, stat, dyn, cycle, gap, radius, operator.rank.double().mean())

    @property
    def dynamic_noise(self) -> float:
        """How much noise there is now inside the dynamic part."""
        return self.settings.model.dynamic_noise if self.training else 0.0

    @property
    def divides(self) -> bool:
        """Whether latents are divided into a static and a dynamic part, for which eigenvalues are not enough."""
        return bool(self.settings.loss.cycle or self.dynamic_noise)

    def latents(self, x: Tensor, mask: Tensor | None, draws: Draws) -> Tensor:
        """What the operator is fitted on and everything is decoded from, (batch, time, k)."""
        z = self.model.encode(self._blurred(x, draws), mask)
        amount = self.settings.model.noise
        return z + amount * draws.uniform(z.shape, z) if self.training and amount else z

    def errors(
        self,
        z: Tensor,
        ahead: Tensor,
        x: Tensor,
        mask: Tensor | None,
        draws: Draws,
        root: Tensor | None = None,
        together: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Squared errors of the reconstruction, of the prediction as latents and of the prediction as frames.

        Args:
            z: latents, (batch, time, k).
            ahead: the operator's prediction of frames 2 to time, (batch, time - 1, k).
            x: the frames themselves, (batch, time, ...).
            mask: which of them exist, (batch, time).
            draws: where noise and dropout come from.
            root: `Split.noise_root` of the latents (k, k), where the dynamic part gets noise.
            together: decode both in one pass, which takes more memory and no masks for video.
        """
        later = None if mask is None else mask[:, :-1] & mask[:, 1:]
        dropped = self._dropped(self._perturbed(z, root, draws), draws)
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

    def split(self, C: Tensor) -> Split:
        """The static and the dynamic part of latents, a constant."""
        return Split.of(C, self.settings.spectrum.static, self.order)

    @property
    def penalties(self) -> tuple[Penalty, Penalty]:
        """Of static eigenvalues, and of the others."""
        choice = self.settings.spectrum
        return STATIC_PENALTIES[choice.static_penalty], dynamic_penalty(choice)

    @property
    def order(self) -> ModeOrder:
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

    def _perturbed(self, z: Tensor, root: Tensor | None, draws: Draws) -> Tensor:
        """Latents with noise in the dynamic part; what shapes the noise is a constant."""
        if root is None:
            return z
        with full_precision(z):
            return z + self.dynamic_noise * (draws.normal(z.shape, z) @ root.detach().to(z))

    def _blurred(self, x: Tensor, draws: Draws) -> Tensor:
        if not (self.training and self.settings.train.blur):
            return x
        low, high = 0.1, 3.0
        return gaussian_blur(x, low + (high - low) * draws.uniform((), x), (5, 9))

    def _dropped(self, z: Tensor, draws: Draws) -> Tensor:
        share = self.settings.model.dropout
        if not (self.training and share):
            return z
        # Not nn.Dropout: it draws from the global state, and every draw here belongs to the step's own generator.
        return z * (draws.uniform(z.shape, z) >= share) / (1 - share)


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


def second_moment(z: Tensor, mask: Tensor | None) -> Tensor:
    """The mean of z_t^T z_t over the frames of `z` (batch, time, k) that exist: (k, k) in float64, a constant."""
    z = to_float64(z.detach())
    if mask is None:
        frames = z.flatten(0, 1)
        return frames.mT @ frames / len(frames)
    mask = mask.to(z.device)
    frames = torch.where(mask.unsqueeze(-1), z, 0.0).flatten(0, 1)  # padding may hold anything
    return frames.mT @ frames / mask.sum()
