"""the spectral penalties and their closed-form gradient"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from diskoop.numerics.spectrum import ModeOrder, Spectrum, by_distance

# A penalty maps eigenvalues to (value, g), elementwise, where g holds d value = Re(conj(g) d lambda).
Penalty = Callable[[Tensor], tuple[Tensor, Tensor]]


def distance_to_one(eigenvalues: Tensor) -> tuple[Tensor, Tensor]:
    """`|lambda - 1|^2`, the paper's L_stat."""
    offset = eigenvalues - 1
    return offset.abs().square(), 2 * offset


def unit_modulus(eigenvalues: Tensor) -> tuple[Tensor, Tensor]:
    """`(|lambda|^2 - 1)^2`: static modes may rotate, but neither grow nor decay."""
    excess = eigenvalues.abs().square() - 1
    return excess.square(), 4 * excess * eigenvalues


def modulus_beyond(eigenvalues: Tensor, radius: float) -> tuple[Tensor, Tensor]:
    """`|lambda|` where it exceeds `radius`, else 0: the paper's L_dyn, discontinuous at `radius`."""
    modulus = eigenvalues.abs()
    outside = modulus > radius
    return torch.where(outside, modulus, 0.0), torch.where(outside, torch.sgn(eigenvalues), 0.0)


def hinge_beyond(eigenvalues: Tensor, radius: float) -> tuple[Tensor, Tensor]:
    """`max(|lambda| - radius, 0)`: the gradient of `modulus_beyond`, with a continuous value.

    Example:
        >>> value, gradient = hinge_beyond(torch.tensor([0.25 + 0j, 2.0 + 0j]), radius=0.5)
        >>> value.tolist(), gradient.tolist()
        ([0.0, 1.5], [0j, (1+0j)])
    """
    modulus = eigenvalues.abs()
    return (modulus - radius).clamp_min(0), torch.where(modulus > radius, torch.sgn(eigenvalues), 0.0)


def real_beyond(eigenvalues: Tensor, radius: float) -> tuple[Tensor, Tensor]:
    """`Re(lambda)` where it exceeds `radius`, else 0: fast oscillations are not penalised."""
    outside = eigenvalues.real > radius
    return torch.where(outside, eigenvalues.real, 0.0), outside.to(eigenvalues.dtype)


def ball_around_one(eigenvalues: Tensor, radius: float, delta: float) -> tuple[Tensor, Tensor]:
    """`max(delta - |lambda - 1|, 0)` plus the hinge beyond `radius`: keeps dynamic modes away from 1.

    radius = 1 is for measure-preserving dynamics, radius > 1 for growing ones.
    """
    offset = eigenvalues - 1
    inside = delta - offset.abs()
    value, gradient = hinge_beyond(eigenvalues, radius)
    return value + inside.clamp_min(0), gradient - torch.where(inside > 0, torch.sgn(offset), 0.0)


def circle_away_from_one(eigenvalues: Tensor, radius: float, delta: float) -> tuple[Tensor, Tensor]:
    """`||lambda| - radius|` plus `max(delta - |lambda - 1|, 0)`: modes that rotate; with radius = 1 none decays."""
    excess = eigenvalues.abs() - radius
    value, gradient = ball_around_one(eigenvalues, radius, delta)
    inside = excess < 0
    return value + torch.where(inside, -excess, 0.0), gradient - torch.where(inside, torch.sgn(eigenvalues), 0.0)


# spectrum.static_penalty -> penalty; spectrum.dynamic_penalty -> (radius, delta) -> penalty
STATIC_PENALTIES: dict[str, Penalty] = {"distance": distance_to_one, "modulus": unit_modulus}
DYNAMIC_PENALTIES: dict[str, Callable[[float, float], Penalty]] = {
    "modulus": lambda radius, delta: partial(modulus_beyond, radius=radius),
    "hinge": lambda radius, delta: partial(hinge_beyond, radius=radius),
    "real": lambda radius, delta: partial(real_beyond, radius=radius),
    "ball": lambda radius, delta: partial(ball_around_one, radius=radius, delta=delta),
    "circle": lambda radius, delta: partial(circle_away_from_one, radius=radius, delta=delta),
}


class SpectralTerms(NamedTuple):
    static: Tensor  # scalar, differentiable in C
    dynamic: Tensor  # scalar, differentiable in C
    spectrum: Spectrum  # without gradient
    static_modes: Tensor  # (..., k) boolean


def spectral_terms(
    C: Tensor,
    static: int,
    static_penalty: Penalty = distance_to_one,
    dynamic_penalty: Penalty = partial(modulus_beyond, radius=0.5),  # noqa: B008 - a constant
    order: ModeOrder = by_distance,
    clip: float = 100.0,
) -> SpectralTerms:
    """L_stat and L_dyn, with their closed-form gradients.

    Args:
        C: operators, (..., k, k).
        static: number of static eigenvalues; a conjugate pair is never cut.
        static_penalty: of the static eigenvalues; L_stat is its mean over them and the leading dimensions.
        dynamic_penalty: of the others, for L_dyn.
        order: eigenvalues -> sort key; the smallest are static.
        clip: largest norm of a gradient, which is infinite where eigenvalues collide.

    Example:
        >>> C = torch.diag(torch.tensor([0.9, 0.7, 0.3], dtype=torch.float64))
        >>> terms = spectral_terms(C, static=1)
        >>> [round(float(term), 6) for term in (terms.static, terms.dynamic)]  # 0.1^2, and the mean of 0.7 and 0
        [0.01, 0.35]
    """
    spectrum = Spectrum.of(C, order)
    static_modes = spectrum.static(static)
    values, gradients = mean_penalties(spectrum, static_modes, static_penalty, dynamic_penalty, clip)
    static_term, dynamic_term = (with_gradient(C, *pair) for pair in zip(values, gradients, strict=True))
    return SpectralTerms(static_term, dynamic_term, spectrum, static_modes)


def spectral_loss(
    C: Tensor,
    static: int,
    radius: float = 0.5,
    static_penalty: Penalty = distance_to_one,
    dynamic_penalty: Callable[..., tuple[Tensor, Tensor]] = modulus_beyond,
    order: ModeOrder = by_distance,
) -> Tensor:
    """L_eig = L_stat + L_dyn: pulls `static` eigenvalues to 1 and the others inside `radius`.

    Args:
        C: an operator, (k, k) or (batch, k, k).
        static: number of static eigenvalues; a conjugate pair is never cut.
        radius: largest modulus of the others.
        static_penalty: eigenvalues -> (value, gradient) of each.
        dynamic_penalty: the same, with a `radius`.
        order: eigenvalues -> sort key; by default those nearest to 1 are static.

    Returns:
        A scalar, differentiable in C, also where eigenvalues collide.

    Example:
        >>> C = torch.diag(torch.tensor([0.9, 0.3, 0.7], dtype=torch.float64)).requires_grad_()
        >>> loss = spectral_loss(C, static=1, radius=0.5)  # (1 - 0.9)^2, and the mean of 0 and 0.7
        >>> round(loss.item(), 6)
        0.36
        >>> loss.backward()
        >>> [round(gradient, 6) for gradient in C.grad.diagonal().tolist()]
        [-0.2, 0.0, 0.5]
    """
    dynamic = partial(dynamic_penalty, radius=radius)
    terms = spectral_terms(C, static, static_penalty, dynamic, order)
    return terms.static + terms.dynamic


def mean_penalties(
    spectrum: Spectrum, static_modes: Tensor, static: Penalty, dynamic: Penalty, clip: float = 100.0
) -> tuple[Tensor, Tensor]:
    """Means of a penalty over static and of another over dynamic eigenvalues, per operator and then over the batch.

    Args:
        spectrum: of one operator or of several.
        static_modes: (..., k) boolean.
        static: the penalty of static eigenvalues.
        dynamic: the penalty of the others.
        clip: largest norm of a gradient.

    Returns:
        The two means (2,), and their gradients in C, (2, ..., k, k).
    """
    results = [penalty(spectrum.eigenvalues) for penalty in (static, dynamic)]
    values, gradients = (torch.stack(tensors) for tensors in zip(*results, strict=True))
    masks = torch.stack((static_modes, ~static_modes)).to(values)  # (2, ..., k)
    weights = masks / (masks.sum(-1, keepdim=True).clamp_min(1) * static_modes[..., 0].numel())
    return (weights * values).flatten(1).sum(1), _clip_norm(spectrum.gradient(weights * gradients), clip)


def with_gradient(C: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
    """`value`, differentiable in `C` with a known `gradient`, instead of autograd through `eig`."""
    attached: Tensor = _WithGradient.apply(C, value, gradient)  # type: ignore[no-untyped-call]
    return attached


class _WithGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, C: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
        ctx.gradient = gradient.to(C)
        return value.to(C.dtype)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        return outer[0] * ctx.gradient, None, None


def _clip_norm(gradient: Tensor, clip: float) -> Tensor:
    """Each matrix of `gradient` (..., k, k) scaled down to a norm of at most `clip`; zero where it is not finite."""
    if not gradient.is_cuda and (torch.linalg.matrix_norm(gradient) <= clip).all():  # on CUDA this would synchronize
        return gradient
    largest = gradient.abs().amax((-2, -1), keepdim=True)
    finite = torch.isfinite(largest) & (largest > 0)
    unit = torch.where(finite, gradient / largest, 0.0)  # first to order one: squares of 1e200 overflow
    norm = torch.linalg.matrix_norm(unit, keepdim=True).clamp_min(1.0)
    return unit * torch.where(finite, torch.minimum(largest, clip / norm), 0.0)
