"""metrics, the classifiers and baselines they need, and tables of results"""

# Metrics are measured, and their tables shown, in the order in which they are registered.
from diskoop.evaluation import reconstruction, sampling, swaps, probes, speech  # noqa: I001

__all__ = ["probes", "reconstruction", "sampling", "speech", "swaps"]
