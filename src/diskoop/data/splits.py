"""which sequences train, validate and test: in a fixed order, or by groups that stay together"""

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
