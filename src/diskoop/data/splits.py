"""which sequences train, validate and test: in a fixed order, by groups that stay together, or by a hash of each"""

from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from diskoop.data.sequences import SPLIT_NAMES, Indices
from diskoop.errors import InputError

SplitCodes = NDArray[np.int8]  # (n,) indices into SPLIT_NAMES
TRAIN, VAL, TEST = range(len(SPLIT_NAMES))


def split_in_order(total: int, test_count: int, val_fraction: float) -> SplitCodes:
    """Split codes of `total` sequences: first those to train on, then a fraction of the rest, then `test_count`.

    Example:
        >>> split_in_order(6, test_count=2, val_fraction=0.25).tolist()
        [0, 0, 0, 1, 2, 2]
    """
    val_count = round(val_fraction * (total - test_count))
    return np.repeat(np.arange(3, dtype=np.int8), [total - test_count - val_count, val_count, test_count])


def split_by_hash(
    keys: NDArray[np.uint64],
    val_fraction: float,
    test_fraction: float = 0.1,
    given: SplitCodes | None = None,
    seed: int = 0,
) -> SplitCodes:
    """Split codes that depend on nothing but each sequence's own key and the seed.

    However large a set becomes and whoever reads which part of it, a sequence stays in its split.

    Args:
        keys: what identifies each sequence, (n,), such as its index; equal keys are in one split.
        val_fraction: about the share of those not tested on that validate.
        test_fraction: about the share to test on.
        given: split codes that are known already, (n,); only validation is then drawn, if none of them validates.
        seed: another one draws another split.

    Raises:
        InputError: if no sequence is left to train on.

    Example:
        >>> keys = np.arange(1000, dtype=np.uint64)
        >>> np.bincount(split_by_hash(keys, val_fraction=0.1)).tolist()
        [802, 88, 110]
        >>> bool((split_by_hash(keys[500:], 0.1) == split_by_hash(keys, 0.1)[500:]).all())
        True
    """
    share = (_mix(keys ^ _mix(np.array([seed], np.uint64))) >> np.uint64(11)) * 2.0**-53  # uniform in [0, 1)
    if given is None:
        val_end = test_fraction + val_fraction * (1 - test_fraction)
        split_codes = np.select([share < test_fraction, share < val_end], [TEST, VAL], TRAIN).astype(np.int8)
    else:
        split_codes = given.copy()
        if val_fraction == 0:
            split_codes[split_codes == VAL] = TRAIN
        elif not (given == VAL).any():
            split_codes[(given == TRAIN) & (share < val_fraction)] = VAL
    if not (split_codes == TRAIN).any():
        raise InputError(f"nothing is left to train on: {len(keys)} sequences validate and test; give more of them")
    return split_codes


def text_key(text: str) -> np.uint64:
    """A key of a text for `split_by_hash`.

    Example:
        >>> bool(text_key("anna") == text_key("bert"))
        False
    """
    return np.uint64(int.from_bytes(sha256(text.encode()).digest()[:8], "little"))


def _mix(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64 (Steele, Lea and Flood, 2014): a bijection of 64 bits that leaves no pattern of its input."""
    with np.errstate(over="ignore"):
        keys = keys + np.uint64(0x9E3779B97F4A7C15)
        keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))


def split_groups(
    groups: Indices,
    val_fraction: float,
    test_fraction: float = 0.1,
    given: SplitCodes | None = None,
    labels: Indices | None = None,
) -> SplitCodes:
    """Split codes that keep the sequences of one group (a subject, a clip) in one split, drawn with a fixed seed.

    Args:
        groups: the group of each sequence, (n,).
        val_fraction: share of the groups not tested on that validate; at least one group unless it is 0.
        test_fraction: share of the groups to test on; at least one group unless it is 0.
        given: split codes that are known already, (n,); only validation is then drawn, if none of them validates.
        labels: codes whose proportions the splits should have, (n, label), the same within a group; None draws groups
            whatever their labels.

    Raises:
        InputError: if no sequence is left to train on.

    Example:
        >>> split_groups(np.array([0, 0, 1, 1, 2, 2]), val_fraction=0.3, test_fraction=0.3).tolist()
        [0, 0, 1, 1, 2, 2]
    """
    random = np.random.Generator(np.random.PCG64(0))
    split_codes = np.zeros(len(groups), np.int8) if given is None else given.copy()
    if given is None:
        split_codes[np.isin(groups, _draw_groups(groups, test_fraction, random, labels))] = TEST
    training = split_codes == TRAIN
    if not (split_codes == VAL).any():
        left = None if labels is None else labels[training]
        split_codes[training & np.isin(groups, _draw_groups(groups[training], val_fraction, random, left))] = VAL
    elif val_fraction == 0:
        split_codes[split_codes == VAL] = TRAIN
    if not (split_codes == TRAIN).any():
        val_count, test_count = (int((split_codes == code).sum()) for code in (VAL, TEST))
        raise InputError(
            f"nothing is left to train on: of {len(groups)} sequences in {len(np.unique(groups))} groups {val_count} "
            f"validate and {test_count} test; give more of them, or data.val_fraction=0 or data.test_fraction=0"
        )
    return split_codes


def _draw_groups(
    groups: Indices, fraction: float, random: np.random.Generator, labels: Indices | None = None
) -> Indices:
    names, firsts = np.unique(groups, return_index=True)
    shuffled = random.permutation(len(names))
    count = max(1, round(fraction * len(names))) if fraction else 0
    if labels is not None and labels.shape[1]:
        shuffled = shuffled[draw_stratified(labels[firsts[shuffled]], count)]
    drawn: Indices = names[shuffled[:count]]
    return drawn


def draw_stratified(labels: Indices, count: int) -> Indices:
    """Rows of `labels` that have its values about as often as all rows do, for each label.

    One row after another is taken that is the first among those whose values are most wanted still.

    Args:
        labels: codes, (n, label).
        count: how many rows, at most n.

    Example:
        >>> draw_stratified(np.array([[0], [0], [0], [0], [1], [1]]), count=3).tolist()
        [0, 1, 4]
    """
    kinds, kind_of = np.unique(labels, axis=0, return_inverse=True)  # (kind, label), (n,)
    rows = np.argsort(kind_of.ravel(), kind="stable")  # those of a kind together, in order
    ends = np.cumsum(np.bincount(kind_of.ravel()))
    nexts = np.append(0, ends[:-1])  # (kind,) places in `rows`
    wanted = [count * np.bincount(codes) / len(labels) for codes in labels.T]  # of each label, by code
    drawn = []
    for _ in range(count):
        need = np.sum([lacking[codes] for lacking, codes in zip(wanted, kinds.T, strict=True)], axis=0)
        need[nexts == ends] = -np.inf
        best = np.flatnonzero(need > need.max() - 1e-9)
        kind = best[np.argmin(rows[nexts[best]])]
        drawn.append(int(rows[nexts[kind]]))
        nexts[kind] += 1
        for lacking, code in zip(wanted, kinds[kind], strict=True):
            lacking[code] -= 1
    return np.array(sorted(drawn), np.int64)
