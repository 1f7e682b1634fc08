"""scores as pure functions of arrays

Entropies are in nats, errors in the units of what is compared, everything else is a share or a ratio.
"""

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

SLACK = 1e-4  # how far probabilities may be from summing to 1: float32 rounds, percentages are another matter
BLOCK = 1 << 21  # numbers that are held as float64 at a time


# --- verdicts ---------------------------------------------------------------------------------------------------------


def accuracy(predicted: ArrayLike, true: ArrayLike) -> float:
    """The share of `predicted` (n,) that is as in `true` (n,)."""
    one, other = np.asarray(predicted), np.asarray(true)
    if one.ndim != 1 or one.shape != other.shape or not one.size:
        raise InputError(f"expected predicted and true values (n,), got {one.shape} and {other.shape}")
    return float(np.mean(one == other))


def probabilities(logits: ArrayLike) -> Floats:
    """Softmax of `logits` (n, values) over the values."""
    x = finite(logits, "logits", "(n, values)", 2)
    odds = np.exp(x - x.max(1, keepdims=True))  # the largest is 1: nothing overflows, nothing is divided by 0
    shares: Floats = odds / odds.sum(1, keepdims=True)
    return shares


def entropies(p: ArrayLike) -> Floats:
    """The entropy (n,) of each row of probabilities (n, values)."""
    shares = _shares(p)
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)  # p log p tends to 0
    nats: Floats = -(shares * logs).sum(1)
    return nats


def conditional_entropy(p: ArrayLike) -> float:
    """H(y|x) of p(y|x) (n, values): 0 where every verdict is certain."""
    return float(entropies(p).mean())


def marginal_entropy(p: ArrayLike) -> float:
    """H(y) of p(y|x) (n, values): log(values) where each value is seen equally often."""
    return float(entropies(_shares(p).mean(0, keepdims=True))[0])


def inception_score(p: ArrayLike) -> float:
    """exp(H(y) - H(y|x)): from 1 to the number of values, where verdicts are certain and values equally frequent."""
    return float(np.exp(marginal_entropy(p) - conditional_entropy(p)))


def _shares(p: ArrayLike) -> Floats:
    shares = finite(p, "probabilities", "(n, values)", 2)
    if shares.min() < 0:
        raise InputError(f"expected probabilities from 0 to 1, got {shares.min():.6g}")
    sums = shares.sum(1)
    worst = int(np.abs(sums - 1).argmax())
    if abs(sums[worst] - 1) > SLACK:
        raise InputError(f"expected probabilities that sum to 1 in each row, got {sums[worst]:.6g} in row {worst}")
    return shares


# --- who speaks -------------------------------------------------------------------------------------------------------


def cosine_similarities(codes: ArrayLike) -> Floats:
    """(n, n) for codes (n, k)."""
    x = finite(codes, "codes", "(n, k)", 2)
    largest = np.abs(x).max(1, keepdims=True)
    if not largest.all():
        raise InputError(f"expected codes that have a direction, got only zeros in row {int(largest.argmin())}")
    x = x / largest  # so that squares neither overflow nor vanish
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    cosines: Floats = np.clip(x @ x.T, -1, 1)  # rounding must not take them further
    return cosines


def distinct_pairs(codes: ArrayLike, who: ArrayLike) -> tuple[Floats, Flags]:
    """The similarity of each of the n(n-1)/2 pairs of codes (n, k), and whether both are of the same speaker.

    `who` (n,) names the speaker of each code. Pairs come in the order of `np.triu_indices(n, 1)`.
    """
    speaker, first, second = _pairs(codes, who)
    return cosine_similarities(codes)[first, second], speaker[first] == speaker[second]


def _pairs(codes: ArrayLike, who: ArrayLike) -> tuple[Indices, Indices, Indices]:
    """A number (n,) for the speaker of each code, and the two codes of each pair."""
    names, given = np.asarray(who), np.shape(codes)
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

    A pair (n,) is accepted from some score on. The ROC has a corner for each distinct score, so that ties are accepted
    together, and is taken as straight in between: a threshold rarely hits the rate, a draw between two of them does.
    A pair of weight 2 counts as two pairs.
    """
    x = finite(scores, "scores", "(pairs,)", 1)
    alike = _flags(same, x.shape)
    weight = np.ones_like(x) if weights is None else _weights(weights, x.shape)
    if not (weight[alike].any() and weight[~alike].any()):
        raise InputError(
            f"expected pairs of both kinds, got {np.count_nonzero(weight[alike])} of the same speaker and "
            f"{np.count_nonzero(weight[~alike])} of different ones"
        )
    order, corners = _ranking(x)
    return _crossing(alike[order], weight[order], corners)


def eer_interval(
    codes: ArrayLike, who: ArrayLike, generator: np.random.Generator, resamples: int = 200, level: float = 0.95
) -> tuple[float, float]:
    """Where the equal error rate of codes (n, k) lies, by a bootstrap over speakers, which the pairs share.

    As many speakers as there are get drawn with replacement. One who is drawn twice brings every pair of their own
    along twice; that their copies sound alike would prove nothing, so a pair of copies is no pair. Draws in which
    one of the two kinds of pairs is missing have no rate and are drawn again.
    """
    _check_bootstrap(resamples, level)
    scores, same = distinct_pairs(codes, who)
    speaker, first, second = _pairs(codes, who)
    order, corners = _ranking(scores)  # once: a draw changes weights only
    one, other, alike = speaker[first][order], speaker[second][order], same[order]
    count = int(speaker.max()) + 1
    rates: list[float] = []
    while len(rates) < resamples:
        times = np.bincount(generator.integers(count, size=count), minlength=count)
        weight = np.where(alike, times[one], times[one] * times[other])
        if weight[alike].any() and weight[~alike].any():
            rates.append(_crossing(alike, weight, corners))
    return _middle(np.array(rates), level)


def _ranking(scores: Floats) -> tuple[Indices, Indices]:
    """The order from the highest score to the lowest, and the places in it after which a lower one begins."""
    order = np.argsort(-scores)
    ranked = scores[order]
    return order, np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))


def _crossing(alike: Flags, weight: Array, corners: Indices) -> float:
    """The rate at which false accepts equal false rejects, for pairs in the order of `_ranking`."""
    right = np.cumsum(np.where(alike, weight, 0))
    wrong = np.cumsum(np.where(alike, 0, weight))
    accepted = np.append(0, wrong[corners] / wrong[-1])  # of the different pairs; nobody is let in at first
    rejected = np.append(1, 1 - right[corners] / right[-1])  # of the same ones
    gap = accepted - rejected  # from -1 to 1, never falling
    at = int(np.argmax(gap >= 0))
    share = gap[at - 1] / (gap[at - 1] - gap[at])
    return float(accepted[at - 1] + share * (accepted[at] - accepted[at - 1]))


def _flags(same: ArrayLike, shape: tuple[int, ...]) -> Flags:
    flags = np.asarray(same)
    if flags.shape != shape or not np.isin(flags, (0, 1)).all():
        raise InputError(f"expected for {shape[0]} pairs whether they are of the same speaker, got {flags}")
    return flags.astype(np.bool_)


def _weights(weights: ArrayLike, shape: tuple[int, ...]) -> Floats:
    weight = finite(weights, "weights", "(pairs,)", 1)
    if weight.shape != shape or weight.min() < 0:
        raise InputError(f"expected {shape[0]} weights that are not negative, got {weight}")
    return weight


# --- sequences --------------------------------------------------------------------------------------------------------


def global_consistency(frame_codes: ArrayLike, lengths: ArrayLike | None = None) -> float:
    """The share of frames that show what most frames of their sequence show.

    `frame_codes` (n, time) are verdicts on single frames; `lengths` (n,) says how many of each sequence are real.
    """
    codes, real = _verdicts(frame_codes, lengths)
    values, place = np.unique(codes[real], return_inverse=True)
    sequence = np.repeat(np.arange(len(codes)), real.sum(1))
    counts = np.bincount(sequence * len(values) + place, minlength=len(codes) * len(values))
    return float(counts.reshape(len(codes), -1).max(1).sum() / real.sum())


def local_consistency(frame_codes: ArrayLike, lengths: ArrayLike | None = None) -> float:
    """The share of frames, from the second on, that show what the frame before shows. Arguments as above."""
    codes, real = _verdicts(frame_codes, lengths)
    later = real[:, 1:]
    if not later.any():
        raise InputError(f"expected sequences of two frames at least, got {len(codes)} of one")
    return float((codes[:, 1:] == codes[:, :-1])[later].mean())


def _verdicts(frame_codes: ArrayLike, lengths: ArrayLike | None) -> tuple[Indices, Flags]:
    codes = np.asarray(frame_codes)
    if codes.ndim != 2 or not codes.size or codes.dtype.kind not in "ui":
        raise InputError(f"expected whole numbers (n, time) as frame codes, got {codes.dtype} of shape {codes.shape}")
    real = np.arange(codes.shape[1]) < real_lengths(lengths, *codes.shape[:2])[:, None]
    return codes, real


def diversity(x: ArrayLike | Tensor, real: ArrayLike | Tensor, apart: float | None = None) -> float:
    """How far samples lie apart, next to real sequences: 1 is as diverse as those, 0 is a collapse.

    Both are (n, time, ...) in the same units, n being its own in each. The distance of two sequences is the root mean
    squared difference; its mean over all pairs is compared. `apart` is that of the real ones, where it is known.
    """
    samples, others = _real_numbers(x, "samples"), _real_numbers(real, "real sequences")
    if samples.shape[1:] != others.shape[1:]:
        wanted = f"samples (n, {_listed(tuple(others.shape[1:]))}) as the data are"
        raise InputError(f"expected {wanted}, got {tuple(samples.shape)}")
    apart = mean_distance(others, "real sequences") if apart is None else apart
    if apart == 0:
        raise InputError(f"cannot compare with {len(others)} real sequences that are all the same")
    return mean_distance(samples, "samples") / apart


def mean_distance(x: Array | Tensor, what: str) -> float:
    """The mean over all pairs of the root mean squared difference; (n, n) numbers and a BLOCK are held at a time.

    Computed where `x` is: sequences that were decoded on a GPU are too many to bring back.
    """
    if len(x) < 2:
        raise InputError(f"expected two {what} at least, got {len(x)}")
    rows = x.reshape(len(x), -1)
    home = x.device if isinstance(x, Tensor) else torch.device("cpu")
    gram = torch.zeros(len(x), len(x), dtype=torch.float64, device=home)
    width = max(1, BLOCK // len(x))
    for at in range(0, rows.shape[1], width):
        some = rows[:, at : at + width]
        part = some.double() if isinstance(some, Tensor) else torch.from_numpy(some.astype(np.float64))
        part = part - part[0]  # what all share would only cost precision, and equal rows become exactly 0
        gram.addmm_(part, part.T)
    own = gram.diagonal()
    squares = (own.unsqueeze(1) + own - 2 * gram).triu(1).clamp(min=0) / rows.shape[1]
    mean = float(squares.sqrt().sum()) / (len(x) * (len(x) - 1) / 2)  # NaN or infinite if a number was
    if not np.isfinite(mean):
        raise InputError(f"expected finite {what}, got some that are infinite, no numbers or too large to square")
    return mean


def reconstruction_error(x: ArrayLike, y: ArrayLike, lengths: ArrayLike | None = None) -> float:
    """The root mean squared difference of two sets of sequences (n, time, ...), in their units.

    `lengths` (n,) says how many frames of each are real; what stands behind them is not looked at.
    """
    one, other = np.asarray(_real_numbers(x, "sequences")), np.asarray(_real_numbers(y, "sequences"))
    if one.shape != other.shape:
        raise InputError(f"expected two sets of sequences of one shape, got {one.shape} and {other.shape}")
    total, numbers = 0.0, 0
    with np.errstate(over="ignore", invalid="ignore"):  # said below
        for a, b, length in zip(
            one, other, real_lengths(lengths, *one.shape[:2]), strict=True
        ):  # one at a time: sets are large
            difference = a[:length].astype(np.float64) - b[:length]
            total += float(np.square(difference).sum())
            numbers += difference.size
    if not np.isfinite(total):
        raise InputError("expected finite sequences, got some that are infinite, no numbers or too large to square")
    return float(np.sqrt(total / numbers))


# --- repetitions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Summary:
    """What repetitions of one measurement say together; one alone says nothing of how far it can be trusted."""

    mean: float
    std: float | None  # of the repetitions
    low: float | None  # where the mean lies
    high: float | None
    count: int


def summarize(values: ArrayLike, generator: np.random.Generator, resamples: int = 1000, level: float = 0.95) -> Summary:
    """The mean of repetitions (n,), their standard deviation, and where the mean lies by a percentile bootstrap."""
    _check_bootstrap(resamples, level)
    x = finite(np.atleast_1d(np.asarray(values)), "values", "(n,)", 1)
    count = len(x)
    if count == 1:
        return Summary(float(x[0]), None, None, None, 1)
    low, high = _middle(x[generator.integers(count, size=(resamples, count))].mean(1), level)
    return Summary(float(x.mean()), float(x.std(ddof=1)), low, high, count)


def _middle(values: Floats, level: float) -> tuple[float, float]:
    """The two ends of the middle `level` of some values."""
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _check_bootstrap(resamples: int, level: float) -> None:
    if resamples < 1 or not 0 < level < 1:
        raise InputError(f"expected at least 1 resample and a level between 0 and 1, got {resamples} and {level}")


# --- what comes in ----------------------------------------------------------------------------------------------------


def finite(x: ArrayLike, what: str, shape: str, ndim: int) -> Floats:
    """`x` in float64, or an InputError that says what was wanted."""
    array = np.asarray(x)
    if array.ndim != ndim or not array.size or array.dtype.kind not in "buif":
        raise InputError(f"expected {what} {shape}, got {array.dtype} of shape {array.shape}")
    if not np.isfinite(array).all():
        raise InputError(f"expected finite {what}, got some that are infinite or no numbers")
    return array.astype(np.float64)


def _real_numbers(x: ArrayLike | Tensor, what: str) -> Array | Tensor:
    """Sequences as they are: a set of them may be large."""
    if isinstance(x, Tensor):
        return x
    array = np.asarray(x)
    if array.ndim < 2 or not array.size or array.dtype.kind not in "buif":
        raise InputError(f"expected {what} (n, time, ...), got {array.dtype} of shape {array.shape}")
    return array


def real_lengths(lengths: ArrayLike | None, count: int, time: int) -> Indices:
    """How many frames of each of `count` sequences are real: all `time` of them, unless it is said."""
    real = np.full(count, time) if lengths is None else np.asarray(lengths)
    if real.shape != (count,) or real.dtype.kind not in "ui" or not ((real >= 1) & (real <= time)).all():
        raise InputError(f"expected {count} lengths from 1 to {time}, got {real}")
    return real.astype(np.int64)


def _listed(shape: tuple[int, ...]) -> str:
    return ", ".join(map(str, shape))
