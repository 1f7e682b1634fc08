"""the protocols by which a run is measured, one module each"""

# Metrics are measured, and their tables shown, in the order in which they are registered.
from diskoop.evaluation.protocols import reconstruction, sampling, swaps, probes, speech  # noqa: I001

__all__ = ["probes", "reconstruction", "sampling", "speech", "swaps"]
