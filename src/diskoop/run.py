"""a trained run: train, load, decompose, find factors; what users hold in their hands"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from diskoop.analysis.decomposition import Decomposition, at_once, chunks
from diskoop.analysis.discovery import DiscoveryResult, FactorDiscovery, LabelFree
from diskoop.analysis.factor_file import load_factors, save_factors
from diskoop.data import location, open_data
from diskoop.data.sequences import Sequences, Split, Units
from diskoop.errors import InputError
from diskoop.models.autoencoder import KoopmanAutoencoder
from diskoop.numerics.operator import Operator, fit_operator
from diskoop.numerics.spectrum import Spectrum
from diskoop.pictures import draw_spectrum, figure_bytes
from diskoop.settings import Settings, merged, on_data, read_yaml
from diskoop.training import loop
from diskoop.training.batches import Batch, read_ahead
from diskoop.training.checkpoint import RunFolder, load_model, load_operator, load_settings, read_metrics
from diskoop.training.objective import ORDERS
from diskoop.training.progress import Reporter

ENOUGH = 4096  # sequences to find factors in


@dataclass(frozen=True, eq=False)
class Run:
    """A model with the operator that was fitted over its whole training set, so that a sequence needs no company."""

    settings: Settings
    model: KoopmanAutoencoder
    operator: Operator
    units: Units
    folder: RunFolder
    found: DiscoveryResult | None = None  # the factors in factors.json

    def __repr__(self) -> str:
        choice = self.settings
        return f"Run({self.folder.path}: k={choice.model.k}, static={choice.spectrum.static}, {self.operator.source})"

    @torch.no_grad()
    def decompose(self, clips: Sequences | NDArray[Any], operator: str = "frozen") -> Decomposition:
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
        batches = chunks(len(clips), at_once(weight.device, clips.shape[1:]))
        if weight.is_cuda:
            feed = read_ahead(clips, batches, weight.dtype, pinned=True)
        else:  # a reader would only take turns with the networks
            feed = (Batch(indices, *clips.fetch(indices, weight.dtype), 0.0) for indices in batches)
        for ready in feed:
            latents = self.model.encode(*clips.deliver(ready.x, ready.mask, weight))
            z[ready.indices[0] : ready.indices[-1] + 1, : latents.shape[1]] = latents
        mask = None if clips.mask is None else torch.from_numpy(clips.mask).to(weight.device)
        z = z if mask is None else torch.where(mask.unsqueeze(-1), z, 0.0)  # nothing, whatever its company
        choice = self.settings.spectrum
        mine = self.operator if operator == "frozen" else fit_operator(z, mask)
        order = ORDERS[choice.order]
        named = {} if self.found is None else {each.name: each.factor for each in self.found.factors}
        return Decomposition.of(self.model, mine, clips, z, choice.static, order, mask, named)

    def find_factors(self, clips: Sequences | None = None, way: FactorDiscovery | None = None) -> DiscoveryResult:
        """Factors in `clips` (by default up to 4096 training sequences), without labels or in another `way`."""
        if clips is None:
            clips = self.data("train")
            if len(clips) > ENOUGH:
                random = np.random.Generator(np.random.PCG64(0))
                clips = clips.select(np.sort(random.permutation(len(clips))[:ENOUGH]))
        return (way or LabelFree()).find(self.decompose(clips))

    def keep(self, found: DiscoveryResult) -> "Run":
        """The run with these factors, which are written to its folder; `swap` and all others know their names."""
        save_factors(self.folder, found, self.model)
        return replace(self, found=found)

    def rename(self, names: Mapping[str, str]) -> "Run":
        """The run with other names for its factors, {old: new}, in its folder too."""
        return self.keep(self.require_found().renamed(names))

    def require_found(self) -> DiscoveryResult:
        """The factors in the run's folder; an InputError if none were found yet."""
        if self.found is None:
            again = f"diskoop factors {shlex.quote(str(self.folder.path))}"
            raise InputError(f"{str(self.folder.path)!r} has no factors yet; {again} finds them")
        return self.found

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

    def spectrum(self) -> tuple[Spectrum, Tensor]:
        """The frozen operator's spectrum, and which of its modes are static."""
        choice = self.settings.spectrum
        spectrum = Spectrum.of(self.operator.matrix, ORDERS[choice.order])
        return spectrum, spectrum.static(choice.static)

    def _repr_png_(self) -> bytes:
        """The spectrum, for notebooks."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(4.2, 5.0), layout="constrained")
        draw_spectrum(figure.subplots(), *self.spectrum(), self.settings.spectrum.radius)
        return figure_bytes(figure)

    def summary(self) -> dict[str, Any]:
        """What training came to: the frozen operator's spectrum, and the last epoch's figures."""
        spectrum, static = self.spectrum()
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


def train(
    data: str | Path,
    out: str | Path,
    /,  # so that `data` can be a section of settings too
    preset: str | Path | None = None,
    reporter: Reporter | None = None,
    **settings: Mapping[str, Any],
) -> Run:
    """Train a model, as `diskoop train` does; `diskoop train --resume OUT` goes on with one that was interrupted.

    Args:
        data: the name of a set that diskoop knows, or the path of your own files.
        out: a folder for the run, which must not exist.
        preset: a preset's name or a YAML file; None takes the defaults.
        reporter: where progress goes; None is the terminal.
        settings: sections of settings beside the preset's, such as model={"k": 24}, data={"window": 16}.

    Returns:
        The finished run, on the CPU; its factors are found by `run.find_factors()`.

    Example:
        >>> brief = {"model": {"k": 6, "h": 8}, "spectrum": {"static": 2}, "train": {"epochs": 1}}
        >>> run = diskoop.train("oscillators", folder / "run", **brief)
        >>> run.decompose(run.data("test")).static.shape
        torch.Size([400, 24, 6])
    """
    base = on_data({} if preset is None else read_yaml(preset), location(data))
    changes = {name: dict(section) for name, section in settings.items()}
    loop.train(Settings.of(merged(base, changes)), out, reporter=reporter)
    return load(out)


def load(path: str | Path, device: str = "cpu", factors: bool = True) -> Run:
    """The finished run in the folder `path`, with the factors that were found in it unless `factors` is False."""
    folder = RunFolder(Path(path))
    folder.require_finished()
    there = [name for name, is_there in (("cpu", True), ("cuda", torch.cuda.is_available())) if is_there]
    if device.split(":")[0] not in there:
        raise InputError(f"expected a device that this machine has ({', '.join(there)}), got {device!r}")
    settings = load_settings(folder)
    model, units = load_model(folder, settings)
    operator = load_operator(folder, model)
    operator = replace(operator, matrix=operator.matrix.to(device))
    found = load_factors(folder, model, settings.model.k) if factors else None
    return Run(settings, model.to(device).eval(), operator, units, folder, found)
