"""scores.json: how well a run's factors match labels, with the model and the factors that were scored"""

import json
from collections.abc import Mapping
from typing import Any

import torch

from diskoop.analysis.discovery.results import DiscoveryResult
from diskoop.input_files import parse_json, read_text
from diskoop.run_folder import RunFolder
from diskoop.storage import write_text
from diskoop.tensor_files import weights_checksum


def save_scores(folder: RunFolder, scores: Mapping[str, Any], model: torch.nn.Module, factors: DiscoveryResult) -> None:
    """Write `scores.json` atomically: scores, a JSON object, of these `factors` of `model`."""
    write_text(folder.scores, json.dumps({**_owner(model, factors), **scores}, indent=1) + "\n")


def load_scores(folder: RunFolder, model: torch.nn.Module, factors: DiscoveryResult) -> dict[str, Any] | None:
    """Read `scores.json`; None if it is missing, damaged, or about other factors or another model."""
    try:
        stored: dict[str, Any] = parse_json(read_text(folder.scores))
        owner = _owner(model, factors)
        return stored if {name: stored[name] for name in owner} == owner else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _owner(model: torch.nn.Module, factors: DiscoveryResult) -> dict[str, str]:
    return {"model": weights_checksum(model), "factors": factors.checksum}
