"""a trained run: train, load, decompose, transform, find factors"""

import math
import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from diskoop.analysis.decomposition import Decomposition, chunk_size, chunks
from diskoop.analysis.discovery.label_free import LabelFree
from diskoop.analysis.discovery.results import DiscoveryResult, FactorDiscovery
from diskoop.analysis.verdict import Verdict, judge
from diskoop.data import load_split, location, open_data, settings_like
from diskoop.data.batches import Batch, prefetch
from diskoop.data.presets import preset_for
from diskoop.data.sequences import Sequences, SplitName, Units
from diskoop.errors import InputError, ResourceError, counted
from diskoop.examples_file import load_examples
from diskoop.factors_file import load_factors, save_factors
from diskoop.models.autoencoder import KoopmanAutoencoder, build_model
from diskoop.models.linear import fit_principal_components
from diskoop.numerics.factors import SPECTRAL_PARTS
from diskoop.numerics.operator import Operator, fit_operator, float64_device
from diskoop.numerics.spectrum import MODE_ORDERS, Spectrum
from diskoop.parallel import apply
from diskoop.plots.spectra import draw_spectrum
from diskoop.plots.style import figure_bytes
from diskoop.run_folder import RunFolder, load_model, load_operator, load_settings, read_metrics
from diskoop.settings import DataSettings, Settings, is_own, merged, on_data, read_yaml
from diskoop.storage import atomic_write, unused_path
from diskoop.tensor_files import load_weights, read_tensors
from diskoop.training import loop
from diskoop.training.frozen_operator import fit_frozen_operator
from diskoop.training.precision import available_devices
from diskoop.training.progress import Reporter
from diskoop.verdict_file import load_verdicts, save_verdicts

DISCOVERY_SEQUENCES = 4096  # at most, that factors are found in
PREVIEWED_SEQUENCES = 128  # at most, that the operator of an unfinished run is fitted to
JUDGED_SEQUENCES = 256  # at most, that a verdict is about
JUDGED_ELEMENTS = 2**25  # and elements of their frames, so that it takes seconds where clips are long
PCA_ELEMENTS = 2**26  # elements at most that its PCA is fitted to

HeldOut = Literal["val", "test"]


@dataclass(frozen=True, eq=False)
class Run:
    """A trained model with its frozen operator, fitted over the whole training set, and the factors found so far.

    Example:
        >>> brief = {"model": {"k": 6, "h": 8}, "spectrum": {"static": 2}, "train": {"epochs": 1}}
        >>> run = diskoop.train("oscillators", folder / "run", **brief)
        >>> clips = run.data("test")
        >>> run.transform(clips).shape  # codes for scikit-learn
        (400, 12)
        >>> run.decompose(clips.select([0, 1])).swap("static", donor=[1, 0]).decode().shape
        (2, 24, 8)
    """

    settings: Settings
    model: KoopmanAutoencoder
    operator: Operator
    units: Units
    folder: RunFolder
    factors: DiscoveryResult | None = None  # the factors in factors.json

    def __repr__(self) -> str:
        choice = self.settings
        return (
            f"Run({self.folder.name}: k={choice.model.k}, static={choice.spectrum.static}, {self.operator.fitted_on})"
        )

    @torch.no_grad()
    def decompose(self, clips: Sequences | NDArray[Any], operator: str = "frozen") -> Decomposition:
        """Encode sequences and divide their latents into modes.

        Args:
            clips: a set, or an array (n, time, ...) in the units of the training data.
            operator: "frozen", the run's own, or "batch", fitted on just these sequences, as in the paper.
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
        home = float64_device(weight.device)  # where latents are edited
        z = torch.zeros(len(clips), clips.shape[1], self.settings.model.k, dtype=weight.dtype, device=home)
        batches = chunks(len(clips), chunk_size(weight.device, clips.shape[1:]))
        if weight.is_cuda:
            loader = prefetch(clips, batches, weight.dtype, pinned=True)
        else:  # a reading thread would only take turns with the networks
            loader = (Batch(indices, *clips.read_batch(indices, weight.dtype), 0.0) for indices in batches)
        moved = (clips.move_batch(batch.x, batch.mask, weight) for batch in loader)
        for indices, latents in zip(batches, apply(self.model, "encode", moved), strict=True):
            z[indices[0] : indices[-1] + 1, : latents.shape[1]] = latents
        mask = None if clips.mask is None else torch.from_numpy(clips.mask).to(home)
        z = z if mask is None else torch.where(mask.unsqueeze(-1), z, 0.0)
        choice = self.settings.spectrum
        fitted = self.operator if operator == "frozen" else self._fit_batch_operator(z, mask)
        order = MODE_ORDERS[choice.order]
        named = {} if self.factors is None else {each.name: each.factor for each in self.factors.factors}
        renamed = {} if self.factors is None else self.factors.renamed
        return Decomposition.of(self.model, fitted, clips, z, choice.static, order, mask, named, renamed)

    def _fit_batch_operator(self, z: Tensor, mask: Tensor | None) -> Operator:
        pooled = self.model.pooled
        return fit_operator(z[..., pooled:], mask).prepend_identity(pooled)

    def transform(self, clips: Sequences | NDArray[Any]) -> NDArray[np.float64]:
        """Codes of sequences, (n, 2k): the static and the dynamic part of the latents, averaged over time."""
        parts = self.decompose(clips)
        return torch.cat([parts.code(name) for name in SPECTRAL_PARTS], 1).cpu().numpy()

    def find_factors(self, clips: Sequences | None = None, method: FactorDiscovery | None = None) -> DiscoveryResult:
        """Find factors; `save_factors` keeps them.

        Args:
            clips: where to look; None takes up to DISCOVERY_SEQUENCES of the sequences that were trained on.
            method: see `analysis.discovery`; None is `LabelFree()`.
        """
        if clips is None:
            clips = _draw(self.data("train"), DISCOVERY_SEQUENCES)
        return (method or LabelFree()).find(self.decompose(clips))

    def save_factors(self, result: DiscoveryResult) -> "Run":
        """The run with these factors, which are written to its folder: `swap` and all others know their names.

        A pretrained run is read only; the result is a copy of it, at `folder.path`.
        """
        folder = self.folder.writable_copy()
        save_factors(folder, result, self.model)
        return replace(self, folder=folder, factors=result)

    def rename_factors(self, names: Mapping[str, str]) -> "Run":
        """The run with other names for its factors, {old: new}, in its folder too."""
        return self.save_factors(self.require_factors().rename(names))

    def require_factors(self) -> DiscoveryResult:
        """The factors in the run's folder; an InputError if none were found yet."""
        if self.factors is None:
            again = f"diskoop factors {shlex.quote(self.folder.name)}"
            raise InputError(f"{self.folder.name!r} has no factors yet; {again} finds them")
        return self.factors

    def verdict(self, split: HeldOut | None = None) -> Verdict:
        """What the model has learnt of held-out clips, beside PCA; measured once, then kept in the run's folder.

        Args:
            split: whose clips; None is the validation split, or the test split where that has more than one clip alone.

        Raises:
            InputError: nothing was held out.
        """
        known, key = load_verdicts(self.folder, self.model), split or "held-out"
        if key not in known:
            known[key] = self._judge(split)
            if self.folder.pretrained is None:  # what is measured anew of a pretrained run is no reason to copy it
                with suppress(InputError):  # somebody else's folder may be read only
                    save_verdicts(self.folder, known, self.model)
        return known[key]

    def _judge(self, split: HeldOut | None) -> Verdict:
        everything = open_data(self.settings.data)
        if not everything.is_video:
            everything = replace(everything, units=self.units)
        chosen = split or _held_out(everything)
        clips = _draw(everything.split(chosen), JUDGED_SEQUENCES, JUDGED_ELEMENTS)
        train = _draw(load_split(self.settings.data, "train", everything), len(everything), PCA_ELEMENTS)
        settings = self.settings.for_linear(train.shape[1])
        networks = fit_principal_components(train, settings.model.k)
        model = KoopmanAutoencoder(*networks).to(next(self.model.parameters())).eval()
        operator = fit_frozen_operator(model, train, settings.train.batch_size)
        pca = replace(self, settings=settings, model=model, operator=operator, factors=None)
        windows = f"{counted(len(clips), 'window')} of " if clips.clip_count < len(clips) else ""
        noun = "validation clip" if chosen == "val" else "test clip"
        source = f"{windows}{counted(clips.clip_count, noun)} of {clips.name}"
        return judge(self.decompose(clips), pca.decompose(clips), source)

    def _check_features(self, clips: Sequences) -> None:
        """An InputError unless a signal has the features that were trained on, under their names."""
        mine, given = self.units.features, clips.units.features
        count = len(self.units.scale) if isinstance(self.units.scale, tuple) else clips.shape[-1]
        if clips.shape[-1] != count or (mine and given and mine != given):
            wanted = f"{count} features {', '.join(mine)}".strip()
            raise InputError(f"{self} was trained on {wanted}, got {clips.shape[-1]} {', '.join(given)}".strip())

    @property
    @torch.no_grad()
    def frame_shape(self) -> tuple[int, ...]:
        """The shape of a frame that the model draws."""
        weight = next(self.model.parameters())
        return tuple(self.model.eval().decode(weight.new_zeros(1, 2, self.settings.model.k)).shape[2:])

    def settings_for(self, source: str | Path) -> DataSettings:
        """Settings that read another set or other files as the run's own data were read: video in the model's size."""
        settings = settings_like(self.settings.data, source)
        is_sized = len(self.frame_shape) == 3 and settings.path is not None
        return settings.model_copy(update={"size": self.frame_shape[-1]}) if is_sized else settings

    def data(self, split: SplitName = "test") -> Sequences:
        """One split of the set this run was trained on, read with its settings."""
        return load_split(self.settings.data, split)

    def examples(self) -> Sequences:
        """The example clips in the run's folder, which pretrained runs have; an InputError if there are none."""
        if not self.has_examples:
            raise InputError(f"{self.folder.name!r} has no examples; its data are run.data('test')")
        return load_examples(self.folder, self.units)

    @property
    def has_examples(self) -> bool:
        return self.folder.examples.exists()

    def spectrum(self) -> tuple[Spectrum, Tensor]:
        """The frozen operator's spectrum, and which of its modes are static."""
        choice = self.settings.spectrum
        spectrum = Spectrum.of(self.operator.matrix, MODE_ORDERS[choice.order])
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
        gap, radius = spectrum.gap_and_radius(static)
        return {
            "folder": self.folder.name,
            "static": int(static.sum()),
            "static_gap": float(gap),
            "dynamic_radius": float(radius),
            "rank": int(self.operator.rank),
            "condition": float(self.operator.condition),
            "fitted_on": self.operator.fitted_on,
            "last_epoch": read_metrics(self.folder)[-1],
        }


def _held_out(everything: Sequences) -> HeldOut:
    """The split that a verdict is about: validation before test, but rather one with clips to swap."""
    splits: tuple[HeldOut, ...] = ("val", "test")
    for count in (2, 1):
        for split in splits:
            if everything.split_size(split) >= count:
                return split
    raise InputError(f"no clips of {everything.name} were held out; data.val_fraction=0.1 would hold out a tenth")


def _draw(clips: Sequences, count: int, elements: int | None = None) -> Sequences:
    """`count` of `clips` at most, and at most so many that their frames have `elements`, drawn with a fixed seed."""
    if elements is not None:
        count = min(count, max(2, elements // math.prod(clips.shape[1:])))
    if len(clips) <= count:
        return clips
    return clips.select(np.sort(np.random.Generator(np.random.PCG64(0)).permutation(len(clips))[:count]))


def train(
    data: str | Path | NDArray[Any],
    out: str | Path | None = None,
    /,  # so that `data` can be a section of settings too
    preset: str | Path | None = None,
    reporter: Reporter | None = None,
    **settings: Mapping[str, Any],
) -> Run:
    """Train a model, as `diskoop train` does; `diskoop train --resume OUT` goes on with one that was interrupted.

    Args:
        data: the name of a registered set, the path of your own files, or an array (n, time, channel, height, width)
            or (n, time, feature). An array is written to `OUT.npy`, where the run finds it again.
        out: a folder for the run, which must not exist; None takes a new one under runs/.
        preset: a preset's name or a YAML file; None takes `video`, `sound` or `series` for your own data, by its kind,
            and the defaults for a registered set.
        reporter: where progress goes; None is the terminal.
        settings: sections of settings beside the preset's, such as model={"k": 24}, data={"window": 16}.

    Returns:
        The finished run, on the CPU; its factors are found by `run.find_factors()`.

    Example:
        >>> brief = {"model": {"k": 6, "h": 8}, "spectrum": {"static": 2}, "train": {"epochs": 1}}
        >>> x = torch.randn(50, 16, 4).cumsum(1).numpy()
        >>> run = diskoop.train(x, folder / "run", **brief)
        >>> run.decompose(x[:2]).static.shape
        torch.Size([2, 16, 6])
    """
    for name, section in settings.items():
        if not isinstance(section, Mapping):
            raise InputError(f"expected sections of settings such as model={{'k': 24}}, got {name}={section!r}")
    changes = {name: dict(section) for name, section in settings.items()}
    base = {} if preset is None else read_yaml(preset)
    is_array = not isinstance(data, str | Path)
    title = "array" if is_array else Path(str(data)).resolve().stem
    folder = unused_path(Path("runs"), title) if out is None else Path(out)
    array_file = folder.with_name(f"{folder.name}.npy") if is_array else None
    if array_file is not None:
        if taken := next((path for path in (array_file, folder) if path.exists()), None):
            raise InputError(f"{str(taken)!r} exists already; choose another folder")
        Settings.of(merged(on_data(base, {"path": str(array_file)}), changes))  # a mistake is told before writing
        with atomic_write(array_file) as temporary:
            np.save(temporary, np.asarray(data))
    where = location(array_file or str(data))
    try:
        if preset is None and is_own(where):
            base = read_yaml(preset_for(Settings.of({"data": changes.get("data", {}) | where}).data))
        loop.train(Settings.of(merged(on_data(base, where), changes)), folder, reporter=reporter)
    except (InputError, ResourceError):
        if array_file is not None and not folder.exists():  # nothing was trained on it
            array_file.unlink()
        raise
    return load(folder)


def load(path: str | Path, device: str = "cpu", factors: bool = True) -> Run:
    """The finished run in a folder.

    Args:
        path: the run's folder, or `pretrained:NAME` for a run that comes with the package.
        device: cpu, cuda, cuda:1 or mps.
        factors: whether to read the factors that were found in it.

    Example:
        >>> run = diskoop.load("pretrained:puppets")
        >>> run.decompose(run.examples().select([0, 1])).swap("hair", donor=[1, 0]).decode().dtype
        dtype('uint8')
    """
    folder = RunFolder.of(path)
    folder.require_finished()
    _require_device(device)
    settings = load_settings(folder)
    model, units = load_model(folder, settings)
    operator = load_operator(folder, model, settings.model.k)
    operator = replace(operator, matrix=operator.matrix.to(float64_device(torch.device(device))))
    found = load_factors(folder, model, settings.model.k) if factors else None
    return Run(settings, model.to(device).eval(), operator, units, folder, found)


def _require_device(name: str) -> None:
    available = available_devices()
    if name.split(":")[0] not in available:
        raise InputError(f"expected a device that this machine has ({', '.join(available)}), got {name!r}")


@torch.no_grad()
def load_unfinished(path: str | Path, device: str = "cpu") -> Run:
    """The run in a folder as its last checkpoint has it, while training goes on or after it was interrupted.

    Its operator is fitted to PREVIEWED_SEQUENCES of the held-out sequences at most, or of the training set where there
    are none.

    Args:
        path: the run's folder.
        device: cpu, cuda, cuda:1 or mps.
    """
    folder = RunFolder(Path(path))
    _require_device(device)
    settings = load_settings(folder)
    tensors, _ = read_tensors(folder.checkpoint, "checkpoint")
    everything = open_data(settings.data)
    model = build_model(settings.model, everything.shape[2:])
    weights = {name.removeprefix("model."): t for name, t in tensors.items() if name.startswith("model.")}
    model.to(next(weight.dtype for weight in weights.values() if weight.is_floating_point()))
    load_weights(model, weights, folder.checkpoint)
    split: SplitName = (
        _held_out(everything) if everything.split_size("val") + everything.split_size("test") else "train"
    )
    clips = _draw(load_split(settings.data, split, everything), PREVIEWED_SEQUENCES)
    operator = fit_frozen_operator(model, clips, settings.train.batch_size)
    matrix = operator.matrix.to(float64_device(torch.device(device)))
    source = f"{clips.name}, {len(clips)} {split} sequences, at the last checkpoint"
    operator = replace(operator, matrix=matrix, fitted_on=source)
    return Run(settings, model.to(device).eval(), operator, everything.units, folder)
