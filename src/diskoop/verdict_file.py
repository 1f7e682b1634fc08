"""verdict.json: verdicts on a run, so that they are measured once"""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields

import torch
from pydantic import TypeAdapter

from diskoop.analysis.verdict import Verdict
from diskoop.input_files import parse_json, read_text
from diskoop.run_folder import RunFolder
from diskoop.storage import write_text
from diskoop.tensor_files import weights_checksum

# A file holds what was measured, and what counts as poor is decided anew whenever it is read: a change of that rule
# holds for earlier verdicts too. Raise the number where the rule needs what earlier files do not have, or where
# something is measured in another way; such verdicts are then measured again.
FORMAT = "diskoop verdict 4"
_FIELDS = {field.name for field in fields(Verdict)}
_VERDICT = TypeAdapter(Verdict)


def save_verdicts(folder: RunFolder, verdicts: Mapping[str, Verdict], model: torch.nn.Module) -> None:
    """Write `verdict.json` atomically: the split -> the verdict on `model`."""
    entries = {split: asdict(verdict) for split, verdict in verdicts.items()}
    page = {"format": FORMAT, "model": weights_checksum(model), "verdicts": entries}
    write_text(folder.verdict, json.dumps(page) + "\n")


def load_verdicts(folder: RunFolder, model: torch.nn.Module) -> dict[str, Verdict]:
    """Read `verdict.json`; none if it is missing, damaged, incomplete, of another format or about another model."""
    try:
        page = parse_json(read_text(folder.verdict))
        if (page["format"], page["model"]) != (FORMAT, weights_checksum(model)):
            return {}
        if any(entry.keys() != _FIELDS for entry in page["verdicts"].values()):
            return {}
        return {split: _VERDICT.validate_python(asdict(Verdict(**entry))) for split, entry in page["verdicts"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
