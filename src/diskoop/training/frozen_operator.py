"""the frozen operator, fitted to the whole training set after training"""

import math
from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np
import torch
from torch.nn import functional

from diskoop.data.sequences import Sequences
from diskoop.distributed import ALONE, BatchSlice, Processes
from diskoop.errors import counted
from diskoop.models.autoencoder import KoopmanAutoencoder
from diskoop.numerics.operator import Operator, SnapshotQR


@torch.no_grad()
def fit_frozen_operator(
    model: KoopmanAutoencoder, data: Sequences, batch_size: int, processes: Processes = ALONE
) -> Operator:
    """Fit one operator to all sequences of `data`, in one streaming pass of `model` in evaluation mode.

    It has no ridge, which training uses for speed: a ridge would drop weak directions.

    Args:
        model: its encoder computes the latents.
        data: sequences to fit the operator to.
        batch_size: of the pass; it does not change the result.
        processes: that read a part of `data` each; all get the same operator.
    """
    model.eval()
    if len(data) < processes.world_size:  # then each reads all of it
        processes = ALONE
    snapshots = None
    own = np.arange(len(data))[processes.own_slice(len(data))]
    for indices in np.array_split(own, math.ceil(len(own) / batch_size)):
        x, mask = data.batch(indices, next(model.parameters()))
        part = SnapshotQR.of(model.encode(x, mask)[..., model.pooled :], mask)
        snapshots = part if snapshots is None else snapshots + part
    assert snapshots is not None  # a data set is never empty
    operator = _merged(snapshots, processes).solve().prepend_identity(model.pooled)
    return replace(operator, fitted_on=f"{data.name}, {counted(len(data), 'training sequence')}")


def _merged(snapshots: SnapshotQR, processes: Processes) -> SnapshotQR:
    """The factor of all processes' snapshots, merged in the order of processes."""
    if processes.world_size == 1:
        return snapshots
    batch_slice, width = BatchSlice.of(processes, 1), snapshots.R.shape[1]
    square = functional.pad(snapshots.R, (0, 0, 0, width - len(snapshots.R)))  # zero rows change nothing
    facts = torch.tensor([[snapshots.eps, snapshots.sequences, snapshots.steps]], dtype=torch.float64)
    parts = zip(batch_slice.gather(square.unsqueeze(0)), batch_slice.gather(facts).tolist(), strict=True)
    return reduce(add, [SnapshotQR(R, eps, int(count), int(steps)) for R, (eps, count, steps) in parts])
