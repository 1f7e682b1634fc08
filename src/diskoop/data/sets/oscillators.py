"""series from known operators: oscillators, a pendulum (measure-preserving), a growing spiral"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diskoop.data.sequences import Sequences, Units
from diskoop.data.splits import split_in_order
from diskoop.errors import InputError
from diskoop.settings import DataSettings

Array = NDArray[Any]
TOTAL, TEST_COUNT = 2200, 400
QUARTERS = ("east", "north", "west", "south")  # where a motion starts on its circle


@dataclass(frozen=True, eq=False)
class Truth:
    """Ground truth of a linear set: x_{t+1} = x_t @ operator, and for each factor the projector on its part of x."""

    operator: Array  # (features, features)
    projectors: dict[str, Array]  # name -> (features, features)
    static: tuple[str, ...]


@dataclass(frozen=True)
class _Part:
    """One factor of a linear system: its block of the operator and the starting point of each label value."""

    name: str
    block: Array  # (d, d)
    starts: Array  # (values, d)
    spread: float  # starts are drawn this far around their points, so that labels do not determine them
    values: tuple[str, ...]


def _constant(name: str, points: Array, values: tuple[str, ...]) -> _Part:
    return _Part(name, np.eye(points.shape[1]), points, 0.05, values)


def _rotating(name: str, modulus: float, angle: float) -> _Part:
    rotation = modulus * np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    quarter = np.pi / 2 * np.arange(4)
    return _Part(name, rotation, np.stack([np.cos(quarter), np.sin(quarter)], 1), 0.25, QUARTERS)


def _decaying(name: str, rate: float) -> _Part:
    return _Part(name, np.array([[rate]]), np.array([[-1.0], [1.0]]), 0.25, ("down", "up"))


_TRIANGLE = np.array([[np.cos(a), np.sin(a)] for a in 2 * np.pi / 3 * np.arange(3)])
_LEVEL = _constant("level", np.array([[-1.0], [-0.33], [0.33], [1.0]]), ("lowest", "low", "high", "highest"))
_LINEAR: dict[str, tuple[_Part, ...]] = {
    "oscillators": (
        _LEVEL,
        _constant("mark", _TRIANGLE, ("red", "green", "blue")),
        _rotating("slow", 0.95, 0.5),
        _rotating("fast", 0.85, 1.3),
        _decaying("fade", 0.6),
    ),
    "growth": (_LEVEL, _rotating("spiral", 1.08, 0.4)),
}
NAMES = (*_LINEAR, "pendulum")
_STEPS = {"oscillators": 24, "growth": 24, "pendulum": 40}


def truth(name: str) -> Truth:
    """Operator and projectors of a linear set.

    Example:
        >>> truth("growth").operator.shape, truth("growth").static
        ((3, 3), ('level',))
    """
    if name not in _LINEAR:
        raise InputError(f"expected one of {', '.join(_LINEAR)}, got {name!r}")
    parts, mixing = _LINEAR[name], _mixing(name)
    sizes = [len(part.block) for part in parts]
    edges = np.cumsum([0, *sizes])
    blocks = np.zeros((edges[-1], edges[-1]))
    projectors = {}
    unmix = np.linalg.inv(mixing)
    for part, low, high in zip(parts, edges, edges[1:], strict=False):
        blocks[low:high, low:high] = part.block
        projectors[part.name] = unmix[:, low:high] @ mixing[low:high]
    static = tuple(part.name for part in parts if np.array_equal(part.block, np.eye(len(part.block))))
    return Truth(unmix @ blocks @ mixing, projectors, static)


def load(name: str, settings: DataSettings) -> Sequences:
    """All 2200 series of the set `name`, one of NAMES."""
    random = np.random.Generator(np.random.PCG64(20230501))
    generate = _pendulum if name == "pendulum" else _linear
    x, labels, values = generate(name, TOTAL, random)
    split_codes = split_in_order(TOTAL, TEST_COUNT, settings.val_fraction)
    return Sequences.of(x, labels, values=values, units=Units(dtype=str(x.dtype)), name=name, split_codes=split_codes)


def _linear(name: str, count: int, random: np.random.Generator) -> tuple[Array, dict[str, Array], dict[str, Any]]:
    parts = _LINEAR[name]
    labels = {part.name: random.integers(len(part.values), size=count) for part in parts}
    start = np.concatenate(
        [
            part.starts[labels[part.name]] + part.spread * random.uniform(-1, 1, (count, len(part.block)))
            for part in parts
        ],
        axis=1,
    )
    C = truth(name).operator
    x = [start @ _mixing(name)]
    for _ in range(_STEPS[name] - 1):
        x.append(x[-1] @ C)
    return np.stack(x, 1), labels, {part.name: part.values for part in parts}


def _mixing(name: str) -> Array:
    """A fixed, well-conditioned matrix from a system's own coordinates to the observed features."""
    size = sum(len(part.block) for part in _LINEAR[name])
    random = np.random.Generator(np.random.PCG64(7))
    orthogonal, _ = np.linalg.qr(random.normal(size=(size, size)))
    return orthogonal @ np.diag(np.linspace(0.7, 1.4, size))


def _pendulum(name: str, count: int, random: np.random.Generator) -> tuple[Array, dict[str, Array], dict[str, Any]]:
    """A frictionless pendulum of large swing, theta'' = -sin(theta), observed as its bob's position and its
    angular velocity.

    Rods of three lengths swing with the same period: the length changes positions, not times.
    """
    lengths = np.array([0.6, 1.0, 1.4])
    length = random.integers(3, size=count)
    start = random.integers(4, size=count)
    swing = random.uniform(0.5, 1.5, count)
    phase = np.pi / 2 * (start + random.uniform(-0.4, 0.4, count))
    angle, velocity = swing * np.cos(phase), swing * np.sin(phase)
    frames, substeps = [], 40
    for _ in range(_STEPS[name]):
        rod = lengths[length]
        frames.append(np.stack([rod * np.sin(angle), -rod * np.cos(angle), velocity], axis=-1))
        for _ in range(substeps):  # leapfrog conserves the energy
            h = 0.4 / substeps
            velocity = velocity - h / 2 * np.sin(angle)
            angle = angle + h * velocity
            velocity = velocity - h / 2 * np.sin(angle)
    labels = {"length": length, "start": start}
    return np.stack(frames, 1), labels, {"length": ("short", "medium", "long"), "start": QUARTERS}
