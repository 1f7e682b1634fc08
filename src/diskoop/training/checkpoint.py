"""run folders on disk, and back"""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from diskoop.data.sequences import Units
from diskoop.errors import InputError
from diskoop.models.autoencoder import KoopmanAutoencoder, build_model
from diskoop.numerics.operator import Operator
from diskoop.settings import Settings
from diskoop.storage import atomic_write, write_text

FORMAT = "diskoop 1"


@dataclass(frozen=True)
class RunFolder:
    """Where a run keeps its files."""

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
    def resume_command(self) -> str:
        return f"diskoop train --resume {shlex.quote(str(self.path))}"

    def require_settings(self) -> None:
        """An InputError unless this is a run's folder; where runs lie inside it, it says so."""
        if not self.settings.exists():
            inside = sorted(str(path.parent) for path in self.path.glob("*/settings.yaml"))
            hint = f"; there is one at {' and at '.join(map(repr, inside[:4]))}" if inside else ""
            raise InputError(f"no run at {str(self.path)!r}: settings.yaml is missing{hint}")

    def require_finished(self) -> None:
        """An InputError unless training has ended here."""
        if not self.path.is_dir():
            raise InputError(f"no run at {str(self.path)!r}: there is no such folder")
        self.require_settings()
        if not (self.model.exists() and self.operator.exists()):
            raise InputError(f"the run at {str(self.path)!r} is not finished; {self.resume_command} goes on")


def write_tensors(path: Path, kind: str, tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> None:
    """Tensors and a JSON record in one safetensors file with a checksum over both, written whole."""
    laid_out = _laid_out(tensors)
    text = json.dumps(record)
    # One entry: safetensors writes several in any order, and equal runs should be equal files.
    sealed = {"format": f"{FORMAT} {kind}", "record": text, "checksum": checksum(laid_out, text)}
    with atomic_write(path) as temporary:
        save_file(laid_out, temporary, metadata={"diskoop": json.dumps(sealed)})


def read_tensors(path: Path, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `write_tensors` wrote; an InputError if the file is anything else."""
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {}).get("diskoop", "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    except FileNotFoundError:
        raise InputError(f"{path} is missing") from None
    except (SafetensorError, OSError, ValueError) as error:  # ValueError: a header that is not JSON, or not text
        raise InputError(f"{path} is damaged: {error}") from None
    wanted = f"{FORMAT} {kind}"
    if not isinstance(header, dict) or header.get("format") != wanted:
        raise InputError(f"{path} is not what it should be: expected the format {wanted!r}, got {str(header)[:60]}")
    text = str(header.get("record"))
    if header.get("checksum") != checksum(tensors, text):
        raise InputError(f"{path} is damaged: its content does not match its checksum")
    return tensors, json.loads(text)


def save_model(
    folder: RunFolder, model: torch.nn.Module, settings: Settings, frame: tuple[int, ...], units: Units
) -> None:
    record = {"settings": settings.model_dump(), "frame": frame, "units": vars(units)}
    write_tensors(folder.model, "model", model.state_dict(), record)


def load_model(folder: RunFolder, settings: Settings) -> tuple[KoopmanAutoencoder, Units]:
    """The trained network, and the units it speaks."""
    weights, record = read_tensors(folder.model, "model")
    if Settings.of(record["settings"]) != settings:  # settings that are younger than the run have their defaults
        raise InputError(f"{folder.settings} has changed since {folder.model} was trained with it")
    model = build_model(settings.model, record["frame"])
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
        "model": weights_checksum(model),  # whose latents it moves
    }
    write_tensors(folder.operator, "operator", tensors, record)


def load_operator(folder: RunFolder, model: torch.nn.Module) -> Operator:
    """The frozen operator; an InputError if it was fitted on the latents of another model."""
    tensors, record = read_tensors(folder.operator, "operator")
    if record["model"] != weights_checksum(model):
        raise InputError(f"{folder.operator} belongs to another model than {folder.model}")
    return Operator(
        tensors["matrix"], tensors["rank"], tensors["condition"], record["sequences"], record["steps"], record["source"]
    )


def read_metrics(folder: RunFolder) -> list[dict[str, Any]]:
    """A row an epoch."""
    try:
        rows = [json.loads(line) for line in folder.metrics.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {folder.metrics} ({error}); {folder.resume_command} writes it anew") from None
    if not rows:
        raise InputError(f"{folder.metrics} is empty; {folder.resume_command} writes it anew")
    return rows


def write_metrics(folder: RunFolder, history: list[dict[str, Any]]) -> None:
    write_text(folder.metrics, "".join(json.dumps(row) + "\n" for row in history))


@dataclass
class State:
    """How far training has come. Draws are seeded by the step, so there is no generator to remember."""

    step: int  # steps taken since the start
    seconds: float  # spent on this epoch so far
    waited: float  # of those, for data
    sums: dict[str, float]  # of each loss term over the steps of this epoch
    history: list[dict[str, Any]]  # a row an epoch; what metrics.jsonl holds


def save_checkpoint(
    folder: RunFolder,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    state: State,
    origin: Mapping[str, Any],
) -> None:
    """All that resuming needs, in one file; `origin` says which run it belongs to."""
    moments = optimizer.state_dict()["state"]
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    tensors |= {f"adam.{i}.{name}": tensor for i, entry in moments.items() for name, tensor in entry.items()}
    write_tensors(folder.checkpoint, "checkpoint", tensors, {**vars(state), "origin": origin})
    write_metrics(folder, state.history)


def load_checkpoint(
    folder: RunFolder, model: torch.nn.Module, optimizer: torch.optim.Optimizer, origin: Mapping[str, Any]
) -> State:
    """The state in the folder's checkpoint, with its weights and moments put in place; an error if it is not ours."""
    tensors, record = read_tensors(folder.checkpoint, "checkpoint")
    theirs, ours = record.pop("origin"), json.loads(json.dumps(origin))
    theirs.setdefault("precision", theirs["settings"]["train"]["precision"])  # older ones had no auto
    if theirs != ours:
        differing = [name for name in ours if theirs.get(name) != ours[name]]
        told = [
            f"{name} ({theirs[name]} there, {ours[name]} here)" for name in differing if isinstance(ours[name], str)
        ]
        others = [name for name in differing if not isinstance(ours[name], str)]
        raise InputError(f"{folder.checkpoint} belongs to another run; what differs: {', '.join(others + told)}")
    load_weights(model, {name[6:]: t for name, t in tensors.items() if name.startswith("model.")}, folder.checkpoint)
    moments: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("adam."):
            _, index, moment = name.split(".")
            moments.setdefault(int(index), {})[moment] = tensor
    # Laid out in memory like their parameters, so that the arithmetic is the same to the last bit.
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for place, entry in moments.items():
        for name in entry.keys() & {"exp_avg", "exp_avg_sq"}:
            entry[name] = torch.empty_like(parameters[place], dtype=entry[name].dtype).copy_(entry[name])
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": moments, "param_groups": groups})
    state = State(**record)
    write_metrics(folder, state.history)  # a crash may have come between the two files
    return state


def load_weights(model: torch.nn.Module, weights: Mapping[str, Tensor], origin: Path) -> None:
    """`weights` into `model`, or one sentence about the first that does not fit."""
    own = model.state_dict()
    for name in [*own, *weights]:
        if name not in weights or name not in own:
            raise InputError(f"{origin} does not fit this model: {name!r} is {'missing' if name in own else 'extra'}")
        if weights[name].shape != own[name].shape:
            ours, theirs = tuple(own[name].shape), tuple(weights[name].shape)
            raise InputError(f"{origin} does not fit this model: {name!r} has shape {theirs}, wanted {ours}")
    model.load_state_dict(dict(weights))


def load_settings(folder: RunFolder) -> Settings:
    folder.require_settings()
    return Settings.load(folder.settings)


def _laid_out(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """As they lie in a file: on the CPU, without gaps."""
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def weights_checksum(model: torch.nn.Module) -> str:
    """Which network this is; what acts on its latents belongs to it alone."""
    return checksum(_laid_out(model.state_dict()))


def checksum(tensors: Mapping[str, Tensor], text: str = "") -> str:
    """A fingerprint of tensors and text: names, types, shapes and every bit."""
    digest = sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
