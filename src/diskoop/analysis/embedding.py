"""two-dimensional views of a factor, and how well they cluster"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from diskoop.data.sequences import Sequences
from diskoop.errors import InputError, suggest

MIN_POINTS = 5  # of an embedding
PERPLEXITY = 30.0  # effective number of neighbours of a point; less for few points


def embed(codes: Tensor | NDArray[Any], seed: int = 0) -> NDArray[np.float64]:
    """Codes (n, k) -> points (n, 2) by t-SNE.

    Example:
        >>> embed(np.eye(8)).shape
        (8, 2)
    """
    from sklearn.manifold import TSNE

    x = np.asarray(codes.detach().cpu() if isinstance(codes, Tensor) else codes, np.float64)
    if x.ndim != 2 or len(x) < MIN_POINTS:
        raise InputError(f"expected codes (n, k) of {MIN_POINTS} sequences at least, got shape {x.shape}")
    if not np.isfinite(x).all():
        raise InputError("cannot embed codes that hold NaN or infinity")
    if (x == x[0]).all():
        raise InputError(f"cannot embed {len(x)} codes that are all the same")
    x = np.pad(x, ((0, 0), (0, max(0, 2 - x.shape[1]))))  # the PCA initialisation has two components
    perplexity = min(PERPLEXITY, (len(x) - 1) / 3)
    points: NDArray[Any] = TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(x)
    return points.astype(np.float64)


def select_fixed(clips: Sequences, fixed: Mapping[str, str | int] | Sequence[str]) -> Sequences:
    """The clips with fixed values of some labels.

    Args:
        clips: with the labels.
        fixed: label -> value, by name or code; or labels alone, for their most frequent combination of values.
    """
    if isinstance(fixed, str) or not fixed:
        raise InputError(f"expected labels to fix, or a mapping from labels to values, got {fixed!r}")
    for label in fixed:
        require_label(clips, label)
    if isinstance(fixed, Mapping):
        codes = [_code(clips, label, value) for label, value in fixed.items()]
    else:
        rows = np.stack([clips.labels[label] for label in fixed], 1)
        combinations, counts = np.unique(rows, axis=0, return_counts=True)
        codes = combinations[counts.argmax()].tolist()
    selected = np.all([clips.labels[label] == code for label, code in zip(fixed, codes, strict=True)], axis=0)
    if not selected.any():
        raise InputError(f"none of the {len(clips)} clips of {clips.name} has {fixed}")
    return clips.select(selected)


def require_label(clips: Sequences, label: str) -> NDArray[np.int64]:
    """The codes (n,) of a label; an InputError suggests a similar one if it does not exist."""
    if label not in clips.labels:
        known = suggest(label, clips.labels) if clips.labels else "it has none"
        raise InputError(f"unknown label {label!r} of {clips.name}; {known}")
    return clips.labels[label]


@dataclass(frozen=True)
class ClusterScore:
    """How well points fall into clusters, one for each combination of labels; 1 is best everywhere."""

    combinations: int  # number of combinations
    neighbour: float  # fraction of points whose nearest neighbour has the same combination
    rand: float  # adjusted Rand index of as many clusters (Ward's) against the combinations; 0 is chance
    silhouette: float  # from -1 to 1, the mean silhouette coefficient of the combinations

    def __str__(self) -> str:
        return (
            f"{self.combinations} combinations: {self.neighbour:.0%} of the nearest neighbours alike, "
            f"Rand index {self.rand:.2f}, silhouette {self.silhouette:.2f}"
        )


def cluster_score(points: NDArray[Any], *labels: NDArray[Any]) -> ClusterScore:
    """Score points against the combinations of labels.

    Args:
        points: (n, d).
        labels: codes of each label, (n,).

    Example:
        >>> points = np.array([[0.0, 0.0], [0.1, 0.0], [5.0, 5.0], [5.0, 5.1]])
        >>> cluster_score(points, np.array([0, 0, 1, 1])).neighbour
        1.0
    """
    from sklearn.cluster import AgglomerativeClustering
    from sklearn.metrics import adjusted_rand_score, silhouette_score
    from sklearn.neighbors import NearestNeighbors

    if not labels or any(codes.shape != (len(points),) for codes in labels):
        shapes = ", ".join(str(codes.shape) for codes in labels) or "none"
        raise InputError(f"expected labels of shape ({len(points)},), a code for each point, got {shapes}")
    distinct, combination = np.unique(np.stack(labels, 1), axis=0, return_inverse=True)
    combination, count = combination.ravel(), len(distinct)
    if not 2 <= count < len(points):
        raise InputError(f"expected from 2 to {len(points) - 1} combinations among {len(points)} points, got {count}")
    nearest = NearestNeighbors(n_neighbors=1).fit(points).kneighbors(return_distance=False)[:, 0]
    clusters = AgglomerativeClustering(count).fit_predict(points)
    return ClusterScore(
        count,
        float((combination == combination[nearest]).mean()),
        float(adjusted_rand_score(combination, clusters)),
        float(silhouette_score(points, combination)),
    )


def _code(clips: Sequences, label: str, value: str | int) -> int:
    if isinstance(value, str):
        names = list(clips.values.get(label, ()))
        if value not in names:
            hint = suggest(value, names) if names else "its values have no names, so ask for a code"
            raise InputError(f"unknown {label} {value!r} of {clips.name}; {hint}")
        return names.index(value)
    return value
