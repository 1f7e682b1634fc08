"""verdict.json: verdicts on a run, so that they are measured once"""

import json
from collections.abc import Mapping
from dataclasses import asdict

import torch
from pydantic import TypeAdapter

from diskoop.analysis.verdict import Verdict
from diskoop.input_files import parse_json, read_text
from diskoop.run_folder import RunFolder
from diskoop.storage import write_text
from diskoop.tensor_files import weights_checksum

FORMAT = "diskoop verdict 2"  # raise it with every change to how a verdict is measured
_VERDICT = TypeAdapter(Verdict)


def save_verdicts(folder: RunFolder, verdicts: Mapping[str, Verdict], model: torch.nn.Module) -> None:
    """Write `verdict.json` atomically: the split -> the verdict on `model`."""
    entries = {split: asdict(verdict) for split, verdict in verdicts.items()}
    page = {"format": FORMAT, "model": weights_checksum(model), "verdicts": entries}
    write_text(folder.verdict, json.dumps(page) + "\n")


def load_verdicts(folder: RunFolder, model: torch.nn.Module) -> dict[str, Verdict]:
    """Read `verdict.json`; none if it is missing, damaged, of another format or about another model."""
    try:
        page = parse_json(read_text(folder.verdict))
        if (page["format"], page["model"]) != (FORMAT, weights_checksum(model)):
            return {}
        return {split: _VERDICT.validate_python(asdict(Verdict(**entry))) for split, entry in page["verdicts"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
