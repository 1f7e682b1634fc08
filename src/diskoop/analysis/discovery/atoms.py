"""used by the methods: independent static components and blocks of dynamic modes, the smallest parts of factors"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from diskoop.analysis.decomposition import Decomposition, mean_over_frames
from diskoop.analysis.discovery.effects import measure_effects
from diskoop.errors import InputError
from diskoop.numerics.components import (
    Components,
    average_linkage,
    block_dependence,
    independent_components,
    principal_directions,
    widest_gap,
)

Array = NDArray[Any]

# A static direction is used if it correlates between the two halves of a sequence, and if the decoded frames change
# when it is swapped. The threshold on that effect lies at the widest gap in this range, on a logarithmic scale.
MIN_CORRELATION = 0.3
EFFECT_BOUNDS = (0.0005, 0.005)
EFFECT_SEQUENCES = 64  # on which the effect of each direction is measured
MIN_MODE_DEPENDENCE = 0.25  # dynamic modes that depend on each other this much are one motion
MIN_MODE_FRACTION = 0.05  # of the dynamic variance; weaker modes join a stronger one
MAX_FRAMES = 32  # of a sequence, to describe its motion
SEQUENCES_PER_DIRECTION = 8  # that independent component analysis needs at least


@dataclass(frozen=True, eq=False)
class Atoms:
    """Parts that add up to the latents: static components, then blocks of dynamic modes, and a remainder."""

    static: Tensor  # (k, k): the projector on the whole static part
    codes: Array  # (n, k): static part of each sequence, averaged over time
    directions: Array  # (d, k) orthonormal: the directions of the codes that are used
    components: Components  # d independent components
    blocks: tuple[tuple[Tensor, Array], ...]  # of dynamic modes: projector (k, k), features of the sequences (n, f)

    def refit(self, seed: int, subset: Array | None = None) -> "Atoms":
        """The same, with components fitted from another random start, on a `subset` of the sequences (None: all)."""
        codes = self.codes if subset is None else self.codes[subset]
        return replace(self, components=independent_components(codes, self.directions, seed))

    def __len__(self) -> int:
        return self.num_static + len(self.blocks)

    @property
    def num_static(self) -> int:
        """Number of static components."""
        return len(self.directions)

    @cached_property
    def features(self) -> list[Array]:
        """For each atom (n, f): its features in each sequence."""
        y = self.components.transform(self.codes)
        return [*(y[:, [i]] for i in range(self.num_static)), *(features for _, features in self.blocks)]

    @cached_property
    def projectors(self) -> list[Tensor]:
        """For each atom (k, k), float64."""
        to_coordinates = self.static @ torch.from_numpy(self.components.to_coordinates)
        from_coordinates = torch.from_numpy(self.components.from_coordinates)
        static = [torch.outer(to_coordinates[:, i], from_coordinates[i]) for i in range(self.num_static)]
        return [*static, *(projector for projector, _ in self.blocks)]

    @property
    def remainder(self) -> Tensor:
        """(k, k): the projector on the static directions that are not used."""
        return self.static - self.projector(range(self.num_static))

    def projector(self, members: Iterable[int]) -> Tensor:
        """(k, k): the projector on several atoms together."""
        return sum((self.projectors[member] for member in members), start=torch.zeros_like(self.static))

    @property
    def sizes(self) -> list[int]:
        return [features.shape[1] for features in self.features]

    def similarity(self, subset: Array | None = None) -> Array:
        """(atoms, atoms): mutual dependence in a `subset` of the sequences (None: all)."""
        return block_dependence(self.features if subset is None else [features[subset] for features in self.features])


def find_atoms(parts: Decomposition, seed: int = 0) -> Atoms:
    """The atoms of a decomposition, estimated from its sequences without labels."""
    static = parts.factors["static"].projector.cpu().double()
    codes = parts.code("static").cpu().numpy()
    directions = _used_directions(parts, codes, seed)
    needed = SEQUENCES_PER_DIRECTION * max(len(directions), 1)
    if len(parts) < needed:
        of_each = f" ({SEQUENCES_PER_DIRECTION} for each of the {len(directions)} static directions that are used)"
        why = of_each if len(directions) > 1 else ""
        raise InputError(
            f"finding factors needs at least {needed} sequences{why}, got {len(parts)} of {parts.clips.name}; give "
            "more clips, or shorter windows (data.window, data.stride), and train again; the static and the dynamic "
            "part can be swapped as they are"
        )
    components = independent_components(codes, directions, seed)
    atoms = Atoms(static, codes, directions, components, tuple(_dynamic_blocks(parts, seed)))
    if not len(atoms):
        raise InputError(f"there are no factors to find: all {len(parts)} sequences are alike")
    return atoms


def _used_directions(parts: Decomposition, codes: Array, seed: int) -> Array:
    """Principal directions of `codes` (n, k) that are stable over time and visible in the frames, (d, k)."""
    directions, variances = principal_directions(codes)
    halves = [half.cpu().numpy() @ directions.T for half in _halves(parts)]
    standardised = [(half - half.mean(0)) / np.maximum(half.std(0), 1e-12) for half in halves]
    correlation = (standardised[0] * standardised[1]).mean(0)
    scale = float(np.square(codes).sum(1).mean())
    stable: Array = directions[(correlation > MIN_CORRELATION) & (variances > 1e-12 * scale)]
    static = parts.factors["static"].projector.cpu().double()
    projectors = [static @ torch.from_numpy(np.outer(direction, direction)) for direction in stable]
    effects = np.array(measure_effects(parts, projectors, seed, EFFECT_SEQUENCES))
    return stable[effects >= effect_threshold(effects)]


def effect_threshold(effects: Array) -> float:
    """The effect from which on a part counts as visible: the widest gap between `effects` inside EFFECT_BOUNDS."""
    low, high = np.log(EFFECT_BOUNDS)
    return float(np.exp(widest_gap(np.log(np.maximum(effects, 1e-300)).tolist(), (low, high))))


def _halves(parts: Decomposition) -> tuple[Tensor, Tensor]:
    """Static codes of the first and of the second half of each sequence, (n, k) both."""
    static = parts.factors["static"].part(parts.z.double())
    lengths = torch.from_numpy(parts.lengths).to(static.device).unsqueeze(1)
    frame = torch.arange(static.shape[1], device=static.device)
    first_half = 2 * frame < lengths
    return mean_over_frames(static, first_half), mean_over_frames(static, ~first_half & (frame < lengths))


def _dynamic_blocks(parts: Decomposition, seed: int) -> list[tuple[Tensor, Array]]:
    """Blocks of dependent dynamic modes: projector (k, k) and features of the sequences (n, f)."""
    mode_groups = parts.spectrum.conjugate_groups(~parts.static_modes)
    if not mode_groups:
        return []
    trajectories = [_mode_trajectory(parts, modes) for modes in mode_groups]
    variances = np.array([np.square(trajectory - trajectory.mean(0)).sum() for trajectory in trajectories])
    if not variances.sum() > 1e-12 * max(float(np.square(trajectory).sum()) for trajectory in trajectories):
        return []
    strong = [int(i) for i in np.flatnonzero(variances >= MIN_MODE_FRACTION * variances.sum())]
    features = [_principal_scores(trajectory, 0.05, 3) for trajectory in trajectories]
    between = block_dependence(features)
    sizes = [columns.shape[1] for columns in features]
    bounds = (MIN_MODE_DEPENDENCE, MIN_MODE_DEPENDENCE)
    groups = average_linkage(between[np.ix_(strong, strong)], [sizes[i] for i in strong], bounds)
    blocks = [[strong[i] for i in members] for members in groups]
    for weak in sorted(set(range(len(mode_groups))) - set(strong)):
        nearest = max(blocks, key=lambda block: between[weak, block].mean())
        nearest.append(weak)
    atoms = []
    for block in blocks:
        selection = torch.zeros(parts.spectrum.k, dtype=torch.bool, device=parts.spectrum.eigenvalues.device)
        selection[[mode for i in block for mode in mode_groups[i]]] = True
        projector = parts.spectrum.projector(selection)
        scores = _principal_scores(_part_trajectory(parts, projector), 0.05, 6)
        components = independent_components(scores, np.eye(scores.shape[1]), seed).transform(scores)
        atoms.append((projector.cpu(), components))
    return atoms


def _sample_frames(parts: Decomposition) -> Tensor:
    """Indices of evenly spaced frames that all sequences have."""
    shortest = int(parts.lengths.min())
    return torch.linspace(0, shortest - 1, min(shortest, MAX_FRAMES)).long().to(parts.z.device)


def _mode_trajectory(parts: Decomposition, modes: list[int]) -> Array:
    """(n, f): coefficients of a real mode or of a pair over time, in the scale of the latents."""
    norm = torch.linalg.vector_norm(parts.spectrum.from_modes[modes[0]])
    coefficients = (parts.coefficients[:, _sample_frames(parts).to(norm.device), modes[0]] * norm).cpu().numpy()
    return np.concatenate([coefficients.real, coefficients.imag], 1) if len(modes) == 2 else coefficients.real


def _part_trajectory(parts: Decomposition, projector: Tensor) -> Array:
    """(n, f): a part of the latents over time."""
    z = parts.z[:, _sample_frames(parts)].double()
    trajectory: Array = (z @ projector.to(z)).flatten(1).cpu().numpy()
    return trajectory


def _principal_scores(features: Array, min_fraction: float, max_count: int) -> Array:
    """Principal component scores (n, up to `max_count`) with at least `min_fraction` of the variance each."""
    from sklearn.utils.extmath import randomized_svd

    centred = features - features.mean(0)
    u, s, _ = randomized_svd(centred, min(max_count, *centred.shape), random_state=0)  # features may be thousands
    kept = max(1, int((np.square(s) > min_fraction * np.square(centred).sum()).sum()))
    scores: Array = u[:, :kept] * s[:kept]
    return scores
