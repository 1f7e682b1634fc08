"""Decompositions with known factors: linear data sets behind identity networks."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from diskoop import load_data
from diskoop.analysis.decomposition import Decomposition
from diskoop.data.sequences import Sequences, SplitName, Units
from diskoop.data.sets.oscillators import _LINEAR, _mixing, truth
from diskoop.models.autoencoder import KoopmanAutoencoder
from diskoop.numerics import Factor, by_distance, fit_operator

STATIC = {"oscillators": 3, "growth": 1}


def behind_identity(name: str, split: SplitName, count: int | None = None) -> Decomposition:
    clips = load_data(name, split)
    clips = clips if count is None else clips.select(range(count))
    return decompose_identity(clips, STATIC[name])


def balanced_oscillators(times: int) -> Decomposition:
    """Every combination of the oscillators' values, each as often as the others: exactly independent."""
    blocks = _LINEAR["oscillators"]
    codes = np.repeat(list(product(*(range(len(part.values)) for part in blocks))), times, axis=0)
    start = np.concatenate([part.starts[codes[:, i]] for i, part in enumerate(blocks)], 1)
    x = [start @ _mixing("oscillators")]
    for _ in range(23):
        x.append(x[-1] @ truth("oscillators").operator)
    labels = {part.name: codes[:, i] for i, part in enumerate(blocks)}
    return decompose_identity(Sequences.of(np.stack(x, 1), labels, units=Units(dtype="float64")), STATIC["oscillators"])


class Screen(nn.Module):
    """Latents (n, time, 8) as frames (n, time, 3, 2, 4)."""

    def forward(self, z: Tensor) -> Tensor:
        return torch.sigmoid(z).reshape(*z.shape[:2], 1, 2, 4).expand(-1, -1, 3, -1, -1)


def oscillators_as(kind: Literal["series", "video", "spectrogram"], count: int = 40) -> Decomposition:
    """Oscillators with their true factors (level, mark, slow, fast, fade), decoded as one kind of data or another."""
    parts = behind_identity("oscillators", "test", count)
    projectors = truth("oscillators").projectors
    true_factors = {name: Factor(name, torch.from_numpy(projector)) for name, projector in projectors.items()}
    parts = replace(parts, factors=parts.factors | true_factors)
    if kind == "video":
        model = KoopmanAutoencoder(nn.Identity(), Screen())
        return replace(parts, model=model, clips=Sequences.of(np.zeros((count, 24, 3, 2, 4), np.uint8)))
    if kind == "spectrogram":
        return replace(parts, clips=replace(parts.clips, units=Units(dtype="float64", rate=16_000)))
    return parts


def static_with_rotation(
    codes: NDArray[Any], motion: NDArray[Any], labels: Mapping[str, NDArray[Any]]
) -> Decomposition:
    """Sequences that stay at `codes` (n, d), with a rotation that starts at `motion` (n, 2) in two more dimensions."""
    angle, time = 0.9, 10
    rotation = 0.8 * np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    trajectory = [motion]
    for _ in range(time - 1):
        trajectory.append(trajectory[-1] @ rotation)
    x = np.concatenate([np.repeat(codes[:, None], time, 1), np.stack(trajectory, 1)], -1)
    basis = np.linalg.qr(np.random.Generator(np.random.PCG64(2)).normal(size=(x.shape[-1],) * 2))[0]
    clips = Sequences.of(x @ basis, dict(labels), units=Units(dtype="float64"))
    return decompose_identity(clips, codes.shape[1])


def ring(values: NDArray[Any], count: int, random: np.random.Generator) -> NDArray[Any]:
    """Points on a circle, as a factor of `count` colours might be coded."""
    angle = 2 * np.pi * values / count
    return np.stack([np.cos(angle), np.sin(angle)], 1) + 0.05 * random.normal(size=(len(values), 2))


def decompose_identity(clips: Sequences, static: int) -> Decomposition:
    z = torch.from_numpy(clips.x)
    model = KoopmanAutoencoder(nn.Identity(), nn.Identity())
    return Decomposition.of(model, fit_operator(z, ridge=0), clips, z, static, by_distance)
