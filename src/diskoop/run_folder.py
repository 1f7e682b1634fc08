"""the files of a run, own or pretrained: settings, weights, frozen operator, metrics; reads every earlier format"""

import json
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from diskoop.data.sequences import Units
from diskoop.errors import InputError, quoted, suggest
from diskoop.input_files import parse_json, read_text
from diskoop.kernels import accelerate
from diskoop.models.autoencoder import KoopmanAutoencoder, build_model
from diskoop.numerics.operator import Operator
from diskoop.settings import Settings, read_yaml, upgraded
from diskoop.storage import atomic_folder, write_text
from diskoop.tensor_files import load_weights, read_tensors, weights_checksum, write_tensors

PRETRAINED = Path(__file__).parent / "pretrained"  # a folder for each run that comes with the package
PRETRAINED_PREFIX = "pretrained:"  # of their names


def pretrained_names() -> list[str]:
    """Names of the runs that come with the package, without the prefix."""
    return sorted(settings.parent.name for settings in PRETRAINED.glob("[!.]*/settings.yaml"))


@dataclass(frozen=True)
class RunFolder:
    """The paths of a run's files.

    The files of a pretrained run are read in the package, `pretrained`, and nothing is ever written there. Its `path`
    is where `writable_copy` makes a copy of it.
    """

    path: Path
    pretrained: Path | None = None

    @classmethod
    def of(cls, run: str | Path) -> "RunFolder":
        """The folder of a run.

        Args:
            run: the folder, or `pretrained:NAME`: then the copy runs/pretrained-NAME where there is one, or else the
                folder in the package.

        Example:
            >>> RunFolder.of("pretrained:puppets").path.as_posix()
            'runs/pretrained-puppets'
        """
        if not str(run).startswith(PRETRAINED_PREFIX):
            return cls(Path(run))
        name, known = str(run).removeprefix(PRETRAINED_PREFIX), pretrained_names()
        if name not in known:
            listed = ", ".join(f"{PRETRAINED_PREFIX}{each}" for each in known)
            raise InputError(f"unknown pretrained run {name!r} (there are {listed}); {suggest(name, known)}")
        copy = cls(Path("runs") / f"pretrained-{name}")
        return copy if copy.settings.exists() else cls(copy.path, PRETRAINED / name)

    def writable_copy(self) -> "RunFolder":
        """This folder if it may be written to, which a pretrained run's may not: a copy of that is made at `path`."""
        if self.pretrained is None:
            return self
        copy = RunFolder(self.path)
        if not copy.settings.exists():
            with atomic_folder(self.path) as temporary:
                # Without permissions: the package may be read only.
                shutil.copytree(self.pretrained, temporary, copy_function=shutil.copyfile, dirs_exist_ok=True)
                temporary.chmod(0o700)
        return copy

    @property
    def name(self) -> str:
        """What commands call the run: its folder, or `pretrained:NAME`."""
        return str(self.path) if self.pretrained is None else f"{PRETRAINED_PREFIX}{self.pretrained.name}"

    @property
    def _files(self) -> Path:
        return self.pretrained or self.path

    @property
    def settings(self) -> Path:
        return self._files / "settings.yaml"

    @property
    def checkpoint(self) -> Path:
        return self._files / "checkpoint.safetensors"

    @property
    def model(self) -> Path:
        return self._files / "model.safetensors"

    @property
    def operator(self) -> Path:
        return self._files / "operator.safetensors"

    @property
    def metrics(self) -> Path:
        return self._files / "metrics.jsonl"

    @property
    def factors(self) -> Path:
        return self._files / "factors.json"

    @property
    def verdict(self) -> Path:
        return self._files / "verdict.json"

    @property
    def scores(self) -> Path:
        return self._files / "scores.json"

    @property
    def examples(self) -> Path:
        return self._files / "examples.npz"

    @property
    def evaluation(self) -> Path:
        return self._files / "evaluation.json"

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    @property
    def resume_command(self) -> str:
        return f"diskoop train --resume {shlex.quote(str(self.path))}"

    @property
    def end_command(self) -> str:
        return f"diskoop train --end {shlex.quote(str(self.path))}"

    def require_settings(self) -> None:
        """Raise an InputError unless this is the folder of a run; it names runs in subfolders."""
        if not self.settings.exists():
            inside = sorted(str(path.parent) for path in self.path.glob("*/settings.yaml"))
            hint = f"; there is one at {' and at '.join(map(repr, inside[:4]))}" if inside else ""
            raise InputError(f"no run at {str(self.path)!r}: settings.yaml is missing{hint}")

    def require_checkpoint(self) -> None:
        """Raise an InputError if this is a finished run without what resuming needs, as pretrained ones are."""
        if self.model.exists() and not self.checkpoint.exists():
            raise InputError(
                f"{self.name!r} cannot be resumed: checkpoint.safetensors is missing; --from starts a new run from its "
                "weights"
            )

    def require_finished(self) -> None:
        """Raise an InputError unless the run is trained to the end."""
        if not self._files.is_dir():
            raise InputError(f"no run at {str(self.path)!r}: there is no such folder")
        self.require_settings()
        if not (self.model.exists() and self.operator.exists()):
            raise InputError(
                f"the run at {str(self.path)!r} is not finished; {self.resume_command} goes on, "
                f"{self.end_command} makes do with what there is"
            )


def load_settings(folder: RunFolder) -> Settings:
    folder.require_settings()
    values = read_yaml(folder.settings)
    if not values:
        raise InputError(f"{folder.settings} is damaged: expected all settings of the run, got none")
    return Settings.of(values)


def save_model(
    folder: RunFolder, model: torch.nn.Module, settings: Settings, frame: tuple[int, ...], units: Units, step: int
) -> None:
    """Write a model; `step` is how far it was trained."""
    record = {"settings": settings.model_dump(), "frame": frame, "units": vars(units), "step": step}
    write_tensors(folder.model, "model", model.state_dict(), record)


def load_model(folder: RunFolder, settings: Settings) -> tuple[KoopmanAutoencoder, Units]:
    """The trained model, and the units of its data."""
    weights, record = read_tensors(folder.model, "model")
    # Half precision is how pretrained weights are stored, not how they are computed with.
    weights = {name: weight.float() if weight.dtype == torch.float16 else weight for name, weight in weights.items()}
    saved = Settings.of(upgraded(record["settings"]))  # settings that are newer than the run have their defaults
    if saved != settings:
        raise InputError(f"{folder.settings} has changed since {folder.model} was trained with it")
    model = accelerate(build_model(settings.model, record["frame"]))
    model.to(next(weight.dtype for weight in weights.values() if weight.is_floating_point()))
    load_weights(model, weights, folder.model)
    units: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in record["units"].items()
    }
    return model, Units(**units)


def save_operator(folder: RunFolder, operator: Operator, model: torch.nn.Module) -> None:
    """Write the frozen operator (k, k), and which `model` made the latents that it was fitted to."""
    tensors = {"matrix": operator.matrix, "rank": operator.rank, "condition": operator.condition}
    record = {
        "sequences": operator.sequences,
        "steps": operator.steps,
        "source": operator.fitted_on,
        "model": weights_checksum(model),  # checksum of the model whose latents it was fitted to
    }
    write_tensors(folder.operator, "operator", tensors, record)


def load_operator(folder: RunFolder, model: torch.nn.Module, k: int) -> Operator:
    """The frozen operator, (k, k); an InputError if it was fitted to latents of another model or has another size."""
    tensors, record = read_tensors(folder.operator, "operator")
    if record["model"] != weights_checksum(model):
        raise InputError(f"{folder.operator} belongs to another model than {folder.model}")
    if (got := tuple(tensors["matrix"].shape)) != (k, k):
        raise InputError(f"{folder.operator} is damaged: expected an operator of shape {(k, k)}, got {got}")
    return Operator(
        tensors["matrix"], tensors["rank"], tensors["condition"], record["sequences"], record["steps"], record["source"]
    )


def read_metrics(folder: RunFolder) -> list[dict[str, Any]]:
    """One row per epoch."""
    try:
        rows = [parse_json(line) for line in read_text(folder.metrics).splitlines()]
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {folder.metrics} ({error}); {folder.resume_command} writes it anew") from None
    for row in rows:
        if not (isinstance(row, dict) and all(isinstance(row.get(key), int | float) for key in ("step", "seconds"))):
            raise InputError(f"{folder.metrics} holds {quoted(row, 60)}, wanted a row of metrics with step and seconds")
    if not rows:
        raise InputError(f"{folder.metrics} is empty; {folder.resume_command} writes it anew")
    return rows


def write_metrics(folder: RunFolder, history: list[dict[str, Any]]) -> None:
    write_text(folder.metrics, "".join(json.dumps(row) + "\n" for row in history))
