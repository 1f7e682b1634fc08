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
    """|lambda - 1|^2, the paper's L_stat."""
    away = eigenvalues - 1
    return away.abs().square(), 2 * away


def unit_modulus(eigenvalues: Tensor) -> tuple[Tensor, Tensor]:
    """(|lambda|^2 - 1)^2: static factors may turn, as long as they neither grow nor fade."""
    excess = eigenvalues.abs().square() - 1
    return excess.square(), 4 * excess * eigenvalues


def modulus_beyond(eigenvalues: Tensor, radius: float) -> tuple[Tensor, Tensor]:
    """|lambda| where it exceeds `radius`, else 0: the paper's L_dyn, with its jump."""
    size = eigenvalues.abs()
    outside = size > radius
    return torch.where(outside, size, 0.0), torch.where(outside, torch.sgn(eigenvalues), 0.0)


def hinge_beyond(eigenvalues: Tensor, radius: float) -> tuple[Tensor, Tensor]:
    """max(|lambda| - radius, 0): the same push without the jump."""
    size = eigenvalues.abs()
    return (size - radius).clamp_min(0), torch.where(size > radius, torch.sgn(eigenvalues), 0.0)


def real_beyond(eigenvalues: Tensor, radius: float) -> tuple[Tensor, Tensor]:
    """Re(lambda) where it exceeds `radius`, else 0: fast oscillations go free."""
    outside = eigenvalues.real > radius
    return torch.where(outside, eigenvalues.real, 0.0), outside.to(eigenvalues.dtype)


def ball_around_one(eigenvalues: Tensor, radius: float, delta: float) -> tuple[Tensor, Tensor]:
    """max(delta - |lambda - 1|, 0) and the hinge beyond `radius`: motion that neither fades nor stands still.

    radius = 1 is for measure-preserving motion, radius > 1 for growing motion.
    """
    away = eigenvalues - 1
    inside = delta - away.abs()
    value, slope = hinge_beyond(eigenvalues, radius)
    return value + inside.clamp_min(0), slope - torch.where(inside > 0, torch.sgn(away), 0.0)


def circle_away_from_one(eigenvalues: Tensor, radius: float, delta: float) -> tuple[Tensor, Tensor]:
    """||lambda| - radius| and max(delta - |lambda - 1|, 0): motion that turns, and does not fade either.

    radius = 1 keeps it for ever.
    """
    off = eigenvalues.abs() - radius
    value, slope = ball_around_one(eigenvalues, radius, delta)
    inner = off < 0
    return value + torch.where(inner, -off, 0.0), slope - torch.where(inner, torch.sgn(eigenvalues), 0.0)


class SpectralTerms(NamedTuple):
    static: Tensor  # scalar, differentiable in C
    dynamic: Tensor  # scalar, differentiable in C
    spectrum: Spectrum  # constant
    chosen: Tensor  # (..., k) boolean: the static modes


def spectral_terms(
    C: Tensor,
    static: int,
    static_penalty: Penalty = distance_to_one,
    dynamic_penalty: Penalty = partial(modulus_beyond, radius=0.5),  # noqa: B008 - a constant
    order: ModeOrder = by_distance,
    clip: float = 100.0,
) -> SpectralTerms:
    """L_stat and L_dyn of `C` (..., k, k), each a mean over its eigenvalues (and over the leading dimensions).

    The gradient is the closed form. Where eigenvalues collide it may be infinite; its norm is held to `clip`.
    """
    spectrum = Spectrum.of(C, order)
    chosen = spectrum.static(static)
    values, pulls = eigenvalue_means(spectrum, chosen, static_penalty, dynamic_penalty, clip)
    link = _Linked.apply
    return SpectralTerms(
        link(C, values[0], pulls[0]),  # type: ignore[no-untyped-call]
        link(C, values[1], pulls[1]),  # type: ignore[no-untyped-call]
        spectrum,
        chosen,
    )


def spectral_loss(
    C: Tensor,
    static: int,
    radius: float = 0.5,
    static_penalty: Penalty = distance_to_one,
    dynamic_penalty: Callable[..., tuple[Tensor, Tensor]] = modulus_beyond,
    order: ModeOrder = by_distance,
) -> Tensor:
    """L_eig = L_stat + L_dyn: `static` eigenvalues are drawn to 1, the others inside `radius`.

    Args:
        C: an operator, (k, k) or (batch, k, k).
        static: how many eigenvalues are static; a conjugate pair that this would cut counts as a whole.
        radius: where the others should stay.
        static_penalty: eigenvalues -> what each costs, and its slope.
        dynamic_penalty: the same, with a `radius`.
        order: which eigenvalues are static: by default those nearest to 1.

    Returns:
        A scalar, differentiable in C, also where eigenvalues collide.

    Example:
        >>> C = torch.diag(torch.tensor([0.9, 0.3, 0.7], dtype=torch.float64)).requires_grad_()
        >>> loss = spectral_loss(C, static=1, radius=0.5)  # (1 - 0.9)^2, and the mean of 0 and 0.7
        >>> round(loss.item(), 6)
        0.36
        >>> loss.backward()
        >>> [round(slope, 6) for slope in C.grad.diagonal().tolist()]
        [-0.2, 0.0, 0.5]
    """
    dynamic = partial(dynamic_penalty, radius=radius)
    terms = spectral_terms(C, static, static_penalty, dynamic, order)
    return terms.static + terms.dynamic


def eigenvalue_means(
    spectrum: Spectrum, chosen: Tensor, static: Penalty, dynamic: Penalty, clip: float = 100.0
) -> tuple[Tensor, Tensor]:
    """(2,) the mean of one penalty over the `chosen` eigenvalues and of another over the others; their gradients in C.

    The mean over each operator's own eigenvalues, then over the operators of a batch.
    """
    each = [penalty(spectrum.eigenvalues) for penalty in (static, dynamic)]
    values, slopes = (torch.stack(both) for both in zip(*each, strict=True))
    masks = torch.stack((chosen, ~chosen)).to(values)  # (2, ..., k)
    shares = masks / (masks.sum(-1, keepdim=True).clamp_min(1) * chosen[..., 0].numel())
    return (shares * values).flatten(1).sum(1), _clipped(spectrum.pull(shares * slopes), clip)


class _Linked(torch.autograd.Function):
    """A value whose gradient in C is known; no autograd through `eig`."""

    @staticmethod
    def forward(ctx: Any, C: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
        ctx.gradient = gradient.to(C)
        return value.to(C.dtype)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        return outer[0] * ctx.gradient, None, None


def _clipped(gradient: Tensor, norm: float) -> Tensor:
    """Each matrix of `gradient` (..., k, k) scaled down to at most `norm`; zero where it does not exist."""
    if not gradient.is_cuda and (torch.linalg.matrix_norm(gradient) <= norm).all():  # CUDA is not asked: it would wait
        return gradient
    largest = gradient.abs().amax((-2, -1), keepdim=True)
    exists = torch.isfinite(largest) & (largest > 0)
    unit = torch.where(exists, gradient / largest, 0.0)  # first to order one: squares of 1e200 overflow
    size = torch.linalg.matrix_norm(unit, keepdim=True).clamp_min(1.0)
    return unit * torch.where(exists, torch.minimum(largest, norm / size), 0.0)
