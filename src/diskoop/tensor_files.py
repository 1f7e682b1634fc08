"""tensors and a JSON record in one file with a checksum, written atomically, without pickle"""

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from diskoop.errors import InputError
from diskoop.input_files import parse_json, require_regular
from diskoop.storage import atomic_write

FORMAT = "diskoop 1"  # of the file, not of its record


def write_tensors(path: Path, kind: str, tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> None:
    """Write a safetensors file with a JSON record in its metadata, and a checksum of both.

    Args:
        path: of the file.
        kind: of its content, such as "model"; `read_tensors` checks it.
        tensors: by name.
        record: anything that JSON can represent.

    Example:
        >>> write_tensors(folder / "x.safetensors", "example", {"a": torch.ones(2)}, {"step": 3})
        >>> read_tensors(folder / "x.safetensors", "example")
        ({'a': tensor([1., 1.])}, {'step': 3})
    """
    on_cpu = _to_contiguous_cpu(tensors)
    text = json.dumps(record)
    # A single entry, because safetensors writes several in any order, and equal runs should give equal files.
    header = {"format": f"{FORMAT} {kind}", "record": text, "checksum": checksum(on_cpu, text)}
    size = sum(tensor.nbytes for tensor in on_cpu.values()) + len(text)
    with atomic_write(path, size) as temporary:
        # Its own function for files writes another one and renames it, which would not be the one that is locked.
        temporary.write_bytes(save(on_cpu, metadata={"diskoop": json.dumps(header)}))


def read_tensors(path: Path, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the record of a file by `write_tensors`; an InputError if it is damaged or of another kind."""
    tensors, header = _read(path, kind)
    text = str(header.get("record"))
    if header.get("checksum") != checksum(tensors, text):
        raise InputError(f"{path} is damaged: its content does not match its checksum")
    return tensors, json.loads(text)


def read_record(path: Path, kind: str) -> dict[str, Any]:
    """The record alone, without reading or checking the tensors; an InputError as of `read_tensors`."""
    try:
        record: dict[str, Any] = parse_json(str(_read(path, kind, with_tensors=False)[1].get("record")))
    except ValueError as error:
        raise InputError(f"{path} is damaged: {error}") from None
    return record


def _read(path: Path, kind: str, with_tensors: bool = True) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors, or none, and the header of a file."""
    require_regular(path)
    try:
        with safe_open(path, framework="pt") as file:
            header = parse_json((file.metadata() or {}).get("diskoop", "{}"))
            names = file.keys() if with_tensors else []
            tensors = {name: file.get_tensor(name) for name in names}
    except FileNotFoundError:
        raise InputError(f"{path} is missing") from None
    except (SafetensorError, OSError, ValueError) as error:  # ValueError: a header that is not JSON, or not text
        raise InputError(f"{path} is damaged: {error}") from None
    expected = f"{FORMAT} {kind}"
    if not isinstance(header, dict) or header.get("format") != expected:
        raise InputError(f"{path} is not what it should be: expected the format {expected!r}, got {str(header)[:60]}")
    return tensors, header


def load_weights(model: torch.nn.Module, weights: Mapping[str, Tensor], origin: Path) -> None:
    """Load `weights` of the file `origin` into `model`; an InputError names the first that does not fit."""
    current = model.state_dict()
    for name in [*current, *weights]:
        if name not in weights or name not in current:
            problem = "missing" if name in current else "extra"
            raise InputError(f"{origin} does not fit this model: {name!r} is {problem}")
        if weights[name].shape != current[name].shape:
            expected, got = tuple(current[name].shape), tuple(weights[name].shape)
            raise InputError(f"{origin} does not fit this model: {name!r} has shape {got}, wanted {expected}")
    model.load_state_dict(dict(weights))


def _to_contiguous_cpu(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def weights_checksum(model: torch.nn.Module) -> str:
    """Identifies a model: operators and factors belong to the latents of one model."""
    return checksum(_to_contiguous_cpu(model.state_dict()))


def checksum(tensors: Mapping[str, Tensor], text: str = "") -> str:
    """SHA-256 of text and tensors: names, dtypes, shapes and values."""
    digest = sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
