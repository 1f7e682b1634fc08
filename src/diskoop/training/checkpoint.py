"""what resuming needs, in one file: weights, Adam's moments, progress"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from diskoop.data.sequences import Sequences
from diskoop.errors import InputError
from diskoop.run_folder import RunFolder, write_metrics
from diskoop.settings import Settings, upgraded
from diskoop.tensor_files import load_weights, read_record, read_tensors, write_tensors


@dataclass
class State:
    """Progress of training. Random draws are seeded by the step, so no generator state is saved."""

    step: int  # steps since the start
    seconds: float  # spent on this epoch so far
    waited: float  # of those, waiting for data
    sums: dict[str, float]  # of each loss term over the steps of this epoch
    history: list[dict[str, Any]]  # one row per validation, as in metrics.jsonl
    best: dict[str, Any] | None = None  # loss and step of the smallest validation loss, where its weights are kept
    threads: int | None = None  # of the CPU: sums over other numbers of threads differ in their last bits
    processes: int = 1  # that share every batch; likewise


def save_checkpoint(
    folder: RunFolder,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    state: State,
    identity: Mapping[str, Any],
    best_weights: Mapping[str, Tensor] | None = None,
) -> None:
    """Write the checkpoint and the metrics.

    Args:
        folder: the run's.
        model: its weights.
        optimizer: its moments.
        state: progress.
        identity: which run it belongs to.
        best_weights: those of the smallest validation loss, if they are kept.
    """
    moments = optimizer.state_dict()["state"]
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    tensors |= {f"best.{name}": tensor for name, tensor in (best_weights or {}).items()}
    tensors |= {f"adam.{i}.{name}": tensor for i, entry in moments.items() for name, tensor in entry.items()}
    write_tensors(folder.checkpoint, "checkpoint", tensors, {**vars(state), "origin": identity})
    write_metrics(folder, state.history)


def load_checkpoint(
    folder: RunFolder, model: torch.nn.Module, optimizer: torch.optim.Optimizer, identity: Mapping[str, Any]
) -> tuple[State, dict[str, Tensor]]:
    """Load weights and moments into `model` and `optimizer`, and return the state and the best weights so far.

    Raises:
        InputError: the checkpoint is damaged, or of a run with another `identity`.
    """
    tensors, record = read_tensors(folder.checkpoint, "checkpoint")
    saved, current = record.pop("origin"), json.loads(json.dumps(identity))
    saved.setdefault("precision", saved["settings"]["train"]["precision"])  # older checkpoints had no auto
    saved["settings"] = Settings.of(upgraded(saved["settings"])).model_dump()  # current names and defaults
    if _have_similar_data(saved, current):
        saved["data"] = current["data"]
    saved["sketch"] = current["sketch"]
    if saved != current:
        differing = [name for name in current if saved.get(name) != current[name]]
        described = [
            f"{name} ({saved[name]} there, {current[name]} here)"
            for name in differing
            if isinstance(current[name], str)
        ]
        others = [name for name in differing if not isinstance(current[name], str)]
        raise InputError(f"{folder.checkpoint} belongs to another run; what differs: {', '.join(others + described)}")
    load_weights(model, {name[6:]: t for name, t in tensors.items() if name.startswith("model.")}, folder.checkpoint)
    moments: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("adam."):
            _, number, moment = name.split(".")
            moments.setdefault(int(number), {})[moment] = tensor
    # With the memory format of their parameters, so that the arithmetic is bit-equal.
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for index, entry in moments.items():
        for name in entry.keys() & {"exp_avg", "exp_avg_sq"}:
            entry[name] = torch.empty_like(parameters[index], dtype=entry[name].dtype).copy_(entry[name])
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": moments, "param_groups": groups})
    device = parameters[0].device
    return State(**record), {name[5:]: t.to(device) for name, t in tensors.items() if name.startswith("best.")}


def checkpoint_settings(folder: RunFolder) -> Settings:
    """The settings of the training that wrote a run's checkpoint."""
    return Settings.of(upgraded(read_tensors(folder.checkpoint, "checkpoint")[1]["origin"]["settings"]))


def is_finished(folder: RunFolder) -> bool:
    """Whether a run has a model and its operator, and no training has gone on from there since."""
    if not (folder.model.exists() and folder.operator.exists()):
        return False
    if not folder.checkpoint.exists():  # what training would go on from
        return True
    model, checkpoint = read_record(folder.model, "model"), read_record(folder.checkpoint, "checkpoint")
    one, other = (Settings.of(upgraded(each)) for each in (model["settings"], checkpoint["origin"]["settings"]))
    if one != other:
        return False
    return bool(model.get("step", checkpoint["step"]) == checkpoint["step"])  # earlier files do not tell the step


def fingerprint(data: Sequences) -> str:
    """Name, shape and a digest of a few sequences, to notice that a data set has changed."""
    return f"{data.name} {data.shape} {sha256(_sample(data).tobytes()).hexdigest()[:16]}"


def sketch(data: Sequences) -> list[float] | None:
    """Mean and root mean square of a few sequences; None where frames are integers, whose digest tells all.

    Numbers that were computed, spectrograms and series of known systems, differ in their last bits from one processor
    to another, and their digest with them.
    """
    sample = _sample(data)
    if sample.dtype.kind != "f":
        return None
    return [float(value) for x in sample.astype(np.float64) for value in (np.nanmean(x), np.nanmean(x * x) ** 0.5)]


def _sample(data: Sequences) -> NDArray[Any]:
    return data.read(np.linspace(0, len(data) - 1, 8).astype(np.int64))


def _have_similar_data(saved: Mapping[str, Any], current: Mapping[str, Any]) -> bool:
    """Whether two runs have the same data but for the rounding of computed numbers.

    Checkpoints of earlier versions have no sketch; then names and shapes must do.
    """
    names = [[text.rpartition(" ")[0] for text in run["data"]] for run in (saved, current)]
    before = saved.get("sketch") or [None] * len(current["sketch"])
    return names[0] == names[1] and all(
        here is not None and (there is None or np.allclose(there, here, rtol=1e-5, atol=1e-5 * max(map(abs, here))))
        for there, here in zip(before, current["sketch"], strict=True)
    )
