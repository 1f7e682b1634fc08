"""codes -> independent components, their mutual dependence, and groups of dependent ones"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

BINS = 4  # quartiles: coarse on purpose, see `dependence`
# Components of one factor depend on each other by more than the upper bound, those of two factors by less than the
# lower one. A motion that shows hair from other sides stretches its code: the two depend on each other by 0.25 to 0.35.
DEPENDENCE_BOUNDS = (0.3, 0.4)


@dataclass(frozen=True, eq=False)
class Components:
    """Independent coordinates of codes: y = (code - mean) @ to_coordinates, code = y @ from_coordinates + mean.

    Example:
        >>> codes = np.random.default_rng(0).uniform(size=(200, 3)) @ np.array([[1, 2, 0], [0, 1, 0], [1, 0, 3]])
        >>> components = independent_components(codes, np.eye(3), seed=0)
        >>> components.transform(codes).shape
        (200, 3)
        >>> np.allclose(components.inverse_transform(components.transform(codes)), codes)
        True
    """

    to_coordinates: Array  # (k, d)
    from_coordinates: Array  # (d, k), with from_coordinates @ to_coordinates = identity
    mean: Array  # (k,)

    def transform(self, codes: Array) -> Array:
        """Codes (n, k) -> coordinates (n, d), of unit variance on the codes of the fit."""
        return (codes - self.mean) @ self.to_coordinates

    def inverse_transform(self, y: Array) -> Array:
        """Coordinates (n, d) -> codes (n, k)."""
        return y @ self.from_coordinates + self.mean


def principal_directions(codes: Array) -> tuple[Array, Array]:
    """Principal directions of `codes` (n, k) as rows (k, k), by decreasing variance, and the variances (k,)."""
    centred = codes - codes.mean(0)
    variances, directions = np.linalg.eigh(centred.T @ centred / len(codes))
    return directions[:, ::-1].T, variances[::-1].clip(0)


def independent_components(codes: Array, directions: Array, seed: int) -> Components:
    """Independent component analysis (FastICA) inside a subspace.

    Args:
        codes: (n, k).
        directions: orthonormal rows that span the subspace, (d, k).
        seed: of the random start.

    Returns:
        d components.

    Example:
        >>> sources = np.random.default_rng(0).uniform(-1, 1, size=(500, 2))
        >>> codes = sources @ np.array([[2.0, 1.0], [1.0, 1.0]])
        >>> y = independent_components(codes, np.eye(2), seed=0).transform(codes)
        >>> bool((np.abs(np.corrcoef(sources.T, y.T)[:2, 2:]).max(1) > 0.99).all())  # each source is one component
        True
    """
    from sklearn.decomposition import FastICA
    from sklearn.exceptions import ConvergenceWarning

    mean = codes.mean(0)
    scores = (codes - mean) @ directions.T
    if len(directions) < 2:  # nothing to rotate
        unmixing = np.diag(1 / scores.std(0))
    else:
        whitening = _whitening(scores)
        ica = FastICA(whiten=False, max_iter=1000, tol=1e-5, random_state=seed)
        with warnings.catch_warnings():
            # Gaussian directions never converge; what has not converged shows in the stability of the factors.
            warnings.simplefilter("ignore", ConvergenceWarning)
            ica.fit(scores @ whitening.T)
        unmixing = ica.components_ @ whitening
        unmixing /= (scores @ unmixing.T).std(0)[:, None]
    return Components(directions.T @ unmixing.T, np.linalg.inv(unmixing).T @ directions, mean)


def _whitening(x: Array) -> Array:
    """The matrix (d, d) for which x @ whitening.T has unit covariance, for centred `x` (n, d).

    The largest entry of each direction is made positive. scikit-learn's own whitening uses the sign of the first entry,
    which is rounding where columns are uncorrelated, or 0, which loses the direction.
    """
    directions, singular_values, _ = np.linalg.svd(x.T, full_matrices=False)
    largest = np.take_along_axis(directions, np.abs(directions).argmax(0)[None], 0)
    whitening: Array = (directions * np.sign(largest) / singular_values).T * np.sqrt(len(x))
    return whitening


def dependence(y: Array) -> Array:
    """Pairwise dependence of the columns of `y` (n, d), on the scale of a correlation: (d, d) from 0 to 1.

    Linfoot's coefficient sqrt(1 - exp(-2 I)) of the mutual information I between quartiles, less what chance may give.
    Correlation would be 0, because independent components are uncorrelated. Finer bins are too sensitive: a factor may
    stretch another's code a little (hair from the side) without being the same factor.

    Example:
        >>> angle = np.linspace(0, 2 * np.pi, 1000, endpoint=False)
        >>> y = np.stack([np.cos(angle), np.sin(angle)], 1)  # uncorrelated, but on a circle
        >>> bool(dependence(y)[0, 1] > 0.6)
        True
    """
    count, width = y.shape
    y = np.round(y / np.maximum(y.std(0), 1e-300), 9)  # so that values that differ by rounding are equal
    edges = np.quantile(y, np.arange(1, BINS) / BINS, axis=0)  # (bins - 1, d)
    bins = (y > edges[:, None]).sum(0)  # (n, d); equal values share a bin
    member = (bins[..., None] == np.arange(BINS)).reshape(count, width * BINS).astype(np.float64)
    joint = (member.T @ member / count).reshape(width, BINS, width, BINS).swapaxes(1, 2)  # (d, d, bins, bins)
    share = member.mean(0).reshape(width, BINS)
    expected = share[:, None, :, None] * share[None, :, None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        information = np.where(joint > 0, joint * np.log(joint / expected), 0.0).sum((2, 3))
    used = (share > 0).sum(1) - 1
    information -= _chance_bound(np.outer(used, used)) / (2 * count)
    coefficient: Array = np.sqrt(1 - np.exp(-2 * information.clip(0)))
    return coefficient


def _chance_bound(freedom: Array) -> Array:
    """The 99.9th percentile of 2 n I between independent columns: chi-squared, by Wilson and Hilferty."""
    variance = 2 / (9 * np.maximum(freedom, 1))
    bound: Array = freedom * (1 - variance + 3.09 * np.sqrt(variance)) ** 3
    return bound


def block_dependence(blocks: Sequence[Array]) -> Array:
    """The largest dependence between the columns of each two blocks (n, columns): (blocks, blocks)."""
    edges = np.cumsum([0, *(block.shape[1] for block in blocks)])
    between = dependence(np.concatenate(blocks, 1))
    return np.maximum.reduceat(np.maximum.reduceat(between, edges[:-1], axis=0), edges[:-1], axis=1)


def average_linkage(
    similarity: Array, sizes: Sequence[int], bounds: tuple[float, float] = DEPENDENCE_BOUNDS, count: int | None = None
) -> list[list[int]]:
    """Cluster items by average linkage.

    Merging stops in the middle of the widest gap between the merge heights inside `bounds`: what is more similar than
    the upper bound always belongs together, what is less similar than the lower one never does.

    Args:
        similarity: (n, n).
        sizes: weight of each item, its number of columns.
        bounds: of the similarity at which merging stops.
        count: number of groups, instead of `bounds`.

    Returns:
        Lists of items, sorted.

    Example:
        >>> average_linkage(np.array([[1.0, 0.9, 0.1], [0.9, 1.0, 0.2], [0.1, 0.2, 1.0]]), sizes=[1, 1, 1])
        [[0, 1], [2]]
    """
    groups = [[item] for item in range(len(similarity))]
    weight = np.asarray(sizes, float)
    history, heights = [groups], []
    while len(groups) > 1:
        linkage = np.full((len(groups), len(groups)), -np.inf)
        for i, a in enumerate(groups):
            for j, b in enumerate(groups[:i]):
                linkage[i, j] = np.average(similarity[np.ix_(a, b)], weights=np.outer(weight[a], weight[b]))
        second, first = divmod(int(linkage.argmax()), len(groups))
        merged = sorted(groups[first] + groups[second])
        groups = [members for index, members in enumerate(groups) if index not in (first, second)] + [merged]
        history.append(groups)
        heights.append(float(linkage[second, first]))
    merges = len(similarity) - count if count is not None else sum(h >= widest_gap(heights, bounds) for h in heights)
    return sorted(history[merges])


def widest_gap(values: Sequence[float], bounds: tuple[float, float]) -> float:
    """The middle of the widest gap between `values` inside `bounds`."""
    low, high = bounds
    inside = sorted({low, high, *(value for value in values if low < value < high)})
    gaps = [(above - below, (above + below) / 2) for below, above in pairwise(inside)]
    return max(gaps, default=(0.0, low))[1]
