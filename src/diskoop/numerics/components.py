"""codes -> independent components, how much they depend on each other, and groups of those that do"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

BINS = 4  # quartiles: coarse on purpose, see `dependence`
# Columns of one factor depend on each other more than this, those of two factors less. A motion that shows hair from
# other sides stretches its code; the two then depend on each other by 0.25 to 0.35.
CUT = (0.3, 0.4)


@dataclass(frozen=True, eq=False)
class Components:
    """Independent coordinates of some codes: y = (code - mean) @ reading, and y @ writing goes back."""

    reading: Array  # (k, d)
    writing: Array  # (d, k), with writing @ reading = identity
    mean: Array  # (k,)

    def read(self, codes: Array) -> Array:
        """Codes (n, k) -> (n, d) of unit variance on the codes that were fitted."""
        return (codes - self.mean) @ self.reading


def principal_directions(codes: Array) -> tuple[Array, Array]:
    """Directions (k, k) as rows, those of largest variance first, and the variance along each (k,)."""
    centred = codes - codes.mean(0)
    variances, directions = np.linalg.eigh(centred.T @ centred / len(codes))
    return directions[:, ::-1].T, variances[::-1].clip(0)


def independent_components(codes: Array, directions: Array, seed: int) -> Components:
    """As many independent components of `codes` (n, k) as there are orthonormal rows in `directions` (d, k)."""
    from sklearn.decomposition import FastICA
    from sklearn.exceptions import ConvergenceWarning

    mean = codes.mean(0)
    scores = (codes - mean) @ directions.T
    if len(directions) < 2:  # nothing to turn
        unmixing = np.diag(1 / scores.std(0))
    else:
        whitening = _whitening(scores)
        ica = FastICA(whiten=False, max_iter=1000, tol=1e-5, random_state=seed)
        with warnings.catch_warnings():
            # Gaussian directions turn for ever. What is unsettled shows where it matters: in the stability.
            warnings.simplefilter("ignore", ConvergenceWarning)
            ica.fit(scores @ whitening.T)
        unmixing = ica.components_ @ whitening
        unmixing /= (scores @ unmixing.T).std(0)[:, None]
    return Components(directions.T @ unmixing.T, np.linalg.inv(unmixing).T @ directions, mean)


def _whitening(x: Array) -> Array:
    """(d, d): x @ whitening.T is uncorrelated and of variance 1, for centred `x` (n, d).

    Each direction's largest entry is positive. scikit-learn's own whitening goes by the sign of the first, which in
    columns that are uncorrelated to begin with is rounding, another one on another machine, or 0: then the direction
    is lost.
    """
    directions, sizes, _ = np.linalg.svd(x.T, full_matrices=False)
    largest = np.take_along_axis(directions, np.abs(directions).argmax(0)[None], 0)
    whitening: Array = (directions * np.sign(largest) / sizes).T * np.sqrt(len(x))
    return whitening


def dependence(y: Array) -> Array:
    """(d, d) from 0 to 1: what each pair of columns of `y` (n, d) tells of each other, as if it were a correlation.

    It is Linfoot's coefficient, sqrt(1 - exp(-2 I)), of the mutual information I between quartiles, less what chance
    may give. Correlation sees nothing here, as independent components have none. Finer bins see too much: a factor may
    stretch another's code a little (hair seen from the side) without being the same thing; quartiles do not mind.
    """
    count, width = y.shape
    y = np.round(y / np.maximum(y.std(0), 1e-300), 9)  # values that are equal but for rounding are equal
    edges = np.quantile(y, np.arange(1, BINS) / BINS, axis=0)  # (bins - 1, d)
    bins = (y > edges[:, None]).sum(0)  # (n, d); equal values stay together
    member = (bins[..., None] == np.arange(BINS)).reshape(count, width * BINS).astype(np.float64)
    joint = (member.T @ member / count).reshape(width, BINS, width, BINS).swapaxes(1, 2)  # (d, d, bins, bins)
    share = member.mean(0).reshape(width, BINS)
    expected = share[:, None, :, None] * share[None, :, None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        information = np.where(joint > 0, joint * np.log(joint / expected), 0.0).sum((2, 3))
    used = (share > 0).sum(1) - 1
    information -= _chance(np.outer(used, used)) / (2 * count)
    coefficient: Array = np.sqrt(1 - np.exp(-2 * information.clip(0)))
    return coefficient


def _chance(freedom: Array) -> Array:
    """2 n I of independent columns is below this in 999 of 1000 draws: chi-squared, by Wilson and Hilferty."""
    spread = 2 / (9 * np.maximum(freedom, 1))
    bound: Array = freedom * (1 - spread + 3.09 * np.sqrt(spread)) ** 3
    return bound


def block_dependence(blocks: Sequence[Array]) -> Array:
    """(blocks, blocks): the strongest dependence between a column of one (n, columns) and a column of the other."""
    edges = np.cumsum([0, *(block.shape[1] for block in blocks)])
    between = dependence(np.concatenate(blocks, 1))
    return np.maximum.reduceat(np.maximum.reduceat(between, edges[:-1], axis=0), edges[:-1], axis=1)


def group(
    similarity: Array, sizes: Sequence[int], cut: tuple[float, float] = CUT, count: int | None = None
) -> list[list[int]]:
    """Items that are alike, by average linkage: (n, n) -> lists of items; `sizes` weighs items of several columns.

    Joining stops at `count` groups, or else in the middle of the widest gap that the steps leave inside `cut`: what is
    more alike than its upper end always belongs together, what is less alike than its lower end never does.
    """
    groups = [[item] for item in range(len(similarity))]
    weight = np.asarray(sizes, float)
    history, heights = [groups], []
    while len(groups) > 1:
        alike = np.full((len(groups), len(groups)), -np.inf)
        for i, a in enumerate(groups):
            for j, b in enumerate(groups[:i]):
                alike[i, j] = np.average(similarity[np.ix_(a, b)], weights=np.outer(weight[a], weight[b]))
        later, earlier = divmod(int(alike.argmax()), len(groups))
        joined = sorted(groups[earlier] + groups[later])
        groups = [members for place, members in enumerate(groups) if place not in (earlier, later)] + [joined]
        history.append(groups)
        heights.append(float(alike[later, earlier]))
    joins = (
        len(similarity) - count if count is not None else sum(height >= widest_gap(heights, cut) for height in heights)
    )
    return sorted(history[joins])


def widest_gap(heights: Sequence[float], cut: tuple[float, float]) -> float:
    """The middle of the widest gap between `heights` inside `cut`."""
    low, high = cut
    marks = sorted({low, high, *(height for height in heights if low < height < high)})
    gaps = [(above - below, (above + below) / 2) for below, above in pairwise(marks)]
    return max(gaps, default=(0.0, low))[1]
