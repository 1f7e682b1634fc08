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
    groups: Indices, val_fraction: float, test_fraction: float = 0.1, given: SplitCodes | None = None
) -> SplitCodes:
    """Split codes that keep the sequences of one group (a subject, a clip) in one split, drawn with a fixed seed.

    Args:
        groups: the group of each sequence, (n,).
        val_fraction: share of the groups not tested on that validate; at least one group unless it is 0.
        test_fraction: share of the groups to test on; at least one group unless it is 0.
        given: split codes that are known already, (n,); only validation is then drawn, if none of them validates.

    Raises:
        InputError: if no sequence is left to train on.

    Example:
        >>> split_groups(np.array([0, 0, 1, 1, 2, 2]), val_fraction=0.3, test_fraction=0.3).tolist()
        [0, 0, 1, 1, 2, 2]
    """
    random = np.random.Generator(np.random.PCG64(0))
    split_codes = np.zeros(len(groups), np.int8) if given is None else given.copy()
    if given is None:
        split_codes[np.isin(groups, _draw_groups(groups, test_fraction, random))] = TEST
    training = split_codes == TRAIN
    if not (split_codes == VAL).any():
        split_codes[training & np.isin(groups, _draw_groups(groups[training], val_fraction, random))] = VAL
    elif val_fraction == 0:
        split_codes[split_codes == VAL] = TRAIN
    if not (split_codes == TRAIN).any():
        val_count, test_count = (int((split_codes == code).sum()) for code in (VAL, TEST))
        raise InputError(
            f"nothing is left to train on: of {len(groups)} sequences in {len(np.unique(groups))} groups {val_count} "
            f"validate and {test_count} test; give more of them, or data.val_fraction=0 or data.test_fraction=0"
        )
    return split_codes


def _draw_groups(groups: Indices, fraction: float, random: np.random.Generator) -> Indices:
    shuffled: Indices = random.permutation(np.unique(groups))
    return shuffled[: max(1, round(fraction * len(shuffled))) if fraction else 0]
