"""Takes unlabelled sequences apart into factors you can see and swap."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from diskoop import numerics
    from diskoop.data import Sequences, load_data
    from diskoop.errors import InputError
    from diskoop.run import Run, load, train
    from diskoop.settings import Settings

__all__ = ["InputError", "Run", "Sequences", "Settings", "load", "load_data", "numerics", "train"]
__version__ = "0.1.0"

# Imported when first asked for: torch takes seconds to load, and `diskoop --help` needs none of it.
_HOMES = {
    "InputError": "diskoop.errors",
    "Run": "diskoop.run",
    "Sequences": "diskoop.data",
    "Settings": "diskoop.settings",
    "load": "diskoop.run",
    "load_data": "diskoop.data",
    "train": "diskoop.run",
}


def __getattr__(name: str) -> Any:
    if name == "numerics":
        return import_module("diskoop.numerics")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'diskoop' has no attribute {name!r}")
