"""the files of a run: settings, weights, frozen operator, metrics; reads every earlier format"""

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from diskoop.data.sequences import Units
from diskoop.errors import InputError
from diskoop.kernels import accelerate
from diskoop.models.autoencoder import KoopmanAutoencoder, build_model
from diskoop.numerics.operator import Operator
from diskoop.settings import Settings, upgraded
from diskoop.storage import write_text
from diskoop.tensor_files import load_weights, read_tensors, weights_checksum, write_tensors


@dataclass(frozen=True)
class RunFolder:
    """The paths of a run's files."""

    path: Path

    @property
    def settings(self) -> Path:
        return self.path / "settings.yaml"

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint.safetensors"

    @property
    def model(self) -> Path:
        return self.path / "model.safetensors"

    @property
    def operator(self) -> Path:
        return self.path / "operator.safetensors"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def factors(self) -> Path:
        return self.path / "factors.json"

    @property
    def verdict(self) -> Path:
        return self.path / "verdict.json"

    @property
    def evaluation(self) -> Path:
        return self.path / "evaluation.json"

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

    def require_finished(self) -> None:
        """Raise an InputError unless the run is trained to the end."""
        if not self.path.is_dir():
            raise InputError(f"no run at {str(self.path)!r}: there is no such folder")
        self.require_settings()
        if not (self.model.exists() and self.operator.exists()):
            raise InputError(
                f"the run at {str(self.path)!r} is not finished; {self.resume_command} goes on, "
                f"{self.end_command} makes do with what there is"
            )


def load_settings(folder: RunFolder) -> Settings:
    folder.require_settings()
    return Settings.load(folder.settings)


def save_model(
    folder: RunFolder, model: torch.nn.Module, settings: Settings, frame: tuple[int, ...], units: Units
) -> None:
    record = {"settings": settings.model_dump(), "frame": frame, "units": vars(units)}
    write_tensors(folder.model, "model", model.state_dict(), record)


def load_model(folder: RunFolder, settings: Settings) -> tuple[KoopmanAutoencoder, Units]:
    """The trained model, and the units of its data."""
    weights, record = read_tensors(folder.model, "model")
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
    tensors = {"matrix": operator.matrix, "rank": operator.rank, "condition": operator.condition}
    record = {
        "sequences": operator.sequences,
        "steps": operator.steps,
        "source": operator.source,
        "model": weights_checksum(model),  # checksum of the model whose latents it was fitted to
    }
    write_tensors(folder.operator, "operator", tensors, record)


def load_operator(folder: RunFolder, model: torch.nn.Module) -> Operator:
    """The frozen operator; an InputError if it was fitted to latents of another model."""
    tensors, record = read_tensors(folder.operator, "operator")
    if record["model"] != weights_checksum(model):
        raise InputError(f"{folder.operator} belongs to another model than {folder.model}")
    return Operator(
        tensors["matrix"], tensors["rank"], tensors["condition"], record["sequences"], record["steps"], record["source"]
    )


def read_metrics(folder: RunFolder) -> list[dict[str, Any]]:
    """One row per epoch."""
    try:
        rows = [json.loads(line) for line in folder.metrics.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {folder.metrics} ({error}); {folder.resume_command} writes it anew") from None
    if not rows:
        raise InputError(f"{folder.metrics} is empty; {folder.resume_command} writes it anew")
    return rows


def write_metrics(folder: RunFolder, history: list[dict[str, Any]]) -> None:
    write_text(folder.metrics, "".join(json.dumps(row) + "\n" for row in history))
