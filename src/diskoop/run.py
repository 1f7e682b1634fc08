"""a trained run: load, decompose; what users hold in their hands"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from diskoop.analysis.decomposition import Decomposition
from diskoop.data.sequences import Sequences, Units
from diskoop.models.autoencoder import KoopmanAutoencoder
from diskoop.numerics.operator import Operator
from diskoop.settings import Settings
from diskoop.training.checkpoint import RunFolder, load_operator, load_settings, load_units, load_weights, read_tensors
from diskoop.training.loop import build_model
from diskoop.training.objective import ORDERS


@dataclass(frozen=True, eq=False)
class Run:
    """A model with the operator that was fitted over its whole training set, so that a sequence needs no company."""

    settings: Settings
    model: KoopmanAutoencoder
    operator: Operator
    units: Units
    folder: Path

    @torch.no_grad()
    def decompose(self, clips: Sequences | NDArray[Any]) -> Decomposition:
        """Take sequences apart: a set, or an array (n, time, ...) in the units of the training data."""
        if not isinstance(clips, Sequences):
            clips = Sequences(np.asarray(clips), units=self.units)
        self.model.eval()
        weight = next(self.model.parameters())
        z = self.model.encode(self.units.to_model(torch.from_numpy(np.asarray(clips.x)).to(weight.device)).to(weight))
        choice = self.settings.spectrum
        return Decomposition.of(self.model, self.operator, z, choice.static, ORDERS[choice.order], self.units)


def load(path: str | Path, device: str = "cpu") -> Run:
    """The finished run in the folder `path`."""
    folder = RunFolder(Path(path))
    folder.require_finished()
    settings = load_settings(folder)
    weights, record = read_tensors(folder.model)
    model = build_model(settings, tuple(record["frame"]))
    load_weights(model, weights, folder.model)
    return Run(settings, model.to(device).eval(), load_operator(folder), load_units(record), folder.path)
