"""the frozen operator, fitted to the whole training set after training"""

import math
from dataclasses import replace

import numpy as np
import torch

from diskoop.data.sequences import Sequences
from diskoop.errors import counted
from diskoop.models.autoencoder import KoopmanAutoencoder
from diskoop.numerics.operator import Operator, SnapshotQR


@torch.no_grad()
def fit_frozen_operator(model: KoopmanAutoencoder, data: Sequences, batch_size: int) -> Operator:
    """Fit one operator to all sequences of `data`, in one streaming pass of `model` in evaluation mode.

    It has no ridge, which training uses for speed: a ridge would drop weak directions.

    Args:
        model: its encoder computes the latents.
        data: sequences to fit the operator to.
        batch_size: of the pass; it does not change the result.
    """
    model.eval()
    snapshots = None
    for indices in np.array_split(np.arange(len(data)), math.ceil(len(data) / batch_size)):
        x, mask = data.batch(indices, next(model.parameters()))
        part = SnapshotQR.of(model.encode(x, mask)[..., model.pooled :], mask)
        snapshots = part if snapshots is None else snapshots + part
    assert snapshots is not None  # a data set is never empty
    operator = snapshots.solve().beside_constants(model.pooled)
    return replace(operator, source=f"{data.name}, {counted(len(data), 'training sequence')}")
