"""the loss terms and their registry: names, weights and functions; a new term is written here and nowhere else

A term is a function of a `Forward`, the forward pass of one batch, that returns a scalar and is registered with
`loss_term`. `settings.loss` then has its weight, both training steps compute it, `metrics.jsonl` records it and the
progress line shows it. Nothing here imports torch, so that settings load without it.

With several processes, each computes its terms for its own slice of the batch, and they are averaged: a mean over
sequences may stay one, and what compares sequences takes them from `Forward.roll` or `Forward.gather`.

Example:
    >>> @loss_term("smooth", default=0.0, description="latents that differ from frame to frame")
    ... def smoothness(forward):
    ...     return (forward.z[:, 1:] - forward.z[:, :-1]).square().mean()
    >>> sorted(LOSS_TERMS)
    ['contrast', 'cycle', 'dyn', 'pred_x', 'pred_z', 'rec', 'smooth', 'stat']
    >>> _ = LOSS_TERMS.pop("smooth"), LOSS_WEIGHTS.pop("smooth")  # an example only
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from torch import Tensor

# What a term may use beside frames, latents and the operator, and is registered with.
Extra = Literal["errors", "penalties", "static"]


class Errors(NamedTuple):
    """Squared errors of a batch, scalars."""

    reconstruction: "Tensor"
    latent_prediction: "Tensor"
    frame_prediction: "Tensor"


class Penalties(NamedTuple):
    """Spectral penalties of a batch's operator, scalars."""

    static: "Tensor"
    dynamic: "Tensor"


class Forward(Protocol):
    """The forward pass of one batch: the input of a loss term."""

    x: "Tensor"  # (batch, time, ...) frames in the model's units
    mask: "Tensor | None"  # (batch, time): which frames exist; None: all
    z: "Tensor"  # (batch, time, k) latents
    C: "Tensor"  # (k, k) the operator, or (batch, k, k)

    @property
    def errors(self) -> Errors:
        """Squared errors of the batch, for terms with uses=("errors",)."""

    @property
    def penalties(self) -> Penalties:
        """Spectral penalties of the operator, for terms with uses=("penalties",)."""

    @property
    def static(self) -> Any:
        """The factor of the static part, without gradient, for terms with uses=("static",)."""

    def encode(self, x: "Tensor", mask: "Tensor | None") -> "Tensor":
        """Frames (batch, time, ...) -> latents (batch, time, k)."""

    def decode(self, z: "Tensor", mask: "Tensor | None") -> "Tensor":
        """Latents (batch, time, k) -> frames (batch, time, ...)."""

    def swap(self, z: "Tensor", donor: "Tensor", factor: Any) -> "Tensor":
        """Latents `z` with a `Factor` of `donor`, in full precision."""

    def distance(self, a: "Tensor", b: "Tensor", mask: "Tensor | None") -> "Tensor":
        """Squared distance over the frames that exist, with `loss.reduction`."""

    def roll(self, x: "Tensor") -> "Tensor":
        """`x` (batch, ...) of the sequence before, cyclically; with several processes over the batch of all."""

    def gather(self, x: "Tensor") -> "Tensor":
        """`x` (batch, ...) of all sequences; with several processes of the batch of all."""


@dataclass(frozen=True)
class LossTerm:
    """One term of the objective."""

    name: str  # in metrics
    compute: Callable[[Forward], "Tensor"]
    weight: str  # the setting loss.<weight> multiplies it
    inner_weight: str | None = None  # and so does loss.<inner_weight>, inside that weight
    uses: tuple[Extra, ...] = ()  # of `Forward`
    optional: bool = True  # not computed while its weight is 0
    display_name: str | None = None  # on the progress line; None hides it

    def is_active(self, weights: Any) -> bool:
        """Whether it is computed with the `loss` settings `weights`."""
        return not self.optional or bool(getattr(weights, self.weight))


LOSS_TERMS: dict[str, LossTerm] = {}  # in order of summation
LOSS_WEIGHTS: dict[str, tuple[float, str]] = {}  # loss.<name> -> default, description


def loss_weight(name: str, default: float, description: str) -> None:
    """Declare the setting `loss.<name>`."""
    if name in LOSS_WEIGHTS:
        raise ValueError(f"loss.{name} is declared already")
    LOSS_WEIGHTS[name] = default, description


def loss_term(
    name: str,
    default: float | None = None,
    description: str = "",
    weight: str | None = None,
    inner_weight: str | None = None,
    uses: tuple[Extra, ...] = (),
    optional: bool = True,
    display_name: str | None = None,
) -> "Callable[[Callable[[Forward], Tensor]], Callable[[Forward], Tensor]]":
    """Decorator that registers a function of a `Forward` as a loss term.

    Args:
        name: in metrics.
        default: of its own weight `loss.<name>`; None where `weight` names a setting that is declared already.
        description: of its weight, in a few words.
        weight: the setting that multiplies it, if not its own.
        inner_weight: a second setting that multiplies it, inside `weight`.
        uses: which of `Forward.errors`, `Forward.penalties` and `Forward.static` it uses; it is given no others.
        optional: skip it while its weight is 0.
        display_name: on the progress line; None hides it.
    """

    def register(compute: "Callable[[Forward], Tensor]") -> "Callable[[Forward], Tensor]":
        if name in LOSS_TERMS:
            raise ValueError(f"there is a loss term {name!r} already")
        if default is not None:
            loss_weight(name, default, description)
        term = LossTerm(name, compute, weight or name, inner_weight, uses, optional, display_name)
        for setting in (term.weight, term.inner_weight):
            if setting is not None and setting not in LOSS_WEIGHTS:
                raise ValueError(f"the loss term {name!r} is weighted by loss.{setting}, which is not declared")
        LOSS_TERMS[name] = term
        return compute

    return register


def active_terms(weights: Any) -> list[LossTerm]:
    """The terms that are computed with the `loss` settings `weights`, in order."""
    return [term for term in LOSS_TERMS.values() if term.is_active(weights)]


def weighted_sum(values: Mapping[str, Any], weights: Any) -> Any:
    """The total loss: terms that share a weight are added first, each times its inner weight.

    Args:
        values: a number or a scalar tensor for each active term.
        weights: the `loss` settings.
    """
    groups: dict[str, Any] = {}
    for term in LOSS_TERMS.values():
        if term.name in values:
            value = values[term.name]
            value = value if term.inner_weight is None else getattr(weights, term.inner_weight) * value
            groups[term.weight] = groups[term.weight] + value if term.weight in groups else value
    total: Any = 0.0
    for number, (weight, value) in enumerate(groups.items()):
        weighted = getattr(weights, weight) * value
        total = weighted if number == 0 else total + weighted
    return total


# --- the paper's terms, and the cycle

loss_weight("rec", 15.0, "decoded latents against the data")
loss_weight("pred", 1.0, "a step of the operator against the next frame, in both spaces")
loss_weight("eig", 1.0, "where the eigenvalues are")
loss_weight("stat", 1.0, "the static half of eig, for ablations")
loss_weight("dyn", 1.0, "the dynamic half of eig, for ablations")


@loss_term("rec", weight="rec", uses=("errors",), optional=False, display_name="rec")
def reconstruction(forward: Forward) -> "Tensor":
    """Decoded latents against the frames."""
    return forward.errors.reconstruction


@loss_term("pred_z", weight="pred", uses=("errors",), optional=False)
def latent_prediction(forward: Forward) -> "Tensor":
    """One-step predictions against the latents of the next frames."""
    return forward.errors.latent_prediction


@loss_term("pred_x", weight="pred", uses=("errors",), optional=False, display_name="pred")
def frame_prediction(forward: Forward) -> "Tensor":
    """Decoded one-step predictions against the next frames."""
    return forward.errors.frame_prediction


@loss_term("stat", weight="eig", inner_weight="stat", uses=("penalties",), optional=False)
def static_penalty(forward: Forward) -> "Tensor":
    """The penalty of the static eigenvalues."""
    return forward.penalties.static


@loss_term("dyn", weight="eig", inner_weight="dyn", uses=("penalties",), optional=False)
def dynamic_penalty(forward: Forward) -> "Tensor":
    """The penalty of the dynamic eigenvalues."""
    return forward.penalties.dynamic


@loss_term(
    "cycle",
    default=0.0,
    description="static parts exchanged, decoded and encoded again, should not change",
    uses=("static",),
    display_name="cycle",
)
def cycle(forward: Forward) -> "Tensor":
    """Cycle consistency: latents with the static part of another sequence, decoded and encoded again."""
    mask = forward.mask
    swapped = forward.swap(forward.z, forward.roll(forward.z), forward.static)
    shared = None if mask is None else mask & forward.roll(mask)
    encoded = forward.encode(forward.decode(swapped, shared), shared)
    return forward.distance(encoded, swapped.detach(), shared)


TEMPERATURE = 0.1  # of the contrast: cosines this far apart differ by a factor of e


@loss_term(
    "contrast",
    default=0.0,
    description="the static part of a sequence's first half should tell which second half belongs to it",
    uses=("static",),
    display_name="contrast",
)
def contrast(forward: Forward) -> "Tensor":
    """Cross entropy of finding each sequence's second half by the static code of its first half, and the reverse.

    The cosine of static codes averaged over either half tells how alike two halves are (InfoNCE). What differs between
    the halves of one sequence is noise to it, what differs between sequences is signal: the static part becomes steady
    and telling at once.
    """
    from torch import arange, cat
    from torch.nn.functional import cross_entropy, normalize

    part, time = forward.static.part(forward.z), forward.z.shape[1]
    frame = arange(time, device=part.device)
    length = time if forward.mask is None else forward.mask.sum(1, keepdim=True)
    first = (frame < length / 2).expand(part.shape[:2])
    second = ~first if forward.mask is None else ~first & forward.mask
    halves = [forward.gather((part * half.unsqueeze(-1)).sum(1)) for half in (first, second)]
    cosines = normalize(halves[0], dim=-1) @ normalize(halves[1], dim=-1).mT / TEMPERATURE  # (batch, batch)
    truth = arange(len(cosines), device=part.device)
    return cross_entropy(cat([cosines, cosines.mT]), cat([truth, truth]))
