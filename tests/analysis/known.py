"""Decompositions of which everything is known: a linear set behind identity networks."""

import torch
from torch import nn

from diskoop import load_data
from diskoop.analysis.decomposition import Decomposition
from diskoop.data.sequences import Split
from diskoop.models.autoencoder import KoopmanAutoencoder
from diskoop.numerics import by_distance, fit_operator

STATIC = {"oscillators": 3, "growth": 1}


def behind_identity(name: str, split: Split, count: int | None = None) -> Decomposition:
    clips = load_data(name, split)
    clips = clips if count is None else clips.select(range(count))
    z = torch.from_numpy(clips.x)
    model = KoopmanAutoencoder(nn.Identity(), nn.Identity())
    return Decomposition.of(model, fit_operator(z, ridge=0), clips, z, STATIC[name], by_distance)
