"""Decompositions of which everything is known: a linear set behind identity networks."""

from itertools import product

import numpy as np
import torch
from torch import nn

from diskoop import load_data
from diskoop.analysis.decomposition import Decomposition
from diskoop.data.builtin.oscillators import _LINEAR, _mixing, truth
from diskoop.data.sequences import Sequences, Split, Units
from diskoop.models.autoencoder import KoopmanAutoencoder
from diskoop.numerics import by_distance, fit_operator

STATIC = {"oscillators": 3, "growth": 1}


def behind_identity(name: str, split: Split, count: int | None = None) -> Decomposition:
    clips = load_data(name, split)
    clips = clips if count is None else clips.select(range(count))
    return _known(clips, STATIC[name])


def balanced_oscillators(times: int) -> Decomposition:
    """Every combination of the oscillators' values, each as often as the others: exactly independent."""
    made_of = _LINEAR["oscillators"]
    codes = np.repeat(list(product(*(range(len(part.values)) for part in made_of))), times, axis=0)
    start = np.concatenate([part.starts[codes[:, i]] for i, part in enumerate(made_of)], 1)
    x = [start @ _mixing("oscillators")]
    for _ in range(23):
        x.append(x[-1] @ truth("oscillators").operator)
    labels = {part.name: codes[:, i] for i, part in enumerate(made_of)}
    return _known(Sequences.of(np.stack(x, 1), labels, units=Units(dtype="float64")), STATIC["oscillators"])


def _known(clips: Sequences, static: int) -> Decomposition:
    z = torch.from_numpy(clips.x)
    model = KoopmanAutoencoder(nn.Identity(), nn.Identity())
    return Decomposition.of(model, fit_operator(z, ridge=0), clips, z, static, by_distance)
