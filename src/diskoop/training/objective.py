"""the objective: one batch through the model, loss terms, their weighted sum; cuda_graph.py has the same in stages"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from diskoop.distributed import ALONE, WHOLE, BatchSlice, Processes
from diskoop.kernels.layers import can_sum_errors, decode_jointly, squared_error_sums
from diskoop.losses import Errors, Extra, LossTerm, Penalties, active_terms, weighted_sum
from diskoop.models.autoencoder import KoopmanAutoencoder
from diskoop.models.layers import full_precision
from diskoop.numerics.factors import Factor, swap
from diskoop.numerics.operator import second_moment
from diskoop.numerics.penalties import DYNAMIC_PENALTIES, STATIC_PENALTIES, Penalty, SpectralTerms, spectral_terms
from diskoop.numerics.spectrum import MODE_ORDERS, ModeOrder, SpectralSplit
from diskoop.settings import Settings
from diskoop.training.augment import shift_clips
from diskoop.training.blur import gaussian_blur

BLUR_SIGMAS = (0.1, 3.0)  # range of the random blur
BLUR_TAPS = (5, 9)  # along width and height


class RandomTensors(Protocol):
    """Random numbers of one step, with the dtype and device of another tensor."""

    def uniform(self, shape: Sequence[int], like: Tensor) -> Tensor:
        """Uniform on [0, 1)."""

    def normal(self, shape: Sequence[int], like: Tensor) -> Tensor:
        """Standard normal."""


class GeneratorTensors:
    """Random numbers straight from a generator: for the whole batch, of which every process takes its own rows."""

    def __init__(self, generator: torch.Generator, batch_slice: BatchSlice) -> None:
        self.generator, self.batch_slice = generator, batch_slice

    def uniform(self, shape: Sequence[int], like: Tensor) -> Tensor:
        whole = self.batch_slice.shape(shape)
        return self.batch_slice.own(torch.rand(whole, generator=self.generator, device=like.device, dtype=like.dtype))

    def normal(self, shape: Sequence[int], like: Tensor) -> Tensor:
        whole = self.batch_slice.shape(shape)
        return self.batch_slice.own(torch.randn(whole, generator=self.generator, device=like.device, dtype=like.dtype))


class ObjectiveOutput(NamedTuple):
    """The loss of one batch; all values are scalars."""

    total: Tensor
    terms: dict[str, Tensor]  # the active terms of `losses.LOSS_TERMS`
    diagnostics: dict[str, Tensor]  # static_gap, dynamic_radius, rank

    def as_dict(self) -> dict[str, Tensor]:
        """All values by name, as in a row of metrics."""
        return {"total": self.total, **self.terms, **self.diagnostics}


@dataclass(eq=False)
class BatchForward:
    """A `losses.Forward`: the forward pass of one batch, the input of loss terms."""

    objective: "Objective"
    x: Tensor  # (batch, time, ...)
    mask: Tensor | None  # (batch, time)
    z: Tensor  # (batch, time, k)
    C: Tensor  # (k, k) or (batch, k, k)
    extras: Mapping[Extra, Any]  # `Errors`, `Penalties` and the projector (k, k) on the static part

    def compute(self, term: LossTerm) -> Tensor:
        """The value of a loss term, which finds what it is registered to use and no more."""
        return term.compute(replace(self, extras={name: self.extras[name] for name in term.uses}))

    @property
    def errors(self) -> Errors:
        errors: Errors = self._extra("errors")
        return errors

    @property
    def penalties(self) -> Penalties:
        penalties: Penalties = self._extra("penalties")
        return penalties

    @property
    def static(self) -> Factor:
        return Factor("static", self._extra("static"))

    def _extra(self, name: Extra) -> Any:
        if name not in self.extras:
            raise RuntimeError(f"a loss term that uses `{name}` is registered with it, as in uses=({name!r},)")
        return self.extras[name]

    def encode(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return self.objective.model.encode(x, mask)

    def decode(self, z: Tensor, mask: Tensor | None) -> Tensor:
        return self.objective.model.decode(z, mask)

    def swap(self, z: Tensor, donor: Tensor, factor: Factor) -> Tensor:
        with full_precision(z):
            return swap(z, donor, factor)

    def distance(self, a: Tensor, b: Tensor, mask: Tensor | None) -> Tensor:
        return self.objective.distance(a, b, mask)

    def roll(self, x: Tensor) -> Tensor:
        return self.objective.batch_slice.roll(x)

    def gather(self, x: Tensor) -> Tensor:
        return self.objective.batch_slice.gather(x)


class Objective(nn.Module):
    """The training loss. `forward` runs a batch through the model once and computes every active loss term.

    Args:
        model: to train.
        settings: of the run.
        processes: that hold a slice of every batch each. Averaged over them, the terms and their gradients are those
            of the whole batch.
    """

    def __init__(self, model: KoopmanAutoencoder, settings: Settings, processes: Processes = ALONE) -> None:
        super().__init__()
        self.model = model
        self.settings = settings
        self.processes = processes
        self.batch_slice = WHOLE  # of the batch at hand
        self.terms: list[LossTerm] = active_terms(settings.loss)

    def forward(self, x: Tensor, mask: Tensor | None, generator: torch.Generator) -> ObjectiveOutput:
        """The plain step's forward pass.

        Args:
            x: frames (batch, time, ...) in the model's units.
            mask: which frames exist, (batch, time); None: all.
            generator: of all random numbers.
        """
        self.batch_slice = BatchSlice.of(self.processes, len(x))
        draws = GeneratorTensors(generator, self.batch_slice)
        if self.training and self.settings.train.augment is True:
            x = shift_clips(x, draws.uniform((len(x), 2), x))
        z = self.latents(x, mask, draws)
        total = None if self.processes.world_size == 1 else self.processes.sum
        operator = self.model.fit_operator(z, mask, total)
        spectral = self.spectral(operator.matrix)
        split = self.split(operator.matrix) if self.needs_split else None
        noise_root = None
        if split is not None and self.dynamic_noise:
            noise_root = split.noise_root(second_moment(z, mask, total))
        errors = self.errors(z, self.model.predict(z, operator), x, mask, draws, noise_root)
        # Operators of single sequences are this process's own; one for the batch is the same in all of them.
        weight = self.batch_slice.weight if operator.matrix.ndim == 3 else 1.0
        penalties = Penalties(*((weight * penalty).to(errors[0]) for penalty in (spectral.static, spectral.dynamic)))
        extras: dict[Extra, Any] = {"errors": errors, "penalties": penalties}
        if split is not None:
            extras["static"] = split.projector
        batch = BatchForward(self, x, mask, z, operator.matrix, extras)
        terms = {term.name: batch.compute(term) for term in self.terms}
        gap, radius = map(self.processes.max, spectral.spectrum.gap_and_radius(spectral.static_modes))
        rank = weight * operator.rank.double().mean()
        diagnostics = {"static_gap": gap, "dynamic_radius": radius, "rank": rank}
        return ObjectiveOutput(weighted_sum(terms, self.settings.loss), terms, diagnostics)

    @property
    def dynamic_noise(self) -> float:
        """Scale of the noise in the dynamic part: 0 in evaluation mode."""
        return self.settings.model.dynamic_noise if self.training else 0.0

    @property
    def needs_split(self) -> bool:
        """Whether the static projector is needed, beyond the eigenvalues."""
        return bool(self.dynamic_noise) or any("static" in term.uses for term in self.terms)

    def latents(self, x: Tensor, mask: Tensor | None, draws: RandomTensors) -> Tensor:
        """Encoded frames (batch, time, k); in training with blurred inputs and uniform noise on the latents."""
        z = self.model.encode(self._blur(x, draws), mask)
        amount = self.settings.model.noise
        if not (self.training and amount):
            return z
        noise = amount * draws.uniform(z.shape, z)
        if self.model.pooled:  # those are constant, and the operator leaves them so
            noise[..., : self.model.pooled] = 0
        return z + noise

    def errors(
        self,
        z: Tensor,
        predicted: Tensor,
        x: Tensor,
        mask: Tensor | None,
        draws: RandomTensors,
        noise_root: Tensor | None = None,
        jointly: bool = False,
    ) -> Errors:
        """Squared errors of the reconstruction, of the prediction as latents and of the prediction as frames.

        Args:
            z: latents, (batch, time, k).
            predicted: one-step prediction of frames 2..time, (batch, time - 1, k).
            x: frames, (batch, time, ...).
            mask: which frames exist, (batch, time).
            draws: random numbers of noise and dropout.
            noise_root: `SpectralSplit.noise_root` of the latents, (k, k); None adds no noise to the dynamic part.
            jointly: decode both in one pass, which needs more memory and, for video, no mask.
        """
        pair_mask = None if mask is None else mask[:, :-1] & mask[:, 1:]
        perturbed = self._drop(self._add_noise(z, noise_root, draws), draws)
        if jointly and can_sum_errors(self.model):
            targets = x, x[:, 1:]
            sums = squared_error_sums(self.model, [perturbed, predicted], targets)
            rec, pred = (total / self._divisor(target) for total, target in zip(sums, targets, strict=True))
            return Errors(rec, self.distance(predicted, z[:, 1:], None), pred)
        if jointly:
            rec_x, pred_x = decode_jointly(self.model, [perturbed, predicted])
        else:
            rec_x, pred_x = self.model.decode(perturbed, mask), self.model.decode(predicted, pair_mask)
        return Errors(
            self.distance(rec_x, x, mask),
            self.distance(predicted, z[:, 1:], pair_mask),
            self.distance(pred_x, x[:, 1:], pair_mask),
        )

    def spectral(self, C: Tensor) -> SpectralTerms:
        """The static and the dynamic penalty of the operator `C`, differentiable in it."""
        return spectral_terms(C, self.settings.spectrum.static, *self.penalties, self.order)

    def split(self, C: Tensor) -> SpectralSplit:
        """The split of latents into a static and a dynamic part under `C`, without gradient."""
        return SpectralSplit.of(C, self.settings.spectrum.static, self.order)

    @property
    def penalties(self) -> tuple[Penalty, Penalty]:
        """Of static and of dynamic eigenvalues."""
        options = self.settings.spectrum
        dynamic = DYNAMIC_PENALTIES[options.dynamic_penalty](options.radius, options.delta)
        return STATIC_PENALTIES[options.static_penalty], dynamic

    @property
    def order(self) -> ModeOrder:
        """The sort key of modes, static ones first."""
        return MODE_ORDERS[self.settings.spectrum.order]

    def distance(self, a: Tensor, b: Tensor, mask: Tensor | None) -> Tensor:
        """Squared distance of (batch, time, ...) over the frames that exist, with `loss.reduction`."""
        squares = (a.float() - b.float() if a.dtype == torch.bfloat16 else a - b).square()
        if mask is None:
            return squares.sum() / (self._divisor(a) / self.batch_slice.weight)
        frames = self.batch_slice.mean_over_processes(mask.sum())
        return torch.where(mask, squares.flatten(2).sum(-1), 0.0).sum() / (frames * self._divisor(a[:1, :1]))

    def _divisor(self, x: Tensor) -> int:
        """The divisor of a sum of squares over `x`: its number of elements or of frames."""
        return x.numel() if self.settings.loss.reduction == "element" else x.shape[0] * x.shape[1]

    def _add_noise(self, z: Tensor, noise_root: Tensor | None, draws: RandomTensors) -> Tensor:
        """Latents with noise in the dynamic part; its covariance has no gradient."""
        if noise_root is None:
            return z
        with full_precision(z):
            return z + self.dynamic_noise * (draws.normal(z.shape, z) @ noise_root.detach().to(z))

    def _blur(self, x: Tensor, draws: RandomTensors) -> Tensor:
        if not (self.training and self.settings.train.blur):
            return x
        low, high = BLUR_SIGMAS
        return gaussian_blur(x, low + (high - low) * draws.uniform((), x), BLUR_TAPS)

    def _drop(self, z: Tensor, draws: RandomTensors) -> Tensor:
        rate = self.settings.model.dropout
        if not (self.training and rate):
            return z
        # Not nn.Dropout, which draws from the global generator instead of the step's own.
        return z * (draws.uniform(z.shape, z) >= rate) / (1 - rate)
