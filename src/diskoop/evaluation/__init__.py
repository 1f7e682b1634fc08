"""metrics, the classifiers and baselines they need, and tables of results"""

from diskoop.evaluation import protocols

__all__ = ["protocols"]
