"""a trained run: load, decompose; what users hold in their hands"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from diskoop.analysis.decomposition import CHUNK, Decomposition
from diskoop.data import open_data
from diskoop.data.sequences import Sequences, Split, Units
from diskoop.errors import InputError
from diskoop.models.autoencoder import KoopmanAutoencoder
from diskoop.numerics.factors import Factor
from diskoop.numerics.operator import Operator, fit_operator
from diskoop.numerics.spectrum import Spectrum
from diskoop.settings import Settings
from diskoop.training.checkpoint import RunFolder, load_model, load_operator, load_settings, read_metrics
from diskoop.training.objective import ORDERS


@dataclass(frozen=True, eq=False)
class Run:
    """A model with the operator that was fitted over its whole training set, so that a sequence needs no company."""

    settings: Settings
    model: KoopmanAutoencoder
    operator: Operator
    units: Units
    folder: RunFolder
    factors: Mapping[str, Factor] = field(default_factory=dict)  # those that were found and named

    def __repr__(self) -> str:
        choice = self.settings
        return f"Run({self.folder.path}: k={choice.model.k}, static={choice.spectrum.static}, {self.operator.source})"

    @torch.no_grad()
    def decompose(
        self, clips: Sequences | NDArray[Any], operator: Literal["frozen", "batch"] = "frozen"
    ) -> Decomposition:
        """Take sequences apart: a set, or an array (n, time, ...) in the units of the training data.

        The operator is the run's frozen one, or with "batch" one fitted on just these sequences, as in the paper.
        """
        if operator not in ("frozen", "batch"):
            raise InputError(f"expected the operator 'frozen' or 'batch', got {operator!r}")
        if not isinstance(clips, Sequences):
            clips = Sequences.of(np.asarray(clips), units=self.units)
        if not clips.is_video:  # the model knows one scale, which is not that of another set
            self._check_features(clips)
            clips = replace(clips, units=self.units)
        self.model.eval()
        weight = next(self.model.parameters())
        z = torch.zeros(len(clips), clips.shape[1], self.settings.model.k).to(weight)
        for indices in np.split(np.arange(len(clips)), range(CHUNK, len(clips), CHUNK)):
            latents = self.model.encode(*clips.batch(indices, weight))
            z[torch.from_numpy(indices), : latents.shape[1]] = latents
        mask = None if clips.mask is None else torch.from_numpy(clips.mask).to(weight.device)
        z = z if mask is None else torch.where(mask.unsqueeze(-1), z, 0.0)  # nothing, whatever its company
        choice = self.settings.spectrum
        mine = self.operator if operator == "frozen" else fit_operator(z, mask, self.settings.model.ridge)
        order = ORDERS[choice.order]
        return Decomposition.of(self.model, mine, clips, z, choice.static, order, mask, self.factors)

    def _check_features(self, clips: Sequences) -> None:
        """An InputError unless a signal has the features that were trained on, under their names."""
        mine, given = self.units.features, clips.units.features
        count = len(self.units.scale) if isinstance(self.units.scale, tuple) else clips.shape[-1]
        if clips.shape[-1] != count or (mine and given and mine != given):
            wanted = f"{count} features {', '.join(mine)}".strip()
            raise InputError(f"{self} was trained on {wanted}, got {clips.shape[-1]} {', '.join(given)}".strip())

    def data(self, split: Split = "test") -> Sequences:
        """One split of the set this run was trained on, read with its settings."""
        return open_data(self.settings.data).part(split)

    def summary(self) -> dict[str, Any]:
        """What training came to: the frozen operator's spectrum, and the last epoch's figures."""
        choice = self.settings.spectrum
        spectrum = Spectrum.of(self.operator.matrix, ORDERS[choice.order])
        static = spectrum.static(choice.static)
        gap, radius = spectrum.extent(static)
        return {
            "folder": str(self.folder.path),
            "static": int(static.sum()),
            "static_gap": float(gap),
            "dynamic_radius": float(radius),
            "rank": int(self.operator.rank),
            "condition": float(self.operator.condition),
            "fitted_on": self.operator.source,
            "last_epoch": read_metrics(self.folder)[-1],
        }


def load(path: str | Path, device: str = "cpu") -> Run:
    """The finished run in the folder `path`."""
    folder = RunFolder(Path(path))
    folder.require_finished()
    settings = load_settings(folder)
    model, units = load_model(folder, settings)
    operator = load_operator(folder, model)
    return Run(settings, model.to(device).eval(), operator, units, folder)
