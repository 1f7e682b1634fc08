"""A run of which everything is known, and a judge that is never wrong: what is measured with them is algebra.

The networks are the identity. A trained judge would only blur the figures, so labels are read off the first frame, in
the coordinates in which the set was made, by the nearest of the points that stand for their values.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from diskoop.analysis.discovery import DiscoveredFactor, DiscoveryResult
from diskoop.data.sequences import Sequences, Units
from diskoop.evaluation.judges import Judge
from diskoop.models.autoencoder import KoopmanAutoencoder
from diskoop.numerics import Factor, fit_operator
from diskoop.numerics.operator import Operator
from diskoop.run import Run
from diskoop.settings import Settings
from diskoop.training.checkpoint import RunFolder

Array = NDArray[Any]

DOUBLE = Units(dtype="float64")
QUARTERS = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
TURN = 0.9 * np.array([[np.cos(0.7), np.sin(0.7)], [-np.sin(0.7), np.cos(0.7)]])
BLOCKS: dict[str, Array] = {"level": np.array([[1.0]]), "tint": np.array([[0.98]]), "action": TURN}  # no two alike
POINTS: dict[str, Array] = {
    "level": np.array([[-1.0], [-0.33], [0.33], [1.0]]),
    "tint": np.array([[-1.0], [0.0], [1.0]]),
    "action": QUARTERS,
}
PLACES = {"level": slice(0, 1), "tint": slice(1, 2), "action": slice(2, 4)}
OPERATOR = np.zeros((4, 4))
for _name, _block in BLOCKS.items():
    OPERATOR[PLACES[_name], PLACES[_name]] = _block
MIXING = np.linalg.qr(np.random.Generator(np.random.PCG64(3)).normal(size=(4, 4)))[0] @ np.diag([0.7, 0.9, 1.2, 1.4])
UNMIX = np.linalg.inv(MIXING)
TRUE = UNMIX @ OPERATOR @ MIXING  # x_{t+1} = x_t @ TRUE
PROJECTORS = {name: UNMIX[:, place] @ MIXING[place] for name, place in PLACES.items()}
ACTION_HALVES = tuple(UNMIX[:, [at]] @ MIXING[[at]] for at in (2, 3))  # projectors that make up that of the action
MOVING = "action"


def linear_set(times: int, seed: int, steps: int = 8, spread: float = 0.1) -> Sequences:
    """Every combination of a level, a tint and an action `times` over, each a little off its point."""
    random = np.random.Generator(np.random.PCG64(seed))
    codes = np.repeat(list(product(*(range(len(points)) for points in POINTS.values()))), times, axis=0)
    codes = codes[random.permutation(len(codes))]
    start = np.concatenate([points[codes[:, i]] for i, points in enumerate(POINTS.values())], 1)
    x = [(start + spread * random.uniform(-1, 1, start.shape)) @ MIXING]
    for _ in range(steps - 1):
        x.append(x[-1] @ TRUE)
    labels = {name: codes[:, i] for i, name in enumerate(POINTS)}
    return Sequences.of(np.stack(x, 1), labels, units=DOUBLE, name="a linear set")


class Plain(nn.Module):
    """Whatever comes, times one."""

    def __init__(self, one: float = 1.0) -> None:
        super().__init__()
        self.one = nn.Parameter(torch.tensor(one, dtype=torch.float64))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return x * self.one


def operator_of(matrix: Array) -> Operator:
    one = torch.ones(())
    return Operator(torch.from_numpy(np.asarray(matrix, np.float64)), one, one, 1, 1, "a known matrix")


def plain_run(
    train: Sequences | Array,
    static: int,
    found: DiscoveryResult | None = None,
    decoder: float = 1.0,
    units: Units = DOUBLE,
    data: Mapping[str, Any] | None = None,
    folder: Path = Path("runs/nowhere"),
) -> Run:
    """Identity networks, the decoder times `decoder`, around the operator of `train`, or around that very matrix."""
    operator = fit_operator(torch.from_numpy(train.x), ridge=0) if isinstance(train, Sequences) else operator_of(train)
    settings = Settings.of(
        {"data": data or {}, "model": {"k": len(operator.matrix), "ridge": 0.0}, "spectrum": {"static": static}}
    )
    model = KoopmanAutoencoder(Plain(), Plain(decoder), 0.0).eval()
    return Run(settings, model, operator, units, RunFolder(folder), found)


def found_of(
    projectors: Mapping[str, Array],
    moves: Sequence[str] = (),
    names: Mapping[str, str] | None = None,
    stability: float | None = None,
    left_over: Sequence[str] = (),
) -> DiscoveryResult:
    """These factors, under other names if wished; of which kind they are, `moves` and `left_over` say."""
    factors = tuple(
        DiscoveredFactor(
            Factor((names or {}).get(name, name), torch.from_numpy(projector)),
            round(np.trace(projector)),
            0.5,
            stability,
            "motion" if name in moves else "remainder" if name in left_over else "factor",
        )
        for name, projector in projectors.items()
    )
    return DiscoveryResult(factors, "known", "a linear set")


def whole(x: Array | Iterator[Tensor]) -> Array:
    """The sequences that a judge was shown, if need be in chunks."""
    return x if isinstance(x, np.ndarray) else torch.cat(list(x)).numpy()


@dataclass(frozen=True)
class Reads:
    """Labels read off the first frame, or off each for a judge of frames."""

    unmix: Array  # (features, coordinates)
    points: Mapping[str, Array]  # label -> (values, d)
    places: Mapping[str, slice]  # label -> its d coordinates
    sharpness: float = 20.0

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.points)

    def logits(self, x: Array | Iterator[Tensor], lengths: Array | None = None) -> dict[str, Array]:
        return self._look(whole(x)[:, 0])

    def predict(self, x: Array | Iterator[Tensor], lengths: Array | None = None) -> dict[str, Array]:
        return {label: logits.argmax(1) for label, logits in self.logits(x, lengths).items()}

    def predict_frames(self, x: Array | Iterator[Tensor], lengths: Array) -> dict[str, Array]:
        x = whole(x)
        codes = {label: logits.argmax(-1) for label, logits in self._look(x).items()}
        behind = np.arange(x.shape[1]) >= lengths[:, None]
        return {label: np.where(behind, -1, each) for label, each in codes.items()}

    def describe(self) -> str:
        return "judge: never wrong"

    def _look(self, frames: Array) -> dict[str, Array]:
        seen = frames @ self.unmix
        return {
            label: -self.sharpness * np.square(np.expand_dims(seen[..., self.places[label]], -2) - points).sum(-1)
            for label, points in self.points.items()
        }


def reads(labels: Sequence[str] = tuple(POINTS), sharpness: float = 20.0) -> Judge:
    """The judge of `linear_set`."""
    return cast(Judge, Reads(UNMIX, {label: POINTS[label] for label in labels}, PLACES, sharpness))
