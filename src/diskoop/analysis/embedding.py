"""two-dimensional views of a factor, and how well they cluster"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from diskoop.data.sequences import Sequences
from diskoop.errors import InputError, suggest

FEWEST = 5  # points of which a map says more than a list
PERPLEXITY = 30.0  # how many neighbours a point counts with; fewer where there are few points


def embed(codes: Tensor | NDArray[Any], seed: int = 0) -> NDArray[np.float64]:
    """Codes (n, k) -> points (n, 2) by t-SNE: those that are near stay near."""
    from sklearn.manifold import TSNE

    x = np.asarray(codes.detach().cpu() if isinstance(codes, Tensor) else codes, np.float64)
    if x.ndim != 2 or len(x) < FEWEST:
        raise InputError(f"expected codes (n, k) of {FEWEST} sequences at least, got shape {x.shape}")
    if not np.isfinite(x).all():
        raise InputError("cannot embed codes that hold NaN or infinity")
    if (x == x[0]).all():
        raise InputError(f"cannot embed {len(x)} codes that are all the same")
    x = np.pad(x, ((0, 0), (0, max(0, 2 - x.shape[1]))))  # the first layout has two directions
    perplexity = min(PERPLEXITY, (len(x) - 1) / 3)
    points: NDArray[Any] = TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(x)
    return points.astype(np.float64)


def fixed_selection(clips: Sequences, fixed: Mapping[str, str | int] | Sequence[str]) -> Sequences:
    """The clips that have these values of these labels.

    Values are words or codes. For labels without values they are those that most of the clips share.
    """
    if isinstance(fixed, str) or not fixed:
        raise InputError(f"expected labels to fix, or a mapping from labels to values, got {fixed!r}")
    for label in fixed:
        require_label(clips, label)
    if isinstance(fixed, Mapping):
        wanted = [_code(clips, label, value) for label, value in fixed.items()]
    else:
        rows = np.stack([clips.labels[label] for label in fixed], 1)
        combinations, counts = np.unique(rows, axis=0, return_counts=True)
        wanted = combinations[counts.argmax()].tolist()
    chosen = np.all([clips.labels[label] == code for label, code in zip(fixed, wanted, strict=True)], axis=0)
    if not chosen.any():
        raise InputError(f"none of the {len(clips)} clips of {clips.name} has {fixed}")
    return clips.select(chosen)


def require_label(clips: Sequences, label: str) -> NDArray[np.int64]:
    """The codes (n,) of a label, or an InputError that names the nearest one."""
    if label not in clips.labels:
        known = suggest(label, clips.labels) if clips.labels else "it has none"
        raise InputError(f"unknown label {label!r} of {clips.name}; {known}")
    return clips.labels[label]


@dataclass(frozen=True)
class ClusterScore:
    """How well points fall into clusters, one for each combination of labels; 1 is best everywhere."""

    combinations: int  # how many of them there are
    neighbour: float  # the share of points whose nearest neighbour has the same combination
    rand: float  # adjusted Rand index of as many clusters (Ward's) against the combinations; 0 is chance
    silhouette: float  # from -1 to 1: how much nearer a point's own combination is than the next one

    def __str__(self) -> str:
        return (
            f"{self.combinations} combinations: {self.neighbour:.0%} of the nearest neighbours alike, "
            f"Rand index {self.rand:.2f}, silhouette {self.silhouette:.2f}"
        )


def cluster_score(points: NDArray[Any], *labels: NDArray[Any]) -> ClusterScore:
    """The score of points (n, d) against the combinations of some labels, (n,) codes each."""
    from sklearn.cluster import AgglomerativeClustering
    from sklearn.metrics import adjusted_rand_score, silhouette_score
    from sklearn.neighbors import NearestNeighbors

    if not labels or any(codes.shape != (len(points),) for codes in labels):
        shapes = ", ".join(str(codes.shape) for codes in labels) or "none"
        raise InputError(f"expected labels of shape ({len(points)},), a code for each point, got {shapes}")
    distinct, member = np.unique(np.stack(labels, 1), axis=0, return_inverse=True)
    member, count = member.ravel(), len(distinct)
    if not 2 <= count < len(points):
        raise InputError(f"expected from 2 to {len(points) - 1} combinations among {len(points)} points, got {count}")
    nearest = NearestNeighbors(n_neighbors=1).fit(points).kneighbors(return_distance=False)[:, 0]
    clusters = AgglomerativeClustering(count).fit_predict(points)
    return ClusterScore(
        count,
        float((member == member[nearest]).mean()),
        float(adjusted_rand_score(member, clusters)),
        float(silhouette_score(points, member)),
    )


def _code(clips: Sequences, label: str, value: str | int) -> int:
    if isinstance(value, str):
        words = list(clips.values.get(label, ()))
        if value not in words:
            known = suggest(value, words) if words else "its values have no names, so ask for a code"
            raise InputError(f"unknown {label} {value!r} of {clips.name}; {known}")
        return words.index(value)
    return value
