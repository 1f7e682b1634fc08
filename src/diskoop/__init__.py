"""Takes unlabelled sequences apart into factors you can see and swap."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from diskoop import numerics
    from diskoop.analysis.decomposition import Decomposition
    from diskoop.data import Sequences, load_data, register_data_set
    from diskoop.errors import InputError, ResourceError
    from diskoop.models.autoencoder import KoopmanAutoencoder, register_network
    from diskoop.numerics.factors import Factor
    from diskoop.numerics.spectrum import Spectrum
    from diskoop.run import Run, load, train
    from diskoop.settings import Settings

__all__ = [
    "Decomposition",
    "Factor",
    "InputError",
    "KoopmanAutoencoder",
    "ResourceError",
    "Run",
    "Sequences",
    "Settings",
    "Spectrum",
    "load",
    "load_data",
    "numerics",
    "register_data_set",
    "register_network",
    "train",
]
__version__ = "0.1.0"

# Imported when first asked for: torch takes seconds to load, and `diskoop --help` needs none of it.
_MODULES = {
    "Decomposition": "diskoop.analysis.decomposition",
    "Factor": "diskoop.numerics.factors",
    "InputError": "diskoop.errors",
    "KoopmanAutoencoder": "diskoop.models.autoencoder",
    "ResourceError": "diskoop.errors",
    "Run": "diskoop.run",
    "Sequences": "diskoop.data",
    "Settings": "diskoop.settings",
    "Spectrum": "diskoop.numerics.spectrum",
    "load": "diskoop.run",
    "load_data": "diskoop.data",
    "register_data_set": "diskoop.data",
    "register_network": "diskoop.models.autoencoder",
    "train": "diskoop.run",
}


def __getattr__(name: str) -> Any:
    if name == "numerics":
        return import_module("diskoop.numerics")
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'diskoop' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
