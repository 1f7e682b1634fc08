"""formulas that metrics use: accuracy, entropies, error rates; pure functions of arrays

Entropies are in nats, errors in the units of what is compared, everything else is a fraction or a ratio.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from diskoop.errors import InputError

Array = NDArray[Any]
Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]

SUM_TOLERANCE = 1e-4  # of probabilities that should sum to 1: float32 rounds
BLOCK = 1 << 21  # numbers that are held as float64 at a time


# --- predictions


def accuracy(predicted: ArrayLike, true: ArrayLike) -> float:
    """The fraction of `predicted` (n,) that equals `true` (n,).

    Example:
        >>> accuracy([0, 1, 1, 2], [0, 1, 2, 2])
        0.75
    """
    y, truth = np.asarray(predicted), np.asarray(true)
    if y.ndim != 1 or y.shape != truth.shape or not y.size:
        raise InputError(f"expected predicted and true values (n,), got {y.shape} and {truth.shape}")
    return float(np.mean(y == truth))


def probabilities(logits: ArrayLike) -> Floats:
    """Softmax of `logits` (n, values) over the values."""
    x = check_finite(logits, "logits", "(n, values)", 2)
    odds = np.exp(x - x.max(1, keepdims=True))  # the largest is 1: nothing overflows, nothing is divided by 0
    p: Floats = odds / odds.sum(1, keepdims=True)
    return p


def entropies(p: ArrayLike) -> Floats:
    """The entropy (n,) of each row of probabilities (n, values)."""
    p = _check_probabilities(p)
    logs = np.log(p, out=np.zeros_like(p), where=p > 0)  # p log p tends to 0
    nats: Floats = -(p * logs).sum(1)
    return nats


def conditional_entropy(p: ArrayLike) -> float:
    """H(y|x) of p(y|x) (n, values): 0 where every prediction is certain."""
    return float(entropies(p).mean())


def marginal_entropy(p: ArrayLike) -> float:
    """H(y) of p(y|x) (n, values): log(values) where all values are equally frequent."""
    return float(entropies(_check_probabilities(p).mean(0, keepdims=True))[0])


def inception_score(p: ArrayLike) -> float:
    """exp(H(y) - H(y|x)): from 1 to the number of values, where predictions are certain and values equally frequent."""
    return float(np.exp(marginal_entropy(p) - conditional_entropy(p)))


def _check_probabilities(p: ArrayLike) -> Floats:
    checked = check_finite(p, "probabilities", "(n, values)", 2)
    if checked.min() < 0:
        raise InputError(f"expected probabilities from 0 to 1, got {checked.min():.6g}")
    sums = checked.sum(1)
    worst = int(np.abs(sums - 1).argmax())
    if abs(sums[worst] - 1) > SUM_TOLERANCE:
        raise InputError(f"expected probabilities that sum to 1 in each row, got {sums[worst]:.6g} in row {worst}")
    return checked


# --- speaker verification


def cosine_similarities(codes: ArrayLike) -> Floats:
    """(n, n) for codes (n, k)."""
    x = check_finite(codes, "codes", "(n, k)", 2)
    largest = np.abs(x).max(1, keepdims=True)
    if not largest.all():
        raise InputError(f"expected codes that have a direction, got only zeros in row {int(largest.argmin())}")
    x = x / largest  # so that squares neither overflow nor underflow
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    cosines: Floats = np.clip(x @ x.T, -1, 1)  # rounding may exceed 1
    return cosines


def distinct_pairs(codes: ArrayLike, speakers: ArrayLike) -> tuple[Floats, Flags]:
    """The similarity of each of the n(n-1)/2 pairs of codes, and whether both are of the same speaker.

    Args:
        codes: (n, k).
        speakers: (n,), the speaker of each code.

    Returns:
        Scores and flags (pairs,), in the order of `np.triu_indices(n, 1)`.
    """
    speaker, first, second = _pairs(codes, speakers)
    return cosine_similarities(codes)[first, second], speaker[first] == speaker[second]


def _pairs(codes: ArrayLike, speakers: ArrayLike) -> tuple[Indices, Indices, Indices]:
    """The index (n,) of each code's speaker, and the indices (pairs,) of the two codes of each pair."""
    names, given = np.asarray(speakers), np.shape(codes)
    if names.ndim != 1 or names.shape != given[:1]:
        raise InputError(f"expected a speaker for each code, got codes {given} and speakers {names.shape}")
    distinct, speaker, counts = np.unique(names, return_inverse=True, return_counts=True)
    if len(distinct) < 2:
        raise InputError(f"expected codes of two speakers at least, got {len(names)} of {len(distinct)}")
    if counts.max() < 2:
        raise InputError(f"expected two codes of one speaker at least, got {len(names)} codes of as many speakers")
    first, second = np.triu_indices(len(names), 1)
    return speaker, first, second


def equal_error_rate(scores: ArrayLike, same: ArrayLike, weights: ArrayLike | None = None) -> float:
    """The rate at which pairs of different speakers are accepted, where as many of the same speaker are rejected.

    The ROC has a corner for each distinct score, so that ties are accepted together, and is linear in between.

    Args:
        scores: (pairs,); a pair is accepted above a threshold.
        same: (pairs,), whether a pair is of the same speaker.
        weights: (pairs,); a pair of weight 2 counts as two pairs.

    Example:
        >>> equal_error_rate([0.9, 0.8, 0.2, 0.1], [True, True, False, False])
        0.0
    """
    x = check_finite(scores, "scores", "(pairs,)", 1)
    is_same = _check_flags(same, x.shape)
    weight = np.ones_like(x) if weights is None else _check_weights(weights, x.shape)
    if not (weight[is_same].any() and weight[~is_same].any()):
        raise InputError(
            f"expected pairs of both kinds, got {np.count_nonzero(weight[is_same])} of the same speaker and "
            f"{np.count_nonzero(weight[~is_same])} of different ones"
        )
    order, corners = _rank(x)
    return _crossing(is_same[order], weight[order], corners)


def eer_interval(
    codes: ArrayLike, speakers: ArrayLike, generator: np.random.Generator, resamples: int = 200, level: float = 0.95
) -> tuple[float, float]:
    """Confidence interval of the equal error rate of codes (n, k), by a bootstrap over speakers, which pairs share.

    A speaker who is drawn twice counts every own pair twice; a pair of two copies of one code is no pair. Draws in
    which one of the two kinds of pairs is missing have no rate and are drawn again.
    """
    _check_bootstrap(resamples, level)
    rates = _resampled_rates([codes], speakers, generator, resamples)
    return _central_interval(rates[0], level)


def eer_differences(
    codes: ArrayLike, others: ArrayLike, speakers: ArrayLike, generator: np.random.Generator, resamples: int = 1000
) -> Floats:
    """How much the equal error rate of `codes` (n, k) exceeds that of `others` (n, m), in draws of speakers.

    A paired bootstrap: each draw counts for both, so that what makes all codes of a speaker hard to tell cancels.

    Returns:
        (resamples,); its 2.5% and 97.5% quantiles are a 95% interval of the difference.
    """
    own, other = _resampled_rates([codes, others], speakers, generator, resamples)
    difference: Floats = own - other
    return difference


def _resampled_rates(
    codes: Sequence[ArrayLike], speakers: ArrayLike, generator: np.random.Generator, resamples: int
) -> Floats:
    """(len(codes), resamples): equal error rates of each of `codes` (n, k) with the same draws of speakers."""
    speaker, first, second = _pairs(codes[0], speakers)
    one, other = speaker[first], speaker[second]
    same = one == other
    ranked = [_rank(distinct_pairs(each, speakers)[0]) for each in codes]  # once: a draw changes weights only
    count = int(speaker.max()) + 1
    rates: list[list[float]] = []
    while len(rates) < resamples:
        times = np.bincount(generator.integers(count, size=count), minlength=count)
        weight = np.where(same, times[one], times[one] * times[other])
        if weight[same].any() and weight[~same].any():
            rates.append([_crossing(same[order], weight[order], corners) for order, corners in ranked])
    return np.array(rates).T


def _rank(scores: Floats) -> tuple[Indices, Indices]:
    """The order from the highest score to the lowest, and the places in it after which a lower one begins."""
    order = np.argsort(-scores)
    ranked = scores[order]
    return order, np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))


def _crossing(same: Flags, weight: Array, corners: Indices) -> float:
    """The rate at which false accepts equal false rejects, for pairs in the order of `_rank`."""
    right = np.cumsum(np.where(same, weight, 0))
    wrong = np.cumsum(np.where(same, 0, weight))
    accepted = np.append(0, wrong[corners] / wrong[-1])  # false accepts; at first no pair is accepted
    rejected = np.append(1, 1 - right[corners] / right[-1])  # false rejects
    gap = accepted - rejected  # from -1 to 1, never falling
    at = int(np.argmax(gap >= 0))
    fraction = gap[at - 1] / (gap[at - 1] - gap[at])
    return float(accepted[at - 1] + fraction * (accepted[at] - accepted[at - 1]))


def _check_flags(same: ArrayLike, shape: tuple[int, ...]) -> Flags:
    flags = np.asarray(same)
    if flags.shape != shape or not np.isin(flags, (0, 1)).all():
        raise InputError(f"expected for {shape[0]} pairs whether they are of the same speaker, got {flags}")
    return flags.astype(np.bool_)


def _check_weights(weights: ArrayLike, shape: tuple[int, ...]) -> Floats:
    weight = check_finite(weights, "weights", "(pairs,)", 1)
    if weight.shape != shape or weight.min() < 0:
        raise InputError(f"expected {shape[0]} weights that are not negative, got {weight}")
    return weight


# --- sequences


def global_consistency(frame_codes: ArrayLike, lengths: ArrayLike | None = None) -> float:
    """The fraction of frames whose value is the most frequent one of their sequence.

    Args:
        frame_codes: (n, time), a predicted value for each frame.
        lengths: (n,), how many frames of each sequence are real; by default all.

    Example:
        >>> global_consistency([[0, 0, 1, 0], [2, 2, 2, 2]])
        0.875
    """
    codes, real = _check_frame_codes(frame_codes, lengths)
    values, place = np.unique(codes[real], return_inverse=True)
    sequence = np.repeat(np.arange(len(codes)), real.sum(1))
    counts = np.bincount(sequence * len(values) + place, minlength=len(codes) * len(values))
    return float(counts.reshape(len(codes), -1).max(1).sum() / real.sum())


def local_consistency(frame_codes: ArrayLike, lengths: ArrayLike | None = None) -> float:
    """The fraction of frames, from the second on, with the value of the frame before. Arguments as above."""
    codes, real = _check_frame_codes(frame_codes, lengths)
    later = real[:, 1:]
    if not later.any():
        raise InputError(f"expected sequences of two frames at least, got {len(codes)} of one")
    return float((codes[:, 1:] == codes[:, :-1])[later].mean())


def _check_frame_codes(frame_codes: ArrayLike, lengths: ArrayLike | None) -> tuple[Indices, Flags]:
    codes = np.asarray(frame_codes)
    if codes.ndim != 2 or not codes.size or codes.dtype.kind not in "ui":
        raise InputError(f"expected whole numbers (n, time) as frame codes, got {codes.dtype} of shape {codes.shape}")
    real = np.arange(codes.shape[1]) < real_lengths(lengths, *codes.shape[:2])[:, None]
    return codes, real


def diversity(x: ArrayLike | Tensor, real: ArrayLike | Tensor, real_distance: float | None = None) -> float:
    """How far samples lie apart, next to real sequences: 1 is as diverse as those, 0 is a collapse.

    The distance of two sequences is the root mean squared difference; its mean over all pairs is compared.

    Args:
        x: samples, (n, time, ...).
        real: sequences, (m, time, ...), in the same units.
        real_distance: the mean distance of the real ones, where it is known.
    """
    samples, others = _check_sequences(x, "samples"), _check_sequences(real, "real sequences")
    if samples.shape[1:] != others.shape[1:]:
        expected = f"samples (n, {', '.join(map(str, others.shape[1:]))}) as the data are"
        raise InputError(f"expected {expected}, got {tuple(samples.shape)}")
    distance = mean_distance(others, "real sequences") if real_distance is None else real_distance
    if distance == 0:
        raise InputError(f"cannot compare with {len(others)} real sequences that are all the same")
    return mean_distance(samples, "samples") / distance


def mean_distance(x: Array | Tensor, what: str) -> float:
    """The mean over all pairs of the root mean squared difference of sequences (n, time, ...).

    Computed on the device of `x`, with (n, n) numbers and a BLOCK in memory at a time; `what` is for messages.
    """
    if len(x) < 2:
        raise InputError(f"expected two {what} at least, got {len(x)}")
    rows = x.reshape(len(x), -1)
    device = x.device if isinstance(x, Tensor) else torch.device("cpu")
    gram = torch.zeros(len(x), len(x), dtype=torch.float64, device=device)
    width = max(1, BLOCK // len(x))
    for at in range(0, rows.shape[1], width):
        some = rows[:, at : at + width]
        part = some.double() if isinstance(some, Tensor) else torch.from_numpy(some.astype(np.float64))
        part = part - part[0]  # a common offset would cost precision, and equal rows become exactly 0
        gram.addmm_(part, part.T)
    own = gram.diagonal()
    squares = (own.unsqueeze(1) + own - 2 * gram).triu(1).clamp(min=0) / rows.shape[1]
    mean = float(squares.sqrt().sum()) / (len(x) * (len(x) - 1) / 2)  # NaN or infinite if a number was
    if not np.isfinite(mean):
        raise InputError(f"expected finite {what}, got some that are infinite, no numbers or too large to square")
    return mean


def reconstruction_error(x: ArrayLike, y: ArrayLike, lengths: ArrayLike | None = None, scale: ArrayLike = 1.0) -> float:
    """The root mean squared difference of two sets of sequences, in their units or relative to `scale`.

    Args:
        x, y: (n, time, ...).
        lengths: (n,), how many frames of each sequence are real; the others are ignored.
        scale: what differences are divided by: a number, or one for each feature, (feature,).
    """
    first, second = np.asarray(_check_sequences(x, "sequences")), np.asarray(_check_sequences(y, "sequences"))
    if first.shape != second.shape:
        raise InputError(f"expected two sets of sequences of one shape, got {first.shape} and {second.shape}")
    total, numbers = 0.0, 0
    with np.errstate(over="ignore", invalid="ignore"):  # checked below
        # One at a time: sets are large.
        for a, b, length in zip(first, second, real_lengths(lengths, *first.shape[:2]), strict=True):
            difference = (a[:length].astype(np.float64) - b[:length]) / np.asarray(scale)
            total += float(np.square(difference).sum())
            numbers += difference.size
    if not np.isfinite(total):
        raise InputError("expected finite sequences, got some that are infinite, no numbers or too large to square")
    return float(np.sqrt(total / numbers))


# --- repetitions


@dataclass(frozen=True)
class Summary:
    """Repetitions of one measurement; a single one has neither a deviation nor an interval."""

    mean: float
    std: float | None  # of the repetitions
    low: float | None  # confidence interval of the mean
    high: float | None
    count: int


def summarize(values: ArrayLike, generator: np.random.Generator, resamples: int = 1000, level: float = 0.95) -> Summary:
    """Mean and standard deviation of repetitions (n,), and a percentile bootstrap interval of the mean.

    Example:
        >>> summarize([1.0, 2.0, 3.0], np.random.default_rng(0)).mean
        2.0
    """
    _check_bootstrap(resamples, level)
    x = check_finite(np.atleast_1d(np.asarray(values)), "values", "(n,)", 1)
    count = len(x)
    if count == 1:
        return Summary(float(x[0]), None, None, None, 1)
    low, high = _central_interval(x[generator.integers(count, size=(resamples, count))].mean(1), level)
    return Summary(float(x.mean()), float(x.std(ddof=1)), low, high, count)


def _central_interval(values: Floats, level: float) -> tuple[float, float]:
    """The two ends of the central `level` of some values."""
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _check_bootstrap(resamples: int, level: float) -> None:
    if resamples < 1 or not 0 < level < 1:
        raise InputError(f"expected at least 1 resample and a level between 0 and 1, got {resamples} and {level}")


# --- input checks


def check_finite(x: ArrayLike, what: str, shape: str, ndim: int) -> Floats:
    """`x` in float64, or an InputError unless it has `ndim` dimensions and finite numbers."""
    array = np.asarray(x)
    if array.ndim != ndim or not array.size or array.dtype.kind not in "buif":
        raise InputError(f"expected {what} {shape}, got {array.dtype} of shape {array.shape}")
    if not np.isfinite(array).all():
        raise InputError(f"expected finite {what}, got some that are infinite or no numbers")
    return array.astype(np.float64)


def _check_sequences(x: ArrayLike | Tensor, what: str) -> Array | Tensor:
    """Sequences without a copy: a set of them may be large."""
    if isinstance(x, Tensor):
        return x
    array = np.asarray(x)
    if array.ndim < 2 or not array.size or array.dtype.kind not in "buif":
        raise InputError(f"expected {what} (n, time, ...), got {array.dtype} of shape {array.shape}")
    return array


def real_lengths(lengths: ArrayLike | None, count: int, time: int) -> Indices:
    """How many frames of each of `count` sequences are real, checked; by default all `time` of them."""
    real = np.full(count, time) if lengths is None else np.asarray(lengths)
    if real.shape != (count,) or real.dtype.kind not in "ui" or not ((real >= 1) & (real <= time)).all():
        raise InputError(f"expected {count} lengths from 1 to {time}, got {real}")
    return real.astype(np.int64)
