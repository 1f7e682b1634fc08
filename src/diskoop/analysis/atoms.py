"""the smallest parts a factor can be made of: independent static components, blocks of dynamic modes"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from diskoop.analysis.decomposition import Decomposition, mean_over_frames
from diskoop.analysis.effects import effects
from diskoop.errors import InputError
from diskoop.numerics.components import (
    Components,
    block_dependence,
    group,
    independent_components,
    principal_directions,
    widest_gap,
)

Array = NDArray[Any]

# A static direction is used if the first half of a sequence agrees with the second about it, and if it tells something:
# if the decoded frames change when it comes from another sequence. Directions that tell something are parted from those
# that do not at the widest gap in this range (of what all latents change), on a logarithmic scale.
LEAST_AGREEMENT = 0.3
VISIBLE = (0.0005, 0.005)
TRIED_ON = 64  # sequences on which each direction is tried
TIED = 0.25  # dynamic modes that depend on each other this much are one motion; separate motions are nearer to 0
WEAK = 0.05  # a dynamic mode with a smaller share of the motion does not stand for itself
FRAMES = 32  # of a sequence are enough to tell its motion by
SEQUENCES_A_DIRECTION = 8  # fewer sequences than this for each used direction are too few for independent components


@dataclass(frozen=True, eq=False)
class Atoms:
    """Parts of the latents that add up: static components first, then blocks of dynamic modes, and what is unused."""

    static: Tensor  # (k, k): the projector on the whole static part
    codes: Array  # (n, k): each sequence's static part, averaged over time
    directions: Array  # (d, k) orthonormal: the used directions among them
    components: Components  # d independent ones
    blocks: tuple[tuple[Tensor, Array], ...]  # of dynamic modes: the projector, and what is known of each sequence

    def turned(self, seed: int, some: Array | None = None) -> "Atoms":
        """The same, with components fitted from another start, on the sequences `some` (all by default)."""
        codes = self.codes if some is None else self.codes[some]
        return replace(self, components=independent_components(codes, self.directions, seed))

    def __len__(self) -> int:
        return self.still + len(self.blocks)

    @property
    def still(self) -> int:
        """How many of the atoms are static components."""
        return len(self.directions)

    @cached_property
    def columns(self) -> list[Array]:
        """For each atom (n, columns): what is known of it in each sequence."""
        y = self.components.read(self.codes)
        return [*(y[:, [i]] for i in range(self.still)), *(known for _, known in self.blocks)]

    @cached_property
    def projectors(self) -> list[Tensor]:
        """For each atom (k, k), float64."""
        reading = self.static @ torch.from_numpy(self.components.reading)
        writing = torch.from_numpy(self.components.writing)
        still = [torch.outer(reading[:, i], writing[i]) for i in range(self.still)]
        return [*still, *(projector for projector, _ in self.blocks)]

    @property
    def rest(self) -> Tensor:
        """(k, k): the projector on the static directions that nothing uses."""
        return self.static - self.joined(range(self.still))

    def joined(self, members: Iterable[int]) -> Tensor:
        """(k, k): the projector on some of the atoms together."""
        return sum((self.projectors[member] for member in members), start=torch.zeros_like(self.static))

    @property
    def sizes(self) -> list[int]:
        return [columns.shape[1] for columns in self.columns]

    def similarity(self, some: Array | None = None) -> Array:
        """(atoms, atoms): how much they depend on each other in the sequences `some` (all by default)."""
        return block_dependence(self.columns if some is None else [columns[some] for columns in self.columns])


def find_atoms(parts: Decomposition, seed: int = 0) -> Atoms:
    """The atoms of a decomposition, from the sequences in it; no labels are looked at."""
    static = parts.factors["static"].projector.cpu().double()
    codes = parts.code("static").cpu().numpy()
    directions = _used_directions(parts, codes, seed)
    needed = SEQUENCES_A_DIRECTION * max(len(directions), 1)
    if len(parts) < needed:
        raise InputError(
            f"finding factors needs at least {needed} sequences ({SEQUENCES_A_DIRECTION} for each of the "
            f"{len(directions)} static directions that are used), got {len(parts)}"
        )
    components = independent_components(codes, directions, seed)
    atoms = Atoms(static, codes, directions, components, tuple(_dynamic_blocks(parts, seed)))
    if not len(atoms):
        raise InputError(f"there are no factors to find: all {len(parts)} sequences are alike")
    return atoms


def _used_directions(parts: Decomposition, codes: Array, seed: int) -> Array:
    """(d, k) orthonormal: principal directions of `codes` (n, k) that last through a sequence and that can be seen."""
    directions, variances = principal_directions(codes)
    halves = [half.cpu().numpy() @ directions.T for half in _halves(parts)]
    deviations = [(half - half.mean(0)) / np.maximum(half.std(0), 1e-12) for half in halves]
    agreement = (deviations[0] * deviations[1]).mean(0)
    scale = float(np.square(codes).sum(1).mean())
    steady: Array = directions[(agreement > LEAST_AGREEMENT) & (variances > 1e-12 * scale)]
    static = parts.factors["static"].projector.cpu().double()
    along = [static @ torch.from_numpy(np.outer(direction, direction)) for direction in steady]
    seen = np.array(effects(parts, along, seed, TRIED_ON))
    return steady[seen >= visible_from(seen)]


def visible_from(effects: Array) -> float:
    """The effect from which on a part counts as seen, chosen at the widest gap between `effects` inside VISIBLE."""
    low, high = np.log(VISIBLE)
    return float(np.exp(widest_gap(np.log(np.maximum(effects, 1e-300)).tolist(), (low, high))))


def _halves(parts: Decomposition) -> tuple[Tensor, Tensor]:
    """(n, k) twice: the static code of each sequence's first half, and of its second."""
    static = parts.factors["static"].part(parts.z.double())
    lengths = torch.from_numpy(parts.lengths).to(static.device).unsqueeze(1)
    place = torch.arange(static.shape[1], device=static.device)
    early = 2 * place < lengths
    return mean_over_frames(static, early), mean_over_frames(static, ~early & (place < lengths))


def _dynamic_blocks(parts: Decomposition, seed: int) -> list[tuple[Tensor, Array]]:
    """Dynamic modes tied to each other, as (projector (k, k), columns (n, some)): they can only move together."""
    units = parts.spectrum.units(~parts.static_modes)
    if not units:
        return []
    courses = [_course(parts, unit) for unit in units]
    amounts = np.array([np.square(course - course.mean(0)).sum() for course in courses])
    if not amounts.sum() > 1e-12 * max(float(np.square(course).sum()) for course in courses):
        return []
    strong = [int(i) for i in np.flatnonzero(amounts >= WEAK * amounts.sum())]
    known = [_principal(course, 0.05, 3) for course in courses]
    between = block_dependence(known)
    sizes = [each.shape[1] for each in known]
    groups = group(between[np.ix_(strong, strong)], [sizes[i] for i in strong], (TIED, TIED))
    blocks = [[strong[i] for i in members] for members in groups]
    for weak in sorted(set(range(len(units))) - set(strong)):
        nearest = max(blocks, key=lambda block: between[weak, block].mean())
        nearest.append(weak)
    found = []
    for block in blocks:
        selection = torch.zeros(parts.spectrum.k, dtype=torch.bool, device=parts.spectrum.eigenvalues.device)
        selection[[mode for unit in block for mode in units[unit]]] = True
        projector = parts.spectrum.projector(selection)
        scores = _principal(_trajectory(parts, projector), 0.05, 6)
        turned = independent_components(scores, np.eye(scores.shape[1]), seed).read(scores)
        found.append((projector.cpu(), turned))
    return found


def _frames(parts: Decomposition) -> Tensor:
    """Some frames that all sequences have, evenly spread."""
    shortest = int(parts.lengths.min())
    return torch.linspace(0, shortest - 1, min(shortest, FRAMES)).long().to(parts.z.device)


def _course(parts: Decomposition, modes: list[int]) -> Array:
    """(n, features): how much of these modes is in each of the frames, in the latents' own size."""
    size = torch.linalg.vector_norm(parts.spectrum.from_modes[modes[0]])
    course = (parts.coefficients[:, _frames(parts).to(size.device), modes[0]] * size).cpu().numpy()
    return np.concatenate([course.real, course.imag], 1) if len(modes) == 2 else course.real


def _trajectory(parts: Decomposition, projector: Tensor) -> Array:
    """(n, features): what of the latents lies in a part, in each of the frames."""
    z = parts.z[:, _frames(parts)].double()
    trajectory: Array = (z @ projector.to(z)).flatten(1).cpu().numpy()
    return trajectory


def _principal(features: Array, least: float, most: int) -> Array:
    """(n, up to `most`): coordinates along the directions that have a share of `least` of the variance."""
    from sklearn.utils.extmath import randomized_svd

    centred = features - features.mean(0)
    u, s, _ = randomized_svd(centred, min(most, *centred.shape), random_state=0)  # there may be thousands of features
    kept = max(1, int((np.square(s) > least * np.square(centred).sum()).sum()))
    scores: Array = u[:, :kept] * s[:kept]
    return scores
