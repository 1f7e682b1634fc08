"""A run with identity networks and a classifier that is never wrong: what is measured with them is algebra.

Labels are read off the first frame, in the coordinates in which the set is built, by the nearest of the points that
represent their values.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from diskoop.analysis.discovery.results import DiscoveredFactor, DiscoveryResult
from diskoop.data.sequences import Sequences, Units
from diskoop.evaluation.classifiers import Classifier
from diskoop.models.autoencoder import KoopmanAutoencoder
from diskoop.numerics import Factor, fit_operator
from diskoop.numerics.operator import Operator
from diskoop.run import Run
from diskoop.run_folder import RunFolder
from diskoop.settings import DataSettings, Settings

Array = NDArray[Any]

DOUBLE = Units(dtype="float64")
QUARTERS = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
TURN = 0.9 * np.array([[np.cos(0.7), np.sin(0.7)], [-np.sin(0.7), np.cos(0.7)]])
BLOCKS: dict[str, Array] = {"level": np.array([[1.0]]), "tint": np.array([[0.98]]), "action": TURN}  # all different
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
MOTION = "action"


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
    """The identity."""

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
    factors: DiscoveryResult | None = None,
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
    return Run(settings, model, operator, units, RunFolder(folder), factors)


def known_factors(
    projectors: Mapping[str, Array],
    motion: Sequence[str] = (),
    names: Mapping[str, str] | None = None,
    stability: float | None = None,
    remainder: Sequence[str] = (),
) -> DiscoveryResult:
    """Factors with these projectors; `names` renames them, `motion` and `remainder` list those of these kinds."""
    factors = tuple(
        DiscoveredFactor(
            Factor((names or {}).get(name, name), torch.from_numpy(projector)),
            round(np.trace(projector)),
            0.5,
            stability,
            "motion" if name in motion else "remainder" if name in remainder else "factor",
        )
        for name, projector in projectors.items()
    )
    return DiscoveryResult(factors, "known", "a linear set")


def concatenate(x: Array | Iterator[Tensor]) -> Array:
    """Sequences, whole or in chunks, as one array."""
    return x if isinstance(x, np.ndarray) else torch.cat(list(x)).numpy()


@dataclass(frozen=True)
class KnownClassifier:
    """Labels read off the first frame, or off each for a classifier of frames."""

    unmix: Array  # (features, coordinates)
    points: Mapping[str, Array]  # label -> (values, d)
    places: Mapping[str, slice]  # label -> its d coordinates
    sharpness: float = 20.0

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.points)

    def reliable(self, settings: DataSettings, ignore: Sequence[str] = ()) -> "KnownClassifier":
        return self

    def logits(self, x: Array | Iterator[Tensor], lengths: Array | None = None) -> dict[str, Array]:
        return self._logits(concatenate(x)[:, 0])

    def predict(self, x: Array | Iterator[Tensor], lengths: Array | None = None) -> dict[str, Array]:
        return {label: logits.argmax(1) for label, logits in self.logits(x, lengths).items()}

    def predict_frames(self, x: Array | Iterator[Tensor], lengths: Array) -> dict[str, Array]:
        x = concatenate(x)
        codes = {label: logits.argmax(-1) for label, logits in self._logits(x).items()}
        behind = np.arange(x.shape[1]) >= lengths[:, None]
        return {label: np.where(behind, -1, each) for label, each in codes.items()}

    def describe(self) -> str:
        return "classifier: never wrong"

    def _logits(self, frames: Array) -> dict[str, Array]:
        coordinates = frames @ self.unmix
        return {
            label: -self.sharpness
            * np.square(np.expand_dims(coordinates[..., self.places[label]], -2) - points).sum(-1)
            for label, points in self.points.items()
        }


def known_classifier(labels: Sequence[str] = tuple(POINTS), sharpness: float = 20.0) -> Classifier:
    """The classifier of `linear_set`."""
    return cast(Classifier, KnownClassifier(UNMIX, {label: POINTS[label] for label in labels}, PLACES, sharpness))


def mistaken(run: Run) -> Run:
    """The run with a frozen operator that takes what moves for what stays."""
    wrong = PROJECTORS["action"] + 0.3 * PROJECTORS["level"] + 0.2 * PROJECTORS["tint"]
    return replace(run, operator=replace(run.operator, matrix=torch.from_numpy(wrong)))


def cut(clips: Sequences, behind: float = 0.0, seed: int = 5) -> Sequences:
    """The same sequences, most of them shorter, and any number behind each."""
    lengths = np.random.Generator(np.random.PCG64(seed)).integers(2, clips.shape[1] + 1, len(clips))
    x = clips.x.copy()
    x[np.arange(x.shape[1]) >= lengths[:, None]] = behind
    return Sequences.of(x, clips.labels, lengths=lengths, units=clips.units)
